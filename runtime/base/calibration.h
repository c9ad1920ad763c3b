/*
 * Constants of the time model by board, as a file holds them:
 *
 *   {"schema": "spectune.calibration/1", "source": "...",
 *    "boards": [{"board": "h100_sxm", "cc": [9, 0],
 *                "fitted": {"attention": {"rows", "mape"}, "gemm": {...}},
 *                "constants": {...}}]}
 *
 * Every constant of time_constants.def is required, within its bounds; an
 * unknown field is an error. The entry "generic" (cc [0, 0]) is fitted to all
 * boards together and stands for those that were not measured.
 */
#ifndef SPT_CALIBRATION_H
#define SPT_CALIBRATION_H

#include <cJSON.h>

#include "board.h"
#include "error.h"

enum { SPT_CALIBRATION_MAX = 64, SPT_TIME_CONSTANTS = 20 };

typedef enum spt_time_operator {
    SPT_TIME_ATTENTION,
    SPT_TIME_GEMM,
    SPT_TIME_OPERATORS
} spt_time_operator;

/* A row of time_constants.def. */
typedef struct spt_time_constant {
    const char *field, *unit, *meaning;
    spt_time_operator op;
    double min, max, start;
} spt_time_constant;

extern const spt_time_constant spt_time_constant_rows[SPT_TIME_CONSTANTS];

/* The constant of a row. */
double *spt_time_constant_at(spt_time_constants *c, int row);

typedef struct spt_calibration_entry {
    int cc_major, cc_minor;
    spt_time_constants constants; /* fitted_on: the entry's board */
    int rows[SPT_TIME_OPERATORS]; /* measured times fitted to; 0 = none */
    double mape[SPT_TIME_OPERATORS]; /* percent, on those rows */
} spt_calibration_entry;

typedef struct spt_calibration {
    char source[512];
    int count;
    spt_calibration_entry entries[SPT_CALIBRATION_MAX];
} spt_calibration;

spt_status spt_calibration_read(const char *path, spt_calibration *out,
                                spt_error *err);
spt_status spt_calibration_parse(const char *text, size_t size,
                                 const char *name, spt_calibration *out,
                                 spt_error *err);
/* As the file holds it; the caller deletes it. */
cJSON *spt_calibration_json(const spt_calibration *c);
spt_status spt_calibration_write(const char *path, const spt_calibration *c,
                                 spt_error *err);

/* What a fit starts from: the start column of time_constants.def. */
void spt_time_constants_start(spt_time_constants *c);

/*
 * Sets board->time to the entry of this board; or of the nearest compute
 * capability with the same kind of SM (8.6, 8.9 and 12 count as one: they have
 * the same matrix instructions and limits); or to the generic entry. False,
 * and untouched, where there is none.
 */
bool spt_calibrate(spt_board *board, const spt_calibration *c);

#endif
