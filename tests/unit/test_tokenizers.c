/*
 * Tokenizers against `tokenizers` (tests/fixtures/tokenizer_cases.py): ids and
 * the text that they give, from tokenizer.json and from a GGUF made of it.
 *
 *   test_tokenizers [TOKENIZER CASES.json]
 *
 * With arguments: a .gguf or tokenizer.json against cases of that script.
 */
#include <stdlib.h>

#include "check.h"
#include "files.h"
#include "gguf_make.h"
#include "json.h"
#include "tokenizer.h"

static spt_error err;

static const char *const names[] = {"gpt-2", "smollm", "llama-bpe", "qwen2",
                                    "spm"};
enum { NAMES = sizeof names / sizeof *names };

static cJSON *read_json(const char *path)
{
    cJSON *root = NULL;
    if (!CHECK_OK(spt_json_read(path, 256 << 20, &root, &err), &err, path))
        return NULL;
    return root;
}

static void show_ids(const char *what, const spt_ids *ids)
{
    printf("#   %s:", what);
    for (size_t i = 0; i < ids->size; i++)
        printf(" %d", ids->data[i]);
    printf("\n");
}

static spt_ids encode(const spt_tokenizer *t, const char *text,
                      spt_encode_options options)
{
    spt_ids ids = {0};
    if (spt_tokenizer_encode(t, text, strlen(text), options, &ids, &err) !=
        SPT_OK)
        printf("# %s\n", err.text);
    return ids;
}

/* One case: [text, [ids], text of the ids]. */
static bool agrees(const spt_tokenizer *t, const cJSON *row)
{
    const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
    const char *back = cJSON_GetStringValue(cJSON_GetArrayItem(row, 2));
    const cJSON *id;
    spt_ids expected = {0};
    spt_buf decoded = {0};
    cJSON_ArrayForEach(id, cJSON_GetArrayItem(row, 1))
        spt_ids_add(&expected, id->valueint);
    spt_ids seen = encode(t, text, (spt_encode_options){.specials = true});
    bool good = seen.size == expected.size &&
                (!seen.size || memcmp(seen.data, expected.data,
                                      seen.size * sizeof *seen.data) == 0);
    spt_tokenizer_decode(t, expected.data, expected.size, false, &decoded);
    bool same = strcmp(decoded.data ? decoded.data : "", back) == 0;
    if (!good || !same) {
        printf("#   text: \"%s\"\n#   decoded: \"%s\"\n", text,
               decoded.data ? decoded.data : "");
        show_ids("is", &seen);
        show_ids("expected", &expected);
    }
    spt_ids_free(&seen);
    spt_ids_free(&expected);
    spt_buf_free(&decoded);
    return good && same;
}

static void check_cases(const spt_tokenizer *t, const char *path,
                        const char *what)
{
    const cJSON *row;
    cJSON *root = read_json(path);
    int good = 0, count = cJSON_GetArraySize(root);
    cJSON_ArrayForEach(row, root) good += agrees(t, row);
    CHECK(count > 0 && good == count, "%s: %d of %d texts agree", what, good,
          count);
    cJSON_Delete(root);
}

static spt_tokenizer *open_json(const char *path)
{
    spt_buf text = {0};
    spt_tokenizer *t = NULL;
    if (CHECK_OK(spt_file_read(path, 256 << 20, &text, &err), &err, path))
        CHECK_OK(spt_tokenizer_from_json(&t, text.data, text.size, path, &err),
                 &err, "a tokenizer.json is read");
    spt_buf_free(&text);
    return t;
}

/* The same tokenizer as a GGUF has it. */
typedef struct tables {
    const char *texts[1024];
    int kinds[1024];
    int count;
    spt_buf merges; /* of C strings, one after the other */
    const char *merge_texts[1024];
    int merge_count;
} tables;

static void read_tables(const cJSON *root, tables *t)
{
    const cJSON *model = cJSON_GetObjectItem(root, "model"), *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(model, "vocab"))
    {
        t->texts[item->valueint] = item->string;
        t->kinds[item->valueint] = 1;
        if (item->valueint >= t->count)
            t->count = item->valueint + 1;
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "added_tokens"))
    {
        int id = cJSON_GetObjectItem(item, "id")->valueint;
        bool special = cJSON_IsTrue(cJSON_GetObjectItem(item, "special"));
        t->texts[id] = cJSON_GetObjectItem(item, "content")->valuestring;
        t->kinds[id] = special ? 3 : 4;
        if (id >= t->count)
            t->count = id + 1;
    }
    size_t places[1024];
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(model, "merges"))
    {
        places[t->merge_count++] = t->merges.size;
        spt_buf_printf(&t->merges, "%s %s",
                       cJSON_GetArrayItem(item, 0)->valuestring,
                       cJSON_GetArrayItem(item, 1)->valuestring);
        spt_buf_add(&t->merges, "", 1);
    }
    for (int i = 0; i < t->merge_count; i++)
        t->merge_texts[i] = t->merges.data + places[i];
}

