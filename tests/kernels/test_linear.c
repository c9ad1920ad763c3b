/*
 * Linear on sim: every weight format against a scalar reference in double on
 * the decoded weights, and bit for bit the same rows with any number of rows
 * beside them, in any config of one key. Results lie between guards; what is
 * not written stays NaN; sim's checks are on.
 */
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "check.h"
#include "linear.h"
#include "machine.h"
#include "sim.h"

enum { GUARD = 64, MAX_ROWS = 200, SEED = 12345 };

typedef struct problem {
    const char *dtype, *weight, *out_type, *gate;
    spt_weight_type type; /* of the file */
    int outputs, inputs;
    bool bias, residual, all_rows;
} problem;

/* Widths that the rows of the largest run are recomputed at. */
static const int widths[] = {1, 2, 7, 8, 9, 16, 33, 64, 65};

/* Configs of one key: what a run of so many rows takes. */
static const struct config {
    int up_to, rows, panels, stages;
} configs[] = {{8, 8, 2, 4}, {24, 24, 4, 2}, {MAX_ROWS, 64, 2, 3}};
enum { CONFIGS = sizeof configs / sizeof *configs };

typedef struct bench {
    problem p;
    spt_machine *machine;
    spt_built built[CONFIGS];
    spt_loaded loaded[CONFIGS];
    spt_dtype dtype;
    uint16_t *x; /* (row, x_stride) */
    float *weights; /* (matrix, output, input), decoded */
    float *bias, *residual; /* (output), (row, output) */
    void *packed;
    size_t packed_bytes;
    CUdeviceptr d_x, d_packed, d_bias, d_residual, d_out;
    size_t out_bytes; /* of one result with guards */
} bench;

static uint64_t state = SEED;

static uint32_t bits32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t x = (uint32_t)((state >> 18 ^ state) >> 27);
    uint32_t r = (uint32_t)(state >> 59);
    return x >> r | x << ((32 - r) & 31);
}

/* Nearly normal, variance 1. */
static float normal(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += bits32() * 0x1p-32;
    return (float)(sum - 6);
}

static int matrices(const problem *p)
{
    return strcmp(p->gate, "none") ? 2 : 1;
}

static int x_stride(const problem *p)
{
    return p->inputs + 8;
}

/* Random blocks of the type, scales of a size that keeps results small. */
static void fill_blocks(const problem *p, uint8_t *row)
{
    const spt_weight_format *type = spt_weight_format_of(p->type);
    int blocks = p->inputs / type->block_weights;
    for (int b = 0; b < blocks; b++) {
        uint8_t *at = row + b * type->block_bytes;
        for (int i = 0; i < type->block_bytes; i++)
            at[i] = (uint8_t)bits32();
        bool k = type->block_weights == 256;
        double size = k ? 0.001 : p->type == SPT_WEIGHT_Q8_0 ? 0.01 : 0.05;
        uint16_t scale[2];
        for (int i = 0; i < 2; i++)
            scale[i] = spt_half_from_float(SPT_FP16, normal() * (float)size);
        bool pair = p->type == SPT_WEIGHT_Q4_1 || p->type == SPT_WEIGHT_Q5_1 ||
                    p->type == SPT_WEIGHT_Q4_K || p->type == SPT_WEIGHT_Q5_K;
        if (p->type == SPT_WEIGHT_Q6_K)
            memcpy(at + 208, scale, 2);
        else
            memcpy(at, scale, pair ? 4 : 2);
    }
}

static void fill_floats(const problem *p, uint8_t *row)
{
    for (int i = 0; i < p->inputs; i++) {
        float value = normal() * 0.1f;
        uint16_t bits = spt_half_from_float(
            p->type == SPT_WEIGHT_F16 ? SPT_FP16 : SPT_BF16, value);
        if (p->type == SPT_WEIGHT_F32)
            memcpy(row + 4 * i, &value, 4);
        else
            memcpy(row + 2 * i, &bits, 2);
    }
}

