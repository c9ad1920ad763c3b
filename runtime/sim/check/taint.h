/*
 * Values that a kernel read from local or shared memory never written.
 *
 * Reading them is no fault: compilers read ahead of a choice (selp) and copy
 * padding. The fault is a value that decides something: an address, a branch,
 * what other threads, global memory or the matrix unit get. So a load of such
 * bytes marks the bits of the registers that it fills, and while a warp has
 * marked registers it runs one instruction at a time: results of marked
 * operands are marked, a store to local or shared memory marks the bytes
 * there, and a use that decides is reported at the place of the load.
 *
 * Marks change no value, counter or order. Bits are exact for moves, logic,
 * shifts, conversions of integers and choices; sums and products count as
 * undefined from their lowest undefined bit on, all else as a whole.
 */
#ifndef SPT_SIM_TAINT_H
#define SPT_SIM_TAINT_H

#include "access.h"

/*
 * The lanes' accesses to shared (kind SPT_SIM_UNINIT_SHARED) or local memory
 * (..._LOCAL), unwritten of which read bytes never written. Of loads it marks
 * registers and sets w->event to SIM_EVENT_STEP; other reads are reported.
 * Writes take marks away from memory. Offsets are within the block's shared or
 * the thread's local memory.
 */
void sim_taint_access(const sim_access *a, spt_sim_kind kind, uint32_t lanes,
                      uint32_t unwritten, const uint64_t *offset);

/* A byte of a lane's local memory has undefined bits. */
bool sim_taint_local(const sim_warp *w, const uint8_t *byte);

/* Bytes of shared memory at offset, or of a warp's local memory, were written
   by something else than an access. */
void sim_taint_shared_written(sim_cta *cta, uint64_t offset, uint32_t bytes);
void sim_taint_local_written(sim_warp *w, const uint8_t *byte, uint32_t bytes);

/* The byte d of local memory becomes a copy of s. */
void sim_taint_copy(const sim_warp *w, const uint8_t *d, const uint8_t *s);

/* The warp has marked registers: it must run in sim_taint_run. */
bool sim_taint_any(const sim_warp *w);

/*
 * Runs the warp's group from pc on until it has an event or no register is
 * marked any more; returns where it stands.
 */
const sim_insn *sim_taint_run(sim_warp *w, const sim_insn *pc);

/* At the start of a CTA, and at its end. */
void sim_taint_clear(sim_cta *cta);
void sim_taint_free(sim_cta *cta);

/* taint_bits.c: which bits of a result are undefined. */
enum { SIM_TAINT_OPERANDS = 5 };
typedef struct sim_taint_operands {
    uint64_t bits[SIM_TAINT_OPERANDS]; /* undefined ones of the sources */
    uint64_t value[SIM_TAINT_OPERANDS];
} sim_taint_operands;
uint64_t sim_taint_result(const ptx_insn *src, const sim_taint_operands *o);

#endif
