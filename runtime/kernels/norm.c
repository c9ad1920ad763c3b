#include "norm.h"

spt_status spt_norm_launch(const spt_driver *driver, const spt_function *kernel,
                           const spt_norm_args *args, int64_t rows,
                           CUstream stream, spt_error *err)
{
    spt_norm_args copy = *args;
    const int64_t grid[3] = {rows, 1, 1};
    return spt_launch(driver, kernel, grid, &copy, stream, "norm", err);
}
