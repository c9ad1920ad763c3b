/*
 * Times of our kernels, from facts and from what measured kernels reach.
 *
 * Attention. One CTA takes the rows of a row group of one KV head over one
 * chunk of positions. CTAs run in waves of (SMs * CTAs per SM). A wave costs
 * its fixed time, then its KV steps beside the KV traffic (model_waves.h); a
 * step takes the longest of
 *   latency  the pipeline holds stages - 1 steps, each of which must arrive,
 *            and one step's own chain of matrix, softmax and matrix work;
 *   stream   the KV of all CTAs of the SM through its port;
 *   matrix   whole 8-row tiles at the rate of mma.sync;
 *   issue    warp instructions of the CTAs that share the SM;
 *   shared   K and V through shared memory once per row warp.
 * The KV comes from DRAM once; row groups beyond the first read it again,
 * from L2. Partial results and combine come on top.
 *
 * GEMM. Output tiles of (rows, columns) with k in up to 8 splits; each tile
 * shape has its waves, whose CTAs take the longest of operand stream and
 * matrix unit plus the chain of their k steps; the best shape counts. Weights
 * come from DRAM once.
 */
#include "model.h"

#include <math.h>
#include <stdbool.h>

#include "model_waves.h"
#include "occupancy.h"

enum {
    ISSUE_PER_CYCLE = 4, /* warp instructions of an SM */
    SHARED_BYTES_PER_CYCLE = 128,
    ROW_STEP = 8,
    MAX_TILE_ROWS = 128,
    K_STEP = 64, /* of a linear's chain */
    /* A step's dependent chain: two mma, the row maximum over four lanes and
       the warps, exp, barriers. */
    CHAIN_CYCLES = 350,
};

/* Kernels of our own never stream faster than this share of the data sheet. */
static const double dram_limit = 0.97;

static double max2(double a, double b)
{
    return a > b ? a : b;
}

static double min2(double a, double b)
{
    return a < b ? a : b;
}

static double ceil_div(double a, double b)
{
    return ceil(a / b);
}

/* FLOP per microsecond and SM of mma.sync inside a real loop. */
static double matrix_rate(const spt_board *b)
{
    return b->bf16_tflops * b->mma_sync_fraction * b->time.linear_matrix * 1e6 /
           b->sm_count;
}

/* Loaded latency of DRAM: twice the idle one, when the memory is busy. */
static double loaded_latency_us(const spt_board *b)
{
    return 2 * b->dram_latency_ns * 1e-3;
}

typedef struct step_cost {
    double latency_us; /* of one CTA alone */
    double share_us; /* of the SM, per resident CTA */
} step_cost;

/* One KV step of one CTA. */
static step_cost kv_step_cost(const spt_board *b, const spt_attention_shape *s,
                              const spt_attention_config *c)
{
    double rows = ceil_div(c->rows, ROW_STEP) * ROW_STEP;
    double flop = 4 * rows * s->head_dim * c->kv_step;
    double bytes = 2.0 * c->kv_step * s->head_dim * s->element_bytes;
    /* mma.m16n8k16 does 4096 FLOP; softmax takes about 12 instructions per
       score, copies 16 bytes per lane, ldmatrix 512 bytes per instruction. */
    double instructions = flop / 4096 + rows * c->kv_step * 12 / 32 +
                          bytes / 512 * 3 + bytes * c->row_warps / 512 * 2;
    double cycle_us = 1 / b->clock_mhz;
    step_cost cost = {0};
    double matrix = flop / matrix_rate(b);
    double issue = instructions / ISSUE_PER_CYCLE * cycle_us;
    double shared =
        bytes * (1 + c->row_warps) / SHARED_BYTES_PER_CYCLE * cycle_us;
    double stream = bytes / (b->time.attend_stream * spt_port_rate(b));
    cost.share_us = max2(max2(matrix, stream), max2(issue, shared));
    double arrive = loaded_latency_us(b) / max2(1, c->stages - 1);
    cost.latency_us = max2(arrive, CHAIN_CYCLES * cycle_us + matrix);
    return cost;
}

static double combine_us(const spt_board *b, const spt_attention_shape *s,
                         double chunks)
{
    double rows = (double)s->batch * s->q_heads * (1 + s->draft_length);
    double bytes = rows * chunks * (s->head_dim + 2) * 4;
    double slots = (double)b->sm_count * 8;
    return b->launch_us + 2 * b->l2_latency_ns * 1e-3 +
           ceil_div(chunks, 4) * b->l2_latency_ns * 0.25e-3 +
           bytes / (b->l2_gbps * 1e3) + ceil_div(rows, slots) * 0.2;
}

double spt_model_attention_us(const spt_board *b, const spt_attention_shape *s,
                              const spt_attention_config *c)
{
    int per_sm = spt_occupancy(b, c->threads, c->registers, c->shared_bytes);
    if (per_sm < 1)
        return INFINITY;
    double group = (double)s->q_heads / s->kv_heads;
    double groups = ceil_div(group * (1 + s->draft_length), c->rows);
    double chunks = max2(1, ceil_div(s->context, c->chunk));
    double steps = ceil_div(min2(s->context, c->chunk), c->kv_step);
    double kv = 2.0 * s->batch * s->kv_heads * s->context * s->head_dim *
                s->element_bytes;
    double dram = b->dram_gbps * min2(b->time.attend_dram, dram_limit) * 1e3;

    step_cost cost = kv_step_cost(b, s, c);
    spt_waves w = {
        .ctas = (double)s->batch * s->kv_heads * groups * chunks,
        .slots = (double)b->sm_count * per_sm,
        .fixed_us = b->time.attend_wave * b->wave_us,
        .memory_us = kv / dram + kv * (groups - 1) / (b->l2_gbps * 1e3),
    };
    double rest = w.ctas - floor(w.ctas / w.slots) * w.slots;
    w.full_us = steps * max2(cost.latency_us, cost.share_us * per_sm);
    w.rest_us = steps * max2(cost.latency_us,
                             cost.share_us * ceil_div(rest, b->sm_count));
    return b->launch_us + b->dram_latency_ns * 1e-3 + spt_waves_us(&w) +
           combine_us(b, s, chunks);
}

