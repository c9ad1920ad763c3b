/*
 * Fuzz entry point of the PTX parser. What parses must also be sound: indices
 * that the engine follows without a check stay within their arrays.
 */
#include <stdint.h>
#include <stdlib.h>

#include "ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool good)
{
    if (!good)
        abort();
}

static void check_operand(const ptx_module *module, const ptx_func *func,
                          const ptx_operand *operand, bool inner)
{
    switch (operand->kind) {
    case PTX_REGISTER:
        demand(operand->index < func->n_regs);
        break;
    case PTX_SPECIALREG:
        demand(operand->index < PTX_SPECIAL_COUNT);
        break;
    case PTX_VECTOR:
        demand(!inner &&
               operand->index + (uint64_t)operand->count <= func->n_vectors);
        for (uint32_t i = 0; i < operand->count; i++)
            check_operand(module, func, &func->vectors[operand->index + i],
                          true);
        break;
    case PTX_ADDRESS:
        if (operand->base == PTX_BASE_REGISTER)
            demand(operand->index < func->n_regs);
        else if (operand->base == PTX_BASE_VARIABLE)
            demand(operand->index < module->n_vars);
        break;
    case PTX_LABEL:
        demand(operand->index < func->n_insns);
        break;
    case PTX_FUNCTION:
        demand(operand->index < module->n_funcs);
        break;
    case PTX_TABLE:
        demand(operand->index < func->n_tables);
        break;
    default:
        break;
    }
}

static void check_func(const ptx_module *module, const ptx_func *func)
{
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < func->n_insns; i++) {
        const ptx_insn *insn = &func->insns[i];
        demand(insn->op < PTX_OP_COUNT);
        demand(insn->guard < (int64_t)func->n_regs);
        for (int j = 0; j < insn->n_operands; j++)
            check_operand(module, func, &insn->operands[j], false);
        demand(func->block_of[i] < func->n_blocks);
    }
    for (uint32_t i = 0; i < func->n_blocks; i++) {
        const ptx_block *block = &func->blocks[i];
        demand(block->first <= block->last && block->last < func->n_insns);
        demand(block->rank < func->n_blocks);
        ranks += block->rank;
    }
    uint64_t n = func->n_blocks;
    demand(!n || ranks == n * (n - 1) / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ptx_module *module;
    spt_error err;
    if (ptx_parse((const char *)data, size, 121, &module, &err) != SPT_OK)
        return 0;
    for (uint32_t i = 0; i < module->n_funcs; i++)
        check_func(module, &module->funcs[i]);
    ptx_free(module);
    return 0;
}
