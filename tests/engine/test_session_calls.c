/*
 * Sessions through the public calls: rewind, fork, save and load, stop texts
 * across tokens, limits, cancelling, a pool that is full.
 */
#include "tiny_engine.h"

enum { PROMPT = 21 };

static spt_error err;
static spt_engine *engine;
static int32_t prompt[PROMPT];

static spt_session *open_with(const int32_t *tokens, size_t count)
{
    const spt_session_options options = {.draft_length = 3};
    spt_session *s = NULL;
    if (spt_session_open(engine, &options, &s, &err) != SPT_OK ||
        spt_session_sync(s, tokens, count, NULL, &err) != SPT_OK)
        printf("# %s\n", err.text);
    return s;
}

static tiny_answer answer_of(spt_session *s, spt_answer_options o)
{
    tiny_answer a = {.n = 0};
    o.event = tiny_event;
    o.user = &a;
    o.logprobs = true;
    if (spt_session_generate(s, &o, NULL, &err) != SPT_OK)
        printf("# %s\n", err.text);
    return a;
}

/* What is known of a text's own tokens. */
typedef struct scores {
    size_t n;
    bool in_order;
    int32_t tokens[64], best[64];
    double logprobs[64];
    tiny_answer answer;
} scores;

static void on_prompt(void *user, const spt_prompt_event *e)
{
    scores *s = user;
    s->in_order &= e->first == s->n + 1 && e->n_top == 2;
    for (size_t i = 0; i < e->n_tokens && s->n < 64; i++, s->n++) {
        s->tokens[s->n] = e->tokens[i];
        s->logprobs[s->n] = e->logprobs[i];
        s->best[s->n] = e->top[2 * i].token;
    }
}

static bool on_scored(void *user, const spt_event *e)
{
    return tiny_event(&((scores *)user)->answer, e);
}

/* Tokens that were written have the same log-probabilities, to the bit, when
   they are read, though their KV is known and others write beside. */
static void test_scores(const tiny_answer *expected)
{
    size_t n;
    spt_session *writer = open_with(prompt, PROMPT);
    answer_of(writer,
              (spt_answer_options){.max_tokens = 12, .ignore_end = true});
    const int32_t *text = spt_session_tokens(writer, &n);
    spt_session *reader = open_with(text, n);
    scores s = {.in_order = true};
    const spt_answer_options o = {.max_tokens = 4,
                                  .ignore_end = true,
                                  .logprobs = true,
                                  .top_logprobs = 2,
                                  .event = on_scored,
                                  .prompt = on_prompt,
                                  .user = &s};
    CHECK_OK(spt_session_generate(reader, &o, NULL, &err), &err,
             "an answer to a text that is scored");
    CHECK(s.n == n - 1 && s.in_order, "each token but the first, in order");
    CHECK(memcmp(s.logprobs + PROMPT - 1, expected->logprobs,
                 12 * sizeof *s.logprobs) == 0,
          "has the log-probability that it was written with");
    CHECK(memcmp(s.tokens, text + 1, (n - 1) * sizeof *text) == 0 &&
              memcmp(s.best + PROMPT - 1, expected->tokens,
                     12 * sizeof *s.best) == 0,
          "and its alternatives");
    tiny_answer next = answer_of(
        writer, (spt_answer_options){
                    .max_tokens = 4, .ignore_end = true, .top_logprobs = 2});
    CHECK(tiny_same(&s.answer, &next), "the answer is the same");
    spt_session_stats stats;
    spt_session_statistics(reader, &stats);
    CHECK(stats.reused_tokens == 0 && stats.prompt_tokens == n,
          "all of the text was fed");
    spt_session_close(reader);
    spt_session_close(writer);
}

