/*
 * Packs of any kernels: each one that is asked for is built, proved on a
 * machine, and written.
 */
#ifndef SPT_PACK_MAKE_H
#define SPT_PACK_MAKE_H

#include "kernel_set.h"
#include "proof.h"

typedef struct spt_pack_job {
    const spt_builder *builder;
    spt_machine *machine;
    const spt_kernel_request *requests; /* as for spt_kernel_set_open */
    size_t count;
    const char *folder;
    /* Called after each proof. */
    void (*done)(void *user, const spt_built *built, const spt_proof *proof);
    void *user;
    spt_compile_progress *progress; /* or NULL; gets no user */
} spt_pack_job;

/*
 * Proves the kernels that a kernel set would take for the requests and writes
 * the pack when all proofs are good: *all_ok. Operators are proved with their
 * usual run-time values; verify attention comes with its combine.
 * SPT_E_UNSUPPORTED names a kernel for which there is no proof.
 */
spt_status spt_pack_make(const spt_pack_job *job, bool *all_ok, spt_error *err);

#endif
