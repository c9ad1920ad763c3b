/*
 * Launches: clusters over host threads, and what they add up to.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "engine_int.h"
#include "engine_print.h"

enum {
    WINDOW = 32, /* CTAs at once when they talk to each other */
    RESULT_MEMORY = 2,
};

typedef struct run {
    sim_launch launch;
    uint64_t n_clusters;
    sim_launch_counts *counts;
    atomic_ullong next;
    atomic_ullong fault_at; /* lowest cluster that had a fault */
    pthread_mutex_t lock;
    int fault;
    bool no_memory;
    uint64_t *visits; /* (blocks, 2) sums */
    sim_prints prints;
} run;

static void end_cta(run *r, sim_cta *cta)
{
    if (!sim_cluster_fault(cta->cluster))
        sim_memory_cta_end(cta);
    if (cta->counts)
        sim_counts_end(r->counts, cta->index, cta->counts);
    if (!cta->fault && !cta->print->size)
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->launch.serial)
        sim_prints_add(&r->prints, cta->index, cta->print);
    if (cta->fault && cta->cluster->number < r->fault_at) {
        r->fault_at = cta->cluster->number;
        r->fault = cta->fault;
    }
    pthread_mutex_unlock(&r->lock);
}

static void end_cluster(run *r, sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n; i++)
        end_cta(r, &cluster->ctas[i]);
    cluster->running = false;
}

static void add_visits(run *r, const uint64_t *visits)
{
    uint32_t n = 2 * r->launch.args.program->n_blocks;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < n; i++)
        r->visits[i] += visits[i];
    pthread_mutex_unlock(&r->lock);
}

static void *work(void *user)
{
    run *r = user;
    sim_cluster cluster = {0};
    uint64_t *visits =
        spt_calloc(2 * r->launch.args.program->n_blocks, sizeof *visits);
    bool good = visits && sim_cluster_open(&cluster, &r->launch, visits, NULL);
    while (good) {
        uint64_t number = atomic_fetch_add(&r->next, 1);
        if (number >= r->n_clusters || number > r->fault_at)
            break;
        good = sim_cluster_begin(&cluster, number);
        while (good && !sim_cluster_turn(&cluster))
            ;
        if (good)
            end_cluster(r, &cluster);
    }
    if (!good)
        r->no_memory = true;
    else
        add_visits(r, visits);
    sim_cluster_close(&cluster);
    spt_free(visits);
    return NULL;
}

/* Clusters that are run by turns. */
static uint64_t window_of(const run *r)
{
    uint64_t window = WINDOW * r->n_clusters / r->launch.n_ctas;
    if (r->launch.args.cooperative || r->n_clusters < window)
        return r->n_clusters;
    return window ? window : 1;
}

/* CTAs that talk to each other: by turns, in one thread. */
static void run_serial(run *r)
{
    uint64_t n = r->n_clusters, next = 0, ended = 0, window = window_of(r);
    sim_cluster *clusters = spt_calloc(window, sizeof *clusters);
    uint32_t blocks = r->launch.args.program->n_blocks;
    uint64_t *visits = spt_calloc(2 * blocks, sizeof *visits);
    spt_buf print = {0};
    bool good = clusters && visits;
    for (uint64_t i = 0; good && i < window; i++)
        good = sim_cluster_open(&clusters[i], &r->launch, visits, &print);
    while (good && ended < n && !r->fault)
        for (uint64_t i = 0; good && i < window && !r->fault; i++) {
            sim_cluster *cluster = &clusters[i];
            if (!cluster->running) {
                if (next == n)
                    continue;
                good = sim_cluster_begin(cluster, next++);
            }
            if (good && sim_cluster_turn(cluster)) {
                end_cluster(r, cluster);
                ended++;
            }
        }
    if (good)
        add_visits(r, visits);
    r->no_memory = !good;
    sim_prints_add(&r->prints, 0, &print);
    for (uint64_t i = 0; clusters && i < window; i++)
        sim_cluster_close(&clusters[i]);
    spt_free(clusters);
    spt_free(visits);
}

static void run_parallel(run *r)
{
    pthread_t threads[64];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int wanted =
        r->launch.args.threads > 0 ? r->launch.args.threads : (int)cores;
    int made = 0;
    if (wanted > 64)
        wanted = 64;
    if ((uint64_t)wanted > r->n_clusters)
        wanted = (int)r->n_clusters;
    while (made < wanted - 1 &&
           pthread_create(&threads[made], NULL, work, r) == 0)
        made++;
    work(r);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}

