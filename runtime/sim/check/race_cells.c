/*
 * Any access to any cell: unit by unit, and byte by byte what looks like a race
 * or has lanes that marks of the cell's level cannot tell apart.
 */
#include "race_cells.h"

#include <sys/mman.h>

static const uint8_t unit_shift[RACE_LEVELS] = {4, 2, 0};

static inline uint32_t epoch_of(race_mark m)
{
    return (uint32_t)(m >> RACE_EPOCH_SHIFT);
}

static size_t marks_bytes(const sim_race *race, int level)
{
    return 2 * race->warps * race->units[level] * sizeof(race_mark);
}

void race_cells_forget(sim_race *race)
{
    for (int level = 0; level < RACE_LEVELS; level++) {
        if (race->marks[level])
            munmap(race->marks[level], marks_bytes(race, level));
        race->marks[level] = NULL;
    }
    if (race->cell)
        memset(race->cell, 0, race->cells * sizeof *race->cell);
}

/* Pages that nobody touches cost nothing, and most levels are rare. */
bool race_has_marks(sim_race *race, int level, sim_warp *w)
{
    if (race->marks[level])
        return true;
    race->units[level] = (size_t)race->cells * RACE_CELL >> unit_shift[level];
    void *p = mmap(NULL, marks_bytes(race, level), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
        return false;
    }
    race->marks[level] = p;
    return true;
}

/* Has another warp done to a unit what this warp does not know of? word: the
   cell's, of that kind. */
static inline bool foreign(const race_visit *v, uint32_t word, int kind,
                           int level, size_t unit)
{
    uint32_t from = word & RACE_MANY, to = from + 1;
    if (word <= v->stale || from == v->warp)
        return false;
    if (from == RACE_MANY)
        from = 0, to = v->race->warps;
    for (uint32_t w = from; w < to; w++)
        if (w != v->warp &&
            epoch_of(race_marks(v->race, level, w, kind)[unit]) > v->clock[w])
            return true;
    return false;
}

/* Notes a read; false: it has to be decided byte by byte. */
static inline bool read_unit(const race_visit *v, int level, size_t unit,
                             race_mark mine, uint32_t written)
{
    race_mark *own = race_marks(v->race, level, v->warp, RACE_READ) + unit;
    if (race_same_access(*own, mine))
        return true;
    if (written > v->stale) {
        race_mark w = race_marks(v->race, level, v->warp, RACE_WRITE)[unit];
        if (foreign(v, written, RACE_WRITE, level, unit) ||
            (race_same_epoch(w, mine) && !race_same_lanes(w, mine)))
            return false;
    }
    if (race_same_epoch(*own, mine) && !race_same_lanes(*own, mine)) {
        if (!race_alike(*own, mine))
            return false;
        mine = (mine & ~RACE_WHO) | RACE_SEVERAL;
    }
    *own = mine;
    return true;
}

static inline bool write_unit(const race_visit *v, int level, size_t unit,
                              race_mark mine, uint32_t written, uint32_t read)
{
    race_mark *own = race_marks(v->race, level, v->warp, RACE_WRITE) + unit;
    if (race_same_access(*own, mine))
        return true;
    if (foreign(v, written, RACE_WRITE, level, unit) ||
        foreign(v, read, RACE_READ, level, unit))
        return false;
    /* Lanes of one instruction that write the same bytes are left alone. */
    if (race_same_epoch(*own, mine) && ((*own ^ mine) & RACE_INSN))
        return false;
    if (read > v->stale) {
        race_mark r = race_marks(v->race, level, v->warp, RACE_READ)[unit];
        if (race_same_epoch(r, mine) && !race_same_lanes(r, mine))
            return false;
    }
    *own = mine;
    return true;
}

static inline uint32_t written_word(uint64_t cell)
{
    return (uint32_t)cell;
}

static inline uint32_t read_word(uint64_t cell)
{
    return (uint32_t)(cell >> 32);
}

