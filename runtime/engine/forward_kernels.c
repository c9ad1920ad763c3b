/*
 * Which kernels a model needs: one list of requests, loaded at once. A kernel
 * for few rows and one for many have the same reduction key, so which of them
 * runs changes no bit.
 */
#include <string.h>

#include "forward_int.h"
#include "mem.h"

static const int variant_rows[FORWARD_VARIANTS] = {8, 16, 64};

/* Query rows times head dim that one CTA's registers hold. */
enum { MAX_ROW_NUMBERS = 64 * 128, K_WARPS = 4 };

int forward_variant_rows(int index, int head_dim)
{
    int rows = variant_rows[index];
    while (head_dim && rows > 8 && rows * head_dim > MAX_ROW_NUMBERS)
        rows /= 2;
    return rows;
}

int forward_variant(int64_t rows, int head_dim)
{
    int index = 0;
    while (index + 1 < FORWARD_VARIANTS &&
           forward_variant_rows(index, head_dim) < rows)
        index++;
    return index;
}

/* Where a kernel is wanted: linears also need its config for the launch. */
typedef struct want {
    const spt_function **function;
    spt_linear_kernel *linear; /* or NULL */
} want;

typedef struct list {
    spt_kernel_request *requests;
    want *wants;
    size_t count, room;
    bool failed;
} list;

static bool make_room(list *l)
{
    size_t room = l->room; /* both blocks have it */
    return spt_grow(&l->requests, &room, l->count + 1, sizeof *l->requests) &&
           spt_grow(&l->wants, &l->room, l->count + 1, sizeof *l->wants);
}

/* The config to fill, or NULL when memory ran out. */
static spt_config *add(list *l, const char *name, want w)
{
    l->failed = l->failed || !make_room(l);
    if (l->failed)
        return NULL;
    l->requests[l->count] = (spt_kernel_request){.template_name = name};
    l->wants[l->count] = w;
    return &l->requests[l->count++].config;
}

/* A config that is copied into the list when it is whole. */
static void request(list *l, const char *name, const spt_config *config, want w)
{
    spt_config *to = add(l, name, w);
    if (to)
        *to = *config;
}

static void want_norms(list *l, spt_forward *f)
{
    const char *half = spt_half_name(f->limits.dtype);
    const struct {
        const spt_function **at;
        bool gather, add;
    } norms[] = {{&f->kernels.norm, false, false},
                 {&f->kernels.norm_gather, true, false},
                 {&f->kernels.norm_add, false, true}};
    size_t count = f->config->post_norms ? 3 : 2;
    for (size_t i = 0; i < count; i++) {
        spt_config c = {0};
        spt_config_set_int(&c, "width", f->config->hidden);
        spt_config_set_string(&c, "in_type", "fp32");
        spt_config_set_string(&c, "out_type", norms[i].add ? "fp32" : half);
        spt_config_set_bool(&c, "offset", f->config->norm_offset != 0);
        spt_config_set_bool(&c, "add", norms[i].add);
        spt_config_set_string(&c, "next_type", norms[i].add ? half : "none");
        spt_config_set_bool(&c, "gather", norms[i].gather);
        request(l, "norm", &c, (want){norms[i].at, NULL});
    }
}

static void want_rotary(list *l, spt_forward *f, bool tree)
{
    const spt_model_config *m = f->config;
    spt_config c = {0};
    spt_config_set_int(&c, "head_dim", m->head_dim);
    spt_config_set_int(&c, "rotary_dim", m->rope.dim);
    spt_config_set_string(&c, "layout",
                          m->rope.layout == SPT_ROPE_PAIRS ? "norm" : "neox");
    spt_config_set_string(&c, "in_type", "fp32");
    spt_config_set_string(&c, "dtype", spt_half_name(f->limits.dtype));
    spt_config_set_int(&c, "page_size", f->limits.page_size);
    spt_config_set_bool(&c, "tree", tree);
    spt_config_set_bool(&c, "qk_norm", m->qk_norm);
    spt_config_set_bool(&c, "offset", m->qk_norm && m->norm_offset != 0);
    request(l, "rotary", &c, (want){&f->kernels.rotary[tree], NULL});
}

