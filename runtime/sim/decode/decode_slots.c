/*
 * Slots of registers. PTX has as many registers as it likes, each written in
 * one place; a slot of its own for each would be megabytes for a CTA, and
 * every access a miss in the first-level cache. So registers that are never
 * alive at the same time share slots.
 *
 * A register takes its slot from the first to the last instruction, in the
 * order of the text, where it is named or alive; sources and results of one
 * instruction never share. What one thread's path does is all that matters:
 * lanes that stand elsewhere have lanes of the slot of their own. A register
 * that may be read unwritten is alive from the start, so its slot is nobody
 * else's before: it reads as the zero that frames begin with.
 */
#include <string.h>

#include "decode.h"
#include "mem.h"
#include "ptx_live.h"

enum { CLASSES = 4, NONE = UINT32_MAX };

typedef struct ranges {
    uint32_t *first, *last; /* (register) instructions; first NONE: unused */
    uint32_t *begins, *ends; /* (instruction): a register, or NONE */
    uint32_t *next_begin, *next_end; /* (register): chains of those */
} ranges;

static void reach(ranges *r, uint32_t reg, uint32_t insn)
{
    if (r->first[reg] == NONE) {
        r->first[reg] = r->last[reg] = insn;
        return;
    }
    r->first[reg] = insn < r->first[reg] ? insn : r->first[reg];
    r->last[reg] = insn > r->last[reg] ? insn : r->last[reg];
}

static void reach_set(ranges *r, const uint64_t *set, size_t words,
                      uint32_t insn)
{
    for (size_t i = 0; i < words; i++)
        for (uint64_t left = set[i]; left; left &= left - 1)
            reach(r, (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(left),
                  insn);
}

static void reach_named(ranges *r, const ptx_func *func, uint32_t insn)
{
    const ptx_insn *src = &func->insns[insn];
    for (int i = 0; i < src->n_operands; i++) {
        uint32_t at = 0, reg;
        while (ptx_live_next(func, &src->operands[i], &at, &reg))
            reach(r, reg, insn);
    }
    if (src->guard >= 0)
        reach(r, (uint32_t)src->guard, insn);
}

/* wgmma writes its results some time until a wait: none shares their slots. */
static void reach_results(ranges *r, const ptx_func *func, uint32_t insn)
{
    uint32_t at = 0, reg;
    while (ptx_live_next(func, &func->insns[insn].operands[0], &at, &reg)) {
        reach(r, reg, 0);
        reach(r, reg, func->n_insns - 1);
    }
}

static void find_ranges(ranges *r, ptx_live *live)
{
    const ptx_func *func = live->func;
    memset(r->first, 0xff, func->n_regs * sizeof *r->first);
    for (uint32_t b = 0; b < func->n_blocks; b++) {
        const ptx_block *block = &func->blocks[b];
        for (uint32_t i = block->first; i <= block->last; i++) {
            reach_named(r, func, i);
            if (func->insns[i].op == PTX_OP_WGMMA_MMA_ASYNC)
                reach_results(r, func, i);
        }
        reach_set(r, live->in + b * live->words, live->words, block->first);
        ptx_live_behind(live, b);
        reach_set(r, live->now, live->words, block->last);
    }
    memset(r->begins, 0xff, func->n_insns * sizeof *r->begins);
    memset(r->ends, 0xff, func->n_insns * sizeof *r->ends);
    for (uint32_t i = func->n_regs; i-- > 0;) {
        if (r->first[i] == NONE)
            continue;
        r->next_begin[i] = r->begins[r->first[i]];
        r->begins[r->first[i]] = i;
        r->next_end[i] = r->ends[r->last[i]];
        r->ends[r->last[i]] = i;
    }
}

static int class_of(uint32_t width)
{
    return width <= 4 ? width == 4 : width == 8 ? 2 : 3;
}

/* The slot given back last is taken first: it is in the cache. Free slots are
   chains of the registers that had them last, through first, which those need
   no more. */
static void give(const ptx_func *func, ranges *r, uint32_t *slots,
                 uint32_t *top)
{
    uint32_t free_of[CLASSES] = {NONE, NONE, NONE, NONE};
    for (uint32_t i = 0; i < func->n_insns; i++) {
        for (uint32_t reg = r->begins[i]; reg != NONE;
             reg = r->next_begin[reg]) {
            uint32_t width = sim_slot_width((ptx_type)func->regs[reg].type);
            uint32_t *chain = &free_of[class_of(width)];
            if (*chain != NONE) {
                slots[reg] = slots[*chain];
                *chain = r->first[*chain];
            } else {
                slots[reg] = *top;
                *top += sim_slot_bytes(width);
            }
        }
        for (uint32_t reg = r->ends[i]; reg != NONE; reg = r->next_end[reg]) {
            uint32_t width = sim_slot_width((ptx_type)func->regs[reg].type);
            r->first[reg] = free_of[class_of(width)];
            free_of[class_of(width)] = reg;
        }
    }
}

bool sim_slots_give(const ptx_func *func, uint32_t *slots, uint32_t *top)
{
    ptx_live live;
    uint32_t *room = spt_calloc(
        4 * (size_t)func->n_regs + 2 * (size_t)func->n_insns + 1, sizeof *room);
    bool good = ptx_live_find(&live, func) && room;
    if (good) {
        ranges r = {.first = room};
        r.last = r.first + func->n_regs;
        r.next_begin = r.last + func->n_regs;
        r.next_end = r.next_begin + func->n_regs;
        r.begins = r.next_end + func->n_regs;
        r.ends = r.begins + func->n_insns;
        find_ranges(&r, &live);
        give(func, &r, slots, top);
    }
    ptx_live_free(&live);
    spt_free(room);
    return good;
}
