/*
 * cp.async.bulk and cp.reduce.async.bulk between global memory and the CTA's
 * own shared memory: what one thread starts for many bytes.
 *
 * A load is done when somebody looks at its mbarrier, a store or a reduction
 * when its thread waits for its group, or at the end: as late as the rules
 * allow. Without checks it is done when it is issued. Both ways it counts as
 * the copy engine's accesses of 16 bytes, 32 at once.
 */
#include "async.h"

#include <stdio.h>

#include "memory_bits.h"
#include "race.h"
#include "taint.h"

static sim_async *async_of(const sim_warp *w)
{
    return ((sim_warp_memory *)w->memory)->async;
}

static bool is_load(const sim_insn *in)
{
    return sim_bulk_is_load(in);
}

void sim_bulk_count_end(sim_bulk_tally *tally, sim_warp *w)
{
    sim_counts *counts = w->cta->counts;
    bool load = is_load(tally->bulk->in);
    uint32_t lanes =
        tally->units < SIM_LANES ? (1u << tally->units) - 1 : UINT32_MAX;
    sim_count_global(counts, load ? SIM_COUNT_ASYNC : SIM_COUNT_ST,
                     tally->global, lanes, SIM_CHUNK);
    sim_count_shared(counts, load ? SIM_COUNT_ASYNC : SIM_COUNT_LD,
                     tally->shared, lanes, SIM_CHUNK);
    tally->units = 0;
}

void sim_bulk_count(sim_bulk_tally *tally, sim_warp *w, uint64_t global,
                    uint32_t shared)
{
    if (!w->cta->counts || tally->bulk->again)
        return;
    tally->global[tally->units] = global;
    tally->shared[tally->units] = shared;
    if (++tally->units == SIM_LANES)
        sim_bulk_count_end(tally, w);
}

static void count(sim_warp *w, const sim_bulk *bulk)
{
    uint64_t global = is_load(bulk->in) ? bulk->from : bulk->to;
    uint64_t shared = is_load(bulk->in) ? bulk->to : bulk->from;
    sim_bulk_tally tally = {.bulk = bulk};
    if (bulk->in->src->space == bulk->in->src->space2)
        return;
    for (uint32_t at = 0; at < bulk->bytes; at += SIM_CHUNK)
        sim_bulk_count(&tally, w, global + at, (uint32_t)shared + at);
    sim_bulk_count_end(&tally, w);
}

uint8_t *sim_bulk_place(sim_access *a, sim_warp *w, const sim_bulk *bulk,
                        uint64_t address, uint32_t bytes, unsigned space,
                        bool write)
{
    sim_access_begin(a, bulk->in, w, 1u << bulk->lane, bytes, write,
                     w->launch->args.checks);
    a->async = true;
    a->count = -1;
    sim_access_one(a, address);
    sim_access_resolve(a, space);
    return a->at[bulk->lane];
}

static uint8_t *place(sim_access *a, sim_warp *w, const sim_bulk *bulk,
                      uint64_t address, unsigned space, bool write)
{
    return sim_bulk_place(a, w, bulk, address, SIM_CHUNK, space, write);
}

void sim_bulk_land(sim_warp *w, const sim_bulk *bulk, uint64_t to,
                   uint32_t bytes)
{
    sim_cta_memory *mem = bulk->target->memory;
    sim_access a = {.in = bulk->in, .w = w, .bytes = bytes, .write = true};
    if (!mem->flight_bits)
        return;
    bits_clear(mem->flight_bits, to, bytes);
    bits_set(mem->shared_bits, to, bytes);
    sim_taint_shared_written(bulk->target, to, bytes);
    if (bulk->target != w->cta)
        return;
    a.exec = 1u << bulk->lane;
    a.checks = a.async = true;
    uint32_t at[SIM_LANES];
    for (unsigned l = 0; l < SIM_LANES; l++)
        a.addr[l] = at[l] = (uint32_t)to;
    sim_race_access(mem->race, &a, a.exec, at, NULL);
}

static void move_unit(sim_warp *w, const sim_bulk *bulk, uint32_t at)
{
    const ptx_insn *src = bulk->in->src;
    sim_access from, to;
    if (is_load(bulk->in)) {
        unsigned space = src->space2 == PTX_SHARED ? PTX_SHARED : PTX_GLOBAL;
        memcpy(bulk->target->shared + bulk->to + at,
               place(&from, w, bulk, bulk->from + at, space, false), SIM_CHUNK);
        sim_bulk_land(w, bulk, bulk->to + at, SIM_CHUNK);
        return;
    }
    const uint8_t *data =
        place(&from, w, bulk, bulk->from + at, PTX_SHARED, false);
    if (src->op == PTX_OP_CP_REDUCE_ASYNC_BULK) {
        uint8_t *target = place(&to, w, bulk, bulk->to + at, PTX_GLOBAL, false);
        if (!to.staged)
            target = place(&to, w, bulk, bulk->to + at, PTX_GLOBAL, true);
        sim_atom_combine(src, src->types[0], target, data, SIM_CHUNK);
        return;
    }
    memcpy(place(&to, w, bulk, bulk->to + at, PTX_GLOBAL, true), data,
           SIM_CHUNK);
}

