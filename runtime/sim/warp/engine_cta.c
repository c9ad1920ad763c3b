/*
 * CTAs and clusters of them: all CTAs of a cluster run by turns in one host
 * thread. A launch without clusters has clusters of one.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "engine_int.h"
#include "taint.h"

enum { RESULT_TIMEOUT = 702 };
#define DEFAULT_LIMIT UINT64_C(4000000000)

/* ---- CTAs ---- */

static void close_warp(sim_warp *w)
{
    while (w->all_frames) {
        sim_frame *frame = w->all_frames;
        w->all_frames = frame->older;
        free(frame->regs);
        spt_free(frame);
    }
    spt_free(w->local);
}

static void close_cta(sim_cta *cta)
{
    if (cta->memory)
        sim_memory_cta_close(cta);
    if (cta->warps)
        sim_taint_free(cta);
    for (uint32_t i = 0; cta->warps && i < cta->n_warps; i++)
        close_warp(&cta->warps[i]);
    if (cta->counts)
        sim_counts_free(cta->counts);
    spt_buf_free(&cta->own_print);
    spt_free(cta->warps);
    spt_free(cta->synced);
    spt_free(cta->shared);
    memset(cta, 0, sizeof *cta);
}

static bool open_cta(sim_cta *cta, sim_launch *launch, uint64_t *visits)
{
    const uint32_t *block = launch->args.block;
    cta->launch = launch;
    cta->n_threads = block[0] * block[1] * block[2];
    cta->n_warps = (cta->n_threads + SIM_LANES - 1) / SIM_LANES;
    cta->shared_bytes = launch->shared_bytes;
    cta->shared = spt_calloc(launch->shared_bytes + 64, 1);
    cta->warps = spt_calloc(cta->n_warps, sizeof *cta->warps);
    cta->synced = spt_calloc(cta->n_warps, sizeof *cta->synced);
    if (launch->args.counters)
        cta->counts = spt_calloc(1, sizeof *cta->counts);
    bool good = cta->shared && cta->warps && cta->synced &&
                (cta->counts || !launch->args.counters);
    for (uint32_t i = 0; good && i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        w->cta = cta;
        w->launch = launch;
        w->index = i;
        w->visits = visits;
        w->local_bytes = launch->local_bytes;
        w->local = spt_calloc(SIM_LANES, launch->local_bytes + 4);
        good = w->local != NULL;
    }
    return good && sim_memory_cta_open(cta);
}

/* All frames of the last CTA go back; a first frame for each warp. */
static bool begin_warp(sim_warp *w)
{
    const sim_cta *cta = w->cta;
    uint32_t left = cta->n_threads - w->index * SIM_LANES;
    w->n_groups = 0;
    w->free_frames = NULL;
    for (sim_frame *frame = w->all_frames; frame; frame = frame->older)
        sim_frame_free(w, frame);
    w->alive = left >= SIM_LANES ? UINT32_MAX : (1u << left) - 1;
    w->done = w->fair = w->forced = false;
    w->clock = w->ticks = 0;
    w->cluster_came = w->cluster_owes = 0;
    w->frame = sim_frame_new(w, NULL, w->launch->code, w->alive);
    if (!w->frame)
        return false;
    sim_group_add(w, w->launch->code->starts[0], w->frame, w->alive, SIM_READY,
                  0, 0);
    return true;
}

/* Number of a CTA in the grid, from the number of its cluster. */
static uint64_t place_cta(sim_cta *cta, uint64_t number)
{
    const uint32_t *grid = cta->launch->args.grid;
    const uint32_t *size = cta->launch->cluster;
    uint32_t rank = cta->rank;
    for (int i = 0; i < 3; i++) {
        uint32_t clusters = grid[i] / size[i];
        cta->id[i] = (uint32_t)(number % clusters) * size[i] + rank % size[i];
        number /= clusters;
        rank /= size[i];
    }
    return cta->id[0] +
           (uint64_t)grid[0] * (cta->id[1] + (uint64_t)grid[1] * cta->id[2]);
}

static bool begin_cta(sim_cta *cta, uint64_t number)
{
    cta->index = place_cta(cta, number);
    memset(cta->barriers, 0, sizeof cta->barriers);
    cta->sequence = cta->instructions = 0;
    cta->fault = 0;
    sim_taint_clear(cta);
    for (uint32_t i = 0; i < cta->n_warps; i++)
        if (!begin_warp(&cta->warps[i]))
            return false;
    sim_memory_cta_begin(cta);
    return true;
}

static void report_stuck(sim_warp *w, const sim_group *group, spt_sim_kind kind)
{
    sim_place place;
    bool passed = group->state == SIM_AT_BARRIER;
    sim_place_of(w, group->pc - passed, (unsigned)__builtin_ctz(group->mask),
                 &place);
    sim_report_add(kind, &place, 0, 1, 0, NULL);
}

/* Lanes that wait for lanes of their warp that will not come go on without
   them; false when there are none. */
static bool release_lanes(sim_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        for (int k = 0; k < w->n_groups; k++)
            if (w->groups[k].state == SIM_AT_SYNC) {
                report_stuck(w, &w->groups[k], SPT_SIM_DIVERGENT);
                w->groups[k].state = SIM_READY;
                w->forced = true;
                return true;
            }
    }
    return false;
}

