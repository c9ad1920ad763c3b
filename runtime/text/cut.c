/*
 * Cutting a text into words by regular expressions (PCRE2).
 *
 * Patterns are those of the tokenizers' own files, which are written for
 * Oniguruma: \s there is Unicode's White_Space, so it is written out here
 * (PCRE2's has U+180E too). Every step cuts the words of the step before.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "tokenizer_int.h"

#define WHITE_SPACE                                               \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}" \
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* Steps of a match, so that no pattern of a file can take for ever. */
enum { MATCH_LIMIT = 50000000, DEPTH_LIMIT = 100000 };

static const struct cut_row {
    const char *name;
    bool whole_word, nfc, begin;
    const char *patterns[2];
} rows[] = {
#define SPT_CUT(name, whole_word, nfc, begin, first, second) \
    {name, whole_word, nfc, begin, {first, second}},
#include "pretokenizers.def"
#undef SPT_CUT
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *spt_cuts_gpt2(void)
{
    return rows[0].patterns[0];
}

/* The pattern with \s and \S written out; false: \S inside a class. */
static bool translate(const char *pattern, spt_buf *out)
{
    bool in_class = false;
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1] == 's') {
            spt_buf_puts(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
            p++;
        } else if (*p == '\\' && p[1] == 'S') {
            if (in_class)
                return false;
            spt_buf_puts(out, "[^" WHITE_SPACE "]");
            p++;
        } else if (*p == '\\' && p[1]) {
            spt_buf_add(out, p++, 2);
        } else {
            if (*p == '[' || *p == ']')
                in_class = *p == '[';
            spt_buf_add(out, p, 1);
        }
    }
    return true;
}

spt_status spt_cuts_add(spt_tokenizer *t, const char *pattern, bool after,
                        spt_error *err)
{
    spt_buf text = {0};
    int code = 0;
    PCRE2_SIZE place = 0;
    if (t->cut_count == CUT_STEPS)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: more than %d steps cut words", t->name, CUT_STEPS);
    bool known = translate(pattern, &text) && !text.failed;
    pcre2_code *compiled =
        known
            ? pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.size,
                            PCRE2_UTF | PCRE2_UCP, &code, &place, NULL)
            : NULL;
    spt_buf_free(&text);
    if (!compiled) {
        PCRE2_UCHAR reason[120] = "\\S inside a class";
        if (known)
            pcre2_get_error_message(code, reason, sizeof reason);
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: pattern '%.60s' is not understood: %s", t->name,
                        pattern, (const char *)reason);
    }
    t->cuts[t->cut_count++] = (cut_step){compiled, after};
    return SPT_OK;
}

spt_status spt_cuts_named(spt_tokenizer *t, spt_text name, spt_error *err)
{
    for (int i = 0; i < ROWS; i++) {
        if (!spt_text_is(name, rows[i].name))
            continue;
        t->whole_word = rows[i].whole_word;
        t->nfc = rows[i].nfc;
        t->adds_begin = rows[i].begin;
        for (int p = 0; p < 2 && rows[i].patterns[p]; p++)
            SPT_TRY(spt_cuts_add(t, rows[i].patterns[p], false, err));
        return SPT_OK;
    }
    spt_buf names = {0};
    for (int i = 0; i < ROWS; i++)
        spt_buf_printf(&names, "%s%s", i ? ", " : "", rows[i].name);
    spt_status status = spt_fail(
        err, SPT_E_UNSUPPORTED,
        "%s: pre-tokenizer '%s' is not known, expected one of %s", t->name,
        spt_text_show(name).text, names.data ? names.data : "?");
    spt_buf_free(&names);
    return status;
}

void spt_cuts_close(spt_tokenizer *t)
{
    for (int i = 0; i < t->cut_count; i++)
        pcre2_code_free(t->cuts[i].code);
    t->cut_count = 0;
}

typedef struct run {
    const spt_tokenizer *t;
    pcre2_match_context *limits;
    pcre2_match_data *matches[CUT_STEPS];
    spt_word_fn *word;
    void *user;
} run;

static spt_status cut(run *r, int step, const char *text, size_t size,
                      spt_error *err);

/* Hands a piece of step - 1 on, if there is anything in it. */
static spt_status hand_on(run *r, int step, const char *text, size_t size,
                          spt_error *err)
{
    if (!size)
        return SPT_OK;
    return step == r->t->cut_count ? r->word(r->user, text, size, err)
                                   : cut(r, step, text, size, err);
}

static spt_status cut(run *r, int step, const char *text, size_t size,
                      spt_error *err)
{
    const cut_step *s = &r->t->cuts[step];
    size_t done = 0; /* handed on */
    for (size_t at = 0; at < size;) {
        int found = pcre2_match(s->code, (PCRE2_SPTR)text, size, at,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                                r->matches[step], r->limits);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0)
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "%s: its pattern %d takes too long on this text",
                            r->t->name, step + 1);
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->matches[step]);
        size_t begin = span[0], end = span[1];
        if (!s->after) {
            SPT_TRY(hand_on(r, step + 1, text + done, begin - done, err));
            done = begin;
        }
        SPT_TRY(hand_on(r, step + 1, text + done, end - done, err));
        done = at = end;
    }
    return hand_on(r, step + 1, text + done, size - done, err);
}

spt_status spt_cuts_run(const spt_tokenizer *t, const char *text, size_t size,
                        spt_word_fn *word, void *user, spt_error *err)
{
    run r = {.t = t, .word = word, .user = user};
    r.limits = pcre2_match_context_create(NULL);
    bool room = r.limits != NULL;
    for (int i = 0; i < t->cut_count; i++) {
        r.matches[i] =
            pcre2_match_data_create_from_pattern(t->cuts[i].code, NULL);
        room &= r.matches[i] != NULL;
    }
    spt_status status;
    if (room) {
        pcre2_set_match_limit(r.limits, MATCH_LIMIT);
        pcre2_set_depth_limit(r.limits, DEPTH_LIMIT);
        status = hand_on(&r, 0, text, size, err);
    } else {
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", t->name);
    }
    for (int i = 0; i < t->cut_count; i++)
        pcre2_match_data_free(r.matches[i]);
    pcre2_match_context_free(r.limits);
    return status;
}