/* Raw rows, their decoded values, and the packed form. */
static bool make_weights(bench *b, spt_error *err)
{
    const problem *p = &b->p;
    int n = matrices(p);
    size_t row = spt_weight_bytes(p->type, (uint64_t)p->inputs);
    size_t rows = (size_t)p->outputs * (size_t)n;
    uint8_t *raw = malloc(rows * row);
    b->weights = malloc(rows * (size_t)p->inputs * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        float *out = b->weights + r * (size_t)p->inputs;
        if (spt_weight_format_of(p->type)->block_weights == 1)
            fill_floats(p, raw + r * row);
        else
            fill_blocks(p, raw + r * row);
        spt_weight_row_f32(p->type, raw + r * row, (size_t)p->inputs, out);
        for (int i = 0; i < p->inputs && strcmp(p->weight, "half") == 0; i++)
            out[i] = spt_half_to_float(b->dtype,
                                       spt_half_from_float(b->dtype, out[i]));
    }
    spt_linear_shape shape = {.dtype = b->dtype,
                              .gated = n == 2,
                              .outputs = p->outputs,
                              .inputs = p->inputs};
    /* Two parts: for a gated kernel its matrices, else one below the other. */
    int first = n == 2 ? p->outputs : p->outputs / 3;
    spt_linear_part parts[2] = {
        {raw, p->type, first},
        {raw + (size_t)first * row, p->type, (int64_t)rows - first}};
    bool good = spt_linear_format_of(p->type, &shape.format);
    b->packed_bytes = spt_linear_bytes(&shape);
    b->packed = malloc(b->packed_bytes);
    good = good && spt_linear_pack(&shape, parts, 2, b->packed, err) == SPT_OK;
    free(raw);
    return good;
}

static void make_rows(bench *b)
{
    const problem *p = &b->p;
    size_t n = (size_t)p->outputs;
    b->x = calloc(MAX_ROWS * (size_t)x_stride(p), sizeof *b->x);
    b->bias = malloc(n * sizeof(float));
    b->residual = malloc(n * MAX_ROWS * sizeof(float));
    for (int r = 0; r < MAX_ROWS; r++)
        for (int i = 0; i < x_stride(p); i++)
            b->x[r * x_stride(p) + i] =
                spt_half_from_float(b->dtype, i < p->inputs ? normal() : NAN);
    for (size_t i = 0; i < n; i++)
        b->bias[i] = normal();
    for (size_t i = 0; i < n * MAX_ROWS; i++)
        b->residual[i] = normal();
}

static bool upload(bench *b, const void *data, size_t bytes, CUdeviceptr *to)
{
    return b->machine->driver.cuMemAlloc(to, bytes) == CUDA_SUCCESS &&
           b->machine->driver.cuMemcpyHtoD(*to, data, bytes) == CUDA_SUCCESS;
}

static size_t out_size(const problem *p)
{
    return strcmp(p->out_type, "fp32") ? 2 : 4;
}

static bool set_up(bench *b, const spt_builder *builder, spt_error *err)
{
    const problem *p = &b->p;
    spt_build_item items[CONFIGS];
    for (int i = 0; i < CONFIGS; i++) {
        items[i] = (spt_build_item){.template_name = "linear"};
        spt_config *c = &items[i].config;
        spt_config_set_string(c, "dtype", p->dtype);
        spt_config_set_string(c, "weight", p->weight);
        spt_config_set_string(c, "out_type", p->out_type);
        spt_config_set_string(c, "gate", p->gate);
        spt_config_set_int(c, "rows", configs[i].rows);
        spt_config_set_int(c, "panels", configs[i].panels);
        spt_config_set_int(c, "k_warps", 4);
        spt_config_set_int(c, "stages", configs[i].stages);
    }
    if (spt_build(builder, items, CONFIGS, b->built, err) != SPT_OK)
        return false;
    for (int i = 0; i < CONFIGS; i++)
        if (spt_machine_load(b->machine, &b->built[i].kernel,
                             &b->built[i].image, &b->loaded[i], err) != SPT_OK)
            return false;
    b->dtype = strcmp(p->dtype, "bf16") == 0 ? SPT_BF16 : SPT_FP16;
    if (!make_weights(b, err))
        return false;
    make_rows(b);
    b->out_bytes = 2 * GUARD + MAX_ROWS * (size_t)p->outputs * out_size(p);
    return upload(b, b->packed, b->packed_bytes, &b->d_packed) &&
           upload(b, b->x, MAX_ROWS * (size_t)x_stride(p) * 2, &b->d_x) &&
           upload(b, b->bias, (size_t)p->outputs * 4, &b->d_bias) &&
           upload(b, b->residual, MAX_ROWS * (size_t)p->outputs * 4,
                  &b->d_residual) &&
           b->machine->driver.cuMemAlloc(&b->d_out, b->out_bytes) ==
               CUDA_SUCCESS;
}

