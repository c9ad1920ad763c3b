#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "foreign.h"
#include "progress.h"

static spt_status refuse(spt_error *err, const spt_option *option,
                         const char *text, const char *expected)
{
    return spt_fail(err, SPT_E_USAGE, "--%s: '%.80s' is not valid, expected %s",
                    option->name, text, expected);
}

static void bounds_text(const spt_option *option, const char *what, char *out,
                        size_t size)
{
    if (option->max > option->min)
        snprintf(out, size, "%s from %.15g to %.15g", what, option->min,
                 option->max);
    else
        snprintf(out, size, "%s", what);
}

static bool in_bounds(const spt_option *option, double value)
{
    return !(option->max > option->min) ||
           (value >= option->min && value <= option->max);
}

/* Whole-text integer; a K, M or G suffix multiplies by powers of 1024. */
static bool read_integer(const char *text, size_t length, int64_t *value)
{
    char copy[32];
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    int64_t unit = 1;
    const char *units = "KMG", *at = strchr(units, copy[length - 1]);
    if (at && *at && length > 1) {
        unit = INT64_C(1) << (10 * (at - units + 1));
        copy[length - 1] = 0;
    }
    if (copy[strspn(copy, "-0123456789")] != 0)
        return false;
    char *end;
    errno = 0;
    long long n = strtoll(copy, &end, 10);
    if (errno || *end || end == copy || n > INT64_MAX / unit ||
        n < INT64_MIN / unit)
        return false;
    *value = n * unit;
    return true;
}

static spt_status read_text(const spt_option *option, const char *text,
                            spt_error *err)
{
    if (!*text)
        return refuse(err, option, text, "a value that is not empty");
    *(const char **)option->value = text;
    return SPT_OK;
}

static spt_status read_int(const spt_option *option, const char *text,
                           spt_error *err)
{
    char expected[96];
    int64_t value;
    bounds_text(option, "an integer", expected, sizeof expected);
    if (!read_integer(text, strlen(text), &value) ||
        !in_bounds(option, (double)value))
        return refuse(err, option, text, expected);
    *(int64_t *)option->value = value;
    return SPT_OK;
}

/* All 64 bits. */
static spt_status read_seed(const spt_option *option, const char *text,
                            spt_error *err)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || !*text || text[strspn(text, "0123456789")])
        return refuse(err, option, text,
                      "an integer from 0 to 18446744073709551615");
    *(uint64_t *)option->value = value;
    return SPT_OK;
}

static spt_status read_switch(const spt_option *option, const char *text,
                              spt_error *err)
{
    if (!spt_foreign_switch(text))
        return refuse(err, option, text, "on, off or auto");
    bool is_auto = strcmp(text, "auto") == 0;
    *(bool *)option->value = is_auto ? isatty(STDOUT_FILENO)
                                     : strcmp(text, "off") != 0 &&
                                           strcmp(text, "false") != 0 &&
                                           strcmp(text, "0") != 0;
    return SPT_OK;
}

static spt_status read_number(const spt_option *option, const char *text,
                              spt_error *err)
{
    char expected[96], *end;
    bounds_text(option, "a number", expected, sizeof expected);
    double value = strtod(text, &end);
    if (text[strspn(text, "+-.0123456789eE")] || end == text || *end ||
        !isfinite(value) || !in_bounds(option, value))
        return refuse(err, option, text, expected);
    *(double *)option->value = value;
    return SPT_OK;
}

static spt_status read_choice(const spt_option *option, const char *text,
                              spt_error *err)
{
    size_t length = strlen(text);
    for (const char *at = option->argument; *at;) {
        size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, text, n) == 0) {
            *(const char **)option->value = text;
            return SPT_OK;
        }
        at += n + (at[n] == '|');
    }
    return refuse(err, option, text, option->argument);
}

static spt_status read_ints(const spt_option *option, const char *text,
                            spt_error *err)
{
    char expected[128];
    bounds_text(option, "integers", expected, sizeof expected - 24);
    strcat(expected, ", separated by commas");
    spt_ints list = {0};
    const char *at = text;
    for (;;) {
        size_t n = strcspn(at, ",");
        int64_t value;
        if (!read_integer(at, n, &value) || !in_bounds(option, (double)value))
            return refuse(err, option, text, expected);
        if (list.count == SPT_LIST_MAX)
            return refuse(err, option, text, "at most 64 values");
        list.values[list.count++] = value;
        if (!at[n])
            break;
        at += n + 1;
    }
    *(spt_ints *)option->value = list;
    return SPT_OK;
}

static spt_status read_texts(const spt_option *option, const char *text,
                             spt_error *err)
{
    spt_texts *list = option->value;
    size_t size = strlen(text) + 1;
    if (size > sizeof list->words)
        return refuse(err, option, text, "at most 1023 characters");
    memcpy(list->words, text, size);
    list->count = 0;
    for (char *at = list->words;; at++) {
        size_t n = strcspn(at, ",");
        if (n == 0 || list->count == SPT_LIST_MAX)
            return refuse(err, option, text,
                          "at most 64 words separated by commas");
        list->values[list->count++] = at;
        at += n;
        if (!*at)
            return SPT_OK;
        *at = 0;
    }
}

