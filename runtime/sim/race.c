/*
 * Vector clocks and cells, and for each byte the lane that last read and that
 * last wrote it: within a warp, lanes are ordered by warp-wide instructions
 * only, each of which begins an epoch of the warp. A cell holds SIM_RECORDS
 * accesses; one that no warp can race with any more is free, and where none
 * is, the oldest goes: a race may then be missed, but none is invented.
 *
 * Clocks run on from CTA to CTA, with all warps joined in between, so that
 * cells need no clearing.
 */
#include "race.h"

#include <stdio.h>

enum {
    SIM_RECORDS = 4,
    CELL = 16,
    EPOCH_BITS = 20,
    EPOCH_MAX = (1 << EPOCH_BITS) - 1,
    INSN_ELSEWHERE = (1 << 20) - 1, /* in a function that was called */
};

/* insn:20 epoch:20 mask:16 warp:6 write:1, 0 = none (epochs start at 1). */
typedef uint64_t record;
typedef struct cell {
    record r[SIM_RECORDS];
} cell;

/* Of each byte of a cell, a lane. */
typedef uint8_t lanes __attribute__((vector_size(CELL)));
enum { SEVERAL = 0xff };

typedef struct cell_lanes {
    lanes reader, writer;
} cell_lanes;

struct sim_race {
    uint32_t warps, cells;
    uint32_t base; /* accesses up to this epoch race with nobody */
    uint32_t *clock; /* (warp, warp) */
    uint32_t *joined; /* (warp) */
    uint32_t *atomics;
    bool *touched; /* (warp) in its present epoch */
    cell *cell;
    cell_lanes *lanes; /* (cells) */
};

/* Bits of epoch, warp and kind. */
#define SAME_ACCESS ((uint64_t)EPOCH_MAX << 23 | 127)

static inline uint32_t rec_epoch(record r)
{
    return r >> 23 & EPOCH_MAX;
}
static inline uint32_t rec_mask(record r)
{
    return r >> 7 & 0xffff;
}
static inline uint32_t rec_warp(record r)
{
    return r >> 1 & 63;
}
static inline bool rec_write(record r)
{
    return r & 1;
}

static inline record make(uint32_t insn, uint32_t epoch, uint32_t mask,
                          uint32_t warp, bool write)
{
    return (uint64_t)insn << 43 | (uint64_t)epoch << 23 | (uint64_t)mask << 7 |
           warp << 1 | write;
}

void sim_race_delete(sim_race *race)
{
    if (!race)
        return;
    spt_free(race->clock);
    spt_free(race->cell);
    free(race->lanes);
    spt_free(race->touched);
    spt_free(race);
}

sim_race *sim_race_new(uint32_t shared_bytes, uint32_t warps)
{
    sim_race *race = spt_calloc(1, sizeof *race);
    if (!race)
        return NULL;
    race->warps = warps;
    race->cells = (shared_bytes + CELL - 1) / CELL;
    race->clock = spt_calloc((size_t)warps * (warps + 2), sizeof(uint32_t));
    race->cell = spt_calloc(race->cells + 1, sizeof *race->cell);
    race->lanes = aligned_alloc(sizeof(cell_lanes),
                                (race->cells + 1) * sizeof(cell_lanes));
    race->touched = spt_calloc(warps, sizeof *race->touched);
    if (!race->clock || !race->cell || !race->lanes || !race->touched) {
        sim_race_delete(race);
        return NULL;
    }
    race->joined = race->clock + (size_t)warps * warps;
    race->atomics = race->joined + warps;
    return race;
}

static uint32_t *clock_of(const sim_race *race, uint32_t warp)
{
    return race->clock + (size_t)warp * race->warps;
}

