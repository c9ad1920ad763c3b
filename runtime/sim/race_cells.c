/*
 * Shared accesses against the marks of earlier ones.
 *
 * What most accesses do costs a look at the cell and a mark: the first touch
 * of a cell after a barrier, a read beside reads, an access to what only this
 * warp has touched. What looks like a race, or has lanes that marks of this
 * level cannot tell apart, is decided byte by byte.
 */
#include "race_cells.h"

#include <sys/mman.h>

/* A word of a cell: epoch << 8 | level << 6 (of writes only) | warp. */
enum { MANY_WARPS = 63, LEVEL_SHIFT = 6, WORD_EPOCH_SHIFT = 8 };
/* A mark's lane where several read: such a mark has shift 0. */
enum { SEVERAL = 0xff };

static const uint8_t unit_shift[RACE_LEVELS] = {4, 2, 0};

#define EPOCH_SHIFT 40
#define INSN_SHIFT 16
#define WHO UINT64_C(0xffff)
#define INSN (UINT64_C(0xffffff) << INSN_SHIFT)

typedef struct visit {
    sim_race *race;
    const sim_access *a;
    const uint64_t *addr; /* of the lanes in `active` */
    uint32_t active;
    const uint32_t *clock;
    uint32_t warp;
    uint32_t shift; /* bytes of a lane: 1 << shift */
    uint32_t stale; /* words up to this one are old */
    uint32_t word; /* the cell's, for this access */
    int kind;
    race_mark mine; /* without lanes */
    race_mark *own[RACE_LEVELS]; /* this warp's of that kind; NULL: none */
    const race_mark *other[RACE_LEVELS]; /* of the other kind */
} visit;

/* Bytes of one cell that lanes side by side access. */
typedef struct part {
    uint32_t index; /* of the cell */
    uint32_t first, n; /* its bytes */
    uint32_t lane; /* of the first */
    uint32_t several; /* of these lanes, those that are not alone */
} part;

static inline uint32_t epoch_of(race_mark m)
{
    return (uint32_t)(m >> EPOCH_SHIFT);
}

static inline bool same_epoch(race_mark a, race_mark b)
{
    return !((a ^ b) >> EPOCH_SHIFT);
}

static inline bool same_lanes(race_mark a, race_mark b)
{
    return !((a ^ b) & WHO);
}

static inline bool same_access(race_mark a, race_mark b)
{
    return !((a ^ b) & ~INSN);
}

static size_t units(const sim_race *race, int level)
{
    return (size_t)race->cells * RACE_CELL >> unit_shift[level];
}

static size_t marks_bytes(const sim_race *race, int level)
{
    return 2 * race->warps * units(race, level) * sizeof(race_mark);
}