static void test_state(const tiny_answer *expected)
{
    const spt_answer_options o = {.max_tokens = 12, .ignore_end = true};
    char path[] = "/tmp/spectune-session-XXXXXX";
    spt_session *s = open_with(prompt, PROMPT), *copy = NULL, *loaded;
    tiny_answer a = answer_of(s, o), b;
    CHECK(tiny_same(&a, expected), "an answer");
    CHECK_OK(spt_session_fork(s, &copy, &err), &err, "fork");
    spt_session_rewind(s, PROMPT);
    a = answer_of(s, o);
    CHECK(tiny_same(&a, expected), "rewound, the same answer again");
    spt_session_rewind(copy, PROMPT + 4);
    b = answer_of(copy, o);
    CHECK(memcmp(b.tokens, a.tokens + 4, 8 * sizeof *b.tokens) == 0,
          "a fork goes on from where it was rewound");
    size_t n;
    const int32_t *tokens = spt_session_tokens(s, &n);
    CHECK(n == PROMPT + 12 && tokens[PROMPT] == a.tokens[0], "tokens");
    close(mkstemp(path));
    CHECK_OK(spt_session_save(s, path, &err), &err, "save");
    loaded = open_with(prompt, 1);
    CHECK_OK(spt_session_load(loaded, path, &err), &err, "load");
    a = answer_of(s, o);
    b = answer_of(loaded, o);
    CHECK(tiny_same(&a, &b), "a loaded session goes on like the saved one");
    spt_buf file = {0};
    spt_file_read(path, 1 << 30, &file, &err);
    file.data[file.size / 2] ^= 1;
    spt_file_write(path, file.data, file.size, &err);
    CHECK_INT(spt_session_load(loaded, path, &err), SPT_E_FORMAT,
              "a changed byte is found");
    CHECK_HAS(err.text, "damaged", "and said");
    spt_file_write(path, "SPTSES1", 8, &err);
    CHECK_INT(spt_session_load(loaded, path, &err), SPT_E_FORMAT, "a stub");
    unlink(path);
    spt_buf_free(&file);
    spt_session_close(s);
    spt_session_close(copy);
    spt_session_close(loaded);
}

/* A stop text in the middle of what would be written. */
static void test_stops(const tiny_answer *expected)
{
    char stop[8] = {0};
    const char *stops[] = {"never", stop};
    size_t at = expected->size / 2, size = expected->size - at;
    memcpy(stop, expected->text + at, size < 3 ? size : 3);
    const char *first =
        memmem(expected->text, expected->size, stop, strlen(stop));
    for (int length = -1; length < 8; length += 4) {
        spt_session *s = open_with(prompt, PROMPT);
        const spt_session_options so = {.draft_length = length};
        spt_session_set(s, &so, &err);
        tiny_answer a = answer_of(s, (spt_answer_options){.max_tokens = 12,
                                                          .ignore_end = true,
                                                          .stop_texts = stops,
                                                          .n_stop_texts = 2});
        CHECK_INT(a.finish, SPT_FINISH_STOP_TEXT, "a stop text ends it");
        CHECK(a.size == (size_t)(first - expected->text) &&
                  memcmp(a.text, expected->text, a.size) == 0,
              "before it, length %d", length);
        spt_session_close(s);
    }
    spt_session *s = open_with(prompt, PROMPT);
    const int32_t end = expected->tokens[5];
    tiny_answer a = answer_of(s, (spt_answer_options){.ignore_end = true,
                                                      .stop_tokens = &end,
                                                      .n_stop_tokens = 1});
    CHECK(a.finish == SPT_FINISH_STOP_TOKEN && a.n <= 6 &&
              a.tokens[a.n - 1] == end,
          "a stop token ends it and is its last");
    spt_session_close(s);
}

static void test_limits(void)
{
    int32_t long_prompt[64];
    for (int i = 0; i < 64; i++)
        long_prompt[i] = 60 + i % 5;
    spt_session *s = open_with(long_prompt, 60);
    tiny_answer a = answer_of(s, (spt_answer_options){.ignore_end = true});
    CHECK(a.finish == SPT_FINISH_CONTEXT && a.n == 4,
          "a full context ends it (%zu tokens)", a.n);
    CHECK_INT(spt_session_sync(s, long_prompt, 65, NULL, &err), SPT_E_USAGE,
              "no prompt longer than the context");
    const int32_t wrong = 320;
    CHECK_INT(spt_session_sync(s, &wrong, 1, NULL, &err), SPT_E_USAGE,
              "no token past the vocabulary");
    spt_session_sync(s, NULL, 0, NULL, &err);
    CHECK_INT(spt_session_answer(s, &(spt_answer_options){0}, &err),
              SPT_E_USAGE, "no answer to nothing");
    spt_session_close(s);
}

typedef struct canceller {
    spt_session *session;
    tiny_answer answer;
    size_t after;
} canceller;

static bool cancel_event(void *user, const spt_event *e)
{
    canceller *c = user;
    tiny_event(&c->answer, e);
    if (c->answer.n >= c->after)
        spt_session_cancel(c->session);
    return false;
}

