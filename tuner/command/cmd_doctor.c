/*
 * spectune doctor [--json]: what was found and what to do about what was not.
 * Looks only; the exit status is 0 whatever it finds.
 */
#include <cJSON.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "commands.h"
#include "driver.h"
#include "files.h"
#include "gen.h"
#include "gpu.h"
#include "json.h"
#include "measure_cupti.h"
#include "options.h"
#include "show.h"

typedef struct finding {
    const char *name;
    bool good;
    char found[1200];
    char remedy[400]; /* "" = nothing to do */
} finding;

enum { MAX_FINDINGS = 8 };
typedef struct findings {
    finding list[MAX_FINDINGS];
    int count;
} findings;

static finding *add(findings *all, const char *name, bool good, const char *fmt,
                    ...) SPT_PRINTF(4, 5);

static finding *add(findings *all, const char *name, bool good, const char *fmt,
                    ...)
{
    finding *f = &all->list[all->count++];
    va_list args;
    va_start(args, fmt);
    *f = (finding){.name = name, .good = good};
    vsnprintf(f->found, sizeof f->found, fmt, args);
    va_end(args);
    return f;
}

static void set_remedy(finding *f, const char *text)
{
    snprintf(f->remedy, sizeof f->remedy, "%s", text);
}

static void list_gpus(const spt_driver *driver, findings *all)
{
    int count = 0;
    size_t used = 0;
    finding *f = add(all, "gpu", true, "none");
    driver->cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        char name[128] = "?";
        int major = 0, minor = 0;
        size_t bytes = 0;
        if (driver->cuDeviceGet(&device, i) != CUDA_SUCCESS)
            continue;
        driver->cuDeviceGetName(name, sizeof name, device);
        driver->cuDeviceGetAttribute(
            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        driver->cuDeviceGetAttribute(
            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
        driver->cuDeviceTotalMem(&bytes, device);
        int n = snprintf(f->found + used, sizeof f->found - used,
                         "%s%s (compute capability %d.%d, %.0f GiB)",
                         used ? "; " : "", name, major, minor,
                         (double)bytes / (1 << 30));
        if (n < 0 || used + (size_t)n >= sizeof f->found)
            break;
        used += (size_t)n;
    }
}

/* Which board the GPU is: its name for --board, its times in profiles. */
static void find_board(const spt_driver *driver, findings *all)
{
    spt_gen *gen = NULL;
    spt_board board;
    spt_gpu gpu;
    spt_error err;
    if (spt_gen_open(NULL, &gen, &err) != SPT_OK)
        return; /* said by find_data */
    if (spt_gpu_board(driver, gen, &board, &gpu, &err) != SPT_OK)
        add(all, "board", false, "%s", err.text);
    else if (gpu.is_board)
        add(all, "board", true, "%s", board.name);
    else
        set_remedy(add(all, "board", false, "none, nearest %s", board.name),
                   "Its figures are not those of a file of archs/: describe it "
                   "in one for --board (archs/README.md). Without, nothing is "
                   "timed on it.");
    spt_gen_close(gen);
}

static void find_driver(findings *all)
{
    spt_driver driver;
    spt_error err;
    if (spt_driver_open(NULL, &driver, &err) != SPT_OK) {
        set_remedy(add(all, "driver", false, "%s", err.text),
                   "Without a GPU nothing is to be done: kernels are proved on "
                   "sim and times are modelled. With one: install the NVIDIA "
                   "driver (nvidia-smi has to list the GPU), and give a "
                   "container access to it.");
        return;
    }
    int version = 0;
    driver.cuDriverGetVersion(&version);
    add(all, "driver", true, "%s for CUDA %d.%d",
        driver.is_sim ? "sim as libcuda.so.1" : "libcuda.so.1", version / 1000,
        version % 1000 / 10);
    list_gpus(&driver, all);
    find_board(&driver, all);
    spt_driver_close(&driver);
}

/* The path of a library that is loaded, from the process's memory map. */
static bool loaded_path(const char *part, char *path, size_t size)
{
    char line[4352];
    FILE *maps = fopen("/proc/self/maps", "r");
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *start = strchr(line, '/');
        if (start && strstr(start, part)) {
            start[strcspn(start, "\n")] = 0;
            snprintf(path, size, "%s", start);
            found = true;
        }
    }
    if (maps)
        fclose(maps);
    return found;
}

static void find_compiler(findings *all)
{
    spt_compiler *compiler;
    spt_error err;
    char path[1024] = "a library without a path";
    int major = 0, minor = 0;
    if (spt_compiler_open(NULL, "", &compiler, &err) != SPT_OK) {
        set_remedy(add(all, "nvrtc", false, "%s", err.text),
                   "Run make deps in the source folder (it fetches NVRTC), "
                   "install a CUDA 12.8 or newer toolkit, or name the library "
                   "in SPECTUNE_NVRTC.");
        return;
    }
    if (loaded_path("libnvrtc.", path, sizeof path)) {
        int (*version)(int *, int *);
        void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        void *symbol = library ? dlsym(library, "nvrtcVersion") : NULL;
        if (symbol) {
            memcpy(&version, &symbol, sizeof symbol);
            version(&major, &minor);
        }
        if (library)
            dlclose(library);
    }
    add(all, "nvrtc", true, "NVRTC %d.%d, %s", major, minor, path);
    spt_compiler_close(compiler);
}

