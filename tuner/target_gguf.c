/*
 * Shapes from a GGUF's header: metadata and tensor infos, never the tensors.
 *
 * Every read is checked against the end of the bytes; counts are never used
 * to allocate. Format: little-endian; magic "GGUF", version 2 or 3, number of
 * tensors, number of pairs; pairs of key, type, value; tensor infos of name,
 * dimensions, type, offset.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target.h"

typedef struct cursor {
    const uint8_t *data;
    size_t size, at;
    bool ended; /* something reached past the end */
} cursor;

typedef struct text {
    const char *data;
    size_t size;
} text;

enum value_type {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    BOOL,
    STRING,
    ARRAY,
    U64,
    I64,
    F64,
    VALUE_TYPES,
};

static const uint8_t value_bytes[VALUE_TYPES] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8,
};

static const struct tensor_type {
    uint32_t id;
    const char *name;
    uint32_t weights, bytes;
} tensor_types[] = {
#define SPT_GGUF_TYPE(id, name, weights, bytes) {id, name, weights, bytes},
#include "gguf_types.def"
#undef SPT_GGUF_TYPE
};

/* What the keys said, before they become a target. */
typedef struct header {
    char arch[32];
    int64_t tokens; /* length of tokenizer.ggml.tokens */
    spt_target *t;
    int64_t key_length, value_length, window_pattern;
    bool output; /* a tensor output.weight exists */
    double body_bytes, body_weights, head_bytes, embed_bytes;
    int64_t embed_rows;
} header;

static uint64_t read_uint(cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if (c->size - c->at < bytes) {
        c->ended = true;
        c->at = c->size;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)c->data[c->at + i] << (8 * i);
    c->at += bytes;
    return value;
}

static void skip(cursor *c, uint64_t bytes)
{
    if (c->size - c->at < bytes) {
        c->ended = true;
        c->at = c->size;
    } else {
        c->at += (size_t)bytes;
    }
}

static text read_string(cursor *c)
{
    uint64_t size = read_uint(c, 8);
    text t = {(const char *)c->data + c->at, (size_t)size};
    size_t before = c->at;
    skip(c, size);
    if (c->ended)
        t = (text){(const char *)c->data + before, 0};
    return t;
}

static bool same(text t, const char *word)
{
    return t.size == strlen(word) && memcmp(t.data, word, t.size) == 0;
}

static bool skip_array(cursor *c, uint64_t *count)
{
    uint64_t type = read_uint(c, 4);
    *count = read_uint(c, 8);
    if (c->ended || type >= VALUE_TYPES || type == ARRAY)
        return false;
    if (type == STRING) {
        for (uint64_t i = 0; i < *count && !c->ended; i++)
            read_string(c);
    } else if (*count > c->size) {
        c->ended = true;
    } else {
        skip(c, *count * value_bytes[type]);
    }
    return !c->ended;
}

/* An integer value of any width; false for other types. */
static bool read_integer(cursor *c, uint32_t type, int64_t *value)
{
    uint64_t raw = read_uint(c, value_bytes[type]);
    switch (type) {
    case I8:
        *value = (int8_t)raw;
        return true;
    case I16:
        *value = (int16_t)raw;
        return true;
    case I32:
        *value = (int32_t)raw;
        return true;
    case U8:
    case U16:
    case U32:
    case BOOL:
    case U64:
    case I64:
        *value = (int64_t)raw;
        return true;
    default:
        return false;
    }
}

/* Keys below the architecture's name, and where they go. */
static int64_t *key_target(header *h, text key)
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
    };
    size_t prefix = strlen(h->arch);
    if (!prefix || key.size <= prefix + 1 ||
        memcmp(key.data, h->arch, prefix) != 0 || key.data[prefix] != '.')
        return NULL;
    text rest = {key.data + prefix + 1, key.size - prefix - 1};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (same(rest, keys[i].name))
            return (int64_t *)(void *)((char *)h->t + keys[i].offset);
    if (same(rest, "attention.key_length"))
        return &h->key_length;
    if (same(rest, "attention.value_length"))
        return &h->value_length;
    if (same(rest, "attention.sliding_window_pattern"))
        return &h->window_pattern;
    return NULL;
}

