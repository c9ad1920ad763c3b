/*
 * Video instructions: one, two or four small results in 32 bits.
 *
 * One result (vadd to vset): a and b give a byte, a half or all of a register,
 * extended by their type; the result is saturated to what it replaces, then
 * combined with c, or put into a part of c. Two or four (vadd2, vadd4, ...): a
 * and b give lanes of the pair {b, a}, c has what the destination's mask does
 * not name, or, with .add, what all results are added to.
 */
#include "engine_args.h"

typedef enum video_op {
    VIDEO_ADD,
    VIDEO_SUB,
    VIDEO_ABSDIFF,
    VIDEO_MIN,
    VIDEO_MAX,
    VIDEO_AVERAGE,
    VIDEO_SHL,
    VIDEO_SHR,
    VIDEO_SET,
} video_op;

static const struct video_row {
    ptx_op op;
    uint8_t what; /* video_op */
    uint8_t lanes;
} rows[] = {
#define VIDEO(name, what, lanes) {PTX_OP_##name, VIDEO_##what, lanes},
#define VIDEO_SIMD(name, what) VIDEO(name##2, what, 2) VIDEO(name##4, what, 4)
    VIDEO(VADD, ADD, 1) VIDEO(VSUB, SUB, 1) VIDEO(VABSDIFF, ABSDIFF, 1)
        VIDEO(VMIN, MIN, 1) VIDEO(VMAX, MAX, 1) VIDEO(VSHL, SHL, 1)
            VIDEO(VSHR, SHR, 1) VIDEO(VSET, SET, 1) VIDEO_SIMD(VADD, ADD)
                VIDEO_SIMD(VSUB, SUB) VIDEO_SIMD(VAVRG, AVERAGE)
                    VIDEO_SIMD(VABSDIFF, ABSDIFF) VIDEO_SIMD(VMIN, MIN)
                        VIDEO_SIMD(VMAX, MAX) VIDEO_SIMD(VSET, SET)
#undef VIDEO_SIMD
#undef VIDEO
};

static const struct video_row *row_of(const ptx_insn *src)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == src->op)
            return &rows[i];
    return NULL;
}

/* What the types say: of a, b and the result; vset has no type for it. */
typedef struct video_types {
    bool d, a, b; /* signed */
} video_types;

static video_types types_of(const ptx_insn *src)
{
    int first = src->n_types - 2;
    return (video_types){
        .d = first && src->types[0] == PTX_S32,
        .a = src->types[first] == PTX_S32,
        .b = src->types[first + 1] == PTX_S32,
    };
}

static int64_t extend(uint64_t value, unsigned bits, bool is_signed)
{
    value <<= 64 - bits;
    return is_signed ? (int64_t)value >> (64 - bits)
                     : (int64_t)(value >> (64 - bits));
}

/* Bits and place of the part that an operand names. */
static unsigned part_of(const ptx_operand *operand, unsigned *shift)
{
    unsigned bits = !operand->select ? 32 : operand->halves ? 16 : 8;
    *shift = (operand->select & 7u) * bits;
    return bits;
}

static int64_t take(const sim_insn *in, const uint8_t *regs, int operand,
                    unsigned lane, bool is_signed)
{
    unsigned shift, bits = part_of(&in->src->operands[operand], &shift);
    uint64_t value = (uint32_t)get(in, regs, operand, lane);
    return extend(value >> shift, bits, is_signed);
}

static bool compare(const ptx_insn *src, int64_t a, int64_t b)
{
    if (ptx_has(src, PTX_MOD_EQ))
        return a == b;
    if (ptx_has(src, PTX_MOD_NE))
        return a != b;
    if (ptx_has(src, PTX_MOD_LT))
        return a < b;
    if (ptx_has(src, PTX_MOD_LE))
        return a <= b;
    return ptx_has(src, PTX_MOD_GT) ? a > b : a >= b;
}

static int64_t shift(const ptx_insn *src, int64_t a, int64_t b, bool left)
{
    uint32_t by = (uint32_t)b;
    by = ptx_has(src, PTX_MOD_WRAP) ? by & 31 : by > 32 ? 32 : by;
    return left ? (int64_t)((uint64_t)a << by) : a >> by;
}

static int64_t apply(const ptx_insn *src, unsigned what, int64_t a, int64_t b)
{
    switch (what) {
    case VIDEO_ADD:
        return a + b;
    case VIDEO_SUB:
        return a - b;
    case VIDEO_ABSDIFF:
        return a > b ? a - b : b - a;
    case VIDEO_MIN:
        return a < b ? a : b;
    case VIDEO_MAX:
        return a > b ? a : b;
    case VIDEO_AVERAGE:
        return (a + b + (a + b >= 0)) >> 1;
    case VIDEO_SHL:
    case VIDEO_SHR:
        return shift(src, a, b, what == VIDEO_SHL);
    default:
        return compare(src, a, b);
    }
}

static int64_t saturate(const ptx_insn *src, int64_t x, unsigned bits,
                        bool is_signed)
{
    int64_t low = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
    int64_t high = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    if (!ptx_has(src, PTX_MOD_SAT))
        return x;
    return x < low ? low : x > high ? high : x;
}

