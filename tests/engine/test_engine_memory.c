/*
 * What an engine says it would take of the device is what it takes, within
 * 5 %, at its peak: while it writes, with every kind of drafter.
 */
#include "tiny_engine.h"

enum { PROMPT = 40 };

static const char SMOLLM2[] = "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";

static spt_error err;

/* Bytes in use on the engine's device; the most that was seen. */
typedef struct watch {
    spt_engine *engine;
    uint64_t peak;
    int events;
} watch;

static void look(watch *w)
{
    size_t available = 0, total = 0;
    w->engine->machine.driver.cuMemGetInfo(&available, &total);
    if (total - available > w->peak)
        w->peak = total - available;
}

static bool on_event(void *user, const spt_event *event)
{
    watch *w = user;
    (void)event;
    w->events++;
    look(w);
    return false;
}

static void write_some(watch *w)
{
    const spt_session_options options = {.draft_length = 0};
    const spt_answer_options answer = {
        .max_tokens = 3, .ignore_end = true, .event = on_event, .user = w};
    int32_t prompt[PROMPT];
    spt_session *s = NULL;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 40 + i % 7;
    CHECK(spt_session_open(w->engine, &options, &s, &err) == SPT_OK &&
              spt_session_sync(s, prompt, PROMPT, NULL, &err) == SPT_OK &&
              spt_session_generate(s, &answer, NULL, &err) == SPT_OK,
          "it writes");
    spt_session_close(s);
}

static void compare(const char *name, const spt_engine_options *o)
{
    watch w = {0};
    spt_memory estimate;
    if (!CHECK_OK(spt_engine_estimate(o, &estimate, &err), &err,
                  "an estimate") ||
        !CHECK_OK(spt_engine_open(o, &w.engine, &err), &err, "an engine"))
        return;
    look(&w);
    write_some(&w);
    double off = ((double)estimate.total - (double)w.peak) / (double)w.peak;
    CHECK(w.events > 0 && off < 0.05 && off > -0.05,
          "%s: %.3f MB of %.3f, %+.2f %%", name, (double)estimate.total / 1e6,
          (double)w.peak / 1e6, off * 100);
    spt_engine_close(w.engine);
}

static void test_tiny(void)
{
    char path[64];
    tiny_model t = tiny_default("gemma3", SPT_WEIGHT_Q8_0);
    tiny_write(&t, path);
    const struct {
        const char *name;
        spt_engine_options options;
    } ways[] = {
        {"one session", {.context = 128}},
        {"many, n-grams in trees",
         {.context = 128,
          .sessions = 9,
          .draft = {.method = SPT_DRAFT_NGRAM, .branches = 3}}},
        {"a draft model",
         {.context = 96,
          .sessions = 2,
          .draft_length = 15,
          .draft = {.method = SPT_DRAFT_MODEL, .model = path}}},
        {"a small pool, one row a step",
         {.context = 100, .kv_tokens = 64, .page_size = 1, .prefill_chunk = 1}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        spt_engine_options o = ways[i].options;
        o.model = path;
        o.device = SPT_DEVICE_SIM;
        compare(ways[i].name, &o);
    }
    unlink(path);
}

int main(void)
{
    test_tiny();
    const spt_engine_options smollm2 = {.model = SMOLLM2,
                                        .device = SPT_DEVICE_SIM,
                                        .sessions = 4,
                                        .draft = {.method = SPT_DRAFT_NGRAM}};
    compare("SmolLM2-135M, four sessions", &smollm2);
    return check_done();
}
