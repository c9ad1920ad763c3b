/*
 * Sampling (runtime/kernels/sample.h) for `spectune prove sample`: rows of
 * many kinds under options of many kinds; half of them judge a draft.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "op_logits.h"
#include "random.h"
#include "sample.h"

enum { LOGITS, OPTIONS, TOKEN, FROM };

/* Closer to an edge than this, an exp in fp32 could take the other side. */
static const double MARGIN = 1e-5;
/* Where p and q are this near, what is left of p hangs on them, too. */
static const double LEAST_LEFT = 1e-3;

/* Drafts that rows judge. */
typedef enum judges { NONE, CERTAIN, DRAWN } judges;

typedef struct entry {
    int id;
    double logit, p;
} entry;

/* Options of a row as a user has them. */
typedef struct wish {
    double temperature, top_p, min_p;
    int top_k;
    uint64_t seed;
    int64_t position;
    judges judges;
    uint64_t chance; /* which draft */
    int draft;
} wish;

static judges judges_of(const spt_op_case *c, size_t row)
{
    static const judges kinds[] = {NONE, CERTAIN, NONE, DRAWN};
    return kinds[(c->first + row) % 4];
}

/* Each filter on or off, temperature from 0 on. */
static wish options_of(const spt_op_case *c, size_t row, size_t turn)
{
    static const double temperatures[] = {0.8, 0, 1, 1.7, 0.1};
    static const double min_ps[] = {0, 0.05, 0.3, 0};
    size_t place = c->first + row;
    uint64_t bits = spt_op_random(c, "options", place, turn);
    wish o = {.temperature = temperatures[place % 5],
              .min_p = min_ps[bits % 4],
              .seed = spt_op_random(c, "seed", place, turn),
              .position = (int64_t)(bits >> 8 & 0xfffff),
              .judges = judges_of(c, row),
              .chance = spt_op_random(c, "draft", place, turn)};
    if (bits & 1 << 28)
        o.top_k = (int)(bits >> 30 & 63) + 1;
    if (bits & 1 << 29)
        o.top_p = (double)(bits >> 40 & 1023) / 1024;
    return o;
}

static int by_logit(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

static int by_id(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->id - y->id;
}

/* The row's logits above -infinity, highest first. */
static size_t sorted(const spt_op_case *c, int buffer, size_t row, entry *e)
{
    const spt_op_buffer *b = &c->buffers[buffer];
    size_t n = 0;
    for (size_t i = 0; i < b->width; i++) {
        double x = fmin(spt_op_get(b, row, i), (double)FLT_MAX);
        if (!isnan(spt_op_get(b, row, i)) && x > -INFINITY)
            e[n++] = (entry){.id = (int)i, .logit = x};
    }
    qsort(e, n, sizeof *e, by_logit);
    return n;
}

static double sum_of(entry *e, size_t n, double temperature)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        e[i].p = exp((e[i].logit - e[0].logit) / temperature);
        sum += e[i].p;
    }
    return sum;
}

/* How many of the sorted stay; *margin: nearness of top-p to its edge. */
static size_t filtered(entry *e, size_t n, const wish *o, double *margin)
{
    if (o->top_k > 0 && n > (size_t)o->top_k)
        n = (size_t)o->top_k;
    if (o->top_p > 0 && o->top_p < 1) {
        double sum = sum_of(e, n, 1), left = o->top_p * sum;
        size_t kept = 0;
        while (kept < n && left > 0)
            left -= e[kept++].p;
        *margin = fmin(-left, kept ? left + e[kept - 1].p : 0) / sum;
        n = kept;
    }
    double least = e[0].logit + log(o->min_p);
    while (o->min_p > 0 && n > 1 && e[n - 1].logit < least)
        n--;
    return n;
}

/* What the options leave of the sorted, scaled to 1, in the order of ids. */
static size_t distribution(entry *e, size_t n, const wish *o, double *margin)
{
    n = filtered(e, n, o, margin);
    double sum = sum_of(e, n, o->temperature);
    for (size_t i = 0; i < n; i++)
        e[i].p /= sum;
    qsort(e, n, sizeof *e, by_id);
    return n;
}

/* The id whose part of `sum` holds u, and how near it is to another's. */
static int pick(const entry *e, size_t n, double u, double sum, double *margin)
{
    size_t i = 0;
    for (u *= sum; i + 1 < n && u >= e[i].p; i++)
        u -= e[i].p;
    *margin = fmin(*margin, fmin(u, e[i].p - u) / sum);
    return e[i].id;
}

static double at(const entry *e, size_t n, int id)
{
    for (size_t i = 0; i < n; i++)
        if (e[i].id == id)
            return e[i].p;
    return 0;
}

/* A token of max(p - q, 0). */
static int residual(entry *e, size_t n, const entry *q, size_t n_q,
                    const wish *o, double *margin)
{
    double v = spt_random(o->seed, o->position, SPT_RANDOM_RESIDUAL), sum = 0;
    for (size_t i = 0; i < n; i++) {
        double drawn = o->judges == DRAWN ? at(q, n_q, e[i].id)
                                          : (double)(e[i].id == o->draft);
        e[i].p = fmax(e[i].p - drawn, 0);
        sum += e[i].p;
    }
    if (sum < LEAST_LEFT)
        *margin = 0;
    return pick(e, n, v, sum, margin);
}

