/* What an instruction's opcode says: types of operands, counters. */
#include <stdio.h>

#include "decode.h"

/* Place 1 of an instruction with a second type for some of its operands. */
static ptx_type mixed_type(const ptx_insn *insn, bool second)
{
    return (ptx_type)insn->types[second && insn->n_types > 1];
}

static ptx_type mbarrier_type(const ptx_insn *insn, int at, ptx_type otherwise)
{
    switch (insn->op) {
    case PTX_OP_MBARRIER_INIT:
    case PTX_OP_MBARRIER_EXPECT_TX:
    case PTX_OP_MBARRIER_COMPLETE_TX:
        return PTX_B32;
    case PTX_OP_MBARRIER_ARRIVE:
    case PTX_OP_MBARRIER_ARRIVE_DROP:
        return at == 2 ? PTX_B32 : PTX_B64;
    case PTX_OP_MBARRIER_TEST_WAIT:
    case PTX_OP_MBARRIER_TRY_WAIT:
        return at == 0                                     ? PTX_PRED
               : at == 2 && !ptx_has(insn, PTX_MOD_PARITY) ? PTX_B64
                                                           : PTX_B32;
    default:
        return otherwise;
    }
}

ptx_type sim_operand_type(const ptx_insn *insn, int at)
{
    ptx_type first = insn->n_types ? (ptx_type)insn->types[0] : PTX_B32;
    switch (insn->op) {
    case PTX_OP_CVT:
        if (at)
            return at == 3 ? PTX_B32 : (ptx_type)insn->types[1];
        return first;
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        return mixed_type(insn, at == 1);
    case PTX_OP_FMA:
        return mixed_type(insn, at == 1 || at == 2);
    case PTX_OP_SET:
        return at == 0 ? first : at == 3 ? PTX_PRED : (ptx_type)insn->types[1];
    case PTX_OP_SLCT:
        return at == 3 ? (ptx_type)insn->types[1] : first;
    case PTX_OP_SHL:
    case PTX_OP_SHR:
    case PTX_OP_SZEXT:
        return at == 2 ? PTX_B32 : first;
    case PTX_OP_BFE:
        return at >= 2 ? PTX_B32 : first;
    case PTX_OP_BFI:
        return at >= 3 ? PTX_B32 : first;
    case PTX_OP_SHFL:
    case PTX_OP_LOP3:
        return at == 5 ? PTX_PRED : PTX_B32;
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BFIND:
        return at ? first : PTX_B32;
    case PTX_OP_MATCH:
        return at == 1 + insn->operands[0].pair ? first : PTX_B32;
    case PTX_OP_VOTE:
        return at == 1 ? PTX_PRED : at == 2 ? PTX_B32 : first;
    case PTX_OP_SETP:
        return at > insn->operands[0].pair + 2 ? PTX_PRED : first;
    case PTX_OP_SELP:
        return at == 3 ? PTX_PRED : first;
    case PTX_OP_BARRIER_RED:
        return at == 0                      ? first
               : at == insn->n_operands - 1 ? PTX_PRED
                                            : PTX_B32;
    case PTX_OP_MUL:
    case PTX_OP_MAD:
        if (ptx_has(insn, PTX_MOD_WIDE) && (at == 0 || at == 3))
            return ptx_type_bytes(first) == 2 ? PTX_B32 : PTX_B64;
        return first;
    case PTX_OP_LD:
    case PTX_OP_ST:
    case PTX_OP_RED:
        return at == 2 ? PTX_B64 : first;
    case PTX_OP_ATOM:
        return first;
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_WMMA_STORE_D:
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_WMMA_MMA:
        return first == PTX_F64 && at != 2 ? PTX_F64 : PTX_B32;
    case PTX_OP_WGMMA_MMA_ASYNC:
        return at == 3 ? PTX_PRED : PTX_B32;
    case PTX_OP_MAPA:
        return at == 2 ? PTX_B32 : first;
    case PTX_OP_GETCTARANK:
        return at ? first : PTX_B32;
    case PTX_OP_CREATEPOLICY:
        return at ? PTX_B32 : PTX_B64;
    case PTX_OP_CVT_PACK:
    case PTX_OP_FNS:
    case PTX_OP_DP4A:
    case PTX_OP_DP2A:
        return PTX_B32;
    default:
        return mbarrier_type(insn, at, first);
    }
}

bool sim_is_special(const ptx_insn *src)
{
    switch (src->op) {
    case PTX_OP_EX2:
    case PTX_OP_LG2:
    case PTX_OP_SIN:
    case PTX_OP_COS:
    case PTX_OP_TANH:
    case PTX_OP_RCP:
    case PTX_OP_RSQRT:
    case PTX_OP_SQRT:
        return true;
    default:
        return false;
    }
}

/* 2 m n k of a matrix instruction, by its shape's text. */
uint64_t sim_flops_of(const ptx_insn *src)
{
    unsigned m, n, k;
    if (src->op == PTX_OP_WGMMA_MMA_ASYNC) /* a warp has 16 of the 64 rows */
        return 2ull * 16 * src->columns * src->depth;
    if (src->op != PTX_OP_MMA && src->op != PTX_OP_MMA_SP &&
        src->op != PTX_OP_WMMA_MMA)
        return 0;
    for (int i = 0; i < src->n_mods; i++)
        if (sscanf(ptx_mod_text((ptx_mod)src->mods[i]), "m%un%uk%u", &m, &n,
                   &k) == 3)
            return 2ull * m * n * k;
    return 0;
}
