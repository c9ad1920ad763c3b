#include "survey.h"

#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "gen.h"
#include "mem.h"

/* To a drafter's board or the next stage, where nobody says how far. */
static const double default_link_us = 20;

/* The loads of who names none. */
static const spt_ints usual_batches = {3, {1, 8, 64}};
static const spt_ints usual_contexts = {3, {1024, 8192, 32768}};

void spt_survey_usual_loads(spt_survey_options *o)
{
    o->batches = usual_batches;
    o->contexts = usual_contexts;
}

bool spt_survey_other_engine(const spt_survey_options *o)
{
    return o->engine && strcmp(o->engine, "spectune") != 0;
}

static const char *dtype_of(const spt_survey_options *o)
{
    return o->dtype ? o->dtype : "bf16";
}

/* In our spelling; a word that nobody knows stays for the error. */
static const char *kv_dtype_of(const spt_survey_options *o)
{
    const char *word = o->kv_dtype ? o->kv_dtype : dtype_of(o);
    const char *name = spt_kv_type_name(word);
    return name ? name : word;
}

/* Types of our kernels; of another engine only the KV's size counts. */
static spt_status read_types(spt_survey *s, spt_error *err)
{
    const spt_survey_options *o = s->options;
    spt_problem types = {0};
    if (spt_survey_other_engine(o)) {
        if (spt_kv_type_bytes(kv_dtype_of(o)) > 0)
            return SPT_OK;
        return spt_fail(err, SPT_E_USAGE,
                        "--kv-dtype %s: expected bf16, fp16, fp8, q8_0 or q4_0",
                        o->kv_dtype);
    }
    SPT_TRY(spt_problem_set_types(&types, dtype_of(o), kv_dtype_of(o), err));
    s->dtype = types.dtype;
    return SPT_OK;
}

/* Options that go together, or not. */
static spt_status check_options(const spt_survey_options *o, spt_error *err)
{
    if (!o->arch && !o->board)
        return spt_fail(err, SPT_E_USAGE,
                        "--arch: expected an architecture, or --board BOARD");
    if ((o->link_us >= 0 || o->link_gbps > 0) && !o->draft_board &&
        o->boards < 2 && o->stages < 2)
        return spt_fail(err, SPT_E_USAGE,
                        "%s: expected --draft-board, --tp or --pp beside it",
                        o->link_us >= 0 ? "--link-us" : "--link-gbps");
    return SPT_OK;
}

static spt_status open_board(spt_survey *s, bool compiles, spt_error *err)
{
    const spt_survey_options *o = s->options;
    if (compiles && !spt_survey_other_engine(o))
        return spt_builder_open(&s->builder, o->arch, o->board, &s->board, err);
    SPT_TRY(spt_gen_open(NULL, &s->builder.gen, err));
    SPT_TRY(spt_find_board(s->builder.gen, o->arch, o->board, &s->board, err));
    s->builder.board = &s->board;
    return SPT_OK;
}

spt_status spt_survey_open(spt_survey *s, const spt_survey_options *o,
                           bool compiles, spt_error *err)
{
    s->options = o;
    SPT_TRY(check_options(o, err));
    SPT_TRY(read_types(s, err));
    SPT_TRY(open_board(s, compiles, err));
    if (o->acceptance)
        SPT_TRY(spt_acceptance_read(&s->acceptance, o->acceptance, err));
    SPT_TRY(spt_acceptance_read_all(&s->acceptance,
                                    spt_gen_root(s->builder.gen), err));
    for (int i = 0; i < o->batches.count; i++)
        s->batches[i] = (int)o->batches.values[i];
    return SPT_OK;
}

void spt_survey_close(spt_survey *s)
{
    spt_free(s->configs);
    spt_free(s->draft_configs);
    spt_acceptance_free(&s->acceptance);
    spt_builder_close(&s->builder);
    memset(s, 0, sizeof *s);
}

int spt_survey_head_dim(const spt_survey_options *o)
{
    return o->head_dim ? (int)o->head_dim : 128;
}

