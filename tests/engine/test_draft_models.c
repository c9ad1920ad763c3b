/*
 * Draft models: one of the same vocabulary, one of a padded one, one of other
 * tokens. The text is that without drafts; a model that drafts for itself is
 * always right; rejection still draws what it says; host and device draw the
 * same drafts.
 */
#include "draft_ahead.h"
#include "draft_model.h"
#include "forward_int.h"
#include "tiny_engine.h"
#include "vocab_map.h"

enum { PROMPT = 19, BATCH = 2, ANSWER = 14 };

static spt_error err;

static spt_engine *open_pair(const tiny_model *target, const tiny_model *draft,
                             int branches, int shift)
{
    char path[64];
    spt_engine_options o = {
        .context = 96, .sessions = BATCH, .draft_length = 4};
    if (draft) {
        tiny_shift = shift;
        tiny_write(draft, path);
        tiny_shift = 0;
        o.draft = (spt_draft_options){
            .method = SPT_DRAFT_MODEL, .model = path, .branches = branches};
    }
    spt_engine *e = tiny_open(target, &o);
    if (draft)
        unlink(path);
    return e;
}

/* Both sessions side by side, one with penalties where tokens are drawn; steps
   that wrote. */
static uint64_t run_both(spt_engine *e, double temperature, int length,
                         spt_accept_rule rule, tiny_answer *answers)
{
    spt_session *s[BATCH] = {NULL};
    spt_session_stats stats;
    uint64_t steps = 0;
    bool good = true;
    for (int i = 0; i < BATCH; i++) {
        int32_t prompt[PROMPT];
        const spt_session_options options = {
            .draft_length = length,
            .accept = rule,
            .sampling = {.temperature = temperature,
                         .seed = 5,
                         .repeat_penalty = temperature > 0 && i ? 1.3 : 0,
                         .penalty_tokens = 6}};
        const spt_answer_options o = {.max_tokens = ANSWER,
                                      .ignore_end = true,
                                      .logprobs = true,
                                      .event = tiny_event,
                                      .user = &answers[i]};
        for (int j = 0; j < PROMPT; j++)
            prompt[j] = 40 + (j * (3 + i)) % 17;
        answers[i] = (tiny_answer){.n = 0};
        good = good && spt_session_open(e, &options, &s[i], &err) == SPT_OK &&
               spt_session_sync(s[i], prompt, PROMPT, NULL, &err) == SPT_OK &&
               spt_session_answer(s[i], &o, &err) == SPT_OK;
    }
    while (good && (!spt_session_finish(s[0]) || !spt_session_finish(s[1])))
        good = spt_engine_step(e, s, BATCH, &err) == SPT_OK;
    if (!good)
        printf("# %s\n", err.text);
    for (int i = 0; i < BATCH; i++) {
        spt_session_statistics(s[i], &stats);
        steps += stats.steps;
        spt_session_close(s[i]);
    }
    return good ? steps : 0;
}

static tiny_answer expected[2][BATCH]; /* [temperature 0, 0.8] */

static void check_pair(spt_engine *e, const char *name, bool itself)
{
    tiny_answer answers[BATCH];
    for (int hot = 0; hot < 2; hot++)
        for (int length = 1; length <= 4; length += 3) {
            uint64_t steps =
                run_both(e, hot ? 0.8 : 0, length, SPT_ACCEPT_MATCH, answers);
            CHECK(steps && tiny_same(&answers[0], &expected[hot][0]) &&
                      tiny_same(&answers[1], &expected[hot][1]),
                  "%s, temperature %s, length %d: same bits", name,
                  hot ? "0.8" : "0", length);
            uint64_t most = BATCH * (uint64_t)(1 + ANSWER / (1 + length) + 1);
            if (itself)
                CHECK(steps <= most, "always right (%d steps)", (int)steps);
        }
}

