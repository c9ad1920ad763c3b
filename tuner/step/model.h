/*
 * The time model: attention and skinny GEMM from a board's facts, what
 * measured kernels reach of them (board->time), a kernel's config and its
 * resources. Every result is `modelled`.
 *
 * Both grow (or stay) with batch, context, rows and bytes, and shrink (or
 * stay) with bandwidth.
 */
#ifndef SPT_MODEL_H
#define SPT_MODEL_H

#include <stdbool.h>

#include "board.h"

/* Attention of one layer for a batch of equal sequences. */
typedef struct spt_attention_shape {
    int batch;
    double context; /* tokens of KV per sequence, draft block included */
    int q_heads, kv_heads, head_dim;
    double element_bytes; /* of KV */
    int draft_length; /* rows of a KV head = group * (1 + draft_length) */
} spt_attention_shape;

/* A kernel that may be taken: from its config and its machine code. */
typedef struct spt_attention_config {
    int rows; /* query rows of a CTA */
    int chunk; /* KV tokens of a CTA */
    int kv_step; /* KV tokens of a pipeline stage */
    int stages;
    int row_warps; /* each reads the whole KV step from shared memory */
    int threads, registers, shared_bytes; /* shared: static and dynamic */
} spt_attention_config;

/* Microseconds of attention and combine, launches in a graph included. */
double spt_model_attention_us(const spt_board *board,
                              const spt_attention_shape *shape,
                              const spt_attention_config *config);

/* Bytes of the chunks' partial results: head_dim + 2 floats per row. */
double spt_model_workspace_bytes(const spt_attention_shape *shape, int chunk);

/*
 * Microseconds of one decode attention (draft_length 0) as a serving engine
 * runs it again and again on the same KV: what calibration data hold. With
 * what stands around it: Q, K and V prepared, KV appended, launches.
 * one_buffer: K and V of the run were the same memory, so that a kernel which
 * reads both for a few tokens at a time finds V in L2.
 */
double spt_model_engine_attention_us(const spt_board *board,
                                     const spt_attention_shape *shape,
                                     bool one_buffer);

/* Microseconds of C[m, n] = A[m, k] * W[n, k], weights of that many bits. */
double spt_model_gemm_us(const spt_board *board, double m, double n, double k,
                         double bits);

/*
 * The same by the kernels of a serving engine as calibration data have it:
 * on chips with one L2 partition part of the weights was still in L2.
 */
double spt_model_engine_gemm_us(const spt_board *board, double m, double n,
                                double k, double bits);

/* A small kernel (norm, rotary, activation) that moves that many bytes. */
double spt_model_small_us(const spt_board *board, double bytes);

#endif
