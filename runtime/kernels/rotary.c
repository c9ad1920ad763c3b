#include "rotary.h"

#include <math.h>

spt_status spt_rotary_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_rotary_args *args, int64_t batch,
                             int64_t max_tokens, CUstream stream,
                             spt_error *err)
{
    spt_rotary_args copy = *args;
    int64_t warps = kernel->threads / 32;
    int64_t heads = (int64_t)args->q_heads + 2 * (int64_t)args->kv_heads;
    const int64_t grid[3] = {(heads + warps - 1) / warps, max_tokens, batch};
    return spt_launch(driver, kernel, grid, &copy, stream, "rotary", err);
}

/* Parameters with what zero stands for. */
static spt_rotary_params completed(const spt_rotary_params *given)
{
    spt_rotary_params p = *given;
    p.low_freq_factor = p.low_freq_factor ? p.low_freq_factor : 1;
    p.high_freq_factor = p.high_freq_factor ? p.high_freq_factor : 4;
    p.beta_fast = p.beta_fast ? p.beta_fast : 32;
    p.beta_slow = p.beta_slow ? p.beta_slow : 1;
    if (!p.attention_factor)
        p.attention_factor =
            p.scaling == SPT_ROTARY_YARN ? 0.1 * log(p.factor) + 1 : 1;
    return p;
}

static spt_status check(const spt_rotary_params *p, spt_error *err)
{
    bool by_context =
        p->scaling == SPT_ROTARY_LLAMA3 || p->scaling == SPT_ROTARY_YARN;
    if (p->dim < 2 || p->dim % 2)
        return spt_fail(err, SPT_E_USAGE,
                        "rotary: dim %d, expected an even number", p->dim);
    if (!(p->theta > 1) || !isfinite(p->theta))
        return spt_fail(err, SPT_E_USAGE,
                        "rotary: theta %g, expected a number above 1",
                        p->theta);
    if (p->scaling != SPT_ROTARY_PLAIN &&
        (!(p->factor > 0) || !isfinite(p->factor)))
        return spt_fail(err, SPT_E_USAGE,
                        "rotary: factor %g, expected a positive number",
                        p->factor);
    if (by_context && !(p->original_context >= 1))
        return spt_fail(err, SPT_E_USAGE,
                        "rotary: original context %g, expected at least 1",
                        p->original_context);
    if (p->scaling == SPT_ROTARY_LLAMA3 && p->high_freq_factor &&
        !(p->high_freq_factor > p->low_freq_factor))
        return spt_fail(err, SPT_E_USAGE,
                        "rotary: high frequency factor %g, expected above the "
                        "low one, %g",
                        p->high_freq_factor, p->low_freq_factor);
    return SPT_OK;
}

static const double two_pi = 6.283185307179586;

/*
 * Llama 3: wavelengths below original / high stay, those above original / low
 * are divided by the factor, in between the two are blended.
 */
static double llama3(const spt_rotary_params *p, double frequency)
{
    double turns = p->original_context * frequency / two_pi;
    double span = p->high_freq_factor - p->low_freq_factor;
    double keep = (turns - p->low_freq_factor) / span;
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return frequency * (keep + (1 - keep) / p->factor);
}

/* The pair, not rounded, that turns so often over the original context. */
static double yarn_pair(const spt_rotary_params *p, double turns)
{
    return p->dim * log(p->original_context / (turns * two_pi)) /
           (2 * log(p->theta));
}

/* YaRN (arXiv 2309.00071, section 3.2), with the published code's rounding. */
static double yarn(const spt_rotary_params *p, int pair, double frequency)
{
    double low = floor(yarn_pair(p, p->beta_fast));
    double high = ceil(yarn_pair(p, p->beta_slow));
    low = low > 0 ? low : 0;
    high = high < p->dim - 1 ? high : p->dim - 1;
    double span = high > low ? high - low : 0.001;
    double ramp = (pair - low) / span;
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return frequency * (1 - ramp + ramp / p->factor);
}

/* Radians per position of a pair. */
static double frequency_of(const spt_rotary_params *p, int pair)
{
    double frequency = pow(p->theta, -2.0 * pair / p->dim);
    if (p->freq_factors)
        frequency /= (double)p->freq_factors[pair];
    switch (p->scaling) {
    case SPT_ROTARY_PLAIN:
        break;
    case SPT_ROTARY_LINEAR:
        return frequency / p->factor;
    case SPT_ROTARY_LLAMA3:
        return llama3(p, frequency);
    case SPT_ROTARY_YARN:
        return yarn(p, pair, frequency);
    }
    return frequency;
}

spt_status spt_rotary_table(const spt_rotary_params *params, int64_t first,
                            int64_t count, float *cos_sin, spt_error *err)
{
    SPT_TRY(check(params, err));
    const spt_rotary_params p = completed(params);
    int pairs = p.dim / 2;
    for (int pair = 0; pair < pairs; pair++) {
        double frequency = frequency_of(&p, pair);
        for (int64_t i = 0; i < count; i++) {
            double angle = (double)(first + i) * frequency;
            float *at = cos_sin + (i * pairs + pair) * 2;
            at[0] = (float)(cos(angle) * p.attention_factor);
            at[1] = (float)(sin(angle) * p.attention_factor);
        }
    }
    return SPT_OK;
}
