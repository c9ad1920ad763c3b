/* What kernel_set.c and its two sources share. */
#ifndef SPT_KERNEL_SET_INT_H
#define SPT_KERNEL_SET_INT_H

#include "hash.h"
#include "kernel_set.h"

/* A kernel that is loaded, or still to be found: no module. */
typedef struct spt_set_entry {
    const spt_kernel_request *request;
    spt_config config; /* full */
    char key[160];
    char digest[SPT_SHA256_TEXT]; /* of the code */
    CUmodule module;
    char why[400]; /* why the pack's was not taken, or "" */
    spt_function function;
} spt_set_entry;

/* Loads the entries that the pack has; a miss leaves the entry as it is. */
spt_status spt_set_from_pack(const spt_kernel_source *source,
                             spt_set_entry *entries, size_t count,
                             spt_error *err);

#endif
