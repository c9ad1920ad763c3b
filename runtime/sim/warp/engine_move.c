/*
 * Instructions lane by lane that are not worth a handler of their own kind:
 * moves of vectors and predicates, selections, carries, cvta, bfi, lop3.
 */
#include <string.h>

#include "engine_args.h"

/* d (b bytes wide) = a (c bytes wide), cut or extended; by decode.c. */
OP(resize)
{
    EACH_LANE
    {
        uint64_t value = 0;
        memcpy(&value, regs + in->a + l * in->c, in->c < 8 ? in->c : 8);
        if (in->offset && in->c == 4)
            value = (uint64_t)(int64_t)(int32_t)value;
        memcpy(regs + in->d + l * in->b, &value, in->b < 8 ? in->b : 8);
    }
}

OP(mov_vector)
{
    const sim_args *args = in->args;
    uint32_t n_to = args->first[1], n_from = args->count - n_to;
    uint32_t bytes = ptx_type_bytes((ptx_type)in->src->types[0]);
    EACH_LANE
    {
        uint8_t whole[16] = {0};
        for (uint32_t i = 0; i < n_from; i++) {
            const sim_arg *arg = &args->arg[n_to + i];
            uint32_t part = bytes / n_from;
            memcpy(whole + i * part, regs + arg->slot + l * arg->width,
                   part < arg->width ? part : arg->width);
        }
        for (uint32_t i = 0; i < n_to; i++) {
            const sim_arg *arg = &args->arg[i];
            uint8_t value[16] = {0};
            memcpy(value, whole + i * (bytes / n_to), bytes / n_to);
            if (!(arg->flags & SIM_ARG_SINK))
                memcpy(regs + arg->slot + l * arg->width, value, arg->width);
        }
    }
}

OP(logic_pred)
{
    uint32_t a = pred_of(in, regs, 1);
    uint32_t b = in->src->n_operands > 2 ? pred_of(in, regs, 2) : 0;
    (void)w;
    switch (in->src->op) {
    case PTX_OP_AND:
        a &= b;
        break;
    case PTX_OP_OR:
        a |= b;
        break;
    case PTX_OP_XOR:
        a ^= b;
        break;
    case PTX_OP_NOT:
        a = ~a;
        break;
    default:
        break;
    }
    put_pred(in, regs, 0, a, exec);
}

OP(selp)
{
    uint32_t p = pred_of(in, regs, 3);
    EACH_LANE
    put(arg_of(in, 0), regs, l, get(in, regs, p >> l & 1 ? 1 : 2, l));
}

OP(slct)
{
    EACH_LANE
    {
        uint64_t bits = get(in, regs, 3, l);
        uint32_t low = (uint32_t)bits;
        float real;
        memcpy(&real, &low, sizeof real);
        bool first =
            in->src->types[1] == PTX_F32 ? real >= 0 : (int32_t)low >= 0;
        if (in->src->types[1] == PTX_F32 && ptx_has(in->src, PTX_MOD_FTZ) &&
            !(low & 0x7f800000))
            first = true;
        put(arg_of(in, 0), regs, l, get(in, regs, first ? 1 : 2, l));
    }
}

OP(carry)
{
    const ptx_insn *src = in->src;
    bool wide = ptx_type_bytes((ptx_type)src->types[0]) == 8;
    bool sum = src->op == PTX_OP_ADD || src->op == PTX_OP_ADDC;
    bool product = src->op == PTX_OP_MAD || src->op == PTX_OP_MADC;
    bool takes = src->op == PTX_OP_ADDC || src->op == PTX_OP_SUBC ||
                 src->op == PTX_OP_MADC;
    bool is_signed = ptx_type_kind((ptx_type)src->types[0]) == PTX_KIND_SIGNED;
    uint32_t flags = 0;
    EACH_LANE
    {
        uint64_t a = get(in, regs, 1, l), b = get(in, regs, 2, l);
        uint64_t in_bit = takes ? w->carry >> l & 1 : 0;
        if (product) {
            __extension__ typedef unsigned __int128 wide_u;
            __extension__ typedef __int128 wide_s;
            wide_u p = (wide_u)a * b;
            if (is_signed && wide)
                p = (wide_u)((wide_s)(int64_t)a * (int64_t)b);
            else if (is_signed)
                p = (wide_u)((wide_s)(int32_t)a * (int32_t)b);
            uint32_t shift = ptx_has(src, PTX_MOD_HI) ? wide ? 64 : 32 : 0;
            a = (uint64_t)(p >> shift);
            a = wide ? a : (uint32_t)a;
            b = get(in, regs, 3, l);
        }
        uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
        uint64_t r;
        bool out;
        if (sum || product) {
            r = (a + b + in_bit) & mask;
            out = r < a || (in_bit && r == a);
        } else {
            r = (a - b - in_bit) & mask;
            out = a < b || (in_bit && a == b);
        }
        flags |= (uint32_t)out << l;
        put(arg_of(in, 0), regs, l, r);
    }
    if (ptx_has(src, PTX_MOD_CC))
        w->carry = (w->carry & ~exec) | (flags & exec);
}

