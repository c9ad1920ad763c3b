#include "sample.h"

spt_status spt_sample_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_sample_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_sample_args copy = *args;
    const int64_t grid[3] = {rows, 1, 1};
    if (args->vocabulary <= 0 || args->vocabulary > 1 << 19)
        return spt_fail(err, SPT_E_USAGE,
                        "sample: vocabulary of %d, expected 1 to 524288",
                        (int)args->vocabulary);
    return spt_launch(driver, kernel, grid, &copy, stream, "sample", err);
}
