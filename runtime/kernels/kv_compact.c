#include "kv_compact.h"

spt_status spt_kv_compact_launch(const spt_driver *driver,
                                 const spt_function *kernel,
                                 const spt_kv_compact_args *args, int64_t batch,
                                 int64_t layers, CUstream stream,
                                 spt_error *err)
{
    spt_kv_compact_args copy = *args;
    int64_t columns = (int64_t)args->kv_heads * (args->head_dim / 8);
    int64_t threads = kernel->threads;
    const int64_t grid[3] = {(columns + threads - 1) / threads, 2 * layers,
                             batch};
    return spt_launch(driver, kernel, grid, &copy, stream, "kv_compact", err);
}
