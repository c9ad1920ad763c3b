#include "select.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "offer.h"

/* A config with what the model says of it, averaged over the cells. */
typedef struct candidate {
    const spt_config *config;
    int rows, shared_bytes;
    double us;
} candidate;

spt_attention_config spt_select_model_config(const spt_config *config,
                                             const spt_kernel *kernel,
                                             int registers)
{
    int row_warps = (int)spt_config_int(config, "row_warps", 1);
    /* Before a compile: what the launch bounds let a thread have. */
    int allowed = 65536 / kernel->threads;
    if (!registers)
        registers = allowed < 255 ? allowed : 255;
    return (spt_attention_config){
        .rows = (int)spt_config_int(config, "rows", 8),
        .chunk = (int)spt_config_int(config, "chunk", 256),
        .kv_step = kernel->threads / row_warps / 32 * 16,
        .stages = (int)spt_config_int(config, "stages", 2),
        .row_warps = row_warps,
        .threads = kernel->threads,
        .registers = registers,
        .shared_bytes = kernel->shared_bytes,
    };
}

/* Geometric mean over the cells, at the draft length that fills the rows. */
static double mean_us(const spt_board *board, const spt_problem *problem,
                      const spt_cell *cells, size_t n_cells,
                      const spt_attention_config *config)
{
    int group = problem->q_heads / problem->kv_heads;
    int tokens = config->rows / group;
    double sum = 0;
    for (size_t i = 0; i < n_cells; i++) {
        spt_attention_shape shape = {
            .batch = cells[i].batch,
            .context = (double)cells[i].context,
            .q_heads = problem->q_heads,
            .kv_heads = problem->kv_heads,
            .head_dim = problem->head_dim,
            .element_bytes = 2,
            .draft_length = tokens > 1 ? tokens - 1 : 0,
        };
        sum += log(spt_model_attention_us(board, &shape, config));
    }
    return exp(sum / (double)n_cells);
}

static spt_status rate(const spt_builder *builder, const spt_problem *problem,
                       const spt_cell *cells, size_t n_cells,
                       const spt_config *config, candidate *out, spt_error *err)
{
    spt_kernel kernel;
    SPT_TRY(spt_gen_describe(builder->gen, "verify_attention", config,
                             builder->board, &kernel, err));
    spt_attention_config model = spt_select_model_config(config, &kernel, 0);
    *out =
        (candidate){config, model.rows, kernel.shared_bytes,
                    mean_us(builder->board, problem, cells, n_cells, &model)};
    return SPT_OK;
}

/* Faster by more than what the model can tell apart, or smaller. */
static bool better(const candidate *a, const candidate *b)
{
    if (!b->config || a->us < b->us * 0.995)
        return true;
    return a->us <= b->us * 1.005 && a->shared_bytes < b->shared_bytes;
}

/* Fewer rows than a token has would only read the KV more often. */
static int least_rows(const spt_problem *problem, const spt_config *space,
                      size_t count)
{
    int group = problem->q_heads / problem->kv_heads, most = 0;
    for (size_t i = 0; i < count; i++) {
        int rows = (int)spt_config_int(&space[i], "rows", 0);
        most = rows > most ? rows : most;
    }
    return group < most ? group : most;
}

/* The best config of each number of rows for one chunk. */
static spt_status select_chunk(const spt_builder *builder,
                               const spt_problem *problem,
                               const spt_cell *cells, size_t n_cells,
                               const spt_config *space, size_t count,
                               candidate *best, size_t *n_best, spt_error *err)
{
    int least = least_rows(problem, space, count);
    *n_best = 0;
    for (size_t i = 0; i < count; i++) {
        candidate one;
        if (spt_config_int(&space[i], "rows", 0) < least)
            continue;
        SPT_TRY(rate(builder, problem, cells, n_cells, &space[i], &one, err));
        if (!*n_best || best[*n_best - 1].rows != one.rows)
            best[(*n_best)++] = one;
        else if (better(&one, &best[*n_best - 1]))
            best[*n_best - 1] = one;
    }
    return SPT_OK;
}

static double chunk_us(const candidate *best, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += log(best[i].us);
    return exp(sum / (double)count);
}

static spt_status keep(const candidate *best, size_t count,
                       spt_selection *selection, spt_error *err)
{
    spt_config *configs = spt_calloc(count, sizeof *configs);
    if (!configs)
        return spt_fail(err, SPT_E_MEMORY, "selection: out of memory");
    for (size_t i = 0; i < count; i++)
        configs[i] = *best[i].config;
    spt_free(selection->configs);
    selection->configs = configs;
    selection->count = count;
    selection->chunk = (int)spt_config_int(&configs[0], "chunk", 0);
    return SPT_OK;
}

/* Tries one chunk and keeps its selection where it is the fastest so far. */
static spt_status try_chunk(const spt_builder *builder,
                            const spt_problem *problem, const spt_cell *cells,
                            size_t n_cells, int chunk, double *fastest,
                            spt_selection *selection, spt_error *err)
{
    spt_config fixed, *space;
    size_t count, n_best = 0;
    spt_offer_config(problem, chunk, &fixed);
    SPT_TRY(spt_gen_space(builder->gen, "verify_attention", &fixed,
                          builder->board, &space, &count, err));
    candidate *best = spt_calloc(count, sizeof *best);
    spt_status status =
        best ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "out of memory");
    if (status == SPT_OK)
        status = select_chunk(builder, problem, cells, n_cells, space, count,
                              best, &n_best, err);
    if (status == SPT_OK && chunk_us(best, n_best) < *fastest * 0.995) {
        *fastest = chunk_us(best, n_best);
        status = keep(best, n_best, selection, err);
    }
    spt_free(best);
    spt_free(space);
    return status;
}

spt_status spt_select(const spt_builder *builder, const spt_problem *problem,
                      const spt_cell *cells, size_t n_cells,
                      spt_selection *selection, spt_error *err)
{
    static const int chunks[] = {1024, 512, 256};
    double fastest = INFINITY;
    *selection = (spt_selection){0};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        spt_status status = try_chunk(builder, problem, cells, n_cells,
                                      chunks[i], &fastest, selection, err);
        if (status != SPT_OK) {
            spt_free(selection->configs);
            return status;
        }
    }
    return SPT_OK;
}
