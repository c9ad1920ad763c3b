#include "check.h"
#include "foreign.h"
#include "options.h"

typedef struct values {
    bool json;
    const char *arch, *effort;
    int64_t batch;
    double softcap;
    spt_ints contexts;
    spt_texts drafters;
    bool color;
} values;

static spt_error err;
static spt_texts operands;
static bool help;

static spt_status parse(values *v, char **argv)
{
    const spt_option options[] = {
        {"json", 0, SPT_OPTION_FLAG, &v->json, NULL, "JSON", 0, 0},
        {"arch", 'a', SPT_OPTION_TEXT, &v->arch, "NAME", "arch", 0, 0},
        {"effort", 0, SPT_OPTION_CHOICE, &v->effort, "estimate|measure|patient",
         "effort", 0, 0},
        {"batch", 0, SPT_OPTION_INT, &v->batch, "N", "batch", 1, 4096},
        {"softcap", 0, SPT_OPTION_NUMBER, &v->softcap, "X", "cap", 0, 1000},
        {"context", 0, SPT_OPTION_INTS, &v->contexts, "LIST", "contexts", 0,
         1e9},
        {"drafter", 0, SPT_OPTION_TEXTS, &v->drafters, "LIST", "drafters", 0,
         0},
        {"color", 0, SPT_OPTION_SWITCH, &v->color, "[on|off|auto]", "colour", 0,
         0},
    };
    const spt_usage usage = {
        .command = "spectune x",
        .operands = "[FILE]",
        .max_operands = 1,
        .summary = "Tests.",
        .options = options,
        .count = sizeof options / sizeof *options,
        .foreign = true,
    };
    int argc = 0;
    while (argv[argc])
        argc++;
    return spt_options_parse(&usage, argc, argv, &operands, &help, &err);
}

#define ARGV(...) ((char *[]){(char *)"x", __VA_ARGS__, NULL})

static void test_values(void)
{
    values v = {.batch = 7};
    CHECK_OK(parse(&v, ARGV("--json", "--arch", "sm90", "--effort=measure",
                            "--softcap", "2.5", "file", "--context", "1,4K,7",
                            "--drafter=mtp,ngram")),
             &err, "a full command line parses");
    CHECK(v.json, "flag");
    CHECK_TEXT(v.arch, "sm90", "text");
    CHECK_TEXT(v.effort, "measure", "choice");
    CHECK_INT(v.batch, 7, "what is not given keeps its default");
    CHECK_NEAR(v.softcap, 2.5, 0, "number");
    CHECK(v.contexts.count == 3 && v.contexts.values[1] == 4096,
          "integers with a unit");
    CHECK(v.drafters.count == 2 && strcmp(v.drafters.values[1], "ngram") == 0,
          "words");
    CHECK(operands.count == 1 && strcmp(operands.values[0], "file") == 0,
          "operand between options");
    CHECK_OK(parse(&v, ARGV("-asm80", "--", "--json")), &err,
             "letter with its value, -- before operands");
    CHECK_TEXT(v.arch, "sm80", "letter");
    CHECK_TEXT(operands.values[0], "--json", "operand after --");
    CHECK_OK(parse(&v, ARGV("--help", "--nonsense")), &err, "--help wins");
    CHECK(help, "help was asked for");
}

static void test_switches(void)
{
    values v = {.color = false};
    CHECK_OK(parse(&v, ARGV("--color", "file")), &err, "a switch alone");
    CHECK(v.color && operands.count == 1, "is on, the operand is no value");
    CHECK_OK(parse(&v, ARGV("--color", "off")), &err, "with a value");
    CHECK(!v.color && operands.count == 0, "it is off");
    CHECK_OK(parse(&v, ARGV("--color=1", "--color=true")), &err, "behind =");
    CHECK(v.color, "it is on");
    CHECK_INT(parse(&v, ARGV("--color=red")), SPT_E_USAGE, "no such value");
}

/* Own options go before foreign ones; values are never names. */
static void test_foreign(void)
{
    size_t count;
    const spt_foreign *rows = spt_foreign_rows(&count);
    values v = {.batch = 1};
    CHECK_OK(parse(&v, ARGV("-ngl", "99", "--no-mmap", "--batch", "4", "-fa",
                            "on", "-fa", "--arch", "--no-mmap", "file")),
             &err, "what changes no text is left aside");
    CHECK(v.batch == 4 && operands.count == 1 &&
              strcmp(v.arch, "--no-mmap") == 0,
          "with its value, and nothing else is");
    CHECK_OK(parse(&v, ARGV("--max-model-len=4K", "-ngl=3")), &err,
             "another name of an option, values behind =");
    CHECK(v.contexts.count == 1 && v.contexts.values[0] == 4096, "is read");
    CHECK_INT(parse(&v, ARGV("-ctk", "q8_0")), SPT_E_USAGE, "refused");
    CHECK_HAS(err.text, "-ctk: is not here: KV has", "with what does it");
    CHECK_INT(parse(&v, ARGV("-np", "3")), SPT_E_USAGE, "not of this command");
    for (size_t i = 0; i < count; i++)
        CHECK(spt_foreign_find(rows[i].name, strlen(rows[i].name)) == &rows[i],
              "%s is there once", rows[i].name);
}

static void test_refusals(void)
{
    static const struct {
        const char *argument, *value, *expected;
    } cases[] = {
        {"--archs", NULL, "did you mean --arch?"},
        {"--zzzzzzzz", NULL, "--help lists"},
        {"-x", NULL, "-x: unknown option"},
        {"--arch", NULL, "--arch: value is missing, expected NAME"},
        {"--arch=", NULL, "not empty"},
        {"--json=1", NULL, "--json: takes no value"},
        {"--batch", "0", "integer from 1 to 4096"},
        {"--batch", "9999999999999999999999", "integer from 1 to 4096"},
        {"--batch", "1x", "integer from 1 to 4096"},
        {"--batch", "", "integer from 1 to 4096"},
        {"--softcap", "nan", "number from 0 to 1000"},
        {"--effort", "meas", "estimate|measure|patient"},
        {"--context", "1,,2", "separated by commas"},
        {"--drafter", "a,", "words separated by commas"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        values v = {0};
        char *argv[] = {(char *)"x", (char *)cases[i].argument,
                        (char *)cases[i].value, NULL};
        CHECK(parse(&v, argv) == SPT_E_USAGE, "%s %s is refused",
              cases[i].argument, cases[i].value ? cases[i].value : "");
        CHECK_HAS(err.text, cases[i].expected, "the line says why");
    }
    values v = {0};
    CHECK(parse(&v, ARGV("a", "b")) == SPT_E_USAGE, "a second operand");
}

static void test_heads(void)
{
    int q = 0, kv = 0;
    CHECK_OK(spt_parse_heads("64/8", &q, &kv, &err), &err, "64/8");
    CHECK(q == 64 && kv == 8, "both numbers");
    static const char *const bad[] = {"64/7", "0/0",  "64/8/2", "64",   "/8",
                                      "64/",  "-8/8", "a/b",    "8/16", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(spt_parse_heads(bad[i], &q, &kv, &err) == SPT_E_USAGE,
              "heads '%s' are refused", bad[i]);
    spt_parse_heads("8/4294967304", &q, &kv, &err);
    CHECK_HAS(err.text, "'8/4294967304' is not valid", "as they were given");
}

int main(void)
{
    test_values();
    test_switches();
    test_foreign();
    test_refusals();
    test_heads();
    return check_done();
}
