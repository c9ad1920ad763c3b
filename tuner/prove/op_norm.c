/* RMS norm (runtime/kernels/norm.h) for `spectune prove norm`. */
#include <math.h>
#include <string.h>

#include "norm.h"
#include "operator.h"

enum { IN, WEIGHT, OUT, INDEX, NEXT_WEIGHT, NEXT };

static bool has_next(const spt_op_case *c)
{
    return strcmp(spt_op_text(c, "next_type"), "none") != 0;
}

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
    if (has_next(c)) {
        spt_op_fill(c,
                    spt_op_add(c, "next_weight", SPT_ELEMENT_F32, SPT_ROLE_IN,
                               false, 1, width),
                    1);
        spt_op_add(c, "next", spt_element_of(spt_op_text(c, "next_type")),
                   SPT_ROLE_OUT, true, c->rows, width);
    }
    return SPT_OK;
}

static double weight_of(const spt_op_case *c, int buffer, size_t i)
{
    double offset = spt_op_int(c, "offset") ? 1 : 0;
    return offset + spt_op_get(&c->buffers[buffer], 0, i);
}

static double scale_of(double squares, size_t width)
{
    return 1 / sqrt(squares / (double)width + 1e-5);
}

/*
 * The norm of the sums that out holds now: what the first norm made of them is
 * off by as much as its bounds say, each and all of them together.
 */
static void expect_next(spt_op_case *c, size_t row)
{
    spt_op_buffer *out = &c->buffers[OUT], *next = &c->buffers[NEXT];
    double squares = 0, off = 0;
    for (size_t k = row * out->width; k < (row + 1) * out->width; k++) {
        squares += out->expect[k] * out->expect[k];
        off += out->bound[k] * out->bound[k];
    }
    double scale = scale_of(squares, out->width);
    double relative = 32 * 0x1p-24 + sqrt(off / (squares + 1e-30));
    for (size_t i = 0; i < out->width; i++) {
        size_t k = row * out->width + i;
        double weight = weight_of(c, NEXT_WEIGHT, i);
        double value = out->expect[k] * scale * weight;
        spt_op_expect(next, row, i, value,
                      fabs(value) * relative +
                          fabs(scale * weight) * out->bound[k]);
    }
}

/*
 * The sum of squares is off by a few roundings of its terms, which a square
 * root halves; scale, weight and result round once each.
 */
static void expect_row(spt_op_case *c, size_t row, size_t from)
{
    spt_op_buffer *in = &c->buffers[IN], *out = &c->buffers[OUT];
    bool add = spt_op_int(c, "add");
    double squares = 0;
    for (size_t i = 0; i < in->width; i++)
        squares += spt_op_get(in, from, i) * spt_op_get(in, from, i);
    double scale = scale_of(squares, in->width);
    for (size_t i = 0; i < in->width; i++) {
        double value =
            spt_op_get(in, from, i) * scale * weight_of(c, WEIGHT, i);
        double before = add ? spt_op_get(out, row, i) : 0;
        spt_op_expect(out, row, i, before + value, fabs(value) * 32 * 0x1p-24);
    }
}

static void reference(spt_op_case *c)
{
    bool gather = spt_op_int(c, "gather");
    for (size_t row = 0; row < c->rows; row++) {
        size_t from =
            gather ? (size_t)spt_op_get(&c->buffers[INDEX], row, 0) : row;
        expect_row(c, row, from);
        if (has_next(c))
            expect_next(c, row);
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    bool next = has_next(c);
    const spt_norm_args args = {
        .in = at[IN],
        .weight = at[WEIGHT],
        .out = at[OUT],
        .index = at[INDEX],
        .next_weight = next ? at[NEXT_WEIGHT] : 0,
        .next = next ? at[NEXT] : 0,
        .next_stride = next ? (int64_t)c->buffers[NEXT].stride : 0,
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
