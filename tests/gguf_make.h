/*
 * Writes GGUFs for tests: pairs and tensors in the order in which they come,
 * offsets and padding as the format wants them.
 *
 *   gguf_maker m = {0};
 *   gguf_put_text(&m, "general.architecture", "llama");
 *   gguf_put_tensor(&m, "a.weight", SPT_WEIGHT_F32, 64, 3, NULL);
 *   size_t header = gguf_finish(&m, &file);
 */
#ifndef SPT_GGUF_MAKE_H
#define SPT_GGUF_MAKE_H

#include <stdint.h>
#include <string.h>

#include "gguf.h"
#include "mem.h"

typedef struct gguf_maker {
    spt_buf pairs, infos, data;
    uint64_t pair_count, tensor_count;
    uint32_t version; /* 0 = 3 */
} gguf_maker;

enum { GGUF_MAKE_ALIGNMENT = 32 };

__attribute__((unused)) static void gguf_bytes(spt_buf *b, uint64_t value,
                                               unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        char byte = i < 8 ? (char)(value >> (8 * i)) : 0;
        spt_buf_add(b, &byte, 1);
    }
}

__attribute__((unused)) static void gguf_bytes_text(spt_buf *b,
                                                    const char *text)
{
    gguf_bytes(b, strlen(text), 8);
    spt_buf_puts(b, text);
}

__attribute__((unused)) static void gguf_key(gguf_maker *m, const char *key,
                                             spt_gguf_type type)
{
    gguf_bytes_text(&m->pairs, key);
    gguf_bytes(&m->pairs, type, 4);
    m->pair_count++;
}

__attribute__((unused)) static void
gguf_put_text(gguf_maker *m, const char *key, const char *text)
{
    gguf_key(m, key, SPT_GGUF_STRING);
    gguf_bytes_text(&m->pairs, text);
}

__attribute__((unused)) static void gguf_put_int(gguf_maker *m, const char *key,
                                                 uint32_t value)
{
    gguf_key(m, key, SPT_GGUF_U32);
    gguf_bytes(&m->pairs, value, 4);
}

__attribute__((unused)) static void gguf_put_bool(gguf_maker *m,
                                                  const char *key, bool value)
{
    gguf_key(m, key, SPT_GGUF_BOOL);
    gguf_bytes(&m->pairs, value, 1);
}

__attribute__((unused)) static void gguf_put_f32(gguf_maker *m, const char *key,
                                                 float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    gguf_key(m, key, SPT_GGUF_F32);
    gguf_bytes(&m->pairs, bits, 4);
}

/* An array of texts, one after the other, or of i32, or of zeros in f32. */
__attribute__((unused)) static void gguf_put_texts(gguf_maker *m,
                                                   const char *key,
                                                   const char *const *texts,
                                                   size_t count)
{
    gguf_key(m, key, SPT_GGUF_ARRAY);
    gguf_bytes(&m->pairs, SPT_GGUF_STRING, 4);
    gguf_bytes(&m->pairs, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_bytes_text(&m->pairs, texts[i]);
}

__attribute__((unused)) static void
gguf_put_ints(gguf_maker *m, const char *key, const int *values, size_t count)
{
    gguf_key(m, key, SPT_GGUF_ARRAY);
    gguf_bytes(&m->pairs, SPT_GGUF_I32, 4);
    gguf_bytes(&m->pairs, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_bytes(&m->pairs, (uint32_t)values[i], 4);
}

__attribute__((unused)) static void
gguf_put_zeros(gguf_maker *m, const char *key, size_t count)
{
    gguf_key(m, key, SPT_GGUF_ARRAY);
    gguf_bytes(&m->pairs, SPT_GGUF_F32, 4);
    gguf_bytes(&m->pairs, count, 8);
    for (size_t i = 0; i < count; i++)
        gguf_bytes(&m->pairs, 0, 4);
}

__attribute__((unused)) static void gguf_pad(spt_buf *b)
{
    while (b->size % GGUF_MAKE_ALIGNMENT)
        gguf_bytes(b, 0, 1);
}

/* rows 0: a vector. data NULL: zeros. */
__attribute__((unused)) static void
gguf_put_tensor(gguf_maker *m, const char *name, spt_weight_type type,
                uint64_t cols, uint64_t rows, const void *data)
{
    uint64_t bytes = spt_weight_bytes(type, cols * (rows ? rows : 1));
    gguf_bytes_text(&m->infos, name);
    gguf_bytes(&m->infos, rows ? 2 : 1, 4);
    gguf_bytes(&m->infos, cols, 8);
    if (rows)
        gguf_bytes(&m->infos, rows, 8);
    gguf_bytes(&m->infos, spt_weight_format_of(type)->gguf, 4);
    gguf_pad(&m->data);
    gguf_bytes(&m->infos, m->data.size, 8);
    if (data)
        spt_buf_add(&m->data, data, bytes);
    for (uint64_t i = 0; !data && i < bytes; i++)
        gguf_bytes(&m->data, 0, 1);
    m->tensor_count++;
}

/* Appends the file to out, frees the maker's memory; bytes of the header. */
__attribute__((unused)) static size_t gguf_finish(gguf_maker *m, spt_buf *out)
{
    spt_buf_puts(out, "GGUF");
    gguf_bytes(out, m->version ? m->version : 3, 4);
    gguf_bytes(out, m->tensor_count, 8);
    gguf_bytes(out, m->pair_count, 8);
    spt_buf_add(out, m->pairs.data ? m->pairs.data : "", m->pairs.size);
    spt_buf_add(out, m->infos.data ? m->infos.data : "", m->infos.size);
    size_t header = out->size;
    gguf_pad(out);
    spt_buf_add(out, m->data.data ? m->data.data : "", m->data.size);
    spt_buf_free(&m->pairs);
    spt_buf_free(&m->infos);
    spt_buf_free(&m->data);
    *m = (gguf_maker){0};
    return header;
}

#endif
