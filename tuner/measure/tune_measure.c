#include "tune_measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draft.h"
#include "measure.h"
#include "mem.h"
#include "verify.h"

enum {
    LENGTHS = SPT_DRAFT_MAX + 1,
    BUFFERS = 10,
    BLOCK_BYTES = 1 << 20,
    /* Left to the driver: contexts, graphs and code take some at any time. */
    MARGIN_BYTES = 256 << 20,
};

/* Kernels in the machine while they are timed. */
typedef struct bench {
    spt_machine *machine;
    const spt_time_input *in;
    spt_meter *meter;
    spt_loaded *attention; /* one per kernel of the offer */
    spt_loaded combine;
} bench;

/* Device memory of one cell; it serves every draft length. */
typedef struct room {
    bench *b;
    const spt_cell *cell;
    int64_t tokens; /* KV per sequence at the longest draft length */
    int64_t pages; /* per sequence */
    CUdeviceptr buffers[BUFFERS];
    int n_buffers;
    spt_verify_args args;
    CUdeviceptr lengths; /* per draft length: kv_len, then q_start */
} room;

/* A kernel with a draft length: what the meter gets. */
typedef struct subject {
    size_t config;
    int draft_length;
    spt_verify_args args;
    void *params[1];
    spt_launch launches[2];
    char id[640];
} subject;

static int group_of(const spt_problem *p)
{
    return p->q_heads / p->kv_heads;
}

/* Draft tokens that a kernel holds in one CTA, at least one. */
static int tokens_of(const spt_time_input *in, size_t config)
{
    int rows =
        (int)spt_config_int(&in->offer->attention[config].config, "rows", 8);
    int tokens = rows / group_of(in->problem);
    return tokens < 1 ? 1 : tokens;
}

static int fill_length(const spt_time_input *in, size_t config)
{
    int tokens = tokens_of(in, config);
    return tokens < LENGTHS ? tokens - 1 : SPT_DRAFT_MAX;
}

/* The draft lengths that a kernel is timed at: [*first, *last]. */
static void length_range(const spt_time_input *in, size_t config, int *first,
                         int *last)
{
    int own = tokens_of(in, config), fewer = 0, most = own;
    for (size_t i = 0; i < in->offer->count; i++) {
        int tokens = tokens_of(in, i);
        fewer = tokens < own && tokens > fewer ? tokens : fewer;
        most = tokens > most ? tokens : most;
    }
    *last = fill_length(in, config);
    *first = in->full_only || fewer > *last ? *last : fewer;
    if (own == most && !in->full_only)
        *last = SPT_DRAFT_MAX;
}

static double *time_at(const spt_times *t, size_t cell, size_t config,
                       int draft_length)
{
    return &t->us[(cell * t->n_configs + config) * LENGTHS +
                  (size_t)draft_length];
}

static spt_status check(const room *r, CUresult result, const char *what,
                        spt_error *err)
{
    return spt_driver_check(&r->b->machine->driver, result, what, err);
}

/* Numbers like a real cache's: all bits of a mantissa toggle, none is NaN. */
static void random_block(const spt_problem *p, uint16_t *block)
{
    unsigned state = 1;
    uint16_t base = p->dtype == SPT_BF16 ? 0x3e80 : 0x3400;
    uint16_t mantissa = p->dtype == SPT_BF16 ? 0x7f : 0x3ff;
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *block; i++) {
        state = state * 1664525u + 1013904223u;
        block[i] = (uint16_t)((state >> 16 & 0x8000) | base |
                              (state >> 12 & mantissa));
    }
}

static spt_status room_alloc(room *r, size_t bytes, CUdeviceptr *address,
                             spt_error *err)
{
    SPT_TRY(check(r, r->b->machine->driver.cuMemAlloc(address, bytes),
                  "cuMemAlloc", err));
    r->buffers[r->n_buffers++] = *address;
    return SPT_OK;
}

