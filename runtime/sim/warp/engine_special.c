/*
 * Values of special registers. Clocks count what a warp has run, so that they
 * are the same on every run.
 */
#include "engine_int.h"

static uint64_t of_triple(const uint32_t *v, uint32_t at)
{
    return at < 3 ? v[at] : 0;
}

static uint64_t of_lane(uint32_t special, unsigned lane)
{
    uint32_t bit = 1u << lane, below = bit - 1;
    switch (special) {
    case PTX_SPECIAL_LANEID:
        return lane;
    case PTX_SPECIAL_LANEMASK_EQ:
        return bit;
    case PTX_SPECIAL_LANEMASK_LT:
        return below;
    case PTX_SPECIAL_LANEMASK_LE:
        return below | bit;
    case PTX_SPECIAL_LANEMASK_GT:
        return (uint32_t) ~(below | bit);
    default:
        return (uint32_t)~below;
    }
}

static uint64_t of_clock(const sim_warp *w, uint32_t special)
{
    uint64_t now = w->cta->instructions + w->clock + ++((sim_warp *)w)->ticks;
    switch (special) {
    case PTX_SPECIAL_CLOCK_HI:
    case PTX_SPECIAL_GLOBALTIMER_HI:
        return now >> 32;
    default:
        return now;
    }
}

static void thread_of(const sim_warp *w, unsigned lane, uint32_t id[3])
{
    const uint32_t *block = w->launch->args.block;
    uint32_t thread = w->index * SIM_LANES + lane;
    id[0] = thread % block[0];
    id[1] = thread / block[0] % block[1];
    id[2] = thread / block[0] / block[1];
}

static uint64_t of_cluster(const sim_cta *cta, uint32_t special)
{
    const uint32_t *size = cta->launch->cluster, *grid = cta->launch->args.grid;
    uint32_t v[3];
    if (special == PTX_SPECIAL_CLUSTER_CTARANK)
        return cta->rank;
    if (special == PTX_SPECIAL_CLUSTER_NCTARANK)
        return cta->cluster->n;
    if (special >= PTX_SPECIAL_CLUSTER_NCTAID_X)
        return of_triple(size, special - PTX_SPECIAL_CLUSTER_NCTAID_X);
    uint32_t first =
        special >= PTX_SPECIAL_CLUSTER_CTAID_X ? PTX_SPECIAL_CLUSTER_CTAID_X
        : special >= PTX_SPECIAL_NCLUSTERID_X  ? PTX_SPECIAL_NCLUSTERID_X
                                               : PTX_SPECIAL_CLUSTERID_X;
    for (int i = 0; i < 3; i++)
        v[i] = first == PTX_SPECIAL_CLUSTER_CTAID_X ? cta->id[i] % size[i]
               : first == PTX_SPECIAL_CLUSTERID_X   ? cta->id[i] / size[i]
                                                    : grid[i] / size[i];
    return of_triple(v, special - first);
}

uint64_t sim_special_value(const sim_warp *w, uint32_t special, unsigned lane)
{
    const sim_launch *launch = w->launch;
    const sim_launch_args *args = &launch->args;
    uint32_t id[3];
    if (special <= PTX_SPECIAL_TID_W) {
        thread_of(w, lane, id);
        return of_triple(id, special - PTX_SPECIAL_TID_X);
    }
    if (special <= PTX_SPECIAL_NTID_W)
        return of_triple(args->block, special - PTX_SPECIAL_NTID_X);
    if (special <= PTX_SPECIAL_CTAID_W)
        return of_triple(w->cta->id, special - PTX_SPECIAL_CTAID_X);
    if (special <= PTX_SPECIAL_NCTAID_W)
        return of_triple(args->grid, special - PTX_SPECIAL_NCTAID_X);
    if (special >= PTX_SPECIAL_CLUSTERID_X &&
        special <= PTX_SPECIAL_CLUSTER_NCTARANK)
        return of_cluster(w->cta, special);
    if (sim_special_of_lane(special))
        return of_lane(special, lane);
    if (sim_special_of_clock(special))
        return of_clock(w, special);
    switch (special) {
    case PTX_SPECIAL_WARPID:
        return w->index;
    case PTX_SPECIAL_NWARPID:
        return w->cta->n_warps;
    case PTX_SPECIAL_SMID:
        return w->cta->index % (uint64_t)args->board->sm_count;
    case PTX_SPECIAL_NSMID:
        return (uint64_t)args->board->sm_count;
    case PTX_SPECIAL_GRIDID:
        return args->grid_id;
    case PTX_SPECIAL_DYNAMIC_SMEM:
        return args->dynamic_shared;
    case PTX_SPECIAL_TOTAL_SMEM:
        return launch->shared_bytes - launch->shared_base;
    case PTX_SPECIAL_AGGR_SMEM:
        return launch->shared_bytes;
    case PTX_SPECIAL_RESERVED_SMEM_END:
    case PTX_SPECIAL_RESERVED_SMEM_CAP:
        return launch->shared_base;
    case PTX_SPECIAL_IS_EXPLICIT_CLUSTER:
        return args->cluster[0] != 0;
    /* Where CUDA's cooperative groups look for a grid's barrier. */
    case PTX_SPECIAL_ENVREG1:
        return args->workspace >> 32;
    case PTX_SPECIAL_ENVREG2:
        return (uint32_t)args->workspace;
    default:
        return 0;
    }
}

bool sim_special_of_clock(uint32_t special)
{
    switch (special) {
    case PTX_SPECIAL_CLOCK:
    case PTX_SPECIAL_CLOCK_HI:
    case PTX_SPECIAL_CLOCK64:
    case PTX_SPECIAL_GLOBALTIMER:
    case PTX_SPECIAL_GLOBALTIMER_LO:
    case PTX_SPECIAL_GLOBALTIMER_HI:
        return true;
    default:
        return false;
    }
}

bool sim_special_of_lane(uint32_t special)
{
    switch (special) {
    case PTX_SPECIAL_LANEID:
    case PTX_SPECIAL_LANEMASK_EQ:
    case PTX_SPECIAL_LANEMASK_LE:
    case PTX_SPECIAL_LANEMASK_LT:
    case PTX_SPECIAL_LANEMASK_GE:
    case PTX_SPECIAL_LANEMASK_GT:
        return true;
    default:
        return special <= PTX_SPECIAL_TID_W;
    }
}

bool sim_special_of_cta(uint32_t special)
{
    return (special >= PTX_SPECIAL_CTAID_X && special <= PTX_SPECIAL_CTAID_W) ||
           (special >= PTX_SPECIAL_CLUSTERID_X &&
            special <= PTX_SPECIAL_CLUSTERID_W) ||
           special == PTX_SPECIAL_SMID;
}
