/* A tokenizer's making and its properties. */
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_int.h"

static const char blank[] = "\xe2\x96\x81"; /* U+2581, SPM's blank */
enum { BLANK = sizeof blank - 1 };

void spt_ids_add(spt_ids *ids, int32_t id)
{
    if (ids->failed)
        return;
    if (!spt_grow(&ids->data, &ids->capacity, ids->size + 1,
                  sizeof *ids->data)) {
        ids->failed = true;
        return;
    }
    ids->data[ids->size++] = id;
}

void spt_ids_free(spt_ids *ids)
{
    spt_free(ids->data);
    *ids = (spt_ids){0};
}

static spt_status no_memory(const spt_tokenizer *t, spt_error *err)
{
    return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
}

spt_status spt_tokenizer_new(spt_tokenizer **out, const char *name, size_t size,
                             spt_error *err)
{
    if (size < 1 || size > 1 << 24)
        return spt_fail(err, SPT_E_FORMAT, "%s: %zu tokens, expected 1 to %d",
                        name, size, 1 << 24);
    spt_tokenizer *t = spt_calloc(1, sizeof *t);
    if (t) {
        t->name = spt_arena_strdup(&t->arena, name, strlen(name));
        t->tokens = spt_arena_alloc(&t->arena, size, sizeof *t->tokens);
    }
    if (!t || !t->name || !t->tokens) {
        spt_tokenizer_close(t);
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    }
    t->size = (int)size;
    t->begin = t->end = t->unknown = -1;
    *out = t;
    return SPT_OK;
}

void spt_tokenizer_close(spt_tokenizer *t)
{
    if (!t)
        return;
    spt_cuts_close(t);
    spt_arena_free(&t->arena);
    spt_free(t);
}

/* "<0x0A>": the byte; -1: something else. */
static int byte_of(spt_text text)
{
    char digits[3] = {0}, *end;
    if (text.size != 6 || memcmp(text.data, "<0x", 3) != 0 ||
        text.data[5] != '>')
        return -1;
    memcpy(digits, text.data + 3, 2);
    long value = strtol(digits, &end, 16);
    return *end || digits[0] == '-' || digits[0] == '+' || digits[0] == ' '
               ? -1
               : (int)value;
}

/* Reads one character of valid UTF-8 (what is not, byte by byte). */
static size_t read_character(spt_text text, size_t at, int32_t *character)
{
    const uint8_t *p = (const uint8_t *)text.data + at;
    size_t left = text.size - at;
    if (*p >= 0xc2 && *p < 0xe0 && left > 1) {
        *character = (*p & 31) << 6 | (p[1] & 63);
        return 2;
    }
    *character = *p < 0x80 ? *p : -1;
    return 1;
}

/* Byte-level: the text's characters as bytes; a text with another character
   stands for itself. */
static bool unwrite_bytes(spt_tokenizer *t, token *k)
{
    char *bytes = spt_arena_alloc(&t->arena, k->text.size + 1, 1);
    size_t n = 0;
    if (!bytes)
        return false;
    for (size_t at = 0; at < k->text.size;) {
        int32_t character;
        at += read_character(k->text, at, &character);
        int byte = character < 0 ? -1 : spt_char_byte(character);
        if (byte < 0)
            return true;
        bytes[n++] = (char)byte;
    }
    k->bytes = (spt_text){bytes, n};
    return true;
}

/* SPM: the text with blanks for U+2581. */
static bool unwrite_blanks(spt_tokenizer *t, token *k)
{
    if (!memmem(k->text.data, k->text.size, blank, BLANK))
        return true;
    char *bytes = spt_arena_alloc(&t->arena, k->text.size + 1, 1);
    size_t n = 0;
    if (!bytes)
        return false;
    for (size_t at = 0; at < k->text.size;) {
        bool is = k->text.size - at >= BLANK &&
                  memcmp(k->text.data + at, blank, BLANK) == 0;
        bytes[n++] = is ? ' ' : k->text.data[at];
        at += is ? BLANK : 1;
    }
    k->bytes = (spt_text){bytes, n};
    return true;
}

static bool set_bytes(spt_tokenizer *t, token *k)
{
    k->bytes = k->text;
    if (k->kind == TOKEN_CONTROL || k->kind == TOKEN_UNKNOWN)
        return true;
    if (k->kind == TOKEN_BYTE) {
        char *byte = spt_arena_alloc(&t->arena, 2, 1);
        if (!byte)
            return false;
        *byte = (char)byte_of(k->text);
        k->bytes = (spt_text){byte, 1};
        return true;
    }
    if (!t->byte_level)
        return unwrite_blanks(t, k);
    return k->kind != TOKEN_NORMAL || unwrite_bytes(t, k);
}

static void find_bytes(spt_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        int c = spt_byte_char(b), n;
        if (!t->byte_level)
            n = snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        else if (c < 0x80)
            n = snprintf(text, sizeof text, "%c", c);
        else
            n = snprintf(text, sizeof text, "%c%c", 0xc0 | c >> 6,
                         0x80 | (c & 63));
        int32_t id = spt_vocab_by_text(t, text, (size_t)n);
        bool good = id >= 0 && t->tokens[id].kind ==
                                   (t->byte_level ? TOKEN_NORMAL : TOKEN_BYTE);
        t->byte_ids[b] = good ? id : -1;
    }
}

