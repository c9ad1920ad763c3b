/*
 * Rotary embedding of queries and keys and the append of keys and values to
 * the KV cache, templates/rotary, in one launch: per-head RMS norm of q and k
 * first where the kernel has `qk_norm`, then the rotation, then rounding to
 * the KV type. Where a token stands comes from the arrays of verify attention
 * (verify.h): slot context + i, position context + depth.
 *
 * Angles come from a table, so that every kind of scaling is one kernel:
 * cos_sin[position][pair] = (cos, sin) * attention factor, made by
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

typedef enum spt_rotary_scaling {
    SPT_ROTARY_PLAIN,
    SPT_ROTARY_LINEAR, /* positions / factor */
    SPT_ROTARY_LLAMA3, /* low frequencies / factor, blended in between */
    SPT_ROTARY_YARN, /* by rotations per original context, with temperature */
} spt_rotary_scaling;

/* Zero means the usual value where one is given. */
typedef struct spt_rotary_params {
    int dim; /* rotated numbers of a head, even */
    double theta; /* base of the frequencies */
    spt_rotary_scaling scaling;
    double factor; /* of LINEAR, LLAMA3, YARN */
    double original_context; /* of LLAMA3, YARN: positions trained on */
    double low_freq_factor, high_freq_factor; /* of LLAMA3 (1, 4) */
    double beta_fast, beta_slow; /* of YARN (32, 1) */
    double attention_factor; /* of YARN (0.1 ln(factor) + 1) */
    const float *freq_factors; /* (dim / 2) divisors of frequencies, or NULL */
} spt_rotary_params;

/*
 * Rows [first, first + count) of the table, (count, dim / 2, 2), computed in
 * double from theta^(-2i/dim). SPT_E_USAGE for parameters without sense.
 */
spt_status spt_rotary_table(const spt_rotary_params *params, int64_t first,
                            int64_t count, float *cos_sin, spt_error *err);

#endif
