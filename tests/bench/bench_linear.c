/*
 * Linear on sim: the matrices of one decode step of SmolLM2-135M (30 layers
 * in q4_1, head in q8_0) with checks off. Times are core time of the process:
 * with 1, 8 and 16 rows, of each matrix once and of the step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build.h"
#include "linear.h"
#include "machine.h"

typedef struct matrix {
    const char *name, *weight, *gate;
    spt_weight_type type;
    int outputs, inputs, times;
} matrix;

static const matrix matrices[] = {
    {"q, k, v", "q4_1", "none", SPT_WEIGHT_Q4_1, 960, 576, 30},
    {"o", "q4_1", "none", SPT_WEIGHT_Q4_1, 576, 576, 30},
    {"gate, up", "q4_1", "silu", SPT_WEIGHT_Q4_1, 1536, 576, 30},
    {"down", "q4_1", "none", SPT_WEIGHT_Q4_1, 576, 1536, 30},
    {"head", "q8_0", "none", SPT_WEIGHT_Q8_0, 49152, 576, 1},
};
enum { MATRICES = sizeof matrices / sizeof *matrices, RUNS = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best seconds of one launch on `rows` rows; negative: it failed. */
static double measure(spt_machine *machine, const spt_builder *builder,
                      const matrix *m, const char *dtype, int rows,
                      spt_error *err)
{
    const spt_driver *driver = &machine->driver;
    spt_build_item item = {.template_name = "linear"};
    spt_built built;
    spt_loaded loaded;
    CUdeviceptr memory;
    bool gated = strcmp(m->gate, "none") != 0;
    spt_linear_shape shape = {
        .gated = gated, .outputs = m->outputs, .inputs = m->inputs};
    spt_linear_format_of(m->type, &shape.format);
    spt_config_set_string(&item.config, "dtype", dtype);
    spt_config_set_string(&item.config, "weight", m->weight);
    spt_config_set_string(&item.config, "gate", m->gate);
    spt_config_set_int(&item.config, "rows", (rows + 7) / 8 * 8);
    spt_config_set_int(&item.config, "panels", 4);
    spt_config_set_int(&item.config, "k_warps", 2);
    spt_config_set_int(&item.config, "stages", 4);
    if (spt_build(builder, &item, 1, &built, err) != SPT_OK ||
        spt_machine_load(machine, &built.kernel, &built.image, &loaded, err) !=
            SPT_OK)
        return -1;
    size_t weights = spt_linear_bytes(&shape);
    size_t x = (size_t)rows * (size_t)m->inputs * 2;
    size_t out = (size_t)rows * (size_t)m->outputs * 4;
    if (driver->cuMemAlloc(&memory, weights + x + out) != CUDA_SUCCESS)
        return -1;
    driver->cuMemsetD8(memory, 0x11, weights + x);
    spt_function function = {loaded.function, loaded.threads,
                             loaded.shared_bytes};
    spt_linear_kernel kernel = spt_linear_kernel_of(&function, &item.config);
    spt_linear_args args = {.weights = memory,
                            .x = memory + weights,
                            .out = memory + weights + x,
                            .x_stride = m->inputs,
                            .out_stride = m->outputs,
                            .outputs = m->outputs,
                            .inputs = m->inputs};
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        double begin = now();
        if (spt_linear_launch(driver, &kernel, &args, rows, NULL, err) !=
                SPT_OK ||
            driver->cuCtxSynchronize() != CUDA_SUCCESS)
            return -1;
        double seconds = now() - begin;
        best = seconds < best ? seconds : best;
    }
    driver->cuMemFree(memory);
    spt_machine_unload(machine, &loaded);
    spt_built_free(&built);
    return best;
}

int main(void)
{
    static const int widths[] = {1, 8, 16};
    static const char *const dtypes[] = {"bf16", "fp16"};
    spt_builder builder = {0};
    spt_board board;
    spt_machine machine;
    spt_error err = {.text = ""};
    if (spt_builder_open(&builder, "sm80", NULL, &board, &err) != SPT_OK ||
        spt_machine_open(&board, SPT_DEVICE_SIM, false, &machine, &err) !=
            SPT_OK) {
        fprintf(stderr, "bench_linear: %s\n", err.text);
        return 1;
    }
    for (size_t d = 0; d < 2; d++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            double total = 0;
            for (int i = 0; i < MATRICES; i++) {
                double s = measure(&machine, &builder, &matrices[i], dtypes[d],
                                   widths[w], &err);
                if (s < 0) {
                    fprintf(stderr, "bench_linear: %s\n", err.text);
                    return 1;
                }
                printf("linear %s %2d rows  %-10s %8.3f core ms\n", dtypes[d],
                       widths[w], matrices[i].name, s * 1e3);
                total += s * matrices[i].times;
            }
            printf("linear %s %2d rows  SmolLM2-135M %8.1f core ms a step\n",
                   dtypes[d], widths[w], total * 1e3);
        }
    spt_machine_close(&machine);
    spt_builder_close(&builder);
    return 0;
}
