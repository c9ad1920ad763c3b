/* Rows by an index (runtime/kernels/gather.h) for `spectune prove`. */
#include "gather.h"
#include "operator.h"

enum { IN, FROM, TO, OUT, SOURCE_ROWS = 9 };

/* Every second row of out, each fourth of those for nothing. */
static spt_status make_to(spt_op_case *c, spt_op_buffer *to, spt_error *err)
{
    size_t *origin =
        spt_arena_alloc(&c->arena, 2 * c->rows + 1, sizeof *origin);
    if (!origin)
        return spt_fail(err, SPT_E_MEMORY, "gather: out of memory");
    for (size_t row = 0; row < to->rows; row++)
        spt_op_set(to, row, 0,
                   (c->first + row) % 4 == 3 ? -1 : 2 * (double)row);
    for (size_t row = 0; row < 2 * c->rows; row++)
        origin[row] = 2 * c->first + row;
    c->buffers[OUT].origin = origin;
    return SPT_OK;
}

static spt_op_buffer *add_index(spt_op_case *c, const char *name)
{
    spt_op_buffer *index =
        spt_op_add(c, name, SPT_ELEMENT_I32, SPT_ROLE_IN, true, c->rows, 1);
    index->stride = 1;
    return index;
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t width = (size_t)spt_op_int(c, "width");
    bool index = spt_op_int(c, "index"), scatter = spt_op_int(c, "scatter");
    if (width % 8)
        return spt_fail(err, SPT_E_USAGE, "width=%zu: expected a multiple of 8",
                        width);
    spt_op_buffer *in =
        spt_op_add(c, "in", spt_element_of(spt_op_text(c, "in_type")),
                   SPT_ROLE_IN, !index, index ? SOURCE_ROWS : c->rows, width);
    if (index)
        spt_op_spread(c, in);
    spt_op_fill(c, in, 1);
    spt_op_fill_int(c, add_index(c, "from"), -1, SOURCE_ROWS - 1);
    spt_op_buffer *to = add_index(c, "to");
    spt_op_add(c, "out", spt_element_of(spt_op_text(c, "out_type")),
               SPT_ROLE_OUT, true, (scatter ? 2 : 1) * c->rows, width);
    return scatter ? make_to(c, to, err) : SPT_OK;
}

static void reference(spt_op_case *c)
{
    spt_op_buffer *out = &c->buffers[OUT];
    for (size_t row = 0; row < c->rows; row++) {
        double from = spt_op_int(c, "index")
                          ? spt_op_get(&c->buffers[FROM], row, 0)
                          : (double)row;
        double to = spt_op_int(c, "scatter")
                        ? spt_op_get(&c->buffers[TO], row, 0)
                        : (double)row;
        for (size_t i = 0; i < out->width && to >= 0; i++) {
            double value =
                from < 0 ? 0 : spt_op_get(&c->buffers[IN], (size_t)from, i);
            if (out->type == SPT_ELEMENT_F32)
                spt_op_expect_exactly(out, (size_t)to, i, value);
            else
                spt_op_expect(out, (size_t)to, i, value, 0);
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
        .from = spt_op_int(c, "index") ? at[FROM] : 0,
        .to = spt_op_int(c, "scatter") ? at[TO] : 0,
        .in_stride = (int64_t)c->buffers[IN].stride,
        .out_stride = (int64_t)c->buffers[OUT].stride,
        .width = (int32_t)c->buffers[OUT].width,
    };
    return spt_gather_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_gather = {
    .name = "gather",
    .values = {{"width", 576, 8, 1 << 20, "numbers per row"},
               {"index", 1, 0, 1, "1: rows of in are named by an index"},
               {"scatter", 0, 0, 1, "1: rows of out are named by an index"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
