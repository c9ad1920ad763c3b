/*
 * Reads a GGUF's header in file order. Every read is checked against the end
 * of the bytes, every count against the bytes that it needs at least, before
 * memory is taken for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_int.h"

enum {
    PAIR_LEAST = 8 + 4 + 1, /* bytes of the shortest pair */
    TENSOR_LEAST = 8 + 4 + 8 + 4 + 8,
    NAME_MOST = 63, /* bytes of a tensor's name in ggml */
};

/* Weights that a tensor can have: far above any, far below an overflow. */
#define WEIGHTS_MOST ((uint64_t)1 << 50)
#define FILE_MOST ((uint64_t)1 << 60) /* bytes, likewise */

typedef struct reader {
    spt_gguf *g;
    size_t at;
    bool ended; /* something reached past the end */
} reader;

static size_t left(const reader *r)
{
    return r->g->size - r->at;
}

static const uint8_t *take(reader *r, uint64_t bytes)
{
    const uint8_t *p = r->g->data + r->at;
    if (left(r) < bytes) {
        r->ended = true;
        r->at = r->g->size;
        return NULL;
    }
    r->at += (size_t)bytes;
    return p;
}

static uint64_t take_uint(reader *r, unsigned bytes)
{
    const uint8_t *p = take(r, bytes);
    uint64_t value = 0;
    for (unsigned i = 0; p && i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static spt_text take_text(reader *r)
{
    uint64_t size = take_uint(r, 8);
    const uint8_t *p = take(r, size);
    return p ? (spt_text){(const char *)p, (size_t)size} : (spt_text){"", 0};
}

static spt_status no_memory(const reader *r, spt_error *err)
{
    return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", r->g->name);
}

static spt_status check_end(const reader *r, spt_error *err)
{
    if (!r->ended)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT, "%s: GGUF ends early, inside its header",
                    r->g->name);
}

static spt_status read_array(reader *r, gguf_pair *pair, spt_error *err)
{
    spt_gguf_array *a = &pair->array;
    a->type = (uint32_t)take_uint(r, 4);
    a->count = take_uint(r, 8);
    SPT_TRY(check_end(r, err));
    unsigned bytes = spt_gguf_type_bytes(a->type);
    if (!bytes && a->type != SPT_GGUF_STRING)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s is an array of type %u, expected "
                        "numbers or texts",
                        r->g->name, spt_text_show(pair->key).text, a->type);
    if (a->count > left(r) / (bytes ? bytes : 8)) {
        r->ended = true;
        return check_end(r, err);
    }
    if (bytes) {
        a->data = take(r, a->count * bytes);
        return SPT_OK;
    }
    spt_text *texts =
        spt_arena_alloc(&r->g->arena, (size_t)a->count + 1, sizeof *texts);
    if (!texts)
        return no_memory(r, err);
    for (uint64_t i = 0; i < a->count && !r->ended; i++)
        texts[i] = take_text(r);
    a->texts = texts;
    return check_end(r, err);
}

static spt_status read_pair(reader *r, gguf_pair *pair, spt_error *err)
{
    pair->key = take_text(r);
    pair->type = (uint32_t)take_uint(r, 4);
    SPT_TRY(check_end(r, err));
    if (!pair->key.size)
        return spt_fail(err, SPT_E_FORMAT, "%s: GGUF has a key without a name",
                        r->g->name);
    if (pair->type >= SPT_GGUF_TYPES)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s has type %u, expected 0 to %d",
                        r->g->name, spt_text_show(pair->key).text, pair->type,
                        SPT_GGUF_TYPES - 1);
    if (pair->type == SPT_GGUF_ARRAY)
        return read_array(r, pair, err);
    if (pair->type == SPT_GGUF_STRING)
        pair->text = take_text(r);
    else
        pair->bits = take_uint(r, spt_gguf_type_bytes(pair->type));
    return check_end(r, err);
}

static int by_key(const void *a, const void *b)
{
    return spt_text_compare(((const gguf_pair *)a)->key,
                            ((const gguf_pair *)b)->key);
}

static spt_status read_pairs(reader *r, uint64_t count, spt_error *err)
{
    spt_gguf *g = r->g;
    if (count > left(r) / PAIR_LEAST)
        r->ended = true;
    SPT_TRY(check_end(r, err));
    g->pairs = spt_arena_alloc(&g->arena, (size_t)count + 1, sizeof *g->pairs);
    if (!g->pairs)
        return no_memory(r, err);
    for (size_t i = 0; i < count; i++)
        SPT_TRY(read_pair(r, &g->pairs[i], err));
    g->pair_count = (size_t)count;
    qsort(g->pairs, g->pair_count, sizeof *g->pairs, by_key);
    for (size_t i = 1; i < g->pair_count; i++)
        if (by_key(&g->pairs[i - 1], &g->pairs[i]) == 0)
            return spt_fail(err, SPT_E_FORMAT, "%s: GGUF key %s is there twice",
                            g->name, spt_text_show(g->pairs[i].key).text);
    return SPT_OK;
}

