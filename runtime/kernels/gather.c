#include "gather.h"

spt_status spt_gather_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_gather_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_gather_args copy = *args;
    int64_t bytes = (int64_t)kernel->threads * 16;
    const int64_t grid[3] = {rows, (args->row_bytes + bytes - 1) / bytes, 1};
    return spt_launch(driver, kernel, grid, &copy, stream, "gather", err);
}
