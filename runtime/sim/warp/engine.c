/*
 * Warps: groups of lanes by rank, and the barriers of a CTA.
 */
#include "engine.h"

#include <string.h>

#include "engine_int.h"
#include "taint.h"

enum {
    QUANTUM = 4096, /* warp instructions of a group before others may */
    NO_RANK = INT32_MAX,
};

/* ---- groups ---- */

static uint64_t key_of(const sim_group *group)
{
    const ptx_func *func = group->frame->code->func;
    uint64_t insn = (uint64_t)(group->pc->src - func->insns);
    uint64_t rank = func->blocks[func->block_of[insn]].rank;
    return rank << 32 | insn;
}

void sim_group_add(sim_warp *w, const sim_insn *pc, sim_frame *frame,
                   uint32_t mask, int state, uint32_t need, uint8_t barrier)
{
    for (int i = 0; i < w->n_groups; i++) {
        sim_group *group = &w->groups[i];
        if (group->pc != pc || group->frame != frame || group->state != state ||
            group->barrier != barrier)
            continue;
        group->mask |= mask;
        group->need |= need;
        return;
    }
    w->groups[w->n_groups++] = (sim_group){.pc = pc,
                                           .frame = frame,
                                           .mask = mask,
                                           .state = (uint8_t)state,
                                           .barrier = barrier,
                                           .need = need,
                                           .last = w->clock};
}

void sim_group_park(sim_warp *w, const sim_insn *in, const sim_insn *pc,
                    uint32_t exec, int state, uint32_t need, uint8_t barrier)
{
    uint32_t rest = w->mask & ~exec;
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    sim_group_add(w, pc, w->frame, exec, state, need, barrier);
    if (rest)
        sim_group_add(w, in + 1, w->frame, rest, SIM_READY, 0, 0);
}

static bool is_better(const sim_group *a, const sim_group *b, bool fair)
{
    if (fair)
        return a->last < b->last;
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    return key_of(a) < key_of(b);
}

/* Lanes that wait for each other and are complete may go on. */
static void wake_synced(sim_warp *w)
{
    for (int i = 0; i < w->n_groups; i++) {
        sim_group *group = &w->groups[i];
        if (group->state == SIM_AT_SYNC &&
            !(group->need & w->alive & ~group->mask))
            group->state = SIM_READY;
    }
}

static void set_wait_rank(sim_warp *w)
{
    uint32_t rank = NO_RANK;
    for (int i = 0; i < w->n_groups && !w->fair; i++) {
        const sim_group *group = &w->groups[i];
        uint32_t own = (uint32_t)(key_of(group) >> 32);
        if (group->frame == w->frame && group->state == SIM_READY)
            rank = own < rank ? own : rank;
        if (group->frame == w->frame && group->state == SIM_AT_SYNC)
            rank = own + 1 < rank ? own + 1 : rank;
    }
    w->wait_rank = rank;
}

/* Takes the group that runs next; NULL when none can. */
static const sim_insn *choose(sim_warp *w)
{
    int best = -1;
    wake_synced(w);
    for (int i = 0; i < w->n_groups; i++)
        if (w->groups[i].state == SIM_READY &&
            (best < 0 || is_better(&w->groups[i], &w->groups[best], w->fair)))
            best = i;
    if (best < 0)
        return NULL;
    sim_group group = w->groups[best];
    w->groups[best] = w->groups[--w->n_groups];
    w->frame = group.frame;
    w->mask = group.mask;
    w->clock++;
    set_wait_rank(w);
    return group.pc;
}

/* ---- warps ---- */

/* Runs the chosen group from pc on until it has an event. */
static const sim_insn *run_group(sim_warp *w, const sim_insn *pc)
{
    w->event = sim_taint_any(w) ? SIM_EVENT_STEP : SIM_EVENT_NONE;
    for (;;) {
        while (!w->event)
            pc = sim_go(pc, w, w->frame->regs, w->mask);
        if (w->event != SIM_EVENT_STEP)
            return pc;
        w->event = SIM_EVENT_NONE;
        pc = sim_taint_run(w, pc);
    }
}

