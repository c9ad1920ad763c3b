/*
 * Steps of serving engines from few constants.
 *
 * A forward reads its weights and the KV once and computes each row: narrow
 * kernels (llama.cpp's vector kernels) in SM cycles per weight and row, wide
 * ones by weight whatever the rows, GEMMs of 16-bit engines at a share of the
 * matrix rate. Memory and arithmetic overlap in part:
 *   (memory^p + arithmetic^p)^(1/p).
 * On top come launches and small kernels by layer, all-reduces, and the host.
 * What a mixture of experts reads grows with its rows.
 */
#include <math.h>
#include <string.h>

#include "serving.h"

/* Share of the memory that weights may take before they go to the host. */
static const double weights_share = 0.92;

/* Rejections, of the steps in which an engine restores a state. Assumed. */
static const double rejection = 0.7;

enum { ROW_STEP = 8 };

/* What a forward does, summed before memory and arithmetic overlap. */
typedef struct work {
    double bytes; /* of weights, read once */
    double kv; /* other bytes */
    double cycles; /* of all SMs */
    double flop; /* on the matrix unit */
} work;

static bool is_fp4(const spt_target *t)
{
    return t->weights[0] && (strcmp(t->weights, "nvfp4") == 0 ||
                             strcmp(t->weights, "mxfp4") == 0);
}

/* Dense weights times rows. */
static void add_weights(work *w, const spt_load *l, double params, double bits,
                        double rows)
{
    const spt_serving *e = l->serving;
    double fp4 = is_fp4(l->target) && bits < 6 ? e->fp4_factor : 1;
    double eights = ceil(rows / ROW_STEP) * ROW_STEP;
    w->bytes += params * bits / 8;
    if (e->narrow_rows > 0 && bits < 16 && rows > e->narrow_rows)
        w->cycles += fp4 * params / 1000 *
                     (e->wide_cycles + e->wide_row_cycles * eights);
    else if (e->narrow_rows > 0 && rows <= e->narrow_rows)
        w->cycles += fp4 * params / 1000 * rows *
                     (bits < 16 ? e->narrow_cycles : e->narrow_16bit_cycles);
    else
        w->flop += 2 * params * rows;
}

/* Routed experts of so many layers: those that the rows touch, each row
   through its own few. */
static void add_experts(work *w, const spt_load *l, const spt_target *t,
                        double layers, double running, double rows)
{
    const spt_serving *e = l->serving;
    double one = spt_target_expert_params(t) * layers;
    double touched =
        spt_target_experts_touched(t, running, rows / running) * one;
    double used = rows * (double)t->experts_per_token * one;
    w->bytes += touched * t->layer_bits / 8;
    if (e->narrow_rows > 0 && rows <= e->narrow_rows)
        w->cycles += used / 1000 * e->narrow_expert_cycles;
    else if (e->narrow_rows > 0)
        w->cycles += touched / 1000 * e->wide_expert_cycles +
                     used / 1000 * e->wide_row_cycles;
    else
        w->flop += 2 * fmax(used, touched * ROW_STEP);
}

/* KV of the context, linear states, and attention's own arithmetic. */
static void add_context(work *w, const spt_load *l, const spt_target *t,
                        int boards, double running, double rows)
{
    double window = fmin((double)t->window, l->context);
    double kv = spt_target_shared_bytes(t, l->kv_bytes, l->context, boards);
    double fixed = spt_target_sequence_bytes(t, l->kv_bytes, 0);
    w->kv += running * (kv - fixed) + fixed * (running + rows);
    w->flop += 4 * rows * (double)(t->q_heads * t->head_dim) *
               ((double)t->full_layers * l->context +
                (double)t->window_layers * window);
}

static int stages_of(const spt_load *l)
{
    return l->stages > 1 ? l->stages : 1;
}

static int all_boards(const spt_load *l)
{
    return l->boards * stages_of(l);
}

static double link_gbps(const spt_load *l)
{
    if (l->link.gbps > 0)
        return l->link.gbps;
    return l->board->link_gbps > 0 ? l->board->link_gbps : 16;
}

