/*
 * Sizes of drafters by hand, from the configs that their trainers publish:
 * attention + feed-forward + the layer that joins features + head.
 */
#include "check.h"
#include "drafter.h"

static spt_error err;

static const struct size {
    const char *target, *method;
    double weights, kv_numbers; /* KV of a token in all of its layers */
    const char *says; /* in the drafter's shape */
} sizes[] = {
    /* 2 x 4096 x (4096 + 2048) + 4096 x 4096 + 3 x 4096 x 14336
       + 3 x 4096^2 + 32000 x 4096 */
    {"llama-3.1-8b", "eagle3", 424673280, 2048, "1 layer like the target's"},
    /* 2 x 2880 x (4096 + 1024) + 4096 x 2880 + 3 x 2880 x 17280
       + 3 x 2880^2 + 32000 x 2880: dense, as trained heads are */
    {"gpt-oss-120b", "eagle3", 307630080, 1024, "feed-forward 17280"},
    {"gpt-oss-20b", "eagle3", 307630080, 1024, "SpecForge"},
    /* 2 x 2048 x (4096 + 1024) + 4096 x 2048 + 3 x 2048 x 6144
       + 3 x 2048^2 + 32000 x 2048 */
    {"qwen3-30b-a3b", "eagle3", 145227776, 1024, "feed-forward 6144"},
    /* 2 x 4096 x (8192 + 1024) + 8192 x 4096 + 3 x 4096 x 24576
       + 3 x 4096^2 + 32000 x 4096 */
    {"qwen3-235b-a22b", "eagle3", 592445440, 1024, "feed-forward 24576"},
    /* 32 query and 8 KV heads of 224: 2 x 7168 x (7168 + 3584) + 7168^2
       + 3 x 7168 x 29568 + 3 x 7168^2 + 32000 x 7168 */
    {"deepseek-r1", "eagle3", 1224867840, 3584, "32/8 heads of 224"},
    /* 5 x (2048 x (4096 + 1024) + 4096 x 2048 + 3 x 2048 x 6144)
       + 5 x 2048^2; embedding and head are the target's */
    {"qwen3.6-35b-a3b", "dflash", 304087040, 5120, "5 layers"},
};

static void test_sizes(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct size *s = &sizes[i];
        spt_target t;
        spt_drafter d;
        CHECK_OK(spt_target_load(".", s->target, NULL, &t, &err), &err,
                 s->target);
        CHECK_OK(spt_drafter_make(".", s->method, &t, &d, &err), &err,
                 s->method);
        CHECK_NEAR(spt_drafter_weight_bytes(&d, &t) / 2 / s->weights, 1, 1e-9,
                   s->target);
        CHECK_NEAR(spt_drafter_sequence_bytes(&d, &t, 2, 1, 1),
                   2 * s->kv_numbers, 1e-6, "and its KV");
        CHECK_HAS(d.shape, s->says, "and says so");
    }
}

/* Where no config is published the shape is said to be assumed. */
static void test_assumed(void)
{
    static const char config[] =
        "{\"num_hidden_layers\":2,\"hidden_size\":64,"
        "\"moe_intermediate_size\":16,\"vocab_size\":100,"
        "\"num_attention_heads\":4,\"num_experts\":8,"
        "\"num_experts_per_tok\":2}";
    spt_target t = {.name = "x"};
    spt_drafter d;
    CHECK_OK(spt_target_config(config, sizeof config - 1, "x", &t, &err), &err,
             "a mixture of experts");
    CHECK_OK(spt_drafter_make(".", "eagle3", &t, &d, &err), &err, "its head");
    CHECK_HAS(d.shape, "assumed", "is assumed to be dense");
    /* 2 x 64 x 192 + 64 x 64 + 3 x 64 x 192 + 3 x 64^2 + 100 x 64 */
    CHECK_NEAR(spt_drafter_weight_bytes(&d, &t) / 2, 84224, 0,
               "with three times the hidden size");
}

int main(void)
{
    test_sizes();
    test_assumed();
    return check_done();
}
