/* Config and tensors of a GGUF, whole or split. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_int.h"

typedef struct keys {
    const spt_gguf *gguf;
    const char *arch;
    char key[96];
} keys;

static const char *key_of(keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, name);
    return k->key;
}

static spt_status read_counts(keys *k, spt_model_config *c, spt_error *err)
{
    const struct {
        const char *name;
        int *out;
        bool needed;
    } rows[] = {
        {"block_count", &c->layers, true},
        {"context_length", &c->context, true},
        {"embedding_length", &c->hidden, true},
        {"feed_forward_length", &c->ffn, true},
        {"attention.head_count", &c->q_heads, true},
        {"attention.head_count_kv", &c->kv_heads, false},
        {"attention.key_length", &c->head_dim, false},
        {"attention.sliding_window", &c->window, false},
        {"rope.dimension_count", &c->rope.dim, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *key = key_of(k, rows[i].name);
        int64_t value = 0;
        if (rows[i].needed && !spt_gguf_has(k->gguf, key))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF key %s is missing, expected the shape of "
                            "a language model",
                            spt_gguf_name(k->gguf), key);
        SPT_TRY(spt_gguf_int(k->gguf, key, 0, INT32_MAX, &value, err));
        *rows[i].out = (int)value;
    }
    return SPT_OK;
}

static spt_status read_numbers(keys *k, spt_model_config *c, spt_error *err)
{
    const struct {
        const char *name;
        double *out;
    } rows[] = {
        {"attention.layer_norm_rms_epsilon", &c->norm_eps},
        {"attention.scale", &c->attn_scale},
        {"attn_logit_softcapping", &c->attn_softcap},
        {"final_logit_softcapping", &c->final_softcap},
        {"rope.freq_base", &c->rope.theta},
        {"rope.freq_base_swa", &c->rope.theta_local},
        {"rope.scaling.factor", &c->rope.factor},
        {"rope.scaling.original_context_length", &c->rope.original_context},
        {"rope.scaling.attn_factor", &c->rope.attention_factor},
        {"rope.scaling.yarn_beta_fast", &c->rope.beta_fast},
        {"rope.scaling.yarn_beta_slow", &c->rope.beta_slow},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        SPT_TRY(spt_gguf_number(k->gguf, key_of(k, rows[i].name), rows[i].out,
                                err));
    return SPT_OK;
}

static spt_status read_scaling(keys *k, spt_model_config *c, spt_error *err)
{
    spt_text kind = {"none", 4};
    SPT_TRY(
        spt_gguf_string(k->gguf, key_of(k, "rope.scaling.type"), &kind, err));
    if (spt_text_is(kind, "linear"))
        c->rope.scaling = SPT_ROPE_LINEAR;
    else if (spt_text_is(kind, "yarn"))
        c->rope.scaling = SPT_ROPE_YARN;
    else if (!spt_text_is(kind, "none"))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: rotary scaling '%s', expected none, linear or "
                        "yarn",
                        spt_gguf_name(k->gguf), spt_text_show(kind).text);
    return SPT_OK;
}

/* What would be computed otherwise, were it not refused here. */
static spt_status refuse_others(keys *k, const spt_model_config *c,
                                spt_error *err)
{
    const char *name = spt_gguf_name(k->gguf);
    int64_t experts = 0, value_length = c->head_dim;
    SPT_TRY(spt_gguf_int(k->gguf, key_of(k, "expert_count"), 0, INT32_MAX,
                         &experts, err));
    SPT_TRY(spt_gguf_int(k->gguf, key_of(k, "attention.value_length"), 0,
                         INT32_MAX, &value_length, err));
    if (experts)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: a mixture of experts is not run", name);
    if (c->head_dim && value_length != c->head_dim)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: keys have %d elements and values %" PRId64
                        ", expected the same",
                        name, c->head_dim, value_length);
    return SPT_OK;
}

/*
 * Windows by layer: every window_period-th layer sees all. Without the key the
 * period is the architecture's; an array has a flag for each layer.
 */
static spt_status read_windows(keys *k, spt_model *model, spt_error *err)
{
    const char *key = key_of(k, "attention.sliding_window_pattern");
    spt_model_config *c = &model->config;
    spt_gguf_array flags = {0};
    int64_t period = c->window_period;
    if (spt_gguf_get_array(k->gguf, key, &flags, NULL) != SPT_OK) {
        SPT_TRY(spt_gguf_int(k->gguf, key, 0, 1024, &period, err));
        c->window_period = (int)period;
        return SPT_OK;
    }
    if (!flags.count)
        return SPT_OK;
    if (c->layers > 1024 || flags.count != (uint64_t)c->layers)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s has %" PRIu64 " flags, expected %d",
                        model->path, key, flags.count, c->layers);
    uint8_t windowed[1024] = {0};
    for (int l = 0; l < c->layers; l++) {
        int64_t flag = 0;
        if (!spt_gguf_array_int(&flags, (uint64_t)l, &flag))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF key %s has elements that are no flags",
                            model->path, key);
        windowed[l] = flag != 0;
    }
    return spt_model_window_period(model, windowed, err);
}

