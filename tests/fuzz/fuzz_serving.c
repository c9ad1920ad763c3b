/* A serving engine's file from anywhere: what is accepted gives times that are
   positive and finite. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "serving.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const spt_board board = {.sm_count = 100,
                                    .clock_mhz = 1500,
                                    .dram_gbps = 1000,
                                    .memory_bytes = 1e10,
                                    .bf16_tflops = 100};
    spt_serving serving;
    spt_target target;
    spt_error err;
    char text[256];
    if (spt_serving_parse((const char *)data, size, "fuzz.json", &serving,
                          &err) != SPT_OK ||
        spt_target_stand_in(32, 8, 128, "q4_k", &target, &err) != SPT_OK)
        return 0;
    spt_load load = {.serving = &serving,
                     .board = &board,
                     .target = &target,
                     .boards = 2,
                     .batch = 4,
                     .context = 100,
                     .kv_bytes = 2,
                     .stages = 2};
    for (int d = 0; d < 20; d += 5) {
        double us = spt_serving_step_us(&load, d);
        if (!(us > 0) || !isfinite(us))
            abort();
        (void)spt_serving_flags(&serving, SPT_METHOD_MTP, d, text, sizeof text);
    }
    return 0;
}
