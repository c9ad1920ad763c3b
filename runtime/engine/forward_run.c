/*
 * One pass of rows through the model (the computation is that of
 * model_file.h).
 *
 * All that a step differs in stands in one array of integers that is copied to
 * the device first. Attention takes sequences in groups: an item longer than a
 * draft block is a group of its own, the short ones between are one, so that
 * no partial result is made for rows that do not exist.
 */
#include <string.h>

#include "draft_block.h"
#include "embedding.h"
#include "forward_int.h"
#include "kv_compact.h"
#include "norm.h"
#include "rotary.h"
#include "verify.h"

typedef struct pass {
    spt_forward *f;
    const spt_forward_item *items;
    int count, tokens, logits;
    int page_stride;
    bool tree; /* one of the short items has a tree */
    size_t ints; /* of the inputs */
    int64_t max_kv;
    int max_tokens; /* of an item */
    CUdeviceptr ids, q_start, kv_len, pages, tree_bits, gather;
    CUdeviceptr slots; /* where a head reads this: the tokens' slots */
    CUdeviceptr reads, writes; /* a head's: rows of features */
    forward_choosing choosing;
    float *logits_to; /* the caller's */
} pass;

/* Items that attention takes together. */
typedef struct group {
    int first, count, max_tokens;
    int64_t max_kv;
    bool tree;
} group;

static CUdeviceptr buffer(const pass *p, spt_forward_buffer which)
{
    return p->f->buffer[which];
}

int32_t *forward_write_ints(forward_writer *w, int count, CUdeviceptr *device)
{
    int32_t *host = w->host + w->at;
    *device = w->device + w->at * sizeof *host;
    w->at += (size_t)count;
    return host;
}

/* Pages of as many whole chunks as the longest item needs: rarely another. */
static int page_stride(const pass *p)
{
    const spt_forward_limits *l = &p->f->limits;
    int64_t chunks = (p->max_kv + FORWARD_CHUNK - 1) / FORWARD_CHUNK;
    int64_t tokens = chunks * FORWARD_CHUNK;
    if (tokens > l->context)
        tokens = l->context;
    return (int)((tokens + l->page_size - 1) / l->page_size);
}

static void write_item(const pass *p, int i, int token, int32_t *ids,
                       int32_t *bits)
{
    const spt_forward_item *item = &p->items[i];
    memcpy(ids + token, item->tokens, (size_t)item->count * sizeof *ids);
    for (int j = 0; j < item->count && item->count <= SPT_DRAFT_NODES; j++) {
        uint32_t chain = j == 31 ? UINT32_MAX : (UINT32_C(2) << j) - 1;
        bits[token + j] = (int32_t)(item->tree ? item->tree[j] : chain);
    }
}

/* Rows with logits: those that are drawn from on the device come first. */
static void write_rows(pass *p, const int32_t *q_start, forward_writer *w)
{
    bool is_head = p->f->config->head.taps > 0;
    int32_t *gather = forward_write_ints(w, p->logits, &p->gather);
    int32_t *writes =
        is_head ? forward_write_ints(w, p->logits, &p->writes) : NULL;
    int row = 0;
    for (int drawn = 1; drawn >= 0; drawn--)
        for (int i = 0; i < p->count; i++) {
            const spt_forward_item *item = &p->items[i];
            int rows = !item->sample == !drawn ? item->logits : 0;
            for (int j = 0; j < rows; j++, row++) {
                gather[row] = q_start[i + 1] - rows + j;
                if (is_head)
                    writes[row] = item->writes[j];
            }
        }
}

/* Which rows of features the tokens read, or leave in the head. */
static void write_features(pass *p, forward_writer *w)
{
    const spt_forward *f = p->f;
    bool is_head = f->config->head.taps > 0;
    if (!is_head && !f->listener)
        return;
    int32_t *out =
        forward_write_ints(w, p->tokens, is_head ? &p->reads : &p->slots);
    int size = f->limits.page_size;
    for (int i = 0; i < p->count; i++) {
        const spt_forward_item *item = &p->items[i];
        const spt_sequence *s = item->sequence;
        for (int j = 0, slot = s->n_kv; j < item->count; j++, slot++)
            *out++ = is_head ? item->reads[j]
                             : s->pages[slot / size] * size + slot % size;
    }
}

