/*
 * Reports: what a kernel did wrong, one entry per place with a count.
 *
 * Workers add from any thread while a launch runs. When it ends, the entries
 * of that launch are sorted by the block and by the block's own sequence
 * number, and each entry's example is the one that sorts first: so order and
 * text do not hang on host threads.
 */
#ifndef SPT_SIM_REPORT_H
#define SPT_SIM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"
#include "sim.h"

/* Where something happened. Strings are copied. */
typedef struct sim_place {
    const char *kernel;
    const char *file; /* source file of .loc, or NULL */
    uint32_t line, ptx_line; /* line 0: none, the PTX line is shown */
    uint32_t block[3], thread[3];
    uint64_t block_index; /* linear */
    uint64_t sequence; /* grows within a block */
} sim_place;

/*
 * Adds count events of one kind. detail (may be NULL) ends the line; salt
 * tells apart entries of one line that are different faults (0: none).
 */
void sim_report_add(spt_sim_kind kind, const sim_place *place, uint64_t address,
                    uint64_t count, uint64_t salt, const char *detail);

/* Ends a launch: its entries get their order. */
void sim_report_end_launch(void);
void sim_report_clear(void);

/* A GPU would end the kernel with an error for this. */
bool sim_kind_is_fatal(spt_sim_kind kind);

#endif