/* A block goes over once and is then doubled where it lies. */
static spt_status room_fill(room *r, size_t bytes, CUdeviceptr *address,
                            spt_error *err)
{
    const spt_driver *d = &r->b->machine->driver;
    size_t done = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
    SPT_TRY(room_alloc(r, bytes, address, err));
    uint16_t *block = spt_calloc(1, BLOCK_BYTES);
    if (!block)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    random_block(r->b->in->problem, block);
    spt_status status =
        check(r, d->cuMemcpyHtoD(*address, block, done), "cuMemcpyHtoD", err);
    spt_free(block);
    while (status == SPT_OK && done < bytes) {
        size_t part = bytes - done < done ? bytes - done : done;
        status = check(r, d->cuMemcpyDtoD(*address + done, *address, part),
                       "cuMemcpyDtoD", err);
        done += part;
    }
    return status;
}

static spt_status room_copy(room *r, const void *data, size_t bytes,
                            CUdeviceptr *address, spt_error *err)
{
    SPT_TRY(room_alloc(r, bytes, address, err));
    return check(r, r->b->machine->driver.cuMemcpyHtoD(*address, data, bytes),
                 "cuMemcpyHtoD", err);
}

static spt_verify_plan plan_of(const room *r, size_t config, int draft_length)
{
    const bench *b = r->b;
    const spt_problem *p = b->in->problem;
    const spt_config *c = &b->in->offer->attention[config].config;
    return (spt_verify_plan){
        .batch = r->cell->batch,
        .q_heads = p->q_heads,
        .kv_heads = p->kv_heads,
        .head_dim = p->head_dim,
        .max_tokens = 1 + draft_length,
        .max_kv = r->cell->context + 1 + draft_length,
        .chunk = b->in->chunk,
        .rows = (int)spt_config_int(c, "rows", 8),
        .attention_threads = b->attention[config].threads,
        .combine_threads = b->combine.threads,
        .shared_bytes = b->attention[config].shared_bytes,
        .attention = b->attention[config].function,
        .combine = b->combine.function,
    };
}

static size_t token_bytes(const spt_problem *p)
{
    return (size_t)p->kv_heads * (size_t)p->head_dim * 2;
}

/* Bytes of K, the same of V. */
static size_t kv_bytes(const room *r)
{
    const spt_problem *p = r->b->in->problem;
    int64_t tokens = p->page_size ? r->pages * p->page_size : r->tokens;
    return (size_t)r->cell->batch * (size_t)tokens * token_bytes(p);
}

/* Bytes of Q, the same of the output. */
static size_t q_bytes(const room *r)
{
    const spt_problem *p = r->b->in->problem;
    return (size_t)r->cell->batch * LENGTHS * (size_t)p->q_heads *
           (size_t)p->head_dim * 2;
}

