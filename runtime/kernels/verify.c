#include "verify.h"

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t plan_chunks(const spt_verify_plan *plan)
{
    int64_t chunks = ceil_div(plan->max_kv, plan->chunk);
    return chunks > 0 ? chunks : 1;
}

static int64_t plan_rows(const spt_verify_plan *plan)
{
    return (int64_t)plan->max_tokens * (plan->q_heads / plan->kv_heads);
}

static size_t partial_rows(const spt_verify_plan *plan)
{
    return (size_t)plan->batch * (size_t)plan->kv_heads *
           (size_t)plan_chunks(plan) * (size_t)plan_rows(plan);
}

size_t spt_verify_partial_o_bytes(const spt_verify_plan *plan)
{
    return partial_rows(plan) * (size_t)plan->head_dim * sizeof(float);
}

size_t spt_verify_partial_ml_bytes(const spt_verify_plan *plan)
{
    return partial_rows(plan) * 2 * sizeof(float);
}

void spt_verify_set_scale(spt_verify_args *args, double scale, double softcap)
{
    const double log2_e = 1.4426950408889634;
    args->scale_log2 = (float)(scale * log2_e);
    /* The kernel computes tanh(x) by exp(2 x). */
    args->cap = softcap > 0 ? (float)(2 * log2_e * scale / softcap) : 0;
    args->cap_log2 = softcap > 0 ? (float)(softcap * log2_e) : 0;
}

spt_status spt_verify_fill(const spt_verify_plan *plan, spt_verify_args *args,
                           spt_verify_grids *grids, spt_error *err)
{
    int64_t chunks = plan_chunks(plan), rows = plan_rows(plan);
    int64_t groups = ceil_div(rows, plan->rows);
    if (chunks * groups > INT32_MAX || rows > INT32_MAX ||
        plan->kv_heads > 65535 || plan->batch > 65535)
        return spt_fail(err, SPT_E_USAGE,
                        "verify attention: batch %d x KV heads %d x chunks "
                        "%lld exceed the grid",
                        plan->batch, plan->kv_heads, (long long)chunks);
    args->chunks = (int32_t)chunks;
    args->rows = (int32_t)rows;
    args->row_groups = (int32_t)groups;
    unsigned heads = (unsigned)plan->kv_heads, batch = (unsigned)plan->batch;
    *grids = (spt_verify_grids){
        .attention = {(unsigned)(chunks * groups), heads, batch},
        .combine = {(unsigned)rows, heads, batch}};
    return SPT_OK;
}

static spt_status launch(const spt_driver *driver, CUfunction function,
                         const unsigned grid[3], int threads, int shared_bytes,
                         spt_verify_args *args, CUstream stream,
                         const char *what, spt_error *err)
{
    void *params[] = {args};
    return spt_driver_check(driver,
                            driver->cuLaunchKernel(function, grid[0], grid[1],
                                                   grid[2], (unsigned)threads,
                                                   1, 1, (unsigned)shared_bytes,
                                                   stream, params, NULL),
                            what, err);
}

spt_status spt_verify_launch(const spt_driver *driver,
                             const spt_verify_plan *plan, spt_verify_args *args,
                             CUstream stream, spt_error *err)
{
    spt_verify_grids grids;
    SPT_TRY(spt_verify_fill(plan, args, &grids, err));
    if (plan->batch <= 0)
        return SPT_OK;
    SPT_TRY(launch(driver, plan->attention, grids.attention,
                   plan->attention_threads, plan->shared_bytes, args, stream,
                   "launch of verify_attention", err));
    return launch(driver, plan->combine, grids.combine, plan->combine_threads,
                  0, args, stream, "launch of combine", err);
}
