#include "gather.h"

spt_status spt_gather_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_gather_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_gather_args copy = *args;
    int64_t numbers = (int64_t)kernel->threads * 8;
    const int64_t grid[3] = {rows, (args->width + numbers - 1) / numbers, 1};
    return spt_launch(driver, kernel, grid, &copy, stream, "gather", err);
}