/* Parts of a batch that are under way on the stages at once. */
static double parts_of(const spt_load *l, double running)
{
    bool parts = l->serving->micro_batches > 0;
    return parts ? fmin(stages_of(l), running) : 1;
}

double spt_load_hops_us(const spt_load *l, double rows)
{
    int stages = stages_of(l);
    double bytes = rows * (double)l->target->hidden * 2;
    if (stages < 2)
        return 0;
    return stages * l->link.hop_us +
           (stages - 1) * bytes / (link_gbps(l) * 1e3);
}

/* Share of the target's weights that the boards' memory does not hold. */
static double away(const spt_load *l)
{
    double room = l->board->memory_bytes * all_boards(l) * weights_share;
    return 1 - fmin(1, room / l->target->weight_bytes);
}

/* host: share of the weights that is read from there. */
static double reading_us(const work *w, const spt_load *l, int boards,
                         double host)
{
    const spt_serving *e = l->serving;
    double dram = l->board->dram_gbps * e->memory_share * 1e3 * boards;
    return w->bytes * ((1 - host) / dram + host / (e->host_gbps * 1e3)) +
           w->kv / dram;
}

static double arithmetic_us(const work *w, const spt_load *l, int boards)
{
    const spt_board *b = l->board;
    return w->cycles / (b->sm_count * b->clock_mhz * boards) +
           w->flop / (b->bf16_tflops * l->serving->matrix_share * 1e6 * boards);
}

static double work_us(const work *w, const spt_load *l, int boards, double host)
{
    double p = l->serving->overlap;
    return pow(pow(reading_us(w, l, boards, host), p) +
                   pow(arithmetic_us(w, l, boards), p),
               1 / p);
}

/* Two all-reduces of a layer: latency, and each board's share of the bytes
   there and back. */
static double reduce_us(const spt_load *l, int boards, double rows,
                        double hidden)
{
    if (boards < 2)
        return 0;
    double bytes = 2 * rows * hidden * 2;
    return fmax(l->serving->reduce_us, 2 * l->link.reduce_us) +
           2 * bytes * (boards - 1) / boards / (link_gbps(l) * 1e3);
}

/* A forward's reading and arithmetic by what it is for: KV holds linear
   states too. */
typedef struct forward_work {
    work of[SPT_TERM_COUNT];
} forward_work;

static void add_model(forward_work *f, const spt_load *l, const spt_target *t,
                      int boards, double running, double rows)
{
    add_weights(&f->of[SPT_TERM_WEIGHTS], l, spt_target_mixer_params(t),
                t->attention_bits, rows);
    add_weights(&f->of[SPT_TERM_WEIGHTS], l, spt_target_dense_params(t),
                t->experts ? t->attention_bits : t->layer_bits, rows);
    add_weights(&f->of[SPT_TERM_HEAD], l, (double)t->vocab * (double)t->hidden,
                t->head_bits, rows);
    if (t->experts)
        add_experts(&f->of[SPT_TERM_EXPERTS], l, t, (double)t->moe_layers,
                    running, rows);
    add_context(&f->of[SPT_TERM_KV], l, t, boards, running, rows);
}

/* A forward of target or draft model, by terms; layer_us: of its engine's
   layers. */
static void forward_terms(const spt_load *l, const spt_target *t, int boards,
                          double running, double rows, double layer_us,
                          spt_step_terms *terms)
{
    forward_work f = {0};
    work all = {0};
    double host = t == l->target ? away(l) : 0;
    add_model(&f, l, t, boards, running, rows);
    for (int i = 0; i < SPT_TERM_COUNT; i++) {
        all.bytes += f.of[i].bytes;
        all.kv += f.of[i].kv;
        all.cycles += f.of[i].cycles;
        all.flop += f.of[i].flop;
    }
    double arithmetic = arithmetic_us(&all, l, boards);
    double more =
        work_us(&all, l, boards, host) - reading_us(&all, l, boards, host);
    double share = arithmetic > 0 ? more / arithmetic : 0;
    for (int i = 0; i < SPT_TERM_COUNT; i++)
        terms->us[i] += reading_us(&f.of[i], l, boards, host) +
                        share * arithmetic_us(&f.of[i], l, boards);
    terms->us[SPT_TERM_SMALL] += (double)t->layers * layer_us;
    terms->us[SPT_TERM_EXPERTS] +=
        (double)t->moe_layers * l->serving->expert_layer_us;
    terms->us[SPT_TERM_REDUCE] +=
        (double)t->layers * reduce_us(l, boards, rows, (double)t->hidden);
}

