/*
 * Measured times of kernels, and how far the model is from them.
 *
 * CSV, one row per time: gpu, engine, version and
 *   attention  batch, q_heads, kv_heads, head_dim, kv_dtype, kv_len
 *   gemm       dtype, m, n, k
 * and latency_us. gpu names a board of archs/.
 */
#ifndef SPT_MODEL_ROWS_H
#define SPT_MODEL_ROWS_H

#include "calibration.h"
#include "csv.h"
#include "gen.h"
#include "model.h"

#define SPT_ATTENTION_COLUMNS                                             \
    "gpu engine version batch q_heads kv_heads head_dim kv_dtype kv_len " \
    "latency_us"
#define SPT_GEMM_COLUMNS "gpu engine version dtype m n k latency_us"

typedef struct spt_measured_row {
    spt_attention_shape shape; /* SPT_TIME_ATTENTION */
    bool one_buffer; /* K and V were the same memory */
    double m, n, k, bits; /* SPT_TIME_GEMM */
    double us;
} spt_measured_row;

/* Rows of one board and operator. */
typedef struct spt_measured {
    spt_board board;
    spt_time_operator op;
    spt_measured_row *rows;
    size_t count;
} spt_measured;

typedef struct spt_measured_set {
    spt_arena arena;
    size_t count;
    spt_measured list[2 * SPT_CALIBRATION_MAX];
} spt_measured_set;

/*
 * Adds a file's rows, in the order in which boards first appear. Zero the set
 * before; spt_measured_free after, also on failure. own (may be NULL): a board
 * that is no file of archs/.
 */
spt_status spt_measured_add(spt_measured_set *set, spt_gen *gen,
                            const spt_board *own, const spt_csv *csv,
                            spt_time_operator op, spt_error *err);
void spt_measured_free(spt_measured_set *set);

double spt_measured_model_us(const spt_board *board, spt_time_operator op,
                             const spt_measured_row *row);

/* Percent of the measured time; bias is the mean with its sign. */
typedef struct spt_model_score {
    size_t rows;
    double mape, median, p90, bias;
} spt_model_score;

spt_status spt_measured_score(const spt_measured *m, spt_model_score *out,
                              spt_error *err);

const char *spt_time_operator_name(spt_time_operator op);

#endif