static void write_inputs(pass *p)
{
    spt_forward *f = p->f;
    forward_writer w = {f->inputs, buffer(p, SPT_FORWARD_INPUTS), 0};
    int32_t *ids = forward_write_ints(&w, p->tokens, &p->ids);
    int32_t *q_start = forward_write_ints(&w, p->count + 1, &p->q_start);
    int32_t *kv_len = forward_write_ints(&w, p->count, &p->kv_len);
    int32_t *bits = forward_write_ints(&w, p->tokens, &p->tree_bits);
    int32_t *pages =
        forward_write_ints(&w, p->count * p->page_stride, &p->pages);
    int token = 0;
    for (int i = 0; i < p->count; i++) {
        const spt_forward_item *item = &p->items[i];
        const spt_sequence *s = item->sequence;
        q_start[i] = token;
        kv_len[i] = s->n_kv + item->count;
        write_item(p, i, token, ids, bits);
        for (int j = 0; j < p->page_stride; j++)
            pages[i * p->page_stride + j] = j < s->n_pages ? s->pages[j] : 0;
        token += item->count;
    }
    q_start[p->count] = token;
    write_rows(p, q_start, &w);
    write_features(p, &w);
    forward_choose_write(p->items, p->count, &w, &p->choosing);
    p->ints = w.at;
}

static spt_status send_inputs(const pass *p, spt_error *err)
{
    const spt_forward *f = p->f;
    return forward_check(
        f,
        f->driver->cuMemcpyHtoDAsync(buffer(p, SPT_FORWARD_INPUTS), f->inputs,
                                     p->ints * sizeof *f->inputs, f->stream),
        "copy of inputs", err);
}

static spt_status embed(const pass *p, spt_error *err)
{
    const spt_forward *f = p->f, *e = f->embeds;
    const spt_tensor *table =
        spt_model_tensor(e->model, SPT_ROLE_TOKEN_EMBED, 0);
    size_t stride = forward_table_packed(e->model, e->limits.dtype)
                        ? spt_linear_panel_bytes(&e->head.shape)
                        : table->row_bytes;
    const spt_embedding_args args = {.ids = p->ids,
                                     .table = e->embedding,
                                     .out = buffer(p, SPT_FORWARD_RESIDUAL),
                                     .table_stride = (int64_t)stride,
                                     .out_stride = f->config->hidden,
                                     .vocabulary = table->rows,
                                     .width = f->config->hidden,
                                     .scale = (float)f->config->embed_scale};
    return spt_embedding_launch(f->driver, e->kernels.embedding, &args,
                                p->tokens, f->stream, err);
}

/* args without strides and eps, which are the same for most. */
static spt_status norm(const pass *p, const spt_function *kernel,
                       spt_norm_args args, int rows, spt_error *err)
{
    const spt_forward *f = p->f;
    int64_t hidden = f->config->hidden;
    args.in_stride = args.next_stride = hidden;
    args.out_stride = args.out_stride ? args.out_stride : hidden;
    args.eps = (float)f->config->norm_eps;
    return spt_norm_launch(f->driver, kernel, &args, rows, f->stream, err);
}

/* The residual stream to NORMED. */
static spt_status norm_residual(const pass *p, CUdeviceptr weight,
                                spt_error *err)
{
    const spt_norm_args args = {.in = buffer(p, SPT_FORWARD_RESIDUAL),
                                .weight = weight,
                                .out = buffer(p, SPT_FORWARD_NORMED)};
    return norm(p, p->f->kernels.norm, args, p->tokens, err);
}

/*
 * What a head's attention reads, the norms of a token's embedding and of its
 * features beside each other; its residual.
 */
