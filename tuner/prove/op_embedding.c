/* Embedding lookup (runtime/kernels/embedding.h) for `spectune prove`. */
#include "embedding.h"
#include "linear.h"
#include "op_weights.h"

enum { IDS, TABLE, OUT, DECODED, PACKED, WORDS = 37 };

static spt_weight_type type_of(const spt_op_case *c)
{
    spt_weight_type type = SPT_WEIGHT_F32;
    spt_weight_from_name(spt_op_text(c, "weight"), &type);
    return type;
}

static spt_linear_shape shape_of(const spt_op_case *c)
{
    spt_linear_shape shape = {.dtype = type_of(c) == SPT_WEIGHT_F16 ? SPT_FP16
                                                                    : SPT_BF16,
                              .outputs = WORDS,
                              .inputs = spt_op_int(c, "width")};
    spt_linear_format_of(type_of(c), &shape.format);
    return shape;
}

/* The table as a tied head has it. */
static spt_status add_packed(spt_op_case *c, spt_error *err)
{
    const spt_op_buffer *table = &c->buffers[TABLE];
    const spt_linear_shape shape = shape_of(c);
    const spt_linear_part part = {table->data, type_of(c), WORDS};
    spt_op_buffer *packed = spt_op_add(c, "packed", SPT_ELEMENT_U8, SPT_ROLE_IN,
                                       false, 1, spt_linear_bytes(&shape));
    return c->failed ? SPT_OK
                     : spt_linear_pack(&shape, &part, 1, packed->data, err);
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t width = (size_t)spt_op_int(c, "width");
    spt_weight_type type = type_of(c);
    size_t unit = (size_t)spt_weight_format_of(type)->block_weights;
    unit = unit < 8 ? 8 : unit;
    if (width % unit)
        return spt_fail(err, SPT_E_USAGE,
                        "width=%zu: expected a multiple of "
                        "%zu for %s",
                        width, unit, spt_op_text(c, "weight"));
    spt_op_buffer *ids =
        spt_op_add(c, "ids", SPT_ELEMENT_I32, SPT_ROLE_IN, true, c->rows, 1);
    ids->stride = 1;
    spt_op_fill_int(c, ids, -1, WORDS);
    spt_op_buffer *table =
        spt_op_add_weights(c, "table", type, WORDS, width, 3);
    spt_op_spread(c, table);
    /* Rows of a file stand as their blocks let them, at even bytes. */
    if (!spt_op_int(c, "far"))
        table->stride = table->width + (type == SPT_WEIGHT_F32 ? 4 : 2);
    spt_op_add(c, "out", SPT_ELEMENT_F32, SPT_ROLE_OUT, true, c->rows, width);
    spt_op_add_decoded(c, "decoded", type, TABLE, width);
    return spt_op_int(c, "packed") ? add_packed(c, err) : SPT_OK;
}

static void reference(spt_op_case *c)
{
    spt_op_buffer *out = &c->buffers[OUT];
    float scale = (float)spt_op_int(c, "scale");
    for (size_t row = 0; row < out->rows; row++) {
        double id = spt_op_get(&c->buffers[IDS], row, 0);
        bool word = id >= 0 && id < WORDS;
        for (size_t i = 0; i < out->width; i++) {
            double value =
                word ? spt_op_get(&c->buffers[DECODED], (size_t)id, i) : 0;
            spt_op_expect_exactly(out, row, i, (double)((float)value * scale));
        }
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    bool packed = spt_op_int(c, "packed");
    const spt_linear_shape shape = shape_of(c);
    const spt_embedding_args args = {
        .ids = at[IDS],
        .table = at[packed ? PACKED : TABLE],
        .out = at[OUT],
        .table_stride = packed ? (int64_t)spt_linear_panel_bytes(&shape)
                               : (int64_t)c->buffers[TABLE].stride,
        .out_stride = (int64_t)c->buffers[OUT].stride,
        .vocabulary = WORDS,
        .width = (int32_t)c->buffers[OUT].width,
        .scale = (float)spt_op_int(c, "scale"),
    };
    return spt_embedding_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                                err);
}

const spt_operator spt_op_embedding = {
    .name = "embedding",
    .values = {{"width", 768, 8, 65536, "numbers per row"},
               {"scale", 3, 1, 1024, "what rows are multiplied with"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
