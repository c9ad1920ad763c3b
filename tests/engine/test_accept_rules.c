/*
 * Drafts to text: n-gram matches, chains and trees against the text that one
 * token at a time gives, rejection against the target's distribution.
 */
#include <math.h>
#include <stdlib.h>

#include "accept.h"
#include "check.h"
#include "draft_ngram.h"
#include "reject_pairs.h"

enum { VOCAB = REJECT_TOKENS, STEPS = 4000 };

static spt_error err;
static uint64_t state = 1;

static int random_below(int n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((state >> 33) % (uint64_t)n);
}

/* A model: logits from the last two tokens and the position. */
static void model_logits(int32_t before, int32_t last, int count, float *logits)
{
    for (int i = 0; i < VOCAB; i++) {
        unsigned mix = (unsigned)last * 7u + (unsigned)i * 13u +
                       (unsigned)(count % 3) * 5u + (unsigned)before * 3u;
        logits[i] = (float)(mix * 2654435761u >> 24) / 64.0f;
    }
}

/* Logits of every node, each from its own path. */
static void node_logits(const spt_sequence *s, const spt_draft *d,
                        float *logits)
{
    int32_t text[SPT_DRAFT_NODES + 2];
    for (int node = 0; node <= d->count; node++) {
        int depth = spt_draft_depth(d, node), at = node;
        text[0] = s->tokens[s->n_tokens - 2];
        text[1] = s->tokens[s->n_tokens - 1];
        for (int i = depth; i > 0; i--, at = d->parent[at])
            text[1 + i] = d->token[at];
        model_logits(text[depth], text[1 + depth], s->n_tokens + depth,
                     logits + node * VOCAB);
    }
}

/* A chain or a tree of random tokens. */
static void random_draft(spt_draft *d, bool tree)
{
    spt_draft_clear(d);
    int count = random_below(12), node = 0;
    for (int i = 0; i < count; i++) {
        int parent = tree ? random_below(d->count + 1) : node, same;
        int added = spt_draft_add(d, parent, random_below(VOCAB), &same);
        node = added >= 0 ? added : node;
    }
}

static void text_of(const spt_sampling *sampling, int mode, int32_t *text)
{
    spt_pool *pool = NULL;
    spt_sampler *sampler = NULL;
    spt_sequence s;
    spt_draft d;
    spt_accepted accepted;
    float logits[SPT_DRAFT_NODES * VOCAB];
    const int32_t start[] = {1, 2};
    spt_pool_open(1, 16, &pool, &err);
    spt_sampler_open(sampling, VOCAB, &sampler, &err);
    spt_sequence_open(&s, pool);
    spt_sequence_append(&s, start, 2, &err);
    while (s.n_tokens < STEPS) {
        spt_draft_clear(&d);
        if (mode > 0)
            random_draft(&d, mode == 2);
        node_logits(&s, &d, logits);
        if (spt_accept(sampler, SPT_ACCEPT_MATCH, &d, logits, VOCAB, &s,
                       &accepted, &err) != SPT_OK)
            break;
    }
    memcpy(text, s.tokens, STEPS * sizeof *text);
    spt_sequence_close(&s);
    spt_sampler_close(sampler);
    spt_pool_close(pool);
}

