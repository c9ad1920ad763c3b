/* Templates: the sandbox, the descriptor's schema, expansion, the space. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "gen.h"
#include "lua_host.h"

static char root[64] = "/tmp/spectune-gen-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[128];
    spt_error err;
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (spt_file_write(path, text, strlen(text), &err) != SPT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static spt_board board(void)
{
    spt_board b = {.name = "board",
                   .arch = "sm90",
                   .target = "sm_90a",
                   .max_threads_per_cta = 1024,
                   .shared_per_cta_bytes = 200000,
                   .max_ctas_per_sm = 32,
                   .l2_bytes = 1.5};
    return b;
}

/* A descriptor with the parts that a test changes. */
static void descriptor(const char *fields, const char *constraints,
                       const char *derive)
{
    spt_buf text = {0};
    spt_buf_printf(&text,
                   "return {\n"
                   "  name = \"k\", title = \"test\",\n"
                   "  problem = {\n"
                   "    {name = \"dim\", type = \"int\", values = {64, 128},\n"
                   "      doc = \"size\"},\n"
                   "    %s\n"
                   "  },\n"
                   "  params = {\n"
                   "    {name = \"rows\", type = \"int\", values = {8, 16},\n"
                   "      doc = \"rows\"},\n"
                   "    {name = \"fast\", type = \"bool\", doc = \"way\"},\n"
                   "  },\n"
                   "  constraints = {%s},\n"
                   "  launch = function(p, b)\n"
                   "    return {threads = p.rows * 4, shared_bytes = 16,\n"
                   "      min_ctas = 1}\n"
                   "  end,\n"
                   "  key = function(p) return \"key \" .. p.dim end,\n"
                   "  symbol = function(p) return \"k_\" .. p.rows end,\n"
                   "  derive = function(p, b) return {%s} end,\n"
                   "}\n",
                   fields, constraints, derive);
    put("templates/k.lua", text.data);
    spt_buf_free(&text);
}

static spt_status emit(spt_kernel *kernel, int rows, spt_error *err)
{
    spt_gen *gen;
    spt_board b = board();
    spt_config config = {0};
    spt_config_set_int(&config, "dim", 64);
    spt_config_set_int(&config, "rows", rows);
    spt_config_set_bool(&config, "fast", true);
    SPT_TRY(spt_gen_open(root, &gen, err));
    spt_status status = spt_gen_emit(gen, "k", &config, &b, kernel, err);
    spt_gen_close(gen);
    return status;
}

/* The emitted text behind its header; "" after a failure. Static. */
static const char *body(const char *text)
{
    static char kept[4096];
    spt_kernel k = {0};
    spt_error err;
    put("templates/k.cu", text);
    if (emit(&k, 8, &err) != SPT_OK) {
        snprintf(kept, sizeof kept, "%s", err.text);
        return kept;
    }
    const char *end = strstr(k.source, " */\n");
    snprintf(kept, sizeof kept, "%s", end ? end + 4 : "");
    spt_kernel_free(&k);
    return kept;
}

