/* What the files of `spectune model` share. */
#ifndef SPT_CMD_MODEL_H
#define SPT_CMD_MODEL_H

#include "calibration.h"
#include "csv.h"
#include "gen.h"

typedef struct spt_model_job {
    spt_gen *gen;
    spt_board own; /* --board: of the user; no name where none was given */
    spt_calibration calibration; /* --calibration; no entries: the shipped */
    bool json;
} spt_model_job;

/* Says how far the kernel models are from a file's times. */
spt_status spt_check_attention(const spt_model_job *job, const spt_csv *csv,
                               spt_error *err);
spt_status spt_check_gemm(const spt_model_job *job, const spt_csv *csv,
                          spt_error *err);

/*
 * Fits the constants of the time model to the times of the files. source (NULL:
 * the files' names) goes into what is written to output (NULL: not written).
 */
spt_status spt_fit_kernels(const spt_model_job *job, const char *const *paths,
                           int count, const char *source, const char *output,
                           spt_error *err);

#endif
