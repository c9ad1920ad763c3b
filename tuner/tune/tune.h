/*
 * The main job: kernels for a board and a head grouping, proved, timed and
 * weighed, and the draft length that is fastest for each load.
 */
#ifndef SPT_TUNE_H
#define SPT_TUNE_H

#include <cJSON.h>

#include "choose.h"
#include "offer.h"
#include "options.h"
#include "prove.h"
#include "select.h"
#include "tune_measure.h"

typedef struct spt_tune_input {
    spt_problem problem; /* heads, head dim, types and page size count */
    const char *model; /* config.json, GGUF or preset; NULL = stand-in */
    const char *weights; /* format, or NULL */
    spt_texts drafters;
    spt_ints batches, contexts;
    const char *acceptance; /* the user's tables, or NULL */
    const char *effort; /* estimate, measure, patient */
    const char *kv_dtype;
    const char *engine; /* of profiles/engines/; NULL = spectune's kernels */
    int boards; /* tensor-parallel */
    const char *draft_board; /* of the drafter, or NULL */
    double link_us; /* to it */
    double power_limit; /* watts; 0 = none */
    const char *samples; /* file of a GPU's samples, so that a run resumes */
    const spt_log *log; /* for notes; may be NULL */
    /* Called with what is being done and how far it is. */
    void (*progress)(const char *what, size_t done, size_t count);
} spt_tune_input;

/* What came of it; freed by spt_tune_free. Pointers stay within it. */
typedef struct spt_tune {
    spt_board board;
    spt_builder builder;
    spt_target target;
    spt_drafter drafters[SPT_LIST_MAX];
    spt_acceptance acceptance;
    int batches[SPT_LIST_MAX];
    const char *workloads[SPT_LIST_MAX];
    spt_serving serving; /* where an engine was named */
    spt_board draft_board;
    spt_selection selection;
    spt_offer offer;
    spt_proof *proofs; /* one per kernel of the offer */
    char proved_on[8]; /* "sim" or "gpu" */
    spt_machine gpu; /* open where times are measured */
    bool measures;
    spt_times times;
    spt_attention_config *configs;
    spt_kernels kernels;
    spt_choose_input input;
    spt_choices choices;
} spt_tune;

/*
 * Does the job for the board that the builder has. The tune must be zeroed
 * but for builder and board. A kernel that fails its proof is SPT_E_PROOF.
 * With an engine there are no kernels, only choices; the builder then needs
 * no compiler.
 */
spt_status spt_tune_run(const spt_tune_input *input, spt_tune *tune,
                        spt_error *err);
void spt_tune_free(spt_tune *tune);

/*
 * The answer as JSON: what the main command prints. The profile is the same
 * with its own schema. profile and pack: paths to name, or NULL.
 */
spt_status spt_tune_json(const spt_tune *tune, const char *schema,
                         const char *profile, const char *pack, cJSON **json,
                         spt_error *err);

/* Writes profile.json and pack/ into the folder. */
spt_status spt_tune_write(const spt_tune *tune, const char *folder,
                          spt_error *err);

#endif
