/*
 * Joining: a word's symbols become tokens.
 *
 * The best pair of neighbours is joined until none can be: the merge of lowest
 * rank (BPE), or the token of highest score that two symbols make together
 * (SPM); the leftmost of equals. A heap holds the pairs; one that changed since
 * it was pushed has another length by now and is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "tokenizer_int.h"

typedef struct symbol {
    int32_t id; /* -1: no token (SPM by scores only) */
    int32_t previous, next; /* -1: none */
    uint32_t begin, size; /* in the word; size 0: joined to its left */
} symbol;

typedef struct pair {
    double order; /* smaller joins first */
    int32_t left;
    uint32_t size; /* of both when it was pushed */
    int32_t made;
} pair;

struct spt_joiner {
    const spt_tokenizer *t;
    const char *word;
    symbol *symbols;
    pair *heap;
    size_t symbol_count, symbol_room, heap_count, heap_room;
    const spt_encode_options *options;
    unsigned turns; /* of loops, to ask now and then */
    bool stopped;
};

/* A turn takes below a microsecond. */
enum { TURNS_TO_ASK = 1 << 14 };

spt_joiner *spt_joiner_new(const spt_tokenizer *tokenizer,
                           const spt_encode_options *options)
{
    spt_joiner *j = spt_calloc(1, sizeof *j);
    if (j) {
        j->t = tokenizer;
        j->options = options;
    }
    return j;
}

static bool is_stopped(spt_joiner *j)
{
    if (j->options->stop && j->turns++ % TURNS_TO_ASK == 0)
        j->stopped = j->options->stop(j->options->user);
    return j->stopped;
}

void spt_joiner_free(spt_joiner *j)
{
    if (!j)
        return;
    spt_free(j->symbols);
    spt_free(j->heap);
    spt_free(j);
}

static bool before(const pair *a, const pair *b)
{
    return a->order != b->order ? a->order < b->order : a->left < b->left;
}

static bool heap_push(spt_joiner *j, pair p)
{
    if (!spt_grow(&j->heap, &j->heap_room, j->heap_count + 1, sizeof p))
        return false;
    size_t i = j->heap_count++;
    for (; i && before(&p, &j->heap[(i - 1) / 2]); i = (i - 1) / 2)
        j->heap[i] = j->heap[(i - 1) / 2];
    j->heap[i] = p;
    return true;
}

static pair heap_pop(spt_joiner *j)
{
    pair top = j->heap[0], last = j->heap[--j->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= j->heap_count)
            break;
        if (child + 1 < j->heap_count &&
            before(&j->heap[child + 1], &j->heap[child]))
            child++;
        if (!before(&j->heap[child], &last))
            break;
        j->heap[i] = j->heap[child];
        i = child;
    }
    if (j->heap_count)
        j->heap[i] = last;
    return top;
}

/* Pushes the pair of `left` and what follows it, if the two can join. */
static bool consider(spt_joiner *j, int32_t left)
{
    const spt_tokenizer *t = j->t;
    int32_t right = left < 0 ? -1 : j->symbols[left].next;
    if (right < 0)
        return true;
    const symbol *a = &j->symbols[left], *b = &j->symbols[right];
    pair p = {.left = left, .size = a->size + b->size};
    if (t->merges.slots) {
        const merge_slot *m = spt_merges_find(&t->merges, a->id, b->id);
        if (!m)
            return true;
        p.order = m->rank;
        p.made = m->made;
    } else {
        p.made = spt_vocab_by_text(t, j->word + a->begin, p.size);
        if (p.made < 0)
            return true;
        p.order = -(double)t->tokens[p.made].score;
    }
    return heap_push(j, p);
}

static bool add_symbol(spt_joiner *j, int32_t id, size_t begin, size_t size)
{
    if (!spt_grow(&j->symbols, &j->symbol_room, j->symbol_count + 1,
                  sizeof *j->symbols))
        return false;
    int32_t at = (int32_t)j->symbol_count++;
    if (at)
        j->symbols[at - 1].next = at;
    j->symbols[at] = (symbol){id, at - 1, -1, (uint32_t)begin, (uint32_t)size};
    return true;
}

