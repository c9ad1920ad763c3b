/*
 * Memory instructions: from the addresses of 32 lanes to host pointers.
 *
 * A handler fills a sim_access, resolves it, and then moves data through at[].
 * Resolving finds the space of each lane (generic addresses by their window),
 * checks bounds and alignment always, and with checks on what the shadow state
 * says; a lane that fails is reported and gets a scratch place (poison when it
 * reads), so that the handler goes on the same way.
 */
#ifndef SPT_SIM_ACCESS_H
#define SPT_SIM_ACCESS_H

#include <string.h>

#include "counters.h"
#include "engine.h"
#include "memory.h"

enum { SIM_ACCESS_MAX = 32, SIM_RANGES = 8 };

typedef struct sim_access {
    const sim_insn *in;
    sim_warp *w;
    uint32_t exec; /* lanes that take part */
    uint32_t bytes; /* per lane, 1 to 32: a power of two */
    bool write, checks;
    bool strong; /* ordered by itself: atomics, volatile, .relaxed, ... */
    bool async; /* the copy engine's, not this thread's */
    bool run; /* result: all lanes, side by side in lane order */
    int count; /* sim_count_kind, or -1 */
    /* Of a store: the registers that it writes, one per element; else NULL. */
    const sim_arg *value;
    const uint8_t *regs;
    uint32_t element; /* bytes */
    uint64_t addr[SIM_LANES];
    uint8_t *at[SIM_LANES]; /* result, valid for lanes of exec */
    uint32_t staged; /* lanes whose at[] is scratch */
    uint32_t local; /* lanes to be written back to local memory */
    uint32_t failed; /* lanes that had a fatal fault */
    uint8_t scratch[SIM_LANES][SIM_ACCESS_MAX];
} sim_access;

/* What an access is unless its caller says otherwise: the thread's own, plain
   and counted as a load or a store. Addresses are still to be set. */
static inline void sim_access_begin(sim_access *a, const sim_insn *in,
                                    sim_warp *w, uint32_t exec, uint32_t bytes,
                                    bool write, bool checks)
{
    a->in = in;
    a->w = w;
    a->exec = exec;
    a->bytes = bytes;
    a->write = write;
    a->checks = checks;
    a->strong = a->async = a->run = false;
    a->count = write ? SIM_COUNT_ST : SIM_COUNT_LD;
    a->value = NULL;
}

/* The same address for every lane. */
static inline void sim_access_one(sim_access *a, uint64_t address)
{
    for (unsigned l = 0; l < SIM_LANES; l++)
        a->addr[l] = address;
}

/* Per CTA: cta->memory. */
typedef struct sim_cta_memory {
    sim_range ranges[SIM_RANGES]; /* allocations used last, newest first */
    uint64_t *shared_bits; /* written; NULL without checks */
    uint64_t *flight_bits; /* destination of an asynchronous copy */
    uint32_t flights; /* lanes' copies in flight */
    struct sim_race *race; /* NULL without checks */
    struct sim_shapes *shapes; /* NULL without checks */
    struct sim_mbarriers *mbarriers;
} sim_cta_memory;

/* Per warp: w->memory. */
typedef struct sim_warp_memory {
    uint64_t *local_bits; /* per byte of w->local; NULL without checks */
    struct sim_async *async;
    struct sim_wgmma *wgmma; /* NULL until one is met */
} sim_warp_memory;

static inline sim_cta_memory *sim_cta_memory_of(const sim_warp *w)
{
    return w->cta->memory;
}

/* The lanes' addresses of an operand. */
static inline void sim_access_addresses(const sim_arg *arg, const sim_warp *w,
                                        const uint8_t *regs, uint64_t *addr)
{
    uint64_t offset = (uint64_t)arg->offset;
    if (arg->flags & SIM_ARG_FRAME)
        offset += w->frame->local_base;
    if (arg->width == 8) {
        const uint64_t *base = (const void *)(regs + arg->slot);
        for (int l = 0; l < SIM_LANES; l++)
            addr[l] = base[l] + offset;
    } else {
        const uint32_t *base = (const void *)(regs + arg->slot);
        uint64_t mask =
            arg->flags & SIM_ARG_FRAME ? ~UINT64_C(0) : SIM_WINDOW_MASK;
        for (int l = 0; l < SIM_LANES; l++)
            addr[l] = (base[l] + offset) & mask;
    }
}

