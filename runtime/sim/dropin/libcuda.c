/*
 * Sim as a libcuda.so.1 for programs that know nothing of it: exports every
 * call of driver.def under its versioned name. cuInit makes the machine, with
 * one device per board named in $SPECTUNE_SIM_BOARD (comma-separated; a name
 * of archs/ or a board file; default h100_sxm), and says on stderr when that
 * fails. $SPECTUNE_SIM_CHECKS=0 turns the checks off; at exit, reports are
 * printed to stderr. A private symbol tells spectune that this is sim.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"
#include "mem.h"
#include "sim.h"
#include "sim_driver.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

#if defined(__x86_64__)
#define JUMP "jmp"
#elif defined(__aarch64__)
#define JUMP "b"
#else
#error "expected x86-64 or aarch64"
#endif

/* Same arguments, same result: a jump does for every signature. */
#define SPT_DRIVER_CALL(name)                                              \
    __asm__(".text\n"                                                      \
            ".globl " TEXT(name) "\n"                                      \
                                 ".type " TEXT(name) ", %function\n" TEXT( \
                                     name) ":\n" JUMP                      \
                                           " sim_" TEXT(name) "\n");
#include "driver.def"
#undef SPT_DRIVER_CALL

enum { MAX_BOARDS = 16 };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static spt_status find_board(spt_gen *gen, const char *name, spt_board *board,
                             spt_error *err)
{
    size_t length = strlen(name);
    if (length > 4 && !strcmp(name + length - 4, ".lua"))
        return spt_gen_board_file(gen, name, board, err);
    return spt_gen_board(gen, name, board, err);
}

static spt_status find_boards(char *names, spt_board *boards, int *count,
                              spt_error *err)
{
    spt_gen *gen;
    char *rest = names;
    SPT_TRY(spt_gen_open(NULL, &gen, err));
    spt_status status = SPT_OK;
    for (char *name; status == SPT_OK && (name = strsep(&rest, ","));) {
        if (*count == MAX_BOARDS)
            status =
                spt_fail(err, SPT_E_USAGE, "more than %d boards", MAX_BOARDS);
        else
            status = find_board(gen, name, &boards[(*count)++], err);
    }
    spt_gen_close(gen);
    return status;
}

static void print_reports(void)
{
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        fprintf(stderr, "sim: %s\n", report.text);
}

static void open_once(void)
{
    const char *wanted = getenv("SPECTUNE_SIM_BOARD");
    const char *checks = getenv("SPECTUNE_SIM_CHECKS");
    spt_sim_options options = {
        .checks_off = checks && !strcmp(checks, "0"),
    };
    static spt_board boards[MAX_BOARDS];
    static spt_driver unused;
    int count = 0;
    spt_error err = {0};
    spt_status opened = SPT_E_MEMORY;
    char *names = spt_strdup(wanted && *wanted ? wanted : "h100_sxm");
    if (names)
        opened = find_boards(names, boards, &count, &err);
    if (opened == SPT_OK)
        opened = spt_sim_open(boards, count, &options, &unused, &err);
    if (opened != SPT_OK)
        fprintf(stderr, "sim: SPECTUNE_SIM_BOARD: %s\n", err.text);
    else
        atexit(print_reports);
    spt_free(names);
}

static void open_machine(void)
{
    pthread_once(&once, open_once);
}

/* Not yet: a program may only look whether there is a driver. */
__attribute__((constructor)) static void prepare(void)
{
    sim_open_hook = open_machine;
}