/* Dimensions, whole blocks, and with them the bytes. */
static spt_status read_shape(reader *r, spt_gguf_tensor *t, spt_error *err)
{
    const char *name = r->g->name;
    spt_text_shown shown = spt_text_show(t->name);
    uint64_t weights = 1, dims = take_uint(r, 4);
    if (!r->ended && (dims < 1 || dims > 4))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF tensor %s has %" PRIu64
                        " dimensions, expected 1 to 4",
                        name, shown.text, dims);
    t->dims = (int)dims;
    for (int i = 0; i < 4; i++)
        t->size[i] = i < t->dims ? take_uint(r, 8) : 1;
    uint32_t number = (uint32_t)take_uint(r, 4);
    t->offset = take_uint(r, 8);
    SPT_TRY(check_end(r, err));
    for (int i = 0; i < 4; i++) {
        if (!t->size[i] || t->size[i] > WEIGHTS_MOST / weights)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF tensor %s has the size %" PRIu64
                            " in dimension %d",
                            name, shown.text, t->size[i], i);
        weights *= t->size[i];
    }
    if (!spt_weight_from_gguf(number, &t->type))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: GGUF tensor %s has type %u, which is not known",
                        name, shown.text, number);
    const spt_weight_format *format = spt_weight_format_of(t->type);
    if (t->size[0] % (uint64_t)format->block_weights)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF tensor %s has rows of %" PRIu64
                        " weights, expected a multiple of %d (%s)",
                        name, shown.text, t->size[0], format->block_weights,
                        format->name);
    t->bytes = spt_weight_bytes(t->type, weights);
    return SPT_OK;
}

static uint64_t padded(uint64_t bytes, uint64_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

static spt_status read_tensor(reader *r, uint64_t *next, uint64_t alignment,
                              spt_gguf_tensor *t, spt_error *err)
{
    t->name = take_text(r);
    SPT_TRY(check_end(r, err));
    if (!t->name.size || t->name.size > NAME_MOST)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF tensor name '%s' has %zu bytes, expected 1 "
                        "to %d",
                        r->g->name, spt_text_show(t->name).text, t->name.size,
                        NAME_MOST);
    SPT_TRY(read_shape(r, t, err));
    if (t->offset != *next || *next > FILE_MOST)
        return spt_fail(
            err, SPT_E_FORMAT,
            "%s: GGUF tensor %s is at %" PRIu64 ", expected %" PRIu64,
            r->g->name, spt_text_show(t->name).text, t->offset, *next);
    r->g->data_end = *next + t->bytes;
    *next = padded(r->g->data_end, alignment);
    return SPT_OK;
}

static int by_name(const void *a, const void *b)
{
    return spt_text_compare((*(const spt_gguf_tensor *const *)a)->name,
                            (*(const spt_gguf_tensor *const *)b)->name);
}

static spt_status sort_tensors(spt_gguf *g, spt_error *err)
{
    for (size_t i = 0; i < g->tensor_count; i++)
        g->by_name[i] = &g->tensors[i];
    qsort(g->by_name, g->tensor_count, sizeof *g->by_name, by_name);
    for (size_t i = 1; i < g->tensor_count; i++)
        if (by_name(&g->by_name[i - 1], &g->by_name[i]) == 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: GGUF tensor %s is there twice", g->name,
                            spt_text_show(g->by_name[i]->name).text);
    return SPT_OK;
}

static spt_status read_tensors(reader *r, uint64_t count, spt_error *err)
{
    spt_gguf *g = r->g;
    int64_t alignment = 32;
    uint64_t next = 0;
    SPT_TRY(spt_gguf_int(g, "general.alignment", 1, 1 << 24, &alignment, err));
    if (alignment & (alignment - 1))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key general.alignment is %" PRId64
                        ", expected a power of two",
                        g->name, alignment);
    if (count > left(r) / TENSOR_LEAST)
        r->ended = true;
    SPT_TRY(check_end(r, err));
    g->tensors =
        spt_arena_alloc(&g->arena, (size_t)count + 1, sizeof *g->tensors);
    g->by_name =
        spt_arena_alloc(&g->arena, (size_t)count + 1, sizeof *g->by_name);
    if (!g->tensors || !g->by_name)
        return no_memory(r, err);
    for (size_t i = 0; i < count; i++)
        SPT_TRY(
            read_tensor(r, &next, (uint64_t)alignment, &g->tensors[i], err));
    g->tensor_count = (size_t)count;
    g->data_start = padded(r->at, (uint64_t)alignment);
    g->data_end += g->data_start;
    return sort_tensors(g, err);
}

static spt_status read_header(reader *r, spt_error *err)
{
    const char *name = r->g->name;
    uint64_t magic = take_uint(r, 4), version = take_uint(r, 4);
    uint64_t tensors = take_uint(r, 8), pairs = take_uint(r, 8);
    if (magic != 0x46554747)
        return spt_fail(err, SPT_E_FORMAT, "%s: not a GGUF", name);
    SPT_TRY(check_end(r, err));
    if (version && !(version & 0xffff))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: GGUF is big-endian, expected little-endian", name);
    if (version < 2 || version > 3)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: GGUF version %" PRIu64 ", expected 2 or 3", name,
                        version);
    SPT_TRY(read_pairs(r, pairs, err));
    return read_tensors(r, tensors, err);
}

spt_status spt_gguf_parse(spt_gguf **out, const void *data, size_t size,
                          const char *name, spt_error *err)
{
    spt_gguf *g = spt_calloc(1, sizeof *g);
    if (g)
        g->name = spt_arena_strdup(&g->arena, name, strlen(name));
    if (!g || !g->name) {
        spt_gguf_close(g);
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    }
    g->data = data;
    g->size = size;
    reader r = {.g = g};
    spt_status status = read_header(&r, err);
    if (status == SPT_OK)
        *out = g;
    else
        spt_gguf_close(g);
    return status;
}

void spt_gguf_close(spt_gguf *gguf)
{
    if (!gguf)
        return;
    spt_arena_free(&gguf->arena);
    spt_free(gguf);
}

spt_status spt_gguf_complete(const spt_gguf *gguf, spt_error *err)
{
    if (!gguf->tensor_count || gguf->data_end <= gguf->size)
        return SPT_OK;
    return spt_fail(
        err, SPT_E_FORMAT,
        "%s: GGUF ends early: %zu bytes, its tensors end at %" PRIu64,
        gguf->name, gguf->size, gguf->data_end);
}
