/* What the time model must hold whatever its constants are. */
#include "check.h"
#include "gen.h"
#include "model.h"
#include "step.h"

static const int rows_of[] = {8, 16, 32, 64, 128};

static spt_attention_config config_of(int rows)
{
    return (spt_attention_config){
        .rows = rows,
        .chunk = 512,
        .kv_step = 64,
        .stages = 3,
        .row_warps = rows >= 64 ? 2 : 1,
        .threads = rows >= 64 ? 256 : 128,
        .registers = 160,
        .shared_bytes = 45000,
    };
}

static bool grows_with_context(const spt_board *b, int rows, int batch)
{
    spt_attention_config c = config_of(rows);
    double before = 0;
    for (double context = 16; context <= 131072; context *= 1.3) {
        spt_attention_shape s = {batch, context, 64, 8, 128, 2, 3};
        double us = spt_model_attention_us(b, &s, &c);
        if (!(us >= before))
            return false;
        before = us;
    }
    return true;
}

static bool grows_with_draft(const spt_board *b, int rows)
{
    spt_attention_config c = config_of(rows);
    double before = 0;
    for (int d = 0; d <= 31; d++) {
        spt_attention_shape s = {2, 8192, 64, 8, 128, 2, d};
        double us = spt_model_attention_us(b, &s, &c);
        if (!(us >= before))
            return false;
        before = us;
    }
    return true;
}

static bool gemm_grows(const spt_board *b)
{
    double before = 0;
    for (int m = 1; m <= 2048; m++) {
        double us = spt_model_gemm_us(b, m, 4096, 4096, 16);
        if (!(us >= before))
            return false;
        before = us;
    }
    return spt_model_gemm_us(b, 8, 8192, 4096, 16) >
               spt_model_gemm_us(b, 8, 4096, 4096, 16) &&
           spt_model_gemm_us(b, 8, 8192, 8192, 4.5) <
               spt_model_gemm_us(b, 8, 8192, 8192, 16);
}

static void test_board(spt_gen *gen, const char *name)
{
    spt_board b;
    spt_error err = {0};
    if (!CHECK_OK(spt_gen_board(gen, name, &b, &err), &err, name))
        return;
    bool context = true, draft = true;
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        for (int batch = 1; batch <= 64; batch *= 4)
            context &= grows_with_context(&b, rows_of[i], batch);
        draft &= grows_with_draft(&b, rows_of[i]);
    }
    CHECK(context, "%s: attention grows with context", name);
    CHECK(draft, "%s: attention grows with draft length", name);
    CHECK(gemm_grows(&b), "%s: gemm grows with rows and bytes", name);
    spt_attention_config c = config_of(64);
    spt_attention_shape s = {8, 16384, 64, 8, 128, 2, 7};
    double bytes = 2.0 * 8 * 8 * 16384 * 128 * 2;
    double us = spt_model_attention_us(&b, &s, &c);
    CHECK(us >= bytes / (b.dram_gbps * 1e3), "%s: never beats DRAM", name);
    c.shared_bytes = b.shared_per_cta_bytes + 1024;
    CHECK(isinf(spt_model_attention_us(&b, &s, &c)),
          "%s: a kernel that does not fit takes forever", name);
}

/* Plain decoding of an 8B model reads its weights once per step. */
static void test_step(spt_gen *gen)
{
    spt_board b;
    spt_error err = {0};
    spt_target t;
    spt_attention_config c = config_of(32);
    spt_kernels kernels = {&c, 1, NULL, NULL};
    CHECK_OK(spt_gen_board(gen, "h200_sxm", &b, &err), &err, "h200");
    CHECK_OK(spt_target_load(".", "qwen3-8b", NULL, &t, &err), &err, "8B");
    spt_step step = {.board = &b,
                     .target = &t,
                     .kernels = &kernels,
                     .kv_bytes = 2,
                     .batch = 1,
                     .context = 1024};
    const char *evidence = NULL;
    double us = spt_step_target_us(&step, &evidence);
    double floor_us = t.weight_bytes / (b.dram_gbps * 1e3);
    CHECK(us > floor_us && us < 2.5 * floor_us,
          "a plain step takes between one and 2.5 weight readings");
    CHECK_TEXT(evidence, "modelled", "and is modelled");
    double verify = spt_step_verify_us(&step, 7, &evidence);
    CHECK(verify > us && verify < 1.2 * us, "eight rows cost little more");
    static const char *const methods[] = {"external", "eagle3", "mtp",
                                          "dflash",   "dspark", "ngram"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        spt_drafter d;
        CHECK_OK(spt_drafter_make(".", methods[i], &t, &d, &err), &err,
                 methods[i]);
        bool grows = spt_step_draft_us(&step, &d, 0) == 0;
        for (int k = 1; k <= 31; k++)
            grows &= spt_step_draft_us(&step, &d, k) >=
                     spt_step_draft_us(&step, &d, k - 1);
        CHECK(grows, "%s: drafting grows with its length", methods[i]);
        CHECK(spt_step_memory_bytes(&step, &d, 7) >=
                  spt_step_memory_bytes(&step, &d, 0),
              "%s: so does memory", methods[i]);
    }
}