/* The cell after this access. */
static inline uint64_t touched_cell(const race_visit *v, uint32_t written,
                                    uint32_t read, int level)
{
    uint32_t *word = v->kind == RACE_WRITE ? &written : &read;
    bool alone = *word <= v->stale || (*word & RACE_MANY) == v->warp;
    *word = v->word | (alone ? 0 : RACE_MANY);
    written = (written & ~RACE_LEVEL_BITS(3)) | RACE_LEVEL_BITS(level);
    return (uint64_t)read << 32 | written;
}

/* The mark of a byte of p, or of the whole cell. */
static inline race_mark mark_of(const race_visit *v, const race_part *p,
                                uint32_t byte, int level)
{
    uint32_t i = (byte - p->first) >> v->shift;
    if (p->several >> i & 1)
        return v->mine | RACE_SEVERAL;
    uint32_t shift = v->shift < 4 ? v->shift : 4;
    return v->mine | (p->lane + i) | (level == RACE_WHOLE ? shift << 8 : 0);
}

/* The largest units of p, in a cell whose units are not larger than those of
   `level`, that belong to lanes that one mark can name. */
static int level_of(const race_visit *v, const race_part *p, int level)
{
    uint32_t lanes = p->n >> v->shift;
    uint32_t all = lanes ? (1u << lanes) - 1 : 1;
    if (level == RACE_WHOLE && p->n == RACE_CELL &&
        (!p->several || p->several == all))
        return RACE_WHOLE;
    return v->shift >= 2 ? RACE_WORDS : RACE_BYTES;
}

/* Copies a unit's mark to the smaller units that it consists of. */
static void split(race_mark m, race_mark *to, int from_level, int level)
{
    uint32_t n = 1u << (unit_shift[from_level] - unit_shift[level]);
    uint32_t shift = m >> 8 & 15;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t byte = i << unit_shift[level];
        bool whole =
            from_level == RACE_WHOLE && (m & RACE_SEVERAL) != RACE_SEVERAL;
        to[i] = whole ? (m & ~RACE_WHO) | ((m & RACE_SEVERAL) + (byte >> shift))
                      : m;
    }
}

/* Words are enough only where each belongs to one lane. */
static bool fits_words(const race_visit *v, uint32_t index)
{
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = 0; kind < 2; kind++) {
            race_mark m = race_marks(v->race, RACE_WHOLE, w, kind)[index];
            if (epoch_of(m) > v->race->base &&
                (m & RACE_SEVERAL) != RACE_SEVERAL && (m >> 8 & 15) < 2)
                return false;
        }
    return true;
}

/* A cell that is in use gets smaller units; returns its level, -1: failed. */
static int refine(const race_visit *v, uint32_t index, int level, int wanted)
{
    if (level >= wanted)
        return level;
    if (wanted == RACE_WORDS && !fits_words(v, index))
        wanted = RACE_BYTES;
    if (!race_has_marks(v->race, wanted, v->a->w))
        return -1;
    uint32_t above = unit_shift[level], below = unit_shift[wanted];
    size_t n = 1u << (4 - above);
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = 0; kind < 2; kind++) {
            const race_mark *from = race_marks(v->race, level, w, kind);
            race_mark *to = race_marks(v->race, wanted, w, kind);
            for (size_t u = index * n; u < (index + 1) * n; u++)
                if (epoch_of(from[u]) > v->race->base)
                    split(from[u], to + (u << (above - below)), level, wanted);
        }
    return wanted;
}

/* Writing what is there already harms nobody, whichever comes first. */
static bool same_value(const race_visit *v, uint32_t index, uint32_t mask)
{
    const sim_access *a = v->a;
    if (!a->value)
        return false;
    for (uint32_t rest = v->active; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        for (uint32_t k = 0; k < a->bytes; k++) {
            uint32_t at = v->at[l] + k;
            const sim_arg *from = &a->value[k / a->element];
            const uint8_t *value = a->regs + from->slot + l * from->width;
            if (at / RACE_CELL == index && (mask >> at % RACE_CELL & 1) &&
                a->w->cta->shared[at] != value[k % a->element])
                return false;
        }
    }
    return true;
}

/* Accesses that race with one part, each with its bytes of the cell. */
typedef struct races {
    size_t count;
    struct {
        sim_race_other other;
        uint32_t mask;
    } entry[128];
} races;

