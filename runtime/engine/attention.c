/* Verify attention for programs with buffers of their own. */
#include <math.h>

#include "boards.h"
#include "kernel_set.h"
#include "mem.h"
#include "session_int.h"
#include "verify.h"

enum { CHUNK = 512 };

struct spt_attention {
    spt_attention_problem problem;
    spt_driver driver;
    bool owns_driver;
    spt_board board;
    spt_gen *gen;
    spt_compiler *compiler;
    spt_pack *pack;
    spt_kernel_set *set; /* attention, then combine */
    spt_verify_plan plan; /* of the largest call */
};

static spt_status check(const spt_attention_problem *p, spt_error *err)
{
    const struct {
        const char *name;
        int64_t value, max;
    } fields[] = {
        {"q_heads", p->q_heads, 65535},
        {"kv_heads", p->kv_heads, p->q_heads},
        {"max_batch", p->max_batch, 65535},
        {"max_tokens", p->max_tokens, p->tree ? SPT_DRAFT_NODES : 65535},
        {"max_kv", p->max_kv, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 1 || fields[i].value > fields[i].max)
            return spt_fail(err, SPT_E_USAGE,
                            "attention: %s %lld, expected 1 to %lld",
                            fields[i].name, (long long)fields[i].value,
                            (long long)fields[i].max);
    if (p->q_heads % p->kv_heads)
        return spt_fail(err, SPT_E_USAGE,
                        "attention: q_heads %d, expected a multiple of the %d "
                        "KV heads",
                        p->q_heads, p->kv_heads);
    return SPT_OK;
}

/* The first board of the compute capability of the current context. */
static spt_status find_board(spt_attention *a, spt_error *err)
{
    const spt_driver *d = &a->driver;
    CUdevice device = 0;
    int major = 0, minor = 0;
    SPT_TRY(spt_driver_check(d, d->cuCtxGetDevice(&device),
                             "attention: current context", err));
    d->cuDeviceGetAttribute(
        &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    d->cuDeviceGetAttribute(
        &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    for (size_t i = 0; i < spt_gen_board_count(a->gen); i++) {
        SPT_TRY(spt_gen_board(a->gen, spt_gen_board_name(a->gen, i), &a->board,
                              err));
        if (a->board.cc_major == major && a->board.cc_minor == minor)
            return SPT_OK;
    }
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "attention: no board of compute capability %d.%d", major,
                    minor);
}

/* Query rows of a CTA: what the largest call has, as far as they fit. */
static int rows_for(const spt_attention_problem *p)
{
    static const int steps[] = {8, 16, 32, 64};
    int64_t rows = (int64_t)p->max_tokens * (p->q_heads / p->kv_heads);
    int best = 8;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && best < rows; i++)
        if (steps[i] * p->head_dim <= 64 * 128)
            best = steps[i];
    return best;
}

static void set_problem(spt_config *c, const spt_attention_problem *p)
{
    spt_config_set_int(c, "group", p->q_heads / p->kv_heads);
    spt_config_set_int(c, "head_dim", p->head_dim);
    spt_config_set_string(c, "dtype", p->fp16 ? "fp16" : "bf16");
    spt_config_set_bool(c, "tree", p->tree);
    spt_config_set_bool(c, "window", p->window > 0);
    spt_config_set_int(c, "chunk", CHUNK);
}

static spt_status load(spt_attention *a, spt_error *err)
{
    const spt_attention_problem *p = &a->problem;
    spt_kernel_request requests[2] = {{.template_name = "verify_attention"},
                                      {.template_name = "combine"}};
    const spt_kernel_source source = {.driver = &a->driver,
                                      .board = &a->board,
                                      .pack = a->pack,
                                      .gen = a->gen,
                                      .compiler = a->compiler};
    for (int i = 0; i < 2; i++)
        set_problem(&requests[i].config, p);
    spt_config_set_int(&requests[0].config, "page_size", p->page_size);
    spt_config_set_bool(&requests[0].config, "softcap", p->softcap > 0);
    spt_config_set_int(&requests[0].config, "rows", rows_for(p));
    spt_config_set_bool(&requests[1].config, "sinks", p->sinks);
    SPT_TRY(spt_kernel_set_open(&source, requests, 2, &a->set, err));
    const spt_function *attention = spt_kernel_set_at(a->set, 0);
    const spt_function *combine = spt_kernel_set_at(a->set, 1);
    a->plan = (spt_verify_plan){.batch = p->max_batch,
                                .q_heads = p->q_heads,
                                .kv_heads = p->kv_heads,
                                .head_dim = p->head_dim,
                                .max_tokens = p->max_tokens,
                                .max_kv = p->max_kv,
                                .chunk = CHUNK,
                                .rows = rows_for(p),
                                .attention_threads = attention->threads,
                                .combine_threads = combine->threads,
                                .shared_bytes = attention->shared_bytes,
                                .attention = attention->function,
                                .combine = combine->function};
    return SPT_OK;
}

static spt_status fill(spt_attention *a, spt_error *err)
{
    SPT_TRY(check(&a->problem, err));
    if (a->owns_driver)
        SPT_TRY(spt_driver_open(NULL, &a->driver, err));
    if (!a->problem.pack)
        SPT_TRY(spt_gen_open(NULL, &a->gen, err));
    SPT_TRY(find_board(a, err));
    if (a->problem.pack)
        SPT_TRY(spt_pack_open(a->problem.pack, &a->pack, err));
    else
        SPT_TRY(spt_compiler_open(NULL, NULL, &a->compiler, err));
    return load(a, err);
}

spt_status spt_attention_open_on(const spt_driver *driver,
                                 const spt_attention_problem *problem,
                                 spt_attention **out, spt_error *err)
{
    spt_attention *a = spt_calloc(1, sizeof *a);
    if (!a)
        return spt_fail(err, SPT_E_MEMORY, "attention: out of memory");
    a->problem = *problem;
    a->owns_driver = !driver;
    if (driver)
        a->driver = *driver;
    spt_status status = fill(a, err);
    if (status != SPT_OK) {
        spt_attention_close(a);
        return status;
    }
    *out = a;
    return SPT_OK;
}

spt_status spt_attention_open(const spt_attention_problem *problem,
                              spt_attention **out, spt_error *err)
{
    return spt_attention_open_on(NULL, problem, out, err);
}

void spt_attention_close(spt_attention *a)
{
    if (!a)
        return;
    spt_kernel_set_close(a->set);
    spt_compiler_close(a->compiler);
    spt_pack_close(a->pack);
    spt_gen_close(a->gen);
    if (a->owns_driver && a->driver.library)
        spt_driver_close(&a->driver);
    spt_free(a);
}

static size_t partial_o_bytes(const spt_attention *a)
{
    return (spt_verify_partial_o_bytes(&a->plan) + 255) / 256 * 256;
}

size_t spt_attention_workspace(const spt_attention *a)
{
    return partial_o_bytes(a) + spt_verify_partial_ml_bytes(&a->plan);
}

const char *spt_attention_key(const spt_attention *a)
{
    return spt_kernel_set_key(a->set, 0);
}

spt_status spt_attention_launch(spt_attention *a, const spt_attention_call *c,
                                void *stream, spt_error *err)
{
    const spt_attention_problem *p = &a->problem;
    spt_verify_plan plan = a->plan;
    if (c->batch < 0 || c->batch > p->max_batch || c->max_tokens < 1 ||
        c->max_tokens > p->max_tokens || c->max_kv < 0 || c->max_kv > p->max_kv)
        return spt_fail(err, SPT_E_USAGE,
                        "attention: batch %d, tokens %d, KV %lld, expected at "
                        "most %d, %d, %lld as when it was opened",
                        c->batch, c->max_tokens, (long long)c->max_kv,
                        p->max_batch, p->max_tokens, (long long)p->max_kv);
    plan.batch = c->batch;
    plan.max_tokens = c->max_tokens;
    plan.max_kv = c->max_kv;
    spt_verify_args args = {.q = c->q,
                            .k = c->k,
                            .v = c->v,
                            .page_table = c->page_table,
                            .q_start = c->q_start,
                            .kv_len = c->kv_len,
                            .kv_start = c->kv_start,
                            .tree = c->tree,
                            .sinks = c->sinks,
                            .partial_o = c->workspace,
                            .partial_ml = c->workspace + partial_o_bytes(a),
                            .out = c->out,
                            .lse = c->lse,
                            .q_token_stride = c->q_token_stride,
                            .kv_page_stride = c->kv_page_stride,
                            .kv_token_stride = c->kv_token_stride,
                            .kv_head_stride = c->kv_head_stride,
                            .page_table_stride = c->page_table_stride,
                            .window = p->window};
    double scale = p->scale > 0 ? p->scale : 1 / sqrt((double)p->head_dim);
    spt_verify_set_scale(&args, scale, p->softcap);
    return spt_verify_launch(&a->driver, &plan, &args, stream, err);
}
