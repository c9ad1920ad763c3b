/*
 * Driver calls about streams and events. Captures are in sim_api_capture.c.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

/* --- streams ------------------------------------------------------------ */

static CUresult create(CUstream *stream, unsigned flags, int priority)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_stream_new(ctx, flags, stream);
    if (result == CUDA_SUCCESS)
        (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    return sim_leave(result);
}

CUresult SIM_FN(cuStreamCreate)(CUstream *stream, unsigned flags)
{
    return create(stream, flags, 0);
}

CUresult SIM_FN(cuStreamCreateWithPriority)(CUstream *stream, unsigned flags,
                                            int priority)
{
    return create(stream, flags, priority);
}

CUresult SIM_FN(cuStreamDestroy)(CUstream stream)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(stream, SIM_HANDLE_STREAM))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream == stream->ctx->null_stream)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    /* One that only joined a capture may go: its nodes are in the graph. */
    if (stream->capture_origin)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    result = sim_drain_stream(stream);
    if (sim_handle_is(stream, SIM_HANDLE_STREAM))
        sim_stream_delete(stream);
    return sim_leave(result);
}

CUresult sim_enter_stream(CUstream handle, bool good, CUstream *stream)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result =
        good ? sim_stream_of(ctx, handle, stream) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

static CUresult enter_stream(CUstream handle, CUstream *stream)
{
    return sim_enter_stream(handle, true, stream);
}

CUresult SIM_FN(cuStreamSynchronize)(CUstream handle)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return sim_leave(sim_drain_stream(stream));
}

/* Each query gets the stream one piece of work further. */
CUresult SIM_FN(cuStreamQuery)(CUstream handle)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUcontext ctx = stream->ctx;
    bool pending = sim_drain_one(stream);
    if (sim_handle_is(ctx, SIM_HANDLE_CONTEXT))
        result = ctx->error;
    return sim_leave(result != CUDA_SUCCESS ? result
                     : pending              ? CUDA_ERROR_NOT_READY
                                            : CUDA_SUCCESS);
}

/* The calls that give one thing of a stream: call, its type, where it is. */
#define STREAM_GETTER(call, type, from)                  \
    CUresult SIM_FN(call)(CUstream handle, type * out)   \
    {                                                    \
        CUstream stream;                                 \
        CUresult result = enter_stream(handle, &stream); \
        if (result != CUDA_SUCCESS)                      \
            return result;                               \
        if (!out)                                        \
            return sim_leave(CUDA_ERROR_INVALID_VALUE);  \
        *out = from;                                     \
        return sim_leave(CUDA_SUCCESS);                  \
    }

/* clang-format off */
STREAM_GETTER(cuStreamGetFlags, unsigned, stream->flags)
STREAM_GETTER(cuStreamGetPriority, int, stream->priority)
STREAM_GETTER(cuStreamGetId, unsigned long long, stream->id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, stream->ctx)
STREAM_GETTER(cuStreamGetDevice, CUdevice, stream->ctx->device)
/* clang-format on */

/* Managed memory is never elsewhere; the call only keeps its place. */
CUresult SIM_FN(cuStreamAttachMemAsync)(CUstream handle, CUdeviceptr address,
                                        size_t size, unsigned flags)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_host_block *block = sim_host_find((void *)(uintptr_t)address);
    bool one = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
               flags == CU_MEM_ATTACH_SINGLE;
    if (!one || !block || !block->managed || (size && size != block->size))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_work work = {.kind = SIM_WORK_EMPTY};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* A callback is a host function with the stream and its status. */
typedef struct callback {
    CUstreamCallback call;
    CUstream stream;
    void *user;
} callback;

static void CUDA_CB run_callback(void *pointer)
{
    const callback *c = pointer;
    c->call(c->stream, CUDA_SUCCESS, c->user);
}

CUresult SIM_FN(cuStreamAddCallback)(CUstream handle, CUstreamCallback call,
                                     void *user, unsigned flags)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!call || flags)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    callback *made = spt_calloc(1, sizeof(*made));
    if (!made)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *made = (callback){call, handle, user};
    sim_work work = {.kind = SIM_WORK_HOST,
                     .host = {run_callback, made, .owned = true}};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* --- attributes --------------------------------------------------------- */

CUresult SIM_FN(cuStreamGetAttribute)(CUstream handle, CUstreamAttrID id,
                                      CUstreamAttrValue *value)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    int hint = sim_hint_of(id);
    if (!value || hint < 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *value = stream->hints[hint];
    if (hint == SIM_HINT_PRIORITY)
        value->priority = stream->priority;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuStreamSetAttribute)(CUstream handle, CUstreamAttrID id,
                                      const CUstreamAttrValue *value)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    int hint = sim_hint_of(id);
    if (!value || hint < 0)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    stream->hints[hint] = *value;
    if (hint == SIM_HINT_PRIORITY)
        stream->priority = value->priority;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuStreamCopyAttributes)(CUstream to_handle,
                                        CUstream from_handle)
{
    CUstream to, from;
    CUresult result = enter_stream(to_handle, &to);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_stream_of(to->ctx, from_handle, &from);
    if (result == CUDA_SUCCESS)
        memcpy(to->hints, from->hints, sizeof(to->hints));
    return sim_leave(result);
}

