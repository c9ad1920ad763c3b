/*
 * Launcher of verify attention: chunks of the KV cache first, then combine.
 *
 * Rows. A sequence brings a draft block of `tokens` tokens (the anchor and up
 * to D drafts, 0 for none); its rows are (token, query head of the KV head),
 * packed as token * group + head. Token i stands at position context + depth,
 * context = kv_len - tokens; in a chain depth = i. A row sees the context and
 * its own ancestors, itself included.
 */
#ifndef SPT_VERIFY_H
#define SPT_VERIFY_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "error.h"

/* Arguments as the kernels take them (templates/verify_args.cu). */
typedef struct spt_verify_args {
    CUdeviceptr q; /* (token, query head, head dim), 16-bit floats */
    CUdeviceptr k, v; /* (page, slot, KV head, head dim) by strides */
    CUdeviceptr page_table; /* int32 (sequence, page) */
    CUdeviceptr q_start; /* int32 (sequences + 1) */
    CUdeviceptr kv_len; /* int32 (sequence), draft block included */
    CUdeviceptr kv_start; /* int64 (sequence), without pages */
    CUdeviceptr tree; /* uint32 (token): ancestors and itself */
    CUdeviceptr sinks; /* float (query head) */
    CUdeviceptr partial_o; /* float (sequence, KV head, chunk, row, dim) */
    CUdeviceptr partial_ml; /* float2 (sequence, KV head, chunk, row) */
    CUdeviceptr out; /* (token, query head, head dim) */
    CUdeviceptr lse; /* float (token, query head), natural log */
    int64_t q_token_stride, kv_page_stride, kv_token_stride, kv_head_stride;
    int32_t page_table_stride;
    int32_t chunks, rows, row_groups;
    int32_t window;
    float scale_log2, cap, cap_log2;
} spt_verify_args;

/* What the launch needs to know of the problem and the two kernels. */
typedef struct spt_verify_plan {
    int batch, q_heads, kv_heads, head_dim;
    int max_tokens; /* tokens of the largest draft block, at least 1 */
    int64_t max_kv; /* longest kv_len */
    int chunk, rows; /* of the kernels' config */
    int attention_threads, combine_threads;
    int shared_bytes; /* dynamic, of the attention kernel */
    CUfunction attention, combine;
} spt_verify_plan;

/* Bytes of partial_o and partial_ml that the plan needs. */
size_t spt_verify_partial_o_bytes(const spt_verify_plan *plan);
size_t spt_verify_partial_ml_bytes(const spt_verify_plan *plan);

/*
 * Sets the softmax scale and, where softcap > 0, cap * tanh(x / cap) of the
 * scaled logits.
 */
void spt_verify_set_scale(spt_verify_args *args, double scale, double softcap);

/* Grids of the two launches. */
typedef struct spt_verify_grids {
    unsigned attention[3], combine[3];
} spt_verify_grids;

/*
 * For who launches by himself: fills chunks, rows and row_groups of args and
 * the grids, and checks the grids' limits. Both kernels take the args as their
 * one parameter.
 */
spt_status spt_verify_fill(const spt_verify_plan *plan, spt_verify_args *args,
                           spt_verify_grids *grids, spt_error *err);

/*
 * Enqueues both kernels on the stream. Fills chunks, rows and row_groups of
 * args; every pointer is the caller's. The plan's grid limits are checked.
 */
spt_status spt_verify_launch(const spt_driver *driver,
                             const spt_verify_plan *plan, spt_verify_args *args,
                             CUstream stream, spt_error *err);

#endif
