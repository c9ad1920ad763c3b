/*
 * Sim on five whole kernels, checks off and on side by side: warp instructions
 * and matrix instructions per second of core time, from the launch to its end,
 * of data that stands in device memory. Verify attention and linear are this
 * project's; the others are the reduction, transposition and matrix product of
 * textbooks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build.h"
#include "linear.h"
#include "machine.h"
#include "offer.h"
#include "sim.h"
#include "verify_run.h"

static const char textbook[] =
    "extern \"C\" __global__ void reduce(const float *x, float *sums)\n"
    "{\n"
    "    __shared__ float parts[8];\n"
    "    float sum = 0;\n"
    "    for (int i = threadIdx.x; i < 16384; i += 256)\n"
    "        sum += x[blockIdx.x * 16384 + i];\n"
    "    for (int d = 16; d; d /= 2)\n"
    "        sum += __shfl_xor_sync(~0u, sum, d);\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        parts[threadIdx.x / 32] = sum;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int i = 1; i < 8; i++)\n"
    "            sum += parts[i];\n"
    "        sums[blockIdx.x] = sum;\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void transpose(const float *x, float *y)\n"
    "{\n"
    "    __shared__ float tile[32][33];\n"
    "    int column = threadIdx.x % 32, row = threadIdx.x / 32;\n"
    "    int tx = blockIdx.x % 64 * 32, ty = blockIdx.x / 64 * 32;\n"
    "    for (int i = row; i < 32; i += 8)\n"
    "        tile[i][column] = x[(ty + i) * 2048 + tx + column];\n"
    "    __syncthreads();\n"
    "    for (int i = row; i < 32; i += 8)\n"
    "        y[(tx + i) * 2048 + ty + column] = tile[column][i];\n"
    "}\n"
    "extern \"C\" __global__ void product(const float *a, float *c)\n"
    "{\n"
    "    __shared__ float p[16][16], q[16][16];\n"
    "    int x = threadIdx.x % 16, y = threadIdx.x / 16;\n"
    "    int row = blockIdx.x / 16 * 16 + y, column = blockIdx.x % 16 * 16 + "
    "x;\n"
    "    float sum = 0;\n"
    "    for (int k = 0; k < 256; k += 16) {\n"
    "        p[y][x] = a[row * 256 + k + x];\n"
    "        q[y][x] = a[(k + y) * 256 + column];\n"
    "        __syncthreads();\n"
    "        for (int i = 0; i < 16; i++)\n"
    "            sum += p[y][i] * q[i][x];\n"
    "        __syncthreads();\n"
    "    }\n"
    "    c[row * 256 + column] = sum;\n"
    "}\n";

/* Of one kernel, in millions per second of core time: checks off, on. */
typedef struct row {
    const char *name;
    double instructions[2], products[2];
} row;

typedef struct bench {
    spt_builder builder;
    spt_board board;
    spt_machine machine;
    spt_error err;
    bool checks;
    row rows[8];
    size_t count;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(const bench *b)
{
    fprintf(stderr, "bench_kernels: %s\n", b->err.text);
    exit(1);
}

#define MUST(call)            \
    do {                      \
        if ((call) != SPT_OK) \
            fail(b);          \
    } while (0)

static row *row_of(bench *b, const char *name)
{
    size_t i = 0;
    while (i < b->count && strcmp(b->rows[i].name, name) != 0)
        i++;
    if (i == b->count)
        b->rows[b->count++].name = name;
    return &b->rows[i];
}

static void note(bench *b, const char *name, double seconds)
{
    row *r = row_of(b, name);
    spt_sim_counters c;
    spt_sim_counters_get(&c);
    r->instructions[b->checks] = (double)c.ptx_inst / seconds / 1e6;
    r->products[b->checks] = (double)c.mma_flops / 4096 / seconds / 1e6;
    spt_sim_clear();
}

static void show(const char *name, const double *rate, const char *unit)
{
    if (rate[0] > 0 || rate[1] > 0)
        printf("%-36s %11.2f %11.2f M %s/s\n", name, rate[0], rate[1], unit);
}

static void show_all(const bench *b)
{
    printf("%-36s %11s %11s\n", "sim's kernels, per core", "checks off", "on");
    for (size_t i = 0; i < b->count; i++) {
        show(b->rows[i].name, b->rows[i].instructions, "warp inst");
        show("", b->rows[i].products, "mma.m16n8k16");
    }
}

/*
 * A run of verify attention lays out its data and looks at guards; these stand
 * in the driver table to time what is between its launches and their end.
 */
static struct {
    spt_driver sim;
    double begin, end;
} timed;

static CUresult timed_launch(CUfunction f, unsigned gx, unsigned gy,
                             unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, CUstream stream, void **params,
                             void **extra)
{
    if (!timed.begin)
        timed.begin = now();
    return timed.sim.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream,
                                    params, extra);
}

