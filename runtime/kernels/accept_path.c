#include "accept_path.h"

spt_status spt_accept_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_accept_args *args, int64_t sequences,
                             CUstream stream, spt_error *err)
{
    spt_accept_args copy = *args;
    const int64_t grid[3] = {sequences, 1, 1};
    return spt_launch(driver, kernel, grid, &copy, stream, "accept", err);
}
