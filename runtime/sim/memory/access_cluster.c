/*
 * Shared memory of other CTAs of the cluster: accesses to it, and addresses of
 * it. Races are looked for in the own CTA's accesses alone; what a CTA orders
 * by way of another one counts as ordered.
 */
#include "access.h"

#include <stdio.h>

#include "memory_bits.h"
#include "race.h"
#include "taint.h"

static bool is_there(sim_access *a, unsigned lane, const sim_cta *peer,
                     uint64_t rank, uint64_t offset)
{
    char text[80];
    uint64_t base = a->w->launch->shared_base;
    if (!peer)
        snprintf(text, sizeof text, "the cluster has no block of rank %llu",
                 (unsigned long long)rank);
    else if (sim_cta_has_ended(peer))
        snprintf(text, sizeof text,
                 "the cluster's block of rank %llu has ended",
                 (unsigned long long)rank);
    else if (offset < base || peer->shared_bytes < a->bytes ||
             offset > peer->shared_bytes - a->bytes)
        snprintf(text, sizeof text, "a block has bytes %llu to %u",
                 (unsigned long long)base, peer->shared_bytes);
    else if (offset & (a->bytes - 1)) {
        sim_access_fail(a, SPT_SIM_MISALIGNED, 1u << lane, "");
        return false;
    } else
        return true;
    sim_access_fail(a, SPT_SIM_BOUNDS_SHARED, 1u << lane, text);
    return false;
}

static void check_peer(sim_access *a, unsigned lane, sim_cta *peer,
                       uint64_t offset)
{
    sim_cta_memory *mem = peer->memory;
    uint32_t one = 1u << lane;
    if (a->strong)
        for (uint32_t i = 0; i < peer->n_warps; i++)
            sim_race_release(mem->race, i, sim_race_atomics(mem->race));
    if (bits_any(mem->flight_bits, offset, a->bytes))
        sim_access_report(
            a, a->write ? SPT_SIM_ASYNC_WRITE : SPT_SIM_ASYNC_READ, one, "");
    if (a->write) {
        bits_set(mem->shared_bits, offset, a->bytes);
        sim_taint_shared_written(peer, offset, a->bytes);
    } else if (!bits_all(mem->shared_bits, offset, a->bytes)) {
        sim_access_report(a, SPT_SIM_UNINIT_SHARED, one, "");
    }
}

uint32_t sim_access_peers(sim_access *a, uint32_t lanes, uint64_t *offset)
{
    sim_cta *own = a->w->cta;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t rank = offset[l] >> SIM_SHARED_RANK_SHIFT;
        if (!rank)
            continue;
        sim_cta *peer = sim_shared_cta(own, offset[l]);
        offset[l] &= SIM_SHARED_OFFSET_MASK;
        if (peer == own)
            continue;
        a->run = false;
        lanes &= ~(1u << l);
        if (!is_there(a, l, peer, rank - 1, offset[l]))
            continue;
        a->at[l] = peer->shared + offset[l];
        if (a->checks)
            check_peer(a, l, peer, offset[l]);
    }
    return lanes;
}

/* ---- addresses ---- */

static uint64_t value_of(const sim_arg *arg, const uint8_t *regs, unsigned lane)
{
    uint64_t value = 0;
    memcpy(&value, regs + arg->slot + arg->width * lane,
           arg->width < 8 ? arg->width : 8);
    return value;
}

static const sim_arg *operand(const sim_insn *in, int i)
{
    return &in->args->arg[in->args->first[i]];
}

static void put(const sim_arg *arg, uint8_t *regs, unsigned lane,
                uint64_t value)
{
    memcpy(regs + arg->slot + arg->width * lane, &value, arg->width);
}

static void op_mapa(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t at = value_of(operand(in, 1), regs, l);
        uint64_t rank = value_of(operand(in, 2), regs, l) & UINT32_MAX;
        if (rank >= w->cta->cluster->n) {
            char detail[64];
            snprintf(detail, sizeof detail,
                     "rank %llu in a cluster of %u blocks",
                     (unsigned long long)rank, w->cta->cluster->n);
            sim_insn_report(w, in, SPT_SIM_OPERAND, l, at, detail);
            rank = 254;
        }
        uint64_t window = at >= SIM_SHARED_WINDOW ? SIM_SHARED_WINDOW : 0;
        put(operand(in, 0), regs, l,
            window | (rank + 1) << SIM_SHARED_RANK_SHIFT |
                (at & SIM_SHARED_OFFSET_MASK));
    }
}

static void op_getctarank(const sim_insn *in, sim_warp *w, uint8_t *regs,
                          uint32_t exec)
{
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint64_t at = sim_shared_offset(value_of(operand(in, 1), regs, l));
        uint64_t rank = at >> SIM_SHARED_RANK_SHIFT;
        put(operand(in, 0), regs, l, rank ? rank - 1 : w->cta->rank);
    }
}

sim_op sim_cluster_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_MAPA:
        return op_mapa;
    case PTX_OP_GETCTARANK:
        return op_getctarank;
    default:
        return NULL;
    }
}
