/*
 * Driver calls about executable graphs: copies that can be launched, and
 * changed between launches.
 */
#include "sim_driver.h"

static CUresult instantiate(CUgraphExec *exec, CUgraph graph,
                            unsigned long long flags)
{
    CUresult result = sim_enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!exec)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags &
        ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
        return sim_leave(
            sim_lacks("cuGraphInstantiate", "launches from the device"));
    CUgraphExec made;
    result = sim_exec_new(graph, &made);
    if (result == CUDA_SUCCESS && !sim_handle_add(made, SIM_HANDLE_EXEC)) {
        sim_exec_release(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) {
        made->flags = flags;
        *exec = made;
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphInstantiateWithFlags)(CUgraphExec *exec, CUgraph graph,
                                             unsigned long long flags)
{
    return instantiate(exec, graph, flags);
}

CUresult
SIM_FN(cuGraphInstantiateWithParams)(CUgraphExec *exec, CUgraph graph,
                                     CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                                : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

static CUresult enter_exec(CUgraphExec exec, CUcontext *ctx)
{
    CUresult result = sim_enter(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(exec, SIM_HANDLE_EXEC))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphUpload)(CUgraphExec exec, CUstream handle)
{
    CUcontext ctx;
    CUstream stream;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(sim_stream_of(ctx, handle, &stream));
}

/* A launch that is captured becomes a child graph. */
static CUresult capture_child(CUgraphExec exec, CUstream stream)
{
    sim_work work = {.kind = SIM_WORK_GRAPH};
    CUresult result = sim_exec_new(exec->graph, &work.graph.exec);
    return result == CUDA_SUCCESS ? sim_enqueue(stream, &work, NULL) : result;
}

CUresult SIM_FN(cuGraphLaunch)(CUgraphExec exec, CUstream handle)
{
    CUcontext ctx;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_stream_of(ctx, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(capture_child(exec, stream));
    exec->references++;
    sim_work work = {
        .kind = SIM_WORK_GRAPH,
        .graph = {.exec = exec, .ticket = sim_the.next_number++},
    };
    uint64_t ticket = work.graph.ticket, number;
    result = sim_enqueue(stream, &work, &number);
    if (result == CUDA_SUCCESS)
        sim_exec_mark_events(exec, stream, ticket, number);
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphExecGetFlags)(CUgraphExec exec, cuuint64_t *flags)
{
    CUcontext ctx;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult enter_exec_node(CUgraphExec exec, CUgraphNode *node)
{
    CUcontext ctx;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    *node = sim_exec_node(exec, *node);
    if (!*node || ((*node)->type != CU_GRAPH_NODE_TYPE_KERNEL &&
                   (*node)->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                   (*node)->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphNodeGetEnabled)(CUgraphExec exec, CUgraphNode node,
                                       unsigned *enabled)
{
    CUresult result = enter_exec_node(exec, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (!enabled)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *enabled = !node->disabled;
    return sim_leave(CUDA_SUCCESS);
}

/* Launches that are queued run as they were. */
CUresult SIM_FN(cuGraphNodeSetEnabled)(CUgraphExec exec, CUgraphNode node,
                                       unsigned enabled)
{
    CUgraphNode of_graph = node;
    CUresult result = enter_exec_node(exec, &node);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_drain_all();
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (!sim_handle_is(exec, SIM_HANDLE_EXEC))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    node = sim_exec_node(exec, of_graph);
    node->disabled = !enabled;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphExecDestroy)(CUgraphExec exec)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(exec, SIM_HANDLE_EXEC))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    sim_handle_drop(exec);
    sim_exec_release(exec);
    return sim_leave(CUDA_SUCCESS);
}

static bool same_shape(CUgraph a, CUgraph b)
{
    if (a->nodes.count != b->nodes.count)
        return false;
    for (size_t i = 0; i < a->nodes.count; i++) {
        CUgraphNode one = a->nodes.items[i], two = b->nodes.items[i];
        if (one->type != two->type || one->needs.count != two->needs.count)
            return false;
        for (size_t n = 0; n < one->needs.count; n++)
            if (one->needs.items[n]->index != two->needs.items[n]->index)
                return false;
    }
    return true;
}

CUresult SIM_FN(cuGraphExecUpdate)(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo *info)
{
    CUcontext ctx;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_drain_all();
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (!sim_handle_is(exec, SIM_HANDLE_EXEC) ||
        !sim_handle_is(graph, SIM_HANDLE_GRAPH))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (info)
        *info = (CUgraphExecUpdateResultInfo){
            .result = CU_GRAPH_EXEC_UPDATE_SUCCESS,
        };
    if (!same_shape(exec->graph, graph)) {
        if (info)
            info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return sim_leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    }
    CUgraphExec fresh;
    result = sim_exec_new(graph, &fresh);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    /* The handle stays, what it holds changes places. */
    struct CUgraphExec_st old = *exec;
    exec->graph = fresh->graph;
    exec->order = fresh->order;
    fresh->graph = old.graph;
    fresh->order = old.order;
    sim_exec_release(fresh);
    return sim_leave(CUDA_SUCCESS);
}
