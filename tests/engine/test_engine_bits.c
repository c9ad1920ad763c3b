/*
 * Lossless, to the bit: what is written does not depend on drafter, draft
 * length, shape of the draft, what else runs, what the prompt's KV came from,
 * how the prompt was cut into chunks, or whether host or device draws tokens.
 * Each row of the table is compared with one token at a time, alone.
 */
#include "tiny_engine.h"

enum { MAX_BATCH = 5, TOKENS = 16, PROMPT = 37 };

static spt_error err;
static spt_engine *engine;

typedef enum kind { GREEDY, SAMPLED, PENALISED, KINDS } kind;
static const char *const kind_names[] = {"greedy", "sampled", "penalised"};

static tiny_answer expected[KINDS][MAX_BATCH]; /* by prompt */
/* Answers with logprobs, whose tokens the host draws. */
static bool on_host;

static void make_prompt(int which, int32_t *tokens)
{
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (i * (7 + which) + which * 31) % 11 + 40;
}

/* Drafters that know the answer, or nothing, or worse. */
typedef enum adversary {
    RIGHT, /* what will be written, and a wrong sibling */
    WRONG,
    RANDOM,
    PAST_VOCABULARY,
    ENDS, /* end tokens only */
    TOO_LONG,
    EMPTY,
    ADVERSARIES
} adversary;

static const char *const adversary_names[] = {
    "always right", "always wrong", "random", "past the vocabulary",
    "end tokens",   "too long",     "empty"};

typedef struct liar {
    adversary kind;
    kind text;
    uint64_t state;
} liar;

static int which_prompt(const spt_draft_request *r)
{
    int32_t prompt[PROMPT];
    for (int i = 0; i < MAX_BATCH; i++) {
        make_prompt(i, prompt);
        if (memcmp(prompt, r->text, sizeof prompt) == 0)
            return i;
    }
    return 0;
}

static int32_t right_token(const liar *l, const spt_draft_request *r, int ahead)
{
    const tiny_answer *a = &expected[l->text][which_prompt(r)];
    size_t at = (size_t)(r->count - PROMPT + ahead);
    return at < a->n ? a->tokens[at] : 3;
}

static int32_t lie(liar *l, const spt_draft_request *r, int ahead)
{
    switch (l->kind) {
    case WRONG:
        return right_token(l, r, ahead) == 5 ? 6 : 5;
    case RANDOM:
        return (int32_t)(tiny_next(&l->state) % 320);
    case PAST_VOCABULARY:
        return ahead % 2 ? INT32_MAX : -7;
    case ENDS:
        return TINY_END;
    default:
        return right_token(l, r, ahead);
    }
}

static spt_status lie_all(void *drafter, spt_draft_request *requests, int count,
                          spt_error *e)
{
    liar *l = drafter;
    (void)e;
    for (int i = 0; i < count && l->kind != EMPTY; i++) {
        spt_draft_request *r = &requests[i];
        int depth = l->kind == TOO_LONG ? 31 : r->want, node = 0;
        for (int j = 0; j < depth && node >= 0; j++) {
            int parent = node;
            node = spt_draft_add(r->draft, parent, lie(l, r, j), NULL);
            if (r->branches > 1 && node >= 0)
                spt_draft_add(r->draft, parent, 9, NULL);
        }
        if (l->kind == TOO_LONG)
            r->draft->count = 1000;
    }
    return SPT_OK;
}

static void keep(void *drafter)
{
    (void)drafter;
}

static const spt_draft_class liar_class = {
    .name = "liar", .close = keep, .draft = lie_all};

/* One way to get the same answers. */
typedef struct way {
    int draft_length; /* -1 = none, 0 = adaptive */
    int branches, batch, chunk;
    bool again; /* the prompt's KV is there already */
} way;

/* A session that writes the answer to prompt `which`. */
static bool begin(int which, int draft_length, kind text, spt_session **session,
                  tiny_answer *answer)
{
    const spt_session_options options = {
        .draft_length = draft_length,
        .sampling = {.temperature = text == GREEDY ? 0 : 0.8,
                     .seed = 42,
                     .repeat_penalty = text == PENALISED ? 1.1 : 0,
                     .top_p = text == SAMPLED ? 0.98 : 0,
                     .top_k = text == GREEDY ? 0 : 40}};
    const spt_answer_options o = {.max_tokens = TOKENS,
                                  .logprobs = on_host,
                                  .ignore_end = true,
                                  .event = tiny_event,
                                  .user = answer};
    int32_t prompt[PROMPT];
    make_prompt(which, prompt);
    *answer = (tiny_answer){.n = 0};
    return spt_session_open(engine, &options, session, &err) == SPT_OK &&
           spt_session_sync(*session, prompt, PROMPT, NULL, &err) == SPT_OK &&
           spt_session_answer(*session, &o, &err) == SPT_OK;
}

/* Forgets all KV that has no holder. */
static void forget(void)
{
    int pages[512], n = 0;
    while (n < 512 && (pages[n] = spt_pool_take(engine->pool)) >= 0)
        n++;
    while (n > 0)
        spt_pool_release(engine->pool, pages[--n]);
}

