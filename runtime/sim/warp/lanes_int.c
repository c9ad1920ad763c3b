/* Integer and bit instructions on 32 lanes. */
#include "engine_lanes.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

#define LOW16(x) ((x)&0xffffu)
#define SX16(x) ((v8s)((v8u)(x) << 16) >> 16)
/* Unsigned, so that the least number may stay what it is. */
#define SABS(T, x, shift) \
    ((SIM_BITS_##T)((x) ^ ((x) >> shift)) - (SIM_BITS_##T)((x) >> shift))
#define U24(x) ((uint64_t)((x)&0xffffffu))
#define S24(x) ((int64_t)((int32_t)((uint32_t)(x) << 8) >> 8))
#define PAIR64(high, low) ((uint64_t)(high) << 32 | (uint32_t)(low))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define LESS_RELU(a, b) (LESS(a, b) > 0 ? LESS(a, b) : 0)
#define MORE_RELU(a, b) (MORE(a, b) > 0 ? MORE(a, b) : 0)
/* f of both halves, which are of type T. */
#define PAIR(f, T, x, y)                     \
    ((uint32_t)(uint16_t)f((T)(x), (T)(y)) | \
     (uint32_t)(uint16_t)f((T)((x) >> 16), (T)((y) >> 16)) << 16)

static const uint16_t prmt_b4e_selector[] = {0x5670, 0x6701, 0x7012, 0x0123};
static const uint16_t prmt_ecl_selector[] = {0x3210, 0x3211, 0x3222, 0x3333};
static const uint16_t prmt_ecr_selector[] = {0x0000, 0x1110, 0x2210, 0x3210};

static inline int32_t sat_s32(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

static inline uint32_t popc32(uint64_t x)
{
    uint32_t v = (uint32_t)x;
    v -= v >> 1 & 0x55555555;
    v = (v & 0x33333333) + (v >> 2 & 0x33333333);
    return ((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static inline uint32_t bfind(uint64_t x, bool unused)
{
    (void)unused;
    return x ? 63u - (uint32_t)__builtin_clzll(x) : UINT32_MAX;
}

static inline uint32_t shiftamt(uint64_t x, uint32_t width)
{
    return x ? width - 64 + (uint32_t)__builtin_clzll(x) : UINT32_MAX;
}

static inline uint32_t brev32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

/* The offset-th set bit from base on, upwards or downwards. */
static inline uint32_t fns(uint32_t mask, uint32_t base, int32_t offset)
{
    int64_t left = offset < 0 ? -(int64_t)offset : offset;
    int step = offset < 0 ? -1 : 1;
    if (!left)
        return base < 32 && mask >> base & 1 ? base : UINT32_MAX;
    for (int64_t at = base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}

static inline uint64_t low_bits(uint32_t count)
{
    return count > 63 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static inline uint64_t bfe(uint64_t a, uint32_t at, uint32_t count,
                           uint32_t width, bool is_signed)
{
    at &= 255;
    count &= 255;
    if (!count)
        return 0;
    uint32_t last = at + count - 1 < width - 1 ? at + count - 1 : width - 1;
    bool sign = is_signed && a >> last & 1;
    uint64_t bits = at < width ? (a & low_bits(width)) >> at : 0;
    uint32_t have = at < width ? width - at : 0;
    uint32_t keep = count < have ? count : have;
    bits &= low_bits(keep);
    return sign ? bits | ~low_bits(keep) : bits;
}

static inline uint32_t szext(uint32_t a, uint32_t b, bool clamp, bool is_signed)
{
    uint32_t count = clamp ? (b < 32 ? b : 32) : b & 31;
    if (!count)
        return 0;
    uint32_t value = a & (uint32_t)low_bits(count);
    bool sign = is_signed && value >> (count - 1) & 1;
    return sign ? value | ~(uint32_t)low_bits(count) : value;
}

static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = PAIR64(b, a);
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t pick = selector >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (pick & 7)) & 255;
        if (pick & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

static inline int32_t part(uint32_t x, int at, int width, bool is_signed)
{
    uint32_t value = x >> at & ((1u << width) - 1);
    bool sign = is_signed && value >> (width - 1) & 1;
    return (int32_t)(sign ? value | ~((1u << width) - 1) : value);
}

static inline uint32_t dp4(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (int i = 0; i < 32; i += 8)
        c += (uint32_t)part(a, i, 8, sa) * (uint32_t)part(b, i, 8, sb);
    return c;
}

static inline uint32_t dp2(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (int i = 0; i < 2; i++)
        c +=
            (uint32_t)part(a, 16 * i, 16, sa) * (uint32_t)part(b, 8 * i, 8, sb);
    return c;
}

#define SIM_PASS 1
#include "engine_rows.h"
#include "ops_int.def"
#undef SIM_PASS
#define SIM_PASS 2
#include "engine_rows.h"
static const sim_lane_op ops[] = {
#include "ops_int.def"
};
const sim_lane_table SIM_TABLE(sim_lanes_int) = {ops, sizeof ops / sizeof *ops};
