/* Draft trees: their expected length against every tree there is, their time,
   and when there is no number. */
#include <stdlib.h>

#include "check.h"
#include "choose.h"
#include "gen.h"
#include "tree_choice.h"

static spt_error err;

static const spt_attention_config configs[] = {
    {8, 512, 64, 3, 1, 128, 120, 45000},
    {32, 512, 64, 3, 1, 128, 160, 64000},
    {64, 512, 64, 3, 2, 256, 160, 72000},
};
static const spt_kernels kernels = {configs, 3, NULL, NULL};

static const spt_table known = {
    .method = "eagle3",
    .drafter = "d",
    .target = "t",
    .workload = "chat",
    .match_rate = 1,
    .expected = {0, 0.7, 1.15, 1.4, -1},
    .ranks = {0.7, 0.82, 0.87},
    .n_ranks = 3,
    .longest = 3,
    .known = 3,
};

enum { WIDE = 2, DEEP = 3, NODES = 1 + 2 + 4 + 8 };

/* A complete binary tree in heap order; node 0 is the anchor. */
static double chance(int node)
{
    const double survival[] = {1, 0.7, 0.45, 0.25};
    int depth = 0;
    for (int n = node; n > 0; n = (n - 1) / WIDE)
        depth++;
    if (!node)
        return 1;
    double kept = survival[depth] / survival[depth - 1];
    double second = (1 - kept) * (0.82 - 0.7) / (1 - 0.7);
    return chance((node - 1) / WIDE) * (node % WIDE ? kept : second);
}

/* The most that a tree of n nodes keeps, at most WIDE at each depth. */
static double best_of_all(int n)
{
    double best = 0;
    for (unsigned set = 1; set < 1u << NODES; set += 2) {
        int width[DEEP + 1] = {0}, count = 0;
        double sum = 0;
        bool good = true;
        for (int node = 1; node < NODES && good; node++) {
            if (!(set >> node & 1))
                continue;
            int depth = node < 3 ? 1 : node < 7 ? 2 : 3;
            good = set >> ((node - 1) / WIDE) & 1 && ++width[depth] <= WIDE;
            count++;
            sum += chance(node);
        }
        if (good && count == n && sum > best)
            best = sum;
    }
    return best;
}

static void test_expected(void)
{
    double expected[16];
    CHECK(spt_tree_expected(&known, DEEP, WIDE, 6, expected), "it is known");
    for (int n = 1; n <= 6; n++)
        CHECK_NEAR(expected[n], best_of_all(n), 1e-12,
                   "as much as the best of all trees of that size");
    CHECK(spt_tree_expected(&known, 1, 3, 3, expected), "one level");
    CHECK_NEAR(expected[1], 0.7, 1e-12, "the likeliest alone");
    CHECK_NEAR(expected[3], 0.87, 1e-12, "the three likeliest");
    spt_table none = known;
    none.ranks[1] = none.ranks[2] = none.ranks[0];
    CHECK(spt_tree_expected(&none, 3, 3, 9, expected), "ranks that never help");
    CHECK_NEAR(expected[9], 1.4, 1e-12, "leave the chain");
    CHECK(!spt_tree_expected(&known, 4, 2, 6, expected),
          "no number beyond the known survival");
    CHECK(!spt_tree_expected(&known, 3, 4, 6, expected),
          "nor beyond the known ranks");
}

static spt_step step_of(const spt_board *board, const spt_target *target)
{
    return (spt_step){.board = board,
                      .target = target,
                      .kernels = &kernels,
                      .kv_bytes = 2,
                      .batch = 1,
                      .context = 2048};
}

static void test_times(const spt_step *step, spt_drafter *drafters)
{
    const spt_draft_tree narrow = {4, 2, 8}, wide = {4, 8, 24};
    bool chains = true, wider = true;
    for (int i = 0; i < 4; i++) {
        spt_draft_tree chain = spt_draft_chain(5);
        chains &= spt_step_tree_draft_us(step, &drafters[i], &chain) ==
                  spt_step_draft_us(step, &drafters[i], 5);
        wider &= spt_step_tree_draft_us(step, &drafters[i], &wide) >=
                 spt_step_tree_draft_us(step, &drafters[i], &narrow);
    }
    CHECK(chains, "a tree of one node at each depth is a chain");
    CHECK(wider, "drafting more at each depth takes no less");
    CHECK(spt_step_tree_verify_us(step, &wide) >
              spt_step_tree_verify_us(step, &narrow),
          "more nodes take longer to verify");
    const char *evidence;
    CHECK(spt_step_tree_verify_us(step, &narrow) >
              spt_step_verify_us(step, 8, &evidence),
          "and the kept path is moved together");
}

