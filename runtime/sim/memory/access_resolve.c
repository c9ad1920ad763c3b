/*
 * From addresses to host pointers, space by space, with the checks.
 */
#include "access.h"

#include <stdio.h>

#include "memory_bits.h"
#include "race.h"
#include "taint.h"

void sim_insn_report(sim_warp *w, const sim_insn *in, spt_sim_kind kind,
                     unsigned lane, uint64_t address, const char *detail)
{
    if (w->launch->args.checks) {
        sim_place place;
        sim_place_of(w, in, lane, &place);
        sim_report_add(kind, &place, address, 1, 0, detail);
    }
    if (sim_kind_is_fatal(kind))
        sim_fault(w, kind == SPT_SIM_MISALIGNED ? CUDA_ERROR_MISALIGNED_ADDRESS
                                                : CUDA_ERROR_ILLEGAL_ADDRESS);
}

void sim_access_report(const sim_access *a, spt_sim_kind kind, uint32_t lanes,
                       const char *detail)
{
    unsigned lane = sim_first_lane(lanes);
    if (a->w->launch->args.checks) {
        sim_place place;
        sim_place_of(a->w, a->in, lane, &place);
        sim_report_add(kind, &place, a->addr[lane],
                       (uint64_t)__builtin_popcount(lanes), 0, detail);
    }
    if (sim_kind_is_fatal(kind))
        sim_fault(a->w, kind == SPT_SIM_MISALIGNED
                            ? CUDA_ERROR_MISALIGNED_ADDRESS
                            : CUDA_ERROR_ILLEGAL_ADDRESS);
}

bool sim_whole_warp(sim_warp *w, const sim_insn *in, uint32_t exec)
{
    if (exec == UINT32_MAX)
        return true;
    char detail[80];
    snprintf(detail, sizeof detail, "lanes 0x%08x of the warp are missing",
             ~exec);
    sim_insn_report(w, in, SPT_SIM_DIVERGENT, sim_first_lane(exec), 0, detail);
    return false;
}

static void stage(sim_access *a, uint32_t lanes)
{
    a->staged |= lanes;
    for (; lanes; lanes &= lanes - 1) {
        unsigned l = sim_first_lane(lanes);
        memset(a->scratch[l], SIM_POISON, a->bytes);
        a->at[l] = a->scratch[l];
    }
}

void sim_access_fail(sim_access *a, spt_sim_kind kind, uint32_t lanes,
                     const char *detail)
{
    char text[112];
    snprintf(text, sizeof text, "%s of %u bytes%s%s",
             a->write ? "write" : "read", a->bytes, detail[0] ? ", " : "",
             detail);
    sim_access_report(a, kind, lanes, text);
    a->failed |= lanes;
    stage(a, lanes);
}

/* Drops misaligned lanes; the rest is returned. */
static uint32_t aligned(sim_access *a, uint32_t lanes)
{
    uint64_t any = 0;
    for (int l = 0; l < SIM_LANES; l++)
        any |= lanes >> l & 1 ? a->addr[l] : 0;
    if (!(any & (a->bytes - 1)))
        return lanes;
    uint32_t bad = 0;
    for (int l = 0; l < SIM_LANES; l++)
        if ((lanes >> l & 1) && (a->addr[l] & (a->bytes - 1)))
            bad |= 1u << l;
    sim_access_fail(a, SPT_SIM_MISALIGNED, bad, "");
    return lanes & ~bad;
}

/* Which lanes read bytes whose bit is not set; they get poisoned copies. Bytes
   that the load says are not used do not count. */
static uint32_t unwritten(sim_access *a, const uint64_t *bits,
                          const uint64_t *offset, uint32_t lanes)
{
    uint32_t bad = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        if (bits_all(bits, offset[l], a->bytes))
            continue;
        uint32_t unset = 0;
        memcpy(a->scratch[l], a->at[l], a->bytes);
        for (uint32_t i = 0; i < a->bytes; i++)
            if (!bits_get(bits, offset[l] + i)) {
                a->scratch[l][i] = SIM_POISON;
                unset |= 1u << i;
            }
        a->at[l] = a->scratch[l];
        a->staged |= 1u << l;
        bad |= (uint32_t)((unset & ~a->in->src->unused_bytes) != 0) << l;
    }
    return bad;
}

