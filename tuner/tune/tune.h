/*
 * The main job: kernels for a board and a head grouping, proved, timed and
 * weighed, and the draft length that is fastest for each load.
 */
#ifndef SPT_TUNE_H
#define SPT_TUNE_H

#include <cJSON.h>

#include "offer.h"
#include "prove.h"
#include "survey.h"
#include "tune_measure.h"

typedef struct spt_tune_input {
    int page_size;
    const char *effort; /* estimate, measure, patient */
    const char *samples; /* file of a GPU's samples, so that a run resumes */
    const spt_log *log; /* for notes; may be NULL */
    /* Called with what is being done and how far it is. */
    void (*progress)(const char *what, size_t done, size_t count);
} spt_tune_input;

/* What came of it; freed by spt_tune_free. Pointers stay within it. */
typedef struct spt_tune {
    spt_survey survey; /* its kernels are those of the offer */
    spt_selection selection;
    spt_offer offer;
    spt_proof *proofs; /* one per kernel of the offer */
    char proved_on[8]; /* "sim" or "gpu" */
    spt_machine gpu; /* open where times are measured */
    bool measures;
    spt_times times;
    spt_choices choices;
} spt_tune;

/*
 * Does the job for the target that the survey has taken. The tune must be
 * zeroed but for the survey. A kernel that fails its proof is SPT_E_PROOF.
 * For another engine there are no kernels, only choices; the survey then needs
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