static CUresult timed_synchronize(void)
{
    CUresult result = timed.sim.cuCtxSynchronize();
    timed.end = now();
    return result;
}

static void time_attention(bench *b, const spt_problem *problem,
                           const spt_verify_kernels *kernels)
{
    spt_instance instance;
    MUST(spt_instance_make(problem, &instance, &b->err));
    size_t rows = (size_t)instance.n_tokens * 64;
    spt_verify_results results = {.out = spt_calloc(rows * 128, 2),
                                  .lse = spt_calloc(rows, sizeof(float))};
    spt_sim_clear();
    timed.sim = b->machine.driver;
    timed.begin = 0;
    b->machine.driver.cuLaunchKernel = timed_launch;
    b->machine.driver.cuCtxSynchronize = timed_synchronize;
    MUST(spt_verify_run(&b->machine, kernels, &instance, &results, &b->err));
    b->machine.driver = timed.sim;
    note(b, "verify attention", timed.end - timed.begin);
    spt_free(results.out);
    spt_free(results.lse);
    spt_instance_free(&instance);
}

static void run_attention(bench *b)
{
    const spt_problem problem = {.q_heads = 64,
                                 .kv_heads = 8,
                                 .head_dim = 128,
                                 .dtype = SPT_BF16,
                                 .page_size = 16,
                                 .draft_length = 7,
                                 .batch = 2,
                                 .contexts = {8192, 8192},
                                 .n_contexts = 2,
                                 .seed = 1};
    spt_config *configs;
    size_t count, use = 0;
    spt_offer offer;
    MUST(spt_offer_space(&b->builder, &problem, 512, false, &configs, &count,
                         &b->err));
    MUST(spt_offer_build(&b->builder, &problem, 512, configs, count, &offer,
                         &b->err));
    while (use + 1 < offer.count &&
           spt_config_int(&offer.attention[use].config, "rows", 0) < 64)
        use++;
    const spt_built *attention = &offer.attention[use];
    spt_verify_kernels kernels = {
        .chunk = 512,
        .rows = (int)spt_config_int(&attention->config, "rows", 0),
        .page_size = 16};
    MUST(spt_machine_load(&b->machine, &attention->kernel, &attention->image,
                          &kernels.attention, &b->err));
    MUST(spt_machine_load(&b->machine, &offer.combine.kernel,
                          &offer.combine.image, &kernels.combine, &b->err));
    time_attention(b, &problem, &kernels);
    spt_machine_unload(&b->machine, &kernels.attention);
    spt_machine_unload(&b->machine, &kernels.combine);
    spt_offer_free(&offer);
    spt_free(configs);
}

