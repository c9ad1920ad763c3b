/* What a whole run on sim was: reports and counters by kernel, as JSON. */
#ifndef SPT_SIM_RUN_REPORT_H
#define SPT_SIM_RUN_REPORT_H

#include "error.h"

/*
 * Writes the file whole: {schema: "spectune.sim-run/1", board, evidence,
 * time_model: "counters", reports: [{kind, kernel, file, line, block, thread,
 * address, count, text}], kernels: [{kernel, time_us, counters: {...}}]}.
 * time_us is the sum over the kernel's launches.
 */
spt_status sim_run_report_write(const char *path, const char *board,
                                spt_error *err);

#endif
