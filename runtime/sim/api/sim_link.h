/*
 * Linking PTX texts into one.
 */
#ifndef SPT_SIM_LINK_H
#define SPT_SIM_LINK_H

#include <stddef.h>

#include "error.h"
#include "mem.h"

typedef struct sim_link_part {
    const char *text; /* PTX; a 0 stands at size */
    size_t size;
} sim_link_part;

/*
 * Appends to out one text (with a 0 at its end) that has what all parts have:
 * a name without linkage that occurs in several parts gets a suffix, of weak
 * definitions one is kept, declarations come first. The highest .version and
 * .target hold for all. SPT_E_FORMAT when a part cannot be taken apart.
 */
spt_status sim_link(const sim_link_part *parts, size_t n_parts, spt_buf *out,
                    spt_error *err);

#endif
