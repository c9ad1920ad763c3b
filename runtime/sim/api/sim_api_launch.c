/*
 * Driver calls that launch, and those about occupancy.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"
#include "occupancy.h"

enum { DEFAULT_CLUSTER = 8, MOST_CLUSTER = 16 };

/* --- validation --------------------------------------------------------- */

static CUresult check_shape(const sim_kernel *kernel)
{
    static const uint32_t grid_most[3] = {2147483647, 65535, 65535};
    static const uint32_t block_most[3] = {1024, 1024, 64};
    CUfunction func = kernel->func;
    const ptx_func *ptx = &func->module->ptx->funcs[func->index];
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!kernel->grid[i] || kernel->grid[i] > grid_most[i])
            return sim_because(CUDA_ERROR_INVALID_VALUE,
                               "launch of %s: grid %c is %u, expected 1 to %u",
                               ptx->name, 'x' + i, kernel->grid[i],
                               grid_most[i]);
        if (!kernel->block[i] || kernel->block[i] > block_most[i])
            return sim_because(CUDA_ERROR_INVALID_VALUE,
                               "launch of %s: block %c is %u, expected 1 to "
                               "%u",
                               ptx->name, 'x' + i, kernel->block[i],
                               block_most[i]);
        threads *= kernel->block[i];
        if (ptx->required_threads[0] &&
            kernel->block[i] !=
                (ptx->required_threads[i] ? ptx->required_threads[i] : 1))
            return sim_because(CUDA_ERROR_INVALID_VALUE,
                               "launch of %s: block %c is %u, the kernel "
                               "requires %u",
                               ptx->name, 'x' + i, kernel->block[i],
                               ptx->required_threads[i]);
    }
    if (threads > (uint64_t)func->max_threads)
        return sim_because(CUDA_ERROR_INVALID_VALUE,
                           "launch of %s: %llu threads per block, expected at "
                           "most %d",
                           ptx->name, (unsigned long long)threads,
                           func->max_threads);
    return CUDA_SUCCESS;
}

static int occupancy_of(CUfunction func, int threads, uint64_t dynamic)
{
    const spt_board *board = &sim_device_of(func->module->ctx)->board;
    if (dynamic > (uint64_t)board->shared_per_cta_bytes)
        return 0;
    return spt_occupancy(board, threads, func->registers,
                         func->shared_bytes + (int)dynamic);
}

static CUresult check_cooperative(const sim_kernel *kernel)
{
    CUfunction func = kernel->func;
    const spt_board *board = &sim_device_of(func->module->ctx)->board;
    uint64_t ctas =
        (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2];
    int threads = (int)(kernel->block[0] * kernel->block[1] * kernel->block[2]);
    uint64_t room = (uint64_t)board->sm_count *
                    (uint64_t)occupancy_of(func, threads, kernel->shared_bytes);
    if (ctas <= room)
        return CUDA_SUCCESS;
    return sim_because(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                       "cooperative launch: %llu blocks, the device holds "
                       "%llu",
                       (unsigned long long)ctas, (unsigned long long)room);
}

static CUresult check_cluster(sim_kernel *kernel)
{
    CUfunction func = kernel->func;
    const ptx_func *ptx = &func->module->ptx->funcs[func->index];
    const spt_board *board = &sim_device_of(func->module->ctx)->board;
    if (!kernel->cluster[0])
        memcpy(kernel->cluster, ptx->cluster, sizeof(kernel->cluster));
    if (!kernel->cluster[0])
        return ptx->explicit_cluster
                   ? sim_because(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                                 "launch of %s: it needs a cluster dimension",
                                 ptx->name)
                   : CUDA_SUCCESS;
    uint64_t size = 1;
    for (int i = 0; i < 3; i++) {
        if (!kernel->cluster[i])
            kernel->cluster[i] = 1;
        size *= kernel->cluster[i];
        if (kernel->grid[i] % kernel->cluster[i] ||
            (ptx->cluster[0] && ptx->cluster[i] != kernel->cluster[i]))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    uint64_t most = func->cluster_any_size ? MOST_CLUSTER : DEFAULT_CLUSTER;
    if (ptx->max_cluster && ptx->max_cluster < most)
        most = ptx->max_cluster;
    return size > most || (size > 1 && board->cc_major < 9)
               ? CUDA_ERROR_INVALID_CLUSTER_SIZE
               : CUDA_SUCCESS;
}

CUresult sim_kernel_check(sim_kernel *kernel)
{
    CUfunction func = kernel->func;
    CUresult result = check_shape(kernel);
    if (result == CUDA_SUCCESS)
        result = check_cluster(kernel);
    if (result != CUDA_SUCCESS)
        return result;
    if (kernel->shared_bytes > (uint32_t)func->max_dynamic_bytes)
        return sim_because(CUDA_ERROR_INVALID_VALUE,
                           "launch of %s: %u bytes of dynamic shared memory, "
                           "expected at most %d (set "
                           "MAX_DYNAMIC_SHARED_SIZE_BYTES)",
                           func->module->ptx->funcs[func->index].name,
                           kernel->shared_bytes, func->max_dynamic_bytes);
    return kernel->cooperative ? check_cooperative(kernel) : CUDA_SUCCESS;
}

/* The buffer of CU_LAUNCH_PARAM_BUFFER_POINTER, laid out by the caller. */
static CUresult pack_extra(uint64_t size, void **extra, uint8_t *packed)
{
    const void *buffer = NULL;
    uint64_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes < size && !(bytes == 0 && size == 0))
        return sim_because(CUDA_ERROR_INVALID_VALUE,
                           "launch: %llu bytes of parameters, the kernel "
                           "takes %llu",
                           (unsigned long long)bytes, (unsigned long long)size);
    if (size && !buffer)
        return CUDA_ERROR_INVALID_VALUE;
    if (size)
        memcpy(packed, buffer, size);
    return CUDA_SUCCESS;
}

