/*
 * Rows of logits in the ids of another vocabulary, templates/translate: a
 * drafter's logits as logits of the target's tokens. What the drafter has no
 * token for gets -infinity.
 */
#ifndef SPT_TRANSLATE_H
#define SPT_TRANSLATE_H

#include "launch.h"

typedef struct spt_translate_args {
    CUdeviceptr in, out; /* float (row, in_width), (row, out_width) */
    CUdeviceptr from; /* int32 (out_width): id in `in`; others: it has none */
    int64_t in_stride, out_stride;
    int32_t in_width, out_width;
} spt_translate_args;

/* The same row by a host. */
void spt_translate_row(const float *in, int in_width, const int32_t *from,
                       int out_width, float *out);

spt_status spt_translate_launch(const spt_driver *driver,
                                const spt_function *kernel,
                                const spt_translate_args *args, int64_t rows,
                                CUstream stream, spt_error *err);

#endif
