/*
 * Bit sets with one bit per byte of memory. Setting is safe against other
 * threads that set neighbouring bits of the same word.
 */
#ifndef SPT_SIM_MEMORY_BITS_H
#define SPT_SIM_MEMORY_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* The bits [at, at+n) of one word; n in 1..64, at+n <= 64. */
static inline uint64_t bits_mask(unsigned at, unsigned n)
{
    return (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << at;
}

static inline uint64_t bits_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline bool bits_all(const uint64_t *bits, uint64_t at, uint64_t n)
{
    while (n) {
        unsigned first = at & 63;
        unsigned here = n < 64 - first ? (unsigned)n : 64 - first;
        uint64_t mask = bits_mask(first, here);
        if ((bits_load(bits + (at >> 6)) & mask) != mask)
            return false;
        at += here;
        n -= here;
    }
    return true;
}

static inline bool bits_any(const uint64_t *bits, uint64_t at, uint64_t n)
{
    while (n) {
        unsigned first = at & 63;
        unsigned here = n < 64 - first ? (unsigned)n : 64 - first;
        if (bits_load(bits + (at >> 6)) & bits_mask(first, here))
            return true;
        at += here;
        n -= here;
    }
    return false;
}

static inline void bits_set(uint64_t *bits, uint64_t at, uint64_t n)
{
    while (n) {
        unsigned first = at & 63;
        unsigned here = n < 64 - first ? (unsigned)n : 64 - first;
        uint64_t mask = bits_mask(first, here);
        uint64_t *word = bits + (at >> 6);
        if (here == 64)
            __atomic_store_n(word, mask, __ATOMIC_RELAXED);
        else if ((bits_load(word) & mask) != mask)
            __atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
        at += here;
        n -= here;
    }
}

static inline void bits_clear(uint64_t *bits, uint64_t at, uint64_t n)
{
    while (n) {
        unsigned first = at & 63;
        unsigned here = n < 64 - first ? (unsigned)n : 64 - first;
        uint64_t mask = bits_mask(first, here);
        uint64_t *word = bits + (at >> 6);
        if (bits_load(word) & mask)
            __atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
        at += here;
        n -= here;
    }
}

static inline bool bits_get(const uint64_t *bits, uint64_t at)
{
    return bits_load(bits + (at >> 6)) >> (at & 63) & 1;
}

#endif
