/*
 * What a step of `spectune run` would take on a board, by the time model: for
 * the choice of draft lengths and for the summary. Always `modelled`.
 */
#ifndef SPT_RUN_TIMES_H
#define SPT_RUN_TIMES_H

#include "gen.h"
#include "step.h"

enum { SPT_RUN_VARIANTS = 3 };

typedef struct spt_run_times {
    spt_gen *gen;
    spt_board board;
    spt_target target;
    spt_drafter drafter;
    bool drafts;
    spt_attention_config configs[SPT_RUN_VARIANTS];
    spt_kernels kernels;
} spt_run_times;

/* board NULL: that of the engine's default. */
spt_status spt_run_times_open(spt_run_times *times,
                              const spt_engine_options *options,
                              spt_error *err);
void spt_run_times_close(spt_run_times *times);

/* Microseconds of a step; the engine's step_us, user is spt_run_times. */
double spt_run_times_us(void *user, int batch, int context, int draft_length);

/*
 * Opens times for what the options name and has the engine choose by them;
 * false where the model's shape is unknown: drafts have their full length.
 */
bool spt_run_times_attach(spt_run_times *times, spt_engine_options *options);

/* What the steps of a session cost, and would have cost without drafts. */
typedef struct spt_run_cost {
    double us_per_token, plain_us_per_token;
} spt_run_cost;

spt_run_cost spt_run_times_cost(spt_run_times *times,
                                const spt_session_stats *stats, int context);

#endif