spt_status spt_survey_load(spt_survey *s, spt_target *target, spt_error *err)
{
    const spt_survey_options *o = s->options;
    int q_heads, kv_heads;
    if (!o->heads && !o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads: expected Q/KV, or --model MODEL");
    if (o->heads && o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--heads %s: expected no heads beside --model, which "
                        "brings its own",
                        o->heads);
    if (o->model && o->head_dim)
        return spt_fail(err, SPT_E_USAGE,
                        "--head-dim %lld: expected none beside --model, which "
                        "brings its own",
                        (long long)o->head_dim);
    if (o->model)
        return spt_target_load(spt_gen_root(s->builder.gen), o->model,
                               o->weights, target, err);
    SPT_TRY(spt_parse_heads(o->heads, &q_heads, &kv_heads, err));
    return spt_target_stand_in(q_heads, kv_heads, spt_survey_head_dim(o),
                               o->weights, target, err);
}

/* Engine, boards and the drafter's board. */
static spt_status read_deployment(spt_survey *s, spt_deployment *where,
                                  spt_error *err)
{
    const spt_survey_options *o = s->options;
    const char *home = spt_gen_root(s->builder.gen);
    *where = (spt_deployment){.boards = o->boards > 1 ? (int)o->boards : 1,
                              .stages = o->stages > 1 ? (int)o->stages : 1,
                              .link_us = o->link_us >= 0 ? o->link_us
                                                         : default_link_us,
                              .link_gbps = o->link_gbps,
                              .reduce_us = o->link_us >= 0 ? o->link_us : 0};
    if (where->stages > s->target.layers)
        return spt_fail(err, SPT_E_USAGE,
                        "--pp %d: expected at most the %lld layers",
                        where->stages, (long long)s->target.layers);
    /* Shards need whole heads. */
    if (s->target.q_heads % where->boards)
        return spt_fail(err, SPT_E_USAGE,
                        "--tp %d: expected a divisor of the %lld query heads",
                        where->boards, (long long)s->target.q_heads);
    if (spt_survey_other_engine(o)) {
        SPT_TRY(spt_serving_load(home, o->engine, &s->serving, err));
        where->serving = &s->serving;
    }
    if (o->draft_board) {
        SPT_TRY(spt_find_board(s->builder.gen, NULL, o->draft_board,
                               &s->draft_board, err));
        where->draft_board = &s->draft_board;
    }
    if (o->power_limit > 0)
        SPT_TRY(spt_power_load(home, s->board.name, o->power_limit,
                               &where->power, err));
    return SPT_OK;
}

spt_status spt_survey_take(spt_survey *s, const spt_target *target,
                           spt_error *err)
{
    const spt_survey_options *o = s->options;
    const char *home = spt_gen_root(s->builder.gen);
    spt_deployment where;
    s->target = *target;
    SPT_TRY(read_deployment(s, &where, err));
    for (int i = 0; i < o->drafters.count; i++)
        SPT_TRY(spt_drafter_make(home, o->drafters.values[i], &s->target,
                                 &s->drafters[i], err));
    s->kernels = (spt_kernels){0};
    s->input = (spt_choose_input){
        .board = &s->board,
        .target = &s->target,
        .drafters = s->drafters,
        .n_drafters = (size_t)o->drafters.count,
        .batches = s->batches,
        .n_batches = (size_t)o->batches.count,
        .contexts = o->contexts.values,
        .n_contexts = (size_t)o->contexts.count,
        .workloads = s->workloads,
        .n_workloads = spt_acceptance_workloads(&s->acceptance, s->workloads,
                                                SPT_LIST_MAX),
        .acceptance = &s->acceptance,
        .kernels = &s->kernels,
        .kv_bytes = spt_kv_type_bytes(kv_dtype_of(o)),
        .kv_dtype = kv_dtype_of(o),
        .effort = o->effort ? o->effort : "estimate",
        .where = where,
    };
    return SPT_OK;
}

spt_problem spt_survey_problem(const spt_survey *s, int page_size)
{
    return (spt_problem){.q_heads = (int)s->target.q_heads,
                         .kv_heads = (int)s->target.kv_heads,
                         .head_dim = (int)s->target.head_dim,
                         .dtype = s->dtype,
                         .page_size = page_size};
}

size_t spt_survey_cells(const spt_survey *s,
                        spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX])
{
    const spt_survey_options *o = s->options;
    const spt_ints *batches = o->usual_loads ? &usual_batches : &o->batches;
    const spt_ints *contexts = o->usual_loads ? &usual_contexts : &o->contexts;
    size_t n = 0;
    for (int b = 0; b < batches->count; b++)
        for (int c = 0; c < contexts->count; c++)
            cells[n++] =
                (spt_cell){(int)batches->values[b], contexts->values[c]};
    return n;
}

