/*
 * Rotary position embedding as a table of frequencies.
 *
 * Pair p of a head (p in 0 ... dim/2-1) is turned by the angle
 * position * frequency[p], and multiplied by `magnitude`. All scalings are in
 * those two, so that a kernel knows none of them.
 */
#ifndef SPT_ROPE_H
#define SPT_ROPE_H

#include <stdbool.h>

typedef enum spt_rope_layout {
    SPT_ROPE_PAIRS, /* pair p is the elements 2p and 2p+1 */
    SPT_ROPE_HALVES, /* pair p is the elements p and p + dim/2 ("NeoX") */
} spt_rope_layout;

typedef enum spt_rope_scaling {
    SPT_ROPE_PLAIN,
    SPT_ROPE_LINEAR, /* positions divided by factor */
    SPT_ROPE_YARN, /* Peng et al., arXiv 2309.00071 */
} spt_rope_scaling;

typedef struct spt_rope {
    spt_rope_layout layout;
    int dim; /* elements of a head that are turned, even */
    double theta; /* base of the frequencies */
    double theta_local; /* of layers with a window; 0: the same, scaled too */
    spt_rope_scaling scaling; /* of layers without theta_local */
    double factor; /* how many times the original context */
    double original_context; /* yarn: tokens the model was trained with */
    double attention_factor; /* yarn: multiplies the magnitude; 1 is usual */
    double beta_fast, beta_slow; /* yarn: 32 and 1 are usual */
    /* (dim/2) divisors of the frequencies (llama 3), or NULL; the model's. */
    const float *factors;
} spt_rope;

/*
 * Fills frequency (dim/2) and *magnitude for a layer with a window (local) or
 * without. Computed in double, rounded once.
 */
void spt_rope_table(const spt_rope *rope, bool local, float *frequency,
                    float *magnitude);

#endif