/* Boards that share the layers, and a drafter that has one of its own. */
static void test_deployment(spt_gen *gen)
{
    spt_board b, small;
    spt_error err = {0};
    spt_target t;
    spt_drafter d;
    spt_attention_config c = config_of(32);
    spt_kernels kernels = {&c, 1, NULL, NULL};
    const char *evidence;
    CHECK_OK(spt_gen_board(gen, "h100_sxm", &b, &err), &err, "h100");
    CHECK_OK(spt_gen_board(gen, "l4", &small, &err), &err, "l4");
    CHECK_OK(spt_target_load(".", "llama-3.3-70b", NULL, &t, &err), &err,
             "70B");
    CHECK_OK(spt_drafter_make(".", "external", &t, &d, &err), &err, "drafter");
    spt_step step = {.board = &b,
                     .target = &t,
                     .kernels = &kernels,
                     .kv_bytes = 2,
                     .batch = 1,
                     .context = 1024};
    double one = spt_step_target_us(&step, &evidence);
    double bytes = spt_step_memory_bytes(&step, NULL, 0);
    CHECK(!spt_step_fits(&step, NULL, 0, bytes),
          "70B in bf16 needs two boards");
    step.where.boards = 4;
    double four = spt_step_target_us(&step, &evidence);
    CHECK(four < one / 2 && four > one / 4,
          "four boards: more than twice, less than four times as fast");
    bytes = spt_step_memory_bytes(&step, NULL, 0);
    CHECK(spt_step_fits(&step, NULL, 0, bytes), "and it fits");
    double near = spt_step_draft_us(&step, &d, 4);
    step.where.draft_board = &small;
    double away = spt_step_draft_us(&step, &d, 4);
    CHECK(away > near, "a slower board drafts slower");
    step.where.link_us = 100;
    CHECK_NEAR(spt_step_draft_us(&step, &d, 4), away + 200, 1e-6,
               "a link costs there and back");
    CHECK(spt_step_memory_bytes(&step, &d, 4) <
              spt_step_memory_bytes(&step, NULL, 4) + 1,
          "what is there takes no memory here");
    CHECK_NEAR(spt_step_prefill_us(&step),
               2 * (t.weight_bytes / 2 - 2 * 128256 * 8192.0) * 1024 /
                   (0.6 * 4 * b.bf16_tflops * 1e6),
               0.1 * spt_step_prefill_us(&step),
               "a prompt takes its weights times its tokens");
}

/* Layers split over boards: one sequence takes the same time and the hops,
   several keep all stages at work, the last one drafts for all of them. */
