/*
 * Sectors of global accesses, with a small L1 in front of the trace, and
 * wavefronts of shared accesses.
 *
 * L1: the capacity that a CTA really has depends on its neighbours and on the
 * shared-memory carveout; 32 KB per CTA is the model. Loads fill it, stores
 * write through it (and update a line that is there), atomics work in L2.
 *
 * Shared memory: 32 banks of 4 bytes. An access of up to 4 bytes per lane is
 * one group of 32 lanes, of 8 bytes two groups of 16, of 16 bytes four of 8
 * (CUDA C++ Best Practices Guide, "Shared memory"; ldmatrix reads one matrix of
 * 8 rows of 16 bytes at a time). A group needs as many wavefronts as its
 * busiest bank has different words; ideal is one. Lanes that read the same
 * word share it; stores to the same word too (one of them wins). Atomics on the
 * same word are serial.
 */
#include "counters.h"

#include <string.h>

#include "mem.h"

enum { SECTOR_SHIFT = 5, LINE_SHIFT = 7 };
enum { OP_READ, OP_WRITE, OP_ATOM };

/* Bits of a sector mask; the builtin is a call on plain x86-64. */
static uint32_t sector_count(uint32_t sectors)
{
    return (uint32_t)(UINT64_C(0x4332322132212110) >> (4 * sectors)) & 15;
}

void sim_counts_reset(sim_counts *counts)
{
    memset(&counts->sums, 0, sizeof(counts->sums));
    memset(counts->l1, 0, sizeof(counts->l1));
    counts->trace.count = 0;
    counts->trace.failed = false;
    counts->clock = 0;
}

void sim_counts_free(sim_counts *counts)
{
    if (!counts)
        return;
    spt_free(counts->trace.items);
    spt_free(counts);
}

static void trace_add(sim_trace *trace, uint64_t line, int op, uint32_t sectors)
{
    if (trace->failed)
        return;
    if (!spt_grow(&trace->items, &trace->capacity, trace->count + 1,
                  sizeof *trace->items)) {
        trace->failed = true;
        return;
    }
    trace->items[trace->count++] = line << 6 | (uint64_t)op << 4 | sectors;
}

/* The line's place in L1; NULL when it is not there and fill is false. */
static sim_l1_line *l1_find(sim_counts *counts, uint64_t line, bool fill)
{
    sim_l1_line *set = counts->l1[(line ^ line >> 6) % SIM_L1_SETS];
    sim_l1_line *oldest = &set[0];
    for (int way = 0; way < SIM_L1_WAYS; way++) {
        if (set[way].line == line + 1) {
            set[way].used = ++counts->clock;
            return &set[way];
        }
        if (set[way].used < oldest->used)
            oldest = &set[way];
    }
    if (!fill)
        return NULL;
    *oldest = (sim_l1_line){.line = line + 1, .used = ++counts->clock};
    return oldest;
}

/* One line of an access: through L1 into the trace; returns sectors hit. */
static uint32_t count_line(sim_counts *counts, int kind, bool bypass,
                           uint64_t line, uint32_t sectors)
{
    bool load = kind == SIM_COUNT_LD || kind == SIM_COUNT_LOCAL_LD ||
                kind == SIM_COUNT_ASYNC;
    if (!load) {
        bool atom = kind == SIM_COUNT_ATOM;
        sim_l1_line *place = l1_find(counts, line, false);
        if (place && atom)
            place->sectors &= (uint8_t)~sectors;
        trace_add(&counts->trace, line, atom ? OP_ATOM : OP_WRITE, sectors);
        return 0;
    }
    if (bypass) {
        trace_add(&counts->trace, line, OP_READ, sectors);
        return 0;
    }
    sim_l1_line *place = l1_find(counts, line, true);
    uint32_t hit = sectors & place->sectors;
    uint32_t miss = sectors & ~hit;
    place->sectors |= (uint8_t)sectors;
    if (miss)
        trace_add(&counts->trace, line, OP_READ, miss);
    return sector_count(hit);
}

