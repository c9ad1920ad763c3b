/*
 * Runs the instruction cases of tests/ptx on sim: one thread per row of a
 * file's table. tests/ptx/README.md has the format.
 */
#include <dirent.h>
#include <stdlib.h>

#include "check.h"
#include "files.h"
#include "ptx_run.h"

enum { MAX_COLUMNS = 32, MAX_ROWS = 256 };

typedef struct case_column {
    char name[16], type[16];
    double relative, absolute;
} case_column;

typedef struct ptx_case {
    const char *name;
    char title[160], target[16], report[64];
    int n_in, n_out, n_rows;
    case_column columns[MAX_COLUMNS]; /* inputs, then outputs */
    uint64_t bits[MAX_ROWS][MAX_COLUMNS];
    bool any[MAX_ROWS][MAX_COLUMNS]; /* "*" */
    bool nan[MAX_ROWS][MAX_COLUMNS];
    spt_buf module, body;
} ptx_case;

/* ---- numbers ---- */

/* Rounds to a format of that many exponent and fraction bits, to even. */
static uint64_t narrow(double value, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint64_t sign = signbit(value) ? 1 : 0;
    uint64_t infinity = ((1ull << exponent_bits) - 1) << fraction_bits;
    sign <<= exponent_bits + fraction_bits;
    value = fabs(value);
    if (isnan(value))
        return sign | infinity | 1ull << (fraction_bits - 1);
    if (isinf(value) || value == 0)
        return sign | (value == 0 ? 0 : infinity);
    frexp(value, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double units = nearbyint(ldexp(value, fraction_bits - exponent));
    uint64_t bits = (uint64_t)units;
    if (bits >= 1ull << fraction_bits) /* normal; rounding up carries over */
        bits += (uint64_t)(exponent + bias - 1) << fraction_bits;
    return sign | (bits > infinity ? infinity : bits);
}

static double widen(uint64_t bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    double fraction = (double)(bits & ((1ull << fraction_bits) - 1));
    double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent)
        fraction += ldexp(1, fraction_bits);
    return sign *
           ldexp(fraction, (exponent ? exponent : 1) - bias - fraction_bits);
}

static const struct format {
    const char *type;
    int bytes, exponent_bits, fraction_bits, halves;
} formats[] = {
    {"f64", 8, 11, 52, 1},  {"f32", 4, 8, 23, 1},   {"f16", 2, 5, 10, 1},
    {"bf16", 2, 8, 7, 1},   {"f16x2", 4, 5, 10, 2}, {"bf16x2", 4, 8, 7, 2},
    {"f32x2", 8, 8, 23, 2},
};

static const struct format *find_format(const char *type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].type, type))
            return &formats[i];
    return NULL;
}

static int type_bytes(const char *type)
{
    const struct format *format = find_format(type);
    if (format)
        return format->bytes;
    if (!strcmp(type, "pred"))
        return 1;
    return atoi(type + 1) / 8;
}

/* False when the text is not a number of that type. */
static bool read_number(const char *type, const char *text, uint64_t *bits)
{
    char *end;
    const struct format *format = find_format(type);
    bool hex = strchr(text, 'x') && !strchr(text, 'p');
    if (!format || hex) {
        *bits = *text == '-' ? (uint64_t)strtoll(text, &end, 0)
                             : strtoull(text, &end, 0);
        int bytes = type_bytes(type);
        if (bytes < 8)
            *bits &= (1ull << 8 * bytes) - 1;
        return !*end;
    }
    *bits = 0;
    for (int i = 0; i < format->halves; i++) {
        double value = strtod(text, &end);
        uint64_t part =
            format->bytes == 8 && format->halves == 1
                ? 0
                : narrow(value, format->exponent_bits, format->fraction_bits);
        if (format->bytes == 8 && format->halves == 1)
            memcpy(&part, &value, sizeof part);
        *bits |= part << (i * 8 * format->bytes / format->halves);
        if (*end != (i + 1 < format->halves ? ',' : 0))
            return false;
        text = end + 1;
    }
    return true;
}