static void test_stages(spt_gen *gen)
{
    spt_board b;
    spt_target t;
    spt_drafter d;
    spt_error err;
    spt_attention_config c = config_of(16);
    spt_kernels kernels = {&c, 1, NULL, NULL};
    const char *evidence;
    CHECK_OK(spt_gen_board(gen, "h100_sxm", &b, &err), &err, "h100");
    CHECK_OK(spt_target_load(".", "llama-3.3-70b", NULL, &t, &err), &err,
             "70B");
    CHECK_OK(spt_drafter_make(".", "eagle3", &t, &d, &err), &err, "drafter");
    spt_step one = {.board = &b,
                    .target = &t,
                    .kernels = &kernels,
                    .kv_bytes = 2,
                    .batch = 1,
                    .context = 1024};
    spt_step split = one;
    split.where = (spt_deployment){.stages = 4, .link_us = 50};
    double bytes = 3 * 5 * 8192 * 2; /* rows x hidden, three times */
    CHECK_NEAR(spt_step_verify_us(&split, 4, &evidence),
               spt_step_verify_us(&one, 4, &evidence) + 4 * 50 +
                   bytes / (b.link_gbps * 1e3),
               1e-6, "one sequence: the same, three hops, and the tokens back");
    split.where.link_gbps = 1;
    CHECK_NEAR(spt_step_verify_us(&split, 4, &evidence),
               spt_step_verify_us(&one, 4, &evidence) + 4 * 50 + bytes / 1e3,
               1e-6, "over a link of 1 GB/s");
    double alone = spt_step_verify_us(&split, 4, &evidence);
    double draft = spt_step_draft_us(&split, &d, 4);
    split.batch = 4;
    CHECK_NEAR(spt_step_verify_us(&split, 4, &evidence), alone, 1e-6,
               "four sequences on four stages take as long as one");
    CHECK_NEAR(spt_step_draft_us(&split, &d, 4),
               fmax(draft, 4 * (alone / 4 + draft) - alone), 1e-6,
               "but the last stage drafts for each of them");
    CHECK(spt_step_fits(&split, &d, 4, spt_step_memory_bytes(&split, &d, 4)) &&
              !spt_step_fits(&one, &d, 4, spt_step_memory_bytes(&one, &d, 4)),
          "four boards hold what one does not");
    /* An engine whose stages take turns gains nothing from a batch. */
    spt_serving engine;
    CHECK_OK(spt_serving_load(".", "llama.cpp", &engine, &err), &err, "engine");
    one.batch = split.batch = 4;
    one.where.serving = split.where.serving = &engine;
    one.where.boards = split.where.boards = 1;
    one.board = &b;
    engine.memory_use = 0;
    engine.host_gbps = 1000;
    engine.together = 0;
    double whole = spt_step_verify_us(&one, 0, &evidence);
    split.where.link_us = 0;
    split.where.link_gbps = 1e4;
    engine.micro_batches = 1;
    double parts = spt_step_verify_us(&split, 0, &evidence);
    engine.micro_batches = 0;
    double turns = spt_step_verify_us(&split, 0, &evidence);
    CHECK(parts < turns, "parts of a batch side by side are faster");
    CHECK(turns <= whole, "turns are not, but the memory of all boards");
}

static void test_power(void)
{
    static const char good[] =
        "{\"schema\":\"spectune.power/1\",\"boards\":[{\"board\":\"x\","
        "\"source\":\"s\",\"points\":["
        "{\"watts\":100,\"plain\":0.8,\"verify\":0.6},"
        "{\"watts\":200,\"plain\":1,\"verify\":1}]}]}";
    static const char falls[] =
        "{\"schema\":\"spectune.power/1\",\"boards\":[{\"board\":\"x\","
        "\"source\":\"s\",\"points\":["
        "{\"watts\":200,\"plain\":1,\"verify\":1},"
        "{\"watts\":100,\"plain\":0.8,\"verify\":0.6}]}]}";
    spt_power p;
    spt_error err = {0};
    CHECK_OK(
        spt_power_parse(good, sizeof good - 1, "p.json", "x", 150, &p, &err),
        &err, "a cap between two known ones");
    CHECK_NEAR(p.verify, 0.8, 1e-9, "lies between them");
    CHECK(spt_power_parse(good, sizeof good - 1, "p.json", "x", 90, &p, &err) ==
              SPT_E_USAGE,
          "one beyond them is refused");
    CHECK_TEXT(err.text, "--power-limit 90: of x known from 100 to 200 W",
               "and the line says what is known");
    CHECK(spt_power_parse(falls, sizeof falls - 1, "p.json", "x", 150, &p,
                          &err) == SPT_E_FORMAT,
          "points in another order are refused");
}

int main(void)
{
    spt_gen *gen = NULL;
    spt_error err = {0};
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    for (size_t i = 0; i < spt_gen_board_count(gen); i++)
        test_board(gen, spt_gen_board_name(gen, i));
    test_step(gen);
    test_deployment(gen);
    test_stages(gen);
    test_power();
    spt_gen_close(gen);
    return check_done();
}
