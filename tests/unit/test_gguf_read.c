/* The GGUF reader: what it gives, and every kind of file that it refuses. */
#include <stdlib.h>

#include "check.h"
#include "gguf_make.h"

static spt_error err;

/* A file with each type of value and three tensors. */
static void add_pairs(gguf_maker *m)
{
    static const char *const words[] = {"", "two", "drei"};
    static const int numbers[] = {5, -6};
    gguf_put_text(m, "text", "caf\xc3\xa9");
    gguf_put_int(m, "number", 4000000000u);
    gguf_put_f32(m, "float", 1.5f);
    gguf_put_bool(m, "flag", true);
    gguf_put_texts(m, "words", words, 3);
    gguf_put_ints(m, "numbers", numbers, 2);
    gguf_key(m, "small", SPT_GGUF_I8);
    gguf_bytes(&m->pairs, 0xfe, 1);
    gguf_key(m, "huge", SPT_GGUF_U64);
    gguf_bytes(&m->pairs, UINT64_MAX, 8);
}

static void add_tensors(gguf_maker *m)
{
    gguf_put_tensor(m, "b", SPT_WEIGHT_F32, 3, 0, "0123456789a");
    gguf_put_tensor(m, "a", SPT_WEIGHT_Q4_0, 64, 2, NULL);
    gguf_put_tensor(m, "c", SPT_WEIGHT_F16, 5, 1, NULL);
}

static spt_status parse(const spt_buf *b, spt_gguf **out)
{
    return spt_gguf_parse(out, b->data, b->size, "x.gguf", &err);
}

static void test_values(const spt_gguf *g)
{
    spt_text text;
    int64_t number = 0;
    double real = 0;
    bool flag = false;
    float single = 0;
    spt_gguf_array a = {0};
    CHECK(spt_gguf_string(g, "text", &text, &err) == SPT_OK && text.size == 5,
          "a text");
    CHECK(spt_gguf_int(g, "number", 0, INT64_MAX, &number, &err) == SPT_OK &&
              number == 4000000000,
          "an integer");
    CHECK(spt_gguf_int(g, "small", -9, 0, &number, &err) == SPT_OK &&
              number == -2,
          "a negative one");
    CHECK(spt_gguf_int(g, "huge", 0, INT64_MAX, &number, &err) != SPT_OK,
          "one that does not fit is refused");
    CHECK_HAS(err.text, "x.gguf: GGUF key huge is out of range", "by name");
    CHECK(spt_gguf_number(g, "float", &real, &err) == SPT_OK && real == 1.5,
          "a float");
    CHECK(spt_gguf_bool(g, "flag", &flag, &err) == SPT_OK && flag, "a flag");
    CHECK(spt_gguf_int(g, "text", 0, 9, &number, &err) != SPT_OK,
          "a text is no integer");
    CHECK_HAS(err.text, "GGUF key text is a text, expected an integer", "");
    number = 77;
    CHECK(spt_gguf_int(g, "absent", 0, 9, &number, &err) == SPT_OK &&
              number == 77 && !spt_gguf_has(g, "absent"),
          "what is not there leaves the value");
    CHECK(spt_gguf_get_array(g, "words", &a, &err) == SPT_OK && a.count == 3 &&
              a.texts[2].size == 4 && !spt_gguf_array_int(&a, 0, &number),
          "an array of texts");
    CHECK(spt_gguf_get_array(g, "numbers", &a, &err) == SPT_OK &&
              spt_gguf_array_int(&a, 1, &number) && number == -6 &&
              spt_gguf_array_float(&a, 0, &single) && single == 5 &&
              !spt_gguf_array_int(&a, 2, &number),
          "an array of integers");
}

static void test_tensors(const spt_gguf *g)
{
    const spt_gguf_tensor *t = spt_gguf_tensor_find(g, "b");
    CHECK_INT(spt_gguf_tensor_count(g), 3, "three tensors");
    CHECK(t && t == spt_gguf_tensor_at(g, 0) && t->bytes == 12 &&
              memcmp(spt_gguf_tensor_data(g, t), "0123456789a", 12) == 0,
          "a tensor's bytes");
    t = spt_gguf_tensor_find(g, "a");
    CHECK(t && t->offset == 32 && t->bytes == 72 && t->size[1] == 2 &&
              t->size[2] == 1,
          "one in blocks");
    CHECK(!spt_gguf_tensor_find(g, "ab"), "and none of another name");
}

static void test_whole(void)
{
    for (uint32_t version = 2; version <= 3; version++) {
        spt_buf b = {0};
        gguf_maker m = {.version = version};
        spt_gguf *g = NULL;
        add_pairs(&m);
        add_tensors(&m);
        size_t header = gguf_finish(&m, &b);
        if (CHECK_OK(parse(&b, &g), &err, "a GGUF is read")) {
            test_values(g);
            test_tensors(g);
            CHECK_OK(spt_gguf_complete(g, &err), &err, "it is complete");
        }
        spt_gguf_close(g);
        bool refused = true;
        for (size_t n = 0; n < b.size; n++) {
            char *part = malloc(n ? n : 1);
            memcpy(part, b.data, n);
            g = NULL;
            bool bad = spt_gguf_parse(&g, part, n, "cut", &err) != SPT_OK ||
                       spt_gguf_complete(g, &err) != SPT_OK;
            refused &= bad && (n < header ? !g : g != NULL);
            spt_gguf_close(g);
            free(part);
        }
        CHECK(refused, "every shorter file is refused");
        spt_buf_free(&b);
    }
}