static void test_expansion(void)
{
    descriptor("", "", "HALF = p.dim // 2, SCALE = 0.125, NAME = \"abc\"");
    put("templates/part.cu", "int part = ${DIM};\n");
    CHECK_TEXT(body("int a = ${DIM};\nint b = ${HALF + 1};\n"),
               "#line 1 \"templates/k.cu\"\nint a = 64;\nint b = 33;\n",
               "integers and expressions are put in");
    CHECK_TEXT(body("float s = ${SCALE};\nbool f = ${FAST}; ${NAME} x;\n"),
               "#line 1 \"templates/k.cu\"\nfloat s = 0.125f;\n"
               "bool f = true; abc x;\n",
               "floats have a suffix, bools and identifiers are bare");
    CHECK_TEXT(body("a\n//% if not FAST then\nb\n//% end\nc\nd\n"),
               "#line 1 \"templates/k.cu\"\na\n"
               "#line 5 \"templates/k.cu\"\nc\nd\n",
               "a line that is left out moves the numbers");
    CHECK_TEXT(body("  //% for i = 0, 1 do\nx${i};\n  //% end\n"),
               "#line 2 \"templates/k.cu\"\nx0;\n"
               "#line 2 \"templates/k.cu\"\nx1;\n",
               "a loop repeats its lines");
    CHECK_TEXT(body("//% include(\"part.cu\")\nend\n"),
               "#line 1 \"templates/part.cu\"\nint part = 64;\n"
               "#line 2 \"templates/k.cu\"\nend\n",
               "a fragment is put in under its own name");
    CHECK_TEXT(
        body("#define A \\\n//% if FAST then\n  ${NAME}(1)\n//% end\nb\n"),
        "#line 1 \"templates/k.cu\"\n#define A \\\n  abc(1)\n"
        "#line 5 \"templates/k.cu\"\nb\n",
        "a continued line is not torn by #line");
    CHECK_TEXT(body("/* a\n//% local x = 1\n * ${x} */\nb\n"),
               "#line 1 \"templates/k.cu\"\n/* a\n * 1 */\n"
               "#line 4 \"templates/k.cu\"\nb\n",
               "a comment is not torn by #line");
    CHECK_TEXT(body("a$b ${({1,2})[2]} ${\"}\" == \"}\"}\n"),
               "#line 1 \"templates/k.cu\"\na$b 2 true\n",
               "braces and quotes nest in an expression");
    CHECK_TEXT(body("int a = ${-DIM};"),
               "#line 1 \"templates/k.cu\"\nint a = (-64);\n",
               "a negative number is in parentheses");
}

static void test_body_errors(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"a\n${4 / 2}\n", "templates/k.cu:2: "},
        {"a\n${nil}\n", "templates/k.cu:2: "},
        {"a\n${{}}\n", "templates/k.cu:2: "},
        {"a\n${\"a b\"}\n", "templates/k.cu:2: "},
        {"a\n${1e999}\n", "templates/k.cu:2: "},
        {"a\nb ${DIM\n", "templates/k.cu:2: ${ is not closed"},
        {"a\n${UNKNOWN}\n", "templates/k.cu:2: unknown global 'UNKNOWN'"},
        {"a\n//% x = 1\n", "templates/k.cu:2: writes the global"},
        {"a\n//% if then\n", "templates/k.cu:2: "},
        {"a\n//% local x = DIM .. nil\n", "templates/k.cu:2: "},
        {"a\n//% os.exit(1)\n", "templates/k.cu:2: unknown global 'os'"},
        {"a\n//% load(\"x\")\n", "templates/k.cu:2: unknown global 'load'"},
        {"//% include(\"../k.cu\")\n", "templates/k.cu:1: include: "},
        {"//% include(\"none.cu\")\n", "none.cu: cannot read"},
        {"//% include(\"k.cu\")\n", "included too deeply"},
        {"//% string.rep = 1\n", "templates/k.cu:1: writes the global"},
        {"//% while true do end\n", "templates/k.cu:1: ran more than"},
        {"//% local s = (\"x\"):rep(1 << 30)\n", "out of memory"},
        {"//% local s = string.format(\"%s\", {})\n", "has no text"},
        {"//% if FAST then\na\n", "templates/k.cu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_HAS(body(cases[i].text), cases[i].error, cases[i].error);
}

/* The error of emitting with that descriptor part. */
static const char *refused(const char *fields, const char *constraints,
                           const char *derive)
{
    descriptor(fields, constraints, derive);
    return body("a\n");
}

