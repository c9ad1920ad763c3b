/*
 * An estimate of a kernel's registers from its PTX, which has as many virtual
 * ones as it likes: the largest number of 32-bit words alive at one
 * instruction (liveness over basic blocks; predicates have registers of their
 * own), plus eight for addresses and what the assembler keeps, in steps of
 * eight, at least 16. An assembler reorders, rematerialises and spills, so
 * this can be off either way; what a kernel really takes is in its cubin.
 */
#include "sim_driver.h"

#include <string.h>

#include "mem.h"

enum { EXTRA = 8, STEP = 8, LEAST = 16, BITS = 64 };

typedef struct liveness {
    const ptx_func *func;
    size_t words; /* of a set of registers */
    uint64_t *in; /* (block, words) */
    uint64_t *live; /* (words) */
    const uint8_t *size; /* (register) in 32-bit words */
} liveness;

static bool writes_first(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_ST:
    case PTX_OP_RED:
    case PTX_OP_BRA:
    case PTX_OP_CALL:
    case PTX_OP_RET:
    case PTX_OP_EXIT:
        return false;
    default:
        return insn->n_operands > 0;
    }
}

static void mark(liveness *l, const ptx_operand *operand, bool written,
                 bool guarded)
{
    uint32_t reg = operand->index;
    switch (operand->kind) {
    case PTX_ADDRESS:
        if (operand->base != PTX_BASE_REGISTER)
            return;
        written = false;
        break;
    case PTX_VECTOR:
        for (uint32_t i = 0; i < operand->count; i++)
            mark(l, &l->func->vectors[operand->index + i], written, guarded);
        return;
    case PTX_REGISTER:
        break;
    default:
        return;
    }
    uint64_t bit = UINT64_C(1) << (reg % BITS);
    if (!written)
        l->live[reg / BITS] |= bit;
    else if (!guarded)
        l->live[reg / BITS] &= ~bit;
}

/* Backwards over one instruction. */
static void step_back(liveness *l, const ptx_insn *insn)
{
    bool writes = writes_first(insn);
    if (writes)
        mark(l, &insn->operands[0], true, insn->guard >= 0);
    for (int i = writes; i < insn->n_operands; i++)
        mark(l, &insn->operands[i], false, false);
    if (insn->guard >= 0)
        l->live[insn->guard / BITS] |= UINT64_C(1) << (insn->guard % BITS);
}

static void join(liveness *l, uint32_t insn)
{
    if (insn >= l->func->n_insns)
        return;
    const uint64_t *in = l->in + l->func->block_of[insn] * l->words;
    for (size_t i = 0; i < l->words; i++)
        l->live[i] |= in[i];
}

/* What is alive behind a block's last instruction. */
static void block_out(liveness *l, const ptx_block *block)
{
    const ptx_insn *last = &l->func->insns[block->last];
    memset(l->live, 0, l->words * sizeof(*l->live));
    for (int i = 0; i < last->n_operands; i++) {
        const ptx_operand *operand = &last->operands[i];
        if (operand->kind == PTX_LABEL)
            join(l, operand->index);
        if (operand->kind == PTX_TABLE && last->op != PTX_OP_CALL)
            for (uint32_t t = 0; t < l->func->tables[operand->index].count; t++)
                join(l, l->func->tables[operand->index].targets[t]);
    }
    bool ends = last->op == PTX_OP_BRA || last->op == PTX_OP_RET ||
                last->op == PTX_OP_EXIT;
    if (!ends || last->guard >= 0)
        join(l, block->last + 1);
}

static int alive_words(const liveness *l)
{
    int words = 0;
    for (size_t i = 0; i < l->words; i++)
        for (uint64_t left = l->live[i]; left; left &= left - 1)
            words += l->size[i * BITS + (size_t)__builtin_ctzll(left)];
    return words;
}

/* One pass over all blocks, last first; true when a set grew. */
static bool pass(liveness *l, int *most)
{
    bool grew = false;
    for (uint32_t b = l->func->n_blocks; b-- > 0;) {
        const ptx_block *block = &l->func->blocks[b];
        block_out(l, block);
        for (uint32_t i = block->last + 1; i-- > block->first;) {
            if (most) {
                int words = alive_words(l);
                *most = words > *most ? words : *most;
            }
            step_back(l, &l->func->insns[i]);
        }
        uint64_t *in = l->in + b * l->words;
        for (size_t i = 0; i < l->words; i++) {
            grew |= (l->live[i] & ~in[i]) != 0;
            in[i] |= l->live[i];
        }
    }
    return grew;
}

static int most_alive(const ptx_func *func)
{
    size_t words = func->n_regs / BITS + 1;
    uint8_t *size = spt_calloc(words * BITS, 1);
    liveness l = {
        .func = func,
        .words = words,
        .in = spt_calloc((size_t)func->n_blocks + 1, words * sizeof(uint64_t)),
        .live = spt_calloc(words, sizeof(uint64_t)),
        .size = size,
    };
    int most = 0;
    if (size && l.in && l.live && func->block_of) {
        for (uint32_t i = 0; i < func->n_regs; i++)
            if (func->regs[i].type != PTX_PRED)
                size[i] =
                    (uint8_t)((ptx_type_bytes((ptx_type)func->regs[i].type) +
                               3) /
                              4);
        while (pass(&l, NULL))
            ;
        pass(&l, &most);
    }
    spt_free(size);
    spt_free(l.in);
    spt_free(l.live);
    return most;
}

int sim_registers_of(const ptx_module *module, uint32_t func,
                     const spt_board *board)
{
    const ptx_func *f = &module->funcs[func];
    int registers = (most_alive(f) + EXTRA + STEP - 1) / STEP * STEP;
    int limit = board->max_registers_per_thread;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++)
        if (f->max_threads[i])
            threads *= f->max_threads[i];
    if (threads > 1) {
        uint64_t ctas = f->min_ctas ? f->min_ctas : 1;
        uint64_t share = (uint64_t)board->registers_per_sm /
                         ((threads + 127) / 128 * 128 * ctas) / STEP * STEP;
        if (share >= LEAST && share < (uint64_t)limit)
            limit = (int)share;
    }
    if (registers > limit)
        registers = limit;
    return registers < LEAST ? LEAST : registers;
}
