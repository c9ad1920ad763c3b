/*
 * The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h of
 * the toolkit): registers go to warps in units, each of the four partitions of
 * an SM has a quarter of them, and the launch check takes the warps of a CTA
 * as rounded up to the partitions; shared memory is given in units of 128
 * bytes, with the system's reserve per CTA on top.
 */
#include "occupancy.h"

enum { LANES = 32, PARTITIONS = 4, SHARED_UNIT = 128 };

static int round_up(int value, int unit)
{
    return (value + unit - 1) / unit * unit;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int limit_by_registers(const spt_board *board, int warps, int registers)
{
    if (registers <= 0)
        return board->max_ctas_per_sm;
    if (registers > board->max_registers_per_thread)
        return 0;
    int unit = board->register_unit > 0 ? board->register_unit : 256;
    int per_warp = round_up(registers * LANES, unit);
    /* 64 K registers per CTA is the limit of all chips with sm_80 and up. */
    if (per_warp * round_up(warps, PARTITIONS) > board->registers_per_sm)
        return 0;
    int per_partition = board->registers_per_sm / PARTITIONS / per_warp;
    return per_partition * PARTITIONS / warps;
}

int spt_occupancy(const spt_board *board, int threads, int registers,
                  int shared_bytes)
{
    if (threads <= 0 || threads > board->max_threads_per_cta || registers < 0 ||
        shared_bytes < 0 || shared_bytes > board->shared_per_cta_bytes)
        return 0;
    int warps = (threads + LANES - 1) / LANES;
    int ctas = board->max_ctas_per_sm;
    ctas = smaller(ctas, board->max_warps_per_sm / warps);
    ctas = smaller(ctas, limit_by_registers(board, warps, registers));
    int shared =
        round_up(shared_bytes + board->shared_reserved_bytes, SHARED_UNIT);
    if (shared > 0)
        ctas = smaller(ctas, board->shared_per_sm_bytes / shared);
    return ctas;
}