double spt_model_workspace_bytes(const spt_attention_shape *s, int chunk)
{
    double rows = (double)s->batch * s->q_heads * (1 + s->draft_length);
    return rows * max2(1, ceil_div(s->context, chunk)) * (s->head_dim + 2) * 4;
}

typedef struct gemm {
    double m, n, k, weight_bits;
    double memory_us, matrix_share; /* of bf16_tflops */
    bool own; /* our kernel: mma.sync, block formats decoded in registers */
} gemm;

/* Warp instructions of an own kernel's tile: matrix and operand loads, and
   about one per two weights for decoding a block format. */
static double issue_us(const spt_board *b, const gemm *g, double rows,
                       double columns, double k)
{
    double weights = columns * k;
    double instructions = 2 * rows * weights / 4096 * 1.5 + weights / 256 +
                          (g->weight_bits < 16 ? weights / 64 : 0);
    return instructions / (ISSUE_PER_CYCLE * b->clock_mhz);
}

/* One shape of output tiles. */
static double tiles_us(const spt_board *b, const gemm *g, double rows,
                       double columns, double splits)
{
    const spt_time_constants *t = &b->time;
    double k = ceil_div(g->k / splits, K_STEP) * K_STEP;
    double bytes = k * (rows * 2 + columns * g->weight_bits / 8);
    double stream = bytes / (t->linear_stream * spt_port_rate(b));
    double matrix = 2 * rows * columns * k * b->sm_count /
                    (g->matrix_share * b->bf16_tflops * 1e6);
    double issue = g->own ? issue_us(b, g, rows, columns, k) : 0;
    double chain = k / K_STEP * t->linear_chain / b->clock_mhz;
    spt_waves w = {
        .ctas = ceil_div(g->m, rows) * ceil_div(g->n, columns) * splits,
        .slots = b->sm_count,
        .fixed_us = t->linear_wave * b->wave_us,
        .full_us = max2(stream, max2(matrix, issue)) + chain,
        .memory_us = g->memory_us,
    };
    w.rest_us = w.full_us;
    double us = spt_waves_us(&w);
    if (splits > 1)
        us += t->linear_split_us +
              (splits + 1) * g->m * g->n * 4 / (b->l2_gbps * 1e3);
    return us;
}

/* The best of the tile shapes, with one launch. */
static double gemm_us(const spt_board *b, const gemm *g)
{
    double rows = ROW_STEP, best = INFINITY;
    while (rows < g->m && rows < MAX_TILE_ROWS)
        rows *= 2;
    for (double columns = 64; columns <= 256; columns *= 2)
        for (double splits = 1; splits <= 8; splits *= 2)
            if (splits == 1 || g->k >= splits * 2 * K_STEP)
                best = min2(best, tiles_us(b, g, rows, columns, splits));
    return b->time.linear_launch_us + best;
}

double spt_model_gemm_us(const spt_board *b, double m, double n, double k,
                         double bits)
{
    double bytes = n * k * bits / 8 + m * (n + k) * 2;
    gemm g = {.m = m, .n = n, .k = k, .weight_bits = bits, .own = true};
    g.memory_us = bytes / (b->time.linear_dram * b->dram_gbps * 1e3);
    g.matrix_share = b->time.linear_matrix * b->mma_sync_fraction;
    return gemm_us(b, &g);
}

/*
 * Share of the weights that measurements found in L2: the copies that they
 * went through in turn fill L2, and stay there the less the more they exceed
 * it. The data-centre chips, whose L2 has two partitions, find nothing.
 */
static double held_share(const spt_board *b, double weight_bytes)
{
    bool two_partitions = b->cc_major == 9 || b->cc_major == 10 ||
                          (b->cc_major == 8 && b->cc_minor == 0);
    if (two_partitions || b->time.linear_hold <= 0)
        return 0;
    double copies = ceil_div(b->l2_bytes, weight_bytes);
    double beyond = copies * weight_bytes / b->l2_bytes - 1;
    return max2(0, 1 - beyond / b->time.linear_hold);
}

double spt_model_engine_gemm_us(const spt_board *b, double m, double n,
                                double k, double bits)
{
    double weights = n * k * bits / 8, rows = m * (n + k) * 2;
    double held = held_share(b, weights) * weights;
    gemm g = {.m = m, .n = n, .k = k, .weight_bits = bits};
    g.memory_us =
        held / (b->time.linear_l2 * b->l2_gbps * 1e3) +
        (weights - held + rows) / (b->time.linear_dram * b->dram_gbps * 1e3);
    g.matrix_share = b->time.linear_matrix;
    return gemm_us(b, &g);
}

double spt_model_small_us(const spt_board *b, double bytes)
{
    return b->launch_us + 2 * b->l2_latency_ns * 1e-3 +
           bytes / (b->l2_gbps * 1e3);
}
