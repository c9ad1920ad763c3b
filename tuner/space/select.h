/*
 * Which kernels to build: the reduction key (its chunk) for all cells at once,
 * and for each number of rows the config that the model finds fastest.
 */
#ifndef SPT_SELECT_H
#define SPT_SELECT_H

#include "build.h"
#include "model.h"
#include "problem.h"

/* One load: sequences of that many KV tokens, side by side. */
typedef struct spt_cell {
    int batch;
    int64_t context;
} spt_cell;

typedef struct spt_selection {
    int chunk;
    spt_config *configs; /* by rows, ascending; one each; spt_free */
    size_t count;
} spt_selection;

/*
 * The problem's kernels for a board. Ties go to the larger chunk, then to the
 * config with less shared memory, then to the earlier one.
 */
spt_status spt_select(const spt_builder *builder, const spt_problem *problem,
                      const spt_cell *cells, size_t n_cells,
                      spt_selection *selection, spt_error *err);

/* What the model wants to know of a config; registers: 0 = not known yet. */
spt_attention_config spt_select_model_config(const spt_config *config,
                                             const spt_kernel *kernel,
                                             int registers);

#endif
