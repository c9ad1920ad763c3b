/*
 * A step is the sum of its kernels, one after the other in one graph:
 * projections, attention, feed-forward, norms and the like, the head on every
 * row, sampling; and what the host adds once per step. Sums have the evidence
 * of their weakest part, which here is always `modelled`.
 */
#include "step.h"

#include <math.h>
#include <string.h>

/* The host's part of a step: launch of the graph, reading the tokens back,
   the next step's arguments. Assumed. */
static const double host_us = 30;

/* An n-gram lookup for one sequence on the host. Assumed. */
static const double lookup_us = 2;

/* CUDA context, code and graphs. Assumed. */
static const double reserve_bytes = 768.0 * 1024 * 1024;

static double gemm(const spt_step *s, double rows, double n, double k,
                   double bits)
{
    return spt_model_gemm_us(s->board, rows, n, k, bits);
}

static double small(const spt_step *s, double bytes)
{
    return spt_model_small_us(s->board, bytes);
}

static spt_attention_shape shape_of(const spt_step *s, const spt_target *t,
                                    double context, int draft_length)
{
    return (spt_attention_shape){
        .batch = s->batch,
        .context = context + 1 + draft_length,
        .q_heads = (int)t->q_heads,
        .kv_heads = (int)t->kv_heads,
        .head_dim = (int)t->head_dim,
        .element_bytes = s->kv_bytes,
        .draft_length = draft_length,
    };
}

static spt_attention_best best_attention(const spt_step *s,
                                         const spt_attention_shape *shape)
{
    spt_attention_best best = {INFINITY, 0, "modelled"};
    for (size_t i = 0; i < s->kernels->count; i++) {
        const char *evidence = "modelled";
        double us = -1;
        if (s->kernels->time)
            us = s->kernels->time(s->kernels->user, i, shape, &evidence);
        if (us < 0) {
            evidence = "modelled";
            us = spt_model_attention_us(s->board, shape,
                                        &s->kernels->configs[i]);
        }
        /* Within a thousandth the earlier config stays: a fixed order. */
        if (us < best.us * 0.999)
            best = (spt_attention_best){us, i, evidence};
    }
    return best;
}

spt_attention_best spt_step_attention(const spt_step *s, int draft_length)
{
    spt_attention_shape shape =
        shape_of(s, s->target, s->context, draft_length);
    return best_attention(s, &shape);
}

/* Attention of another model's layer (a drafter's): the kernels' tiles at its
   own heads. */
static double attention_us(const spt_step *s, const spt_target *t,
                           double context, int draft_length)
{
    spt_attention_shape shape = shape_of(s, t, context, draft_length);
    return best_attention(s, &shape).us;
}

/* Projections around attention for `rows` rows; wide: extra input width. */
static double projections_us(const spt_step *s, const spt_target *t,
                             double rows, double bits, double wide)
{
    double h = (double)t->hidden, d = (double)t->head_dim;
    double q = (double)t->q_heads * d, kv = 2 * (double)t->kv_heads * d;
    double act = rows * (q + kv + h) * 2;
    return gemm(s, rows, q * (t->output_gate ? 2 : 1) + kv, h * wide, bits) +
           gemm(s, rows, h, q, bits) +
           2 * small(s, rows * h * 4) + /* norms with the residual */
           small(s, act); /* rotary and append */
}

static double ffn_us(const spt_step *s, const spt_target *t, double rows,
                     double bits)
{
    double h = (double)t->hidden, f = (double)t->ffn;
    return gemm(s, rows, 2 * f, h, bits) + small(s, rows * 3 * f * 2) +
           gemm(s, rows, h, f, bits);
}

