/*
 * Engines beside each other in one process: on threads of their own, opened,
 * used and closed by different ones, beside a program that has a context too.
 * Meant to run under ThreadSanitizer as well.
 */
#include <pthread.h>

#include "machine.h"
#include "tiny_engine.h"

enum { ENGINES = 2, ROUNDS = 3, PROMPT = 9 };

static spt_error err;

typedef struct writer {
    spt_engine *engine;
    tiny_answer first, again;
    bool good;
} writer;

/* Each engine is asked for the same text. */
static bool write_text(spt_engine *e, tiny_answer *answer)
{
    const spt_session_options options = {
        .sampling = {.temperature = 0.8, .seed = 5, .top_k = 4}};
    const spt_answer_options how = {
        .max_tokens = 24, .event = tiny_event, .user = answer};
    int32_t prompt[PROMPT];
    spt_session *s = NULL;
    spt_error why;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 60 + i % 3;
    *answer = (tiny_answer){0};
    bool good = spt_session_open(e, &options, &s, &why) == SPT_OK &&
                spt_session_sync(s, prompt, PROMPT, NULL, &why) == SPT_OK &&
                spt_session_generate(s, &how, NULL, &why) == SPT_OK;
    spt_session_close(s);
    return good;
}

static void *write_often(void *user)
{
    writer *w = user;
    w->good = true;
    for (int i = 0; i < ROUNDS; i++)
        w->good = write_text(w->engine, &w->again) &&
                  tiny_same(&w->first, &w->again) && w->good;
    spt_engine_close(w->engine);
    return NULL;
}

static spt_engine *open_one(const char *architecture)
{
    const tiny_model model = tiny_default(architecture, SPT_WEIGHT_F16);
    const spt_engine_options options = {
        .context = 128,
        .sessions = 2,
        .draft_length = 3,
        .draft = {.method = SPT_DRAFT_NGRAM, .min_match = 1}};
    return tiny_open(&model, &options);
}

static CUcontext current(const spt_driver *d)
{
    CUcontext c = NULL;
    d->cuCtxGetCurrent(&c);
    return c;
}

/* own: a context of the program, which no call may change. */
static void test_side_by_side(const spt_driver *d, CUcontext own)
{
    writer writers[ENGINES] = {{.engine = open_one("llama")},
                               {.engine = open_one("qwen3")}};
    pthread_t threads[ENGINES];
    CHECK(current(d) == own, "opening leaves the program's context");
    for (int i = 0; i < ENGINES; i++)
        CHECK(write_text(writers[i].engine, &writers[i].first),
              "engine %d writes alone", i);
    CHECK(!tiny_same(&writers[0].first, &writers[1].first),
          "two models, two texts");
    CHECK(current(d) == own, "so does writing");
    for (int i = 0; i < ENGINES; i++)
        pthread_create(&threads[i], NULL, write_often, &writers[i]);
    for (int i = 0; i < ENGINES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ENGINES; i++)
        CHECK(writers[i].good, "engine %d writes the same beside the other", i);
    CHECK(current(d) == own, "and closing");
}

int main(void)
{
    spt_gen *gen = NULL;
    spt_board board, other;
    spt_machine machine, refused;
    CUcontext own;
    size_t before = 0, after = 1, total;
    if (!CHECK_OK(spt_gen_open(NULL, &gen, &err), &err, "archs/ opens") ||
        spt_gen_board(gen, "h100_sxm", &board, &err) != SPT_OK ||
        spt_gen_board(gen, "l40s", &other, &err) != SPT_OK ||
        !CHECK_OK(
            spt_machine_open(&board, SPT_DEVICE_SIM, false, &machine, &err),
            &err, "the program's own machine"))
        return check_done();
    const spt_driver *d = &machine.driver;
    CHECK(d->cuCtxCreate(&own, NULL, 0, machine.device) == CUDA_SUCCESS,
          "the program's own context");
    d->cuMemGetInfo(&before, &total);
    test_side_by_side(d, own);
    d->cuMemGetInfo(&after, &total);
    CHECK_INT((long long)after, (long long)before, "all memory is given back");
    CHECK(spt_machine_open(&other, SPT_DEVICE_SIM, false, &refused, &err) ==
              SPT_E_USAGE,
          "another board beside it is refused");
    CHECK_HAS(err.text, "in use with another board", "with the reason");
    d->cuCtxDestroy(own);
    spt_machine_close(&machine);
    CHECK_OK(spt_machine_open(&other, SPT_DEVICE_SIM, false, &machine, &err),
             &err, "but not when all is closed");
    spt_machine_close(&machine);
    spt_gen_close(gen);
    return check_done();
}
