/* Element by element matrix products; access_dot.h says what is added how. */
#include "access_dot.h"

#include "access_half.h"
#include "engine_math.h"

double sim_dot_number(unsigned type, uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    switch (type) {
    case PTX_F16:
        return (double)sim_half_value(word);
    case PTX_BF16:
        return (double)sim_bf16_value(word);
    case PTX_TF32:
        return (double)f32_of(word & 0xffffe000);
    case PTX_F32:
        return (double)f32_of(word);
    case PTX_F64:
        return f64_of(bits);
    case PTX_E4M3:
    case PTX_E5M2:
        return from_fp8(word, type == PTX_E5M2);
    case PTX_E2M3:
        return from_small(word, 2, 3);
    case PTX_E3M2:
        return from_small(word, 3, 2);
    case PTX_E2M1: /* in bits 2 to 5 of a byte */
        return from_small(word >> 2, 2, 1);
    case PTX_S8:
        return (int8_t)word;
    case PTX_S4:
        return (int32_t)(word << 28) >> 28;
    case PTX_S32:
        return (int32_t)word;
    default:
        return word;
    }
}

static float tree(const double *a, const double *b, unsigned n)
{
    if (n == 1)
        return (float)(a[0] * b[0]);
    return tree(a, b, n / 2) + tree(a + n / 2, b + n / 2, n / 2);
}

static double tree64(const double *a, const double *b, unsigned n)
{
    if (n == 1)
        return a[0] * b[0];
    return tree64(a, b, n / 2) + tree64(a + n / 2, b + n / 2, n / 2);
}

static uint64_t integer_result(const ptx_insn *insn, const double *a,
                               const double *b, double c, unsigned k)
{
    int64_t sum = (int64_t)c;
    bool bit = insn->types[1] == PTX_B1, xor = ptx_has(insn, PTX_MOD_XOR);
    for (unsigned i = 0; i < k; i++)
        sum += bit && xor? a[i] != b[i] : (int64_t)(a[i] * b[i]);
    if (ptx_has(insn, PTX_MOD_SATFINITE)) {
        sum = sum > INT32_MAX ? INT32_MAX : sum;
        sum = sum < INT32_MIN ? INT32_MIN : sum;
    }
    return (uint32_t)sum;
}

/* .satfinite of floats: no infinity, and zero for NaN. */
static uint32_t saturated(uint32_t bits, uint32_t inf)
{
    uint32_t sign = inf > 0xffff ? 0x80000000 : 0x8000;
    uint32_t size = bits & ~sign;
    return size > inf ? 0 : size == inf ? bits - 1 : bits;
}

uint64_t sim_dot(const ptx_insn *insn, const double *a, const double *b,
                 double c, unsigned k)
{
    bool saturate = ptx_has(insn, PTX_MOD_SATFINITE);
    if (insn->types[0] == PTX_S32)
        return integer_result(insn, a, b, c, k);
    if (insn->types[0] == PTX_F64)
        return bits64_of(canonical(tree64(a, b, k) + c));
    float sum = tree(a, b, k) + (float)c;
    uint32_t bits = sum == sum ? bits_of(sum) : SIM_NAN_F32;
    if (insn->types[0] == PTX_F32)
        return saturate ? saturated(bits, 0x7f800000) : bits;
    bits = sim_half_bits(sum);
    return saturate ? saturated(bits, 0x7c00) : bits;
}
