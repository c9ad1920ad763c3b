/*
 * Launches: CTAs over host threads, warps of a CTA by turns, groups of lanes
 * of a warp by rank.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_int.h"
#include "engine_print.h"
#include "taint.h"

enum {
    QUANTUM = 4096, /* warp instructions of a group before others may */
    WINDOW = 32, /* CTAs at once when they talk to each other */
    NO_RANK = INT32_MAX,
    RESULT_TIMEOUT = 702,
    RESULT_FAILED = 719,
    RESULT_MEMORY = 2,
};
#define DEFAULT_LIMIT UINT64_C(4000000000)

/* ---- groups ---- */

static uint64_t key_of(const sim_group *group)
{
    const ptx_func *func = group->frame->code->func;
    uint64_t insn = (uint64_t)(group->pc->src - func->insns);
    uint64_t rank = func->blocks[func->block_of[insn]].rank;
    return rank << 32 | insn;
}

void sim_group_add(sim_warp *w, const sim_insn *pc, sim_frame *frame,
                   uint32_t mask, int state, uint32_t need, uint8_t barrier)
{
    for (int i = 0; i < w->n_groups; i++) {
        sim_group *group = &w->groups[i];
        if (group->pc != pc || group->frame != frame || group->state != state ||
            group->barrier != barrier)
            continue;
        group->mask |= mask;
        group->need |= need;
        return;
    }
    w->groups[w->n_groups++] = (sim_group){.pc = pc,
                                           .frame = frame,
                                           .mask = mask,
                                           .state = (uint8_t)state,
                                           .barrier = barrier,
                                           .need = need,
                                           .last = w->clock};
}

void sim_group_park(sim_warp *w, const sim_insn *in, const sim_insn *pc,
                    uint32_t exec, int state, uint32_t need, uint8_t barrier)
{
    uint32_t rest = w->mask & ~exec;
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    sim_group_add(w, pc, w->frame, exec, state, need, barrier);
    if (rest)
        sim_group_add(w, in + 1, w->frame, rest, SIM_READY, 0, 0);
}

static bool is_better(const sim_group *a, const sim_group *b, bool fair)
{
    if (fair)
        return a->last < b->last;
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    return key_of(a) < key_of(b);
}

/* Lanes that wait for each other and are complete may go on. */
static void wake_synced(sim_warp *w)
{
    for (int i = 0; i < w->n_groups; i++) {
        sim_group *group = &w->groups[i];
        if (group->state == SIM_AT_SYNC &&
            !(group->need & w->alive & ~group->mask))
            group->state = SIM_READY;
    }
}

static void set_wait_rank(sim_warp *w)
{
    uint32_t rank = NO_RANK;
    for (int i = 0; i < w->n_groups && !w->fair; i++) {
        const sim_group *group = &w->groups[i];
        uint32_t own = (uint32_t)(key_of(group) >> 32);
        if (group->frame == w->frame && group->state == SIM_READY)
            rank = own < rank ? own : rank;
        if (group->frame == w->frame && group->state == SIM_AT_SYNC)
            rank = own + 1 < rank ? own + 1 : rank;
    }
    w->wait_rank = rank;
}

/* Takes the group that runs next; NULL when none can. */
static const sim_insn *choose(sim_warp *w)
{
    int best = -1;
    wake_synced(w);
    for (int i = 0; i < w->n_groups; i++)
        if (w->groups[i].state == SIM_READY &&
            (best < 0 || is_better(&w->groups[i], &w->groups[best], w->fair)))
            best = i;
    if (best < 0)
        return NULL;
    sim_group group = w->groups[best];
    w->groups[best] = w->groups[--w->n_groups];
    w->frame = group.frame;
    w->mask = group.mask;
    w->clock++;
    set_wait_rank(w);
    return group.pc;
}

/* ---- warps ---- */

/* Runs the chosen group from pc on until it has an event. */
static const sim_insn *run_group(sim_warp *w, const sim_insn *pc)
{
    w->event = sim_taint_any(w) ? SIM_EVENT_STEP : SIM_EVENT_NONE;
    for (;;) {
        while (!w->event)
            pc = sim_go(pc, w, w->frame->regs, w->mask);
        if (w->event != SIM_EVENT_STEP)
            return pc;
        w->event = SIM_EVENT_NONE;
        pc = sim_taint_run(w, pc);
    }
}

