#include "survey.h"

#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "gen.h"
#include "mem.h"

spt_status spt_survey_open(spt_survey *s, const spt_survey_options *o,
                           spt_error *err)
{
    s->options = o;
    if (!o->arch && !o->board)
        return spt_fail(err, SPT_E_USAGE,
                        "--arch: expected an architecture, or --board BOARD");
    SPT_TRY(spt_gen_open(NULL, &s->builder.gen, err));
    SPT_TRY(spt_find_board(s->builder.gen, o->arch, o->board, &s->board, err));
    s->builder.board = &s->board;
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
    if (!o->heads == !o->model)
        return spt_fail(err, SPT_E_USAGE,
                        "--model: expected a model, or --heads Q/KV instead");
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

/* The model's pick of each number of rows, for the loads at hand. */
static spt_status pick_kernels(spt_survey *s, spt_error *err)
{
    const spt_survey_options *o = s->options;
    spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX];
    spt_selection selection = {0};
    size_t n = 0;
    const spt_problem problem = {.q_heads = (int)s->target.q_heads,
                                 .kv_heads = (int)s->target.kv_heads,
                                 .head_dim = (int)s->target.head_dim,
                                 .dtype = SPT_BF16,
                                 .page_size = 16};
    for (int b = 0; b < o->batches.count; b++)
        for (int c = 0; c < o->contexts.count; c++)
            cells[n++] = (spt_cell){s->batches[b], o->contexts.values[c]};
    SPT_TRY(spt_select(&s->builder, &problem, cells, n, &selection, err));
    spt_free(s->configs);
    s->configs = spt_calloc(selection.count, sizeof *s->configs);
    spt_status status =
        s->configs ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "out of memory");
    for (size_t i = 0; status == SPT_OK && i < selection.count; i++) {
        spt_kernel kernel = {0};
        status =
            spt_gen_describe(s->builder.gen, "verify_attention",
                             &selection.configs[i], &s->board, &kernel, err);
        if (status == SPT_OK)
            s->configs[i] =
                spt_select_model_config(&selection.configs[i], &kernel, 0);
        spt_kernel_free(&kernel);
    }
    s->kernels = (spt_kernels){.configs = s->configs, .count = selection.count};
    spt_free(selection.configs);
    return status;
}

spt_status spt_survey_take(spt_survey *s, const spt_target *target,
                           spt_error *err)
{
    const spt_survey_options *o = s->options;
    const char *home = spt_gen_root(s->builder.gen);
    s->target = *target;
    for (int i = 0; i < o->drafters.count; i++)
        SPT_TRY(spt_drafter_make(home, o->drafters.values[i], &s->target,
                                 &s->drafters[i], err));
    SPT_TRY(pick_kernels(s, err));
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
        .kv_bytes = 2,
        .kv_dtype = "bf16",
        .effort = "estimate",
    };
    return SPT_OK;
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
                      .context = (double)context};
}