/* Routed experts: each touched expert's weights once, its share of rows. */
static double moe_us(const spt_step *s, const spt_target *t, double rows,
                     double bits)
{
    double h = (double)t->hidden, f = (double)t->expert_ffn;
    double touched = spt_target_experts_touched(t, rows);
    double per_expert = rows * (double)t->experts_per_token / touched;
    double us = gemm(s, rows, (double)t->experts, h, 16) +
                2 * small(s, rows * h * 2) +
                gemm(s, per_expert, 2 * f * touched, h, bits) +
                gemm(s, per_expert, h * touched, f, bits);
    if (t->shared_ffn > 0)
        us += gemm(s, rows, 2 * (double)t->shared_ffn, h, bits) +
              gemm(s, rows, h, (double)t->shared_ffn, bits);
    return us;
}

/* A layer with a state of fixed size: projections, the recurrence over the
   rows in order, reading and writing one state per row that may be kept. */
static double linear_layer_us(const spt_step *s, const spt_target *t,
                              double rows, double bits)
{
    double h = (double)t->hidden;
    double v = (double)(t->linear_v_heads * t->linear_v_dim);
    double n = spt_target_linear_params(t) / h - v;
    double state = 4 * v * (double)t->linear_k_dim;
    double bytes = state * (s->batch + rows);
    return gemm(s, rows, n, h, bits) + gemm(s, rows, h, v, bits) +
           2 * small(s, rows * h * 4) + small(s, rows * v * 6) +
           s->board->launch_us + s->board->wave_us +
           bytes / (s->board->dram_gbps * s->board->dram_efficiency * 1e3);
}

static double head_us(const spt_step *s, double rows, double vocab,
                      double hidden, double bits)
{
    return small(s, rows * hidden * 4) + gemm(s, rows, vocab, hidden, bits) +
           small(s, rows * vocab * 4);
}

/* One forward of a model with 1 + draft rows per sequence, head included. */
static double forward_us(const spt_step *s, const spt_target *t, double context,
                         int draft_length)
{
    double rows = (double)s->batch * (1 + draft_length);
    double bits = t->layer_bits, mixer_bits = t->attention_bits;
    double window = (double)t->window < context ? (double)t->window : context;
    double us = small(s, rows * (double)t->hidden * 2); /* embedding */
    if (t->full_layers)
        us += (double)t->full_layers *
              (projections_us(s, t, rows, mixer_bits, 1) +
               attention_us(s, t, context, draft_length));
    if (t->window_layers)
        us += (double)t->window_layers *
              (projections_us(s, t, rows, mixer_bits, 1) +
               attention_us(s, t, window, draft_length));
    if (t->linear_layers)
        us +=
            (double)t->linear_layers * linear_layer_us(s, t, rows, mixer_bits);
    if (t->layers > t->moe_layers)
        us += (double)(t->layers - t->moe_layers) * ffn_us(s, t, rows, bits);
    if (t->moe_layers)
        us += (double)t->moe_layers * moe_us(s, t, rows, bits);
    return us +
           head_us(s, rows, (double)t->vocab, (double)t->hidden, t->head_bits);
}

double spt_step_verify_us(const spt_step *s, int draft_length,
                          const char **evidence)
{
    *evidence = "modelled";
    double accept =
        draft_length ? small(s, (double)s->batch * draft_length) : 0;
    return forward_us(s, s->target, s->context, draft_length) + accept +
           host_us;
}

double spt_step_target_us(const spt_step *s, const char **evidence)
{
    return spt_step_verify_us(s, 0, evidence);
}

/* A drafter's own layer, shaped like the target's, for 1 + draft rows. */
static double own_layer_us(const spt_step *s, const spt_drafter *d,
                           int draft_length)
{
    const spt_target *t = s->target;
    double rows = (double)s->batch * (1 + draft_length);
    bool eagle = d->method == SPT_METHOD_EAGLE3;
    double bits = d->method == SPT_METHOD_MTP ? t->layer_bits : 16;
    double us = projections_us(s, t, rows, bits, eagle ? 2 : 1) +
                attention_us(s, t, s->context, draft_length);
    bool routed = t->moe_layers && d->method == SPT_METHOD_MTP;
    return us + (routed || t->ffn <= 0 ? moe_us(s, t, rows, bits)
                                       : ffn_us(s, t, rows, bits));
}

