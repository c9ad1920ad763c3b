/*
 * Runs a kernel of PTX text on sim for the instruction tests: one block, a
 * thread per row; in and out are tables of 8-byte slots, (rows, columns).
 */
#ifndef SPT_PTX_RUN_H
#define SPT_PTX_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { PTX_RUN_BUFFER = 65536 };

static const int ptx_run_capabilities[] = {80, 89, 90, 100, 120};
enum {
    PTX_RUN_DEVICES = sizeof ptx_run_capabilities / sizeof *ptx_run_capabilities
};

typedef struct ptx_run {
    spt_driver driver;
    CUcontext contexts[PTX_RUN_DEVICES];
    char error[1400]; /* why the last call failed */
} ptx_run;

static bool ptx_run_good(ptx_run *run, CUresult result, const char *what)
{
    spt_error err;
    if (result == CUDA_SUCCESS)
        return true;
    spt_driver_check(&run->driver, result, what, &err);
    snprintf(run->error, sizeof run->error, "%s; %s", err.text,
             spt_sim_last_error());
    return false;
}

static spt_board ptx_run_board(int capability)
{
    spt_board board = {.cc_major = capability / 10,
                       .cc_minor = capability % 10,
                       .sm_count = 4,
                       .max_threads_per_sm = 1536,
                       .max_warps_per_sm = 48,
                       .max_ctas_per_sm = 16,
                       .max_threads_per_cta = 1024,
                       .registers_per_sm = 65536,
                       .max_registers_per_thread = 255,
                       .register_unit = 256,
                       .shared_per_sm_bytes = 100 << 10,
                       .shared_per_cta_bytes = 99 << 10,
                       .shared_reserved_bytes = 1024,
                       .clock_mhz = 1500,
                       .dram_gbps = 1000,
                       .dram_efficiency = 0.9,
                       .l2_gbps = 3000,
                       .l2_bytes = 32 << 20,
                       .memory_bytes = 1 << 30,
                       .bf16_tflops = 100,
                       .mma_sync_fraction = 1,
                       .shared_latency_cycles = 30,
                       .l2_latency_ns = 200,
                       .dram_latency_ns = 500,
                       .launch_us = 2,
                       .launch_eager_us = 4,
                       .wave_us = 1};
    snprintf(board.name, sizeof board.name, "test_%d", capability);
    snprintf(board.title, sizeof board.title, "test board %d", capability);
    snprintf(board.arch, sizeof board.arch, "sm%d", capability);
    snprintf(board.target, sizeof board.target, "sm_%d%s", capability,
             capability >= 90 ? "a" : "");
    return board;
}

static bool ptx_run_open(ptx_run *run)
{
    spt_board boards[PTX_RUN_DEVICES];
    spt_sim_options options = {.threads = 1};
    spt_error err;
    for (int i = 0; i < PTX_RUN_DEVICES; i++)
        boards[i] = ptx_run_board(ptx_run_capabilities[i]);
    if (spt_sim_open(boards, PTX_RUN_DEVICES, &options, &run->driver, &err) !=
        SPT_OK) {
        snprintf(run->error, sizeof run->error, "%s", err.text);
        return false;
    }
    if (!ptx_run_good(run, run->driver.cuInit(0), "cuInit"))
        return false;
    for (int i = 0; i < PTX_RUN_DEVICES; i++)
        if (!ptx_run_good(
                run, run->driver.cuDevicePrimaryCtxRetain(&run->contexts[i], i),
                "cuDevicePrimaryCtxRetain"))
            return false;
    return true;
}

static void ptx_run_close(ptx_run *run)
{
    for (int i = 0; i < PTX_RUN_DEVICES; i++)
        if (run->contexts[i])
            run->driver.cuDevicePrimaryCtxRelease(i);
    spt_sim_close();
}

/* Makes the device current on which the newest module of target can run. */
static bool ptx_run_select(ptx_run *run, const char *target)
{
    int sm = atoi(target + 3), best = -1;
    for (int i = PTX_RUN_DEVICES; i--;)
        if (ptx_run_capabilities[i] >= sm)
            best = i;
    return best >= 0 &&
           ptx_run_good(run, run->driver.cuCtxSetCurrent(run->contexts[best]),
                        "cuCtxSetCurrent");
}

typedef struct ptx_run_memory {
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr in, out, buf;
} ptx_run_memory;

static bool ptx_run_launch(ptx_run *run, ptx_run_memory *m, unsigned rows,
                           const uint64_t *in, size_t bytes)
{
    const spt_driver *d = &run->driver;
    void *params[] = {&m->in, &m->out, &m->buf};
    return ptx_run_good(run, d->cuMemAlloc(&m->in, bytes), "cuMemAlloc") &&
           ptx_run_good(run, d->cuMemAlloc(&m->out, bytes), "cuMemAlloc") &&
           ptx_run_good(run, d->cuMemAlloc(&m->buf, PTX_RUN_BUFFER),
                        "cuMemAlloc") &&
           ptx_run_good(run, d->cuMemsetD8(m->out, 0, bytes), "cuMemsetD8") &&
           ptx_run_good(run, d->cuMemsetD8(m->buf, 0, PTX_RUN_BUFFER),
                        "cuMemsetD8") &&
           ptx_run_good(run, d->cuMemcpyHtoD(m->in, in, bytes),
                        "cuMemcpyHtoD") &&
           ptx_run_good(run,
                        d->cuLaunchKernel(m->kernel, 1, 1, 1, rows, 1, 1, 0,
                                          NULL, params, NULL),
                        "cuLaunchKernel") &&
           ptx_run_good(run, d->cuCtxSynchronize(), "cuCtxSynchronize");
}

/* Runs kernel "case_kernel" of text; false with run->error. */
static bool ptx_run_text(ptx_run *run, const char *target, const char *text,
                         unsigned rows, unsigned columns, const uint64_t *in,
                         uint64_t *out)
{
    const spt_driver *d = &run->driver;
    ptx_run_memory m = {0};
    size_t bytes = (size_t)rows * columns * sizeof *in;
    run->error[0] = 0;
    bool good =
        ptx_run_select(run, target) &&
        ptx_run_good(run, d->cuModuleLoadDataEx(&m.module, text, 0, NULL, NULL),
                     "cuModuleLoadDataEx") &&
        ptx_run_good(run,
                     d->cuModuleGetFunction(&m.kernel, m.module, "case_kernel"),
                     "cuModuleGetFunction") &&
        ptx_run_launch(run, &m, rows, in, bytes) &&
        ptx_run_good(run, d->cuMemcpyDtoH(out, m.out, bytes), "cuMemcpyDtoH");
    if (m.in)
        d->cuMemFree(m.in);
    if (m.out)
        d->cuMemFree(m.out);
    if (m.buf)
        d->cuMemFree(m.buf);
    if (m.module)
        d->cuModuleUnload(m.module);
    return good;
}

#endif
