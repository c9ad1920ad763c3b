/* Linear (runtime/kernels/linear.h) for `spectune prove linear`. */
#include <math.h>
#include <string.h>

#include "linear.h"
#include "op_weights.h"

enum { X, RAW, DECODED, PACKED, BIAS, RESIDUAL, OUT };

/* What `residual` can be. */
enum { NO_RESIDUAL, OWN_RESIDUAL, OUT_IS_RESIDUAL };

static bool gated(const spt_op_case *c)
{
    return strcmp(spt_op_text(c, "gate"), "none") != 0;
}

static bool half_weights(const spt_op_case *c)
{
    return strcmp(spt_op_text(c, "weight"), "half") == 0;
}

static spt_dtype dtype_of(const spt_op_case *c)
{
    return strcmp(spt_op_text(c, "dtype"), "bf16") == 0 ? SPT_BF16 : SPT_FP16;
}

/* The file's type: that of the activations where weights are floats. */
static spt_weight_type type_of(const spt_op_case *c)
{
    spt_weight_type type =
        dtype_of(c) == SPT_BF16 ? SPT_WEIGHT_BF16 : SPT_WEIGHT_F16;
    if (!half_weights(c))
        spt_weight_from_name(spt_op_text(c, "weight"), &type);
    return type;
}

static spt_linear_shape shape_of(const spt_op_case *c)
{
    spt_linear_shape shape = {.dtype = dtype_of(c),
                              .gated = gated(c),
                              .outputs = spt_op_int(c, "outputs"),
                              .inputs = spt_op_int(c, "inputs")};
    spt_linear_format_of(type_of(c), &shape.format);
    return shape;
}

/* Gate and up, or one matrix given as two that stand below each other. */
static spt_status add_packed(spt_op_case *c, spt_error *err)
{
    const spt_linear_shape shape = shape_of(c);
    const spt_op_buffer *raw = &c->buffers[RAW];
    spt_op_buffer *packed = spt_op_add(c, "packed", SPT_ELEMENT_U8, SPT_ROLE_IN,
                                       false, 1, spt_linear_bytes(&shape));
    int64_t rows = (int64_t)raw->rows;
    int64_t first = shape.gated ? rows / 2 : rows / 3;
    const spt_linear_part parts[2] = {
        {raw->data, type_of(c), first},
        {raw->data + (size_t)first * raw->width, type_of(c), rows - first}};
    if (c->failed)
        return SPT_OK;
    return spt_linear_pack(&shape, parts, 2, packed->data, err);
}

static spt_status check_widths(const spt_op_case *c, spt_error *err)
{
    int64_t inputs = spt_op_int(c, "inputs");
    int64_t unit = spt_weight_format_of(type_of(c))->block_weights;
    unit = unit < 8 ? 8 : unit;
    if (inputs % unit)
        return spt_fail(
            err, SPT_E_USAGE, "inputs=%lld: expected a multiple of %lld for %s",
            (long long)inputs, (long long)unit, spt_op_text(c, "weight"));
    return SPT_OK;
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t outputs = (size_t)spt_op_int(c, "outputs");
    size_t inputs = (size_t)spt_op_int(c, "inputs");
    spt_weight_type type = type_of(c);
    bool super = spt_weight_format_of(type)->block_weights == 256;
    SPT_TRY(check_widths(c, err));
    spt_op_buffer *x =
        spt_op_add(c, "x", spt_element_of(spt_op_text(c, "dtype")), SPT_ROLE_IN,
                   true, c->rows, inputs);
    spt_op_fill(c, x, 1);
    spt_op_add_weights(c, "raw", type, outputs * (gated(c) ? 2 : 1), inputs,
                       super                     ? 0.002
                       : type == SPT_WEIGHT_Q8_0 ? 0.02
                                                 : 0.1);
    spt_op_add_decoded(c, "decoded", type, RAW, inputs);
    SPT_TRY(add_packed(c, err));
    spt_op_fill(
        c,
        spt_op_add(c, "bias", SPT_ELEMENT_F32, SPT_ROLE_IN, false, 1, outputs),
        1);
    spt_op_fill(c,
                spt_op_add(c, "residual", SPT_ELEMENT_F32, SPT_ROLE_IN, true,
                           c->rows, outputs),
                1);
    bool onto = spt_op_int(c, "residual") == OUT_IS_RESIDUAL;
    spt_element out_type = spt_element_of(spt_op_text(c, "out_type"));
    if (onto && out_type != SPT_ELEMENT_F32)
        return spt_fail(err, SPT_E_USAGE,
                        "residual=2: expected out_type=fp32, the type of a "
                        "residual");
    spt_op_buffer *out =
        spt_op_add(c, "out", out_type, onto ? SPT_ROLE_BOTH : SPT_ROLE_OUT,
                   true, c->rows, outputs);
    if (onto)
        spt_op_fill(c, out, 1);
    return SPT_OK;
}

