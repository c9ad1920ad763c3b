/* Order of streams, events, captures and graphs of sim's driver. */
#include "driver_test.h"

static CUfunction add_one;

static uint32_t number_at(CUdeviceptr p)
{
    uint32_t value = 0;
    OK(drv.cuMemcpyDtoH(&value, p, 4));
    return value;
}

static void laziness(void)
{
    CUstream a, b;
    CUdeviceptr p;
    uint32_t *seen;
    OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemAllocHost((void **)&seen, 4));
    OK(drv.cuMemsetD32(p, 0, 1));
    OK(drv.cuCtxSynchronize());

    OK(driver_test_add_one(add_one, p, 1, a));
    OK(drv.cuMemcpyDtoHAsync(seen, p, 4, b));
    OK(drv.cuStreamSynchronize(b));
    CHECK_INT(*seen, 0, "a stream that does not wait sees the old value");
    CHECK_INT(drv.cuStreamQuery(a), CUDA_ERROR_NOT_READY, "work is pending");
    while (drv.cuStreamQuery(a) == CUDA_ERROR_NOT_READY)
        ;
    CHECK_INT(number_at(p), 1, "queries get the work done");

    CUevent event;
    OK(drv.cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(driver_test_add_one(add_one, p, 1, a));
    OK(drv.cuEventRecord(event, a));
    OK(driver_test_add_one(add_one, p, 1, a));
    OK(drv.cuStreamWaitEvent(b, event, 0));
    OK(drv.cuMemcpyDtoHAsync(seen, p, 4, b));
    OK(drv.cuStreamSynchronize(b));
    CHECK_INT(*seen, 2, "an event orders streams, and nothing more");
    CHECK_INT(drv.cuEventQuery(event), CUDA_SUCCESS, "the event is done");
    OK(drv.cuStreamDestroy(a));
    CHECK_INT(number_at(p), 3, "a destroyed stream ends its work");
    OK(drv.cuEventDestroy(event));
    OK(drv.cuStreamDestroy(b));
    OK(drv.cuMemFreeHost(seen));
    OK(drv.cuMemFree(p));
}

static void default_stream(void)
{
    CUstream blocking;
    CUdeviceptr p;
    OK(drv.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemsetD32(p, 5, 1));
    OK(driver_test_add_one(add_one, p, 1, blocking));
    CHECK_INT(number_at(p), 6, "the default stream waits for blocking ones");
    OK(drv.cuMemsetD32(p, 10, 1));
    OK(driver_test_add_one(add_one, p, 1, blocking));
    OK(drv.cuMemsetD32(p + 0, 20, 1));
    OK(driver_test_add_one(add_one, p, 1, blocking));
    OK(drv.cuStreamSynchronize(blocking));
    CHECK_INT(number_at(p), 21, "and blocking ones for it");
    OK(driver_test_add_one(add_one, p, 1, CU_STREAM_PER_THREAD));
    CHECK_INT(number_at(p), 22, "the per-thread stream is a blocking one");
    OK(drv.cuStreamDestroy(blocking));
    OK(drv.cuMemFree(p));
}

