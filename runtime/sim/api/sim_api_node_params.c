/*
 * Driver calls that tell and change what a node does, in a graph or, for later
 * launches, in an executable.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

/* --- getting ------------------------------------------------------------ */

static CUresult enter_typed(CUgraphNode node, CUgraphNodeType type,
                            const void *params)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!params || !sim_handle_is(node, SIM_HANDLE_NODE) || node->type != type)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Pointers into the node's packed parameters, one per parameter. */
static CUresult list_params(CUgraphNode node)
{
    const sim_kernel *kernel = &node->work.kernel;
    const ptx_module *ptx = kernel->func->module->ptx;
    const ptx_func *func = &ptx->funcs[kernel->func->index];
    void **list = spt_calloc(func->n_params + 1, sizeof(void *));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < func->n_params; i++)
        list[i] = kernel->params + ptx->vars[func->params[i]].offset;
    spt_free(node->param_list);
    node->param_list = list;
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuGraphKernelNodeGetParams)(CUgraphNode node,
                                            CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_KERNEL, params);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_kernel *kernel = &node->work.kernel;
    if (!sim_handle_is(kernel->func, SIM_HANDLE_FUNCTION))
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    result = list_params(node);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    *params = (CUDA_KERNEL_NODE_PARAMS){
        .func = kernel->func,
        .gridDimX = kernel->grid[0],
        .gridDimY = kernel->grid[1],
        .gridDimZ = kernel->grid[2],
        .blockDimX = kernel->block[0],
        .blockDimY = kernel->block[1],
        .blockDimZ = kernel->block[2],
        .sharedMemBytes = kernel->shared_bytes,
        .kernelParams = node->param_list,
    };
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphMemcpyNodeGetParams)(CUgraphNode node,
                                            CUDA_MEMCPY3D *params)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_copy *copy = &node->work.copy;
    const CUmemorytype types[2] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
    *params = (CUDA_MEMCPY3D){
        .srcMemoryType = types[copy->from.device],
        .srcHost = (const void *)(uintptr_t)copy->from.address,
        .srcDevice = copy->from.address,
        .srcPitch = copy->from.pitch,
        .srcHeight = copy->from.height,
        .dstMemoryType = types[copy->to.device],
        .dstHost = (void *)(uintptr_t)copy->to.address,
        .dstDevice = copy->to.address,
        .dstPitch = copy->to.pitch,
        .dstHeight = copy->to.height,
        .WidthInBytes = copy->width,
        .Height = copy->rows,
        .Depth = copy->slices,
    };
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphMemsetNodeGetParams)(CUgraphNode node,
                                            CUDA_MEMSET_NODE_PARAMS *params)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_MEMSET, params);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_fill *fill = &node->work.fill;
    *params = (CUDA_MEMSET_NODE_PARAMS){
        .dst = fill->to,
        .pitch = fill->pitch,
        .value = fill->value,
        .elementSize = fill->bytes,
        .width = fill->width,
        .height = fill->rows,
    };
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphHostNodeGetParams)(CUgraphNode node,
                                          CUDA_HOST_NODE_PARAMS *params)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_HOST, params);
    if (result != CUDA_SUCCESS)
        return result;
    *params = (CUDA_HOST_NODE_PARAMS){
        .fn = node->work.host.call,
        .userData = node->work.host.user,
    };
    return sim_leave(CUDA_SUCCESS);
}

/* The node's own copy of the child, which may still be changed. */
CUresult SIM_FN(cuGraphChildGraphNodeGetGraph)(CUgraphNode node, CUgraph *graph)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_GRAPH, graph);
    if (result != CUDA_SUCCESS)
        return result;
    CUgraph child = node->work.graph.exec->graph;
    if (!sim_graph_register(child))
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *graph = child;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphEventRecordNodeGetEvent)(CUgraphNode node,
                                                CUevent *event)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    if (result != CUDA_SUCCESS)
        return result;
    *event = node->work.record.event;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphEventWaitNodeGetEvent)(CUgraphNode node, CUevent *event)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    if (result != CUDA_SUCCESS)
        return result;
    *event = node->work.wait.event;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuGraphMemFreeNodeGetParams)(CUgraphNode node,
                                             CUdeviceptr *address)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_MEM_FREE, address);
    if (result != CUDA_SUCCESS)
        return result;
    *address = node->work.address;
    return sim_leave(CUDA_SUCCESS);
}

/* --- setting ------------------------------------------------------------ */

/*
 * Enters for a change. exec NULL: of the node itself; else of what stands for
 * it in the executable, after all that is queued, which keeps the old
 * parameters. node becomes the node to change.
 */