static void count_request(sim_counts *counts, int kind, uint32_t sectors,
                          uint32_t hits)
{
    spt_sim_counters *sums = &counts->sums;
    switch (kind) {
    case SIM_COUNT_LD:
        sums->l1tex__t_requests_pipe_lsu_mem_global_op_ld++;
        sums->l1tex__t_sectors_pipe_lsu_mem_global_op_ld += sectors;
        sums->l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit += hits;
        break;
    case SIM_COUNT_ST:
        sums->l1tex__t_requests_pipe_lsu_mem_global_op_st++;
        sums->l1tex__t_sectors_pipe_lsu_mem_global_op_st += sectors;
        break;
    case SIM_COUNT_ATOM:
        sums->l1tex__t_requests_pipe_lsu_mem_global_op_atom++;
        sums->l1tex__t_sectors_pipe_lsu_mem_global_op_atom += sectors;
        break;
    case SIM_COUNT_ASYNC:
        sums->ldgsts_requests++;
        sums->ldgsts_sectors += sectors;
        break;
    case SIM_COUNT_LOCAL_LD:
        sums->l1tex__t_sectors_pipe_lsu_mem_local_op_ld += sectors;
        break;
    case SIM_COUNT_LOCAL_ST:
        sums->l1tex__t_sectors_pipe_lsu_mem_local_op_st += sectors;
        break;
    }
}

/* Lines that one warp access touches, each with its sectors. */
typedef struct line_set {
    int count;
    uint64_t line[2 * 32];
    uint8_t sectors[2 * 32];
} line_set;

static void line_set_put(line_set *set, uint64_t line, uint32_t sectors)
{
    int i = set->count;
    /* Newest first: neighbouring lanes mostly share a line. */
    while (i > 0 && set->line[i - 1] != line)
        i--;
    if (i == 0) {
        set->line[set->count] = line;
        set->sectors[set->count] = 0;
        i = ++set->count;
    }
    set->sectors[i - 1] |= (uint8_t)sectors;
}

static void line_set_add(line_set *set, uint64_t first, uint64_t last)
{
    while (first >> 2 != last >> 2) {
        line_set_put(set, first >> 2, 15u << (first & 3) & 15);
        first = (first | 3) + 1;
    }
    line_set_put(set, first >> 2, 15u << (first & 3) & 15u >> (3 - (last & 3)));
}

/* The usual case: lane i at base + i * bytes, every lane. */
static bool contiguous(const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    if (mask != UINT32_MAX || address[0] % bytes)
        return false;
    uint64_t differ = 0;
    for (uint32_t i = 0; i < 32; i++)
        differ |= address[i] ^ (address[0] + (uint64_t)i * bytes);
    return differ == 0;
}

void sim_count_global_slow(sim_counts *counts, int kind,
                           const uint64_t *address, uint32_t mask,
                           uint32_t bytes)
{
    bool bypass = kind & SIM_COUNT_BYPASS_L1;
    kind &= ~SIM_COUNT_BYPASS_L1;
    line_set set;
    set.count = 0;
    counts->sums.global_bytes_used +=
        (uint64_t)bytes * (uint32_t)__builtin_popcount(mask);
    if (contiguous(address, mask, bytes)) {
        line_set_add(&set, address[0] >> SECTOR_SHIFT,
                     (address[31] + bytes - 1) >> SECTOR_SHIFT);
        mask = 0;
    }
    uint64_t last = UINT64_MAX;
    for (uint32_t left = mask; left; left &= left - 1) {
        uint64_t first = address[__builtin_ctz(left)];
        uint64_t sector = first >> SECTOR_SHIFT;
        uint64_t end = (first + bytes - 1) >> SECTOR_SHIFT;
        /* Neighbours in one sector need no second look. */
        if (sector != last || end != last)
            line_set_add(&set, sector, end);
        last = sector == end ? sector : UINT64_MAX;
    }
    uint32_t sectors = 0, hits = 0;
    for (int i = 0; i < set.count; i++) {
        sectors += sector_count(set.sectors[i]);
        hits += count_line(counts, kind, bypass, set.line[i], set.sectors[i]);
    }
    count_request(counts, kind, sectors, hits);
}

/*
 * Wavefronts of one group of lanes. Addresses are multiples of bytes, so that
 * a lane takes one unit of max(bytes, 4) that lies in neighbouring banks.
 */
static uint32_t group_conflicts(const uint32_t *address, uint32_t mask,
                                uint32_t bytes, bool serial)
{
    uint32_t shift = bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
    uint32_t banks = 128u >> shift;
    uint32_t units[32][32];
    uint8_t n[32] = {0};
    uint32_t worst = 1;
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t unit = address[__builtin_ctz(left)] >> shift;
        uint32_t bank = unit % banks;
        uint32_t i = n[bank];
        while (!serial && i > 0 && units[bank][i - 1] != unit)
            i--;
        if (serial || i == 0)
            units[bank][n[bank]++] = unit;
        if (n[bank] > worst)
            worst = n[bank];
    }
    return worst;
}

