/* Translated logits (runtime/kernels/translate.h) for `spectune prove`. */
#include <math.h>
#include <string.h>

#include "op_logits.h"
#include "translate.h"

enum { LOGITS, FROM, OUT };

static size_t out_width(const spt_op_case *c)
{
    return (size_t)spt_op_int(c, "to");
}

/* Ids of the row, some of none, all of them as likely. */
static spt_status make(spt_op_case *c, spt_error *err)
{
    (void)err;
    int64_t width = spt_op_int(c, "vocabulary");
    spt_op_add_logits(c, SPT_ROLE_IN);
    spt_op_buffer *from = spt_op_add(c, "from", SPT_ELEMENT_I32, SPT_ROLE_IN,
                                     false, 1, out_width(c));
    for (size_t i = 0; !c->failed && i < from->width; i++) {
        uint64_t bits = spt_op_random(c, "from", 0, i);
        double id = (double)(bits % (uint64_t)width);
        if (bits >> 32 & 1)
            id = bits >> 33 & 1 ? -1 : (double)(width + (int64_t)(bits >> 60));
        spt_op_set(from, 0, i, id);
    }
    /* Bits, as NaN is a logit too. */
    spt_op_add(c, "out", SPT_ELEMENT_U32, SPT_ROLE_OUT, true, c->rows,
               out_width(c));
    return SPT_OK;
}

static uint32_t bits_at(const spt_op_buffer *logits, size_t row, int id)
{
    float x = -INFINITY;
    uint32_t bits;
    if (id >= 0 && id < (int)logits->width)
        memcpy(&x, logits->data + (row * logits->width + (size_t)id) * sizeof x,
               sizeof x);
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void reference(spt_op_case *c)
{
    const spt_op_buffer *logits = &c->buffers[LOGITS];
    for (size_t row = 0; row < c->rows; row++)
        for (size_t i = 0; i < out_width(c); i++) {
            int id = (int)spt_op_get(&c->buffers[FROM], 0, i);
            spt_op_expect_exactly(&c->buffers[OUT], row, i,
                                  bits_at(logits, row, id));
        }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_translate_args args = {
        .in = at[LOGITS],
        .out = at[OUT],
        .from = at[FROM],
        .in_stride = (int64_t)c->buffers[LOGITS].stride,
        .out_stride = (int64_t)c->buffers[OUT].stride,
        .in_width = (int32_t)c->buffers[LOGITS].width,
        .out_width = (int32_t)out_width(c),
    };
    return spt_translate_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                                err);
}

const spt_operator spt_op_translate = {
    .name = "translate",
    .values = {SPT_OP_VOCABULARY,
               {"to", 777, 1, SPT_SAMPLE_VOCABULARY, "ids of the result"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
