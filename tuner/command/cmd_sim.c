/*
 * spectune sim PROGRAM ...: runs a program that knows nothing of sim on it and
 * says what its kernels did: reports, counters, modelled time on a board.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "commands.h"
#include "files.h"
#include "json.h"
#include "options.h"
#include "show.h"

enum { REPORT_MAX_BYTES = 256 << 20 };

typedef struct job {
    const char *board, *file;
    int64_t exit_status;
    bool json, unchecked;
    char **argv; /* of the program */
    char library[PATH_MAX]; /* folder of sim's libcuda.so.1 */
    char report[64]; /* the file that sim writes */
} job;

/* Beside the program in a build, or where it was installed. */
static spt_status find_library(job *j, spt_error *err)
{
    static const char *const places[] = {"sim", "../lib/spectune/sim",
                                         "release/sim"};
    char self[PATH_MAX], path[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", self, places[i]);
        snprintf(j->library, sizeof j->library, "%.4000s", path);
        strcat(path, "/libcuda.so.1");
        if (spt_file_exists(path))
            return SPT_OK;
    }
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "no sim/libcuda.so.1 beside %.200s: expected one there, "
                    "make all builds it",
                    self);
}

/* Sim opens them in the program, where a wrong name would be its failure. */
static spt_status check_boards(const char *names, spt_error *err)
{
    static spt_board board;
    spt_gen *gen = NULL;
    char *copy = spt_strdup(names), *rest = copy;
    spt_status status = copy ? spt_gen_open(NULL, &gen, err)
                             : spt_fail(err, SPT_E_MEMORY, "out of memory");
    for (char *name; status == SPT_OK && (name = strsep(&rest, ","));)
        status = spt_find_board(gen, NULL, name, &board, err);
    spt_gen_close(gen);
    spt_free(copy);
    return status;
}

/* In the child: the environment, then the program. */
static void become_program(const job *j)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    spt_buf path = {0};
    spt_buf_printf(&path, "%s%s%s", j->library, old && *old ? ":" : "",
                   old ? old : "");
    setenv("LD_LIBRARY_PATH", path.data ? path.data : j->library, 1);
    setenv("SPECTUNE_SIM_REPORT", j->report, 1);
    if (j->board)
        setenv("SPECTUNE_SIM_BOARD", j->board, 1);
    setenv("SPECTUNE_SIM_TRACE", "1", 0);
    if (j->unchecked)
        setenv("SPECTUNE_SIM_CHECKS", "0", 1);
    execvp(j->argv[0], j->argv);
    fprintf(stderr, "spectune sim: %s: %s\n", j->argv[0], strerror(errno));
    _exit(127);
}

/* Whoever stops this program means the one that it runs: 0 while none does. */
static volatile sig_atomic_t running;

static void pass_on(int signal)
{
    if (running)
        kill(running, signal);
}

/* Signals in between wait, so that none is lost before the child is known. */
static spt_status run_program(const job *j, int *status, spt_error *err)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&held, passed[i]);
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &held, &before);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        become_program(j);
    }
    int failed = errno;
    running = child > 0 ? child : 0;
    for (size_t i = 0; child > 0 && i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &act, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child < 0)
        return spt_fail(err, SPT_E_IO, "fork: %s", strerror(failed));
    while (waitpid(child, status, 0) < 0)
        if (errno != EINTR)
            return spt_fail(err, SPT_E_IO, "wait: %s", strerror(errno));
    running = 0;
    return SPT_OK;
}

static double number(const cJSON *object, const char *field)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, field);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void print_kernel(const cJSON *kernel)
{
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(kernel, "counters");
    const char *name = "?";
    char us[24];
    double ideal = number(c, "memory_l1_wavefronts_shared_ideal");
    double waves = number(c, "memory_l1_wavefronts_shared");
    spt_json_text(kernel, "", "kernel", &name, NULL);
    fprintf(stderr, "%-24.24s %6.0f %10s %9.3g %9.3g %8.3g %6.2f\n", name,
            number(c, "launches"),
            spt_time_text(number(kernel, "time_us"), us, sizeof us),
            number(c, "ptx_inst"), number(c, "mma_flops"),
            number(c, "dram__bytes_read") + number(c, "dram__bytes_write"),
            ideal > 0 ? waves / ideal : 1);
}

/* To stderr: what the program printed stays alone on stdout. */
static void print_table(const job *j, const cJSON *root)
{
    const cJSON *reports = cJSON_GetObjectItemCaseSensitive(root, "reports");
    const cJSON *kernel;
    fprintf(stderr,
            "\nkernel                 launches       time   PTX inst  mma flop "
            " DRAM B  banks\n");
    cJSON_ArrayForEach(kernel,
                       cJSON_GetObjectItemCaseSensitive(root, "kernels"))
        print_kernel(kernel);
    fprintf(stderr,
            "%d reports. Times are those of sim's own model: its counters over "
            "the rates of\n%s. They are not the calibrated ones of the "
            "answers. Banks: wavefronts\nof shared memory over those without "
            "conflicts.\n",
            cJSON_GetArraySize(reports), j->board ? j->board : "h100_sxm");
}