/*
 * Finds at[] for every lane of exec; space is a ptx_space. Lanes that do not
 * take part get the address of one that does.
 */
void sim_access_resolve(sim_access *a, unsigned space);
/* Global bytes as one piece, without a report: inside one allocation, and, with
   checks, written before, or by this. NULL when they are not. */
uint8_t *sim_global_span(sim_warp *w, uint64_t address, uint64_t bytes,
                         bool write);
/* After a write: what was staged goes where it belongs. */
void sim_access_finish(sim_access *a);

/*
 * May a handler of whole warps (lanes_places.h) move the data itself? at:
 * offsets behind host, which is shared memory from its first free byte on or
 * one of the CTA's ranges; in bounds and aligned. In a launch with checks true
 * when they find nothing to tell but races, which are told; then the access
 * is counted as well. Otherwise false, and nothing is done.
 */
bool sim_admit(const sim_insn *in, sim_warp *w, const uint8_t *regs,
               const uint8_t *host, const uint32_t *at, uint32_t exec,
               uint32_t bytes, bool write);
/* A load or store that neither orders anything nor bypasses L1. */
bool sim_access_is_plain(const ptx_insn *insn);

/* Takes lanes out of a shared access that are other CTAs' of the cluster, found
   and checked; what is left has its offset without a rank. */
uint32_t sim_access_peers(sim_access *a, uint32_t lanes, uint64_t *offset);
/* Reports lanes, which then read poison and write nowhere. */
void sim_access_fail(sim_access *a, spt_sim_kind kind, uint32_t lanes,
                     const char *detail);
/* Reports kind for the lanes, the first of which is the example. */
void sim_access_report(const sim_access *a, spt_sim_kind kind, uint32_t lanes,
                       const char *detail);
/* The same without an access: one lane or a whole warp instruction. */
void sim_insn_report(sim_warp *w, const sim_insn *in, spt_sim_kind kind,
                     unsigned lane, uint64_t address, const char *detail);
/* Reports a .aligned instruction that lacks lanes; true when all take part. */
bool sim_whole_warp(sim_warp *w, const sim_insn *in, uint32_t exec);

static inline unsigned sim_first_lane(uint32_t lanes)
{
    return (unsigned)__builtin_ctz(lanes);
}

/* Tables of handlers, by file; NULL when the instruction is not theirs. */
sim_op sim_access_op(const ptx_insn *insn, bool checks);
sim_op sim_atom_op(const ptx_insn *insn, bool checks);
sim_op sim_matrix_op(const ptx_insn *insn, bool checks);
sim_op sim_wmma_op(const ptx_insn *insn, bool checks);
/* mma forms that the matrix unit's fast code does not know. */
sim_op sim_mma_op(const ptx_insn *insn);
sim_op sim_wgmma_op(const ptx_insn *insn, bool checks);
/* A CTA's begin and end, for one warp; frees. */
void sim_wgmma_begin(sim_warp *w);
void sim_wgmma_end(sim_warp *w);
void sim_wgmma_delete(struct sim_wgmma *wgmma);
sim_op sim_bulk_op(const ptx_insn *insn);
sim_op sim_cluster_op(const ptx_insn *insn);
sim_op sim_async_op(const ptx_insn *insn, bool checks);
sim_op sim_mbarrier_op(const ptx_insn *insn, bool checks);

/* The atomic of insn on each element of a type in bytes: at with from. */
void sim_atom_combine(const ptx_insn *insn, ptx_type type, uint8_t *at,
                      const uint8_t *from, uint32_t bytes);

/* Shared offset of a lane's 32-bit, 64-bit or generic shared address. */
static inline uint64_t sim_shared_offset(uint64_t address)
{
    return address >= SIM_SHARED_WINDOW ? address - SIM_SHARED_WINDOW : address;
}

/* The CTA of the cluster that a shared offset is in; NULL: there is none. */
static inline sim_cta *sim_shared_cta(sim_cta *own, uint64_t offset)
{
    uint64_t rank = offset >> SIM_SHARED_RANK_SHIFT;
    if (!rank)
        return own;
    return rank <= own->cluster->n ? &own->cluster->ctas[rank - 1] : NULL;
}

/* No thread of the CTA will run any more: its memory is gone. */
static inline bool sim_cta_has_ended(const sim_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++)
        if (!cta->warps[i].done)
            return false;
    return true;
}

#endif
