/*
 * From the addresses of 32 lanes to offsets behind one host pointer, for the
 * memory instructions of a launch without checks and counters. What is out of
 * the ordinary (lanes in two allocations, a fault, local memory) is left to
 * the instruction's sim_op.
 */
#ifndef SPT_SIM_LANES_PLACES_H
#define SPT_SIM_LANES_PLACES_H

#include "access.h"
#include "engine_lanes.h"

#define SIM_INLINE static inline __attribute__((always_inline))

typedef struct sim_places {
    uint8_t *host;
    /* Behind host; lanes that do not take part have that of one that does. */
    uint32_t at[SIM_LANES] __attribute__((aligned(64)));
    uint64_t size; /* bytes behind host that are one allocation */
} sim_places;

/*
 * The lanes' addresses are base + add; those in exec (full: all) have to lie
 * aligned in size bytes from va on. No branches by lane: top bits and low bits
 * are gathered and looked at once. size < 4 GiB, so that bit 63 tells.
 */
SIM_INLINE bool sim_places_64(sim_places *p, const uint64_t *base, uint64_t add,
                              uint32_t exec, const bool full,
                              const uint32_t bytes, uint64_t va)
{
    uint64_t last = p->size - bytes, out = 0, low = 0;
    if (p->size < bytes || p->size >> 32)
        return false;
    uint64_t first = base[full ? 0 : __builtin_ctz(exec)];
    for (int l = 0; l < SIM_LANES; l++) {
        uint64_t from = full || exec >> l & 1 ? base[l] : first;
        uint64_t at = from + (add - va);
        low |= from + add;
        out |= at | (last - at);
        p->at[l] = (uint32_t)at;
    }
    return !(out >> 63) && !(low & (bytes - 1));
}

/* The same for addresses of 32 bits; size < 2 GiB. */
SIM_INLINE bool sim_places_32(sim_places *p, const uint32_t *base, uint32_t add,
                              uint32_t exec, const bool full,
                              const uint32_t bytes, uint32_t va)
{
    uint32_t last = (uint32_t)p->size - bytes, out = 0, low = 0;
    if (p->size < bytes || p->size >> 31)
        return false;
    uint32_t first = base[full ? 0 : __builtin_ctz(exec)];
    for (int l = 0; l < SIM_LANES; l++) {
        uint32_t from = full || exec >> l & 1 ? base[l] : first;
        uint32_t at = from + (add - va);
        low |= from + add;
        out |= at | (last - at);
        p->at[l] = at;
    }
    return !(out >> 31) && !(low & (bytes - 1));
}

/* Global memory: one of the allocations that the CTA used last. */
SIM_INLINE bool sim_places_global(sim_places *p, const sim_warp *w,
                                  const uint64_t *base, uint64_t add,
                                  uint32_t exec, const bool full,
                                  const uint32_t bytes)
{
    const sim_cta_memory *mem = w->cta->memory;
    uint64_t first = base[full ? 0 : __builtin_ctz(exec)] + add;
    for (int i = 0; i < SIM_RANGES; i++) {
        const sim_range *r = &mem->ranges[i];
        if (first - r->va >= r->size)
            continue;
        p->host = r->host;
        p->size = r->size;
        return sim_places_64(p, base, add, exec, full, bytes, r->va);
    }
    return false;
}

/* Shared memory by addresses of 64 bits (window: of generic ones) or 32. */
SIM_INLINE bool sim_places_shared(sim_places *p, const sim_warp *w,
                                  const void *base, const uint32_t width,
                                  uint64_t add, uint32_t exec, const bool full,
                                  const uint32_t bytes, uint64_t window)
{
    const sim_cta *cta = w->cta;
    uint32_t from = w->launch->shared_base;
    p->host = cta->shared + from;
    p->size = cta->shared_bytes - from;
    if (width == 4)
        return sim_places_32(p, base, (uint32_t)add, exec, full, bytes, from);
    return sim_places_64(p, base, add, exec, full, bytes, window + from);
}

/* Lane i's bytes lie behind lane i - 1's. */
SIM_INLINE bool sim_places_in_a_row(const sim_places *p, const uint32_t bytes)
{
    uint32_t apart = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        apart |= p->at[l] ^ (p->at[0] + l * bytes);
    return !apart;
}

#endif
