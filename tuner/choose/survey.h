/*
 * What every answer starts from: a board, a target, drafters, a deployment and
 * the acceptance tables, as options name them; and, where no kernels are
 * built, the attention kernels that the model would choose.
 */
#ifndef SPT_SURVEY_H
#define SPT_SURVEY_H

#include "choose.h"
#include "options.h"
#include "select.h"

/* Texts may be NULL. */
typedef struct spt_survey_options {
    const char *arch, *board, *heads, *model, *weights, *acceptance;
    const char *dtype, *kv_dtype; /* of queries (bf16), of KV (theirs) */
    const char *engine, *draft_board, *effort;
    int64_t head_dim, boards, stages;
    double link_us; /* negative: not given */
    double link_gbps; /* 0: the board's own */
    double power_limit; /* 0: none */
    spt_texts drafters;
    spt_ints batches, contexts;
    bool usual_loads; /* nobody asked for these: kernels are chosen for the
                         usual ones, so that all commands have the same */
} spt_survey_options;

/* Sets batches and contexts of who names none. */
void spt_survey_usual_loads(spt_survey_options *options);

/*
 * Where an option table includes survey.def: rows that fill `o`, a pointer
 * to spt_survey_options.
 */
#define SPT_SURVEY_ROW(name, kind, field, argument, help, min, max) \
    {name, 0, SPT_OPTION_##kind, &o->field, argument, help, min, max},

/* Of a stand-in: --head-dim, or 128. */
int spt_survey_head_dim(const spt_survey_options *options);
/* Whether another engine than spectune's serves. */
bool spt_survey_other_engine(const spt_survey_options *options);

/* Pointers stay within it and into the options. */
typedef struct spt_survey {
    const spt_survey_options *options;
    spt_builder builder;
    spt_board board;
    spt_acceptance acceptance;
    spt_target target;
    spt_drafter drafters[SPT_LIST_MAX];
    spt_serving serving; /* where an engine was named */
    spt_board draft_board;
    int batches[SPT_LIST_MAX];
    const char *workloads[SPT_LIST_MAX];
    spt_dtype dtype; /* of our kernels */
    spt_attention_config *configs, *draft_configs;
    spt_kernels kernels, draft_kernels; /* draft: of the draft board */
    spt_choose_input input;
} spt_survey;

/*
 * Board and tables; the survey must be zeroed. Freed by spt_survey_close.
 * compiles: with the compiler, for who builds kernels; never for another
 * engine.
 */
spt_status spt_survey_open(spt_survey *survey,
                           const spt_survey_options *options, bool compiles,
                           spt_error *err);
void spt_survey_close(spt_survey *survey);

/* The target that --model or --heads names. */
spt_status spt_survey_load(spt_survey *survey, spt_target *target,
                           spt_error *err);

/* Takes a target, its drafters and the deployment; again for the next one.
   `kernels` stays empty. */
spt_status spt_survey_take(spt_survey *survey, const spt_target *target,
                           spt_error *err);
/* Fills `kernels` with the model's pick, nothing compiled; none for another
   engine. Latent attention, which they lack, is SPT_E_UNSUPPORTED. */
spt_status spt_survey_pick_kernels(spt_survey *survey, spt_error *err);
/* The same for the drafter's board, where it has one of its own. */
spt_status spt_survey_pick_draft_kernels(spt_survey *survey, spt_error *err);
/* SPT_E_UNSUPPORTED where our kernels lack the target's attention. */
spt_status spt_survey_check_attention(const spt_survey *survey, spt_error *err);

/* The target's attention problem, and the loads; returns how many cells. */
spt_problem spt_survey_problem(const spt_survey *survey, int page_size);
size_t spt_survey_cells(const spt_survey *survey,
                        spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX]);

/* The workload of who names none: code, else the first that a drafter has a
   table for; and all that have one for a drafter, as a list of words. */
const char *spt_survey_usual_workload(const spt_survey *survey);
const char *spt_survey_workloads_of(const spt_survey *survey,
                                    const spt_drafter *drafter, char *text,
                                    size_t size);

/* Leaves one workload of the tables to choose for; any other is SPT_E_USAGE
   with the list. */
spt_status spt_survey_workload(spt_survey *survey, const char *workload,
                               spt_error *err);

/* The step of one load of it. */
spt_step spt_survey_step(const spt_survey *survey, int batch, int64_t context);

#endif
