/*
 * Driver calls that copy and fill memory.
 *
 * Where CUDA's guarantees differ by the kind of host memory, so do these: an
 * asynchronous copy from pageable memory reads its source at once; one to
 * pageable memory is finished when the call returns; with page-locked memory
 * both happen later.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

enum { DEVICE_SIDE, HOST_SIDE, ANY_SIDE };

static sim_side linear(int kind, uint64_t address, uint64_t size)
{
    sim_side side = {.address = address, .pitch = size, .height = 1};
    sim_range range;
    if (kind == ANY_SIDE)
        side.device = (address >= SIM_DEVICE_BASE(0) &&
                       address < SIM_DEVICE_BASE(sim_the.n_devices)) ||
                      sim_memory_find(sim_the.memory, address, &range, NULL);
    else
        side.device = kind == DEVICE_SIDE;
    return side;
}

/* Page-locked host memory counts as device memory where kernels see it. */
static bool pageable(const sim_side *side, uint64_t size)
{
    return !side->device &&
           !sim_host_pinned((void *)(uintptr_t)side->address, size);
}

static uint64_t extent_of(const sim_copy *copy, const sim_side *side)
{
    return (copy->slices - 1) * side->pitch * side->height +
           (copy->rows - 1) * side->pitch + copy->width;
}

static bool is_empty(const sim_copy *copy)
{
    return !copy->width || !copy->rows || !copy->slices;
}

/* Reads the source now, into memory of the copy's own. */
static CUresult stage(sim_copy *copy)
{
    uint8_t *to = spt_calloc(copy->width * copy->rows, copy->slices);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const sim_side *from = &copy->from;
    uint8_t *out = to;
    for (uint64_t slice = 0; slice < copy->slices; slice++)
        for (uint64_t row = 0; row < copy->rows; row++) {
            uint64_t offset = (slice * from->height + row) * from->pitch;
            memcpy(out, (const uint8_t *)(uintptr_t)from->address + offset,
                   copy->width);
            out += copy->width;
        }
    copy->staged = to;
    copy->from = (sim_side){
        .address = (uint64_t)(uintptr_t)to,
        .pitch = copy->width,
        .height = copy->rows,
    };
    return CUDA_SUCCESS;
}

/*
 * Enqueues a copy. wait: the call is synchronous where host memory takes part.
 * A copy between device addresses never makes the host wait.
 */
static CUresult copy_in(CUcontext ctx, CUstream handle, sim_copy copy,
                        bool wait)
{
    CUstream stream;
    CUresult result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS)
        result = sim_copy_check(&copy);
    if (result != CUDA_SUCCESS || is_empty(&copy))
        return result;
    bool host = !copy.to.device || !copy.from.device;
    bool capturing = stream->capture != SIM_CAPTURE_NONE;
    if (!capturing && host && pageable(&copy.to, extent_of(&copy, &copy.to)))
        wait = true;
    if (capturing && wait)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!wait && !capturing &&
        pageable(&copy.from, extent_of(&copy, &copy.from)))
        result = stage(&copy);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work = {.kind = SIM_WORK_COPY, .copy = copy};
    uint64_t number;
    result = sim_enqueue(stream, &work, &number);
    if (result == CUDA_SUCCESS && wait && host)
        result = sim_drain(stream, number);
    return result;
}

static CUresult copy_linear(CUstream stream, int to_kind, uint64_t to,
                            int from_kind, uint64_t from, size_t size,
                            bool wait)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_copy copy = {
        .to = linear(to_kind, to, size),
        .from = linear(from_kind, from, size),
        .width = size,
        .rows = 1,
        .slices = 1,
    };
    return sim_leave(copy_in(ctx, stream, copy, wait));
}

#define HOST(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult SIM_FN(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_linear(NULL, ANY_SIDE, to, ANY_SIDE, from, size, true);
}

CUresult SIM_FN(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t size,
                               CUstream stream)
{
    return copy_linear(stream, ANY_SIDE, to, ANY_SIDE, from, size, false);
}

CUresult SIM_FN(cuMemcpyHtoD)(CUdeviceptr to, const void *from, size_t size)
{
    return copy_linear(NULL, DEVICE_SIDE, to, HOST_SIDE, HOST(from), size,
                       true);
}

CUresult SIM_FN(cuMemcpyDtoH)(void *to, CUdeviceptr from, size_t size)
{
    return copy_linear(NULL, HOST_SIDE, HOST(to), DEVICE_SIDE, from, size,
                       true);
}