/* Bytes of the UTF-8 character that begins here; the text is valid. */
static size_t character(const char *text)
{
    uint8_t c = (uint8_t)*text;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* What has no token is unknown, or left out where nothing is. */
static bool add_unknown(spt_joiner *j, size_t begin, size_t size)
{
    const spt_tokenizer *t = j->t;
    const symbol *last =
        j->symbol_count ? &j->symbols[j->symbol_count - 1] : NULL;
    if (t->unknown < 0 || (t->fuse_unknown && last && last->id == t->unknown))
        return true;
    return add_symbol(j, t->unknown, begin, size);
}

/* SPM with merges: a character without a token becomes its bytes' tokens
   before joining. */
static bool add_bytes(spt_joiner *j, size_t begin, size_t size)
{
    const int32_t *byte_ids = j->t->byte_ids;
    const uint8_t *bytes = (const uint8_t *)j->word + begin;
    for (size_t i = 0; i < size; i++)
        if (byte_ids[bytes[i]] < 0)
            return add_unknown(j, begin, size);
    for (size_t i = 0; i < size; i++)
        if (!add_symbol(j, byte_ids[bytes[i]], begin + i, 1))
            return false;
    return true;
}

static bool make_symbols(spt_joiner *j, size_t size)
{
    const spt_tokenizer *t = j->t;
    for (size_t at = 0, n; at < size; at += n) {
        n = t->byte_level ? 1 : character(j->word + at);
        int32_t id = t->byte_level ? t->byte_ids[(uint8_t)j->word[at]]
                                   : spt_vocab_by_text(t, j->word + at, n);
        bool good = id >= 0 || (!t->byte_level && !t->merges.slots)
                        ? add_symbol(j, id, at, n)
                    : t->byte_level ? add_unknown(j, at, n)
                                    : add_bytes(j, at, n);
        if (!good)
            return false;
    }
    return true;
}

static bool join_all(spt_joiner *j)
{
    for (size_t i = 0; i < j->symbol_count; i++)
        if (!consider(j, (int32_t)i))
            return false;
    while (j->heap_count && !is_stopped(j)) {
        pair p = heap_pop(j);
        symbol *a = &j->symbols[p.left];
        if (!a->size || a->next < 0 ||
            a->size + j->symbols[a->next].size != p.size)
            continue;
        symbol *b = &j->symbols[a->next];
        a->id = p.made;
        a->size = p.size;
        a->next = b->next;
        b->size = 0;
        if (a->next >= 0)
            j->symbols[a->next].previous = p.left;
        if (!consider(j, a->previous) || !consider(j, p.left))
            return false;
    }
    return true;
}

/* SPM by scores: what is still no token becomes bytes, or unknown. */
static void give_bytes(const spt_joiner *j, const symbol *s, spt_ids *ids)
{
    const spt_tokenizer *t = j->t;
    for (uint32_t i = 0; i < s->size; i++) {
        int32_t id = t->byte_ids[(uint8_t)j->word[s->begin + i]];
        if (id < 0) {
            if (t->unknown >= 0)
                spt_ids_add(ids, t->unknown);
            return;
        }
        spt_ids_add(ids, id);
    }
}

spt_status spt_joiner_word(spt_joiner *j, const char *word, size_t size,
                           spt_ids *ids, spt_error *err)
{
    const spt_tokenizer *t = j->t;
    int32_t whole = t->whole_word
                        ? (t->byte_level ? spt_vocab_by_bytes(t, word, size)
                                         : spt_vocab_by_text(t, word, size))
                        : -1;
    if (is_stopped(j))
        return spt_fail(err, SPT_E_CANCELLED, "%s: cancelled", t->name);
    if (whole >= 0) {
        spt_ids_add(ids, whole);
        return SPT_OK;
    }
    j->word = word;
    j->symbol_count = j->heap_count = 0;
    if (size > INT32_MAX)
        return spt_fail(err, SPT_E_UNSUPPORTED, "%s: a text of more than 2 GiB",
                        t->name);
    if (!make_symbols(j, size) || !join_all(j))
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    if (j->stopped)
        return spt_fail(err, SPT_E_CANCELLED, "%s: cancelled", t->name);
    for (int32_t i = j->symbol_count ? 0 : -1; i >= 0; i = j->symbols[i].next) {
        if (j->symbols[i].id >= 0)
            spt_ids_add(ids, j->symbols[i].id);
        else
            give_bytes(j, &j->symbols[i], ids);
    }
    return SPT_OK;
}
