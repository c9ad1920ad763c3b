/*
 * Tokenizers from the text of a tokenizer.json (Hugging Face `tokenizers`):
 * model BPE, byte-level or with byte fallback. A part that is not known is
 * refused by its name, since leaving it out would give other ids.
 */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "tokenizer_int.h"

static const char blank[] = "\xe2\x96\x81"; /* U+2581 */

typedef struct loader {
    spt_tokenizer *t;
    const char *name; /* what errors start with */
    bool blanks; /* normaliser: blanks become U+2581 */
} loader;

static const char *type_of(const cJSON *part)
{
    const char *type =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "type"));
    return type ? type : "?";
}

static bool flag(const cJSON *object, const char *name, bool otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static spt_status unknown_part(const loader *l, const char *what,
                               const cJSON *part, spt_error *err)
{
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "%s: %s of type '%.40s' is not known, or is with these "
                    "options",
                    l->name, what, type_of(part));
}

typedef spt_status part_fn(loader *l, const cJSON *part, spt_error *err);

/* Runs fn on the part, or on each of a Sequence's; nothing for null. */
static spt_status each_part(loader *l, const cJSON *part, const char *list,
                            part_fn *fn, spt_error *err)
{
    const cJSON *parts, *inner;
    if (!part || cJSON_IsNull(part))
        return SPT_OK;
    if (strcmp(type_of(part), "Sequence") != 0)
        return fn(l, part, err);
    SPT_TRY(spt_json_array(part, l->name, list, &parts, err));
    cJSON_ArrayForEach(inner, parts) SPT_TRY(fn(l, inner, err));
    return SPT_OK;
}

static bool replaces_blanks(const cJSON *part)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(part, "pattern");
    const char *from = text_of(pattern, "String");
    const char *to = text_of(part, "content");
    return from && to && strcmp(from, " ") == 0 && strcmp(to, blank) == 0;
}

static spt_status add_normalizer(loader *l, const cJSON *part, spt_error *err)
{
    const char *type = type_of(part), *prepend = text_of(part, "prepend");
    if (strcmp(type, "NFC") == 0)
        l->t->nfc = true;
    else if (strcmp(type, "Replace") == 0 && replaces_blanks(part))
        l->blanks = true;
    else if (strcmp(type, "Prepend") == 0 && prepend &&
             strcmp(prepend, blank) == 0)
        l->t->blank_first = true;
    else
        return unknown_part(l, "normalizer", part, err);
    return SPT_OK;
}

static spt_status add_byte_level(loader *l, const cJSON *part, spt_error *err)
{
    if (flag(part, "add_prefix_space", false))
        return unknown_part(l, "pre_tokenizer (add_prefix_space)", part, err);
    l->t->byte_level = true;
    return flag(part, "use_regex", true)
               ? spt_cuts_add(l->t, spt_cuts_gpt2(), false, err)
               : SPT_OK;
}

/* A pattern that stands for itself, with what a pattern gives a meaning
   quoted. */
static spt_status add_literal(loader *l, const char *text, bool after,
                              spt_error *err)
{
    spt_buf quoted = {0};
    for (const char *p = text; *p; p++) {
        if (strchr("\\^$.[]|()?*+{}", *p))
            spt_buf_puts(&quoted, "\\");
        spt_buf_add(&quoted, p, 1);
    }
    spt_status status =
        quoted.failed || !quoted.size
            ? spt_fail(err, SPT_E_FORMAT, "%s: a Split has an empty pattern",
                       l->name)
            : spt_cuts_add(l->t, quoted.data, after, err);
    spt_buf_free(&quoted);
    return status;
}

static spt_status add_split(loader *l, const cJSON *part, spt_error *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(part, "pattern");
    const char *behavior = text_of(part, "behavior");
    const char *regex = text_of(pattern, "Regex");
    const char *literal = text_of(pattern, "String");
    bool after = behavior && strcmp(behavior, "MergedWithPrevious") == 0;
    bool isolated = behavior && strcmp(behavior, "Isolated") == 0;
    if (flag(part, "invert", false) || (!after && !isolated) ||
        (!regex && !literal))
        return unknown_part(l, "pre_tokenizer", part, err);
    return regex ? spt_cuts_add(l->t, regex, after, err)
                 : add_literal(l, literal, after, err);
}

