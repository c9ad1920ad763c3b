/*
 * Stream capture: calls become nodes. A capturing stream holds the nodes that
 * its next one will need ("tail"). An event recorded in a capture carries that
 * tail; a stream that waits for it joins the capture with it.
 */
#include "sim_driver.h"

#include "mem.h"

static _Thread_local CUstreamCaptureMode thread_mode =
    CU_STREAM_CAPTURE_MODE_GLOBAL;

static CUgraphNodeType type_of(sim_work_kind kind)
{
    switch (kind) {
    case SIM_WORK_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_WORK_FILL:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case SIM_WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_WORK_GRAPH:
        return CU_GRAPH_NODE_TYPE_GRAPH;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

/* All streams of one capture. */
static void end_streams(CUcontext ctx, uint64_t id)
{
    for (CUstream s = ctx->streams; s; s = s->next) {
        if (s->capture == SIM_CAPTURE_NONE || s->capture_id != id)
            continue;
        s->capture = SIM_CAPTURE_NONE;
        s->capture_origin = false;
        s->capture_graph = NULL;
        s->capture_id = 0;
        sim_nodes_free(&s->capture_tail);
    }
}

static CUresult break_capture(CUstream stream, CUresult result)
{
    for (CUstream s = stream->ctx->streams; s; s = s->next)
        if (s->capture == SIM_CAPTURE_ACTIVE &&
            s->capture_id == stream->capture_id)
            s->capture = SIM_CAPTURE_BROKEN;
    return result;
}

CUresult sim_capture_add(CUstream stream, sim_work *work)
{
    if (stream->capture == SIM_CAPTURE_BROKEN) {
        sim_work_free(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (work->kind == SIM_WORK_FREE) {
        sim_work_free(work);
        return break_capture(stream, CUDA_ERROR_NOT_SUPPORTED);
    }
    CUgraphNode node = sim_graph_add(stream->capture_graph, type_of(work->kind),
                                     work, &stream->capture_tail);
    if (!node || !sim_handle_add(node, SIM_HANDLE_NODE))
        return break_capture(stream, CUDA_ERROR_OUT_OF_MEMORY);
    stream->capture_tail.count = 0;
    if (!sim_nodes_add(&stream->capture_tail, node))
        return break_capture(stream, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

static bool still_captured(CUcontext ctx, uint64_t id)
{
    for (CUstream s = ctx->streams; s; s = s->next)
        if (s->capture == SIM_CAPTURE_ACTIVE && s->capture_id == id)
            return true;
    return false;
}

CUresult sim_capture_join(CUstream stream, CUevent event)
{
    if (!still_captured(event->ctx, event->capture_id))
        return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture == SIM_CAPTURE_BROKEN)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture == SIM_CAPTURE_NONE) {
        if (stream == stream->ctx->null_stream || stream->ctx != event->ctx)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        stream->capture = SIM_CAPTURE_ACTIVE;
        stream->capture_origin = false;
        stream->capture_graph = event->capture_graph;
        stream->capture_id = event->capture_id;
        stream->capture_tail.count = 0;
    } else if (stream->capture_id != event->capture_id) {
        return break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    for (size_t i = 0; i < event->capture_tail.count; i++) {
        CUgraphNode node = event->capture_tail.items[i];
        bool there = false;
        for (size_t t = 0; t < stream->capture_tail.count; t++)
            there |= stream->capture_tail.items[t] == node;
        if (!there && !sim_nodes_add(&stream->capture_tail, node))
            return break_capture(stream, CUDA_ERROR_OUT_OF_MEMORY);
    }
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuStreamBeginCapture)(CUstream handle, CUstreamCaptureMode mode)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_stream_of(ctx, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (stream == ctx->null_stream)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE);
    CUgraph graph = sim_graph_new();
    if (!graph || !sim_handle_add(graph, SIM_HANDLE_GRAPH)) {
        spt_free(graph);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    stream->capture = SIM_CAPTURE_ACTIVE;
    stream->capture_origin = true;
    stream->capture_mode = mode;
    stream->capture_id = sim_the.next_id++;
    stream->capture_graph = graph;
    stream->capture_tail.count = 0;
    return sim_leave(CUDA_SUCCESS);
}

/* Every node is, by needs, before the origin's tail. */
static bool all_joined(CUgraph graph, const sim_nodes *tail)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.items[i]->marked = false;
    for (size_t i = 0; i < tail->count; i++)
        tail->items[i]->marked = true;
    /* Needed nodes have smaller indices in a captured graph. */
    for (size_t i = graph->nodes.count; i-- > 0;) {
        CUgraphNode node = graph->nodes.items[i];
        if (!node->marked)
            return false;
        for (size_t n = 0; n < node->needs.count; n++)
            node->needs.items[n]->marked = true;
    }
    return true;
}

CUresult SIM_FN(cuStreamEndCapture)(CUstream handle, CUgraph *graph)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result =
        graph ? sim_stream_of(ctx, handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    *graph = NULL;
    if (stream->capture == SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (!stream->capture_origin)
        return sim_leave(
            break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
    CUgraph made = stream->capture_graph;
    if (stream->capture == SIM_CAPTURE_BROKEN)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(made, &stream->capture_tail))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    end_streams(ctx, stream->capture_id);
    if (result == CUDA_SUCCESS)
        *graph = made;
    else
        sim_graph_delete(made);
    return sim_leave(result);
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    switch (stream->capture) {
    case SIM_CAPTURE_ACTIVE:
        return CU_STREAM_CAPTURE_STATUS_ACTIVE;
    case SIM_CAPTURE_BROKEN:
        return CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    default:
        return CU_STREAM_CAPTURE_STATUS_NONE;
    }
}

CUresult SIM_FN(cuStreamGetCaptureInfo)(CUstream handle,
                                        CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **tail,
                                        const CUgraphEdgeData **edges,
                                        size_t *tail_count)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result =
        status ? sim_stream_of(ctx, handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    *status = status_of(stream);
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id)
            *id = stream->capture_id;
        if (graph)
            *graph = stream->capture_graph;
        if (tail)
            *tail = stream->capture_tail.items;
        if (edges)
            *edges = NULL;
        if (tail_count)
            *tail_count = stream->capture_tail.count;
    }
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuStreamIsCapturing)(CUstream handle,
                                     CUstreamCaptureStatus *status)
{
    return SIM_FN(cuStreamGetCaptureInfo)(handle, status, NULL, NULL, NULL,
                                          NULL, NULL);
}

CUresult SIM_FN(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
