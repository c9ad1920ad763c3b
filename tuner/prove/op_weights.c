#include "op_weights.h"

#include <string.h>

#include "half.h"

/* Bytes of a block at which its fp16 scale and offset stand; -1: none. */
static void scale_places(spt_weight_type type, int places[2])
{
    bool offset = type == SPT_WEIGHT_Q4_1 || type == SPT_WEIGHT_Q5_1 ||
                  type == SPT_WEIGHT_Q4_K || type == SPT_WEIGHT_Q5_K;
    places[0] = type == SPT_WEIGHT_Q6_K ? 208 : 0;
    places[1] = offset ? 2 : -1;
}

/* A number for weight or block i of a row; now and then a tiny one. */
static float number(const spt_op_case *c, const spt_op_buffer *b, size_t row,
                    size_t i, double size)
{
    uint64_t bits = spt_op_random(c, b->name, row, i);
    double x = ((double)(bits >> 40) * 0x1p-24 - 0.5) * 2 * size;
    return (float)(bits % 16 ? x : x * 0x1p-18);
}

static void set_half(char *at, spt_dtype dtype, float value)
{
    uint16_t bits = spt_half_from_float(dtype, value);
    memcpy(at, &bits, sizeof bits);
}

static void fill_block(const spt_op_case *c, const spt_op_buffer *b,
                       spt_weight_type type, size_t row, size_t block,
                       double size)
{
    size_t bytes = (size_t)spt_weight_format_of(type)->block_bytes;
    char *at = b->data + row * b->width + block * bytes;
    float value = number(c, b, row, 2 * block, size);
    int places[2];
    switch (type) {
    case SPT_WEIGHT_F32:
        memcpy(at, &value, sizeof value);
        return;
    case SPT_WEIGHT_F16:
        set_half(at, SPT_FP16, value);
        return;
    case SPT_WEIGHT_BF16:
        set_half(at, SPT_BF16, value);
        return;
    default:
        break;
    }
    scale_places(type, places);
    for (size_t i = 0; i < 2; i++)
        if (places[i] >= 0)
            set_half(at + places[i], SPT_FP16,
                     number(c, b, row, 2 * block + i, size));
}

spt_op_buffer *spt_op_add_weights(spt_op_case *c, const char *name,
                                  spt_weight_type type, size_t rows,
                                  size_t width, double size)
{
    const spt_weight_format *format = spt_weight_format_of(type);
    spt_op_buffer *b = spt_op_add(c, name, SPT_ELEMENT_U8, SPT_ROLE_IN, false,
                                  rows, (size_t)spt_weight_bytes(type, width));
    spt_op_fill_int(c, b, 0, 255);
    for (size_t row = 0; row < b->rows; row++)
        for (size_t i = 0; i < width / (size_t)format->block_weights; i++)
            fill_block(c, b, type, row, i, size);
    return b;
}

spt_op_buffer *spt_op_add_decoded(spt_op_case *c, const char *name,
                                  spt_weight_type type, int weights,
                                  size_t width)
{
    const spt_op_buffer *stored = &c->buffers[weights];
    spt_op_buffer *b = spt_op_add(c, name, SPT_ELEMENT_F32, SPT_ROLE_IN, false,
                                  stored->rows, width);
    for (size_t row = 0; row < b->rows; row++)
        spt_weight_row_f32(type, stored->data + row * stored->width, width,
                           (float *)b->data + row * width);
    return b;
}
