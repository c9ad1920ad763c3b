#include "translate.h"

#include <math.h>

void spt_translate_row(const float *in, int in_width, const int32_t *from,
                       int out_width, float *out)
{
    for (int i = 0; i < out_width; i++)
        out[i] = from[i] >= 0 && from[i] < in_width ? in[from[i]] : -INFINITY;
}

spt_status spt_translate_launch(const spt_driver *driver,
                                const spt_function *kernel,
                                const spt_translate_args *args, int64_t rows,
                                CUstream stream, spt_error *err)
{
    spt_translate_args copy = *args;
    int64_t threads = kernel->threads;
    const int64_t grid[3] = {rows, (args->out_width + threads - 1) / threads,
                             1};
    return spt_launch(driver, kernel, grid, &copy, stream, "translate", err);
}
