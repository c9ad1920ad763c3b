/*
 * A model's files: its shape, and its tensors where they lie in the mapping.
 *
 * From a GGUF (split ones through their first part) or from a folder with
 * config.json and safetensors (sharded ones with their index). Everything is
 * checked when it is opened: the architecture, every tensor that the
 * architecture needs, its shape and its type. Read-only afterwards, so that
 * threads may share it.
 */
#ifndef SPT_MODEL_FILE_H
#define SPT_MODEL_FILE_H

#include "gguf.h"
#include "rope.h"
#include "weight.h"

typedef enum spt_role {
#define SPT_ROLE(NAME, per, when, gguf, hf, hf_post, rows, cols) \
    SPT_ROLE_##NAME,
#include "model_roles.def"
#undef SPT_ROLE
    SPT_ROLES,
} spt_role;

typedef enum spt_activation {
    SPT_ACTIVATION_SILU,
    SPT_ACTIVATION_GELU_TANH,
} spt_activation;

/*
 * A head: a drafter of one layer that reads what another model, its target,
 * has in its residual after some layers. EAGLE-3 takes a row of features g and
 * the token that follows its position:
 *
 *   g = FC [x after layer[0]; x after layer[1]; ...]      of the target
 *   h = [norm(TOKEN_EMBED[id], ATTN_NORM); norm(g, HIDDEN_NORM)]
 *   x = norm_residual ? norm(g, HIDDEN_NORM) : g
 *
 * and goes on as a layer does at h = norm(x, ATTN_NORM). Where no row of the
 * target is there, x after the layer is the next g.
 */
enum { SPT_TAPS_MAX = 8 };

typedef struct spt_head {
    int taps; /* layers of the target that are read; 0: this is no head */
    int layer[SPT_TAPS_MAX]; /* (taps) ascending, 0 = the first */
    bool told; /* the file names them; else layer is not set */
    bool norm_residual;
    bool own_embed; /* else TOKEN_EMBED is the target's */
    int target_hidden, target_vocab;
    const int32_t *to_target; /* (vocab) ids of its tokens, all different;
                                 NULL: the same */
} spt_head;

/*
 * Rows go through a layer like this, x being the fp32 residual:
 *
 *   h = norm(x, ATTN_NORM)
 *   q, k, v = Q h (+ Q_BIAS), K h (+ K_BIAS), V h (+ V_BIAS)
 *   q, k = norm per head (q, Q_NORM), (k, K_NORM)     if qk_norm
 *   q, k = rotated
 *   a = O attention(q, k, v)          logits: softcap(attn_scale * q.k)
 *   x += post_norms ? norm(a, POST_ATTN_NORM) : a
 *   h = norm(x, FFN_NORM)
 *   f = DOWN (activation(GATE h) * (UP h))
 *   x += post_norms ? norm(f, POST_FFN_NORM) : f
 *
 * with norm(x, w) = x / sqrt(mean(x^2) + norm_eps) * (w + norm_offset).
 * Before the first layer x = embed_scale * TOKEN_EMBED[id]; after the last,
 * logits = softcap(OUTPUT norm(x, OUTPUT_NORM)).
 */
typedef struct spt_model_config {
    char architecture[32]; /* llama, qwen2, qwen3, gemma3, eagle3 */
    char name[96]; /* of the model, as the file has it; or the file's */
    int layers, hidden, ffn;
    int q_heads, kv_heads, head_dim;
    int vocab; /* rows of TOKEN_EMBED; the tokenizer may have fewer */
    int context; /* tokens the model was made for */
    double norm_eps;
    double norm_offset; /* added to every norm weight: 0 or 1 */
    double embed_scale; /* 1, or sqrt(hidden) */
    double attn_scale; /* 1/sqrt(head_dim) unless the file has its own */
    double attn_softcap, final_softcap; /* c tanh(x/c); 0 = none */
    spt_activation activation;
    bool qk_norm, attn_bias, post_norms;
    bool tied_head; /* OUTPUT is TOKEN_EMBED */
    int window; /* tokens a windowed layer sees, itself included; 0 = none */
    int window_period; /* layer l is without window when l % period is
                          period - 1; 0 = every layer has the window */
    spt_rope rope;
    spt_head head;
} spt_model_config;

/* A matrix as stored: row r is `cols` weights from r * row_bytes on. */
typedef struct spt_tensor {
    const char *name; /* in the file */
    spt_weight_type type; /* one that decodes */
    int rows, cols; /* a vector has one row */
    size_t row_bytes, bytes;
    const void *data; /* (rows, cols) in the mapping; aligned as the file is */
} spt_tensor;

typedef struct spt_model spt_model;

/*
 * path: a .gguf, or a folder with config.json and *.safetensors.
 * *out is for spt_model_close, which takes NULL too and ends every pointer
 * that came from the model.
 */
spt_status spt_model_open(spt_model **out, const char *path, spt_error *err);
void spt_model_close(spt_model *model);

/* A GGUF in memory, which must outlive the model; name is what errors say. */
spt_status spt_model_open_bytes(spt_model **out, const void *data, size_t size,
                                const char *name, spt_error *err);

const spt_model_config *spt_model_config_of(const spt_model *model);

/* NULL when the model has no such tensor. layer is 0 for the model's own;
   OUTPUT of a tied head gives TOKEN_EMBED. */
const spt_tensor *spt_model_tensor(const spt_model *model, spt_role role,
                                   int layer);

/* Tokens that the layer sees, or 0 when it sees all. */
int spt_model_layer_window(const spt_model_config *config, int layer);

/* Bytes of all tensors that have a role (a tied head counts once). */
uint64_t spt_model_weight_bytes(const spt_model *model);

/* Where the tokenizer comes from: the GGUF, or NULL and the folder. */
const spt_gguf *spt_model_gguf(const spt_model *model);
const char *spt_model_folder(const spt_model *model);

#endif