/* Tokens that end a turn or a text in models that name just one of theirs. */
static void mark_ends(spt_tokenizer *t)
{
    static const char *const ends[] = {
        "<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
        "<|end_of_text|>", "<end_of_turn>", "<|end|>",    "<|eot|>",
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int32_t id = spt_tokenizer_find(t, ends[i]);
        if (id >= 0 && t->tokens[id].kind != TOKEN_NORMAL)
            t->tokens[id].ends = true;
    }
}

/* First bytes below, sizes above. */
static int by_first_and_size(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return x[0] != y[0] ? x[0] - y[0] : (x[1] < y[1]) - (x[1] > y[1]);
}

/* The sizes of tokens that are cut out, for each first byte. */
static bool list_cut_sizes(spt_tokenizer *t)
{
    size_t count = 0, n = 0;
    for (int i = 0; i < t->size; i++)
        count += spt_token_is_cut(&t->tokens[i]);
    int32_t(*pairs)[2] = spt_calloc(count + 1, sizeof *pairs);
    t->cut_sizes = spt_arena_alloc(&t->arena, count + 1, sizeof *t->cut_sizes);
    if (!pairs || !t->cut_sizes) {
        spt_free(pairs);
        return false;
    }
    for (int i = 0; i < t->size; i++) {
        spt_text text = t->tokens[i].text;
        if (!spt_token_is_cut(&t->tokens[i]))
            continue;
        pairs[n][0] = (uint8_t)text.data[0];
        pairs[n++][1] = (int32_t)text.size;
    }
    qsort(pairs, count, sizeof *pairs, by_first_and_size);
    n = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && by_first_and_size(pairs[i - 1], pairs[i]) == 0)
            continue;
        t->cut_sizes[n++] = pairs[i][1];
        t->cut_first[pairs[i][0] + 1]++;
    }
    for (int b = 0; b < 256; b++)
        t->cut_first[b + 1] += t->cut_first[b];
    spt_free(pairs);
    return true;
}

/* NFC writes a text with a third of its bytes at least. Nothing is known where
   a byte may have no token: any number of them is left out, or one unknown. */
static size_t longest(const spt_tokenizer *t)
{
    size_t most = 0;
    for (int i = 0; i < 256; i++)
        if (t->byte_ids[i] < 0)
            return 0;
    for (int i = 0; i < t->size; i++)
        if (t->tokens[i].text.size > most)
            most = t->tokens[i].text.size;
    return t->nfc ? 3 * most : most;
}

spt_status spt_tokenizer_finish(spt_tokenizer *t, spt_error *err)
{
    for (int i = 0; i < t->size; i++) {
        if (t->tokens[i].kind == TOKEN_BYTE && byte_of(t->tokens[i].text) < 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: token %d stands for a byte and is '%s', "
                            "expected <0x00> to <0xFF>",
                            t->name, i, spt_text_show(t->tokens[i].text).text);
        if (!set_bytes(t, &t->tokens[i]))
            return no_memory(t, err);
    }
    SPT_TRY(spt_vocab_index(t, err));
    if (!list_cut_sizes(t))
        return no_memory(t, err);
    find_bytes(t);
    t->longest = longest(t);
    mark_ends(t);
    return SPT_OK;
}

spt_status spt_tokenizer_open(spt_tokenizer **out, const spt_model *model,
                              spt_error *err)
{
    const spt_gguf *gguf = spt_model_gguf(model);
    return gguf ? spt_tokenizer_from_gguf(out, gguf, err)
                : spt_tokenizer_from_folder(out, spt_model_folder(model), err);
}

int spt_tokenizer_size(const spt_tokenizer *t)
{
    return t->size;
}

static bool known(const spt_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->size;
}

const char *spt_tokenizer_token(const spt_tokenizer *t, int32_t id)
{
    return known(t, id) ? t->tokens[id].text.data : "";
}

bool spt_tokenizer_is_special(const spt_tokenizer *t, int32_t id)
{
    return known(t, id) && (t->tokens[id].kind == TOKEN_CONTROL ||
                            t->tokens[id].kind == TOKEN_UNKNOWN);
}

spt_text spt_tokenizer_bytes(const spt_tokenizer *t, int32_t id, bool specials)
{
    if (!known(t, id) || (!specials && spt_tokenizer_is_special(t, id)))
        return (spt_text){"", 0};
    return t->tokens[id].bytes;
}

int32_t spt_tokenizer_find(const spt_tokenizer *t, const char *text)
{
    return spt_vocab_by_text(t, text, strlen(text));
}

bool spt_tokenizer_is_end(const spt_tokenizer *t, int32_t id)
{
    return known(t, id) && t->tokens[id].ends;
}

int32_t spt_tokenizer_begin_id(const spt_tokenizer *t)
{
    return t->begin;
}

int32_t spt_tokenizer_end_id(const spt_tokenizer *t)
{
    return t->end;
}

const char *spt_tokenizer_template(const spt_tokenizer *t)
{
    return t->chat_template;
}
