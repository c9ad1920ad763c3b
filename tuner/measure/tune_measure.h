/*
 * Attention times of offered kernels on a machine, for the loads that are
 * asked for: attention and combine in one graph, cold L2, medians.
 *
 * Each draft length is timed with the kernels of the fewest rows that hold it
 * in one CTA; past the most rows, with those of the most. Where a load has a
 * time for a draft length, no modelled time of another kernel competes: times
 * of different evidence cannot be told apart by their size.
 */
#ifndef SPT_TUNE_MEASURE_H
#define SPT_TUNE_MEASURE_H

#include "log.h"
#include "machine.h"
#include "offer.h"
#include "select.h"

typedef struct spt_time_input {
    const spt_problem *problem; /* heads, head dim, types and page size count */
    const spt_offer *offer;
    const spt_cell *cells;
    size_t n_cells;
    int chunk;
    bool full_only; /* only the draft length that fills a kernel's rows */
    int rounds; /* samples per time; 0 = the meter's */
    const char *samples; /* file that samples are appended to; NULL = none */
    const spt_log *log; /* may be NULL */
    void (*progress)(const char *what, size_t done, size_t count);
} spt_time_input;

typedef struct spt_times {
    int q_heads, kv_heads, head_dim;
    spt_cell *cells;
    size_t n_cells, n_configs;
    double *us; /* (cell, config, draft length); 0 = none */
    const char *evidence; /* "measured", or "simulated" on sim */
    size_t timed; /* cells with times: the others' KV did not fit */
} spt_times;

/* Times the offer's kernels; freed by spt_times_free. */
spt_status spt_times_take(spt_machine *machine, const spt_time_input *input,
                          spt_times *times, spt_error *err);
void spt_times_free(spt_times *times);

/*
 * As spt_kernels.time wants it; user is the spt_times. Negative for a shape
 * without times, infinite for a kernel that has none where another has.
 */
double spt_times_us(void *user, size_t config, const spt_attention_shape *shape,
                    const char **evidence);

/*
 * Marks the fastest kernel of each number of rows, at full rows over all
 * cells. Without any time all are marked.
 */
void spt_times_fastest(const spt_times *times, const spt_offer *offer,
                       bool *keep);

#endif
