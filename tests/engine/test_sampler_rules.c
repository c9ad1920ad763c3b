/* The sampler: filters, penalties, ties, and what its numbers depend on. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "logprobs.h"
#include "sampler.h"

enum { VOCAB = 8 };

static spt_error err;
static const float plain[VOCAB] = {1, 3, 2, 3, -1, 0, -INFINITY, NAN};

/* The token after `count` tokens of text, or -1. */
static int token_of(const spt_sampling *options, const float *logits,
                    const int32_t *text, int count)
{
    spt_sampler *sampler = NULL;
    int32_t token = -1;
    if (spt_sampler_open(options, VOCAB, &sampler, &err) != SPT_OK)
        return -1;
    if (spt_sampler_token(sampler, logits, text, count, &token, &err) != SPT_OK)
        token = -1;
    spt_sampler_close(sampler);
    return token;
}

/* How many candidates are left, the sum of their probabilities in *sum. */
static size_t candidates_of(const spt_sampling *options, double *sum)
{
    spt_sampler *sampler = NULL;
    const spt_candidate *c = NULL;
    size_t n = 0;
    *sum = 0;
    if (spt_sampler_open(options, VOCAB, &sampler, &err) != SPT_OK)
        return 0;
    spt_sampler_candidates(sampler, plain, NULL, 0, &c, &n, &err);
    for (size_t i = 0; i < n; i++)
        *sum += (double)c[i].part / (double)SPT_SAMPLE_WHOLE;
    spt_sampler_close(sampler);
    return n;
}

static void test_philox(void)
{
    /* Known answers of the authors' Random123. */
    uint32_t zero[4] = {0}, out[4];
    spt_philox(zero, zero, out);
    CHECK(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d &&
              out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8,
          "Philox4x32-10 of zeros");
    uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u};
    spt_philox(ones, ones, out);
    CHECK(out[0] == 0x408f276d && out[1] == 0x41c83b0e &&
              out[2] == 0xa20bc7c6 && out[3] == 0x6d5451fd,
          "Philox4x32-10 of ones");
}

