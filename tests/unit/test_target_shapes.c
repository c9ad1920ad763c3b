/* Shapes of targets from presets, config.json and GGUF headers. */
#include <stdlib.h>

#include "check.h"
#include "drafter.h"
#include "gguf_make.h"
#include "mem.h"
#include "target.h"

static spt_error err;

static void test_presets(void)
{
    spt_target t;
    CHECK_OK(spt_target_load(".", "qwen3-8b", NULL, &t, &err), &err,
             "the preset qwen3-8b");
    /* 8.19 billion parameters as published, two bytes each. */
    CHECK_NEAR(t.weight_bytes / 16.38e9, 1, 0.01, "weighs 16.4 GB in bf16");
    CHECK_NEAR(36 * spt_target_kv_bytes(&t, 2), 147456, 0,
               "144 KiB of KV per token");
    CHECK_OK(spt_target_load(".", "llama-3.1-8b", "q4_k", &t, &err), &err,
             "llama-3.1-8b in q4_k");
    CHECK_NEAR(t.weight_bytes / (8.03e9 * 4.5 / 8), 1, 0.01, "weighs 4.5 GB");
    CHECK_OK(spt_target_load(".", "qwen3-32b", NULL, &t, &err), &err,
             "qwen3-32b");
    CHECK_NEAR(t.weight_bytes / 65.5e9, 1, 0.01, "weighs 65.5 GB");
    CHECK_OK(spt_target_load(".", "qwen3.8-27b", NULL, &t, &err), &err,
             "a model with linear attention");
    CHECK_INT(t.full_layers, 16, "sixteen of its layers have full attention");
    CHECK_NEAR(t.weight_bytes / 54e9, 1, 0.03, "weighs 54 GB");
    CHECK(spt_target_load(".", "qwen9", NULL, &t, &err) == SPT_E_USAGE,
          "an unknown preset is a wrong use");
    CHECK(spt_target_load(".", "qwen3-8b", "q99", &t, &err) == SPT_E_USAGE,
          "so is an unknown weight format");
    CHECK_HAS(err.text, "q4_k", "and the line lists the formats");
}

