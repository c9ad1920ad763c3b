/*
 * What log-probabilities of rows of logits are made of, templates/logprobs: the
 * natural log-softmax of the logits as they are, at a token and at the most
 * probable ones. Probabilities are the integers of sample.h: their sum is exact
 * and the same on a host, which takes the logarithm; a log-probability is off
 * by less than 1e-6. NaN counts as -infinity, +infinity as the largest number.
 */
#ifndef SPT_LOGPROBS_H
#define SPT_LOGPROBS_H

#include <stddef.h>

#include "launch.h"

enum { SPT_LOGPROBS_MOST = 32 };

typedef struct spt_logit {
    int32_t token;
    float value;
} spt_logit;

/* Of a row, as the kernel writes it. */
typedef struct spt_logprob_row {
    uint64_t mass; /* sum of the integer probabilities */
    float top, logit; /* the highest logit, the token's */
    int32_t count, reserved;
    spt_logit best[SPT_LOGPROBS_MOST]; /* count of them, the highest first, the
                                          lowest ids first on ties */
} spt_logprob_row;

/* Log-probability of a logit of the row; NaN where none is above -infinity. */
double spt_logprob_of(const spt_logprob_row *row, float logit);

/*
 * The same row by a host, to the bit. token: -1: none; want: best ones, at most
 * SPT_LOGPROBS_MOST; fewer where fewer logits are above -infinity.
 */
void spt_logprob_row_of(const float *logits, int vocabulary, int32_t token,
                        int want, spt_logprob_row *row);

typedef struct spt_logprobs_args {
    CUdeviceptr logits; /* float (row, vocabulary) */
    CUdeviceptr token; /* int32 (row); -1: none */
    CUdeviceptr want; /* int32 (row): best ones; -1: nothing of the row */
    CUdeviceptr out; /* spt_logprob_row (row) */
    int64_t logits_stride;
    int32_t vocabulary; /* at most 2^19 */
} spt_logprobs_args;

/* One CTA a row. */
spt_status spt_logprobs_launch(const spt_driver *driver,
                               const spt_function *kernel,
                               const spt_logprobs_args *args, int64_t rows,
                               CUstream stream, spt_error *err);

#endif