static void attention_problem(spt_config *c, const spt_forward *f, bool tree,
                              bool window)
{
    const spt_model_config *m = f->config;
    spt_config_set_int(c, "group", m->q_heads / m->kv_heads);
    spt_config_set_int(c, "head_dim", m->head_dim);
    spt_config_set_string(c, "dtype", spt_half_name(f->limits.dtype));
    spt_config_set_bool(c, "tree", tree);
    spt_config_set_bool(c, "window", window);
    spt_config_set_int(c, "chunk", FORWARD_CHUNK);
}

static void want_attention(list *l, spt_forward *f, bool tree, bool window)
{
    forward_attention *a = &f->kernels.attention[tree][window];
    int head_dim = f->config->head_dim;
    for (int i = 0; i < FORWARD_VARIANTS; i++) {
        spt_config c = {0};
        attention_problem(&c, f, tree, window);
        spt_config_set_int(&c, "page_size", f->limits.page_size);
        spt_config_set_bool(&c, "softcap", f->config->attn_softcap > 0);
        spt_config_set_int(&c, "rows", forward_variant_rows(i, head_dim));
        request(l, "verify_attention", &c, (want){&a->attention[i], NULL});
    }
    spt_config c = {0};
    attention_problem(&c, f, tree, window);
    request(l, "combine", &c, (want){&a->combine, NULL});
}

static bool has_layer(const spt_forward *f, bool window)
{
    for (int i = 0; i < f->config->layers; i++)
        if ((f->layers[i].window > 0) == window)
            return true;
    return false;
}

static void want_linear(list *l, const spt_forward *f, forward_linear *linear,
                        const char *out_type)
{
    const char *gate =
        f->config->activation == SPT_ACTIVATION_SILU ? "silu" : "gelu";
    for (int i = 0; i < FORWARD_VARIANTS; i++) {
        spt_config c = {0};
        spt_config_set_string(&c, "dtype", spt_half_name(f->limits.dtype));
        spt_config_set_string(&c, "weight",
                              spt_linear_format_name(linear->shape.format));
        spt_config_set_string(&c, "out_type", out_type);
        spt_config_set_string(&c, "gate", linear->shape.gated ? gate : "none");
        spt_config_set_bool(&c, "softcap", linear->cap > 0);
        spt_config_set_int(&c, "rows", forward_variant_rows(i, 0));
        spt_config_set_int(&c, "k_warps", K_WARPS);
        request(l, "linear", &c, (want){NULL, &linear->kernel[i]});
    }
}

static void want_linears(list *l, spt_forward *f)
{
    const char *half = spt_half_name(f->limits.dtype);
    for (int i = 0; i < f->config->layers; i++) {
        forward_layer *layer = &f->layers[i];
        for (int j = 0; j < layer->n_qkv; j++)
            want_linear(l, f, &layer->qkv[j], "fp32");
        want_linear(l, f, &layer->o, "fp32");
        want_linear(l, f, &layer->gate_up, half);
        want_linear(l, f, &layer->down, "fp32");
    }
    want_linear(l, f, &f->head, "fp32");
}

/* A head without a table of its own takes its target's kernel for it too. */
static void want_embedding(list *l, spt_forward *f)
{
    const spt_tensor *table =
        spt_model_tensor(f->model, SPT_ROLE_TOKEN_EMBED, 0);
    spt_config c = {0};
    if (!table)
        return;
    spt_config_set_string(&c, "weight",
                          spt_weight_format_of(table->type)->name);
    spt_config_set_bool(&c, "packed",
                        forward_table_packed(f->model, f->limits.dtype));
    request(l, "embedding", &c, (want){&f->kernels.embedding, NULL});
}

