/* Fits the constants of the time model to measured times. */
#ifndef SPT_MODEL_FIT_H
#define SPT_MODEL_FIT_H

#include "model_rows.h"

/*
 * A calibration of all boards of the set, the same for the same rows. With
 * more than one board an entry "generic" comes first, fitted to all of them
 * together; each board's fit starts from it and is drawn to it where its rows
 * say little. Constants of an operator without rows stay those of board.time.
 * source goes into the calibration. Takes seconds.
 */
spt_status spt_model_fit(const spt_measured_set *set, const char *source,
                         spt_calibration *out, spt_error *err);

#endif