static void tear_down(bench *b)
{
    CUdeviceptr buffers[] = {b->d_x, b->d_packed, b->d_bias, b->d_residual,
                             b->d_out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            b->machine->driver.cuMemFree(buffers[i]);
    for (int i = 0; i < CONFIGS; i++) {
        spt_machine_unload(b->machine, &b->loaded[i]);
        spt_built_free(&b->built[i]);
    }
    free(b->x);
    free(b->weights);
    free(b->bias);
    free(b->residual);
    free(b->packed);
}

/* Rows [first, first + count) into out, which has guards; false: a fault. */
static bool run(bench *b, int first, int count, uint8_t *out, spt_error *err)
{
    const problem *p = &b->p;
    const spt_driver *driver = &b->machine->driver;
    int at = 0;
    while (count > configs[at].up_to)
        at++;
    spt_function function = {b->loaded[at].function, b->loaded[at].threads,
                             b->loaded[at].shared_bytes};
    spt_linear_kernel kernel =
        spt_linear_kernel_of(&function, &b->built[at].config);
    spt_linear_args args = {
        .x = b->d_x + (size_t)first * (size_t)x_stride(p) * 2,
        .weights = b->d_packed,
        .bias = p->bias ? b->d_bias : 0,
        .residual = p->residual
                        ? b->d_residual + (size_t)first * (size_t)p->outputs * 4
                        : 0,
        .out = b->d_out + GUARD,
        .x_stride = x_stride(p),
        .residual_stride = p->outputs,
        .out_stride = p->outputs,
        .outputs = p->outputs,
        .inputs = p->inputs};
    driver->cuMemsetD8(b->d_out, 0xff, b->out_bytes);
    return spt_linear_launch(driver, &kernel, &args, count, NULL, err) ==
               SPT_OK &&
           spt_driver_check(driver, driver->cuCtxSynchronize(), "linear",
                            err) == SPT_OK &&
           driver->cuMemcpyDtoH(out, b->d_out, b->out_bytes) == CUDA_SUCCESS;
}

static double read_out(const bench *b, const uint8_t *out, size_t i)
{
    float value;
    uint16_t bits;
    if (out_size(&b->p) == 4) {
        memcpy(&value, out + GUARD + 4 * i, 4);
        return (double)value;
    }
    memcpy(&bits, out + GUARD + 2 * i, 2);
    return (double)spt_half_to_float(
        strcmp(b->p.out_type, "bf16") == 0 ? SPT_BF16 : SPT_FP16, bits);
}

/* The largest |weight| of the 32 inputs that k belongs to. */
static double group_reach(const float *weights, int inputs, int k)
{
    double most = 0;
    for (int i = k / 32 * 32; i < k / 32 * 32 + 32 && i < inputs; i++)
        most = fmax(most, fabs((double)weights[i]));
    return most;
}

/* Exact product of a row with row n of the matrices; reach: of |.|, each
   weight as large as the largest of its group. */
static double dot(const bench *b, int row, int n, double *reach)
{
    const problem *p = &b->p;
    const float *weights = b->weights + (size_t)n * (size_t)p->inputs;
    double sum = 0, most = 0;
    *reach = 0;
    for (int k = 0; k < p->inputs; k++) {
        double x =
            (double)spt_half_to_float(b->dtype, b->x[row * x_stride(p) + k]);
        if (k % 32 == 0)
            most = group_reach(weights, p->inputs, k);
        sum += x * (double)weights[k];
        *reach += fabs(x) * most;
    }
    return sum;
}

static double gate_of(const problem *p, double x)
{
    if (strcmp(p->gate, "silu") == 0)
        return x / (1 + exp(-x));
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/*
 * The expected result and its bound: fp32 sums of products that carry a
 * constant up to 32 times the numbers, 2^-24 each; then what the epilogue
 * rounds, and the rounding to the output type.
 */
static double expect(const bench *b, int row, int n, double *bound)
{
    const problem *p = &b->p;
    double reach, value = dot(b, row, n, &reach);
    double error = reach * 64 * 0x1p-24;
    if (matrices(p) == 2) {
        double up_reach, up = dot(b, row, n + p->outputs, &up_reach);
        double gate = gate_of(p, value);
        error = error * 1.2 * fabs(up) + up_reach * 64 * 0x1p-24 * fabs(gate) +
                fabs(gate * up) * 0x1p-20;
        value = gate * up;
    }
    if (p->bias)
        value += (double)b->bias[n];
    if (p->residual)
        value +=
            (double)b->residual[(size_t)row * (size_t)p->outputs + (size_t)n];
    error += fabs(value) * 0x1p-22 + 1e-6;
    if (out_size(p) == 2)
        error += fabs(value) *
                 spt_half_roundoff(strcmp(p->out_type, "bf16") == 0 ? SPT_BF16
                                                                    : SPT_FP16);
    *bound = error;
    return value;
}

static double worst(const bench *b, const uint8_t *out)
{
    double nearest = 0;
    for (int row = 0; row < MAX_ROWS; row += b->p.all_rows ? 1 : 7)
        for (int n = 0; n < b->p.outputs; n++) {
            double bound, value = expect(b, row, n, &bound);
            size_t at = (size_t)row * (size_t)b->p.outputs + (size_t)n;
            double ratio = fabs(read_out(b, out, at) - value) / bound;
            nearest = ratio <= nearest ? nearest : ratio;
        }
    return nearest;
}

static bool guards_hold(const bench *b, const uint8_t *out, int rows)
{
    size_t end = GUARD + (size_t)rows * (size_t)b->p.outputs * out_size(&b->p);
    for (size_t i = 0; i < b->out_bytes; i++)
        if ((i < GUARD || i >= end) && out[i] != 0xff)
            return false;
    return true;
}

/* Every width, from different first rows: the same bits. */
static bool same_bits(bench *b, const uint8_t *all, uint8_t *out,
                      spt_error *err)
{
    size_t row = (size_t)b->p.outputs * out_size(&b->p);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        int first = (int)(bits32() % (unsigned)(MAX_ROWS - widths[i]));
        if (!run(b, first, widths[i], out, err) ||
            !guards_hold(b, out, widths[i]) ||
            memcmp(out + GUARD, all + GUARD + (size_t)first * row,
                   (size_t)widths[i] * row) != 0) {
            printf("#   width %d from row %d differs\n", widths[i], first);
            return false;
        }
    }
    return true;
}

static void prove(spt_machine *machine, const spt_builder *builder,
                  const problem *p)
{
    spt_error err = {.text = ""};
    bench b = {.p = *p, .machine = machine};
    char name[96];
    snprintf(name, sizeof name, "%s x %s (%s) %dx%d %s %s", p->dtype, p->weight,
             spt_weight_format_of(p->type)->name, p->outputs, p->inputs,
             p->gate, p->out_type);
    spt_sim_clear();
    uint8_t *all = NULL, *out = NULL;
    if (CHECK(set_up(&b, builder, &err), "%s is set up", name)) {
        all = malloc(b.out_bytes);
        out = malloc(b.out_bytes);
        CHECK(run(&b, 0, MAX_ROWS, all, &err), "%s runs", name);
        double ratio = worst(&b, all);
        CHECK(ratio <= 1, "%s is right", name);
        printf("#   error at most %.3f of its bound\n", ratio);
        for (int i = 0; i < CONFIGS; i++)
            CHECK(b.built[i].image.spill_bytes == 0,
                  "%s at %d rows spills "
                  "nothing",
                  name, configs[i].rows);
        CHECK(guards_hold(&b, all, MAX_ROWS), "%s stays in its buffer", name);
        CHECK(same_bits(&b, all, out, &err), "%s has bits of its own row",
              name);
    }
    spt_sim_counters n;
    spt_sim_counters_get(&n);
    CHECK(n.l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld == 0 &&
              n.l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st == 0,
          "%s has no bank conflicts", name);
    spt_sim_report report;
    bool clean = spt_sim_report_count() == 0;
    CHECK(clean, "%s: sim reports nothing", name);
    if (!clean && spt_sim_report_get(0, &report))
        printf("#   %s\n", report.text);
    if (err.text[0])
        printf("#   %s\n", err.text);
    free(all);
    free(out);
    tear_down(&b);
}

static const problem problems[] = {
    {"bf16", "half", "fp32", "none", SPT_WEIGHT_BF16, 83, 328, true, true,
     true},
    {"fp16", "half", "fp16", "silu", SPT_WEIGHT_F32, 40, 136, false, false,
     false},
    {"bf16", "half", "fp32", "none", SPT_WEIGHT_F16, 16, 64, false, false,
     false},
    {"bf16", "q4_0", "fp32", "none", SPT_WEIGHT_Q4_0, 67, 352, true, false,
     false},
    {"fp16", "q4_0", "fp32", "none", SPT_WEIGHT_Q4_0, 67, 352, false, true,
     false},
    {"bf16", "q4_1", "bf16", "silu", SPT_WEIGHT_Q4_1, 50, 576, false, false,
     false},
    {"fp16", "q4_1", "fp32", "none", SPT_WEIGHT_Q4_1, 49, 96, false, false,
     false},
    {"bf16", "q5_0", "fp32", "none", SPT_WEIGHT_Q5_0, 33, 160, false, false,
     false},
    {"fp16", "q5_0", "fp16", "gelu", SPT_WEIGHT_Q5_0, 33, 160, true, false,
     false},
    {"bf16", "q5_1", "fp32", "none", SPT_WEIGHT_Q5_1, 18, 416, false, false,
     false},
    {"fp16", "q5_1", "fp32", "none", SPT_WEIGHT_Q5_1, 18, 416, false, false,
     false},
    {"bf16", "q8_0", "fp32", "none", SPT_WEIGHT_Q8_0, 75, 288, false, false,
     false},
    {"fp16", "q8_0", "fp32", "none", SPT_WEIGHT_Q8_0, 75, 288, false, false,
     false},
    {"bf16", "q4_k", "fp32", "none", SPT_WEIGHT_Q4_K, 35, 512, false, false,
     false},
    {"fp16", "q4_k", "fp16", "gelu", SPT_WEIGHT_Q4_K, 35, 768, false, false,
     false},
    {"bf16", "q5_k", "fp32", "none", SPT_WEIGHT_Q5_K, 20, 512, false, false,
     false},
    {"fp16", "q5_k", "fp32", "none", SPT_WEIGHT_Q5_K, 20, 256, false, false,
     false},
    {"bf16", "q6_k", "fp32", "none", SPT_WEIGHT_Q6_K, 38, 512, false, false,
     false},
    {"fp16", "q6_k", "fp32", "none", SPT_WEIGHT_Q6_K, 38, 768, false, false,
     false},
};

int main(int argc, char **argv)
{
    spt_builder builder = {0};
    spt_board board;
    spt_machine machine;
    spt_error err;
    if (spt_builder_open(&builder, "sm80", NULL, &board, &err) != SPT_OK ||
        spt_machine_open(&board, SPT_DEVICE_SIM, true, &machine, &err) !=
            SPT_OK) {
        printf("# %s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        if (argc < 2 || atoi(argv[1]) == (int)i)
            prove(&machine, &builder, &problems[i]);
    spt_machine_close(&machine);
    spt_builder_close(&builder);
    return check_done();
}
