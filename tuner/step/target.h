/*
 * The target: the shape of a language model as far as a decode step's time
 * and memory depend on it. From a Hugging Face config.json, a GGUF's header,
 * a preset of profiles/models/, or, with nothing but head counts, a stand-in
 * whose name says so.
 */
#ifndef SPT_TARGET_H
#define SPT_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* A layer of drafters that are trained for a target, where it is not like the
   target's own: published, or what the config says of dense layers. */
typedef struct spt_draft_layer {
    int64_t ffn; /* 0 = nothing is known */
    int64_t q_heads, kv_heads, head_dim; /* 0 = the target's */
    char source[100]; /* of published figures, or "" */
} spt_draft_layer;

typedef struct spt_target {
    char name[64]; /* qwen3-8b */
    char source[200]; /* where the shape comes from */
    char drafter[64]; /* preset of its usual external drafter, or "" */
    char weights[16]; /* format, a name of weights.def or "gguf" */
    bool stand_in; /* no real model: shape derived from the heads */

    int64_t layers; /* decoder layers in all */
    int64_t full_layers, window_layers, linear_layers; /* by attention */
    int64_t window; /* tokens, of window_layers */
    int64_t hidden, ffn, vocab;
    int64_t q_heads, kv_heads, head_dim;
    bool tied_head; /* the embedding is the head */
    bool output_gate; /* attention's query projection is twice as wide */
    /* Latent attention (MLA), absorbed form: one KV head of kv_rank + rope_dim
       numbers per token, which all query heads read. kv_rank 0 = none. */
    int64_t kv_rank, q_rank, nope_dim, rope_dim, value_dim;
    int64_t mtp_layers; /* of the checkpoint; 0 = none */

    /* Mixture of experts; experts 0 = dense. */
    int64_t experts, experts_per_token, expert_ffn, shared_ffn, moe_layers;
    double experts_exponent; /* of rows of one sequence; 0 = the usual one */

    /* Linear attention (gated delta rule and the like). */
    int64_t linear_k_heads, linear_v_heads, linear_k_dim, linear_v_dim,
        linear_conv;

    /* Bits per weight: of feed-forward layers and experts, of attention, of
       the head and the embedding. */
    double layer_bits, attention_bits, head_bits, embed_bits;
    double weight_bytes; /* whole model on the board */

    spt_draft_layer draft;
} spt_target;

/* Weight formats: index by name, or -1; NULL past the end. */
int spt_weights_find(const char *name);
const char *spt_weights_name(int index);
double spt_weights_bits(int index);

/*
 * name: a file (config.json, .gguf, or another .json of either kind), a folder
 * that holds config.json, or a preset. home: the folder that holds profiles/.
 * weights: a name of weights.def, or NULL for the file's own (GGUF), those in
 * which a preset is published, or bf16.
 * With a GGUF its tensors give the sizes, and weights must be NULL or "gguf".
 */
spt_status spt_target_load(const char *home, const char *name,
                           const char *weights, spt_target *target,
                           spt_error *err);

/* The stand-in for a head grouping; the name says what it is. */
spt_status spt_target_stand_in(int q_heads, int kv_heads, int head_dim,
                               const char *weights, spt_target *target,
                               spt_error *err);

/* A shape of that many weights, `active` of them for one row (less: a mixture
   of experts), for models of which only the size is known. */
spt_status spt_target_sized(const char *name, double params, double active,
                            const char *weights, spt_target *target,
                            spt_error *err);

/* From bytes in memory; name is what errors call them. */
spt_status spt_target_config(const char *text, size_t size, const char *name,
                             spt_target *target, spt_error *err);
spt_status spt_target_gguf(const void *data, size_t size, const char *name,
                           spt_target *target, spt_error *err);

/* Checks the shape and sets weight_bytes from shape and bits. */
spt_status spt_target_finish(spt_target *target, spt_error *err);
spt_status spt_target_set_weights(spt_target *target, const char *weights,
                                  spt_error *err);

/* Bytes of a KV element: bf16, fp16, fp8 and GGUF's q8_0 and q4_0 with their
   scales, in any usual spelling (bfloat16, half, fp8_e4m3, F16); negative for
   another word. And the word that stands here for it, or NULL. */
double spt_kv_type_bytes(const char *word);
const char *spt_kv_type_name(const char *word);

/* Weights of one layer by kind, and of the head. */
double spt_target_attention_params(const spt_target *target);
double spt_target_linear_params(const spt_target *target);
double spt_target_ffn_params(const spt_target *target);
double spt_target_params(const spt_target *target);
/* Weights of all layers that every forward reads: of attention (linear
   attention too), and of feed-forward layers, shared experts and routers; and
   those of one routed expert of one layer. */
double spt_target_mixer_params(const spt_target *target);
double spt_target_dense_params(const spt_target *target);
double spt_target_expert_params(const spt_target *target);

/* KV of one token in one layer, and what a sequence of `context` tokens holds
   in all layers (windows and linear states included). */
double spt_target_kv_bytes(const spt_target *target, double element_bytes);
double spt_target_sequence_bytes(const spt_target *target, double element_bytes,
                                 double context);
/* How often boards that share every layer hold the KV: more boards than KV
   heads hold copies, of latent attention one each. And the bytes of a sequence
   on all of them. */
double spt_target_kv_copies(const spt_target *target, int boards);
double spt_target_shared_bytes(const spt_target *target, double element_bytes,
                               double context, int boards);

/*
 * Experts that a step touches in one layer with so many rows of each of the
 * sequences. Sequences route independently; rows of one sequence share experts
 * and count as rows_each^exponent of them. Assumed, from two sides: rates of
 * gpt-oss-120b with EAGLE-3 on H100 and of DeepSeek-R1 with MTP on B200 fit
 * 0.7; and Cohere count 2.5 times one row's experts in four rows of a sequence,
 * 31 % fewer than independent rows touch (cohere.com/blog, "Why MoE models get
 * more from speculative decoding", 2026-04-21), where 0.7 says 2.5.
 */
#define SPT_EXPERTS_EXPONENT 0.7
double spt_target_experts_touched(const spt_target *target, double sequences,
                                  double rows_each);

#endif
