#include "launch.h"

spt_status spt_launch(const spt_driver *driver, const spt_function *function,
                      const int64_t grid[3], void *args, CUstream stream,
                      const char *what, spt_error *err)
{
    static const int64_t limits[3] = {INT32_MAX, 65535, 65535};
    for (int i = 0; i < 3; i++)
        if (grid[i] > limits[i])
            return spt_fail(err, SPT_E_USAGE,
                            "%s: %lld CTAs in direction %d, expected at most "
                            "%lld",
                            what, (long long)grid[i], i, (long long)limits[i]);
    if (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0)
        return SPT_OK;
    void *params[] = {args};
    CUresult result = driver->cuLaunchKernel(
        function->function, (unsigned)grid[0], (unsigned)grid[1],
        (unsigned)grid[2], (unsigned)function->threads, 1, 1,
        (unsigned)function->shared_bytes, stream, params, NULL);
    return spt_driver_check(driver, result, what, err);
}