static void test_pairs(const tiny_model *t)
{
    spt_engine *e = open_pair(t, NULL, 1, 0);
    run_both(e, 0, -1, SPT_ACCEPT_MATCH, expected[0]);
    run_both(e, 0.8, -1, SPT_ACCEPT_MATCH, expected[1]);
    spt_engine_close(e);
    e = open_pair(t, t, 1, 0);
    check_pair(e, "its own drafter", true);
    tiny_answer answers[BATCH];
    uint64_t steps = run_both(e, 0.8, 4, SPT_ACCEPT_REJECTION, answers);
    CHECK(steps && answers[0].n == ANSWER &&
              steps <= BATCH * (1 + ANSWER / 5 + 1),
          "rejection keeps what was drawn from the same distribution");
    spt_engine_info info;
    spt_engine_describe(e, &info);
    CHECK(info.memory.drafter > 0 && strcmp(info.drafter, "model") == 0,
          "the drafter's memory is counted");
    spt_engine_close(e);
    tiny_model other = *t;
    other.seed = 2;
    other.layers = 1;
    other.vocab = 352; /* padded */
    e = open_pair(t, &other, 2, 0);
    check_pair(e, "another model of a padded vocabulary, trees", false);
    spt_engine_close(e);
    e = open_pair(t, t, 1, 13);
    check_pair(e, "a drafter with tokens of its own", false);
    spt_engine_close(e);
}

/* A drafter between the engine and its own that sums up all drafts: sessions
   come in any order. */
typedef struct recorder {
    spt_draft_source inner;
    uint64_t hash;
    int nodes, trees;
} recorder;

static spt_status record(void *self, spt_draft_request *requests, int count,
                         spt_error *e)
{
    recorder *r = self;
    SPT_TRY(r->inner.class->draft(r->inner.self, requests, count, e));
    for (int i = 0; i < count; i++) {
        const spt_draft *d = requests[i].draft;
        r->nodes += d->count;
        r->trees += !d->chain;
        uint64_t hash = (uint64_t)requests[i].count;
        for (int j = 1; j <= d->count; j++)
            hash = (hash ^ (uint64_t)(d->token[j] * 32 + d->parent[j])) *
                   UINT64_C(1099511628211);
        r->hash += hash;
    }
    return SPT_OK;
}

static void leave_open(void *self)
{
    (void)self;
}

static spt_status record_open(void *self, void **state, spt_error *e)
{
    const recorder *r = self;
    return r->inner.class->session_open(r->inner.self, state, e);
}

static void record_close(void *self, void *state)
{
    const recorder *r = self;
    r->inner.class->session_close(r->inner.self, state);
}

static const spt_draft_class recorder_class = {.name = "recorder",
                                               .close = leave_open,
                                               .session_open = record_open,
                                               .session_close = record_close,
                                               .draft = record};

/* What is drafted by the device, or by the host from all logits. */
static recorder drafts_of(spt_engine *e, bool on_host, bool hot)
{
    recorder r = {.inner = e->drafter};
    spt_ahead *a = spt_ahead_of(&e->drafter);
    tiny_answer answers[BATCH];
    const float untouched = 12345;
    e->drafter = (spt_draft_source){&recorder_class, &r};
    a->forward->on_host = on_host;
    a->logits[0] = untouched;
    uint64_t steps = run_both(e, hot ? 0.8 : 0, 4, SPT_ACCEPT_MATCH, answers);
    CHECK(steps && on_host == (a->logits[0] != untouched),
          "logits come to the host or don't");
    a->forward->on_host = false;
    e->drafter = r.inner;
    return r;
}

static void check_drafts(spt_engine *e, const char *name, bool trees)
{
    for (int hot = 0; hot < 2; hot++) {
        recorder device = drafts_of(e, false, hot);
        recorder host = drafts_of(e, true, hot);
        CHECK(device.nodes > 0 && device.hash == host.hash &&
                  device.nodes == host.nodes && trees == (device.trees > 0),
              "%s, temperature %s: %d drafts of the device are the host's",
              name, hot ? "0.8" : "0", device.nodes);
    }
}

static void test_where(const tiny_model *t)
{
    const struct {
        const char *name;
        int vocab, shift, branches;
    } ways[] = {
        {"the same tokens", 320, 0, 1},
        {"more tokens, branches", 352, 0, 3},
        {"fewer tokens", 290, 0, 1},
        {"tokens of its own", 320, 13, 1},
        {"tokens of its own, branches", 344, 13, 2},
    };
    tiny_model other = *t;
    other.seed = 2;
    other.layers = 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        other.vocab = ways[i].vocab;
        spt_engine *e = open_pair(t, &other, ways[i].branches, ways[i].shift);
        check_drafts(e, ways[i].name, ways[i].branches > 1);
        spt_engine_close(e);
    }
}

