/* Graphs beyond capture: edges, parameters, memory, events, updates. */
#include <string.h>
#include <unistd.h>

#include "driver_test.h"

static CUfunction add_one;

static uint32_t number_at(CUdeviceptr p)
{
    uint32_t value = 0;
    OK(drv.cuMemcpyDtoH(&value, p, 4));
    return value;
}

static CUDA_MEMSET_NODE_PARAMS fill_params(CUdeviceptr p, uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = p, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

/* fill -> add_one, both on p. */
typedef struct pair {
    CUgraph graph;
    CUgraphNode fill, kernel;
    CUdeviceptr p;
    uint32_t n;
    void *params[2];
} pair;

static void pair_make(pair *g)
{
    OK(drv.cuMemAlloc(&g->p, 4));
    OK(drv.cuMemsetD32(g->p, 0, 1));
    g->n = 1;
    g->params[0] = &g->p;
    g->params[1] = &g->n;
    CUDA_MEMSET_NODE_PARAMS fill = fill_params(g->p, 10);
    CUDA_KERNEL_NODE_PARAMS kernel = {
        .func = add_one,
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 32,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = g->params,
    };
    OK(drv.cuGraphCreate(&g->graph, 0));
    OK(drv.cuGraphAddMemsetNode(&g->fill, g->graph, NULL, 0, &fill, NULL));
    OK(drv.cuGraphAddKernelNode(&g->kernel, g->graph, &g->fill, 1, &kernel));
}

static void pair_end(pair *g)
{
    OK(drv.cuGraphDestroy(g->graph));
    OK(drv.cuMemFree(g->p));
}

static uint32_t launched(CUgraphExec exec, CUdeviceptr p)
{
    OK(drv.cuGraphLaunch(exec, NULL));
    return number_at(p);
}

static void edges(void)
{
    pair g;
    CUgraphNode from[2], to[2], clone_node;
    CUgraphNodeType type;
    CUgraph clone;
    size_t count = 2;
    pair_make(&g);
    OK(drv.cuGraphGetEdges(g.graph, from, to, NULL, &count));
    CHECK(count == 1 && from[0] == g.fill && to[0] == g.kernel && !from[1],
          "the edge is listed, and nothing after it");
    count = 2;
    OK(drv.cuGraphNodeGetDependentNodes(g.fill, to, NULL, &count));
    CHECK(count == 1 && to[0] == g.kernel, "what depends on a node");
    count = 2;
    OK(drv.cuGraphNodeGetDependencies(g.kernel, from, NULL, &count));
    CHECK(count == 1 && from[0] == g.fill, "what a node depends on");
    OK(drv.cuGraphClone(&clone, g.graph));
    OK(drv.cuGraphNodeFindInClone(&clone_node, g.kernel, clone));
    OK(drv.cuGraphNodeGetType(clone_node, &type));
    CHECK_INT(type, CU_GRAPH_NODE_TYPE_KERNEL, "a clone's node is found");
    OK(drv.cuGraphDestroyNode(clone_node));
    count = 0;
    OK(drv.cuGraphGetNodes(clone, NULL, &count));
    CHECK_INT(count, 1, "a node is destroyed in its graph only");
    OK(drv.cuGraphRemoveDependencies(g.graph, &g.fill, &g.kernel, NULL, 1));
    count = 0;
    OK(drv.cuGraphGetEdges(g.graph, NULL, NULL, NULL, &count));
    CHECK_INT(count, 0, "an edge is removed");
    CHECK_INT(
        drv.cuGraphRemoveDependencies(g.graph, &g.fill, &g.kernel, NULL, 1),
        CUDA_ERROR_INVALID_VALUE, "but not twice");
    OK(drv.cuGraphDestroy(clone));
    pair_end(&g);
}

static void parameters(void)
{
    pair g;
    CUgraphExec exec;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMSET_NODE_PARAMS fill;
    unsigned enabled = 9;
    pair_make(&g);
    OK(drv.cuGraphInstantiateWithFlags(&exec, g.graph, 0));
    CHECK_INT(launched(exec, g.p), 11, "a graph runs");
    OK(drv.cuGraphKernelNodeGetParams(g.kernel, &kernel));
    CHECK(kernel.func == add_one && kernel.blockDimX == 32 &&
              *(CUdeviceptr *)kernel.kernelParams[0] == g.p &&
              *(uint32_t *)kernel.kernelParams[1] == 1,
          "a kernel node tells its parameters");
    OK(drv.cuGraphMemsetNodeGetParams(g.fill, &fill));
    fill.value = 20;
    OK(drv.cuGraphMemsetNodeSetParams(g.fill, &fill));
    CHECK_INT(launched(exec, g.p), 11, "a change of the graph changes no exec");
    OK(drv.cuGraphExecMemsetNodeSetParams(exec, g.fill, &fill, NULL));
    CHECK_INT(launched(exec, g.p), 21, "a change of the exec does");
    OK(drv.cuGraphNodeSetEnabled(exec, g.kernel, 0));
    OK(drv.cuGraphNodeGetEnabled(exec, g.kernel, &enabled));
    CHECK(launched(exec, g.p) == 20 && !enabled, "a node is switched off");
    OK(drv.cuGraphNodeSetEnabled(exec, g.kernel, 1));
    CHECK_INT(launched(exec, g.p), 21, "and on again");
    OK(drv.cuGraphExecDestroy(exec));
    pair_end(&g);
}

static void attributes(void)
{
    pair g;
    CUkernelNodeAttrValue value = {.priority = -3}, got = {0};
    pair_make(&g);
    OK(drv.cuGraphKernelNodeSetAttribute(g.kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                         &value));
    OK(drv.cuGraphKernelNodeGetAttribute(g.kernel, CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                         &got));
    CHECK_INT(got.priority, -3, "a kernel node keeps its attributes");
    CHECK_INT(drv.cuGraphKernelNodeGetAttribute(
                  g.fill, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got),
              CUDA_ERROR_INVALID_VALUE, "other nodes have none");
    pair_end(&g);
}

static void child(void)
{
    pair g;
    CUgraph parent, inside;
    CUgraphNode node, wait, again;
    CUgraphExec exec;
    pair_make(&g);
    OK(drv.cuGraphCreate(&parent, 0));
    OK(drv.cuGraphAddChildGraphNode(&node, parent, NULL, 0, g.graph));
    OK(drv.cuGraphChildGraphNodeGetGraph(node, &inside));
    CUDA_MEMSET_NODE_PARAMS fill = fill_params(g.p, 50);
    OK(drv.cuGraphAddMemsetNode(&again, inside, NULL, 0, &fill, NULL));
    size_t count = 3;
    CUgraphNode nodes[3];
    OK(drv.cuGraphGetNodes(inside, nodes, &count));
    for (int i = 0; i < 2; i++)
        OK(drv.cuGraphAddDependencies(inside, &nodes[i], &again, NULL, 1));
    OK(drv.cuGraphAddEmptyNode(&wait, parent, &node, 1));
    OK(drv.cuGraphInstantiateWithFlags(&exec, parent, 0));
    CHECK_INT(launched(exec, g.p), 50, "a child can be changed in its node");
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuGraphDestroy(parent));
    pair_end(&g);
}