static int run_way(const way *w, kind text, tiny_answer *answers)
{
    spt_session *sessions[MAX_BATCH] = {NULL};
    engine->options.prefill_chunk = w->chunk;
    engine->options.draft.branches = w->branches;
    if (!w->again)
        forget();
    bool good = true;
    int steps = 0;
    for (int i = 0; i < w->batch && good; i++)
        good = begin(i, w->draft_length, text, &sessions[i], &answers[i]);
    for (bool busy = good; busy && steps < 1000; steps++) {
        good =
            spt_engine_step(engine, sessions, (size_t)w->batch, &err) == SPT_OK;
        busy = false;
        for (int i = 0; i < w->batch; i++)
            busy = busy || (good && !spt_session_finish(sessions[i]));
    }
    if (!good)
        printf("# %s\n", err.text);
    for (int i = 0; i < w->batch; i++)
        spt_session_close(sessions[i]);
    return good ? steps : -1;
}

/*
 * Runs it and compares every session's answer; steps, -1 = it differs, or
 * logits came to the host where the device was to draw.
 */
static int same_way(const way *w, kind text)
{
    tiny_answer answers[MAX_BATCH];
    const float untouched = 12345;
    engine->logits[0] = untouched;
    int steps = run_way(w, text, answers);
    for (int i = 0; steps >= 0 && i < w->batch; i++) {
        tiny_answer want = expected[text][i];
        if (!on_host)
            memset(want.logprobs, 0, sizeof want.logprobs);
        if (!tiny_same(&answers[i], &want))
            return -1;
    }
    bool hosted = on_host || text == PENALISED;
    return hosted == (engine->logits[0] != untouched) ? steps : -1;
}

/* One token at a time, each prompt alone. */
static void make_expected(void)
{
    engine->options.prefill_chunk = 64;
    on_host = true;
    for (kind text = 0; text < KINDS; text++)
        for (int i = 0; i < MAX_BATCH; i++) {
            spt_session *s = NULL;
            forget();
            bool good = begin(i, -1, text, &s, &expected[text][i]);
            while (good && !spt_session_finish(s))
                good = spt_engine_step(engine, &s, 1, &err) == SPT_OK;
            spt_session_close(s);
        }
    CHECK_INT((long long)expected[0][0].n, TOKENS, "an answer has its tokens");
    CHECK_INT(expected[0][0].finish, SPT_FINISH_LENGTH, "and its end");
    CHECK(!tiny_same(&expected[0][0], &expected[0][1]),
          "prompts have answers of their own");
    CHECK(!tiny_same(&expected[0][0], &expected[1][0]),
          "and temperatures theirs");
    CHECK(!tiny_same(&expected[SAMPLED][0], &expected[PENALISED][0]),
          "and penalties");
}

static void test_ways(void)
{
    static const way ways[] = {
        {-1, 1, 2, 64, false}, {-1, 1, 5, 7, false}, {-1, 1, 1, 1, false},
        {-1, 1, 1, 64, true},  {1, 1, 1, 64, false}, {2, 1, 5, 64, true},
        {3, 1, 2, 7, false},   {4, 1, 1, 7, false},  {5, 1, 2, 7, true},
        {6, 1, 1, 64, false},  {7, 1, 1, 64, true},  {8, 1, 5, 64, false},
        {15, 1, 1, 7, true},   {0, 1, 2, 64, false}, {1, 2, 5, 7, true},
        {2, 2, 1, 64, false},  {3, 3, 2, 7, true},   {4, 2, 1, 64, false},
        {8, 3, 1, 7, true},    {15, 2, 2, 64, true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way *w = &ways[i];
        kind text = (kind)(i % KINDS);
        on_host = i % 2;
        int steps = same_way(w, text);
        CHECK(steps > 0,
              "%s, length %d, %d branches, batch %d, chunk %d%s, %s: same bits",
              kind_names[text], w->draft_length, w->branches, w->batch,
              w->chunk, w->again ? ", prefix hit" : "",
              on_host ? "host" : "device");
    }
}

static void test_adversaries(void)
{
    liar l = {.state = 1};
    spt_draft_source honest = engine->drafter;
    engine->drafter = (spt_draft_source){&liar_class, &l};
    for (int who = 0; who < ADVERSARIES; who++)
        for (int row = who % 2; row<4; row += who> RIGHT ? 2 : 1) {
            const way w = {row == 3 ? 15 : 4, 1 + row % 2, row == 2 ? 3 : 1, 64,
                           true};
            l.kind = (adversary)who;
            l.text = row % 2 != row / 2 ? SAMPLED : GREEDY;
            on_host = (who + row) % 3 == 0;
            int steps = same_way(&w, l.text);
            CHECK(steps > 0, "drafts %s, length %d, %s: same bits",
                  adversary_names[who], w.draft_length,
                  w.branches > 1 ? "tree" : "chain");
            if (l.kind == RIGHT)
                CHECK(steps > 0 &&
                          steps <= 1 + TOKENS / (1 + w.draft_length) + 1,
                      "in %d steps", steps);
        }
    engine->drafter = honest;
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    const spt_engine_options options = {
        .context = 128,
        .sessions = MAX_BATCH,
        .draft_length = 15,
        .draft = {.method = SPT_DRAFT_NGRAM, .branches = 2, .min_match = 1}};
    engine = tiny_open(&t, &options);
    make_expected();
    test_ways();
    test_adversaries();
    spt_engine_close(engine);
    return check_done();
}