/* --- events ------------------------------------------------------------- */

CUresult SIM_FN(cuEventCreate)(CUevent *event, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!event || flags > 7)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags & CU_EVENT_INTERPROCESS)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    CUevent made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_EVENT)) {
        spt_free(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    made->ctx = ctx;
    made->flags = flags;
    made->next = ctx->events;
    ctx->events = made;
    *event = made;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuEventDestroy)(CUevent event)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(event, SIM_HANDLE_EVENT))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    CUevent *link = &event->ctx->events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    sim_nodes_free(&event->capture_tail);
    sim_handle_drop(event);
    spt_free(event);
    return sim_leave(CUDA_SUCCESS);
}

static CUresult record(CUevent event, CUstream stream)
{
    if (stream->capture == SIM_CAPTURE_ACTIVE) {
        event->capture_graph = stream->capture_graph;
        event->capture_id = stream->capture_id;
        event->recorded = false;
        return sim_nodes_copy(&event->capture_tail, &stream->capture_tail)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t ticket = sim_the.next_number++, number;
    sim_work work = {
        .kind = SIM_WORK_RECORD,
        .record = {.event = event, .ticket = ticket},
    };
    CUresult result = sim_enqueue(stream, &work, &number);
    if (result != CUDA_SUCCESS)
        return result;
    event->recorded = true;
    event->capture_graph = NULL;
    event->capture_id = 0;
    event->ticket = ticket;
    event->stream = stream->id;
    event->number = number;
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuEventRecord)(CUevent event, CUstream handle)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(event, SIM_HANDLE_EVENT) || event->ctx != stream->ctx)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return sim_leave(record(event, stream));
}

/* An external record in a capture is a node that records at every launch. */
CUresult SIM_FN(cuEventRecordWithFlags)(CUevent event, CUstream handle,
                                        unsigned flags)
{
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!flags)
        return SIM_FN(cuEventRecord)(event, handle);
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(event, SIM_HANDLE_EVENT) || event->ctx != stream->ctx)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (stream->capture == SIM_CAPTURE_NONE)
        return sim_leave(record(event, stream));
    sim_work work = {.kind = SIM_WORK_RECORD, .record = {.event = event}};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* Enters with a valid event that was not last recorded in a capture. */
static CUresult enter_event(CUevent event)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(event, SIM_HANDLE_EVENT))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (event->capture_id)
        return sim_leave(CUDA_ERROR_CAPTURED_EVENT);
    return CUDA_SUCCESS;
}

static bool is_done(const struct CUevent_st *event)
{
    return !event->recorded || event->done_ticket == event->ticket;
}

CUresult SIM_FN(cuEventSynchronize)(CUevent event)
{
    CUresult result = enter_event(event);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream = is_done(event) ? NULL : sim_stream_by_id(event->stream);
    if (stream)
        result = sim_drain(stream, event->number);
    return sim_leave(result);
}

CUresult SIM_FN(cuEventQuery)(CUevent event)
{
    CUresult result = enter_event(event);
    if (result != CUDA_SUCCESS)
        return result;
    if (is_done(event))
        return sim_leave(CUDA_SUCCESS);
    CUstream stream = sim_stream_by_id(event->stream);
    CUcontext ctx = event->ctx;
    if (stream)
        sim_drain_one(stream);
    if (sim_handle_is(ctx, SIM_HANDLE_CONTEXT))
        result = ctx->error;
    return sim_leave(result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY);
}

CUresult SIM_FN(cuEventElapsedTime)(float *ms, CUevent start, CUevent end)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!ms)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUevent events[2] = {start, end};
    for (int i = 0; i < 2; i++)
        if (!sim_handle_is(events[i], SIM_HANDLE_EVENT) ||
            !events[i]->recorded || events[i]->flags & CU_EVENT_DISABLE_TIMING)
            return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!is_done(start) || !is_done(end))
        return sim_leave(CUDA_ERROR_NOT_READY);
    *ms = (float)((end->time_us - start->time_us) * 1e-3);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuStreamWaitEvent)(CUstream handle, CUevent event,
                                   unsigned flags)
{
    CUstream stream;
    CUresult result = enter_stream(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(event, SIM_HANDLE_EVENT))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags && stream->capture != SIM_CAPTURE_NONE) {
        sim_work node = {.kind = SIM_WORK_WAIT, .wait = {.event = event}};
        return sim_leave(sim_enqueue(stream, &node, NULL));
    }
    if (event->capture_id)
        return sim_leave(sim_capture_join(stream, event));
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!event->recorded)
        return sim_leave(CUDA_SUCCESS);
    sim_work work = {
        .kind = SIM_WORK_WAIT,
        .wait = {.stream = event->stream, .number = event->number},
    };
    return sim_leave(sim_enqueue(stream, &work, NULL));
}
