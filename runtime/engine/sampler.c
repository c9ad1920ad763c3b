#include "sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* Powers of two below the highest probability: nothing is left of it. */
static const float NEGLIGIBLE = 46;

typedef struct scored {
    int32_t token;
    float logit;
} scored;

struct spt_sampler {
    spt_sampling options;
    spt_sample_row row; /* the filters and the temperature of the options */
    spt_logit_bias *bias;
    int vocab;
    spt_adjuster *adjuster; /* NULL: no bias or penalties change logits */
    scored *kept; /* (n_candidates of vocab) what the filters leave */
    spt_candidate *candidates; /* the same with probabilities */
    size_t n_candidates;
};

static bool in_range(double x, double min, double max)
{
    return x >= min && x <= max;
}

static spt_status check(const spt_sampling *o, int vocab, spt_error *err)
{
    const struct {
        const char *name;
        double value, min, max;
    } fields[] = {
        {"temperature", o->temperature, 0, 1e6},
        {"top_k", o->top_k, 0, INT32_MAX},
        {"top_p", o->top_p, 0, 1},
        {"min_p", o->min_p, 0, 1},
        {"repeat_penalty", o->repeat_penalty, 0, 1e6},
        {"presence_penalty", o->presence_penalty, -1e6, 1e6},
        {"frequency_penalty", o->frequency_penalty, -1e6, 1e6},
        {"penalty_tokens", o->penalty_tokens, -1, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!in_range(fields[i].value, fields[i].min, fields[i].max))
            return spt_fail(
                err, SPT_E_USAGE, "sampling: %s %g, expected %g to %g",
                fields[i].name, fields[i].value, fields[i].min, fields[i].max);
    for (size_t i = 0; i < o->n_bias; i++)
        if (o->bias[i].token < 0 || o->bias[i].token >= vocab ||
            isnan(o->bias[i].bias))
            return spt_fail(err, SPT_E_USAGE,
                            "sampling: bias of token %d, expected a number for "
                            "a token 0 to %d",
                            (int)o->bias[i].token, vocab - 1);
    return SPT_OK;
}

spt_status spt_sampler_open(const spt_sampling *options, int vocab,
                            spt_sampler **out, spt_error *err)
{
    SPT_TRY(check(options, vocab, err));
    size_t count = (size_t)vocab, n_bias = options->n_bias;
    spt_sampler *s = spt_calloc(1, sizeof *s);
    if (!s)
        return spt_fail(err, SPT_E_MEMORY, "sampler: out of memory");
    *s = (spt_sampler){.options = *options,
                       .row = spt_sample_row_of(options->temperature,
                                                options->top_k, options->top_p,
                                                options->min_p),
                       .vocab = vocab,
                       .bias = spt_calloc(n_bias + 1, sizeof *s->bias),
                       .kept = spt_calloc(count, sizeof *s->kept),
                       .candidates = spt_calloc(count, sizeof *s->candidates)};
    if (!s->bias || !s->kept || !s->candidates) {
        spt_sampler_close(s);
        return spt_fail(err, SPT_E_MEMORY, "sampler: out of memory");
    }
    spt_status status = spt_adjuster_open(options, vocab, &s->adjuster, err);
    if (status != SPT_OK) {
        spt_sampler_close(s);
        return status;
    }
    if (n_bias)
        memcpy(s->bias, options->bias, n_bias * sizeof *s->bias);
    s->options.bias = s->bias;
    s->row.seed = options->seed;
    *out = s;
    return SPT_OK;
}

void spt_sampler_close(spt_sampler *s)
{
    if (!s)
        return;
    spt_free(s->bias);
    spt_adjuster_close(s->adjuster);
    spt_free(s->kept);
    spt_free(s->candidates);
    spt_free(s);
}

const spt_sampling *spt_sampler_options(const spt_sampler *s)
{
    return &s->options;
}

spt_sample_row spt_sampler_row(const spt_sampler *s, int64_t position)
{
    spt_sample_row row = s->row;
    row.position = position;
    return row;
}

spt_adjuster *spt_sampler_adjuster(const spt_sampler *s)
{
    return s->adjuster;
}

/* Index of the highest, the first on a tie; -1 when there is none. */
static int32_t highest(const float *logits, int vocab)
{
    int32_t best = -1;
    float top = -INFINITY;
    for (int32_t i = 0; i < vocab; i++)
        if (logits[i] > top) {
            top = logits[i];
            best = i;
        }
    return best;
}

spt_status spt_sampler_nothing(spt_error *err)
{
    return spt_fail(err, SPT_E_DEVICE,
                    "sampling: no logit is a number above -infinity");
}

static int by_logit(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

static int by_token(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->token < y->token ? -1 : 1;
}

/* All that may count, by logit; the k highest where k > 0. */
static void collect(spt_sampler *s, const float *logits, float top)
{
    float scale = fminf(s->row.scale, spt_sample_one);
    float least = top - NEGLIGIBLE / scale;
    size_t n = 0, k = (size_t)s->options.top_k;
    for (int32_t i = 0; i < s->vocab; i++)
        if (spt_sample_logit(logits[i]) >= least)
            s->kept[n++] = (scored){i, spt_sample_logit(logits[i])};
    qsort(s->kept, n, sizeof *s->kept, by_logit);
    s->n_candidates = k > 0 && n > k ? k : n;
}

static uint64_t mass_of(const spt_sampler *s, size_t i, float top, float scale)
{
    return spt_sample_mass(s->kept[i].logit, top, scale);
}

static uint64_t mass_sum(const spt_sampler *s, float top, float scale)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_candidates; i++)
        sum += mass_of(s, i, top, scale);
    return sum;
}