static void make_gguf(const char *name, spt_buf *file)
{
    char path[128];
    tables t = {0};
    gguf_maker m = {0};
    snprintf(path, sizeof path, "tests/fixtures/tokenizers/%s.json", name);
    cJSON *root = read_json(path);
    read_tables(root, &t);
    gguf_put_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(&m, "tokenizer.ggml.pre", name);
    gguf_put_texts(&m, "tokenizer.ggml.tokens", t.texts, (size_t)t.count);
    gguf_put_ints(&m, "tokenizer.ggml.token_type", t.kinds, (size_t)t.count);
    gguf_put_texts(&m, "tokenizer.ggml.merges", t.merge_texts,
                   (size_t)t.merge_count);
    gguf_put_int(&m, "tokenizer.ggml.bos_token_id", 0);
    gguf_put_int(&m, "tokenizer.ggml.eos_token_id", 2);
    gguf_finish(&m, file);
    spt_buf_free(&t.merges);
    cJSON_Delete(root);
}

static void test_gguf(const char *name, const char *cases)
{
    spt_buf file = {0};
    spt_gguf *gguf = NULL;
    spt_tokenizer *t = NULL;
    make_gguf(name, &file);
    CHECK_OK(spt_gguf_parse(&gguf, file.data, file.size, name, &err), &err,
             "a GGUF with a tokenizer");
    if (gguf && CHECK_OK(spt_tokenizer_from_gguf(&t, gguf, &err), &err,
                         "its tokenizer")) {
        check_cases(t, cases, "gguf");
        CHECK(spt_tokenizer_is_end(t, 2) && !spt_tokenizer_is_end(t, 3),
              "and its end");
    }
    spt_tokenizer_close(t);
    spt_gguf_close(gguf);
    spt_buf_free(&file);
}

/* As Gemma's file: two blanks are a token of the user, in blanks. */
static void test_gguf_blanks(void)
{
    static const char *const texts[] = {"<s>", "<unk>", "  ", "\xe2\x96\x81",
                                        "a"};
    static const int kinds[] = {3, 2, 4, 1, 1};
    spt_buf file = {0};
    gguf_maker m = {0};
    spt_gguf *gguf = NULL;
    spt_tokenizer *t = NULL;
    gguf_put_text(&m, "tokenizer.ggml.model", "llama");
    gguf_put_texts(&m, "tokenizer.ggml.tokens", texts, 5);
    gguf_put_ints(&m, "tokenizer.ggml.token_type", kinds, 5);
    gguf_put_zeros(&m, "tokenizer.ggml.scores", 5);
    gguf_put_int(&m, "tokenizer.ggml.unknown_token_id", 1);
    gguf_put_bool(&m, "tokenizer.ggml.add_space_prefix", false);
    gguf_finish(&m, &file);
    if (CHECK_OK(spt_gguf_parse(&gguf, file.data, file.size, "spm", &err), &err,
                 "a GGUF with an SPM tokenizer") &&
        CHECK_OK(spt_tokenizer_from_gguf(&t, gguf, &err), &err, "is read")) {
        spt_ids blanks = encode(t, "a  a a", (spt_encode_options){0});
        spt_ids marks = encode(t,
                               "a\xe2\x96\x81\xe2\x96\x81"
                               "a\xe2\x96\x81"
                               "a",
                               (spt_encode_options){0});
        CHECK(blanks.size == 5 && blanks.data[1] == 2 && blanks.data[3] == 3,
              "blanks are cut out");
        CHECK(marks.size == 5 &&
                  memcmp(marks.data, blanks.data, sizeof(int32_t[5])) == 0,
              "U+2581 is a blank, there too");
        spt_ids_free(&blanks);
        spt_ids_free(&marks);
    }
    spt_tokenizer_close(t);
    spt_gguf_close(gguf);
    spt_buf_free(&file);
}

static void test_fixtures(void)
{
    for (int i = 0; i < NAMES; i++) {
        char path[128], cases[128];
        snprintf(path, sizeof path, "tests/fixtures/tokenizers/%s.json",
                 names[i]);
        snprintf(cases, sizeof cases, "tests/fixtures/tokenizers/%s.cases.json",
                 names[i]);
        spt_tokenizer *t = open_json(path);
        if (t)
            check_cases(t, cases, names[i]);
        spt_tokenizer_close(t);
        if (i < 4)
            test_gguf(names[i], cases);
    }
}