/* EAGLE-3 and MTP: the verified rows first, then one row per draft. */
static double serial_us(const spt_step *s, const spt_drafter *d,
                        int draft_length)
{
    const spt_target *t = s->target;
    double h = (double)t->hidden, batch = s->batch;
    double bits = d->method == SPT_METHOD_MTP ? t->layer_bits : 16;
    double head_bits = d->method == SPT_METHOD_MTP ? t->head_bits : 16;
    double head = head_us(s, batch, d->vocab, h, head_bits);
    double first = gemm(s, batch * (1 + draft_length), h, d->taps * h, bits) +
                   own_layer_us(s, d, draft_length) + head;
    double join =
        d->method == SPT_METHOD_MTP ? gemm(s, batch, h, d->taps * h, bits) : 0;
    double later = join + own_layer_us(s, d, 0) + head;
    return first + (draft_length - 1) * later;
}

/* DFlash and DSpark: one pass over the block; DSpark's head then goes token
   by token. */
static double block_us(const spt_step *s, const spt_drafter *d,
                       int draft_length)
{
    const spt_target *t = s->target;
    double h = (double)t->hidden, batch = s->batch;
    double rows = batch * (1 + draft_length);
    double kv = 2 * (double)(t->kv_heads * t->head_dim);
    double us = gemm(s, rows, h, d->taps * h, 16) +
                gemm(s, rows, d->layers * kv, h, 16) +
                d->layers * own_layer_us(s, d, draft_length) +
                head_us(s, batch * draft_length, d->vocab, h, t->head_bits);
    if (d->rank > 0)
        us += draft_length * (gemm(s, batch, d->vocab, d->rank, 16) +
                              2 * small(s, batch * d->vocab * 4));
    return us;
}

double spt_step_draft_us(const spt_step *s, const spt_drafter *d,
                         int draft_length)
{
    if (draft_length <= 0)
        return 0;
    switch (d->method) {
    case SPT_METHOD_EXTERNAL:
        return draft_length * forward_us(s, &d->model, s->context, 0);
    case SPT_METHOD_EAGLE3:
    case SPT_METHOD_MTP:
        return serial_us(s, d, draft_length);
    case SPT_METHOD_DFLASH:
    case SPT_METHOD_DSPARK:
        return block_us(s, d, draft_length);
    default:
        return lookup_us * s->batch;
    }
}

double spt_step_memory_bytes(const spt_step *s, const spt_drafter *d,
                             int draft_length)
{
    const spt_target *t = s->target;
    double rows = (double)s->batch * (1 + draft_length);
    double tokens = s->context + 1 + draft_length;
    double bytes = t->weight_bytes +
                   s->batch * spt_target_sequence_bytes(t, s->kv_bytes, tokens);
    /* A linear state per row that may be kept. */
    if (t->linear_layers)
        bytes += s->batch * draft_length *
                 (spt_target_sequence_bytes(t, s->kv_bytes, 0));
    if (d && draft_length > 0)
        bytes +=
            spt_drafter_weight_bytes(d, t) +
            s->batch * spt_drafter_sequence_bytes(d, t, s->kv_bytes, tokens);
    spt_attention_shape shape = shape_of(s, t, s->context, draft_length);
    int chunk = s->kernels->count ? s->kernels->configs[0].chunk : 512;
    bytes += spt_model_workspace_bytes(&shape, chunk);
    /* Activations of a layer twice, logits in fp32. */
    bytes +=
        rows * (4.0 * (double)(t->hidden + t->ffn) * 2 + (double)t->vocab * 4);
    return bytes + reserve_bytes;
}

bool spt_step_fits(const spt_step *s, double memory_bytes)
{
    return memory_bytes <= s->board->memory_bytes;
}
