/*
 * Floating point as PTX has it, the same bits on every machine: no libm but
 * what is exact (sqrt, fma), no contraction. A sum or product that is to be
 * rounded once to a narrower format is first rounded "to odd" to a double.
 */
#ifndef SPT_SIM_ENGINE_MATH_H
#define SPT_SIM_ENGINE_MATH_H

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "decode.h"

#define SIM_NAN_F32 0x7fffffffu
#define SIM_NAN_F64 UINT64_C(0x7ff8000000000000)

static inline float f32_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double f64_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t bits64_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/*
 * A double to a format of e exponent and m fraction bits. Exact when x is, or
 * when x was rounded to odd and m is at most 50.
 */
static inline uint64_t narrow_bits(double x, int e, int m, uint32_t mode)
{
    uint64_t bits = bits64_of(x);
    uint64_t sign = bits >> 63 << (e + m);
    int exponent = (int)(bits >> 52 & 2047);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    uint64_t top = ((UINT64_C(1) << e) - 1) << m;
    int bias = (1 << (e - 1)) - 1;
    if (exponent == 2047)
        return fraction ? ((UINT64_C(1) << (e + m)) - 1) : sign | top;
    if (!(bits << 1))
        return sign;
    if (exponent == 0) { /* a double's denormal: far below e < 11 */
        exponent = 1;
    } else {
        fraction |= UINT64_C(1) << 52;
    }
    int target = exponent - 1023;
    int lowest = 1 - bias;
    int shift = 52 - m + (target < lowest ? lowest - target : 0);
    uint64_t q = shift > 63 ? 0 : fraction >> shift;
    uint64_t rest =
        shift > 63 ? fraction : fraction & ((UINT64_C(1) << shift) - 1);
    uint64_t half = shift > 63 ? UINT64_MAX : UINT64_C(1) << (shift - 1);
    bool up = false;
    switch (mode) {
    case SIM_RN:
        up = rest > half || (rest == half && q & 1);
        break;
    case SIM_RNA:
        up = rest >= half;
        break;
    case SIM_RM:
        up = sign && rest;
        break;
    case SIM_RP:
        up = !sign && rest;
        break;
    default:
        break;
    }
    q += up;
    uint64_t result =
        target < lowest ? q : q + ((uint64_t)(target + bias - 1) << m);
    if (result >= top) {
        bool inf = mode == SIM_RN || mode == SIM_RNA ||
                   (mode == SIM_RM && sign) || (mode == SIM_RP && !sign);
        result = inf ? top : top - 1;
    }
    return sign | result;
}

static inline double widen_bits(uint32_t bits, int e, int m)
{
    uint32_t exponent = bits >> m & ((1u << e) - 1);
    uint64_t fraction = bits & ((1u << m) - 1);
    uint64_t sign = (uint64_t)(bits >> (e + m) & 1) << 63;
    int bias = (1 << (e - 1)) - 1;
    if (exponent == (1u << e) - 1)
        return f64_of(sign | UINT64_C(0x7ff) << 52 | fraction << (52 - m));
    if (!exponent) {
        double scale = f64_of((uint64_t)(1023 + 1 - bias - m) << 52);
        return f64_of(sign | bits64_of((double)fraction * scale));
    }
    return f64_of(sign | (uint64_t)(exponent + 1023 - (uint32_t)bias) << 52 |
                  fraction << (52 - m));
}

static inline double h2d(uint32_t h)
{
    return widen_bits(h & 0xffff, 5, 10);
}

/* Exact; without branches, so that lanes go side by side. */
static inline float h2f(uint32_t h)
{
    uint32_t size = (h & 0x7fff) << 13;
    uint32_t bits = bits_of(f32_of(size) * 0x1p112f);
    bits = size >= 0x7c00u << 13 ? 0x7f800000 : bits;
    bits |= (h & 0x8000) << 16;
    return f32_of(size > 0x7c00u << 13 ? SIM_NAN_F32 : bits);
}

static inline double bf2d(uint32_t b)
{
    return (double)f32_of(b << 16);
}

