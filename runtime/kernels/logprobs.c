#include "logprobs.h"

#include <math.h>

#include "sample.h"

double spt_logprob_of(const spt_logprob_row *row, float logit)
{
    double sum = ldexp((double)row->mass, -SPT_SAMPLE_MASS_BITS);
    return (double)logit - (double)row->top - log(sum);
}

/* Puts a logit, of a higher id than those before, at its place. */
static void insert(spt_logprob_row *row, int want, spt_logit logit)
{
    if (row->count == want && logit.value <= row->best[want - 1].value)
        return;
    int at = row->count < want ? row->count++ : want - 1;
    for (; at > 0 && row->best[at - 1].value < logit.value; at--)
        row->best[at] = row->best[at - 1];
    row->best[at] = logit;
}

void spt_logprob_row_of(const float *logits, int vocabulary, int32_t token,
                        int want, spt_logprob_row *row)
{
    *row = (spt_logprob_row){.top = -INFINITY, .logit = -INFINITY};
    for (int32_t i = 0; i < vocabulary; i++)
        row->top = fmaxf(row->top, spt_sample_logit(logits[i]));
    if (token >= 0)
        row->logit = spt_sample_logit(logits[token]);
    for (int32_t i = 0; i < vocabulary && row->top > -INFINITY; i++) {
        float x = spt_sample_logit(logits[i]);
        row->mass += spt_sample_mass(x, row->top, spt_sample_one);
        if (want > 0 && x > -INFINITY)
            insert(row, want, (spt_logit){i, x});
    }
}

spt_status spt_logprobs_launch(const spt_driver *driver,
                               const spt_function *kernel,
                               const spt_logprobs_args *args, int64_t rows,
                               CUstream stream, spt_error *err)
{
    spt_logprobs_args copy = *args;
    const int64_t grid[3] = {rows, 1, 1};
    SPT_TRY(spt_sample_check("logprobs", args->vocabulary, err));
    return spt_launch(driver, kernel, grid, &copy, stream, "logprobs", err);
}
