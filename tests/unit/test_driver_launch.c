/* Modules, functions, launches and their errors on sim's driver. */
#include "driver_test.h"

static CUmodule module;

static void vector_add(void)
{
    enum { N = 1000 };
    static float a[N], b[N], c[N];
    CUdeviceptr d[3];
    uint32_t n = N;
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    for (int i = 0; i < 3; i++)
        OK(drv.cuMemAlloc(&d[i], sizeof(a)));
    OK(drv.cuMemcpyHtoD(d[0], a, sizeof(a)));
    OK(drv.cuMemcpyHtoD(d[1], b, sizeof(b)));
    spt_sim_clear();
    void *params[] = {&d[0], &d[1], &d[2], &n};
    OK(drv.cuLaunchKernel(driver_test_function(module, "add"), 8, 1, 1, 128, 1,
                          1, 0, NULL, params, NULL));
    OK(drv.cuMemcpyDtoH(c, d[2], sizeof(c)));
    bool good = true;
    for (int i = 0; i < N; i++)
        good &= c[i] == a[i] + b[i];
    CHECK(good, "a vector add adds");
    spt_sim_counters counters;
    spt_sim_counters_get(&counters);
    CHECK_INT((long long)counters.launches, 1, "one launch is counted");
    CHECK_INT((long long)counters.ctas, 8, "its CTAs");
    CHECK_INT((long long)counters.warps, 32, "its warps");
    /* 31 full warps and one of 8 lanes, four bytes each. */
    CHECK_INT((long long)counters.l1tex__t_sectors_pipe_lsu_mem_global_op_ld,
              2 * 125, "sectors loaded");
    CHECK_INT((long long)counters.l1tex__t_sectors_pipe_lsu_mem_global_op_st,
              125, "sectors stored");
    CHECK_INT((long long)counters.dram__bytes_read, 2 * 4000,
              "bytes from DRAM");
    CHECK(counters.modelled_time_ns > 0, "a modelled time");
    CHECK_INT((long long)spt_sim_report_count(), 0, "no reports");
    for (int i = 0; i < 3; i++)
        OK(drv.cuMemFree(d[i]));
}

static void variables(void)
{
    CUdeviceptr p;
    size_t size;
    uint32_t value[2] = {0};
    OK(drv.cuModuleGetGlobal(&p, &size, module, "number"));
    CHECK_INT((long long)size, 4, "size of a variable");
    OK(drv.cuMemcpyDtoH(value, p, 4));
    CHECK_INT(value[0], 7, "its initial value");
    OK(drv.cuModuleGetGlobal(&p, &size, module, "table"));
    OK(drv.cuMemcpyDtoH(value, p, 8));
    CHECK(value[0] == 11 && value[1] == 22, "a constant's");
    CHECK_INT(drv.cuModuleGetGlobal(&p, &size, module, "nothing"),
              CUDA_ERROR_NOT_FOUND, "an unknown variable");
    CUfunction function;
    CHECK_INT(drv.cuModuleGetFunction(&function, module, "nothing"),
              CUDA_ERROR_NOT_FOUND, "an unknown kernel");
}

static void attributes(void)
{
    CUfunction function = driver_test_function(module, "with_shared");
    int value = 0;
    OK(drv.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                              function));
    CHECK_INT(value, 1024, "static shared memory");
    OK(drv.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    CHECK(value >= 16 && value <= 255, "an estimate of registers");
    OK(drv.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, function));
    CHECK_INT(value, 80, "PTX target");
    OK(drv.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                              driver_test_function(module, "bounded")));
    CHECK_INT(value, 64, "threads by .maxntid");
    OK(drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 128,
                                                       100000));
    CHECK_INT(value, 2, "occupancy by shared memory");
    char name[64];
    OK(drv.cuDeviceGetName(name, sizeof(name), 0));
    CHECK_TEXT(name, "sim: Test Board", "a device says that it is simulated");
    size_t offset = 0, size = 0;
    OK(drv.cuFuncGetParamInfo(driver_test_function(module, "add_one"), 1,
                              &offset, &size));
    CHECK(offset == 8 && size == 4, "offset and size of a parameter");
}

static CUresult launch(const char *name, unsigned grid, unsigned block,
                       unsigned shared)
{
    CUdeviceptr p = 0;
    void *params[] = {&p};
    return drv.cuLaunchKernel(driver_test_function(module, name), grid, 1, 1,
                              block, 1, 1, shared, NULL, params, NULL);
}