CUresult SIM_FN(cuMemcpyDtoD)(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_linear(NULL, DEVICE_SIDE, to, DEVICE_SIDE, from, size, true);
}

CUresult SIM_FN(cuMemcpyHtoDAsync)(CUdeviceptr to, const void *from,
                                   size_t size, CUstream stream)
{
    return copy_linear(stream, DEVICE_SIDE, to, HOST_SIDE, HOST(from), size,
                       false);
}

CUresult SIM_FN(cuMemcpyDtoHAsync)(void *to, CUdeviceptr from, size_t size,
                                   CUstream stream)
{
    return copy_linear(stream, HOST_SIDE, HOST(to), DEVICE_SIDE, from, size,
                       false);
}

CUresult SIM_FN(cuMemcpyDtoDAsync)(CUdeviceptr to, CUdeviceptr from,
                                   size_t size, CUstream stream)
{
    return copy_linear(stream, DEVICE_SIDE, to, DEVICE_SIDE, from, size, false);
}

/* All devices share one address space. */
CUresult SIM_FN(cuMemcpyPeer)(CUdeviceptr to, CUcontext to_ctx,
                              CUdeviceptr from, CUcontext from_ctx, size_t size)
{
    (void)to_ctx, (void)from_ctx;
    return SIM_FN(cuMemcpyDtoD)(to, from, size);
}

CUresult SIM_FN(cuMemcpyPeerAsync)(CUdeviceptr to, CUcontext to_ctx,
                                   CUdeviceptr from, CUcontext from_ctx,
                                   size_t size, CUstream stream)
{
    (void)to_ctx, (void)from_ctx;
    return SIM_FN(cuMemcpyDtoDAsync)(to, from, size, stream);
}

/* --- two and three dimensions ------------------------------------------- */

typedef struct box_side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x, y, z, lod, pitch, height;
} box_side;

static CUresult box_to_side(const box_side *box, sim_side *side)
{
    uint64_t address;
    switch (box->type) {
    case CU_MEMORYTYPE_HOST:
        address = HOST(box->host);
        *side = linear(HOST_SIDE, address, 0);
        break;
    case CU_MEMORYTYPE_DEVICE:
        *side = linear(DEVICE_SIDE, box->device, 0);
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *side = linear(ANY_SIDE, box->device, 0);
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* arrays */
    }
    if (box->lod)
        return CUDA_ERROR_INVALID_VALUE;
    side->pitch = box->pitch;
    side->height = box->height ? box->height : 1;
    side->address += (box->z * side->height + box->y) * box->pitch + box->x;
    return CUDA_SUCCESS;
}

static CUresult copy_of_boxes(box_side to, box_side from, size_t width,
                              size_t rows, size_t slices, sim_copy *copy)
{
    *copy = (sim_copy){.width = width, .rows = rows, .slices = slices};
    to.pitch = to.pitch ? to.pitch : width;
    from.pitch = from.pitch ? from.pitch : width;
    to.height = to.height ? to.height : rows;
    from.height = from.height ? from.height : rows;
    CUresult result = box_to_side(&to, &copy->to);
    return result == CUDA_SUCCESS ? box_to_side(&from, &copy->from) : result;
}

/* Of CUDA_MEMCPY2D and 3D; side: src or dst. */
#define PLANE_SIDE(c, side)                                                   \
    .type = (c)->side##MemoryType, .host = (c)->side##Host,                   \
    .device = (c)->side##Device, .x = (c)->side##XInBytes, .y = (c)->side##Y, \
    .pitch = (c)->side##Pitch
#define BOX_SIDE(c, side)                                          \
    PLANE_SIDE(c, side), .z = (c)->side##Z, .lod = (c)->side##LOD, \
                         .height = (c)->side##Height

static CUresult copy_of_2d(const CUDA_MEMCPY2D *c, sim_copy *copy)
{
    const box_side to = {PLANE_SIDE(c, dst)}, from = {PLANE_SIDE(c, src)};
    return copy_of_boxes(to, from, c->WidthInBytes, c->Height, 1, copy);
}

CUresult sim_copy_of_3d(const CUDA_MEMCPY3D *c, sim_copy *copy)
{
    const box_side to = {BOX_SIDE(c, dst)}, from = {BOX_SIDE(c, src)};
    return copy_of_boxes(to, from, c->WidthInBytes, c->Height, c->Depth, copy);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool wait)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_copy copy;
    result = c ? copy_of_2d(c, &copy) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = copy_in(ctx, stream, copy, wait);
    return sim_leave(result);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool wait)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    sim_copy copy;
    result = c ? sim_copy_of_3d(c, &copy) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = copy_in(ctx, stream, copy, wait);
    return sim_leave(result);
}

