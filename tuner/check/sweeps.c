/*
 * From rows to curves to a score. What a row does not say is assumed in one
 * way for all: typical contexts, the quantisation's mean bits, a model of that
 * size where the name is none of profiles/models/.
 */
#include "sweeps.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boards.h"
#include "serving.h"
#include "survival.h"

/* Tokens of a sequence, half way through an answer: the `context` of these
   files is the window that was set up, not what was in use. Assumed. */
static const double typical_context = 400;

/* Predicted rates this close cannot be told apart: the shorter wins. */
static const double noise = 0.01;

enum { MAX_DRAFT = SPT_SURVIVAL_MAX };

typedef struct checker {
    spt_gen *gen;
    const spt_csv *csv;
    spt_error *err;
    char *assumed; /* of the curve at hand, of assumed_size bytes */
    size_t assumed_size;
} checker;

/* Adds a thing that is not known and what is taken for it. */
static void assume(const checker *c, const char *what, const char *name,
                   const char *instead)
{
    size_t used = strlen(c->assumed);
    snprintf(c->assumed + used, c->assumed_size - used,
             "%s%s '%.32s' taken as %s", used ? "; " : "", what, name, instead);
}

/* One curve: its rows, and what they say by draft length. */
typedef struct curve {
    size_t first; /* row that names everything but D */
    bool tried[MAX_DRAFT + 1];
    double rate[MAX_DRAFT + 1]; /* of the first row with that D */
    double kept[MAX_DRAFT + 1]; /* mean drafts kept, -1 = not printed */
    int lengths, printed;
} curve;

static const char *cell(const checker *c, size_t row, const char *column)
{
    return spt_csv_text(c->csv, row, column);
}

static bool same_curve(const checker *c, size_t a, size_t b)
{
    return strcmp(cell(c, a, "sweep_id"), cell(c, b, "sweep_id")) == 0 &&
           strcmp(cell(c, a, "prompts"), cell(c, b, "prompts")) == 0 &&
           strcmp(cell(c, a, "concurrency"), cell(c, b, "concurrency")) == 0;
}

static spt_status number(const checker *c, size_t row, const char *column,
                         double min, double max, double empty, double *out)
{
    return spt_csv_number(c->csv, row, column, min, max, empty, out, c->err);
}

static spt_status add_row(const checker *c, size_t row, curve *v)
{
    double d, rate, share, length;
    SPT_TRY(number(c, row, "D", 0, MAX_DRAFT, -1, &d));
    SPT_TRY(number(c, row, "tokens_per_s", 0, 1e9, -1, &rate));
    SPT_TRY(number(c, row, "acceptance_rate", 0, 1, -1, &share));
    SPT_TRY(number(c, row, "acceptance_length", 1, MAX_DRAFT + 1, -1, &length));
    int i = (int)d;
    if (d < 0 || rate <= 0 || v->tried[i])
        return SPT_OK;
    v->tried[i] = true;
    v->rate[i] = rate;
    if (i > 0 && length > 0)
        v->kept[i] = length - 1;
    else if (i > 0 && share >= 0)
        v->kept[i] = share * i;
    v->lengths += i > 0;
    v->printed += v->kept[i] >= 0;
    return SPT_OK;
}

static spt_status read_curve(const checker *c, size_t first, curve *v)
{
    *v = (curve){.first = first};
    for (int d = 0; d <= MAX_DRAFT; d++)
        v->kept[d] = -1;
    for (size_t row = first; row < c->csv->rows; row++)
        if (same_curve(c, first, row))
            SPT_TRY(add_row(c, row, v));
    return SPT_OK;
}

/* Lower case, without owner, without what stands in brackets. */
static void plain_name(const char *text, char *out, size_t size)
{
    const char *slash = strrchr(text, '/');
    size_t n = 0;
    for (const char *p = slash ? slash + 1 : text; *p && n + 1 < size; p++) {
        if (p[0] == ' ' && p[1] == '(')
            break;
        out[n++] = *p == ' ' ? '_' : (char)tolower((unsigned char)*p);
    }
    out[n] = 0;
}

/* Boards that sources call by less than their name; a pair counts as two of
   the one that has less bandwidth. */
