/*
 * How many CTAs of a kernel an SM holds at once.
 */
#ifndef SPT_SIM_OCCUPANCY_H
#define SPT_SIM_OCCUPANCY_H

#include "board.h"

/*
 * CTAs per SM of a kernel with that many threads per CTA, registers per thread
 * and bytes of shared memory per CTA (static and dynamic; what the system
 * reserves is added here). 0 when not even one fits.
 */
int spt_occupancy(const spt_board *board, int threads, int registers,
                  int shared_bytes);

#endif
