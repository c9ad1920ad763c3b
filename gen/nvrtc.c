/* NVRTC, opened at run time: CUDA text to PTX and cubin. */
#include "gen.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"
#include "cubin.h"
#include "files.h"
#include "hash.h"
#include "nvrtc_text.h"

typedef struct nvrtc_program *program;
enum { NVRTC_OK = 0, NVRTC_COMPILATION = 6 };

/* Calls: name in the struct, name in the library, parameters. */
#define NVRTC_CALLS(CALL)                                                   \
    CALL(version, nvrtcVersion, (int *major, int *minor))                   \
    CALL(create, nvrtcCreateProgram,                                        \
         (program * p, const char *source, const char *name, int n_headers, \
          const char *const *headers, const char *const *names))            \
    CALL(destroy, nvrtcDestroyProgram, (program * p))                       \
    CALL(compile, nvrtcCompileProgram,                                      \
         (program p, int n_options, const char *const *options))            \
    CALL(ptx_size, nvrtcGetPTXSize, (program p, size_t * size))             \
    CALL(ptx, nvrtcGetPTX, (program p, char *text))                         \
    CALL(cubin_size, nvrtcGetCUBINSize, (program p, size_t * size))         \
    CALL(cubin, nvrtcGetCUBIN, (program p, char *data))                     \
    CALL(log_size, nvrtcGetProgramLogSize, (program p, size_t * size))      \
    CALL(log, nvrtcGetProgramLog, (program p, char *text))

struct spt_compiler {
    void *library;
#define CALL(name, symbol, parameters) int(*name) parameters;
    NVRTC_CALLS(CALL)
#undef CALL
    /* Absent before CUDA 12.8: then a compile cannot be stopped. */
    int (*flow)(program p, int (*callback)(void *, void *), void *user);
    char identity[32];
    char *cache; /* "" = none */
    void (*note)(void *user, const char *text);
    void *note_user;
    pthread_mutex_t lock; /* of noted and stored */
    bool noted; /* the cache could not be written: said once */
    bool stored; /* something into it */
    uint64_t cache_limit; /* bytes */
};

static const char *const fixed_options[] = {"-lineinfo", "-std=c++17",
                                            "--ptxas-options=-v"};