static spt_status join_inputs(const pass *p, spt_error *err)
{
    const spt_forward *f = p->f;
    const forward_layer *l = &f->layers[0];
    CUdeviceptr residual = buffer(p, SPT_FORWARD_RESIDUAL);
    uint64_t hidden = f->sizes.hidden;
    spt_norm_args args = {.in = residual,
                          .weight = l->attn_norm,
                          .out = buffer(p, SPT_FORWARD_NORMED),
                          .out_stride = (int64_t)f->sizes.in_width};
    SPT_TRY(norm(p, f->kernels.norm, args, p->tokens, err));
    SPT_TRY(forward_recall(f, p->reads, p->tokens, err));
    args.weight = l->hidden_norm;
    args.out += hidden * 2;
    SPT_TRY(norm(p, f->kernels.norm, args, p->tokens, err));
    args.out = residual;
    args.out_stride = 0;
    return f->config->head.norm_residual
               ? norm(p, f->kernels.norm_wide, args, p->tokens, err)
               : SPT_OK;
}

/* out of row stride `out_stride` numbers of `out_bytes` each. */
typedef struct result {
    CUdeviceptr out, residual;
    int64_t stride;
    int bytes;
} result;

static spt_status linear(const pass *p, const forward_linear *l, CUdeviceptr x,
                         result to, int rows, spt_error *err)
{
    const spt_forward *f = p->f;
    const spt_linear_args args = {.x = x,
                                  .weights = l->weights,
                                  .bias = l->bias,
                                  .residual = to.residual,
                                  .out = to.out + (CUdeviceptr)l->column *
                                                      (CUdeviceptr)to.bytes,
                                  .x_stride = l->shape.inputs,
                                  .residual_stride = to.stride,
                                  .out_stride = to.stride,
                                  .outputs = (int32_t)l->shape.outputs,
                                  .inputs = (int32_t)l->shape.inputs,
                                  .cap = l->cap};
    return spt_linear_launch(f->driver, &l->kernel[forward_variant(rows, 0)],
                             &args, rows, f->stream, err);
}

/* The group that begins with item `first`. */
static group group_at(const pass *p, int first)
{
    group g = {.first = first};
    for (int i = first; i < p->count; i++) {
        const spt_forward_item *item = &p->items[i];
        bool is_long = item->count > SPT_DRAFT_NODES;
        if (is_long && i > first)
            break;
        int64_t kv = item->sequence->n_kv + item->count;
        g.max_kv = kv > g.max_kv ? kv : g.max_kv;
        g.max_tokens = item->count > g.max_tokens ? item->count : g.max_tokens;
        g.count++;
        if (is_long)
            return g;
    }
    g.tree = p->tree;
    return g;
}

static CUdeviceptr layer_k(const pass *p, int layer)
{
    const spt_forward_sizes *d = &p->f->sizes;
    return buffer(p, SPT_FORWARD_KV) +
           (CUdeviceptr)((uint64_t)layer * d->pages * d->page_bytes);
}

static CUdeviceptr layer_v(const pass *p, int layer)
{
    return layer_k(p, layer + p->f->config->layers);
}

static CUdeviceptr ints_at(CUdeviceptr base, int index)
{
    return base + (CUdeviceptr)index * sizeof(int32_t);
}

