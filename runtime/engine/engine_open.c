/* Opens and closes engines: options, device, model, kernels, pool, drafter. */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "mem.h"
#include "session_int.h"

enum {
    DEFAULT_CONTEXT = 4096,
    DEFAULT_PAGE = 16,
    DEFAULT_CHUNK = 64,
    DEFAULT_DRAFT = 8,
    GRAPHS = 32, /* draft lengths, batches, chunks of the context */
};

static const char DEFAULT_BOARD[] = "h100_sxm";

static int or_default(int value, int fallback)
{
    return value ? value : fallback;
}

static spt_status check_options(const spt_engine_options *o, spt_error *err)
{
    const struct {
        const char *name;
        int value, max;
    } fields[] = {
        {"context", o->context, 1 << 24},
        {"sessions", o->sessions, 4096},
        {"kv_tokens", o->kv_tokens, INT32_MAX},
        {"page_size", o->page_size, 4096},
        {"prefill_chunk", o->prefill_chunk, 4096},
        {"draft_length", o->draft_length, SPT_DRAFT_LENGTH_MAX},
        {"branches", o->draft.branches, SPT_DRAFT_LENGTH_MAX},
    };
    if (!o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "engine: no model, expected a .gguf file or a folder");
    bool is_head = o->draft.method == SPT_DRAFT_EAGLE3;
    if ((is_head || o->draft.method == SPT_DRAFT_MODEL) && !o->draft.model)
        return spt_fail(err, SPT_E_USAGE, "engine: no draft model, expected %s",
                        is_head ? "a head's folder"
                                : "a .gguf file or a folder");
    if (o->pack_only && !o->pack)
        return spt_fail(
            err, SPT_E_USAGE,
            "engine: pack_only without a pack, expected its folder");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 0 || fields[i].value > fields[i].max)
            return spt_fail(err, SPT_E_USAGE,
                            "engine: %s %d, expected 0 (default) to %d",
                            fields[i].name, fields[i].value, fields[i].max);
    return SPT_OK;
}

/* Options with what was left open. */
static spt_status fill_defaults(spt_engine_options *o,
                                const spt_model_config *c, spt_error *err)
{
    int known = c->context > 0 && c->context < DEFAULT_CONTEXT
                    ? c->context
                    : DEFAULT_CONTEXT;
    o->context = or_default(o->context, known);
    if (c->context > 0 && o->context > c->context)
        return spt_fail(err, SPT_E_USAGE,
                        "engine: context %d, expected at most %d as the model "
                        "has it",
                        o->context, c->context);
    if (o->dtype == SPT_TYPE_AUTO)
        o->dtype =
            spt_forward_dtype(c) == SPT_FP16 ? SPT_TYPE_FP16 : SPT_TYPE_BF16;
    o->sessions = or_default(o->sessions, 1);
    o->page_size = or_default(o->page_size, DEFAULT_PAGE);
    o->prefill_chunk = or_default(o->prefill_chunk, DEFAULT_CHUNK);
    o->draft_length = o->draft.method == SPT_DRAFT_NONE
                          ? 0
                          : or_default(o->draft_length, DEFAULT_DRAFT);
    if (o->kv_tokens == 0) {
        int64_t all = (int64_t)o->sessions * o->context;
        if (all > INT32_MAX)
            return spt_fail(err, SPT_E_USAGE,
                            "engine: %d sessions of %d tokens, expected "
                            "kv_tokens to say how many in all",
                            o->sessions, o->context);
        o->kv_tokens = (int)all;
    }
    return SPT_OK;
}

/* Of one session's draft. */
static int draft_nodes(const spt_engine_options *o)
{
    int branches = o->draft.branches > 1 ? o->draft.branches : 1;
    int nodes = o->draft_length * branches;
    return nodes < SPT_DRAFT_NODES ? nodes : SPT_DRAFT_NODES - 1;
}