static void test_options(void)
{
    spt_tokenizer *t = open_json("tests/fixtures/tokenizers/llama-bpe.json");
    if (!t)
        return;
    spt_ids plain = encode(t, "a<|im_end|>", (spt_encode_options){0});
    spt_ids cut =
        encode(t, "a<|im_end|>", (spt_encode_options){.specials = true});
    spt_ids begun =
        encode(t, "a<|im_end|>",
               (spt_encode_options){.specials = true, .begin = true});
    int32_t end = spt_tokenizer_find(t, "<|im_end|>");
    CHECK(cut.size == 2 && cut.data[1] == end, "a special token in the text");
    CHECK(plain.size > 2 && plain.data[1] != end, "or its letters");
    CHECK(begun.size == 3 && begun.data[0] == spt_tokenizer_begin_id(t),
          "the token that begins a text");
    CHECK(spt_tokenizer_bytes(t, end, false).size == 0 &&
              spt_tokenizer_bytes(t, end, true).size == 10,
          "a special token's text is shown when asked for");
    CHECK_TEXT(spt_tokenizer_token(t, end), "<|im_end|>", "or by its id");
    spt_ids none = {0};
    CHECK(spt_tokenizer_encode(t, "ab\xff", 3, (spt_encode_options){0}, &none,
                               &err) != SPT_OK,
          "what is no UTF-8 is refused");
    CHECK_HAS(err.text, "byte 2 is 0xFF", "with its place");
    spt_ids_free(&plain);
    spt_ids_free(&cut);
    spt_ids_free(&begun);
    spt_tokenizer_close(t);
}

static bool stops(void *user)
{
    return ++*(int *)user == 2;
}

/* A text of more tokens than there is room for, and one that nobody waits
   for any more, are not encoded to their end. */
static void test_bounds(void)
{
    spt_tokenizer *t = open_json("tests/fixtures/tokenizers/gpt-2.json");
    if (!t)
        return;
    spt_ids ids = {0};
    enum { SIZE = 1 << 20 };
    char *text = spt_calloc(SIZE + 1, 1);
    for (int i = 0; i < SIZE; i++)
        text[i] = "the "[i % 4];
    spt_encode_options four = {.most = 4};
    CHECK(spt_tokenizer_encode(t, "....", 4, four, &ids, &err) == SPT_OK &&
              ids.size == 4,
          "as many tokens as may be");
    CHECK(spt_tokenizer_encode(t, ".....", 5, four, &ids, &err) ==
                  SPT_E_USAGE &&
              ids.size == 4,
          "one more is refused, and none is added");
    CHECK_TEXT(err.text, "more than 4 tokens", "with how many may be");
    int asked = 0;
    spt_encode_options waiting = {.most = 4, .stop = stops, .user = &asked};
    CHECK(spt_tokenizer_encode(t, text, SIZE, waiting, &ids, &err) ==
                  SPT_E_USAGE &&
              asked == 0,
          "a text that must have more is not begun");
    waiting.most = 0;
    CHECK(spt_tokenizer_encode(t, text, SIZE, waiting, &ids, &err) ==
                  SPT_E_CANCELLED &&
              asked == 2,
          "one that is not wanted any more ends within a word");
    spt_ids_free(&ids);
    spt_free(text);
    spt_tokenizer_close(t);
}

/* Every id alone: pieces of characters are held until they are complete. */
static void test_streaming(void)
{
    static const char text[] = "a 世界 😀 é";
    spt_tokenizer *t = open_json("tests/fixtures/tokenizers/gpt-2.json");
    if (!t)
        return;
    spt_ids ids = encode(t, text, (spt_encode_options){0});
    spt_decoder d;
    spt_buf whole = {0};
    bool valid = true;
    spt_decoder_start(&d, t, false);
    for (size_t i = 0; i < ids.size; i++) {
        size_t before = whole.size;
        spt_decoder_add(&d, ids.data[i], &whole);
        valid &= whole.size == before ||
                 ((uint8_t)whole.data[before] & 0xc0) != 0x80;
    }
    spt_decoder_end(&d, &whole);
    CHECK_TEXT(whole.data, text, "a text streams");
    CHECK(valid, "in whole characters");
    whole.size = 0;
    /* Bytes E4 B8 of a character, then "a", then F0 alone. */
    static const char *const pieces[] = {"ä", "¸", "a", "ð"};
    spt_decoder_start(&d, t, false);
    for (int i = 0; i < 4; i++)
        spt_decoder_add(&d, spt_tokenizer_find(t, pieces[i]), &whole);
    CHECK(whole.size == 4, "the last byte is held");
    spt_decoder_end(&d, &whole);
    CHECK_TEXT(whole.data,
               "\xef\xbf\xbd"
               "a\xef\xbf\xbd",
               "what never becomes a character is replaced");
    spt_ids_free(&ids);
    spt_buf_free(&whole);
    spt_tokenizer_close(t);
}

static int run_cases(const char *path, const char *cases)
{
    spt_tokenizer *t = NULL;
    spt_mapping file = {0};
    spt_gguf *gguf = NULL;
    if (!CHECK_OK(spt_file_map(path, &file, &err), &err, path))
        return check_done();
    if (spt_gguf_parse(&gguf, file.data, file.size, path, &err) == SPT_OK)
        CHECK_OK(spt_tokenizer_from_gguf(&t, gguf, &err), &err, path);
    else
        t = open_json(path);
    if (t)
        check_cases(t, cases, path);
    spt_tokenizer_close(t);
    spt_gguf_close(gguf);
    spt_file_unmap(&file);
    return check_done();
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return run_cases(argv[1], argv[2]);
    test_fixtures();
    test_gguf_blanks();
    test_options();
    test_bounds();
    test_streaming();
    return check_done();
}