/* Of a class's counter; 0: it has none, as launches stand there. */
static const size_t class_counters[PTX_CLASS_COUNT] = {
    [PTX_CLASS_INTEGER] = offsetof(spt_sim_counters, ptx_inst_integer),
    [PTX_CLASS_FLOAT] = offsetof(spt_sim_counters, ptx_inst_float),
    [PTX_CLASS_HALF] = offsetof(spt_sim_counters, ptx_inst_half),
    [PTX_CLASS_DOUBLE] = offsetof(spt_sim_counters, ptx_inst_double),
    [PTX_CLASS_CONVERT] = offsetof(spt_sim_counters, ptx_inst_convert),
    [PTX_CLASS_MOVE] = offsetof(spt_sim_counters, ptx_inst_move),
    [PTX_CLASS_LOGIC] = offsetof(spt_sim_counters, ptx_inst_logic),
    [PTX_CLASS_COMPARE] = offsetof(spt_sim_counters, ptx_inst_compare),
    [PTX_CLASS_CONTROL] = offsetof(spt_sim_counters, ptx_inst_control),
    [PTX_CLASS_MEMORY] = offsetof(spt_sim_counters, ptx_inst_memory),
    [PTX_CLASS_ATOMIC] = offsetof(spt_sim_counters, ptx_inst_atomic),
    [PTX_CLASS_SHUFFLE] = offsetof(spt_sim_counters, ptx_inst_shuffle),
    [PTX_CLASS_BARRIER] = offsetof(spt_sim_counters, ptx_inst_barrier),
    [PTX_CLASS_ASYNC] = offsetof(spt_sim_counters, ptx_inst_async),
    [PTX_CLASS_MATRIX] = offsetof(spt_sim_counters, ptx_inst_matrix),
    [PTX_CLASS_SPECIAL] = offsetof(spt_sim_counters, ptx_inst_special),
};
_Static_assert(offsetof(spt_sim_counters, launches) == 0, "0 is no class's");

static void add_class(spt_sim_counters *sum, int which, uint64_t count)
{
    if (class_counters[which])
        *(uint64_t *)((char *)sum + class_counters[which]) += count;
}

static void sum_blocks(const run *r, spt_sim_counters *sum)
{
    const sim_program *program = r->launch.args.program;
    for (uint32_t f = 0; f < program->module->n_funcs; f++) {
        const sim_code *code = program->codes[f];
        for (uint32_t b = 0; code && b < code->func->n_blocks; b++) {
            const sim_block *block = &code->blocks[b];
            uint64_t runs = r->visits[2 * (code->first_block + b)];
            uint64_t lanes = r->visits[2 * (code->first_block + b) + 1];
            sum->ptx_inst += runs * block->n_insns;
            sum->ptx_threads += lanes * block->n_insns;
            sum->ptx_inst_special += runs * block->special;
            sum->mma_flops += runs * block->flops;
            sum->wgmma_flops += runs * block->wgmma_flops;
            for (int k = 0; k < PTX_CLASS_COUNT; k++)
                add_class(sum, k, runs * block->classes[k]);
        }
    }
}

static bool reaches(const sim_program *program, const sim_code *code, int depth)
{
    if (!code || code->communicates || code->calls_unknown || depth > 24)
        return code != NULL;
    for (uint32_t i = 0; i < code->n_callees; i++)
        if (reaches(program, program->codes[code->callees[i]], depth + 1))
            return true;
    return false;
}

static void start(run *r, const sim_launch_args *args)
{
    sim_launch *launch = &r->launch;
    sim_program *program = args->program;
    launch->args = *args;
    launch->module = program->module;
    launch->func = &program->module->funcs[args->func];
    launch->code = program->codes[args->func];
    launch->shared_base = (uint32_t)args->board->shared_reserved_bytes;
    launch->shared_bytes = launch->shared_base +
                           (uint32_t)launch->func->shared_bytes + 16 +
                           args->dynamic_shared;
    launch->n_ctas = (uint64_t)args->grid[0] * args->grid[1] * args->grid[2];
    r->n_clusters = launch->n_ctas;
    for (int i = 0; i < 3; i++) {
        launch->cluster[i] = args->cluster[i] ? args->cluster[i] : 1;
        r->n_clusters /= launch->cluster[i];
    }
    launch->params = args->params;
    launch->local_bytes = sim_program_local(program, args->func);
    if (launch->local_bytes > launch->code->frame_bytes && args->stack_bytes &&
        launch->code->calls)
        launch->local_bytes = launch->local_bytes > args->stack_bytes
                                  ? launch->local_bytes
                                  : args->stack_bytes;
    launch->serial = args->cooperative || reaches(program, launch->code, 0);
}

int sim_launch_run(const sim_launch_args *args, spt_sim_counters *sum,
                   spt_error *err)
{
    run r = {.fault_at = UINT64_MAX, .lock = PTHREAD_MUTEX_INITIALIZER};
    spt_status status = sim_program_prepare(args->program, args->func, err);
    if (status != SPT_OK)
        return status == SPT_E_MEMORY ? RESULT_MEMORY : 801;
    start(&r, args);
    r.visits = spt_calloc(2 * args->program->n_blocks, sizeof *r.visits);
    if (args->counters)
        r.counts = sim_launch_counts_new(args->l2, r.launch.n_ctas);
    if (!r.visits || (args->counters && !r.counts))
        r.no_memory = true;
    else if (r.launch.serial)
        run_serial(&r);
    else
        run_parallel(&r);
    sim_prints_flush(&r.prints);
    if (r.counts)
        sim_launch_counts_finish(r.counts, sum);
    sim_launch_counts_free(r.counts);
    int result = r.no_memory ? RESULT_MEMORY : r.fault;
    if (!r.no_memory) {
        sum->ctas += r.launch.n_ctas;
        sum->warps +=
            r.launch.n_ctas *
            ((args->block[0] * args->block[1] * args->block[2] + 31) / 32);
        sum_blocks(&r, sum);
    }
    spt_free(r.visits);
    if (r.no_memory)
        spt_fail(err, SPT_E_MEMORY, "sim: out of memory");
    else if (result)
        spt_fail(err, SPT_E_DEVICE, "sim: kernel %s failed",
                 r.launch.func->name);
    return result;
}
