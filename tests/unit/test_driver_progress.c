/*
 * Work that goes on by itself: what nobody waits for, and the grid barrier of
 * CUDA's cooperative groups.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "driver_test.h"

/* As cooperative groups do it: the workspace's address is in two environment
   registers; one thread of a CTA adds 1 (the first CTA what is missing to
   2^31) at offset 4 and waits for the top bit to change. */
static const char *const grid_ptx =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry meet(.param .u64 p)\n"
    "{\n"
    ".reg .pred %p<3>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<8>;\n"
    "mov.u32 %r1, %envreg2;\nmov.u32 %r2, %envreg1;\n"
    "cvt.u64.u32 %rd1, %r1;\ncvt.u64.u32 %rd2, %r2;\n"
    "bfi.b64 %rd3, %rd2, %rd1, 32, 32;\n"
    "ld.param.u64 %rd4, [p];\n"
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %nctaid.x;\n"
    "red.global.add.u32 [%rd4], 1;\n"
    "membar.gl;\n"
    "mov.u32 %r5, 1;\n"
    "setp.ne.u32 %p1, %r3, 0;\n"
    "@%p1 bra ADD;\n"
    "sub.u32 %r6, 0x80000001, %r4;\nmov.u32 %r5, %r6;\n"
    "ADD:\n"
    "atom.add.u32 %r7, [%rd3+4], %r5;\n"
    "WAIT:\n"
    "ld.volatile.u32 %r8, [%rd3+4];\n"
    "xor.b32 %r9, %r8, %r7;\n"
    "setp.ge.s32 %p2, %r9, 0;\n"
    "@%p2 bra WAIT;\n"
    "ld.volatile.global.u32 %r10, [%rd4];\n"
    "mul.wide.u32 %rd5, %r3, 4;\nadd.u64 %rd6, %rd4, %rd5;\n"
    "st.global.u32 [%rd6+4], %r10;\n"
    "ret;\n}\n";

enum { CTAS = 6 };

static void grid_barrier(void)
{
    CUmodule module;
    CUdeviceptr p;
    uint32_t seen[1 + CTAS];
    void *params[] = {&p};
    OK(drv.cuModuleLoadData(&module, grid_ptx));
    CUfunction meet = driver_test_function(module, "meet");
    OK(drv.cuMemAlloc(&p, sizeof(seen)));
    for (int launch = 0; launch < 2; launch++) {
        OK(drv.cuMemsetD32(p, 0, 1 + CTAS));
        OK(drv.cuLaunchCooperativeKernel(meet, CTAS, 1, 1, 1, 1, 1, 0, NULL,
                                         params));
        OK(drv.cuMemcpyDtoH(seen, p, sizeof(seen)));
        bool all = true;
        for (int i = 0; i <= CTAS; i++)
            all = all && seen[i] == CTAS;
        CHECK(all, "every CTA meets all others, launch %d", launch);
    }
    CHECK_INT(spt_sim_report_count(), 0, "the barrier itself is in order");
    OK(drv.cuMemFree(p));
    OK(drv.cuModuleUnload(module));
}

/* Each of 32 threads adds 1 n times, for the whole system. */
static const char *const system_ptx =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry count(.param .u64 p, .param .u32 n)\n"
    "{\n"
    ".reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %rd;\n"
    "ld.param.u64 %rd, [p];\n"
    "ld.param.u32 %r1, [n];\n"
    "NEXT:\n"
    "atom.global.sys.add.u32 %r2, [%rd], 1;\n"
    "sub.u32 %r1, %r1, 1;\n"
    "setp.ne.u32 %p, %r1, 0;\n"
    "@%p bra NEXT;\n"
    "ret;\n}\n";

enum { STEPS = 20000 };

static void with_the_host(void)
{
    CUmodule module;
    CUdeviceptr p;
    uint32_t n = STEPS;
    void *params[] = {&p, &n};
    OK(drv.cuModuleLoadData(&module, system_ptx));
    CUfunction count = driver_test_function(module, "count");
    OK(drv.cuMemAllocManaged(&p, 4, CU_MEM_ATTACH_GLOBAL));
    _Atomic uint32_t *here = (_Atomic uint32_t *)(uintptr_t)p;
    atomic_store(here, 0);
    OK(drv.cuLaunchKernel(count, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    /* The kernel begins by itself; then both count. */
    for (int i = 0; i < 3000 && !atomic_load(here); i++)
        usleep(10000);
    for (int i = 0; i < STEPS; i++)
        atomic_fetch_add(here, 1);
    OK(drv.cuCtxSynchronize());
    CHECK_INT(atomic_load(here), 33 * STEPS,
              "atomics of the system's scope are so for the host's threads");
    OK(drv.cuMemFree(p));
    OK(drv.cuModuleUnload(module));
}

static void CUDA_CB note(void *user)
{
    atomic_store((atomic_int *)user, 1);
}

static void without_wait(void)
{
    static atomic_int called;
    CUstream stream;
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuLaunchHostFunc(stream, note, &called));
    for (int i = 0; i < 3000 && !atomic_load(&called); i++)
        usleep(10000);
    CHECK_INT(atomic_load(&called), 1, "work runs though nobody waits for it");
    OK(drv.cuStreamDestroy(stream));
}

int main(void)
{
    spt_sim_options options = {.idle_ms = 1};
    driver_test_open(&options);
    grid_barrier();
    without_wait();
    with_the_host();
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
