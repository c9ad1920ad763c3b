/*
 * KV pages: random work on many sequences, against a model of the device in
 * which the KV of a token is a hash of the text up to it.
 */
#include <stdlib.h>

#include "check.h"
#include "mem.h"
#include "sequence.h"

enum { PAGES = 24, SIZE = 4, SEQUENCES = 5, MAX_TOKENS = 60 };

static spt_error err;
static spt_pool *pool;
static spt_sequence sequences[SEQUENCES];
static uint64_t kv[PAGES][SIZE];
static uint64_t state = 1;

static int random_below(int n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((state >> 33) % (uint64_t)n);
}

static uint64_t text_hash(const int32_t *tokens, int count)
{
    uint64_t hash = 7;
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uint64_t)tokens[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

static bool kv_right(const spt_sequence *s)
{
    for (int i = 0; i < s->n_kv; i++)
        if (kv[s->pages[i / SIZE]][i % SIZE] != text_hash(s->tokens, i + 1))
            return false;
    return s->n_pages == (s->n_kv + SIZE - 1) / SIZE &&
           (s->n_kv < s->n_tokens || !s->n_tokens);
}

/* Feeds what is pending and `drafts` tokens of which `accepted` come true. */
static bool step(spt_sequence *s, int drafts, int accepted)
{
    spt_page_copy copy;
    int pending = s->n_tokens - s->n_kv, count = pending + drafts;
    int before = s->n_kv, pages = s->n_pages;
    if (spt_sequence_reserve(s, count, &copy, &err) != SPT_OK)
        return s->n_kv == before && s->n_pages == pages;
    if (copy.to >= 0)
        memcpy(kv[copy.to], kv[copy.from], sizeof *kv);
    for (int i = before; i < before + count; i++) {
        if (!spt_pool_writable(pool, s->pages[i / SIZE]))
            return false;
        kv[s->pages[i / SIZE]][i % SIZE] =
            i < s->n_tokens ? text_hash(s->tokens, i + 1) : 99;
    }
    for (int i = 0; i < accepted; i++) {
        int32_t token = random_below(2);
        if (spt_sequence_append(s, &token, 1, &err) != SPT_OK)
            return false;
        int at = s->n_tokens - 1;
        kv[s->pages[at / SIZE]][at % SIZE] = text_hash(s->tokens, s->n_tokens);
    }
    int32_t bonus = random_below(2);
    spt_sequence_keep(s, pending + accepted);
    return spt_sequence_append(s, &bonus, 1, &err) == SPT_OK;
}

static bool sync_random(spt_sequence *s)
{
    int32_t tokens[MAX_TOKENS];
    int count = random_below(MAX_TOKENS / 2), reused = -1;
    const spt_sequence *like = &sequences[random_below(SEQUENCES)];
    for (int i = 0; i < count; i++)
        tokens[i] = i < like->n_tokens && random_below(20) ? like->tokens[i]
                                                           : random_below(2);
    return spt_sequence_sync(s, tokens, count, &reused, &err) == SPT_OK &&
           reused == s->n_kv && s->n_tokens == count;
}

static bool fork_random(spt_sequence *s)
{
    spt_sequence *from = &sequences[random_below(SEQUENCES)];
    if (from == s)
        return true;
    spt_sequence_close(s);
    return spt_sequence_fork(from, s, &err) == SPT_OK;
}

static bool act(spt_sequence *s)
{
    int drafts = random_below(6);
    switch (random_below(8)) {
    case 0:
        return sync_random(s);
    case 1:
        return fork_random(s);
    case 2:
        spt_sequence_rewind(s, random_below(s->n_tokens + 1));
        return true;
    case 3:
        spt_sequence_close(s);
        return true;
    default:
        if (s->n_tokens > MAX_TOKENS)
            spt_sequence_rewind(s, MAX_TOKENS / 2);
        return step(s, drafts, random_below(drafts + 1));
    }
}

/* Held pages are those of the sequences, counted once. */
static bool pages_add_up(void)
{
    bool held[PAGES] = {false};
    int count = 0;
    for (int i = 0; i < SEQUENCES; i++)
        for (int j = 0; j < sequences[i].n_pages; j++)
            held[sequences[i].pages[j]] = true;
    for (int i = 0; i < PAGES; i++)
        count += held[i];
    return spt_pool_available(pool) == PAGES - count;
}

static void test_random(void)
{
    bool good = true, right = true, sums = true;
    for (int i = 0; i < SEQUENCES; i++)
        spt_sequence_open(&sequences[i], pool);
    for (int i = 0; i < 200000 && good && right && sums; i++) {
        good = act(&sequences[random_below(SEQUENCES)]);
        for (int j = 0; j < SEQUENCES; j++)
            right = right && kv_right(&sequences[j]);
        sums = pages_add_up();
    }
    CHECK(good, "200,000 random steps do what they say");
    CHECK(right, "every slot holds the KV of its own text");
    CHECK(sums, "the pages' holders are the sequences");
    for (int i = 0; i < SEQUENCES; i++)
        spt_sequence_close(&sequences[i]);
    CHECK_INT(spt_pool_available(pool), PAGES, "closing frees all pages");
}

static void test_prefix(void)
{
    spt_sequence a, b;
    int32_t text[11] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    int reused = -1;
    spt_sequence_open(&a, pool);
    spt_sequence_open(&b, pool);
    spt_sequence_sync(&a, text, 11, &reused, &err);
    CHECK_INT(reused, 0, "nothing is known at first");
    step(&a, 3, 0);
    CHECK_INT(a.n_kv, 11, "a step feeds the prompt");
    spt_sequence_sync(&b, text, 11, &reused, &err);
    CHECK_INT(reused, 8, "another sequence gets the full pages");
    CHECK_INT(b.pages[1], a.pages[1], "the same ones");
    spt_sequence_close(&a);
    spt_sequence_close(&b);
    spt_sequence_sync(&b, text, 8, &reused, &err);
    CHECK_INT(reused, 7, "pages outlive their holders; the last token is fed");
    spt_page_copy copy;
    CHECK_OK(spt_sequence_reserve(&b, 1, &copy, &err), &err, "reserve");
    CHECK(copy.from >= 0, "a published page is copied before it is written");
    spt_sequence_rewind(&b, 0);
    CHECK_INT(b.n_pages, 0, "rewinding to nothing keeps no page");
    spt_sequence_close(&b);
}

static void test_room(void)
{
    spt_sequence s;
    spt_page_copy copy;
    spt_sequence_open(&s, pool);
    CHECK_INT(spt_sequence_reserve(&s, PAGES * SIZE + 1, &copy, &err),
              SPT_E_MEMORY, "more tokens than the pool holds");
    CHECK_HAS(err.text, "25 pages needed, 24 of 24 are free",
              "says by how far");
    CHECK_OK(spt_sequence_reserve(&s, PAGES * SIZE, &copy, &err), &err,
             "all of it");
    CHECK_INT(spt_pool_take(pool), -1, "then no page is left");
    spt_sequence_close(&s);
    spt_pool *none = NULL;
    CHECK_INT(spt_pool_open(0, 16, &none, &err), SPT_E_USAGE, "an empty pool");
}

int main(void)
{
    if (spt_pool_open(PAGES, SIZE, &pool, &err) != SPT_OK)
        return 1;
    test_random();
    test_prefix();
    test_room();
    spt_pool_close(pool);
    return check_done();
}