static void test_kv_types(void)
{
    static const struct {
        const char *word, *name;
        double bytes;
    } rows[] = {{"bf16", "bf16", 2},    {"bfloat16", "bf16", 2},
                {"half", "fp16", 2},    {"F16", "fp16", 2},
                {"float16", "fp16", 2}, {"fp8_e4m3", "fp8", 1},
                {"FP8", "fp8", 1},      {"q8_0", "q8_0", 34.0 / 32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_TEXT(spt_kv_type_name(rows[i].word), rows[i].name, rows[i].word);
        CHECK_NEAR(spt_kv_type_bytes(rows[i].word), rows[i].bytes, 0,
                   "has its bytes");
    }
    CHECK(!spt_kv_type_name("int3") && spt_kv_type_bytes("int3") < 0,
          "another word is none");
}

/* Sizes as their publishers give them. */
static void test_published_sizes(void)
{
    static const struct {
        const char *name, *weights;
        double params, weight_gb, kv_per_token, within;
    } rows[] = {
        {"llama-3.3-70b", NULL, 70.6e9, 141.1, 327680, 0.01},
        {"qwen3-30b-a3b", NULL, 30.5e9, 61.1, 98304, 0.01},
        /* 117 billion parameters, 65 GB as MXFP4; half of 36 layers keep
           their whole context. */
        {"gpt-oss-120b", NULL, 117e9, 65.2, 36864, 0.01},
        {"gpt-oss-20b", NULL, 20.9e9, 13.8, 24576, 0.01},
        /* 671 billion, FP8; 576 numbers per token in each of 61 layers. */
        {"deepseek-r1", NULL, 671e9, 672, 70272, 0.01},
        {"qwen3.8-27b", "q4_k_m", 27e9, 17.1, 65536, 0.04},
        {"qwen3.6-35b-a3b", NULL, 35e9, 70, 20480, 0.03},
        {"qwen3.5-9b", "q4_k_m", 9e9, 5.68, 32768, 0.03},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spt_target t;
        CHECK_OK(spt_target_load(".", rows[i].name, rows[i].weights, &t, &err),
                 &err, rows[i].name);
        CHECK_NEAR(spt_target_params(&t) / rows[i].params, 1, rows[i].within,
                   "has its parameters");
        CHECK_NEAR(t.weight_bytes / 1e9 / rows[i].weight_gb, 1, rows[i].within,
                   "weighs what is published");
        double far = spt_target_sequence_bytes(&t, 2, 1e6);
        double near = spt_target_sequence_bytes(&t, 2, 1e6 - 1);
        CHECK_NEAR(far - near, rows[i].kv_per_token, 1,
                   "and takes its KV per token");
    }
    spt_target t;
    CHECK_OK(spt_target_load(".", "deepseek-r1", NULL, &t, &err), &err, "R1");
    CHECK_NEAR(spt_target_experts_touched(&t, 1, 1), 8, 1e-9,
               "a row touches its eight experts");
    /* 256 (1 - (1 - 8/256)^16) */
    CHECK_NEAR(spt_target_experts_touched(&t, 16, 1), 101.97, 0.01,
               "sixteen sequences 102 of 256");
    CHECK(spt_target_experts_touched(&t, 1, 16) < 60,
          "sixteen rows of one sequence share more");
    spt_drafter d;
    CHECK_OK(spt_drafter_make(".", "mtp", &t, &d, &err), &err, "its drafter");
    /* 11.5 billion of its own, in FP8; embedding and head are the target's. */
    CHECK_NEAR(spt_drafter_weight_bytes(&d, &t) / 11.5e9, 1, 0.02,
               "its next-token layer has all experts");
    CHECK_OK(spt_target_sized("x", 35e9, 3e9, "bf16", &t, &err), &err,
             "a shape of 35 billion weights, 3 of them for a row");
    CHECK_NEAR(spt_target_params(&t) / 35e9, 1, 0.15, "has about as many");
    CHECK_OK(spt_target_sized("x", 8e9, 8e9, "bf16", &t, &err), &err,
             "a dense shape of 8 billion");
    CHECK_NEAR(spt_target_params(&t) / 8e9, 1, 0.15, "too");
}

static void test_stand_in(void)
{
    spt_target t;
    CHECK_OK(spt_target_stand_in(64, 8, 128, NULL, &t, &err), &err,
             "a stand-in from heads");
    CHECK_HAS(t.source, "stand-in", "says what it is");
    CHECK_INT(t.hidden, 8192, "with the heads' hidden size");
    CHECK(spt_target_stand_in(64, 7, 128, NULL, &t, &err) == SPT_E_USAGE,
          "64/7 is refused");
    CHECK(spt_target_stand_in(0, 0, 128, NULL, &t, &err) == SPT_E_USAGE,
          "0/0 is refused");
}

static const struct config {
    const char *name, *text, *says; /* says NULL: accepted */
} configs[] = {
    {"a small config",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":4}",
     NULL},
    {"a config without layers", "{\"hidden_size\":64}", "num_hidden_layers"},
    {"a text for a number", "{\"num_hidden_layers\":\"x\",\"hidden_size\":64}",
     "num_hidden_layers"},
    {"heads that do not divide",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":4,\"num_key_value_heads\":3}",
     "no multiple"},
    {"zero heads",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":0}",
     "num_attention_heads"},
    {"latent attention without end",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":4,\"kv_lora_rank\":65537}",
     "65537"},
    {"a list", "[]", "expected a JSON object"},
    {"broken JSON", "{\"num_hidden_layers\":", ":1:"},
    {"nothing", "", "JSON"},
    {"layer types that are too few",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":4,"
     "\"layer_types\":[\"full_attention\"]}",
     "layer_types"},
    {"experts without a count per token",
     "{\"num_hidden_layers\":2,\"hidden_size\":64,\"intermediate_size\":128,"
     "\"vocab_size\":100,\"num_attention_heads\":4,\"num_experts\":8}",
     "num_experts_per_tok"},
};

static void test_configs(void)
{
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        const struct config *c = &configs[i];
        spt_target t = {.name = "test"};
        spt_status status =
            spt_target_config(c->text, strlen(c->text), "test.json", &t, &err);
        if (!c->says) {
            CHECK(status == SPT_OK, "%s is accepted", c->name);
            continue;
        }
        CHECK(status != SPT_OK, "%s is refused", c->name);
        CHECK_HAS(err.text, c->says, "and the line says why");
    }
}