/* One of two sessions is cancelled; the other does not notice. */
static void test_cancel(const tiny_answer *expected)
{
    bool good = true;
    for (size_t after = 1; after < 8; after += 3) {
        canceller c = {.session = open_with(prompt, 9), .after = after};
        spt_session *both[2] = {c.session, open_with(prompt, PROMPT)};
        tiny_answer other = {.n = 0};
        const spt_answer_options mine = {.event = cancel_event, .user = &c};
        const spt_answer_options its = {.max_tokens = 12,
                                        .ignore_end = true,
                                        .logprobs = true,
                                        .event = tiny_event,
                                        .user = &other};
        spt_session_answer(both[0], &mine, &err);
        spt_session_answer(both[1], &its, &err);
        while (good && !spt_session_finish(both[1]))
            good = spt_engine_step(engine, both, 2, &err) == SPT_OK;
        good = good && tiny_same(&other, expected) &&
               (spt_session_finish(both[0]) == SPT_FINISH_CANCELLED ||
                spt_session_finish(both[0]) == SPT_FINISH_STOP_TOKEN);
        spt_session_close(both[0]);
        spt_session_close(both[1]);
    }
    CHECK(good, "a cancelled session disturbs no other");
}

/* Three sessions of 40 tokens and more in a pool of 96: some wait. */
static void test_full_pool(void)
{
    spt_session *s[3];
    tiny_answer answers[3] = {{.n = 0}};
    int32_t tokens[36];
    bool good = true, busy = true;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 36; j++)
            tokens[j] = 50 + (i * 7 + j * 3) % 13;
        s[i] = open_with(tokens, 36);
        const spt_answer_options o = {.max_tokens = 4,
                                      .ignore_end = true,
                                      .event = tiny_event,
                                      .user = &answers[i]};
        spt_session_answer(s[i], &o, &err);
    }
    while (good && busy) {
        good = spt_engine_step(engine, s, 3, &err) == SPT_OK;
        busy = false;
        for (int i = 0; i < 3; i++) {
            busy = busy || (s[i] && !spt_session_finish(s[i]));
            if (s[i] && spt_session_finish(s[i]))
                spt_session_rewind(s[i], 0);
        }
    }
    if (!good)
        printf("# %s\n", err.text);
    CHECK(good && answers[0].n == 4 && answers[1].n == 4 && answers[2].n == 4,
          "sessions without room wait and then write");
    for (int i = 0; i < 3; i++)
        spt_session_close(s[i]);
    CHECK_INT(spt_pool_available(engine->pool), spt_pool_pages(engine->pool),
              "all pages are free at the end");
}

/* What a step refuses leaves the sessions as they were. */
static void test_wrong_steps(const tiny_answer *expected)
{
    const spt_answer_options o = {.max_tokens = 12, .ignore_end = true};
    spt_session *s = open_with(prompt, PROMPT), *twice[] = {s, s};
    spt_session_answer(s, &o, &err);
    CHECK_INT(spt_engine_step(engine, twice, 2, &err), SPT_E_USAGE,
              "a session twice in a step");
    CHECK_HAS(err.text, "session 1 is there twice", "and which");
    tiny_answer a = answer_of(s, o);
    CHECK(tiny_same(&a, expected), "after which it writes as before");
    spt_session_close(s);
}

static void test_memory(const spt_engine_options *options)
{
    spt_memory estimate;
    spt_engine_info info;
    char path[64];
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    spt_engine_options o = *options;
    tiny_write(&t, path);
    o.model = path;
    spt_engine_describe(engine, &info);
    CHECK_OK(spt_engine_estimate(&o, &estimate, &err), &err, "an estimate");
    CHECK(estimate.total == info.memory.total && info.memory.total > 0,
          "is what is allocated");
    o.context = 1000;
    CHECK_INT(spt_engine_estimate(&o, &estimate, &err), SPT_E_USAGE,
              "a context beyond the model's");
    unlink(path);
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    const spt_engine_options options = {
        .context = 64,
        .sessions = 3,
        .kv_tokens = 96,
        .draft_length = 15,
        .draft = {.method = SPT_DRAFT_NGRAM, .min_match = 1}};
    engine = tiny_open(&t, &options);
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (i * 5) % 9 + 60;
    spt_session *s = open_with(prompt, PROMPT);
    tiny_answer expected = answer_of(
        s, (spt_answer_options){.max_tokens = 12, .ignore_end = true});
    spt_session_close(s);
    test_scores(&expected);
    test_state(&expected);
    test_stops(&expected);
    test_limits();
    test_cancel(&expected);
    test_full_pool();
    test_wrong_steps(&expected);
    test_memory(&options);
    spt_engine_close(engine);
    return check_done();
}
