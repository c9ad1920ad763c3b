/* Memory pools, managed memory's advice, libraries, streams' attributes. */
#include <stdio.h>
#include <string.h>

#include "driver_test.h"

static cuuint64_t pool_number(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    OK(drv.cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void default_pool(void)
{
    CUmemoryPool pool, current;
    CUdeviceptr p;
    CUstream stream;
    OK(drv.cuDeviceGetDefaultMemPool(&pool, 0));
    OK(drv.cuDeviceGetMemPool(&current, 0));
    CHECK(pool == current, "the default pool is the current one");
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuMemAllocAsync(&p, 1000, stream));
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000,
              "what is allocated is used");
    OK(drv.cuMemFreeAsync(p, stream));
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000,
              "a free happens in the order of its stream");
    OK(drv.cuStreamSynchronize(stream));
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0,
              "and then nothing is used");
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1000,
              "the high-water mark stays");
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0,
              "with no threshold nothing is kept");
    cuuint64_t most = UINT64_MAX;
    OK(drv.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                 &most));
    OK(drv.cuMemAllocAsync(&p, 1000, stream));
    OK(drv.cuMemFree(p));
    CHECK(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 1000,
          "with one it is");
    OK(drv.cuMemPoolTrimTo(pool, 0));
    CHECK_INT(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0,
              "until the pool is trimmed");
    OK(drv.cuStreamDestroy(stream));
}

