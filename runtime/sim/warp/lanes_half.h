/*
 * f16 and bf16 on 8 lanes of 32 bits, rounded to nearest even; a result that
 * is a NaN is 0x7fff. A sum is first rounded to odd in a wider format: then
 * the second rounding gives what one rounding of the exact sum would.
 */
#ifndef SPT_SIM_LANES_HALF_H
#define SPT_SIM_LANES_HALF_H

#include "engine_lanes.h"

#define SIM_HALF_INLINE static inline __attribute__((always_inline))

/* f32 bits of the f16 in the low 16 bits, exact; the bits above do not
   matter; a NaN stays one. */
SIM_HALF_INLINE v8u f16_widen(v8u x)
{
    v8u size = (x & 0x7fffu) << 13;
    v8u bits = (v8u)((v8f)size * 0x1p112f);
    v8u top = (v8u)(size >= 0x7c00u << 13) & 0x7f800000u;
    return bits | top | (x & 0x8000u) << 16;
}

/* f16 bits of f32 bits. */
SIM_HALF_INLINE v8u f16_narrow(v8u x)
{
    v8u nan = (v8u)((x & 0x7fffffffu) > 0x7f800000u);
#ifdef SIM_AVX2
    v8u bits = (v8u)_mm256_cvtepu16_epi32(
        _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
    v8u size = x & 0x7fffffffu, sign = x >> 16 & 0x8000u;
    v8u normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    /* The last bit of 0.5 counts 2^-24, as that of a denormal f16 does. */
    v8u low = (v8u)((v8f)size + 0.5f) - 0x3f000000u;
    v8u bits = SIM_BLEND(v8u, size < 113u << 23, low, normal);
    bits = SIM_BLEND(v8u, size >= 143u << 23, (v8u){0} + 0x7c00u, bits) | sign;
#endif
    return SIM_BLEND(v8u, nan, (v8u){0} + 0x7fffu, bits);
}

/* x + y rounded to odd: the error of the nearest sum is exact. */
SIM_HALF_INLINE v8f odd_sum8(v8f x, v8f y)
{
    v8f s = x + y, t = s - x;
    v8f error = (x - (s - t)) + (y - t);
    v8u bits = (v8u)s, finite = (v8u)((bits & 0x7fffffffu) < 0x7f800000u);
    v8u adjust = (v8u)(error != 0) & finite & ((bits & 1u) - 1u);
    v8u toward = (v8u)((v8s)((v8u)error ^ bits) < 0) | 1u; /* -1 or 1 */
    return (v8f)(bits + (adjust & toward));
}

SIM_HALF_INLINE v8u f16_fma(v8u a, v8u b, v8u c)
{
    v8f product = (v8f)f16_widen(a) * (v8f)f16_widen(b); /* exact */
    return f16_narrow((v8u)odd_sum8(product, (v8f)f16_widen(c)));
}

SIM_HALF_INLINE v8u f16_add(v8u a, v8u b)
{
    return f16_narrow((v8u)odd_sum8((v8f)f16_widen(a), (v8f)f16_widen(b)));
}

SIM_HALF_INLINE v8u f16_mul(v8u a, v8u b)
{
    return f16_narrow((v8u)((v8f)f16_widen(a) * (v8f)f16_widen(b)));
}

/* bf16 bits of f32 bits: half of what is cut off carries into what stays;
   infinities keep their exponent. */
SIM_HALF_INLINE v8u bf16_narrow(v8u x)
{
    v8u rounded = (x + 0x7fffu + (x >> 16 & 1u)) >> 16;
    v8u nan = (v8u)((x & 0x7fffffffu) > 0x7f800000u);
    return SIM_BLEND(v8u, nan, (v8u){0} + 0x7fffu, rounded);
}

/* The same sum in double, where products of bf16 are exact, and f32 bits of
   it, rounded to odd once more. */
SIM_HALF_INLINE v4f odd_sum4(v4d x, v4d y)
{
    v4d s = x + y, t = s - x;
    v4d error = (x - (s - t)) + (y - t);
    v4u bits = (v4u)s;
    const v4u top = (v4u){0} + (UINT64_C(0x7ff) << 52);
    v4u finite = (v4u)((bits & top) != top);
    v4u adjust = (v4u)(error != 0) & finite & ((bits & 1u) - 1u);
    v4u toward = (v4u)((v4s)((v4u)error ^ bits) < 0) | 1u;
    s = (v4d)(bits + (adjust & toward));
    typedef uint32_t four __attribute__((vector_size(16)));
    v4f near = __builtin_convertvector(s, v4f);
    v4d back = __builtin_convertvector(near, v4d);
    four other = __builtin_convertvector((v4u)(back != s), four);
    const v4u sizes = (v4u){0} + (UINT64_MAX >> 1);
    four beyond = __builtin_convertvector(
        (v4u)(((v4u)back & sizes) > ((v4u)s & sizes)), four);
    four nan = __builtin_convertvector((v4u)(s != s), four);
    four low = (four)near + (beyond & ~nan); /* towards zero */
    return (v4f)(low | (other & ~nan & 1u));
}

SIM_HALF_INLINE v8u bf16_fma(v8u a, v8u b, v8u c)
{
    v8f x = (v8f)(a << 16), y = (v8f)(b << 16), z = (v8f)(c << 16);
    v4f part[2];
    SIM_UNROLL for (int i = 0; i < 2; i++)
    {
        v4d u = __builtin_convertvector(((v4f *)&x)[i], v4d);
        v4d v = __builtin_convertvector(((v4f *)&y)[i], v4d);
        part[i] = odd_sum4(u * v, __builtin_convertvector(((v4f *)&z)[i], v4d));
    }
    return bf16_narrow(
        (v8u)__builtin_shufflevector(part[0], part[1], 0, 1, 2, 3, 4, 5, 6, 7));
}

/* With a first factor of one; the second operand's bits above do not matter. */
SIM_HALF_INLINE v8u bf16_add(v8u a, v8u b)
{
    return bf16_fma((v8u){0} + 0x3f80u, a, b);
}

/* Rounding once more is no loss: minus zero adds nothing, to the sign even. */
SIM_HALF_INLINE v8u bf16_mul(v8u a, v8u b)
{
    return bf16_fma(a, b, (v8u){0} + 0x8000u);
}

/* Both halves of a lane. */
#define SIM_HALVES2(f, a, b) (f(a, b) | f((a) >> 16, (b) >> 16) << 16)
#define SIM_HALVES3(f, a, b, c) \
    (f(a, b, c) | f((a) >> 16, (b) >> 16, (c) >> 16) << 16)

#endif
