/*
 * Which bits of a result are undefined when bits of its operands are.
 */
#include "taint.h"

static uint64_t low_bits(uint64_t n)
{
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

static uint64_t type_bits(const ptx_insn *src, int place)
{
    ptx_type type = (ptx_type)src->types[place];
    return type == PTX_PRED ? 1 : low_bits(8 * ptx_type_bytes(type));
}

static bool is_integer(ptx_type type)
{
    ptx_kind kind = ptx_type_kind(type);
    return kind == PTX_KIND_UNSIGNED || kind == PTX_KIND_SIGNED ||
           kind == PTX_KIND_BITS;
}

static bool is_signed(ptx_type type)
{
    return ptx_type_kind(type) == PTX_KIND_SIGNED;
}

/* Bits from n on are as bit n - 1 is. */
static uint64_t extend(uint64_t bits, uint64_t n)
{
    bits &= low_bits(n);
    return n && n < 64 && bits >> (n - 1) & 1 ? bits | ~low_bits(n) : bits;
}

static uint64_t shift_right(const ptx_insn *src, const sim_taint_operands *o)
{
    ptx_type type = (ptx_type)src->types[0];
    uint64_t n = 8 * ptx_type_bytes(type), by = o->value[1];
    uint64_t bits = is_signed(type) ? extend(o->bits[0], n) : o->bits[0];
    if (by >= n)
        by = is_signed(type) ? n - 1 : 64;
    if (by >= 64)
        return 0;
    return is_signed(type) ? (uint64_t)((int64_t)bits >> by) : bits >> by;
}

static uint64_t convert(const ptx_insn *src, const sim_taint_operands *o)
{
    ptx_type to = (ptx_type)src->types[0], from = (ptx_type)src->types[1];
    if (!is_integer(to) || !is_integer(from) || ptx_has(src, PTX_MOD_SAT))
        return o->bits[0] & type_bits(src, 1) ? UINT64_MAX : 0;
    uint64_t n = 8 * ptx_type_bytes(from);
    return is_signed(from) ? extend(o->bits[0], n) : o->bits[0] & low_bits(n);
}

static uint64_t extract(const ptx_insn *src, const sim_taint_operands *o)
{
    uint64_t at = o->value[1] & 255, n = o->value[2] & 255;
    uint64_t bits = at < 64 ? o->bits[0] >> at : 0;
    if (is_signed((ptx_type)src->types[0]))
        return extend(bits, n);
    return bits & low_bits(n);
}

static uint64_t insert(const sim_taint_operands *o)
{
    uint64_t at = o->value[2] & 255, n = o->value[3] & 255;
    if (at >= 64)
        return o->bits[1];
    uint64_t field = low_bits(n) << at;
    return (o->bits[1] & ~field) | (o->bits[0] << at & field);
}

/* Bytes by the selector's digits; 8 in a digit repeats the byte's sign. */
static uint64_t permute(const sim_taint_operands *o)
{
    uint64_t all = o->bits[1] << 32 | (o->bits[0] & UINT32_MAX), result = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t digit = o->value[2] >> 4 * i & 15;
        uint64_t byte = all >> 8 * (digit & 7) & 255;
        if (digit & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/* A carry goes up from the lowest undefined bit. */
static uint64_t carried(uint64_t bits)
{
    return bits | (0 - bits);
}

static uint64_t arithmetic(const ptx_insn *src, uint64_t any)
{
    bool low = src->op == PTX_OP_ADD || src->op == PTX_OP_SUB ||
               ptx_has(src, PTX_MOD_LO);
    if (!any)
        return 0;
    return low && is_integer((ptx_type)src->types[0]) ? carried(any)
                                                      : UINT64_MAX;
}

uint64_t sim_taint_result(const ptx_insn *src, const sim_taint_operands *o)
{
    uint64_t a = o->bits[0], b = o->bits[1], any = 0;
    for (int i = 0; i < SIM_TAINT_OPERANDS; i++)
        any |= o->bits[i];
    switch (src->op) {
    case PTX_OP_AND:
        return (a & b) | (a & o->value[1]) | (b & o->value[0]);
    case PTX_OP_OR:
        return (a & b) | (a & ~o->value[1]) | (b & ~o->value[0]);
    case PTX_OP_XOR:
    case PTX_OP_NOT:
    case PTX_OP_LOP3:
    case PTX_OP_CVTA:
        return any;
    case PTX_OP_SHL:
        return b ? UINT64_MAX : o->value[1] < 64 ? a << o->value[1] : 0;
    case PTX_OP_SHR:
        return b ? UINT64_MAX : shift_right(src, o);
    case PTX_OP_CVT:
        return src->n_types == 2 ? convert(src, o) : any ? UINT64_MAX : 0;
    case PTX_OP_BFE:
        return b | o->bits[2] ? UINT64_MAX : extract(src, o);
    case PTX_OP_BFI:
        return o->bits[2] | o->bits[3] ? UINT64_MAX : insert(o);
    case PTX_OP_PRMT:
        return o->bits[2] || src->n_mods ? (any ? UINT64_MAX : 0) : permute(o);
    default:
        return arithmetic(src, any);
    }
}