static void perform(sim_warp *w, const sim_bulk *bulk)
{
    switch (bulk->kind) {
    case SIM_BULK_BOX:
        sim_tensor_move(w, bulk);
        break;
    case SIM_BULK_VALUE:
        sim_value_move(w, bulk);
        break;
    case SIM_BULK_COPY:
        for (uint32_t at = 0; at < bulk->bytes && !w->cta->fault;
             at += SIM_CHUNK)
            move_unit(w, bulk, at);
        count(w, bulk);
    }
    if (!is_load(bulk->in))
        return;
    ((sim_cta_memory *)bulk->target->memory)->flights--;
    sim_mbarrier_complete(w, bulk->in, bulk->lane,
                          (bulk->target->rank + 1) << SIM_SHARED_RANK_SHIFT |
                              bulk->mbarrier,
                          bulk->bytes);
}

/* ---- issue ---- */

uint64_t sim_bulk_operand(const sim_insn *in, const uint8_t *regs, int operand,
                          unsigned lane)
{
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    uint64_t value = 0;
    memcpy(&value, regs + arg->slot + lane * arg->width,
           arg->width < 8 ? arg->width : 8);
    return value;
}

bool sim_bulk_fits(sim_warp *w, const sim_bulk *bulk, uint64_t shared)
{
    if (shared >= w->launch->shared_base && shared <= w->cta->shared_bytes &&
        bulk->bytes <= w->cta->shared_bytes - shared)
        return true;
    sim_insn_report(w, bulk->in, SPT_SIM_BOUNDS_SHARED, bulk->lane, shared,
                    "bulk copy");
    sim_fault(w, CUDA_ERROR_ILLEGAL_ADDRESS);
    return false;
}

bool sim_bulk_target(sim_warp *w, sim_bulk *bulk, uint64_t to,
                     uint64_t mbarrier)
{
    const char *wrong = NULL;
    bulk->target = sim_shared_cta(w->cta, to);
    if (!bulk->target)
        wrong = "the cluster has no such block";
    else if (bulk->target != w->cta && sim_cta_has_ended(bulk->target))
        wrong = "the destination's block has ended";
    else if (sim_shared_cta(w->cta, mbarrier) != bulk->target)
        wrong = "destination and mbarrier are in different blocks";
    bulk->to = to & SIM_SHARED_OFFSET_MASK;
    bulk->mbarrier = (uint32_t)(mbarrier & SIM_SHARED_OFFSET_MASK);
    if (!wrong)
        return true;
    sim_insn_report(w, bulk->in, SPT_SIM_BOUNDS_SHARED, bulk->lane, to, wrong);
    return false;
}

void sim_bulk_multicast(sim_warp *w, sim_bulk *bulk, uint32_t mask)
{
    sim_cluster *cluster = w->cta->cluster;
    char text[64];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        uint32_t rank = sim_first_lane(rest);
        if (rank < cluster->n && !sim_cta_has_ended(&cluster->ctas[rank])) {
            bulk->target = &cluster->ctas[rank];
            sim_bulk_issue(w, bulk);
            bulk->again = true;
            continue;
        }
        snprintf(text, sizeof text,
                 rank < cluster->n ? "block %u of the mask has ended"
                                   : "the cluster has no block %u of the mask",
                 rank);
        sim_insn_report(w, bulk->in, SPT_SIM_BOUNDS_SHARED, bulk->lane,
                        bulk->to, text);
    }
}

/* Sizes and places are multiples of 16, the shared side is in its CTA. */
static bool is_sound(sim_warp *w, const sim_bulk *bulk)
{
    if ((bulk->bytes | bulk->to | bulk->from) % SIM_CHUNK) {
        sim_insn_report(w, bulk->in, SPT_SIM_MISALIGNED, bulk->lane, bulk->to,
                        "a bulk copy needs multiples of 16 bytes");
        sim_fault(w, CUDA_ERROR_MISALIGNED_ADDRESS);
        return false;
    }
    return sim_bulk_fits(w, bulk, is_load(bulk->in) ? bulk->to : bulk->from);
}

static bool append(sim_async *async, const sim_bulk *bulk)
{
    if (!spt_grow(&async->bulks, &async->bulk_room, async->n_bulks + 1,
                  sizeof *async->bulks))
        return false;
    async->bulks[async->n_bulks++] = *bulk;
    return true;
}