static spt_status rotate(const pass *p, const group *g, int layer,
                         spt_error *err)
{
    const spt_forward *f = p->f;
    const forward_layer *l = &f->layers[layer];
    CUdeviceptr q = buffer(p, SPT_FORWARD_QKV);
    uint64_t q_width = f->sizes.q_width, kv_width = f->sizes.kv_width;
    int64_t stride = (int64_t)(q_width + 2 * kv_width);
    uint64_t angles = l->window > 0 && f->sizes.tables > 1
                          ? f->sizes.positions * f->sizes.pairs * 8
                          : 0;
    const spt_rotary_args args = {
        .q = q,
        .k = q + q_width * 4,
        .v = q + (q_width + kv_width) * 4,
        .q_out = buffer(p, SPT_FORWARD_ROTATED),
        .k_cache = layer_k(p, layer),
        .v_cache = layer_v(p, layer),
        .page_table = ints_at(p->pages, g->first * p->page_stride),
        .q_start = ints_at(p->q_start, g->first),
        .kv_len = ints_at(p->kv_len, g->first),
        .tree = p->tree_bits,
        .cos_sin = buffer(p, SPT_FORWARD_ANGLES) + angles,
        .q_weight = l->q_norm,
        .k_weight = l->k_norm,
        .q_stride = stride,
        .k_stride = stride,
        .v_stride = stride,
        .q_out_stride = (int64_t)q_width,
        .kv_page_stride = (int64_t)(f->sizes.page_bytes / 2),
        .kv_token_stride = (int64_t)kv_width,
        .kv_head_stride = f->config->head_dim,
        .page_table_stride = p->page_stride,
        .q_heads = f->config->q_heads,
        .kv_heads = f->config->kv_heads,
        .eps = (float)f->config->norm_eps};
    return spt_rotary_launch(f->driver, f->kernels.rotary[g->tree], &args,
                             g->count, g->max_tokens, f->stream, err);
}

static spt_verify_plan attention_plan(const pass *p, const group *g,
                                      bool window)
{
    const spt_model_config *c = p->f->config;
    const forward_attention *a = &p->f->kernels.attention[g->tree][window];
    int64_t rows = (int64_t)g->max_tokens * (c->q_heads / c->kv_heads);
    int variant = forward_variant(rows, c->head_dim);
    return (spt_verify_plan){
        .batch = g->count,
        .q_heads = c->q_heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .max_tokens = g->max_tokens,
        .max_kv = g->max_kv,
        .chunk = FORWARD_CHUNK,
        .rows = forward_variant_rows(variant, c->head_dim),
        .attention_threads = a->attention[variant]->threads,
        .combine_threads = a->combine->threads,
        .shared_bytes = a->attention[variant]->shared_bytes,
        .attention = a->attention[variant]->function,
        .combine = a->combine->function};
}

static spt_status attend(const pass *p, const group *g, int layer,
                         spt_error *err)
{
    const spt_forward *f = p->f;
    const spt_model_config *c = f->config;
    int window = f->layers[layer].window;
    const spt_verify_plan plan = attention_plan(p, g, window > 0);
    spt_verify_args args = {
        .q = buffer(p, SPT_FORWARD_ROTATED),
        .k = layer_k(p, layer),
        .v = layer_v(p, layer),
        .page_table = ints_at(p->pages, g->first * p->page_stride),
        .q_start = ints_at(p->q_start, g->first),
        .kv_len = ints_at(p->kv_len, g->first),
        .tree = p->tree_bits,
        .partial_o = buffer(p, SPT_FORWARD_PARTIAL_O),
        .partial_ml = buffer(p, SPT_FORWARD_PARTIAL_ML),
        .out = buffer(p, SPT_FORWARD_ATTENDED),
        .lse = buffer(p, SPT_FORWARD_LSE),
        .q_token_stride = (int64_t)f->sizes.q_width,
        .kv_page_stride = (int64_t)(f->sizes.page_bytes / 2),
        .kv_token_stride = (int64_t)f->sizes.kv_width,
        .kv_head_stride = c->head_dim,
        .page_table_stride = p->page_stride,
        .window = window};
    spt_verify_set_scale(&args, c->attn_scale, c->attn_softcap);
    return spt_verify_launch(f->driver, &plan, &args, f->stream, err);
}

/*
 * The sublayer's last linear, onto the residual stream, and the norm that the
 * next sublayer begins with; next_norm 0: there is none.
 */
