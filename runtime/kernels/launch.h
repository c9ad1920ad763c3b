/*
 * A generated kernel that is ready to run, and the one way to launch it: a
 * grid and one argument, a struct by value. Launchers of the operators stand
 * on this; each says what its kernel computes and what its grid is.
 *
 * Common to all operators: buffers are the caller's and device memory, strides
 * count elements between rows, no rows means that nothing is launched, and a
 * row's bits depend on that row alone.
 */
#ifndef SPT_LAUNCH_H
#define SPT_LAUNCH_H

#include <cuda.h>
#include <stdint.h>

#include "driver.h"
#include "error.h"

typedef struct spt_function {
    CUfunction function;
    int threads; /* per CTA */
    int shared_bytes; /* dynamic */
} spt_function;

/*
 * Enqueues the kernel. A grid that is empty in any direction is none; one that
 * exceeds CUDA's limits is SPT_E_USAGE. what: the operator, for messages.
 */
spt_status spt_launch(const spt_driver *driver, const spt_function *function,
                      const int64_t grid[3], void *args, CUstream stream,
                      const char *what, spt_error *err);

#endif
