/*
 * Memory of graphs: an allocation node's address is fixed when the node is
 * made, and stays as long as the graph or an executable has the node. Between
 * a free and the next allocation the contents count as never written.
 */
#include "sim_driver.h"

#include "mem.h"

static void raise(uint64_t *high, uint64_t now)
{
    if (now > *high)
        *high = now;
}

CUresult sim_graph_block_new(int device, uint64_t size, sim_graph_block **block)
{
    sim_graph_block *made = spt_calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    spt_status status =
        sim_memory_alloc(sim_the.memory, device, size, &made->address);
    if (status != SPT_OK) {
        spt_free(made);
        return sim_result_of(status);
    }
    made->size = size;
    made->device = device;
    made->references = 1;
    made->next = sim_the.graph_blocks;
    sim_the.graph_blocks = made;
    sim_device *dev = &sim_the.devices[device];
    dev->graph_kept += size;
    raise(&dev->graph_kept_high, dev->graph_kept);
    *block = made;
    return CUDA_SUCCESS;
}

sim_graph_block *sim_graph_block_at(uint64_t address)
{
    sim_graph_block *block = sim_the.graph_blocks;
    while (block && block->address != address)
        block = block->next;
    return block;
}

void sim_graph_block_set(sim_graph_block *block, bool live)
{
    sim_device *dev = &sim_the.devices[block->device];
    sim_memory_forget(sim_the.memory, block->address);
    if (live && !block->live)
        dev->graph_used += block->size;
    else if (!live && block->live)
        dev->graph_used -= block->size;
    raise(&dev->graph_used_high, dev->graph_used);
    block->live = live;
}

void sim_graph_block_release(sim_graph_block *block)
{
    if (--block->references)
        return;
    sim_graph_block **link = &sim_the.graph_blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (block->live)
        sim_graph_block_set(block, false);
    sim_the.devices[block->device].graph_kept -= block->size;
    sim_memory_release(sim_the.memory, block->address);
    spt_free(block);
}

/* --- the calls ---------------------------------------------------------- */

/* There is nothing to give back: memory goes with its graph. */
CUresult SIM_FN(cuDeviceGraphMemTrim)(CUdevice device)
{
    CUresult result = sim_enter_device(device);
    return result == CUDA_SUCCESS ? sim_leave(result) : result;
}

static uint64_t *place_of(sim_device *dev, CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &dev->graph_used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &dev->graph_used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &dev->graph_kept;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &dev->graph_kept_high;
    default:
        return NULL;
    }
}

CUresult SIM_FN(cuDeviceGetGraphMemAttribute)(CUdevice device,
                                              CUgraphMem_attribute attribute,
                                              void *value)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    const uint64_t *place = place_of(&sim_the.devices[device], attribute);
    if (!place || !value)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *(cuuint64_t *)value = *place;
    return sim_leave(CUDA_SUCCESS);
}

/* Only the high-water marks, and only back to what is current. */
CUresult SIM_FN(cuDeviceSetGraphMemAttribute)(CUdevice device,
                                              CUgraphMem_attribute attribute,
                                              void *value)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    sim_device *dev = &sim_the.devices[device];
    if (!value || *(const cuuint64_t *)value)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        dev->graph_used_high = dev->graph_used;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        dev->graph_kept_high = dev->graph_kept;
    else
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(CUDA_SUCCESS);
}