/* Runs a warp until it waits, ends or has had its turn; false: it waited. */
static bool run_warp(sim_warp *w)
{
    bool moved = false;
    w->budget = QUANTUM;
    while (!w->done && !w->cta->fault) {
        const sim_insn *pc = choose(w);
        if (!pc)
            break;
        /* Chosen by rank: the own block must not stop it at once. */
        uint32_t rank = (uint32_t)w->wait_rank;
        int32_t budget = w->budget;
        if (pc->full == sim_flow_header && pc->b >= rank)
            w->wait_rank = pc->b + 1;
        moved = true;
        pc = run_group(w, pc);
        w->cta->instructions += (uint64_t)(budget - w->budget);
        if (w->mask && w->event != SIM_EVENT_STOP)
            sim_group_add(w, pc, w->frame, w->mask, SIM_READY, 0, 0);
        if (w->event == SIM_EVENT_QUANTUM || w->budget <= 0) {
            w->fair = !w->fair && w->n_groups > 1;
            break;
        }
        w->fair = false;
    }
    return moved;
}

void sim_lanes_exit(sim_warp *w, uint32_t lanes)
{
    sim_cta *cta = w->cta;
    w->alive &= ~lanes;
    for (sim_frame *frame = w->frame; frame;) {
        sim_frame *parent = frame->parent;
        frame->lanes &= ~lanes;
        if (!frame->lanes && parent)
            sim_frame_free(w, frame);
        frame = parent;
    }
    w->done = !w->alive;
    for (uint32_t i = 0; i < SIM_BARRIERS; i++)
        if (cta->barriers[i].open)
            sim_barrier_check(cta, i);
}

void sim_fault(sim_warp *w, int result)
{
    if (!w->cta->fault)
        w->cta->fault = result;
    w->event = SIM_EVENT_STOP;
}

void sim_place_of(const sim_warp *w, const sim_insn *in, unsigned lane,
                  sim_place *place)
{
    const ptx_module *module = w->launch->module;
    const uint32_t *block = w->launch->args.block;
    uint32_t thread = w->index * SIM_LANES + lane;
    const ptx_insn *src = in->src;
    *place = (sim_place){.kernel = w->launch->func->name,
                         .line = src->line,
                         .ptx_line = src->ptx_line,
                         .block_index = w->cta->index,
                         .sequence = w->cta->sequence++};
    if (src->file < module->n_files)
        place->file = module->files[src->file];
    memcpy(place->block, w->cta->id, sizeof place->block);
    place->thread[0] = thread % block[0];
    place->thread[1] = thread / block[0] % block[1];
    place->thread[2] = thread / block[0] / block[1];
}

/* ---- barriers ---- */

static void write_reduction(sim_warp *w, const sim_group *group,
                            const sim_barrier *barrier, uint32_t threads)
{
    const sim_insn *in = group->pc - 1;
    const ptx_insn *src = in->src;
    if (src->op != PTX_OP_BARRIER_RED)
        return;
    uint8_t *regs = group->frame->regs;
    const sim_arg *to = &in->args->arg[0];
    uint32_t value = barrier->value;
    if (!ptx_has(src, PTX_MOD_POPC)) {
        bool yes = ptx_has(src, PTX_MOD_AND) ? value == threads : value > 0;
        uint32_t *lanes = &SIM_PRED(to->slot);
        *lanes = (*lanes & ~group->mask) | (yes ? group->mask : 0);
        return;
    }
    for (unsigned l = 0; l < SIM_LANES; l++)
        if (group->mask >> l & 1)
            SIM_U32(to->slot)[l] = value;
    (void)w;
}