static void want_head(list *l, spt_forward *f)
{
    const char *half = spt_half_name(f->limits.dtype);
    spt_config keep = {0}, recall = {0}, wide = {0};
    if (!f->config->head.taps)
        return;
    spt_config_set_string(&keep, "out_type", half);
    spt_config_set_string(&recall, "in_type", half);
    spt_config_set_int(&wide, "width", f->config->hidden);
    spt_config_set_string(&wide, "out_type", "fp32");
    request(l, "gather", &keep, (want){&f->kernels.keep, NULL});
    request(l, "gather", &recall, (want){&f->kernels.recall, NULL});
    if (f->config->head.norm_residual)
        request(l, "norm", &wide, (want){&f->kernels.norm_wide, NULL});
    want_linear(l, f, &f->fc, "fp32");
}

static void want_all(list *l, spt_forward *f)
{
    want_embedding(l, f);
    want_norms(l, f);
    want_head(l, f);
    for (int tree = 0; tree <= f->limits.trees; tree++) {
        want_rotary(l, f, tree);
        for (int window = 0; window < 2; window++)
            if (has_layer(f, window))
                want_attention(l, f, tree, window);
    }
    if (f->limits.trees) {
        spt_config compact = {0};
        spt_config_set_int(&compact, "page_size", f->limits.page_size);
        request(l, "kv_compact", &compact, (want){&f->kernels.compact, NULL});
    }
    spt_config plain = {0}, accept = {0};
    spt_config_set_bool(&accept, "tree", true); /* a chain is one too */
    if (f->limits.target_vocab)
        request(l, "translate", &plain, (want){&f->kernels.translate, NULL});
    request(l, "adjust", &plain, (want){&f->kernels.adjust, NULL});
    if (f->limits.kept)
        request(l, "gather", &plain, (want){&f->kernels.keep_logits, NULL});
    request(l, "sample", &plain, (want){&f->kernels.sample, NULL});
    request(l, "logprobs", &plain, (want){&f->kernels.logprobs, NULL});
    request(l, "accept", &accept, (want){&f->kernels.accept, NULL});
    if (f->limits.histories)
        request(l, "ngram", &plain, (want){&f->kernels.ngram, NULL});
    want_linears(l, f);
}

static void hand_out(const spt_kernel_set *set, const list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const spt_function *function = spt_kernel_set_at(set, i);
        if (l->wants[i].linear)
            *l->wants[i].linear =
                spt_linear_kernel_of(function, spt_kernel_set_config(set, i));
        else
            *l->wants[i].function = function;
    }
}

spt_status forward_kernels_load(spt_forward *f, spt_error *err)
{
    const spt_kernel_source source = {.driver = f->driver,
                                      .board = f->source.board,
                                      .pack = f->source.pack,
                                      .gen = f->source.gen,
                                      .compiler = f->source.compiler,
                                      .log = f->source.log,
                                      .progress = f->source.progress,
                                      .user = f->source.user};
    list l = {0};
    want_all(&l, f);
    spt_status status =
        l.failed ? spt_fail(err, SPT_E_MEMORY, "kernels: out of memory")
                 : spt_kernel_set_open(&source, l.requests, l.count,
                                       &f->kernels.set, err);
    if (status == SPT_OK)
        hand_out(f->kernels.set, &l);
    spt_free(l.requests);
    spt_free(l.wants);
    return status;
}

spt_status spt_forward_kernels(const spt_model *model,
                               const spt_forward_limits *limits,
                               spt_kernel_request **requests, size_t *count,
                               spt_error *err)
{
    spt_forward f = {.model = model,
                     .config = spt_model_config_of(model),
                     .limits = *limits};
    list l = {0};
    f.layers = spt_calloc((size_t)f.config->layers, sizeof *f.layers);
    if (!f.layers)
        return spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    spt_status status = forward_weights_shapes(&f, err);
    if (status == SPT_OK)
        want_all(&l, &f);
    if (status == SPT_OK && l.failed)
        status = spt_fail(err, SPT_E_MEMORY, "kernels: out of memory");
    spt_free(f.layers);
    spt_free(l.wants);
    if (status != SPT_OK) {
        spt_free(l.requests);
        return status;
    }
    *requests = l.requests;
    *count = spt_kernel_requests_unique(l.requests, l.count);
    return SPT_OK;
}
