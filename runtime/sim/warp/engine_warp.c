/*
 * Warp-wide instructions on registers: shfl, vote, match, redux, elect.
 */
#include <string.h>

#include "engine_args.h"

static uint32_t u32_of(const sim_insn *in, const uint8_t *regs, int operand,
                       unsigned lane)
{
    uint32_t value;
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    memcpy(&value, regs + arg->slot + lane * arg->width, sizeof value);
    return value;
}

static uint64_t u64_of(const sim_insn *in, const uint8_t *regs, int operand,
                       unsigned lane)
{
    uint64_t value = 0;
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    memcpy(&value, regs + arg->slot + lane * arg->width, arg->width);
    return value;
}

static void put_u32(const sim_insn *in, uint8_t *regs, int operand,
                    const uint32_t *values, uint32_t exec)
{
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    if (arg->flags & SIM_ARG_SINK)
        return;
    for (unsigned l = 0; l < SIM_LANES; l++)
        if (exec >> l & 1)
            memcpy(regs + arg->slot + l * arg->width, &values[l],
                   sizeof values[l]);
}

static void report(const sim_insn *in, sim_warp *w, unsigned lane,
                   const char *detail)
{
    sim_place place;
    sim_place_of(w, in, lane, &place);
    sim_report_add(SPT_SIM_LANES, &place, 0, 1, 0, detail);
}

/* The source lane; whether it is within bounds. */
static unsigned shfl_source(const ptx_insn *src, unsigned lane, uint32_t b,
                            uint32_t c, bool *inside)
{
    uint32_t segment = c >> 8 & 31, clamp = c & 31;
    uint32_t low = lane & segment, high = low | (clamp & ~segment & 31);
    int source;
    b &= 31;
    if (ptx_has(src, PTX_MOD_UP)) {
        source = (int)lane - (int)b;
        *inside = source >= (int)high;
    } else {
        source = ptx_has(src, PTX_MOD_DOWN)   ? (int)(lane + b)
                 : ptx_has(src, PTX_MOD_BFLY) ? (int)(lane ^ b)
                                              : (int)(low | (b & ~segment));
        *inside = source <= (int)high;
    }
    return *inside ? (unsigned)source : lane;
}

unsigned sim_shfl_lane(const sim_insn *in, const uint8_t *regs, unsigned lane)
{
    int base = 2 + in->src->operands[0].pair;
    bool inside;
    return shfl_source(in->src, lane, u32_of(in, regs, base, lane),
                       u32_of(in, regs, base + 1, lane), &inside);
}

/* A butterfly of whole registers over the whole warp, as reductions use it:
   every lane takes part and no source is out of bounds. */
static bool shfl_butterfly(const sim_insn *in, uint8_t *regs, uint32_t exec)
{
    const ptx_insn *src = in->src;
    const ptx_operand *distance = &src->operands[2], *clamp = &src->operands[3];
    if (exec != UINT32_MAX || !ptx_has(src, PTX_MOD_BFLY) ||
        src->operands[0].pair || distance->kind != PTX_IMMEDIATE ||
        clamp->kind != PTX_IMMEDIATE)
        return false;
    const sim_arg *to = arg_of(in, 0), *from = arg_of(in, 1);
    unsigned b = (unsigned)u32_of(in, regs, 2, 0) & 31;
    if ((u32_of(in, regs, 3, 0) & 0x1f1f) != 31 || to->width != 4 ||
        from->width != 4 || to->flags & SIM_ARG_SINK)
        return false;
    uint32_t old[SIM_LANES], *d = SIM_U32(to->slot);
    memcpy(old, regs + from->slot, sizeof old);
    for (unsigned l = 0; l < SIM_LANES; l++)
        d[l] = old[l ^ b];
    return true;
}

static void shfl(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    const ptx_insn *src = in->src;
    int base = 1 + src->operands[0].pair;
    if (shfl_butterfly(in, regs, exec))
        return;
    uint32_t old[SIM_LANES], out[SIM_LANES], bits = 0;
    for (unsigned l = 0; l < SIM_LANES; l++)
        old[l] = u32_of(in, regs, base, l);
    for (unsigned l = 0; l < SIM_LANES; l++) {
        bool inside;
        unsigned from = shfl_source(src, l, u32_of(in, regs, base + 1, l),
                                    u32_of(in, regs, base + 2, l), &inside);
        out[l] = old[from];
        bits |= (uint32_t)inside << l;
        if (exec >> l & 1 && !(exec >> from & 1) && w->launch->args.checks)
            report(in, w, l, NULL);
    }
    put_u32(in, regs, 0, out, exec);
    if (src->operands[0].pair)
        put_pred(in, regs, 1, bits, exec);
}

