/*
 * The simulated machine: opening, closing, its handles, its lock, and what
 * sim.h gives beyond the driver API.
 */
#include "sim_driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel_counts.h"
#include "mem.h"

sim_machine sim_the = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .idle = PTHREAD_COND_INITIALIZER,
    .closing = PTHREAD_COND_INITIALIZER,
};

void (*sim_open_hook)(void);
void *(*sim_find_hook)(const char *name);

static _Thread_local spt_error last_error;

/* The symbol by which a program that opened a libcuda knows sim. */
extern const int spt_sim_is_sim;
__attribute__((visibility("default"))) const int spt_sim_is_sim = 1;

/* --- errors ------------------------------------------------------------- */

CUresult sim_reason(CUresult result, const spt_error *err)
{
    last_error = *err;
    return result;
}

CUresult sim_because(CUresult result, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(last_error.text, sizeof(last_error.text), fmt, args);
    va_end(args);
    last_error.status = SPT_E_DEVICE;
    return result;
}

CUresult sim_lacks(const char *call, const char *what)
{
    if (sim_the.options.trace)
        fprintf(stderr, "sim: %s: not supported: %s\n", call, what);
    return sim_because(CUDA_ERROR_NOT_SUPPORTED, "%s: not supported: %s", call,
                       what);
}

CUresult sim_result_of(spt_status status)
{
    switch (status) {
    case SPT_OK:
        return CUDA_SUCCESS;
    case SPT_E_MEMORY:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case SPT_E_UNSUPPORTED:
        return CUDA_ERROR_NOT_SUPPORTED;
    case SPT_E_NOT_FOUND:
        return CUDA_ERROR_NOT_FOUND;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

const char *spt_sim_last_error(void)
{
    return last_error.text;
}

/* --- lock --------------------------------------------------------------- */

CUresult sim_enter_any(void)
{
    pthread_mutex_lock(&sim_the.lock);
    sim_the.calls++;
    if (sim_the.open && sim_the.initialised)
        return CUDA_SUCCESS;
    return sim_leave(CUDA_ERROR_NOT_INITIALIZED);
}

CUresult sim_enter(CUcontext *ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    *ctx = sim_context_current();
    if (!*ctx)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if ((*ctx)->error != CUDA_SUCCESS)
        return sim_leave((*ctx)->error);
    return CUDA_SUCCESS;
}

CUresult sim_leave(CUresult result)
{
    pthread_mutex_unlock(&sim_the.lock);
    return result;
}

/* --- handles: an open-addressing table of live pointers ----------------- */

static size_t handle_place(const void *handle)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20) & (sim_the.handles.capacity - 1);
}

static void handle_put(const void *handle, sim_handle_kind kind)
{
    size_t i = handle_place(handle);
    while (sim_the.handles.slots[i].handle)
        i = (i + 1) & (sim_the.handles.capacity - 1);
    sim_the.handles.slots[i].handle = handle;
    sim_the.handles.slots[i].kind = kind;
    sim_the.handles.used++;
}

static bool handle_grow(void)
{
    struct sim_handle_table old = sim_the.handles;
    size_t capacity = 64;
    while (capacity < 4 * (old.live + 1))
        capacity *= 2;
    struct sim_handle_table fresh = {.capacity = capacity, .live = old.live};
    fresh.slots = spt_calloc(capacity, sizeof(*fresh.slots));
    if (!fresh.slots)
        return false;
    sim_the.handles = fresh;
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].handle && old.slots[i].kind != SIM_HANDLE_NONE)
            handle_put(old.slots[i].handle, old.slots[i].kind);
    spt_free(old.slots);
    return true;
}

bool sim_handle_add(const void *handle, sim_handle_kind kind)
{
    /* Dropped handles keep their slot until the next growth. */
    if (2 * (sim_the.handles.used + 1) > sim_the.handles.capacity &&
        !handle_grow())
        return false;
    handle_put(handle, kind);
    sim_the.handles.live++;
    return true;
}

static size_t handle_find(const void *handle)
{
    if (!handle || !sim_the.handles.capacity)
        return SIZE_MAX;
    size_t i = handle_place(handle);
    for (; sim_the.handles.slots[i].handle;
         i = (i + 1) & (sim_the.handles.capacity - 1))
        if (sim_the.handles.slots[i].handle == handle &&
            sim_the.handles.slots[i].kind != SIM_HANDLE_NONE)
            return i;
    return SIZE_MAX;
}