spt_forward_limits spt_engine_limits(const spt_engine_options *o)
{
    int writers = o->sessions * (1 + draft_nodes(o));
    int pages =
        (int)(((int64_t)o->kv_tokens + o->page_size - 1) / o->page_size);
    return (spt_forward_limits){
        .sequences = o->sessions,
        .tokens = writers > o->prefill_chunk ? writers : o->prefill_chunk,
        .logits = writers,
        .context = o->context,
        .pages = pages,
        .page_size = o->page_size,
        .dtype = o->dtype == SPT_TYPE_FP16 ? SPT_FP16 : SPT_BF16,
        .trees = o->draft.method != SPT_DRAFT_NONE && o->draft.branches > 1,
        .histories = o->draft.method == SPT_DRAFT_NGRAM ? o->sessions : 0,
        .matches = o->draft.branches,
        .graphs = o->no_graphs ? 0 : GRAPHS};
}

static void memory_of(const spt_forward_memory *m, spt_memory *memory)
{
    *memory = (spt_memory){.weights = m->bytes[SPT_FORWARD_WEIGHTS],
                           .kv = m->bytes[SPT_FORWARD_KV],
                           .total = m->total};
    memory->graphs = m->graphs;
    memory->workspace = m->total - memory->weights - memory->kv;
}

/* Whether a board's name (or NULL) is that of a file. */
static bool is_file(const char *board)
{
    size_t length = board ? strlen(board) : 0;
    return length > 4 && strcmp(board + length - 4, ".lua") == 0;
}

/* What a GPU without a board's name is taken for. */
static spt_status open_any_gpu(spt_engine *e, spt_error *err)
{
    spt_driver driver;
    spt_gpu gpu;
    SPT_TRY(spt_driver_open(NULL, &driver, err));
    spt_status status = spt_gpu_board(&driver, e->gen, &e->board, &gpu, err);
    spt_driver_close(&driver);
    SPT_TRY(status);
    return spt_machine_open(&e->board, SPT_DEVICE_GPU, false, &e->machine, err);
}

static spt_status named_board(spt_engine *e, const char *name, spt_error *err)
{
    return is_file(name) ? spt_gen_board_file(e->gen, name, &e->board, err)
                         : spt_gen_board(e->gen, name, &e->board, err);
}

static spt_status open_machine(spt_engine *e, spt_error *err)
{
    const spt_engine_options *o = &e->options;
    if (!o->board && o->device != SPT_DEVICE_SIM) {
        spt_status status = open_any_gpu(e, err);
        if (status == SPT_OK || o->device == SPT_DEVICE_GPU)
            return status;
    }
    SPT_TRY(named_board(e, o->board ? o->board : DEFAULT_BOARD, err));
    return spt_machine_open(&e->board, o->device, o->checks, &e->machine, err);
}

static spt_status open_kernel_sources(spt_engine *e, spt_error *err)
{
    /* With a pack alone only a board's file needs what reads files. */
    if (!e->options.pack_only || is_file(e->options.board))
        SPT_TRY(spt_gen_open(NULL, &e->gen, err));
    if (e->options.pack)
        SPT_TRY(spt_pack_open(e->options.pack, &e->pack, err));
    if (e->options.pack_only)
        return SPT_OK;
    return spt_compiler_open(NULL, NULL, &e->compiler, err);
}

static spt_status open_model(spt_engine *e, const spt_forward_source *source,
                             spt_error *err)
{
    const spt_engine_options *o = &e->options;
    spt_forward_limits limits = spt_engine_limits(o);
    spt_forward_memory memory;
    SPT_TRY(spt_forward_estimate(e->model, &limits, &memory, err));
    SPT_TRY(spt_tokenizer_open(&e->tokenizer, e->model, err));
    memory_of(&memory, &e->memory);
    SPT_TRY(spt_forward_open(source, e->model, &limits, &e->forward, err));
    return spt_pool_open(limits.pages, limits.page_size, &e->pool, err);
}

static spt_status allocate(spt_engine *e, spt_error *err)
{
    spt_forward_limits limits = spt_engine_limits(&e->options);
    size_t vocab = (size_t)spt_model_config_of(e->model)->vocab;
    size_t sessions = (size_t)e->options.sessions;
    e->logits = spt_calloc((size_t)limits.logits * vocab, sizeof *e->logits);
    e->logprobs = spt_calloc(sessions * SPT_DRAFT_NODES, sizeof *e->logprobs);
    e->shares = spt_calloc(sessions, sizeof *e->shares);
    e->requests = spt_calloc(sessions, sizeof *e->requests);
    e->items = spt_calloc(sessions, sizeof *e->items);
    e->fed = spt_calloc((size_t)limits.tokens, sizeof *e->fed);
    if (e->logits && e->logprobs && e->shares && e->requests && e->items &&
        e->fed)
        return SPT_OK;
    return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
}

