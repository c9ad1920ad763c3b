/*
 * Heads of EAGLE-3 as drafters: the text is that without drafts, to the bit,
 * whatever the way; some drafts are right, some wrong; pages that come from
 * elsewhere bring their features; a head that does not fit is refused.
 */
#include "tiny_engine.h"
#include "tiny_head.h"

enum { PROMPT = 37, BATCH = 3, ANSWER = 20, MAX_LENGTH = 6 };

static spt_error err;
static tiny_answer expected[2][BATCH]; /* [temperature 0, 0.8] */

static void make_prompt(int which, int32_t *tokens)
{
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (i * (7 + which) + which * 31) % 11 + 40;
}

static spt_engine *open_engine(const tiny_model *t, const tiny_head *h,
                               int branches)
{
    char path[64];
    spt_engine_options o = {
        .context = 96, .sessions = BATCH, .draft_length = MAX_LENGTH};
    if (h) {
        tiny_head_write(h, path);
        o.draft = (spt_draft_options){
            .method = SPT_DRAFT_EAGLE3, .model = path, .branches = branches};
    }
    spt_engine *e = tiny_open(t, &o);
    if (h)
        tiny_head_remove(path);
    return e;
}

static spt_session *begin(spt_engine *e, int which, double temperature,
                          int length, tiny_answer *answer)
{
    int32_t prompt[PROMPT];
    spt_session *s = NULL;
    const spt_session_options options = {
        .draft_length = length,
        .sampling = {.temperature = temperature, .seed = 5}};
    const spt_answer_options o = {.max_tokens = ANSWER,
                                  .ignore_end = true,
                                  .event = tiny_event,
                                  .user = answer};
    make_prompt(which, prompt);
    *answer = (tiny_answer){.n = 0};
    CHECK(spt_session_open(e, &options, &s, &err) == SPT_OK &&
              spt_session_sync(s, prompt, PROMPT, NULL, &err) == SPT_OK &&
              spt_session_answer(s, &o, &err) == SPT_OK,
          "a session begins");
    return s;
}

/* All prompts side by side; adds up what was drafted. */
static bool run_all(spt_engine *e, double temperature, int length,
                    tiny_answer *answers, spt_session_stats *sum)
{
    spt_session *s[BATCH];
    bool good = true, busy = true;
    for (int i = 0; i < BATCH; i++)
        s[i] = begin(e, i, temperature, length, &answers[i]);
    while (good && busy) {
        good = spt_engine_step(e, s, BATCH, &err) == SPT_OK;
        busy = false;
        for (int i = 0; i < BATCH; i++)
            busy = busy || !spt_session_finish(s[i]);
    }
    if (!good)
        printf("# %s\n", err.text);
    for (int i = 0; i < BATCH; i++) {
        spt_session_stats stats;
        spt_session_statistics(s[i], &stats);
        sum->draft_tokens += stats.draft_tokens;
        sum->accepted_tokens += stats.accepted_tokens;
        spt_session_close(s[i]);
    }
    return good;
}

static bool all_same(const tiny_answer *answers, const tiny_answer *want)
{
    bool same = true;
    for (int i = 0; i < BATCH; i++)
        same = same && tiny_same(&answers[i], &want[i]);
    return same;
}

static void make_expected(const tiny_model *t)
{
    spt_session_stats none = {0};
    spt_engine *e = open_engine(t, NULL, 1);
    run_all(e, 0, -1, expected[0], &none);
    run_all(e, 0.8, -1, expected[1], &none);
    spt_engine_close(e);
}

/* What the answers have, so that a head is right now and then. */
static int answered(int32_t *tokens)
{
    bool seen[1024] = {false};
    int n = 0;
    for (int i = 0; i < BATCH; i++)
        for (size_t j = 0; j < expected[0][i].n; j++)
            seen[expected[0][i].tokens[j]] = true;
    for (int i = 0; i < 1024; i++)
        if (seen[i])
            tokens[n++] = i;
    return n;
}