static void test_descriptor_errors(void)
{
    CHECK_HAS(refused("{name = \"x\", type = \"int\", values = {1},\n"
                      "foo = 1, doc = \"d\"},",
                      "", ""),
              "templates/k.lua:6: problem x: unknown field 'foo'",
              "an unknown field of an entry is named");
    CHECK_HAS(refused("{name = \"x\", type = \"set\", doc = \"d\"},", "", ""),
              "templates/k.lua:6: problem x: type", "a wrong type is named");
    CHECK_HAS(refused("{name = \"x\", type = \"int\", values = {1.5},"
                      "doc = \"d\"},",
                      "", ""),
              "templates/k.lua:6: problem x: expected a value of type int",
              "a wrong value is named");
    CHECK_HAS(
        refused("{name = \"dim\", type = \"bool\", doc = \"d\"},", "", ""),
        "is there twice", "a name is there once");
    CHECK_HAS(refused("{name = \"x\", type = \"int\", min = 1, max = 4,"
                      "default = 9, doc = \"d\"},",
                      "", ""),
              "default is outside", "a default is a value");
    CHECK_HAS(refused("", "{\"no\", function(p) return 1 end}", ""),
              "expected true or false", "a constraint gives a bool");
    CHECK_HAS(
        refused("", "{\"rows fit\", function(p) return p.rows > 8 end}", ""),
        "k dim=64 rows=8 fast=true on board breaks \"rows fit\"",
        "a broken constraint is named");
    CHECK_HAS(refused("", "{\"no\", function(p) return p.none end}", ""),
              "templates/k.lua:13: no value named 'none'",
              "an unknown value of p raises");
    CHECK_HAS(refused("", "", "lower = 1"), "expected upper-case names",
              "derived names are upper-case");
    CHECK_HAS(refused("", "", "DIM = 3"), "DIM differs",
              "a derived name does not change a value");
    CHECK_HAS(refused("", "", "X = {}"), "X is a table",
              "a derived value is no table");
    put("templates/k.lua", "return {name = \"k\"}\n");
    CHECK_HAS(body("a\n"), "field title is missing",
              "a missing field is named");
    put("templates/k.lua", "return {\n\nfoo = 1}\n");
    CHECK_HAS(body("a\n"), "templates/k.lua:3: foo: unknown field",
              "an unknown field is named");
    put("templates/k.lua", "return {\n1 +}\n");
    CHECK_HAS(body("a\n"), "templates/k.lua:2: ", "a syntax error has a line");
}

static void test_values(void)
{
    spt_error err;
    spt_kernel k = {0}, again = {0};
    descriptor("", "", "");
    put("templates/k.cu", "a\n");
    CHECK(emit(&k, 12, &err) == SPT_E_USAGE, "12 rows are refused");
    CHECK_TEXT(err.text, "k: rows=12: expected 8, 16", "by their values");
    if (!CHECK_OK(emit(&k, 8, &err), &err, "a kernel is emitted"))
        return;
    CHECK_TEXT(k.symbol, "k_8", "its symbol");
    CHECK_TEXT(k.config, "dim=64 rows=8 fast=true", "its config");
    CHECK_TEXT(k.key, "key 64", "its key");
    CHECK_TEXT(k.target, "sm_90a", "its target");
    CHECK_INT(k.threads, 32, "its threads");
    CHECK_OK(emit(&again, 8, &err), &err, "it is emitted again");
    CHECK(k.source_size == again.source_size &&
              memcmp(k.source, again.source, k.source_size) == 0,
          "to the same bytes");
    CHECK_TEXT(k.template_hash, again.template_hash, "with the same hash");
    spt_kernel_free(&again);
    put("templates/k.cu", "b\n");
    CHECK_OK(emit(&again, 8, &err), &err, "another body is emitted");
    CHECK(strcmp(k.template_hash, again.template_hash) != 0,
          "with another hash");
    spt_kernel_free(&again);
    spt_kernel_free(&k);
}

