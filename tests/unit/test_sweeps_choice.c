/*
 * The draft length that the model of serving engines chooses on published
 * sweeps (tests/data/: each row names its source), acceptance from few printed
 * lengths, and the engines' files.
 */
#include "check.h"
#include "mem.h"
#include "serving.h"
#include "survival.h"
#include "sweeps.h"

static spt_error err;

static void test_survival(void)
{
    double kept[SPT_SURVIVAL_MAX + 1];
    for (int d = 0; d <= SPT_SURVIVAL_MAX; d++)
        kept[d] = -1;
    kept[1] = 0.8;
    kept[3] = 0.8 + 0.48 + 0.288; /* 0.8 * 0.6^(i-1) */
    spt_survival_fill(kept);
    CHECK_NEAR(kept[0], 0, 0, "no draft, none kept");
    CHECK_NEAR(kept[2], 1.28, 1e-6, "a length between two known ones");
    CHECK_NEAR(kept[4], 1.568 + 0.1728, 1e-6, "and one beyond");
    for (int d = 0; d <= SPT_SURVIVAL_MAX; d++)
        kept[d] = -1;
    kept[2] = 1.2;
    spt_survival_fill(kept);
    /* a (1 + 0.94 a) = 1.2: a = 0.7168... */
    CHECK_NEAR(kept[1], 0.7168, 1e-3, "from one length alone");
    CHECK_NEAR(kept[2], 1.2, 0, "which stays as printed");
    bool rises = true;
    for (int d = 1; d <= SPT_SURVIVAL_MAX; d++)
        rises &= kept[d] >= kept[d - 1];
    CHECK(rises, "more drafts never keep fewer");
}

/* What is printed to type, held against the engines' documentation. */
static const struct printed {
    const char *engine;
    spt_method method;
    int draft_length;
    const char *flags;
} printed[] = {
    {"llama.cpp", SPT_METHOD_EXTERNAL, 5,
     "--spec-type draft-simple --spec-draft-model DRAFTER "
     "--spec-draft-n-max 5"},
    {"llama.cpp", SPT_METHOD_EAGLE3, 4,
     "--spec-type draft-eagle3 --spec-draft-model DRAFTER "
     "--spec-draft-n-max 4"},
    {"llama.cpp", SPT_METHOD_MTP, 3,
     "--spec-type draft-mtp --spec-draft-n-max 3"},
    {"llama.cpp", SPT_METHOD_DFLASH, 15,
     "--spec-type draft-dflash --spec-draft-model DRAFTER "
     "--spec-draft-n-max 15"},
    {"llama.cpp", SPT_METHOD_DSPARK, 7,
     "--spec-type draft-dspark --spec-draft-model DRAFTER "
     "--spec-draft-n-max 7"},
    {"llama.cpp", SPT_METHOD_NGRAM, 8,
     "--spec-type ngram-simple --spec-ngram-simple-size-m 8"},
    {"llama.cpp", SPT_METHOD_MTP, 0, "no --spec-type"},
    {"vllm", SPT_METHOD_EXTERNAL, 5,
     "--speculative-config '{\"method\": \"draft_model\", \"model\": "
     "\"DRAFTER\", \"num_speculative_tokens\": 5}'"},
    {"vllm", SPT_METHOD_EAGLE3, 3,
     "--speculative-config '{\"method\": \"eagle3\", \"model\": "
     "\"DRAFTER\", \"num_speculative_tokens\": 3}'"},
    {"vllm", SPT_METHOD_MTP, 1,
     "--speculative-config '{\"method\": \"mtp\", "
     "\"num_speculative_tokens\": 1}'"},
    {"vllm", SPT_METHOD_DFLASH, 15,
     "--speculative-config '{\"method\": \"dflash\", \"model\": "
     "\"DRAFTER\", \"num_speculative_tokens\": 15}'"},
    {"vllm", SPT_METHOD_DSPARK, 7,
     "--speculative-config '{\"method\": \"dspark\", \"model\": "
     "\"DRAFTER\", \"num_speculative_tokens\": 7}'"},
    {"vllm", SPT_METHOD_NGRAM, 5,
     "--speculative-config '{\"method\": \"ngram\", "
     "\"num_speculative_tokens\": 5, \"prompt_lookup_max\": 4}'"},
    {"sglang", SPT_METHOD_EXTERNAL, 4,
     "--speculative-algorithm STANDALONE --speculative-draft-model-path "
     "DRAFTER --speculative-num-steps 4 --speculative-eagle-topk 1 "
     "--speculative-num-draft-tokens 5"},
    {"sglang", SPT_METHOD_EAGLE3, 3,
     "--speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFTER "
     "--speculative-num-steps 3 --speculative-eagle-topk 1 "
     "--speculative-num-draft-tokens 4"},
    {"sglang", SPT_METHOD_MTP, 1,
     "--speculative-algorithm EAGLE --speculative-num-steps 1 "
     "--speculative-eagle-topk 1 --speculative-num-draft-tokens 2"},
    {"sglang", SPT_METHOD_DFLASH, 15,
     "--speculative-algorithm DFLASH --speculative-draft-model-path DRAFTER "
     "--speculative-num-draft-tokens 16"},
    {"sglang", SPT_METHOD_DSPARK, 7,
     "--speculative-algorithm DSPARK --speculative-draft-model-path DRAFTER "
     "--speculative-dspark-block-size 7"},
    {"sglang", SPT_METHOD_NGRAM, 7,
     "--speculative-algorithm NGRAM --speculative-num-draft-tokens 8 "
     "--speculative-ngram-max-bfs-breadth 1"},
    {"trtllm", SPT_METHOD_EXTERNAL, 3,
     "speculative_config: {decoding_type: DraftTarget, max_draft_len: 3, "
     "speculative_model: DRAFTER}"},
    {"trtllm", SPT_METHOD_EAGLE3, 4,
     "speculative_config: {decoding_type: Eagle3, max_draft_len: 4, "
     "speculative_model: DRAFTER}"},
    {"trtllm", SPT_METHOD_MTP, 3,
     "speculative_config: {decoding_type: MTP, max_draft_len: 3}"},
    {"trtllm", SPT_METHOD_DFLASH, 7,
     "speculative_config: {decoding_type: DFlash, max_draft_len: 7, "
     "speculative_model: DRAFTER}"},
    {"trtllm", SPT_METHOD_DSPARK, 7,
     "speculative_config: {decoding_type: DSpark, max_draft_len: 7, "
     "speculative_model: DRAFTER}"},
    {"trtllm", SPT_METHOD_NGRAM, 3,
     "speculative_config: {decoding_type: NGram, max_draft_len: 3, "
     "max_matching_ngram_size: 4}"},
};

