/* Memory of sim's driver: allocation, copies, fills, host memory, bounds. */
#include "driver_test.h"

static void copies(void)
{
    CUdeviceptr p, q;
    uint32_t in[64], out[64] = {0};
    for (uint32_t i = 0; i < 64; i++)
        in[i] = i * i;
    OK(drv.cuMemAlloc(&p, sizeof(in)));
    OK(drv.cuMemAlloc(&q, sizeof(in)));
    OK(drv.cuMemcpyHtoD(p, in, sizeof(in)));
    OK(drv.cuMemcpyDtoD(q, p, sizeof(in)));
    OK(drv.cuMemcpyDtoH(out, q, sizeof(out)));
    CHECK(!memcmp(in, out, sizeof(in)), "a copy there and back is the same");

    CHECK_INT(drv.cuMemcpyHtoD(p + 4, in, sizeof(in)), CUDA_ERROR_INVALID_VALUE,
              "a copy past the end is refused");
    CHECK_INT(drv.cuMemcpyDtoH(out, p - 4, 8), CUDA_ERROR_INVALID_VALUE,
              "a copy from before the start is refused");
    CHECK_HAS(spt_sim_last_error(), "is not inside one allocation",
              "the reason names the range");

    /* UVA: the kinds are known from the addresses. */
    memset(out, 0, sizeof(out));
    OK(drv.cuMemcpy((CUdeviceptr)(uintptr_t)out, p, sizeof(out)));
    CHECK(!memcmp(in, out, sizeof(in)), "cuMemcpy knows host from device");

    OK(drv.cuMemFree(q));
    CHECK_INT(drv.cuMemcpyDtoH(out, q, 4), CUDA_ERROR_INVALID_VALUE,
              "a freed allocation is refused");
    CHECK_INT(drv.cuMemFree(q), CUDA_ERROR_INVALID_VALUE,
              "a second free is refused");
    CHECK_INT(drv.cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE,
              "a free of the middle is refused");
    OK(drv.cuMemFree(p));
    CHECK_INT(drv.cuMemFree(0), CUDA_SUCCESS, "a free of 0 does nothing");
}

static void fills(void)
{
    CUdeviceptr p;
    uint32_t out[16];
    size_t pitch;
    OK(drv.cuMemAlloc(&p, sizeof(out)));
    OK(drv.cuMemsetD32(p, 0x01020304, 16));
    OK(drv.cuMemsetD16(p + 4, 0xabcd, 2));
    OK(drv.cuMemsetD8(p + 8, 0x55, 3));
    OK(drv.cuMemcpyDtoH(out, p, sizeof(out)));
    CHECK(out[0] == 0x01020304 && out[1] == 0xabcdabcd &&
              out[2] == 0x01555555 && out[15] == 0x01020304,
          "fills of 4, 2 and 1 bytes");
    CHECK_INT(drv.cuMemsetD32(p, 0, 17), CUDA_ERROR_INVALID_VALUE,
              "a fill past the end is refused");
    CHECK_INT(drv.cuMemsetD32(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE,
              "a misaligned fill is refused");
    OK(drv.cuMemFree(p));

    OK(drv.cuMemAllocPitch(&p, &pitch, 100, 8, 4));
    CHECK(pitch >= 100 && pitch % 512 == 0, "pitch is aligned");
    OK(drv.cuMemsetD2D8(p, pitch, 7, 100, 8));
    uint8_t rows[8][100];
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = p,
        .srcPitch = pitch,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = rows,
        .dstPitch = 100,
        .WidthInBytes = 100,
        .Height = 8,
    };
    OK(drv.cuMemcpy2D(&copy));
    bool good = true;
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 100; c++)
            good &= rows[r][c] == 7;
    CHECK(good, "a 2D fill and copy");
    copy.Height = 9;
    CHECK_INT(drv.cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE,
              "a 2D copy past the last row is refused");
    OK(drv.cuMemFree(p));
}

static void host_memory(void)
{
    uint32_t *pinned, pageable = 5, out = 0;
    CUdeviceptr p, alias, managed;
    CUstream stream;
    OK(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(drv.cuMemAlloc(&p, 4));
    OK(drv.cuMemAllocHost((void **)&pinned, 4));
    OK(drv.cuMemHostGetDevicePointer(&alias, pinned, 0));
    CHECK(alias == (CUdeviceptr)(uintptr_t)pinned, "one address for both");

    OK(drv.cuMemcpyHtoDAsync(p, &pageable, 4, stream));
    pageable = 6;
    OK(drv.cuMemcpyDtoHAsync(&out, p, 4, stream));
    CHECK_INT(out, 5, "pageable memory is read at the call");

    *pinned = 5;
    OK(drv.cuMemcpyHtoDAsync(p, pinned, 4, stream));
    *pinned = 6;
    OK(drv.cuStreamSynchronize(stream));
    OK(drv.cuMemcpyDtoH(&out, p, 4));
    CHECK_INT(out, 6, "page-locked memory is read when the copy runs");

    OK(drv.cuMemsetD32Async(p, 9, 1, stream));
    OK(drv.cuMemcpyDtoHAsync(pinned, p, 4, stream));
    CHECK_INT(*pinned, 6, "without a wait the old value is there");
    OK(drv.cuStreamSynchronize(stream));
    CHECK_INT(*pinned, 9, "with a wait the new one");

    OK(drv.cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    OK(drv.cuMemsetD32(managed, 3, 16));
    OK(drv.cuCtxSynchronize());
    CHECK_INT(((uint32_t *)(uintptr_t)managed)[15], 3,
              "managed memory is read by the host");
    unsigned is_managed = 0;
    OK(drv.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 managed));
    CHECK_INT(is_managed, 1, "managed memory says so");
    CHECK_INT(drv.cuMemFreeHost((void *)(uintptr_t)managed),
              CUDA_ERROR_INVALID_VALUE, "managed memory is not host memory");
    OK(drv.cuMemFree(managed));
    OK(drv.cuMemFreeHost(pinned));
    CHECK_INT(drv.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE,
              "a second free of host memory is refused");
    OK(drv.cuMemFree(p));
    OK(drv.cuStreamDestroy(stream));
}

static void amounts(void)
{
    size_t before, after, total;
    CUdeviceptr p;
    OK(drv.cuMemGetInfo(&before, &total));
    CHECK_INT((long long)total, 4000000000, "the board's memory");
    CHECK_INT(drv.cuMemAlloc(&p, total + 1), CUDA_ERROR_OUT_OF_MEMORY,
              "more than there is");
    OK(drv.cuMemAlloc(&p, (size_t)3 << 30));
    OK(drv.cuMemGetInfo(&after, &total));
    CHECK(before - after >= (size_t)3 << 30, "an allocation is counted");
    uint32_t value = 42, out = 0;
    CUdeviceptr far = p + ((size_t)3 << 30) - 4;
    OK(drv.cuMemcpyHtoD(far, &value, 4));
    OK(drv.cuMemcpyDtoH(&out, far, 4));
    CHECK_INT(out, 42, "the last bytes of 3 GB");
    CUdeviceptr base = 0;
    size_t size = 0;
    OK(drv.cuMemGetAddressRange(&base, &size, far));
    CHECK(base == p && size == (size_t)3 << 30, "the range of an address");
    OK(drv.cuMemFree(p));
    CHECK_INT(drv.cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE,
              "nothing is no allocation");
}

int main(void)
{
    driver_test_open(NULL);
    copies();
    fills();
    host_memory();
    amounts();
    OK(drv.cuDevicePrimaryCtxRelease(0));
    spt_sim_close();
    return check_done();
}