static void check_head(const tiny_model *t, const tiny_head *h, int branches,
                       const char *name)
{
    tiny_answer answers[BATCH];
    spt_session_stats stats = {0};
    spt_engine *e = open_engine(t, h, branches);
    for (int chunk = 7; chunk <= 64; chunk += 57)
        for (int hot = 0; hot < 2; hot++) {
            int length = chunk == 7 ? 1 : MAX_LENGTH - hot;
            e->options.prefill_chunk = chunk;
            CHECK(run_all(e, hot ? 0.8 : 0, length, answers, &stats) &&
                      all_same(answers, expected[hot]),
                  "%s, temperature %s, length %d, chunk %d: same bits", name,
                  hot ? "0.8" : "0", length, chunk);
        }
    CHECK(stats.accepted_tokens > 0 &&
              stats.accepted_tokens < stats.draft_tokens,
          "%s: %d of %d drafts are right", name, (int)stats.accepted_tokens,
          (int)stats.draft_tokens);
    spt_engine_close(e);
}

static void test_heads(const tiny_model *t)
{
    int32_t tokens[1024];
    tiny_head h = tiny_head_of(t);
    h.layer.vocab = answered(tokens);
    h.drafts = tokens;
    check_head(t, &h, 1, "a chain");
    h.own_embed = h.norm_residual = h.qk_norm = true;
    h.taps = 1;
    h.tap[0] = 1;
    h.layer.hidden = 128;
    check_head(t, &h, 2, "a tree, a narrower head of one tap");
}

/* Drawn drafts that rejection judges: a text of another draw, all of it. */
static void test_rejection(const tiny_model *t)
{
    int32_t tokens[1024];
    tiny_answer answer;
    tiny_head h = tiny_head_of(t);
    h.layer.vocab = answered(tokens);
    h.drafts = tokens;
    spt_engine *e = open_engine(t, &h, 1);
    spt_session *s = begin(e, 0, 0.8, 3, &answer);
    spt_session_stats stats;
    const spt_session_options options = {
        .draft_length = 3,
        .accept = SPT_ACCEPT_REJECTION,
        .sampling = {.temperature = 0.8, .seed = 5}};
    bool good = spt_session_set(s, &options, &err) == SPT_OK;
    while (good && !spt_session_finish(s))
        good = spt_engine_step(e, &s, 1, &err) == SPT_OK;
    spt_session_statistics(s, &stats);
    CHECK(good && answer.n == ANSWER && stats.accepted_tokens > 0 &&
              stats.accepted_tokens < stats.draft_tokens,
          "rejection keeps %d of %d drawn drafts", (int)stats.accepted_tokens,
          (int)stats.draft_tokens);
    spt_engine_close(e);
}

/* Steps of one session until it has finished. */
static void finish(spt_engine *e, spt_session *s)
{
    while (!spt_session_finish(s) && spt_engine_step(e, &s, 1, &err) == SPT_OK)
        ;
}

/* What came from pages of others: a hit, a fork, a rewind, a file. */
static void test_pages(const tiny_model *t)
{
    static const char path[] = "/tmp/spectune-eagle3-session";
    tiny_answer answers[2];
    tiny_head h = tiny_head_of(t);
    spt_engine *e = open_engine(t, &h, 2);
    spt_session *s = begin(e, 0, 0, 4, &answers[0]), *copy = NULL;
    finish(e, s);
    CHECK(tiny_same(&answers[0], &expected[0][0]), "the first one");
    CHECK_OK(spt_session_save(s, path, &err), &err, "it is saved");
    const spt_answer_options o = {.max_tokens = ANSWER,
                                  .ignore_end = true,
                                  .event = tiny_event,
                                  .user = &answers[1]};
    for (int way = 0; way < 3; way++) {
        answers[1] = (tiny_answer){.n = 0};
        bool good = way == 0   ? spt_session_fork(s, &copy, &err) == SPT_OK
                    : way == 1 ? true
                               : spt_session_load(copy, path, &err) == SPT_OK;
        spt_session_rewind(copy, PROMPT);
        CHECK(good && spt_session_answer(copy, &o, &err) == SPT_OK, "again");
        finish(e, copy);
        CHECK(tiny_same(&answers[1], &expected[0][0]), "after %s: same bits",
              way == 0   ? "a fork"
              : way == 1 ? "a rewind"
                         : "a load");
    }
    spt_session_close(copy);
    copy = begin(e, 0, 0.8, 4, &answers[1]);
    finish(e, copy);
    spt_session_stats stats;
    spt_session_statistics(copy, &stats);
    CHECK(stats.reused_tokens > 0 && stats.draft_tokens > 0 &&
              tiny_same(&answers[1], &expected[1][0]),
          "a prompt that was there: same bits");
    spt_engine_close(e);
    unlink(path);
}