/* The largest |weight| of the 32 inputs that k belongs to. */
static double group_reach(const spt_op_buffer *weights, size_t n, size_t k)
{
    double most = 0;
    for (size_t i = k / 32 * 32; i < k / 32 * 32 + 32 && i < weights->width;
         i++)
        most = fmax(most, fabs(spt_op_get(weights, n, i)));
    return most;
}

/*
 * The exact product of a row and row n of the matrices. Decoded numbers carry
 * a constant that is taken off the sums later: up to 32 times the numbers of
 * their group, whose roundings the error counts.
 */
static double dot(const spt_op_case *c, size_t row, size_t n, double *error)
{
    const spt_op_buffer *x = &c->buffers[X], *w = &c->buffers[DECODED];
    double sum = 0, reach = 0, most = 0;
    for (size_t k = 0; k < x->width; k++) {
        double a = spt_op_get(x, row, k);
        if (k % 32 == 0)
            most = group_reach(w, n, k);
        sum += a * spt_op_get(w, n, k);
        reach += fabs(a) * most;
    }
    *error = reach * 64 * 0x1p-24;
    return sum;
}

static double gate_of(const spt_op_case *c, double x)
{
    if (strcmp(spt_op_text(c, "gate"), "silu") == 0)
        return x / (1 + exp(-x));
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void expect(spt_op_case *c, size_t row, size_t n)
{
    spt_op_buffer *out = &c->buffers[OUT];
    int64_t residual = spt_op_int(c, "residual");
    double error, value = dot(c, row, n, &error);
    if (gated(c)) {
        double up_error, up = dot(c, row, n + out->width, &up_error);
        double gate = gate_of(c, value);
        /* Slopes of SiLU and GELU are below 1.2. */
        error = error * 1.2 * fabs(up) + up_error * fabs(gate) +
                fabs(gate * up) * 0x1p-20;
        value = gate * up;
    }
    if (spt_op_int(c, "bias"))
        value += spt_op_get(&c->buffers[BIAS], 0, n);
    if (residual == OWN_RESIDUAL)
        value += spt_op_get(&c->buffers[RESIDUAL], row, n);
    if (residual == OUT_IS_RESIDUAL)
        value += spt_op_get(out, row, n);
    if (spt_op_int(c, "softcap")) {
        double cap = (double)spt_op_int(c, "cap");
        value = cap * tanh(value / cap); /* its slope is at most 1 */
        error += cap * 0x1p-21;
    }
    spt_op_expect(out, row, n, value, error + fabs(value) * 0x1p-22 + 1e-7);
}

static void reference(spt_op_case *c)
{
    for (size_t row = 0; row < c->rows; row++)
        for (size_t n = 0; n < c->buffers[OUT].width; n++)
            expect(c, row, n);
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_op_buffer *b = c->buffers;
    int64_t residual = spt_op_int(c, "residual");
    int from = residual == OUT_IS_RESIDUAL ? OUT : RESIDUAL;
    const spt_linear_kernel linear = spt_linear_kernel_of(kernel, c->kernel);
    const spt_linear_args args = {
        .x = at[X],
        .weights = at[PACKED],
        .bias = spt_op_int(c, "bias") ? at[BIAS] : 0,
        .residual = residual == NO_RESIDUAL ? 0 : at[from],
        .out = at[OUT],
        .x_stride = (int64_t)b[X].stride,
        .residual_stride = (int64_t)b[from].stride,
        .out_stride = (int64_t)b[OUT].stride,
        .outputs = (int32_t)b[OUT].width,
        .inputs = (int32_t)b[X].width,
        .cap = spt_op_int(c, "softcap") ? (float)spt_op_int(c, "cap") : 0,
    };
    return spt_linear_launch(driver, &linear, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_linear = {
    .name = "linear",
    .values = {{"outputs", 83, 1, 1 << 18, "numbers of a result row"},
               {"inputs", 512, 8, 1 << 16, "numbers of a row of x"},
               {"bias", 1, 0, 1, "1: with bias"},
               {"residual", 1, 0, 2, "1: with residual, 2: out is it"},
               {"cap", 3, 1, 1000, "of results, where they are capped"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
