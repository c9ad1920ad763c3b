/*
 * Tiny seeded heads of EAGLE-3 for tests, as folders in the layouts that are
 * published: a layer like the target's that reads its hidden states.
 *
 *   tiny_head h = tiny_head_of(&target);
 *   tiny_head_folder(&h, folder, &err);
 */
#ifndef SPT_TINY_HEAD_H
#define SPT_TINY_HEAD_H

#include <sys/stat.h>
#include <unistd.h>

#include "tiny_model.h"

typedef enum tiny_layout {
    TINY_MIDLAYER, /* SafeAILab: midlayer.*, config of llama */
    TINY_LAYERS, /* layers.0.*, target_layer_ids */
    TINY_SPECULATORS, /* transformer_layer_config */
} tiny_layout;

typedef struct tiny_head {
    tiny_model layer; /* its own shape; vocab is what it drafts, own_head
                         whether there is a d2t */
    tiny_layout layout;
    int target_hidden, target_vocab;
    int taps, tap[SPT_TAPS_MAX]; /* layers whose output is read */
    bool own_embed, norm_residual, qk_norm;
    const int32_t *drafts; /* (vocab) ids of the target; NULL: every second */
    const char *without; /* leave this tensor out */
    const char *more; /* fields of the config, each with a comma before it */
} tiny_head;

/* For that target, of its shape: taps after its first and last layers. */
__attribute__((unused)) static tiny_head tiny_head_of(const tiny_model *target)
{
    tiny_head h = {.layer = *target,
                   .layout = TINY_LAYERS,
                   .target_hidden = target->hidden,
                   .target_vocab = target->vocab,
                   .taps = 3,
                   .tap = {0, 0, target->layers - 1}};
    h.layer.arch = "llama";
    h.layer.type = SPT_WEIGHT_BF16;
    h.layer.vocab = target->vocab / 2;
    h.layer.own_head = true;
    h.layer.layers = 1;
    h.layer.seed = 77;
    return h;
}

typedef struct tiny_head_writer {
    tiny_writer w;
    const tiny_head *h;
    tiny_safetensors to;
} tiny_head_writer;

__attribute__((unused)) static void
tiny_head_sink(void *user, const char *name, const char *hf,
               spt_weight_type type, int cols, int rows, const void *data)
{
    tiny_head_writer *w = user;
    if (!w->h->without || strcmp(w->h->without, hf) != 0)
        tiny_to_safetensors(&w->to, name, hf, type, cols, rows, data);
}

/* A tensor of the layer; rows 0: a vector. */
__attribute__((unused)) static void
tiny_head_layer(tiny_head_writer *w, const char *tail, int cols, int rows)
{
    static const char *const before[] = {"midlayer.", "layers.0.", "layers.0."};
    char name[96];
    snprintf(name, sizeof name, "%s%s.weight", before[w->h->layout], tail);
    if (rows)
        tiny_matrix(&w->w, name, name, cols, rows);
    else
        tiny_vector(&w->w, name, name, cols, 1, 0.1f);
}

/* d2t: how far each drafted id is from the target's. */
__attribute__((unused)) static void tiny_head_map(tiny_head_writer *w)
{
    const tiny_head *h = w->h;
    int64_t *map = calloc((size_t)h->layer.vocab, sizeof *map);
    for (int i = 0; i < h->layer.vocab; i++)
        map[i] = (h->drafts ? h->drafts[i] : 2 * i) - i;
    tiny_head_sink(w, "d2t", "d2t", SPT_WEIGHT_I64, h->layer.vocab, 0, map);
    free(map);
}

