/*
 * Published sweeps of draft length: for each curve the length that the step
 * model chooses among those that were tried, and the rate that this loses.
 *
 * A curve is the rows of one (sweep_id, prompts, concurrency). It counts when
 * it has D = 0, at least three other lengths and acceptance at one of them.
 * Chosen is from board, model, weights, concurrency, engine and acceptance;
 * the rates are read only to score the choice.
 */
#ifndef SPT_SWEEPS_H
#define SPT_SWEEPS_H

#include "csv.h"
#include "gen.h"

/* Columns that a file must have to be one of sweeps. */
#define SPT_SWEEP_COLUMNS                                       \
    "sweep_id gpu n_gpus engine model target_params_b "         \
    "active_params_b weights_gb quant kv_dtype method drafter " \
    "drafter_params_b concurrency prompts D tokens_per_s "      \
    "acceptance_rate acceptance_length"

/* What the model says of one length that was tried. */
typedef struct spt_tried {
    int draft_length;
    double expected_length, step_us; /* of the whole batch */
} spt_tried;

typedef struct spt_sweep {
    const char *id, *prompts, *concurrency; /* as in the file */
    int chosen, best; /* draft lengths, of the curve's own */
    double lost_percent; /* of the best rate, by the chosen one */
    spt_tried *tried; /* by draft length */
    size_t n_tried;
    char assumed[240]; /* what stands for something unknown, or "" */
} spt_sweep;

/* What one draft length loses everywhere (nearest that a curve has). */
typedef struct spt_fixed {
    int draft_length;
    double mean_lost, p90_lost;
} spt_fixed;

typedef struct spt_sweeps {
    spt_arena arena;
    spt_sweep *list; /* in the file's order */
    size_t count;
    double mean_lost, median_lost, p90_lost;
    spt_fixed *fixed;
    size_t n_fixed;
} spt_sweeps;

/* The strings point into csv. Zero-initialise; spt_sweeps_free after. */
spt_status spt_sweeps_check(spt_sweeps *sweeps, spt_gen *gen,
                            const spt_csv *csv, spt_error *err);
void spt_sweeps_free(spt_sweeps *sweeps);

#endif
