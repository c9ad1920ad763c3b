/* What a model needs on the device: sizes, the estimate, opening, closing. */
#include <string.h>

#include "draft_block.h"
#include "forward_int.h"
#include "mem.h"
#include "rotary.h"

spt_status forward_check(const spt_forward *f, CUresult result,
                         const char *what, spt_error *err)
{
    return spt_driver_check(f->driver, result, what, err);
}

const char *spt_forward_buffer_text(spt_forward_buffer buffer)
{
    static const char *const texts[] = {
#define SPT_FORWARD_BUFFER(NAME, what, bytes) what,
#include "forward_buffers.def"
#undef SPT_FORWARD_BUFFER
    };
    return texts[buffer];
}

static spt_status check_limits(const spt_model_config *c,
                               const spt_forward_limits *l, spt_error *err)
{
    const struct {
        const char *name;
        int value, max;
    } fields[] = {
        {"sequences", l->sequences, 65535}, {"tokens", l->tokens, 65535},
        {"logits", l->logits, l->tokens},   {"context", l->context, 1 << 24},
        {"pages", l->pages, 1 << 28},       {"page size", l->page_size, 4096},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 1 || fields[i].value > fields[i].max)
            return spt_fail(err, SPT_E_USAGE, "engine: %d %s, expected 1 to %d",
                            fields[i].value, fields[i].name, fields[i].max);
    if (!c->head.taps != !l->heard_slots)
        return spt_fail(err, SPT_E_UNSUPPORTED, "model: %s %s, expected %s",
                        c->architecture,
                        c->head.taps ? "drafts for another model"
                                     : "writes by itself",
                        c->head.taps ? "one that writes by itself"
                                     : "a head that drafts for another model");
    if (c->q_heads % c->kv_heads != 0)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "model: %d query heads for %d KV heads", c->q_heads,
                        c->kv_heads);
    return SPT_OK;
}