/* What the model wants to know of the selected configs of a board. */
static spt_status describe(spt_survey *s, const spt_board *board,
                           const spt_selection *selection,
                           spt_attention_config **configs, spt_error *err)
{
    spt_free(*configs);
    *configs = spt_calloc(selection->count, sizeof **configs);
    spt_status status =
        *configs ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "out of memory");
    for (size_t i = 0; status == SPT_OK && i < selection->count; i++) {
        spt_kernel kernel = {0};
        status = spt_gen_describe(s->builder.gen, "verify_attention",
                                  &selection->configs[i], board, &kernel, err);
        if (status == SPT_OK)
            (*configs)[i] =
                spt_select_model_config(&selection->configs[i], &kernel, 0);
        spt_kernel_free(&kernel);
    }
    return status;
}

static spt_status pick_kernels(spt_survey *s, const spt_board *board,
                               spt_attention_config **configs,
                               spt_kernels *kernels, spt_error *err)
{
    spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX];
    spt_selection selection = {0};
    spt_builder builder = s->builder;
    builder.board = board;
    const spt_problem problem = spt_survey_problem(s, 16);
    SPT_TRY(spt_select(&builder, &problem, cells, spt_survey_cells(s, cells),
                       &selection, err));
    spt_status status = describe(s, board, &selection, configs, err);
    *kernels = (spt_kernels){.configs = *configs, .count = selection.count};
    spt_free(selection.configs);
    return status;
}

spt_status spt_survey_check_attention(const spt_survey *s, spt_error *err)
{
    if (spt_survey_other_engine(s->options) || !s->target.kv_rank)
        return SPT_OK;
    return spt_fail(err, SPT_E_UNSUPPORTED,
                    "%s: no kernel for latent attention yet; --engine "
                    "answers for an engine that has one",
                    s->target.name);
}

spt_status spt_survey_pick_draft_kernels(spt_survey *s, spt_error *err)
{
    if (!s->input.where.draft_board || spt_survey_other_engine(s->options))
        return SPT_OK;
    SPT_TRY(pick_kernels(s, &s->draft_board, &s->draft_configs,
                         &s->draft_kernels, err));
    s->input.where.draft_kernels = &s->draft_kernels;
    return SPT_OK;
}

spt_status spt_survey_pick_kernels(spt_survey *s, spt_error *err)
{
    if (spt_survey_other_engine(s->options))
        return SPT_OK;
    SPT_TRY(spt_survey_check_attention(s, err));
    SPT_TRY(pick_kernels(s, &s->board, &s->configs, &s->kernels, err));
    return spt_survey_pick_draft_kernels(s, err);
}

static bool has_table(const spt_survey *s, const spt_drafter *d,
                      const char *workload)
{
    bool borrowed;
    return spt_choose_table(&s->input, d, workload, &borrowed) != NULL;
}

const char *spt_survey_usual_workload(const spt_survey *s)
{
    for (size_t w = 0; w < s->input.n_workloads; w++)
        for (size_t d = 0; d < s->input.n_drafters; d++)
            if (has_table(s, &s->drafters[d], s->workloads[w]))
                return s->workloads[w];
    return "code";
}

const char *spt_survey_workloads_of(const spt_survey *s, const spt_drafter *d,
                                    char *text, size_t size)
{
    const char *all[SPT_LIST_MAX];
    size_t n = spt_acceptance_workloads(&s->acceptance, all, SPT_LIST_MAX);
    size_t used = 0;
    *text = 0;
    for (size_t w = 0; w < n && used < size; w++)
        if (has_table(s, d, all[w]))
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     used ? ", " : "", all[w]);
    return text;
}

spt_status spt_survey_workload(spt_survey *s, const char *workload,
                               spt_error *err)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < s->input.n_workloads; i++) {
        if (strcmp(s->workloads[i], workload) == 0) {
            s->workloads[0] = s->workloads[i];
            s->input.n_workloads = 1;
            return SPT_OK;
        }
        if (used < sizeof list - 40)
            used += (size_t)snprintf(list + used, sizeof list - used, " %.32s",
                                     s->workloads[i]);
    }
    return spt_fail(err, SPT_E_USAGE,
                    "--workload %.40s: no table has it, expected one of:%s",
                    workload, list);
}

spt_step spt_survey_step(const spt_survey *s, int batch, int64_t context)
{
    return (spt_step){.board = &s->board,
                      .target = &s->target,
                      .kernels = &s->kernels,
                      .kv_bytes = s->input.kv_bytes,
                      .batch = batch,
                      .context = (double)context,
                      .where = s->input.where};
}