/* x + y rounded to odd. */
static inline double odd_sum(double x, double y)
{
    double s = x + y;
    double t = s - x;
    double error = (x - (s - t)) + (y - t);
    uint64_t bits = bits64_of(s);
    if (error != 0 && !(bits & 1) && !isinf(s)) {
        bool away = (error > 0) == (s > 0);
        bits = away ? bits + 1 : bits - 1;
        s = f64_of(bits);
    }
    return s;
}

static inline float flush(float x)
{
    uint32_t bits = bits_of(x);
    return bits & 0x7f800000 ? x : f32_of(bits & 0x80000000);
}

/* The end of an f32 operation: one rounding, then .ftz, .sat, .relu. */
static inline float finish_f32(double x, uint64_t flags)
{
    uint32_t bits;
    if ((flags & SIM_ROUND) == SIM_RN)
        bits = x == x ? bits_of((float)x) : SIM_NAN_F32;
    else
        bits = (uint32_t)narrow_bits(x, 8, 23, (uint32_t)flags & SIM_ROUND);
    if (flags & SIM_FTZ && !(bits & 0x7f800000))
        bits &= 0x80000000;
    float r = f32_of(bits);
    if (flags & SIM_SAT)
        return r != r ? 0 : r <= 0 ? 0 : r > 1 ? 1 : r;
    return r;
}

static inline float in_f32(float x, uint64_t flags)
{
    return flags & SIM_FTZ ? flush(x) : x;
}

/* -0 or +0 when a sum cancels, by the rounding. */
static inline double sum_sign(double s, double x, double y, uint64_t flags)
{
    if (s == 0 && (flags & SIM_ROUND) == SIM_RM &&
        !(x == 0 && y == 0 && !signbit(x) && !signbit(y)) &&
        !(signbit(x) && signbit(y)))
        return -0.0;
    return s;
}

static inline float add_f32_any(float a, float b, uint64_t flags)
{
    double x = (double)in_f32(a, flags), y = (double)in_f32(b, flags);
    return finish_f32(sum_sign(odd_sum(x, y), x, y, flags), flags);
}

static inline float mul_f32_any(float a, float b, uint64_t flags)
{
    return finish_f32((double)in_f32(a, flags) * (double)in_f32(b, flags),
                      flags);
}

static inline float fma_f32_any(float a, float b, float c, uint64_t flags)
{
    double p = (double)in_f32(a, flags) * (double)in_f32(b, flags);
    double z = (double)in_f32(c, flags);
    return finish_f32(sum_sign(odd_sum(p, z), p, z, flags), flags);
}

static inline float fma_f32(float a, float b, float c)
{
    float r = (float)odd_sum((double)a * (double)b, (double)c);
    return r == r ? r : f32_of(SIM_NAN_F32);
}

/* x / y in double, rounded to odd: the remainder is exact. */
static inline double odd_quotient(double x, double y)
{
    double q = x / y;
    if (q == 0 || isnan(q) || isinf(q) || isinf(y))
        return q;
    double rest = fma(-q, y, x);
    uint64_t bits = bits64_of(q);
    if (rest != 0 && !(bits & 1)) {
        bool grow = ((rest > 0) == (y > 0)) == (q > 0);
        bits = grow ? bits + 1 : bits - 1;
    }
    return f64_of(bits);
}

static inline double odd_root(double x)
{
    double q = sqrt(x);
    if (q == 0 || isnan(q) || isinf(q))
        return q;
    double rest = fma(-q, q, x);
    uint64_t bits = bits64_of(q);
    if (rest != 0 && !(bits & 1))
        bits = rest > 0 ? bits + 1 : bits - 1;
    return f64_of(bits);
}

static inline float div_f32_any(float a, float b, uint64_t flags)
{
    return finish_f32(
        odd_quotient((double)in_f32(a, flags), (double)in_f32(b, flags)),
        flags);
}

static inline float rcp_f32_any(float a, uint64_t flags)
{
    return finish_f32(odd_quotient(1, (double)in_f32(a, flags)), flags);
}

