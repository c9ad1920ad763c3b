/* cuLink on PTX: parts that need each other, and names that meet. */
#include <string.h>

#include "driver_test.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* Needs twice, shared_number and total of the other part; has a local table,
   a weak function and a local function of its own. */
static const char *const first_part =
    HEAD "// a comment with .func and { in it\n"
         ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
         ".extern .global .align 4 .u32 total;\n"
         ".global .align 4 .u32 table[2] = {100, 200};\n"
         ".weak .func (.param .b32 r) common(.param .b32 x)\n"
         "{ .reg .b32 %r; ld.param.u32 %r, [x]; add.u32 %r, %r, 1;\n"
         "st.param.b32 [r], %r; ret; }\n"
         ".func (.param .b32 r) own()\n"
         "{ .reg .b32 %r; mov.u32 %r, 1000; st.param.b32 [r], %r; ret; }\n"
         ".visible .entry main_kernel(.param .u64 p)\n"
         "{\n"
         ".reg .b32 %r<8>;\n.reg .b64 %rd<3>;\n"
         "ld.param.u64 %rd1, [p];\n"
         "ld.global.u32 %r1, [table+4];\n" /* 200 */
         "{ .param .b32 a; .param .b32 b;\n"
         "st.param.b32 [a], %r1;\ncall (b), twice, (a);\n"
         "ld.param.b32 %r2, [b]; }\n" /* 400 + 7 + 3 */
         "{ .param .b32 a; .param .b32 b;\n"
         "st.param.b32 [a], %r2;\ncall (b), common, (a);\n"
         "ld.param.b32 %r3, [b]; }\n" /* + 1 */
         "{ .param .b32 b;\ncall (b), own;\n"
         "ld.param.b32 %r4, [b]; }\n"
         "ld.global.u32 %r5, [total];\n" /* 50 */
         "add.u32 %r6, %r3, %r4;\nadd.u32 %r6, %r6, %r5;\n"
         "st.global.u32 [%rd1], %r6;\n"
         "ret;\n}\n";

static const char *const second_part =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .u32 table[2] = {7, 8};\n"
    ".visible .global .align 4 .u32 total = 50;\n"
    ".weak .func (.param .b32 r) common(.param .b32 x)\n"
    "{ .reg .b32 %r; ld.param.u32 %r, [x]; add.u32 %r, %r, 1;\n"
    "st.param.b32 [r], %r; ret; }\n"
    ".func (.param .b32 r) own()\n"
    "{ .reg .b32 %r; mov.u32 %r, 3; st.param.b32 [r], %r; ret; }\n"
    ".visible .func (.param .b32 r) twice(.param .b32 x)\n"
    "{\n"
    ".reg .b32 %r<6>;\n"
    "ld.param.u32 %r1, [x];\nadd.u32 %r2, %r1, %r1;\n"
    "ld.global.u32 %r3, [table];\nadd.u32 %r2, %r2, %r3;\n"
    "{ .param .b32 b;\ncall (b), own;\nld.param.b32 %r4, [b]; }\n"
    "add.u32 %r2, %r2, %r4;\n"
    "st.param.b32 [r], %r2;\n"
    "ret;\n}\n";

static CUresult add(CUlinkState state, const char *text)
{
    return drv.cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text,
                             strlen(text) + 1, "part", 0, NULL, NULL);
}

static void two_parts(bool swapped)
{
    CUlinkState state;
    void *image;
    size_t size = 0;
    CUmodule module;
    CUdeviceptr p;
    uint32_t seen = 0;
    void *params[] = {&p};
    OK(drv.cuLinkCreate(0, NULL, NULL, &state));
    OK(add(state, swapped ? second_part : first_part));
    OK(add(state, swapped ? first_part : second_part));
    if (!OK(drv.cuLinkComplete(state, &image, &size)))
        return;
    OK(drv.cuModuleLoadData(&module, image));
    OK(drv.cuLinkDestroy(state));
    CUfunction kernel = driver_test_function(module, "main_kernel");
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(drv.cuMemcpyDtoH(&seen, p, 4));
    CHECK_INT(seen, 400 + 7 + 3 + 1 + 1000 + 50,
              swapped ? "the order of the parts does not matter"
                      : "parts find each other's names and keep their own");
    OK(drv.cuMemFree(p));
    OK(drv.cuModuleUnload(module));
}

static void refused(void)
{
    CUlinkState state;
    void *image;
    size_t size;
    char log[256] = "";
    CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER,
                               CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[2] = {log, (void *)(uintptr_t)sizeof(log)};
    OK(drv.cuLinkCreate(2, options, values, &state));
    CHECK_INT(drv.cuLinkComplete(state, &image, &size),
              CUDA_ERROR_INVALID_VALUE, "nothing to link");
    CHECK_INT(drv.cuLinkAddData(state, CU_JIT_INPUT_CUBIN, log, 1, "x", 0, NULL,
                                NULL),
              CUDA_ERROR_NOT_SUPPORTED, "machine code is refused");
    OK(add(state, second_part));
    OK(add(state, second_part));
    CHECK_INT(drv.cuLinkComplete(state, &image, &size), CUDA_ERROR_INVALID_PTX,
              "a name that two parts define");
    CHECK_HAS(log, "declared twice", "the log says which");
    OK(drv.cuLinkDestroy(state));
    OK(drv.cuLinkCreate(0, NULL, NULL, &state));
    OK(add(state, HEAD ".visible .entry open() { ret;\n"));
    CHECK_INT(drv.cuLinkComplete(state, &image, &size), CUDA_ERROR_INVALID_PTX,
              "a part that does not end");
    CHECK_HAS(spt_sim_last_error(), "part 1", "says which part");
    OK(drv.cuLinkDestroy(state));
}

int main(void)
{
    driver_test_open(NULL);
    two_parts(false);
    two_parts(true);
    refused();
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
