/*
 * N-gram drafts that the device finds, chains and trees, are those of the host,
 * whatever happens to the texts between: they grow, are cut, are other ones,
 * and there are more sessions than texts on the device.
 */
#include "draft_ngram.h"
#include "tiny_engine.h"

enum { CONTEXT = 160, TOGETHER = 3, SESSIONS = 5, ROUNDS = 60, BRANCHES = 4 };

static spt_error err;
static uint64_t state = 3;

typedef struct session {
    int32_t text[CONTEXT];
    int count;
    void *state;
} session;

static int below(int n)
{
    return (int)(tiny_next(&state) % (uint64_t)n);
}

/* One more step's worth of change. */
static void change(session *s)
{
    int fate = below(8);
    if (fate == 0) /* another text */
        s->count = 0;
    if (fate == 1) /* rewound, then the same text goes on differently */
        s->count = below(s->count + 1);
    int more = 1 + below(fate == 0 ? 60 : 6);
    for (int i = 0; i < more && s->count < CONTEXT; i++)
        s->text[s->count++] = below(4);
}

static bool same_draft(const spt_draft *a, const spt_draft *b)
{
    bool same = a->count == b->count && a->chain == b->chain;
    for (int i = 1; i <= a->count && same; i++)
        same = a->token[i] == b->token[i] && a->parent[i] == b->parent[i];
    return same;
}

/* Drafts of some sessions by both; true when they are the same. */
static bool round_of(const spt_draft_source *device,
                     const spt_draft_source *host, session *sessions,
                     int *drafted, int *trees)
{
    spt_draft drafts[2][TOGETHER];
    spt_draft_request r[2][TOGETHER];
    int n = 1 + below(TOGETHER), first = below(SESSIONS);
    for (int i = 0; i < n; i++) {
        session *s = &sessions[(first + i * 2) % SESSIONS];
        change(s);
        for (int side = 0; side < 2; side++) {
            spt_draft_clear(&drafts[side][i]);
            r[side][i] =
                (spt_draft_request){.state = side ? NULL : s->state,
                                    .text = s->text,
                                    .count = s->count,
                                    .want = 1 + (s->count + i) % 31,
                                    .branches = (s->count + i) % (BRANCHES + 1),
                                    .draft = &drafts[side][i]};
        }
    }
    bool good = CHECK_OK(device->class->draft(device->self, r[0], n, &err),
                         &err, "the device drafts") &&
                host->class->draft(host->self, r[1], n, &err) == SPT_OK;
    for (int i = 0; i < n && good; i++) {
        good = same_draft(&drafts[0][i], &drafts[1][i]);
        *drafted += drafts[0][i].count;
        *trees += !drafts[0][i].chain;
    }
    return good;
}

/* Returns how many trees there were. */
static int compare(spt_engine *e, const spt_ngram_rule *rule)
{
    static session sessions[SESSIONS];
    spt_draft_source device, host;
    int drafted = 0, trees = 0, same = 0;
    if (!CHECK_OK(spt_ngram_open(rule, e->forward, &device, &err), &err,
                  "a drafter on the device") ||
        !CHECK_OK(spt_ngram_open(rule, NULL, &host, &err), &err,
                  "one on the host"))
        return 0;
    for (int i = 0; i < SESSIONS; i++)
        device.class->session_open(device.self, &sessions[i].state, &err);
    for (int i = 0; i < ROUNDS; i++)
        same += round_of(&device, &host, sessions, &drafted, &trees);
    CHECK(same == ROUNDS, "matches of %d to %d, the %s: the same drafts",
          rule->min_match, rule->max_match,
          rule->longest ? "longest" : "most recent");
    CHECK(drafted > ROUNDS, "there were drafts: %d tokens", drafted);
    for (int i = 0; i < SESSIONS; i++)
        device.class->session_close(device.self, sessions[i].state);
    device.class->close(device.self);
    host.class->close(host.self);
    return trees;
}

int main(void)
{
    static const spt_ngram_rule rules[] = {
        {1, 3, false}, {2, 8, false}, {2, 8, true}, {4, 4, true}};
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    const spt_engine_options options = {
        .context = CONTEXT,
        .sessions = TOGETHER,
        .checks = true,
        .draft = {.method = SPT_DRAFT_NGRAM, .branches = BRANCHES}};
    spt_engine *e = tiny_open(&t, &options);
    int trees = 0;
    spt_machine_enter(&e->machine, &err);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        trees += compare(e, &rules[i]);
    CHECK(trees > ROUNDS / 2, "there were trees: %d", trees);
    spt_machine_leave(&e->machine);
    spt_engine_close(e);
    return check_done();
}