/* The draft, or what comes instead; the draft is chosen here. */
static int judge(const spt_op_case *c, size_t row, wish *o, entry *e, size_t n,
                 entry *q, double *margin)
{
    size_t vocabulary = c->buffers[LOGITS].width, n_q = 0;
    double other = 1;
    if (o->judges == DRAWN)
        n_q = distribution(q, sorted(c, FROM, row, q), o, &other);
    o->draft = n_q             ? q[o->chance % n_q].id
               : o->chance & 1 ? e[o->chance / 2 % n].id
                               : (int)(o->chance / 2 % vocabulary);
    double u = spt_random(o->seed, o->position, SPT_RANDOM_ACCEPT);
    double uq = u * (n_q ? at(q, n_q, o->draft) : 1), p = at(e, n, o->draft);
    other = fmin(other, fabs(uq - p) / fmax(uq, p) / 10);
    *margin = fmin(*margin, other);
    return uq < p ? o->draft : residual(e, n, q, n_q, o, margin);
}

/* The token that the options give of e, sorted, and how near to another. */
static int choose(const spt_op_case *c, size_t row, wish *o, entry *e, size_t n,
                  double *margin)
{
    *margin = 1;
    if (o->temperature <= 0)
        return e[0].id;
    n = distribution(e, n, o, margin);
    if (o->judges != NONE)
        return judge(c, row, o, e, n, e + c->buffers[LOGITS].width, margin);
    return pick(e, n, spt_random(o->seed, o->position, SPT_RANDOM_SAMPLE), 1,
                margin);
}

/* Options whose token does not hang on the last bits of an exp; the token, -1
   where there is none. e has room for two rows. */
static wish certain(const spt_op_case *c, size_t row, entry *e, int *token)
{
    double margin;
    for (size_t turn = 0;; turn++) {
        wish o = options_of(c, row, turn);
        size_t n = sorted(c, LOGITS, row, e);
        *token = n ? choose(c, row, &o, e, n, &margin) : -1;
        if (!n || turn == 100 || margin > MARGIN)
            return o;
    }
}

static entry *two_rows(spt_op_case *c)
{
    size_t vocabulary = (size_t)spt_op_int(c, "vocabulary");
    return spt_arena_alloc(&c->arena, 2 * vocabulary + 1, sizeof(entry));
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    spt_op_add_logits(c, SPT_ROLE_IN);
    spt_op_buffer *options =
        spt_op_add_structs(c, "options", SPT_ROLE_IN, sizeof(spt_sample_row));
    spt_op_add(c, "token", SPT_ELEMENT_I32, SPT_ROLE_OUT, true, c->rows, 1)
        ->stride = 1;
    spt_op_fill(c,
                spt_op_add(c, "from", SPT_ELEMENT_F32, SPT_ROLE_IN, true,
                           c->rows, (size_t)spt_op_int(c, "vocabulary")),
                3);
    entry *e = two_rows(c);
    if (c->failed || !e)
        return spt_fail(err, SPT_E_MEMORY, "sample: out of memory");
    for (size_t row = 0; row < c->rows; row++) {
        int token;
        wish w = certain(c, row, e, &token);
        spt_sample_row o =
            spt_sample_row_of(w.temperature, w.top_k, w.top_p, w.min_p);
        o.seed = w.seed;
        o.position = w.position;
        o.draft = w.draft;
        o.use = w.judges != NONE ? SPT_RANDOM_ACCEPT : SPT_RANDOM_SAMPLE;
        memcpy(options->data + row * sizeof o, &o, sizeof o);
    }
    return SPT_OK;
}

static void expect_row(spt_op_case *c, size_t row, entry *e)
{
    int token;
    certain(c, row, e, &token);
    spt_op_expect_exactly(&c->buffers[TOKEN], row, 0, token);
}

static void reference(spt_op_case *c)
{
    entry *e = two_rows(c);
    for (size_t row = 0; e && row < c->rows; row++)
        expect_row(c, row, e);
    c->failed = c->failed || !e;
}

/* Rows that judge a drawn draft get the address that it was drawn from. */
static spt_status set_origins(const spt_driver *driver, const spt_op_case *c,
                              const CUdeviceptr *at, spt_error *err)
{
    size_t bytes = c->buffers[FROM].stride * sizeof(float);
    for (size_t row = 0; row < c->rows; row++) {
        CUdeviceptr from = at[FROM] + row * bytes;
        CUdeviceptr to = at[OPTIONS] + row * sizeof(spt_sample_row) +
                         offsetof(spt_sample_row, from);
        if (judges_of(c, row) == DRAWN)
            SPT_TRY(spt_driver_check(
                driver, driver->cuMemcpyHtoD(to, &from, sizeof from),
                "cuMemcpyHtoD", err));
    }
    return SPT_OK;
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_sample_args args = {
        .logits = at[LOGITS],
        .rows = at[OPTIONS],
        .token = at[TOKEN],
        .logits_stride = (int64_t)c->buffers[LOGITS].stride,
        .vocabulary = (int32_t)c->buffers[LOGITS].width,
    };
    SPT_TRY(set_origins(driver, c, at, err));
    return spt_sample_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_sample = {
    .name = "sample",
    .values = {SPT_OP_VOCABULARY},
    .make = make,
    .reference = reference,
    .launch = launch,
};
