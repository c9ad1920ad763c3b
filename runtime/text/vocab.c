/* Tables of a vocabulary: texts to ids, pairs to merges. */
#include <string.h>

#include "tokenizer_int.h"

/* FNV-1a, 32 bits. */
static uint32_t hash_text(const char *text, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (uint8_t)text[i]) * 16777619u;
    return h;
}

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t z = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    z *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(z >> 32);
}

/* Slots for `count` entries, at most half full. */
static uint32_t mask_for(size_t count)
{
    uint32_t slots = 16;
    while (slots < 2 * count)
        slots *= 2;
    return slots - 1;
}

static spt_text text_of(const spt_tokenizer *t, int32_t id, bool bytes)
{
    const token *k = &t->tokens[id];
    return bytes ? k->bytes : k->text;
}

static int32_t find(const spt_tokenizer *t, const text_map *map, bool bytes,
                    const char *text, size_t size)
{
    if (!map->slots)
        return -1;
    for (uint32_t i = hash_text(text, size) & map->mask; map->slots[i] >= 0;
         i = (i + 1) & map->mask) {
        spt_text seen = text_of(t, map->slots[i], bytes);
        if (seen.size == size && memcmp(seen.data, text, size) == 0)
            return map->slots[i];
    }
    return -1;
}

/* The first token of a text keeps it. */
static void add(spt_tokenizer *t, text_map *map, bool bytes, int32_t id)
{
    spt_text text = text_of(t, id, bytes);
    uint32_t i = hash_text(text.data, text.size) & map->mask;
    for (; map->slots[i] >= 0; i = (i + 1) & map->mask) {
        spt_text seen = text_of(t, map->slots[i], bytes);
        if (spt_text_compare(seen, text) == 0)
            return;
    }
    map->slots[i] = id;
}

static bool make_map(spt_tokenizer *t, text_map *map)
{
    map->mask = mask_for((size_t)t->size);
    map->slots =
        spt_arena_alloc(&t->arena, (size_t)map->mask + 1, sizeof *map->slots);
    for (uint32_t i = 0; map->slots && i <= map->mask; i++)
        map->slots[i] = -1;
    return map->slots != NULL;
}

bool spt_token_is_cut(const token *k)
{
    return (k->kind == TOKEN_CONTROL || k->kind == TOKEN_USER) &&
           k->text.size > 0;
}

spt_status spt_vocab_index(spt_tokenizer *t, spt_error *err)
{
    if (!make_map(t, &t->by_text) || !make_map(t, &t->by_cut) ||
        (t->byte_level && !make_map(t, &t->by_bytes)))
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    for (int32_t id = 0; id < t->size; id++) {
        add(t, &t->by_text, false, id);
        if (spt_token_is_cut(&t->tokens[id]))
            add(t, &t->by_cut, false, id);
        if (t->byte_level && t->tokens[id].kind == TOKEN_NORMAL)
            add(t, &t->by_bytes, true, id);
    }
    return SPT_OK;
}

int32_t spt_vocab_by_text(const spt_tokenizer *t, const char *text, size_t size)
{
    return find(t, &t->by_text, false, text, size);
}

int32_t spt_vocab_by_cut(const spt_tokenizer *t, const char *text, size_t size)
{
    return find(t, &t->by_cut, false, text, size);
}

int32_t spt_vocab_by_bytes(const spt_tokenizer *t, const char *text,
                           size_t size)
{
    return find(t, &t->by_bytes, true, text, size);
}

spt_status spt_merges_room(spt_tokenizer *t, size_t count, spt_error *err)
{
    if (count > 1u << 26)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %zu merges, expected at most %u", t->name, count,
                        1u << 26);
    merge_map *m = &t->merges;
    m->mask = mask_for(count);
    m->slots =
        spt_arena_alloc(&t->arena, (size_t)m->mask + 1, sizeof *m->slots);
    if (!m->slots)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    for (uint32_t i = 0; i <= m->mask; i++)
        m->slots[i].left = -1;
    return SPT_OK;
}

void spt_merges_add(spt_tokenizer *t, int32_t left, int32_t right, int32_t rank,
                    int32_t made)
{
    merge_map *m = &t->merges;
    uint32_t i = hash_pair(left, right) & m->mask;
    for (; m->slots[i].left >= 0; i = (i + 1) & m->mask)
        if (m->slots[i].left == left && m->slots[i].right == right)
            return;
    m->slots[i] = (merge_slot){left, right, rank, made};
}

const merge_slot *spt_merges_find(const merge_map *m, int32_t left,
                                  int32_t right)
{
    for (uint32_t i = hash_pair(left, right) & m->mask; m->slots[i].left >= 0;
         i = (i + 1) & m->mask)
        if (m->slots[i].left == left && m->slots[i].right == right)
            return &m->slots[i];
    return NULL;
}

spt_status spt_merges_pair(spt_tokenizer *t, spt_text left, spt_text right,
                           int32_t rank, spt_error *err)
{
    char joined[1024];
    if (left.size + right.size > sizeof joined)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: merge %d is longer than %zu bytes", t->name, rank,
                        sizeof joined);
    memcpy(joined, left.data, left.size);
    memcpy(joined + left.size, right.data, right.size);
    int32_t l = spt_vocab_by_text(t, left.data, left.size);
    int32_t r = spt_vocab_by_text(t, right.data, right.size);
    int32_t made = spt_vocab_by_text(t, joined, left.size + right.size);
    if (l < 0 || r < 0 || made < 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: merge %d has a part that is no token, or makes "
                        "none",
                        t->name, rank);
    spt_merges_add(t, l, r, rank, made);
    return SPT_OK;
}

spt_status spt_merges_text(spt_tokenizer *t, spt_text merge, int32_t rank,
                           spt_error *err)
{
    /* The left part has at least one character, which may be the blank. */
    const char *blank =
        merge.size > 1 ? memchr(merge.data + 1, ' ', merge.size - 1) : NULL;
    if (!blank)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: merge %d is not two parts with a blank between",
                        t->name, rank);
    size_t left = (size_t)(blank - merge.data);
    return spt_merges_pair(t, (spt_text){merge.data, left},
                           (spt_text){blank + 1, merge.size - left - 1}, rank,
                           err);
}
