/*
 * Shared accesses: what most of them do costs a look at a cell and a mark or
 * two, here; the rest goes to race_cells.c.
 */
#include "race_cells.h"

/* What every unit needs. */
typedef struct fast {
    uint64_t *cell;
    race_mark *own; /* of this warp, this kind and one level */
    const race_mark *other; /* of the other kind */
    uint32_t stale, word, warp, level_bits;
} fast;

#define INLINE inline __attribute__((always_inline))

static INLINE fast fast_of(const race_visit *v, int level)
{
    return (fast){v->race->cell, v->own[level], v->other[level],       v->stale,
                  v->word,       v->warp,       RACE_LEVEL_BITS(level)};
}

/*
 * Reads one unit of a cell that no other warp has written since it was new;
 * false: it is not so simple.
 */
static INLINE bool read_simply(const fast *f, uint32_t index, size_t unit,
                               race_mark mine)
{
    uint64_t cell = f->cell[index];
    uint32_t written = (uint32_t)cell, read = (uint32_t)(cell >> 32);
    uint32_t many = RACE_MANY;
    if (read <= f->stale)
        many = 0;
    if (written > f->stale || read > f->stale) {
        race_mark old = f->own[unit];
        if ((written & RACE_LEVEL_BITS(3)) != f->level_bits)
            return false;
        if (race_same_epoch(old, mine)) {
            if (race_same_access(old, mine))
                return true;
            if (!race_alike(old, mine))
                return false;
            mine = (mine & ~RACE_WHO) | RACE_SEVERAL;
        }
        if (written > f->stale) {
            race_mark w = f->other[unit];
            if ((written & RACE_MANY) != f->warp ||
                (race_same_epoch(w, mine) && !race_same_lanes(w, mine)))
                return false;
        }
        if ((read & RACE_MANY) == f->warp)
            many = 0;
    }
    f->own[unit] = mine;
    f->cell[index] = (uint64_t)(f->word | many) << 32 |
                     (written > f->stale ? written : f->level_bits);
    return true;
}

/* Writes one unit of a cell that only this warp has touched. */
static INLINE bool write_simply(const fast *f, uint32_t index, size_t unit,
                                race_mark mine)
{
    uint64_t cell = f->cell[index];
    uint32_t written = (uint32_t)cell, read = (uint32_t)(cell >> 32);
    if (written <= f->stale && read <= f->stale) {
        f->own[unit] = mine;
        f->cell[index] = f->word | f->level_bits;
        return true;
    }
    if ((written & RACE_LEVEL_BITS(3)) != f->level_bits ||
        (written > f->stale && (written & RACE_MANY) != f->warp))
        return false;
    race_mark old = f->own[unit];
    if (race_same_epoch(old, mine)) {
        if (race_same_access(old, mine))
            return true;
        if ((old ^ mine) & RACE_INSN)
            return false;
    }
    if (read > f->stale) {
        race_mark r = f->other[unit];
        if ((read & RACE_MANY) != f->warp ||
            (race_same_epoch(r, mine) && !race_same_lanes(r, mine)))
            return false;
    }
    f->own[unit] = mine;
    f->cell[index] = (uint64_t)read << 32 | f->word | f->level_bits;
    return true;
}

static INLINE bool touch_simply(const fast *f, int kind, uint32_t index,
                                size_t unit, race_mark mine)
{
    return kind == RACE_WRITE ? write_simply(f, index, unit, mine)
                              : read_simply(f, index, unit, mine);
}

/* The general way, apart, so that the fast ones need not build a part. */
static __attribute__((noinline)) void
touch_part(const race_visit *v, uint32_t index, const sim_shape_part *s)
{
    race_touch(v, &(race_part){index, s->first, s->n, s->lane, s->several});
}

static __attribute__((noinline)) void touch_row(const race_visit *v,
                                                uint32_t index, uint32_t lane)
{
    race_touch(v, &(race_part){index, 0, RACE_CELL, lane, 0});
}