/* Written bits of a warp's access: checked when reading, set when writing.
   Returns the lanes that read bytes never written. */
static uint32_t written(sim_access *a, uint64_t *bits, const uint64_t *offset,
                        uint32_t lanes, const sim_shape *shape)
{
    uint64_t each = bits_mask(0, a->bytes);
    if (shape) {
        if (!sim_shape_differs(shape, bits, (uint32_t)offset[0], ~UINT64_C(0)))
            return 0;
    } else if (a->run && lanes == UINT32_MAX) {
        uint64_t all = (uint64_t)a->bytes * SIM_LANES;
        if (a->write)
            bits_set(bits, offset[0], all);
        if (a->write || bits_all(bits, offset[0], all))
            return 0;
    } else if ((bits_common(bits, offset, lanes) & each) == each) {
        return 0;
    }
    if (!a->write)
        return unwritten(a, bits, offset, lanes);
    /* Lanes side by side at once: setting is dear. */
    for (uint32_t rest = lanes; rest;) {
        uint64_t from = offset[sim_first_lane(rest)], to = from;
        for (; rest && offset[sim_first_lane(rest)] == to; rest &= rest - 1)
            to += a->bytes;
        bits_set(bits, from, to - from);
    }
    return 0;
}

static void written_global(sim_access *a, const sim_range *r,
                           const uint64_t *offset, uint32_t lanes)
{
    uint32_t bad =
        a->checks && r->bits ? written(a, r->bits, offset, lanes, NULL) : 0;
    if (bad)
        sim_access_report(a, SPT_SIM_UNINIT_GLOBAL, bad, "");
}

static void outside(sim_access *a, uint32_t lane, spt_sim_kind kind)
{
    sim_range r, near;
    char text[80] = "";
    uint64_t va = a->addr[lane];
    if (sim_memory_find(a->w->launch->args.memory, va, &r, &near)) {
        if (r.freed) {
            snprintf(text, sizeof text, "byte %llu of %llu freed",
                     (unsigned long long)(va - r.va),
                     (unsigned long long)r.size);
            kind = SPT_SIM_FREED;
        } else {
            snprintf(text, sizeof text,
                     "ends %llu bytes behind an allocation of %llu",
                     (unsigned long long)(va + a->bytes - r.va - r.size),
                     (unsigned long long)r.size);
        }
    } else if (near.size && va - near.va - near.size < 1 << 20) {
        snprintf(text, sizeof text, "%llu bytes behind an allocation of %llu",
                 (unsigned long long)(va - near.va - near.size),
                 (unsigned long long)near.size);
    }
    sim_access_fail(a, kind, 1u << lane, text);
}

/*
 * True when the accesses of all 32 lanes lie in the size bytes from base on,
 * aligned; then offset and at[] are filled. No branches: top bits and low bits
 * are gathered and looked at once.
 */
static bool all_inside(sim_access *a, uint64_t base, uint64_t size,
                       uint8_t *host, uint64_t *offset)
{
    uint64_t last = size - a->bytes, out = 0, low = 0;
    if (size < a->bytes)
        return false;
    for (int l = 0; l < SIM_LANES; l++) {
        uint64_t at = a->addr[l] - base;
        offset[l] = at;
        low |= a->addr[l];
        out |= at | (last - at);
    }
    if (out >> 63 || (low & (a->bytes - 1)))
        return false;
    for (int l = 0; l < SIM_LANES; l++)
        a->at[l] = host + offset[l];
    return true;
}

/* Lanes inside r, with their offsets and pointers. */
static uint32_t inside(sim_access *a, const sim_range *r, uint32_t lanes,
                       uint64_t *offset)
{
    if (r->size < a->bytes)
        return 0;
    uint64_t limit = r->size - a->bytes;
    uint32_t in = 0;
    for (int l = 0; l < SIM_LANES; l++) {
        offset[l] = a->addr[l] - r->va;
        in |= (uint32_t)(offset[l] <= limit) << l;
    }
    in &= lanes;
    for (uint32_t rest = in; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        a->at[l] = r->host + offset[l];
    }
    return in;
}

