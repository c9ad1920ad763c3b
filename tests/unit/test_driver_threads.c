/*
 * Several host threads with streams, events and modules of their own, and one
 * module that they share. Meant to run under ThreadSanitizer too.
 */
#include "driver_test.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 20, N = 300 };

static CUcontext ctx;
static CUmodule shared_module;
static CUdeviceptr shared_counts; /* (THREADS) */

/* Counts calls that failed; checks are made by the main thread. */
static int failures[THREADS];
#define TRY(call)                   \
    do {                            \
        if ((call) != CUDA_SUCCESS) \
            failures[self]++;       \
    } while (0)

static void *work(void *user)
{
    int self = *(int *)user;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction own, common;
    CUdeviceptr p;
    static uint32_t seen[THREADS][N];
    TRY(drv.cuCtxSetCurrent(ctx));
    TRY(drv.cuModuleLoadData(&module, driver_test_ptx));
    TRY(drv.cuModuleGetFunction(&own, module, "add_one"));
    TRY(drv.cuModuleGetFunction(&common, shared_module, "add_one"));
    TRY(drv.cuStreamCreate(&stream, self % 2 ? CU_STREAM_NON_BLOCKING
                                             : CU_STREAM_DEFAULT));
    TRY(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(drv.cuMemAlloc(&p, N * 4));
    TRY(drv.cuMemsetD32Async(p, (unsigned)self, N, stream));
    for (int round = 0; round < ROUNDS; round++) {
        TRY(driver_test_add_one(round % 2 ? own : common, p, N, stream));
        TRY(driver_test_add_one(common, shared_counts + 4 * (unsigned)self, 1,
                                stream));
        TRY(drv.cuEventRecord(event, stream));
        if (round % 4 == 3)
            TRY(drv.cuEventSynchronize(event));
    }
    TRY(drv.cuMemcpyDtoHAsync(seen[self], p, N * 4, stream));
    TRY(drv.cuStreamSynchronize(stream));
    for (int i = 0; i < N; i++)
        if (seen[self][i] != (uint32_t)(self + ROUNDS))
            failures[self]++;
    TRY(drv.cuMemFree(p));
    TRY(drv.cuEventDestroy(event));
    TRY(drv.cuStreamDestroy(stream));
    TRY(drv.cuModuleUnload(module));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int ids[THREADS];
    uint32_t counts[THREADS];
    ctx = driver_test_open(NULL);
    shared_module = driver_test_module();
    OK(drv.cuMemAlloc(&shared_counts, sizeof(counts)));
    OK(drv.cuMemsetD32(shared_counts, 0, THREADS));
    OK(drv.cuCtxSynchronize());
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        pthread_create(&threads[i], NULL, work, &ids[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(drv.cuMemcpyDtoH(counts, shared_counts, sizeof(counts)));
    for (int i = 0; i < THREADS; i++) {
        CHECK(failures[i] == 0, "thread %d did its own work", i);
        CHECK(counts[i] == ROUNDS, "thread %d did its shared work", i);
    }
    CHECK_INT((long long)spt_sim_report_count(), 0, "no reports");
    OK(drv.cuMemFree(shared_counts));
    OK(drv.cuModuleUnload(shared_module));
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