static void any_node(void)
{
    CUdeviceptr p;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS made = {0};
    OK(drv.cuMemAlloc(&p, 4));
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    params.memset.dst = p;
    params.memset.value = 7;
    params.memset.elementSize = 4;
    params.memset.width = params.memset.height = 1;
    OK(drv.cuGraphCreate(&graph, 0));
    OK(drv.cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    OK(drv.cuGraphInstantiateWithParams(&exec, graph, &made));
    CHECK_INT(launched(exec, p), 7, "a node of any type");
    params.memset.value = 8;
    OK(drv.cuGraphExecNodeSetParams(exec, node, &params));
    CHECK_INT(launched(exec, p), 8, "and its parameters");
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CHECK_INT(drv.cuGraphAddNode(&node, graph, NULL, NULL, 0, &params),
              CUDA_ERROR_NOT_SUPPORTED, "conditional nodes are refused");
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuGraphDestroy(graph));
    OK(drv.cuMemFree(p));
}

static cuuint64_t graph_bytes(CUgraphMem_attribute attribute)
{
    cuuint64_t value = 0;
    OK(drv.cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

/* alloc -> add_one -> copy out -> free, captured. */
static void memory(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr inner, out;
    OK(drv.cuMemAlloc(&out, 4));
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(drv.cuMemAllocAsync(&inner, 4, stream));
    OK(drv.cuMemsetD32Async(inner, 5, 1, stream));
    OK(driver_test_add_one(add_one, inner, 1, stream));
    OK(drv.cuMemcpyDtoDAsync(out, inner, 4, stream));
    OK(drv.cuMemFreeAsync(inner, stream));
    OK(drv.cuStreamEndCapture(stream, &graph));
    OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(drv.cuGraphDestroy(graph));
    CHECK_INT(launched(exec, out), 6, "a graph allocates and frees");
    CHECK_INT(launched(exec, out), 6, "at every launch");
    CHECK_INT(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0,
              "what it freed is not in use");
    CHECK_INT(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 4,
              "but was at its highest");
    CHECK_INT(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 4,
              "the address is kept");
    size_t reports = spt_sim_report_count();
    OK(driver_test_add_one(add_one, inner, 1, NULL));
    OK(drv.cuCtxSynchronize());
    CHECK_INT(spt_sim_report_count(), reports + 1,
              "after the free the contents are gone");
    OK(drv.cuGraphExecDestroy(exec));
    CHECK_INT(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0,
              "as long as the graph lives");
    OK(drv.cuStreamDestroy(stream));
    OK(drv.cuMemFree(out));
}

static void events(void)
{
    CUgraph graph;
    CUgraphNode record;
    CUgraphExec exec;
    CUevent event;
    CUstream a, b;
    CUdeviceptr p;
    uint32_t *seen;
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemAllocHost((void **)&seen, 4));
    OK(drv.cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CUDA_MEMSET_NODE_PARAMS fill = fill_params(p, 3);
    CUgraphNode node;
    OK(drv.cuGraphCreate(&graph, 0));
    OK(drv.cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, NULL));
    OK(drv.cuGraphAddEventRecordNode(&record, graph, &node, 1, event));
    OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(drv.cuGraphLaunch(exec, a));
    CHECK_INT(drv.cuEventQuery(event), CUDA_ERROR_NOT_READY,
              "an event of a launched graph is pending");
    OK(drv.cuStreamWaitEvent(b, event, 0));
    OK(drv.cuMemcpyDtoHAsync(seen, p, 4, b));
    OK(drv.cuStreamSynchronize(b));
    CHECK_INT(*seen, 3, "a stream waits for a graph's event");
    OK(drv.cuEventSynchronize(event));
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuGraphDestroy(graph));

    OK(drv.cuGraphCreate(&graph, 0));
    OK(drv.cuGraphAddEventWaitNode(&record, graph, NULL, 0, event));
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = p,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = seen,
        .WidthInBytes = 4,
        .Height = 1,
        .Depth = 1,
    };
    OK(drv.cuGraphAddMemcpyNode(&node, graph, &record, 1, &copy, NULL));
    OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(drv.cuMemsetD32Async(p, 4, 1, b));
    OK(drv.cuEventRecord(event, b));
    OK(drv.cuGraphLaunch(exec, a));
    OK(drv.cuStreamSynchronize(a));
    CHECK_INT(*seen, 4, "a graph waits for a stream's event");
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuGraphDestroy(graph));
    OK(drv.cuStreamDestroy(a));
    OK(drv.cuStreamDestroy(b));
    OK(drv.cuEventDestroy(event));
    OK(drv.cuMemFreeHost(seen));
    OK(drv.cuMemFree(p));
}