CUresult SIM_FN(cuMemcpy2D)(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, true);
}

CUresult SIM_FN(cuMemcpy2DUnaligned)(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, true);
}

CUresult SIM_FN(cuMemcpy2DAsync)(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_2d(copy, stream, false);
}

CUresult SIM_FN(cuMemcpy3D)(const CUDA_MEMCPY3D *copy)
{
    return copy_3d(copy, NULL, true);
}

CUresult SIM_FN(cuMemcpy3DAsync)(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_3d(copy, stream, false);
}

/* --- fills -------------------------------------------------------------- */

static CUresult fill_in(CUstream handle, sim_fill fill)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS)
        result = sim_fill_check(&fill);
    if (result != CUDA_SUCCESS || !fill.width || !fill.rows)
        return sim_leave(result);
    sim_work work = {.kind = SIM_WORK_FILL, .fill = fill};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

static CUresult fill_linear(CUstream stream, CUdeviceptr to, uint32_t value,
                            uint32_t bytes, size_t count)
{
    sim_fill fill = {
        .to = to,
        .pitch = count * bytes,
        .width = count,
        .rows = 1,
        .value = value,
        .bytes = bytes,
    };
    return fill_in(stream, fill);
}

static CUresult fill_rows(CUstream stream, CUdeviceptr to, size_t pitch,
                          uint32_t value, uint32_t bytes, size_t width,
                          size_t rows)
{
    sim_fill fill = {
        .to = to,
        .pitch = pitch,
        .width = width,
        .rows = rows,
        .value = value,
        .bytes = bytes,
    };
    return fill_in(stream, fill);
}

CUresult SIM_FN(cuMemsetD8)(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill_linear(NULL, to, value, 1, count);
}

CUresult SIM_FN(cuMemsetD16)(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill_linear(NULL, to, value, 2, count);
}

CUresult SIM_FN(cuMemsetD32)(CUdeviceptr to, unsigned value, size_t count)
{
    return fill_linear(NULL, to, value, 4, count);
}

CUresult SIM_FN(cuMemsetD8Async)(CUdeviceptr to, unsigned char value,
                                 size_t count, CUstream stream)
{
    return fill_linear(stream, to, value, 1, count);
}

CUresult SIM_FN(cuMemsetD16Async)(CUdeviceptr to, unsigned short value,
                                  size_t count, CUstream stream)
{
    return fill_linear(stream, to, value, 2, count);
}

CUresult SIM_FN(cuMemsetD32Async)(CUdeviceptr to, unsigned value, size_t count,
                                  CUstream stream)
{
    return fill_linear(stream, to, value, 4, count);
}

CUresult SIM_FN(cuMemsetD2D8)(CUdeviceptr to, size_t pitch, unsigned char value,
                              size_t width, size_t rows)
{
    return fill_rows(NULL, to, pitch, value, 1, width, rows);
}

CUresult SIM_FN(cuMemsetD2D16)(CUdeviceptr to, size_t pitch,
                               unsigned short value, size_t width, size_t rows)
{
    return fill_rows(NULL, to, pitch, value, 2, width, rows);
}

CUresult SIM_FN(cuMemsetD2D32)(CUdeviceptr to, size_t pitch, unsigned value,
                               size_t width, size_t rows)
{
    return fill_rows(NULL, to, pitch, value, 4, width, rows);
}

CUresult SIM_FN(cuMemsetD2D8Async)(CUdeviceptr to, size_t pitch,
                                   unsigned char value, size_t width,
                                   size_t rows, CUstream stream)
{
    return fill_rows(stream, to, pitch, value, 1, width, rows);
}

CUresult SIM_FN(cuMemsetD2D16Async)(CUdeviceptr to, size_t pitch,
                                    unsigned short value, size_t width,
                                    size_t rows, CUstream stream)
{
    return fill_rows(stream, to, pitch, value, 2, width, rows);
}

CUresult SIM_FN(cuMemsetD2D32Async)(CUdeviceptr to, size_t pitch,
                                    unsigned value, size_t width, size_t rows,
                                    CUstream stream)
{
    return fill_rows(stream, to, pitch, value, 4, width, rows);
}