static spt_status find_board(const checker *c, const char *text,
                             const char *otherwise, spt_board *board)
{
    static const char *const known_as[][2] = {
        {"h100", "h100_sxm"}, {"a100", "a100_sxm"}, {"a100_80gb", "a100_sxm"},
        {"h200", "h200_sxm"}, {"b200", "b200_sxm"}, {"b300", "b300_sxm"},
        {"dgx_spark", "gb10"}};
    char names[96], *rest = names;
    snprintf(names, sizeof names, "%s", text);
    *board = (spt_board){0};
    for (char *name; (name = strtok_r(rest, "+", &rest)) != NULL;) {
        spt_board b;
        spt_error err;
        const char *real = name;
        for (size_t i = 0; i < sizeof known_as / sizeof *known_as; i++)
            if (strcmp(known_as[i][0], name) == 0)
                real = known_as[i][1];
        if (spt_gen_board(c->gen, real, &b, &err) != SPT_OK) {
            assume(c, "board", name, otherwise);
            SPT_TRY(spt_gen_board(c->gen, otherwise, &b, c->err));
        }
        if (!board->sm_count || b.dram_gbps < board->dram_gbps)
            *board = b;
    }
    if (board->sm_count)
        return SPT_OK;
    assume(c, "board", text, otherwise);
    return spt_gen_board(c->gen, otherwise, board, c->err);
}

/*
 * "Q4_K_M", "UD-Q4_K_XL (Dynamic 3)" to a name of weights.def. Where nothing
 * is said: NULL, the model's own, and what llama.cpp's users take. Returns the
 * bits of a name that is not known, by its digit ("Q4-XYZ"), else 0.
 */
static double read_quant(const char *text, bool gguf, char *name, size_t size)
{
    plain_name(text, name, size);
    for (char *p = name; *p; p++)
        if (*p == '-')
            *p = '_';
    if (spt_weights_find(name) >= 0)
        return 0;
    const char *digit = strpbrk(text, "23456789");
    snprintf(name, size, "%s", gguf ? "q4_k_m" : "");
    return gguf && digit ? digit[0] - '0' + 0.8 : 0;
}

/* The preset of that name, or a shape of that size. */
static spt_status find_target(const checker *c, const char *text, double params,
                              double active, const char *weights,
                              spt_target *target)
{
    char name[64];
    spt_error err;
    plain_name(text, name, sizeof name);
    char *tail = strstr(name, "-instruct");
    if (tail)
        *tail = 0;
    const char *home = spt_gen_root(c->gen);
    if (*name && spt_target_load(home, name, *weights ? weights : NULL, target,
                                 &err) == SPT_OK)
        return SPT_OK;
    assume(c, "model", text,
           params > 0 ? "one of its size" : "one of 27 billion weights");
    if (params <= 0 || active <= 0 || active > params)
        params = active = params > 0 ? params : 27;
    return spt_target_sized(name, params * 1e9, active * 1e9,
                            *weights ? weights : "bf16", target, c->err);
}

static spt_status read_target(const checker *c, size_t row, bool gguf,
                              spt_target *t)
{
    double params, active, gb;
    char weights[64];
    SPT_TRY(number(c, row, "target_params_b", 0, 1e5, -1, &params));
    SPT_TRY(number(c, row, "active_params_b", 0, 1e5, params, &active));
    SPT_TRY(number(c, row, "weights_gb", 0, 1e5, -1, &gb));
    double bits =
        read_quant(cell(c, row, "quant"), gguf, weights, sizeof weights);
    SPT_TRY(find_target(c, cell(c, row, "model"), params, active, weights, t));
    if (gb > 0)
        bits = gb * 8e9 / spt_target_params(t);
    if (bits > 0) {
        t->layer_bits = t->attention_bits = t->embed_bits = bits;
        t->head_bits = fmax(t->head_bits, bits);
    }
    t->weight_bytes = gb > 0 ? gb * 1e9 : 0;
    return spt_target_finish(t, c->err);
}

static spt_status read_drafter(const checker *c, size_t row,
                               const spt_target *target, spt_drafter *drafter)
{
    const char *home = spt_gen_root(c->gen);
    const char *method = cell(c, row, "method");
    double params;
    if (spt_drafter_find(method) < 0) {
        assume(c, "method", method, "mtp");
        method = "mtp";
    }
    if (strcmp(method, "external") != 0)
        return spt_drafter_make(home, method, target, drafter, c->err);
    SPT_TRY(number(c, row, "drafter_params_b", 0, 1e4, -1, &params));
    *drafter = (spt_drafter){.method = SPT_METHOD_EXTERNAL};
    return find_target(c, cell(c, row, "drafter"), params, params,
                       strcmp(target->weights, "bf16") == 0 ? "bf16" : "q8_0",
                       &drafter->model);
}

