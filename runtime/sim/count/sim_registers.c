/*
 * An estimate of a kernel's registers from its PTX, which has as many virtual
 * ones as it likes: the largest number of 32-bit words alive at one
 * instruction (liveness over basic blocks; predicates have registers of their
 * own), plus eight for addresses and what the assembler keeps, in steps of
 * eight, at least 16. An assembler reorders, rematerialises and spills, so
 * this can be off either way; what a kernel really takes is in its cubin.
 */
#include "sim_driver.h"

#include "mem.h"
#include "ptx_live.h"

enum { EXTRA = 8, STEP = 8, LEAST = 16, BITS = 64 };

static int alive_words(const ptx_live *live, const uint8_t *size)
{
    int words = 0;
    for (size_t i = 0; i < live->words; i++)
        for (uint64_t left = live->now[i]; left; left &= left - 1)
            words += size[i * BITS + (size_t)__builtin_ctzll(left)];
    return words;
}

/* size: of each register, in 32-bit words. */
static int most_of(ptx_live *live, const uint8_t *size)
{
    int most = 0;
    for (uint32_t b = 0; b < live->func->n_blocks; b++) {
        const ptx_block *block = &live->func->blocks[b];
        ptx_live_behind(live, b);
        for (uint32_t i = block->last + 1; i-- > block->first;) {
            int words = alive_words(live, size);
            most = words > most ? words : most;
            ptx_live_step(live, &live->func->insns[i]);
        }
    }
    return most;
}

static int most_alive(const ptx_func *func)
{
    ptx_live live;
    uint8_t *size = spt_calloc((size_t)func->n_regs + BITS, 1);
    int most = 0;
    if (ptx_live_find(&live, func) && size) {
        for (uint32_t i = 0; i < func->n_regs; i++)
            if (func->regs[i].type != PTX_PRED)
                size[i] =
                    (uint8_t)((ptx_type_bytes((ptx_type)func->regs[i].type) +
                               3) /
                              4);
        most = most_of(&live, size);
    }
    spt_free(size);
    ptx_live_free(&live);
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
