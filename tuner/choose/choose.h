/*
 * The choice: for each batch, context, drafter and workload the draft length
 * with which the target's tokens come fastest, plain decoding included.
 */
#ifndef SPT_CHOOSE_H
#define SPT_CHOOSE_H

#include "acceptance.h"
#include "gate.h"
#include "step.h"
#include "tree_choice.h"

typedef struct spt_choose_input {
    const spt_board *board;
    const spt_target *target;
    const spt_drafter *drafters;
    size_t n_drafters;
    const int *batches;
    size_t n_batches;
    const int64_t *contexts;
    size_t n_contexts;
    const char *const *workloads;
    size_t n_workloads;
    const spt_acceptance *acceptance;
    const spt_kernels *kernels; /* of one reduction key, one chunk; NULL when
                                   another engine serves */
    double kv_bytes; /* of one KV element */
    /* For the output. */
    const char *kv_dtype, *effort;
    spt_deployment where;
} spt_choose_input;

/* The published rule: group * (1 + D) <= tile_rows. */
typedef struct spt_rule {
    int tile_rows, draft_length;
} spt_rule;

/* A number of rows and the largest draft length that it holds. */
typedef struct spt_rung {
    int rows, draft_length;
    double attention_us, step_us; /* one layer's attention, the whole verify */
    size_t config; /* index into kernels->configs */
    const char *evidence;
} spt_rung;

typedef struct spt_choice {
    int batch;
    int64_t context;
    const spt_drafter *drafter;
    const char *workload;
    const spt_table *table; /* where the expected length comes from, or NULL */
    bool borrowed; /* the table is another target's (stand-in) */
    bool known; /* false: draft_length is null, reason says why */
    int draft_length;
    /* Lengths around it whose rates lie so near that the model cannot tell
       them apart: measure these. Both are draft_length when there is none. */
    int alike_from, alike_to;
    double expected_length, speedup;
    double target_us, draft_us, verify_us;
    double memory_bytes;
    spt_footprint memory; /* its parts */
    bool fits;
    double running; /* sequences of the batch side by side; others wait */
    /* Reading one prompt; what the drafter adds to it; tokens of each answer
       from which on speculation pays for that of all prompts of the batch (0
       without drafts). */
    double prefill_us, draft_prefill_us, break_even;
    spt_gate gate; /* what stopping early could do */
    spt_tree_choice tree; /* the best draft tree beside it */
    size_t config; /* of the attention kernel at this draft length */
    const char *evidence;
    char reason[240]; /* why null; or what limited the choice; or "" */
} spt_choice;

enum { SPT_RUNG_MAX = 16 };

typedef struct spt_choices {
    spt_rule rule;
    int ladder_batch; /* the cell that the ladder is for */
    int64_t ladder_context;
    spt_rung ladder[SPT_RUNG_MAX];
    size_t n_rungs;
    spt_choice *list; /* batches x contexts x drafters x workloads, in order */
    size_t count;
} spt_choices;

/*
 * Fills choices (spt_choices_free); pointers in it are into the input, which
 * must outlive it. Only for lack of memory or kernels it fails.
 */
spt_status spt_choose(const spt_choose_input *input, spt_choices *choices,
                      spt_error *err);
void spt_choices_free(spt_choices *choices);

spt_rule spt_published_rule(int group);

/* Rates whose ratio is this close to 1 cannot be told apart by measuring. */
extern const double spt_choose_noise;

/*
 * Committed tokens per microsecond with that many drafts, when a plain step
 * takes plain_us and one with drafts, drafting included, step_us: the formula
 * at the head of choose.c. Negative where the table does not know the length.
 */
double spt_choose_rate(const spt_table *table, int draft_length,
                       double plain_us, double step_us);

/* The acceptance table of a drafter on a workload, or NULL; *borrowed: it is
   another target's, for the stand-in. */
const spt_table *spt_choose_table(const spt_choose_input *input,
                                  const spt_drafter *drafter,
                                  const char *workload, bool *borrowed);

#endif