static spt_status add_sublayer(const pass *p, const forward_linear *last,
                               CUdeviceptr x, CUdeviceptr post_norm,
                               CUdeviceptr next_norm, spt_error *err)
{
    const spt_forward *f = p->f;
    CUdeviceptr residual = buffer(p, SPT_FORWARD_RESIDUAL);
    CUdeviceptr own = buffer(p, SPT_FORWARD_SUBLAYER);
    bool post = f->config->post_norms;
    result to = {post ? own : residual, post ? 0 : residual, f->config->hidden,
                 4};
    const spt_norm_args both = {.in = own,
                                .weight = post_norm,
                                .out = residual,
                                .next_weight = next_norm,
                                .next = buffer(p, SPT_FORWARD_NORMED)};
    SPT_TRY(linear(p, last, x, to, p->tokens, err));
    if (post)
        return norm(p, f->kernels.norm_add, both, p->tokens, err);
    return next_norm ? norm_residual(p, next_norm, err) : SPT_OK;
}

static spt_status attention_sublayer(const pass *p, int layer, spt_error *err)
{
    const spt_forward *f = p->f;
    const forward_layer *l = &f->layers[layer];
    CUdeviceptr normed = buffer(p, SPT_FORWARD_NORMED);
    result qkv = {buffer(p, SPT_FORWARD_QKV), 0,
                  (int64_t)(f->sizes.q_width + 2 * f->sizes.kv_width), 4};
    for (int i = 0; i < l->n_qkv; i++)
        SPT_TRY(linear(p, &l->qkv[i], normed, qkv, p->tokens, err));
    for (int first = 0; first < p->count;) {
        group g = group_at(p, first);
        SPT_TRY(rotate(p, &g, layer, err));
        SPT_TRY(attend(p, &g, layer, err));
        first += g.count;
    }
    return add_sublayer(p, &l->o, buffer(p, SPT_FORWARD_ATTENDED),
                        l->post_attn_norm, l->ffn_norm, err);
}

static spt_status ffn_sublayer(const pass *p, int layer, spt_error *err)
{
    const spt_forward *f = p->f;
    const forward_layer *l = &f->layers[layer];
    CUdeviceptr normed = buffer(p, SPT_FORWARD_NORMED);
    CUdeviceptr ffn = buffer(p, SPT_FORWARD_FFN);
    SPT_TRY(linear(p, &l->gate_up, normed, (result){ffn, 0, f->config->ffn, 2},
                   p->tokens, err));
    bool last = layer + 1 == f->config->layers;
    /* The head norms the rows it needs; a kernel of two norms wants both. */
    CUdeviceptr head_norm = f->config->post_norms ? f->output_norm : 0;
    return add_sublayer(p, &l->down, ffn, l->post_ffn_norm,
                        last ? head_norm : l[1].attn_norm, err);
}

/* What others see of the layer's rows. */
static spt_status tap(const pass *p, int layer, spt_error *err)
{
    const spt_forward *f = p->f;
    const forward_heard heard = {.layer = layer,
                                 .tokens = p->tokens,
                                 .residual = buffer(p, SPT_FORWARD_RESIDUAL),
                                 .slots = p->slots,
                                 .stream = f->stream};
    if (f->listener)
        SPT_TRY(forward_hear(f->listener, &heard, err));
    size_t count = (size_t)p->tokens * (size_t)f->config->hidden;
    if (!f->tap)
        return SPT_OK;
    return forward_check(
        f,
        f->driver->cuMemcpyDtoHAsync(f->tap + (size_t)layer * count,
                                     buffer(p, SPT_FORWARD_RESIDUAL),
                                     count * sizeof(float), f->stream),
        "copy of hidden states", err);
}

/* Logits of the rows that are not drawn from on the device. */
static spt_status copy_logits(const pass *p, spt_error *err)
{
    const spt_forward *f = p->f;
    size_t vocab = (size_t)f->config->vocab;
    size_t first = (size_t)p->choosing.rows * vocab;
    size_t count = (size_t)p->logits * vocab - first;
    if (!count)
        return SPT_OK;
    return forward_check(
        f,
        f->driver->cuMemcpyDtoHAsync(
            p->logits_to, buffer(p, SPT_FORWARD_LOGITS) + first * sizeof(float),
            count * sizeof(float), f->stream),
        "copy of logits", err);
}

