/* Config of a Hugging Face folder: config.json of transformers 4 and 5. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model_int.h"

static spt_status read_counts(const cJSON *config, const char *where,
                              spt_model_config *c, spt_error *err)
{
    const struct {
        const char *name;
        int *out;
        bool needed;
    } rows[] = {
        {"num_hidden_layers", &c->layers, true},
        {"max_position_embeddings", &c->context, true},
        {"hidden_size", &c->hidden, true},
        {"intermediate_size", &c->ffn, true},
        {"num_attention_heads", &c->q_heads, true},
        {"vocab_size", &c->vocab, true},
        {"num_key_value_heads", &c->kv_heads, false},
        {"head_dim", &c->head_dim, false},
        {"sliding_window", &c->window, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value = 0;
        if (rows[i].needed || spt_json_has(config, rows[i].name))
            SPT_TRY(spt_json_int(config, where, rows[i].name, 0, 1 << 30,
                                 &value, err));
        *rows[i].out = (int)value;
    }
    return SPT_OK;
}

/* Numbers that keep their default when the field is missing or null. */
static spt_status optional(const cJSON *object, const char *where,
                           const char *field, double *out, spt_error *err)
{
    return spt_json_has(object, field)
               ? spt_json_number(object, where, field, -1e15, 1e15, out, err)
               : SPT_OK;
}

static bool flag(const cJSON *config, const char *name, bool otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

static const char *text_of(const cJSON *object, const char *field,
                           const char *otherwise)
{
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, field));
    return text ? text : otherwise;
}

static spt_status read_yarn(const cJSON *scaling, const char *where,
                            const spt_model_config *c, spt_rope *r,
                            spt_error *err)
{
    double total = 0;
    r->scaling = SPT_ROPE_YARN;
    SPT_TRY(optional(scaling, where, "beta_fast", &r->beta_fast, err));
    SPT_TRY(optional(scaling, where, "beta_slow", &r->beta_slow, err));
    SPT_TRY(optional(scaling, where, "attention_factor", &total, err));
    if (spt_json_has(scaling, "mscale") ||
        spt_json_has(scaling, "mscale_all_dim") ||
        !flag(scaling, "truncate", true))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: yarn with mscale, or without truncate, is not "
                        "supported",
                        where);
    if (!spt_json_has(scaling, "factor") && r->original_context > 0)
        r->factor = c->context / r->original_context;
    /* The file has the whole factor, spt_rope what comes on top of yarn's. */
    if (total > 0)
        r->attention_factor =
            total / (r->factor > 1 ? 1 + 0.1 * log(r->factor) : 1);
    return SPT_OK;
}

static spt_status read_scaling(spt_model *model, const cJSON *scaling,
                               spt_error *err)
{
    spt_rope *r = &model->config.rope;
    const char *where = model->path;
    const char *kind =
        text_of(scaling, "rope_type", text_of(scaling, "type", "default"));
    SPT_TRY(optional(scaling, where, "rope_theta", &r->theta, err));
    SPT_TRY(optional(scaling, where, "factor", &r->factor, err));
    SPT_TRY(optional(scaling, where, "original_max_position_embeddings",
                     &r->original_context, err));
    if (strcmp(kind, "default") == 0)
        return SPT_OK;
    if (strcmp(kind, "linear") == 0) {
        r->scaling = SPT_ROPE_LINEAR;
        return SPT_OK;
    }
    if (strcmp(kind, "yarn") == 0)
        return read_yarn(scaling, where, &model->config, r, err);
    if (strcmp(kind, "llama3") != 0)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: rotary scaling '%.30s', expected default, linear, "
                        "llama3 or yarn",
                        where, kind);
    double low = 0, high = 0;
    SPT_TRY(
        spt_json_number(scaling, where, "low_freq_factor", 0, 1e6, &low, err));
    SPT_TRY(spt_json_number(scaling, where, "high_freq_factor", 0, 1e6, &high,
                            err));
    SPT_TRY(spt_model_config_finish(model, err));
    return spt_model_llama3_factors(model, low, high, err);
}

/* rope_theta and rope_scaling (transformers 4), or rope_parameters (5), which
   for gemma 3 has one object for each kind of layer. */
static spt_status read_rope(spt_model *model, const cJSON *config,
                            spt_error *err)
{
    spt_rope *r = &model->config.rope;
    const char *where = model->path;
    const cJSON *scaling = NULL;
    double partial = 1;
    SPT_TRY(optional(config, where, "partial_rotary_factor", &partial, err));
    if (partial != 1)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: partial_rotary_factor is %g, expected 1", where,
                        partial);
    SPT_TRY(optional(config, where, "rope_theta", &r->theta, err));
    SPT_TRY(
        optional(config, where, "rope_local_base_freq", &r->theta_local, err));
    if (spt_json_has(config, "rope_parameters")) {
        SPT_TRY(
            spt_json_object(config, where, "rope_parameters", &scaling, err));
        if (spt_json_has(scaling, "sliding_attention")) {
            const cJSON *local;
            SPT_TRY(spt_json_object(scaling, where, "sliding_attention", &local,
                                    err));
            SPT_TRY(optional(local, where, "rope_theta", &r->theta_local, err));
            SPT_TRY(spt_json_object(scaling, where, "full_attention", &scaling,
                                    err));
        }
    } else if (spt_json_has(config, "rope_scaling")) {
        SPT_TRY(spt_json_object(config, where, "rope_scaling", &scaling, err));
    }
    return scaling ? read_scaling(model, scaling, err) : SPT_OK;
}