void sim_race_begin(sim_race *race)
{
    uint32_t n = race->warps, top = 0;
    for (uint32_t w = 0; w < n; w++)
        if (clock_of(race, w)[w] > top)
            top = clock_of(race, w)[w];
    if (top > EPOCH_MAX / 2) {
        memset(race->cell, 0, race->cells * sizeof *race->cell);
        top = 0;
    }
    race->base = top;
    for (size_t i = 0; i < (size_t)n * n; i++)
        race->clock[i] = top;
    for (uint32_t w = 0; w < n; w++) {
        clock_of(race, w)[w] = top + 1;
        race->atomics[w] = top;
    }
}

static void advance(sim_race *race, uint32_t warp)
{
    uint32_t *own = &clock_of(race, warp)[warp];
    if (*own < EPOCH_MAX)
        ++*own;
}

void sim_race_warp(sim_race *race, uint32_t warp)
{
    /* Epochs are few: one in which nothing happened goes on. */
    if (race->touched[warp])
        advance(race, warp);
    race->touched[warp] = false;
}

void sim_race_barrier(sim_race *race, const uint32_t *synced)
{
    uint32_t n = race->warps;
    memset(race->joined, 0, n * sizeof *race->joined);
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t v = 0; synced[w] && v < n; v++)
            if (clock_of(race, w)[v] > race->joined[v])
                race->joined[v] = clock_of(race, w)[v];
    for (uint32_t w = 0; w < n; w++)
        if (synced[w]) {
            memcpy(clock_of(race, w), race->joined, n * sizeof(uint32_t));
            advance(race, w);
        }
}

void sim_race_release(sim_race *race, uint32_t warp, uint32_t *clock)
{
    const uint32_t *own = clock_of(race, warp);
    for (uint32_t v = 0; v < race->warps; v++)
        if (own[v] > clock[v])
            clock[v] = own[v];
    advance(race, warp);
}

void sim_race_acquire(sim_race *race, uint32_t warp, const uint32_t *clock)
{
    uint32_t *own = clock_of(race, warp);
    for (uint32_t v = 0; v < race->warps; v++)
        if (v != warp && clock[v] > own[v])
            own[v] = clock[v];
}

uint32_t *sim_race_atomics(sim_race *race)
{
    return race->atomics;
}

static void tell(const sim_race *race, const sim_access *a, uint32_t lane,
                 uint64_t address, record other)
{
    (void)race;
    const sim_launch *launch = a->w->launch;
    uint32_t index = (uint32_t)(other >> 43);
    char where[80] = "a called function";
    sim_place place;
    sim_place_of(a->w, a->in, lane, &place);
    if (index < launch->func->n_insns) {
        const ptx_insn *insn = &launch->func->insns[index];
        const ptx_module *m = launch->module;
        const char *file = insn->file < m->n_files && m->files[insn->file]
                               ? m->files[insn->file]
                               : NULL;
        const char *slash = file ? strrchr(file, '/') : NULL;
        if (insn->line && file)
            snprintf(where, sizeof where, "%.60s:%u", slash ? slash + 1 : file,
                     insn->line);
        else
            snprintf(where, sizeof where, "PTX line %u", insn->ptx_line);
    }
    char detail[160], who[32] = "another thread of the warp";
    if (rec_warp(other) != a->w->index)
        snprintf(who, sizeof who, "warp %u", rec_warp(other));
    snprintf(detail, sizeof detail, "%s here, %s %s at %s",
             a->write ? "write" : "read", who,
             rec_write(other) ? "wrote" : "read", where);
    spt_sim_kind kind =
        a->write && rec_write(other) ? SPT_SIM_RACE_WRITE : SPT_SIM_RACE_READ;
    sim_report_add(kind, &place, address, 1, index + 1, detail);
}

typedef struct visit {
    const sim_access *a;
    const uint64_t *addr; /* of the lanes in `active` */
    uint32_t active;
    const uint32_t *clock;
    uint32_t warp, insn, epoch;
    int shift; /* bytes of a lane: 1 << shift */
} visit;

/* Bytes of one cell that lanes side by side access. */
typedef struct part {
    uint32_t index, mask; /* of the cell; its bytes */
    lanes who; /* of the bytes in mask */
    uint32_t lane; /* of the first byte, for a report */
    uint64_t address;
} part;

