/*
 * Times from facts.
 *
 * Attention. One CTA takes the rows of a row group of one KV head over one
 * chunk of positions. CTAs run in waves of (SMs * CTAs per SM). A wave costs
 * its fixed time plus its KV steps; a step takes the longest of
 *   latency  the pipeline holds stages - 1 steps, each of which must arrive,
 *            and one step's own chain of matrix, softmax and matrix work;
 *   matrix   whole 8-row tiles at the rate of mma.sync;
 *   issue    warp instructions of the CTAs that share the SM;
 *   shared   K and V through shared memory once per row warp.
 * All waves together cannot beat DRAM: the KV once, at the bandwidth that the
 * bytes in flight allow (Little's law). Row groups beyond the first read the
 * KV again, from L2. Partial results and combine come on top.
 *
 * GEMM. Weights once from DRAM, rows in steps of 8 on the matrix unit,
 * decoding and matrix instructions at the issue rate, one wave's fixed cost.
 */
#include "model.h"

#include <math.h>

#include "occupancy.h"

enum {
    ISSUE_PER_CYCLE = 4, /* warp instructions of an SM */
    SHARED_BYTES_PER_CYCLE = 128,
    ROW_STEP = 8,
    /* A step's dependent chain: two mma, the row maximum over four lanes and
       the warps, exp, barriers. */
    CHAIN_CYCLES = 350,
};

/* What a matrix unit reaches inside a real loop. */
static const double matrix_share = 0.75;

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

/* FLOP per microsecond and SM of mma.sync. */
static double matrix_rate(const spt_board *b)
{
    return b->bf16_tflops * b->mma_sync_fraction * matrix_share * 1e6 /
           b->sm_count;
}

/* Loaded latency of DRAM: twice the idle one, when the memory is busy. */
static double loaded_latency_us(const spt_board *b)
{
    return 2 * b->dram_latency_ns * 1e-3;
}

/* Bytes per microsecond of DRAM when `sms` SMs keep that much in flight. */
static double dram_rate(const spt_board *b, double sms, double in_flight)
{
    double peak = b->dram_gbps * b->dram_efficiency * 1e3;
    return min2(peak, sms * in_flight / loaded_latency_us(b));
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
    cost.share_us = max2(matrix, max2(issue, shared));
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
    double ctas = (double)s->batch * s->kv_heads * groups * chunks;
    double slots = (double)b->sm_count * per_sm;
    double steps = ceil_div(min2(s->context, c->chunk), c->kv_step);

    step_cost cost = kv_step_cost(b, s, c);
    double full = floor(ctas / slots), rest = ctas - full * slots;
    double time = full * (b->wave_us + steps * max2(cost.latency_us,
                                                    cost.share_us * per_sm));
    if (rest > 0)
        time += b->wave_us +
                steps * max2(cost.latency_us,
                             cost.share_us * ceil_div(rest, b->sm_count));

    double kv = 2.0 * s->batch * s->kv_heads * s->context * s->head_dim *
                s->element_bytes;
    double sms = min2(ctas, b->sm_count);
    double resident = min2(per_sm, ceil_div(ctas, b->sm_count));
    double in_flight = resident * max2(1, c->stages - 1) * 2.0 * c->kv_step *
                       s->head_dim * s->element_bytes;
    double dram = kv / dram_rate(b, sms, in_flight) +
                  kv * (groups - 1) / (b->l2_gbps * 1e3);
    return b->launch_us + b->dram_latency_ns * 1e-3 +
           max2(time, dram + b->wave_us) + combine_us(b, s, chunks);
}

double spt_model_workspace_bytes(const spt_attention_shape *s, int chunk)
{
    double rows = (double)s->batch * s->q_heads * (1 + s->draft_length);
    return rows * max2(1, ceil_div(s->context, chunk)) * (s->head_dim + 2) * 4;
}

double spt_model_gemm_us(const spt_board *b, double m, double n, double k,
                         double bits)
{
    double rows = ceil_div(m, ROW_STEP) * ROW_STEP;
    double weights = n * k;
    double dram = (weights * bits / 8 + m * (n + k) * 2) /
                  (b->dram_gbps * b->dram_efficiency * 1e3);
    double matrix = 2 * rows * weights / (matrix_rate(b) * b->sm_count);
    /* Decoding a block format costs about one instruction per two weights. */
    double instructions = 2 * rows * weights / 4096 * 1.5 + weights / 256 +
                          (bits < 16 ? weights / 64 : 0);
    double issue =
        instructions / (b->sm_count * ISSUE_PER_CYCLE * b->clock_mhz);
    /* Up to 64 rows a weight tile is used once; further rows use it again
       from L2. */
    double again =
        (ceil_div(m, 64) - 1) * weights * bits / 8 / (b->l2_gbps * 1e3);
    return b->launch_us + b->wave_us + b->dram_latency_ns * 1e-3 +
           max2(dram, max2(matrix, max2(issue, again)));
}

double spt_model_small_us(const spt_board *b, double bytes)
{
    return b->launch_us + 2 * b->l2_latency_ns * 1e-3 +
           bytes / (b->l2_gbps * 1e3);
}
