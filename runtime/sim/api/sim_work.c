/*
 * The pieces of work that streams and graphs hold, and how each runs.
 *
 * Modelled times: kernels by sim_time_us; copies within the device read and
 * write DRAM; copies to and from the host at 25e9 bytes/s (PCIe 4.0 x16 in
 * practice) after 5 us; fills write DRAM.
 */
#include "sim_driver.h"

#include <string.h>

#include "kernel_counts.h"
#include "mem.h"

#define HOST_LINK_GBPS 25.0
#define HOST_COPY_US 5.0

/* More than CUDA's headers of today use of it (8 bytes). */
enum { WORKSPACE_BYTES = 64 };

void sim_work_free(sim_work *work)
{
    switch (work->kind) {
    case SIM_WORK_COPY:
        spt_free(work->copy.staged);
        break;
    case SIM_WORK_KERNEL:
        spt_free(work->kernel.params);
        break;
    case SIM_WORK_HOST:
        if (work->host.owned)
            spt_free(work->host.user);
        break;
    case SIM_WORK_GRAPH:
        sim_exec_release(work->graph.exec);
        break;
    case SIM_WORK_ALLOC:
        sim_graph_block_release(work->block);
        break;
    default:
        break;
    }
    work->kind = SIM_WORK_EMPTY;
}

static uint64_t staged_bytes(const sim_copy *copy)
{
    return copy->width * copy->rows * copy->slices;
}

static uint8_t *duplicate(const void *from, uint64_t size)
{
    uint8_t *to = spt_calloc(size ? size : 1, 1);
    if (to && size)
        memcpy(to, from, size);
    return to;
}

