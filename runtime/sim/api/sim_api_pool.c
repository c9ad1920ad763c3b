/*
 * Driver calls about memory pools and stream-ordered allocation.
 *
 * All memory of a device comes from one heap, so a pool only counts: what its
 * allocations use, and what it would keep (reserve) for later ones. A free
 * takes place in the order of its stream; the address is never handed out
 * again at once, so that a use after the free is seen.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

/* What a pool gets from the device at once. */
enum { RESERVE_UNIT = 32 << 20 };

static CUresult pool_new(int device, CUmemoryPool *pool)
{
    CUmemoryPool made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_POOL)) {
        spt_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->device = device;
    for (int i = 0; i < 3; i++)
        made->reuse[i] = 1;
    made->next = sim_the.pools;
    sim_the.pools = made;
    *pool = made;
    return CUDA_SUCCESS;
}

static void pool_delete(CUmemoryPool pool)
{
    CUmemoryPool *link = &sim_the.pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    sim_handle_drop(pool);
    spt_free(pool->blocks);
    spt_free(pool);
}

void sim_pools_delete(void)
{
    while (sim_the.pools)
        pool_delete(sim_the.pools);
}

static CUresult default_pool(int device, CUmemoryPool *pool)
{
    sim_device *dev = &sim_the.devices[device];
    CUresult result = CUDA_SUCCESS;
    if (!dev->default_pool) {
        result = pool_new(device, &dev->default_pool);
        if (result != CUDA_SUCCESS)
            return result;
        dev->default_pool->is_default = true;
    }
    *pool = dev->default_pool;
    return result;
}

/* The pool that cuMemAllocAsync takes from. */
static CUresult current_pool(int device, CUmemoryPool *pool)
{
    *pool = sim_the.devices[device].pool;
    return *pool ? CUDA_SUCCESS : default_pool(device, pool);
}

/* --- allocations -------------------------------------------------------- */

static void reserve(CUmemoryPool pool)
{
    uint64_t wanted =
        (pool->used + RESERVE_UNIT - 1) / RESERVE_UNIT * RESERVE_UNIT;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (wanted > pool->reserved)
        pool->reserved = wanted;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

/* Gives back what is neither used nor to be kept. */
static void trim(CUmemoryPool pool, uint64_t keep)
{
    uint64_t least =
        (pool->used + RESERVE_UNIT - 1) / RESERVE_UNIT * RESERVE_UNIT;
    if (keep > pool->reserved)
        keep = pool->reserved;
    pool->reserved = least > keep ? least : keep;
}

static CUresult pool_alloc(CUmemoryPool pool, uint64_t size, uint64_t *va)
{
    if (!spt_grow(&pool->blocks, &pool->room, pool->n_blocks + 1,
                  sizeof *pool->blocks))
        return CUDA_ERROR_OUT_OF_MEMORY;
    spt_status status =
        sim_memory_alloc(sim_the.memory, pool->device, size, va);
    if (status != SPT_OK)
        return sim_result_of(status);
    pool->blocks[pool->n_blocks++] = (struct sim_pool_block){*va, size};
    pool->used += size;
    reserve(pool);
    return CUDA_SUCCESS;
}

static size_t block_of(const struct CUmemPoolHandle_st *pool, uint64_t address)
{
    size_t i = 0;
    while (i < pool->n_blocks && pool->blocks[i].address != address)
        i++;
    return i;
}

CUmemoryPool sim_pool_of(CUdeviceptr address)
{
    CUmemoryPool pool = sim_the.pools;
    while (pool && block_of(pool, address) == pool->n_blocks)
        pool = pool->next;
    return pool;
}

void sim_pool_release(CUdeviceptr address)
{
    CUmemoryPool pool = sim_pool_of(address);
    sim_graph_block *block = sim_graph_block_at(address);
    if (block) {
        sim_graph_block_set(block, false);
        return;
    }
    sim_memory_release(sim_the.memory, address);
    if (!pool)
        return;
    size_t i = block_of(pool, address);
    pool->used -= pool->blocks[i].size;
    pool->blocks[i] = pool->blocks[--pool->n_blocks];
    trim(pool, pool->threshold);
    if (pool->destroyed && !pool->n_blocks)
        pool_delete(pool);
}

/* pool NULL: the device's current one. */
static CUresult alloc_async(CUdeviceptr *address, size_t size,
                            CUmemoryPool pool, CUstream handle)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    if (!address || !size)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS && stream->capture != SIM_CAPTURE_NONE)
        return sim_leave(sim_capture_alloc(stream, size, address));
    if (result == CUDA_SUCCESS && !pool)
        result = current_pool(ctx->device, &pool);
    if (result == CUDA_SUCCESS && !sim_handle_is(pool, SIM_HANDLE_POOL))
        result = CUDA_ERROR_INVALID_HANDLE;
    uint64_t va;
    if (result == CUDA_SUCCESS)
        result = pool_alloc(pool, size, &va);
    if (result == CUDA_SUCCESS)
        *address = va;
    return sim_leave(result);
}

