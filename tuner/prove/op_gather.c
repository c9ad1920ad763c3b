/* Row gather (runtime/kernels/gather.h) for `spectune prove`. */
#include "gather.h"
#include "operator.h"

enum { IN, INDEX, OUT, SOURCE_ROWS = 9 };

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t width = (size_t)spt_op_int(c, "width");
    if (width % 4)
        return spt_fail(err, SPT_E_USAGE, "width=%zu: expected a multiple of 4",
                        width);
    spt_op_buffer *in = spt_op_add(c, "in", SPT_ELEMENT_F32, SPT_ROLE_IN, false,
                                   SOURCE_ROWS, width);
    spt_op_spread(c, in);
    spt_op_fill(c, in, 1);
    spt_op_buffer *index =
        spt_op_add(c, "index", SPT_ELEMENT_I32, SPT_ROLE_IN, true, c->rows, 1);
    index->stride = 1;
    spt_op_fill_int(c, index, -1, SOURCE_ROWS - 1);
    spt_op_add(c, "out", SPT_ELEMENT_F32, SPT_ROLE_OUT, true, c->rows, width);
    return SPT_OK;
}

static void reference(spt_op_case *c)
{
    spt_op_buffer *out = &c->buffers[OUT];
    for (size_t row = 0; row < out->rows; row++) {
        double from = spt_op_get(&c->buffers[INDEX], row, 0);
        for (size_t i = 0; i < out->width; i++) {
            double value =
                from < 0 ? 0 : spt_op_get(&c->buffers[IN], (size_t)from, i);
            spt_op_expect_exactly(out, row, i, value);
        }
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_gather_args args = {
        .in = at[IN],
        .out = at[OUT],
        .index = at[INDEX],
        .in_stride = 4 * (int64_t)c->buffers[IN].stride,
        .out_stride = 4 * (int64_t)c->buffers[OUT].stride,
        .row_bytes = 4 * (int64_t)c->buffers[OUT].width,
    };
    return spt_gather_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_gather = {
    .name = "gather",
    .values = {{"width", 576, 4, 1 << 20, "floats per row"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
