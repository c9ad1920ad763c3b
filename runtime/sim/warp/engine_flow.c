/*
 * Handlers of control flow: blocks, guards, branches, barriers, exits.
 */
#include <stdio.h>
#include <string.h>

#include "engine_int.h"

#define HANDLER(name)                                            \
    static const sim_insn *name(const sim_insn *in, sim_warp *w, \
                                uint8_t *regs, uint32_t exec)
#define EXPORT(name) const sim_handler sim_flow_##name = name

/* Where a block begins: count it, and let others run when it is their turn. */
HANDLER(header)
{
    if (in->b >= w->wait_rank || w->budget <= 0) {
        w->event = w->budget <= 0 ? SIM_EVENT_QUANTUM : SIM_EVENT_GROUPS;
        return in;
    }
    w->budget -= (int32_t)in->c;
    w->visits[2 * in->a]++;
    if (exec == UINT32_MAX) {
        w->visits[2 * in->a + 1] += SIM_LANES;
        return in[1].full(in + 1, w, regs, exec);
    }
    w->visits[2 * in->a + 1] += (unsigned)__builtin_popcount(exec);
    return in[1].masked(in + 1, w, regs, exec);
}
EXPORT(header);

/* The end of a block that goes on: its successor stands behind it. */
HANDLER(next)
{
    (void)w, (void)regs, (void)exec;
    return in + 1;
}
EXPORT(next);

HANDLER(guard)
{
    uint32_t lanes = (SIM_PRED(in->a) ^ in->b) & exec;
    if (!lanes)
        return sim_go(in + in->c + 1, w, regs, exec);
    return sim_go(in + 1, w, regs, lanes);
}
EXPORT(guard);

HANDLER(unguard)
{
    (void)exec;
    return sim_go(in + 1, w, regs, w->mask);
}
EXPORT(unguard);

