/*
 * One verify-attention problem on a machine: its data laid out in device
 * memory, kernels launched, results fetched.
 *
 * What must not be read stands between what may be: gaps and the rest of
 * pages are NaN on a GPU and unwritten on sim, which reports reading them.
 * Results lie between guards and are NaN until they are written.
 */
#ifndef SPT_VERIFY_RUN_H
#define SPT_VERIFY_RUN_H

#include "machine.h"
#include "problem.h"
#include "verify.h"

typedef struct spt_verify_kernels {
    spt_loaded attention, combine;
    int chunk, rows;
    bool tree; /* as compiled */
    int page_size; /* as compiled: tokens, 0 = contiguous */
} spt_verify_kernels;

typedef struct spt_verify_results {
    uint16_t *out; /* (token, query head, head dim) */
    float *lse; /* (token, query head) */
    bool guards_ok; /* nothing was written around them */
} spt_verify_results;

/*
 * Lays out, launches, waits, fetches. results' buffers are the caller's. A
 * fault of the kernel is SPT_E_DEVICE; sim's reports stay for the caller.
 */
spt_status spt_verify_run(spt_machine *machine,
                          const spt_verify_kernels *kernels,
                          const spt_instance *instance,
                          spt_verify_results *results, spt_error *err);

#endif
