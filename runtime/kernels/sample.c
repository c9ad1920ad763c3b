#include "sample.h"

#include <float.h>
#include <math.h>

const float spt_sample_one = 1.4426950408889634f;

/* Taylor's polynomial of 2^x, as in templates/sample.cu. */
static const float exp2_terms[] = {
    1.0f,           0.693147182f,   0.240226507f,   0.0555041097f,
    0.00961812865f, 0.00133335579f, 0.000154035297f};

spt_sample_row spt_sample_row_of(double temperature, int top_k, double top_p,
                                 double min_p)
{
    /* No probability above 0 becomes 0, which is "off". */
    spt_sample_row row = {.top_k = top_k,
                          .top_p = top_p > 0 ? fmaxf((float)top_p, FLT_MIN) : 0,
                          .min_log = min_p > 0 ? (float)log(min_p) : -INFINITY};
    if (temperature > 0)
        row.scale = (float)fmin((double)spt_sample_one / temperature, 1e30);
    return row;
}

float spt_sample_logit(float logit)
{
    return isnan(logit) ? -INFINITY : fminf(logit, FLT_MAX) + 0.0f;
}

uint64_t spt_sample_mass(float logit, float top, float scale)
{
    float y = fmaxf((logit - top) * scale, -64.0f);
    float whole = rintf(y), f = y - whole, e = exp2_terms[6];
    for (int i = 5; i >= 0; i--)
        e = fmaf(e, f, exp2_terms[i]);
    return (uint64_t)ldexpf(e, SPT_SAMPLE_MASS_BITS + (int)whole);
}

uint64_t spt_sample_kept(float top_p, uint64_t sum)
{
    uint64_t kept = (uint64_t)ceil((double)top_p * (double)sum);
    return kept ? kept : 1;
}

/* Of a product's 128 bits. */
static uint64_t high_half(uint64_t a, uint64_t b)
{
    uint64_t a1 = a >> 32, a0 = a & UINT32_MAX;
    uint64_t b1 = b >> 32, b0 = b & UINT32_MAX;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    uint64_t low = a0 * b1 + (middle & UINT32_MAX);
    return a1 * b1 + (middle >> 32) + (low >> 32);
}

uint64_t spt_sample_at(double u, uint64_t sum)
{
    /* u has 53 bits, and 11 zeros below them. */
    return high_half((uint64_t)(u * 0x1p53) << 11, sum);
}

uint64_t spt_sample_reciprocal(uint64_t sum)
{
    /* floor(2^107 / sum), bit by bit; sums are 2^44 to 2^63. */
    uint64_t quotient = 0, rest = UINT64_C(1) << 43;
    for (int i = 0; i < 64; i++) {
        rest *= 2;
        quotient = quotient << 1 | (rest >= sum);
        rest -= rest >= sum ? sum : 0;
    }
    return quotient;
}

uint64_t spt_sample_part(uint64_t mass, uint64_t reciprocal)
{
    return high_half(mass << 19, reciprocal);
}

spt_status spt_sample_check(const char *what, int32_t vocabulary,
                            spt_error *err)
{
    if (vocabulary > 0 && vocabulary <= SPT_SAMPLE_VOCABULARY)
        return SPT_OK;
    return spt_fail(err, SPT_E_USAGE, "%s: vocabulary of %d, expected 1 to %d",
                    what, (int)vocabulary, SPT_SAMPLE_VOCABULARY);
}

spt_status spt_sample_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_sample_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_sample_args copy = *args;
    const int64_t grid[3] = {rows, 1, 1};
    SPT_TRY(spt_sample_check("sample", args->vocabulary, err));
    return spt_launch(driver, kernel, grid, &copy, stream, "sample", err);
}