HANDLER(op)
{
    in->op(in, w, regs, exec);
    if (__builtin_expect(w->event != 0, 0))
        return in + 1;
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(op);

HANDLER(nop)
{
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(nop);

HANDLER(nanosleep)
{
    sim_yield(w);
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(nanosleep);

static uint32_t taken(const sim_insn *in, const uint8_t *regs, uint32_t exec)
{
    uint32_t lanes;
    if (in->a == SIM_NO_GUARD)
        return exec;
    memcpy(&lanes, regs + in->a, sizeof lanes);
    return (lanes ^ in->b) & exec;
}

HANDLER(bra)
{
    uint32_t lanes = taken(in, regs, exec);
    if (lanes == exec)
        return in->target;
    if (!lanes)
        return in + 1;
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    sim_group_add(w, in->target, w->frame, lanes, SIM_READY, 0, 0);
    sim_group_add(w, in + 1, w->frame, exec & ~lanes, SIM_READY, 0, 0);
    return in;
}
EXPORT(bra);

/* Lanes by their index; one past the table stays where it is undefined and
   takes the last label. */
HANDLER(brx)
{
    const sim_code *code = w->frame->code;
    const ptx_table *table = &code->func->tables[in->src->operands[1].index];
    const uint32_t *index = SIM_U32(in->d);
    uint32_t rest = exec, other = w->mask & ~exec;
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    while (rest) {
        unsigned first = (unsigned)__builtin_ctz(rest);
        uint32_t lanes = 0, at = index[first];
        for (unsigned l = 0; l < SIM_LANES; l++)
            lanes |= (uint32_t)(index[l] == at) << l;
        lanes &= rest;
        at = at < table->count ? at : table->count - 1;
        sim_group_add(w, code->starts[table->targets[at]], w->frame, lanes,
                      SIM_READY, 0, 0);
        rest &= ~lanes;
    }
    if (other)
        sim_group_add(w, in + 1, w->frame, other, SIM_READY, 0, 0);
    return in;
}
EXPORT(brx);

static const sim_insn *leave(const sim_insn *in, sim_warp *w, uint32_t lanes,
                             uint32_t exec, bool end)
{
    if (!lanes)
        return in + 1;
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    if (exec & ~lanes)
        sim_group_add(w, in + 1, w->frame, exec & ~lanes, SIM_READY, 0, 0);
    if (end)
        sim_lanes_exit(w, lanes);
    else
        sim_call_return(w, lanes);
    return in;
}

HANDLER(ret)
{
    uint32_t lanes = taken(in, regs, exec);
    return leave(in, w, lanes, exec, w->frame->depth == 0);
}
EXPORT(ret);

HANDLER(exit_)
{
    return leave(in, w, taken(in, regs, exec), exec, true);
}
const sim_handler sim_flow_exit = exit_;

HANDLER(trap)
{
    sim_place place;
    unsigned lane = (unsigned)__builtin_ctz(exec);
    (void)regs;
    sim_place_of(w, in, lane, &place);
    sim_report_add(SPT_SIM_TRAP, &place, 0, 1, 0, NULL);
    sim_fault(w, 719);
    return in;
}
EXPORT(trap);

HANDLER(call)
{
    sim_call_run(in, w, regs, exec);
    return in;
}
EXPORT(call);

/* A special register that changes while the warp runs. */
HANDLER(special)
{
    uint64_t value = sim_special_value(w, in->a, 0);
    for (unsigned l = 0; l < SIM_LANES; l++) {
        if (!(exec >> l & 1))
            continue;
        if (in->b == 8)
            SIM_U64(in->d)[l] = value;
        else
            SIM_U32(in->d)[l] = (uint32_t)value;
    }
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(special);

static uint32_t lane_value(const sim_insn *in, const uint8_t *regs, int operand,
                           unsigned lane)
{
    uint32_t value;
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    memcpy(&value, regs + arg->slot + lane * arg->width, sizeof value);
    return value;
}

static void sync_report(const sim_insn *in, sim_warp *w, uint32_t lanes,
                        spt_sim_kind kind, const char *detail)
{
    sim_place place;
    sim_place_of(w, in, (unsigned)__builtin_ctz(lanes), &place);
    sim_report_add(kind, &place, 0, 1, 0, detail);
}

/* Lanes that name the same members as the first one, which are *members. */
static uint32_t same_members(const sim_insn *in, const uint8_t *regs,
                             int operand, uint32_t lanes, uint32_t *members)
{
    uint32_t same = 0;
    *members = lane_value(in, regs, operand, (unsigned)__builtin_ctz(lanes));
    if (in->args->arg[in->args->first[operand]].flags & SIM_ARG_IMMEDIATE)
        return lanes;
    for (unsigned l = 0; l < SIM_LANES; l++)
        same |= (uint32_t)(lane_value(in, regs, operand, l) == *members) << l;
    return same & lanes;
}

/* With checks: what a thread does that its own mask lacks is undefined; what
   lanes did to shared memory before is in order with what they do after. PTX
   says so of bar.warp.sync, and this takes it of the others. */
static void run_together(const sim_insn *in, sim_warp *w, uint8_t *regs,
                         uint32_t lanes, uint32_t members, sim_op run)
{
    bool checks = w->launch->args.checks;
    if (checks && (lanes & ~members))
        sync_report(in, w, lanes & ~members, SPT_SIM_OPERAND,
                    "the member mask lacks the thread itself");
    if (checks)
        sim_memory_warp_sync(w);
    run(in, w, regs, lanes);
    if (checks)
        sim_memory_warp_sync(w);
}

/*
 * A warp-wide instruction whose operand names its members (255: the whole
 * warp): each set of members runs by itself, those that are not complete wait
 * for the others. false when lanes do.
 */
static bool run_members(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec, int operand, sim_op run)
{
    uint32_t waiting = 0, need = 0;
    for (uint32_t rest = exec; rest;) {
        uint32_t members = UINT32_MAX, lanes = rest;
        if (operand != 255)
            lanes = same_members(in, regs, operand, rest, &members);
        rest &= ~lanes;
        if (!(members & w->alive & ~lanes) || w->forced) {
            run_together(in, w, regs, lanes, members, run);
        } else {
            waiting |= lanes;
            need |= members & w->alive;
        }
    }
    w->forced = false;
    if (waiting)
        sim_group_park(w, in, in, waiting, SIM_AT_SYNC, need, 0);
    return !waiting;
}

/* bar.warp.sync does nothing but bring lanes together. */
static void meet(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t lanes)
{
    (void)in, (void)w, (void)regs, (void)lanes;
}

HANDLER(warp_sync)
{
    if (!run_members(in, w, regs, exec, 0, meet))
        return in;
    if (__builtin_expect(w->event != 0, 0))
        return in + 1;
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(warp_sync);

/* shfl and the like: c is the operand of the member mask, or 255: all. */
HANDLER(sync)
{
    if (!run_members(in, w, regs, exec, (int)in->c, in->op))
        return in;
    if (__builtin_expect(w->event != 0, 0))
        return in + 1;
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(sync);

/* The same when all lanes are there and members, and nothing is checked. */
HANDLER(sync_full)
{
    w->forced = false;
    in->op(in, w, regs, exec);
    if (__builtin_expect(w->event != 0, 0))
        return in + 1;
    return in[1].full(in + 1, w, regs, exec);
}
EXPORT(sync_full);

static uint32_t barrier_threads(const sim_insn *in, const uint8_t *regs,
                                unsigned lane)
{
    const ptx_insn *src = in->src;
    bool red = src->op == PTX_OP_BARRIER_RED;
    if (src->n_operands < (red ? 4 : 2))
        return 0;
    return lane_value(in, regs, red ? 2 : 1, lane);
}

/* All threads of a warp take part in an aligned barrier: none has left. */
static void check_left(const sim_insn *in, sim_warp *w, uint32_t exec)
{
    uint32_t threads = w->cta->n_threads - w->index * SIM_LANES;
    uint32_t all = threads >= SIM_LANES ? UINT32_MAX : (1u << threads) - 1;
    char detail[80];
    if (w->alive == all || !w->launch->args.checks)
        return;
    snprintf(detail, sizeof detail, "threads 0x%08x of the warp have left",
             all & ~w->alive);
    sync_report(in, w, exec, SPT_SIM_DIVERGENT, detail);
}

HANDLER(barrier)
{
    const ptx_insn *src = in->src;
    sim_cta *cta = w->cta;
    unsigned lane = (unsigned)__builtin_ctz(exec);
    bool red = src->op == PTX_OP_BARRIER_RED;
    uint32_t id = lane_value(in, regs, red ? 1 : 0, lane);
    uint32_t threads = barrier_threads(in, regs, lane);
    if (id >= SIM_BARRIERS || threads > cta->n_threads) {
        sync_report(in, w, exec, SPT_SIM_BARRIER_COUNT,
                    "no such barrier or thread count");
        sim_fault(w, 719);
        return in;
    }
    if (ptx_has(src, PTX_MOD_ALIGNED)) {
        if (!run_members(in, w, regs, exec, 255, meet))
            return in;
        check_left(in, w, exec);
    }
    sim_barrier *barrier = &cta->barriers[id];
    if (barrier->open && barrier->expected != threads)
        sync_report(in, w, exec, SPT_SIM_BARRIER_COUNT, NULL);
    if (!barrier->open)
        *barrier = (sim_barrier){.open = true, .expected = threads};
    uint32_t count = (uint32_t)__builtin_popcount(exec);
    if (red) {
        const sim_arg *p = &in->args->arg[in->args->first[src->n_operands - 1]];
        uint32_t lanes = SIM_PRED(p->slot);
        if (src->operands[src->n_operands - 1].negated)
            lanes = ~lanes;
        barrier->value += (uint32_t)__builtin_popcount(lanes & exec);
    }
    if (src->op == PTX_OP_BARRIER_ARRIVE) {
        barrier->arrived += count;
        barrier->arrivers |= 1u << w->index % 32;
        sim_barrier_check(cta, id);
        if (__builtin_expect(w->event != 0, 0))
            return in + 1;
        return sim_go(in + 1, w, regs, exec);
    }
    barrier->waiting += count;
    sim_group_park(w, in, in + 1, exec, SIM_AT_BARRIER, 0, (uint8_t)id);
    sim_barrier_check(cta, id);
    return in;
}
EXPORT(barrier);

/* Faults in pairs of arrive and wait. */
static void check_pairs(const sim_insn *in, sim_warp *w, uint32_t lanes,
                        const char *detail)
{
    if (lanes && w->launch->args.checks)
        sync_report(in, w, lanes, SPT_SIM_BARRIER_COUNT, detail);
}

HANDLER(cluster)
{
    bool wait = in->src->op == PTX_OP_BARRIER_CLUSTER_WAIT;
    if (ptx_has(in->src, PTX_MOD_ALIGNED)) {
        if (!run_members(in, w, regs, exec, 255, meet))
            return in;
        check_left(in, w, exec);
    }
    if (wait) {
        check_pairs(in, w, exec & ~w->cluster_owes,
                    "barrier.cluster.wait without an arrive");
        if (!sim_cluster_wait(w, exec)) {
            sim_group_park(w, in, in + 1, exec, SIM_AT_BARRIER, 0,
                           SIM_CLUSTER_BARRIER);
            return in;
        }
    } else {
        check_pairs(in, w, exec & w->cluster_owes,
                    "barrier.cluster.arrive again before the wait");
        sim_cluster_arrive(w, exec);
    }
    if (__builtin_expect(w->event != 0, 0))
        return in + 1;
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(cluster);

/* Before an instruction that names a register which wgmma works on. */
HANDLER(touch)
{
    sim_wgmma_touch(in, w);
    return sim_go(in + 1, w, regs, exec);
}
EXPORT(touch);
