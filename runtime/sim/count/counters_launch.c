/*
 * The counters of one launch: sums of its CTAs, and their traces through L2 in
 * the order of the CTAs. A CTA that ends before one with a smaller index
 * leaves its trace here until that one has ended.
 */
#include "counters.h"

#include <pthread.h>
#include <string.h>

#include "mem.h"

typedef struct waiting {
    struct waiting *next; /* larger index */
    uint64_t cta;
    sim_trace trace;
} waiting;

struct sim_launch_counts {
    pthread_mutex_t lock;
    sim_l2 *l2; /* NULL: no L2 model */
    uint64_t n_ctas, next;
    waiting *list;
    spt_sim_counters sums;
};

sim_launch_counts *sim_launch_counts_new(sim_l2 *l2, uint64_t n_ctas)
{
    sim_launch_counts *launch = spt_calloc(1, sizeof(*launch));
    if (!launch)
        return NULL;
    pthread_mutex_init(&launch->lock, NULL);
    launch->l2 = l2;
    launch->n_ctas = n_ctas;
    return launch;
}

static void replay(sim_launch_counts *launch, const sim_trace *trace)
{
    if (launch->l2)
        sim_l2_replay(launch->l2, trace, &launch->sums);
}

/* Replays the waiting traces that are next in line, all of them if forced. */
static void replay_waiting(sim_launch_counts *launch, bool all)
{
    while (launch->list && (all || launch->list->cta == launch->next)) {
        waiting *item = launch->list;
        replay(launch, &item->trace);
        launch->next = item->cta + 1;
        launch->list = item->next;
        spt_free(item->trace.items);
        spt_free(item);
    }
}

/* false: no memory; the trace is then lost to L2. */
static bool keep(sim_launch_counts *launch, uint64_t cta, sim_counts *counts)
{
    waiting *item = spt_calloc(1, sizeof(*item));
    if (!item)
        return false;
    item->cta = cta;
    item->trace = counts->trace;
    counts->trace = (sim_trace){0};
    waiting **link = &launch->list;
    while (*link && (*link)->cta < cta)
        link = &(*link)->next;
    item->next = *link;
    *link = item;
    return true;
}

void sim_counts_end(sim_launch_counts *launch, uint64_t cta, sim_counts *counts)
{
    pthread_mutex_lock(&launch->lock);
    sim_counters_add(&launch->sums, &counts->sums);
    if (cta == launch->next) {
        replay(launch, &counts->trace);
        launch->next++;
        replay_waiting(launch, false);
    } else {
        keep(launch, cta, counts);
    }
    pthread_mutex_unlock(&launch->lock);
    sim_counts_reset(counts);
}

void sim_launch_counts_finish(sim_launch_counts *launch, spt_sim_counters *sums)
{
    pthread_mutex_lock(&launch->lock);
    replay_waiting(launch, true);
    sim_counters_add(sums, &launch->sums);
    memset(&launch->sums, 0, sizeof(launch->sums));
    pthread_mutex_unlock(&launch->lock);
}

void sim_launch_counts_free(sim_launch_counts *launch)
{
    if (!launch)
        return;
    while (launch->list) {
        waiting *item = launch->list;
        launch->list = item->next;
        spt_free(item->trace.items);
        spt_free(item);
    }
    pthread_mutex_destroy(&launch->lock);
    spt_free(launch);
}