static spt_status add_cut(loader *l, const cJSON *part, spt_error *err)
{
    const char *type = type_of(part);
    if (strcmp(type, "ByteLevel") == 0)
        return add_byte_level(l, part, err);
    if (strcmp(type, "Split") == 0)
        return add_split(l, part, err);
    if (strcmp(type, "Digits") == 0)
        return spt_cuts_add(
            l->t, flag(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
            false, err);
    return unknown_part(l, "pre_tokenizer", part, err);
}

/* The token that begins a text stands before the text in the template. */
static spt_status add_template(loader *l, const cJSON *part, spt_error *err)
{
    const cJSON *single, *item;
    bool text_seen = false;
    const char *type = type_of(part);
    if (strcmp(type, "ByteLevel") == 0)
        return SPT_OK;
    if (strcmp(type, "TemplateProcessing") != 0)
        return unknown_part(l, "post_processor", part, err);
    SPT_TRY(spt_json_array(part, l->name, "single", &single, err));
    cJSON_ArrayForEach(item, single)
    {
        const cJSON *special =
            cJSON_GetObjectItemCaseSensitive(item, "SpecialToken");
        const char *id = text_of(special, "id");
        text_seen |= cJSON_HasObjectItem(item, "Sequence");
        if (!special)
            continue;
        if (!id || text_seen || l->t->adds_begin)
            return unknown_part(l, "post_processor", part, err);
        l->t->begin = spt_tokenizer_find(l->t, id);
        l->t->adds_begin = l->t->begin >= 0;
        if (!l->t->adds_begin)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: post_processor names '%.40s', which is no "
                            "token",
                            l->name, id);
    }
    return SPT_OK;
}

static spt_status add_decoder(loader *l, const cJSON *part, spt_error *err)
{
    static const char *const plain[] = {"ByteLevel", "ByteFallback", "Fuse",
                                        "Replace"};
    (void)err;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type_of(part), plain[i]) == 0)
            return SPT_OK;
    const char *content = text_of(part, "content");
    if (strcmp(type_of(part), "Strip") == 0 && content &&
        strcmp(content, " ") == 0) {
        l->t->strip_first = true;
        return SPT_OK;
    }
    return unknown_part(l, "decoder", part, err);
}

/* An id of the file, 0 up to what a tokenizer may have. */
static spt_status check_id(const loader *l, const cJSON *item, int64_t *id,
                           spt_error *err)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value < (1 << 24)) || value != (double)(int)value)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: a token has an id that is no number from 0 to %d",
                        l->name, (1 << 24) - 1);
    *id = (int64_t)value;
    return SPT_OK;
}

static spt_status count_tokens(loader *l, const cJSON *vocab,
                               const cJSON *added, size_t *size, spt_error *err)
{
    const cJSON *item;
    int64_t id, most = -1;
    cJSON_ArrayForEach(item, vocab)
    {
        SPT_TRY(check_id(l, item, &id, err));
        most = id > most ? id : most;
    }
    cJSON_ArrayForEach(item, added)
    {
        SPT_TRY(check_id(l, cJSON_GetObjectItemCaseSensitive(item, "id"), &id,
                         err));
        most = id > most ? id : most;
    }
    /* Ids are dense in real files; a hole costs memory. */
    int64_t there = cJSON_GetArraySize(vocab) + cJSON_GetArraySize(added);
    if (most >= 2 * there + 65536)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: ids go up to %lld with %lld tokens", l->name,
                        (long long)most, (long long)there);
    *size = (size_t)(most + 1);
    return SPT_OK;
}

static spt_status set_token(loader *l, int64_t id, const char *text,
                            token_kind kind, spt_error *err)
{
    token *k = &l->t->tokens[id];
    size_t size = strlen(text);
    k->text.data = spt_arena_strdup(&l->t->arena, text, size);
    k->text.size = size;
    k->kind = (uint8_t)kind;
    return k->text.data
               ? SPT_OK
               : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", l->name);
}

static bool is_byte(const char *text)
{
    unsigned value;
    char rest;
    return strlen(text) == 6 && sscanf(text, "<0x%2X%c", &value, &rest) == 2 &&
           rest == '>';
}

static spt_status read_vocab(loader *l, const cJSON *vocab, bool fallback,
                             spt_error *err)
{
    const cJSON *item;
    for (int i = 0; i < l->t->size; i++) {
        l->t->tokens[i].text = (spt_text){"", 0};
        l->t->tokens[i].kind = TOKEN_UNUSED;
    }
    cJSON_ArrayForEach(item, vocab)
    {
        token_kind kind =
            fallback && is_byte(item->string) ? TOKEN_BYTE : TOKEN_NORMAL;
        SPT_TRY(
            set_token(l, (int64_t)item->valuedouble, item->string, kind, err));
    }
    return SPT_OK;
}

static spt_status read_added(loader *l, const cJSON *added, spt_error *err)
{
    static const char *const off[] = {"single_word", "lstrip", "rstrip"};
    const cJSON *item;
    cJSON_ArrayForEach(item, added)
    {
        const char *text = text_of(item, "content");
        if (!text || !*text)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: added_tokens has one without content",
                            l->name);
        for (size_t i = 0; i < sizeof off / sizeof *off; i++)
            if (flag(item, off[i], false))
                return spt_fail(err, SPT_E_UNSUPPORTED,
                                "%s: added token '%.40s' with %s", l->name,
                                text, off[i]);
        int64_t id =
            (int64_t)cJSON_GetObjectItemCaseSensitive(item, "id")->valuedouble;
        SPT_TRY(set_token(
            l, id, text,
            flag(item, "special", false) ? TOKEN_CONTROL : TOKEN_USER, err));
    }
    return SPT_OK;
}

