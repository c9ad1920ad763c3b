#include "adjust.h"

float spt_adjust_logit(const spt_adjust_list *list, float logit, float bias,
                       int count)
{
    float x = logit + bias;
    if (count <= 0)
        return x;
    double y = (double)x;
    y = y > 0 ? y / list->repeat : y * list->repeat;
    return (float)(y - count * list->frequency - list->presence);
}

spt_status spt_adjust_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_adjust_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_adjust_args copy = *args;
    const int64_t grid[3] = {rows, 1, 1};
    return spt_launch(driver, kernel, grid, &copy, stream, "adjust", err);
}