/* 1 or 0 as the driver's parameter says, -1 when there is no driver. */
static int admin_only(void)
{
    spt_buf text = {0};
    int value = -1;
    if (spt_file_read("/proc/driver/nvidia/params", 1 << 20, &text, NULL) ==
        SPT_OK) {
        const char *at = strstr(text.data, "RmProfilingAdminOnly:");
        if (at)
            value = atoi(at + strlen("RmProfilingAdminOnly:")) != 0;
    }
    spt_buf_free(&text);
    return value;
}

static void find_profiler(findings *all)
{
    char path[1024];
    unsigned version;
    spt_error err;
    if (spt_cupti_find(NULL, path, sizeof path, &version, &err) != SPT_OK) {
        set_remedy(add(all, "cupti", false, "%s", err.text),
                   "Needed only to time kernels on a GPU; without it they are "
                   "timed with events. Run make deps, or name the library in "
                   "SPECTUNE_CUPTI.");
        return;
    }
    add(all, "cupti", true, "version %u, %s", version, path);
    int restricted = admin_only();
    if (restricted == 1 && geteuid() != 0)
        set_remedy(add(all, "profiling", false, "restricted to root"),
                   "Set the module option NVreg_RestrictProfilingToAdminUsers="
                   "0 for nvidia and load the driver anew, or run as root; "
                   "else kernels are timed with events.");
    else if (restricted >= 0)
        add(all, "profiling", true, "%s",
            restricted ? "restricted to root, and this is root" : "allowed");
}

static void find_data(findings *all)
{
    spt_gen *gen;
    spt_error err;
    if (spt_gen_open(NULL, &gen, &err) != SPT_OK) {
        set_remedy(add(all, "data", false, "%s", err.text),
                   "Set SPECTUNE_HOME to the folder that holds archs/ and "
                   "templates/.");
        return;
    }
    add(all, "data", true, "archs and templates, %zu boards",
        spt_gen_board_count(gen));
    spt_gen_close(gen);
}

static void add_cache(findings *all, const char *path)
{
    size_t count;
    uint64_t bytes, limit;
    spt_error err;
    if (spt_cache_limit(&limit, &err) != SPT_OK) {
        set_remedy(add(all, "cache", false, "%s", err.text),
                   "Nothing is compiled until it is a size.");
        return;
    }
    spt_cache_measure(path, &count, &bytes);
    finding *f = add(all, "cache", true, "%s, %zu entries, %.1f MiB", path,
                     count, (double)bytes / (1 << 20));
    size_t used = strlen(f->found);
    if (limit)
        snprintf(f->found + used, sizeof f->found - used,
                 " of at most %.1f MiB (SPECTUNE_CACHE_LIMIT)",
                 (double)limit / (1 << 20));
    else
        snprintf(f->found + used, sizeof f->found - used, ", no limit");
}

static void find_cache(findings *all)
{
    char path[1024];
    char *folder = spt_cache_default();
    snprintf(path, sizeof path, "%s", folder ? folder : "");
    spt_free(folder);
    if (!*path) {
        set_remedy(add(all, "cache", false, "no folder for compiled kernels"),
                   "Every run compiles anew. Set SPECTUNE_CACHE or HOME.");
        return;
    }
    /* The folder is made on first use: its nearest parent has to allow it. */
    char probe[1024];
    snprintf(probe, sizeof probe, "%s", path);
    while (access(probe, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(probe, '/');
        if (!slash) {
            snprintf(probe, sizeof probe, ".");
            break;
        }
        *(slash == probe ? slash + 1 : slash) = 0;
    }
    if (access(probe, W_OK) == 0)
        add_cache(all, path);
    else
        set_remedy(add(all, "cache", false, "%s: cannot be written", path),
                   "Every run compiles anew. Make it writable, or set "
                   "SPECTUNE_CACHE to another folder.");
}

static void print_json(const findings *all)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.doctor/1");
    cJSON_AddStringToObject(root, "version", SPT_VERSION);
    for (int i = 0; i < all->count; i++) {
        const finding *f = &all->list[i];
        cJSON *item = cJSON_AddObjectToObject(root, f->name);
        cJSON_AddBoolToObject(item, "ok", f->good);
        cJSON_AddStringToObject(item, "found", f->found);
        if (*f->remedy)
            cJSON_AddStringToObject(item, "remedy", f->remedy);
    }
    spt_print_json(root);
}

static void print_text(const findings *all)
{
    printf("spectune %s\n", SPT_VERSION);
    for (int i = 0; i < all->count; i++) {
        const finding *f = &all->list[i];
        printf("  %-10s %-4s ", f->name, f->good ? "ok" : "-");
        spt_print_wrapped(f->found, 18, 18);
        if (*f->remedy) {
            printf("%*s", 18, "");
            spt_print_wrapped(f->remedy, 18, 18);
        }
    }
}

int spt_cmd_doctor(int argc, char **argv)
{
    bool json = false;
    const spt_option options[] = {
        {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print one JSON object", 0,
         0},
    };
    const spt_usage usage = {
        .command = "spectune doctor",
        .summary = "Says what was found on this machine (driver and GPUs, "
                   "NVRTC, CUPTI and its permission, data, cache) and what to "
                   "do about what was not.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    int status = spt_options(&usage, argc, argv, NULL);
    if (status >= 0)
        return status;
    findings all = {.count = 0};
    find_data(&all);
    find_compiler(&all);
    find_cache(&all);
    find_driver(&all);
    find_profiler(&all);
    if (json)
        print_json(&all);
    else
        print_text(&all);
    return 0;
}