static const sim_range *newest(sim_cta_memory *mem, int index)
{
    sim_range r = mem->ranges[index];
    memmove(mem->ranges + 1, mem->ranges, (size_t)index * sizeof r);
    mem->ranges[0] = r;
    return &mem->ranges[0];
}

/* The allocation of an address, the ones used last first. */
static const sim_range *range_of(sim_warp *w, uint64_t va)
{
    sim_cta_memory *mem = sim_cta_memory_of(w);
    for (int i = 0; i < SIM_RANGES; i++) {
        const sim_range *r = &mem->ranges[i];
        if (va - r->va < r->size)
            return newest(mem, i);
    }
    sim_range found;
    if (!sim_memory_find(w->launch->args.memory, va, &found, NULL) ||
        found.freed)
        return NULL;
    mem->ranges[SIM_RANGES - 1] = found;
    return newest(mem, SIM_RANGES - 1);
}

uint8_t *sim_global_span(sim_warp *w, uint64_t address, uint64_t bytes,
                         bool write)
{
    const sim_range *r = range_of(w, address);
    if (!r || r->size < bytes || address - r->va > r->size - bytes)
        return NULL;
    uint64_t at = address - r->va;
    if (write && r->bits)
        bits_set(r->bits, at, bytes);
    else if (r->bits && w->launch->args.checks && !bits_all(r->bits, at, bytes))
        return NULL;
    return r->host + at;
}

static void resolve_global(sim_access *a, uint32_t lanes, spt_sim_kind kind)
{
    if (a->count >= 0)
        sim_count_global(a->w->cta->counts, a->count, a->addr, lanes, a->bytes);
    uint64_t offset[SIM_LANES];
    const sim_range *r = range_of(a->w, a->addr[0]);
    if (r && all_inside(a, r->va, r->size, r->host, offset)) {
        written_global(a, r, offset, lanes);
        return;
    }
    lanes = aligned(a, lanes);
    while (lanes) {
        unsigned first = sim_first_lane(lanes);
        r = range_of(a->w, a->addr[first]);
        uint32_t in = r ? inside(a, r, lanes, offset) : 0;
        if (!(in >> first & 1)) {
            outside(a, first, kind);
            in |= 1u << first;
        } else {
            written_global(a, r, offset, in);
        }
        lanes &= ~in;
    }
}

/* Lanes that touch what a copy has yet to bring; reads get the old bytes. */
static uint32_t in_flight(sim_access *a, uint32_t lanes, const uint64_t *offset,
                          const sim_shape *shape)
{
    const sim_cta_memory *mem = sim_cta_memory_of(a->w);
    uint32_t bad = 0;
    if (shape ? !sim_shape_differs(shape, mem->flight_bits, (uint32_t)offset[0],
                                   0)
              : !(bits_united(mem->flight_bits, offset, lanes) &
                  bits_mask(0, a->bytes)))
        return 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        if (bits_any(mem->flight_bits, offset[l], a->bytes))
            bad |= 1u << l;
    }
    if (bad)
        sim_access_report(
            a, a->write ? SPT_SIM_ASYNC_WRITE : SPT_SIM_ASYNC_READ, bad, "");
    if (bad && !a->write)
        unwritten(a, mem->shared_bits, offset, bad);
    return bad;
}

/* Shared offsets that are in the block's memory; the others are reported. */
static uint32_t inside_shared(sim_access *a, uint32_t lanes,
                              const uint64_t *offset)
{
    sim_cta *cta = a->w->cta;
    uint64_t base = a->w->launch->shared_base;
    uint64_t size = cta->shared_bytes - base;
    uint64_t limit = size >= a->bytes ? size - a->bytes + 1 : 0;
    uint32_t in = 0;
    lanes = aligned(a, lanes);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        a->at[l] = cta->shared + offset[l];
        in |= (uint32_t)(offset[l] - base < limit) << l;
    }
    if (in != lanes) {
        char text[64];
        snprintf(text, sizeof text, "the block has bytes %llu to %u",
                 (unsigned long long)base, cta->shared_bytes);
        sim_access_fail(a, SPT_SIM_BOUNDS_SHARED, lanes & ~in, text);
    }
    return in;
}