bool sim_handle_is(const void *handle, sim_handle_kind kind)
{
    size_t i = handle_find(handle);
    return i != SIZE_MAX && sim_the.handles.slots[i].kind == kind;
}

void sim_handle_drop(const void *handle)
{
    size_t i = handle_find(handle);
    if (i == SIZE_MAX)
        return;
    sim_the.handles.slots[i].kind = SIM_HANDLE_NONE;
    sim_the.handles.live--;
}

/* --- node lists --------------------------------------------------------- */

bool sim_nodes_add(sim_nodes *nodes, CUgraphNode node)
{
    if (!spt_grow(&nodes->items, &nodes->capacity, nodes->count + 1,
                  sizeof *nodes->items))
        return false;
    nodes->items[nodes->count++] = node;
    return true;
}

bool sim_nodes_copy(sim_nodes *to, const sim_nodes *from)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        if (!sim_nodes_add(to, from->items[i]))
            return false;
    return true;
}

void sim_nodes_free(sim_nodes *nodes)
{
    spt_free(nodes->items);
    *nodes = (sim_nodes){0};
}

/* --- machine ------------------------------------------------------------ */

/* Graphs belong to no context: what a program never destroyed. */
static void graphs_free(void)
{
    for (size_t i = 0; i < sim_the.handles.capacity; i++)
        if (sim_the.handles.slots[i].kind == SIM_HANDLE_EXEC) {
            CUgraphExec exec = (CUgraphExec)sim_the.handles.slots[i].handle;
            exec->references = 1;
            sim_exec_release(exec);
        }
    for (size_t i = 0; i < sim_the.handles.capacity; i++)
        if (sim_the.handles.slots[i].kind == SIM_HANDLE_GRAPH)
            sim_graph_delete((CUgraph)sim_the.handles.slots[i].handle);
}

static void machine_free(void)
{
    while (sim_the.contexts)
        sim_context_delete(sim_the.contexts);
    graphs_free();
    sim_libraries_delete();
    sim_links_delete();
    sim_host_blocks_delete();
    sim_pools_delete();
    for (int i = 0; i < sim_the.n_devices; i++)
        sim_l2_free(sim_the.devices[i].l2);
    spt_free(sim_the.devices);
    sim_memory_delete(sim_the.memory);
    spt_free(sim_the.handles.slots);
    sim_the.handles = (struct sim_handle_table){0};
    sim_the.devices = NULL;
    sim_the.memory = NULL;
    sim_the.n_devices = 0;
    sim_the.open = false;
    sim_kernel_counts_clear();
    sim_report_clear();
    memset(&sim_the.counters, 0, sizeof(sim_the.counters));
}

static spt_status machine_make(const spt_board *boards, int n_boards,
                               const spt_sim_options *options, spt_error *err)
{
    uint64_t *capacity = spt_calloc((size_t)n_boards, sizeof(*capacity));
    sim_the.devices = spt_calloc((size_t)n_boards, sizeof(sim_device));
    sim_the.options = options ? *options : (spt_sim_options){0};
    if (!capacity || !sim_the.devices) {
        spt_free(capacity);
        return spt_fail(err, SPT_E_MEMORY, "sim: out of memory");
    }
    sim_the.n_devices = n_boards;
    for (int i = 0; i < n_boards; i++) {
        sim_the.devices[i].board = boards[i];
        capacity[i] = (uint64_t)boards[i].memory_bytes;
    }
    sim_the.memory =
        sim_memory_new(capacity, n_boards, !sim_the.options.checks_off);
    spt_free(capacity);
    if (!sim_the.memory)
        return spt_fail(err, SPT_E_MEMORY,
                        "sim: no address space for device memory");
    if (!sim_the.next_number)
        sim_the.next_number = sim_the.next_id = 1;
    sim_the.open = true;
    return SPT_OK;
}

static void fill_table(spt_driver *driver)
{
    memset(driver, 0, sizeof(*driver));
#define SPT_DRIVER_CALL(name) driver->name = SIM_FN(name);
#include "driver.def"
#undef SPT_DRIVER_CALL
    driver->is_sim = true;
}