static bool close_enough(const case_column *column, double seen,
                         double expected)
{
    double error = fabs(seen - expected);
    if (isnan(expected) || isinf(expected))
        return isnan(expected) ? isnan(seen) : seen == expected;
    return error <= column->absolute ||
           error <= column->relative * fabs(expected);
}

static bool agrees(const ptx_case *c, int row, int at, uint64_t seen)
{
    const case_column *column = &c->columns[at];
    const struct format *format = find_format(column->type);
    uint64_t expected = c->bits[row][at];
    if (c->any[row][at] || seen == expected)
        return true;
    if (!format)
        return false;
    for (int i = 0; i < format->halves; i++) {
        int width = 8 * format->bytes / format->halves;
        uint64_t mask = width == 64 ? UINT64_MAX : (1ull << width) - 1;
        uint64_t a = seen >> i * width & mask, b = expected >> i * width & mask;
        double x = widen(a, format->exponent_bits, format->fraction_bits);
        double y = widen(b, format->exponent_bits, format->fraction_bits);
        bool loose = column->relative > 0 || column->absolute > 0 ||
                     (c->nan[row][at] && isnan(y));
        if (a != b && !(loose && close_enough(column, x, y)))
            return false;
    }
    return true;
}

/* ---- case files ---- */

static bool read_columns(ptx_case *c, char *text, bool input)
{
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        int at = c->n_in + c->n_out;
        char *type = strchr(word, ':');
        if (!type || at == MAX_COLUMNS || (input && c->n_out))
            return false;
        *type++ = 0;
        case_column *column = &c->columns[at];
        size_t length = strcspn(type, "~^");
        if (type[length] == '~')
            column->relative = strtod(type + length + 1, NULL);
        if (type[length] == '^')
            column->absolute = strtod(type + length + 1, NULL);
        snprintf(column->name, sizeof column->name, "%s", word);
        snprintf(column->type, sizeof column->type, "%.*s", (int)length, type);
        if (!type_bytes(column->type))
            return false;
        input ? c->n_in++ : c->n_out++;
    }
    return true;
}

static bool read_row(ptx_case *c, char *text)
{
    int at = 0, n = c->n_in + c->n_out;
    if (c->n_rows == MAX_ROWS)
        return false;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        if (!strcmp(word, "=")) {
            if (at != c->n_in)
                return false;
            continue;
        }
        if (at == n)
            return false;
        uint64_t *bits = &c->bits[c->n_rows][at];
        c->any[c->n_rows][at] = !strcmp(word, "*");
        c->nan[c->n_rows][at] = strstr(word, "nan") != NULL;
        if (!c->any[c->n_rows][at] &&
            !read_number(c->columns[at].type, word, bits))
            return false;
        at++;
    }
    c->n_rows++;
    return at == n;
}

static bool read_comment(ptx_case *c, char *text, bool *outside)
{
    if (!c->title[0]) {
        snprintf(c->title, sizeof c->title, "%s", text);
        return true;
    }
    if (!strncmp(text, "target ", 7))
        return snprintf(c->target, sizeof c->target, "%s", text + 7) > 0;
    if (!strncmp(text, "report ", 7))
        return snprintf(c->report, sizeof c->report, "%s", text + 7) > 0;
    if (!strncmp(text, "in ", 3))
        return read_columns(c, text + 3, true);
    if (!strncmp(text, "out ", 4))
        return read_columns(c, text + 4, false);
    if (!strcmp(text, "body")) {
        c->module = c->body;
        c->body = (spt_buf){0};
        *outside = false;
        return true;
    }
    return read_row(c, text);
}

/* Splits a file into head and body; the wrong line, or NULL. */
static const char *read_case(ptx_case *c, char *text)
{
    bool outside = true;
    snprintf(c->target, sizeof c->target, "sm_80");
    for (char *line = text, *next; line; line = next) {
        static char copy[120];
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        snprintf(copy, sizeof copy, "%s", line);
        if (strncmp(line, "// ", 3)) {
            spt_buf_printf(&c->body, "%s\n", line);
        } else if (!read_comment(c, line + 3, &outside)) {
            return copy;
        }
    }
    return c->n_rows && c->n_out ? NULL : "no rows";
}