CUresult sim_params_pack(sim_kernel *kernel, void **params, void **extra)
{
    CUfunction func = kernel->func;
    const ptx_module *ptx = func->module->ptx;
    const ptx_func *f = &ptx->funcs[func->index];
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    uint8_t *bytes = spt_calloc(f->param_bytes ? f->param_bytes : 1, 1);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    if (extra) {
        result = pack_extra(f->param_bytes, extra, bytes);
    } else if (!params && f->n_params) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        for (uint32_t i = 0; i < f->n_params; i++) {
            const ptx_var *var = &ptx->vars[f->params[i]];
            if (!params[i]) {
                result = CUDA_ERROR_INVALID_VALUE;
                break;
            }
            memcpy(bytes + var->offset, params[i], var->size);
        }
    }
    if (result != CUDA_SUCCESS) {
        spt_free(bytes);
        return result;
    }
    kernel->params = bytes;
    kernel->param_bytes = f->param_bytes;
    return CUDA_SUCCESS;
}

/* --- launches ----------------------------------------------------------- */

static CUresult launch(CUstream handle, sim_kernel *kernel, void **params,
                       void **extra)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    CUstream stream;
    result = sim_function_of(ctx, &kernel->func);
    if (result == CUDA_SUCCESS)
        result = sim_stream_of(ctx, handle, &stream);
    if (result == CUDA_SUCCESS && stream->ctx != kernel->func->module->ctx)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result = sim_kernel_check(kernel);
    if (result == CUDA_SUCCESS)
        result = sim_params_pack(kernel, params, extra);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    sim_work work = {.kind = SIM_WORK_KERNEL, .kernel = *kernel};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

CUresult SIM_FN(cuLaunchKernel)(CUfunction func, unsigned grid_x,
                                unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared_bytes,
                                CUstream stream, void **params, void **extra)
{
    sim_kernel kernel = {
        .func = func,
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .shared_bytes = shared_bytes,
    };
    return launch(stream, &kernel, params, extra);
}

CUresult SIM_FN(cuLaunchCooperativeKernel)(CUfunction func, unsigned grid_x,
                                           unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y,
                                           unsigned block_z,
                                           unsigned shared_bytes,
                                           CUstream stream, void **params)
{
    sim_kernel kernel = {
        .func = func,
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .shared_bytes = shared_bytes,
        .cooperative = true,
    };
    return launch(stream, &kernel, params, NULL);
}

int sim_hint_of(CUlaunchAttributeID id)
{
    switch (id) {
#define SIM_HINT(name)               \
    case CU_LAUNCH_ATTRIBUTE_##name: \
        return SIM_HINT_##name;
#include "sim_hints.def"
#undef SIM_HINT
    default:
        return -1;
    }
}

CUresult sim_kernel_attribute(sim_kernel *kernel,
                              const CUlaunchAttribute *attribute)
{
    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        kernel->cooperative = attribute->value.cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        kernel->cluster[0] = attribute->value.clusterDim.x;
        kernel->cluster[1] = attribute->value.clusterDim.y;
        kernel->cluster[2] = attribute->value.clusterDim.z;
        return CUDA_SUCCESS;
    default:
        return sim_hint_of(attribute->id) >= 0
                   ? CUDA_SUCCESS
                   : sim_lacks("cuLaunchKernelEx", "a launch attribute");
    }
}

CUresult SIM_FN(cuLaunchKernelEx)(const CUlaunchConfig *config, CUfunction func,
                                  void **params, void **extra)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    sim_kernel kernel = {
        .func = func,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared_bytes = config->sharedMemBytes,
    };
    for (unsigned i = 0; i < config->numAttrs; i++) {
        CUresult result = sim_kernel_attribute(&kernel, &config->attrs[i]);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return launch(config->hStream, &kernel, params, extra);
}

