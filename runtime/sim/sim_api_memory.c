/*
 * Driver calls that allocate memory or ask about it. Copies and fills are in
 * sim_api_copy.c.
 */
#include "sim_driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum { PITCH_UNIT = 512, HOST_ALIGN = 4096 };

/* Page-locked host memory, oldest last. */
typedef struct sim_host_block {
    struct sim_host_block *next;
    uint8_t *base;
    uint64_t size;
    unsigned flags;
    bool owned; /* allocated here, not registered */
    bool managed;
} host_block;

static host_block *host_find(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    for (host_block *block = sim_the.host_blocks; block; block = block->next)
        if (address >= (uintptr_t)block->base &&
            address - (uintptr_t)block->base < block->size)
            return block;
    return NULL;
}

bool sim_host_pinned(const void *pointer, uint64_t size)
{
    const host_block *block = host_find(pointer);
    return block &&
           size <= block->size - ((uintptr_t)pointer - (uintptr_t)block->base);
}

static CUresult host_add(void *base, uint64_t size, unsigned flags, bool owned,
                         bool managed)
{
    host_block *block = spt_calloc(1, sizeof(*block));
    if (!block || sim_memory_map(sim_the.memory, base, size) != SPT_OK) {
        spt_free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = (host_block){
        .next = sim_the.host_blocks,
        .base = base,
        .size = size,
        .flags = flags,
        .owned = owned,
        .managed = managed,
    };
    sim_the.host_blocks = block;
    return CUDA_SUCCESS;
}

static void host_remove(host_block *block)
{
    host_block **link = (host_block **)&sim_the.host_blocks;
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
        host_remove(sim_the.host_blocks);
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

/* --- device memory ------------------------------------------------------ */

static CUresult device_new(CUcontext ctx, size_t size, CUdeviceptr *address)
{
    if (!address || !size)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t va;
    spt_status status =
        sim_memory_alloc(sim_the.memory, ctx->device, size, &va);
    if (status == SPT_OK)
        *address = va;
    return sim_result_of(status);
}

CUresult SIM_FN(cuMemAlloc)(CUdeviceptr *address, size_t size)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(device_new(ctx, size, address));
}

CUresult SIM_FN(cuMemAllocPitch)(CUdeviceptr *address, size_t *pitch,
                                 size_t width, size_t height, unsigned element)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pitch || !width || !height || width > SIM_WINDOW_BYTES ||
        height > SIM_WINDOW_BYTES / width ||
        (element != 4 && element != 8 && element != 16))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    size_t row = (width + PITCH_UNIT - 1) / PITCH_UNIT * PITCH_UNIT;
    result = device_new(ctx, row * height, address);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return sim_leave(result);
}

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

static bool is_allocation(CUdeviceptr address)
{
    sim_range range;
    return sim_memory_find(sim_the.memory, address, &range, NULL) &&
           !range.freed && range.va == address;
}

/* Waits for the device, as cuMemFree does: pending work may use it. */
CUresult SIM_FN(cuMemFree)(CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!address)
        return sim_leave(CUDA_SUCCESS);
    host_block *block = host_find((void *)(uintptr_t)address);
    if (!is_allocation(address) || (block && !block->managed))
        return sim_leave(sim_because(CUDA_ERROR_INVALID_VALUE,
                                     "free: 0x%llx is no allocation",
                                     (unsigned long long)address));
    result = sim_drain_all();
    block = host_find((void *)(uintptr_t)address);
    if (block)
        host_remove(block);
    else
        sim_memory_release(sim_the.memory, address);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemAllocAsync)(CUdeviceptr *address, size_t size,
                                 CUstream handle)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture != SIM_CAPTURE_NONE)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = device_new(ctx, size, address);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemFreeAsync)(CUdeviceptr address, CUstream handle)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_stream_of(ctx, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!is_allocation(address) || host_find((void *)(uintptr_t)address))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_work work = {.kind = SIM_WORK_FREE, .address = address};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

CUresult SIM_FN(cuMemGetInfo)(size_t *available, size_t *total)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t used, capacity;
    sim_memory_info(sim_the.memory, ctx->device, &used, &capacity);
    if (available)
        *available = capacity - used;
    if (total)
        *total = capacity;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuMemGetAddressRange)(CUdeviceptr *base, size_t *size,
                                      CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_range range;
    if (!sim_memory_find(sim_the.memory, address, &range, NULL) || range.freed)
        return sim_leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = range.va;
    if (size)
        *size = range.size;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuPointerGetAttribute)(void *data,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_range range;
    if (!data)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (!sim_memory_find(sim_the.memory, address, &range, NULL) || range.freed)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const host_block *block = host_find((void *)(uintptr_t)address);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = block && !block->managed ? CU_MEMORYTYPE_HOST
                                                     : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!block)
            return sim_leave(CUDA_ERROR_INVALID_VALUE);
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = block && block->managed;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block ? ctx->device : range.device;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range.va;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = range.size;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = ctx;
        break;
    default:
        return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    return sim_leave(CUDA_SUCCESS);
}

/* --- page-locked host memory -------------------------------------------- */

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
    host_block *block = host_find(pointer);
    if (!block || block->base != pointer || !block->owned || block->managed)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_drain_all();
    block = host_find(pointer);
    if (block)
        host_remove(block);
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
    if (host_find(pointer) || host_find((uint8_t *)pointer + size - 1))
        return sim_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    return sim_leave(host_add(pointer, size, flags, false, false));
}

CUresult SIM_FN(cuMemHostUnregister)(void *pointer)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    host_block *block = host_find(pointer);
    if (!block || block->base != pointer || block->owned)
        return sim_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    result = sim_drain_all();
    block = host_find(pointer);
    if (block)
        host_remove(block);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemHostGetDevicePointer)(CUdeviceptr *address, void *pointer,
                                           unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!address || flags || !host_find(pointer))
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
    const host_block *block = host_find(pointer);
    if (!flags || !block)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = block->flags;
    return sim_leave(CUDA_SUCCESS);
}
