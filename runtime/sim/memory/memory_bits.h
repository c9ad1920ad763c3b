/*
 * Bit sets with one bit per byte of memory. Setting is safe against other
 * threads that set neighbouring bits of the same word; bits_mark is for sets
 * that one thread has for itself.
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

/* Sets or clears n bits that lie in one word. */
static inline void bits_mark(uint64_t *bits, uint64_t at, unsigned n, bool set)
{
    uint64_t mask = bits_mask(at & 63, n);
    uint64_t word = bits[at >> 6];
    bits[at >> 6] = set ? word | mask : word & ~mask;
}

/*
 * bits_common: the bits of n bytes at each of the lanes' places, and'ed, n a
 * power of two up to 32 that divides the places: n ones when all are set.
 * bits_united: the same, or'ed. bits_..32: places of 32 bits.
 */
#define BITS_OF_LANES(name, type, begin, join)                        \
    static inline uint64_t name(const uint64_t *bits, const type *at, \
                                uint32_t lanes)                       \
    {                                                                 \
        uint64_t joined = begin;                                      \
        for (uint32_t rest = lanes; rest; rest &= rest - 1) {         \
            type from = at[__builtin_ctz(rest)];                      \
            joined join bits_load(bits + (from >> 6)) >> (from & 63); \
        }                                                             \
        return joined;                                                \
    }
BITS_OF_LANES(bits_common, uint64_t, ~UINT64_C(0), &=)
BITS_OF_LANES(bits_united, uint64_t, 0, |=)
BITS_OF_LANES(bits_common32, uint32_t, ~UINT64_C(0), &=)
BITS_OF_LANES(bits_united32, uint32_t, 0, |=)
#undef BITS_OF_LANES

static inline bool bits_get(const uint64_t *bits, uint64_t at)
{
    return bits_load(bits + (at >> 6)) >> (at & 63) & 1;
}

#endif