static void limits(void)
{
    CHECK_INT(launch("bounded", 0, 32, 0), CUDA_ERROR_INVALID_VALUE,
              "an empty grid");
    CHECK_INT(launch("bounded", 1, 65, 0), CUDA_ERROR_INVALID_VALUE,
              "more threads than .maxntid");
    CHECK_HAS(spt_sim_last_error(), "bounded: 65 threads per block",
              "the reason names the limit");
    CHECK_INT(launch("with_shared", 1, 1025, 0), CUDA_ERROR_INVALID_VALUE,
              "more threads than the device");
    CHECK_INT(launch("with_shared", 1, 32, 48 << 10), CUDA_ERROR_INVALID_VALUE,
              "static and dynamic over 48 KB without opt-in");
    CUfunction function = driver_test_function(module, "with_shared");
    CHECK_INT(
        drv.cuFuncSetAttribute(
            function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448),
        CUDA_ERROR_INVALID_VALUE, "an opt-in over the device's limit");
    OK(drv.cuFuncSetAttribute(
        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    CHECK_INT(launch("with_shared", 1, 32, 100000), CUDA_SUCCESS,
              "with opt-in it runs");
    CHECK_INT(
        drv.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
        CUDA_ERROR_INVALID_VALUE, "a launch without parameters");
    CHECK_INT(drv.cuLaunchCooperativeKernel(
                  driver_test_function(module, "bounded"), 132 * 32 + 1, 1, 1,
                  32, 1, 1, 0, NULL, (void *[]){&(int){0}}),
              CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
              "a cooperative launch that does not fit");
    CHECK_INT(drv.cuLaunchKernel((CUfunction)&limits, 1, 1, 1, 32, 1, 1, 0,
                                 NULL, NULL, NULL),
              CUDA_ERROR_INVALID_HANDLE, "a handle that is none");
    OK(drv.cuCtxSynchronize());
}

static void bad_images(void)
{
    CUmodule none;
    char log[256] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    const char *unknown = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry f()\n{\nfrobnicate.u32 %r1;\n}\n";
    CHECK_INT(drv.cuModuleLoadDataEx(&none, unknown, 2, options, values),
              CUDA_ERROR_INVALID_PTX, "an unknown instruction");
    CHECK_HAS(log, "6", "the log names the line");
    CHECK_HAS(log, "frobnicate", "the log names the text");
    CHECK_INT(drv.cuModuleLoadData(&none, "\177ELF\2\1\1"),
              CUDA_ERROR_NO_BINARY_FOR_GPU, "machine code");
    CHECK_INT(drv.cuModuleLoadData(&none, "\1\2\3\4\5\6\7\10"),
              CUDA_ERROR_INVALID_IMAGE, "neither of both");
    CHECK(drv.cuModuleLoadData(&none, "") != CUDA_SUCCESS, "an empty text");
}

static void library_errors(void)
{
    spt_error err;
    spt_driver real;
    CHECK_INT(spt_driver_open("/nonexistent/libcuda.so.1", &real, &err),
              SPT_E_NOT_FOUND, "a missing libcuda");
    CHECK_HAS(err.text, "/nonexistent/libcuda.so.1", "the text names it");
    CHECK_INT(spt_driver_check(&drv, CUDA_ERROR_ILLEGAL_ADDRESS, "copy", &err),
              SPT_E_DEVICE, "a result becomes a status");
    CHECK_TEXT(err.text,
               "copy: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
               "access was encountered",
               "with name, number and text");
    void *call = NULL;
    CUdriverProcAddressQueryResult status;
    OK(drv.cuGetProcAddress("cuMemAlloc", &call, 13000, 0, &status));
    CHECK(call != NULL && status == CU_GET_PROC_ADDRESS_SUCCESS,
          "cuGetProcAddress finds a call by its plain name");
    CHECK_INT(drv.cuGetProcAddress("cuFrob", &call, 13000, 0, NULL),
              CUDA_ERROR_NOT_FOUND, "and does not find what is not there");
    static const struct {
        const char *name, *call;
        int version;
        CUdriverProcAddressQueryResult status;
    } cases[] = {
        {"the present form", "cuCtxCreate", 12050, CU_GET_PROC_ADDRESS_SUCCESS},
        {"an older form that sim lacks", "cuCtxCreate", 12040,
         CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
        {"that form by its own name", "cuCtxCreate_v4", 11000,
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"a call that the version did not have", "cuGraphAddNode", 12010,
         CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
        {"an older form with the same arguments", "cuEventElapsedTime", 11000,
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"before a newer form", "cuCtxSynchronize", 12090,
         CU_GET_PROC_ADDRESS_SUCCESS},
        {"a newer form that sim lacks", "cuCtxSynchronize", 13000,
         CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        OK(drv.cuGetProcAddress(cases[i].call, &call, cases[i].version, 0,
                                &status));
        bool found = cases[i].status == CU_GET_PROC_ADDRESS_SUCCESS;
        CHECK(status == cases[i].status && (call != NULL) == found,
              "cuGetProcAddress: %s", cases[i].name);
    }
}

/* Every call has one row of versions, and every row a call. */
static void version_rows(void)
{
#define SPT_DRIVER_CALL(name) 1 +
    static const int n_calls =
#include "driver.def"
        0;
#undef SPT_DRIVER_CALL
    static const struct {
        const char *name;
        int since, first, until;
    } rows[] = {
#define SIM_VERSION(name, since, first, until) {#name, since, first, until},
#include "sim_versions.def"
#undef SIM_VERSION
    };
    int n_rows = (int)(sizeof(rows) / sizeof(rows[0])), bad = 0;
    CHECK_INT(n_rows, n_calls, "as many rows of versions as calls");
    for (int i = 0; i < n_rows; i++) {
        void *call = NULL;
        int same = 0;
        for (int j = 0; j < n_rows; j++)
            same += !strcmp(rows[i].name, rows[j].name);
        bool good = same == 1 && rows[i].first <= rows[i].since &&
                    (!rows[i].until || rows[i].since < rows[i].until);
        if (drv.cuGetProcAddress(rows[i].name, &call, rows[i].since, 0, NULL) ||
            !call || !good) {
            printf("# %s\n", rows[i].name);
            bad++;
        }
    }
    CHECK_INT(bad, 0, "each names a call of its own, in a form that sim has");
}

static void sticky(void)
{
    CUdeviceptr p = 64;
    void *params[] = {&p};
    spt_sim_clear();
    OK(drv.cuLaunchKernel(driver_test_function(module, "store_bad"), 1, 1, 1, 1,
                          1, 1, 0, NULL, params, NULL));
    CHECK_INT(drv.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS,
              "a bad store shows at the next wait");
    CHECK_INT(drv.cuMemAlloc(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS,
              "and at every later call");
    spt_sim_report report;
    CHECK(spt_sim_report_get(0, &report) &&
              report.kind == SPT_SIM_BOUNDS_GLOBAL &&
              !strcmp(report.kernel, "store_bad"),
          "a report names the kernel");
    CUcontext ctx;
    OK(drv.cuDevicePrimaryCtxReset(0));
    OK(drv.cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(drv.cuCtxSetCurrent(ctx));
    CHECK_INT(drv.cuMemAlloc(&p, 4), CUDA_SUCCESS,
              "a reset context works again");
    OK(drv.cuMemFree(p));
}

static void contexts(void)
{
    CUcontext one, two, seen;
    CUdeviceptr p;
    OK(drv.cuCtxGetCurrent(&one));
    OK(drv.cuCtxCreate(&two, NULL, 0, 0));
    OK(drv.cuCtxGetCurrent(&seen));
    CHECK(seen == two, "a new context is current");
    OK(drv.cuCtxPopCurrent(&seen));
    OK(drv.cuCtxGetCurrent(&seen));
    CHECK(seen == one, "and below it the old one");
    OK(drv.cuCtxDestroy(two));
    CHECK_INT(drv.cuCtxPushCurrent(two), CUDA_ERROR_INVALID_CONTEXT,
              "a destroyed context is none");
    CHECK_INT(drv.cuCtxDestroy(one), CUDA_ERROR_INVALID_CONTEXT,
              "the primary one is released, not destroyed");
    spt_board board = test_board();
    spt_error err;
    board.sm_count--;
    CHECK_INT(spt_sim_open(&board, 1, NULL, &drv, &err), SPT_E_USAGE,
              "a machine with contexts is not replaced");
    OK(drv.cuDevicePrimaryCtxRelease(0));
    CHECK_INT(drv.cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT,
              "without a context no call works");
}

int main(void)
{
    driver_test_open(NULL);
    module = driver_test_module();
    vector_add();
    variables();
    attributes();
    limits();
    bad_images();
    library_errors();
    version_rows();
    sticky();
    contexts();
    spt_sim_close();
    return check_done();
}
