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

/* One all-reduce beside its bytes, over NVLink and over PCIe. Assumed: what
   engines' own kernels reach within a node. */
static const double reduce_nvlink_us = 6, reduce_pcie_us = 22;
static const double slowest_nvlink_gbps = 100;

int spt_step_boards(const spt_step *s)
{
    return s->where.boards > 1 ? s->where.boards : 1;
}

int spt_step_stages(const spt_step *s)
{
    return s->where.stages > 1 ? s->where.stages : 1;
}

int spt_deployment_boards(const spt_deployment *w)
{
    return (w->boards > 1 ? w->boards : 1) * (w->stages > 1 ? w->stages : 1);
}

spt_load spt_step_load(const spt_step *s, const spt_drafter *d)
{
    return (spt_load){.serving = s->where.serving,
                      .board = s->board,
                      .target = s->target,
                      .drafter = d,
                      .boards = spt_step_boards(s),
                      .batch = s->batch,
                      .context = s->context,
                      .kv_bytes = s->kv_bytes,
                      .stages = spt_step_stages(s),
                      .link = {.hop_us = s->where.link_us,
                               .gbps = s->where.link_gbps,
                               .reduce_us = s->where.reduce_us}};
}

const char *spt_term_name(spt_term term)
{
    static const char *const names[] = {
#define SPT_TERM(id, name) name,
#include "step_terms.def"
#undef SPT_TERM
    };
    return names[term];
}

static double gemm(const spt_step *s, double rows, double n, double k,
                   double bits)
{
    return spt_model_gemm_us(s->board, rows, n / spt_step_boards(s), k, bits);
}

static double small(const spt_step *s, double bytes)
{
    return spt_model_small_us(s->board, bytes);
}