static void add_race(races *list, const sim_race_other *other, uint32_t byte)
{
    for (size_t i = 0; i < list->count; i++) {
        const sim_race_other *o = &list->entry[i].other;
        if (o->warp == other->warp && o->epoch == other->epoch &&
            o->insn == other->insn && o->write == other->write) {
            list->entry[i].mask |= 1u << byte;
            return;
        }
    }
    if (list->count == sizeof list->entry / sizeof *list->entry)
        return;
    list->entry[list->count].other = *other;
    list->entry[list->count++].mask = 1u << byte;
}

/* Does the access race with a mark on one of its bytes? */
static bool races_with(const race_visit *v, race_mark mine, race_mark m,
                       uint32_t warp, int kind)
{
    if (v->kind == RACE_READ && kind == RACE_READ)
        return false;
    if (warp != v->warp)
        return epoch_of(m) > v->clock[warp];
    if (!race_same_epoch(m, mine) || race_same_lanes(m, mine))
        return false;
    return v->kind != kind || ((m ^ mine) & RACE_INSN);
}

/* One byte of a part: finds races, then leaves its mark. */
static void touch_byte(const race_visit *v, size_t at, race_mark mine,
                       races *list)
{
    race_mark *own = race_marks(v->race, RACE_BYTES, v->warp, v->kind) + at;
    if (race_same_access(*own, mine))
        return;
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = RACE_WRITE; kind >= RACE_READ; kind--) {
            race_mark m = race_marks(v->race, RACE_BYTES, w, kind)[at];
            sim_race_other other = {
                w, epoch_of(m), (uint32_t)((m & RACE_INSN) >> RACE_INSN_SHIFT),
                kind == RACE_WRITE};
            if (races_with(v, mine, m, w, kind))
                add_race(list, &other, at % RACE_CELL);
        }
    if (v->kind == RACE_READ && race_same_epoch(*own, mine) &&
        !race_same_lanes(*own, mine))
        mine |= RACE_SEVERAL;
    *own = mine;
}

static void touch_bytes(const race_visit *v, const race_part *p)
{
    races list;
    list.count = 0;
    for (uint32_t b = p->first; b < p->first + p->n; b++)
        touch_byte(v, (size_t)p->index * RACE_CELL + b,
                   mark_of(v, p, b, RACE_BYTES), &list);
    for (size_t i = 0; i < list.count; i++) {
        const sim_race_other *other = &list.entry[i].other;
        if (v->kind != RACE_WRITE || !other->write ||
            !same_value(v, p->index, list.entry[i].mask))
            v->race->found(v->race->user, v->a, p->lane,
                           (uint64_t)p->index * RACE_CELL + p->first, other);
    }
}

/* All units of a part; false: it has to be decided byte by byte. */
static bool touch_units(const race_visit *v, const race_part *p, int level,
                        uint32_t written, uint32_t read)
{
    uint32_t step = 1u << unit_shift[level];
    for (uint32_t b = p->first; b < p->first + p->n; b += step) {
        size_t unit = ((size_t)p->index * RACE_CELL + b) >> unit_shift[level];
        race_mark mine = mark_of(v, p, b, level);
        if (v->kind == RACE_WRITE
                ? !write_unit(v, level, unit, mine, written, read)
                : !read_unit(v, level, unit, mine, written))
            return false;
    }
    return true;
}

void race_touch(const race_visit *v, const race_part *p)
{
    uint64_t *cell = &v->race->cell[p->index];
    uint32_t written = written_word(*cell), read = read_word(*cell);
    int level = written >> RACE_LEVEL_SHIFT & 3;
    if (written <= v->stale && read <= v->stale) {
        level = level_of(v, p, RACE_WHOLE);
        written = read = 0;
        if (!race_has_marks(v->race, level, v->a->w))
            return;
    }
    level = refine(v, p->index, level, level_of(v, p, level));
    if (level < 0)
        return;
    if (!touch_units(v, p, level, written, read)) {
        level = refine(v, p->index, level, RACE_BYTES);
        if (level < 0)
            return;
        touch_bytes(v, p);
    }
    *cell = touched_cell(v, written, read, level);
}