static void elapsed(void)
{
    CUevent start, end, untimed;
    CUdeviceptr p;
    float ms = -1;
    uint32_t n = 1 << 16;
    OK(drv.cuMemAlloc(&p, 4 * n));
    OK(drv.cuMemsetD32(p, 0, n));
    OK(drv.cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(drv.cuEventCreate(&end, CU_EVENT_DEFAULT));
    OK(drv.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK_INT(drv.cuEventElapsedTime(&ms, start, end),
              CUDA_ERROR_INVALID_HANDLE, "events that were never recorded");
    OK(drv.cuEventRecord(start, NULL));
    OK(driver_test_add_one(add_one, p, n, NULL));
    OK(drv.cuEventRecord(end, NULL));
    CHECK_INT(drv.cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY,
              "events whose work is pending");
    OK(drv.cuEventSynchronize(end));
    OK(drv.cuEventElapsedTime(&ms, start, end));
    CHECK(ms > 1e-3 && ms < 1, "a modelled time of some microseconds");
    OK(drv.cuEventRecord(untimed, NULL));
    OK(drv.cuEventSynchronize(untimed));
    CHECK_INT(drv.cuEventElapsedTime(&ms, start, untimed),
              CUDA_ERROR_INVALID_HANDLE, "an event without timing");
    OK(drv.cuEventDestroy(start));
    OK(drv.cuEventDestroy(end));
    OK(drv.cuEventDestroy(untimed));
    OK(drv.cuMemFree(p));
}

static CUstream forbidden_stream;
static CUresult forbidden_result;

static void CUDA_CB note(void *user)
{
    ++*(int *)user;
    forbidden_result = drv.cuStreamSynchronize(forbidden_stream);
}

static void host_functions(void)
{
    int count = 0;
    CUstream stream;
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    forbidden_stream = stream;
    OK(drv.cuLaunchHostFunc(stream, note, &count));
    CHECK_INT(count, 0, "a host function runs later");
    OK(drv.cuStreamSynchronize(stream));
    CHECK_INT(count, 1, "a host function runs once");
    CHECK_INT(forbidden_result, CUDA_ERROR_NOT_PERMITTED,
              "a host function may not call the driver");
    OK(drv.cuStreamDestroy(stream));
}

static void capture(void)
{
    CUstream a, b;
    CUdeviceptr p, q;
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    size_t count = 0;
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemAlloc(&q, 4));
    OK(drv.cuMemsetD32(p, 0, 1));
    OK(drv.cuMemsetD32(q, 100, 1));
    OK(drv.cuCtxSynchronize());
    OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(drv.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(drv.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));

    OK(drv.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(driver_test_add_one(add_one, p, 1, a));
    OK(drv.cuEventRecord(fork, a));
    OK(drv.cuStreamWaitEvent(b, fork, 0));
    OK(driver_test_add_one(add_one, q, 1, b));
    OK(driver_test_add_one(add_one, p, 1, a));
    OK(drv.cuEventRecord(join, b));
    OK(drv.cuStreamWaitEvent(a, join, 0));
    OK(drv.cuMemcpyDtoDAsync(q, p, 0, a));
    CHECK_INT(drv.cuStreamSynchronize(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "a capturing stream cannot be waited for");
    OK(drv.cuStreamEndCapture(a, &graph));
    OK(drv.cuGraphGetNodes(graph, NULL, &count));
    CHECK_INT((long long)count, 3, "three nodes");
    CHECK(number_at(p) == 0 && number_at(q) == 100, "nothing ran");

    OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(drv.cuGraphDestroy(graph));
    OK(drv.cuGraphLaunch(exec, a));
    OK(drv.cuGraphLaunch(exec, a));
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuStreamSynchronize(a));
    CHECK(number_at(p) == 4 && number_at(q) == 102,
          "two launches, also of a destroyed executable");

    OK(drv.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(drv.cuEventRecord(fork, a));
    OK(drv.cuStreamWaitEvent(b, fork, 0));
    OK(driver_test_add_one(add_one, q, 1, b));
    CHECK_INT(drv.cuStreamEndCapture(a, &graph),
              CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a fork that never joined");
    OK(drv.cuStreamSynchronize(b));
    CHECK_INT(drv.cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              "the default stream cannot capture");
    CHECK_INT(drv.cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE,
              "an end without a beginning");
    OK(drv.cuEventDestroy(fork));
    OK(drv.cuEventDestroy(join));
    OK(drv.cuStreamDestroy(a));
    OK(drv.cuStreamDestroy(b));
    OK(drv.cuMemFree(p));
    OK(drv.cuMemFree(q));
}

/* The stream's context counts, not the one that is current. */
static void capture_elsewhere(void)
{
    CUstream stream;
    CUgraph graph;
    CUcontext other;
    CUstreamCaptureStatus status;
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(drv.cuCtxCreate(&other, NULL, 0, 0));
    OK(drv.cuStreamEndCapture(stream, &graph));
    OK(drv.cuStreamIsCapturing(stream, &status));
    CHECK_INT(status, CU_STREAM_CAPTURE_STATUS_NONE,
              "a capture that ends under another context has ended");
    OK(drv.cuGraphDestroy(graph));
    OK(drv.cuCtxDestroy(other));
    CHECK_INT(drv.cuStreamSynchronize(stream), CUDA_SUCCESS,
              "and its stream can be waited for");
    OK(drv.cuStreamDestroy(stream));
}

static void graphs_by_hand(void)
{
    CUdeviceptr p, q;
    uint32_t n = 1;
    CUgraph graph;
    CUgraphNode set, first, second, list[4];
    CUgraphExec exec;
    size_t count = 4;
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemAlloc(&q, 4));
    OK(drv.cuMemsetD32(q, 50, 1));
    OK(drv.cuGraphCreate(&graph, 0));
    void *params[] = {&p, &n};
    CUDA_KERNEL_NODE_PARAMS kernel = {
        .func = add_one,
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 32,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = params,
    };
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = p,
        .value = 7,
        .elementSize = 4,
        .width = 1,
        .height = 1,
    };
    OK(drv.cuGraphAddKernelNode(&first, graph, NULL, 0, &kernel));
    OK(drv.cuGraphAddKernelNode(&second, graph, &first, 1, &kernel));
    OK(drv.cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, NULL));
    OK(drv.cuGraphAddDependencies(graph, &set, &first, NULL, 1));
    OK(drv.cuGraphGetRootNodes(graph, list, &count));
    CHECK(count == 1 && list[0] == set, "one root");
    OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(drv.cuGraphLaunch(exec, NULL));
    CHECK_INT(number_at(p), 9, "nodes run after what they need");
    params[0] = &q;
    OK(drv.cuGraphExecKernelNodeSetParams(exec, second, &kernel));
    OK(drv.cuGraphLaunch(exec, NULL));
    CHECK(number_at(p) == 8 && number_at(q) == 51, "a node's new parameters");
    OK(drv.cuGraphExecUpdate(exec, graph, NULL));
    OK(drv.cuGraphLaunch(exec, NULL));
    CHECK_INT(number_at(p), 9, "an update brings the graph's back");
    OK(drv.cuGraphAddDependencies(graph, &second, &set, NULL, 1));
    CUgraphExec none;
    CHECK_INT(drv.cuGraphInstantiateWithFlags(&none, graph, 0),
              CUDA_ERROR_INVALID_VALUE, "a cycle is refused");
    OK(drv.cuGraphExecDestroy(exec));
    OK(drv.cuGraphDestroy(graph));
    OK(drv.cuMemFree(p));
    OK(drv.cuMemFree(q));
}

int main(void)
{
    driver_test_open(NULL);
    CUmodule module = driver_test_module();
    add_one = driver_test_function(module, "add_one");
    laziness();
    default_stream();
    elapsed();
    host_functions();
    capture();
    capture_elsewhere();
    graphs_by_hand();
    OK(drv.cuModuleUnload(module));
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