static void capture_into(void)
{
    pair g;
    CUstream stream, other;
    CUgraph same;
    CUgraphExec exec;
    CUevent fork, join;
    pair_make(&g);
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(drv.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(drv.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(drv.cuStreamBeginCaptureToGraph(stream, g.graph, &g.kernel, NULL, 1,
                                       CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(drv.cuEventRecord(fork, stream));
    OK(drv.cuStreamWaitEvent(other, fork, 0));
    OK(driver_test_add_one(add_one, g.p, 1, other));
    OK(drv.cuEventRecord(join, other));
    OK(drv.cuStreamDestroy(other));
    OK(drv.cuStreamWaitEvent(stream, join, 0));
    OK(driver_test_add_one(add_one, g.p, 1, stream));
    OK(drv.cuStreamEndCapture(stream, &same));
    CHECK(same == g.graph, "a capture into a graph gives that graph");
    OK(drv.cuGraphInstantiateWithFlags(&exec, g.graph, 0));
    CHECK_INT(launched(exec, g.p), 13, "its nodes come after the old ones");
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuStreamDestroy(stream));
    OK(drv.cuEventDestroy(fork));
    OK(drv.cuEventDestroy(join));
    pair_end(&g);
}

static void dot(void)
{
    pair g;
    char path[] = "/tmp/spectune-test-XXXXXX", text[512] = "";
    pair_make(&g);
    close(mkstemp(path));
    OK(drv.cuGraphDebugDotPrint(g.graph, path, 0));
    FILE *file = fopen(path, "r");
    CHECK(file && fread(text, 1, sizeof(text) - 1, file) > 0 && !fclose(file),
          "a graph is written as text");
    CHECK(strstr(text, "kernel add_one") && strstr(text, "n0 -> n1"),
          "with its nodes and edges");
    remove(path);
    pair_end(&g);
}

int main(void)
{
    driver_test_open(NULL);
    add_one = driver_test_function(driver_test_module(), "add_one");
    edges();
    parameters();
    attributes();
    child();
    any_node();
    memory();
    events();
    capture_into();
    dot();
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