/* sound: all lanes have an offset in shared memory. */
static void check_shared(sim_access *a, uint32_t lanes, const uint64_t *offset,
                         const uint32_t *at, bool sound)
{
    sim_cta_memory *mem = a->w->cta->memory;
    const sim_shape *shape = NULL;
    uint32_t bad = 0;
    if (sound && a->bytes < SIM_CELL)
        shape = sim_shape_of(mem->shapes, at, lanes, a->bytes, a->write);
    if (mem->flights)
        bad = in_flight(a, lanes, offset, shape);
    if (bad)
        shape = NULL;
    lanes &= ~bad;
    bad = 0;
    if (!a->strong && lanes)
        sim_race_access(mem->race, a, lanes, at, shape);
    if (!a->async && lanes)
        bad = written(a, mem->shared_bits, offset, lanes, shape);
    if (bad || a->w->cta->undefined)
        sim_taint_access(a, SPT_SIM_UNINIT_SHARED, lanes, bad, offset);
}

static void resolve_shared(sim_access *a, uint32_t lanes, uint64_t window)
{
    sim_cta *cta = a->w->cta;
    uint64_t offset[SIM_LANES], base = a->w->launch->shared_base;
    bool sound = all_inside(a, window + base, cta->shared_bytes - base,
                            cta->shared + base, offset);
    if (sound) {
        if (!a->checks && (a->count < 0 || !cta->counts))
            return;
        for (int l = 0; l < SIM_LANES; l++)
            offset[l] += base;
    } else {
        for (int l = 0; l < SIM_LANES; l++)
            offset[l] = a->addr[l] - window;
        lanes = sim_access_peers(a, lanes, offset);
        lanes = inside_shared(a, lanes, offset);
    }
    uint32_t at[SIM_LANES];
    for (int l = 0; l < SIM_LANES; l++)
        at[l] = (uint32_t)offset[l];
    if (a->count >= 0)
        sim_count_shared(cta->counts, a->count, at, lanes, a->bytes);
    if (a->checks && lanes)
        check_shared(a, lanes, offset, at, sound);
}

/* Byte position in w->local of byte a of lane l. */
static inline uint64_t local_at(uint64_t a, unsigned l)
{
    return ((a >> 2) * SIM_LANES + l) * 4 + (a & 3);
}

/* Words of one lane are apart: local accesses always go through scratch. */
static void local_lane(sim_access *a, unsigned l, uint64_t offset, bool out)
{
    uint8_t *local = a->w->local;
    for (uint32_t i = 0; i < a->bytes;) {
        uint32_t n = a->bytes - i < 4 ? a->bytes - i : 4;
        uint8_t *word = local + local_at(offset + i, l);
        if (out)
            memcpy(word, a->scratch[l] + i, n);
        else
            memcpy(a->scratch[l] + i, word, n);
        i += n;
    }
}

static bool local_written(sim_access *a, unsigned l, uint64_t offset)
{
    uint64_t *bits = ((sim_warp_memory *)a->w->memory)->local_bits;
    bool all = true;
    for (uint32_t i = 0; i < a->bytes; i++) {
        uint64_t at = local_at(offset + i, l);
        if (a->write) {
            bits_set(bits, at, 1);
        } else if (!bits_get(bits, at)) {
            a->scratch[l][i] = SIM_POISON;
            all = false;
        }
    }
    return all;
}

static void resolve_local(sim_access *a, uint32_t lanes, uint64_t window)
{
    sim_warp *w = a->w;
    a->run = false;
    if (a->count >= 0) {
        uint64_t at[SIM_LANES];
        uint64_t base =
            SIM_LOCAL_WINDOW + w->index * w->local_bytes * SIM_LANES;
        for (unsigned l = 0; l < SIM_LANES; l++)
            at[l] = base + local_at(a->addr[l] - window, l);
        sim_count_global(w->cta->counts,
                         a->write ? SIM_COUNT_LOCAL_ST : SIM_COUNT_LOCAL_LD, at,
                         lanes, a->bytes < 4 ? a->bytes : 4);
    }
    lanes = aligned(a, lanes);
    uint32_t bad = 0, unset = 0;
    uint64_t offsets[SIM_LANES];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t offset = offsets[l] = a->addr[l] - window;
        if (w->local_bytes < a->bytes || offset > w->local_bytes - a->bytes) {
            bad |= 1u << l;
            continue;
        }
        a->at[l] = a->scratch[l];
        if (a->write)
            a->local |= 1u << l;
        else
            local_lane(a, l, offset, false);
        if (a->checks && !local_written(a, l, offset))
            unset |= 1u << l;
    }
    if (bad) {
        char text[48];
        snprintf(text, sizeof text, "a thread has %llu bytes",
                 (unsigned long long)w->local_bytes);
        sim_access_fail(a, SPT_SIM_BOUNDS_LOCAL, bad, text);
    }
    if (unset || w->taint)
        sim_taint_access(a, SPT_SIM_UNINIT_LOCAL, lanes & ~bad, unset, offsets);
}

