/*
 * The matrix unit against a scalar reference that knows nothing of its
 * layout tricks: fragments by the formulas of the PTX manual, each result as a
 * tree of fp32 sums. Plain and AVX2 code must both give these bits.
 */
#include "check.h"

#include <stdint.h>

#include "decode.h"
#include "lanes_mma.h"

enum { K_MAX = 256 };

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040;
    return (uint32_t)(random_state >> 32);
}

typedef struct format {
    const char *name;
    sim_mma_element element;
    int bits, exponent, mantissa; /* exponent 0: not a float */
} format;

static const format formats[] = {
    {"f16", SIM_MMA_F16, 16, 5, 10},   {"bf16", SIM_MMA_BF16, 16, 8, 7},
    {"tf32", SIM_MMA_TF32, 32, 8, 10}, {"e4m3", SIM_MMA_E4M3, 8, 4, 3},
    {"e5m2", SIM_MMA_E5M2, 8, 5, 2},   {"e2m3", SIM_MMA_E2M3, 8, 2, 3},
    {"e3m2", SIM_MMA_E3M2, 8, 3, 2},   {"e2m1", SIM_MMA_E2M1, 8, 2, 1},
    {"s8", SIM_MMA_S8, 8, 0, 0},       {"u8", SIM_MMA_U8, 8, 0, 0},
    {"s4", SIM_MMA_S4, 4, 0, 0},       {"u4", SIM_MMA_U4, 4, 0, 0},
    {"b1", SIM_MMA_B1, 1, 0, 0},       {"f64", SIM_MMA_F64, 64, 11, 52},
};

static const format *format_of(sim_mma_element element)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].element == element)
            return &formats[i];
    return NULL;
}

/* The number that an element's bits stand for. */
static double decode(const format *f, uint32_t bits)
{
    if (f->element == SIM_MMA_TF32)
        bits >>= 13;
    if (f->element == SIM_MMA_E2M1)
        bits = bits >> 2 & 15;
    int m = f->mantissa, e = f->exponent, bias = (1 << (e - 1)) - 1;
    uint32_t fraction = bits & ((1u << m) - 1);
    int exponent = (int)(bits >> m & ((1u << e) - 1));
    double sign = bits >> (e + m) & 1 ? -1 : 1;
    bool ieee = f->element == SIM_MMA_F16 || f->element == SIM_MMA_BF16 ||
                f->element == SIM_MMA_TF32 || f->element == SIM_MMA_E5M2;
    if (ieee && exponent == (1 << e) - 1)
        return fraction ? NAN : sign * INFINITY;
    if (f->element == SIM_MMA_E4M3 && (bits & 127) == 127)
        return NAN;
    if (!exponent)
        return sign * ldexp(fraction, 1 - bias - m);
    return sign * ldexp(fraction + (1u << m), exponent - bias - m);
}

typedef struct matrix {
    uint64_t regs[8][32] __attribute__((aligned(32)));
    void *at[8];
} matrix;

static void point(matrix *m)
{
    for (int i = 0; i < 8; i++)
        m->at[i] = m->regs[i];
}

static uint32_t element_bits(const matrix *m, int bits, int reg, int lane,
                             int j)
{
    uint32_t word = ((const uint32_t *)m->at[reg])[lane];
    return bits == 32 ? word : word >> (j * bits) & ((1u << bits) - 1);
}

/* A at (row, k): groupID = row % 8; the k that a lane holds by the manual. */
static uint32_t a_bits(const matrix *a, int bits, int m, int row, int k)
{
    int per = 32 / bits, part = k / (4 * per), in = k % (4 * per);
    int reg = part * (m / 8) + row / 8;
    return element_bits(a, bits, reg, row % 8 * 4 + in / per, in % per);
}

static uint32_t b_bits(const matrix *b, int bits, int k, int col)
{
    int per = 32 / bits, part = k / (4 * per), in = k % (4 * per);
    return element_bits(b, bits, part, col * 4 + in / per, in % per);
}

static float tree(const float *v, int n)
{
    return n == 1 ? v[0] : tree(v, n / 2) + tree(v + n / 2, n / 2);
}

static float half_value(uint32_t h)
{
    return (float)decode(&formats[0], h);
}

