/*
 * The time of one launch by its counters. Five resources work at the same
 * time, so the slowest decides; the waves and the launch come on top.
 *
 *   dram    bytes read and written / (data-sheet rate * reachable fraction)
 *   l2      sectors * 32 bytes / rate of L2
 *   issue   warp instructions / (SMs in use * 4 per cycle)
 *   matrix  flop / (bf16 rate * fraction that mma.sync reaches), those of wgmma
 *           at all of that rate, scaled to the SMs in use
 *   shared  wavefronts / (SMs in use * 1 per cycle)
 *
 * "SMs in use" is the average over the waves: a last wave that fills half of
 * the machine leaves half of it idle. One wave costs at least its fixed time,
 * and one CTA at least the latency of its first DRAM access. PTX instructions
 * are not machine instructions; one for one is the model.
 */
#include "counters.h"
#include "occupancy.h"

enum { ISSUE_PER_CYCLE = 4, SECTOR_BYTES = 32 };

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* amount / rate, where a board without that rate takes no time. */
static double over(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

double sim_time_us(const spt_sim_counters *counters, const spt_board *board,
                   const sim_geometry *geometry)
{
    int per_sm = spt_occupancy(board, geometry->threads, geometry->registers,
                               geometry->shared_bytes);
    double slots = (double)board->sm_count * (per_sm > 0 ? per_sm : 1);
    double ctas = geometry->ctas ? (double)geometry->ctas : 1;
    double waves = (double)(uint64_t)((ctas + slots - 1) / slots);
    /* With at most one CTA per SM only as many SMs work as there are CTAs. */
    double busy = ctas < board->sm_count ? ctas / board->sm_count
                                         : ctas / (waves * slots);
    if (waves <= 1 && ctas >= board->sm_count)
        busy = 1;
    double sms = board->sm_count * busy;

    double dram_bytes =
        (double)(counters->dram__bytes_read + counters->dram__bytes_write);
    double l2_sectors = (double)(counters->lts__t_sectors_op_read +
                                 counters->lts__t_sectors_op_write +
                                 counters->lts__t_sectors_op_atom);
    double efficiency = board->dram_efficiency > 0 ? board->dram_efficiency : 1;
    double dram = over(dram_bytes, board->dram_gbps * efficiency * 1e3);
    double l2 = over(l2_sectors * SECTOR_BYTES, board->l2_gbps * 1e3);
    double issue = over((double)counters->ptx_inst,
                        sms * ISSUE_PER_CYCLE * board->clock_mhz);
    double rate = board->bf16_tflops * busy * 1e6;
    double matrix = over((double)(counters->mma_flops - counters->wgmma_flops),
                         rate * board->mma_sync_fraction) +
                    over((double)counters->wgmma_flops, rate);
    double shared = over((double)counters->memory_l1_wavefronts_shared,
                         sms * board->clock_mhz);

    double time =
        larger(larger(larger(dram, l2), larger(issue, matrix)), shared);
    time += waves * board->wave_us + board->dram_latency_ns * 1e-3;
    time += board->launch_us;
    if (!geometry->graph)
        time = larger(time, board->launch_eager_us);
    return time;
}
