/*
 * Driver calls about contexts.
 */
#include "sim_driver.h"

#include "mem.h"

enum { STACK_DEPTH = 64 };

/* Every thread's stack of current contexts; stale entries are recognised. */
static _Thread_local struct {
    CUcontext items[STACK_DEPTH];
    uint64_t ids[STACK_DEPTH];
    int count;
} current;

CUcontext sim_context_current(void)
{
    if (!current.count)
        return NULL;
    CUcontext ctx = current.items[current.count - 1];
    if (!sim_handle_is(ctx, SIM_HANDLE_CONTEXT) ||
        ctx->id != current.ids[current.count - 1])
        return NULL;
    return ctx;
}

CUresult sim_context_new(int device, unsigned flags, CUcontext *ctx)
{
    CUcontext made = spt_calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->device = device;
    made->flags = flags;
    made->id = sim_the.next_id++;
    made->stack_bytes = 1024;
    made->printf_bytes = 1 << 20;
    made->heap_bytes = 8 << 20;
    if (!sim_handle_add(made, SIM_HANDLE_CONTEXT)) {
        spt_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->next = sim_the.contexts;
    sim_the.contexts = made;
    if (sim_stream_new(made, CU_STREAM_DEFAULT, &made->null_stream) !=
        CUDA_SUCCESS) {
        sim_context_delete(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ctx = made;
    return CUDA_SUCCESS;
}

void sim_context_delete(CUcontext ctx)
{
    while (ctx->streams)
        sim_stream_delete(ctx->streams);
    while (ctx->modules)
        sim_module_delete(ctx->modules);
    while (ctx->events) {
        CUevent event = ctx->events;
        ctx->events = event->next;
        sim_nodes_free(&event->capture_tail);
        sim_handle_drop(event);
        spt_free(event);
    }
    CUcontext *link = &sim_the.contexts;
    while (*link != ctx)
        link = &(*link)->next;
    *link = ctx->next;
    if (sim_device_of(ctx)->primary == ctx)
        sim_device_of(ctx)->primary = NULL;
    sim_handle_drop(ctx);
    spt_free(ctx);
}

/* --- primary contexts --------------------------------------------------- */

CUresult SIM_FN(cuDevicePrimaryCtxRetain)(CUcontext *ctx, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!ctx)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_device *dev = &sim_the.devices[device];
    if (!dev->primary) {
        result = sim_context_new(device, dev->primary_flags, &dev->primary);
        if (result != CUDA_SUCCESS)
            return sim_leave(result);
        dev->primary->primary = true;
        dev->retained = 0;
    }
    dev->retained++;
    *ctx = dev->primary;
    return sim_leave(CUDA_SUCCESS);
}

/* Runs what is pending, then deletes; a sticky error does not hinder it. */
static void end_context(CUcontext ctx)
{
    if (sim_drain_context(ctx) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        sim_context_delete(ctx);
}

CUresult SIM_FN(cuDevicePrimaryCtxRelease)(CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_device *dev = &sim_the.devices[device];
    if (!dev->primary)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--dev->retained == 0)
        end_context(dev->primary);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDevicePrimaryCtxReset)(CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_device *dev = &sim_the.devices[device];
    if (dev->primary)
        end_context(dev->primary);
    dev->retained = 0;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned *flags,
                                            int *active)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags || !active)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = sim_the.devices[device].primary_flags;
    *active = sim_the.devices[device].primary != NULL;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDevicePrimaryCtxSetFlags)(CUdevice device, unsigned flags)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_the.devices[device].primary_flags = flags;
    if (sim_the.devices[device].primary)
        sim_the.devices[device].primary->flags = flags;
    return sim_leave(CUDA_SUCCESS);
}

/* --- contexts ----------------------------------------------------------- */

static CUresult push(CUcontext ctx)
{
    if (current.count == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    current.items[current.count] = ctx;
    current.ids[current.count++] = ctx->id;
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuCtxCreate)(CUcontext *ctx, CUctxCreateParams *params,
                             unsigned flags, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!ctx)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (params && (params->numExecAffinityParams || params->cigParams))
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    result = sim_context_new(device, flags, ctx);
    if (result == CUDA_SUCCESS)
        result = push(*ctx);
    return sim_leave(result);
}

