/*
 * The token of each row of logits, templates/sample: top-k, then top-p of
 * that, then min-p, then temperature; the rows' random numbers are those of
 * spt_random (Philox of seed and position). NaN never wins, +infinity counts
 * as the largest number.
 *
 * Probabilities are integers (2^44 for the highest logit), so that their sums
 * are exact and a token depends on its row alone; they come from operations
 * that IEEE 754 fixes, so that a host draws the same token. Those kept are laid
 * end to end in the order of ids, and the one that holds u * sum is drawn;
 * among equal logits at the edge of top-k and top-p the lowest ids are kept.
 *
 * A row that judges gives its draft, drawn from q, with probability p(draft) /
 * q(draft), else a token of max(p - q, 0), scaled to 1: engine/accept.h.
 */
#ifndef SPT_SAMPLE_H
#define SPT_SAMPLE_H

#include "launch.h"

/* Of a row, as the kernel reads it. */
typedef struct spt_sample_row {
    float scale; /* log2(e) / temperature; 0: the highest logit, the lowest id
                    on a tie */
    float top_p; /* 0 or 1 and above: off */
    float min_log; /* the natural logarithm of min-p; -infinity: off */
    int32_t top_k; /* 0: off */
    uint64_t seed;
    int64_t position; /* of the token that is drawn */
    /* Of a draft that is judged; temperature 0 judges none. */
    uint64_t from; /* device address of the logits that it was drawn from by
                      these options; 0: it was certain */
    int32_t draft;
    int32_t use; /* spt_random_use: SPT_RANDOM_SAMPLE or SPT_RANDOM_DRAFT draws,
                    SPT_RANDOM_ACCEPT judges the draft */
} spt_sample_row;

/* Options as users give them, 0: off; temperature 0: the highest logit. */
spt_sample_row spt_sample_row_of(double temperature, int top_k, double top_p,
                                 double min_p);

/* log2(e): the scale of temperature 1, by which top-p counts. */
extern const float spt_sample_one;

/* A logit as kernels take it: NaN is -infinity, +infinity the largest number,
   -0 is 0. */
float spt_sample_logit(float logit);

/* The highest logit's integer probability is 2 to this. */
enum {
    SPT_SAMPLE_MASS_BITS = 44,
    SPT_SAMPLE_VOCABULARY = 1 << 19, /* so many masses sum to 2^63 */
};

/* The integer probability of a logit below `top`, to the kernel's bits. */
uint64_t spt_sample_mass(float logit, float top, float scale);
/* Of the masses' sum, what top-p has to keep. */
uint64_t spt_sample_kept(float top_p, uint64_t sum);
/* Which part of the masses' sum the random number u in [0, 1) names. */
uint64_t spt_sample_at(double u, uint64_t sum);

/*
 * A probability as an integer, of SPT_SAMPLE_WHOLE: of a mass, by the
 * reciprocal of the masses' sum.
 */
static const uint64_t SPT_SAMPLE_WHOLE = UINT64_C(1) << 62;
uint64_t spt_sample_reciprocal(uint64_t sum);
uint64_t spt_sample_part(uint64_t mass, uint64_t reciprocal);

typedef struct spt_sample_args {
    CUdeviceptr logits; /* float (row, vocabulary) */
    CUdeviceptr rows; /* spt_sample_row (row) */
    CUdeviceptr token; /* int32 (row); -1 where no logit is above -infinity */
    int64_t logits_stride;
    int32_t vocabulary; /* at most SPT_SAMPLE_VOCABULARY */
} spt_sample_args;

/* That a kernel over rows of logits (`what`) takes the vocabulary. */
spt_status spt_sample_check(const char *what, int32_t vocabulary,
                            spt_error *err);

/* One CTA a row. */
spt_status spt_sample_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_sample_args *args, int64_t rows,
                             CUstream stream, spt_error *err);

#endif
