/*
 * Sampling (runtime/kernels/sample.h) for `spectune prove sample`: rows of
 * many kinds under options of many kinds.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op_logits.h"
#include "random.h"
#include "sample.h"

enum { LOGITS, OPTIONS, TOKEN };

/* Closer to an edge than this, an exp in fp32 could take the other side. */
static const double MARGIN = 1e-5;

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
} wish;

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
              .position = (int64_t)(bits >> 8 & 0xfffff)};
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
static size_t sorted(const spt_op_case *c, size_t row, entry *e)
{
    const spt_op_buffer *b = &c->buffers[LOGITS];
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

/* The token that the options give, and how near to another one. */
static int choose(entry *e, size_t n, const wish *o, double *margin)
{
    *margin = 1;
    if (o->temperature <= 0)
        return e[0].id;
    n = filtered(e, n, o, margin);
    double sum = sum_of(e, n, o->temperature);
    double u = spt_random(o->seed, o->position, SPT_RANDOM_SAMPLE) * sum;
    qsort(e, n, sizeof *e, by_id);
    size_t i = 0;
    while (i + 1 < n && u >= e[i].p)
        u -= e[i++].p;
    *margin = fmin(*margin, fmin(u, e[i].p - u) / sum);
    return e[i].id;
}

/* Options whose token does not hang on the last bits of an exp. */
static wish certain(const spt_op_case *c, size_t row, entry *e)
{
    double margin;
    for (size_t turn = 0;; turn++) {
        wish o = options_of(c, row, turn);
        size_t n = sorted(c, row, e);
        if (!n || turn == 100)
            return o;
        choose(e, n, &o, &margin);
        if (margin > MARGIN)
            return o;
    }
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t vocabulary = (size_t)spt_op_int(c, "vocabulary");
    spt_op_add_logits(c, SPT_ROLE_IN);
    spt_op_buffer *options =
        spt_op_add_structs(c, "options", SPT_ROLE_IN, sizeof(spt_sample_row));
    spt_op_add(c, "token", SPT_ELEMENT_I32, SPT_ROLE_OUT, true, c->rows, 1)
        ->stride = 1;
    entry *e = spt_arena_alloc(&c->arena, vocabulary, sizeof *e);
    if (c->failed || !e)
        return spt_fail(err, SPT_E_MEMORY, "sample: out of memory");
    for (size_t row = 0; row < c->rows; row++) {
        wish w = certain(c, row, e);
        spt_sample_row o =
            spt_sample_row_of(w.temperature, w.top_k, w.top_p, w.min_p);
        o.seed = w.seed;
        o.position = w.position;
        memcpy(options->data + row * sizeof o, &o, sizeof o);
    }
    return SPT_OK;
}

static void expect_row(spt_op_case *c, size_t row, entry *e)
{
    double margin;
    wish o = certain(c, row, e);
    size_t n = sorted(c, row, e);
    int token = n ? choose(e, n, &o, &margin) : -1;
    spt_op_expect_exactly(&c->buffers[TOKEN], row, 0, token);
}

static void reference(spt_op_case *c)
{
    entry *e =
        spt_arena_alloc(&c->arena, c->buffers[LOGITS].width + 1, sizeof *e);
    for (size_t row = 0; e && row < c->rows; row++)
        expect_row(c, row, e);
    c->failed = c->failed || !e;
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