void sim_barrier_check(sim_cta *cta, uint32_t id)
{
    sim_barrier *barrier = &cta->barriers[id];
    uint32_t expected = barrier->expected;
    if (!expected)
        for (uint32_t i = 0; i < cta->n_warps; i++)
            expected += (uint32_t)__builtin_popcount(cta->warps[i].alive);
    if (!barrier->open || barrier->arrived + barrier->waiting < expected)
        return;
    sim_barrier closed = *barrier;
    *barrier = (sim_barrier){0};
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        bool arrived = closed.arrivers >> i % 32 & 1;
        cta->synced[i] = arrived ? UINT32_MAX : 0;
        for (int k = 0; k < w->n_groups; k++) {
            sim_group *group = &w->groups[k];
            if (group->state != SIM_AT_BARRIER || group->barrier != id)
                continue;
            write_reduction(w, group, &closed, closed.waiting);
            group->state = SIM_READY;
            group->barrier = 0;
            cta->synced[i] |= group->mask;
        }
    }
    sim_memory_barrier(cta);
}

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
    w->frame = sim_frame_new(w, NULL, w->launch->code, w->alive);
    if (!w->frame)
        return false;
    sim_group_add(w, w->launch->code->starts[0], w->frame, w->alive, SIM_READY,
                  0, 0);
    return true;
}

static bool begin_cta(sim_cta *cta, uint64_t index)
{
    const uint32_t *grid = cta->launch->args.grid;
    cta->index = index;
    cta->id[0] = (uint32_t)(index % grid[0]);
    cta->id[1] = (uint32_t)(index / grid[0] % grid[1]);
    cta->id[2] = (uint32_t)(index / grid[0] / grid[1]);
    memset(cta->barriers, 0, sizeof cta->barriers);
    cta->sequence = cta->instructions = 0;
    cta->fault = 0;
    cta->running = true;
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

/* Nobody can go on: lanes that wait for lanes that will not come go on
   without them; without such it is a deadlock. */
static void resolve_stuck(sim_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        for (int k = 0; k < w->n_groups; k++)
            if (w->groups[k].state == SIM_AT_SYNC) {
                report_stuck(w, &w->groups[k], SPT_SIM_DIVERGENT);
                w->groups[k].state = SIM_READY;
                w->forced = true;
                return;
            }
    }
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        if (w->done || !w->n_groups)
            continue;
        report_stuck(w, &w->groups[0], SPT_SIM_DEADLOCK);
        break;
    }
    cta->fault = RESULT_TIMEOUT;
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

/* One turn for each warp; true when the CTA has ended. */
static bool turn_cta(sim_cta *cta)
{
    const sim_launch_args *args = &cta->launch->args;
    uint64_t limit =
        args->max_instructions ? args->max_instructions : DEFAULT_LIMIT;
    bool moved = false, all = true;
    for (uint32_t i = 0; i < cta->n_warps && !cta->fault; i++)
        if (!cta->warps[i].done) {
            moved |= run_warp(&cta->warps[i]);
            all &= cta->warps[i].done;
        }
    if (!all && !moved && !cta->fault)
        resolve_stuck(cta);
    if (!all && !cta->fault && cta->instructions > limit)
        report_hang(cta);
    return all || cta->fault;
}

/* ---- launches ---- */

typedef struct run {
    sim_launch launch;
    sim_launch_counts *counts;
    atomic_ullong next;
    atomic_ullong fault_at; /* lowest CTA that had a fault */
    pthread_mutex_t lock;
    int fault;
    bool no_memory;
    uint64_t *visits; /* (blocks, 2) sums */
    sim_prints prints;
} run;

static void end_cta(run *r, sim_cta *cta)
{
    if (!cta->fault)
        sim_memory_cta_end(cta);
    if (cta->counts)
        sim_counts_end(r->counts, cta->index, cta->counts);
    cta->running = false;
    if (!cta->fault && !cta->print->size)
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->launch.serial)
        sim_prints_add(&r->prints, cta->index, cta->print);
    if (cta->fault && cta->index < r->fault_at) {
        r->fault_at = cta->index;
        r->fault = cta->fault;
    }
    pthread_mutex_unlock(&r->lock);
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
    spt_buf print = {0};
    sim_cta cta = {.print = &print};
    uint64_t *visits =
        spt_calloc(2 * r->launch.args.program->n_blocks, sizeof *visits);
    bool good = visits && open_cta(&cta, &r->launch, visits);
    while (good) {
        uint64_t index = atomic_fetch_add(&r->next, 1);
        if (index >= r->launch.n_ctas || index > r->fault_at)
            break;
        good = begin_cta(&cta, index);
        while (good && !turn_cta(&cta))
            ;
        if (good)
            end_cta(r, &cta);
    }
    if (!good)
        r->no_memory = true;
    else
        add_visits(r, visits);
    close_cta(&cta);
    spt_buf_free(&print);
    spt_free(visits);
    return NULL;
}

