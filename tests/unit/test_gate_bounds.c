/* Bounds of confidence gates: against every gate there is, and around gates
   that people measured. */
#include <math.h>

#include "acceptance.h"
#include "check.h"
#include "choose.h"
#include "gate.h"
#include "gen.h"

static spt_error err;

enum { DRAFTS = 3 };

static const spt_table known = {
    .expected = {0, 0.7, 1.15, 1.4},
    .match_rate = 1,
    .longest = DRAFTS,
    .known = DRAFTS,
};
static const double verify_us[] = {10, 12, 11.5, 15};
static const double draft_us[] = {0, 1, 2, 3};
static const spt_gate_times serial = {verify_us, draft_us, false, 1};
static const spt_gate_times block = {verify_us, draft_us, true, 1};
static const spt_gate_times pair = {verify_us, draft_us, false, 2};

static const double survival[] = {1, 0.7, 0.45, 0.25, 0};

/* Drafts that were made by who stops at k and drafts so many ahead. */
static int drafted(int k, int ahead, bool at_once)
{
    return at_once || k + ahead > DRAFTS ? DRAFTS : k + ahead;
}

/* Tokens per microsecond and sequence of one or two sequences when `stops`
   holds, in base 4, where each stops for the drafts that would be kept. */
static double rate_of(unsigned stops, const spt_gate_times *times, int ahead)
{
    double tokens = 0, time = 0;
    for (int a = 0; a <= DRAFTS; a++) {
        int k = (int)(stops >> 2 * a) % 4;
        double chance = survival[a] - survival[a + 1];
        tokens += chance * (1 + (a < k ? a : k));
        time += chance * verify_us[k];
        for (int b = 0; b <= DRAFTS; b++) {
            int other = (int)(stops >> 2 * b) % 4;
            int last = times->batch > 1 && other > k ? other : k;
            time += chance * (survival[b] - survival[b + 1]) *
                    draft_us[drafted(last, ahead, times->block)];
        }
    }
    return tokens / time;
}

static void test_bounds(const spt_gate_times *times, const char *name)
{
    double least, most, lowest = 1, highest = 0;
    double within = times->batch > 1 ? 1e-3 : 1e-12;
    for (unsigned stops = 0; stops < 256; stops++) {
        /* The best gate knows beforehand; a bad one drafts one more. */
        lowest = fmin(lowest, rate_of(stops, times, 1));
        highest = fmax(highest, rate_of(stops, times, 0));
    }
    CHECK(spt_gate_rates(&known, DRAFTS, times, &least, &most), "%s", name);
    CHECK_NEAR(most, highest, within * highest, "the most of all gates");
    CHECK_NEAR(least, lowest, within * lowest, "the least of all gates");
}

static void test_reasons(void)
{
    const spt_drafter ngram = {.method = SPT_METHOD_NGRAM};
    const spt_drafter eagle = {.method = SPT_METHOD_EAGLE3};
    spt_table lengths = known, sure = known;
    spt_gate g;
    char text[200];
    spt_gate_weigh(&ngram, &known, &serial, 3, 1, 0.1, &g);
    CHECK(!g.known, "n-gram drafts have no confidence");
    CHECK_HAS(spt_gate_text(&g, text, sizeof text), "n-gram", "and it says so");
    lengths.expected[1] = -1;
    spt_gate_weigh(&eagle, &lengths, &serial, 3, 2, 0.1, &g);
    CHECK(!g.known, "nor are there bounds from single lengths");
    CHECK_HAS(g.reason, "by position", "for want of positions");
    /* Survival 0.5, then 0.6: no chance is negative. */
    spt_table rising = known;
    rising.expected[1] = 0.5;
    rising.expected[2] = 1.1;
    spt_gate_weigh(&eagle, &rising, &serial, 2, 2, 0.1, &g);
    CHECK(g.draft_length < 2, "nor where survival rises");
    for (int i = 1; i <= DRAFTS; i++)
        sure.expected[i] = i;
    double chain = (1 + 3.0) / (verify_us[3] + draft_us[3]);
    spt_gate_weigh(&eagle, &sure, &serial, 3, 3, chain, &g);
    CHECK(g.known && fabs(g.best) < 1e-9,
          "drafts that are always kept need no gate");
    spt_gate_weigh(&eagle, &known, &serial, 3, 0, 1, &g);
    CHECK_HAS(spt_gate_text(&g, text, sizeof text), "not even a perfect one",
              "where plain decoding is faster than all of them");
}

