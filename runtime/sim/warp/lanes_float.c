/* Floating-point instructions on 32 lanes. */
#include "engine_lanes.h"
#include "engine_math.h"
#include "lanes_half.h"

#define CANON(x)                                              \
    __extension__({                                           \
        v8f x_ = (x);                                         \
        SIM_BLEND(v8f, x_ == x_, x_, (v8u){0} + SIM_NAN_F32); \
    })
#define CANON64(x)                                            \
    __extension__({                                           \
        v4d x_ = (x);                                         \
        SIM_BLEND(v4d, x_ == x_, x_, (v4u){0} + SIM_NAN_F64); \
    })
#define FLUSHU(x) flush8(x)
#define FLUSH(x) ((v8f)flush8((v8u)(v8f)(x)))
#define FTZ_F16(x) h2d((x)&0x7c00 ? (uint32_t)(x) : (x)&0x8000u)
#define H2(f, a, b, kind)                               \
    SIM_PAIR(f((a)&0xffff, (b)&0xffff, kind, in->bits), \
             f((a) >> 16, (b) >> 16, kind, in->bits))
#define H3(f, a, b, c, kind)                                        \
    SIM_PAIR(f((a)&0xffff, (b)&0xffff, (c)&0xffff, kind, in->bits), \
             f((a) >> 16, (b) >> 16, (c) >> 16, kind, in->bits))
#define HM(a, b, kind, most, nan)                                           \
    SIM_PAIR(least_half((a)&0xffff, (b)&0xffff, kind, most, nan, in->bits), \
             least_half((a) >> 16, (b) >> 16, kind, most, nan, in->bits))
#define HX(a, b, kind, most, nan)                                             \
    SIM_PAIR(xorsign_half((a)&0xffff, (b)&0xffff, kind, most, nan, in->bits), \
             xorsign_half((a) >> 16, (b) >> 16, kind, most, nan, in->bits))
#define LOW32(x) f32_of((uint32_t)(x))
#define HIGH32(x) f32_of((uint32_t)((x) >> 32))
#define JOIN(low, high) ((uint64_t)bits_of(high) << 32 | (uint64_t)bits_of(low))
#define X2(f, a, b) \
    JOIN(f(LOW32(a), LOW32(b), in->bits), f(HIGH32(a), HIGH32(b), in->bits))
#define X2FMA(a, b, c)                                        \
    JOIN(fma_f32_any(LOW32(a), LOW32(b), LOW32(c), in->bits), \
         fma_f32_any(HIGH32(a), HIGH32(b), HIGH32(c), in->bits))

/* Vectors as arguments: always inlined, so that no ABI matters. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
static inline __attribute__((always_inline)) v8u flush8(v8u x)
{
    v8u sign = x & 0x80000000u;
    return SIM_BLEND(v8u, (x & 0x7f800000u) != 0, x, sign);
}

/* Without a NaN the one that is less (for MOST: by the other order); of two
   zeros the one with (for MOST: without) a sign; the number beside a NaN. */
static inline __attribute__((always_inline)) v8u pick8(v8u first, v8u second,
                                                       v8f a, v8f b, v8u equal)
{
    v8u ua = (v8u)a, ub = (v8u)b;
    v8u no_a = (v8u)(a != a), no_b = (v8u)(b != b);
    return (first & ua) | (second & ub) | ((v8u)(a == b) & equal) |
           (no_a & ~no_b & ub) | (no_b & ~no_a & ua) |
           (no_a & no_b & SIM_NAN_F32);
}
#define LEAST(a, b)                                           \
    ((v8f)pick8((v8u)((a) < (b)), (v8u)((b) < (a)), (a), (b), \
                (v8u)(a) | (v8u)(b)))
#define MOST(a, b)                                            \
    ((v8f)pick8((v8u)((a) > (b)), (v8u)((b) > (a)), (a), (b), \
                (v8u)(a) & (v8u)(b)))

