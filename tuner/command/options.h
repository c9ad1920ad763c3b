/*
 * Command lines from tables. A command lists its options as rows; parsing,
 * errors and --help come from the rows.
 *
 *     bool json = false;
 *     int64_t batch = 1;
 *     const spt_option options[] = {
 *         {"batch", 0, SPT_OPTION_INT, &batch, "N", "sequences", 1, 4096},
 *         {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
 *     };
 *     const spt_usage usage = {
 *         .command = "spectune emit",
 *         .operands = "KERNEL [NAME=VALUE...]", .max_operands = 64,
 *         .min_operands = 1, .summary = "Prints a kernel's CUDA text.",
 *         .options = options, .count = sizeof options / sizeof *options,
 *     };
 *     spt_texts operands = {0};
 *     int status = spt_options(&usage, argc, argv, &operands);
 *     if (status >= 0)
 *         return status;
 *
 * Accepted: --name value, --name=value, -o value, -ovalue, options and
 * operands mixed, "--" before operands that start with '-'. A value that was
 * not given leaves the variable as it was: its content is the default.
 */
#ifndef SPT_OPTIONS_H
#define SPT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

typedef enum spt_option_kind {
#define SPT_OPTION_KIND(name, type, read) SPT_OPTION_##name,
#include "options.def"
#undef SPT_OPTION_KIND
} spt_option_kind;

enum { SPT_LIST_MAX = 64 };

/* A comma-separated list of integers; giving the option replaces the list. */
typedef struct spt_ints {
    int count;
    int64_t values[SPT_LIST_MAX];
} spt_ints;

/*
 * A comma-separated list of words, which point into `words` (do not copy the
 * struct); also what operands are put into, which point into argv.
 */
typedef struct spt_texts {
    int count;
    const char *values[SPT_LIST_MAX];
    char words[1024];
} spt_texts;

typedef struct spt_option {
    const char *name; /* without the dashes */
    char letter; /* short form, or 0 */
    spt_option_kind kind;
    void *value; /* of the kind's type */
    const char *argument; /* "N", "DIR"; CHOICE: "estimate|measure|patient" */
    const char *help; /* one or more lines' worth; wrapped when printed */
    double min, max; /* INT, NUMBER, INTS: bounds when max > min */
} spt_option;

typedef struct spt_usage {
    const char *command; /* "spectune emit" */
    const char *operands; /* as shown in the usage line; NULL = none */
    int min_operands, max_operands;
    const char *summary; /* what the command does */
    const spt_option *options;
    int count;
    const char *epilogue; /* text after the options, or NULL */
    bool foreign; /* other engines' spellings are understood: foreign.h */
} spt_usage;

/*
 * Parses argv[1...]. Returns -1 to go on, or the exit status: 0 after --help,
 * 2 after one line on standard error. operands may be NULL when there are
 * none. Texts point into argv.
 */
int spt_options(const spt_usage *usage, int argc, char **argv,
                spt_texts *operands);

/*
 * The same with the line in err, SPT_E_USAGE. On standard error there is only
 * what is said of foreign options that are left aside.
 */
spt_status spt_options_parse(const spt_usage *usage, int argc, char **argv,
                             spt_texts *operands, bool *help, spt_error *err);

void spt_options_help(const spt_usage *usage);

/* Prints text wrapped at 80 columns; further lines indented. */
void spt_print_wrapped(const char *text, int column, int indent);

/* "command: text" on standard error; 2 for SPT_E_USAGE, else 1. */
int spt_exit_error(const char *command, const spt_error *err);
int spt_exit_usage(const char *command, const char *fmt, ...) SPT_PRINTF(2, 3);

/* Parses "64/8" whole; used by --heads. */
spt_status spt_parse_heads(const char *text, int *q_heads, int *kv_heads,
                           spt_error *err);

#endif
