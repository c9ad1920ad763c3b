/*
 * Work in a process of its own, which may crash or hang without harm: a bad
 * kernel then costs one candidate, not the run.
 *
 * CUDA does not survive fork: the caller must not have opened a GPU, the work
 * opens and closes it. Call it while no other thread of the caller runs.
 */
#ifndef SPT_MEASURE_WORKER_H
#define SPT_MEASURE_WORKER_H

#include "error.h"
#include "mem.h"

/* Does the work and appends what it has to hand back to result. */
typedef spt_status (*spt_work)(void *user, spt_buf *result, spt_error *err);

/*
 * Runs the work in a child and appends its result. Its failure comes back as
 * its own status and text; SPT_E_TIMEOUT when it took longer than timeout_s
 * (it is killed), SPT_E_DEVICE when it died.
 */
spt_status spt_worker_run(spt_work work, void *user, double timeout_s,
                          spt_buf *result, spt_error *err);

#endif
