#include "op_logits.h"

#include <math.h>

/* Kinds of rows, by their place in the whole. */
static void fill_row(const spt_op_case *c, spt_op_buffer *b, size_t row)
{
    size_t kind = (c->first + row) % 7;
    for (size_t i = 0; i < b->width; i++) {
        uint64_t bits = spt_op_random(c, "kind", c->first + row, i);
        double x = spt_op_get(b, row, i);
        if (kind == 1) /* many ties */
            x = floor(x);
        if (kind == 2 && bits % 3 == 0)
            x = NAN;
        if (kind == 3 && bits % 4)
            x = -INFINITY;
        if (kind == 4 && bits % 50 == 0)
            x = INFINITY;
        if (kind == 5) /* nothing to choose from */
            x = bits % 2 ? NAN : -INFINITY;
        spt_op_set(b, row, i, x);
    }
}

spt_op_buffer *spt_op_add_logits(spt_op_case *c, spt_role role)
{
    spt_op_buffer *b = spt_op_add(c, "logits", SPT_ELEMENT_F32, role, true,
                                  c->rows, (size_t)spt_op_int(c, "vocabulary"));
    spt_op_fill(c, b, 3);
    for (size_t row = 0; row < b->rows; row++)
        fill_row(c, b, row);
    return b;
}

spt_op_buffer *spt_op_add_structs(spt_op_case *c, const char *name,
                                  spt_role role, size_t bytes)
{
    spt_op_buffer *b =
        spt_op_add(c, name, SPT_ELEMENT_U8, role, true, c->rows, bytes);
    b->stride = b->width;
    return b;
}

void spt_op_expect_bytes(spt_op_buffer *buffer, size_t row, size_t offset,
                         const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        spt_op_expect_exactly(buffer, row, offset + i, at[i]);
}
