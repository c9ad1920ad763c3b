/*
 * Shapes from a GGUF's header: metadata and tensor infos, never the tensors.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gguf.h"
#include "target.h"

/* What the file says, before it becomes a target. */
typedef struct header {
    const spt_gguf *gguf;
    char arch[32];
    spt_target *t;
    int64_t key_length, value_length, window_pattern;
    int64_t key_length_mla, value_length_mla;
    int64_t interval; /* of layers with full attention; 0 = all have it */
    int64_t ssm_inner, leading_dense, shared_experts;
    bool output; /* a tensor output.weight exists */
    double body_bytes, body_weights, head_bytes, embed_bytes;
    double mixer_bytes, mixer_weights; /* of the body: attention, states */
    int64_t embed_rows;
} header;

/* ARCH.name into *out; one number for all layers. */
static spt_status read_int(const header *h, const char *name, int64_t *out,
                           spt_error *err)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", h->arch, name);
    return spt_gguf_int(h->gguf, key, 0, (int64_t)1 << 31, out, err);
}

/* Keys below the architecture's name, and where they go. */
static spt_status read_keys(header *h, spt_error *err)
{
    static const struct {
        const char *name;
        size_t offset;
    } keys[] = {
        {"block_count", offsetof(spt_target, layers)},
        {"embedding_length", offsetof(spt_target, hidden)},
        {"feed_forward_length", offsetof(spt_target, ffn)},
        {"attention.head_count", offsetof(spt_target, q_heads)},
        {"attention.head_count_kv", offsetof(spt_target, kv_heads)},
        {"attention.sliding_window", offsetof(spt_target, window)},
        {"vocab_size", offsetof(spt_target, vocab)},
        {"expert_count", offsetof(spt_target, experts)},
        {"expert_used_count", offsetof(spt_target, experts_per_token)},
        {"expert_feed_forward_length", offsetof(spt_target, expert_ffn)},
        {"expert_shared_feed_forward_length", offsetof(spt_target, shared_ffn)},
        {"nextn_predict_layers", offsetof(spt_target, mtp_layers)},
        {"attention.kv_lora_rank", offsetof(spt_target, kv_rank)},
        {"attention.q_lora_rank", offsetof(spt_target, q_rank)},
        {"rope.dimension_count", offsetof(spt_target, rope_dim)},
        {"ssm.group_count", offsetof(spt_target, linear_k_heads)},
        {"ssm.state_size", offsetof(spt_target, linear_k_dim)},
        {"ssm.time_step_rank", offsetof(spt_target, linear_v_heads)},
        {"ssm.conv_kernel", offsetof(spt_target, linear_conv)},
    };
    spt_text arch = {"", 0};
    SPT_TRY(spt_gguf_string(h->gguf, "general.architecture", &arch, err));
    if (!arch.size || arch.size >= sizeof h->arch)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF without general.architecture",
                        spt_gguf_name(h->gguf));
    memcpy(h->arch, arch.data, arch.size);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        SPT_TRY(read_int(h, keys[i].name,
                         (int64_t *)(void *)((char *)h->t + keys[i].offset),
                         err));
    const struct {
        const char *name;
        int64_t *out;
    } others[] = {
        {"attention.key_length", &h->key_length},
        {"attention.value_length", &h->value_length},
        {"attention.key_length_mla", &h->key_length_mla},
        {"attention.value_length_mla", &h->value_length_mla},
        {"full_attention_interval", &h->interval},
        {"ssm.inner_size", &h->ssm_inner},
        {"leading_dense_block_count", &h->leading_dense},
        {"expert_shared_count", &h->shared_experts},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        SPT_TRY(read_int(h, others[i].name, others[i].out, err));
    /* An array of flags, one a layer, is not a pattern. */
    if (read_int(h, "attention.sliding_window_pattern", &h->window_pattern,
                 NULL) != SPT_OK)
        h->window_pattern = 0;
    return SPT_OK;
}

/* blk.7.attn_q.weight, blk.7.ssm_out.weight. */
static bool is_mixer(spt_text name)
{
    return memmem(name.data, name.size, ".attn_", 6) ||
           memmem(name.data, name.size, ".ssm_", 5);
}

static void add_tensor(header *h, const spt_gguf_tensor *tensor)
{
    double weights = 1, bytes = (double)tensor->bytes;
    for (int i = 0; i < tensor->dims; i++)
        weights *= (double)tensor->size[i];
    if (spt_text_is(tensor->name, "token_embd.weight")) {
        uint64_t rows = tensor->size[tensor->dims - 1];
        h->embed_bytes = bytes;
        h->embed_rows = rows < INT32_MAX ? (int64_t)rows : 0;
    } else if (spt_text_is(tensor->name, "output.weight")) {
        h->head_bytes = bytes;
        h->output = true;
    } else {
        h->body_bytes += bytes;
        /* Norms and biases are not multiplied. */
        h->body_weights += tensor->dims > 1 ? weights : 0;
        if (is_mixer(tensor->name)) {
            h->mixer_bytes += bytes;
            h->mixer_weights += tensor->dims > 1 ? weights : 0;
        }
    }
}

