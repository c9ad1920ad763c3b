/*
 * Which registers of a function are alive where: a register is alive at a
 * place when a thread can still read there what it holds. A register that may
 * be read before it was written is alive from the function's start on.
 */
#ifndef SPT_PTX_LIVE_H
#define SPT_PTX_LIVE_H

#include "ptx.h"

typedef struct ptx_live {
    const ptx_func *func;
    size_t words; /* of a set of registers */
    uint64_t *in; /* (block, words): alive before a block */
    uint64_t *now; /* (words): alive at the place of a walk */
} ptx_live;

/* false when out of memory; ptx_live_free is needed either way. */
bool ptx_live_find(ptx_live *live, const ptx_func *func);
void ptx_live_free(ptx_live *live);

/* A walk goes backwards: it begins behind a block, and now is what is alive
   there; each step is one instruction back. */
void ptx_live_behind(ptx_live *live, uint32_t block);
void ptx_live_step(ptx_live *live, const ptx_insn *insn);

/* The registers of an operand, one after the other: *at is 0 before the first
   one; false when there are no more. */
bool ptx_live_next(const ptx_func *func, const ptx_operand *operand,
                   uint32_t *at, uint32_t *reg);

/* How many operands, from the first on, are results. */
int ptx_live_results(const ptx_insn *insn);

#endif
