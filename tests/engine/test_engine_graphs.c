/*
 * Steps replayed as CUDA graphs write what steps launched one by one write:
 * drafts of several lengths, two sessions, across a chunk of the context, and
 * more shapes than there are graphs.
 */
#include "forward_int.h"
#include "tiny_engine.h"

enum { SESSIONS = 2, PROMPT = 490, ANSWER = 56 };

static spt_error err;

/* Replayed graphs of the engine; -1: it could not write. */
static int write_both(bool graphs, int room, int branches, tiny_answer *answers)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    t.context = 1024;
    const spt_engine_options options = {.context = 640,
                                        .sessions = SESSIONS,
                                        .draft_length = 3,
                                        .no_graphs = !graphs,
                                        .draft = {.method = SPT_DRAFT_NGRAM,
                                                  .min_match = 1,
                                                  .branches = branches}};
    static int32_t prompt[PROMPT];
    spt_engine *e = tiny_open(&t, &options);
    spt_session *s[SESSIONS] = {NULL};
    bool good = true, busy = true;
    if (graphs && room)
        e->forward->limits.graphs = room;
    for (int i = 0; i < SESSIONS; i++) {
        const spt_session_options so = {
            .sampling = {.temperature = i ? 0.7 : 0, .seed = 3}};
        const spt_answer_options ao = {.max_tokens = (size_t)(ANSWER - 9 * i),
                                       .ignore_end = true,
                                       .event = tiny_event,
                                       .user = &answers[i]};
        answers[i] = (tiny_answer){.n = 0};
        for (int j = 0; j < PROMPT; j++)
            prompt[j] = 40 + j % (5 + i);
        good = good && spt_session_open(e, &so, &s[i], &err) == SPT_OK &&
               spt_session_sync(s[i], prompt, PROMPT, NULL, &err) == SPT_OK &&
               spt_session_answer(s[i], &ao, &err) == SPT_OK;
    }
    while (good && busy) {
        good = spt_engine_step(e, s, SESSIONS, &err) == SPT_OK;
        busy = !spt_session_finish(s[0]) || !spt_session_finish(s[1]);
    }
    int kept = 0;
    for (int i = 0; i < e->forward->limits.graphs; i++)
        kept += e->forward->graphs[i].exec != NULL;
    if (!good)
        printf("# %s\n", err.text);
    spt_engine_close(e);
    return good ? kept : -1;
}

int main(void)
{
    for (int branches = 1; branches <= 2; branches++) {
        tiny_answer eager[SESSIONS], replayed[SESSIONS];
        const char *form = branches > 1 ? "trees" : "chains";
        CHECK_INT(write_both(false, 0, branches, eager), 0, "without graphs");
        for (int room = 0; room <= 2; room += 2) {
            int kept = write_both(true, room, branches, replayed);
            CHECK(room ? kept > 0 && kept <= room : kept > 2,
                  "%s: steps of %d shapes are graphs", form, kept);
            CHECK(tiny_same(&eager[0], &replayed[0]) &&
                      tiny_same(&eager[1], &replayed[1]),
                  "%s: and write the same", form);
        }
    }
    return check_done();
}
