/*
 * Shapes from a Hugging Face config.json, plain or inside a preset
 * ({"schema": "spectune.model/1", "name", "source", "drafter", "weights",
 * "draft_layer", "config"}).
 *
 * Multimodal files keep the language model in text_config. Fields have
 * different names in different families: a row of `fields` lists them in the
 * order in which they are tried.
 */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "target.h"

typedef struct field_row {
    const char *names; /* separated by blanks */
    size_t offset;
    bool required;
} field_row;

static const field_row fields[] = {
    {"num_hidden_layers n_layer", offsetof(spt_target, layers), true},
    {"hidden_size n_embd", offsetof(spt_target, hidden), true},
    {"intermediate_size n_inner moe_intermediate_size",
     offsetof(spt_target, ffn), true},
    {"vocab_size", offsetof(spt_target, vocab), true},
    {"num_attention_heads n_head", offsetof(spt_target, q_heads), true},
    {"num_key_value_heads", offsetof(spt_target, kv_heads), false},
    {"head_dim", offsetof(spt_target, head_dim), false},
    {"num_experts num_local_experts n_routed_experts",
     offsetof(spt_target, experts), false},
    {"num_experts_per_tok num_experts_per_token",
     offsetof(spt_target, experts_per_token), false},
    {"moe_intermediate_size", offsetof(spt_target, expert_ffn), false},
    {"shared_expert_intermediate_size", offsetof(spt_target, shared_ffn),
     false},
    {"sliding_window", offsetof(spt_target, window), false},
    {"mtp_num_hidden_layers num_nextn_predict_layers",
     offsetof(spt_target, mtp_layers), false},
    {"linear_num_key_heads", offsetof(spt_target, linear_k_heads), false},
    {"linear_num_value_heads", offsetof(spt_target, linear_v_heads), false},
    {"linear_key_head_dim", offsetof(spt_target, linear_k_dim), false},
    {"linear_value_head_dim", offsetof(spt_target, linear_v_dim), false},
    {"linear_conv_kernel_dim", offsetof(spt_target, linear_conv), false},
    {"kv_lora_rank", offsetof(spt_target, kv_rank), false},
    {"q_lora_rank", offsetof(spt_target, q_rank), false},
    {"qk_nope_head_dim", offsetof(spt_target, nope_dim), false},
    {"qk_rope_head_dim", offsetof(spt_target, rope_dim), false},
    {"v_head_dim", offsetof(spt_target, value_dim), false},
};

/* Without heads there is no attention; other counts may be zero. */
static int64_t least_of(const field_row *row)
{
    return row->offset == offsetof(spt_target, q_heads) ||
           row->offset == offsetof(spt_target, kv_heads) ||
           row->offset == offsetof(spt_target, head_dim);
}

static spt_status read_field(const cJSON *config, const char *where,
                             const field_row *row, spt_target *target,
                             spt_error *err)
{
    char names[96];
    snprintf(names, sizeof names, "%s", row->names);
    char *rest = names, *first = NULL;
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        if (!first)
            first = name;
        if (spt_json_has(config, name))
            return spt_json_int(
                config, where, name, least_of(row), (int64_t)1 << 31,
                (int64_t *)(void *)((char *)target + row->offset), err);
    }
    if (!row->required)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT,
                    "%s: %s is missing, expected a language model's config",
                    where, first);
}

static bool flag(const cJSON *config, const char *name, bool otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

/* Layers by kind of attention: layer_types, else the window's fields. */
static spt_status read_layers(const cJSON *config, const char *where,
                              spt_target *t, spt_error *err)
{
    const cJSON *types = NULL;
    if (spt_json_has(config, "layer_types")) {
        SPT_TRY(spt_json_array(config, where, "layer_types", &types, err));
        if (cJSON_GetArraySize(types) != (int)t->layers)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: layer_types has %d entries, expected %lld",
                            where, cJSON_GetArraySize(types),
                            (long long)t->layers);
        const cJSON *type;
        cJSON_ArrayForEach(type, types)
        {
            const char *text = cJSON_GetStringValue(type);
            if (text && strcmp(text, "full_attention") == 0)
                t->full_layers++;
            else if (text && strcmp(text, "sliding_attention") == 0)
                t->window_layers++;
            else if (text && strcmp(text, "linear_attention") == 0)
                t->linear_layers++;
            else
                return spt_fail(err, SPT_E_UNSUPPORTED,
                                "%s: layer_types: '%.40s' is no kind of "
                                "attention that the step model knows",
                                where, text ? text : "?");
        }
        return SPT_OK;
    }
    if (spt_json_has(config, "full_attention_interval")) {
        int64_t interval;
        SPT_TRY(spt_json_int(config, where, "full_attention_interval", 1,
                             t->layers, &interval, err));
        t->full_layers = t->layers / interval;
        t->linear_layers = t->layers - t->full_layers;
        return SPT_OK;
    }
    bool windowed = t->window > 0 && flag(config, "use_sliding_window", true);
    *(windowed ? &t->window_layers : &t->full_layers) = t->layers;
    return SPT_OK;
}

static spt_status check_kind(const cJSON *config, const char *where,
                             spt_error *err)
{
    if (spt_json_has(config, "state_size") ||
        spt_json_has(config, "is_encoder_decoder"))
        if (flag(config, "is_encoder_decoder", true))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: no decoder-only attention model", where);
    return SPT_OK;
}

