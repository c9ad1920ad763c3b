/*
 * Tiny seeded models for tests: any architecture, any type of weights, as a
 * GGUF in memory or as a folder with config.json and model.safetensors.
 *
 *   tiny_model t = tiny_default("qwen3", SPT_WEIGHT_Q8_0);
 *   tiny_gguf(&t, &file);
 *
 * Weights are uniform, about 1/sqrt(cols) wide, norms near one, so that rows
 * keep their size through the layers. The same numbers for the same seed.
 */
#ifndef SPT_TINY_MODEL_H
#define SPT_TINY_MODEL_H

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "files.h"
#include "gguf_make.h"
#include "half.h"
#include "model_file.h"

typedef struct tiny_model {
    const char *arch; /* llama, qwen2, qwen3, gemma3 */
    spt_weight_type type; /* of matrices; vectors are f32 */
    int layers, hidden, ffn, q_heads, kv_heads, head_dim, vocab, context;
    int window, window_period; /* gemma3 */
    bool own_head;
    float softcap; /* of logits; 0 = none */
    uint64_t seed;
} tiny_model;

__attribute__((unused)) static tiny_model tiny_default(const char *arch,
                                                       spt_weight_type type)
{
    return (tiny_model){.arch = arch,
                        .type = type,
                        .layers = 2,
                        .hidden = 256,
                        .ffn = 512,
                        .q_heads = 4,
                        .kv_heads = 2,
                        .head_dim = 64,
                        .vocab = 320,
                        .context = 512,
                        .window = 64,
                        .window_period = 2,
                        .own_head = strcmp(arch, "gemma3") != 0,
                        .seed = 1};
}

/* splitmix64 */
__attribute__((unused)) static uint64_t tiny_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in -1 ... 1. */
__attribute__((unused)) static float tiny_unit(uint64_t *state)
{
    return (float)(tiny_next(state) >> 40) * 0x1p-23f - 1.0f;
}