enum { N_FIXED = sizeof fixed_options / sizeof *fixed_options };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Folder of the program's file, with its trailing slash dropped; or "". */
static void program_folder(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

/* Where make deps puts it, seen from the program or the tree. */
static void *open_fetched(void)
{
    char folder[3072], path[4096];
    const char *home = getenv("SPECTUNE_HOME");
    const char *const ups[] = {"", "/..", "/../.."};
    void *library = NULL;
    if (home && *home) {
        snprintf(path, sizeof path, "%s/deps/cuda/lib/libnvrtc.so.13", home);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    program_folder(folder, sizeof folder);
    for (size_t i = 0; !library && i < sizeof ups / sizeof *ups; i++) {
        snprintf(path, sizeof path, "%s%s/deps/cuda/lib/libnvrtc.so.13", folder,
                 ups[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static void *open_system(void)
{
    static const char *const places[] = {
        "libnvrtc.so.13",
        "libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so",
        "/usr/local/cuda/lib/libnvrtc.so",
        "libnvrtc.so.12",
    };
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof places / sizeof *places; i++)
        library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static spt_status open_library(const char *given, void **library,
                               spt_error *err)
{
    if (!given || !*given)
        given = getenv("SPECTUNE_NVRTC");
    if (given && *given) {
        *library = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!*library)
            return spt_fail(err, SPT_E_NOT_FOUND, "NVRTC: %s", dlerror());
        return SPT_OK;
    }
    *library = open_system();
    if (!*library)
        *library = open_fetched();
    if (!*library)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "NVRTC: libnvrtc.so is neither among the system's "
                        "libraries nor in a CUDA toolkit nor in deps/cuda: run "
                        "make deps, or name it in SPECTUNE_NVRTC");
    return SPT_OK;
}

static spt_status fill(spt_compiler *c, spt_error *err)
{
    void *symbol;
#define CALL(name, text, parameters)                       \
    symbol = dlsym(c->library, #text);                     \
    if (!symbol)                                           \
        return spt_fail(err, SPT_E_NOT_FOUND,              \
                        "NVRTC: the library has no " #text \
                        ", expected NVRTC 12 or newer");   \
    memcpy(&c->name, &symbol, sizeof symbol);
    NVRTC_CALLS(CALL)
#undef CALL
    symbol = dlsym(c->library, "nvrtcSetFlowCallback");
    if (symbol)
        memcpy(&c->flow, &symbol, sizeof symbol);
    return SPT_OK;
}

/* "nvrtc 13.0.88": the build stands only in the PTX that it writes. */
static void identify(spt_compiler *c)
{
    int major = 0, minor = 0;
    program p = NULL;
    size_t size = 0;
    char *text = NULL;
    const char *option = "--gpu-architecture=compute_90";
    c->version(&major, &minor);
    snprintf(c->identity, sizeof c->identity, "nvrtc %d.%d", major, minor);
    if (c->create(&p, "", "identity.cu", 0, NULL, NULL) != NVRTC_OK)
        return;
    if (c->compile(p, 1, &option) == NVRTC_OK &&
        c->ptx_size(p, &size) == NVRTC_OK && size &&
        (text = spt_calloc(size + 1, 1)) != NULL &&
        c->ptx(p, text) == NVRTC_OK) {
        const char *at = strstr(text, ", V");
        size_t n = at ? strspn(at + 3, "0123456789.") : 0;
        if (n && n < 16)
            snprintf(c->identity, sizeof c->identity, "nvrtc %.*s", (int)n,
                     at + 3);
    }
    spt_free(text);
    c->destroy(&p);
}

spt_status spt_compiler_open(const char *library, const char *cache_folder,
                             spt_compiler **compiler, spt_error *err)
{
    void *symbol;
    spt_compiler *c = spt_calloc(1, sizeof *c);
    if (c && pthread_mutex_init(&c->lock, NULL) != 0) {
        spt_free(c);
        c = NULL;
    }
    if (c)
        c->cache =
            cache_folder ? spt_strdup(cache_folder) : spt_cache_default();
    spt_status status = c && c->cache
                            ? open_library(library, &c->library, err)
                            : spt_fail(err, SPT_E_MEMORY, "out of memory");
    if (status == SPT_OK)
        status = fill(c, err);
    if (status == SPT_OK && *c->cache)
        status = spt_cache_limit(&c->cache_limit, err);
    if (status != SPT_OK) {
        spt_compiler_close(c);
        return status;
    }
    Dl_info place;
    memcpy(&symbol, &c->version, sizeof symbol);
    bool placed = *c->cache && dladdr(symbol, &place) && place.dli_fname;
    if (!placed || !spt_cache_compiler(c->cache, place.dli_fname, c->identity,
                                       sizeof c->identity)) {
        identify(c);
        if (placed)
            spt_cache_keep_compiler(c->cache, place.dli_fname, c->identity);
    }
    *compiler = c;
    return SPT_OK;
}

void spt_compiler_close(spt_compiler *compiler)
{
    if (!compiler)
        return;
    if (compiler->stored)
        spt_cache_trim(compiler->cache, compiler->cache_limit);
    /* The library stays loaded: NVRTC does not like to be unloaded. */
    pthread_mutex_destroy(&compiler->lock);
    spt_free(compiler->cache);
    spt_free(compiler);
}

void spt_compiler_notes(spt_compiler *compiler,
                        void (*note)(void *user, const char *text), void *user)
{
    compiler->note = note;
    compiler->note_user = user;
}

/* One line to the caller; once_only: at most one of this kind. */
static void note(spt_compiler *c, const char *text, bool once_only)
{
    pthread_mutex_lock(&c->lock);
    if (c->note && !(once_only && c->noted))
        c->note(c->note_user, text);
    c->noted |= once_only;
    pthread_mutex_unlock(&c->lock);
}

void spt_image_free(spt_image *image)
{
    if (!image)
        return;
    spt_free(image->ptx);
    spt_free(image->cubin);
    *image = (spt_image){0};
}

/* Called by NVRTC now and then; 1 stops the compilation. */
static int out_of_time(void *user, void *reserved)
{
    (void)reserved;
    return now() > *(const double *)user;
}

/* The PTX of a program that did not assemble, or NULL. */
static char *read_ptx(const spt_compiler *c, program p)
{
    size_t size = 0;
    char *ptx = NULL;
    if (c->ptx_size(p, &size) == NVRTC_OK && size &&
        (ptx = spt_calloc(size + 1, 1)) != NULL && c->ptx(p, ptx) != NVRTC_OK)
        *ptx = 0;
    return ptx;
}

static spt_status compile_failed(const spt_compiler *c, program p,
                                 const spt_kernel *k, const char *log,
                                 spt_error *err)
{
    char *ptx = read_ptx(c, p);
    spt_status status = spt_nvrtc_fail(k, log, ptx, err);
    spt_free(ptx);
    return status;
}

static char *read_log(const spt_compiler *c, program p)
{
    size_t size = 0;
    char *text = NULL;
    if (c->log_size(p, &size) == NVRTC_OK &&
        (text = spt_calloc(size + 1, 1)) != NULL && c->log(p, text) != NVRTC_OK)
        *text = 0;
    return text;
}

/* Registers and shared memory from the cubin, spills from the log. */
static spt_status take_facts(const spt_kernel *k, const char *log,
                             spt_image *image, spt_error *err)
{
    spt_cubin_facts facts;
    SPT_TRY(spt_cubin_read(image->cubin, image->cubin_size, k->symbol, &facts,
                           err));
    image->registers = facts.registers;
    image->shared_bytes = facts.shared_bytes;
    image->spill_bytes = spt_nvrtc_number(log, " bytes spill stores");
    image->stack_bytes = spt_nvrtc_number(log, " bytes stack frame");
    if (facts.stack_bytes > image->stack_bytes)
        image->stack_bytes = facts.stack_bytes;
    return SPT_OK;
}

static spt_status take_image(const spt_compiler *c, program p,
                             const spt_kernel *k, const char *log,
                             spt_image *image, spt_error *err)
{
    if (c->ptx_size(p, &image->ptx_size) != NVRTC_OK ||
        c->cubin_size(p, &image->cubin_size) != NVRTC_OK)
        return spt_fail(err, SPT_E_COMPILE, "NVRTC: gives no PTX and cubin");
    image->ptx = spt_calloc(image->ptx_size + 1, 1);
    image->cubin = spt_calloc(image->cubin_size + 1, 1);
    if (!image->ptx || !image->cubin)
        return spt_fail(err, SPT_E_MEMORY, "NVRTC: out of memory");
    if (c->ptx(p, image->ptx) != NVRTC_OK ||
        c->cubin(p, image->cubin) != NVRTC_OK)
        return spt_fail(err, SPT_E_COMPILE, "NVRTC: gives no PTX and cubin");
    spt_nvrtc_relative(image->ptx);
    image->ptx_size = strlen(image->ptx);
    return take_facts(k, log, image, err);
}

static spt_status compile_text(const spt_compiler *c, const spt_kernel *k,
                               const char *source, double timeout_s,
                               spt_image *image, spt_error *err)
{
    char target[64], name[64];
    const char *options[N_FIXED + 1] = {target};
    double end = now() + timeout_s;
    program p = NULL;
    snprintf(target, sizeof target, "--gpu-architecture=%s", k->target);
    snprintf(name, sizeof name, "/%s.cu", k->template_name);
    memcpy(options + 1, fixed_options, sizeof fixed_options);
    if (c->create(&p, source, name, 0, NULL, NULL) != NVRTC_OK)
        return spt_fail(err, SPT_E_COMPILE, "NVRTC: cannot start");
    if (c->flow)
        c->flow(p, out_of_time, &end);
    int result = c->compile(p, N_FIXED + 1, options);
    char *log = read_log(c, p);
    spt_status status;
    if (!log)
        status = spt_fail(err, SPT_E_MEMORY, "NVRTC: out of memory");
    else if (result == NVRTC_OK)
        status = take_image(c, p, k, log, image, err);
    else if (now() > end)
        status = spt_fail(err, SPT_E_TIMEOUT,
                          "%s: compiling took longer than %.0f s",
                          k->template_name, timeout_s);
    else
        status = compile_failed(c, p, k, log, err);
    spt_free(log);
    c->destroy(&p);
    return status;
}

static void make_key(const spt_compiler *c, const spt_kernel *k,
                     char key[SPT_SHA256_TEXT])
{
    spt_buf text = {0};
    spt_buf_printf(&text, "%s\n%s\n%s\n", c->identity, k->target, SPT_VERSION);
    for (int i = 0; i < N_FIXED; i++)
        spt_buf_printf(&text, "%s\n", fixed_options[i]);
    spt_buf_add(&text, k->source, k->source_size);
    spt_sha256(text.data, text.failed ? 0 : text.size, key);
    spt_buf_free(&text);
}

/* Whether the cache has the image of that kernel. */
static bool load_one(spt_compiler *c, const spt_kernel *k, spt_image *image)
{
    char reason[256] = "";
    *image = (spt_image){0};
    make_key(c, k, image->key);
    if (*c->cache && spt_cache_load(c->cache, image, reason, sizeof reason))
        return true;
    if (*reason)
        note(c, reason, false);
    return false;
}

static spt_status compile_one(spt_compiler *c, const spt_kernel *k,
                              double timeout_s, spt_image *image,
                              spt_error *err)
{
    memcpy(image->compiler, c->identity, sizeof c->identity);
    char *source = spt_nvrtc_absolute(k->source);
    if (!source)
        return spt_fail(err, SPT_E_MEMORY, "NVRTC: out of memory");
    spt_status status = compile_text(c, k, source, timeout_s, image, err);
    spt_free(source);
    if (status != SPT_OK)
        spt_image_free(image);
    spt_error failure;
    if (status == SPT_OK && *c->cache) {
        if (spt_cache_store(c->cache, image, &failure) != SPT_OK)
            note(c, failure.text, true);
        pthread_mutex_lock(&c->lock);
        c->stored = true;
        pthread_mutex_unlock(&c->lock);
    }
    return status;
}

/* What the threads of one spt_compile share, under the lock. */
typedef struct batch {
    spt_compiler *compiler;
    const spt_kernel *kernels;
    spt_image *images;
    double timeout_s;
    size_t count, next, done, running;
    const char *begun; /* symbol of the last kernel to be compiled, or NULL */
    spt_status status; /* of the first kernel, by index, that failed */
    size_t failed_at;
    spt_error error;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} batch;

static spt_status make_one(batch *b, size_t i, spt_error *err)
{
    const spt_kernel *k = &b->kernels[i];
    if (load_one(b->compiler, k, &b->images[i]))
        return SPT_OK;
    pthread_mutex_lock(&b->lock);
    b->begun = k->symbol;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return compile_one(b->compiler, k, b->timeout_s, &b->images[i], err);
}

static void *work(void *user)
{
    batch *b = user;
    pthread_mutex_lock(&b->lock);
    while (b->next < b->count && b->status == SPT_OK) {
        size_t i = b->next++;
        spt_error err;
        pthread_mutex_unlock(&b->lock);
        spt_status status = make_one(b, i, &err);
        pthread_mutex_lock(&b->lock);
        if (status != SPT_OK && (b->status == SPT_OK || i < b->failed_at)) {
            b->status = status;
            b->failed_at = i;
            b->error = err;
        }
        b->done++;
        pthread_cond_signal(&b->changed);
    }
    b->running--;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

enum { MAX_THREADS = 64 };

/* Tells of what came since the last call; b->lock is held, but not there. */
static void tell(batch *b, spt_compile_progress *progress, void *user)
{
    bool more = true;
    while (progress && more) {
        const char *begun = b->begun;
        size_t done = b->done;
        pthread_mutex_unlock(&b->lock);
        progress(user, begun, done, b->count);
        pthread_mutex_lock(&b->lock);
        more = begun != b->begun || done != b->done;
    }
}

static void run_batch(batch *b, int threads, spt_compile_progress *progress,
                      void *user)
{
    pthread_t ids[MAX_THREADS];
    int started = 0;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[started], NULL, work, b) == 0) {
            started++;
            b->running++;
        }
    while (b->running) {
        pthread_cond_wait(&b->changed, &b->lock);
        tell(b, progress, user);
    }
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    if (!started) {
        b->running = 1;
        work(b);
    }
}

spt_status spt_compile(spt_compiler *compiler, const spt_kernel *kernels,
                       size_t count, int threads, double timeout_s,
                       spt_compile_progress *progress, void *user,
                       spt_image *images, spt_error *err)
{
    batch b = {.compiler = compiler,
               .kernels = kernels,
               .images = images,
               .timeout_s = timeout_s > 0 ? timeout_s : 120,
               .count = count};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads <= 0)
        threads = cores > 0 ? (int)cores : 1;
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    if ((size_t)threads > count)
        threads = (int)count;
    for (size_t i = 0; i < count; i++)
        images[i] = (spt_image){0};
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    run_batch(&b, threads, progress, user);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    if (b.status == SPT_OK)
        return SPT_OK;
    for (size_t i = 0; i < count; i++)
        spt_image_free(&images[i]);
    if (err)
        *err = b.error;
    return b.status;
}
