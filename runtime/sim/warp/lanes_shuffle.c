/*
 * shfl.sync of registers of 32 bits by a whole warp that is its own member
 * mask. Lanes that are not all there, and other masks, are sim_flow_sync's.
 */
#include "decode.h"
#include "engine_lanes.h"

typedef enum mode { UP, DOWN, BFLY, IDX } mode;

/* Lane at[l] of from to lane l of d. */
#ifdef SIM_AVX512
static inline __attribute__((always_inline)) void
permute(v8u *d, const v8u *from, const v8u *at)
{
    __m512i low = _mm512_load_si512(from), high = _mm512_load_si512(from + 2);
    __m512i first = _mm512_loadu_si512(at), last = _mm512_loadu_si512(at + 2);
    _mm512_store_si512(d, _mm512_permutex2var_epi32(low, first, high));
    _mm512_store_si512(d + 2, _mm512_permutex2var_epi32(low, last, high));
}
#else
static inline __attribute__((always_inline)) void
permute(v8u *d, const v8u *from, const v8u *at)
{
    uint32_t old[SIM_LANES], to[SIM_LANES] __attribute__((aligned(32)));
    memcpy(old, from, sizeof old);
    for (int l = 0; l < SIM_LANES; l++)
        to[l] = old[((const uint32_t *)(const void *)at)[l] & 31];
    memcpy(d, to, sizeof to);
}
#endif

/* Lane l of each vector i: the lane it takes from; bits: it is in bounds. */
static inline __attribute__((always_inline)) uint32_t
sources(v8u *at, const v8u *distance, const v8u *clamp, const mode m)
{
    uint32_t bits = 0;
    SIM_UNROLL for (unsigned i = 0; i < 4; i++)
    {
        v8u lane = (v8u){0, 1, 2, 3, 4, 5, 6, 7} + 8 * i;
        v8u b = distance[i] & 31, segment = clamp[i] >> 8 & 31;
        v8u low = lane & segment, high = low | (clamp[i] & ~segment & 31);
        v8s from = m == UP     ? (v8s)(lane - b)
                   : m == DOWN ? (v8s)(lane + b)
                   : m == BFLY ? (v8s)(lane ^ b)
                               : (v8s)(low | (b & ~segment));
        v8u inside =
            m == UP ? (v8u)(from >= (v8s)high) : (v8u)(from <= (v8s)high);
        at[i] = SIM_BLEND(v8u, inside, (v8u)from, lane);
        bits |= SIM_MOVEMASK8(inside) << 8 * i;
    }
    return bits;
}

static inline __attribute__((always_inline)) bool
shuffle(const sim_insn *in, uint8_t *regs, const mode m)
{
    const sim_args *args = in->args;
    bool pair = in->src->operands[0].pair;
    const sim_arg *source = &args->arg[args->first[1 + pair]];
    const v8u *members = (const void *)(regs + source[3].slot);
    v8u all = members[0] & members[1] & members[2] & members[3], at[4];
    if (SIM_MOVEMASK8(all == UINT32_MAX) != 255)
        return false;
    uint32_t bits = sources(at, (const void *)(regs + source[1].slot),
                            (const void *)(regs + source[2].slot), m);
    permute((void *)(regs + args->arg[0].slot),
            (const void *)(regs + source[0].slot), at);
    if (pair)
        SIM_PRED(args->arg[1].slot) = bits;
    return true;
}

#define SHUFFLE(name, m)                             \
    SIM_HANDLER(name##_full)                         \
    {                                                \
        if (!shuffle(in, regs, m))                   \
            return sim_flow_sync(in, w, regs, exec); \
        w->forced = false;                           \
        if (w->cta->watched)                         \
            sim_memory_warp_sync(w);                 \
        SIM_NEXT_FULL;                               \
    }
SHUFFLE(up, UP)
SHUFFLE(down, DOWN)
SHUFFLE(bfly, BFLY)
SHUFFLE(idx, IDX)

/* In the order of sim_lanes_shuffle. */
static const sim_lane_op ops[] = {
    {"", up_full, NULL},
    {"", down_full, NULL},
    {"", bfly_full, NULL},
    {"", idx_full, NULL},
};

const sim_lane_table SIM_TABLE(sim_lanes_shuffle) = {ops,
                                                     sizeof ops / sizeof *ops};
