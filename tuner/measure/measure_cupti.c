/*
 * The part of CUPTI's interface that is used is declared here (names and
 * layout of cupti_activity.h), so that building needs no CUPTI: of a kernel's
 * record only the head up to its times is read, which has been the same in
 * every version of the record.
 */
#include "measure_cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum {
    CUPTI_OK = 0,
    CUPTI_NO_MORE_RECORDS = 12,
    CUPTI_NO_PRIVILEGES = 35,
    CUPTI_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_FLUSH_FORCED = 1,
    BUFFER_BYTES = 1 << 20,
    BUFFER_ALIGN = 8,
};

typedef struct kernel_record_head {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t partitioned_requested, partitioned_executed;
    uint64_t start, end;
} kernel_record_head;

typedef void (*buffer_requested)(uint8_t **buffer, size_t *size,
                                 size_t *max_records);
typedef void (*buffer_completed)(void *context, uint32_t stream,
                                 uint8_t *buffer, size_t size, size_t valid);

/* Calls: name in the struct, name in the library, parameters. */
#define CUPTI_CALLS(CALL)                                             \
    CALL(enable, cuptiActivityEnable, (int kind))                     \
    CALL(disable, cuptiActivityDisable, (int kind))                   \
    CALL(callbacks, cuptiActivityRegisterCallbacks,                   \
         (buffer_requested requested, buffer_completed completed))    \
    CALL(flush, cuptiActivityFlushAll, (uint32_t flag))               \
    CALL(next, cuptiActivityGetNextRecord,                            \
         (uint8_t * buffer, size_t valid, void **record))             \
    CALL(text, cuptiGetResultString, (int result, const char **text)) \
    CALL(version, cuptiGetVersion, (uint32_t * version))

struct spt_cupti {
    void *library;
#define CALL(name, symbol, parameters) int(*name) parameters;
    CUPTI_CALLS(CALL)
#undef CALL
    pthread_mutex_t lock; /* callbacks come from CUPTI's own thread */
    spt_cupti_record *records;
    size_t count, capacity;
    bool lost; /* a record had no place */
};

/* CUPTI's callbacks carry no user pointer. */
static spt_cupti *active;

static void *open_library(const char *library)
{
    static const char *const places[] = {
        "libcupti.so.13",
        "libcupti.so",
        "/usr/local/cuda/lib64/libcupti.so.13",
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
        "/usr/local/cuda/lib64/libcupti.so",
        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
        "deps/cuda/lib/libcupti.so.13",
    };
    const char *given = library ? library : getenv("SPECTUNE_CUPTI");
    if (given && *given)
        return dlopen(given, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *handle = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
    }
    return NULL;
}

