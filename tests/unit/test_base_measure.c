/* The meter over a driver table of this file: kernels take known times. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "measure.h"

static spt_error err;
static int launches, flushes, fail_after, live_graphs;
static int order[256];
static double clock_us, begin_us, end_us;
static CUfunction recorded; /* what the capture saw */

#define FAKE(name, parameters)                      \
    static CUresult CUDAAPI fake_##name parameters; \
    static CUresult CUDAAPI fake_##name parameters

FAKE(attribute, (int *value, CUdevice_attribute a, CUdevice d))
{
    (void)a, (void)d;
    *value = 1 << 20;
    return CUDA_SUCCESS;
}

FAKE(alloc, (CUdeviceptr * p, size_t bytes))
{
    *p = bytes == 2 << 20 ? 1 : 0;
    return CUDA_SUCCESS;
}

FAKE(free, (CUdeviceptr p))
{
    (void)p;
    return CUDA_SUCCESS;
}

FAKE(stream_create, (CUstream * s, unsigned flags))
{
    (void)flags;
    *s = (CUstream)&clock_us;
    return CUDA_SUCCESS;
}

FAKE(stream, (CUstream s))
{
    (void)s;
    return CUDA_SUCCESS;
}

FAKE(event_create, (CUevent * e, unsigned flags))
{
    static int made;
    (void)flags;
    *e = made++ % 2 ? (CUevent)&end_us : (CUevent)&begin_us;
    return CUDA_SUCCESS;
}

FAKE(event, (CUevent e))
{
    (void)e;
    return CUDA_SUCCESS;
}

FAKE(record, (CUevent e, CUstream s))
{
    (void)s;
    *(double *)(void *)e = clock_us;
    return CUDA_SUCCESS;
}

FAKE(elapsed, (float *ms, CUevent a, CUevent b))
{
    *ms = (float)((*(double *)(void *)b - *(double *)(void *)a) / 1e3);
    return CUDA_SUCCESS;
}

FAKE(memset32, (CUdeviceptr p, unsigned v, size_t n, CUstream s))
{
    (void)p, (void)v, (void)n, (void)s;
    flushes++;
    clock_us += 1000;
    return CUDA_SUCCESS;
}

FAKE(kernel,
     (CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
      unsigned g, unsigned shared, CUstream s, void **params, void **extra))
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)g;
    (void)shared, (void)s, (void)params, (void)extra;
    recorded = f;
    return CUDA_SUCCESS;
}

FAKE(begin_capture, (CUstream s, CUstreamCaptureMode mode))
{
    (void)s, (void)mode;
    return CUDA_SUCCESS;
}

FAKE(end_capture, (CUstream s, CUgraph *g))
{
    (void)s;
    *g = (CUgraph)recorded;
    return CUDA_SUCCESS;
}

FAKE(instantiate, (CUgraphExec * e, CUgraph g, unsigned long long flags))
{
    (void)flags;
    *e = (CUgraphExec)g;
    live_graphs++;
    return CUDA_SUCCESS;
}

FAKE(graph_launch, (CUgraphExec e, CUstream s))
{
    (void)s;
    if (fail_after && launches >= fail_after)
        return CUDA_ERROR_LAUNCH_FAILED;
    int subject = *(int *)(void *)e;
    order[launches++ % 256] = subject;
    /* Every fifth run of a kernel stalls. */
    clock_us += 10.0 * subject + (launches % 5 == 0 ? 500 : 0);
    return CUDA_SUCCESS;
}

FAKE(exec_destroy, (CUgraphExec e))
{
    (void)e;
    live_graphs--;
    return CUDA_SUCCESS;
}

FAKE(graph_destroy, (CUgraph g))
{
    (void)g;
    return CUDA_SUCCESS;
}

FAKE(error_text, (CUresult r, const char **text))
{
    (void)r;
    *text = "FAKE";
    return CUDA_SUCCESS;
}