/* ---- the kernel ---- */

static const char *register_type(const char *type)
{
    if (!strcmp(type, "pred") || !strcmp(type, "f32") || !strcmp(type, "f64"))
        return type;
    int bytes = type_bytes(type);
    return bytes == 8 ? "b64" : bytes == 4 ? "b32" : "b16";
}

static void write_column(spt_buf *text, const case_column *column, int at,
                         bool load)
{
    const char *type = register_type(column->type);
    if (!strcmp(type, "pred"))
        spt_buf_printf(text,
                       load ? "ld.global.b32 %%case_b, [%%case_in+%d]; "
                              "setp.ne.b32 %s, %%case_b, 0;\n"
                            : "/* %d */ selp.b32 %%case_b, 1, 0, %s;\n",
                       8 * at, column->name);
    const char *name = strcmp(type, "pred") ? column->name : "%case_b";
    type = strcmp(type, "pred") ? type : "b32";
    if (!load)
        spt_buf_printf(text, "st.global.%s [%%case_out+%d], %s;\n", type,
                       8 * at, name);
    else if (name == column->name)
        spt_buf_printf(text, "ld.global.%s %s, [%%case_in+%d];\n", type, name,
                       8 * at);
}

static void write_kernel(const ptx_case *c, spt_buf *text)
{
    int n = c->n_in + c->n_out;
    spt_buf_printf(text, ".version 8.7\n.target %s\n.address_size 64\n%s",
                   c->target, c->module.data ? c->module.data : "");
    spt_buf_printf(text, ".visible .entry case_kernel(.param .u64 case_in, "
                         ".param .u64 case_out, .param .u64 case_buf)\n{\n"
                         ".reg .b32 tid, rows, %%case_b;\n.reg .b64 buf, "
                         "%%case_in, %%case_out, %%case_o;\n");
    for (int i = 0; i < n; i++)
        spt_buf_printf(text, ".reg .%s %s;\n",
                       register_type(c->columns[i].type), c->columns[i].name);
    spt_buf_printf(text,
                   "ld.param.u64 %%case_in, [case_in];\n"
                   "ld.param.u64 %%case_out, [case_out];\n"
                   "ld.param.u64 buf, [case_buf];\n"
                   "mov.u32 tid, %%tid.x;\nmov.u32 rows, %%ntid.x;\n"
                   "mul.wide.u32 %%case_o, tid, %d;\n"
                   "add.u64 %%case_in, %%case_in, %%case_o;\n"
                   "add.u64 %%case_out, %%case_out, %%case_o;\n",
                   8 * n);
    for (int i = 0; i < c->n_in; i++)
        write_column(text, &c->columns[i], i, true);
    spt_buf_printf(text, "{\n%s}\n", c->body.data);
    for (int i = c->n_in; i < n; i++)
        write_column(text, &c->columns[i], i, false);
    spt_buf_puts(text, "ret;\n}\n");
}

/* ---- running ---- */

static void compare(const ptx_case *c, const uint64_t *out)
{
    int n = c->n_in + c->n_out, wrong = 0;
    for (int row = 0; row < c->n_rows; row++)
        for (int i = c->n_in; i < n; i++) {
            uint64_t seen = out[row * n + i];
            if (agrees(c, row, i, seen))
                continue;
            if (!wrong++)
                CHECK(false, "%s: %s", c->name, c->title);
            if (wrong < 6)
                printf("#   row %d: %s is 0x%llx, expected 0x%llx\n", row + 1,
                       c->columns[i].name, (unsigned long long)seen,
                       (unsigned long long)c->bits[row][i]);
        }
    if (!wrong)
        CHECK(true, "%s: %s", c->name, c->title);
}

