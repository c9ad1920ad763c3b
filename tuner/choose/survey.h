/*
 * What the model-only commands start from: a board, the acceptance tables, and
 * for a target the attention kernels that the model would choose, without
 * compiling any. Everything that follows from it is `modelled`.
 */
#ifndef SPT_SURVEY_H
#define SPT_SURVEY_H

#include "choose.h"
#include "options.h"
#include "select.h"

/* The options that these commands share; texts may be NULL. */
typedef struct spt_survey_options {
    const char *arch, *board, *heads, *model, *weights, *acceptance;
    int64_t head_dim;
    spt_texts drafters;
    spt_ints batches, contexts;
} spt_survey_options;

/*
 * Where a command's option table includes survey.def: rows that fill `o`, its
 * spt_survey_options.
 */
#define SPT_SURVEY_ROW(name, kind, field, argument, help, min, max) \
    {name, 0, SPT_OPTION_##kind, &o.field, argument, help, min, max},

/* Of a stand-in: --head-dim, or 128. */
int spt_survey_head_dim(const spt_survey_options *options);

/* Pointers stay within it and into the options. */
typedef struct spt_survey {
    const spt_survey_options *options;
    spt_builder builder; /* without a compiler */
    spt_board board;
    spt_acceptance acceptance;
    spt_target target;
    spt_drafter drafters[SPT_LIST_MAX];
    int batches[SPT_LIST_MAX];
    const char *workloads[SPT_LIST_MAX];
    spt_attention_config *configs;
    spt_kernels kernels;
    spt_choose_input input;
} spt_survey;

/* Board and tables; the survey must be zeroed. Freed by spt_survey_close. */
spt_status spt_survey_open(spt_survey *survey,
                           const spt_survey_options *options, spt_error *err);
void spt_survey_close(spt_survey *survey);

/* The target that --model or --heads names. */
spt_status spt_survey_load(spt_survey *survey, spt_target *target,
                           spt_error *err);

/* Takes a target: its drafters, kernels and loads; again for the next one. */
spt_status spt_survey_take(spt_survey *survey, const spt_target *target,
                           spt_error *err);

/* Leaves one workload of the tables to choose for; any other is SPT_E_USAGE
   with the list. */
spt_status spt_survey_workload(spt_survey *survey, const char *workload,
                               spt_error *err);

/* The step of one load of it. */
spt_step spt_survey_step(const spt_survey *survey, int batch, int64_t context);

#endif