static spt_status show(const job *j, const cJSON *root, spt_error *err)
{
    spt_buf text = {0};
    spt_status status = SPT_OK;
    if (j->file)
        status = spt_json_write(j->file, root, err);
    if (j->json) {
        spt_json_print(root, &text);
        fprintf(stderr, "%s\n", text.data ? text.data : "");
        spt_buf_free(&text);
    } else if (!j->file) {
        print_table(j, root);
    }
    return status;
}

/* The program's status as a shell has it; the reports' own where it is set. */
static int final_status(const job *j, int status, const cJSON *root)
{
    if (j->exit_status && cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(
                              root, "reports")) > 0)
        return (int)j->exit_status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static spt_status run(job *j, int *code, spt_error *err)
{
    cJSON *root = NULL;
    int status = 0;
    if (j->board)
        SPT_TRY(check_boards(j->board, err));
    SPT_TRY(find_library(j, err));
    snprintf(j->report, sizeof j->report, "/tmp/spectune-sim-XXXXXX");
    int file = mkstemp(j->report);
    if (file < 0)
        return spt_fail(err, SPT_E_IO, "%s: %s", j->report, strerror(errno));
    close(file);
    spt_status result = run_program(j, &status, err);
    if (result == SPT_OK &&
        spt_json_read(j->report, REPORT_MAX_BYTES, &root, NULL) != SPT_OK &&
        !(WIFEXITED(status) && WEXITSTATUS(status) == 127))
        fprintf(stderr,
                "spectune sim: %s used no CUDA driver, or did not come "
                "to its end: nothing to report\n",
                j->argv[0]);
    unlink(j->report);
    if (result == SPT_OK && root)
        result = show(j, root, err);
    *code = final_status(j, status, root);
    cJSON_Delete(root);
    return result;
}

/* Which of the arguments is "--", or how many there are. */
static int own_arguments(int argc, char **argv)
{
    int i = 1;
    while (i < argc && strcmp(argv[i], "--") != 0)
        i++;
    return i < argc ? i : argc;
}

/* Runs the program: the operands before "--", then all that is behind it. */
static spt_status run_arguments(job *j, const spt_texts *before, char **behind,
                                int count, int *code, spt_error *err)
{
    size_t n = (size_t)before->count;
    char **all = spt_calloc(n + (size_t)count + 1, sizeof *all);
    if (!all)
        return spt_fail(err, SPT_E_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++)
        all[i] = spt_strdup(before->values[i]);
    for (int i = 0; i < count; i++)
        all[n + (size_t)i] = behind[i];
    j->argv = all;
    spt_status status = run(j, code, err);
    for (size_t i = 0; i < n; i++)
        spt_free(all[i]);
    spt_free(all);
    return status;
}

int spt_cmd_sim(int argc, char **argv)
{
    job j = {0};
    spt_texts before = {0};
    int own = own_arguments(argc, argv);
    int behind = own < argc ? argc - own - 1 : 0;
    const spt_option options[] = {
        {"board", 0, SPT_OPTION_TEXT, &j.board, "NAME|FILE.lua",
         "board that the program finds, or several (h100_sxm)", 0, 0},
        {"no-checks", 0, SPT_OPTION_FLAG, &j.unchecked, NULL,
         "run faster, report nothing", 0, 0},
        {"report", 0, SPT_OPTION_TEXT, &j.file, "FILE",
         "write reports and counters there as JSON, print no table", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &j.json, NULL,
         "print them as JSON, on standard error", 0, 0},
        {"error-exitcode", 0, SPT_OPTION_INT, &j.exit_status, "N",
         "exit status when there are reports (the program's own)", 1, 255},
    };
    const spt_usage usage = {
        .command = "spectune sim",
        .operands = "[--] PROGRAM [ARGUMENT...]",
        .min_operands = behind == 0,
        .max_operands = SPT_LIST_MAX,
        .summary = "Runs a program on sim instead of a GPU, with checks, and "
                   "shows what its kernels did: reports, counters, modelled "
                   "time. Options of the program go behind --.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    int code = spt_options(&usage, own, argv, &before);
    if (code >= 0)
        return code;
    spt_error err = {0};
    spt_status status =
        run_arguments(&j, &before, argv + argc - behind, behind, &code, &err);
    return status == SPT_OK ? code : spt_exit_error("spectune sim", &err);
}