void sim_bulk_issue(sim_warp *w, const sim_bulk *bulk)
{
    bool from_shared =
        bulk->in->src->space2 == PTX_SHARED && bulk->kind != SIM_BULK_VALUE;
    if (from_shared)
        sim_race_proxy_read(w, bulk->in, bulk->lane, (uint32_t)bulk->from,
                            bulk->bytes);
    if (is_load(bulk->in)) {
        sim_cta_memory *mem = bulk->target->memory;
        mem->flights++;
        if (mem->flight_bits && bulk->kind == SIM_BULK_BOX)
            sim_tensor_fly(bulk);
        else if (mem->flight_bits && bulk->bytes)
            bits_set(mem->flight_bits, bulk->to, bulk->bytes);
    }
    if (!w->launch->args.checks)
        perform(w, bulk);
    else if (!append(async_of(w), bulk))
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Sources are the CTA's own. */
static uint64_t own_offset(uint64_t address)
{
    return sim_shared_offset(address) & SIM_SHARED_OFFSET_MASK;
}

static void op_bulk(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    uint64_t to[SIM_LANES], from[SIM_LANES], mbarrier[SIM_LANES] = {0};
    const sim_args *args = in->args;
    sim_access_addresses(&args->arg[args->first[0]], w, regs, to);
    sim_access_addresses(&args->arg[args->first[1]], w, regs, from);
    if (is_load(in))
        sim_access_addresses(&args->arg[args->first[3]], w, regs, mbarrier);
    bool global = in->src->space2 == PTX_GLOBAL;
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        sim_bulk bulk = {
            .in = in,
            .lane = l,
            .to = to[l],
            .from = global ? from[l] : own_offset(from[l]),
            .bytes = (uint32_t)sim_bulk_operand(in, regs, 2, l),
            .group = async_of(w)->bulk_committed[l],
        };
        if (is_load(in) && !sim_bulk_target(w, &bulk, sim_shared_offset(to[l]),
                                            sim_shared_offset(mbarrier[l])))
            continue;
        if (!is_sound(w, &bulk))
            continue;
        if (ptx_has(in->src, PTX_MOD_MULTICAST_CLUSTER))
            sim_bulk_multicast(w, &bulk,
                               sim_bulk_operand(in, regs, 4, l) & UINT16_MAX);
        else
            sim_bulk_issue(w, &bulk);
    }
}

/* ---- completion ---- */

/* Takes out entry i and performs it. */
static void complete(sim_warp *w, size_t i)
{
    sim_async *async = async_of(w);
    sim_bulk bulk = async->bulks[i];
    memmove(async->bulks + i, async->bulks + i + 1,
            (--async->n_bulks - i) * sizeof bulk);
    perform(w, &bulk);
}

void sim_bulk_settle(sim_warp *w, const sim_cta *target, uint32_t mbarrier)
{
    sim_async *async = async_of(w);
    for (size_t i = 0; i < async->n_bulks;)
        if (async->bulks[i].target == target &&
            async->bulks[i].mbarrier == mbarrier)
            complete(w, i);
        else
            i++;
}

static void op_commit(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    (void)in, (void)regs;
    for (unsigned l = 0; l < SIM_LANES; l++)
        async_of(w)->bulk_committed[l] += exec >> l & 1;
}

/* .read waits only for the sources, which is as good: then all of it. */
static void op_wait(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    sim_async *async = async_of(w);
    uint32_t keep = (uint32_t)sim_bulk_operand(in, regs, 0, 0);
    for (size_t i = 0; i < async->n_bulks;) {
        const sim_bulk *bulk = &async->bulks[i];
        uint32_t committed = async->bulk_committed[bulk->lane];
        if (!is_load(bulk->in) && exec >> bulk->lane & 1 && committed > keep &&
            bulk->group < committed - keep)
            complete(w, i);
        else
            i++;
    }
}

void sim_bulk_end(sim_warp *w)
{
    sim_async *async = async_of(w);
    while (async->n_bulks && !w->cta->fault) {
        const sim_bulk *bulk = &async->bulks[0];
        if (is_load(bulk->in))
            sim_insn_report(w, bulk->in, SPT_SIM_ASYNC_PENDING, bulk->lane, 0,
                            "");
        complete(w, 0);
    }
    async->n_bulks = 0;
}

/* Byte masks, and reductions in other CTAs' memory, are not done. */
static bool is_known(const ptx_insn *insn)
{
    bool load = insn->space == PTX_SHARED;
    bool two = load ? insn->space2 == PTX_GLOBAL || insn->space2 == PTX_SHARED
                    : insn->space == PTX_GLOBAL && insn->space2 == PTX_SHARED;
    return two && !ptx_has(insn, PTX_MOD_CP_MASK) &&
           ptx_has(insn, load ? PTX_MOD_COMPLETE_TX_BYTES : PTX_MOD_BULK_GROUP);
}

sim_op sim_bulk_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_CP_ASYNC_BULK:
        return is_known(insn) ? op_bulk : NULL;
    case PTX_OP_CP_REDUCE_ASYNC_BULK:
        return is_known(insn) && insn->space == PTX_GLOBAL ? op_bulk : NULL;
    case PTX_OP_CP_ASYNC_BULK_COMMIT_GROUP:
        return op_commit;
    case PTX_OP_CP_ASYNC_BULK_WAIT_GROUP:
        return op_wait;
    case PTX_OP_ST_ASYNC:
    case PTX_OP_RED_ASYNC:
        return sim_value_op(insn);
    default:
        return sim_tensor_op(insn);
    }
}