static spt_attention_shape shape_of(const spt_step *s, const spt_target *t,
                                    double context, int draft_length)
{
    int n = spt_step_boards(s);
    return (spt_attention_shape){
        .batch = s->batch,
        .context = context + 1 + draft_length,
        .q_heads = (int)(t->q_heads / n),
        .kv_heads = (int)(t->kv_heads > n ? t->kv_heads / n : 1),
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

/* The step as a power cap leaves it, speculating or not; board and serving
   are what it then points to. */
static spt_step capped(const spt_step *s, bool speculates, spt_board *board,
                       spt_serving *serving)
{
    spt_step c = *s;
    double share = speculates ? s->where.power.verify : s->where.power.plain;
    if (share <= 0 || share >= 1)
        return c;
    *board = spt_power_board(s->board, share);
    c.board = board;
    if (s->where.serving) {
        *serving = spt_power_serving(s->where.serving, share);
        c.where.serving = serving;
    }
    c.where.power = (spt_power){0};
    return c;
}

spt_attention_best spt_step_attention(const spt_step *step, int draft_length)
{
    spt_board board;
    spt_serving serving;
    spt_step own = capped(step, draft_length > 0, &board, &serving);
    const spt_step *s = &own;
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

/* Where a kernel's time goes to: `layers` times into one term of a sum. */
typedef struct sum {
    const spt_step *step;
    spt_step_terms *terms;
    double layers;
} sum;

static void add(const sum *a, spt_term term, double us)
{
    a->terms->us[term] += a->layers * us;
}

static void add_gemm(const sum *a, spt_term term, double rows, double n,
                     double k, double bits)
{
    add(a, term, gemm(a->step, rows, n, k, bits));
}

static void add_small(const sum *a, double bytes)
{
    add(a, SPT_TERM_SMALL, small(a->step, bytes));
}

double spt_step_total_us(const spt_step_terms *terms)
{
    double us = 0;
    for (int i = 0; i < SPT_TERM_COUNT; i++)
        us += terms->us[i];
    return us;
}

/* Projections around attention for `rows` rows; wide: extra input width. */
static void add_projections(const sum *a, const spt_target *t, double rows,
                            double bits, double wide)
{
    double h = (double)t->hidden, d = (double)t->head_dim;
    double q = (double)t->q_heads * d, kv = 2 * (double)t->kv_heads * d;
    add_gemm(a, SPT_TERM_WEIGHTS, rows, q * (t->output_gate ? 2 : 1) + kv,
             h * wide, bits);
    add_gemm(a, SPT_TERM_WEIGHTS, rows, h, q, bits);
    add_small(a, rows * h * 4); /* norms with the residual */
    add_small(a, rows * h * 4);
    add_small(a, rows * (q + kv + h) * 2); /* rotary and append */
}

static void add_ffn(const sum *a, const spt_target *t, double rows, double bits)
{
    double h = (double)t->hidden, f = (double)t->ffn;
    add_gemm(a, SPT_TERM_WEIGHTS, rows, 2 * f, h, bits);
    add_small(a, rows * 3 * f * 2);
    add_gemm(a, SPT_TERM_WEIGHTS, rows, h, f, bits);
}

/* Routed experts: each touched expert's weights once, its share of rows. */
static void add_moe(const sum *a, const spt_target *t, double rows, double bits)
{
    double h = (double)t->hidden, f = (double)t->expert_ffn;
    double shared = (double)t->shared_ffn;
    double batch = a->step->batch;
    double touched = spt_target_experts_touched(t, batch, rows / batch);
    double per_expert = rows * (double)t->experts_per_token / touched;
    add_gemm(a, SPT_TERM_EXPERTS, rows, (double)t->experts, h, 16);
    add_small(a, rows * h * 2);
    add_small(a, rows * h * 2);
    add_gemm(a, SPT_TERM_EXPERTS, per_expert, 2 * f * touched, h, bits);
    add_gemm(a, SPT_TERM_EXPERTS, per_expert, h * touched, f, bits);
    if (shared > 0) {
        add_gemm(a, SPT_TERM_WEIGHTS, rows, 2 * shared, h, bits);
        add_gemm(a, SPT_TERM_WEIGHTS, rows, h, shared, bits);
    }
}

/* A layer with a state of fixed size: projections, the recurrence over the
   rows in order, reading and writing one state per row that may be kept. */
static void add_linear_layer(const sum *a, const spt_target *t, double rows,
                             double bits)
{
    const spt_board *board = a->step->board;
    double h = (double)t->hidden;
    double v = (double)(t->linear_v_heads * t->linear_v_dim);
    double n = spt_target_linear_params(t) / h - v;
    double state = 4 * v * (double)t->linear_k_dim;
    double bytes = state * (a->step->batch + rows);
    add_gemm(a, SPT_TERM_WEIGHTS, rows, n, h, bits);
    add_gemm(a, SPT_TERM_WEIGHTS, rows, h, v, bits);
    add_small(a, rows * h * 4);
    add_small(a, rows * h * 4);
    add_small(a, rows * v * 6);
    add(a, SPT_TERM_STATE,
        board->launch_us + board->wave_us +
            bytes / (board->dram_gbps * board->dram_efficiency * 1e3));
}

static void add_head(const sum *a, double rows, double vocab, double hidden,
                     double bits)
{
    add_small(a, rows * hidden * 4);
    add_gemm(a, SPT_TERM_HEAD, rows, vocab, hidden, bits);
    add_small(a, rows * vocab * 4);
}

/* GB/s between two boards: as told, else the slower one's link, else PCIe. */
static double link_gbps(const spt_step *s, const spt_board *other)
{
    double gbps = fmin(s->board->link_gbps, other->link_gbps);
    if (s->where.link_gbps > 0)
        return s->where.link_gbps;
    return gbps > 0 ? gbps : 16;
}

/* Two all-reduces of a layer's rows among the boards: there and back. */
static double reduce_us(const spt_step *s, double rows, double hidden)
{
    int n = spt_step_boards(s);
    double link = link_gbps(s, s->board);
    double usual =
        link >= slowest_nvlink_gbps ? reduce_nvlink_us : reduce_pcie_us;
    if (n < 2)
        return 0;
    return 2 * (fmax(usual, s->where.reduce_us) +
                2 * rows * hidden * 2 * (n - 1) / n / (link * 1e3));
}

/* Sequences go through the stages in as many groups as there are stages. */
static int groups_of(const spt_step *s)
{
    int stages = spt_step_stages(s);
    return s->batch < stages ? s->batch : stages;
}

/* The step of one group, on all of its stages one after the other. */
static spt_step group_step(const spt_step *s)
{
    spt_step g = *s;
    g.batch = (s->batch + groups_of(s) - 1) / groups_of(s);
    return g;
}

/* One forward of a model with 1 + draft rows per sequence, head included. */
static void add_forward(const spt_step *s, const spt_target *t, double context,
                        int draft_length, spt_step_terms *terms)
{
    double rows = (double)s->batch * (1 + draft_length);
    double bits = t->layer_bits, mixer_bits = t->attention_bits;
    double window = (double)t->window < context ? (double)t->window : context;
    sum a = {s, terms, 1};
    add_small(&a, rows * (double)t->hidden * 2); /* embedding */
    a.layers = (double)t->full_layers;
    if (t->full_layers)
        add(&a, SPT_TERM_KV, attention_us(s, t, context, draft_length));
    a.layers = (double)t->window_layers;
    if (t->window_layers)
        add(&a, SPT_TERM_KV, attention_us(s, t, window, draft_length));
    a.layers = (double)(t->full_layers + t->window_layers);
    if (a.layers > 0)
        add_projections(&a, t, rows, mixer_bits, 1);
    a.layers = (double)t->linear_layers;
    if (t->linear_layers)
        add_linear_layer(&a, t, rows, mixer_bits);
    a.layers = (double)(t->layers - t->moe_layers);
    if (t->layers > t->moe_layers)
        add_ffn(&a, t, rows, bits);
    a.layers = (double)t->moe_layers;
    if (t->moe_layers)
        add_moe(&a, t, rows, bits);
    a.layers = (double)t->layers;
    add(&a, SPT_TERM_REDUCE, reduce_us(s, rows, (double)t->hidden));
    a.layers = 1;
    add_head(&a, rows, (double)t->vocab, (double)t->hidden, t->head_bits);
}

void spt_step_verify_terms(const spt_step *step, int draft_length,
                           spt_step_terms *terms)
{
    spt_board board;
    spt_serving serving;
    spt_step own = capped(step, draft_length > 0, &board, &serving);
    const spt_step *s = &own;
    *terms = (spt_step_terms){0};
    spt_load l = spt_step_load(s, NULL);
    if (s->where.serving) {
        /* What a drafter costs beside its drafts is booked there. */
        spt_serving_verify_terms(&l, draft_length, terms);
        return;
    }
    spt_step group = group_step(s);
    add_forward(&group, s->target, s->context, draft_length, terms);
    if (draft_length)
        terms->us[SPT_TERM_SMALL] +=
            small(s, (double)group.batch * draft_length);
    terms->us[SPT_TERM_HOP] +=
        spt_load_hops_us(&l, (double)group.batch * (1 + draft_length));
    terms->us[SPT_TERM_HOST] += host_us;
}

double spt_step_verify_us(const spt_step *step, int draft_length,
                          const char **evidence)
{
    spt_step_terms terms;
    *evidence = "modelled";
    spt_step_verify_terms(step, draft_length, &terms);
    return spt_step_total_us(&terms);
}

double spt_step_target_us(const spt_step *s, const char **evidence)
{
    return spt_step_verify_us(s, 0, evidence);
}

/* Chains and trees alike: one row first, then top_k at each depth. */
static double external_us(const spt_step *s, const spt_drafter *d,
                          const spt_draft_tree *tree)
{
    spt_step_terms first = {0}, rest = {0};
    add_forward(s, &d->model, s->context, 0, &first);
    add_forward(s, &d->model, s->context, tree->top_k - 1, &rest);
    return spt_step_total_us(&first) +
           (tree->depth - 1) * spt_step_total_us(&rest);
}

/* A drafter's own layer for 1 + draft rows. */
static void add_own_layer(const sum *a, const spt_drafter *d, int draft_length)
{
    const spt_target *t = spt_drafter_layer(d, a->step->target);
    double rows = (double)a->step->batch * (1 + draft_length);
    bool eagle = d->method == SPT_METHOD_EAGLE3;
    double bits = d->method == SPT_METHOD_MTP ? t->layer_bits : 16;
    add_projections(a, t, rows, bits, eagle ? 2 : 1);
    add(a, SPT_TERM_KV,
        attention_us(a->step, t, a->step->context, draft_length));
    if (t->moe_layers)
        add_moe(a, t, rows, bits);
    else
        add_ffn(a, t, rows, bits);
}

/* EAGLE-3 and MTP: the verified rows first, then top_k rows per draft. */
static double serial_us(const spt_step *s, const spt_drafter *d,
                        const spt_draft_tree *tree)
{
    spt_step_terms terms = {0};
    bool mtp = d->method == SPT_METHOD_MTP;
    double h = (double)s->target->hidden, batch = s->batch;
    double rows = batch * tree->top_k;
    double bits = mtp ? s->target->layer_bits : 16;
    double head_bits = mtp ? s->target->head_bits : 16;
    sum a = {s, &terms, 1};
    add_gemm(&a, SPT_TERM_WEIGHTS, batch * (1 + tree->depth), h, d->taps * h,
             bits);
    add_own_layer(&a, d, tree->depth);
    add_head(&a, batch, d->vocab, h, head_bits);
    a.layers = tree->depth - 1;
    if (mtp)
        add_gemm(&a, SPT_TERM_WEIGHTS, rows, h, d->taps * h, bits);
    add_own_layer(&a, d, tree->top_k - 1);
    add_head(&a, rows, d->vocab, h, head_bits);
    return spt_step_total_us(&terms);
}

/* DFlash and DSpark: one pass over the block, whose marginals make a tree as
   well as a chain; DSpark's head then goes token by token. */
static double block_us(const spt_step *s, const spt_drafter *d,
                       const spt_draft_tree *tree)
{
    int draft_length = tree->depth;
    const spt_target *t = s->target;
    spt_step_terms terms = {0};
    double h = (double)t->hidden, batch = s->batch;
    double rows = batch * (1 + draft_length);
    double kv = spt_target_kv_bytes(spt_drafter_layer(d, t), 1);
    sum a = {s, &terms, 1};
    add_gemm(&a, SPT_TERM_WEIGHTS, rows, h, d->taps * h, 16);
    add_gemm(&a, SPT_TERM_WEIGHTS, rows, d->layers * kv, h, 16);
    add_head(&a, batch * draft_length, d->vocab, h, t->head_bits);
    a.layers = d->layers;
    add_own_layer(&a, d, draft_length);
    a.layers = draft_length;
    if (d->rank > 0) {
        add_gemm(&a, SPT_TERM_HEAD, batch, d->vocab, d->rank, 16);
        add_small(&a, batch * d->vocab * 4);
        add_small(&a, batch * d->vocab * 4);
    }
    return spt_step_total_us(&terms);
}

/* Drafting, and what its presence costs beyond a forward of the target. */
static double serving_draft_us(const spt_step *s, const spt_drafter *d,
                               const spt_draft_tree *tree)
{
    spt_load with = spt_step_load(s, d), without = spt_step_load(s, NULL);
    return spt_serving_tree_us(&with, tree) -
           spt_serving_tree_us(&without, tree);
}

static double draft_us(const spt_step *s, const spt_drafter *d,
                       const spt_draft_tree *tree)
{
    if (s->where.serving)
        return serving_draft_us(s, d, tree);
    switch (d->method) {
    case SPT_METHOD_EXTERNAL:
        return external_us(s, d, tree);
    case SPT_METHOD_EAGLE3:
    case SPT_METHOD_MTP:
        return serial_us(s, d, tree);
    case SPT_METHOD_DFLASH:
    case SPT_METHOD_DSPARK:
        return block_us(s, d, tree);
    default:
        return SPT_LOOKUP_US * s->batch;
    }
}

/*
 * The last stage drafts for one group after the other, and verifies its share
 * of the layers between; what that adds to a group's way through all stages.
 */
static double staged_draft_us(const spt_step *s, const spt_drafter *d,
                              const spt_draft_tree *tree)
{
    const char *evidence;
    spt_step group = group_step(s);
    double draft = draft_us(&group, d, tree);
    double verify = spt_step_verify_us(s, tree->nodes, &evidence);
    double last = groups_of(s) * (verify / spt_step_stages(s) + draft);
    return fmax(draft, last - verify);
}

/* Tokens and the target's features to the drafter's board, drafts back. */
static double link_us(const spt_step *s, const spt_drafter *d, int depth)
{
    double rows = (double)s->batch * (1 + depth);
    double bytes = rows * (4 + d->taps * (double)s->target->hidden * 2);
    return 2 * s->where.link_us +
           bytes / (link_gbps(s, s->where.draft_board) * 1e3);
}

double spt_step_tree_draft_us(const spt_step *step, const spt_drafter *d,
                              const spt_draft_tree *tree)
{
    spt_board board;
    spt_serving serving;
    spt_step own = capped(step, true, &board, &serving);
    const spt_step *s = &own;
    if (tree->depth <= 0)
        return 0;
    if (!s->where.draft_board && !s->where.serving && groups_of(s) > 1)
        return staged_draft_us(s, d, tree);
    if (!s->where.draft_board || d->method == SPT_METHOD_NGRAM)
        return draft_us(s, d, tree);
    spt_step there = *s;
    there.board = s->where.draft_board;
    if (s->where.draft_kernels)
        there.kernels = s->where.draft_kernels;
    there.where = (spt_deployment){.serving = s->where.serving};
    return draft_us(&there, d, tree) + link_us(s, d, tree->depth);
}

double spt_step_draft_us(const spt_step *step, const spt_drafter *d,
                         int draft_length)
{
    spt_draft_tree chain = spt_draft_chain(draft_length);
    return spt_step_tree_draft_us(step, d, &chain);
}

double spt_step_tree_verify_us(const spt_step *s, const spt_draft_tree *tree)
{
    const char *evidence;
    const spt_target *t = s->target;
    /* One kernel reads and writes K and V of the path in every layer. */
    double moved = 2.0 * s->batch * tree->depth *
                   spt_target_kv_bytes(t, s->kv_bytes) *
                   (double)(t->full_layers + t->window_layers);
    return spt_step_verify_us(s, tree->nodes, &evidence) + small(s, moved);
}
