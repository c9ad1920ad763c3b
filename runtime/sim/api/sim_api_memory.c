/*
 * Driver calls that allocate device memory or ask about memory. Host and
 * managed memory are in sim_api_host.c, pools in sim_api_pool.c, copies and
 * fills in sim_api_copy.c.
 */
#include "sim_driver.h"

enum { PITCH_UNIT = 512 };

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

bool sim_is_allocation(CUdeviceptr address)
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
    sim_host_block *block = sim_host_find((void *)(uintptr_t)address);
    if (!sim_is_allocation(address) || (block && !block->managed))
        return sim_leave(sim_because(CUDA_ERROR_INVALID_VALUE,
                                     "free: 0x%llx is no allocation",
                                     (unsigned long long)address));
    result = sim_drain_all();
    block = sim_host_find((void *)(uintptr_t)address);
    if (block)
        sim_host_remove(block);
    else
        sim_pool_release(address);
    return sim_leave(result);
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

static CUresult pointer_attribute(CUcontext ctx, void *data,
                                  CUpointer_attribute attribute,
                                  CUdeviceptr address)
{
    sim_range range;
    if (!data || !sim_memory_find(sim_the.memory, address, &range, NULL) ||
        range.freed)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_host_block *block = sim_host_find((void *)(uintptr_t)address);
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
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = block && block->managed;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
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
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = sim_pool_of(range.va);
        break;
    default:
        return sim_lacks("cuPointerGetAttribute", "this attribute");
    }
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuPointerGetAttribute)(void *data,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(pointer_attribute(ctx, data, attribute, address));
}

/* What a null attribute of a pointer unknown to CUDA is: all zero. */
static void clear_attribute(void *data, CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = CU_DEVICE_INVALID;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(uint64_t *)data = 0;
        break;
    default:
        break;
    }
}

/* Unlike the single question, this one also takes pointers of no allocation. */
CUresult SIM_FN(cuPointerGetAttributes)(unsigned count,
                                        CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr address)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (count && (!attributes || !data))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        CUresult one = pointer_attribute(ctx, data[i], attributes[i], address);
        if (one == CUDA_ERROR_NOT_SUPPORTED)
            return sim_leave(one);
        if (one != CUDA_SUCCESS && data[i])
            clear_attribute(data[i], attributes[i]);
    }
    return sim_leave(CUDA_SUCCESS);
}