static spt_driver driver = {
    .cuDeviceGetAttribute = fake_attribute,
    .cuMemAlloc = fake_alloc,
    .cuMemFree = fake_free,
    .cuStreamCreate = fake_stream_create,
    .cuStreamDestroy = fake_stream,
    .cuStreamSynchronize = fake_stream,
    .cuEventCreate = fake_event_create,
    .cuEventDestroy = fake_event,
    .cuEventRecord = fake_record,
    .cuEventElapsedTime = fake_elapsed,
    .cuMemsetD32Async = fake_memset32,
    .cuLaunchKernel = fake_kernel,
    .cuStreamBeginCapture = fake_begin_capture,
    .cuStreamEndCapture = fake_end_capture,
    .cuGraphInstantiateWithFlags = fake_instantiate,
    .cuGraphLaunch = fake_graph_launch,
    .cuGraphExecDestroy = fake_exec_destroy,
    .cuGraphDestroy = fake_graph_destroy,
    .cuGetErrorName = fake_error_text,
    .cuGetErrorString = fake_error_text,
};

static int kernel_ids[2] = {1, 2};
static spt_launch kernels[2];
static const spt_subject subjects[2] = {
    {"kernel one", &kernels[0], 1},
    {"kernel two", &kernels[1], 1},
};

static spt_status measure(const char *samples, spt_timing *timings)
{
    spt_meter *meter;
    spt_meter_options options = {
        .rounds = 9, .warmups = 1, .events = true, .samples = samples};
    SPT_TRY(spt_meter_open(&driver, 0, &options, &meter, &err));
    spt_status status = spt_meter_run(meter, subjects, 2, timings, &err);
    spt_meter_close(meter);
    return status;
}

static void test_medians(void)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    CHECK_NEAR(spt_median(odd, 3), 2, 0, "odd count");
    CHECK_NEAR(spt_median(even, 4), 2.5, 0, "even count");
    CHECK_NEAR(spt_median(odd, 0), 0, 0, "none");
}

static void test_times(void)
{
    spt_timing t[2];
    launches = flushes = 0;
    CHECK_OK(measure(NULL, t), &err, "two subjects are timed");
    CHECK_NEAR(t[0].median_us, 10, 1e-3, "a stalled run does not move it");
    CHECK_NEAR(t[1].median_us, 20, 1e-3, "nor the other's");
    CHECK_INT(t[0].samples, 9, "rounds");
    CHECK_TEXT(t[0].source, "events", "source");
    CHECK_TEXT(t[0].evidence, "measured", "evidence on a GPU");
    CHECK_INT(launches, 20, "one warm-up and nine rounds each");
    CHECK_INT(flushes, 20, "the L2 is evicted before each");
    CHECK(order[2] == 1 && order[3] == 2 && order[4] == 2 && order[5] == 1,
          "rounds start with another subject");
    CHECK_INT(live_graphs, 0, "graphs are gone");
    driver.is_sim = true;
    flushes = 0;
    CHECK_OK(measure(NULL, t), &err, "on sim");
    CHECK_TEXT(t[0].source, "sim", "source on sim");
    CHECK_TEXT(t[0].evidence, "simulated", "never measured on sim");
    CHECK_INT(flushes, 0, "nothing to evict");
    driver.is_sim = false;
}

static void test_resume(void)
{
    char path[] = "/tmp/spt_samples_XXXXXX";
    spt_timing t[2];
    int fd = mkstemp(path);
    const char *torn = "events\tkernel o";
    launches = 0;
    fail_after = 8;
    CHECK(measure(path, t) == SPT_E_DEVICE, "a run that fails in the middle");
    CHECK_HAS(err.text, "cuGraphLaunch", "says which call");
    CHECK_INT(live_graphs, 0, "and leaves nothing");
    CHECK(fd >= 0, "samples");
    fail_after = launches = 0;
    CHECK_OK(measure(path, t), &err, "the next run goes on");
    CHECK_INT(launches, 2 + 18 - 6, "with what is missing");
    CHECK_INT(t[0].samples, 9, "and has all samples");
    launches = 0;
    CHECK_OK(measure(path, t), &err, "a third has nothing to do");
    CHECK_INT(launches, 0, "no launch");
    CHECK_NEAR(t[1].median_us, 20, 1e-3, "same result");
    lseek(fd, 0, SEEK_END);
    CHECK(write(fd, torn, strlen(torn)) > 0, "a torn last line");
    CHECK_OK(measure(path, t), &err, "is skipped");
    close(fd);
    unlink(path);
    CHECK(measure("/nonexistent/x", t) == SPT_E_IO, "no folder");
    CHECK_HAS(err.text, "/nonexistent/x: cannot write", "named");
}

int main(void)
{
    for (int i = 0; i < 2; i++)
        kernels[i].function = (CUfunction)(void *)&kernel_ids[i];
    test_medians();
    test_times();
    test_resume();
    return check_done();
}
