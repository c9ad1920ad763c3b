#include "rotary.h"

#include <math.h>

spt_status spt_rotary_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_rotary_args *args, int64_t batch,
                             int64_t max_tokens, CUstream stream,
                             spt_error *err)
{
    spt_rotary_args copy = *args;
    int64_t warps = kernel->threads / 32;
    int64_t heads = (int64_t)args->q_heads + 2 * (int64_t)args->kv_heads;
    const int64_t grid[3] = {(heads + warps - 1) / warps, max_tokens, batch};
    return spt_launch(driver, kernel, grid, &copy, stream, "rotary", err);
}

void spt_rotary_table(const float *frequency, int pairs, double magnitude,
                      int64_t first, int64_t count, float *cos_sin)
{
    for (int64_t i = 0; i < count; i++)
        for (int pair = 0; pair < pairs; pair++) {
            double angle = (double)(first + i) * (double)frequency[pair];
            float *at = cos_sin + (i * pairs + pair) * 2;
            at[0] = (float)(cos(angle) * magnitude);
            at[1] = (float)(sin(angle) * magnitude);
        }
}
