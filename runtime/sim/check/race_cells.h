/*
 * What race.c (clocks, reports), race_access.c (the fast ways) and
 * race_cells.c (any access, unit by unit) share.
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
    uint32_t *fenced; /* (warp): up to which epoch for the async proxy */
    bool *touched; /* (warp) in its present epoch */
    uint64_t *cell; /* (cells): read's word above, write's word below */
    race_mark *marks[RACE_LEVELS]; /* (warp, kind, unit); NULL until used */
    size_t units[RACE_LEVELS];
    sim_race_found *found;
    void *user;
};

/* A word of a cell: epoch << 8 | level << 6 (of writes only) | warp. */
enum { RACE_MANY = 63, RACE_LEVEL_SHIFT = 6, RACE_WORD_SHIFT = 8 };
#define RACE_LEVEL_BITS(level) ((uint32_t)(level) << RACE_LEVEL_SHIFT)

/* A mark's lane where several read: such a mark has shift 0. */
enum { RACE_SEVERAL = SIM_SHAPE_SEVERAL };
#define RACE_EPOCH_SHIFT 40
#define RACE_INSN_SHIFT 16
#define RACE_WHO UINT64_C(0xffff)
#define RACE_INSN (UINT64_C(0xffffff) << RACE_INSN_SHIFT)

/* An access of some lanes of a warp. */
typedef struct race_visit {
    sim_race *race;
    const sim_access *a;
    const uint32_t *at; /* of the lanes in `active` */
    uint32_t active;
    const uint32_t *clock;
    uint32_t warp;
    uint32_t shift; /* bytes of a lane: 1 << shift */
    uint32_t stale; /* words up to this one are old */
    uint32_t word; /* the cell's, for this access */
    int kind;
    race_mark mine; /* without lanes */
    /* Marks of this warp and kind, and of the other kind, but for bytes; NULL
       where nobody has any. */
    race_mark *own[RACE_BYTES], *other[RACE_BYTES];
} race_visit;

/* Bytes of one cell that lanes side by side access. */
typedef struct race_part {
    uint32_t index; /* of the cell */
    uint32_t first, n; /* its bytes */
    uint32_t lane; /* of the first */
    uint32_t several; /* of these lanes, those that are not alone */
} race_part;

/* Any part of any cell: tells of races, then notes the access. */
void race_touch(const race_visit *v, const race_part *p);

/* Drops all marks, as for memory that was never touched. */
void race_cells_forget(sim_race *race);
/* Makes room for the marks of a level; false: no memory, the launch ends. */
bool race_has_marks(sim_race *race, int level, sim_warp *w);

/* Marks of a warp, one per unit. */
static inline race_mark *race_marks(const sim_race *race, int level,
                                    uint32_t warp, int kind)
{
    return race->marks[level] + (2 * warp + kind) * race->units[level];
}

static inline uint32_t *race_clock(const sim_race *race, uint32_t warp)
{
    return race->clock + (size_t)warp * race->warps;
}

static inline bool race_same_epoch(race_mark a, race_mark b)
{
    return !((a ^ b) >> RACE_EPOCH_SHIFT);
}

static inline bool race_same_lanes(race_mark a, race_mark b)
{
    return !((a ^ b) & RACE_WHO);
}

static inline bool race_same_access(race_mark a, race_mark b)
{
    return !((a ^ b) & ~RACE_INSN);
}

/* Two marks of one epoch differ in every byte's lane: or there are several. */
static inline bool race_alike(race_mark a, race_mark b)
{
    return !((a ^ b) & RACE_WHO & ~UINT64_C(0xff)) ||
           (a & RACE_SEVERAL) == RACE_SEVERAL ||
           (b & RACE_SEVERAL) == RACE_SEVERAL;
}

#endif
