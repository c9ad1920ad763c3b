/*
 * What follows a comparison: setp with two results or a combining predicate,
 * set, and both of them on packed halves, which compare by themselves. Also
 * min and max of three.
 */
#include "engine_args.h"
#include "engine_math.h"

/* A comparison is in the predicate at slot a; with the combining predicate
   it becomes p and q of setp, or all ones or 1.0 of set. */
static uint32_t combine(const ptx_insn *src, uint32_t t, uint32_t c)
{
    if (ptx_has(src, PTX_MOD_AND))
        return t & c;
    if (ptx_has(src, PTX_MOD_OR))
        return t | c;
    return ptx_has(src, PTX_MOD_XOR) ? t ^ c : t;
}

OP(setp_finish)
{
    const ptx_insn *src = in->src;
    int last = src->n_operands - 1;
    bool more = last == 3 + src->operands[0].pair;
    uint32_t t = SIM_PRED(in->a), c = more ? pred_of(in, regs, last) : 0;
    (void)w;
    uint32_t p = combine(src, t, c), q = combine(src, ~t, c);
    put_pred(in, regs, 0, p, exec);
    if (src->operands[0].pair)
        put_pred(in, regs, 1, q, exec);
}

OP(set_finish)
{
    const ptx_insn *src = in->src;
    uint32_t t = SIM_PRED(in->a);
    uint64_t yes = src->types[0] == PTX_F32    ? 0x3f800000
                   : src->types[0] == PTX_F16  ? 0x3c00
                   : src->types[0] == PTX_BF16 ? 0x3f80
                                               : UINT32_MAX;
    if (src->n_operands > 3)
        t = combine(src, t, pred_of(in, regs, 3));
    EACH_LANE
    put(arg_of(in, 0), regs, l, t >> l & 1 ? yes : 0);
}

/* Whether a comparison holds: for less, equal, greater and unordered. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };

static const struct {
    ptx_mod mod;
    uint8_t holds;
} comparisons[] = {
    {PTX_MOD_EQ, EQUAL},
    {PTX_MOD_NE, LESS | GREATER},
    {PTX_MOD_LT, LESS},
    {PTX_MOD_LE, LESS | EQUAL},
    {PTX_MOD_GT, GREATER},
    {PTX_MOD_GE, GREATER | EQUAL},
    {PTX_MOD_EQU, EQUAL | UNORDERED},
    {PTX_MOD_NEU, LESS | GREATER | UNORDERED},
    {PTX_MOD_LTU, LESS | UNORDERED},
    {PTX_MOD_LEU, LESS | EQUAL | UNORDERED},
    {PTX_MOD_GTU, GREATER | UNORDERED},
    {PTX_MOD_GEU, GREATER | EQUAL | UNORDERED},
    {PTX_MOD_NUM, LESS | EQUAL | GREATER},
    {PTX_MOD_NAN_TEST, UNORDERED},
};

static unsigned holds_of(const ptx_insn *src)
{
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
        if (ptx_has(src, comparisons[i].mod))
            return comparisons[i].holds;
    return 0;
}

/* The comparison of one half (0 low, 1 high) of operands a and a + 1. */
static uint32_t compare_half(const sim_insn *in, const uint8_t *regs, int a,
                             int half)
{
    const ptx_insn *src = in->src;
    int kind = src->types[src->n_types - 1] == PTX_BF16X2;
    uint64_t flags = ptx_has(src, PTX_MOD_FTZ) ? SIM_FTZ : 0;
    unsigned holds = holds_of(src);
    uint32_t bits = 0;
    for (unsigned l = 0; l < SIM_LANES; l++) {
        uint32_t u = (uint32_t)get(in, regs, a, l) >> 16 * half & 0xffff;
        uint32_t v = (uint32_t)get(in, regs, a + 1, l) >> 16 * half & 0xffff;
        double x = half_in(u, kind, flags), y = half_in(v, kind, flags);
        unsigned is = x < y    ? LESS
                      : x == y ? EQUAL
                      : x > y  ? GREATER
                               : UNORDERED;
        bits |= (uint32_t) !!(holds & is) << l;
    }
    return bits;
}

/* setp.f16x2 p|q: p from the low halves, q from the high ones. */
OP(setp_packed)
{
    const ptx_insn *src = in->src;
    int a = 1 + src->operands[0].pair;
    uint32_t c = src->n_operands > a + 2 ? pred_of(in, regs, a + 2) : 0;
    (void)w;
    uint32_t low = compare_half(in, regs, a, 0);
    uint32_t high = compare_half(in, regs, a, 1);
    put_pred(in, regs, 0, combine(src, low, c), exec);
    put_pred(in, regs, 1, combine(src, high, c), exec);
}

/* set.f16x2: each half 1.0, or all ones when the result is an integer. */
OP(set_packed)
{
    const ptx_insn *src = in->src;
    uint32_t yes = src->types[0] == PTX_F16X2    ? 0x3c00
                   : src->types[0] == PTX_BF16X2 ? 0x3f80
                                                 : 0xffff;
    uint32_t c = src->n_operands > 3 ? pred_of(in, regs, 3) : 0;
    uint32_t low = combine(src, compare_half(in, regs, 1, 0), c);
    uint32_t high = combine(src, compare_half(in, regs, 1, 1), c);
    EACH_LANE
    put(arg_of(in, 0), regs, l,
        (low >> l & 1 ? yes : 0) | (high >> l & 1 ? yes : 0) << 16);
}

/* min and max of three; .abs takes magnitudes first. */
OP(least3)
{
    const ptx_insn *src = in->src;
    bool most = src->op == PTX_OP_MAX, nan = ptx_has(src, PTX_MOD_NAN_RESULT);
    uint64_t flags = ptx_has(src, PTX_MOD_FTZ) ? SIM_FTZ : 0;
    uint32_t keep = ptx_has(src, PTX_MOD_ABS) ? 0x7fffffff : UINT32_MAX;
    EACH_LANE
    {
        float x[3];
        for (int i = 0; i < 3; i++)
            x[i] = f32_of((uint32_t)get(in, regs, 1 + i, l) & keep);
        float r = least_f32(least_f32(x[0], x[1], most, nan, flags), x[2], most,
                            nan, flags);
        put(arg_of(in, 0), regs, l, bits_of(r));
    }
}

bool sim_takes_three(const ptx_insn *insn)
{
    return (insn->op == PTX_OP_MIN || insn->op == PTX_OP_MAX) &&
           insn->n_operands == 4;
}

bool sim_compares_packed(const ptx_insn *insn)
{
    unsigned type = insn->n_types ? insn->types[insn->n_types - 1] : PTX_NONE;
    return (insn->op == PTX_OP_SET || insn->op == PTX_OP_SETP) &&
           (type == PTX_F16X2 || type == PTX_BF16X2);
}

sim_op sim_compare_op(const ptx_insn *insn)
{
    bool packed = sim_compares_packed(insn);
    if (insn->op == PTX_OP_SETP)
        return packed ? setp_packed : setp_finish;
    if (insn->op == PTX_OP_SET)
        return packed ? set_packed : set_finish;
    return sim_takes_three(insn) ? least3 : NULL;
}
