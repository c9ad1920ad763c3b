/*
 * What race.c (clocks, reports) and race_cells.c (accesses) share.
 *
 * A cell is 16 bytes of shared memory; its two words say in which epoch and by
 * which warp it was last written and read. Epochs up to `base` are ordered
 * before all that is to come, so that a cell whose words are that old is as
 * good as new; a barrier of all warps raises base.
 *
 * The marks say more: the last access of a warp to a unit, with lane and
 * instruction. A cell's unit, its level, is the largest that fits what has
 * happened to it since it was new: the whole cell, words, or bytes.
 */
#ifndef SPT_SIM_RACE_CELLS_H
#define SPT_SIM_RACE_CELLS_H

#include "race.h"

enum { RACE_CELL = 16, RACE_EPOCH_MAX = (1 << 24) - 1 };
enum { RACE_READ, RACE_WRITE };
enum { RACE_WHOLE, RACE_WORDS, RACE_BYTES, RACE_LEVELS };

/* epoch:24 insn:24 shift:8 lane:8. Of the whole cell, bytes side by side
   belong to lanes from `lane` on, 1 << shift bytes each; else shift is 0. */
typedef uint64_t race_mark;

struct sim_race {
    uint32_t warps, cells, base;
    uint32_t *clock; /* (warp, warp) */
    uint32_t *joined; /* (warp) */
    uint32_t *atomics;
    uint32_t *last; /* (warp): epoch of the last access */
    bool *touched; /* (warp) in its present epoch */
    uint64_t *cell; /* (cells): read's word above, write's word below */
    race_mark *marks[RACE_LEVELS]; /* (warp, kind, unit); NULL until used */
    sim_race_found *found;
    void *user;
};

/* Drops all marks, as for memory that was never touched. */
void race_cells_forget(sim_race *race);

static inline uint32_t *race_clock(const sim_race *race, uint32_t warp)
{
    return race->clock + (size_t)warp * race->warps;
}

#endif
