/*
 * Driver calls about graphs.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

/* --- graphs and their nodes --------------------------------------------- */

CUresult SIM_FN(cuGraphCreate)(CUgraph *graph, unsigned flags)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!graph || flags)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraph made = sim_graph_new();
    if (!made || !sim_handle_add(made, SIM_HANDLE_GRAPH)) {
        spt_free(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *graph = made;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult enter_graph(CUgraph graph)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(graph, SIM_HANDLE_GRAPH))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphDestroy)(CUgraph graph)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    for (CUcontext ctx = sim_the.contexts; ctx; ctx = ctx->next)
        for (CUstream s = ctx->streams; s; s = s->next)
            if (s->capture_graph == graph)
                return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_graph_delete(graph);
    return sim_leave(CUDA_SUCCESS);
}

static bool register_nodes(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (!sim_handle_add(graph->nodes.items[i], SIM_HANDLE_NODE))
            return false;
    return sim_handle_add(graph, SIM_HANDLE_GRAPH);
}

CUresult SIM_FN(cuGraphClone)(CUgraph *clone, CUgraph graph)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!clone)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    CUgraph made = sim_graph_clone(graph);
    if (!made)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (!register_nodes(made)) {
        sim_graph_delete(made);
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *clone = made;
    return sim_leave(CUDA_SUCCESS);
}

/* Nodes into an array that may be NULL (only the number is wanted). */
static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count,
                           bool roots)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    size_t found = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (roots && graph->nodes.items[i]->needs.count)
            continue;
        if (nodes && found < *count)
            nodes[found] = graph->nodes.items[i];
        found++;
    }
    for (size_t i = found; nodes && i < *count; i++)
        nodes[i] = NULL;
    *count = nodes && *count < found ? *count : found;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphGetNodes)(CUgraph graph, CUgraphNode *nodes,
                                 size_t *count)
{
    return list_nodes(graph, nodes, count, false);
}

CUresult SIM_FN(cuGraphGetRootNodes)(CUgraph graph, CUgraphNode *nodes,
                                     size_t *count)
{
    return list_nodes(graph, nodes, count, true);
}

CUresult SIM_FN(cuGraphNodeGetType)(CUgraphNode node, CUgraphNodeType *type)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(node, SIM_HANDLE_NODE))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!type)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *type = node->type;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult check_needs(CUgraph graph, const CUgraphNode *needs,
                            size_t count)
{
    if (count && !needs)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!sim_handle_is(needs[i], SIM_HANDLE_NODE) ||
            needs[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Adds a node that holds work; takes the work over. Lock held. */
static CUresult add_node(CUgraphNode *node, CUgraph graph,
                         const CUgraphNode *needs, size_t count,
                         CUgraphNodeType type, sim_work *work)
{
    CUresult result =
        node ? check_needs(graph, needs, count) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        sim_work_free(work);
        return result;
    }
    sim_nodes list = {.items = (CUgraphNode *)needs, .count = count};
    CUgraphNode made = sim_graph_add(graph, type, work, &list);
    if (!made || !sim_handle_add(made, SIM_HANDLE_NODE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *node = made;
    return CUDA_SUCCESS;
}

static CUresult kernel_of(const CUDA_KERNEL_NODE_PARAMS *params,
                          sim_kernel *kernel)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (!params->func && params->kern)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_handle_is(params->func, SIM_HANDLE_FUNCTION))
        return CUDA_ERROR_INVALID_VALUE;
    *kernel = (sim_kernel){
        .func = params->func,
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes,
    };
    CUresult result = sim_kernel_check(kernel);
    return result == CUDA_SUCCESS
               ? sim_params_pack(kernel, params->kernelParams, params->extra)
               : result;
}

CUresult SIM_FN(cuGraphAddKernelNode)(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *needs, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work = {.kind = SIM_WORK_KERNEL};
    result = kernel_of(params, &work.kernel);
    if (result == CUDA_SUCCESS)
        result = add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_KERNEL,
                          &work);
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphAddMemcpyNode)(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *needs, size_t count,
                                      const CUDA_MEMCPY3D *params,
                                      CUcontext ctx)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    (void)ctx;
    sim_work work = {.kind = SIM_WORK_COPY};
    result =
        params ? sim_copy_of_3d(params, &work.copy) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = sim_copy_check(&work.copy);
    if (result == CUDA_SUCCESS)
        result = add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMCPY,
                          &work);
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphAddMemsetNode)(CUgraphNode *node, CUgraph graph,
                                      const CUgraphNode *needs, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS *params,
                                      CUcontext ctx)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    (void)ctx;
    if (!params || (params->elementSize != 1 && params->elementSize != 2 &&
                    params->elementSize != 4))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_work work = {
        .kind = SIM_WORK_FILL,
        .fill =
            {
                .to = params->dst,
                .pitch = params->pitch,
                .width = params->width,
                .rows = params->height,
                .value = params->value,
                .bytes = params->elementSize,
            },
    };
    result = sim_fill_check(&work.fill);
    if (result == CUDA_SUCCESS)
        result = add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_MEMSET,
                          &work);
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphAddHostNode)(CUgraphNode *node, CUgraph graph,
                                    const CUgraphNode *needs, size_t count,
                                    const CUDA_HOST_NODE_PARAMS *params)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!params || !params->fn)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_work work = {.kind = SIM_WORK_HOST,
                     .host = {params->fn, params->userData}};
    return sim_leave(
        add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_HOST, &work));
}