static spt_status fill(spt_engine *e, spt_error *err)
{
    SPT_TRY(spt_model_open(&e->model, e->options.model, err));
    SPT_TRY(fill_defaults(&e->options, spt_model_config_of(e->model), err));
    e->draft_nodes = draft_nodes(&e->options);
    SPT_TRY(open_kernel_sources(e, err));
    SPT_TRY(open_machine(e, err));
    const spt_forward_source source = {.machine = &e->machine,
                                       .board = &e->board,
                                       .pack = e->pack,
                                       .gen =
                                           e->options.pack_only ? NULL : e->gen,
                                       .compiler = e->compiler,
                                       .log = &e->options.log,
                                       .progress = e->options.compiling,
                                       .user = e->options.compiling_user};
    SPT_TRY(open_model(e, &source, err));
    SPT_TRY(allocate(e, err));
    SPT_TRY(spt_engine_open_drafter(e, &source, err));
    return spt_engine_open_times(e, err);
}

spt_status spt_engine_open(const spt_engine_options *options, spt_engine **out,
                           spt_error *err)
{
    SPT_TRY(check_options(options, err));
    spt_engine *e = spt_calloc(1, sizeof *e);
    if (!e)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    e->options = *options;
    spt_status status = fill(e, err);
    if (e->machine.context)
        spt_machine_leave(&e->machine);
    if (status != SPT_OK) {
        spt_engine_close(e);
        return status;
    }
    *out = e;
    return SPT_OK;
}

void spt_engine_close(spt_engine *e)
{
    if (!e)
        return;
    if (e->machine.context)
        spt_machine_enter(&e->machine, NULL);
    while (e->sessions)
        spt_session_close(e->sessions);
    spt_engine_close_times(e);
    if (e->drafter.class)
        e->drafter.class->close(e->drafter.self);
    spt_forward_close(e->forward);
    spt_pool_close(e->pool);
    spt_tokenizer_close(e->tokenizer);
    spt_model_close(e->model);
    if (e->machine.context)
        spt_machine_close(&e->machine);
    spt_compiler_close(e->compiler);
    spt_gen_close(e->gen);
    spt_pack_close(e->pack);
    spt_free(e->logits);
    spt_free(e->logprobs);
    spt_free(e->shares);
    spt_free(e->requests);
    spt_free(e->items);
    spt_free(e->fed);
    spt_free(e);
}

static spt_status estimate(spt_engine_options *o, const spt_model *model,
                           spt_memory *memory, spt_error *err)
{
    spt_forward_memory m;
    SPT_TRY(fill_defaults(o, spt_model_config_of(model), err));
    spt_forward_limits limits = spt_engine_limits(o);
    SPT_TRY(spt_forward_estimate(model, &limits, &m, err));
    memory_of(&m, memory);
    SPT_TRY(spt_engine_estimate_drafter(o, model, &memory->drafter, err));
    memory->total += memory->drafter;
    return SPT_OK;
}

spt_status spt_engine_estimate(const spt_engine_options *options,
                               spt_memory *memory, spt_error *err)
{
    spt_engine_options o = *options;
    spt_model *model = NULL;
    SPT_TRY(check_options(options, err));
    SPT_TRY(spt_model_open(&model, o.model, err));
    spt_status status = estimate(&o, model, memory, err);
    spt_model_close(model);
    return status;
}

void spt_engine_describe(const spt_engine *e, spt_engine_info *info)
{
    const spt_model_config *c = spt_model_config_of(e->model);
    *info = (spt_engine_info){.is_sim = e->machine.driver.is_sim,
                              .vocab = c->vocab,
                              .context = e->options.context,
                              .kv_pages = spt_pool_pages(e->pool),
                              .kv_pages_free = spt_pool_available(e->pool),
                              .page_size = e->options.page_size,
                              .memory = e->memory};
    snprintf(info->model, sizeof info->model, "%s", c->name);
    snprintf(info->architecture, sizeof info->architecture, "%s",
             c->architecture);
    snprintf(info->device, sizeof info->device, "%s", e->machine.name);
    snprintf(info->drafter, sizeof info->drafter, "%s",
             e->drafter.class ? e->drafter.class->name : "none");
}