/* Of the cache's type; 16 bits where it is not said. */
static double kv_bytes(const char *dtype)
{
    double bytes = spt_kv_type_bytes(dtype);
    return bytes > 0 ? bytes : 2;
}

/* Drafts that a block drafter really makes of those that were asked for: the
   block of DFlash2 has eight rows, one of them the token before. */
static int drafts_made(const checker *c, size_t row, int draft_length)
{
    bool eight = strncmp(cell(c, row, "drafter"), "DFlash2", 7) == 0;
    return eight && draft_length > 7 ? 7 : draft_length;
}

typedef struct setup {
    spt_serving serving;
    spt_board board;
    spt_target target;
    spt_drafter drafter;
    spt_load load;
} setup;

static spt_status find_engine(const checker *c, size_t row,
                              spt_serving *serving)
{
    const char *name = cell(c, row, "engine");
    const char *home = spt_gen_root(c->gen);
    spt_error err;
    if (spt_serving_load(home, name, serving, &err) == SPT_OK)
        return SPT_OK;
    /* One row at a time is how local engines run. */
    bool local = strcmp(cell(c, row, "concurrency"), "1") == 0;
    const char *instead = local ? "llama.cpp" : "vllm";
    assume(c, "engine", name, instead);
    return spt_serving_load(home, instead, serving, c->err);
}

/* Everything that the choice may know but the acceptance. */
static spt_status read_setup(const checker *c, size_t row, setup *s)
{
    double boards, batch;
    SPT_TRY(number(c, row, "n_gpus", 1, 4096, 1, &boards));
    SPT_TRY(number(c, row, "concurrency", 1, 1e5, 1, &batch));
    SPT_TRY(find_engine(c, row, &s->serving));
    bool gguf = s->serving.narrow_rows > 0;
    SPT_TRY(find_board(c, cell(c, row, "gpu"), gguf ? "rtx_3090" : "h100_sxm",
                       &s->board));
    SPT_TRY(read_target(c, row, gguf, &s->target));
    SPT_TRY(read_drafter(c, row, &s->target, &s->drafter));
    s->load = (spt_load){.serving = &s->serving,
                         .board = &s->board,
                         .target = &s->target,
                         .drafter = &s->drafter,
                         .boards = (int)boards,
                         .batch = batch,
                         .context = typical_context,
                         .kv_bytes = kv_bytes(cell(c, row, "kv_dtype"))};
    return SPT_OK;
}

/* The model's word on each length; the shortest of the best. */
static int choose(const checker *c, const curve *v, const setup *s,
                  spt_sweep *out)
{
    double kept[MAX_DRAFT + 1], rate[MAX_DRAFT + 1], best = 0;
    memcpy(kept, v->kept, sizeof kept);
    spt_survival_fill(kept);
    for (int d = 0; d <= MAX_DRAFT; d++) {
        if (!v->tried[d])
            continue;
        int made = drafts_made(c, v->first, d);
        double us = spt_serving_step_us(&s->load, made);
        out->tried[out->n_tried++] = (spt_tried){d, 1 + kept[d], us};
        rate[d] = (1 + kept[d]) / us;
        best = fmax(best, rate[d]);
    }
    for (int d = 0; d < MAX_DRAFT; d++)
        if (v->tried[d] && rate[d] >= best * (1 - noise))
            return d;
    return MAX_DRAFT;
}

static int best_of(const curve *v)
{
    int best = 0;
    for (int d = 1; d <= MAX_DRAFT; d++)
        if (v->tried[d] && v->rate[d] > v->rate[best])
            best = d;
    return best;
}

static double lost_with(const curve *v, int d)
{
    return 100 * (1 - v->rate[d] / v->rate[best_of(v)]);
}

/* The tried length nearest to d; of two the shorter. */
static int nearest(const curve *v, int d)
{
    for (int far = 0; far <= MAX_DRAFT; far++) {
        if (d - far >= 0 && v->tried[d - far])
            return d - far;
        if (d + far <= MAX_DRAFT && v->tried[d + far])
            return d + far;
    }
    return 0;
}