/* Nearest half, even at ties, by search. */
static uint32_t half_nearest(float x)
{
    if (x != x)
        return 0x7fff;
    double size = fabs((double)x);
    uint32_t sign = signbit(x) ? 0x8000 : 0, best = 0;
    if (size >= 65520)
        return sign | 0x7c00;
    uint32_t low = 0, high = 0x7bff;
    while (low < high) {
        uint32_t mid = (low + high + 1) / 2;
        if ((double)half_value(mid) <= size)
            low = mid;
        else
            high = mid - 1;
    }
    best = low;
    if (low < 0x7bff) {
        double down = size - (double)half_value(low);
        double up = (double)half_value(low + 1) - size;
        if (up < down || (up == down && (low & 1)))
            best = low + 1;
    }
    return sign | best;
}

static int64_t int_value(const format *f, uint32_t bits)
{
    bool is_signed = f->element == SIM_MMA_S8 || f->element == SIM_MMA_S4;
    if (is_signed && bits >> (f->bits - 1))
        return (int64_t)bits - (1 << f->bits);
    return bits;
}

static uint32_t expected(const sim_mma *mma, const matrix *a, const matrix *b,
                         const matrix *c, int row, int col)
{
    const format *fa = format_of(mma->a), *fb = format_of(mma->b);
    int k_total = mma->k + 1, reg = row / 8 * 2 + col % 2;
    int lane = row % 8 * 4 + col / 2;
    float products[K_MAX];
    int64_t sum = 0;
    for (int k = 0; k < k_total; k++) {
        uint32_t x = a_bits(a, fa->bits, mma->m, row, k);
        uint32_t y = b_bits(b, fb->bits, k, col);
        if (fa->exponent)
            products[k] = (float)(decode(fa, x) * decode(fb, y));
        else if (fa->bits == 1)
            sum += mma->xor_popc ? x ^ y : x & y;
        else
            sum += int_value(fa, x) * int_value(fb, y);
    }
    uint32_t word = ((const uint32_t *)c->at[reg])[lane], result;
    if (!fa->exponent) {
        int64_t all = sum + (int32_t)word;
        if (mma->saturate && all > INT32_MAX)
            all = INT32_MAX;
        if (mma->saturate && all < INT32_MIN)
            all = INT32_MIN;
        return (uint32_t)all;
    }
    float add;
    if (mma->c_half) {
        word = ((const uint32_t *)c->at[row / 8])[lane];
        add = half_value(col % 2 ? word >> 16 : word & 0xffff);
    } else {
        memcpy(&add, &word, 4);
    }
    add = tree(products, k_total) + add;
    memcpy(&result, &add, 4);
    if (mma->d_half)
        return half_nearest(add);
    return add != add ? 0x7fffffff : result;
}

static uint32_t seen(const sim_mma *mma, const matrix *d, int row, int col)
{
    int lane = row % 8 * 4 + col / 2;
    if (mma->d_half)
        return ((const uint32_t *)d->at[row / 8])[lane] >> (16 * (col % 2)) &
               0xffff;
    return ((const uint32_t *)d->at[row / 8 * 2 + col % 2])[lane];
}

/* Values that add up without leaving the format's everyday range, with some
   zeros, subnormals and special ones among them. */
static uint32_t word_for(const format *f)
{
    uint32_t word = random32();
    if (f->bits == 16 || f->bits == 32) {
        uint32_t keep = f->element == SIM_MMA_F16 ? 0xbbffbbff : 0xbfffbfff;
        bool special = random32() % 97 == 0;
        return special
                   ? word
                   : (word & keep) | (f->bits == 32 ? 0x3c000000 : 0x30003000);
    }
    if (f->bits == 8 && f->exponent == 4 && random32() % 61)
        word &= 0xbfbfbfbf;
    if (f->bits == 8 && f->exponent == 5 && random32() % 61)
        word &= 0xbfbfbfbf;
    return word;
}

static void compare(const char *name, const sim_mma *mma)
{
    matrix a, b, c, d;
    sim_mma_function *const functions[] = {sim_mma_plain, sim_mma_avx2,
                                           sim_mma_avx512};
    int wrong = 0;
    point(&a), point(&b), point(&c), point(&d);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 8; i++)
            for (int l = 0; l < 32; l++) {
                ((uint32_t *)a.at[i])[l] = word_for(format_of(mma->a));
                ((uint32_t *)b.at[i])[l] = word_for(format_of(mma->b));
                float x = (float)(int32_t)random32() * 0x1p-28f;
                uint32_t word;
                memcpy(&word, &x, 4);
                if (!format_of(mma->a)->exponent)
                    word =
                        round % 2 ? random32() | 0x7fff0000 : random32() >> 8;
                if (mma->c_half)
                    word = random32() & 0xbfffbfff;
                ((uint32_t *)c.at[i])[l] = word;
            }
        for (int f = 0; f <= (int)sim_lanes_build(); f++) {
            functions[f](mma, d.at, (const void *const *)a.at,
                         (const void *const *)b.at, (const void *const *)c.at);
            for (int row = 0; row < mma->m; row++)
                for (int col = 0; col < 8; col++)
                    wrong += seen(mma, &d, row, col) !=
                             expected(mma, &a, &b, &c, row, col);
        }
    }
    CHECK(wrong == 0, "mma %s m%dn8k%d acc %s%s%s: %d wrong", name, mma->m,
          mma->k + 1, mma->c_half ? "f16" : "32", mma->d_half ? "->f16" : "",
          mma->saturate ? " satfinite" : "", wrong);
}