static void gemma_defaults(spt_model_config *c)
{
    c->window_period = 6;
    c->rope.theta = 1e6;
    c->rope.theta_local = 1e4;
}

static void gemma_settle(spt_model_config *c)
{
    c->embed_scale = sqrt(c->hidden);
    /* The 27B alone scales by its hidden size over heads; no key says it. */
    if (c->layers == 62 && !c->attn_scale && c->q_heads)
        c->attn_scale = 1 / sqrt((double)c->hidden / c->q_heads);
}

static spt_status find_arch(spt_model *model, const spt_gguf *gguf,
                            spt_error *err)
{
    spt_text arch = {"", 0};
    SPT_TRY(spt_gguf_string(gguf, "general.architecture", &arch, err));
    spt_text_shown shown = spt_text_show(arch);
    model->arch = spt_model_arch_find(shown.text, false);
    if (model->arch)
        return SPT_OK;
    spt_buf names = {0};
    spt_model_arch_names(false, &names);
    spt_status status = spt_fail(
        err, SPT_E_UNSUPPORTED, "%s: architecture '%s' is not run, expected %s",
        model->path, shown.text, names.data ? names.data : "?");
    spt_buf_free(&names);
    return status;
}

spt_status spt_model_gguf_config(spt_model *model, const spt_gguf *gguf,
                                 spt_error *err)
{
    spt_model_config *c = &model->config;
    SPT_TRY(find_arch(model, gguf, err));
    keys k = {.gguf = gguf, .arch = model->arch->name};
    bool gemma = strcmp(k.arch, "gemma3") == 0;
    c->rope = (spt_rope){.layout = model->arch->layout,
                         .theta = 1e4,
                         .factor = 1,
                         .attention_factor = 1,
                         .beta_fast = 32,
                         .beta_slow = 1};
    c->embed_scale = 1;
    if (gemma)
        gemma_defaults(c);
    spt_text name = {"", 0};
    SPT_TRY(spt_gguf_string(gguf, "general.name", &name, err));
    snprintf(c->name, sizeof c->name, "%s", spt_text_show(name).text);
    SPT_TRY(read_counts(&k, c, err));
    SPT_TRY(read_numbers(&k, c, err));
    SPT_TRY(read_scaling(&k, c, err));
    SPT_TRY(refuse_others(&k, c, err));
    SPT_TRY(read_windows(&k, model, err));
    if (gemma)
        gemma_settle(c);
    return spt_model_config_finish(model, err);
}

/* Factors of the frequencies that the converter wrote as a tensor. */
static spt_status take_factors(spt_model *model, file_tensor *t, spt_error *err)
{
    spt_rope *r = &model->config.rope;
    if (t->type != SPT_WEIGHT_F32 || t->rows != 1 ||
        t->cols != (uint64_t)r->dim / 2)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: rope_freqs.weight is %s of %" PRIu64 " x %" PRIu64
                        ", expected f32 of 1 x %d",
                        model->path, t->format, t->rows, t->cols, r->dim / 2);
    float *factors =
        spt_arena_alloc(&model->arena, (size_t)t->cols, sizeof *factors);
    if (!factors)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    spt_weight_row_f32(t->type, t->data, (size_t)t->cols, factors);
    for (uint64_t p = 0; p < t->cols; p++)
        if (!(factors[p] > 0 && factors[p] < 1e6f))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: rope_freqs.weight has %g at %" PRIu64
                            ", expected a positive number",
                            model->path, (double)factors[p], p);
    r->factors = factors;
    t->used = true;
    return SPT_OK;
}

static file_tensor from_gguf(const spt_gguf *gguf, const spt_gguf_tensor *t)
{
    return (file_tensor){
        .name = t->name,
        .rows = t->size[1],
        .cols = t->size[0],
        .plain = t->size[2] == 1 && t->size[3] == 1,
        .format = spt_weight_format_of(t->type)->name,
        .type = t->type,
        .data = spt_gguf_tensor_data(gguf, t),
        .bytes = t->bytes,
    };
}

spt_status spt_model_gguf_tensors(spt_model *model, spt_error *err)
{
    size_t count = 0, n = 0;
    for (int i = 0; i < model->map_count; i++) {
        SPT_TRY(spt_gguf_complete(model->parts[i], err));
        count += spt_gguf_tensor_count(model->parts[i]);
    }
    model->files =
        spt_arena_alloc(&model->arena, count + 1, sizeof *model->files);
    if (!model->files)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    for (int i = 0; i < model->map_count; i++)
        for (size_t t = 0; t < spt_gguf_tensor_count(model->parts[i]); t++)
            model->files[n++] = from_gguf(
                model->parts[i], spt_gguf_tensor_at(model->parts[i], t));
    model->file_count = count;
    for (size_t i = 0; i < count; i++)
        if (spt_text_is(model->files[i].name, "rope_freqs.weight"))
            SPT_TRY(take_factors(model, &model->files[i], err));
    return SPT_OK;
}