/* Whether the machine that runs is the one that these ask for. */
static bool same_machine(const spt_board *boards, int n_boards,
                         const spt_sim_options *options)
{
    const spt_sim_options wanted = options ? *options : (spt_sim_options){0};
    const spt_sim_options *o = &sim_the.options;
    bool same = n_boards == sim_the.n_devices &&
                wanted.checks_off == o->checks_off &&
                wanted.counters_off == o->counters_off &&
                wanted.idle_ms == o->idle_ms && wanted.trace == o->trace &&
                wanted.threads == o->threads &&
                wanted.max_instructions == o->max_instructions;
    for (int i = 0; same && i < n_boards; i++)
        same =
            memcmp(&sim_the.devices[i].board, &boards[i], sizeof *boards) == 0;
    return same;
}

static spt_status check_boards(const spt_board *boards, int n_boards,
                               spt_error *err)
{
    if (!boards || n_boards < 1 || n_boards > 16)
        return spt_fail(err, SPT_E_USAGE, "sim: %d boards, expected 1 to 16",
                        n_boards);
    for (int i = 0; i < n_boards; i++)
        if (boards[i].sm_count < 1 || boards[i].memory_bytes < 1 ||
            boards[i].max_threads_per_cta < 1)
            return spt_fail(err, SPT_E_USAGE,
                            "sim: board %d (%s) has no SMs or no memory", i,
                            boards[i].name);
    return SPT_OK;
}

/* Called with the lock held, while nothing runs. */
static spt_status open_or_share(const spt_board *boards, int n_boards,
                                const spt_sim_options *options, spt_error *err)
{
    if (sim_the.contexts) {
        if (!same_machine(boards, n_boards, options))
            return spt_fail(err, SPT_E_USAGE,
                            "sim: in use with another board or other options, "
                            "expected the same");
        sim_the.users++;
        return SPT_OK;
    }
    machine_free();
    spt_status status = machine_make(boards, n_boards, options, err);
    if (status == SPT_OK)
        sim_the.users = 1;
    else
        machine_free();
    return status;
}

spt_status spt_sim_open(const spt_board *boards, int n_boards,
                        const spt_sim_options *options, spt_driver *driver,
                        spt_error *err)
{
    SPT_TRY(check_boards(boards, n_boards, err));
    pthread_mutex_lock(&sim_the.lock);
    sim_idle_stop();
    while (sim_the.busy)
        pthread_cond_wait(&sim_the.idle, &sim_the.lock);
    spt_status status = open_or_share(boards, n_boards, options, err);
    pthread_mutex_unlock(&sim_the.lock);
    if (status == SPT_OK)
        fill_table(driver);
    return status;
}

void spt_sim_close(void)
{
    pthread_mutex_lock(&sim_the.lock);
    sim_idle_stop();
    while (sim_the.busy)
        pthread_cond_wait(&sim_the.idle, &sim_the.lock);
    if (sim_the.users < 2) {
        machine_free();
        sim_the.initialised = false;
    }
    if (sim_the.users)
        sim_the.users--;
    pthread_mutex_unlock(&sim_the.lock);
}

void spt_sim_counters_get(spt_sim_counters *counters)
{
    pthread_mutex_lock(&sim_the.lock);
    *counters = sim_the.counters;
    pthread_mutex_unlock(&sim_the.lock);
}

void spt_sim_clear(void)
{
    pthread_mutex_lock(&sim_the.lock);
    memset(&sim_the.counters, 0, sizeof(sim_the.counters));
    pthread_mutex_unlock(&sim_the.lock);
    sim_kernel_counts_clear();
    sim_report_clear();
}

/* --- calls that need no machine ----------------------------------------- */

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
#define SIM_RESULT(name, text) {name, #name, text},
#include "sim_results.def"
#undef SIM_RESULT
};

static int result_index(CUresult result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result)
            return (int)i;
    return -1;
}

CUresult SIM_FN(cuGetErrorName)(CUresult error, const char **text)
{
    int i = result_index(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = i < 0 ? NULL : results[i].name;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult SIM_FN(cuGetErrorString)(CUresult error, const char **text)
{
    int i = result_index(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = i < 0 ? NULL : results[i].text;
    return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult SIM_FN(cuInit)(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_open_hook)
        sim_open_hook();
    pthread_mutex_lock(&sim_the.lock);
    if (!sim_the.open)
        return sim_leave(CUDA_ERROR_NO_DEVICE);
    sim_the.initialised = true;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDriverGetVersion)(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