OP(bfi)
{
    uint32_t width = 8 * ptx_type_bytes((ptx_type)in->src->types[0]);
    EACH_LANE
    {
        uint64_t a = get(in, regs, 1, l), b = get(in, regs, 2, l);
        uint32_t at = (uint32_t)get(in, regs, 3, l) & 255;
        uint32_t count = (uint32_t)get(in, regs, 4, l) & 255;
        for (uint32_t i = 0; i < count && at + i < width; i++)
            b = (b & ~(UINT64_C(1) << (at + i))) | (i < width ? a >> i & 1 : 0)
                                                       << (at + i);
        put(arg_of(in, 0), regs, l, b);
    }
}

static uint32_t lop3_of(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    r |= table & 1 ? ~a & ~b & ~c : 0;
    r |= table & 2 ? ~a & ~b & c : 0;
    r |= table & 4 ? ~a & b & ~c : 0;
    r |= table & 8 ? ~a & b & c : 0;
    r |= table & 16 ? a & ~b & ~c : 0;
    r |= table & 32 ? a & ~b & c : 0;
    r |= table & 64 ? a & b & ~c : 0;
    return r | (table & 128 ? a & b & c : 0);
}

OP(lop3)
{
    const ptx_insn *src = in->src;
    int base = 1 + src->operands[0].pair;
    uint32_t bits = 0;
    EACH_LANE
    {
        uint32_t r = lop3_of((uint32_t)get(in, regs, base, l),
                             (uint32_t)get(in, regs, base + 1, l),
                             (uint32_t)get(in, regs, base + 2, l),
                             (uint32_t)get(in, regs, base + 3, l));
        put(arg_of(in, 0), regs, l, r);
        bits |= (uint32_t)(r != 0) << l;
    }
    if (src->operands[0].pair) {
        uint32_t c = pred_of(in, regs, base + 4);
        bits = ptx_has(src, PTX_MOD_AND) ? bits & c : bits | c;
        put_pred(in, regs, 1, bits, exec);
    }
}

static uint64_t window_of(uint8_t space)
{
    switch (space) {
    case PTX_SHARED:
        return SIM_SHARED_WINDOW;
    case PTX_LOCAL:
        return SIM_LOCAL_WINDOW;
    case PTX_PARAM:
        return SIM_PARAM_WINDOW;
    default:
        return 0;
    }
}

OP(cvta)
{
    uint64_t window = window_of(in->src->space);
    uint64_t add = ptx_has(in->src, PTX_MOD_TO) ? -window : window;
    const sim_arg *to = arg_of(in, 0), *from = arg_of(in, 1);
    if (exec == UINT32_MAX && to->width == 8 && from->width == 8 &&
        !(to->flags & SIM_ARG_SINK)) {
        const uint64_t *a = SIM_U64(from->slot);
        uint64_t *d = SIM_U64(to->slot);
        for (unsigned l = 0; l < SIM_LANES; l++)
            d[l] = a[l] + add;
        return;
    }
    EACH_LANE
    put(to, regs, l, get(in, regs, 1, l) + add);
}

OP(testp)
{
    const ptx_insn *src = in->src;
    bool wide = src->types[0] == PTX_F64;
    uint32_t bits = 0;
    EACH_LANE
    {
        uint64_t v = get(in, regs, 1, l);
        uint64_t exponent = wide ? v >> 52 & 2047 : v >> 23 & 255;
        uint64_t fraction = wide ? v << 12 : v << 41;
        bool top = exponent == (wide ? 2047 : 255);
        bool nan = top && fraction, inf = top && !fraction;
        bool yes = ptx_has(src, PTX_MOD_FINITE)       ? !top
                   : ptx_has(src, PTX_MOD_INFINITE)   ? inf
                   : ptx_has(src, PTX_MOD_NUMBER)     ? !nan
                   : ptx_has(src, PTX_MOD_NOTANUMBER) ? nan
                   : ptx_has(src, PTX_MOD_NORMAL)     ? !top && exponent
                                                      : !exponent && fraction;
        bits |= (uint32_t)yes << l;
    }
    put_pred(in, regs, 0, bits, exec);
}

static bool moves_vector(const ptx_insn *insn)
{
    return insn->operands[0].kind == PTX_VECTOR ||
           insn->operands[1].kind == PTX_VECTOR || insn->types[0] == PTX_B128;
}

sim_op sim_move_op(const ptx_insn *insn)
{
    if (!insn)
        return resize;
    sim_op compare = sim_compare_op(insn);
    if (compare)
        return compare;
    sim_op other = sim_convert_op(insn);
    other = other ? other : sim_video_op(insn);
    if (other)
        return other;
    switch (insn->op) {
    case PTX_OP_MOV:
        return insn->types[0] == PTX_PRED ? logic_pred
               : moves_vector(insn)       ? mov_vector
                                          : NULL;
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
        return insn->types[0] == PTX_PRED ? logic_pred : NULL;
    case PTX_OP_SELP:
        return selp;
    case PTX_OP_SLCT:
        return slct;
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MAD:
        return ptx_has(insn, PTX_MOD_CC) ? carry : NULL;
    case PTX_OP_ADDC:
    case PTX_OP_SUBC:
    case PTX_OP_MADC:
        return carry;
    case PTX_OP_BFI:
        return bfi;
    case PTX_OP_LOP3:
        return lop3;
    case PTX_OP_CVTA:
        return cvta;
    case PTX_OP_TESTP:
        return testp;
    case PTX_OP_STACKSAVE:
    case PTX_OP_STACKRESTORE:
    case PTX_OP_ALLOCA:
        return sim_stack_op(insn);
    default:
        return NULL;
    }
}
