/*
 * Asynchronous copies (cp.async, cp.async.bulk) and mbarriers.
 *
 * A copy is done at the moment its thread has waited for it, not before: that
 * is as late as the rules allow, so that a missing wait shows. Until then the
 * destination's bytes are marked as in flight. Without checks it is done when
 * it is issued, which the rules allow too.
 */
#ifndef SPT_SIM_ASYNC_H
#define SPT_SIM_ASYNC_H

#include "access.h"
#include "tensor_map.h"

/* One warp instruction's copies, 4 to 16 bytes per lane. */
typedef struct sim_copy {
    const sim_insn *in;
    uint32_t lanes; /* not done yet */
    uint8_t bytes;
    uint32_t group[SIM_LANES]; /* number of the commit that takes the lane */
    uint32_t to[SIM_LANES]; /* shared offset */
    uint8_t size[SIM_LANES]; /* bytes read; the rest is zeros */
    const uint8_t *from[SIM_LANES]; /* NULL: data has all that is read */
    uint8_t data[SIM_LANES][16]; /* as it was when issued */
} sim_copy;

/* A mbarrier that lanes arrive on once their copies so far are done. */
typedef struct sim_deferred {
    const sim_insn *in;
    uint32_t address, lanes;
    size_t copies; /* of the list that came before */
} sim_deferred;

/* One lane's bulk copy that is not done yet. */
typedef struct sim_bulk {
    const sim_insn *in;
    unsigned lane;
    enum { SIM_BULK_COPY, SIM_BULK_BOX, SIM_BULK_VALUE } kind;
    uint64_t to, from; /* global address, offset in shared memory */
    sim_cta *target; /* of loads: whose shared memory and mbarrier */
    bool again; /* a multicast's data that have been read and counted */
    uint32_t bytes;
    uint32_t mbarrier; /* of loads */
    uint32_t group; /* of stores: number of the commit that takes it */
    /* A box of a tensor, which is the global side: its map, coordinates. */
    int32_t at[SIM_TENSOR_RANK];
    sim_tensor_map map;
    uint8_t value[SIM_CHUNK]; /* of st.async and red.async */
} sim_bulk;

/* To shared memory: it completes at an mbarrier. */
static inline bool sim_bulk_is_load(const sim_insn *in)
{
    return in->src->space == PTX_SHARED;
}

/* Many units of 16 bytes, counted as the copy engine's, 32 at once. */
typedef struct sim_bulk_tally {
    const sim_bulk *bulk;
    unsigned units;
    uint64_t global[SIM_LANES];
    uint32_t shared[SIM_LANES];
} sim_bulk_tally;

typedef struct sim_async {
    sim_copy *copies;
    size_t count, room;
    uint32_t committed[SIM_LANES];
    sim_deferred *deferred;
    size_t n_deferred, deferred_room;
    sim_bulk *bulks;
    size_t n_bulks, bulk_room;
    uint32_t bulk_committed[SIM_LANES];
} sim_async;

sim_async *sim_async_new(void);
void sim_async_delete(sim_async *async);
void sim_async_begin(sim_async *async);
/* The warp's CTA has ended: what is pending is reported and dropped. */
void sim_async_end(sim_warp *w);

/* Performs, of the first n entries, the copies of lanes. */
void sim_async_perform(sim_warp *w, size_t n, uint32_t lanes);

/* Arrives count times; reports wrong use. In async_mbarrier.c. */
void sim_mbarrier_arrive(sim_warp *w, const sim_insn *in, unsigned lane,
                         uint32_t address, uint32_t count, bool drop);
/* One more arrival is to come before the phase ends. */
void sim_mbarrier_await(sim_warp *w, const sim_insn *in, unsigned lane,
                        uint32_t address);
/* Bytes of the phase's transactions have come. */
void sim_mbarrier_complete(sim_warp *w, const sim_insn *in, unsigned lane,
                           uint32_t address, uint32_t bytes);

/* For async_tensor.c and async_value.c. */
/* The shared side lies in a CTA's memory; else a report and false. */
bool sim_bulk_fits(sim_warp *w, const sim_bulk *bulk, uint64_t shared);
/* The CTA that a load goes to, by its addresses; else a report and false. */
bool sim_bulk_target(sim_warp *w, sim_bulk *bulk, uint64_t to,
                     uint64_t mbarrier);
/* Issues a load to each CTA of the mask. */
void sim_bulk_multicast(sim_warp *w, sim_bulk *bulk, uint32_t mask);
/* Issues a copy whose sides are sound. */
void sim_bulk_issue(sim_warp *w, const sim_bulk *bulk);
/* One place of a copy, checked as the thread's own access; after a
   fault it is none of the memory's. */
uint8_t *sim_bulk_place(sim_access *a, sim_warp *w, const sim_bulk *bulk,
                        uint64_t address, uint32_t bytes, unsigned space,
                        bool write);
/* Bytes of a load stand in shared memory now. */
void sim_bulk_land(sim_warp *w, const sim_bulk *bulk, uint64_t to,
                   uint32_t bytes);
void sim_bulk_count(sim_bulk_tally *tally, sim_warp *w, uint64_t global,
                    uint32_t shared);
void sim_bulk_count_end(sim_bulk_tally *tally, sim_warp *w);
/* The value of a lane's scalar operand. */
uint64_t sim_bulk_operand(const sim_insn *in, const uint8_t *regs, int operand,
                          unsigned lane);

/* async_tensor.c: marks what a load is to bring; moves all of a box. */
void sim_tensor_fly(const sim_bulk *bulk);
void sim_tensor_move(sim_warp *w, const sim_bulk *bulk);
sim_op sim_tensor_op(const ptx_insn *insn);

/* tensor_replace.c */
sim_op sim_replace_op(const ptx_insn *insn);

/* async_value.c */
void sim_value_move(sim_warp *w, const sim_bulk *bulk);
sim_op sim_value_op(const ptx_insn *insn);

/* Clocks that are no mbarrier's: what a warp did is known to those that pass
   the same key later. Keys from here on, and down. */
#define SIM_CLOCK_KEY UINT32_MAX
void sim_clock_leave(sim_warp *w, uint32_t key);
void sim_clock_take(sim_warp *w, uint32_t key);

/* async_bulk.c: does what a CTA's mbarrier is asked about, and what is left. */
void sim_bulk_settle(sim_warp *w, const sim_cta *target, uint32_t mbarrier);
void sim_bulk_end(sim_warp *w);

struct sim_mbarriers *sim_mbarriers_new(uint32_t warps);
void sim_mbarriers_delete(struct sim_mbarriers *table);
void sim_mbarriers_begin(struct sim_mbarriers *table);

#endif
