/*
 * The matrix unit's arithmetic. Compiled three times, as all lanes_*.c; all
 * give the same bits, since vectors are GNU vectors and no contraction is
 * allowed.
 *
 * Layout. A register of A or B is 8 rows (of A) or columns (of B), times 4
 * lanes, times the 32/e elements of e bits in a lane; further registers hold
 * further rows, then further k. So one scheme serves all formats: element j of
 * lane 4*g+t in k-part h is k = (4*h + t)*(32/e) + j. Columns of B are kept in
 * the order 0 2 4 6 1 3 5 7: then the halves of a row of D are 4 lanes of its
 * two registers, and no shuffle is needed at the end.
 */
#include "lanes_mma.h"

#include "engine_lanes.h"

#include <stddef.h>
#include <string.h>

#if defined(SIM_AVX512)
#include "lanes_mma_wide.h"
#define SIM_MMA_NAME sim_mma_avx512
#elif defined(SIM_AVX2)
#include <immintrin.h>
#define SIM_MMA_NAME sim_mma_avx2
#else
#define SIM_MMA_NAME sim_mma_plain
#endif

/* Vectors never cross a call: everything that takes one is inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define INLINE static inline __attribute__((always_inline))

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t s32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));

enum { K_MAX = 64, NAN_BITS = 0x7fffffff };

/* Bits of a register lane that one format's element j occupies, as fp32. */
INLINE f32x8 half_to_float(u32x8 h)
{
#ifdef SIM_AVX2
    __m256i v = (__m256i)h;
    __m256i packed = _mm256_packus_epi32(v, v);
    __m128i low =
        _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
    return (f32x8)_mm256_cvtph_ps(low);
#else
    u32x8 magnitude = h & 0x7fff;
    f32x8 scaled = (f32x8)(magnitude << 13) * 0x1p112f;
    u32x8 special = (u32x8)(magnitude >= 0x7c00) & 0x7f800000;
    return (f32x8)((u32x8)scaled | special | (h & 0x8000) << 16);
#endif
}

/*
 * A small float of 1 sign, e exponent and m mantissa bits in the low bits of
 * each lane. The exponent is moved to fp32's place and the bias corrected by a
 * product, which also normalises subnormals.
 */
INLINE f32x8 small_to_float(u32x8 v, int e, int m, float unbias)
{
    u32x8 magnitude = v & ((1u << (e + m)) - 1);
    u32x8 sign = (v >> (e + m) & 1) << 31;
    f32x8 scaled = (f32x8)(magnitude << (23 - m)) * unbias;
    return (f32x8)((u32x8)scaled | sign);
}

INLINE f32x8 to_float(sim_mma_element element, u32x8 v, int j)
{
    switch (element) {
    case SIM_MMA_F16:
        return half_to_float(j ? v >> 16 : v & 0xffff);
    case SIM_MMA_BF16:
        return (f32x8)(j ? v & 0xffff0000 : v << 16);
    case SIM_MMA_TF32:
        return (f32x8)(v & 0xffffe000);
    case SIM_MMA_E4M3: {
        u32x8 byte = v >> (8 * j) & 0xff;
        u32x8 nan = (u32x8)((byte & 0x7f) == 0x7f) & NAN_BITS;
        return (f32x8)((u32x8)small_to_float(byte, 4, 3, 0x1p120f) | nan);
    }
    case SIM_MMA_E5M2: {
        u32x8 byte = v >> (8 * j) & 0xff;
        u32x8 special = (u32x8)((byte & 0x7f) >= 0x7c) & 0x7f800000;
        return (f32x8)((u32x8)small_to_float(byte, 5, 2, 0x1p112f) | special);
    }
    case SIM_MMA_E2M3:
        return small_to_float(v >> (8 * j) & 0xff, 2, 3, 0x1p126f);
    case SIM_MMA_E3M2:
        return small_to_float(v >> (8 * j) & 0xff, 3, 2, 0x1p124f);
    default: /* E2M1 in bits 2..5 of its byte */
        return small_to_float(v >> (8 * j + 2) & 0xf, 2, 1, 0x1p126f);
    }
}

INLINE s32x8 to_int(sim_mma_element element, u32x8 v, int j)
{
    switch (element) {
    case SIM_MMA_S8:
        return (s32x8)(v << (24 - 8 * j)) >> 24;
    case SIM_MMA_U8:
        return (s32x8)(v >> (8 * j) & 0xff);
    case SIM_MMA_S4:
        return (s32x8)(v << (28 - 4 * j)) >> 28;
    default:
        return (s32x8)(v >> (4 * j) & 0xf);
    }
}

