/*
 * Sim as a libcuda.so.1 for programs that know nothing of it: exports every
 * call of driver.def under its versioned name. cuInit makes the machine, with
 * one device per board named in $SPECTUNE_SIM_BOARD (comma-separated; a name
 * of archs/ or a board file; default h100_sxm), and says on stderr when that
 * fails. $SPECTUNE_SIM_CHECKS=0 turns the checks off; at exit, reports are
 * printed to stderr, $SPECTUNE_SIM_REPORT=FILE gets them and the counters by
 * kernel as JSON, and with $SPECTUNE_SIM_EXIT=N the exit status of a program
 * with reports is N. A private symbol tells spectune that this is sim.
 *
 * The rest of libcuda's calls (missing.def) are exported too, so that every
 * program starts; they return CUDA_ERROR_NOT_SUPPORTED, and $SPECTUNE_SIM_TRACE
 * =1 has them, and what other calls lack, name themselves on stderr.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen.h"
#include "mem.h"
#include "run_report.h"
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

/* The form of cuCtxCreate that programs made for CUDA 12 and older link to. */
#undef cuCtxCreate_v2
__attribute__((visibility("default"))) CUresult
cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device)
{
    return sim_cuCtxCreate_v4(ctx, NULL, flags, device);
}

/*
 * A call that is missing: its name to the one function that says so.
 */
#if defined(__x86_64__)
#define MISSING_BODY(name) "lea 9f(%rip), %rdi\njmp sim_dropin_missing\n"
#else
#define MISSING_BODY(name) "adr x0, 9f\nb sim_dropin_missing\n"
#endif
#define SIM_MISSING(name)                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name \
            ":\n" MISSING_BODY(name) "9: .asciz \"" #name "\"\n.balign 4\n");
#include "missing.def"
#undef SIM_MISSING

/* Under names of our own: cuda.h has types for theirs. */
#define SIM_MISSING(name) extern void stub_##name(void) __asm__(#name);
#include "missing.def"
#undef SIM_MISSING

/* The stub of a call that is missing, with or without its version. */
static void *find_missing(const char *name)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } calls[] = {
#define SIM_MISSING(name) {#name, stub_##name},
#include "missing.def"
#undef SIM_MISSING
    };
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const char *rest = calls[i].name + length;
        if (strncmp(calls[i].name, name, length) ||
            (*rest && strncmp(rest, "_v", 2)))
            continue;
        void *address;
        memcpy(&address, &calls[i].call, sizeof(address));
        return address;
    }
    return NULL;
}

__attribute__((used)) CUresult sim_dropin_missing(const char *name);
CUresult sim_dropin_missing(const char *name)
{
    return sim_lacks(name, "the call");
}

enum { MAX_BOARDS = 16, IDLE_MS = 50 };

/* Whether a switch of the environment is on. */
static bool is_on(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return strcmp(value ? value : otherwise, "0") != 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static spt_status find_board(spt_gen *gen, const char *name, spt_board *board,
                             spt_error *err)
{
    size_t length = strlen(name);
    if (length > 4 && !strcmp(name + length - 4, ".lua"))
        return spt_gen_board_file(gen, name, board, err);
    return spt_gen_board(gen, name, board, err);
}

/*
 * The folders of data near this library (the program may be anywhere): above
 * it in a checkout, or below its installed prefix. NULL: as spt_gen finds them.
 */
static const char *own_root(char *root, size_t size)
{
    Dl_info self;
    const char *home = getenv("SPECTUNE_HOME");
    if ((home && *home) || !dladdr(&once, &self) ||
        !realpath(self.dli_fname, root) || strlen(root) + 32 > size)
        return NULL;
    for (char *slash; (slash = strrchr(root, '/'));) {
        static const char *const folders[] = {"", "/share/spectune"};
        for (int i = 0; i < 2; i++) {
            strcpy(slash, folders[i]);
            if (spt_gen_has_root(root))
                return root;
        }
        *slash = 0;
    }
    return NULL;
}

static spt_status find_boards(char *names, spt_board *boards, int *count,
                              spt_error *err)
{
    spt_gen *gen;
    char *rest = names, root[PATH_MAX];
    SPT_TRY(spt_gen_open(own_root(root, sizeof(root)), &gen, err));
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

static const char *board_names(void)
{
    const char *wanted = getenv("SPECTUNE_SIM_BOARD");
    return wanted && *wanted ? wanted : "h100_sxm";
}

/* The last that runs of the program. */
static void finish(void)
{
    const char *path = getenv("SPECTUNE_SIM_REPORT");
    const char *status = getenv("SPECTUNE_SIM_EXIT");
    spt_error err;
    print_reports();
    if (path && *path &&
        sim_run_report_write(path, board_names(), &err) != SPT_OK)
        fprintf(stderr, "sim: SPECTUNE_SIM_REPORT: %s\n", err.text);
    if (status && *status && spt_sim_report_count()) {
        fflush(NULL);
        _exit(atoi(status) & 255);
    }
}

static void open_once(void)
{
    spt_sim_options options = {
        .checks_off = !is_on("SPECTUNE_SIM_CHECKS", "1"),
        .trace = is_on("SPECTUNE_SIM_TRACE", "0"),
        .idle_ms = IDLE_MS,
    };
    static spt_board boards[MAX_BOARDS];
    static spt_driver unused;
    int count = 0;
    spt_error err = {0};
    spt_status opened = SPT_E_MEMORY;
    char *names = spt_strdup(board_names());
    if (names)
        opened = find_boards(names, boards, &count, &err);
    if (opened == SPT_OK)
        opened = spt_sim_open(boards, count, &options, &unused, &err);
    if (opened != SPT_OK)
        fprintf(stderr, "sim: SPECTUNE_SIM_BOARD: %s\n", err.text);
    else
        atexit(finish);
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
    sim_find_hook = find_missing;
}
