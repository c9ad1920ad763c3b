/*
 * Lossless, to the bit: what is written does not depend on drafter, draft
 * length, shape of the draft, what else runs, what the prompt's KV came from,
 * how the prompt was cut into chunks, or whether host or device draws tokens.
 * Each way through the axes below is compared with one token at a time, alone,
 * without a drafter: token ids, logprobs, text and finish. A sample of the
 * ways; TEST_LONG=N: each Nth.
 */
#include "forward_int.h"
#include "tiny_engine.h"

enum { MAX_BATCH = 5, TOKENS = 16, PROMPT = 37 };

static spt_error err;
static spt_engine *engine;

/* penalised: also drafts and the text that they push out count; biased: a
   forbidden token and penalties over all of the text. */
typedef enum kind { GREEDY, SAMPLED, PENALISED, BIASED, KINDS } kind;
static const char *const kind_names[] = {"greedy", "sampled", "penalised",
                                         "biased"};

static tiny_answer expected[KINDS][MAX_BATCH]; /* by prompt */

/* Who draws the tokens, and whether log-probabilities are asked for. */
typedef enum drawer { DEVICE, SCORED, HOST } drawer;
static const char *const drawer_names[] = {"device", "device, logprobs",
                                           "host, logprobs"};

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
    int drafter; /* spt_draft_method */
    int draft_length; /* -1 = none, 0 = adaptive */
    int branches; /* 1 = a chain */
    int batch, chunk;
    int choice; /* kind and drawer, or MIXED */
    int hit; /* the prompt's KV is there already */
} way;

typedef struct choice {
    kind text;
    drawer by;
} choice;

static const choice choices[] = {
    {GREEDY, DEVICE},    {GREEDY, SCORED},    {GREEDY, HOST},
    {SAMPLED, DEVICE},   {SAMPLED, SCORED},   {SAMPLED, HOST},
    {PENALISED, DEVICE}, {PENALISED, SCORED}, {PENALISED, HOST},
    {BIASED, DEVICE},    {BIASED, SCORED},    {BIASED, HOST}};

/* What the sessions of one batch do where each does its own. */
static const choice mixed[MAX_BATCH] = {{PENALISED, SCORED},
                                        {GREEDY, DEVICE},
                                        {BIASED, DEVICE},
                                        {SAMPLED, SCORED},
                                        {PENALISED, DEVICE}};
enum { MIXED = sizeof choices / sizeof *choices };

/* Of session i. */
static choice choice_of(const way *w, int i)
{
    return w->choice == MIXED ? mixed[i] : choices[w->choice];
}

static const char *choice_name(const way *w)
{
    static char name[64];
    snprintf(name, sizeof name, "%s, %s",
             kind_names[choices[w->choice % MIXED].text],
             drawer_names[choices[w->choice % MIXED].by]);
    return w->choice == MIXED ? "all kinds at once" : name;
}

/* The same token twice, and one that may not come. */
static const spt_logit_bias bias[] = {
    {7, 0.5f}, {45, -INFINITY}, {7, 0.25f}, {46, 3}, {319, -2}};

static spt_sampling sampling_of(kind text)
{
    spt_sampling o = {.temperature = 0.8, .seed = 42, .top_k = 40};
    if (text == SAMPLED)
        o.top_p = 0.98;
    if (text == PENALISED) {
        o.repeat_penalty = 1.1;
        o.frequency_penalty = 0.3;
        o.penalty_tokens = 5;
    }
    if (text == GREEDY || text == BIASED)
        o = (spt_sampling){0};
    if (text == BIASED) {
        o.presence_penalty = 0.7;
        o.penalty_tokens = -1;
        o.bias = bias;
        o.n_bias = sizeof bias / sizeof *bias;
    }
    return o;
}

