/*
 * Driver calls about host memory that kernels may use: page-locked, registered
 * and managed. It lies at the same address for host and device.
 */
#include "sim_driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum { HOST_ALIGN = 4096 };

sim_host_block *sim_host_find(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    for (sim_host_block *block = sim_the.host_blocks; block;
         block = block->next)
        if (address >= (uintptr_t)block->base &&
            address - (uintptr_t)block->base < block->size)
            return block;
    return NULL;
}

bool sim_host_pinned(const void *pointer, uint64_t size)
{
    const sim_host_block *block = sim_host_find(pointer);
    return block &&
           size <= block->size - ((uintptr_t)pointer - (uintptr_t)block->base);
}

static CUresult host_add(void *base, uint64_t size, unsigned flags, bool owned,
                         bool managed)
{
    sim_host_block *block = spt_calloc(1, sizeof(*block));
    if (!block || sim_memory_map(sim_the.memory, base, size) != SPT_OK) {
        spt_free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = (sim_host_block){
        .next = sim_the.host_blocks,
        .base = base,
        .size = size,
        .flags = flags,
        .owned = owned,
        .managed = managed,
        .preferred = {CU_MEM_LOCATION_TYPE_INVALID, 0},
        .prefetched = {CU_MEM_LOCATION_TYPE_INVALID, 0},
        .accessed_by = CU_DEVICE_INVALID,
    };
    sim_the.host_blocks = block;
    return CUDA_SUCCESS;
}

void sim_host_remove(sim_host_block *block)
{
    sim_host_block **link = &sim_the.host_blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (sim_the.memory)
        sim_memory_release(sim_the.memory, (uint64_t)(uintptr_t)block->base);
    if (block->owned)
        free(block->base);
    spt_free(block);
}

void sim_host_blocks_delete(void)
{
    while (sim_the.host_blocks)
        sim_host_remove(sim_the.host_blocks);
}

static CUresult host_new(uint64_t size, unsigned flags, bool managed,
                         void **pointer)
{
    void *base = NULL;
    if (!size || size > SIM_WINDOW_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (posix_memalign(&base, HOST_ALIGN, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(base, 0, size);
    CUresult result = host_add(base, size, flags, true, managed);
    if (result != CUDA_SUCCESS)
        free(base);
    else
        *pointer = base;
    return result;
}

CUresult sim_host_managed(uint64_t size, uint64_t *address)
{
    void *base;
    CUresult result = host_new(size, CU_MEM_ATTACH_GLOBAL, true, &base);
    if (result == CUDA_SUCCESS)
        *address = (uint64_t)(uintptr_t)base;
    return result;
}

/* --- page-locked -------------------------------------------------------- */

CUresult SIM_FN(cuMemHostAlloc)(void **pointer, size_t size, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || flags > 7)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(host_new(size, flags, false, pointer));
}

CUresult SIM_FN(cuMemAllocHost)(void **pointer, size_t size)
{
    return SIM_FN(cuMemHostAlloc)(pointer, size, 0);
}

CUresult SIM_FN(cuMemFreeHost)(void *pointer)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_host_block *block = sim_host_find(pointer);
    if (!block || block->base != pointer || !block->owned || block->managed)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_drain_all();
    block = sim_host_find(pointer);
    if (block)
        sim_host_remove(block);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemHostRegister)(void *pointer, size_t size, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || !size || flags > 15)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_host_find(pointer) || sim_host_find((uint8_t *)pointer + size - 1))
        return sim_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    return sim_leave(host_add(pointer, size, flags, false, false));
}

CUresult SIM_FN(cuMemHostUnregister)(void *pointer)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_host_block *block = sim_host_find(pointer);
    if (!block || block->base != pointer || block->owned)
        return sim_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    result = sim_drain_all();
    block = sim_host_find(pointer);
    if (block)
        sim_host_remove(block);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemHostGetDevicePointer)(CUdeviceptr *address, void *pointer,
                                           unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!address || flags || !sim_host_find(pointer))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *address = (CUdeviceptr)(uintptr_t)pointer;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuMemHostGetFlags)(unsigned *flags, void *pointer)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    const sim_host_block *block = sim_host_find(pointer);
    if (!flags || !block)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = block->flags;
    return sim_leave(CUDA_SUCCESS);
}

/* --- managed ------------------------------------------------------------ */

CUresult SIM_FN(cuMemAllocManaged)(CUdeviceptr *address, size_t size,
                                   unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!address ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    void *base;
    result = host_new(size, flags, true, &base);
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)base;
    return sim_leave(result);
}

/* Advice is kept per allocation, whatever part of it was named. */
static CUresult managed_at(CUdeviceptr address, size_t size,
                           sim_host_block **block)
{
    *block = sim_host_find((void *)(uintptr_t)address);
    if (!size || !*block || !(*block)->managed ||
        !sim_host_pinned((void *)(uintptr_t)address, size))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static bool location_exists(CUmemLocation location)
{
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return location.id >= 0 && location.id < sim_the.n_devices;
    return location.type == CU_MEM_LOCATION_TYPE_HOST ||
           location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult advise(sim_host_block *block, CUmem_advise advice,
                       CUmemLocation location)
{
    const CUmemLocation none = {CU_MEM_LOCATION_TYPE_INVALID, 0};
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        block->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        block->preferred = none;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        if (!location_exists(location))
            return CUDA_ERROR_INVALID_DEVICE;
        block->preferred = location;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        if (!location_exists(location))
            return CUDA_ERROR_INVALID_DEVICE;
        if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            block->accessed_by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY
                                     ? location.id
                                     : CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult SIM_FN(cuMemAdvise)(CUdeviceptr address, size_t size,
                             CUmem_advise advice, CUmemLocation location)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_host_block *block;
    result = managed_at(address, size, &block);
    if (result == CUDA_SUCCESS)
        result = advise(block, advice, location);
    return sim_leave(result);
}

/* The memory is at once where it should be; the call keeps its place. */
CUresult SIM_FN(cuMemPrefetchAsync)(CUdeviceptr address, size_t size,
                                    CUmemLocation location, unsigned flags,
                                    CUstream handle)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_host_block *block;
    CUstream stream;
    result =
        flags ? CUDA_ERROR_INVALID_VALUE : managed_at(address, size, &block);
    if (result == CUDA_SUCCESS && !location_exists(location))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        result = sim_stream_of(ctx, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    block->prefetched = location;
    sim_work work = {.kind = SIM_WORK_EMPTY};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* A location in the older form: a device, or one of two negative numbers. */
static int device_of_location(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE    ? location.id
           : location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID
                                                           : CU_DEVICE_CPU;
}

static CUresult range_attribute(const sim_host_block *block,
                                CUmem_range_attribute attribute, int *data,
                                size_t count)
{
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        data[0] = block->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        data[0] = device_of_location(block->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        data[0] = device_of_location(block->prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0; i < count; i++)
            data[i] = i ? CU_DEVICE_INVALID : block->accessed_by;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        data[0] = (int)block->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        data[0] = block->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        data[0] = (int)block->prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        data[0] = block->prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult SIM_FN(cuMemRangeGetAttribute)(void *data, size_t bytes,
                                        CUmem_range_attribute attribute,
                                        CUdeviceptr address, size_t size)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_host_block *block;
    result = data && bytes >= sizeof(int) && bytes % sizeof(int) == 0
                 ? managed_at(address, size, &block)
                 : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = range_attribute(block, attribute, data, bytes / sizeof(int));
    return sim_leave(result);
}
