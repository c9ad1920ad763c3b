/*
 * What the ELF of a cubin says of one kernel. Any bytes may be given: what is
 * malformed is SPT_E_FORMAT.
 */
#ifndef SPT_CUBIN_H
#define SPT_CUBIN_H

#include <stddef.h>

#include "error.h"

typedef struct spt_cubin_facts {
    int sm; /* 90; the suffix of a target is not in the file */
    int registers; /* of a thread */
    int shared_bytes; /* static, without what the system reserves */
    int stack_bytes; /* frame of a thread in local memory; 0 when unknown */
    int max_threads; /* of a CTA, by __launch_bounds__; 0 = not given */
} spt_cubin_facts;

spt_status spt_cubin_read(const void *data, size_t size, const char *symbol,
                          spt_cubin_facts *facts, spt_error *err);

#endif
