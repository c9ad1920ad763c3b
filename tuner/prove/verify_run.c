#include "verify_run.h"

#include <math.h>
#include <string.h>

enum { GUARD_BYTES = 256, GAP_TOKENS = 3, BUFFERS = 13 };

/* Device memory of one run; freed together. */
typedef struct run {
    spt_machine *machine;
    const spt_verify_kernels *kernels;
    const spt_instance *in;
    CUdeviceptr buffers[BUFFERS];
    int n_buffers;
    spt_verify_args args;
} run;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

static spt_status check(run *r, CUresult result, const char *what,
                        spt_error *err)
{
    return spt_driver_check(&r->machine->driver, result, what, err);
}

static spt_status device_alloc(run *r, size_t bytes, CUdeviceptr *address,
                               spt_error *err)
{
    SPT_TRY(check(r, r->machine->driver.cuMemAlloc(address, bytes ? bytes : 16),
                  "cuMemAlloc", err));
    r->buffers[r->n_buffers++] = *address;
    return SPT_OK;
}

static spt_status device_copy(run *r, const void *data, size_t bytes,
                              CUdeviceptr *address, spt_error *err)
{
    SPT_TRY(device_alloc(r, bytes, address, err));
    if (!bytes)
        return SPT_OK;
    return check(r, r->machine->driver.cuMemcpyHtoD(*address, data, bytes),
                 "cuMemcpyHtoD", err);
}

/* Memory that a GPU finds full of NaN; sim is stricter with it unwritten. */
static spt_status device_poison(run *r, size_t bytes, CUdeviceptr *address,
                                spt_error *err)
{
    SPT_TRY(device_alloc(r, bytes, address, err));
    if (r->machine->driver.is_sim || !bytes)
        return SPT_OK;
    return check(r, r->machine->driver.cuMemsetD8(*address, 0xff, bytes),
                 "cuMemsetD8", err);
}

/* A result buffer, NaN, with a guard on both sides. */
static spt_status device_result(run *r, size_t bytes, CUdeviceptr *address,
                                spt_error *err)
{
    SPT_TRY(device_alloc(r, bytes + 2 * GUARD_BYTES, address, err));
    SPT_TRY(check(
        r,
        r->machine->driver.cuMemsetD8(*address, 0xff, bytes + 2 * GUARD_BYTES),
        "cuMemsetD8", err));
    *address += GUARD_BYTES;
    return SPT_OK;
}

static size_t token_elements(const spt_instance *in)
{
    return (size_t)in->problem.kv_heads * (size_t)in->problem.head_dim;
}

static int kv_tokens(const spt_instance *in, int s)
{
    return (int)(in->kv_first[s + 1] - in->kv_first[s]);
}

/* Tokens before the first one used, so that offsets pass 2^31 elements. */
static int64_t far_tokens(const spt_instance *in)
{
    if (!in->problem.far)
        return 0;
    return INT64_C(0x80000000) / (int64_t)token_elements(in) + 1;
}

/* Copies count tokens of K and V from logical slot `from` to token `to`. */
static spt_status copy_tokens(run *r, int64_t from, int64_t to, int64_t count,
                              spt_error *err)
{
    size_t bytes = token_elements(r->in) * 2;
    CUdeviceptr at = (CUdeviceptr)to * bytes;
    size_t skip = (size_t)from * token_elements(r->in);
    SPT_TRY(check(r,
                  r->machine->driver.cuMemcpyHtoD(
                      r->args.k + at, r->in->k + skip, (size_t)count * bytes),
                  "cuMemcpyHtoD", err));
    return check(r,
                 r->machine->driver.cuMemcpyHtoD(
                     r->args.v + at, r->in->v + skip, (size_t)count * bytes),
                 "cuMemcpyHtoD", err);
}

static spt_status lay_out_contiguous(run *r, int64_t *kv_start, spt_error *err)
{
    const spt_instance *in = r->in;
    int64_t next = far_tokens(in) + GAP_TOKENS;
    for (int s = 0; s < in->batch; s++) {
        kv_start[s] = next;
        next += kv_tokens(in, s) + GAP_TOKENS;
    }
    size_t bytes = (size_t)next * token_elements(in) * 2;
    SPT_TRY(device_poison(r, bytes, &r->args.k, err));
    SPT_TRY(device_poison(r, bytes, &r->args.v, err));
    for (int s = 0; s < in->batch; s++)
        if (kv_tokens(in, s))
            SPT_TRY(copy_tokens(r, in->kv_first[s], kv_start[s],
                                kv_tokens(in, s), err));
    return device_copy(r, kv_start, (size_t)in->batch * sizeof *kv_start,
                       &r->args.kv_start, err);
}

