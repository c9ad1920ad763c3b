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

#define WIDE_PRODUCT(h, t, j)                         \
    _mm512_mul_ps(_mm512_permute_ps(a[h][j], (t)*85), \
                  b[8 * (h) + 2 * (t) + (j)])
#define WIDE_2(h, t) _mm512_add_ps(WIDE_PRODUCT(h, t, 0), WIDE_PRODUCT(h, t, 1))
#define WIDE_4(h, t) _mm512_add_ps(WIDE_2(h, t), WIDE_2(h, (t) + 1))
#define WIDE_8(h) _mm512_add_ps(WIDE_4(h, 0), WIDE_4(h, 2))

/* 16 lanes of D: the sum over all k as a tree, then C. */
WIDE void wide_sum(__m512 a[2][2], const __m512 *b, const void *c, void *d)
{
    __m512 sum = _mm512_add_ps(WIDE_8(0), WIDE_8(1));
    sum = _mm512_add_ps(sum, _mm512_loadu_ps(c));
    __mmask16 nan = _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q);
    sum = _mm512_mask_mov_ps(
        sum, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff)));
    _mm512_storeu_ps(d, sum);
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
        for (int half = 0; half < 2; half++) {
            __m512(*rows)[2] = a[part][half];
            const char *c0 = (const char *)c[2 * part] + 64 * half;
            const char *c1 = (const char *)c[2 * part + 1] + 64 * half;
            wide_sum(rows, even, c0, (char *)d[2 * part] + 64 * half);
            wide_sum(rows, odd, c1, (char *)d[2 * part + 1] + 64 * half);
        }
}

#endif
