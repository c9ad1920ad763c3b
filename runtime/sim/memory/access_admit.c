/*
 * What the handlers of whole warps (lanes_memory.c, lanes_copy.c) have found
 * in bounds is checked and counted here, in a launch with checks. Where there
 * is something to tell but a race, the instruction's sim_op does it all.
 */
#include "access.h"
#include "memory_bits.h"
#include "race.h"

static bool in_a_row(const uint32_t *at, uint32_t exec, uint32_t bytes)
{
    uint32_t apart = ~exec;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        apart |= at[l] ^ (at[0] + l * bytes);
    return !apart;
}

/* Sets written bits; lanes side by side at once: setting is dear. */
static void set_written(uint64_t *bits, const uint32_t *at, uint32_t exec,
                        uint32_t bytes)
{
    for (uint32_t rest = exec; rest;) {
        uint64_t from = at[sim_first_lane(rest)], to = from;
        for (; rest && at[sim_first_lane(rest)] == to; rest &= rest - 1)
            to += bytes;
        bits_set(bits, from, to - from);
    }
}

static bool admit_global(sim_warp *w, const uint8_t *host, const uint32_t *at,
                         uint32_t exec, uint32_t bytes, bool write)
{
    const sim_cta_memory *mem = w->cta->memory;
    const sim_range *r = mem->ranges;
    while (r->host != host)
        r++;
    uint64_t each = bits_mask(0, bytes), all = (uint64_t)bytes * SIM_LANES;
    bool row = in_a_row(at, exec, bytes);
    if (r->bits && row && write)
        bits_set(r->bits, at[0], all);
    else if (r->bits &&
             !(row ? bits_all(r->bits, at[0], all)
                   : (bits_common32(r->bits, at, exec) & each) == each)) {
        if (!write)
            return false;
        set_written(r->bits, at, exec, bytes);
    }
    if (w->cta->counts) {
        uint64_t address[SIM_LANES];
        for (int l = 0; l < SIM_LANES; l++)
            address[l] = r->va + at[l];
        sim_count_global(w->cta->counts, write ? SIM_COUNT_ST : SIM_COUNT_LD,
                         address, exec, bytes);
    }
    return true;
}

static void check_race(const sim_insn *in, sim_warp *w, const uint8_t *regs,
                       const uint32_t *at, uint32_t exec, uint32_t bytes,
                       bool write, const sim_shape *shape)
{
    sim_access a;
    sim_access_begin(&a, in, w, exec, bytes, write, true);
    if (write) {
        a.value = &in->args->arg[in->args->first[1]];
        a.regs = regs;
        a.element = ptx_type_bytes(in->src->types[0]);
    }
    sim_race_access(sim_cta_memory_of(w)->race, &a, exec, at, shape);
}

static void count_shared(sim_counts *counts, const uint32_t *at, uint32_t exec,
                         uint32_t bytes, bool write, sim_shape *shape)
{
    int kind = write ? SIM_COUNT_ST : SIM_COUNT_LD;
    if (!shape) {
        sim_count_shared(counts, kind, at, exec, bytes);
        return;
    }
    if (!shape->wavefronts.ideal)
        shape->wavefronts = sim_wavefronts_of(at, exec, bytes, false);
    sim_count_wavefronts(counts, kind, shape->wavefronts);
}

static bool admit_shared(const sim_insn *in, sim_warp *w, const uint8_t *regs,
                         const uint32_t *from, uint32_t exec, uint32_t bytes,
                         bool write)
{
    sim_cta_memory *mem = w->cta->memory;
    uint32_t at[SIM_LANES], base = w->launch->shared_base;
    for (int l = 0; l < SIM_LANES; l++)
        at[l] = from[l] + base;
    sim_shape *shape = bytes < SIM_CELL
                           ? sim_shape_of(mem->shapes, at, exec, bytes, write)
                           : NULL;
    uint64_t each = bits_mask(0, bytes);
    if (mem->flights &&
        (shape ? sim_shape_differs(shape, mem->flight_bits, at[0], 0)
               : (bits_united32(mem->flight_bits, at, exec) & each) != 0))
        return false;
    bool lacks =
        shape ? sim_shape_differs(shape, mem->shared_bits, at[0], ~UINT64_C(0))
              : (bits_common32(mem->shared_bits, at, exec) & each) != each;
    if (lacks && !write)
        return false;
    if (lacks)
        set_written(mem->shared_bits, at, exec, bytes);
    check_race(in, w, regs, at, exec, bytes, write, shape);
    if (w->cta->counts)
        count_shared(w->cta->counts, at, exec, bytes, write, shape);
    return true;
}

bool sim_admit(const sim_insn *in, sim_warp *w, const uint8_t *regs,
               const uint8_t *host, const uint32_t *at, uint32_t exec,
               uint32_t bytes, bool write)
{
    const sim_cta *cta = w->cta;
    if (!w->launch->args.checks)
        return false;
    if (host != cta->shared + w->launch->shared_base)
        return admit_global(w, host, at, exec, bytes, write);
    return !cta->undefined && admit_shared(in, w, regs, at, exec, bytes, write);
}
