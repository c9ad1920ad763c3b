/*
 * A board: one GPU product, with every fact of its architecture that kernels,
 * sim and the time model need. Filled from archs/ (see archs/README.md, which
 * has units and sources) and profiles/calibration.json; plain data, no
 * pointers, copied freely.
 */
#ifndef SPT_BOARD_H
#define SPT_BOARD_H

#include <stdbool.h>
#include <stdint.h>

/* A matrix instruction for bf16: how it takes rows, and at what rate. */
typedef struct spt_matrix {
    char instruction[16]; /* mma.sync, wgmma, tcgen05 */
    char shape[16]; /* m16n8k16 */
    int row_step, max_rows; /* rows (its N side) come in steps, up to max */
    double fraction; /* of bf16_tflops when the tile is full */
} spt_matrix;

enum { SPT_MATRIX_MAX = 4 };

/* What kernels reach here: fitted to measured times (calibration.h). */
typedef struct spt_time_constants {
#define SPT_TIME_CONSTANT(field, ...) double field;
#include "time_constants.def"
#undef SPT_TIME_CONSTANT
    char fitted_on[32]; /* a measured board, "generic", or "": not fitted */
    double attention_mape, gemm_mape; /* percent, of the fit; 0 = not known */
} spt_time_constants;

typedef struct spt_board {
    char name[32]; /* h100_sxm */
    char title[64]; /* NVIDIA H100 SXM5 80 GB */
    char arch[16]; /* sm90 */
    char target[16]; /* sm_90a: what NVRTC assembles for */
    int cc_major, cc_minor;

    /* Limits of one multiprocessor, one CTA, one thread. */
    int sm_count;
    int max_threads_per_sm, max_warps_per_sm, max_ctas_per_sm;
    int max_threads_per_cta;
    int registers_per_sm, max_registers_per_thread;
    int register_unit; /* registers are given to a warp in units of this */
    int shared_per_sm_bytes, shared_per_cta_bytes, shared_reserved_bytes;

    /* Rates. */
    double clock_mhz; /* sustained boost */
    double dram_gbps; /* data sheet, 1e9 bytes/s */
    double dram_efficiency; /* reachable fraction for reads */
    double l2_gbps;
    double l2_bytes;
    double memory_bytes; /* DRAM capacity */
    double bf16_tflops; /* dense, fp32 accumulate, of the whole board */
    double mma_sync_fraction; /* of bf16_tflops that mma.sync reaches */
    double fp8_tflops; /* 0 = none */
    double link_gbps; /* to peers, one direction; 0 = none */

    /* Latencies and fixed costs. */
    double shared_latency_cycles, l2_latency_ns, dram_latency_ns;
    double launch_us; /* one node of a graph */
    double launch_eager_us; /* host launch on a stream */
    double wave_us; /* fixed cost of one wave of CTAs */

    /* Matrix instructions, mma.sync first. */
    int matrix_count;
    spt_matrix matrix[SPT_MATRIX_MAX];

    spt_time_constants time;
} spt_board;

#endif