static void own_pool(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    CUmemoryPool pool, of_pointer = NULL;
    CUdeviceptr p;
    CUmemAccess_flags flags = 0;
    OK(drv.cuMemPoolCreate(&pool, &props));
    OK(drv.cuMemAllocFromPoolAsync(&p, 64, pool, NULL));
    OK(drv.cuPointerGetAttribute(&of_pointer,
                                 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    CHECK(of_pointer == pool, "a pointer knows its pool");
    OK(drv.cuMemPoolGetAccess(&flags, pool, &props.location));
    CHECK_INT(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              "a device uses its pools");
    OK(drv.cuMemPoolDestroy(pool));
    OK(drv.cuMemsetD8(p, 1, 64));
    CHECK_INT(drv.cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_HANDLE,
              "a destroyed pool takes no calls, its memory lives on");
    OK(drv.cuMemFree(p));
    props.location.type = CU_MEM_LOCATION_TYPE_HOST;
    CHECK_INT(drv.cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED,
              "pools of host memory are refused");
    CHECK(strstr(spt_sim_last_error(), "cuMemPoolCreate"), "with a reason: %s",
          spt_sim_last_error());
}

static void managed(void)
{
    CUdeviceptr p;
    int value = -1;
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(drv.cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(drv.cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
    OK(drv.cuMemRangeGetAttribute(&value, sizeof(value),
                                  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p,
                                  4096));
    CHECK_INT(value, 0, "advice is remembered");
    OK(drv.cuMemPrefetchAsync(p, 4096, device, 0, NULL));
    OK(drv.cuMemRangeGetAttribute(&value, sizeof(value),
                                  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                  p, 4096));
    CHECK_INT(value, 0, "and so is a prefetch");
    CHECK_INT(drv.cuMemAdvise(p, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
              CUDA_ERROR_INVALID_VALUE, "advice beyond the allocation");
    OK(drv.cuMemFree(p));
}

/* The host reads and writes a managed variable where the kernel does. */
static void managed_variable(void)
{
    static const char *const ptx =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .global .attribute(.managed) .align 4 .u32 total = 5;\n"
        ".visible .entry more()\n"
        "{\n.reg .b32 %r;\nld.global.u32 %r, [total];\n"
        "add.u32 %r, %r, 2;\nst.global.u32 [total], %r;\nret;\n}\n";
    CUmodule module;
    CUdeviceptr p;
    size_t bytes;
    OK(drv.cuModuleLoadData(&module, ptx));
    OK(drv.cuModuleGetGlobal(&p, &bytes, module, "total"));
    volatile uint32_t *total = (volatile uint32_t *)(uintptr_t)p;
    CHECK_INT(*total, 5, "the host sees a managed variable's first value");
    *total = 40;
    OK(drv.cuLaunchKernel(driver_test_function(module, "more"), 1, 1, 1, 1, 1,
                          1, 0, NULL, NULL, NULL));
    OK(drv.cuCtxSynchronize());
    CHECK_INT(*total, 42, "and both change it");
    OK(drv.cuModuleUnload(module));
}

static void pointers(void)
{
    CUdeviceptr p, start = 1;
    unsigned type = 99;
    int local = 0;
    CUpointer_attribute ids[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *data[2] = {&type, &start};
    OK(drv.cuMemAlloc(&p, 64));
    OK(drv.cuPointerGetAttributes(2, ids, data, p + 8));
    CHECK(type == CU_MEMORYTYPE_DEVICE && start == p,
          "several attributes at once");
    OK(drv.cuPointerGetAttributes(2, ids, data,
                                  (CUdeviceptr)(uintptr_t)&local));
    CHECK(type == 0 && start == 0, "a pointer that is none of CUDA's");
    OK(drv.cuMemFree(p));
}

static void libraries(void)
{
    CUlibrary library;
    CUkernel kernel, again;
    CUmodule module;
    CUdeviceptr p, number;
    size_t bytes;
    unsigned count = 0;
    uint32_t n = 1, value = 41;
    void *params[] = {&p, &n};
    const char *name = NULL;
    OK(drv.cuLibraryLoadData(&library, driver_test_ptx, NULL, NULL, 0, NULL,
                             NULL, 0));
    OK(drv.cuLibraryGetKernel(&kernel, library, "add_one"));
    OK(drv.cuLibraryGetKernel(&again, library, "add_one"));
    CHECK(kernel == again, "a kernel has one handle");
    OK(drv.cuLibraryGetKernelCount(&count, library));
    CHECK_INT(count, 5, "a library counts its kernels");
    OK(drv.cuKernelGetName(&name, kernel));
    CHECK_TEXT(name, "add_one", "a kernel has a name");
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemcpyHtoD(p, &value, 4));
    OK(drv.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL,
                          params, NULL));
    OK(drv.cuMemcpyDtoH(&value, p, 4));
    CHECK_INT(value, 42, "a kernel is launched like a function");
    OK(drv.cuLibraryGetGlobal(&number, &bytes, library, "number"));
    CHECK_INT(bytes, 4, "a library has variables");
    OK(drv.cuLibraryGetModule(&module, library));
    OK(drv.cuLibraryUnload(library));
    CHECK_INT(drv.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL,
                                 params, NULL),
              CUDA_ERROR_INVALID_HANDLE, "an unloaded library's kernel");
    CHECK_INT(drv.cuLibraryLoadData(&library, ".version 8.0\nnonsense", NULL,
                                    NULL, 0, NULL, NULL, 0),
              CUDA_ERROR_INVALID_PTX, "a library that does not parse");
    OK(drv.cuMemFree(p));
}

static void module_file(void)
{
    char path[] = "/tmp/spectune-test-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    CUmodule module;
    CUfunction functions[8];
    unsigned count = 0;
    CHECK(file && fputs(driver_test_ptx, file) >= 0 && !fclose(file),
          "a file with PTX");
    OK(drv.cuModuleLoad(&module, path));
    OK(drv.cuModuleGetFunctionCount(&count, module));
    OK(drv.cuModuleEnumerateFunctions(functions, count, module));
    CHECK_INT(count, 5, "its kernels are counted and listed");
    OK(drv.cuModuleUnload(module));
    remove(path);
    CHECK_INT(drv.cuModuleLoad(&module, path), CUDA_ERROR_FILE_NOT_FOUND,
              "a file that is not there");
}

static void CUDA_CB note_status(CUstream stream, CUresult status, void *user)
{
    (void)stream;
    *(int *)user = status == CUDA_SUCCESS ? 1 : -1;
}

static void stream_calls(void)
{
    CUstream a, b;
    CUstreamAttrValue set = {.priority = -2}, got = {0};
    int called = 0;
    CUdevice device = 9;
    OK(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(drv.cuStreamAddCallback(a, note_status, &called, 0));
    CHECK_INT(called, 0, "a callback comes later");
    OK(drv.cuStreamSynchronize(a));
    CHECK_INT(called, 1, "with the stream's status");
    set.syncPolicy = CU_SYNC_POLICY_YIELD;
    OK(drv.cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                                &set));
    OK(drv.cuStreamCopyAttributes(b, a));
    OK(drv.cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY,
                                &got));
    CHECK_INT(got.syncPolicy, CU_SYNC_POLICY_YIELD, "attributes are copied");
    OK(drv.cuStreamGetDevice(a, &device));
    CHECK_INT(device, 0, "a stream has a device");
    OK(drv.cuStreamDestroy(a));
    OK(drv.cuStreamDestroy(b));
}

int main(void)
{
    driver_test_open(NULL);
    default_pool();
    own_pool();
    managed();
    managed_variable();
    pointers();
    libraries();
    module_file();
    stream_calls();
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