static spt_status read_layer_types(spt_model *model, const cJSON *config,
                                   spt_error *err)
{
    const cJSON *types, *type;
    uint8_t windowed[1024] = {0};
    int l = 0, layers = model->config.layers;
    SPT_TRY(spt_json_array(config, model->path, "layer_types", &types, err));
    if (layers > 1024 || cJSON_GetArraySize(types) != layers)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: layer_types has %d entries, expected %d",
                        model->path, cJSON_GetArraySize(types), layers);
    cJSON_ArrayForEach(type, types)
    {
        const char *text = cJSON_GetStringValue(type);
        bool full = text && strcmp(text, "full_attention") == 0;
        if (!full && (!text || strcmp(text, "sliding_attention") != 0))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: layer_types has '%.40s', expected "
                            "full_attention or sliding_attention",
                            model->path, text ? text : "?");
        windowed[l++] = !full;
    }
    return spt_model_window_period(model, windowed, err);
}

static spt_status read_windows(spt_model *model, const cJSON *config,
                               spt_error *err)
{
    spt_model_config *c = &model->config;
    int64_t period = c->window_period;
    if (!flag(config, "use_sliding_window", c->window > 0))
        c->window = 0;
    if (!c->window)
        return SPT_OK;
    if (spt_json_has(config, "layer_types"))
        return read_layer_types(model, config, err);
    if (spt_json_has(config, "max_window_layers"))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: max_window_layers with use_sliding_window is not "
                        "supported",
                        model->path);
    if (spt_json_has(config, "sliding_window_pattern"))
        SPT_TRY(spt_json_int(config, model->path, "sliding_window_pattern", 1,
                             1024, &period, err));
    c->window_period = (int)period;
    return SPT_OK;
}

static spt_status read_gemma(spt_model *model, const cJSON *config,
                             spt_error *err)
{
    spt_model_config *c = &model->config;
    double scalar = 0;
    SPT_TRY(
        optional(config, model->path, "query_pre_attn_scalar", &scalar, err));
    if (scalar > 0)
        c->attn_scale = 1 / sqrt(scalar);
    SPT_TRY(optional(config, model->path, "attn_logit_softcapping",
                     &c->attn_softcap, err));
    SPT_TRY(optional(config, model->path, "final_logit_softcapping",
                     &c->final_softcap, err));
    c->embed_scale = sqrt(c->hidden);
    c->norm_offset = 1;
    return SPT_OK;
}

static spt_status find_arch(spt_model *model, const cJSON *config,
                            spt_error *err)
{
    const char *kind;
    SPT_TRY(spt_json_text(config, model->path, "model_type", &kind, err));
    model->arch = spt_model_arch_find(kind, true);
    if (model->arch)
        return SPT_OK;
    spt_buf names = {0};
    spt_model_arch_names(true, &names);
    spt_status status =
        spt_fail(err, SPT_E_UNSUPPORTED,
                 "%s: model_type '%.40s' is not run, expected %s", model->path,
                 kind, names.data ? names.data : "?");
    spt_buf_free(&names);
    return status;
}

/* Fields that would change the computation, with the value that is run. */
static spt_status refuse_others(const spt_model *model, const cJSON *config,
                                spt_error *err)
{
    static const char *const off[] = {"mlp_bias", "rope_interleaved"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (flag(config, off[i], false))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: %s is true, expected false", model->path,
                            off[i]);
    if (flag(config, "attention_bias", false) && !model->arch->attn_bias)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: attention_bias is true, expected false",
                        model->path);
    const char *expected = model->arch->activation == SPT_ACTIVATION_SILU
                               ? "silu"
                               : "gelu_pytorch_tanh";
    const char *act = text_of(config, "hidden_activation",
                              text_of(config, "hidden_act", expected));
    if (strcmp(act, expected) != 0)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: activation '%.40s', expected %s", model->path, act,
                        expected);
    return SPT_OK;
}

spt_status spt_model_hf_config(spt_model *model, const cJSON *config,
                               spt_error *err)
{
    if (!cJSON_IsObject(config))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected a JSON object",
                        model->path);
    if (spt_model_is_head(config))
        return spt_model_head_config(model, config, err);
    SPT_TRY(find_arch(model, config, err));
    return spt_model_hf_body(model, config, err);
}

spt_status spt_model_hf_body(spt_model *model, const cJSON *config,
                             spt_error *err)
{
    spt_model_config *c = &model->config;
    bool gemma = strcmp(model->arch->name, "gemma3") == 0;
    c->rope = (spt_rope){.layout = SPT_ROPE_HALVES,
                         .theta = gemma ? 1e6 : 1e4,
                         .theta_local = gemma ? 1e4 : 0,
                         .factor = 1,
                         .attention_factor = 1,
                         .beta_fast = 32,
                         .beta_slow = 1};
    c->embed_scale = 1;
    c->norm_eps = 1e-6;
    c->window_period = gemma ? 6 : 0;
    SPT_TRY(refuse_others(model, config, err));
    SPT_TRY(read_counts(config, model->path, c, err));
    SPT_TRY(optional(config, model->path, "rms_norm_eps", &c->norm_eps, err));
    c->tied_head = flag(config, "tie_word_embeddings", gemma);
    snprintf(c->name, sizeof c->name, "%.95s",
             text_of(config, "_name_or_path", ""));
    if (gemma)
        SPT_TRY(read_gemma(model, config, err));
    SPT_TRY(read_windows(model, config, err));
    SPT_TRY(read_rope(model, config, err));
    return spt_model_config_finish(model, err);
}