static void refuse(const tiny_model *t, tiny_head h, const char *text)
{
    char model[64], path[64];
    spt_engine *e = NULL;
    spt_memory memory;
    tiny_write(t, model);
    tiny_head_write(&h, path);
    const spt_engine_options o = {
        .model = model,
        .device = SPT_DEVICE_SIM,
        .draft = {.method = SPT_DRAFT_EAGLE3, .model = path}};
    CHECK_INT(spt_engine_open(&o, &e, &err), SPT_E_UNSUPPORTED, "refused");
    CHECK_HAS(err.text, text, "and why");
    CHECK_INT(spt_engine_estimate(&o, &memory, &err), SPT_E_UNSUPPORTED,
              "the estimate too");
    spt_engine_close(e);
    unlink(model);
    tiny_head_remove(path);
}

static void test_refused(const tiny_model *t)
{
    tiny_head h = tiny_head_of(t), bad = h;
    bad.target_hidden = 128;
    refuse(t, bad, "head: reads rows of 128 numbers, the model's have 256");
    bad = h;
    bad.target_vocab = 640;
    refuse(t, bad, "head: is for 640 tokens, the model has 320");
    bad = h;
    bad.tap[2] = 2;
    refuse(t, bad, "head: reads layer 3 of the model, which has 2");
    bad.tap[0] = -1;
    refuse(t, bad, "as its file names none, which has 2");
    bad = h;
    bad.layer.hidden = 128;
    refuse(t, bad, "head: has no embed_tokens and rows of 128 numbers");
}

/* The estimate is what the engine has. */
static void test_memory(const tiny_model *t)
{
    char model[64], path[64];
    tiny_head h = tiny_head_of(t);
    spt_engine *e = NULL;
    spt_memory memory;
    spt_engine_info info;
    tiny_write(t, model);
    tiny_head_write(&h, path);
    const spt_engine_options o = {
        .model = model,
        .device = SPT_DEVICE_SIM,
        .context = 96,
        .draft = {.method = SPT_DRAFT_EAGLE3, .model = path}};
    CHECK(spt_engine_estimate(&o, &memory, &err) == SPT_OK &&
              spt_engine_open(&o, &e, &err) == SPT_OK,
          "an engine and its estimate");
    spt_engine_describe(e, &info);
    CHECK(memory.drafter > 0 && memory.drafter == info.memory.drafter &&
              memory.total == info.memory.total &&
              strcmp(info.drafter, "eagle3") == 0,
          "the head's memory is in it");
    spt_engine_close(e);
    spt_engine_options alone = o;
    alone.model = path;
    alone.draft.method = SPT_DRAFT_NONE;
    e = NULL;
    CHECK(spt_engine_open(&alone, &e, &err) != SPT_OK,
          "a head alone is no model");
    CHECK_HAS(err.text, "eagle3 drafts for another model", "and why");
    alone = o;
    alone.draft.method = SPT_DRAFT_MODEL;
    CHECK(spt_engine_open(&alone, &e, &err) != SPT_OK, "nor a draft model");
    CHECK_HAS(err.text, "eagle3 drafts for another model", "and why");
    spt_engine_close(e);
    unlink(model);
    tiny_head_remove(path);
}

/* Every access of a few steps, trees too, under sim's checks. */
static void test_checks(const tiny_model *t)
{
    char path[64];
    tiny_answer answer = {.n = 0};
    tiny_head h = tiny_head_of(t);
    h.norm_residual = true;
    tiny_head_write(&h, path);
    const spt_engine_options o = {
        .context = 96,
        .draft_length = 3,
        .checks = true,
        .draft = {.method = SPT_DRAFT_EAGLE3, .model = path, .branches = 2}};
    spt_engine *e = tiny_open(t, &o);
    spt_session *s = begin(e, 0, 0, 3, &answer);
    bool good = true;
    for (int i = 0; i < 4 && good; i++)
        good = CHECK_OK(spt_engine_step(e, &s, 1, &err), &err, "a step");
    CHECK(good && answer.n >= 4 &&
              memcmp(answer.tokens, expected[0][0].tokens,
                     answer.n * sizeof *answer.tokens) == 0,
          "sim has nothing to say");
    spt_engine_close(e);
    tiny_head_remove(path);
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    make_expected(&t);
    test_heads(&t);
    test_rejection(&t);
    test_pages(&t);
    test_refused(&t);
    test_memory(&t);
    test_checks(&t);
    return check_done();
}
