/*
 * Races in shared memory, by what happens before what (not by what happened
 * to run first). Each warp has a vector clock; barriers and mbarriers join
 * clocks. A cell of 16 bytes remembers the last accesses, each with warp,
 * clock, bytes and instruction. Lanes of one warp are ordered by its warp-wide
 * instructions.
 */
#ifndef SPT_SIM_RACE_H
#define SPT_SIM_RACE_H

#include "access.h"

typedef struct sim_race sim_race;

sim_race *sim_race_new(uint32_t shared_bytes, uint32_t warps);
void sim_race_delete(sim_race *race);
void sim_race_begin(sim_race *race); /* a new CTA */

/* A warp-wide instruction: what the lanes did before is over. */
void sim_race_warp(sim_race *race, uint32_t warp);

/* The lanes' shared accesses; addr are offsets inside shared memory. */
void sim_race_access(sim_race *race, const sim_access *a, uint32_t lanes,
                     const uint64_t *addr);

/* All warps that have lanes in synced meet. */
void sim_race_barrier(sim_race *race, const uint32_t *synced);

/*
 * Release and acquire through an object (an mbarrier, or the one object that
 * stands for all atomics): clock has an entry per warp.
 */
void sim_race_release(sim_race *race, uint32_t warp, uint32_t *clock);
void sim_race_acquire(sim_race *race, uint32_t warp, const uint32_t *clock);
uint32_t *sim_race_atomics(sim_race *race);

#endif