CUresult SIM_FN(cuGraphAddEmptyNode)(CUgraphNode *node, CUgraph graph,
                                     const CUgraphNode *needs, size_t count)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work = {.kind = SIM_WORK_EMPTY};
    return sim_leave(
        add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_EMPTY, &work));
}

CUresult SIM_FN(cuGraphAddChildGraphNode)(CUgraphNode *node, CUgraph graph,
                                          const CUgraphNode *needs,
                                          size_t count, CUgraph child)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(child, SIM_HANDLE_GRAPH) || child == graph)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_work work = {.kind = SIM_WORK_GRAPH};
    result = sim_exec_new(child, &work.exec);
    if (result == CUDA_SUCCESS)
        result = add_node(node, graph, needs, count, CU_GRAPH_NODE_TYPE_GRAPH,
                          &work);
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphAddDependencies)(CUgraph graph, const CUgraphNode *from,
                                        const CUgraphNode *to,
                                        const CUgraphEdgeData *edges,
                                        size_t count)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    result = check_needs(graph, from, count);
    if (result == CUDA_SUCCESS)
        result = check_needs(graph, to, count);
    for (size_t i = 0; edges && i < count; i++)
        if (edges[i].type || edges[i].from_port || edges[i].to_port)
            result = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        for (size_t n = 0; n < to[i]->needs.count; n++)
            if (to[i]->needs.items[n] == from[i])
                return sim_leave(CUDA_ERROR_INVALID_VALUE);
        if (!sim_nodes_add(&to[i]->needs, from[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphKernelNodeGetParams)(CUgraphNode node,
                                            CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!params || !sim_handle_is(node, SIM_HANDLE_NODE) ||
        node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const sim_kernel *kernel = &node->work.kernel;
    if (kernel->param_bytes)
        /* The caller would get pointers into the node, one per parameter. */
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    *params = (CUDA_KERNEL_NODE_PARAMS){
        .func = kernel->func,
        .gridDimX = kernel->grid[0],
        .gridDimY = kernel->grid[1],
        .gridDimZ = kernel->grid[2],
        .blockDimX = kernel->block[0],
        .blockDimY = kernel->block[1],
        .blockDimZ = kernel->block[2],
        .sharedMemBytes = kernel->shared_bytes,
    };
    return sim_leave(CUDA_SUCCESS);
}

static CUresult set_kernel(CUgraphNode node,
                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    sim_work work = {.kind = SIM_WORK_KERNEL};
    CUresult result = kernel_of(params, &work.kernel);
    if (result != CUDA_SUCCESS)
        return result;
    work.kernel.cooperative = node->work.kernel.cooperative;
    sim_work_free(&node->work);
    node->work = work;
    return CUDA_SUCCESS;
}

CUresult
SIM_FN(cuGraphKernelNodeSetParams)(CUgraphNode node,
                                   const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(node, SIM_HANDLE_NODE) ||
        node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(set_kernel(node, params));
}

/* --- executables -------------------------------------------------------- */

CUresult SIM_FN(cuGraphInstantiateWithFlags)(CUgraphExec *exec, CUgraph graph,
                                             unsigned long long flags)
{
    CUresult result = enter_graph(graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!exec)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags &
        ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    CUgraphExec made;
    result = sim_exec_new(graph, &made);
    if (result == CUDA_SUCCESS && !sim_handle_add(made, SIM_HANDLE_EXEC)) {
        sim_exec_release(made);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS)
        *exec = made;
    return sim_leave(result);
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
    exec->references++;
    sim_work work = {.kind = SIM_WORK_GRAPH, .exec = exec};
    return sim_leave(sim_enqueue(stream, &work, NULL));
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

/* Queued launches keep the old parameters, so they run first. */
CUresult
SIM_FN(cuGraphExecKernelNodeSetParams)(CUgraphExec exec, CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUcontext ctx;
    CUresult result = enter_exec(exec, &ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_drain_all();
    if (result != CUDA_SUCCESS || !sim_handle_is(exec, SIM_HANDLE_EXEC))
        return sim_leave(result != CUDA_SUCCESS ? result
                                                : CUDA_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i < exec->graph->nodes.count; i++)
        if (exec->origin[i] == node &&
            exec->graph->nodes.items[i]->type == CU_GRAPH_NODE_TYPE_KERNEL)
            return sim_leave(set_kernel(exec->graph->nodes.items[i], params));
    return sim_leave(CUDA_ERROR_INVALID_VALUE);
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
    exec->origin = fresh->origin;
    fresh->graph = old.graph;
    fresh->order = old.order;
    fresh->origin = old.origin;
    sim_exec_release(fresh);
    return sim_leave(CUDA_SUCCESS);
}