static void doubles(int m, int k)
{
    matrix a, b, c, d;
    sim_mma mma = {.a = SIM_MMA_F64,
                   .b = SIM_MMA_F64,
                   .m = (uint8_t)m,
                   .k = (uint8_t)(k - 1)};
    int wrong = 0;
    point(&a), point(&b), point(&c), point(&d);
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < 32; l++) {
            ((double *)a.at[i])[l] = (int32_t)random32() % 1000;
            ((double *)b.at[i])[l] = (int32_t)random32() % 1000;
            ((double *)c.at[i])[l] = (int32_t)random32() % 1000;
        }
    sim_mma_plain(&mma, d.at, (const void *const *)a.at,
                  (const void *const *)b.at, (const void *const *)c.at);
    for (int row = 0; row < m; row++)
        for (int col = 0; col < 8; col++) {
            int reg = row / 8 * 2 + col % 2, lane = row % 8 * 4 + col / 2;
            double sum = ((double *)c.at[reg])[lane];
            for (int x = 0; x < k; x++)
                sum +=
                    ((double *)
                         a.at[x / 4 * (m / 8) + row / 8])[row % 8 * 4 + x % 4] *
                    ((double *)b.at[x / 4])[col * 4 + x % 4];
            wrong += sum != ((double *)d.at[reg])[lane];
        }
    CHECK(wrong == 0, "mma f64 m%dn8k%d: %d wrong", m, k, wrong);
}

int main(void)
{
    static const struct {
        sim_mma_element a, b;
        int m, k;
    } cases[] = {
        {SIM_MMA_F16, SIM_MMA_F16, 16, 16},
        {SIM_MMA_F16, SIM_MMA_F16, 16, 8},
        {SIM_MMA_BF16, SIM_MMA_BF16, 16, 16},
        {SIM_MMA_BF16, SIM_MMA_BF16, 16, 8},
        {SIM_MMA_TF32, SIM_MMA_TF32, 16, 4},
        {SIM_MMA_TF32, SIM_MMA_TF32, 16, 8},
        {SIM_MMA_E4M3, SIM_MMA_E4M3, 16, 32},
        {SIM_MMA_E4M3, SIM_MMA_E5M2, 16, 32},
        {SIM_MMA_E5M2, SIM_MMA_E5M2, 16, 16},
        {SIM_MMA_E2M3, SIM_MMA_E3M2, 16, 32},
        {SIM_MMA_E2M1, SIM_MMA_E4M3, 16, 32},
        {SIM_MMA_S8, SIM_MMA_S8, 8, 16},
        {SIM_MMA_S8, SIM_MMA_U8, 16, 16},
        {SIM_MMA_U8, SIM_MMA_U8, 16, 32},
        {SIM_MMA_S4, SIM_MMA_S4, 8, 32},
        {SIM_MMA_U4, SIM_MMA_S4, 16, 32},
        {SIM_MMA_S4, SIM_MMA_S4, 16, 64},
        {SIM_MMA_B1, SIM_MMA_B1, 8, 128},
        {SIM_MMA_B1, SIM_MMA_B1, 16, 128},
        {SIM_MMA_B1, SIM_MMA_B1, 16, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[16];
        const format *a = format_of(cases[i].a), *b = format_of(cases[i].b);
        snprintf(name, sizeof name, "%s.%s", a->name, b->name);
        sim_mma mma = {.a = cases[i].a,
                       .b = cases[i].b,
                       .m = (uint8_t)cases[i].m,
                       .k = (uint8_t)(cases[i].k - 1)};
        compare(name, &mma);
        if (a->bits == 1)
            mma.xor_popc = true;
        else if (!a->exponent)
            mma.saturate = true;
        else if (a->bits <= 16 && a->element != SIM_MMA_BF16)
            mma.c_half = mma.d_half = true;
        else
            continue;
        compare(name, &mma);
    }
    doubles(8, 4);
    doubles(16, 4);
    doubles(16, 8);
    doubles(16, 16);
    return check_done();
}
