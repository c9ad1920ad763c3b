/*
 * What a batch holds in an engine, by hand: copies of the KV where boards
 * outnumber its heads, sequences that find room, and what does not start.
 */
#include "check.h"
#include "gen.h"
#include "step.h"

static spt_error err;

static const struct copies {
    const char *target;
    int boards;
    double copies;
} copies[] = {
    {"llama-3.1-8b", 8, 1}, /* eight KV heads */
    {"llama-3.1-8b", 2, 1},  {"qwen3-30b-a3b", 8, 2}, /* four */
    {"qwen3-30b-a3b", 4, 1}, {"deepseek-r1", 8, 8}, /* one, latent */
    {"deepseek-r1", 1, 1},
};

static void test_copies(void)
{
    spt_target t;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        const struct copies *c = &copies[i];
        CHECK_OK(spt_target_load(".", c->target, NULL, &t, &err), &err,
                 c->target);
        CHECK_NEAR(spt_target_kv_copies(&t, c->boards), c->copies, 1e-9,
                   "holds its KV so often");
        CHECK_NEAR(spt_target_shared_bytes(&t, 2, 1000, c->boards),
                   c->copies * spt_target_sequence_bytes(&t, 2, 1000), 1,
                   "in bytes too");
    }
    /* 576 numbers of two bytes in 61 layers. */
    CHECK_OK(spt_target_load(".", "deepseek-r1", NULL, &t, &err), &err, "R1");
    CHECK_NEAR(spt_target_shared_bytes(&t, 2, 1000, 8), 70272e3 * 8, 1,
               "R1 on eight boards");
    CHECK_OK(spt_target_load(".", "qwen3.8-27b", NULL, &t, &err), &err, "27B");
    CHECK_NEAR(spt_target_shared_bytes(&t, 2, 0, 8),
               spt_target_sequence_bytes(&t, 2, 0), 0,
               "states of linear attention are shared out");
}

/* A step in an engine; pointers stay within it. */
typedef struct place {
    spt_board board;
    spt_serving serving;
    spt_target target;
    spt_drafter drafter;
    spt_step step;
} place;

static void open_place(place *p, spt_gen *gen, const char *engine,
                       const char *board, const char *target,
                       const char *drafter)
{
    CHECK_OK(spt_gen_board(gen, board, &p->board, &err), &err, board);
    CHECK_OK(spt_serving_load(".", engine, &p->serving, &err), &err, engine);
    CHECK_OK(spt_target_load(".", target, NULL, &p->target, &err), &err,
             target);
    CHECK_OK(spt_drafter_make(".", drafter, &p->target, &p->drafter, &err),
             &err, drafter);
    p->step = (spt_step){.board = &p->board,
                         .target = &p->target,
                         .kv_bytes = 2,
                         .where = {.serving = &p->serving}};
}

static void test_latent(spt_gen *gen)
{
    place p;
    open_place(&p, gen, "sglang", "b200_sxm", "deepseek-r1", "mtp");
    p.step.batch = 64;
    p.step.context = 32768;
    p.step.where.boards = 8;
    /* 88 % of each board but 2 GB, less 672.9 GB of weights and 11.6 of the
       next-token layer; 61 + 1 layers of 1152 bytes, on each board. */
    double room = (p.board.memory_bytes * 0.88 - 2e9) * 8 - 672.9e9 - 11.6e9;
    double sequence = 62 * 1152.0 * 32768 * 8;
    double running = spt_step_running(&p.step, &p.drafter, 2);
    CHECK_NEAR(running / (room / sequence), 1, 0.01,
               "sequences that find room on eight boards");
    CHECK(running < 64, "are not all of them (%.1f)", running);
    double bytes = spt_step_memory_bytes(&p.step, &p.drafter, 2);
    CHECK(spt_step_fits(&p.step, &p.drafter, 2, bytes), "but some");
    p.step.where.boards = 4;
    bytes = spt_step_memory_bytes(&p.step, NULL, 0);
    CHECK(!spt_step_fits(&p.step, NULL, 0, bytes),
          "four boards' share of the memory holds no sequence");
    char text[100];
    CHECK_HAS(spt_step_room_text(&p.step, bytes, text, sizeof text), "sglang",
              "and whose share it is is said");
}

static void test_time(spt_gen *gen)
{
    place p;
    open_place(&p, gen, "vllm", "h200_sxm", "qwen3-30b-a3b", "eagle3");
    p.step.batch = 16;
    p.step.context = 65536;
    p.step.where.boards = 4;
    spt_step_terms four, eight;
    spt_step_verify_terms(&p.step, 0, &four);
    p.step.where.boards = 8;
    spt_step_verify_terms(&p.step, 0, &eight);
    CHECK(eight.us[SPT_TERM_KV] > 0.8 * four.us[SPT_TERM_KV],
          "eight boards read four KV heads no faster than four do");
    CHECK(eight.us[SPT_TERM_WEIGHTS] < 0.8 * four.us[SPT_TERM_WEIGHTS],
          "the weights they do");
}

int main(void)
{
    spt_gen *gen = NULL;
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    test_copies();
    test_latent(gen);
    test_time(gen);
    spt_gen_close(gen);
    return check_done();
}