/*
 * --spec-draft-p-min of llama.cpp on Qwen3.8-27B with its MTP layer, rates over
 * the ungated draft of the same length: sudoingX/qwen38-mtp at c7bc415,
 * sweeps/rtx-5090.md (PR 12) and sweeps/workstation.md.
 */
static const struct measured {
    const char *board, *weights;
    int draft_length, count;
    double rates[8]; /* tok/s, ungated first */
} measured[] = {
    {"rtx_5090", "ud_q4_k_xl", 4, 5, {129.8, 131.3, 111.8, 95.9, 96.1}},
    {"rtx_pro_6000_maxq",
     "q8_0",
     5,
     8,
     {103.5, 105.5, 115.5, 110.9, 106.3, 110.9, 106.8, 99.2}},
};

static void test_measured(spt_gen *gen, const struct measured *m)
{
    spt_board b;
    spt_target t;
    spt_drafter d;
    spt_serving engine;
    spt_acceptance a = {0};
    double verify[SPT_DRAFT_MAX + 1], draft[SPT_DRAFT_MAX + 1], least, most;
    const char *evidence;
    const spt_gate_times times = {verify, draft, false, 1};
    CHECK_OK(spt_gen_board(gen, m->board, &b, &err), &err, m->board);
    CHECK_OK(spt_serving_load(".", "llama.cpp", &engine, &err), &err, "engine");
    CHECK_OK(spt_target_load(".", "qwen3.8-27b", m->weights, &t, &err), &err,
             "target");
    CHECK_OK(spt_drafter_make(".", "mtp", &t, &d, &err), &err, "drafter");
    CHECK_OK(spt_acceptance_read_all(&a, ".", &err), &err, "tables");
    const spt_table *table =
        spt_acceptance_find(&a, "mtp", NULL, "qwen3.8-27b", "mixed");
    spt_step step = {.board = &b,
                     .target = &t,
                     .kv_bytes = 34.0 / 32,
                     .batch = 1,
                     .context = 1024,
                     .where = {.serving = &engine, .boards = 1}};
    for (int k = 0; k <= SPT_DRAFT_MAX; k++) {
        verify[k] = spt_step_verify_us(&step, k, &evidence);
        draft[k] = spt_step_draft_us(&step, &d, k);
    }
    int n = m->draft_length;
    CHECK(table && spt_gate_rates(table, n, &times, &least, &most), "bounds");
    double chain = (1 + table->expected[n]) / (verify[n] + draft[n]);
    printf("# %s, D = %d: a gate gains %.0f to %.0f %%\n", m->board, n,
           100 * (least / chain - 1), 100 * (most / chain - 1));
    bool inside = true;
    for (int i = 1; i < m->count; i++) {
        double gain = m->rates[i] / m->rates[0];
        inside &= gain >= least / chain && gain <= most / chain;
    }
    CHECK(inside, "every measured threshold lies within");
    spt_acceptance_free(&a);
}

int main(void)
{
    spt_gen *gen = NULL;
    test_bounds(&serial, "drafts one by one");
    test_bounds(&block, "drafts in a block");
    test_bounds(&pair, "two sequences share the passes");
    test_reasons();
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        test_measured(gen, &measured[i]);
    spt_gen_close(gen);
    return check_done();
}