/* Each time the option is given adds a text, which points into argv. */
static spt_status add_text(const spt_option *option, const char *text,
                           spt_error *err)
{
    spt_texts *list = option->value;
    if (list->count == SPT_LIST_MAX)
        return refuse(err, option, text, "it at most 64 times");
    list->values[list->count++] = text;
    return SPT_OK;
}

typedef spt_status (*read_function)(const spt_option *, const char *,
                                    spt_error *);
static const read_function readers[] = {
#define SPT_OPTION_KIND(name, type, read) read,
#include "options.def"
#undef SPT_OPTION_KIND
};

static const spt_option *find_long(const spt_usage *usage, const char *name,
                                   size_t length)
{
    for (int i = 0; i < usage->count; i++)
        if (strlen(usage->options[i].name) == length &&
            memcmp(usage->options[i].name, name, length) == 0)
            return &usage->options[i];
    return NULL;
}

static const spt_option *find_letter(const spt_usage *usage, char letter)
{
    for (int i = 0; i < usage->count; i++)
        if (usage->options[i].letter == letter)
            return &usage->options[i];
    return NULL;
}

/* Edit distance, for "did you mean". Names longer than 31 do not take part. */
static int distance(const char *a, size_t n, const char *b)
{
    int row[33];
    size_t m = strlen(b);
    if (n > 31 || m > 31)
        return 99;
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

static spt_status unknown(const spt_usage *usage, const char *text,
                          spt_error *err)
{
    size_t length = strcspn(text, "=");
    const char *nearest = NULL;
    int best = 4;
    for (int i = 0; text[1] == '-' && i < usage->count; i++) {
        int d = distance(text + 2, length - 2, usage->options[i].name);
        if (d < best) {
            best = d;
            nearest = usage->options[i].name;
        }
    }
    if (nearest)
        return spt_fail(err, SPT_E_USAGE,
                        "%.*s: unknown option; did you mean --%s?", (int)length,
                        text, nearest);
    return spt_fail(err, SPT_E_USAGE,
                    "%.*s: unknown option, expected one that %s --help lists",
                    (int)length, text, usage->command);
}

/* The option that text names, by its name or letter; *length: of the name. */
static const spt_option *find_own(const spt_usage *usage, const char *text,
                                  size_t *length)
{
    if (text[1] == '-') {
        *length = strcspn(text, "=");
        return find_long(usage, text + 2, *length - 2);
    }
    *length = 2;
    return find_letter(usage, text[1]);
}

/* What other engines call so; NULL when an own option goes first. */
static const spt_foreign *find_foreign(const spt_usage *usage, const char *text)
{
    size_t whole = strcspn(text, "="), length;
    const spt_option *own = find_own(usage, text, &length);
    if (!usage->foreign || (own && length == whole))
        return NULL;
    return spt_foreign_find(text, whole);
}

/* Leaves the option at argv[*i] aside, with its value. */
static void pass_over(const spt_usage *usage, const spt_foreign *foreign,
                      int argc, char **argv, int *i)
{
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    fprintf(stderr, "%s: %s is left aside: %s\n", usage->command, foreign->name,
            foreign->text);
    if (strchr(argv[*i], '=') || !next)
        return;
    if (foreign->does == SPT_FOREIGN_ASIDE1 ||
        (foreign->does == SPT_FOREIGN_ASIDE2 && spt_foreign_switch(next)))
        ++*i;
}

/* Takes the value of the option at argv[*i], behind `length` bytes of name or
   a separate one, past which *i moves. */
static spt_status take_value(const spt_option *option, size_t length, int argc,
                             char **argv, int *i, spt_error *err)
{
    const char *text = argv[*i], *value = NULL;
    if (text[length])
        value = text + length + (text[length] == '=' && length > 2);
    if (option->kind == SPT_OPTION_FLAG) {
        if (value)
            return spt_fail(err, SPT_E_USAGE, "--%s: takes no value",
                            option->name);
        *(bool *)option->value = true;
        return SPT_OK;
    }
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (!value && option->kind == SPT_OPTION_SWITCH) {
        bool given = next && spt_foreign_switch(next);
        *i += given;
        value = given ? next : "on";
    }
    if (!value) {
        if (!next)
            return spt_fail(err, SPT_E_USAGE,
                            "--%s: value is missing, expected %s", option->name,
                            option->argument);
        value = argv[++*i];
    }
    return readers[option->kind](option, value, err);
}

/* Reads the option at argv[*i]; *i moves past a separate value. */
static spt_status parse_one(const spt_usage *usage, int argc, char **argv,
                            int *i, spt_error *err)
{
    const char *text = argv[*i];
    size_t length;
    const spt_option *option = find_own(usage, text, &length);
    const spt_foreign *foreign = find_foreign(usage, text);
    if (foreign && foreign->does == SPT_FOREIGN_REFUSED)
        return spt_fail(err, SPT_E_USAGE, "%s: is not here: %s", foreign->name,
                        foreign->text);
    if (foreign && foreign->does != SPT_FOREIGN_SAME) {
        pass_over(usage, foreign, argc, argv, i);
        return SPT_OK;
    }
    if (foreign) {
        option = find_long(usage, foreign->text, strlen(foreign->text));
        length = strlen(foreign->name);
    }
    if (!option)
        return unknown(usage, text, err);
    return take_value(option, length, argc, argv, i, err);
}

spt_status spt_options_parse(const spt_usage *usage, int argc, char **argv,
                             spt_texts *operands, bool *help, spt_error *err)
{
    spt_texts found = {0};
    bool only_operands = false;
    *help = false;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (!only_operands && strcmp(text, "--") == 0) {
            only_operands = true;
        } else if (!only_operands &&
                   (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)) {
            *help = true;
            return SPT_OK;
        } else if (!only_operands && text[0] == '-' && text[1]) {
            SPT_TRY(parse_one(usage, argc, argv, &i, err));
        } else if (found.count >= usage->max_operands ||
                   found.count == SPT_LIST_MAX) {
            return spt_fail(err, SPT_E_USAGE,
                            "'%.80s': unexpected operand, expected %s", text,
                            usage->operands ? usage->operands : "options only");
        } else {
            found.values[found.count++] = text;
        }
    }
    if (found.count < usage->min_operands)
        return spt_fail(err, SPT_E_USAGE, "operand is missing, expected %s",
                        usage->operands);
    if (operands)
        *operands = found;
    return SPT_OK;
}