static void keep_top_p(spt_sampler *s, float top)
{
    float p = s->row.top_p;
    if (p <= 0 || p >= 1)
        return;
    uint64_t wanted = spt_sample_kept(p, mass_sum(s, top, spt_sample_one));
    uint64_t kept = 0;
    size_t n = 0;
    while (n < s->n_candidates && kept < wanted)
        kept += mass_of(s, n++, top, spt_sample_one);
    s->n_candidates = n;
}

static void keep_min_p(spt_sampler *s, float top)
{
    float least = top + s->row.min_log;
    while (s->n_candidates > 1 && s->kept[s->n_candidates - 1].logit < least)
        s->n_candidates--;
}

/* What the filters leave, in the order of ids; the highest logit is *top. */
static spt_status filter(spt_sampler *s, const float *logits,
                         const int32_t *text, int count, float *top,
                         spt_error *err)
{
    const float *adjusted =
        s->adjuster ? spt_adjuster_apply(s->adjuster, logits, text, count)
                    : logits;
    int32_t best = highest(adjusted, s->vocab);
    if (best < 0)
        return spt_sampler_nothing(err);
    *top = spt_sample_logit(adjusted[best]);
    s->kept[0] = (scored){best, *top};
    s->n_candidates = 1;
    if (s->row.scale <= 0)
        return SPT_OK;
    collect(s, adjusted, *top);
    keep_top_p(s, *top);
    keep_min_p(s, *top);
    qsort(s->kept, s->n_candidates, sizeof *s->kept, by_token);
    return SPT_OK;
}

spt_status spt_sampler_candidates(spt_sampler *s, const float *logits,
                                  const int32_t *text, int count,
                                  const spt_candidate **candidates,
                                  size_t *n_candidates, spt_error *err)
{
    float top;
    SPT_TRY(filter(s, logits, text, count, &top, err));
    uint64_t one = spt_sample_reciprocal(mass_sum(s, top, s->row.scale));
    for (size_t i = 0; i < s->n_candidates; i++)
        s->candidates[i] = (spt_candidate){
            s->kept[i].token,
            spt_sample_part(mass_of(s, i, top, s->row.scale), one)};
    *candidates = s->candidates;
    *n_candidates = s->n_candidates;
    return SPT_OK;
}

spt_status spt_sampler_draw(spt_sampler *s, const float *logits,
                            const int32_t *text, int count, spt_random_use use,
                            int32_t *token, spt_error *err)
{
    float top, scale = s->row.scale;
    SPT_TRY(filter(s, logits, text, count, &top, err));
    double u = spt_random(s->options.seed, count, use);
    uint64_t at = spt_sample_at(u, mass_sum(s, top, scale));
    size_t i = 0;
    for (uint64_t mass; (mass = mass_of(s, i, top, scale)) <= at; i++)
        at -= mass;
    *token = s->kept[i].token;
    return SPT_OK;
}

spt_status spt_sampler_token(spt_sampler *s, const float *logits,
                             const int32_t *text, int count, int32_t *token,
                             spt_error *err)
{
    return spt_sampler_draw(s, logits, text, count, SPT_RANDOM_SAMPLE, token,
                            err);
}