CUresult SIM_FN(cuLaunchHostFunc)(CUstream handle, CUhostFn call, void *user)
{
    CUstream stream;
    CUresult result = sim_enter_stream(handle, call != NULL, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    sim_work work = {.kind = SIM_WORK_HOST,
                     .host = {.call = call, .user = user}};
    return sim_leave(sim_enqueue(stream, &work, NULL));
}

/* --- occupancy ---------------------------------------------------------- */

CUresult SIM_FN(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
    int *blocks, CUfunction func, int threads, size_t dynamic, unsigned flags)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!blocks || threads < 1 || flags > 1)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_function_of(ctx, &func);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    *blocks = occupancy_of(func, threads, dynamic);
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *blocks,
                                                             CUfunction func,
                                                             int threads,
                                                             size_t dynamic)
{
    return SIM_FN(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
        blocks, func, threads, dynamic, 0);
}

CUresult SIM_FN(cuOccupancyMaxPotentialBlockSize)(int *min_grid, int *block,
                                                  CUfunction func,
                                                  CUoccupancyB2DSize dynamic_of,
                                                  size_t dynamic, int limit)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!min_grid || !block)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_function_of(ctx, &func);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    int most = func->max_threads, best = 0, best_block = 0, best_ctas = 0;
    if (limit > 0 && limit < most)
        most = limit;
    for (int threads = most; threads > 0;
         threads = threads % 32 ? threads / 32 * 32 : threads - 32) {
        size_t bytes = dynamic_of ? dynamic_of(threads) : dynamic;
        int ctas = occupancy_of(func, threads, bytes);
        if (ctas * threads > best) {
            best = ctas * threads;
            best_block = threads;
            best_ctas = ctas;
        }
    }
    *block = best_block;
    *min_grid = best_ctas * sim_device_of(ctx)->board.sm_count;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuOccupancyAvailableDynamicSMemPerBlock)(size_t *bytes,
                                                         CUfunction func,
                                                         int blocks,
                                                         int threads)
{
    CUcontext ctx;
    CUresult result = sim_enter(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (!bytes || blocks < 1 || threads < 1)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_function_of(ctx, &func);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    const spt_board *board = &sim_device_of(ctx)->board;
    int room = board->shared_per_sm_bytes / blocks / 128 * 128 -
               board->shared_reserved_bytes;
    if (room > board->shared_per_cta_bytes)
        room = board->shared_per_cta_bytes;
    room -= func->shared_bytes;
    *bytes =
        room > 0 && occupancy_of(func, threads, 0) >= blocks ? (size_t)room : 0;
    return sim_leave(CUDA_SUCCESS);
}

/* Clusters: the largest that fits, and how many of one size fit at once. */
static CUresult enter_cluster(const CUlaunchConfig *config, CUfunction *func,
                              CUcontext *ctx, uint64_t *size)
{
    CUresult result = sim_enter(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_function_of(*ctx, func);
    if (result == CUDA_SUCCESS && !config)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    const ptx_func *ptx = &(*func)->module->ptx->funcs[(*func)->index];
    sim_kernel kernel = {.func = *func};
    memcpy(kernel.cluster, ptx->cluster, sizeof(kernel.cluster));
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            sim_kernel_attribute(&kernel, &config->attrs[i]);
    *size = 1;
    for (int i = 0; i < 3; i++)
        *size *= kernel.cluster[i] ? kernel.cluster[i] : 1;
    return CUDA_SUCCESS;
}

static int most_cluster(const struct CUfunc_st *func, const spt_board *board)
{
    if (board->cc_major < 9)
        return 1;
    return func->cluster_any_size ? MOST_CLUSTER : DEFAULT_CLUSTER;
}

static int config_threads(const CUlaunchConfig *config)
{
    return (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
}

CUresult
SIM_FN(cuOccupancyMaxPotentialClusterSize)(int *size, CUfunction func,
                                           const CUlaunchConfig *config)
{
    CUcontext ctx;
    uint64_t wanted;
    CUresult result = enter_cluster(config, &func, &ctx, &wanted);
    if (result != CUDA_SUCCESS)
        return result;
    if (!size)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    const spt_board *board = &sim_device_of(ctx)->board;
    bool fits =
        occupancy_of(func, config_threads(config), config->sharedMemBytes) > 0;
    *size = fits ? most_cluster(func, board) : 0;
    return sim_leave(CUDA_SUCCESS);
}

CUresult SIM_FN(cuOccupancyMaxActiveClusters)(int *clusters, CUfunction func,
                                              const CUlaunchConfig *config)
{
    CUcontext ctx;
    uint64_t size;
    CUresult result = enter_cluster(config, &func, &ctx, &size);
    if (result != CUDA_SUCCESS)
        return result;
    const spt_board *board = &sim_device_of(ctx)->board;
    if (!clusters)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (size > (uint64_t)most_cluster(func, board))
        return sim_leave(CUDA_ERROR_INVALID_CLUSTER_SIZE);
    int ctas = board->sm_count * occupancy_of(func, config_threads(config),
                                              config->sharedMemBytes);
    *clusters = ctas / (int)size;
    return sim_leave(CUDA_SUCCESS);
}
