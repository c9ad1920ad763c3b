/*
 * Boards under a power cap: the share of their clock that is left, from
 * profiles/power.json. Verification keeps the arithmetic units busy and is
 * throttled more than plain decoding, which waits for memory.
 */
#ifndef SPT_POWER_H
#define SPT_POWER_H

#include "board.h"
#include "error.h"
#include "serving.h"

typedef struct spt_power {
    double watts;
    double plain, verify; /* share of the clock; 0 = no cap */
} spt_power;

/* SPT_E_USAGE names the watts that are known of the board. */
spt_status spt_power_load(const char *home, const char *board, double watts,
                          spt_power *power, spt_error *err);
/* From bytes in memory; name is what errors call them. */
spt_status spt_power_parse(const char *text, size_t size, const char *name,
                           const char *board, double watts, spt_power *power,
                           spt_error *err);

/* What that share of the clock leaves of a board, and of an engine's times on
   it: everything on the chip, nothing of DRAM, links and the host. */
spt_board spt_power_board(const spt_board *board, double share);
spt_serving spt_power_serving(const spt_serving *serving, double share);

#endif
