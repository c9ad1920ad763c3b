/*
 * What the tests of sim's driver share: a machine with one test board, a
 * context, and a module of small kernels.
 *
 *   add_one(p, n)     p[i] += 1
 *   add(a, b, c, n)   c[i] = a[i] + b[i]
 *   store_bad(p)      stores to p, whatever it is
 *   bounded(p)        at most 64 threads per block
 *   with_shared(p)    1,024 bytes of static, and dynamic shared memory
 */
#ifndef SPT_DRIVER_TEST_H
#define SPT_DRIVER_TEST_H

#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "sim.h"
#include "test_board.h"

static spt_driver drv;

#define INDEX_PTX                      \
    "mov.u32 %r1, %ctaid.x;\n"         \
    "mov.u32 %r2, %ntid.x;\n"          \
    "mov.u32 %r3, %tid.x;\n"           \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\n" \
    "setp.ge.s32 %p1, %r4, %r5;\n"     \
    "@%p1 bra DONE;\n"                 \
    "mul.wide.s32 %rd4, %r4, 4;\n"

__attribute__((unused)) static const char *const driver_test_ptx =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .u32 number = 7;\n"
    ".const .align 4 .b32 table[2] = {11, 22};\n"
    ".visible .entry add_one(.param .u64 p, .param .u32 n)\n"
    "{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [p];\n"
    "ld.param.u32 %r5, [n];\n"
    "cvta.to.global.u64 %rd2, %rd1;\n" INDEX_PTX "add.s64 %rd5, %rd2, %rd4;\n"
    "ld.global.u32 %r6, [%rd5];\n"
    "add.s32 %r7, %r6, 1;\n"
    "st.global.u32 [%rd5], %r7;\n"
    "DONE:\nret;\n}\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c,\n"
    ".param .u32 n)\n"
    "{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<12>;\n"
    ".reg .f32 %f<4>;\n"
    "ld.param.u64 %rd1, [a];\n"
    "ld.param.u64 %rd2, [b];\n"
    "ld.param.u64 %rd3, [c];\n"
    "ld.param.u32 %r5, [n];\n" INDEX_PTX "add.s64 %rd5, %rd1, %rd4;\n"
    "add.s64 %rd6, %rd2, %rd4;\n"
    "add.s64 %rd7, %rd3, %rd4;\n"
    "ld.global.f32 %f1, [%rd5];\n"
    "ld.global.f32 %f2, [%rd6];\n"
    "add.f32 %f3, %f1, %f2;\n"
    "st.global.f32 [%rd7], %f3;\n"
    "DONE:\nret;\n}\n"
    ".visible .entry store_bad(.param .u64 p)\n"
    "{\n"
    ".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, 1;\n"
    "st.global.u32 [%rd1], %r1;\n"
    "ret;\n}\n"
    ".visible .entry bounded(.param .u64 p) .maxntid 64, 1, 1\n"
    "{\nret;\n}\n"
    ".visible .entry with_shared(.param .u64 p)\n"
    "{\n"
    ".reg .b32 %r<2>;\n"
    ".shared .align 16 .b8 room[1024];\n"
    "mov.u32 %r1, 5;\n"
    "st.shared.u32 [room], %r1;\n"
    "ret;\n}\n";

/* One call that must succeed; says which did not. */
#define OK(call) driver_test_ok((call), #call, __LINE__)
__attribute__((unused)) static bool driver_test_ok(CUresult result,
                                                   const char *call, int line)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return true;
    drv.cuGetErrorName(result, &name);
    check_at_(__FILE__, line, false, "%s", call);
    printf("#   %s (%s), line %d\n", name, spt_sim_last_error(), line);
    return false;
}

/* Opens the machine and makes the first device's primary context current. */
__attribute__((unused)) static CUcontext
driver_test_open(const spt_sim_options *options)
{
    spt_board board = test_board();
    spt_error err;
    CUcontext ctx = NULL;
    if (spt_sim_open(&board, 1, options, &drv, &err) != SPT_OK) {
        CHECK(false, "sim opens: %s", err.text);
        exit(check_done());
    }
    OK(drv.cuInit(0));
    OK(drv.cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(drv.cuCtxSetCurrent(ctx));
    return ctx;
}

__attribute__((unused)) static CUmodule driver_test_module(void)
{
    CUmodule module = NULL;
    if (!OK(drv.cuModuleLoadData(&module, driver_test_ptx)))
        exit(check_done());
    return module;
}

__attribute__((unused)) static CUfunction driver_test_function(CUmodule module,
                                                               const char *name)
{
    CUfunction function = NULL;
    if (!OK(drv.cuModuleGetFunction(&function, module, name)))
        exit(check_done());
    return function;
}

/* Launches add_one over n numbers at p. */
__attribute__((unused)) static CUresult driver_test_add_one(CUfunction function,
                                                            CUdeviceptr p,
                                                            uint32_t n,
                                                            CUstream stream)
{
    void *params[] = {&p, &n};
    return drv.cuLaunchKernel(function, (n + 127) / 128, 1, 1, 128, 1, 1, 0,
                              stream, params, NULL);
}

#endif