/* CTAs that talk to each other: by turns, in one thread. */
static void run_serial(run *r)
{
    uint64_t n = r->launch.n_ctas, next = 0, ended = 0;
    uint64_t window = r->launch.args.cooperative || n < WINDOW ? n : WINDOW;
    sim_cta *ctas = spt_calloc(window, sizeof *ctas);
    uint32_t blocks = r->launch.args.program->n_blocks;
    uint64_t *visits = spt_calloc(2 * blocks, sizeof *visits);
    spt_buf print = {0};
    bool good = ctas && visits;
    for (uint64_t i = 0; good && i < window; i++) {
        ctas[i].print = &print;
        good = open_cta(&ctas[i], &r->launch, visits);
    }
    while (good && ended < n && !r->fault)
        for (uint64_t i = 0; good && i < window && !r->fault; i++) {
            sim_cta *cta = &ctas[i];
            if (!cta->running) {
                if (next == n)
                    continue;
                good = begin_cta(cta, next++);
            }
            if (good && turn_cta(cta)) {
                end_cta(r, cta);
                ended++;
            }
        }
    if (good)
        add_visits(r, visits);
    r->no_memory = !good;
    sim_prints_add(&r->prints, 0, &print);
    for (uint64_t i = 0; ctas && i < window; i++)
        close_cta(&ctas[i]);
    spt_free(ctas);
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
    if ((uint64_t)wanted > r->launch.n_ctas)
        wanted = (int)r->launch.n_ctas;
    while (made < wanted - 1 &&
           pthread_create(&threads[made], NULL, work, r) == 0)
        made++;
    work(r);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}

static void add_class(spt_sim_counters *sum, ptx_class which, uint64_t count)
{
    uint64_t *to = NULL;
    switch (which) {
    case PTX_CLASS_INTEGER:
        to = &sum->ptx_inst_integer;
        break;
    case PTX_CLASS_FLOAT:
        to = &sum->ptx_inst_float;
        break;
    case PTX_CLASS_HALF:
        to = &sum->ptx_inst_half;
        break;
    case PTX_CLASS_DOUBLE:
        to = &sum->ptx_inst_double;
        break;
    case PTX_CLASS_CONVERT:
        to = &sum->ptx_inst_convert;
        break;
    case PTX_CLASS_MOVE:
        to = &sum->ptx_inst_move;
        break;
    case PTX_CLASS_LOGIC:
        to = &sum->ptx_inst_logic;
        break;
    case PTX_CLASS_COMPARE:
        to = &sum->ptx_inst_compare;
        break;
    case PTX_CLASS_CONTROL:
        to = &sum->ptx_inst_control;
        break;
    case PTX_CLASS_MEMORY:
        to = &sum->ptx_inst_memory;
        break;
    case PTX_CLASS_ATOMIC:
        to = &sum->ptx_inst_atomic;
        break;
    case PTX_CLASS_SHUFFLE:
        to = &sum->ptx_inst_shuffle;
        break;
    case PTX_CLASS_BARRIER:
        to = &sum->ptx_inst_barrier;
        break;
    case PTX_CLASS_ASYNC:
        to = &sum->ptx_inst_async;
        break;
    case PTX_CLASS_MATRIX:
        to = &sum->ptx_inst_matrix;
        break;
    case PTX_CLASS_SPECIAL:
        to = &sum->ptx_inst_special;
        break;
    default:
        return;
    }
    *to += count;
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
            for (int k = 0; k < PTX_CLASS_COUNT; k++)
                add_class(sum, (ptx_class)k, runs * block->classes[k]);
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
