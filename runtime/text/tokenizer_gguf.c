/* Tokenizers from a GGUF's metadata (keys tokenizer.ggml.*). */
#include <inttypes.h>
#include <string.h>

#include "tokenizer_int.h"

static spt_status copy(spt_tokenizer *t, spt_text from, spt_text *to,
                       spt_error *err)
{
    to->data = spt_arena_strdup(&t->arena, from.data, from.size);
    to->size = from.size;
    return to->data ? SPT_OK
                    : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
}

/* An array beside the tokens: as long as they are, or not there. */
static spt_status beside(const spt_gguf *gguf, const char *key, uint64_t count,
                         spt_gguf_array *array, spt_error *err)
{
    SPT_TRY(spt_gguf_get_array(gguf, key, array, err));
    if (array->data && array->count != count)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s has %" PRIu64
                        " elements, expected %" PRIu64,
                        spt_gguf_name(gguf), key, array->count, count);
    return SPT_OK;
}

static spt_status read_tokens(spt_tokenizer *t, const spt_gguf *gguf,
                              const spt_gguf_array *texts, spt_error *err)
{
    spt_gguf_array kinds = {0}, scores = {0};
    SPT_TRY(
        beside(gguf, "tokenizer.ggml.token_type", texts->count, &kinds, err));
    SPT_TRY(beside(gguf, "tokenizer.ggml.scores", texts->count, &scores, err));
    for (int i = 0; i < t->size; i++) {
        token *k = &t->tokens[i];
        int64_t kind = TOKEN_NORMAL;
        SPT_TRY(copy(t, texts->texts[i], &k->text, err));
        spt_gguf_array_int(&kinds, (uint64_t)i, &kind);
        spt_gguf_array_float(&scores, (uint64_t)i, &k->score);
        if (kind < TOKEN_NORMAL || kind > TOKEN_BYTE || k->score != k->score)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: token %d has the type %" PRId64
                            " and the score %g, expected types 1 to 6",
                            t->name, i, kind, (double)k->score);
        k->kind = (uint8_t)kind;
    }
    if (!t->byte_level && !scores.data)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key tokenizer.ggml.scores is missing",
                        t->name);
    return SPT_OK;
}

static spt_status read_merges(spt_tokenizer *t, const spt_gguf *gguf,
                              spt_error *err)
{
    spt_gguf_array merges = {0};
    SPT_TRY(spt_gguf_get_array(gguf, "tokenizer.ggml.merges", &merges, err));
    if (!merges.texts)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key tokenizer.ggml.merges is missing",
                        t->name);
    SPT_TRY(spt_merges_room(t, (size_t)merges.count, err));
    for (uint64_t i = 0; i < merges.count; i++)
        SPT_TRY(spt_merges_text(t, merges.texts[i], (int32_t)i, err));
    return SPT_OK;
}

static spt_status read_id(const spt_tokenizer *t, const spt_gguf *gguf,
                          const char *key, int32_t *id, spt_error *err)
{
    int64_t value = -1;
    SPT_TRY(spt_gguf_int(gguf, key, -1, UINT32_MAX, &value, err));
    /* Some writers mark "none" by the largest number. */
    if (value == UINT32_MAX)
        value = -1;
    if (value >= t->size)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s is %" PRId64 ", expected 0 to %d",
                        t->name, key, value, t->size - 1);
    *id = (int32_t)value;
    return SPT_OK;
}

static spt_status read_ids(spt_tokenizer *t, const spt_gguf *gguf,
                           spt_error *err)
{
    static const char *const more[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    SPT_TRY(read_id(t, gguf, "tokenizer.ggml.bos_token_id", &t->begin, err));
    SPT_TRY(read_id(t, gguf, "tokenizer.ggml.eos_token_id", &t->end, err));
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        int32_t id;
        SPT_TRY(read_id(t, gguf, more[i], &id, err));
        if (id >= 0)
            t->tokens[id].ends = true;
    }
    /* Byte-level BPE leaves out what has no token; it has no unknown one. */
    return t->byte_level ? SPT_OK
                         : read_id(t, gguf, "tokenizer.ggml.unknown_token_id",
                                   &t->unknown, err);
}

static spt_status read_flags(spt_tokenizer *t, const spt_gguf *gguf,
                             spt_error *err)
{
    bool adds_end = false;
    spt_text text = {NULL, 0};
    SPT_TRY(spt_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &t->adds_begin,
                          err));
    SPT_TRY(
        spt_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &adds_end, err));
    if (adds_end)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: its texts end with a token (add_eos_token), which "
                        "no model that writes on has",
                        t->name);
    if (!t->byte_level)
        SPT_TRY(spt_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix",
                              &t->blank_first, err));
    t->strip_first = t->blank_first;
    SPT_TRY(spt_gguf_string(gguf, "tokenizer.chat_template", &text, err));
    if (text.data) {
        SPT_TRY(copy(t, text, &text, err));
        t->chat_template = text.data;
    }
    return SPT_OK;
}

/* Converters write tokens that are cut out with blanks, even where their own
   file has U+2581; then a text's U+2581 must find them too. */
static bool cut_without_marks(const spt_tokenizer *t)
{
    for (int i = 0; i < t->size; i++) {
        const token *k = &t->tokens[i];
        if (spt_token_is_cut(k) &&
            memmem(k->text.data, k->text.size, "\xe2\x96\x81", 3))
            return false;
    }
    return true;
}

static spt_status read_model(spt_tokenizer *t, const spt_gguf *gguf,
                             const spt_gguf_array *texts, spt_error *err)
{
    spt_text model = {"", 0}, pre = {"", 0};
    SPT_TRY(spt_gguf_string(gguf, "tokenizer.ggml.model", &model, err));
    SPT_TRY(spt_gguf_string(gguf, "tokenizer.ggml.pre", &pre, err));
    t->byte_level = spt_text_is(model, "gpt2");
    if (!t->byte_level && !spt_text_is(model, "llama"))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: tokenizer '%s' is not known, expected gpt2 (BPE) "
                        "or llama (SPM)",
                        t->name, spt_text_show(model).text);
    if (t->byte_level)
        SPT_TRY(spt_cuts_named(t, pre, err));
    else
        t->blank_first = t->adds_begin = true;
    SPT_TRY(read_tokens(t, gguf, texts, err));
    SPT_TRY(spt_tokenizer_finish(t, err));
    t->marks_are_blanks = !t->byte_level && cut_without_marks(t);
    if (t->byte_level)
        SPT_TRY(read_merges(t, gguf, err));
    SPT_TRY(read_ids(t, gguf, err));
    if (t->end >= 0)
        t->tokens[t->end].ends = true;
    return read_flags(t, gguf, err);
}

spt_status spt_tokenizer_from_gguf(spt_tokenizer **out, const spt_gguf *gguf,
                                   spt_error *err)
{
    spt_gguf_array texts = {0};
    spt_tokenizer *t = NULL;
    const char *name = spt_gguf_name(gguf);
    SPT_TRY(spt_gguf_get_array(gguf, "tokenizer.ggml.tokens", &texts, err));
    if (!texts.texts)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key tokenizer.ggml.tokens is missing: a "
                        "model without a tokenizer",
                        name);
    SPT_TRY(spt_tokenizer_new(&t, name, (size_t)texts.count, err));
    spt_status status = read_model(t, gguf, &texts, err);
    if (status == SPT_OK)
        *out = t;
    else
        spt_tokenizer_close(t);
    return status;
}
