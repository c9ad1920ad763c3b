/*
 * Times of the engine's own steps, which refine the model's: by batch, by
 * context, by rows that a sequence feeds.
 *
 * A cell begins with the lowest of its first times, which a cold start cannot
 * raise; from then on it follows slowly, and one stalled step hardly moves it.
 * It begins anew when times stay far from it, or when it was not timed for
 * long, which is counted in steps of its batch and context. After very long it
 * is not believed: a length that once was slow is tried again. What a choice
 * depends on, the step without drafts and the lengths beside the chosen one, is
 * timed now and then.
 *
 * The table can be kept in a file. That is sealed and names what the times
 * hold for: another chip, model or kernel makes it a miss, never an answer.
 */
#ifndef SPT_STEP_TIMES_H
#define SPT_STEP_TIMES_H

#include "draft_block.h"

/* Batches 1, 2, 3-4, 5-8, ... 4096; contexts up to 256, 512, ... 2^24. */
enum {
    SPT_STEP_BATCHES = 13,
    SPT_STEP_CONTEXT = 256, /* the first */
    SPT_STEP_CONTEXTS = 17,
};

/* What is shorter or longer is no time. */
#define SPT_STEP_US_MIN 1e-3
#define SPT_STEP_US_MAX 1e12

typedef struct spt_step_cell {
    uint32_t steps; /* timed so far */
    double us;
    /* Not kept in the file. */
    uint32_t seen; /* the clock when it was timed last */
    bool anew; /* it was long ago: the next times replace it */
    int fresh; /* times of late that may replace it */
    double fresh_us; /* the lowest of them */
} spt_step_cell;

typedef spt_step_cell spt_step_cells[SPT_STEP_BATCHES][SPT_STEP_CONTEXTS]
                                    [SPT_DRAFT_NODES];

typedef struct spt_step_times {
    spt_step_cells cell;
    spt_step_cells kept; /* as they were in the file when it was last used */
    uint32_t clock[SPT_STEP_BATCHES][SPT_STEP_CONTEXTS]; /* steps */
    uint64_t notes; /* since it was opened */
} spt_step_times;

/* What else a time depends on; a file for other values is not used. */
#define SPT_STEP_KEYS(X)                                          \
    X(evidence) /* measured, or simulated by sim's time model */  \
    X(chip) /* with suffix: sm_90a */                             \
    X(board) /* of archs/ */                                      \
    X(device) /* as its driver says, with its SMs */              \
    X(driver) /* its version */                                   \
    X(model) /* SHA-256 of shape and types */                     \
    X(layout) /* 16-bit type, KV pages, graphs or not */          \
    X(kernels) /* SHA-256 of their code, and so the compiler's */ \
    X(drafter)

typedef struct spt_step_key {
#define SPT_STEP_KEY(field) char field[192];
    SPT_STEP_KEYS(SPT_STEP_KEY)
#undef SPT_STEP_KEY
} spt_step_key;

/* SHA-256 of all of it. */
void spt_step_key_hash(const spt_step_key *key, char *hex);

/* The cell of 1 ... SPT_DRAFT_NODES rows per sequence. */
spt_step_cell *spt_step_times_at(spt_step_times *t, int batch, int context,
                                 int rows);

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

typedef enum spt_step_source {
    SPT_STEP_UNKNOWN = 0,
    SPT_STEP_MODELLED,
    SPT_STEP_TIMED, /* own times have a part in it */
} spt_step_source;

/*
 * times[d], d = 0 ... max: of a step with drafts of d tokens. What was timed is
 * taken as it is; the rest is the model's, scaled by the nearest time that was
 * taken (other rows first, then other contexts, then other batches), or,
 * without a model, is that time.
 */
spt_step_source spt_step_times_get(const spt_step_times *t,
                                   const spt_step_model *model, int batch,
                                   int context, int max, double *times);

/* Whether a step without drafts is due there, to be timed. */
bool spt_step_times_want_plain(const spt_step_times *t, int batch, int context);
/* The length 1 ... max beside the chosen one that is due there, or that. */
int spt_step_times_explore(const spt_step_times *t, const spt_step_model *model,
                           int batch, int context, int max, int chosen);

/*
 * Takes in what others added to the file since t was last the same. A cell that
 * both changed is the mean of the two by their new steps, of which as many
 * count as move a cell; the higher counts as a stalled step does, and while a
 * cell begins the lower one is it.
 */
void spt_step_times_merge(spt_step_times *t, const spt_step_times *file);

/*
 * Fills the table from a file. SPT_E_IO: there is none; SPT_E_FORMAT: it is
 * damaged or for something else. SPT_E_USAGE: a folder, a pipe or a device, or
 * measured times where the key's are not. The table then stays as it was.
 */
spt_status spt_step_times_read(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err);
/*
 * Merges the table with what is there and writes it whole, with processes that
 * do the same one after the other; until then the old file stays. What is
 * damaged or for something else is replaced. SPT_E_USAGE as above.
 */
spt_status spt_step_times_save(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err);

#endif
