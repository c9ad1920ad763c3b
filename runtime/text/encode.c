/*
 * Text to ids: tokens that stand in the text as they are written are cut out,
 * what is between them is normalised, cut into words, and each word joined.
 */
#include <string.h>
#include <utf8proc.h>

#include "nfc.h"
#include "tokenizer_int.h"

static const char blank[] = "\xe2\x96\x81"; /* U+2581, SPM's blank */
enum { BLANK = sizeof blank - 1 };

typedef struct encoder {
    const spt_tokenizer *t;
    spt_joiner *joiner;
    spt_ids *ids;
    size_t before; /* ids that were there */
    size_t most; /* with those; SIZE_MAX = any number */
} encoder;

/* SPT_E_FORMAT with the place of the first byte that is no UTF-8. */
static spt_status check_utf8(const char *text, size_t size, spt_error *err)
{
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                             (utf8proc_ssize_t)(size - at), &character);
        if (n < 1)
            return spt_fail(err, SPT_E_FORMAT,
                            "text is no UTF-8: byte %zu is 0x%02X", at,
                            (unsigned)(uint8_t)text[at]);
        at += (size_t)n;
    }
    return SPT_OK;
}

static spt_status too_many(const encoder *e, spt_error *err)
{
    return spt_fail(err, SPT_E_USAGE, "more than %zu tokens",
                    e->most - e->before);
}

static spt_status encode_word(void *user, const char *word, size_t size,
                              spt_error *err)
{
    encoder *e = user;
    if (e->ids->size > e->most)
        return too_many(e, err);
    return spt_joiner_word(e->joiner, word, size, e->ids, err);
}

static spt_status encode_words(encoder *e, const char *text, size_t size,
                               spt_error *err)
{
    return spt_cuts_run(e->t, text, size, encode_word, e, err);
}

static spt_status encode_nfc(encoder *e, const char *text, size_t size,
                             spt_error *err)
{
    spt_buf composed = {0};
    spt_status status = spt_nfc(text, size, &composed, err);
    if (status == SPT_OK)
        status = encode_words(e, composed.data, composed.size, err);
    spt_buf_free(&composed);
    return status;
}

static spt_status encode_blanks(encoder *e, const char *text, size_t size,
                                spt_error *err)
{
    spt_buf written = {0};
    if (e->t->blank_first)
        spt_buf_puts(&written, blank);
    for (size_t at = 0, n; at < size; at += n) {
        const char *next = memchr(text + at, ' ', size - at);
        n = next ? (size_t)(next - text) - at : size - at;
        spt_buf_add(&written, text + at, n);
        if (next) {
            spt_buf_puts(&written, blank);
            n++;
        }
    }
    spt_status status =
        written.failed
            ? spt_fail(err, SPT_E_MEMORY, "%s: out of memory", e->t->name)
            : encode_words(e, written.data, written.size, err);
    spt_buf_free(&written);
    return status;
}

static spt_status encode_plain(encoder *e, const char *text, size_t size,
                               spt_error *err)
{
    if (!size)
        return SPT_OK;
    if (!e->t->byte_level)
        return encode_blanks(e, text, size, err);
    return e->t->nfc ? encode_nfc(e, text, size, err)
                     : encode_words(e, text, size, err);
}

/* The longest token that is cut out and begins here, or -1. */
static int32_t token_at(const spt_tokenizer *t, const char *text, size_t size,
                        bool specials)
{
    int first = (uint8_t)*text;
    for (int i = t->cut_first[first]; i < t->cut_first[first + 1]; i++) {
        size_t length = (size_t)t->cut_sizes[i];
        int32_t id = length <= size ? spt_vocab_by_cut(t, text, length) : -1;
        if (id >= 0 && (specials || t->tokens[id].kind == TOKEN_USER))
            return id;
    }
    return -1;
}

static spt_status encode_all(encoder *e, const char *text, size_t size,
                             bool specials, spt_error *err)
{
    size_t done = 0;
    for (size_t at = 0; at < size;) {
        int32_t id = token_at(e->t, text + at, size - at, specials);
        if (id < 0) {
            at++;
            continue;
        }
        SPT_TRY(encode_plain(e, text + done, at - done, err));
        spt_ids_add(e->ids, id);
        done = at += e->t->tokens[id].text.size;
    }
    return encode_plain(e, text + done, size - done, err);
}

/* The same with blanks where the text has U+2581. */
static spt_status encode_marked(encoder *e, const char *text, size_t size,
                                bool specials, spt_error *err)
{
    spt_buf written = {0};
    const char *end = text + size, *mark;
    while ((mark = memmem(text, (size_t)(end - text), blank, BLANK))) {
        spt_buf_add(&written, text, (size_t)(mark - text));
        spt_buf_puts(&written, " ");
        text = mark + BLANK;
    }
    spt_buf_add(&written, text, (size_t)(end - text));
    spt_status status =
        written.failed
            ? spt_fail(err, SPT_E_MEMORY, "%s: out of memory", e->t->name)
            : encode_all(e, written.data, written.size, specials, err);
    spt_buf_free(&written);
    return status;
}

spt_status spt_tokenizer_encode(const spt_tokenizer *t, const char *text,
                                size_t size, spt_encode_options options,
                                spt_ids *ids, spt_error *err)
{
    SPT_TRY(check_utf8(text, size, err));
    size_t before = ids->size;
    encoder e = {t, NULL, ids, before,
                 options.most ? before + options.most : SIZE_MAX};
    if (t->longest && options.most && size / t->longest > options.most)
        return too_many(&e, err);
    e.joiner = spt_joiner_new(t, &options);
    if (!e.joiner)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    if (options.begin && t->adds_begin && t->begin >= 0)
        spt_ids_add(ids, t->begin);
    spt_status status =
        t->marks_are_blanks && size
            ? encode_marked(&e, text, size, options.specials, err)
            : encode_all(&e, text, size, options.specials, err);
    spt_joiner_free(e.joiner);
    if (status == SPT_OK && ids->size > e.most)
        status = too_many(&e, err);
    if (status == SPT_OK && ids->failed)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    if (status != SPT_OK)
        ids->size = before;
    return status;
}