static spt_status read_experts(const cJSON *config, const char *where,
                               spt_target *t, spt_error *err)
{
    if (!t->experts)
        return SPT_OK;
    if (!t->experts_per_token)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: experts without num_experts_per_tok", where);
    if (!t->expert_ffn)
        t->expert_ffn = t->ffn;
    else if (!t->draft.ffn && spt_json_has(config, "intermediate_size"))
        t->draft.ffn = t->ffn; /* of dense layers, whether it has any or not */
    int64_t dense = 0;
    if (spt_json_has(config, "first_k_dense_replace"))
        SPT_TRY(spt_json_int(config, where, "first_k_dense_replace", 0,
                             t->layers, &dense, err));
    t->moe_layers = t->layers - dense;
    if (!dense)
        t->ffn = 0; /* no layer has it */
    if (spt_json_has(config, "n_shared_experts")) {
        int64_t shared = 0;
        SPT_TRY(spt_json_int(config, where, "n_shared_experts", 0, 64, &shared,
                             err));
        t->shared_ffn = shared * t->expert_ffn;
    }
    return SPT_OK;
}

static spt_status read_config(const cJSON *config, const cJSON *outer,
                              const char *where, spt_target *t, spt_error *err)
{
    SPT_TRY(check_kind(config, where, err));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        SPT_TRY(read_field(config, where, &fields[i], t, err));
    if (!t->kv_heads)
        t->kv_heads = t->q_heads;
    if (t->kv_rank) {
        t->kv_heads = 1;
        t->head_dim = t->kv_rank + t->rope_dim;
    }
    if (!t->head_dim && t->q_heads)
        t->head_dim = t->hidden / t->q_heads;
    t->tied_head = flag(config, "tie_word_embeddings",
                        flag(outer, "tie_word_embeddings", false));
    t->output_gate = flag(config, "attn_output_gate", false);
    SPT_TRY(read_layers(config, where, t, err));
    SPT_TRY(read_experts(config, where, t, err));
    if (!t->weights[0])
        SPT_TRY(spt_target_set_weights(t, "bf16", err));
    return spt_target_finish(t, err);
}

/* "draft_layer": what trained drafters are made of, in a config's words. */
static spt_status read_draft_layer(const cJSON *root, const char *where,
                                   spt_draft_layer *layer, spt_error *err)
{
    const struct {
        const char *name;
        int64_t *value;
    } counts[] = {{"intermediate_size", &layer->ffn},
                  {"num_attention_heads", &layer->q_heads},
                  {"num_key_value_heads", &layer->kv_heads},
                  {"head_dim", &layer->head_dim}};
    const cJSON *object;
    const char *source;
    SPT_TRY(spt_json_object(root, where, "draft_layer", &object, err));
    SPT_TRY(spt_json_only(object, where,
                          "source intermediate_size num_attention_heads "
                          "num_key_value_heads head_dim",
                          err));
    SPT_TRY(spt_json_text(object, where, "source", &source, err));
    snprintf(layer->source, sizeof layer->source, "%s", source);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (i == 0 || spt_json_has(object, counts[i].name))
            SPT_TRY(spt_json_int(object, where, counts[i].name, 1, 1 << 22,
                                 counts[i].value, err));
    return SPT_OK;
}

/* A preset wraps the config; its name and source are the model's. */
static spt_status open_preset(const cJSON **config, const char *where,
                              spt_target *t, spt_error *err)
{
    const char *text;
    const cJSON *root = *config;
    SPT_TRY(spt_json_text(root, where, "schema", &text, err));
    if (strcmp(text, "spectune.model/1") != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: schema '%.40s', expected spectune.model/1", where,
                        text);
    SPT_TRY(spt_json_only(
        root, where, "schema name source drafter weights draft_layer config",
        err));
    if (spt_json_has(root, "draft_layer"))
        SPT_TRY(read_draft_layer(root, where, &t->draft, err));
    SPT_TRY(spt_json_text(root, where, "name", &text, err));
    snprintf(t->name, sizeof t->name, "%s", text);
    SPT_TRY(spt_json_text(root, where, "source", &text, err));
    snprintf(t->source, sizeof t->source, "%s", text);
    if (spt_json_has(root, "drafter")) {
        SPT_TRY(spt_json_text(root, where, "drafter", &text, err));
        snprintf(t->drafter, sizeof t->drafter, "%s", text);
    }
    if (spt_json_has(root, "weights")) {
        SPT_TRY(spt_json_text(root, where, "weights", &text, err));
        SPT_TRY(spt_target_set_weights(t, text, err));
    }
    return spt_json_object(root, where, "config", config, err);
}

spt_status spt_target_config(const char *text, size_t size, const char *name,
                             spt_target *target, spt_error *err)
{
    cJSON *root = NULL;
    spt_target t = *target;
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    const cJSON *config = root;
    spt_status status = SPT_OK;
    if (!cJSON_IsObject(root))
        status =
            spt_fail(err, SPT_E_FORMAT, "%s: expected a JSON object", name);
    snprintf(t.source, sizeof t.source, "%s", name);
    if (status == SPT_OK && spt_json_has(root, "schema"))
        status = open_preset(&config, name, &t, err);
    const cJSON *outer = config;
    if (status == SPT_OK && spt_json_has(config, "text_config"))
        status = spt_json_object(config, name, "text_config", &config, err);
    if (status == SPT_OK)
        status = read_config(config, outer, name, &t, err);
    cJSON_Delete(root);
    if (status == SPT_OK)
        *target = t;
    return status;
}