/* The same, where most often every lane has banks of its own. */
static uint32_t group_wavefronts(const uint32_t *address, uint32_t first,
                                 uint32_t lanes, uint32_t mask, uint32_t bytes,
                                 bool serial)
{
    uint32_t shift = bytes <= 4 ? 2 : bytes <= 8 ? 3 : 4;
    uint32_t last_bank = (128u >> shift) - 1, seen = 0;
    if (mask == UINT32_MAX) {
        uint32_t twice = 0;
        for (uint32_t i = first; i < first + lanes; i++) {
            uint32_t bit = 1u << ((address[i] >> shift) & last_bank);
            twice |= seen & bit;
            seen |= bit;
        }
        if (!twice)
            return 1;
    }
    uint32_t group = lanes == 32 ? UINT32_MAX : ((1u << lanes) - 1) << first;
    return group_conflicts(address, mask & group, bytes, serial);
}

sim_wavefronts sim_wavefronts_of(const uint32_t *address, uint32_t mask,
                                 uint32_t bytes, bool serial)
{
    uint32_t lanes = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
    sim_wavefronts w = {0, 0};
    for (uint32_t first = 0; first < 32; first += lanes) {
        uint32_t group =
            lanes == 32 ? UINT32_MAX : ((1u << lanes) - 1) << first;
        if (!(mask & group))
            continue;
        w.ideal++;
        w.actual +=
            group_wavefronts(address, first, lanes, mask, bytes, serial);
    }
    return w;
}

/* Moving all addresses by whole units turns the banks: nothing else changes. */
static sim_wavefronts known_wavefronts(sim_counts *counts,
                                       const uint32_t *address, uint32_t mask,
                                       uint32_t bytes, bool serial)
{
    uint32_t apart[32], differ = 0;
    for (int i = 0; i < 32; i++)
        apart[i] = address[i] - address[0];
    uint32_t hash = (apart[1] ^ apart[8] * 3 ^ apart[16] * 7 ^ apart[31] * 11 ^
                     mask ^ bytes * 13) *
                    UINT32_C(0x9e3779b1);
    sim_known_wavefronts *w = &counts->wavefronts[hash >> 28];
    uint32_t place = address[0] & 3;
    for (int i = 0; i < 32; i++)
        differ |= apart[i] ^ w->apart[i];
    if (differ || w->mask != mask || w->bytes != bytes || w->place != place ||
        w->serial != serial) {
        *w = (sim_known_wavefronts){
            mask,  bytes, serial,
            place, {0},   sim_wavefronts_of(address, mask, bytes, serial)};
        memcpy(w->apart, apart, sizeof apart);
    }
    return w->count;
}

void sim_count_shared_slow(sim_counts *counts, int kind,
                           const uint32_t *address, uint32_t mask,
                           uint32_t bytes)
{
    kind &= ~SIM_COUNT_BYPASS_L1;
    sim_count_wavefronts(
        counts, kind,
        known_wavefronts(counts, address, mask, bytes, kind == SIM_COUNT_ATOM));
}

void sim_count_wavefronts(sim_counts *counts, int kind, sim_wavefronts w)
{
    spt_sim_counters *sums = &counts->sums;
    uint32_t ideal = w.ideal, actual = w.actual;
    sums->memory_l1_wavefronts_shared += actual;
    sums->memory_l1_wavefronts_shared_ideal += ideal;
    uint64_t conflicts = actual - ideal;
    if (kind == SIM_COUNT_LD) {
        sums->l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld += actual;
        sums->l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld += conflicts;
    } else if (kind == SIM_COUNT_ATOM) {
        sums->l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom += actual;
        sums->l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom +=
            conflicts;
    } else {
        sums->l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st += actual;
        sums->l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st += conflicts;
    }
}

void sim_counters_add(spt_sim_counters *sum, const spt_sim_counters *more)
{
#define SPT_SIM_COUNTER(name, unit, meaning) sum->name += more->name;
#include "sim_counters.def"
#undef SPT_SIM_COUNTER
}