/* Lanes of whole cells, each by itself. */
static INLINE void touch_rows(const race_visit *v, int kind)
{
    fast f = fast_of(v, RACE_WHOLE);
    const uint32_t *at = v->at;
    race_mark mine = v->mine | SIM_SHAPE_WHO(4, 0);
    uint32_t cells = (1u << v->shift) / RACE_CELL;
    for (uint32_t rest = v->active; rest; rest &= rest - 1) {
        uint32_t lane = sim_first_lane(rest);
        uint32_t index = at[lane] / RACE_CELL;
        for (uint32_t k = 0; k < cells; k++, index++)
            if (!touch_simply(&f, kind, index, index, mine | lane))
                touch_row(v, index, lane);
    }
}

/* Words of one cell, of 1 << words words per lane. */
static INLINE bool touch_words(const fast *f, int kind, race_mark mine,
                               uint32_t index, const sim_shape_part *s,
                               uint32_t words)
{
    size_t unit = ((size_t)index * RACE_CELL + s->first) / 4;
    for (uint32_t k = 0; k < s->n / 4u; k++) {
        uint32_t i = k >> words;
        uint32_t who = s->several >> i & 1 ? RACE_SEVERAL : s->lane + i;
        if (!touch_simply(f, kind, index, unit + k, mine | who))
            return false;
    }
    return true;
}

static INLINE void touch_parts(const race_visit *v, int kind,
                               const sim_shape *shape)
{
    fast whole = fast_of(v, RACE_WHOLE), words = fast_of(v, RACE_WORDS);
    uint32_t cell0 = v->at[0] / RACE_CELL;
    race_mark mine = v->mine;
    bool has_words = v->shift >= 2 && words.own;
    for (const sim_shape_part *s = shape->part, *end = s + shape->n; s < end;
         s++) {
        uint32_t index = cell0 + (uint32_t)s->cell;
        bool simple =
            s->whole ? touch_simply(&whole, kind, index, index, mine | s->who)
                     : has_words && touch_words(&words, kind, mine, index, s,
                                                v->shift - 2);
        if (!simple)
            touch_part(v, index, s);
    }
}

static uint32_t insn_of(const sim_access *a)
{
    const ptx_func *func = a->w->launch->func;
    const ptx_insn *src = a->in->src;
    bool here = src >= func->insns && src < func->insns + func->n_insns;
    size_t index = here ? (size_t)(src - func->insns) : SIM_RACE_ELSEWHERE;
    return index < SIM_RACE_ELSEWHERE ? (uint32_t)index : SIM_RACE_ELSEWHERE;
}

static bool visit_of(race_visit *v, sim_race *race, const sim_access *a)
{
    uint32_t warp = a->w->index, epoch = race_clock(race, warp)[warp];
    v->race = race;
    v->a = a;
    v->clock = race_clock(race, warp);
    v->warp = warp;
    v->shift = (uint32_t)__builtin_ctz(a->bytes);
    v->stale = race->base << RACE_WORD_SHIFT | 255;
    v->word = epoch << RACE_WORD_SHIFT | warp;
    v->kind = a->write ? RACE_WRITE : RACE_READ;
    v->mine = (race_mark)epoch << RACE_EPOCH_SHIFT | (race_mark)insn_of(a)
                                                         << RACE_INSN_SHIFT;
    race->touched[warp] = true;
    race->last[warp] = epoch;
    /* Of one epoch without end nothing can be said. */
    if (epoch >= RACE_EPOCH_MAX || !race_has_marks(race, RACE_WHOLE, a->w))
        return false;
    for (int level = RACE_WHOLE; level <= RACE_WORDS; level++) {
        bool any = race->marks[level];
        v->own[level] = any ? race_marks(race, level, warp, v->kind) : NULL;
        v->other[level] = any ? race_marks(race, level, warp, !v->kind) : NULL;
    }
    return true;
}

void sim_race_access(sim_race *race, const sim_access *a, uint32_t lanes,
                     const uint32_t *at, const sim_shape *shape)
{
    race_visit v;
    sim_shape own;
    if (!visit_of(&v, race, a))
        return;
    v.at = at;
    v.active = lanes;
    if (v.shift >= 4 && a->write) {
        touch_rows(&v, RACE_WRITE);
        return;
    }
    if (v.shift >= 4) {
        touch_rows(&v, RACE_READ);
        return;
    }
    if (!shape) {
        sim_shape_make(&own, at, lanes, a->bytes, a->write);
        shape = &own;
    }
    if (a->write)
        touch_parts(&v, RACE_WRITE, shape);
    else
        touch_parts(&v, RACE_READ, shape);
}