static spt_status fill(spt_cupti *c, spt_error *err)
{
    void *symbol;
#define CALL(name, text_name, parameters)                                   \
    symbol = dlsym(c->library, #text_name);                                 \
    if (!symbol)                                                            \
        return spt_fail(err, SPT_E_NOT_FOUND, "CUPTI: has no " #text_name); \
    memcpy(&c->name, &symbol, sizeof symbol);
    CUPTI_CALLS(CALL)
#undef CALL
    return SPT_OK;
}

static spt_status check(const spt_cupti *c, int result, const char *what,
                        spt_error *err)
{
    const char *text = NULL;
    if (result == CUPTI_OK)
        return SPT_OK;
    c->text(result, &text);
    return spt_fail(err, SPT_E_DEVICE, "CUPTI: %s: %s%s", what,
                    text ? text : "unknown error",
                    result == CUPTI_NO_PRIVILEGES
                        ? " (spectune doctor says what to do)"
                        : "");
}

static void request_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void keep(spt_cupti *c, const kernel_record_head *head)
{
    if (!spt_grow(&c->records, &c->capacity, c->count + 1,
                  sizeof *c->records)) {
        c->lost = true;
        return;
    }
    c->records[c->count++] = (spt_cupti_record){head->start, head->end};
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *buffer,
                            size_t size, size_t valid)
{
    spt_cupti *c = active;
    void *record = NULL;
    (void)context;
    (void)stream;
    (void)size;
    if (c && valid) {
        pthread_mutex_lock(&c->lock);
        while (c->next(buffer, valid, &record) == CUPTI_OK) {
            kernel_record_head head;
            memcpy(&head, record, sizeof head);
            if (head.kind == CUPTI_KIND_CONCURRENT_KERNEL)
                keep(c, &head);
        }
        pthread_mutex_unlock(&c->lock);
    }
    free(buffer);
}

spt_status spt_cupti_open(const char *library, spt_cupti **cupti,
                          spt_error *err)
{
    spt_status status;
    if (active)
        return spt_fail(err, SPT_E_USAGE, "CUPTI: is open already");
    spt_cupti *c = spt_calloc(1, sizeof *c);
    if (!c)
        return spt_fail(err, SPT_E_MEMORY, "CUPTI: out of memory");
    pthread_mutex_init(&c->lock, NULL);
    c->library = open_library(library);
    if (!c->library) {
        status =
            spt_fail(err, SPT_E_NOT_FOUND, "CUPTI: libcupti.so was not found");
        goto failed;
    }
    status = fill(c, err);
    if (status != SPT_OK)
        goto failed;
    status = check(c, c->callbacks(request_buffer, complete_buffer),
                   "cuptiActivityRegisterCallbacks", err);
    if (status == SPT_OK)
        status = check(c, c->enable(CUPTI_KIND_CONCURRENT_KERNEL),
                       "cuptiActivityEnable", err);
    if (status != SPT_OK)
        goto failed;
    active = c;
    *cupti = c;
    return SPT_OK;
failed:
    if (c->library)
        dlclose(c->library);
    pthread_mutex_destroy(&c->lock);
    spt_free(c);
    return status;
}

void spt_cupti_close(spt_cupti *cupti)
{
    if (!cupti)
        return;
    cupti->disable(CUPTI_KIND_CONCURRENT_KERNEL);
    cupti->flush(CUPTI_FLUSH_FORCED);
    active = NULL;
    /* The library stays loaded: its thread may still be running. */
    pthread_mutex_destroy(&cupti->lock);
    spt_free(cupti->records);
    spt_free(cupti);
}

static int by_start(const void *a, const void *b)
{
    uint64_t x = ((const spt_cupti_record *)a)->start_ns;
    uint64_t y = ((const spt_cupti_record *)b)->start_ns;
    return (x > y) - (x < y);
}

spt_status spt_cupti_take(spt_cupti *cupti, spt_cupti_record *records,
                          size_t max, size_t *count, spt_error *err)
{
    SPT_TRY(check(cupti, cupti->flush(CUPTI_FLUSH_FORCED),
                  "cuptiActivityFlushAll", err));
    pthread_mutex_lock(&cupti->lock);
    if (cupti->count)
        qsort(cupti->records, cupti->count, sizeof *cupti->records, by_start);
    for (size_t i = 0; i < cupti->count && i < max; i++)
        records[i] = cupti->records[i];
    *count = cupti->count;
    cupti->count = 0;
    bool lost = cupti->lost;
    cupti->lost = false;
    pthread_mutex_unlock(&cupti->lock);
    if (lost)
        return spt_fail(err, SPT_E_MEMORY, "CUPTI: out of memory");
    return SPT_OK;
}

spt_status spt_cupti_find(const char *library, char *path, size_t size,
                          unsigned *version, spt_error *err)
{
    spt_cupti c = {.library = open_library(library)};
    if (!c.library)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "CUPTI: libcupti.so was not found");
    spt_status status = fill(&c, err);
    if (status == SPT_OK) {
        Dl_info info;
        uint32_t number = 0;
        void *symbol;
        memcpy(&symbol, &c.version, sizeof symbol);
        c.version(&number);
        *version = number;
        snprintf(path, size, "%s",
                 dladdr(symbol, &info) ? info.dli_fname : "libcupti.so");
    }
    dlclose(c.library);
    return status;
}