static spt_status read_merge(loader *l, const cJSON *item, int32_t rank,
                             spt_error *err)
{
    const char *text = cJSON_GetStringValue(item);
    if (text)
        return spt_merges_text(l->t, (spt_text){text, strlen(text)}, rank, err);
    const char *left = cJSON_GetStringValue(cJSON_GetArrayItem(item, 0));
    const char *right = cJSON_GetStringValue(cJSON_GetArrayItem(item, 1));
    if (!left || !right)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: merge %d is neither a text nor two", l->name,
                        rank);
    return spt_merges_pair(l->t, (spt_text){left, strlen(left)},
                           (spt_text){right, strlen(right)}, rank, err);
}

static spt_status read_merges(loader *l, const cJSON *model, spt_error *err)
{
    const cJSON *merges, *item;
    int32_t rank = 0;
    SPT_TRY(spt_json_array(model, l->name, "merges", &merges, err));
    SPT_TRY(spt_merges_room(l->t, (size_t)cJSON_GetArraySize(merges), err));
    cJSON_ArrayForEach(item, merges) SPT_TRY(read_merge(l, item, rank++, err));
    return SPT_OK;
}

/* Options of BPE that would give other ids. */
static spt_status check_model(const loader *l, const cJSON *model,
                              spt_error *err)
{
    static const char *const off[] = {"dropout", "continuing_subword_prefix",
                                      "end_of_word_suffix"};
    if (strcmp(type_of(model), "BPE") != 0)
        return unknown_part(l, "model", model, err);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        const char *text = text_of(model, off[i]);
        if (spt_json_has(model, off[i]) && !(text && !*text))
            return spt_fail(err, SPT_E_UNSUPPORTED, "%s: model with %s",
                            l->name, off[i]);
    }
    return SPT_OK;
}

static spt_status check_kinds(const loader *l, spt_error *err)
{
    if (l->t->byte_level && (l->blanks || l->t->blank_first))
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: byte-level words and blanks as U+2581 at once",
                        l->name);
    if (!l->t->byte_level && !l->blanks)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: neither a byte-level pre_tokenizer nor a "
                        "normalizer that replaces blanks",
                        l->name);
    if (!l->t->byte_level && l->t->nfc)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: NFC and blanks as U+2581 at once", l->name);
    return SPT_OK;
}

static spt_status read_parts(loader *l, const cJSON *root, spt_error *err)
{
    SPT_TRY(each_part(l, cJSON_GetObjectItemCaseSensitive(root, "normalizer"),
                      "normalizers", add_normalizer, err));
    SPT_TRY(each_part(l,
                      cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer"),
                      "pretokenizers", add_cut, err));
    SPT_TRY(check_kinds(l, err));
    return each_part(l, cJSON_GetObjectItemCaseSensitive(root, "decoder"),
                     "decoders", add_decoder, err);
}

static spt_status read_root(loader *l, spt_tokenizer **out, const cJSON *root,
                            spt_error *err)
{
    const cJSON *model, *vocab, *added = NULL;
    size_t size = 0;
    SPT_TRY(spt_json_object(root, l->name, "model", &model, err));
    SPT_TRY(check_model(l, model, err));
    SPT_TRY(spt_json_object(model, l->name, "vocab", &vocab, err));
    if (spt_json_has(root, "added_tokens"))
        SPT_TRY(spt_json_array(root, l->name, "added_tokens", &added, err));
    SPT_TRY(count_tokens(l, vocab, added, &size, err));
    SPT_TRY(spt_tokenizer_new(out, l->name, size, err));
    l->t = *out;
    SPT_TRY(read_parts(l, root, err));
    SPT_TRY(read_vocab(l, vocab, flag(model, "byte_fallback", false), err));
    SPT_TRY(read_added(l, added, err));
    l->t->whole_word = flag(model, "ignore_merges", false);
    l->t->fuse_unknown = flag(model, "fuse_unk", false);
    SPT_TRY(spt_tokenizer_finish(l->t, err));
    const char *unknown = text_of(model, "unk_token");
    if (unknown && *unknown)
        l->t->unknown = spt_tokenizer_find(l->t, unknown);
    SPT_TRY(read_merges(l, model, err));
    return each_part(l,
                     cJSON_GetObjectItemCaseSensitive(root, "post_processor"),
                     "processors", add_template, err);
}

spt_status spt_tokenizer_from_json(spt_tokenizer **out, const char *text,
                                   size_t size, const char *name,
                                   spt_error *err)
{
    cJSON *root = NULL;
    spt_tokenizer *t = NULL;
    loader l = {.name = name};
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    spt_status status =
        cJSON_IsObject(root)
            ? read_root(&l, &t, root, err)
            : spt_fail(err, SPT_E_FORMAT, "%s: expected a JSON object", name);
    cJSON_Delete(root);
    if (status == SPT_OK)
        *out = t;
    else
        spt_tokenizer_close(t);
    return status;
}