/* Answers by rejection where target and drafter draw on the host or not. */
static uint64_t reject(spt_engine *e, spt_ahead *a, bool target_on_host,
                       bool drafter_on_host, tiny_answer *answers)
{
    const float untouched = 12345;
    e->forward->on_host = target_on_host;
    if (a)
        a->forward->on_host = drafter_on_host;
    e->logits[0] = untouched;
    uint64_t steps = run_both(e, 0.8, 4, SPT_ACCEPT_REJECTION, answers);
    bool all_logits = target_on_host || drafter_on_host;
    CHECK(steps && all_logits == (e->logits[0] != untouched),
          "logits come to the host or don't");
    e->forward->on_host = false;
    if (a)
        a->forward->on_host = false;
    return steps;
}

/* What is judged on the device is what the host judges. */
static void check_rejection(spt_engine *e, spt_ahead *a, const char *name)
{
    tiny_answer device[BATCH], host[BATCH], mixed[BATCH];
    uint64_t steps = reject(e, a, false, false, device);
    uint64_t on_host = reject(e, a, true, false, host);
    CHECK(steps == on_host && tiny_same(&device[0], &host[0]) &&
              tiny_same(&device[1], &host[1]),
          "%s: rejection on the device and on the host, %d steps", name,
          (int)steps);
    if (!a)
        return;
    reject(e, a, false, true, mixed);
    CHECK(tiny_same(&device[0], &mixed[0]) && tiny_same(&device[1], &mixed[1]),
          "%s: and where the host alone drafts", name);
}

static void test_rejection(const tiny_model *t)
{
    const struct {
        const char *name;
        int vocab, shift, seed;
    } ways[] = {
        {"its own drafter", 320, 0, 0},
        {"another model", 320, 0, 2},
        {"more tokens", 352, 0, 2},
        {"tokens of its own", 344, 13, 2},
    };
    tiny_model other = *t;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        other.vocab = ways[i].vocab;
        other.seed = ways[i].seed ? (uint64_t)ways[i].seed : t->seed;
        spt_engine *e = open_pair(t, &other, 1, ways[i].shift);
        check_rejection(e, spt_ahead_of(&e->drafter), ways[i].name);
        spt_engine_close(e);
    }
    const spt_engine_options o = {
        .context = 96,
        .sessions = BATCH,
        .draft_length = 4,
        .draft = {.method = SPT_DRAFT_NGRAM, .min_match = 1}};
    spt_engine *e = tiny_open(t, &o);
    check_rejection(e, NULL, "n-grams");
    spt_engine_close(e);
}

/* A tokenizer of bytes in another order. */
static spt_tokenizer *shuffled(int shift)
{
    static char texts[256][4];
    static const char *pointers[256];
    static const char *const merges[] = {"a b"};
    spt_buf file = {0};
    gguf_maker m = {0};
    spt_gguf *gguf = NULL;
    spt_tokenizer *t = NULL;
    for (int i = 0; i < 256; i++) {
        tiny_utf8(spt_byte_char((i + shift) % 256), texts[i]);
        pointers[i] = texts[i];
    }
    gguf_put_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(&m, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_texts(&m, "tokenizer.ggml.tokens", pointers, 256);
    gguf_put_texts(&m, "tokenizer.ggml.merges", merges, 0);
    gguf_finish(&m, &file);
    if (spt_gguf_parse(&gguf, file.data, file.size, "tokens", &err) != SPT_OK ||
        spt_tokenizer_from_gguf(&t, gguf, &err) != SPT_OK)
        printf("# %s\n", err.text);
    spt_gguf_close(gguf);
    spt_buf_free(&file);
    return t;
}

static void test_maps(void)
{
    spt_tokenizer *a = shuffled(0), *b = shuffled(9);
    spt_vocab_map map;
    CHECK_OK(spt_vocab_map_make(a, 256, a, 300, &map, &err), &err, "a map");
    CHECK(map.same, "equal tokens are the same vocabulary");
    spt_vocab_map_free(&map);
    CHECK_OK(spt_vocab_map_make(a, 256, b, 256, &map, &err), &err, "a map");
    CHECK(!map.same && map.shared == 256 && map.to_target[0] == 9 &&
              map.to_target[250] == 3,
          "others are matched by what they write");
    spt_vocab_map_free(&map);
    CHECK_INT(spt_vocab_map_make(a, 4, b, 200, &map, &err), SPT_E_UNSUPPORTED,
              "hardly anything in common is refused");
    CHECK_HAS(err.text, "0 of its 200 tokens", "with how much");
    spt_tokenizer_close(a);
    spt_tokenizer_close(b);
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    test_maps();
    test_pairs(&t);
    test_where(&t);
    test_rejection(&t);
    return check_done();
}
