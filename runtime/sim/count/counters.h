/*
 * Counting: what a CTA does to memory becomes sectors and wavefronts at once,
 * and L2 and DRAM traffic afterwards.
 *
 * A sim_counts belongs to one running CTA (one host thread at a time). Memory
 * handlers call sim_count_global and sim_count_shared with the addresses of
 * the 32 lanes (counts is cta->counts; NULL, counters off, costs one test).
 * A CTA that ends is handed over with sim_counts_end; the traces of a launch
 * are replayed through the device's L2 in the order of their CTA indices,
 * whatever host thread ran them, so that every counter is the same on every
 * run.
 */
#ifndef SPT_SIM_COUNTERS_H
#define SPT_SIM_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "sim.h"

typedef enum sim_count_kind {
    SIM_COUNT_LD, /* ld, ldu, ld.nc; in shared memory ldmatrix too */
    SIM_COUNT_ST, /* st, stmatrix */
    SIM_COUNT_ATOM, /* atom, red */
    SIM_COUNT_ASYNC, /* cp.async: reads global, writes shared memory */
    SIM_COUNT_LOCAL_LD,
    SIM_COUNT_LOCAL_ST,
} sim_count_kind;

/* Or'ed to the kind: .cg, .cv, .volatile, .relaxed and stronger. */
enum { SIM_COUNT_BYPASS_L1 = 16 };

/* L1 as one CTA sees it: 32 KB in lines of four sectors, four ways. */
enum { SIM_L1_SETS = 64, SIM_L1_WAYS = 4 };

typedef struct sim_l1_line {
    uint64_t line; /* address / 128 + 1; 0 = empty */
    uint8_t sectors;
    uint32_t used;
} sim_l1_line;

/* One line's sectors on their way to L2: address / 128 << 6 | op << 4 | mask */
typedef struct sim_trace {
    uint64_t *items;
    size_t count, capacity;
    bool failed; /* out of memory: the rest of the CTA is not traced */
} sim_trace;

typedef struct sim_wavefronts {
    uint32_t actual, ideal;
} sim_wavefronts;

/* Wavefronts of addresses that are so far apart: an instruction's mostly are,
   each time it runs. */
typedef struct sim_known_wavefronts {
    uint32_t mask, bytes; /* bytes 0: empty */
    bool serial;
    uint32_t place; /* of lane 0 in its word */
    uint32_t apart[32]; /* of each lane from lane 0 */
    sim_wavefronts count;
} sim_known_wavefronts;

enum { SIM_WAVEFRONTS = 16 };

typedef struct sim_counts {
    spt_sim_counters sums;
    sim_known_wavefronts wavefronts[SIM_WAVEFRONTS];
    sim_trace trace;
    uint32_t clock;
    sim_l1_line l1[SIM_L1_SETS][SIM_L1_WAYS];
} sim_counts;

/* Makes counts ready for the next CTA; zero-initialised ones are ready. */
void sim_counts_reset(sim_counts *counts);
void sim_counts_free(sim_counts *counts);

void sim_count_global_slow(sim_counts *counts, int kind,
                           const uint64_t *address, uint32_t mask,
                           uint32_t bytes);
void sim_count_shared_slow(sim_counts *counts, int kind,
                           const uint32_t *address, uint32_t mask,
                           uint32_t bytes);

/*
 * One warp access to global (or local) memory: 32 lane addresses, the lanes
 * that take part, bytes per lane (1 to 32).
 */
static inline void sim_count_global(sim_counts *counts, int kind,
                                    const uint64_t *address, uint32_t mask,
                                    uint32_t bytes)
{
    if (counts && mask)
        sim_count_global_slow(counts, kind, address, mask, bytes);
}

/*
 * One warp access to shared memory; addresses are offsets (any base that is a
 * multiple of 128). ldmatrix.xN is a load of 16 bytes by the first 8 N lanes.
 */
static inline void sim_count_shared(sim_counts *counts, int kind,
                                    const uint32_t *address, uint32_t mask,
                                    uint32_t bytes)
{
    if (counts && mask)
        sim_count_shared_slow(counts, kind, address, mask, bytes);
}

/* The same in two steps; serial: atomics. */
sim_wavefronts sim_wavefronts_of(const uint32_t *address, uint32_t mask,
                                 uint32_t bytes, bool serial);
void sim_count_wavefronts(sim_counts *counts, int kind, sim_wavefronts w);

/* L2 of one device. Used by one launch at a time. */
typedef struct sim_l2 sim_l2;
sim_l2 *sim_l2_new(double bytes); /* NULL when out of memory */
void sim_l2_free(sim_l2 *l2);
void sim_l2_flush(sim_l2 *l2); /* empty, nothing written back */
/* Replays a trace, adding to the lts and dram counters of sums. */
void sim_l2_replay(sim_l2 *l2, const sim_trace *trace, spt_sim_counters *sums);

/*
 * The counters of one launch. sim_counts_end may be called from any host
 * thread, once per CTA of 0 .. n_ctas - 1; it takes the trace and resets
 * counts for the next CTA.
 */
typedef struct sim_launch_counts sim_launch_counts;
sim_launch_counts *sim_launch_counts_new(sim_l2 *l2, uint64_t n_ctas);
void sim_counts_end(sim_launch_counts *launch, uint64_t cta,
                    sim_counts *counts);
/* After the last CTA: adds to sums. CTAs that never ended are skipped. */
void sim_launch_counts_finish(sim_launch_counts *launch,
                              spt_sim_counters *sums);
void sim_launch_counts_free(sim_launch_counts *launch);

void sim_counters_add(spt_sim_counters *sum, const spt_sim_counters *more);

/*
 * Microseconds of one launch by its counters: the largest of what DRAM, L2,
 * instruction issue, matrix unit and shared memory need, with the waves of
 * CTAs and the fixed costs added (see counters_time.c).
 */
typedef struct sim_geometry {
    uint64_t ctas;
    int threads; /* per CTA */
    int registers; /* per thread */
    int shared_bytes; /* per CTA, static and dynamic */
    bool graph; /* a node of a graph, not a launch by the host */
} sim_geometry;
double sim_time_us(const spt_sim_counters *counters, const spt_board *board,
                   const sim_geometry *geometry);

#endif
