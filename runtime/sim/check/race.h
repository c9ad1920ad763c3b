/*
 * Races in shared memory, by what happens before what (not by what happened
 * to run first). Each warp has a vector clock; barriers and mbarriers join
 * clocks. For every byte and warp the last read and the last write are known,
 * with clock, lane and instruction. Lanes of one warp are ordered by its
 * warp-wide instructions, each of which begins an epoch of the warp.
 *
 * An access that repeats what its lane did to a byte in the same epoch counts
 * once, as the instruction that came first.
 */
#ifndef SPT_SIM_RACE_H
#define SPT_SIM_RACE_H

#include "access.h"
#include "shape.h"

typedef struct sim_race sim_race;

/* An earlier access that nothing orders before the one at hand. */
typedef struct sim_race_other {
    uint32_t warp, epoch;
    uint32_t insn; /* index in the kernel, SIM_RACE_ELSEWHERE in another */
    bool write;
} sim_race_other;

enum { SIM_RACE_ELSEWHERE = (1 << 24) - 1 };

/*
 * Hears of each race: lanes side by side that access parts of 16 bytes are
 * one event for each other access; lane and address are those of their first.
 */
typedef void sim_race_found(void *user, const sim_access *a, uint32_t lane,
                            uint64_t address, const sim_race_other *other);

/* At most 32 warps. Races are reported. */
sim_race *sim_race_new(uint32_t shared_bytes, uint32_t warps);
void sim_race_delete(sim_race *race);
/* Somebody else hears of races, instead of the reports. */
void sim_race_listen(sim_race *race, sim_race_found *found, void *user);
void sim_race_begin(sim_race *race); /* a new CTA */

/* A warp-wide instruction: what the lanes did before is over. */
void sim_race_warp(sim_race *race, uint32_t warp);

/* The lanes' shared accesses; at: offsets in shared memory. shape:
   theirs, or NULL; not asked for where a lane has 16 bytes or more. */
void sim_race_access(sim_race *race, const sim_access *a, uint32_t lanes,
                     const uint32_t *at, const sim_shape *shape);

/* All warps that have lanes in synced meet; gone: a bit for each that has
   ended. */
void sim_race_barrier(sim_race *race, const uint32_t *synced, uint32_t gone);

/*
 * Release and acquire through an object (an mbarrier, or the one object that
 * stands for all atomics): clock has an entry per warp.
 */
void sim_race_release(sim_race *race, uint32_t warp, uint32_t *clock);
void sim_race_acquire(sim_race *race, uint32_t warp, const uint32_t *clock);
uint32_t *sim_race_atomics(sim_race *race);

/*
 * The async proxy (bulk stores, wgmma) sees what threads wrote to shared memory
 * behind a fence.proxy.async: that some thread of the CTA made one since is
 * enough here. The second says whether bytes at a shared offset lack one, and
 * who wrote them; insn: of this launch's kernel.
 */
void sim_race_proxy_fence(sim_race *race);
bool sim_race_unfenced(const sim_race *race, const sim_launch *launch,
                       uint32_t at, uint32_t bytes, sim_race_other *other);
/* Reports what the async proxy reads without a fence, at in by a lane. */
void sim_race_proxy_read(sim_warp *w, const sim_insn *in, unsigned lane,
                         uint32_t at, uint32_t bytes);

#endif
