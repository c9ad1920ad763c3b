#include "vocab_map.h"

#include <stdlib.h>
#include <string.h>

/* A drafter that shares less than this part of its tokens hardly drafts. */
static const double LEAST_SHARED = 0.05;

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static bool equal(spt_text a, spt_text b)
{
    return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

static bool same_tokens(const spt_tokenizer *a, const spt_tokenizer *b,
                        int count)
{
    if (spt_tokenizer_end_id(a) != spt_tokenizer_end_id(b) ||
        spt_tokenizer_begin_id(a) != spt_tokenizer_begin_id(b))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (strcmp(spt_tokenizer_token(a, i), spt_tokenizer_token(b, i)) != 0)
            return false;
    return true;
}

/* A token of the target by what it writes. */
typedef struct entry {
    spt_text text;
    int32_t id;
} entry;

static int by_text(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    size_t size = x->text.size < y->text.size ? x->text.size : y->text.size;
    int order = size ? memcmp(x->text.data, y->text.data, size) : 0;
    if (order)
        return order;
    if (x->text.size != y->text.size)
        return x->text.size < y->text.size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The first of the sorted entries with that text, or -1. */
static int32_t find(const entry *entries, size_t count, spt_text text)
{
    size_t low = 0, high = count;
    const entry key = {text, -1};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_text(&entries[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && equal(entries[low].text, text) ? entries[low].id : -1;
}

/* Plain tokens match by text, the token that ends a turn by its role. */
static void match(const spt_tokenizer *target, const spt_tokenizer *drafter,
                  const entry *entries, size_t count, int size,
                  spt_vocab_map *map)
{
    for (int32_t i = 0; i < size; i++) {
        spt_text text = spt_tokenizer_bytes(drafter, i, false);
        if (i == spt_tokenizer_end_id(drafter))
            map->to_target[i] = spt_tokenizer_end_id(target);
        else
            map->to_target[i] = text.size ? find(entries, count, text) : -1;
        map->shared += map->to_target[i] >= 0;
    }
}

static spt_status by_strings(const spt_tokenizer *target, int target_size,
                             const spt_tokenizer *drafter, int drafter_vocab,
                             spt_vocab_map *map, spt_error *err)
{
    int size = lesser(spt_tokenizer_size(drafter), drafter_vocab);
    entry *entries = spt_calloc((size_t)target_size + 1, sizeof *entries);
    map->to_target =
        spt_calloc((size_t)drafter_vocab + 1, sizeof *map->to_target);
    if (!entries || !map->to_target) {
        spt_free(entries);
        return spt_fail(err, SPT_E_MEMORY, "vocabularies: out of memory");
    }
    for (int32_t i = 0; i < target_size; i++)
        entries[i] = (entry){spt_tokenizer_bytes(target, i, false), i};
    for (int i = 0; i < drafter_vocab; i++)
        map->to_target[i] = -1;
    qsort(entries, (size_t)target_size, sizeof *entries, by_text);
    match(target, drafter, entries, (size_t)target_size, size, map);
    spt_free(entries);
    if (map->shared >= LEAST_SHARED * size)
        return SPT_OK;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "draft model: %d of its %d tokens are tokens of the model, "
                    "expected one in twenty at least",
                    map->shared, size);
}

spt_status spt_vocab_map_make(const spt_tokenizer *target, int target_vocab,
                              const spt_tokenizer *drafter, int drafter_vocab,
                              spt_vocab_map *map, spt_error *err)
{
    int t = lesser(spt_tokenizer_size(target), target_vocab);
    int d = lesser(spt_tokenizer_size(drafter), drafter_vocab);
    spt_vocab_map made = {.same = same_tokens(target, drafter, lesser(t, d))};
    if (!made.same) {
        spt_status status =
            by_strings(target, t, drafter, drafter_vocab, &made, err);
        if (status != SPT_OK) {
            spt_vocab_map_free(&made);
            return status;
        }
    }
    *map = made;
    return SPT_OK;
}

void spt_vocab_map_free(spt_vocab_map *map)
{
    spt_free(map->to_target);
    map->to_target = NULL;
}