CUresult SIM_FN(cuMemAllocAsync)(CUdeviceptr *address, size_t size,
                                 CUstream stream)
{
    return alloc_async(address, size, NULL, stream);
}

CUresult SIM_FN(cuMemAllocFromPoolAsync)(CUdeviceptr *address, size_t size,
                                         CUmemoryPool pool, CUstream stream)
{
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_async(address, size, pool, stream);
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
    if (!sim_is_allocation(address) ||
        sim_host_find((void *)(uintptr_t)address))
        return sim_leave(sim_because(CUDA_ERROR_INVALID_VALUE,
                                     "free: 0x%llx is no allocation",
                                     (unsigned long long)address));
    sim_work work = {.kind = SIM_WORK_FREE, .address = address};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* --- pools -------------------------------------------------------------- */

CUresult SIM_FN(cuDeviceGetDefaultMemPool)(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(pool ? default_pool(device, pool)
                          : CUDA_ERROR_INVALID_VALUE);
}

CUresult SIM_FN(cuDeviceGetMemPool)(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_leave(pool ? current_pool(device, pool)
                          : CUDA_ERROR_INVALID_VALUE);
}

CUresult SIM_FN(cuDeviceSetMemPool)(CUdevice device, CUmemoryPool pool)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(pool, SIM_HANDLE_POOL) || pool->device != device)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_the.devices[device].pool = pool;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult enter_pool(CUmemoryPool pool)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_handle_is(pool, SIM_HANDLE_POOL) || pool->destroyed)
        return sim_leave(CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuMemPoolCreate)(CUmemoryPool *pool,
                                 const CUmemPoolProps *props)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return sim_leave(sim_lacks("cuMemPoolCreate",
                                   "pools of host memory, or shared between "
                                   "processes"));
    if (props->location.id < 0 || props->location.id >= sim_the.n_devices)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    return sim_leave(pool_new(props->location.id, pool));
}

CUresult SIM_FN(cuMemPoolDestroy)(CUmemoryPool pool)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    if (pool->is_default)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_device *dev = &sim_the.devices[pool->device];
    if (dev->pool == pool)
        dev->pool = NULL;
    pool->destroyed = true;
    if (!pool->n_blocks)
        pool_delete(pool);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuMemPoolTrimTo)(CUmemoryPool pool, size_t keep)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    trim(pool, keep);
    return sim_leave(CUDA_SUCCESS);
}

/* The switch or the number behind an attribute; both NULL: none. */
static void attribute_place(CUmemoryPool pool, CUmemPool_attribute attribute,
                            int **flag, uint64_t **number)
{
    *flag = NULL;
    *number = NULL;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *flag = &pool->reuse[attribute -
                             CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *number = &pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *number = &pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *number = &pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *number = &pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *number = &pool->used_high;
        break;
    default:
        break;
    }
}

CUresult SIM_FN(cuMemPoolGetAttribute)(CUmemoryPool pool,
                                       CUmemPool_attribute attribute,
                                       void *value)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    int *flag;
    uint64_t *number;
    attribute_place(pool, attribute, &flag, &number);
    if (!value || (!flag && !number))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flag)
        memcpy(value, flag, sizeof(*flag));
    else
        memcpy(value, number, sizeof(*number));
    return sim_leave(CUDA_SUCCESS);
}

/* A high-water mark can only be set back to what is current. */
CUresult SIM_FN(cuMemPoolSetAttribute)(CUmemoryPool pool,
                                       CUmemPool_attribute attribute,
                                       void *value)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    int *flag;
    uint64_t *number, wanted;
    attribute_place(pool, attribute, &flag, &number);
    if (!value || (!flag && !number))
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (flag) {
        memcpy(flag, value, sizeof(*flag));
        return sim_leave(CUDA_SUCCESS);
    }
    memcpy(&wanted, value, sizeof(wanted));
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = wanted;
    else if (wanted || number == &pool->used || number == &pool->reserved)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    else
        *number = number == &pool->used_high ? pool->used : pool->reserved;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuMemPoolGetAccess)(CUmemAccess_flags *flags, CUmemoryPool pool,
                                    CUmemLocation *location)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags || !location)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                     location->id == pool->device
                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(CUDA_SUCCESS);
}

/* A device always has access to its own pools, and never to others'. */
CUresult SIM_FN(cuMemPoolSetAccess)(CUmemoryPool pool,
                                    const CUmemAccessDesc *wanted, size_t count)
{
    CUresult result = enter_pool(pool);
    if (result != CUDA_SUCCESS)
        return result;
    if (count && !wanted)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        bool own = wanted[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   wanted[i].location.id == pool->device;
        bool none = wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (own == none)
            return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    return sim_leave(CUDA_SUCCESS);
}
