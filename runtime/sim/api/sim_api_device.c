/*
 * Driver calls about devices. Contexts are in sim_api_context.c.
 */
#include "sim_driver.h"

#include <stdio.h>
#include <string.h>

enum { WARP = 32 };

sim_device *sim_device_of(CUcontext ctx)
{
    return &sim_the.devices[ctx->device];
}

CUresult sim_enter_device(CUdevice device)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= sim_the.n_devices)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuDeviceGetCount)(int *count)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *count = sim_the.n_devices;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceGet)(CUdevice *device, int ordinal)
{
    CUresult result = sim_enter_device(ordinal);
    if (result != CUDA_SUCCESS)
        return result;
    if (!device)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *device = ordinal;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceGetName)(char *name, int size, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!name || size < 1)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const spt_board *board = &sim_the.devices[device].board;
    snprintf(name, (size_t)size, "sim: %s",
             board->title[0] ? board->title : board->name);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceGetUuid)(CUuuid *uuid, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!uuid)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "sim-%d", device);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceTotalMem)(size_t *bytes, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!bytes)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *bytes = (size_t)sim_the.devices[device].board.memory_bytes;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceGetPCIBusId)(char *text, int size, CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!text || size < 13)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
    return sim_leave(CUDA_SUCCESS);
}

/* "0000:01:00.0", also without the domain. */
CUresult SIM_FN(cuDeviceGetByPCIBusId)(CUdevice *device, const char *text)
{
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!device || !text)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    unsigned domain = 0, bus = 0, slot = 0;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        sscanf(text, "%x:%x", &bus, &slot) != 2)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (domain || slot || bus < 1 || bus > (unsigned)sim_the.n_devices)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = (CUdevice)bus - 1;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceGetP2PAttribute)(int *value,
                                         CUdevice_P2PAttribute attribute,
                                         CUdevice device, CUdevice peer)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (peer < 0 || peer >= sim_the.n_devices || peer == device)
        return sim_leave(CUDA_ERROR_INVALID_DEVICE);
    if (!value || (int)attribute < 1)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    *value = 0; /* all of them tell what peer access can do */
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuDeviceCanAccessPeer)(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!can || peer < 0 || peer >= sim_the.n_devices)
        return sim_leave(!can ? CUDA_ERROR_INVALID_VALUE
                              : CUDA_ERROR_INVALID_DEVICE);
    *can = 0; /* no peer access */
    return sim_leave(CUDA_SUCCESS);
}

/* DDR: two transfers per clock; a bus width that gives the board's rate. */
enum { MEMORY_BUS_BITS = 4096 };

static int memory_clock_khz(const spt_board *board)
{
    return (int)(board->dram_gbps * 1e9 / (MEMORY_BUS_BITS / 8.0 * 2) / 1e3);
}

CUresult SIM_FN(cuDeviceGetAttribute)(int *value, CUdevice_attribute attribute,
                                      CUdevice device)
{
    CUresult result = sim_enter_device(device);
    if (result != CUDA_SUCCESS)
        return result;
    const spt_board *board = &sim_the.devices[device].board;
    if (!value)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
#define SIM_ATTRIBUTE(name, expression) \
    case CU_DEVICE_ATTRIBUTE_##name:    \
        *value = (int)(expression);     \
        break;
#include "sim_attributes.def"
#undef SIM_ATTRIBUTE
    default:
        if ((int)attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
            return sim_leave(CUDA_ERROR_INVALID_VALUE);
        /* All others say whether something exists, and it does not. */
        *value = 0;
    }
    return sim_leave(CUDA_SUCCESS);
}
