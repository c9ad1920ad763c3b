/*
 * Runs PTX on sim from a unit program: one device, a buffer `p` that is
 * filled, a buffer `q` that is not, and a pointer that was freed. A kernel is
 *
 *   .entry k(.param .u64 p, .param .u64 q, .param .u64 gone, .param .u32 n)
 *
 * and a test gives its body: %tid is %t, lane %lane, warp %warp; %p, %q and
 * %gone are the pointers, sh is SIM_RUN_SHARED bytes of shared memory.
 */
#ifndef SPT_TEST_SIM_RUN_H
#define SPT_TEST_SIM_RUN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "sim.h"

enum { SIM_RUN_BYTES = 8192, SIM_RUN_SHARED = 4096 };

typedef struct sim_run {
    spt_driver drv;
    CUcontext context;
    CUdeviceptr p, q, gone;
    CUresult result; /* of the last run */
    char error[1200]; /* when PTX was refused */
    uint32_t in[SIM_RUN_BYTES / 4], out[SIM_RUN_BYTES / 4];
} sim_run;

static void sim_run_board(spt_board *b)
{
    memset(b, 0, sizeof *b);
    snprintf(b->name, sizeof b->name, "test_board");
    snprintf(b->title, sizeof b->title, "Test board");
    snprintf(b->arch, sizeof b->arch, "sm90");
    snprintf(b->target, sizeof b->target, "sm_90a");
    b->cc_major = 9;
    b->sm_count = 4;
    b->max_threads_per_sm = 2048;
    b->max_warps_per_sm = 64;
    b->max_ctas_per_sm = 32;
    b->max_threads_per_cta = 1024;
    b->registers_per_sm = 65536;
    b->max_registers_per_thread = 255;
    b->register_unit = 256;
    b->shared_per_sm_bytes = 233472;
    b->shared_per_cta_bytes = 232448;
    b->shared_reserved_bytes = 1024;
    b->clock_mhz = 1000;
    b->dram_gbps = 1000;
    b->dram_efficiency = 1;
    b->l2_gbps = 2000;
    b->l2_bytes = 1 << 22;
    b->memory_bytes = 1e9;
    b->bf16_tflops = 100;
    b->mma_sync_fraction = 1;
    b->shared_latency_cycles = 30;
    b->l2_latency_ns = 200;
    b->dram_latency_ns = 500;
    b->launch_us = 1;
    b->launch_eager_us = 2;
    b->wave_us = 1;
}

static bool sim_run_open(sim_run *s, const spt_sim_options *options)
{
    spt_board board;
    spt_error err;
    memset(s, 0, sizeof *s);
    sim_run_board(&board);
    if (spt_sim_open(&board, 1, options, &s->drv, &err) != SPT_OK) {
        printf("# %s\n", err.text);
        return false;
    }
    s->drv.cuInit(0);
    if (s->drv.cuDevicePrimaryCtxRetain(&s->context, 0) != CUDA_SUCCESS)
        return false;
    s->drv.cuCtxSetCurrent(s->context);
    return true;
}

static void sim_run_close(sim_run *s)
{
    s->drv.cuDevicePrimaryCtxRelease(0);
    spt_sim_close();
}

/* A whole module, kernel k, with fresh buffers; out is q afterwards. */
static void sim_run_module(sim_run *s, const char *text, unsigned blocks,
                           unsigned threads)
{
    CUmodule module;
    CUfunction kernel;
    spt_sim_clear();
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {s->error, (void *)(uintptr_t)sizeof s->error};
    s->error[0] = 0;
    s->result = s->drv.cuModuleLoadDataEx(&module, text, 2, names, values);
    if (s->result) {
        printf("# module: %d %s\n", s->result, s->error);
        return;
    }
    s->drv.cuModuleGetFunction(&kernel, module, "k");
    for (uint32_t i = 0; i < SIM_RUN_BYTES / 4; i++)
        s->in[i] = i * 2654435761u;
    s->drv.cuMemAlloc(&s->p, SIM_RUN_BYTES);
    s->drv.cuMemAlloc(&s->q, SIM_RUN_BYTES);
    s->drv.cuMemAlloc(&s->gone, SIM_RUN_BYTES);
    s->drv.cuMemFree(s->gone);
    s->drv.cuMemcpyHtoD(s->p, s->in, sizeof s->in);
    unsigned n = threads;
    void *params[] = {&s->p, &s->q, &s->gone, &n};
    s->result = s->drv.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0,
                                      NULL, params, NULL);
    if (!s->result)
        s->result = s->drv.cuCtxSynchronize();
    memset(s->out, 0, sizeof s->out);
    if (!s->result)
        s->drv.cuMemcpyDtoH(s->out, s->q, sizeof s->out);
    if (s->result) { /* the context is lost: a new one */
        s->drv.cuDevicePrimaryCtxRelease(0);
        s->drv.cuDevicePrimaryCtxRetain(&s->context, 0);
        s->drv.cuCtxSetCurrent(s->context);
        return;
    }
    s->drv.cuMemFree(s->p);
    s->drv.cuMemFree(s->q);
    s->drv.cuModuleUnload(module);
}

static inline void sim_run_body(sim_run *s, const char *body, unsigned blocks,
                                unsigned threads)
{
    static const char head[] =
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 k_p, .param .u64 k_q,"
        " .param .u64 k_gone, .param .u32 k_n)\n{\n"
        ".reg .pred %x<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n"
        ".reg .f32 %f<32>;\n.reg .b64 %d<32>;\n.reg .f64 %e<8>;\n"
        ".reg .b32 %t, %lane, %warp;\n.reg .b64 %p, %q, %gone;\n"
        ".shared .align 128 .b8 sh[4096];\n"
        ".local .align 16 .b8 loc[128];\n"
        "mov.u32 %t, %tid.x;\nmov.u32 %lane, %laneid;\n"
        "shr.u32 %warp, %t, 5;\n"
        "ld.param.u64 %p, [k_p];\ncvta.to.global.u64 %p, %p;\n"
        "ld.param.u64 %q, [k_q];\ncvta.to.global.u64 %q, %q;\n"
        "ld.param.u64 %gone, [k_gone];\ncvta.to.global.u64 %gone, %gone;\n"
        "mad.wide.u32 %d0, %t, 4, %p;\n" /* &p[tid] */
        "mad.wide.u32 %d1, %t, 4, %q;\n" /* &q[tid] */
        "mov.u32 %r0, sh;\nshl.b32 %r1, %t, 2;\n"
        "add.u32 %r1, %r0, %r1;\n"; /* &sh[tid], 4-byte words */
    spt_buf text = {0};
    spt_buf_puts(&text, head);
    spt_buf_puts(&text, body);
    spt_buf_puts(&text, "\nret;\n}\n.file 1 \"fault.cu\"\n");
    sim_run_module(s, text.data, blocks, threads);
    spt_buf_free(&text);
}

#endif
