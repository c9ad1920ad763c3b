/*
 * Driver calls that add nodes to graphs, and that get and set what they do.
 * Parameters become work in one function per type of node (*_work); adding,
 * setting in a graph and setting in an executable share it.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

/* --- parameters to work ------------------------------------------------- */

CUresult sim_kernel_work(const CUDA_KERNEL_NODE_PARAMS *params, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_KERNEL};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction func = params->func ? params->func : (CUfunction)params->kern;
    CUresult result = sim_function_of(params->ctx, &func);
    if (result != CUDA_SUCCESS)
        return result;
    work->kernel = (sim_kernel){
        .func = func,
        .grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
        .block = {params->blockDimX, params->blockDimY, params->blockDimZ},
        .shared_bytes = params->sharedMemBytes,
    };
    result = sim_kernel_check(&work->kernel);
    return result == CUDA_SUCCESS
               ? sim_params_pack(&work->kernel, params->kernelParams,
                                 params->extra)
               : result;
}

CUresult sim_copy_work(const CUDA_MEMCPY3D *params, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_COPY};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_copy_of_3d(params, &work->copy);
    return result == CUDA_SUCCESS ? sim_copy_check(&work->copy) : result;
}

CUresult sim_fill_work(const CUDA_MEMSET_NODE_PARAMS *params, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_FILL};
    if (!params || (params->elementSize != 1 && params->elementSize != 2 &&
                    params->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    work->fill = (sim_fill){
        .to = params->dst,
        .pitch = params->pitch,
        .width = params->width,
        .rows = params->height,
        .value = params->value,
        .bytes = params->elementSize,
    };
    return sim_fill_check(&work->fill);
}

CUresult sim_host_work(CUhostFn call, void *user, sim_work *work)
{
    *work =
        (sim_work){.kind = SIM_WORK_HOST, .host = {.call = call, .user = user}};
    return call ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The child is copied as it is now. */
CUresult sim_child_work(CUgraph child, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_GRAPH};
    if (!sim_handle_is(child, SIM_HANDLE_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_exec_new(child, &work->graph.exec);
}

CUresult sim_record_work(CUevent event, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_RECORD, .record = {.event = event}};
    return sim_handle_is(event, SIM_HANDLE_EVENT) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_wait_work(CUevent event, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_WAIT, .wait = {.event = event}};
    return sim_handle_is(event, SIM_HANDLE_EVENT) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult alloc_work(CUDA_MEM_ALLOC_NODE_PARAMS *params, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_ALLOC};
    if (!params || !params->bytesize ||
        params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemLocation *at = &params->poolProps.location;
    if (at->type != CU_MEM_LOCATION_TYPE_DEVICE || at->id < 0 ||
        at->id >= sim_the.n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        sim_graph_block_new(at->id, params->bytesize, &work->block);
    if (result == CUDA_SUCCESS)
        params->dptr = work->block->address;
    return result;
}

static CUresult free_work(CUdeviceptr address, sim_work *work)
{
    *work = (sim_work){.kind = SIM_WORK_FREE, .address = address};
    return sim_graph_block_at(address) ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_VALUE;
}

/* The union of all of them; *type says which it was. */
CUresult sim_any_work(CUgraphNodeParams *params, sim_work *work)
{
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        /* The newest layout is the same, whichever its number. */
        return sim_kernel_work((const CUDA_KERNEL_NODE_PARAMS *)&params->kernel,
                               work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_copy_work(&params->memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        /* The context at the end is the only difference. */
        return sim_fill_work((const CUDA_MEMSET_NODE_PARAMS *)&params->memset,
                             work);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_host_work(params->host.fn, params->host.userData, work);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sim_child_work(params->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *work = (sim_work){.kind = SIM_WORK_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sim_wait_work(params->eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sim_record_work(params->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return alloc_work((CUDA_MEM_ALLOC_NODE_PARAMS *)&params->alloc, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return free_work(params->free.dptr, work);
    default:
        return sim_lacks("cuGraphAddNode", "a node of this type");
    }
}

/* --- adding ------------------------------------------------------------- */

CUresult sim_node_add(CUgraphNode *node, CUgraph graph,
                      const CUgraphNode *needs, size_t count,
                      CUgraphNodeType type, sim_work *work)
{
    sim_nodes list = {.items = (CUgraphNode *)needs, .count = count};
    CUgraphNode made = sim_graph_add(graph, type, work, &list);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_handle_add(made, SIM_HANDLE_NODE)) {
        sim_graph_remove(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *node = made;
    return CUDA_SUCCESS;
}

/* Where a node goes: what the calls that add one have in common. */
typedef struct place {
    CUgraphNode *node;
    CUgraph graph;
    const CUgraphNode *needs;
    size_t count;
} place;

static CUresult enter_place(const place *at)
{
    CUresult result = sim_enter_graph(at->graph);
    if (result != CUDA_SUCCESS)
        return result;
    result = at->node ? sim_graph_has(at->graph, at->needs, at->count)
                      : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? result : sim_leave(result);
}

/* made: whether the parameters became work. */
static CUresult leave_place(const place *at, CUgraphNodeType type,
                            CUresult made, sim_work *work)
{
    if (made == CUDA_SUCCESS)
        made =
            sim_node_add(at->node, at->graph, at->needs, at->count, type, work);
    return sim_leave(made);
}

CUresult SIM_FN(cuGraphAddNode)(CUgraphNode *node, CUgraph graph,
                                const CUgraphNode *needs,
                                const CUgraphEdgeData *edges, size_t count,
                                CUgraphNodeParams *params)
{
    const place at = {node, graph, needs, count};
    CUresult result = enter_place(&at);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work;
    result = params ? sim_edges_plain(edges, count) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = sim_any_work(params, &work);
    return leave_place(&at, params ? params->type : CU_GRAPH_NODE_TYPE_EMPTY,
                       result, &work);
}

CUresult SIM_FN(cuGraphAddEmptyNode)(CUgraphNode *node, CUgraph graph,
                                     const CUgraphNode *needs, size_t count)
{
    const place at = {node, graph, needs, count};
    CUresult result = enter_place(&at);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work = {.kind = SIM_WORK_EMPTY};
    return leave_place(&at, CU_GRAPH_NODE_TYPE_EMPTY, CUDA_SUCCESS, &work);
}

CUresult sim_host_node_work(const CUDA_HOST_NODE_PARAMS *params, sim_work *work)
{
    return params ? sim_host_work(params->fn, params->userData, work)
                  : CUDA_ERROR_INVALID_VALUE;
}

/* The calls that add a node of one type: call, type, how its parameters become
   work, its parameters behind those that all have. */
#define ADD_NODE(call, node_type, made, ...)                                   \
    CUresult SIM_FN(call)(CUgraphNode * node, CUgraph graph,                   \
                          const CUgraphNode *needs, size_t count, __VA_ARGS__) \
    {                                                                          \
        const place at = {node, graph, needs, count};                          \
        CUresult result = enter_place(&at);                                    \
        if (result != CUDA_SUCCESS)                                            \
            return result;                                                     \
        sim_work work;                                                         \
        return leave_place(&at, CU_GRAPH_NODE_TYPE_##node_type, made, &work);  \
    }
#define UNUSED __attribute__((unused))

/* clang-format off */
ADD_NODE(cuGraphAddKernelNode, KERNEL, sim_kernel_work(params, &work),
         const CUDA_KERNEL_NODE_PARAMS *params)
ADD_NODE(cuGraphAddMemcpyNode, MEMCPY, sim_copy_work(params, &work),
         const CUDA_MEMCPY3D *params, UNUSED CUcontext ctx)
ADD_NODE(cuGraphAddMemsetNode, MEMSET, sim_fill_work(params, &work),
         const CUDA_MEMSET_NODE_PARAMS *params, UNUSED CUcontext ctx)
ADD_NODE(cuGraphAddHostNode, HOST, sim_host_node_work(params, &work),
         const CUDA_HOST_NODE_PARAMS *params)
ADD_NODE(cuGraphAddChildGraphNode, GRAPH,
         child == graph ? CUDA_ERROR_INVALID_VALUE
                        : sim_child_work(child, &work),
         CUgraph child)
ADD_NODE(cuGraphAddEventRecordNode, EVENT_RECORD,
         sim_record_work(event, &work), CUevent event)
ADD_NODE(cuGraphAddEventWaitNode, WAIT_EVENT,
         sim_wait_work(event, &work), CUevent event)
ADD_NODE(cuGraphAddMemAllocNode, MEM_ALLOC, alloc_work(params, &work),
         CUDA_MEM_ALLOC_NODE_PARAMS *params)
ADD_NODE(cuGraphAddMemFreeNode, MEM_FREE, free_work(address, &work),
         CUdeviceptr address)
/* clang-format on */