static CUresult enter_change(CUgraphExec exec, CUgraphNodeType type,
                             CUgraphNode *node)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (exec) {
        result = sim_drain_all();
        if (result != CUDA_SUCCESS)
            return sim_leave(result);
        if (!sim_handle_is(exec, SIM_HANDLE_EXEC))
            return sim_leave(CUDA_ERROR_INVALID_HANDLE);
        *node = sim_exec_node(exec, *node);
    } else if (!sim_handle_is(*node, SIM_HANDLE_NODE)) {
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    if (!*node || (*node)->type != type)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* made: whether the parameters became work. */
static CUresult leave_change(CUgraphNode node, CUresult made, sim_work *work)
{
    if (made == CUDA_SUCCESS) {
        if (work->kind == SIM_WORK_KERNEL)
            work->kernel.cooperative = node->work.kernel.cooperative;
        sim_work_free(&node->work);
        node->work = *work;
    }
    return sim_leave(made);
}

/* The calls that give a node other parameters, in its graph and in what was
   made of it: calls, type, what the parameters are and how they become work.
   EXEC_type: what the second call has behind them. */
#define CHANGE_NODE(in_graph, in_exec, node_type, parameters, made)        \
    static CUresult change_##node_type(CUgraphExec exec, CUgraphNode node, \
                                       parameters with)                    \
    {                                                                      \
        CUresult result =                                                  \
            enter_change(exec, CU_GRAPH_NODE_TYPE_##node_type, &node);     \
        if (result != CUDA_SUCCESS)                                        \
            return result;                                                 \
        sim_work work;                                                     \
        return leave_change(node, made, &work);                            \
    }                                                                      \
    CUresult SIM_FN(in_graph)(CUgraphNode node, parameters with)           \
    {                                                                      \
        return change_##node_type(NULL, node, with);                       \
    }                                                                      \
    CUresult SIM_FN(in_exec)(CUgraphExec exec, CUgraphNode node,           \
                             EXEC_##node_type(parameters with))            \
    {                                                                      \
        return exec ? change_##node_type(exec, node, with)                 \
                    : CUDA_ERROR_INVALID_HANDLE;                           \
    }
#define UNUSED __attribute__((unused))
#define EXEC_KERNEL(with) with
#define EXEC_MEMCPY(with) with, UNUSED CUcontext ctx
#define EXEC_MEMSET(with) with, UNUSED CUcontext ctx
#define EXEC_HOST(with) with
#define EXEC_EVENT_RECORD(with) with
#define EXEC_WAIT_EVENT(with) with

/* clang-format off */
CHANGE_NODE(cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams, KERNEL,
            const CUDA_KERNEL_NODE_PARAMS *, sim_kernel_work(with, &work))
CHANGE_NODE(cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, MEMCPY,
            const CUDA_MEMCPY3D *, sim_copy_work(with, &work))
CHANGE_NODE(cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, MEMSET,
            const CUDA_MEMSET_NODE_PARAMS *, sim_fill_work(with, &work))
CHANGE_NODE(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, HOST,
            const CUDA_HOST_NODE_PARAMS *, sim_host_node_work(with, &work))
CHANGE_NODE(cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent,
            EVENT_RECORD, CUevent, sim_record_work(with, &work))
CHANGE_NODE(cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
            WAIT_EVENT, CUevent, sim_wait_work(with, &work))
/* clang-format on */

static CUresult set_any(CUgraphExec exec, CUgraphNode node,
                        CUgraphNodeParams *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter_change(exec, params->type, &node);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work;
    return leave_change(node, sim_any_work(params, &work), &work);
}

CUresult SIM_FN(cuGraphNodeSetParams)(CUgraphNode node,
                                      CUgraphNodeParams *params)
{
    return set_any(NULL, node, params);
}

CUresult SIM_FN(cuGraphExecNodeSetParams)(CUgraphExec exec, CUgraphNode node,
                                          CUgraphNodeParams *params)
{
    return exec ? set_any(exec, node, params) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult SIM_FN(cuGraphExecChildGraphNodeSetParams)(CUgraphExec exec,
                                                    CUgraphNode node,
                                                    CUgraph child)
{
    if (!exec)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = enter_change(exec, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work;
    return leave_change(node, sim_child_work(child, &work), &work);
}

/* --- attributes of kernel nodes ----------------------------------------- */

CUresult SIM_FN(cuGraphKernelNodeGetAttribute)(CUgraphNode node,
                                               CUkernelNodeAttrID id,
                                               CUkernelNodeAttrValue *value)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_KERNEL, value);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_kernel *kernel = &node->work.kernel;
    int hint = sim_hint_of(id);
    memset(value, 0, sizeof(*value));
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value->cooperative = kernel->cooperative;
    } else if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value->clusterDim.x = kernel->cluster[0];
        value->clusterDim.y = kernel->cluster[1];
        value->clusterDim.z = kernel->cluster[2];
    } else if (hint >= 0) {
        *value = node->hints[hint];
    } else {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return sim_leave(result);
}

CUresult
SIM_FN(cuGraphKernelNodeSetAttribute)(CUgraphNode node, CUkernelNodeAttrID id,
                                      const CUkernelNodeAttrValue *value)
{
    CUresult result = enter_typed(node, CU_GRAPH_NODE_TYPE_KERNEL, value);
    if (result != CUDA_SUCCESS)
        return result;
    const CUlaunchAttribute attribute = {.id = id, .value = *value};
    result = sim_kernel_attribute(&node->work.kernel, &attribute);
    if (result == CUDA_SUCCESS && sim_hint_of(id) >= 0)
        node->hints[sim_hint_of(id)] = *value;
    return sim_leave(result);
}

CUresult SIM_FN(cuGraphKernelNodeCopyAttributes)(CUgraphNode to,
                                                 CUgraphNode from)
{
    CUresult result = enter_typed(to, CU_GRAPH_NODE_TYPE_KERNEL, from);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(from, SIM_HANDLE_NODE) ||
        from->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    to->work.kernel.cooperative = from->work.kernel.cooperative;
    memcpy(to->work.kernel.cluster, from->work.kernel.cluster,
           sizeof(to->work.kernel.cluster));
    memcpy(to->hints, from->hints, sizeof(to->hints));
    return sim_leave(CUDA_SUCCESS);
}
