/*
 * L2 and DRAM: set-associative, lines of 128 bytes in sectors of 32, least
 * recently used, write-back. A written sector needs no read (stores of whole
 * sectors are the usual case; the byte mask of a partial one is merged in L2).
 * The size is the board's; hashing, partitions and the compression of real
 * chips are not modelled.
 */
#include "counters.h"

#include <string.h>

#include "mem.h"

enum { LINE_BYTES = 128, SECTOR_BYTES = 32, WAYS = 16, AHEAD = 8 };
enum { OP_READ, OP_WRITE, OP_ATOM };

typedef struct l2_line {
    uint64_t line; /* address / 128 + 1; 0 = empty */
    uint64_t used : 56;
    uint64_t valid : 4;
    uint64_t dirty : 4;
} l2_line;

struct sim_l2 {
    uint64_t n_sets;
    uint64_t clock;
    l2_line *lines; /* (set, way) */
};

sim_l2 *sim_l2_new(double bytes)
{
    sim_l2 *l2 = spt_calloc(1, sizeof(*l2));
    if (!l2)
        return NULL;
    l2->n_sets = (uint64_t)(bytes / (LINE_BYTES * WAYS));
    if (l2->n_sets == 0)
        l2->n_sets = 1;
    l2->lines = spt_calloc(l2->n_sets * WAYS, sizeof(*l2->lines));
    if (!l2->lines) {
        spt_free(l2);
        return NULL;
    }
    return l2;
}

void sim_l2_free(sim_l2 *l2)
{
    if (!l2)
        return;
    spt_free(l2->lines);
    spt_free(l2);
}

void sim_l2_flush(sim_l2 *l2)
{
    memset(l2->lines, 0, l2->n_sets * WAYS * sizeof(*l2->lines));
    l2->clock = 0;
}

/* Bits of a sector mask; the builtin is a call on plain x86-64. */
static uint32_t sector_count(uint32_t sectors)
{
    return (uint32_t)(UINT64_C(0x4332322132212110) >> (4 * sectors)) & 15;
}

/* A multiplicative hash, as rows of a power of two would share sets. */
static l2_line *l2_set(const sim_l2 *l2, uint64_t line)
{
    uint64_t hash = line * UINT64_C(0x9e3779b97f4a7c15) >> 24;
    return l2->lines + hash % l2->n_sets * WAYS;
}

static l2_line *l2_find(l2_line *set, uint64_t line, spt_sim_counters *sums)
{
    l2_line *oldest = set;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].line == line + 1)
            return &set[way];
        if (set[way].used < oldest->used)
            oldest = &set[way];
    }
    sums->dram__bytes_write +=
        SECTOR_BYTES * (uint64_t)sector_count(oldest->dirty);
    *oldest = (l2_line){.line = line + 1};
    return oldest;
}

void sim_l2_replay(sim_l2 *l2, const sim_trace *trace, spt_sim_counters *sums)
{
    l2_line *sets[AHEAD] = {0};
    for (size_t i = 0; i < trace->count + AHEAD; i++) {
        /* Sets are all over the host's memory: fetched before their turn. */
        l2_line *set = sets[i % AHEAD];
        if (i < trace->count) {
            sets[i % AHEAD] = l2_set(l2, trace->items[i] >> 6);
            for (int way = 0; way < WAYS; way += 4)
                __builtin_prefetch(sets[i % AHEAD] + way, 1);
        }
        if (i < AHEAD)
            continue;
        uint64_t item = trace->items[i - AHEAD];
        uint32_t sectors = item & 15;
        uint32_t n = sector_count(sectors);
        int op = item >> 4 & 3;
        l2_line *line = l2_find(set, item >> 6, sums);
        uint32_t hit = sector_count(sectors & line->valid);
        line->used = ++l2->clock;
        line->valid |= sectors & 15;
        if (op != OP_READ)
            line->dirty |= sectors & 15;
        if (op != OP_WRITE)
            sums->dram__bytes_read += SECTOR_BYTES * (uint64_t)(n - hit);
        sums->lts__t_sectors_lookup_hit += hit;
        sums->lts__t_sectors_lookup_miss += n - hit;
        if (op == OP_READ)
            sums->lts__t_sectors_op_read += n;
        else if (op == OP_WRITE)
            sums->lts__t_sectors_op_write += n;
        else
            sums->lts__t_sectors_op_atom += n;
    }
}