static spt_status read_pair(cursor *c, header *h, const char *name,
                            spt_error *err)
{
    text key = read_string(c);
    uint32_t type = (uint32_t)read_uint(c, 4);
    int shown = key.size > 60 ? 60 : (int)key.size;
    if (!c->ended && type >= VALUE_TYPES)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %.*s has type %u, expected 0 to %d", name,
                        shown, key.data, type, VALUE_TYPES - 1);
    if (c->ended)
        return SPT_OK;
    int64_t value = 0;
    int64_t *into = key_target(h, key);
    if (type == STRING) {
        text word = read_string(c);
        if (same(key, "general.architecture") && word.size < sizeof h->arch)
            snprintf(h->arch, sizeof h->arch, "%.*s", (int)word.size,
                     word.data);
    } else if (type == ARRAY) {
        uint64_t count = 0;
        if (!skip_array(c, &count) && !c->ended)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF key %.*s is an array of an unknown type",
                            name, shown, key.data);
        if (same(key, "tokenizer.ggml.tokens"))
            h->tokens = (int64_t)count;
        else if (into && into != &h->window_pattern)
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: GGUF key %.*s differs from layer to layer",
                            name, shown, key.data);
    } else if (read_integer(c, type, &value) && into) {
        if (value < 0 || value > ((int64_t)1 << 31))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF key %.*s is absurd: %" PRId64, name,
                            shown, key.data, value);
        *into = value;
    }
    return SPT_OK;
}

static const struct tensor_type *find_type(uint32_t id)
{
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++)
        if (tensor_types[i].id == id)
            return &tensor_types[i];
    return NULL;
}

static spt_status read_tensor(cursor *c, header *h, const char *name,
                              spt_error *err)
{
    text label = read_string(c);
    int shown = label.size > 60 ? 60 : (int)label.size;
    uint32_t dims = (uint32_t)read_uint(c, 4);
    double weights = 1;
    uint64_t last = 0;
    if (!c->ended && (dims < 1 || dims > 4))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF tensor %.*s has %u dimensions", name, shown,
                        label.data, dims);
    for (uint32_t i = 0; i < dims && !c->ended; i++) {
        last = read_uint(c, 8);
        weights *= (double)last;
    }
    const struct tensor_type *type = find_type((uint32_t)read_uint(c, 4));
    skip(c, 8);
    if (c->ended)
        return SPT_OK;
    if (!type)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: GGUF tensor %.*s has an unknown type", name, shown,
                        label.data);
    if (weights > 1e13)
        return spt_fail(err, SPT_E_FORMAT, "%s: GGUF tensor %.*s is absurd",
                        name, shown, label.data);
    double bytes = weights / type->weights * type->bytes;
    if (same(label, "token_embd.weight")) {
        h->embed_bytes = bytes;
        h->embed_rows = last < INT32_MAX ? (int64_t)last : 0;
    } else if (same(label, "output.weight")) {
        h->head_bytes = bytes;
        h->output = true;
    } else {
        h->body_bytes += bytes;
        /* Norms and biases are not multiplied. */
        h->body_weights += dims > 1 ? weights : 0;
    }
    return SPT_OK;
}

/* Fills what the keys leave open and turns bytes into bits per weight. */
static spt_status settle(header *h, const char *name, spt_error *err)
{
    spt_target *t = h->t;
    if (!h->arch[0])
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF without general.architecture", name);
    if (!t->layers || !t->hidden || !t->q_heads)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF keys %s.block_count, .embedding_length and "
                        ".attention.head_count are needed",
                        name, h->arch);
    if (!t->kv_heads)
        t->kv_heads = t->q_heads;
    t->head_dim = h->key_length ? h->key_length : t->hidden / t->q_heads;
    if (h->value_length && h->value_length != t->head_dim)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: keys and values differ in length", name);
    if (!t->vocab)
        t->vocab = h->tokens ? h->tokens : h->embed_rows;
    t->layers -= t->mtp_layers < t->layers ? t->mtp_layers : 0;
    if (t->window && h->window_pattern > 1)
        t->full_layers = t->layers / h->window_pattern;
    t->window_layers = t->window ? t->layers - t->full_layers : 0;
    t->full_layers = t->layers - t->window_layers;
    if (t->experts) {
        t->moe_layers = t->layers;
        if (!t->expert_ffn)
            t->expert_ffn = t->ffn;
    }
    t->tied_head = !h->output;
    double head = (double)t->vocab * (double)t->hidden;
    if (h->body_weights <= 0 || h->embed_bytes <= 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF without the tensors of a language model",
                        name);
    t->layer_bits = 8 * h->body_bytes / h->body_weights;
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
    cursor c = {data, size, 0, false};
    spt_target t = *target;
    header h = {.t = &t};
    uint64_t magic = read_uint(&c, 4), version = read_uint(&c, 4);
    uint64_t tensors = read_uint(&c, 8), pairs = read_uint(&c, 8);
    if (magic != 0x46554747)
        return spt_fail(err, SPT_E_FORMAT, "%s: not a GGUF", name);
    if (!c.ended && (version < 2 || version > 3))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: GGUF version %" PRIu64 ", expected 2 or 3", name,
                        version);
    for (uint64_t i = 0; i < pairs && !c.ended; i++)
        SPT_TRY(read_pair(&c, &h, name, err));
    for (uint64_t i = 0; i < tensors && !c.ended; i++)
        SPT_TRY(read_tensor(&c, &h, name, err));
    if (c.ended)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF ends early, inside its header", name);
    SPT_TRY(settle(&h, name, err));
    *target = t;
    return SPT_OK;
}
