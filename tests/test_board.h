/*
 * A board for tests that need one but no archs/: the limits are an H100's
 * (CUDA C++ Programming Guide, compute capability 9.0), memory is small.
 */
#ifndef SPT_TEST_BOARD_H
#define SPT_TEST_BOARD_H

#include "board.h"

__attribute__((unused)) static spt_board test_board(void)
{
    return (spt_board){
        .name = "test",
        .title = "Test Board",
        .arch = "sm90",
        .target = "sm_90a",
        .cc_major = 9,
        .cc_minor = 0,
        .sm_count = 132,
        .max_threads_per_sm = 2048,
        .max_warps_per_sm = 64,
        .max_ctas_per_sm = 32,
        .max_threads_per_cta = 1024,
        .registers_per_sm = 65536,
        .max_registers_per_thread = 255,
        .register_unit = 256,
        .shared_per_sm_bytes = 233472,
        .shared_per_cta_bytes = 232448,
        .shared_reserved_bytes = 1024,
        .clock_mhz = 1700,
        .dram_gbps = 3350,
        .dram_efficiency = 0.9,
        .l2_gbps = 5500,
        .l2_bytes = 50e6,
        .memory_bytes = 4e9,
        .bf16_tflops = 989,
        .mma_sync_fraction = 0.62,
        .launch_us = 1.0,
        .launch_eager_us = 2.5,
        .wave_us = 0.5,
        .dram_latency_ns = 600,
        .l2_latency_ns = 270,
        .shared_latency_cycles = 30,
    };
}

#endif