/* Patterns of windows that the architecture knows and the file does not. */
static int64_t known_pattern(const header *h)
{
    static const struct {
        const char *arch;
        int64_t pattern;
    } rows[] = {{"gpt-oss", 2}, {"gemma2", 2}, {"gemma3", 6}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].arch, h->arch) == 0)
            return rows[i].pattern;
    return 0;
}

static void set_experts(const header *h)
{
    spt_target *t = h->t;
    if (!t->experts)
        return;
    t->moe_layers = t->layers - h->leading_dense;
    if (!t->expert_ffn)
        t->expert_ffn = t->ffn;
    if (!t->shared_ffn)
        t->shared_ffn = h->shared_experts * t->expert_ffn;
    if (t->moe_layers == t->layers)
        t->ffn = 0; /* no layer has it */
}

static void set_layers(const header *h)
{
    spt_target *t = h->t;
    int64_t pattern = h->window_pattern ? h->window_pattern : known_pattern(h);
    t->layers -= t->mtp_layers < t->layers ? t->mtp_layers : 0;
    if (h->interval > 0) {
        t->full_layers = t->layers / h->interval;
        t->linear_layers = t->layers - t->full_layers;
        t->output_gate = true; /* of every family that has states so far */
    } else {
        if (t->window && pattern > 1)
            t->full_layers = t->layers / pattern;
        t->window_layers = t->window ? t->layers - t->full_layers : 0;
        t->full_layers = t->layers - t->window_layers;
        t->linear_conv = t->linear_k_heads = t->linear_v_heads = 0;
    }
    if (t->linear_v_heads)
        t->linear_v_dim = h->ssm_inner / t->linear_v_heads;
    set_experts(h);
}

/* Width of a head; for latent attention that of what is kept. */
static spt_status set_heads(const header *h, const char *name, spt_error *err)
{
    spt_target *t = h->t;
    if (!t->kv_heads)
        t->kv_heads = t->q_heads;
    if (t->kv_rank) {
        t->value_dim =
            h->value_length_mla ? h->value_length_mla : h->value_length;
        t->nope_dim = (h->key_length_mla ? h->key_length_mla : h->key_length) -
                      t->rope_dim;
        t->kv_heads = 1;
        t->head_dim = t->kv_rank + t->rope_dim;
        return SPT_OK;
    }
    t->head_dim = h->key_length ? h->key_length : t->hidden / t->q_heads;
    if (h->value_length && h->value_length != t->head_dim)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: keys and values differ in length", name);
    return SPT_OK;
}

/* Bits per weight: of attention, and of the rest of the layers. */
static void set_bits(const header *h)
{
    spt_target *t = h->t;
    double rest = h->body_weights - h->mixer_weights;
    double mean = 8 * h->body_bytes / h->body_weights;
    t->layer_bits =
        rest > 0 ? 8 * (h->body_bytes - h->mixer_bytes) / rest : mean;
    t->attention_bits =
        h->mixer_weights > 0 ? 8 * h->mixer_bytes / h->mixer_weights : mean;
}

/* Fills what the keys leave open and turns bytes into bits per weight. */
static spt_status settle(header *h, const char *name, spt_error *err)
{
    spt_target *t = h->t;
    spt_gguf_array tokens = {0};
    SPT_TRY(spt_gguf_get_array(h->gguf, "tokenizer.ggml.tokens", &tokens, err));
    if (!t->layers || !t->hidden || !t->q_heads)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF keys %s.block_count, .embedding_length and "
                        ".attention.head_count are needed",
                        name, h->arch);
    SPT_TRY(set_heads(h, name, err));
    if (!t->vocab)
        t->vocab = tokens.count ? (int64_t)tokens.count : h->embed_rows;
    set_layers(h);
    t->tied_head = !h->output;
    double head = (double)t->vocab * (double)t->hidden;
    if (h->body_weights <= 0 || h->embed_bytes <= 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF without the tensors of a language model",
                        name);
    set_bits(h);
    t->embed_bits = 8 * h->embed_bytes / (head > 0 ? head : 1);
    t->head_bits =
        h->output ? 8 * h->head_bytes / (head > 0 ? head : 1) : t->embed_bits;
    t->weight_bytes = h->body_bytes + h->head_bytes + h->embed_bytes;
    snprintf(t->weights, sizeof t->weights, "gguf");
    snprintf(t->source, sizeof t->source, "%s (GGUF, %s)", name, h->arch);
    return spt_target_finish(t, err);
}

spt_status spt_target_gguf(const void *data, size_t size, const char *name,
                           spt_target *target, spt_error *err)
{
    spt_gguf *gguf = NULL;
    SPT_TRY(spt_gguf_parse(&gguf, data, size, name, err));
    spt_target t = *target;
    header h = {.gguf = gguf, .t = &t};
    spt_status status = read_keys(&h, err);
    for (size_t i = 0; i < spt_gguf_tensor_count(gguf); i++)
        add_tensor(&h, spt_gguf_tensor_at(gguf, i));
    if (status == SPT_OK)
        status = settle(&h, name, err);
    spt_gguf_close(gguf);
    if (status == SPT_OK)
        *target = t;
    return status;
}