__attribute__((unused)) static void tiny_half(uint8_t *p, spt_dtype type,
                                              float value)
{
    uint16_t bits = spt_half_from_float(type, value);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* One block with random content whose values are about `size` wide. */
__attribute__((unused)) static void
tiny_block(spt_weight_type type, uint8_t *block, float size, uint64_t *state)
{
    const spt_weight_format *f = spt_weight_format_of(type);
    float value = size * tiny_unit(state);
    if (type == SPT_WEIGHT_F32) {
        memcpy(block, &value, sizeof value);
    } else if (type == SPT_WEIGHT_F16 || type == SPT_WEIGHT_BF16) {
        tiny_half(block, type == SPT_WEIGHT_F16 ? SPT_FP16 : SPT_BF16, value);
    } else {
        /* Largest level of the type: what the scale is multiplied with. */
        float levels = type == SPT_WEIGHT_Q8_0   ? 127
                       : type == SPT_WEIGHT_Q6_K ? 32 * 128
                       : type == SPT_WEIGHT_Q5_K ? 31 * 63
                       : type == SPT_WEIGHT_Q4_K ? 15 * 63
                       : type >= SPT_WEIGHT_Q5_0 ? 16
                                                 : 8;
        for (int i = 0; i < f->block_bytes; i++)
            block[i] = (uint8_t)tiny_next(state);
        int at = type == SPT_WEIGHT_Q6_K ? 208 : 0;
        tiny_half(block + at, SPT_FP16, size / levels);
        if (type == SPT_WEIGHT_Q4_1 || type == SPT_WEIGHT_Q5_1)
            tiny_half(block + 2, SPT_FP16, -size);
        if (type == SPT_WEIGHT_Q4_K || type == SPT_WEIGHT_Q5_K)
            tiny_half(block + 2, SPT_FP16, size / 63);
    }
}

/* Where the tensors of a tiny model go: (name in GGUF, type, ...). */
typedef void tiny_sink(void *user, const char *name, const char *hf,
                       spt_weight_type type, int cols, int rows,
                       const void *data);

typedef struct tiny_writer {
    const tiny_model *t;
    tiny_sink *sink;
    void *user;
    uint64_t state;
    bool hf; /* norms of gemma are stored less one */
} tiny_writer;

__attribute__((unused)) static void tiny_matrix(tiny_writer *w,
                                                const char *name,
                                                const char *hf, int cols,
                                                int rows)
{
    const spt_weight_format *f = spt_weight_format_of(w->t->type);
    size_t blocks = (size_t)cols * (size_t)rows / (size_t)f->block_weights;
    uint8_t *data = malloc(blocks * (size_t)f->block_bytes);
    float size = 1.7f / sqrtf((float)cols);
    for (size_t i = 0; i < blocks; i++)
        tiny_block(w->t->type, data + i * (size_t)f->block_bytes, size,
                   &w->state);
    w->sink(w->user, name, hf, w->t->type, cols, rows, data);
    free(data);
}

__attribute__((unused)) static void tiny_vector(tiny_writer *w,
                                                const char *name,
                                                const char *hf, int cols,
                                                float middle, float size)
{
    float *data = malloc((size_t)cols * sizeof *data);
    bool gemma = strcmp(w->t->arch, "gemma3") == 0;
    for (int i = 0; i < cols; i++)
        data[i] =
            middle - (w->hf && gemma ? 1 : 0) + size * tiny_unit(&w->state);
    w->sink(w->user, name, hf, SPT_WEIGHT_F32, cols, 0, data);
    free(data);
}

/* A layer's tensor: names from the tails of both formats. */
__attribute__((unused)) static void tiny_in_layer(tiny_writer *w, int layer,
                                                  const char *tail,
                                                  const char *hf_tail, int cols,
                                                  int rows)
{
    char name[96], hf[96];
    snprintf(name, sizeof name, "blk.%d.%s", layer, tail);
    snprintf(hf, sizeof hf, "model.layers.%d.%s", layer, hf_tail);
    bool bias = strstr(tail, "bias") != NULL;
    if (rows)
        tiny_matrix(w, name, hf, cols, rows);
    else
        tiny_vector(w, name, hf, cols, bias ? 0 : 1, 0.1f);
}

__attribute__((unused)) static void tiny_layer(tiny_writer *w, int l)
{
    const tiny_model *t = w->t;
    int q = t->q_heads * t->head_dim, kv = t->kv_heads * t->head_dim;
    bool gemma = strcmp(t->arch, "gemma3") == 0;
    tiny_in_layer(w, l, "attn_norm.weight", "input_layernorm.weight", t->hidden,
                  0);
    tiny_in_layer(w, l, "attn_q.weight", "self_attn.q_proj.weight", t->hidden,
                  q);
    tiny_in_layer(w, l, "attn_k.weight", "self_attn.k_proj.weight", t->hidden,
                  kv);
    tiny_in_layer(w, l, "attn_v.weight", "self_attn.v_proj.weight", t->hidden,
                  kv);
    tiny_in_layer(w, l, "attn_output.weight", "self_attn.o_proj.weight", q,
                  t->hidden);
    if (strcmp(t->arch, "qwen2") == 0) {
        tiny_in_layer(w, l, "attn_q.bias", "self_attn.q_proj.bias", q, 0);
        tiny_in_layer(w, l, "attn_k.bias", "self_attn.k_proj.bias", kv, 0);
        tiny_in_layer(w, l, "attn_v.bias", "self_attn.v_proj.bias", kv, 0);
    }
    if (gemma || strcmp(t->arch, "qwen3") == 0) {
        tiny_in_layer(w, l, "attn_q_norm.weight", "self_attn.q_norm.weight",
                      t->head_dim, 0);
        tiny_in_layer(w, l, "attn_k_norm.weight", "self_attn.k_norm.weight",
                      t->head_dim, 0);
    }
    if (gemma) {
        tiny_in_layer(w, l, "post_attention_norm.weight",
                      "post_attention_layernorm.weight", t->hidden, 0);
        tiny_in_layer(w, l, "post_ffw_norm.weight",
                      "post_feedforward_layernorm.weight", t->hidden, 0);
    }
    tiny_in_layer(w, l, "ffn_norm.weight",
                  gemma ? "pre_feedforward_layernorm.weight"
                        : "post_attention_layernorm.weight",
                  t->hidden, 0);
    tiny_in_layer(w, l, "ffn_gate.weight", "mlp.gate_proj.weight", t->hidden,
                  t->ffn);
    tiny_in_layer(w, l, "ffn_up.weight", "mlp.up_proj.weight", t->hidden,
                  t->ffn);
    tiny_in_layer(w, l, "ffn_down.weight", "mlp.down_proj.weight", t->ffn,
                  t->hidden);
}

__attribute__((unused)) static void tiny_tensors(tiny_writer *w)
{
    const tiny_model *t = w->t;
    w->state = t->seed;
    tiny_matrix(w, "token_embd.weight", "model.embed_tokens.weight", t->hidden,
                t->vocab);
    tiny_vector(w, "output_norm.weight", "model.norm.weight", t->hidden, 1,
                0.1f);
    if (t->own_head)
        tiny_matrix(w, "output.weight", "lm_head.weight", t->hidden, t->vocab);
    for (int l = 0; l < t->layers; l++)
        tiny_layer(w, l);
}

__attribute__((unused)) static void tiny_key(gguf_maker *m, const char *arch,
                                             const char *name, int value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    gguf_put_int(m, key, (uint32_t)value);
}

__attribute__((unused)) static void tiny_pairs(gguf_maker *m,
                                               const tiny_model *t)
{
    char key[64];
    gguf_put_text(m, "general.architecture", t->arch);
    gguf_put_text(m, "general.name", "tiny");
    tiny_key(m, t->arch, "block_count", t->layers);
    tiny_key(m, t->arch, "context_length", t->context);
    tiny_key(m, t->arch, "embedding_length", t->hidden);
    tiny_key(m, t->arch, "feed_forward_length", t->ffn);
    tiny_key(m, t->arch, "attention.head_count", t->q_heads);
    tiny_key(m, t->arch, "attention.head_count_kv", t->kv_heads);
    tiny_key(m, t->arch, "attention.key_length", t->head_dim);
    tiny_key(m, t->arch, "attention.value_length", t->head_dim);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", t->arch);
    gguf_put_f32(m, key, 1e-6f);
    if (t->softcap > 0) {
        snprintf(key, sizeof key, "%s.final_logit_softcapping", t->arch);
        gguf_put_f32(m, key, t->softcap);
    }
    if (strcmp(t->arch, "gemma3") == 0) {
        tiny_key(m, t->arch, "attention.sliding_window", t->window);
        tiny_key(m, t->arch, "attention.sliding_window_pattern",
                 t->window_period);
    }
}

__attribute__((unused)) static void tiny_to_gguf(void *user, const char *name,
                                                 const char *hf,
                                                 spt_weight_type type, int cols,
                                                 int rows, const void *data)
{
    (void)hf;
    gguf_put_tensor(user, name, type, (uint64_t)cols, (uint64_t)rows, data);
}

/* Appends the model's GGUF to out. */
__attribute__((unused)) static void tiny_gguf(const tiny_model *t, spt_buf *out)
{
    gguf_maker m = {0};
    tiny_pairs(&m, t);
    tiny_writer w = {.t = t, .sink = tiny_to_gguf, .user = &m};
    tiny_tensors(&w);
    gguf_finish(&m, out);
}

typedef struct tiny_safetensors {
    spt_buf header, data;
} tiny_safetensors;

__attribute__((unused)) static void
tiny_to_safetensors(void *user, const char *name, const char *hf,
                    spt_weight_type type, int cols, int rows, const void *data)
{
    tiny_safetensors *s = user;
    size_t bytes = (size_t)spt_weight_bytes(
        type, (uint64_t)cols * (uint64_t)(rows ? rows : 1));
    const char *dtype = spt_weight_format_of(type)->name;
    char upper[16] = "";
    for (int i = 0; dtype[i] && i < 15; i++)
        upper[i] = (char)toupper(dtype[i]);
    (void)name;
    spt_buf_printf(&s->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                   s->header.size ? "," : "{", hf, upper);
    if (rows)
        spt_buf_printf(&s->header, "%d,", rows);
    spt_buf_printf(&s->header, "%d],\"data_offsets\":[%zu,%zu]}", cols,
                   s->data.size, s->data.size + bytes);
    spt_buf_add(&s->data, data, bytes);
}

/* Appends the file of the tensors that were put, and frees them. */
__attribute__((unused)) static void tiny_join(tiny_safetensors *s, spt_buf *out)
{
    spt_buf_puts(&s->header, "}");
    gguf_bytes(out, s->header.size, 8);
    spt_buf_add(out, s->header.data, s->header.size);
    spt_buf_add(out, s->data.data, s->data.size);
    spt_buf_free(&s->header);
    spt_buf_free(&s->data);
}

/* Appends model.safetensors; the type must be f32, f16 or bf16. */
__attribute__((unused)) static void tiny_to_bytes(const tiny_model *t,
                                                  spt_buf *out)
{
    tiny_safetensors s = {0};
    tiny_writer w = {
        .t = t, .sink = tiny_to_safetensors, .user = &s, .hf = true};
    tiny_tensors(&w);
    tiny_join(&s, out);
}

/* Appends config.json; more: fields with a comma before them, or "". */
__attribute__((unused)) static void tiny_config(const tiny_model *t,
                                                const char *more, spt_buf *out)
{
    bool gemma = strcmp(t->arch, "gemma3") == 0;
    spt_buf_printf(
        out,
        "{\"model_type\":\"%s\",\"num_hidden_layers\":%d,\"hidden_size\":%d,"
        "\"intermediate_size\":%d,\"num_attention_heads\":%d,"
        "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
        "\"max_position_embeddings\":%d,\"rms_norm_eps\":1e-6,"
        "\"tie_word_embeddings\":%s",
        gemma ? "gemma3_text" : t->arch, t->layers, t->hidden, t->ffn,
        t->q_heads, t->kv_heads, t->head_dim, t->vocab, t->context,
        t->own_head ? "false" : "true");
    if (gemma)
        spt_buf_printf(out,
                       ",\"sliding_window\":%d,\"sliding_window_pattern\":%d",
                       t->window, t->window_period);
    spt_buf_printf(out, "%s}\n", more);
}

/* Writes config.json and model.safetensors into an existing folder, and frees
   what was in them. */
__attribute__((unused)) static spt_status tiny_write_folder(spt_buf *config,
                                                            spt_buf *weights,
                                                            const char *folder,
                                                            spt_error *err)
{
    char *at_config = spt_path_join(folder, "config.json");
    char *at_weights = spt_path_join(folder, "model.safetensors");
    spt_status status =
        spt_file_write(at_config, config->data, config->size, err);
    if (status == SPT_OK)
        status = spt_file_write(at_weights, weights->data, weights->size, err);
    spt_free(at_config);
    spt_free(at_weights);
    spt_buf_free(config);
    spt_buf_free(weights);
    return status;
}

__attribute__((unused)) static spt_status
tiny_folder(const tiny_model *t, const char *folder, spt_error *err)
{
    spt_buf config = {0}, weights = {0};
    tiny_config(t, "", &config);
    tiny_to_bytes(t, &weights);
    return tiny_write_folder(&config, &weights, folder, err);
}

#endif
