/*
 * Log-probabilities (runtime/kernels/logprobs.h) for `spectune prove
 * logprobs`: every byte of a row is what the host makes of it.
 */
#include <stddef.h>

#include "logprobs.h"
#include "op_logits.h"

enum { LOGITS, TOKEN, WANT, OUT };

static spt_op_buffer *add_ints(spt_op_case *c, const char *name)
{
    spt_op_buffer *b =
        spt_op_add(c, name, SPT_ELEMENT_I32, SPT_ROLE_IN, true, c->rows, 1);
    b->stride = 1;
    return b;
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    static const int wants[] = {-1, 0, 1, 20, SPT_LOGPROBS_MOST, 2};
    uint64_t vocabulary = (uint64_t)spt_op_int(c, "vocabulary");
    (void)err;
    spt_op_add_logits(c, SPT_ROLE_IN);
    spt_op_buffer *token = add_ints(c, "token"), *want = add_ints(c, "want");
    spt_op_add_structs(c, "out", SPT_ROLE_OUT, sizeof(spt_logprob_row));
    for (size_t row = 0; !c->failed && row < c->rows; row++) {
        uint64_t bits = spt_op_random(c, "options", c->first + row, 0);
        spt_op_set(token, row, 0, (double)(bits / 6 % (vocabulary + 1)) - 1);
        spt_op_set(want, row, 0, wants[bits % 6]);
    }
    return SPT_OK;
}

static void expect_row(spt_op_case *c, size_t row)
{
    const spt_op_buffer *logits = &c->buffers[LOGITS];
    spt_op_buffer *out = &c->buffers[OUT];
    int want = (int)spt_op_get(&c->buffers[WANT], row, 0);
    spt_logprob_row r;
    if (want < 0)
        return;
    spt_logprob_row_of(
        (const float *)(const void *)logits->data + row * logits->width,
        (int)logits->width, (int32_t)spt_op_get(&c->buffers[TOKEN], row, 0),
        want, &r);
    spt_op_expect_bytes(out, row, 0, &r, offsetof(spt_logprob_row, reserved));
    spt_op_expect_bytes(out, row, offsetof(spt_logprob_row, best), r.best,
                        (size_t)r.count * sizeof *r.best);
}

static void reference(spt_op_case *c)
{
    for (size_t row = 0; row < c->rows; row++)
        expect_row(c, row);
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_logprobs_args args = {
        .logits = at[LOGITS],
        .token = at[TOKEN],
        .want = at[WANT],
        .out = at[OUT],
        .logits_stride = (int64_t)c->buffers[LOGITS].stride,
        .vocabulary = (int32_t)c->buffers[LOGITS].width,
    };
    return spt_logprobs_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                               err);
}

const spt_operator spt_op_logprobs = {
    .name = "logprobs",
    .values = {SPT_OP_VOCABULARY},
    .make = make,
    .reference = reference,
    .launch = launch,
};
