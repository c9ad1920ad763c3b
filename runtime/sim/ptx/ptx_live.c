/*
 * Liveness over basic blocks, until nothing changes. What an instruction
 * writes for certain is what its row calls its first destination, when it has
 * no guard; all else counts as read.
 */
#include "ptx_live.h"

#include <string.h>

#include "mem.h"
#include "ptx_rows.h"

enum { BITS = 64 };

bool ptx_live_next(const ptx_func *func, const ptx_operand *operand,
                   uint32_t *at, uint32_t *reg)
{
    bool vector = operand->kind == PTX_VECTOR;
    uint32_t count = vector ? operand->count : 1;
    while (*at < count) {
        const ptx_operand *one =
            vector ? &func->vectors[operand->index + *at] : operand;
        ++*at;
        if (one->kind != PTX_REGISTER &&
            (one->kind != PTX_ADDRESS || one->base != PTX_BASE_REGISTER))
            continue;
        *reg = one->index;
        return true;
    }
    return false;
}

int ptx_live_results(const ptx_insn *insn)
{
    char role = ptx_op_row((ptx_op)insn->op)->forms[0].operands[0].role;
    if (!strchr("dvx", role) || !insn->n_operands ||
        insn->operands[0].kind == PTX_ADDRESS)
        return 0;
    return 1 + insn->operands[0].pair;
}

/* The first operand's registers get new values, all lanes and all bits. */
static bool writes_first(const ptx_insn *insn)
{
    const ptx_row *row = ptx_op_row((ptx_op)insn->op);
    if (insn->op == PTX_OP_WGMMA_MMA_ASYNC) /* it adds to them, later */
        return false;
    if (!insn->n_operands || insn->guard >= 0 || !row->n_forms ||
        insn->operands[0].kind == PTX_ADDRESS || insn->operands[0].select)
        return false;
    for (int i = 0; i < row->n_forms; i++)
        if (row->forms[i].count &&
            !strchr("dvxa", row->forms[i].operands[0].role))
            return false;
    return true;
}

void ptx_live_step(ptx_live *live, const ptx_insn *insn)
{
    int first = writes_first(insn);
    for (int i = 0; i < insn->n_operands; i++) {
        uint32_t at = 0, reg;
        const ptx_operand *operand = &insn->operands[i];
        while (i < first && ptx_live_next(live->func, operand, &at, &reg))
            live->now[reg / BITS] &= ~(UINT64_C(1) << reg % BITS);
    }
    for (int i = first; i < insn->n_operands; i++) {
        uint32_t at = 0, reg;
        while (ptx_live_next(live->func, &insn->operands[i], &at, &reg))
            live->now[reg / BITS] |= UINT64_C(1) << reg % BITS;
    }
    if (insn->guard >= 0)
        live->now[insn->guard / BITS] |= UINT64_C(1) << insn->guard % BITS;
}

static void join(ptx_live *live, uint32_t insn)
{
    if (insn >= live->func->n_insns)
        return;
    const uint64_t *in = live->in + live->func->block_of[insn] * live->words;
    for (size_t i = 0; i < live->words; i++)
        live->now[i] |= in[i];
}

void ptx_live_behind(ptx_live *live, uint32_t block)
{
    const ptx_func *func = live->func;
    const ptx_insn *last = &func->insns[func->blocks[block].last];
    memset(live->now, 0, live->words * sizeof *live->now);
    for (int i = 0; i < last->n_operands; i++) {
        const ptx_operand *operand = &last->operands[i];
        if (operand->kind == PTX_LABEL)
            join(live, operand->index);
        if (operand->kind == PTX_TABLE && last->op != PTX_OP_CALL)
            for (uint32_t t = 0; t < func->tables[operand->index].count; t++)
                join(live, func->tables[operand->index].targets[t]);
    }
    bool ends = last->op == PTX_OP_BRA || last->op == PTX_OP_RET ||
                last->op == PTX_OP_EXIT;
    if (!ends || last->guard >= 0)
        join(live, func->blocks[block].last + 1);
}

/* One pass over all blocks, last first; true when a set grew. */
static bool pass(ptx_live *live)
{
    bool grew = false;
    for (uint32_t b = live->func->n_blocks; b-- > 0;) {
        const ptx_block *block = &live->func->blocks[b];
        ptx_live_behind(live, b);
        for (uint32_t i = block->last + 1; i-- > block->first;)
            ptx_live_step(live, &live->func->insns[i]);
        uint64_t *in = live->in + b * live->words;
        for (size_t i = 0; i < live->words; i++) {
            grew |= (live->now[i] & ~in[i]) != 0;
            in[i] |= live->now[i];
        }
    }
    return grew;
}

bool ptx_live_find(ptx_live *live, const ptx_func *func)
{
    size_t words = func->n_regs / BITS + 1;
    *live = (ptx_live){
        .func = func,
        .words = words,
        .in = spt_calloc((size_t)func->n_blocks + 1, words * sizeof(uint64_t)),
        .now = spt_calloc(words, sizeof(uint64_t)),
    };
    if (!live->in || !live->now || !func->block_of)
        return false;
    while (pass(live))
        ;
    return true;
}

void ptx_live_free(ptx_live *live)
{
    spt_free(live->in);
    spt_free(live->now);
}
