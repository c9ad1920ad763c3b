/* Gated activation (runtime/kernels/activation.h) for `spectune prove`. */
#include <math.h>
#include <string.h>

#include "activation.h"
#include "operator.h"

enum { GATE, UP, OUT };

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t width = (size_t)spt_op_int(c, "width");
    spt_element in = spt_element_of(spt_op_text(c, "in_type"));
    spt_element out = spt_element_of(spt_op_text(c, "out_type"));
    if (width % 8)
        return spt_fail(err, SPT_E_USAGE, "width=%zu: expected a multiple of 8",
                        width);
    spt_op_buffer *gate =
        spt_op_add(c, "gate", in, SPT_ROLE_IN, true, c->rows, width);
    spt_op_fill(c, gate, 3);
    /* Far from zero the function is the line, or zero. */
    for (size_t row = 0; row < gate->rows; row++)
        for (size_t i = 0; i < width; i += 7)
            spt_op_set(gate, row, i, 40 * spt_op_get(gate, row, i));
    spt_op_fill(c, spt_op_add(c, "up", in, SPT_ROLE_IN, true, c->rows, width),
                2);
    spt_op_add(c, "out", out, SPT_ROLE_OUT, true, c->rows, width);
    return SPT_OK;
}

/*
 * exp(-z) by ex2.approx is off by some units and by what the rounding of
 * z * log2(e) makes of it, |z| units; z of GELU has three more roundings.
 * Past 2^-126 the exponential is flushed to zero.
 */
static void reference(spt_op_case *c)
{
    spt_op_buffer *gate = &c->buffers[GATE], *out = &c->buffers[OUT];
    bool gelu = strcmp(spt_op_text(c, "gate"), "gelu") == 0;
    for (size_t row = 0; row < out->rows; row++)
        for (size_t i = 0; i < out->width; i++) {
            double x = spt_op_get(gate, row, i), z = x;
            if (gelu)
                z = 2 * sqrt(2 / 3.141592653589793) *
                    (x + 0.044715 * x * x * x);
            double up = spt_op_get(&c->buffers[UP], row, i);
            double value = x / (1 + exp(-z)) * up;
            spt_op_expect(out, row, i, value,
                          fabs(value) * (16 + 8 * fabs(z)) * 0x1p-24 +
                              fabs(x * up) * 0x1p-120);
        }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_activation_args args = {
        .gate = at[GATE],
        .up = at[UP],
        .out = at[OUT],
        .gate_stride = (int64_t)c->buffers[GATE].stride,
        .up_stride = (int64_t)c->buffers[UP].stride,
        .out_stride = (int64_t)c->buffers[OUT].stride,
        .width = (int32_t)c->buffers[OUT].width,
    };
    return spt_activation_launch(driver, kernel, &args, (int64_t)c->rows,
                                 stream, err);
}

const spt_operator spt_op_activation = {
    .name = "activation",
    .values = {{"width", 1536, 8, 1 << 20, "numbers per row"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
