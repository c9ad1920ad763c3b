/*
 * m16n8k16 of halves with AVX-512, part of lanes_mma.c: the same sums in the
 * same order, sixteen lanes of a result register at once.
 *
 * Lane 4g+t of 16 lanes of a result register is row g, column 2t (even
 * register) or 2t+1. So A gives each group of four lanes one value of its row,
 * a permutation within 128 bits, and B the same four columns to each group.
 */
#ifndef SPT_SIM_LANES_MMA_WIDE_H
#define SPT_SIM_LANES_MMA_WIDE_H

#include <immintrin.h>

#include "lanes_mma.h"

#define WIDE static inline __attribute__((always_inline))

/* Element j (0 low, 1 high) of 16 lanes as fp32. */
WIDE __m512 wide_float(__m512i v, const int j, const bool bf16)
{
    if (bf16)
        return _mm512_castsi512_ps(
            j ? _mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000))
              : _mm512_slli_epi32(v, 16));
    return _mm512_cvtph_ps(
        _mm512_cvtepi32_epi16(j ? _mm512_srli_epi32(v, 16) : v));
}

/* Columns 0 2 4 6 (odd: 1 3 5 7) of B at each k, in every group of four. */
WIDE void wide_columns(const void *const *rb, __m512 even[16], __m512 odd[16],
                       const bool bf16)
{
    const __m512i first = _mm512_setr_epi32(0, 8, 16, 24, 0, 8, 16, 24, 0, 8,
                                            16, 24, 0, 8, 16, 24);
    for (int h = 0; h < 2; h++) {
        __m512i low = _mm512_loadu_si512(rb[h]);
        __m512i high = _mm512_loadu_si512((const char *)rb[h] + 64);
        for (int t = 0; t < 4; t++) {
            __m512i at = _mm512_add_epi32(first, _mm512_set1_epi32(t));
            __m512i e = _mm512_permutex2var_epi32(low, at, high);
            at = _mm512_add_epi32(at, _mm512_set1_epi32(4));
            __m512i o = _mm512_permutex2var_epi32(low, at, high);
            for (int j = 0; j < 2; j++) {
                even[8 * h + 2 * t + j] = wide_float(e, j, bf16);
                odd[8 * h + 2 * t + j] = wide_float(o, j, bf16);
            }
        }
    }
}

/* One column's two products and their sum. Halves of fp16 have exact products
   in fp32, so that one rounding does. */
WIDE __m512 wide_pair(__m512 a0, __m512 a1, __m512 b0, __m512 b1,
                      const bool bf16)
{
    __m512 second = _mm512_mul_ps(a1, b1);
    return bf16 ? _mm512_add_ps(_mm512_mul_ps(a0, b0), second)
                : _mm512_fmadd_ps(a0, b0, second);
}

#define WIDE_SUM8(x) \
    _mm512_add_ps(_mm512_add_ps((x)[0], (x)[1]), _mm512_add_ps((x)[2], (x)[3]))

/* The sum over eight k from 8 h on, of even columns and of odd ones. */
#define WIDE_EIGHT(h, e, o)  \
    do {                     \
        __m512 e_[4], o_[4]; \
        WIDE_STEP(h, 0);     \
        WIDE_STEP(h, 1);     \
        WIDE_STEP(h, 2);     \
        WIDE_STEP(h, 3);     \
        e = WIDE_SUM8(e_);   \
        o = WIDE_SUM8(o_);   \
    } while (0)
#define WIDE_STEP(h, t)                                            \
    do {                                                           \
        const int k_ = 8 * (h) + 2 * (t);                          \
        __m512 a0_ = _mm512_permute_ps(a[h][0], (t)*85);           \
        __m512 a1_ = _mm512_permute_ps(a[h][1], (t)*85);           \
        e_[t] = wide_pair(a0_, a1_, even[k_], even[k_ + 1], bf16); \
        o_[t] = wide_pair(a0_, a1_, odd[k_], odd[k_ + 1], bf16);   \
    } while (0)

/* C last; a NaN is the one NaN. */
WIDE void wide_finish(__m512 sum, const void *c, void *d)
{
    sum = _mm512_add_ps(sum, _mm512_loadu_ps(c));
    __mmask16 nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
    sum = _mm512_mask_mov_ps(
        sum, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff)));
    _mm512_storeu_ps(d, sum);
}

/* 16 lanes of an even register of D, and of the odd one behind it. */
WIDE void wide_sums(__m512 a[2][2], const __m512 *even, const __m512 *odd,
                    const void *const *c, void *const *d, int at,
                    const bool bf16)
{
    __m512 e0, o0, e1, o1;
    WIDE_EIGHT(0, e0, o0);
    WIDE_EIGHT(1, e1, o1);
    wide_finish(_mm512_add_ps(e0, e1), (const char *)c[0] + at,
                (char *)d[0] + at);
    wide_finish(_mm512_add_ps(o0, o1), (const char *)c[1] + at,
                (char *)d[1] + at);
}

WIDE void wide_mma(void *const *d, const void *const *ra, const void *const *rb,
                   const void *const *c, const bool bf16)
{
    __m512 even[16], odd[16], a[2][2][2][2]; /* (part, half, h, j) */
    wide_columns(rb, even, odd, bf16);
    for (int i = 0; i < 16; i++) {
        int part = i >> 3, half = i >> 2 & 1, h = i >> 1 & 1, j = i & 1;
        const char *from = (const char *)ra[2 * h + part] + 64 * half;
        a[part][half][h][j] = wide_float(_mm512_loadu_si512(from), j, bf16);
    }
    for (int part = 0; part < 2; part++)
        for (int half = 0; half < 2; half++)
            wide_sums(a[part][half], even, odd, c + 2 * part, d + 2 * part,
                      64 * half, bf16);
}

#endif
