/*
 * Times of the engine's own steps, which refine the model's: by batch, by
 * context, by rows that a sequence feeds.
 *
 * A cell begins with the lowest of its first times, which a cold start cannot
 * raise; from then on it follows slowly, and one stalled step hardly moves it.
 * The table can be kept in a file. That is sealed and names what the times
 * hold for: another chip, model or kernel makes it a miss, never an answer.
 */
#ifndef SPT_STEP_TIMES_H
#define SPT_STEP_TIMES_H

#include "draft_block.h"

/* Batches 1, 2, 3-4, 5-8, ... 4096; contexts up to 256, 512, ... 2^24. */
enum { SPT_STEP_BATCHES = 13, SPT_STEP_CONTEXTS = 17 };

typedef struct spt_step_cell {
    uint32_t steps; /* timed so far */
    double us;
} spt_step_cell;

typedef struct spt_step_times {
    spt_step_cell cell[SPT_STEP_BATCHES][SPT_STEP_CONTEXTS][SPT_DRAFT_NODES];
    uint64_t notes; /* since it was opened */
} spt_step_times;

/* What else a time depends on; a file for other values is not used. */
#define SPT_STEP_KEYS(X)                                          \
    X(chip) /* with suffix: sm_90a */                             \
    X(device) /* as its driver says */                            \
    X(evidence) /* measured, or simulated by sim's time model */  \
    X(model) /* SHA-256 of shape and types */                     \
    X(kernels) /* SHA-256 of their code, and so the compiler's */ \
    X(drafter)

typedef struct spt_step_key {
#define SPT_STEP_KEY(field) char field[192];
    SPT_STEP_KEYS(SPT_STEP_KEY)
#undef SPT_STEP_KEY
} spt_step_key;

/* A step of `batch` sequences, of `context` tokens on the average, that fed
   `rows` rows in all took so long. */
void spt_step_times_note(spt_step_times *t, int batch, int context, int rows,
                         double us);

/* Where times come from that were never taken; us NULL: from nowhere. */
typedef struct spt_step_model {
    double (*us)(void *user, int batch, int context, int draft_length);
    void *user;
    int branches; /* rows of a draft are 1 + branches * its length */
} spt_step_model;

/*
 * times[d], d = 0 ... max: of a step with drafts of d tokens. What was timed is
 * taken as it is; the rest is the model's, scaled by the nearest time that was
 * taken (other rows first, then other contexts), or, without a model, is that
 * time. False: there is neither.
 */
bool spt_step_times_get(const spt_step_times *t, const spt_step_model *model,
                        int batch, int context, int max, double *times);

/*
 * Fills the table from a file. SPT_E_IO: there is none; SPT_E_FORMAT: it is
 * damaged or for something else. SPT_E_USAGE: a folder, a pipe or a device. The
 * table then stays as it was.
 */
spt_status spt_step_times_read(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err);
/* Writes it whole; until then the old file stays. */
spt_status spt_step_times_write(const char *path, const spt_step_key *key,
                                const spt_step_times *t, spt_error *err);

#endif