static void test_choice(spt_step *step, spt_drafter *drafters)
{
    spt_tree_choice c;
    const char *evidence;
    double plain = spt_step_target_us(step, &evidence);
    spt_tree_weigh(step, &drafters[1], &known, plain, 1.2, &c);
    CHECK(c.known && !c.published && c.beats, "ranks give a tree");
    CHECK(c.tree.nodes > c.tree.depth && c.tree.depth <= 3 && c.tree.top_k <= 3,
          "within what is known");
    spt_tree_weigh(step, &drafters[1], &known, plain, 9, &c);
    CHECK(c.known && !c.beats, "a faster chain is not beaten");
    spt_table chain = known;
    chain.n_ranks = 0;
    spt_tree_weigh(step, &drafters[1], &chain, plain, 1.2, &c);
    CHECK(!c.known, "no evidence, no number");
    CHECK_HAS(c.reason, "second rank", "and why");
    chain.n_trees = 1;
    chain.trees[0] = (spt_tree_length){{3, 4, 12}, 2.1};
    spt_tree_weigh(step, &drafters[1], &chain, plain, 1.2, &c);
    CHECK(c.known && c.published && c.tree.nodes == 12, "a published tree");
    CHECK_NEAR(c.expected_length, 3.1, 1e-12, "at its length");
    chain.trees[0].tree.nodes = 64;
    spt_tree_weigh(step, &drafters[1], &chain, plain, 1.2, &c);
    CHECK(!c.known, "more rows than the kernels have are not weighed");
    spt_tree_weigh(step, &drafters[4], &known, plain, 1.2, &c);
    CHECK_HAS(c.reason, "serial head", "DSpark drafts chains");
    spt_serving engine;
    CHECK_OK(spt_serving_load(".", "vllm", &engine, &err), &err, "vllm");
    step->where.serving = &engine;
    spt_tree_weigh(step, &drafters[1], &known, plain, 1.2, &c);
    CHECK_HAS(c.reason, "vllm has no trees", "nor does every engine");
    CHECK_OK(spt_serving_load(".", "sglang", &engine, &err), &err, "sglang");
    spt_tree_weigh(step, &drafters[1], &known, plain, 1.2, &c);
    CHECK(c.known, "SGLang has");
    step->where.serving = NULL;
}

/* What the engines call a tree. */
static void test_flags(void)
{
    const spt_draft_tree tree = {5, 4, 19};
    spt_serving s;
    char text[320];
    CHECK_OK(spt_serving_load(".", "sglang", &s, &err), &err, "sglang");
    CHECK(
        spt_serving_tree_flags(&s, SPT_METHOD_EAGLE3, &tree, text, sizeof text),
        "SGLang has trees");
    CHECK_TEXT(text,
               "--speculative-algorithm EAGLE3 --speculative-draft-model-path "
               "DRAFTER --speculative-num-steps 5 --speculative-eagle-topk 4 "
               "--speculative-num-draft-tokens 20",
               "whose root counts");
    CHECK(!spt_serving_tree_flags(&s, SPT_METHOD_DFLASH, &tree, text,
                                  sizeof text),
          "but not of DFlash");
    CHECK_OK(spt_serving_load(".", "trtllm", &s, &err), &err, "trtllm");
    CHECK(spt_serving_tree_flags(&s, SPT_METHOD_MTP, &tree, text, sizeof text),
          "TensorRT-LLM has them for MTP");
    CHECK_TEXT(text,
               "speculative_config: {decoding_type: MTP, max_draft_len: 5, "
               "use_dynamic_tree: true, dynamic_tree_max_topK: 4, "
               "max_total_draft_tokens: 19}",
               "without the root");
}

/* SpecInfer's own finding: with many sequences narrower trees are faster. */
static void test_specinfer(spt_gen *gen)
{
    spt_board b;
    spt_target t;
    spt_drafter d;
    spt_acceptance a = {0};
    spt_tree_choice one, many;
    const char *evidence;
    CHECK_OK(spt_gen_board(gen, "l40s", &b, &err), &err, "a board");
    CHECK_OK(spt_target_load(".", "llama-7b", NULL, &t, &err), &err, "target");
    CHECK_OK(spt_drafter_make(".", "external", &t, &d, &err), &err, "drafter");
    CHECK_OK(spt_acceptance_read_all(&a, ".", &err), &err, "tables");
    const spt_table *table =
        spt_acceptance_find(&a, "external", "llama-68m", "llama-7b", "chat");
    spt_step step = step_of(&b, &t);
    step.context = 512;
    double plain = spt_step_target_us(&step, &evidence);
    spt_tree_weigh(&step, &d, table, plain, 1, &one);
    step.batch = 16;
    plain = spt_step_target_us(&step, &evidence);
    spt_tree_weigh(&step, &d, table, plain, 1, &many);
    CHECK(one.known && many.known, "both are known");
    CHECK(one.tree.nodes > 20, "one sequence: the widest (%d nodes)",
          one.tree.nodes);
    CHECK(many.tree.nodes <= 20, "sixteen: width two or three (%d nodes)",
          many.tree.nodes);
    spt_acceptance_free(&a);
}

int main(void)
{
    static const char *const methods[] = {"external", "eagle3", "mtp", "dflash",
                                          "dspark"};
    spt_gen *gen = NULL;
    spt_board board;
    spt_target target;
    spt_drafter drafters[5];
    test_expected();
    test_flags();
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    CHECK_OK(spt_gen_board(gen, "h100_sxm", &board, &err), &err, "a board");
    CHECK_OK(spt_target_load(".", "qwen3-8b", NULL, &target, &err), &err,
             "a target");
    for (int i = 0; i < 5; i++)
        CHECK_OK(spt_drafter_make(".", methods[i], &target, &drafters[i], &err),
                 &err, methods[i]);
    spt_step step = step_of(&board, &target);
    test_times(&step, drafters);
    test_choice(&step, drafters);
    test_specinfer(gen);
    spt_gen_close(gen);
    return check_done();
}