static spt_status check_curve(checker *c, spt_arena *arena, const curve *v,
                              spt_sweep *out)
{
    setup *s = spt_calloc(1, sizeof *s);
    if (!s)
        return spt_fail(c->err, SPT_E_MEMORY, "sweeps: out of memory");
    *out = (spt_sweep){
        .id = cell(c, v->first, "sweep_id"),
        .prompts = cell(c, v->first, "prompts"),
        .concurrency = cell(c, v->first, "concurrency"),
        .best = best_of(v),
        .tried = spt_arena_alloc(arena, MAX_DRAFT + 1, sizeof *out->tried)};
    c->assumed = out->assumed;
    c->assumed_size = sizeof out->assumed;
    spt_status status = read_setup(c, v->first, s);
    if (status == SPT_OK && !out->tried)
        status = spt_fail(c->err, SPT_E_MEMORY, "sweeps: out of memory");
    if (status == SPT_OK) {
        out->chosen = choose(c, v, s, out);
        out->lost_percent = lost_with(v, out->chosen);
    }
    spt_free(s);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values, between the two neighbours. */
static double percentile(const double *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;
    double next = sorted[i + 1 < n ? i + 1 : i];
    return sorted[i] + (next - sorted[i]) * (at - (double)i);
}

static double mean(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

/* losses: room for one number per curve. */
static void score(spt_sweeps *s, const curve *curves, double *losses)
{
    size_t n = s->count;
    for (size_t i = 0; i < n; i++)
        losses[i] = s->list[i].lost_percent;
    s->mean_lost = mean(losses, n);
    qsort(losses, n, sizeof *losses, by_value);
    s->median_lost = percentile(losses, n, 0.5);
    s->p90_lost = percentile(losses, n, 0.9);
    for (int d = 0; d <= MAX_DRAFT; d++) {
        bool tried = false;
        for (size_t i = 0; i < n; i++)
            tried |= curves[i].tried[d];
        if (!tried)
            continue;
        for (size_t i = 0; i < n; i++)
            losses[i] = lost_with(&curves[i], nearest(&curves[i], d));
        qsort(losses, n, sizeof *losses, by_value);
        s->fixed[s->n_fixed++] =
            (spt_fixed){d, mean(losses, n), percentile(losses, n, 0.9)};
    }
}

static bool starts_curve(const checker *c, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (same_curve(c, i, row))
            return false;
    return true;
}

/* All curves that count, in the file's order; *curves: in the arena. */
static spt_status collect(const checker *c, spt_arena *arena, curve **curves,
                          size_t *count)
{
    *count = 0;
    *curves = spt_arena_alloc(arena, c->csv->rows + 1, sizeof **curves);
    if (!*curves)
        return spt_fail(c->err, SPT_E_MEMORY, "sweeps: out of memory");
    for (size_t row = 0; row < c->csv->rows; row++) {
        curve *v = &(*curves)[*count];
        if (!starts_curve(c, row))
            continue;
        SPT_TRY(read_curve(c, row, v));
        if (v->tried[0] && v->lengths >= 3 && v->printed)
            ++*count;
    }
    if (*count)
        return SPT_OK;
    return spt_fail(c->err, SPT_E_FORMAT,
                    "%s: no curve with D = 0, three other lengths and "
                    "acceptance",
                    c->csv->name);
}

spt_status spt_sweeps_check(spt_sweeps *sweeps, spt_gen *gen,
                            const spt_csv *csv, spt_error *err)
{
    checker c = {.gen = gen, .csv = csv, .err = err};
    spt_sweeps s = {0};
    curve *curves = NULL;
    size_t count = 0;
    spt_status status = collect(&c, &sweeps->arena, &curves, &count);
    s.list = spt_arena_alloc(&sweeps->arena, count + 1, sizeof *s.list);
    s.fixed = spt_arena_alloc(&sweeps->arena, MAX_DRAFT + 1, sizeof *s.fixed);
    double *losses = spt_arena_alloc(&sweeps->arena, count + 1, sizeof *losses);
    if (status == SPT_OK && (!s.list || !s.fixed || !losses))
        status = spt_fail(err, SPT_E_MEMORY, "sweeps: out of memory");
    for (size_t i = 0; i < count && status == SPT_OK; i++)
        status =
            check_curve(&c, &sweeps->arena, &curves[i], &s.list[s.count++]);
    if (status != SPT_OK)
        return status;
    score(&s, curves, losses);
    s.arena = sweeps->arena;
    *sweeps = s;
    return SPT_OK;
}

void spt_sweeps_free(spt_sweeps *sweeps)
{
    spt_arena_free(&sweeps->arena);
    memset(sweeps, 0, sizeof *sweeps);
}