static void test_space(void)
{
    spt_gen *gen;
    spt_error err;
    spt_board b = board();
    spt_config given = {0}, *configs = NULL;
    size_t count = 0;
    descriptor("",
               "{\"slow is narrow\", function(p) return p.fast or p.rows "
               "== 8 end}",
               "");
    spt_config_set_int(&given, "dim", 128);
    if (!CHECK_OK(spt_gen_open(root, &gen, &err), &err, "gen opens"))
        return;
    CHECK_OK(spt_gen_space(gen, "k", &given, &b, &configs, &count, &err), &err,
             "a space is listed");
    CHECK_INT((long long)count, 3, "of what the constraints leave");
    CHECK(count == 3 && spt_config_int(&configs[0], "rows", 0) == 8 &&
              !spt_config_int(&configs[0], "fast", 1) &&
              spt_config_int(&configs[1], "fast", 0) &&
              spt_config_int(&configs[2], "rows", 0) == 16,
          "in the order of the values, the last parameter fastest");
    spt_free(configs);
    spt_config_set_int(&given, "rows", 16);
    spt_config_set_bool(&given, "fast", false);
    CHECK(spt_gen_space(gen, "k", &given, &b, &configs, &count, &err) ==
              SPT_E_UNSUPPORTED,
          "an empty space is unsupported");
    CHECK_HAS(err.text, "slow is narrow", "and names the constraint");
    spt_config_set_int(&given, "none", 1);
    CHECK(spt_gen_space(gen, "k", &given, &b, &configs, &count, &err) ==
              SPT_E_USAGE,
          "an unknown name is refused");
    CHECK(spt_gen_space(gen, "q", &given, &b, &configs, &count, &err) ==
              SPT_E_USAGE,
          "an unknown kernel is refused");
    CHECK_TEXT(err.text, "q: no such kernel, expected one of: k",
               "and the known ones are named");
    spt_gen_close(gen);
}

static void test_lines(void)
{
    static const char text[] = "-- one = 1\n"
                               "two = {\n"
                               "  onetwo = 1, one = 2,\n"
                               "  {name = \"three\",\n"
                               "   one = 5 } }\n";
    const char *one[] = {"one"}, *both[] = {"three", "one"},
               *none[] = {"two", "nine"};
    CHECK_INT(spt_lua_line(text, sizeof text - 1, one, 1), 3,
              "a key's line, not that of a comment or of a longer name");
    CHECK_INT(spt_lua_line(text, sizeof text - 1, both, 2), 5,
              "a key below a quoted name");
    CHECK_INT(spt_lua_line(text, sizeof text - 1, none, 2), 2,
              "a missing key has the line of the one above");
}

static void test_include(void)
{
    descriptor("", "", "TWICE = include(\"common\").twice(p.dim)");
    put("templates/common.lua",
        "local M = {}\nfunction M.twice(x) return 2 * x end\nreturn M\n");
    CHECK_HAS(body("${TWICE}\n"), "\n128\n", "Lua files include others");
    put("templates/common.lua", "return include(\"common\")\n");
    CHECK_HAS(body("${TWICE}\n"), "includes itself", "but not themselves");
    put("templates/common.lua", "return 1\n");
    CHECK_HAS(body("${TWICE}\n"), "expected one table", "and need a table");
    descriptor("", "", "X = include(\"../k\")");
    CHECK_HAS(body("a\n"), "is no file name", "only of their folder");
    descriptor("", "",
               "N = (function() local s = 0 for k, v in "
               "sorted({b = 2, a = 1, 7}) do s = s * 10 + v end "
               "return s end)()");
    CHECK_HAS(body("${N}\n"), "\n712\n", "sorted walks by keys");
}

int main(void)
{
    char path[128];
    if (!mkdtemp(root))
        return 1;
    snprintf(path, sizeof path, "%s/templates", root);
    spt_folder_make(path, NULL);
    snprintf(path, sizeof path, "%s/archs", root);
    spt_folder_make(path, NULL);
    test_expansion();
    test_body_errors();
    test_descriptor_errors();
    test_values();
    test_space();
    test_lines();
    test_include();
    snprintf(path, sizeof path, "rm -r %s", root);
    return system(path) ? 1 : check_done();
}