static void vote(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    const ptx_insn *src = in->src;
    const sim_arg *arg = &in->args->arg[in->args->first[1]];
    uint32_t bits = SIM_PRED(arg->slot), out[SIM_LANES];
    (void)w;
    if (src->operands[1].negated)
        bits = ~bits;
    bits &= exec;
    if (ptx_has(src, PTX_MOD_BALLOT)) {
        for (unsigned l = 0; l < SIM_LANES; l++)
            out[l] = bits;
        put_u32(in, regs, 0, out, exec);
        return;
    }
    bool yes = ptx_has(src, PTX_MOD_ALL)   ? bits == exec
               : ptx_has(src, PTX_MOD_ANY) ? bits != 0
                                           : bits == exec || !bits;
    put_pred(in, regs, 0, yes ? UINT32_MAX : 0, exec);
}

static void match(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    const ptx_insn *src = in->src;
    int base = 1 + src->operands[0].pair;
    uint32_t out[SIM_LANES] = {0}, same = 0;
    (void)w;
    for (unsigned l = 0; l < SIM_LANES; l++)
        for (unsigned k = 0; exec >> l & 1 && k < SIM_LANES; k++)
            if (exec >> k & 1 &&
                u64_of(in, regs, base, l) == u64_of(in, regs, base, k))
                out[l] |= 1u << k;
    for (unsigned l = 0; l < SIM_LANES; l++)
        same |= (uint32_t)(out[l] == exec) << l;
    if (ptx_has(src, PTX_MOD_ALL))
        for (unsigned l = 0; l < SIM_LANES; l++)
            out[l] = out[l] == exec ? exec : 0;
    put_u32(in, regs, 0, out, exec);
    if (src->operands[0].pair)
        put_pred(in, regs, 1, same, exec);
}

static uint32_t fold(const ptx_insn *src, uint32_t a, uint32_t b)
{
    bool is_signed = src->types[0] == PTX_S32;
    bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    if (ptx_has(src, PTX_MOD_ADD))
        return a + b;
    if (ptx_has(src, PTX_MOD_MIN))
        return less ? a : b;
    if (ptx_has(src, PTX_MOD_MAX))
        return less ? b : a;
    if (ptx_has(src, PTX_MOD_AND))
        return a & b;
    return ptx_has(src, PTX_MOD_OR) ? a | b : a ^ b;
}

/* min and max of floats, as the scalar instructions have them. */
static uint32_t fold_float(const ptx_insn *src, uint32_t a, uint32_t b)
{
    float x, y;
    if (ptx_has(src, PTX_MOD_ABS)) {
        a &= 0x7fffffff;
        b &= 0x7fffffff;
    }
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    if (x != x || y != y) {
        if (ptx_has(src, PTX_MOD_NAN_RESULT) || (x != x && y != y))
            return 0x7fffffff;
        return x != x ? b : a;
    }
    bool less = x < y || (x == y && a > b);
    return ptx_has(src, PTX_MOD_MIN) == less ? a : b;
}

static void redux(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    uint32_t out[SIM_LANES], sum = 0;
    bool first = true, real = in->src->types[0] == PTX_F32;
    (void)w;
    for (unsigned l = 0; l < SIM_LANES; l++) {
        if (!(exec >> l & 1))
            continue;
        uint32_t value = u32_of(in, regs, 1, l);
        if (first)
            sum = real ? fold_float(in->src, value, value) : value;
        else
            sum = real ? fold_float(in->src, sum, value)
                       : fold(in->src, sum, value);
        first = false;
    }
    for (unsigned l = 0; l < SIM_LANES; l++)
        out[l] = sum;
    put_u32(in, regs, 0, out, exec);
}

static void elect(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    uint32_t out[SIM_LANES], leader = (uint32_t)__builtin_ctz(exec);
    (void)w;
    for (unsigned l = 0; l < SIM_LANES; l++)
        out[l] = leader;
    put_u32(in, regs, 0, out, exec);
    if (in->src->operands[0].pair)
        put_pred(in, regs, 1, 1u << leader, exec);
}

static void activemask(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec)
{
    uint32_t out[SIM_LANES];
    (void)w;
    for (unsigned l = 0; l < SIM_LANES; l++)
        out[l] = exec;
    put_u32(in, regs, 0, out, exec);
}

sim_op sim_warp_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_SHFL:
        return shfl;
    case PTX_OP_VOTE:
        return vote;
    case PTX_OP_MATCH:
        return match;
    case PTX_OP_REDUX:
        return redux;
    case PTX_OP_ELECT:
        return elect;
    case PTX_OP_ACTIVEMASK:
        return activemask;
    default:
        return NULL;
    }
}