static void test_flags(void)
{
    spt_serving s;
    char text[256], name[64];
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        const struct printed *p = &printed[i];
        snprintf(name, sizeof name, "%s %s D = %d", p->engine,
                 spt_drafter_name(p->method), p->draft_length);
        CHECK_OK(spt_serving_load(".", p->engine, &s, &err), &err, name);
        CHECK(spt_serving_flags(&s, p->method, p->draft_length, text,
                                sizeof text) &&
                  s.methods[p->method].source[0],
              "%s is documented", name);
        CHECK_TEXT(text, p->flags, name);
    }
}

static void test_engines(void)
{
    static const char *const names[] = {"llama.cpp", "vLLM", "sglang",
                                        "trtllm"};
    spt_serving s;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_OK(spt_serving_load(".", names[i], &s, &err), &err, names[i]);
    CHECK(spt_serving_load(".", "../engines/vllm", &s, &err) == SPT_E_USAGE,
          "an unknown engine is a wrong use");
    CHECK_HAS(err.text, "llama.cpp, vllm", "and the line lists them");
    const char *bad = "{\"schema\": \"spectune.engine/2\", \"name\": \"x\", "
                      "\"source\": \"s\", \"off\": \"\", "
                      "\"methods\": {}, \"facts\": {\"memory_share\": [2, "
                      "\"fraction\", \"s\"]}}";
    CHECK(spt_serving_parse(bad, strlen(bad), "x.json", &s, &err) ==
              SPT_E_FORMAT,
          "a share beyond 1 is refused");
    CHECK_TEXT(err.text, "x.json: memory_share is 2, expected 0.1 to 1",
               "with file, field and bounds");
    s = (spt_serving){.methods[SPT_METHOD_MTP] = {.flags = "--mtp {D}"}};
    CHECK(spt_serving_has(&s, SPT_METHOD_MTP) &&
              !spt_serving_has(&s, SPT_METHOD_DFLASH),
          "an engine may lack a method");
}

