/* The choice of draft lengths against brute force and its own rules. */
#include <stdlib.h>

#include "answer.h"
#include "check.h"
#include "gen.h"
#include "mem.h"

static const spt_attention_config configs[] = {
    {8, 512, 64, 3, 1, 128, 120, 45000},
    {16, 512, 64, 3, 1, 128, 130, 60000},
    {32, 512, 64, 3, 1, 128, 160, 64000},
    {64, 512, 64, 3, 2, 256, 160, 72000},
};
static const int batches[] = {1, 8, 64};
static const int64_t contexts[] = {1024, 8192, 65536};
static const char *const workloads[] = {"code", "chat", "prose"};
static const char *const methods[] = {"external", "eagle3", "mtp",
                                      "dflash",   "dspark", "ngram"};

/* The rule that a reader would apply by hand. */
static void check_choice(const spt_choose_input *in, const spt_choice *c,
                         bool *good)
{
    spt_step step = {.board = in->board,
                     .target = in->target,
                     .kernels = in->kernels,
                     .kv_bytes = in->kv_bytes,
                     .batch = c->batch,
                     .context = (double)c->context};
    const char *evidence;
    double plain = spt_step_verify_us(&step, 0, &evidence);
    if (!c->known) {
        *good &= c->reason[0] != 0;
        return;
    }
    *good &= c->fits && c->memory_bytes <= in->board->memory_bytes;
    *good &= c->speedup >= 0.999;
    double best = 1 / plain;
    for (int d = 1; d <= c->table->longest; d++) {
        double sum = c->table->expected[d], h = c->table->match_rate;
        if (sum < 0 || d > c->drafter->max_draft ||
            spt_step_memory_bytes(&step, c->drafter, d) >
                in->board->memory_bytes)
            continue;
        double time = spt_step_draft_us(&step, c->drafter, d) +
                      spt_step_verify_us(&step, d, &evidence);
        double rate = (1 + h * sum) / (h * time + (1 - h) * plain);
        if (rate > best)
            best = rate;
    }
    *good &= c->speedup / plain >= best * 0.994;
    const spt_tree_choice *t = &c->tree;
    *good &= t->known ? t->tree.nodes >= t->tree.depth &&
                            t->beats == (t->speedup > c->speedup * 1.005) &&
                            fabs(t->expected_length * plain /
                                     (t->draft_us + t->verify_us) / t->speedup -
                                 1) < 1e-9
                      : t->reason[0] != 0;
    *good &= c->alike_from <= c->draft_length && c->alike_to >= c->draft_length;
    double parts = 0;
#define SPT_MEMORY_PART(field, name) parts += c->memory.field;
#include "memory_parts.def"
#undef SPT_MEMORY_PART
    *good &= fabs(parts - c->memory_bytes) < 1;
    *good &= c->prefill_us > 0 && (c->draft_length || !c->draft_prefill_us);
}

static void test_target(spt_gen *gen, const char *board, const char *model,
                        int q, int kv)
{
    spt_error err = {0};
    spt_board b;
    spt_target t;
    spt_acceptance a = {0};
    spt_drafter drafters[6];
    spt_kernels kernels = {configs, 4, NULL, NULL};
    CHECK_OK(spt_gen_board(gen, board, &b, &err), &err, board);
    spt_status status = model ? spt_target_load(".", model, NULL, &t, &err)
                              : spt_target_stand_in(q, kv, 128, NULL, &t, &err);
    CHECK_OK(status, &err, model ? model : "stand-in");
    CHECK_OK(spt_acceptance_read_all(&a, ".", &err), &err, "tables");
    for (int i = 0; i < 6; i++)
        CHECK_OK(spt_drafter_make(".", methods[i], &t, &drafters[i], &err),
                 &err, methods[i]);
    spt_choose_input in = {.board = &b,
                           .target = &t,
                           .drafters = drafters,
                           .n_drafters = 6,
                           .batches = batches,
                           .n_batches = 3,
                           .contexts = contexts,
                           .n_contexts = 3,
                           .workloads = workloads,
                           .n_workloads = 3,
                           .acceptance = &a,
                           .kernels = &kernels,
                           .kv_bytes = 2,
                           .kv_dtype = "bf16",
                           .effort = "estimate"};
    spt_choices ch;
    if (!CHECK_OK(spt_choose(&in, &ch, &err), &err, "choices"))
        return;
    CHECK_INT((long long)ch.count, 3 * 3 * 6 * 3, "one per cell");
    bool good = true;
    for (size_t i = 0; i < ch.count; i++)
        check_choice(&in, &ch.list[i], &good);
    CHECK(good, "each is the best that is known and fits");
    bool rises = ch.n_rungs > 0;
    for (size_t i = 1; i < ch.n_rungs; i++)
        rises &= ch.ladder[i].rows > ch.ladder[i - 1].rows &&
                 ch.ladder[i].step_us >= ch.ladder[i - 1].step_us;
    CHECK(rises, "the ladder rises");
    cJSON *json = cJSON_CreateObject();
    CHECK_OK(spt_answer_json(&in, &ch, json, &err), &err, "as JSON");
    CHECK_INT(
        cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "choices")),
        (long long)ch.count, "with every choice");
    cJSON_Delete(json);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    spt_answer_print(out, &in, &ch, false);
    fclose(out);
    size_t widest = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        widest = strlen(line) > widest ? strlen(line) : widest;
    CHECK(widest <= 80, "the answer fits 80 columns (%zu)", widest);
    free(text);
    spt_choices_free(&ch);
    spt_acceptance_free(&a);
}

static void test_rule(void)
{
    CHECK_INT(spt_published_rule(8).draft_length, 15, "64/8: D = 15");
    CHECK_INT(spt_published_rule(32).draft_length, 3, "G = 32: D = 3");
    CHECK_INT(spt_published_rule(1).draft_length, 127, "G = 1: D = 127");
    CHECK_INT(spt_published_rule(6).draft_length, 20, "G = 6: D = 20");
    CHECK_INT(spt_published_rule(256).draft_length, 0, "G = 256: D = 0");
}

int main(void)
{
    spt_gen *gen = NULL;
    spt_error err = {0};
    test_rule();
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    test_target(gen, "h100_sxm", NULL, 64, 8);
    test_target(gen, "h200_sxm", "qwen3-32b", 0, 0);
    test_target(gen, "h100_sxm", "llama-3.1-8b", 0, 0);
    test_target(gen, "rtx_5090", "qwen3-8b", 0, 0);
    test_target(gen, "gb10", NULL, 12, 2);
    spt_gen_close(gen);
    return check_done();
}
