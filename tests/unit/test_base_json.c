#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "hash.h"
#include "json.h"

static spt_error err;

static cJSON *parse(const char *text)
{
    cJSON *root = NULL;
    return spt_json_parse(text, strlen(text), "x.json", &root, &err) == SPT_OK
               ? root
               : NULL;
}

static void test_syntax_errors(void)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\n  \"a\": 1,\n  \"b\": tru\n}", "x.json:3:8: JSON does not allow"},
        {"{\"a\": 1} x", "x.json:1:10: JSON ends early, or does not allow 'x'"},
        {"", "x.json:1:1: JSON ends early"},
        {"{\"a\": [1, 2", "JSON ends early"},
        {"[1, 2,]", "does not allow ']'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!parse(cases[i].text), "broken text %zu is refused", i);
        CHECK_HAS(err.text, cases[i].expected, "place and reason");
    }
}

static void test_fields(void)
{
    cJSON *root = parse("{\"t\": \"x\", \"n\": 1.5, \"i\": 7, \"b\": true, "
                        "\"a\": [], \"o\": {}, \"z\": null, \"big\": 1e300}");
    const char *text;
    double number;
    int64_t integer;
    bool flag;
    const cJSON *item;
    CHECK_OK(spt_json_text(root, "f", "t", &text, &err), &err, "text");
    CHECK_OK(spt_json_number(root, "f", "n", 0, 2, &number, &err), &err,
             "number");
    CHECK_OK(spt_json_int(root, "f", "i", 0, 9, &integer, &err), &err, "int");
    CHECK_OK(spt_json_bool(root, "f", "b", &flag, &err), &err, "bool");
    CHECK_OK(spt_json_array(root, "f", "a", &item, &err), &err, "array");
    CHECK_OK(spt_json_object(root, "f", "o", &item, &err), &err, "object");
    CHECK(!spt_json_has(root, "z") && spt_json_has(root, "t"),
          "null counts as absent");
    CHECK(spt_json_int(root, "f", "n", 0, 9, &integer, &err) == SPT_E_FORMAT,
          "a fraction is no integer");
    CHECK(spt_json_int(root, "f", "big", INT64_MIN, INT64_MAX, &integer,
                       &err) == SPT_E_FORMAT,
          "1e300 is no integer");
    CHECK(spt_json_number(root, "f", "i", 0, 5, &number, &err) == SPT_E_FORMAT,
          "out of bounds");
    CHECK_TEXT(err.text, "f: i: expected a number from 0 to 5", "bounds said");
    CHECK(spt_json_text(root, "f", "q", &text, &err) == SPT_E_FORMAT,
          "missing");
    CHECK_TEXT(err.text, "f: q: is missing, expected a string", "missing said");
    CHECK(spt_json_only(root, "f", "t n i b a o z", &err) == SPT_E_FORMAT,
          "unknown field");
    CHECK_HAS(err.text, "unknown field 'big'", "named");
    CHECK_OK(spt_json_only(root, "f", "t n i b a o z big", &err), &err,
             "all known");
    cJSON_Delete(root);
    root = parse("{\"a\": 1, \"a\": 2}");
    CHECK(spt_json_only(root, "f", "a", &err) == SPT_E_FORMAT, "twice");
    cJSON_Delete(root);
}

static void test_printing(void)
{
    static const char text[] =
        "{\n  \"name\": \"a\\\"\\\\\\n\",\n  \"list\": [1, 2.5, -3e-07, true, "
        "null, 123456789012],\n  \"long\": [\n"
        "    \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\n"
        "    \"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"\n  ],\n"
        "  \"empty\": {}\n}";
    cJSON *root = parse(text);
    spt_buf out = {0};
    spt_json_print(root, &out);
    CHECK_TEXT(out.data, text, "print(parse(text)) is text");
    spt_buf_free(&out);
    spt_json_add4(root, "x", 0.123456);
    CHECK_NEAR(cJSON_GetObjectItem(root, "x")->valuedouble, 0.1235, 0,
               "four digits");
    cJSON_Delete(root);
    CHECK_NEAR(spt_round4(123456.0), 123500.0, 0, "four digits of a large one");
}

static void test_nul(void)
{
    cJSON *root = cJSON_CreateObject();
    spt_json_add_text(root, "text", (spt_text){"a\0b", 3});
    spt_json_add_text(root, "none", (spt_text){NULL, 0});
    CHECK_TEXT(cJSON_GetObjectItem(root, "text")->valuestring,
               "a\xef\xbf\xbd"
               "b",
               "a NUL is replaced");
    CHECK_TEXT(cJSON_GetObjectItem(root, "none")->valuestring, "", "no text");
    cJSON_Delete(root);
}

static void test_hash(void)
{
    char hex[SPT_SHA256_TEXT], path[] = "/tmp/spt_hash_XXXXXX";
    spt_sha256("abc", 3, hex);
    CHECK_TEXT(hex,
               "ba7816bf8f01cfea414140de5dae2223"
               "b00361a396177a9cb410ff61f20015ad",
               "SHA-256 of FIPS 180-4's first example");
    CHECK(spt_sha256_valid(hex), "valid text");
    hex[3] = 'G';
    CHECK(!spt_sha256_valid(hex), "invalid text");
    uint64_t bytes = 0;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "abc", 3) == 3, "a file");
    close(fd);
    CHECK_OK(spt_sha256_file(path, hex, &bytes, &err), &err, "file hash");
    CHECK(bytes == 3 && strncmp(hex, "ba7816bf", 8) == 0, "same hash");
    unlink(path);
    CHECK(spt_sha256_file(path, hex, &bytes, &err) == SPT_E_IO, "no file");
    CHECK_HAS(err.text, path, "file named");
}

int main(void)
{
    test_syntax_errors();
    test_fields();
    test_printing();
    test_nul();
    test_hash();
    return check_done();
}