static uint64_t at_most(uint64_t value, uint64_t max)
{
    return value < max ? value : max;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Rows of attention's partial results: a long item runs alone, and the short
   ones together. */
static uint64_t partial_rows(const spt_model_config *c,
                             const spt_forward_limits *l)
{
    uint64_t chunks = ceil_div((uint64_t)l->context, FORWARD_CHUNK);
    uint64_t tokens = (uint64_t)l->tokens;
    uint64_t together =
        (uint64_t)l->sequences * at_most(tokens, SPT_DRAFT_NODES);
    return chunks * (uint64_t)c->q_heads *
           (tokens > together ? tokens : together);
}

static uint64_t input_ints(const spt_model_config *c,
                           const spt_forward_limits *l)
{
    uint64_t sequences = (uint64_t)l->sequences;
    uint64_t pages = ceil_div((uint64_t)l->context, (uint64_t)l->page_size);
    uint64_t chosen =
        (uint64_t)l->logits * (sizeof(spt_sample_row) / 4 + 4) + sequences + 2;
    return 3 * (uint64_t)l->tokens + 2 * (uint64_t)l->logits + 2 * sequences +
           1 + sequences * pages + chosen + SPT_DRAFT_NODES + 2 +
           forward_adjust_ints(c, l);
}

static uint64_t search_ints(const spt_forward_limits *l)
{
    uint64_t matches = l->matches > 1 ? (uint64_t)l->matches : 1;
    return FORWARD_SEARCH_IN + matches * FORWARD_SEARCH_MATCH;
}

static spt_status measure(const spt_model *model, const spt_forward_limits *l,
                          spt_forward_sizes *sizes, spt_error *err)
{
    const spt_model_config *c = spt_model_config_of(model);
    SPT_TRY(check_limits(c, l, err));
    uint64_t kv_width = (uint64_t)c->kv_heads * (uint64_t)c->head_dim;
    *sizes = (spt_forward_sizes){
        .layers = (uint64_t)c->layers,
        .hidden = (uint64_t)c->hidden,
        .ffn = (uint64_t)c->ffn,
        .vocab = (uint64_t)c->vocab,
        .q_heads = (uint64_t)c->q_heads,
        .head_dim = (uint64_t)c->head_dim,
        .q_width = (uint64_t)c->q_heads * (uint64_t)c->head_dim,
        .kv_width = kv_width,
        .post_norms = c->post_norms,
        .sequences = (uint64_t)l->sequences,
        .histories = (uint64_t)l->histories,
        .search_ints = search_ints(l),
        .tokens = (uint64_t)l->tokens,
        .logits = (uint64_t)l->logits,
        .pages = (uint64_t)l->pages,
        .page_bytes = (uint64_t)l->page_size * kv_width * 2,
        .tables = c->rope.theta_local > 0 ? 2 : 1,
        .positions = (uint64_t)l->context,
        .pairs = (uint64_t)c->rope.dim / 2,
        .in_width = (uint64_t)c->hidden * (c->head.taps ? 2 : 1),
        .heard_tokens = (uint64_t)l->heard_tokens,
        .tap_width = (uint64_t)c->head.taps * (uint64_t)c->head.target_hidden,
        .feature_rows =
            c->head.taps ? (uint64_t)(l->heard_slots + l->sequences) : 0,
        .input_ints = input_ints(c, l),
        .adjusted = forward_adjust_entries(c, l),
        .kept = (uint64_t)l->kept,
        .drawn = ceil_div((uint64_t)l->target_vocab, 8) * 8,
        .partial_rows = partial_rows(c, l),
        .graphs = (uint64_t)l->graphs,
        .graph_nodes = forward_graph_nodes(model) + (l->target_vocab > 0)};
    return forward_weights_measure(model, l->dtype, &sizes->weight_bytes, err);
}

static void sum_up(const spt_forward_sizes *d, spt_forward_memory *memory)
{
    const uint64_t bytes[] = {
#define SPT_FORWARD_BUFFER(NAME, what, bytes) bytes,
#include "forward_buffers.def"
#undef SPT_FORWARD_BUFFER
    };
    memory->graphs = d->graphs * d->graph_nodes * FORWARD_NODE_BYTES;
    memory->total = 0;
    for (int i = 0; i < SPT_FORWARD_BUFFERS; i++) {
        memory->bytes[i] = bytes[i];
        memory->total += bytes[i];
    }
}

spt_status spt_forward_estimate(const spt_model *model,
                                const spt_forward_limits *limits,
                                spt_forward_memory *memory, spt_error *err)
{
    spt_forward_sizes sizes;
    SPT_TRY(measure(model, limits, &sizes, err));
    sum_up(&sizes, memory);
    return SPT_OK;
}

static spt_status allocate(spt_forward *f, spt_error *err)
{
    spt_forward_memory memory;
    sum_up(&f->sizes, &memory);
    for (int i = 0; i < SPT_FORWARD_BUFFERS; i++) {
        size_t bytes = (size_t)memory.bytes[i];
        if (!bytes)
            continue;
        CUresult result = f->driver->cuMemAlloc(&f->buffer[i], bytes);
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            return spt_fail(
                err, SPT_E_MEMORY, "engine: no room for %s: %llu of %llu bytes",
                spt_forward_buffer_text((spt_forward_buffer)i),
                (unsigned long long)bytes, (unsigned long long)memory.total);
        SPT_TRY(forward_check(f, result, "cuMemAlloc", err));
    }
    return SPT_OK;
}

/* Angles of layers without a window, then of those with one. */
static spt_status make_angles(spt_forward *f, spt_error *err)
{
    const spt_rope *rope = &f->config->rope;
    size_t pairs = (size_t)f->sizes.pairs;
    size_t count = (size_t)f->sizes.positions * pairs * 2;
    float *table = spt_calloc(count + pairs, sizeof *table);
    if (!table)
        return spt_fail(err, SPT_E_MEMORY, "rotary: out of memory");
    spt_status status = SPT_OK;
    for (size_t i = 0; i < f->sizes.tables && status == SPT_OK; i++) {
        float *frequency = table + count, magnitude;
        spt_rope_table(rope, i == 1, frequency, &magnitude);
        spt_rotary_table(frequency, (int)pairs, (double)magnitude, 0,
                         f->limits.context, table);
        status = forward_check(
            f,
            f->driver->cuMemcpyHtoD(f->buffer[SPT_FORWARD_ANGLES] +
                                        i * count * sizeof *table,
                                    table, count * sizeof *table),
            "copy of rotary tables", err);
    }
    spt_free(table);
    return status;
}

/* Page-locked, as a graph that copies needs it. */
static spt_status allocate_locked(const spt_forward *f, void **at, size_t bytes,
                                  spt_error *err)
{
    return forward_check(f, f->driver->cuMemAllocHost(at, bytes),
                         "cuMemAllocHost", err);
}

static spt_status allocate_host(spt_forward *f, spt_error *err)
{
    size_t inputs = (size_t)f->sizes.input_ints * sizeof *f->inputs;
    size_t choices =
        (size_t)f->limits.sequences * FORWARD_CHOICE_INTS * sizeof *f->choices;
    size_t logprobs = (size_t)f->limits.logits * sizeof *f->logprobs;
    SPT_TRY(allocate_locked(f, (void **)&f->inputs, inputs, err));
    SPT_TRY(allocate_locked(f, (void **)&f->logprobs, logprobs, err));
    return allocate_locked(f, (void **)&f->choices, choices, err);
}

static spt_status fill(spt_forward *f, spt_error *err)
{
    SPT_TRY(measure(f->model, &f->limits, &f->sizes, err));
    f->layers = spt_calloc((size_t)f->config->layers, sizeof *f->layers);
    f->graphs = spt_calloc((size_t)f->limits.graphs + 1, sizeof *f->graphs);
    f->search =
        spt_calloc((size_t)(f->sizes.histories * f->sizes.search_ints) + 1,
                   sizeof *f->search);
    if (!f->layers || !f->graphs || !f->search)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    SPT_TRY(allocate_host(f, err));
    SPT_TRY(forward_check(
        f, f->driver->cuStreamCreate(&f->stream, CU_STREAM_NON_BLOCKING),
        "cuStreamCreate", err));
    SPT_TRY(allocate(f, err));
    SPT_TRY(forward_weights_load(f, err));
    SPT_TRY(make_angles(f, err));
    SPT_TRY(forward_kernels_load(f, err));
    return f->config->head.taps ? forward_attach(f, f->source.target, err)
                                : SPT_OK;
}

/*
 * Whether a model's activations stay below 65504. Those of llama were made and
 * are served in fp16; qwen2 and gemma3 are reported to exceed it, and bf16 is
 * what the others were trained in.
 */
spt_dtype spt_forward_dtype(const spt_model_config *c)
{
    return strcmp(c->architecture, "llama") == 0 ? SPT_FP16 : SPT_BF16;
}

spt_status spt_forward_open(const spt_forward_source *source,
                            const spt_model *model,
                            const spt_forward_limits *limits, spt_forward **out,
                            spt_error *err)
{
    spt_forward *f = spt_calloc(1, sizeof *f);
    if (!f)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    f->source = *source;
    f->driver = &source->machine->driver;
    f->model = model;
    f->config = spt_model_config_of(model);
    f->limits = *limits;
    f->embeds = f;
    spt_status status = fill(f, err);
    if (status != SPT_OK) {
        spt_forward_close(f);
        return status;
    }
    *out = f;
    return SPT_OK;
}

void spt_forward_close(spt_forward *f)
{
    if (!f)
        return;
    forward_graphs_close(f);
    spt_kernel_set_close(f->kernels.set);
    for (int i = 0; i < SPT_FORWARD_BUFFERS; i++)
        if (f->buffer[i])
            f->driver->cuMemFree(f->buffer[i]);
    for (int i = 0; i < 2; i++)
        if (f->clock[i])
            f->driver->cuEventDestroy(f->clock[i]);
    if (f->stream)
        f->driver->cuStreamDestroy(f->stream);
    spt_free(f->layers);
    if (f->inputs)
        f->driver->cuMemFreeHost(f->inputs);
    if (f->choices)
        f->driver->cuMemFreeHost(f->choices);
    if (f->logprobs)
        f->driver->cuMemFreeHost(f->logprobs);
    spt_free(f->graphs);
    spt_free(f->search);
    spt_free(f);
}

const spt_forward_limits *spt_forward_limits_of(const spt_forward *f)
{
    return &f->limits;
}

const spt_model_config *spt_forward_config(const spt_forward *f)
{
    return f->config;
}

void spt_forward_tap(spt_forward *f, float *into)
{
    f->tap = into;
}
