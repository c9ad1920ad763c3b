/*
 * Conversions that are not worth a lane handler: cvt.pack.
 */
#include "engine_args.h"

static int64_t clamp_to(int64_t x, unsigned bits, bool is_signed)
{
    int64_t low = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
    int64_t high = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    return x < low ? low : x > high ? high : x;
}

static unsigned packed_bits(ptx_type type)
{
    switch (type) {
    case PTX_U2:
    case PTX_S2:
        return 2;
    case PTX_U4:
    case PTX_S4:
        return 4;
    default:
        return 8 * ptx_type_bytes(type);
    }
}

static bool packs_signed(ptx_type type)
{
    return type == PTX_S2 || type == PTX_S4 || type == PTX_S8 ||
           type == PTX_S16;
}

/* a above b in the low bits of d, and above them what c has in its low bits. */
OP(cvt_pack)
{
    ptx_type type = (ptx_type)in->src->types[0];
    unsigned bits = packed_bits(type);
    bool is_signed = packs_signed(type), more = in->src->n_operands > 3;
    uint32_t mask = (1u << bits) - 1;
    EACH_LANE
    {
        int32_t a = (int32_t)get(in, regs, 1, l);
        int32_t b = (int32_t)get(in, regs, 2, l);
        uint32_t high = (uint32_t)clamp_to(a, bits, is_signed) & mask;
        uint32_t low = (uint32_t)clamp_to(b, bits, is_signed) & mask;
        uint32_t d = high << bits | low;
        if (more)
            d |= (uint32_t)get(in, regs, 3, l) << 2 * bits;
        put(arg_of(in, 0), regs, l, d);
    }
}

sim_op sim_convert_op(const ptx_insn *insn)
{
    return insn->op == PTX_OP_CVT_PACK ? cvt_pack : NULL;
}
