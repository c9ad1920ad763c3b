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
    case SIM_WORK_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_WORK_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_WORK_ALLOC:
        return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case SIM_WORK_FREE:
        return CU_GRAPH_NODE_TYPE_MEM_FREE;
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
        s->capture_given = false;
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
    /* A graph may only free what a graph allocated. */
    if (work->kind == SIM_WORK_FREE && !sim_graph_block_at(work->address))
        return break_capture(stream, CUDA_ERROR_INVALID_VALUE);
    CUgraphNode node;
    CUresult result =
        sim_node_add(&node, stream->capture_graph, stream->capture_tail.items,
                     stream->capture_tail.count, type_of(work->kind), work);
    if (result != CUDA_SUCCESS)
        return break_capture(stream, result);
    stream->capture_tail.count = 0;
    if (!sim_nodes_add(&stream->capture_tail, node))
        return break_capture(stream, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

CUresult sim_capture_alloc(CUstream stream, size_t size, CUdeviceptr *address)
{
    sim_work work = {.kind = SIM_WORK_ALLOC};
    CUresult result =
        sim_graph_block_new(stream->ctx->device, size, &work.block);
    if (result != CUDA_SUCCESS)
        return break_capture(stream, result);
    uint64_t made = work.block->address;
    result = sim_capture_add(stream, &work);
    if (result == CUDA_SUCCESS)
        *address = made;
    return result;
}

static bool still_captured(CUcontext ctx, uint64_t id)
{
    for (CUstream s = ctx->streams; s; s = s->next)
        if (s->capture == SIM_CAPTURE_ACTIVE && s->capture_id == id)
            return true;
    return false;
}

/* The next node will need these too. */
static CUresult add_tail(CUstream stream, const sim_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        CUgraphNode node = nodes->items[i];
        bool there = false;
        for (size_t t = 0; t < stream->capture_tail.count; t++)
            there |= stream->capture_tail.items[t] == node;
        if (!there && !sim_nodes_add(&stream->capture_tail, node))
            return break_capture(stream, CUDA_ERROR_OUT_OF_MEMORY);
    }
    return CUDA_SUCCESS;
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
    return add_tail(stream, &event->capture_tail);
}

/* Enters for a stream that may begin to capture. */
static CUresult enter_begin(CUstream handle, CUstream *stream)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_stream_of(ctx, handle, stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (*stream == ctx->null_stream)
        return sim_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if ((*stream)->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE);
    return CUDA_SUCCESS;
}

static void begin(CUstream stream, CUgraph graph, CUstreamCaptureMode mode)
{
    stream->capture = SIM_CAPTURE_ACTIVE;
    stream->capture_origin = true;
    stream->capture_mode = mode;
    stream->capture_id = sim_the.next_id++;
    stream->capture_graph = graph;
    stream->capture_first = graph->nodes.count;
    stream->capture_tail.count = 0;
}

CUresult SIM_FN(cuStreamBeginCapture)(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream;
    CUresult result = enter_begin(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraph graph = sim_graph_new();
    if (!graph || !sim_handle_add(graph, SIM_HANDLE_GRAPH)) {
        spt_free(graph);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    begin(stream, graph, mode);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuStreamBeginCaptureToGraph)(CUstream handle, CUgraph graph,
                                             const CUgraphNode *needs,
                                             const CUgraphEdgeData *edges,
                                             size_t count,
                                             CUstreamCaptureMode mode)
{
    CUstream stream;
    CUresult result = enter_begin(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(graph, SIM_HANDLE_GRAPH))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    result = sim_graph_has(graph, needs, count);
    if (result == CUDA_SUCCESS)
        result = sim_edges_plain(edges, count);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    const sim_nodes list = {.items = (CUgraphNode *)needs, .count = count};
    begin(stream, graph, mode);
    stream->capture_given = true;
    if (!sim_nodes_copy(&stream->capture_tail, &list)) {
        end_streams(stream->ctx, stream->capture_id);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    return sim_leave(CUDA_SUCCESS);
}

/* Every captured node (from first on) precedes the origin's tail. */
static bool all_joined(CUgraph graph, size_t first, const sim_nodes *tail)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.items[i]->marked = false;
    for (size_t i = 0; i < tail->count; i++)
        tail->items[i]->marked = true;
    /* Needed nodes have smaller indices where they were captured. */
    for (size_t i = graph->nodes.count; i-- > first;) {
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
    CUstream stream;
    CUresult result = sim_enter_stream(handle, graph != NULL, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    *graph = NULL;
    if (stream->capture == SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (!stream->capture_origin)
        return sim_leave(
            break_capture(stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
    CUgraph made = stream->capture_graph;
    bool given = stream->capture_given;
    if (stream->capture == SIM_CAPTURE_BROKEN)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(made, stream->capture_first, &stream->capture_tail))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    end_streams(stream->ctx, stream->capture_id);
    if (result == CUDA_SUCCESS)
        *graph = made;
    else if (!given)
        sim_graph_delete(made);
    return sim_leave(result);
}

/* Edges of a capture go from the end of a node to the start of the next. */
CUresult SIM_FN(cuStreamUpdateCaptureDependencies)(CUstream handle,
                                                   CUgraphNode *needs,
                                                   const CUgraphEdgeData *edges,
                                                   size_t count, unsigned flags)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture != SIM_CAPTURE_ACTIVE)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS)
        result = flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES
                     ? CUDA_ERROR_INVALID_VALUE
                     : sim_graph_has(stream->capture_graph, needs, count);
    if (result == CUDA_SUCCESS)
        result = sim_edges_plain(edges, count);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        stream->capture_tail.count = 0;
    const sim_nodes list = {.items = needs, .count = count};
    return sim_leave(add_tail(stream, &list));
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
    CUstream stream;
    CUresult result = sim_enter_stream(handle, status != NULL, &stream);
    if (result != CUDA_SUCCESS)
        return result;
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
