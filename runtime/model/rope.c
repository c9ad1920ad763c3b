#include "rope.h"

#include <math.h>
#include <stddef.h>

/* The pair whose wavelength makes `turns` turns within the context. */
static double yarn_pair(const spt_rope *rope, double turns)
{
    const double two_pi = 6.283185307179586;
    return rope->dim * log(rope->original_context / (turns * two_pi)) /
           (2 * log(rope->theta));
}

/* How much of pair p is kept as it is: 1 for fast pairs, 0 for slow ones,
   linear between the two corners (arXiv 2309.00071, section 3.2). */
static double yarn_kept(const spt_rope *rope, int p)
{
    double low = floor(yarn_pair(rope, rope->beta_fast));
    double high = ceil(yarn_pair(rope, rope->beta_slow));
    low = fmax(low, 0);
    high = fmin(high, rope->dim - 1);
    double ramp = (p - low) / fmax(0.001, high - low);
    return 1 - fmin(1, fmax(0, ramp));
}

void spt_rope_table(const spt_rope *rope, bool local, float *frequency,
                    float *magnitude)
{
    bool own = local && rope->theta_local > 0;
    spt_rope_scaling scaling = own ? SPT_ROPE_PLAIN : rope->scaling;
    double theta = own ? rope->theta_local : rope->theta;
    for (int p = 0; p < rope->dim / 2; p++) {
        double f = pow(theta, -2.0 * p / rope->dim);
        if (rope->factors && !own)
            f /= (double)rope->factors[p];
        if (scaling == SPT_ROPE_LINEAR)
            f /= rope->factor;
        if (scaling == SPT_ROPE_YARN) {
            double kept = yarn_kept(rope, p);
            f = f / rope->factor * (1 - kept) + f * kept;
        }
        frequency[p] = (float)f;
    }
    /* Section 3.4: the softmax's temperature, put on q and k alike. */
    *magnitude =
        scaling == SPT_ROPE_YARN
            ? (float)(rope->attention_factor *
                      (rope->factor > 1 ? 1 + 0.1 * log(rope->factor) : 1))
            : 1.0f;
}
