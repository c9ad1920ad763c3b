/* The part of a config that GGUF and config.json have in common. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model_int.h"

static const model_arch archs[] = {
#define SPT_ARCH(name, hf, layout, qk_norm, attn_bias, post_norms, act) \
    {name,      hf,         SPT_ROPE_##layout,   qk_norm,               \
     attn_bias, post_norms, SPT_ACTIVATION_##act},
#include "model_arch.def"
#undef SPT_ARCH
};
enum { ARCHS = sizeof archs / sizeof *archs };

const model_arch *spt_model_arch_find(const char *name, bool hf)
{
    for (int i = 0; i < ARCHS; i++)
        if (strcmp(hf ? archs[i].hf : archs[i].name, name) == 0)
            return &archs[i];
    return NULL;
}

void spt_model_arch_names(bool hf, spt_buf *names)
{
    for (int i = 0; i < ARCHS; i++)
        spt_buf_printf(names, "%s%s", i ? ", " : "",
                       hf ? archs[i].hf : archs[i].name);
}

static spt_status check_ranges(const spt_model *model, spt_error *err)
{
    const spt_model_config *c = &model->config;
    const struct {
        const char *name;
        int value, most;
    } counts[] = {
        {"layers", c->layers, 1024},       {"hidden size", c->hidden, 1 << 17},
        {"ffn size", c->ffn, 1 << 20},     {"query heads", c->q_heads, 1024},
        {"KV heads", c->kv_heads, 1024},   {"head dim", c->head_dim, 1024},
        {"rotary dim", c->rope.dim, 1024}, {"context", c->context, 1 << 30},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 1 || counts[i].value > counts[i].most)
            return spt_fail(err, SPT_E_FORMAT, "%s: %s %d, expected 1 to %d",
                            model->path, counts[i].name, counts[i].value,
                            counts[i].most);
    if (c->q_heads % c->kv_heads)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %d query heads are no multiple of %d KV heads",
                        model->path, c->q_heads, c->kv_heads);
    if (c->rope.dim % 2 || c->rope.dim > c->head_dim)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: rotary dim %d, expected an even number up to %d",
                        model->path, c->rope.dim, c->head_dim);
    return SPT_OK;
}

static spt_status check_numbers(const spt_model *model, spt_error *err)
{
    const spt_model_config *c = &model->config;
    const spt_rope *r = &c->rope;
    bool yarn = r->scaling == SPT_ROPE_YARN;
    const struct {
        const char *name;
        double value, least, most;
    } numbers[] = {
        {"norm epsilon", c->norm_eps, 1e-12, 0.1},
        {"rotary base", r->theta, 1.001, 1e12},
        {"rotary base of windows", r->theta_local ? r->theta_local : 2, 1.001,
         1e12},
        {"rotary factor", r->factor, 1e-3, 1e6},
        {"attention scale", c->attn_scale, 1e-6, 1e3},
        {"attention softcap", c->attn_softcap, 0, 1e6},
        {"logits' softcap", c->final_softcap, 0, 1e6},
        {"original context", yarn ? r->original_context : 1, 1, 1e9},
        {"yarn beta_fast", r->beta_fast, 1e-3, 1e6},
        {"yarn beta_slow", r->beta_slow, 1e-3, 1e6},
        {"yarn attention factor", r->attention_factor, 1e-3, 1e3},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].least &&
              numbers[i].value <= numbers[i].most))
            return spt_fail(err, SPT_E_FORMAT, "%s: %s %g, expected %g to %g",
                            model->path, numbers[i].name, numbers[i].value,
                            numbers[i].least, numbers[i].most);
    return SPT_OK;
}

spt_status spt_model_config_finish(spt_model *model, spt_error *err)
{
    spt_model_config *c = &model->config;
    const model_arch *arch = model->arch;
    snprintf(c->architecture, sizeof c->architecture, "%s", arch->name);
    c->qk_norm = arch->qk_norm;
    c->attn_bias = arch->attn_bias;
    c->post_norms = arch->post_norms;
    c->activation = arch->activation;
    if (!c->kv_heads)
        c->kv_heads = c->q_heads;
    if (!c->head_dim && c->q_heads)
        c->head_dim = c->hidden / c->q_heads;
    if (!c->rope.dim)
        c->rope.dim = c->head_dim;
    if (!c->rope.original_context)
        c->rope.original_context = c->context;
    if (!c->attn_scale)
        c->attn_scale = 1 / sqrt(c->head_dim);
    SPT_TRY(check_ranges(model, err));
    return check_numbers(model, err);
}

spt_status spt_model_llama3_factors(spt_model *model, double low, double high,
                                    spt_error *err)
{
    spt_rope *r = &model->config.rope;
    float *factors =
        spt_arena_alloc(&model->arena, (size_t)r->dim / 2 + 1, sizeof *factors);
    if (!factors)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", model->path);
    if (!(low > 0 && high > low && r->factor > 0))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: rotary scaling llama3 with low_freq_factor %g and "
                        "high_freq_factor %g, expected 0 < low < high",
                        model->path, low, high);
    for (int p = 0; p < r->dim / 2; p++) {
        double wavelength = 6.283185307179586 * pow(r->theta, 2.0 * p / r->dim);
        double turns = r->original_context / wavelength;
        /* Pairs that turn often stay; rare ones are slowed by the factor;
           between them the frequency goes over linearly. */
        double kept = fmin(1, fmax(0, (turns - low) / (high - low)));
        factors[p] = (float)(1 / ((1 - kept) / r->factor + kept));
    }
    r->factors = factors;
    r->scaling = SPT_ROPE_PLAIN;
    return SPT_OK;
}

spt_status spt_model_window_period(spt_model *model, const uint8_t *windowed,
                                   spt_error *err)
{
    spt_model_config *c = &model->config;
    int period = 0;
    for (int l = 0; l < c->layers && !period; l++)
        if (!windowed[l])
            period = l + 1;
    for (int l = 0; l < c->layers; l++)
        if (windowed[l] != (!period || l % period != period - 1))
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: layer %d breaks the pattern of windows, "
                            "expected every n-th layer to see all",
                            model->path, l);
    c->window_period = period;
    if (period == 1)
        c->window = 0;
    return SPT_OK;
}

int spt_model_layer_window(const spt_model_config *config, int layer)
{
    int period = config->window_period;
    return period && layer % period == period - 1 ? 0 : config->window;
}