static inline race_mark *marks(const sim_race *race, int level, uint32_t warp,
                               int kind)
{
    return race->marks[level] + (2 * warp + kind) * units(race, level);
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
static bool has_marks(const visit *v, int level)
{
    sim_race *race = v->race;
    if (race->marks[level])
        return true;
    void *p = mmap(NULL, marks_bytes(race, level), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        sim_fault(v->a->w, CUDA_ERROR_OUT_OF_MEMORY);
        return false;
    }
    race->marks[level] = p;
    return true;
}

/* Has another warp done to a unit what this warp does not know of? word: the
   cell's, of that kind. */
static inline bool foreign(const visit *v, uint32_t word, int kind, int level,
                           size_t unit)
{
    uint32_t from = word & MANY_WARPS, to = from + 1;
    if (word <= v->stale || from == v->warp)
        return false;
    if (from == MANY_WARPS)
        from = 0, to = v->race->warps;
    for (uint32_t w = from; w < to; w++)
        if (w != v->warp &&
            epoch_of(marks(v->race, level, w, kind)[unit]) > v->clock[w])
            return true;
    return false;
}

/* Notes a read; false: it has to be decided byte by byte. */
static inline bool read_unit(const visit *v, int level, size_t unit,
                             race_mark mine, uint32_t written)
{
    race_mark *own = marks(v->race, level, v->warp, RACE_READ) + unit;
    if (same_access(*own, mine))
        return true;
    if (written > v->stale) {
        race_mark w = marks(v->race, level, v->warp, RACE_WRITE)[unit];
        if (foreign(v, written, RACE_WRITE, level, unit) ||
            (same_epoch(w, mine) && !same_lanes(w, mine)))
            return false;
    }
    if (same_epoch(*own, mine) && !same_lanes(*own, mine)) {
        bool alike = !((*own ^ mine) & WHO & ~(WHO >> 8));
        if (!alike && (*own & SEVERAL) != SEVERAL &&
            (mine & SEVERAL) != SEVERAL)
            return false;
        mine = (mine & ~WHO) | SEVERAL;
    }
    *own = mine;
    return true;
}

static inline bool write_unit(const visit *v, int level, size_t unit,
                              race_mark mine, uint32_t written, uint32_t read)
{
    race_mark *own = marks(v->race, level, v->warp, RACE_WRITE) + unit;
    if (same_access(*own, mine))
        return true;
    if (foreign(v, written, RACE_WRITE, level, unit) ||
        foreign(v, read, RACE_READ, level, unit))
        return false;
    /* Lanes of one instruction that write the same bytes are left alone. */
    if (same_epoch(*own, mine) && ((*own ^ mine) & INSN))
        return false;
    if (read > v->stale) {
        race_mark r = marks(v->race, level, v->warp, RACE_READ)[unit];
        if (same_epoch(r, mine) && !same_lanes(r, mine))
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

static inline uint32_t level_bits(int level)
{
    return (uint32_t)level << LEVEL_SHIFT;
}

/* The cell after this access. */
static inline uint64_t touched_cell(const visit *v, uint32_t written,
                                    uint32_t read, int level)
{
    uint32_t *word = v->kind == RACE_WRITE ? &written : &read;
    bool alone = *word <= v->stale || (*word & MANY_WARPS) == v->warp;
    *word = v->word | (alone ? 0 : MANY_WARPS);
    written = (written & ~level_bits(3)) | level_bits(level);
    return (uint64_t)read << 32 | written;
}

/* The marks that a warp left where no other warp's access counts; false: it
   has to be decided byte by byte, or by looking at all warps. */
static inline bool touch_own(const visit *v, int level, size_t unit,
                             race_mark mine, uint32_t written, uint32_t read)
{
    race_mark *own = v->own[level] + unit;
    race_mark old = *own, other = v->other[level][unit];
    if (same_epoch(old, mine)) {
        if (same_access(old, mine))
            return true;
        if (v->kind == RACE_READ || (old ^ mine) & INSN)
            return false;
    }
    if ((v->kind == RACE_READ ? written : read) > v->stale &&
        same_epoch(other, mine) && !same_lanes(other, mine))
        return false;
    *own = mine;
    return true;
}

/*
 * One unit of a cell that is new, or that counts as this warp's: no other warp
 * has touched it, or all has been reads. false: it is not so simple.
 */
static inline bool touch_simply(const visit *v, int level, uint32_t index,
                                size_t unit, race_mark mine)
{
    uint64_t *cell = &v->race->cell[index];
    uint32_t written = written_word(*cell), read = read_word(*cell);
    bool writes = v->kind == RACE_WRITE;
    bool not_written = written <= v->stale, not_read = read <= v->stale;
    if (not_written && not_read) {
        v->own[level][unit] = mine;
        *cell =
            (writes ? v->word : (uint64_t)v->word << 32) | level_bits(level);
        return true;
    }
    bool own_written = not_written || (written & MANY_WARPS) == v->warp;
    bool own_read = not_read || (read & MANY_WARPS) == v->warp;
    if ((written & level_bits(3)) != level_bits(level) || !own_written ||
        (writes && !own_read) ||
        !touch_own(v, level, unit, mine, written, read))
        return false;
    if (writes)
        *cell = (uint64_t)read << 32 | v->word | level_bits(level);
    else
        *cell =
            (uint64_t)(v->word | (own_read ? 0 : MANY_WARPS)) << 32 | written;
    return true;
}

/* The mark of a byte of p, or of the whole cell. */
static inline race_mark mark_of(const visit *v, const part *p, uint32_t byte,
                                int level)
{
    uint32_t i = (byte - p->first) >> v->shift;
    if (p->several >> i & 1)
        return v->mine | SEVERAL;
    uint32_t shift = v->shift < 4 ? v->shift : 4;
    return v->mine | (p->lane + i) | (level == RACE_WHOLE ? shift << 8 : 0);
}

/* The largest units of p, in a cell whose units are not larger than those of
   `level`, that belong to lanes that one mark can name. */
static int level_of(const visit *v, const part *p, int level)
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
        bool whole = from_level == RACE_WHOLE && (m & SEVERAL) != SEVERAL;
        to[i] = whole ? (m & ~WHO) | ((m & SEVERAL) + (byte >> shift)) : m;
    }
}

/* Words are enough only where each belongs to one lane. */
static bool fits_words(const visit *v, uint32_t index)
{
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = 0; kind < 2; kind++) {
            race_mark m = marks(v->race, RACE_WHOLE, w, kind)[index];
            if (epoch_of(m) > v->race->base && (m & SEVERAL) != SEVERAL &&
                (m >> 8 & 15) < 2)
                return false;
        }
    return true;
}