CUresult sim_work_clone(sim_work *to, const sim_work *from)
{
    *to = *from;
    if (from->kind == SIM_WORK_KERNEL) {
        to->kernel.params =
            duplicate(from->kernel.params, from->kernel.param_bytes);
        if (!to->kernel.params)
            to->kind = SIM_WORK_EMPTY;
    } else if (from->kind == SIM_WORK_COPY && from->copy.staged) {
        to->copy.staged =
            duplicate(from->copy.staged, staged_bytes(&from->copy));
        if (!to->copy.staged)
            to->kind = SIM_WORK_EMPTY;
        else
            to->copy.from.address = (uint64_t)(uintptr_t)to->copy.staged;
    } else if (from->kind == SIM_WORK_GRAPH) {
        /* A copy of its own: the child may still be changed. */
        if (sim_exec_new(from->graph.exec->graph, &to->graph.exec) !=
            CUDA_SUCCESS)
            to->kind = SIM_WORK_EMPTY;
    } else if (from->kind == SIM_WORK_ALLOC) {
        from->block->references++;
    }
    return to->kind == from->kind ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- copies and fills --------------------------------------------------- */

static bool inside_allocation(uint64_t address, uint64_t size)
{
    sim_range range;
    return sim_memory_find(sim_the.memory, address, &range, NULL) &&
           !range.freed && address - range.va <= range.size &&
           size <= range.size - (address - range.va);
}

/* Bytes from the first to the last byte that a side touches. */
static uint64_t side_extent(const sim_copy *copy, const sim_side *side)
{
    return (copy->slices - 1) * side->pitch * side->height +
           (copy->rows - 1) * side->pitch + copy->width;
}

static CUresult side_check(const sim_copy *copy, const sim_side *side,
                           const char *name)
{
    if (copy->rows > 1 && side->pitch < copy->width)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t extent = side_extent(copy, side);
    if (!side->device)
        return side->address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (inside_allocation(side->address, extent))
        return CUDA_SUCCESS;
    return sim_because(CUDA_ERROR_INVALID_VALUE,
                       "copy: %s 0x%llx + %llu bytes is not inside one "
                       "allocation",
                       name, (unsigned long long)side->address,
                       (unsigned long long)extent);
}

static bool copy_is_empty(const sim_copy *copy)
{
    return !copy->width || !copy->rows || !copy->slices;
}

CUresult sim_copy_check(const sim_copy *copy)
{
    if (copy_is_empty(copy))
        return CUDA_SUCCESS;
    CUresult result = side_check(copy, &copy->to, "destination");
    return result == CUDA_SUCCESS ? side_check(copy, &copy->from, "source")
                                  : result;
}

CUresult sim_fill_check(const sim_fill *fill)
{
    if (!fill->width || !fill->rows)
        return CUDA_SUCCESS;
    if (fill->to % fill->bytes ||
        (fill->rows > 1 && (fill->pitch < fill->width * fill->bytes ||
                            fill->pitch % fill->bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t extent =
        (fill->rows - 1) * fill->pitch + fill->width * fill->bytes;
    if (inside_allocation(fill->to, extent))
        return CUDA_SUCCESS;
    return sim_because(CUDA_ERROR_INVALID_VALUE,
                       "memset: 0x%llx + %llu bytes is not inside one "
                       "allocation",
                       (unsigned long long)fill->to,
                       (unsigned long long)extent);
}

static spt_status copy_row(const sim_copy *copy, uint64_t to, uint64_t from)
{
    void *host_to = (void *)(uintptr_t)to;
    const void *host_from = (const void *)(uintptr_t)from;
    if (copy->to.device && copy->from.device)
        return sim_memory_copy(sim_the.memory, to, from, copy->width);
    if (copy->to.device)
        return sim_memory_write(sim_the.memory, to, host_from, copy->width);
    if (copy->from.device)
        return sim_memory_read(sim_the.memory, host_to, from, copy->width);
    memmove(host_to, host_from, copy->width);
    return SPT_OK;
}

static CUresult copy_run(const sim_copy *copy)
{
    if (copy_is_empty(copy))
        return CUDA_SUCCESS;
    for (uint64_t slice = 0; slice < copy->slices; slice++)
        for (uint64_t row = 0; row < copy->rows; row++) {
            uint64_t to = copy->to.address +
                          (slice * copy->to.height + row) * copy->to.pitch;
            uint64_t from =
                copy->from.address +
                (slice * copy->from.height + row) * copy->from.pitch;
            if (copy_row(copy, to, from) != SPT_OK)
                return sim_because(CUDA_ERROR_ILLEGAL_ADDRESS,
                                   "copy: memory freed before the copy ran");
        }
    return CUDA_SUCCESS;
}

static double copy_us(const sim_copy *copy, const spt_board *board)
{
    double bytes = (double)staged_bytes(copy);
    if (!copy->to.device || !copy->from.device)
        return HOST_COPY_US + bytes / (HOST_LINK_GBPS * 1e3);
    return board->launch_us +
           (board->dram_gbps > 0 ? 2 * bytes / (board->dram_gbps * 1e3) : 0);
}

static CUresult fill_run(const sim_fill *fill)
{
    for (uint64_t row = 0; fill->width && row < fill->rows; row++)
        if (sim_memory_fill(sim_the.memory, fill->to + row * fill->pitch,
                            &fill->value, fill->bytes, fill->width) != SPT_OK)
            return sim_because(CUDA_ERROR_ILLEGAL_ADDRESS,
                               "memset: memory freed before it ran");
    return CUDA_SUCCESS;
}

static double fill_us(const sim_fill *fill, const spt_board *board)
{
    double bytes = (double)(fill->width * fill->bytes * fill->rows);
    return board->launch_us +
           (board->dram_gbps > 0 ? bytes / (board->dram_gbps * 1e3) : 0);
}

/* --- kernels ------------------------------------------------------------ */

static sim_l2 *device_l2(sim_device *device)
{
    if (!device->l2)
        device->l2 = sim_l2_new(device->board.l2_bytes);
    return device->l2;
}

static void launch_args_fill(sim_launch_args *args, const sim_kernel *kernel,
                             sim_device *device)
{
    CUfunction func = kernel->func;
    CUcontext ctx = func->module->ctx;
    *args = (sim_launch_args){
        .program = func->module->program,
        .func = func->index,
        .board = &device->board,
        .memory = sim_the.memory,
        .device = ctx->device,
        .dynamic_shared = kernel->shared_bytes,
        .params = kernel->params,
        .cooperative = kernel->cooperative,
        .checks = !sim_the.options.checks_off,
        .counters = !sim_the.options.counters_off,
        .threads = sim_the.options.threads,
        .max_instructions = sim_the.options.max_instructions,
        .stack_bytes = ctx->stack_bytes,
        .grid_id = ++sim_the.grid_id,
        .l2 = device->l2,
    };
    memcpy(args->grid, kernel->grid, sizeof(args->grid));
    memcpy(args->block, kernel->block, sizeof(args->block));
    memcpy(args->cluster, kernel->cluster, sizeof(args->cluster));
}

/* Memory that all CTAs of a cooperative launch synchronise through. */
static CUresult workspace_new(sim_launch_args *args)
{
    static const uint64_t zero;
    if (!args->cooperative)
        return CUDA_SUCCESS;
    spt_status status = sim_memory_alloc(sim_the.memory, args->device,
                                         WORKSPACE_BYTES, &args->workspace);
    if (status == SPT_OK)
        status = sim_memory_fill(sim_the.memory, args->workspace, &zero,
                                 sizeof(zero), WORKSPACE_BYTES / sizeof(zero));
    return sim_result_of(status);
}

static uint64_t volume(const uint32_t size[3])
{
    return (uint64_t)size[0] * size[1] * size[2];
}

static CUresult kernel_run(const sim_kernel *kernel, bool graph,
                           double start_us, double *end_us)
{
    CUfunction func = kernel->func;
    if (!sim_handle_is(func, SIM_HANDLE_FUNCTION))
        return sim_because(CUDA_ERROR_INVALID_HANDLE,
                           "graph: a kernel's module was unloaded");
    sim_device *device = sim_device_of(func->module->ctx);
    if (!sim_the.options.counters_off && !device_l2(device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_launch_args args;
    launch_args_fill(&args, kernel, device);
    CUresult made = workspace_new(&args);
    if (made != CUDA_SUCCESS)
        return made;

    spt_sim_counters tally = {0};
    spt_error err = {0};
    pthread_mutex_unlock(&sim_the.lock);
    int result = sim_launch_run(&args, &tally, &err);
    sim_report_end_launch();
    pthread_mutex_lock(&sim_the.lock);
    if (args.workspace)
        sim_memory_release(sim_the.memory, args.workspace);

    uint64_t threads = volume(kernel->block);
    tally.launches = 1;
    sim_geometry geometry = {
        .ctas = volume(kernel->grid),
        .threads = (int)threads,
        .registers = func->registers,
        .shared_bytes = func->shared_bytes + (int)kernel->shared_bytes,
        .graph = graph,
    };
    double time_us = sim_time_us(&tally, &device->board, &geometry);
    tally.modelled_time_ns = (uint64_t)(time_us * 1e3 + 0.5);
    sim_counters_add(&sim_the.counters, &tally);
    sim_kernel_counts_add(func->module->ptx->funcs[func->index].name, &tally);
    if (device->busy_until_us > start_us)
        start_us = device->busy_until_us;
    *end_us = device->busy_until_us = start_us + time_us;
    return result ? sim_reason((CUresult)result, &err) : CUDA_SUCCESS;
}

/* --- everything --------------------------------------------------------- */

static void host_run(CUhostFn call, void *user)
{
    pthread_mutex_unlock(&sim_the.lock);
    call(user);
    pthread_mutex_lock(&sim_the.lock);
}

static void record_run(CUevent event, uint64_t ticket, double time_us)
{
    if (!sim_handle_is(event, SIM_HANDLE_EVENT) || event->ticket < ticket)
        return;
    event->done_ticket = ticket;
    event->time_us = time_us;
}

/* A graph waits for what an event stood for when the graph was launched. */
static void wait_run(CUevent event, uint64_t ticket, double *end_us)
{
    if (!sim_handle_is(event, SIM_HANDLE_EVENT) || !event->recorded)
        return;
    double ended = sim_drain_event(event, ticket);
    if (ended > *end_us)
        *end_us = ended;
}

CUresult sim_work_run(CUcontext ctx, sim_work *work, uint64_t graph_ticket,
                      double start_us, double *end_us)
{
    const spt_board *board = &sim_device_of(ctx)->board;
    *end_us = start_us;
    switch (work->kind) {
    case SIM_WORK_COPY:
        *end_us = start_us + copy_us(&work->copy, board);
        return copy_run(&work->copy);
    case SIM_WORK_FILL:
        *end_us = start_us + fill_us(&work->fill, board);
        return fill_run(&work->fill);
    case SIM_WORK_KERNEL:
        return kernel_run(&work->kernel, graph_ticket != 0, start_us, end_us);
    case SIM_WORK_HOST:
        host_run(work->host.call, work->host.user);
        return CUDA_SUCCESS;
    case SIM_WORK_RECORD:
        record_run(work->record.event,
                   work->record.ticket ? work->record.ticket : graph_ticket,
                   start_us);
        return CUDA_SUCCESS;
    case SIM_WORK_WAIT:
        if (graph_ticket)
            wait_run(work->wait.event, graph_ticket, end_us);
        return CUDA_SUCCESS;
    case SIM_WORK_GRAPH:
        return sim_exec_run(ctx, work->graph.exec,
                            graph_ticket ? graph_ticket : work->graph.ticket,
                            start_us, end_us);
    case SIM_WORK_ALLOC:
        sim_graph_block_set(work->block, true);
        return CUDA_SUCCESS;
    case SIM_WORK_FREE:
        sim_pool_release(work->address);
        return CUDA_SUCCESS;
    case SIM_WORK_EMPTY:
        break;
    }
    return CUDA_SUCCESS;
}
