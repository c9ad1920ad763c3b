/* What a launch prints, by CTA, until it has ended. */
#ifndef SPT_SIM_ENGINE_PRINT_H
#define SPT_SIM_ENGINE_PRINT_H

#include <stdint.h>

#include "mem.h"

typedef struct sim_prints {
    spt_buf texts; /* of {cta, text}, owned */
} sim_prints;

/* Takes over what the CTA has printed; text is empty afterwards. */
void sim_prints_add(sim_prints *prints, uint64_t cta, spt_buf *text);
/* Writes all of it to standard output, CTAs by number, and frees it. */
void sim_prints_flush(sim_prints *prints);

#endif