/* A session that writes the answer to prompt `which`. */
static bool begin(int which, int draft_length, choice how,
                  spt_session **session, tiny_answer *answer)
{
    const spt_session_options options = {.draft_length = draft_length,
                                         .sampling = sampling_of(how.text)};
    const spt_answer_options o = {.max_tokens = TOKENS,
                                  .logprobs = how.by != DEVICE,
                                  .top_logprobs =
                                      how.by != DEVICE ? TINY_TOP : 0,
                                  .ignore_end = true,
                                  .event = tiny_event,
                                  .user = answer};
    int32_t prompt[PROMPT];
    engine->forward->on_host = how.by == HOST;
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

/* Steps until all answers are there; how many, -1 = an error. */
static int step_all(spt_session *const *sessions, int count)
{
    bool busy = true;
    int steps = 0;
    while (busy && steps++ < 1000) {
        if (spt_engine_step(engine, sessions, (size_t)count, &err) != SPT_OK) {
            printf("# %s\n", err.text);
            return -1;
        }
        busy = false;
        for (int i = 0; i < count; i++)
            busy = busy || !spt_session_finish(sessions[i]);
    }
    return steps;
}

/* Whether the session's prompt was fed, or found, as the way says. */
static bool came_from(const spt_session *session, const way *w)
{
    spt_session_stats stats;
    spt_session_statistics(session, &stats);
    return w->hit ? stats.reused_tokens > 0 : stats.prompt_tokens == PROMPT;
}

/* The KV of all prompts, in pages that nobody holds. */
static void warm(void)
{
    tiny_answer answer;
    for (int i = 0; i < MAX_BATCH; i++) {
        spt_session *s = NULL;
        if (begin(i, -1, choices[0], &s, &answer))
            spt_engine_step(engine, &s, 1, &err);
        spt_session_close(s);
    }
}

static int run_way(const way *w, tiny_answer *answers)
{
    spt_session *sessions[MAX_BATCH] = {NULL};
    forget();
    engine->options.prefill_chunk = 64;
    if (w->hit)
        warm();
    engine->options.prefill_chunk = w->chunk;
    engine->options.draft.branches = w->branches;
    bool good = true;
    for (int i = 0; i < w->batch && good; i++)
        good = begin(i, w->draft_length, choice_of(w, i), &sessions[i],
                     &answers[i]);
    int steps = good ? step_all(sessions, w->batch) : -1;
    for (int i = 0; i < w->batch; i++) {
        if (steps >= 0 && !came_from(sessions[i], w))
            steps = -1;
        spt_session_close(sessions[i]);
    }
    return steps;
}

/*
 * Runs it and compares every session's answer; steps, -1 = it differs, or
 * logits came to the host where the device was to draw.
 */
static int same_way(const way *w)
{
    tiny_answer answers[MAX_BATCH];
    const float untouched = 12345;
    engine->logits[0] = untouched;
    int steps = run_way(w, answers);
    for (int i = 0; steps >= 0 && i < w->batch; i++) {
        choice how = choice_of(w, i);
        tiny_answer want = expected[how.text][i];
        if (how.by == DEVICE) {
            memset(want.logprobs, 0, sizeof want.logprobs);
            memset(want.top, 0, sizeof want.top);
        }
        if (!tiny_same(&answers[i], &want))
            return -1;
    }
    bool on_host = choice_of(w, 0).by == HOST;
    return on_host == (engine->logits[0] != untouched) ? steps : -1;
}

/* One token at a time, each prompt alone. */
static void make_expected(void)
{
    engine->options.prefill_chunk = 64;
    for (kind text = 0; text < KINDS; text++)
        for (int i = 0; i < MAX_BATCH; i++) {
            spt_session *s = NULL;
            forget();
            if (begin(i, -1, (choice){text, HOST}, &s, &expected[text][i]))
                step_all(&s, 1);
            spt_session_close(s);
        }
    CHECK_INT((long long)expected[0][0].n, TOKENS, "an answer has its tokens");
    CHECK_INT(expected[0][0].finish, SPT_FINISH_LENGTH, "and its end");
    CHECK(!tiny_same(&expected[0][0], &expected[0][1]),
          "prompts have answers of their own");
    CHECK(!tiny_same(&expected[0][0], &expected[1][0]),
          "and temperatures theirs");
    for (kind text = PENALISED; text < KINDS; text++) {
        kind plain = text == BIASED ? GREEDY : SAMPLED;
        CHECK(!tiny_same(&expected[plain][0], &expected[text][0]),
              "and %s ones", kind_names[text]);
    }
}

typedef struct axis {
    int count, values[MIXED + 1];
} axis;

/* In the order of way's members; the last runs fastest. */
enum {
    AXES = sizeof(way) / sizeof(int),
    SAMPLE = 149 /* of no axis a multiple */
};

static const axis axes[AXES] = {
    {3, {SPT_DRAFT_NONE, SPT_DRAFT_NGRAM, SPT_DRAFT_MODEL}},
    {11, {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 15}},
    {2, {1, 2}},
    {3, {1, 2, MAX_BATCH}},
    {3, {1, 7, 64}},
    {13, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, MIXED}},
    {2, {0, 1}},
};