/* The second operation of one result, on c. */
static int64_t combine(const ptx_insn *src, int64_t x, int64_t c,
                       bool is_signed)
{
    x = extend((uint64_t)x, 32, is_signed);
    if (ptx_has(src, PTX_MOD_ADD))
        return x + c;
    if (ptx_has(src, PTX_MOD_MIN))
        return x < c ? x : c;
    return x > c ? x : c;
}

OP(video_one)
{
    const ptx_insn *src = in->src;
    unsigned what = row_of(src)->what;
    unsigned place, bits = part_of(&src->operands[0], &place);
    video_types is_signed = types_of(src);
    bool second = ptx_has(src, PTX_MOD_ADD) || ptx_has(src, PTX_MOD_MIN) ||
                  ptx_has(src, PTX_MOD_MAX);
    EACH_LANE
    {
        int64_t a = take(in, regs, 1, l, is_signed.a);
        int64_t b = take(in, regs, 2, l, is_signed.b);
        int64_t r = apply(src, what, a, b);
        r = saturate(src, r, bits, is_signed.d);
        if (src->n_operands > 3 && second) {
            r = combine(src, r, take(in, regs, 3, l, is_signed.d), is_signed.d);
        } else if (src->n_operands > 3) {
            uint32_t mask = (bits < 32 ? (1u << bits) - 1 : UINT32_MAX)
                            << place;
            uint32_t c = (uint32_t)get(in, regs, 3, l);
            r = (int64_t)((c & ~mask) | ((uint32_t)r << place & mask));
        }
        put(arg_of(in, 0), regs, l, (uint32_t)r);
    }
}

/* Lanes that the mask names: all, or those of its digits. */
static unsigned mask_of(const ptx_operand *operand, unsigned lanes)
{
    unsigned mask = 0;
    for (unsigned digits = operand->select; digits; digits >>= 4)
        mask |= 1u << (digits & 7);
    return mask ? mask : (1u << lanes) - 1;
}

/* Lane i of operand a (first = 0) or b (first = lanes) of the pair. */
static int64_t take_lane(const sim_insn *in, const uint8_t *regs, int operand,
                         unsigned lanes, unsigned i, unsigned lane,
                         bool is_signed)
{
    unsigned bits = 32 / lanes, digits = in->src->operands[operand].select;
    unsigned from =
        digits ? digits >> 4 * i & 7 : i + (operand == 2 ? lanes : 0);
    uint64_t pair = (uint32_t)get(in, regs, 1, lane) |
                    (uint64_t)(uint32_t)get(in, regs, 2, lane) << 32;
    return extend(pair >> from * bits, bits, is_signed);
}

OP(video_lanes)
{
    const ptx_insn *src = in->src;
    const struct video_row *row = row_of(src);
    unsigned bits = 32 / row->lanes;
    unsigned mask = mask_of(&src->operands[0], row->lanes);
    video_types is_signed = types_of(src);
    bool sum = ptx_has(src, PTX_MOD_ADD);
    EACH_LANE
    {
        uint32_t d = (uint32_t)get(in, regs, 3, l);
        for (unsigned i = 0; i < row->lanes; i++) {
            int64_t a = take_lane(in, regs, 1, row->lanes, i, l, is_signed.a);
            int64_t b = take_lane(in, regs, 2, row->lanes, i, l, is_signed.b);
            int64_t r =
                saturate(src, apply(src, row->what, a, b), bits, is_signed.d);
            uint32_t part = ((1u << bits) - 1) << i * bits;
            if (!(mask >> i & 1))
                continue;
            d = sum ? d + (uint32_t)r
                    : (d & ~part) | ((uint32_t)r << i * bits & part);
        }
        put(arg_of(in, 0), regs, l, d);
    }
}

/* a * b + c of 33 bits each, in one rounding by a shift. */
OP(video_mad)
{
    __extension__ typedef __int128 wide;
    const ptx_insn *src = in->src;
    const ptx_operand *operands = src->operands;
    video_types is_signed = types_of(src);
    bool minus = operands[1].negated != operands[2].negated;
    bool any = is_signed.a || is_signed.b || minus || operands[3].negated;
    unsigned drop = ptx_has(src, PTX_MOD_SHR7)    ? 7
                    : ptx_has(src, PTX_MOD_SHR15) ? 15
                                                  : 0;
    EACH_LANE
    {
        wide product = (wide)take(in, regs, 1, l, is_signed.a) *
                       take(in, regs, 2, l, is_signed.b);
        int64_t c = extend((uint32_t)get(in, regs, 3, l), 32, any);
        bool one = ptx_has(src, PTX_MOD_PO);
        if (!one && minus)
            product = -product;
        else if (!one && operands[3].negated)
            c = -c;
        wide r = (product + c + one) >> drop;
        wide low = any ? INT32_MIN : 0, high = any ? INT32_MAX : UINT32_MAX;
        if (ptx_has(src, PTX_MOD_SAT))
            r = r < low ? low : r > high ? high : r;
        put(arg_of(in, 0), regs, l, (uint32_t)r);
    }
}

sim_op sim_video_op(const ptx_insn *insn)
{
    const struct video_row *row = row_of(insn);
    if (insn->op == PTX_OP_VMAD)
        return video_mad;
    return !row ? NULL : row->lanes > 1 ? video_lanes : video_one;
}