/* Nothing that a step model may get wrong by sign. */
static void test_directions(void)
{
    spt_gen *gen = NULL;
    spt_serving s;
    spt_board b, slow;
    spt_target t;
    spt_drafter d;
    CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/");
    CHECK_OK(spt_gen_board(gen, "rtx_3090", &b, &err), &err, "a board");
    CHECK_OK(spt_serving_load(".", "llama.cpp", &s, &err), &err, "an engine");
    CHECK_OK(spt_target_load(".", "qwen3.8-27b", "q4_k_m", &t, &err), &err,
             "a model");
    CHECK_OK(spt_drafter_make(".", "mtp", &t, &d, &err), &err, "a drafter");
    spt_load l = {.serving = &s,
                  .board = &b,
                  .target = &t,
                  .drafter = &d,
                  .boards = 1,
                  .batch = 1,
                  .context = 400,
                  .kv_bytes = 2};
    bool rises = true;
    for (int n = 1; n < 8; n++)
        rises &= spt_serving_step_us(&l, n) > spt_serving_step_us(&l, n - 1);
    CHECK(rises, "each draft costs, up to the narrow kernel's last width");
    CHECK(spt_serving_step_us(&l, 8) < spt_serving_step_us(&l, 7),
          "past it the wide kernel is faster");
    slow = b;
    slow.dram_gbps /= 2;
    double before = spt_serving_step_us(&l, 0);
    l.board = &slow;
    CHECK(spt_serving_step_us(&l, 0) > 1.5 * before,
          "plain decoding is as slow as the memory");
    l.board = &b;
    l.boards = 2;
    CHECK(spt_serving_step_us(&l, 0) < before, "two boards are faster");
    spt_gen_close(gen);
}

/* A next-token layer of a mixture reads the experts that its rows touch: for
   64 sequences of DeepSeek-R1 256 (1 - (1 - 8/256)^64) = 222.4 of them, 44.04
   million weights each; attention 187.1 million, shared expert 44.0, the join
   2 x 7168^2, all of a byte; head 129280 x 7168 of two; KV 576 x 1024 x 64 of
   two bytes; from eight boards of 8 TB/s. */
static void test_mixture_pass(void)
{
    spt_gen *gen = NULL;
    spt_serving s;
    spt_board b;
    spt_target t;
    spt_drafter d;
    CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/");
    CHECK_OK(spt_gen_board(gen, "b200_sxm", &b, &err), &err, "a board");
    CHECK_OK(spt_serving_load(".", "sglang", &s, &err), &err, "an engine");
    CHECK_OK(spt_target_load(".", "deepseek-r1", NULL, &t, &err), &err, "R1");
    CHECK_OK(spt_drafter_make(".", "mtp", &t, &d, &err), &err, "its layer");
    spt_load l = {.serving = &s,
                  .board = &b,
                  .target = &t,
                  .drafter = &d,
                  .boards = 8,
                  .batch = 64,
                  .context = 1024,
                  .kv_bytes = 2};
    double bytes = 222.4 * 44.04e6 + 187.1e6 + 44.04e6 + 2 * 7168.0 * 7168 +
                   2 * 129280.0 * 7168 + 2 * 576.0 * 1024 * 64;
    spt_draft_tree one = spt_draft_chain(1);
    double us = spt_serving_draft_us(&l, 64, &one);
    CHECK(us >= bytes / (8 * b.dram_gbps * 1e3),
          "a pass of 64 rows takes its bytes (%.0f us)", us);
    spt_gen_close(gen);
}

/* Holds the losses on a file at their present value. */
static void score(const char *path, int curves, double mean, double p90)
{
    spt_gen *gen = NULL;
    spt_csv csv = {0};
    spt_sweeps s = {0};
    CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/");
    CHECK_OK(spt_csv_read(&csv, path, &err), &err, path);
    CHECK(spt_csv_has(&csv, SPT_SWEEP_COLUMNS), "has the columns");
    CHECK_OK(spt_sweeps_check(&s, gen, &csv, &err), &err, "is scored");
    CHECK_INT((long long)s.count, curves, "all of its curves count");
    printf("# %s lost: mean %.2f %%, median %.2f %%, p90 %.2f %%\n", path,
           s.mean_lost, s.median_lost, s.p90_lost);
    CHECK(s.mean_lost <= mean, "the choice loses %g %% at most on average",
          mean);
    CHECK(s.p90_lost <= p90, "and %g %% at the 90th percentile", p90);
    double least = 100;
    for (size_t i = 0; i < s.n_fixed; i++)
        least = fmin(least, s.fixed[i].mean_lost);
    CHECK(s.mean_lost < least / 5, "a fifth of what any fixed length loses");
    spt_sweeps_free(&s);
    spt_csv_free(&csv);
    spt_gen_close(gen);
}

int main(void)
{
    test_survival();
    test_flags();
    test_engines();
    test_directions();
    test_mixture_pass();
    /* Rates that users published, on which the engines' constants were
       fitted; and those of papers and makers, on which none was. */
    score("tests/data/draft_sweeps.csv", 34, 1.0, 3.0);
    score("tests/data/paper_sweeps.csv", 12, 1.0, 1.0);
    return check_done();
}