static inline float sqrt_f32_any(float a, uint64_t flags)
{
    return finish_f32(odd_root((double)in_f32(a, flags)), flags);
}

/* f64: the machine's own operations in the machine's own rounding. */
enum { SIM_F64_ADD, SIM_F64_SUB, SIM_F64_MUL, SIM_F64_DIV, SIM_F64_SQRT };

static inline double canonical(double x)
{
    return x == x ? x : f64_of(SIM_NAN_F64);
}

static inline int fe_mode(uint64_t flags)
{
    static const int modes[] = {FE_TONEAREST,
                                FE_TOWARDZERO,
                                FE_DOWNWARD,
                                FE_UPWARD,
                                FE_TONEAREST,
                                0,
                                0,
                                0};
    return modes[flags & SIM_ROUND];
}

static __attribute__((noinline, unused)) double
f64_any(int op, double a, double b, uint64_t flags)
{
    volatile double x = a, y = b, r = 0;
    int mode = fe_mode(flags);
    if (mode != FE_TONEAREST)
        fesetround(mode);
    switch (op) {
    case SIM_F64_ADD:
        r = x + y;
        break;
    case SIM_F64_SUB:
        r = x - y;
        break;
    case SIM_F64_MUL:
        r = x * y;
        break;
    case SIM_F64_DIV:
        r = x / y;
        break;
    default:
        r = sqrt(x);
        break;
    }
    if (mode != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return canonical(r);
}

static __attribute__((noinline, unused)) double
fma_f64_any(double a, double b, double c, uint64_t flags)
{
    volatile double x = a, y = b, z = c, r;
    int mode = fe_mode(flags);
    if (mode != FE_TONEAREST)
        fesetround(mode);
    r = fma(x, y, z);
    if (mode != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return canonical(r);
}

/* Halves: kind 0 is f16, 1 is bf16. */
static inline double half_in(uint32_t h, int kind, uint64_t flags)
{
    if (kind)
        return bf2d(h);
    if (flags & SIM_FTZ && !(h & 0x7c00))
        h &= 0x8000;
    return h2d(h);
}

static inline uint32_t half_out(double x, int kind, uint64_t flags)
{
    uint32_t mode = (uint32_t)flags & SIM_ROUND;
    uint32_t h = (uint32_t)(kind ? narrow_bits(x, 8, 7, mode)
                                 : narrow_bits(x, 5, 10, mode));
    if (flags & SIM_FTZ && !kind && !(h & 0x7c00))
        h &= 0x8000;
    uint32_t inf = kind ? 0x7f80 : 0x7c00;
    if (flags & SIM_SATFINITE && (h & 0x7fff) == inf)
        h--;
    if (x != x)
        h = 0x7fff;
    if (flags & SIM_SAT) {
        uint32_t one = kind ? 0x3f80 : 0x3c00;
        h = x != x || h & 0x8000 ? 0 : h > one ? one : h;
    }
    if (flags & SIM_RELU && x == x && h & 0x8000)
        h = 0;
    return h;
}

/* tf32: f32 with 10 fraction bits. */
static inline uint32_t to_tf32(float x, uint64_t flags)
{
    if (x != x)
        return SIM_NAN_F32;
    uint32_t bits =
        (uint32_t)narrow_bits((double)x, 8, 10, (uint32_t)flags & SIM_ROUND);
    if (flags & SIM_SATFINITE && (bits & 0x3ffff) == 0x3fc00)
        bits--;
    return flags & SIM_RELU && bits >> 18 ? 0 : bits << 13;
}

static inline uint32_t add_half(uint32_t a, uint32_t b, int kind,
                                uint64_t flags)
{
    return half_out(odd_sum(half_in(a, kind, flags), half_in(b, kind, flags)),
                    kind, flags);
}

static inline uint32_t mul_half(uint32_t a, uint32_t b, int kind,
                                uint64_t flags)
{
    return half_out(half_in(a, kind, flags) * half_in(b, kind, flags), kind,
                    flags);
}

static inline uint32_t fma_half(uint32_t a, uint32_t b, uint32_t c, int kind,
                                uint64_t flags)
{
    return half_out(odd_sum(half_in(a, kind, flags) * half_in(b, kind, flags),
                            half_in(c, kind, flags)),
                    kind, flags);
}

/* min and max on bits: a number beats a NaN unless nan, -0 is below +0. */
static inline uint64_t order_of(uint64_t x, int width)
{
    uint64_t sign = UINT64_C(1) << (width - 1);
    return x & sign ? sign - 1 - (x & (sign - 1)) : x | sign;
}

static inline uint64_t least_bits(uint64_t a, uint64_t b, int width,
                                  uint64_t inf, bool most, bool nan)
{
    uint64_t rest = (UINT64_C(1) << (width - 1)) - 1;
    uint64_t canon = width == 64   ? SIM_NAN_F64
                     : width == 32 ? SIM_NAN_F32
                                   : 0x7fff;
    bool na = (a & rest) > inf, nb = (b & rest) > inf;
    if (na || nb)
        return nan || (na && nb) ? canon : na ? b : a;
    return (order_of(a, width) < order_of(b, width)) != most ? a : b;
}

static inline uint32_t least_half(uint32_t a, uint32_t b, int kind, bool most,
                                  bool nan, uint64_t flags)
{
    if (flags & SIM_FTZ && !kind) {
        a = a & 0x7c00 ? a : a & 0x8000;
        b = b & 0x7c00 ? b : b & 0x8000;
    }
    return (uint32_t)least_bits(a, b, 16, kind ? 0x7f80 : 0x7c00, most, nan);
}

/* The least magnitude under the product of the signs. */
static inline uint32_t xorsign_half(uint32_t a, uint32_t b, int kind, bool most,
                                    bool nan, uint64_t flags)
{
    uint32_t r = least_half(a & 0x7fff, b & 0x7fff, kind, most, nan, flags);
    return r == 0x7fff ? r : r | ((a ^ b) & 0x8000);
}

static inline float least_f32(float a, float b, bool most, bool nan,
                              uint64_t flags)
{
    return f32_of((uint32_t)least_bits(bits_of(in_f32(a, flags)),
                                       bits_of(in_f32(b, flags)), 32,
                                       0x7f800000, most, nan));
}

static inline float xorsign_f32(float a, float b, bool most, bool nan,
                                uint64_t flags)
{
    float r = least_f32(f32_of(bits_of(a) & 0x7fffffff),
                        f32_of(bits_of(b) & 0x7fffffff), most, nan, flags);
    uint32_t sign = (bits_of(a) ^ bits_of(b)) & 0x80000000;
    return r != r ? r : f32_of(bits_of(r) | sign);
}

static inline double least_f64(double a, double b, bool most)
{
    return f64_of(least_bits(bits64_of(a), bits64_of(b), 64,
                             UINT64_C(0x7ff0000000000000), most, false));
}

/* Both halves of a register. */
#define SIM_PAIR(expr_low, expr_high) ((expr_low) | (expr_high) << 16)

/* ---- approximations, by polynomials in double ---- */

/* 2^x, |error| < 1e-13: x = n + r, e^(r ln 2) by its series, whose terms are
   added in groups that do not wait for each other. */
static inline double exp2_of(double x)
{
    double n = floor(x + 0.5), t = (x - n) * 0.6931471805599453094;
    double t2 = t * t, t4 = t2 * t2;
    double low = 1 + t + t2 * (1.0 / 2 + t * (1.0 / 6));
    double middle =
        1.0 / 24 + t * (1.0 / 120) + t2 * (1.0 / 720 + t * (1.0 / 5040));
    double high = 1.0 / 40320 + t * (1.0 / 362880) +
                  t2 * (1.0 / 3628800 + t * (1.0 / 39916800));
    double p = low + t4 * (middle + t4 * high);
    int e = (int)n;
    if (e < -1022)
        return p * f64_of((uint64_t)(e + 1023 + 200) << 52) *
               f64_of((uint64_t)(1023 - 200) << 52);
    return p * f64_of((uint64_t)(e + 1023) << 52);
}

static inline double ex2_of(double x)
{
    if (x != x)
        return x;
    return x > 1023 ? (double)INFINITY : x < -1100 ? 0 : exp2_of(x);
}

static inline double lg2_of(double x)
{
    if (x != x || x < 0)
        return f64_of(SIM_NAN_F64);
    if (x == 0)
        return -(double)INFINITY;
    if (isinf(x))
        return x;
    uint64_t bits = bits64_of(x);
    int e = (int)(bits >> 52) - 1023;
    double m =
        f64_of((bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52);
    if (m > 1.4142135623730951) {
        m /= 2;
        e++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, p = 0;
    for (int k = 19; k >= 1; k -= 2)
        p = p * s2 + 1.0 / k;
    return e + 2 * s * p * 1.4426950408889634074;
}

/* sin (quarter 0) or cos (quarter 1); reduced by a pi of 3 doubles. */
static inline double sine_of(double x, int quarter)
{
    if (x != x || isinf(x))
        return f64_of(SIM_NAN_F64);
    double n = floor(x * 0.63661977236758134308 + 0.5);
    double r = x - n * 1.57079632673412561417;
    r -= n * 6.07710050630396597660e-11;
    r -= n * 2.02226624879595063154e-21;
    int64_t k = fabs(n) < 9e15 ? (int64_t)n + quarter : quarter;
    double r2 = r * r, p = 1;
    bool cosine = k & 1;
    for (int i = cosine ? 16 : 17; i > 1; i -= 2)
        p = 1 - r2 / (i * (i - 1)) * p;
    p = cosine ? p : r * p;
    return k & 2 ? -p : p;
}

static inline double tanh_of(double x)
{
    if (x != x)
        return x;
    if (fabs(x) > 20)
        return x > 0 ? 1 : -1;
    if (fabs(x) < 1e-4)
        return x;
    double e = exp2_of(2 * x * 1.4426950408889634074);
    return (e - 1) / (e + 1);
}

static inline float rsqrt_of(float a, uint64_t flags)
{
    double x = (double)in_f32(a, flags);
    if (x == 0)
        return signbit(x) ? -INFINITY : INFINITY;
    return finish_f32(1 / sqrt(x), flags);
}

/* ---- conversions ---- */

/* A double to an integer of width bits, as the flags say. */
static inline uint64_t to_integer(double x, int width, bool is_signed,
                                  uint64_t flags, bool nan_is_zero)
{
    double low = is_signed ? -ldexp(1, width - 1) : 0;
    double high = ldexp(1, is_signed ? width - 1 : width);
    uint64_t top = is_signed     ? (UINT64_C(1) << (width - 1)) - 1
                   : width == 64 ? UINT64_MAX
                                 : (UINT64_C(1) << width) - 1;
    if (x != x)
        return nan_is_zero ? 0 : UINT64_C(1) << (width - 1);
    switch (flags & SIM_ROUND) {
    case SIM_RN:
        x = nearbyint(x);
        break;
    case SIM_RM:
        x = floor(x);
        break;
    case SIM_RP:
        x = ceil(x);
        break;
    default:
        x = trunc(x);
        break;
    }
    if (x >= high)
        return top;
    if (x <= low)
        return is_signed ? ~top : 0;
    return is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* An integer as a double rounded to odd, so that one rounding follows. */
static inline double odd_integer(uint64_t x, bool is_signed)
{
    bool negative = is_signed && (int64_t)x < 0;
    uint64_t size = negative ? 0 - x : x;
    double high = (double)(size >> 32) * 4294967296.0;
    double sum = odd_sum(high, (double)(uint32_t)size);
    return negative ? -sum : sum;
}

static inline double integer_to_f64(uint64_t x, bool is_signed, uint64_t flags)
{
    bool negative = is_signed && (int64_t)x < 0;
    uint64_t size = negative ? 0 - x : x;
    double high = (double)(size >> 32) * 4294967296.0;
    double low = (double)(uint32_t)size;
    return negative ? f64_any(SIM_F64_SUB, -high, low, flags)
                    : f64_any(SIM_F64_ADD, high, low, flags);
}

static inline double round_whole(double x, uint64_t flags)
{
    if (x != x || isinf(x))
        return x;
    double r = (flags & SIM_ROUND) == SIM_RN   ? nearbyint(x)
               : (flags & SIM_ROUND) == SIM_RM ? floor(x)
               : (flags & SIM_ROUND) == SIM_RP ? ceil(x)
                                               : trunc(x);
    return copysign(r, x);
}

/*
 * A format of e exponent and m fraction bits, whose greatest number is most,
 * without infinity: what is larger saturates. Of one exponent bit more it
 * never overflows, and its lower bits are the same.
 */
static inline uint32_t to_small(double x, int e, int m, uint32_t most,
                                uint32_t nan, uint64_t flags)
{
    uint32_t sign = signbit(x) ? 1u << (e + m) : 0;
    if (x != x)
        return nan;
    if (flags & SIM_RELU && sign)
        return 0;
    double scale = f64_of((uint64_t)(1023 - (1 << (e - 1))) << 52);
    double size = fabs(x) > 1e6 ? 1e6 : fabs(x);
    uint32_t bits = (uint32_t)narrow_bits(size * scale, e + 1, m, SIM_RN);
    return sign | (bits > most ? most : bits);
}

/* fp8: e4m3 has no infinity, e5m2 has; both saturate. */
static inline uint32_t to_fp8(double x, bool e5m2, uint64_t flags)
{
    return e5m2 ? to_small(x, 5, 2, 0x7b, 0x7f, flags)
                : to_small(x, 4, 3, 0x7e, 0x7f, flags);
}

/* fp6 and fp4 have no NaN: it becomes the greatest number. */
#define TO_E2M3(x, flags) to_small(x, 2, 3, 0x1f, 0x1f, flags)
#define TO_E3M2(x, flags) to_small(x, 3, 2, 0x1f, 0x1f, flags)
#define TO_E2M1(x, flags) to_small(x, 2, 1, 0x7, 0x7, flags)

/* The value of fp6 or fp4 bits: all exponents count. */
static inline double from_small(uint32_t bits, int e, int m)
{
    bits &= (2u << (e + m)) - 1;
    double scale = f64_of((uint64_t)(1023 + (1 << (e - 1))) << 52);
    double size = widen_bits(bits & ((1u << (e + m)) - 1), e + 1, m) * scale;
    return bits >> (e + m) ? -size : size;
}

/* ue8m0: the exponent of |x|, to zero or away from it; NaN is 0xff. */
static inline uint32_t to_e8m0(float x, uint64_t flags)
{
    uint32_t bits = bits_of(x) & 0x7fffffff;
    if (bits > 0x7f800000)
        return 0xff;
    bool up = (flags & SIM_ROUND) == SIM_RP && bits < 0x7f800000 &&
              bits > 0x00400000 && bits & 0x007fffff;
    uint32_t r = (bits >> 23) + up;
    return r == 0xff && flags & SIM_SATFINITE ? 0xfe : r;
}

static inline uint32_t from_e8m0(uint32_t bits)
{
    bits &= 0xff;
    return bits == 0xff ? 0x7fff : bits ? bits << 7 : 0x0040;
}

static inline double from_fp8(uint32_t bits, bool e5m2)
{
    bits &= 0xff;
    if (e5m2)
        return widen_bits(bits, 5, 2);
    if ((bits & 0x7f) == 0x7f)
        return f64_of(SIM_NAN_F64);
    if ((bits & 0x78) == 0x78) { /* no infinity: the top exponent counts */
        double size = 256.0 * (1 + (bits & 7) / 8.0);
        return bits & 0x80 ? -size : size;
    }
    return widen_bits(bits, 4, 3);
}

#endif
