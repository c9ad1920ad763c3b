/* Embedding lookup (runtime/kernels/embedding.h) for `spectune prove`. */
#include "embedding.h"
#include "operator.h"
#include "weight.h"

enum { IDS, TABLE, OUT, WORDS = 11 };

static spt_weight_type type_of(const spt_op_case *c)
{
    spt_weight_type type = SPT_WEIGHT_F32;
    spt_weight_from_name(spt_op_text(c, "weight"), &type);
    return type;
}

/* No exponent of all ones: bytes of a row as any model could have them. */
static void fill_table(const spt_op_case *c, spt_op_buffer *table)
{
    spt_weight_type type = type_of(c);
    bool plain = spt_weight_format_of(type)->block_weights == 1;
    spt_op_fill_int(c, table, 0, 255);
    size_t bytes = (size_t)spt_weight_format_of(type)->block_bytes;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t at = 0; at < table->width; at += bytes) {
            unsigned char *block =
                (unsigned char *)table->data + row * table->width + at;
            size_t last = bytes - 1;
            if (plain || type == SPT_WEIGHT_Q6_K) { /* the scale is last */
                block[last] &= 0xbf;
                continue;
            }
            block[1] &= 0xbf;
            block[3] &= 0xbf;
        }
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
        spt_op_add(c, "table", SPT_ELEMENT_U8, SPT_ROLE_IN, false, WORDS,
                   (size_t)spt_weight_bytes(type, width));
    spt_op_spread(c, table);
    /* Rows of a file stand as their blocks let them, at even bytes. */
    if (!spt_op_int(c, "far"))
        table->stride = table->width + (type == SPT_WEIGHT_F32 ? 4 : 2);
    fill_table(c, table);
    spt_op_add(c, "out", SPT_ELEMENT_F32, SPT_ROLE_OUT, true, c->rows, width);
    return SPT_OK;
}

static void reference(spt_op_case *c)
{
    spt_op_buffer *table = &c->buffers[TABLE], *out = &c->buffers[OUT];
    float scale = (float)spt_op_int(c, "scale");
    float *numbers = spt_arena_alloc(&c->arena, out->width, sizeof *numbers);
    if (!numbers) {
        c->failed = true;
        return;
    }
    for (size_t row = 0; row < out->rows; row++) {
        double id = spt_op_get(&c->buffers[IDS], row, 0);
        bool word = id >= 0 && id < WORDS;
        if (word)
            spt_weight_row_f32(type_of(c),
                               table->data + (size_t)id * table->width,
                               out->width, numbers);
        for (size_t i = 0; i < out->width; i++)
            spt_op_expect_exactly(out, row, i,
                                  word ? (double)(numbers[i] * scale) : 0);
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_embedding_args args = {
        .ids = at[IDS],
        .table = at[TABLE],
        .out = at[OUT],
        .table_stride = (int64_t)c->buffers[TABLE].stride,
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
