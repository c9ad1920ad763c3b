/* What engine.c, engine_flow.c and engine_call.c share. */
#ifndef SPT_SIM_ENGINE_INT_H
#define SPT_SIM_ENGINE_INT_H

#include "decode.h"

enum { SIM_ALL_LANES_READY = 0 };

/* Runs a warp until it waits, ends or has had its turn; false: it waited. */
bool sim_warp_run(sim_warp *w);

/*
 * engine_cta.c. A cluster of a launch is opened once and begun for each number;
 * print: where all its CTAs print, NULL: each for itself. A turn is one for
 * each warp; true when the cluster has ended, with fault or without.
 */
bool sim_cluster_open(sim_cluster *cluster, sim_launch *launch,
                      uint64_t *visits, spt_buf *print);
void sim_cluster_close(sim_cluster *cluster);
bool sim_cluster_begin(sim_cluster *cluster, uint64_t number);
bool sim_cluster_turn(sim_cluster *cluster);
/* The CUresult of its first CTA that has one, or 0. */
int sim_cluster_fault(const sim_cluster *cluster);
/* barrier.cluster: lanes come; lanes wait, false when they have to; opens it
   when all that are left have come. */
void sim_cluster_arrive(sim_warp *w, uint32_t exec);
bool sim_cluster_wait(sim_warp *w, uint32_t exec);
void sim_cluster_check(sim_cluster *cluster);

/* Adds lanes that stand at pc; merges with lanes that do already. */
void sim_group_add(sim_warp *w, const sim_insn *pc, sim_frame *frame,
                   uint32_t mask, int state, uint32_t need, uint8_t barrier);
/* The running group gives up its lanes exec at pc in that state; its other
   lanes go on at the next instruction. */
void sim_group_park(sim_warp *w, const sim_insn *in, const sim_insn *pc,
                    uint32_t exec, int state, uint32_t need, uint8_t barrier);
/* A frame for code above parent; NULL when out of memory. */
sim_frame *sim_frame_new(sim_warp *w, sim_frame *parent, const sim_code *code,
                         uint32_t lanes);
void sim_frame_free(sim_warp *w, sim_frame *frame);
/* Opens the barrier again when all have come. */
void sim_barrier_check(sim_cta *cta, uint32_t id);
void sim_lanes_exit(sim_warp *w, uint32_t lanes);
void sim_call_run(const sim_insn *in, sim_warp *w, uint8_t *regs,
                  uint32_t exec);
void sim_call_return(sim_warp *w, uint32_t lanes);
/* Byte at of a lane's local memory; that bytes were written, and whether
   (without checks: yes). */
uint8_t *sim_local_byte(const sim_warp *w, uint64_t at, unsigned lane);
void sim_local_written(sim_warp *w, const uint8_t *byte, uint32_t bytes);
bool sim_local_is_written(const sim_warp *w, const uint8_t *byte);
/* Lanes call a function that the module only declares. */
void sim_extern_run(const sim_insn *in, sim_warp *w, const uint8_t *regs,
                    const ptx_func *callee, uint32_t exec);
/* The lane whose value shfl gives to a lane. */
unsigned sim_shfl_lane(const sim_insn *in, const uint8_t *regs, unsigned lane);
uint64_t sim_special_value(const sim_warp *w, uint32_t special, unsigned lane);
/* A special register that lanes of a warp, and CTAs of a launch, have
   different values of. */
bool sim_special_of_lane(uint32_t special);
bool sim_special_of_cta(uint32_t special);

static inline const sim_insn *sim_go(const sim_insn *in, sim_warp *w,
                                     uint8_t *regs, uint32_t exec)
{
    return exec == UINT32_MAX ? in->full(in, w, regs, exec)
                              : in->masked(in, w, regs, exec);
}

#endif