static void resolve_param(sim_access *a, uint32_t lanes, uint64_t window)
{
    const sim_launch *launch = a->w->launch;
    uint64_t size = launch->func->param_bytes;
    a->run = false;
    if (a->write) {
        sim_access_fail(a, SPT_SIM_READ_ONLY, lanes, "a kernel's parameter");
        return;
    }
    lanes = aligned(a, lanes);
    uint32_t bad = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t offset = a->addr[l] - window;
        if (size < a->bytes || offset > size - a->bytes) {
            bad |= 1u << l;
            continue;
        }
        a->at[l] = a->scratch[l];
        memcpy(a->scratch[l], launch->params + offset, a->bytes);
    }
    if (bad)
        sim_access_fail(a, SPT_SIM_BOUNDS_PARAM, bad, "");
}

static unsigned space_of(uint64_t address)
{
    switch (address >> 40) {
    case SIM_SHARED_WINDOW >> 40:
        return PTX_SHARED;
    case SIM_LOCAL_WINDOW >> 40:
        return PTX_LOCAL;
    case SIM_PARAM_WINDOW >> 40:
        return PTX_PARAM;
    default:
        return PTX_GLOBAL;
    }
}

static void resolve_in(sim_access *a, unsigned space, uint32_t lanes,
                       bool generic)
{
    switch (space) {
    case PTX_SHARED:
        resolve_shared(a, lanes, generic ? SIM_SHARED_WINDOW : 0);
        break;
    case PTX_LOCAL:
        resolve_local(a, lanes, generic ? SIM_LOCAL_WINDOW : 0);
        break;
    case PTX_PARAM:
        resolve_param(a, lanes, generic ? SIM_PARAM_WINDOW : 0);
        break;
    case PTX_CONST:
        resolve_global(a, lanes, SPT_SIM_BOUNDS_CONST);
        break;
    default:
        resolve_global(a, lanes, SPT_SIM_BOUNDS_GLOBAL);
    }
}

static bool side_by_side(const sim_access *a)
{
    uint64_t apart = 0;
    for (uint64_t l = 0; l < SIM_LANES; l++)
        apart |= a->addr[l] ^ (a->addr[0] + l * a->bytes);
    return !apart;
}

static void fill_idle(sim_access *a)
{
    uint64_t address = a->addr[sim_first_lane(a->exec)];
    for (unsigned l = 0; l < SIM_LANES; l++)
        a->addr[l] = a->exec >> l & 1 ? a->addr[l] : address;
}

void sim_access_resolve(sim_access *a, unsigned space)
{
    a->staged = a->local = a->failed = 0;
    a->run = a->exec == UINT32_MAX && side_by_side(a);
    if (a->exec != UINT32_MAX)
        fill_idle(a);
    if (space != PTX_GENERIC) {
        resolve_in(a, space, a->exec, false);
        return;
    }
    for (uint32_t rest = a->exec; rest;) {
        unsigned first = space_of(a->addr[sim_first_lane(rest)]);
        uint32_t lanes = 0;
        for (unsigned l = 0; l < SIM_LANES; l++)
            if ((rest >> l & 1) && space_of(a->addr[l]) == first)
                lanes |= 1u << l;
        resolve_in(a, first, lanes, true);
        rest &= ~lanes;
    }
}

void sim_access_finish(sim_access *a)
{
    for (uint32_t rest = a->local; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t offset = a->addr[l];
        if (a->addr[l] >> 40 == SIM_LOCAL_WINDOW >> 40)
            offset -= SIM_LOCAL_WINDOW;
        local_lane(a, l, offset, true);
    }
}