/* Lane t of every column: out[t] has columns 0 2 4 6 1 3 5 7. */
INLINE void columns(const uint32_t *reg, u32x8 out[4])
{
    const u32x8 *r = (const u32x8 *)reg;
    u32x8 p0 = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13);
    u32x8 q0 = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15);
    u32x8 p1 = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);
    u32x8 q1 = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(p0, p1, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(p0, p1, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(q0, q1, 0, 1, 8, 9, 4, 5, 12, 13);
    out[3] = __builtin_shufflevector(q0, q1, 2, 3, 10, 11, 6, 7, 14, 15);
}

/* Row g of an accumulator: 4 lanes of its two registers. */
INLINE u32x8 row_load(const void *even, const void *odd, int g)
{
    u32x4 low = ((const u32x4 *)even)[g], high = ((const u32x4 *)odd)[g];
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

INLINE void row_store(void *even, void *odd, int g, u32x8 v)
{
    ((u32x4 *)even)[g] = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    ((u32x4 *)odd)[g] = __builtin_shufflevector(v, v, 4, 5, 6, 7);
}

static uint32_t half_from_float(uint32_t f)
{
    uint32_t sign = f >> 16 & 0x8000, magnitude = f & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff;
    if (magnitude >= 0x47800000) /* 65536 and up */
        return sign | 0x7c00;
    if (magnitude < 0x33000000) /* below half the smallest subnormal */
        return sign;
    int exponent = (int)(magnitude >> 23) - 127;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    int drop = exponent < -14 ? 13 + (-14 - exponent) : 13;
    uint32_t kept = mantissa >> drop;
    uint32_t rest = mantissa & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    if (exponent >= -14)
        kept += (uint32_t)(exponent + 14) << 10;
    return sign | kept;
}

/* Packed halves of a row: lane t has columns 2t (low) and 2t+1 (high). */
INLINE f32x8 half_row_load(const uint32_t *reg, int g)
{
    u32x4 v = ((const u32x4 *)reg)[g];
    u32x8 wide =
        __builtin_shufflevector(v & 0xffff, v >> 16, 0, 1, 2, 3, 4, 5, 6, 7);
    return half_to_float(wide);
}

INLINE void half_row_store(uint32_t *reg, int g, f32x8 row)
{
    u32x8 bits = (u32x8)row;
    for (int t = 0; t < 4; t++)
        reg[4 * g + t] = half_from_float(bits[t]) | half_from_float(bits[t + 4])
                                                        << 16;
}

INLINE f32x8 canonical(f32x8 v)
{
    u32x8 nan = (u32x8)(v != v);
    return (f32x8)(((u32x8)v & ~nan) | (nan & NAN_BITS));
}

INLINE f32x8 splat(const float *p)
{
    return (f32x8){*p, *p, *p, *p, *p, *p, *p, *p};
}

/*
 * Halves convert fastest in memory order: then the elements of a lane lie side
 * by side (PAIRED), otherwise element j of all lanes does.
 */
#ifdef SIM_AVX2
#define PAIRED(element) ((element) == SIM_MMA_F16)
#else
#define PAIRED(element) ((void)(element), false)
#endif

/* a: element of one row at k; 32 E floats per register of A. */
#define A_AT(k)                               \
    (a + ((k) / (4 * E)) * (m / 8) * E * 32 + \
     (paired ? (k) % (4 * E) : (k) % E * 32 + (k) / E % 4))
#define TREE1(k) (splat(A_AT(k)) * b[k])
#define TREE2(k) (TREE1(k) + TREE1((k) + 1))
#define TREE4(k) (TREE2(k) + TREE2((k) + 2))

/* Sum over n values of k from k on, as a tree; n a power of two >= 4. */
INLINE f32x8 tree(const float *a, const f32x8 *b, const int m, const int E,
                  const bool paired, const int k, const int n)
{
    f32x8 s0 = TREE4(k);
    if (n == 4)
        return s0;
    f32x8 s1 = s0 + TREE4(k + 4);
    if (n == 8)
        return s1;
    f32x8 s2 = TREE4(k + 8) + TREE4(k + 12);
    f32x8 s3 = s1 + s2;
    if (n == 16)
        return s3;
    f32x8 s4 = TREE4(k + 16) + TREE4(k + 20);
    f32x8 s5 = TREE4(k + 24) + TREE4(k + 28);
    return s3 + (s4 + s5);
}

INLINE void unpack(const sim_mma *mma, const void *const *ra,
                   const void *const *rb, float *a, f32x8 *b,
                   const sim_mma_element ea, const sim_mma_element eb,
                   const int E, const int m, const int k)
{
    (void)mma;
#ifdef SIM_AVX2
    for (int i = 0; PAIRED(ea) && i < m / 8 * (k / (4 * E)); i++)
        for (int q = 0; q < 8; q++)
            _mm256_store_ps(a + i * 64 + q * 8,
                            _mm256_cvtph_ps(((const __m128i *)ra[i])[q]));
#endif
    for (int i = 0; !PAIRED(ea) && i < m / 8 * (k / (4 * E)); i++)
        for (int j = 0; j < E; j++)
            for (int q = 0; q < 4; q++)
                *(f32x8 *)(a + (i * E + j) * 32 + q * 8) =
                    to_float(ea, ((const u32x8 *)ra[i])[q], j);
    for (int h = 0; h < k / (4 * E); h++) {
        u32x8 col[4];
        columns(rb[h], col);
        for (int t = 0; t < 4; t++)
            for (int j = 0; j < E; j++)
                b[(h * 4 + t) * E + j] = to_float(eb, col[t], j);
    }
}

INLINE void float_mma(const sim_mma *mma, void *const *d, const void *const *ra,
                      const void *const *rb, const void *const *c,
                      const sim_mma_element ea, const sim_mma_element eb,
                      const int E, const int m, const int k, const bool c_half,
                      const bool d_half)
{
    float a[16 * 32] __attribute__((aligned(32)));
    f32x8 b[32];
    unpack(mma, ra, rb, a, b, ea, eb, E, m, k);
    for (int part = 0; part < m / 8; part++) {
        const float *row = a + part * E * 32;
        for (int g = 0; g < 8; g++) {
            f32x8 sum = tree(row + g * 4 * (PAIRED(ea) ? E : 1), b, m, E,
                             PAIRED(ea), 0, k);
            sum += c_half ? half_row_load(c[part], g)
                          : (f32x8)row_load(c[2 * part], c[2 * part + 1], g);
            sum = canonical(sum);
            if (d_half)
                half_row_store(d[part], g, sum);
            else
                row_store(d[2 * part], d[2 * part + 1], g, (u32x8)sum);
        }
    }
}

INLINE void float_any(const sim_mma *mma, void *const *d, const void *const *a,
                      const void *const *b, const void *const *c,
                      const sim_mma_element ea, const sim_mma_element eb,
                      const int E)
{
    bool ch = mma->c_half, dh = mma->d_half;
    switch ((mma->k + 1) / (4 * E)) {
    case 1:
        float_mma(mma, d, a, b, c, ea, eb, E, 16, 4 * E, ch, dh);
        break;
    default:
        float_mma(mma, d, a, b, c, ea, eb, E, 16, 8 * E, ch, dh);
    }
}

INLINE f32x8 any_to_float(sim_mma_element element, u32x8 v, int j)
{
    switch (element) {
    case SIM_MMA_E4M3:
        return to_float(SIM_MMA_E4M3, v, j);
    case SIM_MMA_E5M2:
        return to_float(SIM_MMA_E5M2, v, j);
    case SIM_MMA_E2M3:
        return to_float(SIM_MMA_E2M3, v, j);
    case SIM_MMA_E3M2:
        return to_float(SIM_MMA_E3M2, v, j);
    default:
        return to_float(SIM_MMA_E2M1, v, j);
    }
}

/* The 8-bit formats, any two of them. */
static void byte_mma(const sim_mma *mma, void *const *d, const void *const *ra,
                     const void *const *rb, const void *const *c)
{
    float a[16 * 32] __attribute__((aligned(32)));
    f32x8 b[32];
    int parts = (mma->k + 1) / 16;
    memset(b, 0, sizeof b);
    memset(a, 0, sizeof a);
    for (int i = 0; i < 2 * parts; i++)
        for (int x = 0; x < 16; x++)
            *(f32x8 *)(a + (i * 4 + x / 4) * 32 + x % 4 * 8) =
                any_to_float(mma->a, ((const u32x8 *)ra[i])[x % 4], x / 4);
    for (int h = 0; h < parts; h++) {
        u32x8 col[4];
        columns(rb[h], col);
        for (int x = 0; x < 16; x++)
            b[h * 16 + x] = any_to_float(mma->b, col[x / 4], x % 4);
    }
    for (int r = 0; r < 16; r++) {
        int part = r / 8, g = r % 8;
        const float *row = a + part * 4 * 32 + g * 4;
        f32x8 sum = parts == 1 ? tree(row, b, 16, 4, false, 0, 16)
                               : tree(row, b, 16, 4, false, 0, 32);
        sum += mma->c_half ? half_row_load(c[part], g)
                           : (f32x8)row_load(c[2 * part], c[2 * part + 1], g);
        sum = canonical(sum);
        if (mma->d_half)
            half_row_store(d[part], g, sum);
        else
            row_store(d[2 * part], d[2 * part + 1], g, (u32x8)sum);
    }
}

INLINE int32_t add_saturated(int32_t x, int32_t y)
{
    int64_t sum = (int64_t)x + y;
    return sum > INT32_MAX   ? INT32_MAX
           : sum < INT32_MIN ? INT32_MIN
                             : (int32_t)sum;
}

INLINE void int_row(const sim_mma *mma, void *even, void *odd, int g, u32x8 sum,
                    u32x8 c)
{
    if (mma->saturate)
        for (int i = 0; i < 8; i++)
            sum[i] = (uint32_t)add_saturated((int32_t)sum[i], (int32_t)c[i]);
    else
        sum += c;
    row_store(even, odd, g, sum);
}

/* Integers: the order of additions does not show. */
static void int_mma(const sim_mma *mma, void *const *d, const void *const *ra,
                    const void *const *rb, const void *const *c)
{
    int bits = mma->a == SIM_MMA_S8 || mma->a == SIM_MMA_U8 ? 8 : 4;
    int E = 32 / bits, m = mma->m / 8, parts = (mma->k + 1) / (4 * E);
    s32x8 b[K_MAX];
    for (int h = 0; h < parts; h++) {
        u32x8 col[4];
        columns(rb[h], col);
        for (int x = 0; x < 4 * E; x++)
            b[h * 4 * E + x] = to_int(mma->b, col[x / E], x % E);
    }
    u32x8 rows[16];
    for (int r = 0; r < 8 * m; r++) {
        s32x8 sum = {0};
        for (int h = 0; h < parts; h++) {
            const uint32_t *reg = ra[h * m + r / 8];
            for (int x = 0; x < 4 * E; x++) {
                u32x8 lane = {reg[r % 8 * 4 + x / E]};
                sum += b[h * 4 * E + x] * to_int(mma->a, lane, x % E)[0];
            }
        }
        rows[r] = (u32x8)sum;
    }
    for (int r = 0; r < 8 * m; r++)
        int_row(mma, d[r / 8 * 2], d[r / 8 * 2 + 1], r % 8, rows[r],
                row_load(c[r / 8 * 2], c[r / 8 * 2 + 1], r % 8));
}

static void bit_mma(const sim_mma *mma, void *const *d, const void *const *ra,
                    const void *const *rb, const void *const *c)
{
    int m = mma->m / 8, parts = (mma->k + 1) / 128;
    uint32_t sums[16][8];
    for (int r = 0; r < 8 * m; r++)
        for (int n = 0; n < 8; n++) {
            uint32_t sum = 0;
            for (int x = 0; x < 4 * parts; x++) {
                const uint32_t *a = ra[x / 4 * m + r / 8], *b = rb[x / 4];
                uint32_t u = a[r % 8 * 4 + x % 4], v = b[n * 4 + x % 4];
                u = mma->xor_popc ? u ^ v : u & v;
                sum += (uint32_t)__builtin_popcount(u);
            }
            sums[r][n] = sum;
        }
    for (int r = 0; r < 8 * m; r++)
        for (int n = 0; n < 8; n++) {
            int reg = r / 8 * 2 + n % 2, lane = r % 8 * 4 + n / 2;
            ((uint32_t *)d[reg])[lane] =
                ((const uint32_t *)c[reg])[lane] + sums[r][n];
        }
}

static double tree64(const double *product, int n)
{
    return n == 1 ? product[0]
                  : tree64(product, n / 2) + tree64(product + n / 2, n / 2);
}

static void double_mma(const sim_mma *mma, void *const *d,
                       const void *const *ra, const void *const *rb,
                       const void *const *c)
{
    int m = mma->m / 8, k = mma->k + 1;
    double sums[16][8];
    for (int r = 0; r < 8 * m; r++)
        for (int n = 0; n < 8; n++) {
            double product[16];
            for (int x = 0; x < k; x++) {
                const double *a = ra[x / 4 * m + r / 8], *b = rb[x / 4];
                product[x] = a[r % 8 * 4 + x % 4] * b[n * 4 + x % 4];
            }
            const double *in = c[r / 8 * 2 + n % 2];
            sums[r][n] = tree64(product, k) + in[r % 8 * 4 + n / 2];
        }
    for (int r = 0; r < 8 * m; r++)
        for (int n = 0; n < 8; n++) {
            uint64_t bits;
            memcpy(&bits, &sums[r][n], 8);
            if (sums[r][n] != sums[r][n])
                bits = UINT64_C(0x7fffffffffffffff);
            ((uint64_t *)d[r / 8 * 2 + n % 2])[r % 8 * 4 + n / 2] = bits;
        }
}

/* m16n8k16 of halves with results and sums in fp32. */
INLINE void half_mma(const sim_mma *mma, void *const *d, const void *const *a,
                     const void *const *b, const void *const *c,
                     const sim_mma_element element)
{
#ifdef SIM_AVX512
    (void)mma;
    wide_mma(d, a, b, c, element == SIM_MMA_BF16);
#else
    float_mma(mma, d, a, b, c, element, element, 2, 16, 16, false, false);
#endif
}

void SIM_MMA_NAME(const sim_mma *mma, void *const *d, const void *const *a,
                  const void *const *b, const void *const *c)
{
    bool plain16 = !mma->c_half && !mma->d_half && mma->k == 15;
    switch (mma->a) {
    case SIM_MMA_BF16:
        if (plain16)
            half_mma(mma, d, a, b, c, SIM_MMA_BF16);
        else
            float_any(mma, d, a, b, c, SIM_MMA_BF16, SIM_MMA_BF16, 2);
        break;
    case SIM_MMA_F16:
        if (plain16)
            half_mma(mma, d, a, b, c, SIM_MMA_F16);
        else
            float_any(mma, d, a, b, c, SIM_MMA_F16, SIM_MMA_F16, 2);
        break;
    case SIM_MMA_TF32:
        float_any(mma, d, a, b, c, SIM_MMA_TF32, SIM_MMA_TF32, 1);
        break;
    case SIM_MMA_F64:
        double_mma(mma, d, a, b, c);
        break;
    case SIM_MMA_B1:
        bit_mma(mma, d, a, b, c);
        break;
    case SIM_MMA_S8:
    case SIM_MMA_U8:
    case SIM_MMA_S4:
    case SIM_MMA_U4:
        int_mma(mma, d, a, b, c);
        break;
    default:
        byte_mma(mma, d, a, b, c);
    }
}

/* m16n8k16 whose D is C in place, or apart from it, for a whole warp. */
INLINE const sim_insn *common(const sim_insn *in, sim_warp *w, uint8_t *regs,
                              uint32_t exec, const sim_mma_element element)
{
    const sim_arg *g = in->args->arg;
    void *d[4] = {regs + g[0].slot, regs + g[1].slot, regs + g[2].slot,
                  regs + g[3].slot};
    const void *a[4] = {regs + g[4].slot, regs + g[5].slot, regs + g[6].slot,
                        regs + g[7].slot};
    const void *b[2] = {regs + g[8].slot, regs + g[9].slot};
    const void *c[4] = {regs + g[10].slot, regs + g[11].slot, regs + g[12].slot,
                        regs + g[13].slot};
    const sim_mma mma = {element, element, 16, 15, 0, 0, 0, 0};
    w->forced = false;
    if (w->cta->watched)
        sim_memory_warp_sync(w);
    half_mma(&mma, d, a, b, c, element);
    SIM_NEXT_FULL;
}

SIM_HANDLER(bf16_full)
{
    return common(in, w, regs, exec, SIM_MMA_BF16);
}

SIM_HANDLER(f16_full)
{
    return common(in, w, regs, exec, SIM_MMA_F16);
}

static const sim_lane_op ops[] = {{"", bf16_full, NULL}, {"", f16_full, NULL}};
const sim_lane_table SIM_TABLE(sim_lanes_mma) = {ops, sizeof ops / sizeof *ops};
