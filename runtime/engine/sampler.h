/*
 * From logits to a token.
 *
 * In this order, which is llama.cpp's: logit bias, penalties over the last
 * tokens, top-k, top-p, min-p, temperature. Temperature 0 takes the highest
 * logit after bias and penalties, the lowest id on a tie, and draws nothing.
 * The one random number of a position belongs to (seed, position): the token is
 * a function of the logits, the text before it and the options alone, and it is
 * the one that the kernel of kernels/sample.h gives, to the bit.
 */
#ifndef SPT_SAMPLER_H
#define SPT_SAMPLER_H

#include <stddef.h>

#include "adjuster.h"
#include "random.h"
#include "sample.h"
#include "spectune.h"

typedef struct spt_sampler spt_sampler;

/* One candidate after the filters. */
typedef struct spt_candidate {
    int32_t token;
    uint64_t part; /* probability, of SPT_SAMPLE_WHOLE */
} spt_candidate;

/* options are checked (SPT_E_USAGE names the field) and copied. */
spt_status spt_sampler_open(const spt_sampling *options, int vocab,
                            spt_sampler **sampler, spt_error *err);
void spt_sampler_close(spt_sampler *sampler);
/* As given; the bias is the sampler's copy. */
const spt_sampling *spt_sampler_options(const spt_sampler *sampler);

/* The options for the kernel. */
spt_sample_row spt_sampler_row(const spt_sampler *sampler, int64_t position);
/* What changes logits first; NULL: nothing does. The sampler's. */
spt_adjuster *spt_sampler_adjuster(const spt_sampler *sampler);

/* The failure where no logit is above -infinity. */
spt_status spt_sampler_nothing(spt_error *err);

/*
 * The token after count tokens of text, whose logits are given (vocab of
 * them): the token at position count. Logits that are NaN never win; where all
 * are NaN or -infinity: SPT_E_DEVICE.
 */
spt_status spt_sampler_token(spt_sampler *sampler, const float *logits,
                             const int32_t *text, int count, int32_t *token,
                             spt_error *err);

/* The same for a use of its own; spt_sampler_token is SPT_RANDOM_SAMPLE's. */
spt_status spt_sampler_draw(spt_sampler *sampler, const float *logits,
                            const int32_t *text, int count, spt_random_use use,
                            int32_t *token, spt_error *err);

/*
 * The distribution that spt_sampler_token draws from, in the order of ids; at
 * temperature 0 one candidate. Valid until the sampler's next call.
 */
spt_status spt_sampler_candidates(spt_sampler *sampler, const float *logits,
                                  const int32_t *text, int count,
                                  const spt_candidate **candidates,
                                  size_t *n_candidates, spt_error *err);

#endif
