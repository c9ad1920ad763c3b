/*
 * Basic blocks and the order in which diverged lanes run them.
 *
 * The engine runs the waiting group of the lowest rank first. Lanes meet again
 * when a block has a higher rank than all blocks of the paths that lead to it:
 * a topological order of the graph, in which each loop stands together, so
 * that what follows a loop ranks above all of it. That is the order of the
 * strongly connected components; within one, the order of what is left of it
 * when its entry is taken away, and so on inwards.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx_parse.h"

enum {
    MAX_NESTING = 64, /* loops deeper than this keep their first order */
    FREE = 0, /* region of blocks that have their rank */
};

typedef struct graph {
    uint32_t n;
    uint32_t *first; /* (n + 1): edges of a block */
    uint32_t *to;
} graph;

/* One Tarjan walk over the blocks of a region. */
typedef struct walk {
    const graph *graph;
    uint32_t *region; /* (n) region of each block */
    uint32_t *number; /* (n) order of discovery, 0 = not seen */
    uint32_t *low; /* (n) */
    uint32_t *edge; /* (n) next edge of a block on the path */
    uint32_t *path; /* (n) */
    uint32_t *stack; /* (n) */
    bool *on_stack; /* (n) */
    uint32_t n_path, n_stack, clock;
    uint32_t *order; /* (n) blocks, components in reverse order */
    uint32_t *ends; /* (n) end in order of each component */
    uint32_t n_order, n_components;
} walk;

static void visit(walk *w, uint32_t block)
{
    w->number[block] = w->low[block] = ++w->clock;
    w->edge[block] = w->graph->first[block + 1];
    w->path[w->n_path++] = block;
    w->stack[w->n_stack++] = block;
    w->on_stack[block] = true;
}

static void close_component(walk *w, uint32_t root)
{
    uint32_t block;
    do {
        block = w->stack[--w->n_stack];
        w->on_stack[block] = false;
        w->order[w->n_order++] = block;
    } while (block != root);
    w->ends[w->n_components++] = w->n_order;
}

/* The last edge first: of two branches the earlier one gets the lower rank. */
static void step(walk *w)
{
    uint32_t block = w->path[w->n_path - 1];
    if (w->edge[block] > w->graph->first[block]) {
        uint32_t next = w->graph->to[--w->edge[block]];
        if (w->region[next] != w->region[block])
            return;
        if (!w->number[next])
            visit(w, next);
        else if (w->on_stack[next] && w->number[next] < w->low[block])
            w->low[block] = w->number[next];
        return;
    }
    if (w->low[block] == w->number[block])
        close_component(w, block);
    if (--w->n_path) {
        uint32_t parent = w->path[w->n_path - 1];
        if (w->low[block] < w->low[parent])
            w->low[parent] = w->low[block];
    }
}

static void walk_from(walk *w, uint32_t block)
{
    if (w->number[block])
        return;
    visit(w, block);
    while (w->n_path)
        step(w);
}

/* A region that waits for its order: blocks, and where its ranks begin. */
typedef struct task {
    uint32_t *blocks;
    uint32_t count, rank, depth;
} task;

typedef struct ranking {
    walk walk;
    uint32_t *rank; /* (n) result */
    uint32_t *blocks; /* (n) blocks of waiting regions, by their ranks */
    task *tasks; /* (n) */
    uint32_t n_tasks, regions;
} ranking;

/* Gives a component its ranks, or makes a task of it. blocks[0] is its entry,
   the block of the component that was found first. */
static void settle(ranking *r, const uint32_t *blocks, uint32_t count,
                   uint32_t rank, uint32_t depth)
{
    walk *w = &r->walk;
    r->rank[blocks[0]] = rank;
    w->region[blocks[0]] = FREE;
    if (depth == MAX_NESTING) {
        for (uint32_t i = 1; i < count; i++) {
            r->rank[blocks[i]] = rank + i;
            w->region[blocks[i]] = FREE;
        }
        return;
    }
    if (count == 1)
        return;
    uint32_t region = ++r->regions;
    for (uint32_t i = 1; i < count; i++) {
        w->region[blocks[i]] = region;
        w->number[blocks[i]] = 0;
        r->blocks[rank + i] = blocks[i];
    }
    r->tasks[r->n_tasks++] =
        (task){r->blocks + rank + 1, count - 1, rank + 1, depth + 1};
}

/*
 * The walk leaves components last one first, each with its entry at its end
 * and otherwise last found first; turned around, that is the order wanted.
 */
static void rank_region(ranking *r, task region)
{
    walk *w = &r->walk;
    w->n_order = w->n_components = 0;
    for (uint32_t i = 0; i < region.count; i++)
        walk_from(w, region.blocks[i]);
    for (uint32_t i = 0; i < w->n_order / 2; i++) {
        uint32_t other = w->n_order - 1 - i, block = w->order[i];
        w->order[i] = w->order[other];
        w->order[other] = block;
    }
    for (uint32_t i = w->n_components; i--;) {
        uint32_t begin = w->n_order - w->ends[i];
        uint32_t end = w->n_order - (i ? w->ends[i - 1] : 0);
        settle(r, w->order + begin, end - begin, region.rank + begin,
               region.depth);
    }
}