#define LEAST_F16(a, b) \
    f16_narrow((v8u)LEAST((v8f)f16_widen(a), (v8f)f16_widen(b)))
#define MOST_F16(a, b) \
    f16_narrow((v8u)MOST((v8f)f16_widen(a), (v8f)f16_widen(b)))
#define LEAST_BF16(a, b) ((v8u)LEAST((v8f)((a) << 16), (v8f)((b) << 16)) >> 16)
#define MOST_BF16(a, b) ((v8u)MOST((v8f)((a) << 16), (v8f)((b) << 16)) >> 16)

#ifdef SIM_AVX2
#define FMA(a, b, c) \
    CANON((v8f)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define fma8(a, b, c)                                    \
    __extension__({                                      \
        v8f r_, fa_ = (a), fb_ = (b), fc_ = (c);         \
        for (int k_ = 0; k_ < 8; k_++)                   \
            r_[k_] = fma_f32(fa_[k_], fb_[k_], fc_[k_]); \
        r_;                                              \
    })
#define FMA(a, b, c) fma8(a, b, c)
#endif

/*
 * 2^x of 32 lanes, |error| < 1e-9 before the rounding to float: x = n + r by
 * the bits of x + 1.5 * 2^52, 2^r by the series of e^(r ln 2).
 */
static inline __attribute__((always_inline)) void
ex2_f32_lanes(const sim_insn *in, const uint8_t *regs, float *to)
{
    static const double series[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                    1.0 / 120,   1.0 / 24,   1.0 / 6,
                                    0.5,         1,          1};
    const v4f *from = (const v4f *)(const void *)(regs + in->a);
    const v4d most = (v4d){0} + 160, magic = (v4d){0} + 0x1.8p52;
    uint32_t keep = in->bits & SIM_FTZ ? 0x7f800000 : 0x7fffffff;
    for (int i = 0; i < SIM_LANES / 4; i++) {
        v4d x = __builtin_convertvector(from[i], v4d);
        x = SIM_BLEND(v4d, x > most, most, x);
        x = SIM_BLEND(v4d, x < -most, -most, x);
        v4d n = x + magic;
        v4d t = (x - (n - magic)) * 0.6931471805599453094;
        v4d p = (v4d){0} + series[0];
        SIM_UNROLL for (int k = 1; k <= 8; k++) p = p * t + series[k];
        p *= (v4d)(((v4u)n + 1023) << 52);
        ((v4f *)(void *)to)[i] = __builtin_convertvector(p, v4f);
    }
    uint32_t *bits = (void *)to;
    for (int l = 0; l < SIM_LANES; l++) {
        uint32_t b = bits[l];
        b = b & keep ? b : 0;
        bits[l] = (b & 0x7fffffff) > 0x7f800000 ? SIM_NAN_F32 : b;
    }
}

SIM_HANDLER(ex2_f32_full)
{
    float tmp[SIM_LANES] __attribute__((aligned(32)));
    ex2_f32_lanes(in, regs, tmp);
    SIM_COPY_FULL(v8u, tmp);
    SIM_NEXT_FULL;
}

SIM_HANDLER(ex2_f32_masked)
{
    float tmp[SIM_LANES] __attribute__((aligned(32)));
    ex2_f32_lanes(in, regs, tmp);
    SIM_COPY_MASKED(v8u, tmp);
    SIM_NEXT_MASKED;
}

#define SIM_PASS 1
#include "engine_rows.h"
#include "ops_float.def"
#undef SIM_PASS
#define SIM_PASS 2
#include "engine_rows.h"
static const sim_lane_op ops[] = {
#undef COMPARE
#undef FTZ_F32
#include "ops_float.def"
    SIM_ROW(ex2_f32, "~ex2.approx.f32")};
const sim_lane_table SIM_TABLE(sim_lanes_float) = {ops,
                                                   sizeof ops / sizeof *ops};