/* One bit for each byte of a comparison's result, and the reverse. */
static inline uint32_t bits_of_bytes(lanes bytes)
{
#ifdef __SSE2__
    typedef char signs __attribute__((vector_size(CELL)));
    return (uint32_t)__builtin_ia32_pmovmskb128((signs)bytes);
#else
    uint32_t bits = 0;
    for (uint32_t i = 0; i < CELL; i++)
        bits |= (uint32_t)(bytes[i] >> 7) << i;
    return bits;
#endif
}

static inline lanes bytes_of_bits(uint32_t bits)
{
    const lanes each = {1, 2, 4, 8, 16, 32, 64, 128,
                        1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t spread = UINT64_C(0x0101010101010101);
    const uint64_t halves[2] = {(bits & 255) * spread, (bits >> 8) * spread};
    lanes bytes;
    memcpy(&bytes, halves, sizeof bytes);
    return (lanes)((bytes & each) == each);
}

/* Those of the bytes whose lane is not the one that is known. */
static inline uint32_t others(const lanes *known, const lanes *who,
                              uint32_t mask)
{
    return bits_of_bytes((lanes)(*known != *who)) & mask;
}

/* Notes who accesses the bytes; fresh: those that no lane has read before in
   this epoch. Of several readers none is remembered. */
static inline void note(cell_lanes *l, const part *p, bool write,
                        uint32_t fresh)
{
    lanes *known = write ? &l->writer : &l->reader;
    if (write)
        fresh = p->mask;
    lanes now = bytes_of_bits(fresh);
    lanes several =
        bytes_of_bits(p->mask) & (lanes)(*known != p->who); /* SEVERAL */
    *known = (now & p->who) | (~now & (*known | several));
}

/* Another lane of the warp, in the same epoch? Lanes of one instruction that
   write the same bytes are left alone. */
static inline bool lanes_race(const cell_lanes *l, const visit *v,
                              const part *p, record r)
{
    uint32_t both = rec_mask(r) & p->mask;
    if (rec_epoch(r) != v->epoch || v->epoch == EPOCH_MAX || !both ||
        (r >> 43 == v->insn && v->a->write && rec_write(r)))
        return false;
    if (rec_write(r))
        return others(&l->writer, &p->who, both) != 0;
    return v->a->write && others(&l->reader, &p->who, both) != 0;
}

/* Writing what is there already harms nobody, whichever comes first. */
static bool same_value(const visit *v, const part *p, uint32_t mask)
{
    const sim_access *a = v->a;
    const uint8_t *shared = a->w->cta->shared;
    if (!a->value)
        return false;
    for (uint32_t rest = v->active; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        for (uint32_t k = 0; k < a->bytes; k++) {
            uint64_t at = v->addr[l] + k;
            const sim_arg *from = &a->value[k / a->element];
            const uint8_t *value = a->regs + from->slot + l * from->width;
            if (at / CELL == p->index && (mask >> at % CELL & 1) &&
                shared[at] != value[k % a->element])
                return false;
        }
    }
    return true;
}

static void found(const sim_race *race, const visit *v, const part *p, record r)
{
    bool writes = v->a->write && rec_write(r);
    if (!writes || !same_value(v, p, rec_mask(r) & p->mask))
        tell(race, v->a, p->lane, p->address, r);
}

/* One cell: compare with what is there, then remember this access. */
static void touch(sim_race *race, const visit *v, const part *p)
{
    cell *c = &race->cell[p->index];
    cell_lanes *l = &race->lanes[p->index];
    uint32_t mask = p->mask;
    record mine = make(v->insn, v->epoch, mask, v->warp, v->a->write);
    for (int i = 0; i < SIM_RECORDS; i++)
        if (!((c->r[i] ^ mine) & SAME_ACCESS) && !(mask & ~rec_mask(c->r[i])) &&
            !others(v->a->write ? &l->writer : &l->reader, &p->who, mask))
            return;
    int free_at = -1, same = -1, oldest = 0;
    for (int i = 0; i < SIM_RECORDS; i++) {
        record r = c->r[i];
        uint32_t epoch = rec_epoch(r), warp = rec_warp(r);
        if (epoch <= race->base) {
            free_at = i;
            continue;
        }
        if (warp == v->warp) {
            if (rec_write(r) == v->a->write)
                same = i;
            if (lanes_race(l, v, p, r))
                found(race, v, p, r);
        } else if ((v->a->write || rec_write(r)) && (rec_mask(r) & mask) &&
                   v->clock[warp] < epoch) {
            found(race, v, p, r);
        }
        record o = c->r[oldest];
        if (epoch < rec_epoch(o) ||
            (epoch == rec_epoch(o) && warp < rec_warp(o)))
            oldest = i;
    }
    bool again = same >= 0 && rec_epoch(c->r[same]) == v->epoch;
    note(l, p, v->a->write, again ? mask & ~rec_mask(c->r[same]) : mask);
    if (again)
        c->r[same] = make(v->insn, v->epoch, mask | rec_mask(c->r[same]),
                          v->warp, v->a->write);
    else if (same >= 0 && !(rec_mask(c->r[same]) & ~mask))
        c->r[same] = mine;
    else
        c->r[free_at >= 0 ? free_at : oldest] = mine;
}

/* Lanes side by side from `lane` on; several: others read the same bytes. */
static void touch_run(sim_race *race, const visit *v, uint64_t from,
                      uint64_t to, uint32_t lane, bool several)
{
    static const lanes offsets[] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
        {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3},
        {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
        {0},
    };
    for (uint64_t at = from; at < to;) {
        uint32_t first = at % CELL;
        uint32_t n =
            to - at < CELL - first ? (uint32_t)(to - at) : CELL - first;
        uint32_t owner = lane + (uint32_t)((at - from) >> v->shift);
        part p = {.index = (uint32_t)(at / CELL),
                  .mask = ((1u << n) - 1) << first,
                  .lane = owner,
                  .address = at};
        /* Bytes before `first` do not count, so that they may wrap. */
        uint32_t skipped = v->shift < 4 ? first >> v->shift : 0;
        p.who =
            offsets[v->shift < 4 ? v->shift : 4] + (uint8_t)(owner - skipped);
        if (several)
            p.who |= (uint8_t)SEVERAL;
        touch(race, v, &p);
        at += n;
    }
}

void sim_race_access(sim_race *race, const sim_access *a, uint32_t active,
                     const uint64_t *addr)
{
    uint32_t warp = a->w->index;
    const ptx_func *func = a->w->launch->func;
    visit v = {.a = a,
               .addr = addr,
               .active = active,
               .warp = warp,
               .clock = clock_of(race, warp)};
    race->touched[warp] = true;
    v.insn =
        a->in->src >= func->insns && a->in->src < func->insns + func->n_insns
            ? (uint32_t)(a->in->src - func->insns)
            : INSN_ELSEWHERE;
    if (v.insn > INSN_ELSEWHERE)
        v.insn = INSN_ELSEWHERE;
    v.epoch = v.clock[warp];
    v.shift = __builtin_ctz(a->bytes);
    if (a->run && active == UINT32_MAX) {
        touch_run(race, &v, addr[0], addr[0] + SIM_LANES * a->bytes, 0, false);
        return;
    }
    while (active) {
        uint32_t lane = sim_first_lane(active), next = lane;
        uint64_t from = addr[lane], to = from;
        bool several = false;
        /* Lanes side by side make one run; repeats of a run are read by
           several lanes. */
        while (next < SIM_LANES && (active >> next & 1) && addr[next] == to) {
            to += a->bytes;
            active &= ~(1u << next++);
        }
        while (next < SIM_LANES && (active >> next & 1) && addr[next] >= from &&
               addr[next] + a->bytes <= to) {
            active &= ~(1u << next++);
            several = !a->write;
        }
        touch_run(race, &v, from, to, lane, several);
    }
}