/* A small GGUF; gives the bytes of its header. */
static size_t make_gguf(spt_buf *b)
{
    static const char *const tokens[] = {"a", "b", "c"};
    gguf_maker m = {0};
    gguf_put_text(&m, "general.architecture", "llama");
    gguf_put_int(&m, "llama.block_count", 2);
    gguf_put_int(&m, "llama.embedding_length", 256);
    gguf_put_int(&m, "llama.feed_forward_length", 128);
    gguf_put_int(&m, "llama.attention.head_count", 9);
    gguf_put_int(&m, "llama.attention.head_count_kv", 3);
    gguf_put_texts(&m, "tokenizer.ggml.tokens", tokens, 3);
    gguf_put_tensor(&m, "token_embd.weight", SPT_WEIGHT_Q8_0, 256, 3, NULL);
    gguf_put_tensor(&m, "blk.0.ffn_up.weight", SPT_WEIGHT_Q4_K, 256, 128, NULL);
    gguf_put_tensor(&m, "blk.0.attn_q.weight", SPT_WEIGHT_F16, 256, 64, NULL);
    return gguf_finish(&m, b);
}

static void test_gguf(void)
{
    spt_buf b = {0};
    spt_target t = {.name = "test"};
    size_t header = make_gguf(&b);
    CHECK_OK(spt_target_gguf(b.data, b.size, "test.gguf", &t, &err), &err,
             "a GGUF header");
    CHECK_INT(t.kv_heads, 3, "gives the heads");
    CHECK_INT(t.vocab, 3, "the vocabulary's size");
    CHECK(t.tied_head, "and a tied head where there is no output");
    CHECK_NEAR(t.weight_bytes, 256 * 3 * 34 / 32.0 + 128 * 144 + 256 * 64 * 2,
               0.5, "and the bytes of its tensors");
    bool refused = true;
    for (size_t n = 0; n < header; n++) {
        char *part = malloc(n ? n : 1);
        memcpy(part, b.data, n);
        spt_target cut = {.name = "cut"};
        refused &= spt_target_gguf(part, n, "cut.gguf", &cut, &err) != SPT_OK;
        free(part);
    }
    CHECK(refused, "every shorter header is refused");
    b.data[8 + 8] = 0x7f; /* a number of pairs that no file holds */
    b.data[8 + 8 + 7] = 0x7f;
    CHECK(spt_target_gguf(b.data, b.size, "big.gguf", &t, &err) != SPT_OK,
          "a count past the end is refused");
    spt_buf_free(&b);
}