static spt_status room_fits(const room *r, const spt_verify_plan *plan,
                            bool *fits, spt_error *err)
{
    size_t available = 0, total = 0;
    size_t need = 2 * kv_bytes(r) + 2 * q_bytes(r) +
                  spt_verify_partial_o_bytes(plan) +
                  spt_verify_partial_ml_bytes(plan) + MARGIN_BYTES;
    SPT_TRY(check(r, r->b->machine->driver.cuMemGetInfo(&available, &total),
                  "cuMemGetInfo", err));
    *fits = need <= available;
    return SPT_OK;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Pages as a server's cache has them after a while: none beside its next. */
static spt_status lay_out_pages(room *r, spt_error *err)
{
    int64_t total = r->cell->batch * r->pages, step = total / 2 + 1;
    while (gcd(step, total) != 1)
        step++;
    int32_t *table = spt_calloc((size_t)total, sizeof *table);
    if (!table)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    for (int64_t i = 0; i < total; i++)
        table[i] = (int32_t)(i * step % total);
    spt_status status = room_copy(r, table, (size_t)total * sizeof *table,
                                  &r->args.page_table, err);
    spt_free(table);
    return status;
}

static spt_status lay_out_starts(room *r, spt_error *err)
{
    size_t batch = (size_t)r->cell->batch;
    int64_t *starts = spt_calloc(batch, sizeof *starts);
    if (!starts)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    for (size_t s = 0; s < batch; s++)
        starts[s] = (int64_t)s * r->tokens;
    spt_status status =
        room_copy(r, starts, batch * sizeof *starts, &r->args.kv_start, err);
    spt_free(starts);
    return status;
}

/* int32s of one draft length: kv_len (batch) and q_start (batch + 1). */
static size_t length_count(const room *r)
{
    return 2 * (size_t)r->cell->batch + 1;
}

static spt_status lay_out_lengths(room *r, spt_error *err)
{
    size_t batch = (size_t)r->cell->batch, each = length_count(r);
    int32_t *all = spt_calloc(LENGTHS * each, sizeof *all);
    if (!all)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    for (int d = 0; d < LENGTHS; d++)
        for (size_t s = 0; s <= batch; s++) {
            int32_t *own = all + (size_t)d * each;
            own[batch + s] = (int32_t)s * (1 + d);
            if (s < batch)
                own[s] = (int32_t)(r->cell->context + 1 + d);
        }
    spt_status status =
        room_copy(r, all, LENGTHS * each * sizeof *all, &r->lengths, err);
    spt_free(all);
    return status;
}

/* The kernels have no tree, window or sinks here: those stay zero. */
static spt_status lay_out(room *r, const spt_verify_plan *plan, spt_error *err)
{
    const spt_problem *p = r->b->in->problem;
    SPT_TRY(room_fill(r, kv_bytes(r), &r->args.k, err));
    SPT_TRY(room_fill(r, kv_bytes(r), &r->args.v, err));
    SPT_TRY(room_fill(r, q_bytes(r), &r->args.q, err));
    SPT_TRY(room_alloc(r, q_bytes(r), &r->args.out, err));
    SPT_TRY(room_alloc(r, q_bytes(r), &r->args.lse, err));
    SPT_TRY(room_alloc(r, spt_verify_partial_o_bytes(plan), &r->args.partial_o,
                       err));
    SPT_TRY(room_alloc(r, spt_verify_partial_ml_bytes(plan),
                       &r->args.partial_ml, err));
    SPT_TRY(lay_out_lengths(r, err));
    r->args.kv_token_stride = (int64_t)p->kv_heads * p->head_dim;
    r->args.kv_page_stride = r->args.kv_token_stride * p->page_size;
    r->args.kv_head_stride = p->head_dim;
    r->args.page_table_stride = (int32_t)r->pages;
    r->args.q_token_stride = (int64_t)p->q_heads * p->head_dim;
    spt_verify_set_scale(&r->args, 1 / sqrt((double)p->head_dim), 0);
    return p->page_size ? lay_out_pages(r, err) : lay_out_starts(r, err);
}

/*
 * Everything that a time depends on. Keys of the machine code stand for the
 * kernels, so that samples of an older build are not taken for this one's.
 */
static void name_subject(const room *r, subject *s)
{
    const spt_problem *p = r->b->in->problem;
    const spt_offer *offer = r->b->in->offer;
    snprintf(s->id, sizeof s->id,
             "%s %.16s %.16s %d/%d d%d %s page %d batch %d context %lld D %d "
             "on %s",
             offer->attention[s->config].kernel.symbol,
             offer->attention[s->config].image.key, offer->combine.image.key,
             p->q_heads, p->kv_heads, p->head_dim, spt_half_name(p->dtype),
             p->page_size, r->cell->batch, (long long)r->cell->context,
             s->draft_length, r->b->machine->name);
}

static spt_status make_subject(const room *r, subject *s, spt_error *err)
{
    spt_verify_plan plan = plan_of(r, s->config, s->draft_length);
    spt_verify_grids grids;
    CUdeviceptr own =
        r->lengths + (size_t)s->draft_length * length_count(r) * 4;
    s->args = r->args;
    s->args.kv_len = own;
    s->args.q_start = own + (size_t)r->cell->batch * 4;
    SPT_TRY(spt_verify_fill(&plan, &s->args, &grids, err));
    s->params[0] = &s->args;
    s->launches[0] =
        (spt_launch){.function = plan.attention,
                     .block = {(unsigned)plan.attention_threads, 1, 1},
                     .shared_bytes = (unsigned)plan.shared_bytes,
                     .params = s->params};
    s->launches[1] =
        (spt_launch){.function = plan.combine,
                     .block = {(unsigned)plan.combine_threads, 1, 1},
                     .params = s->params};
    memcpy(s->launches[0].grid, grids.attention, sizeof grids.attention);
    memcpy(s->launches[1].grid, grids.combine, sizeof grids.combine);
    name_subject(r, s);
    return SPT_OK;
}

/* The pairs of kernel and draft length that are timed; list may be NULL. */
static size_t list_subjects(const spt_time_input *in, subject *list)
{
    size_t n = 0;
    for (size_t i = 0; i < in->offer->count; i++) {
        int first, last;
        length_range(in, i, &first, &last);
        for (int d = first; d <= last; d++, n++)
            if (list) {
                list[n].config = i;
                list[n].draft_length = d;
            }
    }
    return n;
}

static spt_status time_room(const room *r, spt_times *times, size_t cell,
                            spt_error *err)
{
    size_t n = list_subjects(r->b->in, NULL);
    subject *list = spt_calloc(n, sizeof *list);
    spt_subject *subjects = spt_calloc(n, sizeof *subjects);
    spt_timing *timings = spt_calloc(n, sizeof *timings);
    spt_status status = SPT_OK;
    if (!list || !subjects || !timings)
        status = spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    else
        list_subjects(r->b->in, list);
    for (size_t i = 0; status == SPT_OK && i < n; i++) {
        status = make_subject(r, &list[i], err);
        subjects[i] = (spt_subject){list[i].id, list[i].launches, 2};
    }
    if (status == SPT_OK)
        status = spt_meter_run(r->b->meter, subjects, n, timings, err);
    for (size_t i = 0; status == SPT_OK && i < n; i++) {
        *time_at(times, cell, list[i].config, list[i].draft_length) =
            timings[i].median_us;
        times->evidence = timings[i].evidence;
    }
    spt_free(list);
    spt_free(subjects);
    spt_free(timings);
    return status;
}

static spt_status time_cell(bench *b, spt_times *times, size_t cell,
                            spt_error *err)
{
    room r = {.b = b, .cell = &b->in->cells[cell]};
    int size = b->in->problem->page_size;
    r.tokens = r.cell->context + LENGTHS;
    r.pages = size ? (r.tokens + size - 1) / size : 1;
    spt_verify_plan plan = plan_of(&r, 0, SPT_DRAFT_MAX);
    bool fits;
    SPT_TRY(room_fits(&r, &plan, &fits, err));
    if (!fits) {
        spt_log_line(b->in->log,
                     "batch %d, context %lld: its KV does not fit into the "
                     "GPU's free memory: times stay modelled",
                     r.cell->batch, (long long)r.cell->context);
        return SPT_OK;
    }
    spt_status status = lay_out(&r, &plan, err);
    if (status == SPT_OK)
        status = time_room(&r, times, cell, err);
    for (int i = 0; i < r.n_buffers; i++)
        b->machine->driver.cuMemFree(r.buffers[i]);
    times->timed += status == SPT_OK;
    return status;
}

static spt_status bench_open(bench *b, spt_error *err)
{
    const spt_offer *offer = b->in->offer;
    const spt_meter_options options = {
        .rounds = b->in->rounds, .samples = b->in->samples, .log = b->in->log};
    b->attention = spt_calloc(offer->count, sizeof *b->attention);
    if (!b->attention)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    for (size_t i = 0; i < offer->count; i++)
        SPT_TRY(spt_machine_load(b->machine, &offer->attention[i].kernel,
                                 &offer->attention[i].image, &b->attention[i],
                                 err));
    SPT_TRY(spt_machine_load(b->machine, &offer->combine.kernel,
                             &offer->combine.image, &b->combine, err));
    return spt_meter_open(&b->machine->driver, b->machine->device, &options,
                          &b->meter, err);
}

static void bench_close(bench *b)
{
    spt_meter_close(b->meter);
    for (size_t i = 0; b->attention && i < b->in->offer->count; i++)
        spt_machine_unload(b->machine, &b->attention[i]);
    spt_machine_unload(b->machine, &b->combine);
    spt_free(b->attention);
}

static spt_status times_make(const spt_time_input *in, spt_times *t,
                             spt_error *err)
{
    *t = (spt_times){.q_heads = in->problem->q_heads,
                     .kv_heads = in->problem->kv_heads,
                     .head_dim = in->problem->head_dim,
                     .n_cells = in->n_cells,
                     .n_configs = in->offer->count,
                     .evidence = "modelled"};
    t->cells = spt_calloc(in->n_cells, sizeof *t->cells);
    t->us = spt_calloc(in->n_cells * t->n_configs * LENGTHS, sizeof *t->us);
    if (!t->cells || !t->us) {
        spt_times_free(t);
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    }
    memcpy(t->cells, in->cells, in->n_cells * sizeof *t->cells);
    return SPT_OK;
}

spt_status spt_times_take(spt_machine *machine, const spt_time_input *in,
                          spt_times *times, spt_error *err)
{
    bench b = {.machine = machine, .in = in};
    SPT_TRY(times_make(in, times, err));
    spt_status status = bench_open(&b, err);
    for (size_t i = 0; status == SPT_OK && i < in->n_cells; i++) {
        if (in->progress)
            in->progress("timing", i, in->n_cells);
        status = time_cell(&b, times, i, err);
    }
    bench_close(&b);
    if (status != SPT_OK)
        spt_times_free(times);
    return status;
}

void spt_times_free(spt_times *times)
{
    spt_free(times->cells);
    spt_free(times->us);
    *times = (spt_times){0};
}

double spt_times_us(void *user, size_t config, const spt_attention_shape *shape,
                    const char **evidence)
{
    const spt_times *t = user;
    int d = shape->draft_length;
    if (shape->q_heads != t->q_heads || shape->kv_heads != t->kv_heads ||
        shape->head_dim != t->head_dim || shape->element_bytes != 2 || d < 0 ||
        d > SPT_DRAFT_MAX)
        return -1;
    for (size_t c = 0; c < t->n_cells; c++) {
        if (t->cells[c].batch != shape->batch ||
            (double)t->cells[c].context + 1 + d != shape->context)
            continue;
        *evidence = t->evidence;
        if (*time_at(t, c, config, d) > 0)
            return *time_at(t, c, config, d);
        for (size_t i = 0; i < t->n_configs; i++)
            if (*time_at(t, c, i, d) > 0)
                return INFINITY;
        return -1;
    }
    return -1;
}

/* Sum of logarithms over the cells at full rows; infinite without a time. */
static double score(const spt_times *t, const spt_time_input *in, size_t config)
{
    double sum = 0;
    for (size_t c = 0; c < t->n_cells; c++) {
        double us = *time_at(t, c, config, fill_length(in, config));
        sum += us > 0 ? log(us) : 0;
    }
    return t->timed ? sum : INFINITY;
}

void spt_times_fastest(const spt_times *t, const spt_offer *offer, bool *keep)
{
    spt_problem p = {.q_heads = t->q_heads, .kv_heads = t->kv_heads};
    const spt_time_input in = {.problem = &p, .offer = offer};
    for (size_t i = 0; i < offer->count; i++) {
        int64_t rows = spt_config_int(&offer->attention[i].config, "rows", 8);
        double own = score(t, &in, i);
        keep[i] = true;
        for (size_t k = 0; t->timed && k < offer->count; k++) {
            double other = score(t, &in, k);
            if (spt_config_int(&offer->attention[k].config, "rows", 8) ==
                    rows &&
                (other < own || (other == own && k < i)))
                keep[i] = false;
        }
    }
}
