/*
 * Decoders of stored weights against the values of the gguf package
 * (tests/fixtures/weights.py), bit by bit, and the table of types.
 */
#include <stdlib.h>

#include "check.h"
#include "files.h"
#include "weight.h"

static spt_error err;

static uint32_t word_at(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static void test_decoders(void)
{
    spt_buf file = {0};
    if (!CHECK_OK(
            spt_file_read("tests/fixtures/weights.bin", 1 << 20, &file, &err),
            &err, "the fixture is there"))
        return;
    const char *p = file.data, *end = p + file.size;
    int types = 0;
    while (p + 12 < end) {
        uint32_t number = word_at(p), weights = word_at(p + 4),
                 bytes = word_at(p + 8);
        const char *row = p + 12, *expected = row + bytes;
        spt_weight_type type;
        if (!CHECK(spt_weight_from_gguf(number, &type), "type %u", number))
            break;
        float *out = malloc(weights * sizeof *out);
        spt_weight_row_f32(type, row, weights, out);
        CHECK(memcmp(out, expected, weights * sizeof *out) == 0,
              "%s gives the bits of the gguf package",
              spt_weight_format_of(type)->name);
        CHECK(spt_weight_bytes(type, weights) == bytes, "from as many bytes");
        free(out);
        p = expected + weights * 4;
        types++;
    }
    CHECK(p == end, "the fixture is read to its end");
    int decoding = 0;
    for (int i = 0; i < SPT_WEIGHT_TYPES; i++)
        decoding += spt_weight_format_of((spt_weight_type)i)->decodes;
    CHECK_INT(types, decoding, "every type that decodes is in it");
    spt_buf_free(&file);
}

static void test_table(void)
{
    bool found = true;
    for (int i = 0; i < SPT_WEIGHT_TYPES; i++) {
        const spt_weight_format *f = spt_weight_format_of((spt_weight_type)i);
        spt_weight_type by_name, by_number;
        found &= spt_weight_from_name(f->name, &by_name) && (int)by_name == i;
        found &=
            spt_weight_from_gguf(f->gguf, &by_number) && (int)by_number == i;
    }
    CHECK(found, "every type is found by its name and by its number");
    spt_weight_type type;
    CHECK(!spt_weight_from_gguf(4, &type), "a removed number is no type");
    CHECK(!spt_weight_from_name("q4", &type), "half a name is no type");
}

int main(void)
{
    test_decoders();
    test_table();
    return check_done();
}