/*
 * Pages in an order that is not the sequences': page n of all stands at
 * place n * step mod total. Entries past a sequence's last page are wrong on
 * purpose.
 */
static spt_status lay_out_pages(run *r, int32_t *table, int stride,
                                int64_t total, spt_error *err)
{
    const spt_instance *in = r->in;
    int size = r->kernels->page_size;
    int64_t far = ceil_div(far_tokens(in), size), step = total / 2 + 1;
    while (gcd(step, total) != 1)
        step++;
    size_t bytes =
        (size_t)(far + total) * (size_t)size * token_elements(in) * 2;
    SPT_TRY(device_poison(r, bytes, &r->args.k, err));
    SPT_TRY(device_poison(r, bytes, &r->args.v, err));
    int64_t n = 0;
    for (int s = 0; s < in->batch; s++)
        for (int page = 0; page < stride; page++) {
            int left = kv_tokens(in, s) - page * size;
            table[s * stride + page] = INT32_MAX;
            if (left <= 0)
                continue;
            int64_t place = far + n++ * step % total;
            table[s * stride + page] = (int32_t)place;
            SPT_TRY(copy_tokens(r, in->kv_first[s] + page * size, place * size,
                                left < size ? left : size, err));
        }
    return device_copy(r, table,
                       (size_t)in->batch * (size_t)stride * sizeof *table,
                       &r->args.page_table, err);
}

static spt_status lay_out_kv(run *r, spt_error *err)
{
    const spt_instance *in = r->in;
    int size = r->kernels->page_size;
    int64_t total = 1;
    int stride = 1;
    for (int s = 0; size && s < in->batch; s++) {
        int pages = (int)ceil_div(kv_tokens(in, s), size);
        total += pages;
        stride = pages + 1 > stride ? pages + 1 : stride;
    }
    size_t count = (size_t)in->batch * (size_t)stride;
    int64_t *scratch = spt_calloc(count, sizeof *scratch);
    if (!scratch)
        return spt_fail(err, SPT_E_MEMORY, "verify run: out of memory");
    int64_t token = (int64_t)token_elements(in);
    r->args.kv_page_stride = size * token;
    r->args.kv_token_stride = token;
    r->args.kv_head_stride = in->problem.head_dim;
    r->args.page_table_stride = stride;
    spt_status status =
        size ? lay_out_pages(r, (int32_t *)scratch, stride, total, err)
             : lay_out_contiguous(r, scratch, err);
    spt_free(scratch);
    return status;
}

static spt_status lay_out_lengths(run *r, spt_error *err)
{
    const spt_instance *in = r->in;
    size_t count = (size_t)in->batch;
    int32_t *lengths = spt_calloc(count, sizeof *lengths);
    if (!lengths)
        return spt_fail(err, SPT_E_MEMORY, "verify run: out of memory");
    for (int s = 0; s < in->batch; s++)
        lengths[s] = kv_tokens(in, s);
    spt_status status =
        device_copy(r, lengths, count * sizeof *lengths, &r->args.kv_len, err);
    spt_free(lengths);
    SPT_TRY(status);
    SPT_TRY(device_copy(r, in->q_start, (count + 1) * sizeof *in->q_start,
                        &r->args.q_start, err));
    return device_copy(r, in->tree, (size_t)in->n_tokens * sizeof *in->tree,
                       &r->args.tree, err);
}

static size_t out_elements(const spt_instance *in)
{
    return (size_t)in->n_tokens * (size_t)in->problem.q_heads *
           (size_t)in->problem.head_dim;
}

static size_t lse_elements(const spt_instance *in)
{
    return (size_t)in->n_tokens * (size_t)in->problem.q_heads;
}