__attribute__((unused)) static void tiny_head_tensors(tiny_head_writer *w)
{
    const tiny_head *h = w->h;
    const tiny_model *l = &h->layer;
    int q = l->q_heads * l->head_dim, kv = l->kv_heads * l->head_dim;
    w->w.state = l->seed;
    tiny_matrix(&w->w, "", "fc.weight", h->taps * h->target_hidden, l->hidden);
    tiny_head_layer(w, "input_layernorm", l->hidden, 0);
    tiny_head_layer(w, "hidden_norm", l->hidden, 0);
    tiny_head_layer(w, "self_attn.q_proj", 2 * l->hidden, q);
    tiny_head_layer(w, "self_attn.k_proj", 2 * l->hidden, kv);
    tiny_head_layer(w, "self_attn.v_proj", 2 * l->hidden, kv);
    tiny_head_layer(w, "self_attn.o_proj", q, l->hidden);
    if (h->qk_norm) {
        tiny_head_layer(w, "self_attn.q_norm", l->head_dim, 0);
        tiny_head_layer(w, "self_attn.k_norm", l->head_dim, 0);
    }
    tiny_head_layer(w, "post_attention_layernorm", l->hidden, 0);
    tiny_head_layer(w, "mlp.gate_proj", l->hidden, l->ffn);
    tiny_head_layer(w, "mlp.up_proj", l->hidden, l->ffn);
    tiny_head_layer(w, "mlp.down_proj", l->ffn, l->hidden);
    tiny_vector(&w->w, "", "norm.weight", l->hidden, 1, 0.1f);
    tiny_matrix(&w->w, "", "lm_head.weight", l->hidden, l->vocab);
    if (h->own_embed)
        tiny_matrix(&w->w, "", "embed_tokens.weight", l->hidden,
                    h->target_vocab);
    if (l->own_head)
        tiny_head_map(w);
}

/* The taps in the numbers of the layout. */
__attribute__((unused)) static void tiny_head_taps(const tiny_head *h,
                                                   spt_buf *out)
{
    static const char *const before[] = {
        ",\"eagle_config\":{\"eagle_aux_hidden_state_layer_ids\":[",
        ",\"target_layer_ids\":[", ",\"eagle_aux_hidden_state_layer_ids\":["};
    if (!h->taps || h->tap[0] < 0)
        return;
    spt_buf_puts(out, before[h->layout]);
    for (int i = 0; i < h->taps; i++)
        spt_buf_printf(out, "%s%d", i ? "," : "",
                       h->tap[i] +
                           (h->layout != TINY_LAYERS && h->tap[0] != 1));
    spt_buf_puts(out, h->layout == TINY_MIDLAYER ? "]}" : "]");
}

__attribute__((unused)) static void tiny_head_config(const tiny_head *h,
                                                     spt_buf *out)
{
    tiny_model layer = h->layer;
    spt_buf own = {0};
    layer.vocab = h->target_vocab;
    spt_buf_printf(&own,
                   ",\"draft_vocab_size\":%d,\"target_hidden_size\":%d,"
                   "\"norm_before_residual\":%s",
                   h->layer.vocab, h->target_hidden,
                   h->norm_residual ? "true" : "false");
    tiny_head_taps(h, &own);
    spt_buf_puts(&own, h->more ? h->more : "");
    if (h->layout == TINY_SPECULATORS) {
        spt_buf_puts(out, "{\"speculators_model_type\":\"eagle3\","
                          "\"transformer_layer_config\":");
        tiny_config(&layer, "", out);
        spt_buf_printf(out, "%s}\n", own.data);
    } else {
        tiny_config(&layer, own.data, out);
    }
    spt_buf_free(&own);
}

/* Writes config.json and model.safetensors into an existing folder. */
__attribute__((unused)) static spt_status
tiny_head_folder(const tiny_head *h, const char *folder, spt_error *err)
{
    spt_buf config = {0}, weights = {0};
    tiny_head_writer w = {.h = h};
    w.w = (tiny_writer){.t = &h->layer, .sink = tiny_head_sink, .user = &w};
    tiny_head_config(h, &config);
    tiny_head_tensors(&w);
    tiny_join(&w.to, &weights);
    return tiny_write_folder(&config, &weights, folder, err);
}

/* The same into a new temporary folder, whose name goes to path. */
__attribute__((unused)) static bool tiny_head_write(const tiny_head *h,
                                                    char *path)
{
    spt_error err;
    strcpy(path, "/tmp/spectune-head-XXXXXX");
    return mkdtemp(path) && tiny_head_folder(h, path, &err) == SPT_OK;
}

__attribute__((unused)) static void tiny_head_remove(const char *path)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        char *file = spt_path_join(path, files[i]);
        unlink(file);
        spt_free(file);
    }
    rmdir(path);
}

#endif