CUresult SIM_FN(cuCtxDestroy)(CUcontext ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(ctx, SIM_HANDLE_CONTEXT) || ctx->primary)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (sim_context_current() == ctx)
        current.count--;
    end_context(ctx);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxSetCurrent)(CUcontext ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (ctx && !sim_handle_is(ctx, SIM_HANDLE_CONTEXT))
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (current.count)
        current.count--;
    return sim_leave(ctx ? push(ctx) : CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxGetCurrent)(CUcontext *ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!ctx)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *ctx = sim_context_current();
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxPushCurrent)(CUcontext ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(ctx, SIM_HANDLE_CONTEXT))
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    return sim_leave(push(ctx));
}

CUresult SIM_FN(cuCtxPopCurrent)(CUcontext *ctx)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!current.count)
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (ctx)
        *ctx = sim_context_current();
    current.count--;
    return sim_leave(CUDA_SUCCESS);
}

/* The calls that give one thing of the current context: call, its type, where
   it is. */
#define CURRENT_GETTER(call, type, from)                \
    CUresult SIM_FN(call)(type * out)                   \
    {                                                   \
        CUcontext ctx;                                  \
        CUresult result = sim_enter(&ctx);              \
        if (result != CUDA_SUCCESS)                     \
            return result;                              \
        if (!out)                                       \
            return sim_leave(CUDA_ERROR_INVALID_VALUE); \
        *out = from;                                    \
        return sim_leave(CUDA_SUCCESS);                 \
    }

/* And of any, NULL being the current one. */
#define CONTEXT_GETTER(call, type, from)                  \
    CUresult SIM_FN(call)(CUcontext ctx, type * out)      \
    {                                                     \
        CUresult result = sim_enter_any();                \
        if (result != CUDA_SUCCESS)                       \
            return result;                                \
        if (!ctx)                                         \
            ctx = sim_context_current();                  \
        if (!sim_handle_is(ctx, SIM_HANDLE_CONTEXT))      \
            return sim_leave(CUDA_ERROR_INVALID_CONTEXT); \
        if (!out)                                         \
            return sim_leave(CUDA_ERROR_INVALID_VALUE);   \
        *out = from;                                      \
        return sim_leave(CUDA_SUCCESS);                   \
    }

/* clang-format off */
CURRENT_GETTER(cuCtxGetDevice, CUdevice, ctx->device)
CURRENT_GETTER(cuCtxGetFlags, unsigned, ctx->flags)
CURRENT_GETTER(cuCtxGetCacheConfig, CUfunc_cache, ctx->cache)
CONTEXT_GETTER(cuCtxGetApiVersion, unsigned, 3020)
CONTEXT_GETTER(cuCtxGetId, unsigned long long, ctx->id)
/* clang-format on */

CUresult SIM_FN(cuCtxSynchronize)(void)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    for (CUstream s = ctx->streams; s; s = s->next)
        if (s->capture == SIM_CAPTURE_ACTIVE)
            return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return sim_leave(sim_drain_context(ctx));
}

static size_t *limit_of(CUcontext ctx, CUlimit limit)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        return &ctx->stack_bytes;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        return &ctx->printf_bytes;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return &ctx->heap_bytes;
    default:
        return NULL;
    }
}

CUresult SIM_FN(cuCtxGetLimit)(size_t *value, CUlimit limit)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    size_t *place = limit_of(ctx, limit);
    if (!value || !place)
        return sim_leave(!value ? CUDA_ERROR_INVALID_VALUE
                                : CUDA_ERROR_UNSUPPORTED_LIMIT);
    *value = *place;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxSetLimit)(CUlimit limit, size_t value)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    size_t *place = limit_of(ctx, limit);
    if (!place)
        return sim_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
    *place = value;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxGetStreamPriorityRange)(int *least, int *greatest)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxSetCacheConfig)(CUfunc_cache config)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if ((int)config < CU_FUNC_CACHE_PREFER_NONE ||
        config > CU_FUNC_CACHE_PREFER_EQUAL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    ctx->cache = config;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuCtxSetFlags)(unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    ctx->flags = flags;
    return sim_leave(CUDA_SUCCESS);
}

/* cuDeviceCanAccessPeer never says that it would work. */
CUresult SIM_FN(cuCtxEnablePeerAccess)(CUcontext peer, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(peer, SIM_HANDLE_CONTEXT))
        return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
    return sim_leave(flags ? CUDA_ERROR_INVALID_VALUE
                           : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

CUresult SIM_FN(cuCtxDisablePeerAccess)(CUcontext peer)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(sim_handle_is(peer, SIM_HANDLE_CONTEXT)
                         ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                         : CUDA_ERROR_INVALID_CONTEXT);
}

/* No line of sim's L2 is ever set aside. */
CUresult SIM_FN(cuCtxResetPersistingL2Cache)(void)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    return result == CUDA_SUCCESS ? sim_leave(result) : result;
}