static double forward_us(const spt_load *l, const spt_target *t, int boards,
                         double running, double rows, double layer_us)
{
    spt_step_terms terms = {0};
    forward_terms(l, t, boards, running, rows, layer_us, &terms);
    return spt_step_total_us(&terms);
}

static void verify_terms(const spt_load *l, double running, int draft_length,
                         spt_step_terms *terms)
{
    const spt_serving *e = l->serving;
    double rows = running * (1 + draft_length);
    double parts = parts_of(l, running);
    *terms = (spt_step_terms){0};
    forward_terms(l, l->target, l->boards, running / parts, rows / parts,
                  e->layer_us, terms);
    terms->us[SPT_TERM_HOP] += spt_load_hops_us(l, rows / parts);
    terms->us[SPT_TERM_HOST] += e->step_us;
    if (!draft_length)
        return;
    terms->us[SPT_TERM_HOST] += e->speculation_us + e->sequence_us * running;
    terms->us[SPT_TERM_SMALL] +=
        e->row_us * rows * (double)l->target->vocab / 150000;
}

double spt_serving_verify_us(const spt_load *l, double running,
                             int draft_length)
{
    spt_step_terms terms;
    verify_terms(l, running, draft_length, &terms);
    return spt_step_total_us(&terms);
}

/* One pass of an EAGLE-3 or MTP drafter: a layer and a head. */
static double pass_us(const spt_load *l, double running, double rows)
{
    const spt_serving *e = l->serving;
    const spt_drafter *d = l->drafter;
    const spt_target *t = l->target;
    bool mtp = d->method == SPT_METHOD_MTP;
    double h = (double)t->hidden;
    double params = spt_drafter_layer_params(d, t) + d->taps * h * h;
    work w = {0};
    if (mtp && t->moe_layers) {
        /* Rows share what is not routed; experts they do not. */
        params -= (double)t->experts_per_token * spt_target_expert_params(t);
        add_experts(&w, l, t, 1, running, rows);
    }
    add_weights(&w, l, params, mtp ? t->layer_bits : e->draft_bits, rows);
    add_weights(&w, l, d->vocab * h, mtp ? t->head_bits : e->draft_bits, rows);
    w.kv += running * spt_drafter_sequence_bytes(d, t, l->kv_bytes, l->context,
                                                 l->boards);
    return work_us(&w, l, l->boards, mtp ? away(l) : 0) + e->draft_us +
           reduce_us(l, l->boards, rows, h);
}

/* A pass of a smaller model. */
static double model_us(const spt_load *l, double running, double rows)
{
    return forward_us(l, &l->drafter->model, 1, running, rows,
                      l->serving->draft_layer_us) +
           l->serving->draft_us;
}

/* A pass for each depth: one row of a sequence first, then top_k. */
static double
passes_us(const spt_load *l, double running, const spt_draft_tree *tree,
          double (*pass)(const spt_load *l, double running, double rows))
{
    return pass(l, running, running) +
           (tree->depth - 1) * pass(l, running, running * tree->top_k);
}