/* A cell that is in use gets smaller units; returns its level, -1: failed. */
static int refine(const visit *v, uint32_t index, int level, int wanted)
{
    if (level >= wanted)
        return level;
    if (wanted == RACE_WORDS && !fits_words(v, index))
        wanted = RACE_BYTES;
    if (!has_marks(v, wanted))
        return -1;
    uint32_t above = unit_shift[level], below = unit_shift[wanted];
    size_t n = 1u << (4 - above);
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = 0; kind < 2; kind++) {
            const race_mark *from = marks(v->race, level, w, kind);
            race_mark *to = marks(v->race, wanted, w, kind);
            for (size_t u = index * n; u < (index + 1) * n; u++)
                if (epoch_of(from[u]) > v->race->base)
                    split(from[u], to + (u << (above - below)), level, wanted);
        }
    return wanted;
}

/* Writing what is there already harms nobody, whichever comes first. */
static bool same_value(const visit *v, uint32_t index, uint32_t mask)
{
    const sim_access *a = v->a;
    if (!a->value)
        return false;
    for (uint32_t rest = v->active; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        for (uint32_t k = 0; k < a->bytes; k++) {
            uint64_t at = v->addr[l] + k;
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
static bool races_with(const visit *v, race_mark mine, race_mark m,
                       uint32_t warp, int kind)
{
    if (v->kind == RACE_READ && kind == RACE_READ)
        return false;
    if (warp != v->warp)
        return epoch_of(m) > v->clock[warp];
    if (!same_epoch(m, mine) || same_lanes(m, mine))
        return false;
    return v->kind != kind || ((m ^ mine) & INSN);
}

/* One byte of a part: finds races, then leaves its mark. */
static void touch_byte(const visit *v, size_t at, race_mark mine, races *list)
{
    race_mark *own = marks(v->race, RACE_BYTES, v->warp, v->kind) + at;
    if (same_access(*own, mine))
        return;
    for (uint32_t w = 0; w < v->race->warps; w++)
        for (int kind = RACE_WRITE; kind >= RACE_READ; kind--) {
            race_mark m = marks(v->race, RACE_BYTES, w, kind)[at];
            sim_race_other other = {w, epoch_of(m),
                                    (uint32_t)((m & INSN) >> INSN_SHIFT),
                                    kind == RACE_WRITE};
            if (races_with(v, mine, m, w, kind))
                add_race(list, &other, at % RACE_CELL);
        }
    if (v->kind == RACE_READ && same_epoch(*own, mine) &&
        !same_lanes(*own, mine))
        mine |= SEVERAL;
    *own = mine;
}

static void touch_bytes(const visit *v, const part *p)
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
static bool touch_units(const visit *v, const part *p, int level,
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

/* Any part of any cell. */
static void touch(const visit *v, const part *p)
{
    uint64_t *cell = &v->race->cell[p->index];
    uint32_t written = written_word(*cell), read = read_word(*cell);
    int level = written >> LEVEL_SHIFT & 3;
    if (written <= v->stale && read <= v->stale) {
        level = level_of(v, p, RACE_WHOLE);
        written = read = 0;
        if (!has_marks(v, level))
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

/* Whole cells from an address on, whose bytes belong to lanes from `lane` on,
   or to several each. */
static void touch_whole(const visit *v, uint64_t from, uint64_t to,
                        uint32_t lane, bool several)
{
    uint32_t shift = v->shift < 4 ? v->shift : 4;
    for (uint64_t at = from; at < to; at += RACE_CELL) {
        uint32_t first = lane + (uint32_t)((at - from) >> v->shift);
        uint32_t index = (uint32_t)(at / RACE_CELL);
        race_mark mine = v->mine | (several ? SEVERAL : shift << 8 | first);
        part p = {index, 0, RACE_CELL, first,
                  several ? (2u << ((RACE_CELL - 1) >> shift)) - 1 : 0};
        if (!touch_simply(v, RACE_WHOLE, index, index, mine))
            touch(v, &p);
    }
}

/* One lane's bytes, as far as they are in one piece of a cell. */
static inline void touch_lane(const visit *v, uint64_t at, uint32_t lane)
{
    uint32_t bytes = 1u << v->shift;
    if (v->shift >= 4) {
        touch_whole(v, at, at + bytes, lane, false);
        return;
    }
    uint32_t index = (uint32_t)(at / RACE_CELL);
    if (v->shift == 2 && v->own[RACE_WORDS] &&
        touch_simply(v, RACE_WORDS, index, at / 4, v->mine | lane))
        return;
    touch(v, &(part){index, at % RACE_CELL, bytes, lane, 0});
}

/* Lanes side by side from `lane` on; repeated: those of them whose bytes other
   lanes read too. */
static void touch_run(const visit *v, uint64_t from, uint64_t to, uint32_t lane,
                      uint32_t repeated)
{
    uint32_t lanes = (uint32_t)((to - from) >> v->shift);
    bool all = repeated == (2u << (lanes - 1)) - 1;
    for (uint64_t at = from, end; at < to; at = end) {
        uint32_t i = (uint32_t)((at - from) >> v->shift);
        end = at - at % RACE_CELL + RACE_CELL;
        if (end == at + RACE_CELL && end <= to && (!repeated || all)) {
            end = to - to % RACE_CELL;
            touch_whole(v, at, end, lane + i, repeated);
            continue;
        }
        end = end < to ? end : to;
        uint32_t n = (uint32_t)(end - at) >> v->shift;
        part p = {(uint32_t)(at / RACE_CELL), at % RACE_CELL,
                  (uint32_t)(end - at), lane + i,
                  repeated >> i & (n ? (1u << n) - 1 : 1)};
        if (n != 1 || v->shift != 2 || !v->own[RACE_WORDS] ||
            !touch_simply(v, RACE_WORDS, p.index, at / 4,
                          mark_of(v, &p, p.first, RACE_WORDS)))
            touch(v, &p);
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

/* Lanes that continue the one before them, or repeat it. */
static uint32_t joined_lanes(const uint64_t *addr, uint32_t active,
                             uint32_t bytes)
{
    typedef uint32_t four __attribute__((vector_size(16)));
    uint32_t at[SIM_LANES + 4] = {0}, joined = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        at[l + 1] = (uint32_t)addr[l];
    for (uint32_t l = 0; l < SIM_LANES; l += 4) {
        four here, before;
        memcpy(&here, at + l + 1, sizeof here);
        memcpy(&before, at + l, sizeof before);
        four apart = here - before;
        four is =
            ((four)(apart == 0) | (four)(apart == bytes)) & (four){1, 2, 4, 8};
        joined |= (is[0] | is[1] | is[2] | is[3]) << l;
    }
    return joined & active & active << 1;
}

/* Lanes side by side make a run; those behind it that read parts of the run
   again join it. */
static void touch_lanes(const visit *v, uint32_t active)
{
    const uint64_t *addr = v->addr;
    uint32_t bytes = v->a->bytes;
    uint32_t joined = joined_lanes(addr, active, bytes);
    while (active) {
        uint32_t lane = sim_first_lane(active), next = lane, repeated = 0;
        if (!(joined & 2u << lane)) {
            active &= active - 1;
            touch_lane(v, addr[lane], lane);
            continue;
        }
        uint64_t from = addr[lane], to = from;
        while (next < SIM_LANES && (active >> next & 1) && addr[next] == to) {
            to += bytes;
            active &= ~(1u << next++);
        }
        while (next < SIM_LANES && (active >> next & 1) && addr[next] >= from &&
               addr[next] + bytes <= to) {
            repeated |= 1u << ((addr[next] - from) >> v->shift);
            active &= ~(1u << next++);
        }
        touch_run(v, from, to, lane, v->kind == RACE_WRITE ? 0 : repeated);
    }
}

void sim_race_access(sim_race *race, const sim_access *a, uint32_t active,
                     const uint64_t *addr)
{
    uint32_t warp = a->w->index;
    const uint32_t *clock = race_clock(race, warp);
    visit v = {.race = race,
               .a = a,
               .addr = addr,
               .active = active,
               .warp = warp,
               .clock = clock,
               .shift = (uint32_t)__builtin_ctz(a->bytes),
               .stale = race->base << WORD_EPOCH_SHIFT | 255,
               .word = clock[warp] << WORD_EPOCH_SHIFT | warp,
               .kind = a->write ? RACE_WRITE : RACE_READ};
    /* Of one epoch without end nothing can be said. */
    if (clock[warp] >= RACE_EPOCH_MAX || !has_marks(&v, RACE_WHOLE))
        return;
    v.mine = (race_mark)clock[warp] << EPOCH_SHIFT | (race_mark)insn_of(a)
                                                         << INSN_SHIFT;
    for (int level = 0; level < RACE_LEVELS; level++)
        if (race->marks[level]) {
            v.own[level] = marks(race, level, warp, v.kind);
            v.other[level] = marks(race, level, warp, !v.kind);
        }
    race->touched[warp] = true;
    race->last[warp] = clock[warp];
    if (a->run && active == UINT32_MAX)
        touch_run(&v, addr[0], addr[0] + SIM_LANES * a->bytes, 0, 0);
    else
        touch_lanes(&v, active);
}