static spt_status run_head(const pass *p, spt_error *err)
{
    const spt_forward *f = p->f;
    CUdeviceptr final = buffer(p, SPT_FORWARD_FINAL);
    CUdeviceptr out = buffer(p, SPT_FORWARD_LOGITS);
    const spt_norm_args args = {.in = buffer(p, SPT_FORWARD_RESIDUAL),
                                .weight = f->output_norm,
                                .out = final,
                                .index = p->gather};
    if (f->config->head.taps)
        SPT_TRY(forward_keep(f, p->gather, p->writes, p->logits, err));
    SPT_TRY(norm(p, f->kernels.norm_gather, args, p->logits, err));
    SPT_TRY(linear(p, &f->head, final, (result){out, 0, f->config->vocab, 4},
                   p->logits, err));
    SPT_TRY(copy_logits(p, err));
    return p->choosing.blocks ? forward_choose(f, &p->choosing, err) : SPT_OK;
}

static spt_status enqueue(void *user, spt_error *err)
{
    const pass *p = user;
    const spt_forward *f = p->f;
    SPT_TRY(send_inputs(p, err));
    SPT_TRY(embed(p, err));
    SPT_TRY(f->config->head.taps
                ? join_inputs(p, err)
                : norm_residual(p, f->layers[0].attn_norm, err));
    for (int i = 0; i < f->config->layers; i++) {
        SPT_TRY(attention_sublayer(p, i, err));
        SPT_TRY(ffn_sublayer(p, i, err));
        SPT_TRY(tap(p, i, err));
    }
    return p->logits ? run_head(p, err) : SPT_OK;
}

/* Steps that write: short items, and no memory of the caller's is touched. */
static bool repeats(const pass *p)
{
    return p->f->limits.graphs > 0 && !p->f->tap && p->logits > 0 &&
           p->choosing.rows == p->logits && p->max_tokens <= SPT_DRAFT_NODES;
}

static pass make_pass(spt_forward *f, const spt_forward_item *items, int count)
{
    pass p = {.f = f, .items = items, .count = count};
    for (int i = 0; i < count; i++) {
        int64_t kv = items[i].sequence->n_kv + items[i].count;
        p.tokens += items[i].count;
        p.logits += items[i].logits;
        p.tree = p.tree || items[i].tree;
        p.max_kv = kv > p.max_kv ? kv : p.max_kv;
        if (items[i].count > p.max_tokens)
            p.max_tokens = items[i].count;
    }
    p.page_stride = page_stride(&p);
    return p;
}

spt_status spt_forward_run(spt_forward *f, const spt_forward_item *items,
                           int count, float *logits, spt_error *err)
{
    pass p = make_pass(f, items, count);
    if (!p.tokens)
        return SPT_OK;
    p.logits_to = logits;
    write_inputs(&p);
    const forward_work work = {enqueue, &p};
    const forward_shape shape = {
        .items = count,
        .tokens = p.tokens,
        .rows = p.logits,
        .max_tokens = p.max_tokens,
        .page_stride = p.page_stride,
        .chunks = (int)((p.max_kv + FORWARD_CHUNK - 1) / FORWARD_CHUNK),
        .tree = p.tree,
        .blocks = p.choosing.blocks,
        .logprobs = p.choosing.logprobs,
        .lists = p.choosing.adjusting.lists,
        .adjusted = p.choosing.adjusting.rows,
        .restore = p.choosing.adjusting.restore,
        .keeps = p.choosing.keeps,
        .ints = (int)p.ints};
    SPT_TRY(repeats(&p) ? forward_graph_run(f, &shape, &work, err)
                        : enqueue(&p, err));
    SPT_TRY(forward_check(f, f->driver->cuStreamSynchronize(f->stream),
                          "forward pass", err));
    forward_choose_read(f, items, count, &p.choosing);
    return SPT_OK;
}
