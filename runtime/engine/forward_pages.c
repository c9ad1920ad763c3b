/* KV pages on the device: copies, paths that move together, save and load. */
#include <string.h>

#include "draft_block.h"
#include "forward_int.h"
#include "kv_compact.h"

/* K and V of all layers stand in one row of pages each: 2 * layers rows. */
static spt_status copy_rows(const spt_forward *f, CUDA_MEMCPY2D *copy,
                            const char *what, spt_error *err)
{
    copy->WidthInBytes = (size_t)f->sizes.page_bytes;
    copy->Height = 2 * (size_t)f->sizes.layers;
    SPT_TRY(forward_check(f, f->driver->cuMemcpy2DAsync(copy, f->stream), what,
                          err));
    return forward_check(f, f->driver->cuStreamSynchronize(f->stream), what,
                         err);
}

static CUdeviceptr page_at(const spt_forward *f, int page)
{
    return f->buffer[SPT_FORWARD_KV] + (uint64_t)page * f->sizes.page_bytes;
}

static size_t row_pitch(const spt_forward *f)
{
    return (size_t)(f->sizes.pages * f->sizes.page_bytes);
}

spt_status spt_forward_copy_page(spt_forward *f, spt_page_copy copy,
                                 spt_error *err)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = page_at(f, copy.from),
                       .srcPitch = row_pitch(f),
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = page_at(f, copy.to),
                       .dstPitch = row_pitch(f)};
    SPT_TRY(forward_copy_features(f, copy, err));
    return copy_rows(f, &c, "copy of a KV page", err);
}

size_t spt_forward_page_bytes(const spt_forward *f)
{
    return 2 * (size_t)(f->sizes.layers * f->sizes.page_bytes);
}

spt_status spt_forward_read_page(spt_forward *f, int page, void *data,
                                 spt_error *err)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = page_at(f, page),
                       .srcPitch = row_pitch(f),
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = data,
                       .dstPitch = (size_t)f->sizes.page_bytes};
    return copy_rows(f, &c, "reading a KV page", err);
}

spt_status spt_forward_write_page(spt_forward *f, int page, const void *data,
                                  spt_error *err)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = data,
                       .srcPitch = (size_t)f->sizes.page_bytes,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = page_at(f, page),
                       .dstPitch = row_pitch(f)};
    SPT_TRY(forward_clear_features(f, page, err));
    return copy_rows(f, &c, "writing a KV page", err);
}

spt_status spt_forward_compact(spt_forward *f, const spt_sequence *s,
                               const int *path, int count, spt_error *err)
{
    int moved = 0;
    while (moved < count && path[moved] == moved)
        moved++;
    if (moved == count)
        return SPT_OK;
    int32_t *host = f->inputs;
    CUdeviceptr device = f->buffer[SPT_FORWARD_INPUTS];
    enum { CONTEXT, LENGTH, PATH, PAGES = PATH + SPT_DRAFT_NODES };
    host[CONTEXT] = s->n_kv;
    host[LENGTH] = count;
    for (int i = 0; i < count; i++)
        host[PATH + i] = path[i];
    for (int i = 0; i < s->n_pages; i++)
        host[PAGES + i] = s->pages[i];
    size_t ints = (size_t)(PAGES + s->n_pages);
    SPT_TRY(forward_check(f,
                          f->driver->cuMemcpyHtoDAsync(
                              device, host, ints * sizeof *host, f->stream),
                          "copy of a path", err));
    const spt_kv_compact_args args = {
        .k = f->buffer[SPT_FORWARD_KV],
        .v = f->buffer[SPT_FORWARD_KV] +
             f->sizes.layers * f->sizes.pages * f->sizes.page_bytes,
        .page_table = device + PAGES * sizeof *host,
        .context = device + CONTEXT * sizeof *host,
        .path = device + PATH * sizeof *host,
        .path_length = device + LENGTH * sizeof *host,
        .layer_stride = (int64_t)(f->sizes.pages * f->sizes.page_bytes / 2),
        .kv_page_stride = (int64_t)(f->sizes.page_bytes / 2),
        .kv_token_stride = (int64_t)f->sizes.kv_width,
        .kv_head_stride = f->config->head_dim,
        .page_table_stride = s->n_pages,
        .path_stride = SPT_DRAFT_NODES,
        .kv_heads = f->config->kv_heads,
        .head_dim = f->config->head_dim};
    SPT_TRY(spt_kv_compact_launch(f->driver, f->kernels.compact, &args, 1,
                                  f->config->layers, f->stream, err));
    SPT_TRY(forward_compact_features(f, &args, err));
    return forward_check(f, f->driver->cuStreamSynchronize(f->stream),
                         "KV of an accepted path", err);
}
