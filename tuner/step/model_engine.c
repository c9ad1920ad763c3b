/*
 * Decode attention as TensorRT-LLM runs it, whose times calibration data hold.
 * Which kernel runs and how it splits the context is public (TensorRT-LLM:
 * decoderXQAConstants.h, decoderXQAImplCommon.h, the multi-head attention's
 * launch); what the kernels cost are the constants of the board.
 *
 * Compute capability 10: one kernel for every head grouping, a CTA per KV head
 * and sequence, the context split while SMs are idle, at least 512 tokens each.
 * Others: a CTA takes a whole head group ("grouped"), 256 tokens a step; but
 * one query head ("vector") where there is one per KV head, or where fewer
 * than SMs / 4 blocks of 128 tokens exist.
 */
#include <math.h>
#include <stdbool.h>

#include "model.h"
#include "model_waves.h"

enum {
    STEP_TOKENS = 256,
    BLOCK_TOKENS = 128, /* the least that a CTA of a split context gets */
    TARGET_WAVES = 8,
    CHUNK_TOKENS = 512, /* compute capability 10 */
    PASS_BYTES = 65536, /* K of one pass of a vector CTA */
};

/* Share of L2 in which KV stays until the next run. */
static const double held_share = 0.75;
/* One more partial result to merge. */
static const double merge_us = 0.12;

typedef struct work {
    double units, heads; /* KV heads, query heads, times sequences */
    double tokens, row_bytes; /* row: K of one token */
    double kv_bytes, distinct_bytes; /* distinct: K and V may be one buffer */
} work;

static double most(double a, double b)
{
    return a > b ? a : b;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double memory_us(const spt_board *b, double bytes, double dram_share)
{
    bool held = bytes < held_share * b->l2_bytes;
    double rate =
        held ? b->time.l2_share * b->l2_gbps : dram_share * b->dram_gbps;
    return bytes / (rate * 1e3);
}

static double grouped_splits(const spt_board *b, const work *w)
{
    if (b->cc_major == 10) {
        double idle = most(1, floor(b->sm_count / w->units));
        return least(ceil(w->tokens / CHUNK_TOKENS), idle);
    }
    double blocks = floor(w->tokens / BLOCK_TOKENS);
    double splits = most(1, least(blocks, round(sqrt(8 * blocks))));
    double waves = w->units * splits / b->sm_count;
    if (waves > TARGET_WAVES)
        splits = floor(splits * TARGET_WAVES / waves);
    return most(1, splits);
}

static double grouped_us(const spt_board *b, const work *w)
{
    const spt_time_constants *t = &b->time;
    double splits = grouped_splits(b, w);
    double steps = ceil(ceil(w->tokens / STEP_TOKENS) / splits);
    double step_us =
        STEP_TOKENS * 2 * w->row_bytes / (t->attend_stream * spt_port_rate(b));
    spt_waves waves = {
        .ctas = w->units * splits,
        .slots = b->sm_count,
        .fixed_us = t->attend_wave * b->wave_us,
        .full_us = steps * step_us,
        .rest_us = steps * step_us,
        .memory_us = memory_us(b, w->distinct_bytes, t->attend_dram),
    };
    double merge = splits > 1 ? t->attend_split_us + merge_us * splits : 0;
    return merge + spt_waves_us(&waves);
}

/* Its first pass hides behind the wave's fixed cost. */
static double vector_us(const spt_board *b, const work *w)
{
    const spt_time_constants *t = &b->time;
    bool split = w->tokens * w->row_bytes >= 2 * PASS_BYTES;
    double splits = split ? ceil(b->sm_count / w->heads) : 1;
    double passes = ceil(w->tokens / splits) * w->row_bytes / PASS_BYTES;
    double per_sm = w->heads >= 4 * b->sm_count ? 4 : 2;
    double cta_us = most(0, passes - 1) * 2 * PASS_BYTES /
                    (t->vector_stream * spt_port_rate(b));
    spt_waves waves = {
        .ctas = w->heads * splits,
        .slots = b->sm_count * per_sm,
        .fixed_us = t->vector_wave * b->wave_us,
        .full_us = cta_us,
        .rest_us = cta_us,
        .memory_us = memory_us(b, w->kv_bytes, t->vector_dram),
    };
    double us = spt_waves_us(&waves);
    if (splits > 1)
        us += t->vector_split_us + (passes >= 1 ? t->vector_refill_us : 0);
    return us;
}

double spt_model_engine_attention_us(const spt_board *b,
                                     const spt_attention_shape *s,
                                     bool one_buffer)
{
    work w = {
        .units = (double)s->batch * s->kv_heads,
        .heads = (double)s->batch * s->q_heads,
        .tokens = s->context,
        .row_bytes = s->head_dim * s->element_bytes,
    };
    w.kv_bytes = 2 * w.units * w.tokens * w.row_bytes;
    w.distinct_bytes = one_buffer ? w.kv_bytes / 2 : w.kv_bytes;
    double blocks = w.units * most(1, floor(w.tokens / BLOCK_TOKENS));
    bool vector = b->cc_major != 10 &&
                  (s->q_heads == s->kv_heads || 4 * blocks < b->sm_count);
    return b->time.attend_launch_us +
           (vector ? vector_us(b, &w) : grouped_us(b, &w));
}