/* Header of a model with the shape of Qwen3.5-9B, two layers of it wide. */
static void test_gguf_hybrid(void)
{
    static const struct {
        const char *key;
        int64_t value;
    } keys[] = {
        {"qwen35.block_count", 9},
        {"qwen35.nextn_predict_layers", 1},
        {"qwen35.embedding_length", 256},
        {"qwen35.feed_forward_length", 512},
        {"qwen35.attention.head_count", 4},
        {"qwen35.attention.head_count_kv", 1},
        {"qwen35.attention.key_length", 128},
        {"qwen35.attention.value_length", 128},
        {"qwen35.full_attention_interval", 4},
        {"qwen35.ssm.conv_kernel", 4},
        {"qwen35.ssm.state_size", 64},
        {"qwen35.ssm.group_count", 2},
        {"qwen35.ssm.time_step_rank", 6},
        {"qwen35.ssm.inner_size", 384},
    };
    gguf_maker m = {0};
    spt_buf b = {0};
    spt_target t = {.name = "test"};
    gguf_put_text(&m, "general.architecture", "qwen35");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        gguf_put_int(&m, keys[i].key, keys[i].value);
    gguf_put_tensor(&m, "token_embd.weight", SPT_WEIGHT_F16, 256, 8, NULL);
    gguf_put_tensor(&m, "blk.0.ssm_out.weight", SPT_WEIGHT_Q8_0, 256, 32, NULL);
    gguf_put_tensor(&m, "blk.0.ffn_up.weight", SPT_WEIGHT_Q4_K, 256, 32, NULL);
    gguf_finish(&m, &b);
    CHECK_OK(spt_target_gguf(b.data, b.size, "hybrid.gguf", &t, &err), &err,
             "a GGUF with linear attention");
    CHECK_INT(t.layers, 8, "its next-token layer is none of its layers");
    CHECK_INT(t.full_layers, 2, "every fourth has full attention");
    CHECK_INT(t.linear_v_dim, 64, "values per head from the inner size");
    CHECK_NEAR(t.attention_bits, 8.5, 1e-9, "attention in its own format");
    CHECK_NEAR(t.layer_bits, 4.5, 1e-9, "and the rest in another");
    spt_buf_free(&b);
}

static void test_gguf_latent(void)
{
    static const struct {
        const char *key;
        int64_t value;
    } keys[] = {
        {"deepseek2.block_count", 5},
        {"deepseek2.embedding_length", 256},
        {"deepseek2.feed_forward_length", 512},
        {"deepseek2.attention.head_count", 4},
        {"deepseek2.attention.head_count_kv", 1},
        {"deepseek2.attention.key_length", 80},
        {"deepseek2.attention.value_length", 64},
        {"deepseek2.attention.key_length_mla", 48},
        {"deepseek2.attention.value_length_mla", 32},
        {"deepseek2.attention.kv_lora_rank", 64},
        {"deepseek2.attention.q_lora_rank", 96},
        {"deepseek2.rope.dimension_count", 16},
        {"deepseek2.leading_dense_block_count", 1},
        {"deepseek2.expert_count", 8},
        {"deepseek2.expert_used_count", 2},
        {"deepseek2.expert_feed_forward_length", 64},
        {"deepseek2.expert_shared_count", 1},
    };
    gguf_maker m = {0};
    spt_buf b = {0};
    spt_target t = {.name = "test"};
    gguf_put_text(&m, "general.architecture", "deepseek2");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        gguf_put_int(&m, keys[i].key, keys[i].value);
    gguf_put_tensor(&m, "token_embd.weight", SPT_WEIGHT_F16, 256, 8, NULL);
    gguf_put_tensor(&m, "blk.0.attn_out.weight", SPT_WEIGHT_Q8_0, 256, 32,
                    NULL);
    gguf_finish(&m, &b);
    CHECK_OK(spt_target_gguf(b.data, b.size, "mla.gguf", &t, &err), &err,
             "a GGUF with latent attention");
    CHECK_NEAR(spt_target_kv_bytes(&t, 2), 160, 0, "keeps 80 numbers a token");
    CHECK_INT(t.nope_dim, 32, "its heads have 48, 16 of them with rotary");
    CHECK_INT(t.moe_layers, 4, "the first layer is dense");
    CHECK_INT(t.shared_ffn, 64, "and one expert is shared");
    spt_buf_free(&b);
}

int main(void)
{
    test_presets();
    test_kv_types();
    test_published_sizes();
    test_stand_in();
    test_configs();
    test_gguf();
    test_gguf_hybrid();
    test_gguf_latent();
    return check_done();
}