static bool report_deadlock(sim_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        if (w->done || !w->n_groups)
            continue;
        report_stuck(w, &w->groups[0], SPT_SIM_DEADLOCK);
        cta->fault = RESULT_TIMEOUT;
        return true;
    }
    return false;
}

static void report_hang(sim_cta *cta)
{
    sim_place place;
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        if (w->done || !w->n_groups)
            continue;
        sim_place_of(w, w->groups[0].pc,
                     (unsigned)__builtin_ctz(w->groups[0].mask), &place);
        sim_report_add(SPT_SIM_HANG, &place, 0, 1, 0, NULL);
        break;
    }
    cta->fault = RESULT_TIMEOUT;
}

/* ---- clusters ---- */

bool sim_cluster_open(sim_cluster *cluster, sim_launch *launch,
                      uint64_t *visits, spt_buf *print)
{
    const uint32_t *size = launch->cluster;
    cluster->n = size[0] * size[1] * size[2];
    cluster->ctas = spt_calloc(cluster->n, sizeof *cluster->ctas);
    if (!cluster->ctas)
        return false;
    for (uint32_t i = 0; i < cluster->n; i++) {
        sim_cta *cta = &cluster->ctas[i];
        cta->cluster = cluster;
        cta->rank = i;
        cta->print = print ? print : &cta->own_print;
        if (!open_cta(cta, launch, visits))
            return false;
    }
    return true;
}

void sim_cluster_close(sim_cluster *cluster)
{
    for (uint32_t i = 0; cluster->ctas && i < cluster->n; i++)
        close_cta(&cluster->ctas[i]);
    spt_free(cluster->ctas);
    cluster->ctas = NULL;
}

bool sim_cluster_begin(sim_cluster *cluster, uint64_t number)
{
    cluster->number = number;
    cluster->running = true;
    cluster->waited = false;
    for (uint32_t i = 0; i < cluster->n; i++)
        if (!begin_cta(&cluster->ctas[i], number))
            return false;
    return true;
}

int sim_cluster_fault(const sim_cluster *cluster)
{
    int fault = 0;
    for (uint32_t i = 0; i < cluster->n && !fault; i++)
        fault = cluster->ctas[i].fault;
    return fault;
}

/* Nobody can go on; it is a deadlock when no lanes can be let go. */
static void resolve_stuck(sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n; i++)
        if (release_lanes(&cluster->ctas[i]))
            return;
    for (uint32_t i = 0; i < cluster->n; i++)
        if (report_deadlock(&cluster->ctas[i]))
            return;
}

bool sim_cluster_turn(sim_cluster *cluster)
{
    const sim_launch_args *args = &cluster->ctas[0].launch->args;
    uint64_t limit =
        args->max_instructions ? args->max_instructions : DEFAULT_LIMIT;
    bool moved = false, all = true;
    for (uint32_t c = 0; c < cluster->n; c++) {
        sim_cta *cta = &cluster->ctas[c];
        bool ended = true;
        for (uint32_t i = 0; i < cta->n_warps && !cta->fault; i++)
            if (!cta->warps[i].done) {
                moved |= sim_warp_run(&cta->warps[i]);
                ended &= cta->warps[i].done;
            }
        if (!ended && !cta->fault && cta->instructions > limit)
            report_hang(cta);
        if (cta->fault)
            return true;
        all &= ended;
    }
    if (!all && !moved)
        resolve_stuck(cluster);
    return all || sim_cluster_fault(cluster);
}

/* ---- barrier.cluster ---- */

static bool all_came(const sim_cluster *cluster)
{
    uint32_t missing = 0;
    for (uint32_t c = 0; c < cluster->n; c++)
        for (uint32_t i = 0; i < cluster->ctas[c].n_warps; i++) {
            const sim_warp *w = &cluster->ctas[c].warps[i];
            missing |= w->alive & ~w->cluster_came;
        }
    return !missing;
}

static void wake(sim_warp *w)
{
    w->cluster_came = 0;
    for (int k = 0; k < w->n_groups; k++) {
        sim_group *group = &w->groups[k];
        if (group->state != SIM_AT_BARRIER ||
            group->barrier != SIM_CLUSTER_BARRIER)
            continue;
        group->state = SIM_READY;
        group->barrier = 0;
        sim_memory_cluster_acquire(w);
    }
}

void sim_cluster_check(sim_cluster *cluster)
{
    if (!cluster->waited || !all_came(cluster))
        return;
    cluster->waited = false;
    for (uint32_t c = 0; c < cluster->n; c++) {
        sim_memory_cluster_over(&cluster->ctas[c]);
        for (uint32_t i = 0; i < cluster->ctas[c].n_warps; i++)
            wake(&cluster->ctas[c].warps[i]);
    }
}

void sim_cluster_arrive(sim_warp *w, uint32_t exec)
{
    w->cluster_came |= exec;
    w->cluster_owes |= exec;
    w->cta->cluster->waited = true;
    sim_memory_cluster_release(w);
    sim_cluster_check(w->cta->cluster);
}

bool sim_cluster_wait(sim_warp *w, uint32_t exec)
{
    w->cluster_owes &= ~exec;
    if (w->cluster_came & exec)
        return false;
    sim_memory_cluster_acquire(w);
    return true;
}