static bool rank_blocks(const graph *g, uint32_t *rank, spt_arena *arena)
{
    uint32_t n = g->n;
    uint32_t *room = spt_arena_alloc(arena, (size_t)n * 10, sizeof *room);
    bool *flags = spt_arena_alloc(arena, n, sizeof *flags);
    ranking r = {.rank = rank};
    r.tasks = spt_arena_alloc(arena, n, sizeof *r.tasks);
    if (!room || !flags || !r.tasks)
        return false;
    r.walk = (walk){.graph = g,
                    .region = room,
                    .number = room + n,
                    .low = room + 2 * (size_t)n,
                    .edge = room + 3 * (size_t)n,
                    .path = room + 4 * (size_t)n,
                    .stack = room + 5 * (size_t)n,
                    .order = room + 6 * (size_t)n,
                    .ends = room + 7 * (size_t)n,
                    .on_stack = flags};
    r.blocks = room + 8 * (size_t)n;
    for (uint32_t i = 0; i < n; i++) {
        r.walk.region[i] = 1;
        r.blocks[i] = i;
    }
    r.regions = 1;
    r.tasks[r.n_tasks++] = (task){r.blocks, n, 0, 0};
    while (r.n_tasks)
        rank_region(&r, r.tasks[--r.n_tasks]);
    return true;
}

bool ptx_ends_block(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_BRA:
    case PTX_OP_BRX_IDX:
    case PTX_OP_RET:
    case PTX_OP_EXIT:
    case PTX_OP_TRAP:
        return true;
    default:
        return false;
    }
}

static void mark_targets(const ptx_func *func, bool *leaders)
{
    leaders[0] = true;
    for (uint32_t i = 0; i < func->n_insns; i++) {
        const ptx_insn *insn = &func->insns[i];
        if (ptx_ends_block(insn) && i + 1 < func->n_insns)
            leaders[i + 1] = true;
        if (insn->op == PTX_OP_BRA)
            leaders[insn->operands[0].index] = true;
        if (insn->op != PTX_OP_BRX_IDX)
            continue;
        const ptx_table *table = &func->tables[insn->operands[1].index];
        for (uint32_t j = 0; j < table->count; j++)
            leaders[table->targets[j]] = true;
    }
}

static bool cut_blocks(ptx_func *func, spt_arena *arena)
{
    bool *leaders = spt_calloc(func->n_insns, sizeof *leaders);
    uint32_t count = 0;
    if (!leaders)
        return false;
    mark_targets(func, leaders);
    for (uint32_t i = 0; i < func->n_insns; i++)
        count += leaders[i];
    func->blocks = spt_arena_alloc(arena, count, sizeof *func->blocks);
    func->block_of =
        spt_arena_alloc(arena, func->n_insns, sizeof *func->block_of);
    func->n_blocks = count;
    if (func->blocks && func->block_of) {
        uint32_t block = 0;
        for (uint32_t i = 0; i < func->n_insns; i++) {
            if (leaders[i] && i)
                block++;
            if (leaders[i])
                func->blocks[block].first = i;
            func->blocks[block].last = i;
            func->block_of[i] = block;
        }
    }
    spt_free(leaders);
    return func->blocks && func->block_of;
}

/* Successors into to, where it is not NULL; returns how many there are. */
static uint32_t successors(const ptx_func *func, uint32_t block, uint32_t *to)
{
    const ptx_insn *insn = &func->insns[func->blocks[block].last];
    uint32_t count = 0;
    bool falls = insn->guard >= 0 || !ptx_ends_block(insn);
    if (falls && block + 1 < func->n_blocks) {
        if (to)
            to[count] = block + 1;
        count++;
    }
    if (insn->op == PTX_OP_BRA) {
        if (to)
            to[count] = func->block_of[insn->operands[0].index];
        count++;
    } else if (insn->op == PTX_OP_BRX_IDX) {
        const ptx_table *table = &func->tables[insn->operands[1].index];
        for (uint32_t j = 0; j < table->count; j++, count++)
            if (to)
                to[count] = func->block_of[table->targets[j]];
    }
    return count;
}

static bool build_graph(const ptx_func *func, graph *g, spt_arena *arena)
{
    uint32_t n = func->n_blocks, at = 0;
    uint64_t edges = 0;
    for (uint32_t i = 0; i < n; i++)
        edges += successors(func, i, NULL);
    if (edges > UINT32_MAX)
        return false;
    g->n = n;
    g->first = spt_arena_alloc(arena, (size_t)n + 1, sizeof *g->first);
    g->to = spt_arena_alloc(arena, edges, sizeof *g->to);
    if (!g->first || !g->to)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        g->first[i] = at;
        at += successors(func, i, g->to + at);
    }
    g->first[n] = at;
    return true;
}

spt_status ptx_flow(ptx_func *func, spt_arena *arena, spt_error *err)
{
    spt_arena scratch = {0};
    graph g;
    bool good = cut_blocks(func, arena) && build_graph(func, &g, &scratch);
    uint32_t *rank =
        good ? spt_arena_alloc(&scratch, func->n_blocks, sizeof *rank) : NULL;
    good = rank && rank_blocks(&g, rank, &scratch);
    for (uint32_t i = 0; good && i < func->n_blocks; i++)
        func->blocks[i].rank = rank[i];
    spt_arena_free(&scratch);
    return good ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "PTX: out of memory");
}
