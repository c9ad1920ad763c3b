/* Counters by kernel: what each name's launches summed up to, in the order of
   first launch. One process-wide list, like the machine. */
#ifndef SPT_SIM_KERNEL_COUNTS_H
#define SPT_SIM_KERNEL_COUNTS_H

#include "sim.h"

/* Adds one launch; a launch without memory for its name is left out. */
void sim_kernel_counts_add(const char *kernel, const spt_sim_counters *launch);
void sim_kernel_counts_clear(void);

#endif