void spt_print_wrapped(const char *text, int column, int indent)
{
    while (*text) {
        size_t n = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)n > 79) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += (int)n;
        text += n;
        if (*text == '\n') {
            printf("\n%*s", text[1] ? indent : 0, "");
            column = indent;
        }
        text += *text != 0;
    }
    putchar('\n');
}

/* What an option is for; of a list also what stands when it is not given. */
static void print_help(const spt_option *o, int column)
{
    char text[400];
    const spt_ints *list = o->value;
    size_t used = (size_t)snprintf(text, sizeof text, "%s", o->help);
    bool shown = o->kind == SPT_OPTION_INTS && list->count > 0;
    for (int i = 0; shown && i < list->count && used < sizeof text - 24; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld",
                                 i ? "," : " (", (long long)list->values[i]);
    if (shown)
        snprintf(text + used, sizeof text - used, ")");
    spt_print_wrapped(text, column, column);
}

void spt_options_help(const spt_usage *usage)
{
    enum { COLUMN = 26 };
    printf("Usage: %s%s%s%s\n\n", usage->command,
           usage->count ? " [OPTION...]" : "", usage->operands ? " " : "",
           usage->operands ? usage->operands : "");
    spt_print_wrapped(usage->summary, 0, 0);
    printf("\nOptions:\n");
    for (int i = 0; i < usage->count; i++) {
        const spt_option *o = &usage->options[i];
        char left[160], letter[8] = "";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name,
                 o->kind == SPT_OPTION_FLAG ? "" : " ",
                 o->kind == SPT_OPTION_FLAG ? "" : o->argument);
        printf("%s", left);
        int width = (int)strlen(left);
        if (width > COLUMN - 2)
            printf("\n%*s", COLUMN, "");
        else
            printf("%*s", COLUMN - width, "");
        print_help(o, COLUMN);
    }
    printf("  %-*sthis text\n", COLUMN - 2, "-h, --help");
    if (usage->epilogue) {
        putchar('\n');
        spt_print_wrapped(usage->epilogue, 0, 0);
    }
}

int spt_options(const spt_usage *usage, int argc, char **argv,
                spt_texts *operands)
{
    spt_error err;
    bool help;
    if (spt_options_parse(usage, argc, argv, operands, &help, &err) != SPT_OK)
        return spt_exit_error(usage->command, &err);
    if (!help)
        return -1;
    spt_options_help(usage);
    return 0;
}

int spt_exit_error(const char *command, const spt_error *err)
{
    fflush(stdout);
    spt_progress_clear();
    fprintf(stderr, "%s: %s\n", command, err->text);
    return err->status == SPT_E_USAGE ? 2 : 1;
}

int spt_exit_usage(const char *command, const char *fmt, ...)
{
    va_list args;
    char text[512];
    spt_error err;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    spt_fail(&err, SPT_E_USAGE, "%s", text);
    return spt_exit_error(command, &err);
}

spt_status spt_parse_heads(const char *text, int *q_heads, int *kv_heads,
                           spt_error *err)
{
    const char *slash = strchr(text, '/');
    int64_t q = 0, kv = 0;
    if (!slash || !read_integer(text, (size_t)(slash - text), &q) ||
        !read_integer(slash + 1, strlen(slash + 1), &kv) || q < 1 || kv < 1 ||
        q > 1024 || kv > 1024)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads: '%.40s' is not valid, expected Q/KV such "
                        "as 64/8, from 1/1 to 1024/1024",
                        text);
    if (q % kv != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads: %d query heads do not divide evenly among "
                        "%d KV heads",
                        (int)q, (int)kv);
    *q_heads = (int)q;
    *kv_heads = (int)kv;
    return SPT_OK;
}
