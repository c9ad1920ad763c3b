/*
 * Rotary embedding of queries and keys and the append of keys and values to
 * the KV cache, templates/rotary, in one launch: per-head RMS norm of q and k
 * first where the kernel has `qk_norm`, then the rotation, then rounding to
 * the KV type. Where a token stands comes from the arrays of verify attention
 * (verify.h): slot context + i, position context + depth.
 *
 * Angles come from a table, so that every kind of scaling is one kernel:
 * cos_sin[position][pair] = (cos, sin) * magnitude, made by
 * spt_rotary_table. Numbers past rotary_dim pass unrotated.
 */
#ifndef SPT_ROTARY_H
#define SPT_ROTARY_H

#include "launch.h"

typedef struct spt_rotary_args {
    CUdeviceptr q; /* (token, query head, head dim) of the type `in` */
    CUdeviceptr k, v; /* (token, KV head, head dim) of the type `in` */
    CUdeviceptr q_out; /* (token, query head, head dim), 16-bit */
    CUdeviceptr k_cache, v_cache; /* as k and v of verify.h */
    CUdeviceptr page_table, q_start, kv_len, kv_start, tree; /* verify.h */
    CUdeviceptr cos_sin; /* float2 (position, rotary_dim / 2) */
    CUdeviceptr q_weight, k_weight; /* float (head dim); with qk_norm */
    int64_t q_stride, k_stride, v_stride, q_out_stride; /* of a token */
    int64_t kv_page_stride, kv_token_stride, kv_head_stride;
    int32_t page_table_stride;
    int32_t q_heads, kv_heads;
    float eps; /* of qk_norm */
} spt_rotary_args;

/* max_tokens: of the largest draft block; batch: sequences of q_start. */
spt_status spt_rotary_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_rotary_args *args, int64_t batch,
                             int64_t max_tokens, CUstream stream,
                             spt_error *err);

/*
 * Rows [first, first + count) of the table, (count, pairs, 2), computed in
 * double: a pair turns by `frequency` radians per position, both its numbers
 * are multiplied by magnitude. runtime/model/rope.h gives both for a model.
 */
void spt_rotary_table(const float *frequency, int pairs, double magnitude,
                      int64_t first, int64_t count, float *cos_sin);

#endif
