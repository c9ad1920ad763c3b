/* RMS norm (runtime/kernels/norm.h) for `spectune prove norm`. */
#include <math.h>

#include "norm.h"
#include "operator.h"

enum { IN, WEIGHT, OUT, INDEX };

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t width = (size_t)spt_op_int(c, "width");
    bool gather = spt_op_int(c, "gather"), add = spt_op_int(c, "add");
    (void)err;
    spt_op_buffer *in =
        spt_op_add(c, "in", spt_element_of(spt_op_text(c, "in_type")),
                   SPT_ROLE_IN, !gather, gather ? 7 : c->rows, width);
    spt_op_fill(c, in, 3);
    /* Rows of zeros and of large numbers are no special case. */
    for (size_t row = 0; row < in->rows; row++) {
        size_t place = (in->by_row ? c->first : 0) + row;
        double factor = place == 0 ? 0 : place == 1 ? 1000 : 1;
        for (size_t i = 0; i < width && factor != 1; i++)
            spt_op_set(in, row, i, factor * spt_op_get(in, row, i));
    }
    spt_op_buffer *weight =
        spt_op_add(c, "weight", SPT_ELEMENT_F32, SPT_ROLE_IN, false, 1, width);
    spt_op_fill(c, weight, 1);
    spt_op_buffer *out =
        spt_op_add(c, "out", spt_element_of(spt_op_text(c, "out_type")),
                   add ? SPT_ROLE_BOTH : SPT_ROLE_OUT, true, c->rows, width);
    if (add)
        spt_op_fill(c, out, 2);
    spt_op_buffer *index =
        spt_op_add(c, "index", SPT_ELEMENT_I32, SPT_ROLE_IN, true, c->rows, 1);
    index->stride = 1;
    spt_op_fill_int(c, index, 0, 6);
    return SPT_OK;
}

/*
 * The sum of squares is off by a few roundings of its terms, which a square
 * root halves; scale, weight and result round once each.
 */
static void reference(spt_op_case *c)
{
    spt_op_buffer *in = &c->buffers[IN], *out = &c->buffers[OUT];
    bool gather = spt_op_int(c, "gather"), add = spt_op_int(c, "add");
    double offset = spt_op_int(c, "offset") ? 1 : 0;
    for (size_t row = 0; row < out->rows; row++) {
        size_t from =
            gather ? (size_t)spt_op_get(&c->buffers[INDEX], row, 0) : row;
        double sum = 0;
        for (size_t i = 0; i < in->width; i++)
            sum += spt_op_get(in, from, i) * spt_op_get(in, from, i);
        double scale = 1 / sqrt(sum / (double)in->width + 1e-5);
        for (size_t i = 0; i < in->width; i++) {
            double weight = offset + spt_op_get(&c->buffers[WEIGHT], 0, i);
            double value = spt_op_get(in, from, i) * scale * weight;
            double before = add ? spt_op_get(out, row, i) : 0;
            spt_op_expect(out, row, i, before + value,
                          fabs(value) * 32 * 0x1p-24);
        }
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_norm_args args = {
        .in = at[IN],
        .weight = at[WEIGHT],
        .out = at[OUT],
        .index = at[INDEX],
        .in_stride = (int64_t)c->buffers[IN].stride,
        .out_stride = (int64_t)c->buffers[OUT].stride,
        .eps = 1e-5f,
    };
    return spt_norm_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                           err);
}

const spt_operator spt_op_norm = {
    .name = "norm",
    .make = make,
    .reference = reference,
    .launch = launch,
};