static spt_status lay_out(run *r, const spt_verify_plan *plan, spt_error *err)
{
    const spt_instance *in = r->in;
    const spt_problem *p = &in->problem;
    SPT_TRY(lay_out_kv(r, err));
    SPT_TRY(lay_out_lengths(r, err));
    SPT_TRY(device_copy(r, in->q, out_elements(in) * 2, &r->args.q, err));
    SPT_TRY(device_copy(r, in->sinks, (size_t)p->q_heads * sizeof(float),
                        &r->args.sinks, err));
    SPT_TRY(device_poison(r, spt_verify_partial_o_bytes(plan),
                          &r->args.partial_o, err));
    SPT_TRY(device_poison(r, spt_verify_partial_ml_bytes(plan),
                          &r->args.partial_ml, err));
    SPT_TRY(device_result(r, out_elements(in) * 2, &r->args.out, err));
    SPT_TRY(device_result(r, lse_elements(in) * 4, &r->args.lse, err));
    r->args.q_token_stride = (int64_t)p->q_heads * p->head_dim;
    r->args.window = p->window;
    spt_verify_set_scale(&r->args, 1 / sqrt((double)p->head_dim), p->softcap);
    return SPT_OK;
}

static spt_verify_plan make_plan(const run *r)
{
    const spt_instance *in = r->in;
    const spt_verify_kernels *k = r->kernels;
    spt_verify_plan plan = {
        .batch = in->batch,
        .q_heads = in->problem.q_heads,
        .kv_heads = in->problem.kv_heads,
        .head_dim = in->problem.head_dim,
        .max_tokens = 1,
        .chunk = k->chunk,
        .rows = k->rows,
        .attention_threads = k->attention.threads,
        .combine_threads = k->combine.threads,
        .shared_bytes = k->attention.shared_bytes,
        .attention = k->attention.function,
        .combine = k->combine.function,
    };
    for (int s = 0; s < in->batch; s++) {
        int tokens = spt_instance_tokens(in, s), kv = kv_tokens(in, s);
        plan.max_tokens = tokens > plan.max_tokens ? tokens : plan.max_tokens;
        plan.max_kv = kv > plan.max_kv ? kv : plan.max_kv;
    }
    return plan;
}

static spt_status guards_untouched(run *r, CUdeviceptr result, size_t bytes,
                                   bool *ok, spt_error *err)
{
    unsigned char guard[2 * GUARD_BYTES];
    SPT_TRY(check(r,
                  r->machine->driver.cuMemcpyDtoH(guard, result - GUARD_BYTES,
                                                  GUARD_BYTES),
                  "cuMemcpyDtoH", err));
    SPT_TRY(check(r,
                  r->machine->driver.cuMemcpyDtoH(guard + GUARD_BYTES,
                                                  result + bytes, GUARD_BYTES),
                  "cuMemcpyDtoH", err));
    for (int i = 0; i < 2 * GUARD_BYTES; i++)
        *ok = *ok && guard[i] == 0xff;
    return SPT_OK;
}

static spt_status fetch(run *r, spt_verify_results *results, spt_error *err)
{
    const spt_driver *driver = &r->machine->driver;
    size_t out = out_elements(r->in) * 2, lse = lse_elements(r->in) * 4;
    results->guards_ok = true;
    SPT_TRY(guards_untouched(r, r->args.out, out, &results->guards_ok, err));
    SPT_TRY(guards_untouched(r, r->args.lse, lse, &results->guards_ok, err));
    if (!out)
        return SPT_OK;
    SPT_TRY(check(r, driver->cuMemcpyDtoH(results->out, r->args.out, out),
                  "cuMemcpyDtoH", err));
    return check(r, driver->cuMemcpyDtoH(results->lse, r->args.lse, lse),
                 "cuMemcpyDtoH", err);
}

spt_status spt_verify_run(spt_machine *machine,
                          const spt_verify_kernels *kernels,
                          const spt_instance *instance,
                          spt_verify_results *results, spt_error *err)
{
    run r = {.machine = machine, .kernels = kernels, .in = instance};
    spt_verify_plan plan = make_plan(&r);
    spt_status status = lay_out(&r, &plan, err);
    if (status == SPT_OK)
        status = spt_verify_launch(&machine->driver, &plan, &r.args, NULL, err);
    if (status == SPT_OK)
        status = check(&r, machine->driver.cuCtxSynchronize(),
                       "verify attention", err);
    if (status == SPT_OK)
        status = fetch(&r, results, err);
    for (int i = 0; i < r.n_buffers; i++)
        machine->driver.cuMemFree(r.buffers[i]);
    return status;
}