static void run_linear(bench *b)
{
    enum { ROWS = 16, OUTPUTS = 16384, INPUTS = 4096 };
    const spt_driver *driver = &b->machine.driver;
    spt_build_item item = {.template_name = "linear"};
    spt_linear_shape shape = {.outputs = OUTPUTS, .inputs = INPUTS};
    spt_built built;
    spt_loaded loaded;
    CUdeviceptr memory;
    spt_linear_format_of(SPT_WEIGHT_Q4_1, &shape.format);
    spt_config_set_string(&item.config, "dtype", "bf16");
    spt_config_set_string(&item.config, "weight", "q4_1");
    spt_config_set_string(&item.config, "gate", "none");
    spt_config_set_int(&item.config, "rows", ROWS);
    spt_config_set_int(&item.config, "panels", 4);
    spt_config_set_int(&item.config, "k_warps", 2);
    spt_config_set_int(&item.config, "stages", 4);
    MUST(spt_build(&b->builder, &item, 1, &built, &b->err));
    MUST(spt_machine_load(&b->machine, &built.kernel, &built.image, &loaded,
                          &b->err));
    size_t weights = spt_linear_bytes(&shape), x = ROWS * INPUTS * 2;
    MUST(spt_driver_check(
        driver, driver->cuMemAlloc(&memory, weights + x + ROWS * OUTPUTS * 4),
        "cuMemAlloc", &b->err));
    driver->cuMemsetD8(memory, 0x11, weights + x);
    spt_function function = {loaded.function, loaded.threads,
                             loaded.shared_bytes};
    spt_linear_kernel kernel = spt_linear_kernel_of(&function, &item.config);
    spt_linear_args args = {.weights = memory,
                            .x = memory + weights,
                            .out = memory + weights + x,
                            .x_stride = INPUTS,
                            .out_stride = OUTPUTS,
                            .outputs = OUTPUTS,
                            .inputs = INPUTS};
    spt_sim_clear();
    double begin = now();
    MUST(spt_linear_launch(driver, &kernel, &args, ROWS, NULL, &b->err));
    driver->cuCtxSynchronize();
    note(b, "linear q4_1", now() - begin);
    driver->cuMemFree(memory);
    spt_machine_unload(&b->machine, &loaded);
    spt_built_free(&built);
}

/* A textbook kernel: CTAs of 256 threads over 4 M numbers at most. */
static void run_text(bench *b, CUmodule module, const char *name, unsigned ctas)
{
    enum { BYTES = 4 << 22, LAUNCHES = 8 };
    const spt_driver *driver = &b->machine.driver;
    CUfunction function;
    CUdeviceptr in, out;
    MUST(spt_driver_check(driver,
                          driver->cuModuleGetFunction(&function, module, name),
                          name, &b->err));
    driver->cuMemAlloc(&in, BYTES);
    driver->cuMemAlloc(&out, BYTES);
    driver->cuMemsetD8(in, 0, BYTES);
    void *params[] = {&in, &out};
    spt_sim_clear();
    double begin = now();
    for (int i = 0; i < LAUNCHES; i++)
        driver->cuLaunchKernel(function, ctas, 1, 1, 256, 1, 1, 0, NULL, params,
                               NULL);
    MUST(spt_driver_check(driver, driver->cuCtxSynchronize(), name, &b->err));
    note(b, name, now() - begin);
    driver->cuMemFree(in);
    driver->cuMemFree(out);
}

static void run_textbook(bench *b)
{
    spt_kernel text = {0};
    spt_image image;
    CUmodule module;
    snprintf(text.target, sizeof text.target, "%s", b->board.target);
    char source[sizeof textbook];
    memcpy(source, textbook, sizeof textbook);
    snprintf(text.symbol, sizeof text.symbol, "reduce");
    text.source = source;
    text.source_size = sizeof textbook - 1;
    MUST(spt_compile(b->builder.compiler, &text, 1, 1, 0, NULL, NULL, &image,
                     &b->err));
    MUST(
        spt_driver_check(&b->machine.driver,
                         b->machine.driver.cuModuleLoadData(&module, image.ptx),
                         "load", &b->err));
    run_text(b, module, "reduce", 256);
    run_text(b, module, "transpose", 64 * 64);
    run_text(b, module, "product", 16 * 16);
    b->machine.driver.cuModuleUnload(module);
    spt_image_free(&image);
}

/* KERNEL: that kernel alone; then off or on: that half, as a profiler wants. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    static bench self;
    bench *b = &self;
    MUST(spt_builder_open(&b->builder, "sm80", NULL, &b->board, &b->err));
    for (int checks = 0; checks < 2; checks++) {
        const char *word = checks ? "on" : "off";
        if (argc > 2 && strcmp(argv[2], word) != 0)
            continue;
        b->checks = checks;
        MUST(spt_machine_open(&b->board, SPT_DEVICE_SIM, checks, &b->machine,
                              &b->err));
        if (!only || strcmp(only, "attention") == 0)
            run_attention(b);
        if (!only || strcmp(only, "linear") == 0)
            run_linear(b);
        if (!only || strcmp(only, "textbook") == 0)
            run_textbook(b);
        spt_machine_close(&b->machine);
    }
    show_all(b);
    spt_builder_close(&b->builder);
    return 0;
}