/* Each case spoils a good file by what is put into the maker, or by a word
   written over the file. */
static void pair_twice(gguf_maker *m)
{
    gguf_put_int(m, "flag", 1);
}

static void unknown_value(gguf_maker *m)
{
    gguf_key(m, "odd", SPT_GGUF_TYPES);
}

static void nested(gguf_maker *m)
{
    gguf_key(m, "nest", SPT_GGUF_ARRAY);
    gguf_bytes(&m->pairs, SPT_GGUF_ARRAY, 4);
    gguf_bytes(&m->pairs, 0, 8);
}

static void long_array(gguf_maker *m)
{
    gguf_key(m, "long", SPT_GGUF_ARRAY);
    gguf_bytes(&m->pairs, SPT_GGUF_F32, 4);
    gguf_bytes(&m->pairs, (uint64_t)1 << 62, 8);
}

static void no_key(gguf_maker *m)
{
    gguf_put_int(m, "", 1);
}

static void bad_alignment(gguf_maker *m)
{
    gguf_put_int(m, "general.alignment", 48);
}

static void other_alignment(gguf_maker *m)
{
    gguf_put_int(m, "general.alignment", 128);
}

static void tensor_twice(gguf_maker *m)
{
    gguf_put_tensor(m, "b", SPT_WEIGHT_F32, 1, 0, NULL);
}

static void half_block(gguf_maker *m)
{
    gguf_put_tensor(m, "half", SPT_WEIGHT_Q8_0, 48, 2, NULL);
}

static void no_rows(gguf_maker *m)
{
    gguf_put_tensor(m, "none", SPT_WEIGHT_F32, 0, 0, NULL);
}

static void long_name(gguf_maker *m)
{
    gguf_put_tensor(
        m, "0123456789012345678901234567890123456789012345678901234567890123",
        SPT_WEIGHT_F32, 1, 0, NULL);
}

static void many_dims(gguf_maker *m)
{
    gguf_bytes_text(&m->infos, "dims\n");
    gguf_bytes(&m->infos, 5, 4);
    gguf_bytes(&m->infos, 1, 64);
    m->tensor_count++;
}

static void overflow(gguf_maker *m)
{
    gguf_bytes_text(&m->infos, "big");
    gguf_bytes(&m->infos, 2, 4);
    gguf_bytes(&m->infos, (uint64_t)1 << 40, 8);
    gguf_bytes(&m->infos, (uint64_t)1 << 40, 8);
    gguf_bytes(&m->infos, 0, 12);
    m->tensor_count++;
}

static void removed_type(gguf_maker *m)
{
    gguf_bytes_text(&m->infos, "old");
    gguf_bytes(&m->infos, 1, 4);
    gguf_bytes(&m->infos, 1, 8);
    gguf_bytes(&m->infos, 4, 4);
    gguf_bytes(&m->infos, 0, 8);
    m->tensor_count++;
}

static void version_one(gguf_maker *m)
{
    m->version = 1;
}

static void swapped(gguf_maker *m)
{
    m->version = 3u << 24;
}

static void more_pairs(gguf_maker *m)
{
    m->pair_count += (uint64_t)1 << 60;
}

static void more_tensors(gguf_maker *m)
{
    m->tensor_count += (uint64_t)1 << 60;
}

static void test_refused(void)
{
    static const struct {
        void (*spoil)(gguf_maker *m);
        const char *says;
    } cases[] = {
        {pair_twice, "key flag is there twice"},
        {unknown_value, "key odd has type 13, expected 0 to 12"},
        {nested, "key nest is an array of type 9"},
        {long_array, "ends early, inside its header"},
        {no_key, "key without a name"},
        {bad_alignment, "general.alignment is 48, expected a power of two"},
        {other_alignment, "tensor a is at 32, expected 128"},
        {tensor_twice, "tensor b is there twice"},
        {half_block, "rows of 48 weights, expected a multiple of 32 (q8_0)"},
        {no_rows, "has the size 0 in dimension 0"},
        {long_name, "has 64 bytes, expected 1 to 63"},
        {many_dims, "tensor dims? has 5 dimensions, expected 1 to 4"},
        {overflow, "has the size 1099511627776 in dimension 1"},
        {removed_type, "has type 4, which is not known"},
        {version_one, "GGUF version 1, expected 2 or 3"},
        {swapped, "big-endian"},
        {more_pairs, "ends early, inside its header"},
        {more_tensors, "ends early, inside its header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spt_buf b = {0};
        gguf_maker m = {0};
        spt_gguf *g = NULL;
        add_pairs(&m);
        add_tensors(&m);
        cases[i].spoil(&m);
        gguf_finish(&m, &b);
        CHECK(parse(&b, &g) != SPT_OK, "spoilt file %zu is refused", i);
        CHECK_HAS(err.text, cases[i].says, "and the line says why");
        spt_gguf_close(g);
        spt_buf_free(&b);
    }
    spt_gguf *g;
    CHECK(spt_gguf_parse(&g, "GGML....", 8, "x", &err) != SPT_OK,
          "another magic is refused");
    CHECK_HAS(err.text, "x: not a GGUF", "and the line says why");
}

int main(void)
{
    test_whole();
    test_refused();
    return check_done();
}