/* DFlash and DSpark: one pass over the block; DSpark's head token by token. */
static double block_us(const spt_load *l, double running, int draft_length)
{
    const spt_serving *e = l->serving;
    const spt_drafter *d = l->drafter;
    const spt_target *t = l->target;
    double h = (double)t->hidden, rows = running * (1 + draft_length);
    work w = {0}, rank = {0};
    add_weights(&w, l,
                d->layers * spt_drafter_layer_params(d, t) + d->taps * h * h,
                e->draft_bits, rows);
    add_weights(&w, l, d->vocab * h, t->head_bits, rows);
    w.kv += running * spt_drafter_sequence_bytes(d, t, l->kv_bytes, l->context,
                                                 l->boards);
    add_weights(&rank, l, d->rank * d->vocab, 16, running);
    double serial = d->rank > 0 ? work_us(&rank, l, 1, 0) + e->layer_us : 0;
    return work_us(&w, l, l->boards, 0) + e->block_us +
           d->layers * e->layer_us + draft_length * serial;
}

double spt_serving_draft_us(const spt_load *l, double running,
                            const spt_draft_tree *tree)
{
    if (!l->drafter || tree->depth <= 0)
        return 0;
    switch (l->drafter->method) {
    case SPT_METHOD_EXTERNAL:
        return passes_us(l, running, tree, model_us);
    case SPT_METHOD_EAGLE3:
    case SPT_METHOD_MTP:
        return passes_us(l, running, tree, pass_us);
    case SPT_METHOD_DFLASH:
    case SPT_METHOD_DSPARK:
        return block_us(l, running, tree->depth);
    default:
        return SPT_LOOKUP_US * running;
    }
}

double spt_serving_restore_us(const spt_load *l, double running,
                              int draft_length)
{
    const spt_serving *e = l->serving;
    if (e->restore_gbps <= 0 || !l->target->linear_layers || !l->drafter ||
        l->drafter->method != SPT_METHOD_EXTERNAL || !draft_length)
        return 0;
    double states = running * spt_target_sequence_bytes(l->target, 1, 0);
    return 2 * states / (e->restore_gbps * 1e3) +
           rejection * (forward_us(l, l->target, l->boards, running,
                                   2 * running, e->layer_us) +
                        e->step_us);
}

double spt_serving_room(const spt_load *l, int draft_length)
{
    const spt_serving *e = l->serving;
    const spt_drafter *d = draft_length ? l->drafter : NULL;
    if (e->memory_use <= 0)
        return INFINITY;
    double sequence =
        spt_target_shared_bytes(l->target, l->kv_bytes, l->context, l->boards);
    double room =
        (l->board->memory_bytes * e->memory_use - e->reserve_gb * 1e9) *
            all_boards(l) -
        l->target->weight_bytes;
    if (d) {
        room -= spt_drafter_weight_bytes(d, l->target);
        sequence += spt_drafter_sequence_bytes(
            d, l->target, l->kv_bytes, l->context,
            d->method == SPT_METHOD_EXTERNAL ? 1 : l->boards);
    }
    return room / sequence;
}

double spt_serving_running(const spt_load *l, int draft_length)
{
    return fmin(l->batch, fmax(1, spt_serving_room(l, draft_length)));
}

/* Speculation may go by fewer sequences than plain decoding does. */
static double group_of(const spt_load *l, int nodes)
{
    double running = spt_serving_running(l, nodes);
    double together = l->serving->together;
    return nodes && together > 0 ? fmin(together, running) : running;
}

void spt_serving_verify_terms(const spt_load *l, int draft_length,
                              spt_step_terms *terms)
{
    double group = group_of(l, draft_length);
    verify_terms(l, group, draft_length, terms);
    for (int i = 0; i < SPT_TERM_COUNT; i++)
        terms->us[i] *= l->batch / group;
}

double spt_serving_tree_us(const spt_load *l, const spt_draft_tree *tree)
{
    double group = group_of(l, tree->nodes), parts = parts_of(l, group);
    double draft = spt_serving_draft_us(l, group / parts, tree);
    double verify = spt_serving_verify_us(l, group, tree->nodes);
    /* Of the stages the last also drafts, for one part after the other. */
    double last = parts * (verify / stages_of(l) + draft);
    return l->batch / group *
           (fmax(draft + verify, last) +
            spt_serving_restore_us(l, group, tree->depth));
}

double spt_serving_step_us(const spt_load *l, int draft_length)
{
    spt_draft_tree chain = spt_draft_chain(draft_length);
    return spt_serving_tree_us(l, &chain);
}
