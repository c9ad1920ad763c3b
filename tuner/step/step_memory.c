/*
 * Memory of a step, and reading a prompt.
 */
#include <math.h>
#include <stdio.h>

#include "step.h"

/* CUDA context, code and graphs of one board. Assumed; engines say theirs. */
static double reserve_bytes(const spt_step *s)
{
    return s->where.serving ? s->where.serving->reserve_gb * 1e9
                            : 768.0 * 1024 * 1024;
}

/* Share of the matrix rate that reading a prompt reaches. Assumed. */
static const double prefill_share = 0.6;

static double drafter_bytes(const spt_step *s, const spt_drafter *d,
                            double tokens)
{
    return spt_drafter_weight_bytes(d, s->target) +
           s->batch *
               spt_drafter_sequence_bytes(d, s->target, s->kv_bytes, tokens, 1);
}

/* Boards that share the drafter: engines keep a smaller model on one. */
static int draft_boards(const spt_step *s, const spt_drafter *d)
{
    bool alone = s->where.serving && d->method == SPT_METHOD_EXTERNAL;
    return alone ? 1 : spt_step_boards(s);
}

static spt_load load_here(const spt_step *s, const spt_drafter *d)
{
    return spt_step_load(s, s->where.draft_board ? NULL : d);
}

double spt_step_running(const spt_step *s, const spt_drafter *d,
                        int draft_length)
{
    if (!s->where.serving)
        return s->batch;
    spt_load l = load_here(s, d);
    return spt_serving_running(&l, draft_length);
}

/* Partial results of attention, activations of a layer twice, logits in
   fp32; and what lies beside a step. */
static double rest_bytes(const spt_step *s, double rows, int draft_length)
{
    const spt_target *t = s->target;
    spt_attention_shape shape = {.batch = s->batch,
                                 .context = s->context + 1 + draft_length,
                                 .q_heads = (int)t->q_heads,
                                 .head_dim = (int)t->head_dim,
                                 .draft_length = draft_length};
    bool known = s->kernels && s->kernels->count;
    return spt_model_workspace_bytes(
               &shape, known ? s->kernels->configs[0].chunk : 512) +
           rows *
               (4.0 * (double)(t->hidden + t->ffn) * 2 + (double)t->vocab * 4) +
           reserve_bytes(s) * spt_deployment_boards(&s->where);
}

spt_footprint spt_step_footprint(const spt_step *s, const spt_drafter *d,
                                 int draft_length)
{
    const spt_target *t = s->target;
    double batch = spt_step_running(s, d, draft_length);
    int boards = spt_step_boards(s);
    double tokens = s->context + 1 + draft_length;
    spt_footprint m = {
        .target = t->weight_bytes,
        .kv = batch * spt_target_shared_bytes(t, s->kv_bytes, tokens, boards),
        .rest = rest_bytes(s, batch * (1 + draft_length), draft_length)};
    /* A linear state per row that may be kept. */
    if (t->linear_layers)
        m.states =
            batch * draft_length * spt_target_sequence_bytes(t, s->kv_bytes, 0);
    if (d && draft_length > 0 && !s->where.draft_board) {
        m.drafter = spt_drafter_weight_bytes(d, t);
        m.draft_kv = batch * spt_drafter_sequence_bytes(
                                 d, t, s->kv_bytes, tokens, draft_boards(s, d));
    }
    return m;
}

double spt_step_memory_bytes(const spt_step *s, const spt_drafter *d,
                             int draft_length)
{
    spt_footprint m = spt_step_footprint(s, d, draft_length);
    double bytes = 0;
#define SPT_MEMORY_PART(field, name) bytes += m.field;
#include "memory_parts.def"
#undef SPT_MEMORY_PART
    return bytes;
}

bool spt_step_fits(const spt_step *s, const spt_drafter *d, int draft_length,
                   double memory_bytes)
{
    const spt_board *other = s->where.draft_board;
    bool there = !other || !d ||
                 drafter_bytes(s, d, s->context) + reserve_bytes(s) <=
                     other->memory_bytes;
    if (s->where.serving) {
        spt_load l = load_here(s, d);
        there = there && spt_serving_room(&l, draft_length) >= 1;
    }
    return there && memory_bytes <= s->board->memory_bytes *
                                        spt_deployment_boards(&s->where);
}

const char *spt_step_room_text(const spt_step *s, double memory_bytes,
                               char *text, size_t size)
{
    const spt_serving *e = s->where.serving;
    bool share = e && e->memory_use > 0;
    double bytes = s->board->memory_bytes * spt_deployment_boards(&s->where) *
                   (share ? e->memory_use : 1);
    snprintf(text, size, "%.1f of %s%s%.1f GB", memory_bytes / 1e9,
             share ? e->name : "", share ? "'s " : "", bytes / 1e9);
    return text;
}

/* Matrix work of a prompt: weights times tokens, and attention's triangle. */
static double prefill_us(const spt_board *board, int boards, double params,
                         double heads_dim, double layers, double tokens)
{
    double flop =
        2 * params * tokens + 2 * heads_dim * layers * tokens * tokens;
    return flop / (board->bf16_tflops * prefill_share * 1e6 * boards);
}

/* Weights that a token goes through, the head left out. */
static double active_params(const spt_target *t)
{
    return spt_target_mixer_params(t) + spt_target_dense_params(t) +
           (double)(t->moe_layers * t->experts_per_token) *
               spt_target_expert_params(t);
}

static double target_prefill_us(const spt_step *s, const spt_target *t,
                                const spt_board *board, int boards)
{
    return prefill_us(board, boards, active_params(t),
                      (double)(t->q_heads * t->head_dim),
                      (double)t->full_layers, s->context);
}

double spt_step_prefill_us(const spt_step *s)
{
    return target_prefill_us(s, s->target, s->board, spt_step_boards(s));
}

double spt_step_draft_prefill_us(const spt_step *s, const spt_drafter *d)
{
    const spt_target *t = s->target;
    const spt_board *other = s->where.draft_board;
    const spt_board *board = other ? other : s->board;
    int boards = other ? 1 : spt_step_boards(s);
    const spt_target *layer = spt_drafter_layer(d, t);
    double h = (double)t->hidden;
    switch (d->method) {
    case SPT_METHOD_EXTERNAL:
        return target_prefill_us(s, &d->model, board, boards);
    case SPT_METHOD_EAGLE3:
    case SPT_METHOD_MTP:
        return prefill_us(
            board, boards, spt_drafter_layer_params(d, t) + d->taps * h * h,
            (double)(layer->q_heads * layer->head_dim), 1, s->context);
    case SPT_METHOD_DFLASH:
    case SPT_METHOD_DSPARK:
        /* Only features and the layers' K and V of the context. */
        return prefill_us(board, boards,
                          d->taps * h * h +
                              d->layers * h * spt_target_kv_bytes(layer, 1),
                          0, 0, s->context);
    default:
        return 0;
    }
}