static void test_greedy(void)
{
    const int32_t text[] = {1, 1, 3};
    spt_sampling o = {0};
    CHECK_INT(token_of(&o, plain, NULL, 0), 1, "the lowest id on a tie");
    const float none[VOCAB] = {NAN, NAN,       -INFINITY, -INFINITY,
                               NAN, -INFINITY, NAN,       NAN};
    CHECK_INT(token_of(&o, none, NULL, 0), -1, "nothing to choose is refused");
    o.repeat_penalty = 2;
    CHECK_INT(token_of(&o, plain, text, 3), 2, "a penalty on what occurred");
    CHECK_INT(token_of(&o, plain, text, 2), 3, "and only on that");
    o.penalty_tokens = 1;
    CHECK_INT(token_of(&o, plain, text, 3), 1, "within its reach");
    o = (spt_sampling){.frequency_penalty = 0.4};
    CHECK_INT(token_of(&o, plain, text, 3), 3, "each occurrence counts");
    o = (spt_sampling){.presence_penalty = 1.5};
    CHECK_INT(token_of(&o, plain, text, 3), 2, "presence counts once");
    const spt_logit_bias bias[] = {{5, 3.5f}, {1, -INFINITY}};
    o = (spt_sampling){.bias = bias, .n_bias = 2};
    CHECK_INT(token_of(&o, plain, NULL, 0), 5, "a bias lifts a token");
    spt_logit_bias all[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        all[i] = (spt_logit_bias){i, INFINITY};
    o = (spt_sampling){.bias = all, .n_bias = VOCAB};
    CHECK_INT(token_of(&o, plain, NULL, 0), 0, "all lifted: the lowest id");
    for (int i = 0; i < VOCAB; i++)
        all[i].bias = -INFINITY;
    CHECK_INT(token_of(&o, plain, NULL, 0), -1, "all banned: refused");
}

static void test_filters(void)
{
    double sum;
    spt_sampling o = {.temperature = 1};
    CHECK_INT(candidates_of(&o, &sum), 6,
              "NaN and -infinity are no candidates");
    CHECK_NEAR(sum, 1, 1e-12, "probabilities add up");
    o.top_k = 3;
    CHECK_INT(candidates_of(&o, &sum), 3, "top-k");
    CHECK_NEAR(sum, 1, 1e-12, "and add up again");
    /* e^3 e^3 e^2 e^1 e^0 e^-1: parts .389 .389 .143 .053 .019 .007 */
    o = (spt_sampling){.temperature = 1, .top_p = 0.77};
    CHECK_INT(candidates_of(&o, &sum), 2, "top-p, the fewest that hold it");
    o.top_p = 0.8;
    CHECK_INT(candidates_of(&o, &sum), 3, "and one more");
    o.temperature = 100;
    CHECK_INT(candidates_of(&o, &sum), 3, "temperature comes after top-p");
    o = (spt_sampling){.temperature = 1, .top_p = 1e-300};
    CHECK_INT(candidates_of(&o, &sum), 1, "a tiny top-p is not off");
    o = (spt_sampling){.temperature = 1, .min_p = 0.3};
    CHECK_INT(candidates_of(&o, &sum), 3, "min-p");
    o = (spt_sampling){.temperature = 1e-9};
    CHECK_NEAR((candidates_of(&o, &sum), sum), 1, 1e-12, "a tiny temperature");
}

static void test_draws(void)
{
    enum { N = 200000 };
    const double p[VOCAB] = {.05263, .38891, .14307, .38891,
                             .00712, .01936, 0,      0};
    int counts[VOCAB] = {0};
    spt_sampler *sampler = NULL;
    spt_sampling o = {.temperature = 1, .seed = 7};
    bool good = spt_sampler_open(&o, VOCAB, &sampler, &err) == SPT_OK;
    for (int i = 0; i < N && good; i++) {
        int32_t token = 0;
        good =
            spt_sampler_token(sampler, plain, NULL, i, &token, &err) == SPT_OK;
        counts[token]++;
    }
    spt_sampler_close(sampler);
    CHECK(good, "draws succeed");
    double worst = 0;
    for (int i = 0; i < VOCAB; i++) {
        double sigma = sqrt(p[i] * (1 - p[i]) / N) + 1e-4;
        worst = fmax(worst, fabs((double)counts[i] / N - p[i]) / sigma);
    }
    CHECK(worst < 4, "200,000 draws follow the distribution (%.2f sigma)",
          worst);
    int same = 0;
    const int32_t text[64] = {0};
    o.temperature = 5;
    for (int i = 0; i < 64; i++)
        same += token_of(&o, plain, text, i) == token_of(&o, plain, text, i);
    CHECK_INT(same, 64, "a token is a function of seed and position");
}

static void test_logprobs(void)
{
    static const float edges[] = {NAN, -INFINITY, INFINITY, 3, INFINITY};
    spt_logprob_row row;
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += isnan(plain[i]) ? 0 : exp((double)plain[i]);
    spt_logprob_row_of(plain, VOCAB, 1, 3, &row);
    CHECK_NEAR(spt_logprob_of(&row, row.logit), (double)plain[1] - log(sum),
               1e-6, "log-softmax");
    CHECK_INT(row.count, 3, "the three best");
    CHECK(row.best[0].token == 1 && row.best[1].token == 3 &&
              row.best[2].token == 2,
          "in order, the lowest id first on a tie");
    CHECK_NEAR(spt_logprob_of(&row, row.best[2].value),
               (double)plain[2] - log(sum), 1e-6, "with logprobs");
    spt_logprob_row_of(edges, 5, 3, 20, &row);
    CHECK(row.count == 3 && row.best[0].token == 2 && row.best[1].token == 4 &&
              row.best[2].token == 3,
          "none that is no number above -infinity");
    CHECK_NEAR(spt_logprob_of(&row, row.best[1].value), log(.5), 1e-6,
               "+infinity counts as a number");
    spt_logprob_row_of(edges, 2, 1, 20, &row);
    CHECK(row.count == 0 && isnan(spt_logprob_of(&row, row.logit)),
          "and nothing where there is none");
}

static void test_refusals(void)
{
    spt_sampler *sampler = NULL;
    spt_sampling o = {.top_p = 1.5};
    CHECK_INT(spt_sampler_open(&o, VOCAB, &sampler, &err), SPT_E_USAGE,
              "top-p above one");
    CHECK_TEXT(err.text, "sampling: top_p 1.5, expected 0 to 1", "says so");
    o = (spt_sampling){.temperature = NAN};
    CHECK_INT(spt_sampler_open(&o, VOCAB, &sampler, &err), SPT_E_USAGE,
              "a temperature that is no number");
    const spt_logit_bias bias = {VOCAB, 1};
    o = (spt_sampling){.bias = &bias, .n_bias = 1};
    CHECK_INT(spt_sampler_open(&o, VOCAB, &sampler, &err), SPT_E_USAGE,
              "a bias for a token past the vocabulary");
}

int main(void)
{
    test_philox();
    test_greedy();
    test_filters();
    test_draws();
    test_logprobs();
    test_refusals();
    return check_done();
}