bool sim_warp_run(sim_warp *w)
{
    bool moved = false;
    w->budget = QUANTUM;
    while (!w->done && !w->cta->fault) {
        const sim_insn *pc = choose(w);
        if (!pc)
            break;
        /* Chosen by rank: the own block must not stop it at once. */
        uint32_t rank = (uint32_t)w->wait_rank;
        int32_t budget = w->budget;
        if (pc->full == sim_flow_header && pc->b >= rank)
            w->wait_rank = pc->b + 1;
        moved = true;
        pc = run_group(w, pc);
        w->cta->instructions += (uint64_t)(budget - w->budget);
        if (w->mask && w->event != SIM_EVENT_STOP)
            sim_group_add(w, pc, w->frame, w->mask, SIM_READY, 0, 0);
        if (w->event == SIM_EVENT_QUANTUM || w->budget <= 0) {
            w->fair = !w->fair && w->n_groups > 1;
            break;
        }
        w->fair = false;
    }
    return moved;
}

void sim_lanes_exit(sim_warp *w, uint32_t lanes)
{
    sim_cta *cta = w->cta;
    w->alive &= ~lanes;
    for (sim_frame *frame = w->frame; frame;) {
        sim_frame *parent = frame->parent;
        frame->lanes &= ~lanes;
        if (!frame->lanes && parent)
            sim_frame_free(w, frame);
        frame = parent;
    }
    w->done = !w->alive;
    for (uint32_t i = 0; i < SIM_BARRIERS; i++)
        if (cta->barriers[i].open)
            sim_barrier_check(cta, i);
    sim_cluster_check(cta->cluster);
}

void sim_fault(sim_warp *w, int result)
{
    if (!w->cta->fault)
        w->cta->fault = result;
    w->event = SIM_EVENT_STOP;
}

void sim_place_of(const sim_warp *w, const sim_insn *in, unsigned lane,
                  sim_place *place)
{
    const ptx_module *module = w->launch->module;
    const uint32_t *block = w->launch->args.block;
    uint32_t thread = w->index * SIM_LANES + lane;
    const ptx_insn *src = in->src;
    *place = (sim_place){.kernel = w->launch->func->name,
                         .line = src->line,
                         .ptx_line = src->ptx_line,
                         .block_index = w->cta->index,
                         .sequence = w->cta->sequence++};
    if (src->file < module->n_files)
        place->file = module->files[src->file];
    memcpy(place->block, w->cta->id, sizeof place->block);
    place->thread[0] = thread % block[0];
    place->thread[1] = thread / block[0] % block[1];
    place->thread[2] = thread / block[0] / block[1];
}

/* ---- barriers ---- */

static void write_reduction(sim_warp *w, const sim_group *group,
                            const sim_barrier *barrier, uint32_t threads)
{
    const sim_insn *in = group->pc - 1;
    const ptx_insn *src = in->src;
    if (src->op != PTX_OP_BARRIER_RED)
        return;
    uint8_t *regs = group->frame->regs;
    const sim_arg *to = &in->args->arg[0];
    uint32_t value = barrier->value;
    if (!ptx_has(src, PTX_MOD_POPC)) {
        bool yes = ptx_has(src, PTX_MOD_AND) ? value == threads : value > 0;
        uint32_t *lanes = &SIM_PRED(to->slot);
        *lanes = (*lanes & ~group->mask) | (yes ? group->mask : 0);
        return;
    }
    for (unsigned l = 0; l < SIM_LANES; l++)
        if (group->mask >> l & 1)
            SIM_U32(to->slot)[l] = value;
    (void)w;
}

void sim_barrier_check(sim_cta *cta, uint32_t id)
{
    sim_barrier *barrier = &cta->barriers[id];
    uint32_t expected = barrier->expected;
    if (!expected)
        for (uint32_t i = 0; i < cta->n_warps; i++)
            expected += (uint32_t)__builtin_popcount(cta->warps[i].alive);
    if (!barrier->open || barrier->arrived + barrier->waiting < expected)
        return;
    sim_barrier closed = *barrier;
    *barrier = (sim_barrier){0};
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        bool arrived = closed.arrivers >> i % 32 & 1;
        cta->synced[i] = arrived ? UINT32_MAX : 0;
        for (int k = 0; k < w->n_groups; k++) {
            sim_group *group = &w->groups[k];
            if (group->state != SIM_AT_BARRIER || group->barrier != id)
                continue;
            write_reduction(w, group, &closed, closed.waiting);
            group->state = SIM_READY;
            group->barrier = 0;
            cta->synced[i] |= group->mask;
        }
    }
    sim_memory_barrier(cta);
}