static int count_ways(void)
{
    int count = 1;
    for (int i = 0; i < AXES; i++)
        count *= axes[i].count;
    return count;
}

static way way_at(int index)
{
    int values[AXES];
    way w;
    for (int i = AXES - 1; i >= 0; index /= axes[i--].count)
        values[i] = axes[i].values[index % axes[i].count];
    memcpy(&w, values, sizeof w);
    return w;
}

static void open_engine(int drafter)
{
    static const char *const names[] = {"no drafter", "n-gram", "a model"};
    tiny_model target = tiny_default("llama", SPT_WEIGHT_F16), draft = target;
    char path[64];
    target.softcap = 2; /* some logits are near it */
    draft.layers = 1; /* of the target's two */
    const spt_engine_options options = {
        .context = 128,
        .sessions = MAX_BATCH,
        .draft_length = 15,
        .draft = {.method = (spt_draft_method)drafter,
                  .model = path,
                  .branches = 2,
                  .min_match = drafter == SPT_DRAFT_NGRAM}};
    spt_engine_close(engine);
    tiny_write(&draft, path);
    engine = tiny_open(&target, &options);
    unlink(path);
    printf("# drafts by %s\n", names[drafter]);
}

static void test_ways(void)
{
    const char *every = getenv("TEST_LONG");
    int stride = every && atoi(every) > 0 ? atoi(every) : SAMPLE;
    int drafter = SPT_DRAFT_NONE;
    for (int i = 0; i < count_ways(); i += stride) {
        const way w = way_at(i);
        if (w.drafter != drafter)
            open_engine(drafter = w.drafter);
        CHECK(same_way(&w) > 0,
              "%s, length %d, %d branches, batch %d, chunk %d%s: same bits",
              choice_name(&w), w.draft_length, w.branches, w.batch, w.chunk,
              w.hit ? ", prefix hit" : "");
    }
}

static void test_adversaries(void)
{
    liar l = {.state = 1};
    spt_draft_source honest = engine->drafter;
    engine->drafter = (spt_draft_source){&liar_class, &l};
    for (int who = 0; who < ADVERSARIES; who++)
        for (int row = who % 2; row<4; row += who> RIGHT ? 2 : 1) {
            const way w = {.draft_length = row == 3 ? 15 : 4,
                           .branches = 1 + row % 2,
                           .batch = row == 2 ? 3 : 1,
                           .chunk = 64,
                           .choice = (5 * who + 7 * row) % MIXED,
                           .hit = 1};
            l.kind = (adversary)who;
            l.text = choices[w.choice].text;
            int steps = same_way(&w);
            CHECK(steps > 0, "drafts %s, length %d, %s, %s: same bits",
                  adversary_names[who], w.draft_length,
                  w.branches > 1 ? "tree" : "chain", choice_name(&w));
            if (l.kind == RIGHT)
                CHECK(steps > 0 &&
                          steps <= 1 + TOKENS / (1 + w.draft_length) + 1,
                      "in %d steps", steps);
        }
    engine->drafter = honest;
}

int main(void)
{
    open_engine(SPT_DRAFT_NONE);
    make_expected();
    test_ways();
    open_engine(SPT_DRAFT_NGRAM);
    test_adversaries();
    spt_engine_close(engine);
    return check_done();
}
