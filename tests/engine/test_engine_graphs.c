/*
 * Steps replayed as CUDA graphs write what steps launched one by one write:
 * drafts of several lengths, two sessions, across a chunk of the context, with
 * penalties and log-probabilities on and off, and more shapes than there are
 * graphs.
 */
#include "forward_int.h"
#include "tiny_engine.h"

enum { SESSIONS = 2, PROMPT = 490, ANSWER = 56, ITEMS = 3, FIRST = 60 };

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
            .sampling = {.temperature = i ? 0.7 : 0,
                         .seed = 3,
                         .repeat_penalty = i ? 1.05 : 0,
                         .penalty_tokens = -1}};
        const spt_answer_options ao = {.max_tokens = (size_t)(ANSWER - 9 * i),
                                       .ignore_end = true,
                                       .logprobs = i == 1,
                                       .top_logprobs = (size_t)i * TINY_TOP,
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

/* What a pass over two sequences feeds each, and who of them wants a token. */
typedef struct form {
    int count[SESSIONS], logits[SESSIONS];
} form;

/* Nodes that each item's choice has, -1 where it has none; the pass's bits. */
static bool run_form(spt_engine *e, const form *f, spt_sequence *s, int *nodes)
{
    static const int32_t tokens[] = {41, 42};
    const spt_sample_row rows[2] = {{0}};
    spt_forward_choice choices[SESSIONS];
    spt_forward_item items[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        choices[i].count = -1;
        items[i] = (spt_forward_item){.sequence = &s[i],
                                      .tokens = tokens,
                                      .count = f->count[i],
                                      .logits = f->logits[i],
                                      .sample = f->logits[i] ? rows : NULL,
                                      .choice = &choices[i]};
    }
    bool good = CHECK_OK(
        spt_forward_run(e->forward, items, SESSIONS, NULL, &err), &err, "runs");
    for (int i = 0; i < SESSIONS; i++)
        nodes[i] = choices[i].count;
    return good;
}

/* As many items, tokens and rows, but other draft blocks. */
static void test_blocks(void)
{
    static const form one = {{2, 1}, {2, 0}}, two = {{1, 2}, {1, 1}};
    const tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    const spt_engine_options options = {.context = 64, .sessions = SESSIONS};
    const int32_t text[] = {40, 41, 42, 43};
    spt_engine *e = tiny_open(&t, &options);
    spt_sequence s[SESSIONS];
    spt_page_copy copy;
    int nodes[SESSIONS];
    spt_machine_enter(&e->machine, &err);
    for (int i = 0; i < SESSIONS; i++) {
        spt_sequence_open(&s[i], e->pool);
        spt_sequence_append(&s[i], text, 4, &err);
        spt_sequence_reserve(&s[i], 2, &copy, &err);
    }
    for (int turn = 0; turn < 3; turn++)
        if (run_form(e, &one, s, nodes))
            CHECK(nodes[0] >= 1 && nodes[1] == -1, "one block of two rows");
    if (run_form(e, &two, s, nodes))
        CHECK(nodes[0] == 1 && nodes[1] == 1, "is not two of one row");
    for (int i = 0; i < SESSIONS; i++)
        spt_sequence_close(&s[i]);
    spt_machine_leave(&e->machine);
    spt_engine_close(e);
}

/* The driver's own, and the most nodes of what it was given. */
static const spt_driver *watched;
static spt_driver original;
static size_t most_nodes;

static CUresult watch(CUgraphExec *exec, CUgraph graph,
                      unsigned long long flags)
{
    size_t nodes = 0;
    watched->cuGraphGetNodes(graph, NULL, &nodes);
    most_nodes = nodes > most_nodes ? nodes : most_nodes;
    return original.cuGraphInstantiateWithFlags(exec, graph, flags);
}

/* The estimate goes by nodes that graphs have. */
static void test_nodes(const char *architecture)
{
    const tiny_model t = tiny_default(architecture, SPT_WEIGHT_F16);
    const spt_engine_options options = {.context = 64};
    const spt_session_options so = {.sampling = {.repeat_penalty = 1.1}};
    const spt_answer_options ao = {
        .max_tokens = 5, .ignore_end = true, .logprobs = true};
    const int32_t prompt[] = {40, 41, 42};
    spt_engine_info info;
    spt_session *s = NULL;
    spt_engine *e = tiny_open(&t, &options);
    watched = &e->machine.driver;
    original = e->machine.driver;
    e->machine.driver.cuGraphInstantiateWithFlags = watch;
    most_nodes = 0;
    CHECK(spt_session_open(e, &so, &s, &err) == SPT_OK &&
              spt_session_sync(s, prompt, 3, NULL, &err) == SPT_OK &&
              spt_session_generate(s, &ao, NULL, &err) == SPT_OK,
          "%s writes", architecture);
    spt_engine_describe(e, &info);
    CHECK_INT((long long)most_nodes, (long long)e->forward->sizes.graph_nodes,
              "its graphs have the nodes that are reckoned with");
    CHECK_INT((long long)info.memory.graphs,
              (long long)most_nodes * FORWARD_NODE_BYTES *
                  e->forward->limits.graphs,
              "so many bytes for each, in as many graphs as are kept");
    spt_engine_close(e);
}

/* A pass in which the items of the mask have a bias, to tokens FIRST + i. */
static void run_biased(spt_engine *e, spt_sequence *s, spt_adjuster **a,
                       unsigned mask)
{
    static const int32_t tokens[] = {41, 42};
    const spt_sample_row rows[2] = {{0}};
    spt_forward_choice choices[ITEMS];
    spt_adjustment adjusted[ITEMS];
    spt_forward_item items[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        int count = i ? 1 : 2;
        spt_adjuster_block(a[i], tokens, 1, NULL, NULL, count, &adjusted[i]);
        items[i] =
            (spt_forward_item){.sequence = &s[i],
                               .tokens = tokens,
                               .count = count,
                               .logits = count,
                               .sample = rows,
                               .choice = &choices[i],
                               .adjust = mask >> i & 1 ? &adjusted[i] : NULL};
    }
    CHECK_OK(spt_forward_run(e->forward, items, ITEMS, NULL, &err), &err,
             "runs");
    for (int i = 0; i < ITEMS; i++)
        CHECK((choices[i].token[0] == FIRST + i) == (mask >> i & 1),
              "mask %u: the bias of item %d: token %d", mask, i,
              (int)choices[i].token[0]);
}

/* As many rows whose logits change, but of one item or of two. */
static void test_biases(void)
{
    const tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    const spt_engine_options options = {.context = 64, .sessions = ITEMS + 1};
    const int32_t text[] = {40, 41, 42, 43};
    spt_engine *e = tiny_open(&t, &options);
    spt_sequence s[ITEMS];
    spt_adjuster *a[ITEMS];
    spt_page_copy copy;
    spt_machine_enter(&e->machine, &err);
    for (int i = 0; i < ITEMS; i++) {
        const spt_logit_bias bias = {FIRST + i, 1e4f};
        const spt_sampling sampling = {.bias = &bias, .n_bias = 1};
        spt_adjuster_open(&sampling, t.vocab, &a[i], &err);
        spt_sequence_open(&s[i], e->pool);
        spt_sequence_append(&s[i], text, 4, &err);
        spt_sequence_reserve(&s[i], 2, &copy, &err);
    }
    for (int turn = 0; turn < 3; turn++)
        run_biased(e, s, a, 1);
    run_biased(e, s, a, 6);
    for (int i = 0; i < ITEMS; i++) {
        spt_adjuster_close(a[i]);
        spt_sequence_close(&s[i]);
    }
    spt_machine_leave(&e->machine);
    spt_engine_close(e);
}

int main(void)
{
    static const char *const architectures[] = {"llama", "qwen2", "qwen3",
                                                "gemma3"};
    for (int i = 0; i < 4; i++)
        test_nodes(architectures[i]);
    test_blocks();
    test_biases();
    for (int branches = 1; branches <= 2; branches++) {
        tiny_answer eager[SESSIONS], replayed[SESSIONS];
        const char *shape = branches > 1 ? "trees" : "chains";
        CHECK_INT(write_both(false, 0, branches, eager), 0, "without graphs");
        for (int room = 0; room <= 2; room += 2) {
            int kept = write_both(true, room, branches, replayed);
            CHECK(room ? kept > 0 && kept <= room : kept > 2,
                  "%s: steps of %d shapes are graphs", shape, kept);
            CHECK(tiny_same(&eager[0], &replayed[0]) &&
                      tiny_same(&eager[1], &replayed[1]),
                  "%s: and write the same", shape);
        }
    }
    return check_done();
}
