/*
 * Verify attention as it is defined, in double and without any tricks: what
 * the kernels are compared with.
 */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "problem.h"

/* The instance's numbers as floats, in the same order. */
typedef struct numbers {
    float *q, *k, *v;
} numbers;

static float *widen(const uint16_t *bits, size_t count, spt_dtype dtype)
{
    float *values = spt_calloc(count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = spt_half_to_float(dtype, bits[i]);
    return values;
}

/* Four running sums, so that they can go side by side. */
static double dot(const float *a, const float *b, size_t n, double *size)
{
    double sum[4] = {0}, sizes[4] = {0};
    for (size_t i = 0; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++) {
            double x = (double)a[i + j] * (double)b[i + j];
            sum[j] += x;
            sizes[j] += fabs(x);
        }
    *size = sizes[0] + sizes[1] + sizes[2] + sizes[3];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Slot of the token at a position on the path to a draft token. */
static int64_t path_slot(const spt_instance *in, int s, int token, int position)
{
    int depth = position - in->context[s];
    if (depth < 0)
        return in->kv_first[s] + position;
    uint32_t path = in->tree[token];
    while (depth-- > 0)
        path &= path - 1;
    return in->kv_first[s] + in->context[s] + __builtin_ctz(path);
}

/* One query head of one token; logits is scratch for every position. */
static void reference_row(const spt_instance *in, const numbers *wide, int s,
                          int token, int head, double *logits, double *out,
                          double *weight, double *lse, double *reach)
{
    const spt_problem *p = &in->problem;
    size_t dim = (size_t)p->head_dim;
    size_t slot_size = (size_t)p->kv_heads * dim;
    size_t kv_head = (size_t)(head / (p->q_heads / p->kv_heads)) * dim;
    int last = in->context[s] + spt_instance_depth(in, token);
    int first = last + 1 - spt_instance_visible(in, s, token);
    double scale = 1 / sqrt((double)p->head_dim), top = -INFINITY;
    const float *q =
        wide->q + ((size_t)token * (size_t)p->q_heads + (size_t)head) * dim;
    *reach = 0;
    for (int position = first; position <= last; position++) {
        size_t slot = (size_t)path_slot(in, s, token, position);
        double size;
        double logit =
            scale * dot(q, wide->k + slot * slot_size + kv_head, dim, &size);
        if (p->softcap > 0)
            logit = p->softcap * tanh(logit / p->softcap);
        logits[position - first] = logit;
        top = fmax(top, logit);
        *reach = fmax(*reach, size * scale);
    }
    if (p->sinks)
        top = fmax(top, (double)in->sinks[head]);
    double sum = p->sinks ? exp((double)in->sinks[head] - top) : 0;
    for (int position = first; position <= last; position++) {
        size_t slot = (size_t)path_slot(in, s, token, position);
        double w = exp(logits[position - first] - top);
        const float *v = wide->v + slot * slot_size + kv_head;
        sum += w;
        for (size_t d = 0; d < dim; d++) {
            double x = (double)v[d];
            out[d] += w * x;
            weight[d] += w * fabs(x);
        }
    }
    for (size_t d = 0; d < dim; d++) {
        out[d] /= sum;
        weight[d] /= sum;
    }
    *lse = top + log(sum);
}

static void reference_rows(const spt_instance *in, const numbers *wide,
                           double *logits, double *out, double *weight,
                           double *lse, double *reach)
{
    const spt_problem *p = &in->problem;
    for (int s = 0; s < in->batch; s++)
        for (int token = in->q_start[s]; token < in->q_start[s + 1]; token++)
            for (int head = 0; head < p->q_heads; head++) {
                size_t row = (size_t)token * (size_t)p->q_heads + (size_t)head;
                size_t at = row * (size_t)p->head_dim;
                reference_row(in, wide, s, token, head, logits, out + at,
                              weight + at, lse + row, reach + row);
            }
}

spt_status spt_reference(const spt_instance *in, double *out, double *weight,
                         double *lse, double *reach, spt_error *err)
{
    const spt_problem *p = &in->problem;
    size_t longest = 1;
    for (int s = 0; s < in->batch; s++) {
        size_t n = (size_t)(in->kv_first[s + 1] - in->kv_first[s]);
        longest = n > longest ? n : longest;
    }
    size_t rows = (size_t)in->n_tokens * (size_t)p->q_heads;
    size_t dim = (size_t)p->head_dim;
    size_t kv = (size_t)in->kv_first[in->batch] * (size_t)p->kv_heads * dim;
    double *logits = spt_calloc(longest, sizeof *logits);
    numbers wide = {widen(in->q, rows * dim, p->dtype),
                    widen(in->k, kv, p->dtype), widen(in->v, kv, p->dtype)};
    bool enough = logits && wide.q && wide.k && wide.v;
    memset(out, 0, rows * dim * sizeof *out);
    memset(weight, 0, rows * dim * sizeof *weight);
    if (enough)
        reference_rows(in, &wide, logits, out, weight, lse, reach);
    spt_free(logits);
    spt_free(wide.q);
    spt_free(wide.k);
    spt_free(wide.v);
    return enough ? SPT_OK
                  : spt_fail(err, SPT_E_MEMORY, "reference: out of memory");
}

/*
 * Relative error of one weight exp(x): the fp32 dot product of n terms, the
 * scaling and subtraction around it (logits up to reach), ex2.approx (2^-22).
 */
static double weight_error(const spt_instance *in, double reach)
{
    const double unit = 0x1p-24;
    double logit = (in->problem.head_dim + 4) * unit * reach;
    if (in->problem.softcap > 0)
        logit += in->problem.softcap * 8 * 0x1p-22;
    return logit + 4 * unit * (reach + 1) + 0x1p-22;
}

double spt_bound_out(const spt_instance *in, double out, double weight,
                     double reach, int visible)
{
    double half = spt_half_roundoff(in->problem.dtype);
    bool exact = in->problem.fill == SPT_FILL_EQUAL;
    double p = exact ? 0 : half + 2 * weight_error(in, reach);
    double sums = (visible / 16.0 + 32) * 0x1p-23;
    double smallest = in->problem.dtype == SPT_FP16 ? 0x1p-25 : 0x1p-126;
    return half * fabs(out) + (1 + half) * (p + sums) * weight + smallest;
}

double spt_bound_lse(const spt_instance *in, double lse, double reach,
                     int visible)
{
    double sums = (visible / 16.0 + 32) * 0x1p-23;
    return 2 * weight_error(in, reach) + sums + fabs(lse) * 0x1p-22 + 0x1p-20;
}