/* Exactly the reports that the case names. */
static bool check_reports(const ptx_case *c)
{
    spt_sim_report report;
    bool wanted = c->report[0], found = false;
    for (size_t i = 0; i < spt_sim_report_count(); i++) {
        if (!spt_sim_report_get(i, &report))
            break;
        bool named =
            wanted && !strcmp(c->report, spt_sim_kind_text(report.kind));
        found |= named;
        if (!named)
            printf("#   reported: %s\n", report.text);
        if (!named)
            return CHECK(false, "%s: nothing is reported", c->name);
    }
    return wanted == found ||
           CHECK(false, "%s: \"%s\" is reported", c->name, c->report);
}

static void run_case(ptx_run *run, const ptx_case *c)
{
    int n = c->n_in + c->n_out;
    size_t items = (size_t)c->n_rows * (size_t)n;
    uint64_t *in = calloc(items, sizeof *in);
    uint64_t *out = calloc(items, sizeof *out);
    spt_buf text = {0};
    for (int row = 0; in && row < c->n_rows; row++)
        memcpy(in + row * n, c->bits[row], (size_t)n * sizeof *in);
    write_kernel(c, &text);
    spt_sim_clear();
    /* What sim reports may also end the kernel. */
    if (!in || !out ||
        (!ptx_run_text(run, c->target, text.data, (unsigned)c->n_rows,
                       (unsigned)n, in, out) &&
         !c->report[0])) {
        CHECK(false, "%s: %s", c->name, c->title);
        printf("#   %s\n", run->error);
        spt_sim_report report;
        for (size_t i = 0; spt_sim_report_get(i, &report); i++)
            printf("#   reported: %s\n", report.text);
        /* A fault stays with its context. */
        ptx_run_close(run);
        if (!ptx_run_open(run))
            printf("#   %s\n", run->error);
    } else if (check_reports(c)) {
        if (c->report[0]) {
            CHECK(true, "%s: %s", c->name, c->title);
            ptx_run_close(run);
            ptx_run_open(run);
        } else {
            compare(c, out);
        }
    }
    spt_buf_free(&text);
    free(in);
    free(out);
}

static void print_case(const ptx_case *c)
{
    spt_buf text = {0};
    write_kernel(c, &text);
    fputs(text.data, stdout);
    spt_buf_free(&text);
}

/* Reads a file and runs it, or prints its kernel when run is NULL. */
static void run_file(ptx_run *run, const char *folder, const char *name)
{
    static ptx_case c;
    spt_buf text = {0};
    spt_error err = {0};
    char *path = spt_path_join(folder, name);
    memset(&c, 0, sizeof c);
    c.name = name;
    if (spt_file_read(path, 1 << 20, &text, &err) != SPT_OK) {
        CHECK(false, "%s", err.text);
    } else {
        const char *wrong = read_case(&c, text.data);
        if (wrong)
            CHECK(false, "%s: malformed: %s", name, wrong);
        else if (run)
            run_case(run, &c);
        else
            print_case(&c);
    }
    spt_buf_free(&text);
    spt_buf_free(&c.module);
    spt_buf_free(&c.body);
    spt_free(path);
}

static int is_case(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && !strcmp(end, ".ptx");
}

/* test_ptx_cases [--print] [PART]: names that hold PART; --print: their PTX */
int main(int argc, char **argv)
{
    bool print = argc > 1 && !strcmp(argv[1], "--print");
    const char *part = argc > 1 + print ? argv[1 + print] : "";
    const char *home = getenv("SPECTUNE_HOME");
    char *folder = spt_path_join(home ? home : ".", "tests/ptx");
    struct dirent **names;
    ptx_run run = {0};
    int count = scandir(folder, &names, is_case, alphasort);
    bool ready = print || ptx_run_open(&run);
    if (!ready)
        CHECK(false, "sim opens: %s", run.error);
    for (int i = 0; i < count; i++) {
        if (ready && strstr(names[i]->d_name, part))
            run_file(print ? NULL : &run, folder, names[i]->d_name);
        free(names[i]);
    }
    if (count > 0)
        free(names);
    if (!print)
        ptx_run_close(&run);
    spt_free(folder);
    return print ? 0 : check_done();
}