static void test_match(void)
{
    static int32_t plain[STEPS], chain[STEPS], tree[STEPS];
    const spt_sampling rows[] = {
        {0},
        {.temperature = 0.8, .seed = 3},
        {.temperature = 2,
         .seed = 4,
         .top_k = 3,
         .frequency_penalty = 0.5,
         .repeat_penalty = 1.3,
         .penalty_tokens = 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_of(&rows[i], 0, plain);
        text_of(&rows[i], 1, chain);
        text_of(&rows[i], 2, tree);
        CHECK(memcmp(plain, chain, sizeof plain) == 0,
              "chains change nothing, sampling %zu", i);
        CHECK(memcmp(plain, tree, sizeof plain) == 0,
              "trees change nothing, sampling %zu", i);
    }
    CHECK(plain[2] != plain[3] || plain[3] != plain[4], "the text varies");
}

/* Drafts that are what the text will be: all are accepted. */
static void test_right_drafts(void)
{
    spt_pool *pool = NULL;
    spt_sampler *sampler = NULL;
    spt_sequence s;
    spt_draft d;
    spt_accepted a = {0};
    float logits[SPT_DRAFT_NODES * VOCAB] = {0};
    const spt_sampling greedy = {0};
    const int32_t start[] = {1, 2};
    spt_pool_open(1, 16, &pool, &err);
    spt_sampler_open(&greedy, VOCAB, &sampler, &err);
    spt_sequence_open(&s, pool);
    spt_sequence_append(&s, start, 2, &err);
    spt_draft_clear(&d);
    /* 0 -> 1 (token 3) -> 4 (token 4); 2 and 3 are wrong siblings. */
    const int parents[] = {0, 0, 1, 1};
    const int32_t tokens[] = {3, 5, 1, 4};
    for (int i = 0; i < 4; i++)
        spt_draft_add(&d, parents[i], tokens[i], NULL);
    logits[0 * VOCAB + 3] = logits[1 * VOCAB + 4] = logits[4 * VOCAB + 2] = 1;
    CHECK_OK(
        spt_accept(sampler, SPT_ACCEPT_MATCH, &d, logits, VOCAB, &s, &a, &err),
        &err, "a tree with a right path");
    CHECK(a.count == 3 && a.nodes == 3 && a.offered == 2 && a.path[1] == 1 &&
              a.path[2] == 4,
          "is followed to its end");
    CHECK(s.n_tokens == 5 && s.tokens[2] == 3 && s.tokens[3] == 4 &&
              s.tokens[4] == 2,
          "its tokens and the next one are the text");
    spt_sequence_close(&s);
    spt_sampler_close(sampler);
    spt_pool_close(pool);
}

/* Those above 0, as integers; how many. */
static size_t parts_of(const double *p, spt_candidate *parts)
{
    size_t n = 0;
    for (int i = 0; i < VOCAB; i++)
        if (p[i] > 0)
            parts[n++] =
                (spt_candidate){i, (uint64_t)(p[i] * (double)SPT_SAMPLE_WHOLE)};
    return n;
}

static int32_t draw(const spt_candidate *q, size_t n, double u)
{
    uint64_t sum = 0, at;
    size_t i = 0;
    for (size_t j = 0; j < n; j++)
        sum += q[j].part;
    for (at = spt_sample_at(u, sum); at >= q[i].part; i++)
        at -= q[i].part;
    return q[i].token;
}

/* Chi-square of n draws of the first token against p. */
static double chi_square(const double *p, const double *q, int n, bool certain)
{
    spt_candidate from[VOCAB], target[VOCAB];
    size_t n_from = parts_of(q, from), n_target = parts_of(p, target);
    double counts[VOCAB] = {0};
    for (int i = 0; i < n; i++) {
        int32_t draft = draw(from, n_from, spt_random(5, i, SPT_RANDOM_DRAFT));
        counts[spt_reject(target, n_target, draft, certain ? NULL : from,
                          n_from, spt_random(5, i, SPT_RANDOM_ACCEPT),
                          spt_random(5, i, SPT_RANDOM_RESIDUAL))]++;
    }
    return reject_chi_square(p, counts, n);
}

static void test_rejection(void)
{
    for (size_t i = 0; i < REJECT_PAIRS; i++)
        for (int certain = 0; certain < 2; certain++) {
            const reject_pair *t = &reject_pairs[i];
            double chi = chi_square(t->p, t->q, 1000000, certain != 0);
            CHECK(chi < reject_bound,
                  "rejection, %s, %s draft: chi-square %.2f", t->name,
                  certain ? "certain" : "drawn", chi);
        }
}

static void test_draft_blocks(void)
{
    spt_draft d;
    spt_draft_clear(&d);
    CHECK_INT(spt_draft_add(&d, 0, 3, NULL), 1, "a first node");
    CHECK_INT(spt_draft_add(&d, 1, 4, NULL), 2, "a second");
    CHECK(d.chain, "make a chain");
    CHECK_INT(spt_draft_add(&d, 0, 5, NULL), 3, "a sibling");
    CHECK(!d.chain, "makes a tree");
    int same = 0;
    CHECK_INT(spt_draft_add(&d, 0, 3, &same), -1, "no token twice");
    CHECK_INT(same, 1, "but the node that has it");
    d.token[1] = 99;
    spt_draft_clean(&d, VOCAB, 9, 31);
    CHECK_INT(d.count, 1, "a token past the vocabulary takes its branch along");
    CHECK(d.chain && d.token[1] == 5, "what is left moves up");
    d.count = 1000;
    spt_draft_clean(&d, VOCAB, 9, 31);
    CHECK(d.count < SPT_DRAFT_NODES, "a count past the block is cut");
    spt_draft_clear(&d);
    for (int i = 0; i < 5; i++)
        spt_draft_add(&d, i, 1, NULL);
    spt_draft_clean(&d, VOCAB, 2, 31);
    CHECK_INT(d.count, 2, "nodes too deep are cut");
    spt_draft_clean(&d, VOCAB, 2, 1);
    CHECK_INT(d.count, 1, "and more nodes than there may be");
}

static void test_ngram(void)
{
    const int32_t text[] = {1, 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3};
    const int count = sizeof text / sizeof *text;
    int ends[4];
    CHECK_INT(spt_ngram_find(text, count, 2, 3, false, ends, 1), 1, "a match");
    CHECK_INT(text[ends[0]], 5, "the most recent one");
    CHECK_INT(spt_ngram_find(text, count, 2, 3, true, ends, 1), 1, "a match");
    CHECK_INT(text[ends[0]], 4, "the longest one");
    CHECK_INT(spt_ngram_find(text, count, 2, 3, false, ends, 4), 2, "two");
    CHECK_INT(spt_ngram_find(text, count, 4, 6, false, ends, 4), 0, "none");
    CHECK_INT(spt_ngram_find(text, 1, 1, 6, false, ends, 4), 0, "one token");
    CHECK_INT(spt_ngram_find(text, 0, 1, 6, false, ends, 4), 0, "no text");
    spt_draft_source source;
    spt_draft d;
    CHECK_INT(
        spt_ngram_open(&(spt_ngram_rule){3, 2, false}, NULL, &source, &err),
        SPT_E_USAGE, "min above max");
    CHECK_OK(
        spt_ngram_open(&(spt_ngram_rule){2, 3, false}, NULL, &source, &err),
        &err, "open");
    const int32_t loop[] = {7, 8, 7, 8};
    spt_draft_request r = {
        .text = loop, .count = 4, .want = 5, .branches = 1, .draft = &d};
    spt_draft_clear(&d);
    source.class->draft(source.self, &r, 1, &err);
    CHECK(d.count == 5 && d.token[1] == 7 && d.token[4] == 8 && d.chain,
          "past the end a draft goes on with itself");
    r = (spt_draft_request){
        .text = text, .count = count, .want = 3, .branches = 2, .draft = &d};
    spt_draft_clear(&d);
    source.class->draft(source.self, &r, 1, &err);
    CHECK(d.count == 6 && !d.chain && d.token[4] == 4, "two branches");
    source.class->close(source.self);
}

int main(void)
{
    test_draft_blocks();
    test_ngram();
    test_match();
    test_right_drafts();
    test_rejection();
    return check_done();
}
