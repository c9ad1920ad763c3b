#include "linear.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

spt_linear_kernel spt_linear_kernel_of(const spt_function *function,
                                       const spt_config *config)
{
    const spt_value *gate = spt_config_get(config, "gate");
    return (spt_linear_kernel){
        .function = function,
        .rows = (int)spt_config_int(config, "rows", 0),
        .panels = (int)spt_config_int(config, "panels", 0),
        .gated = gate && strcmp(gate->text, "none") != 0};
}

spt_status spt_linear_launch(const spt_driver *driver,
                             const spt_linear_kernel *kernel,
                             const spt_linear_args *args, int64_t rows,
                             CUstream stream, spt_error *err)
{
    spt_linear_args full = *args;
    if (rows > INT32_MAX)
        return spt_fail(err, SPT_E_USAGE, "linear: %lld rows", (long long)rows);
    full.rows = (int32_t)rows;
    full.units = (int32_t)ceil_div(args->inputs, 64);
    full.slope = args->cap > 0 ? 2.8853900817779268f / args->cap : 0;
    int64_t panels = ceil_div(args->outputs, 16) * (kernel->gated ? 2 : 1);
    /* Row groups of the same panels are neighbours: they share L2. */
    const int64_t grid[3] = {ceil_div(rows, kernel->rows),
                             ceil_div(panels, kernel->panels), 1};
    return spt_launch(driver, kernel->function, grid, &full, stream, "linear",
                      err);
}
