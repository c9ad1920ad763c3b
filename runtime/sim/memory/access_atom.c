/*
 * atom and red. A launch in which CTAs meet through global atomics runs in one
 * fixed interleaving, so that plain loads and stores do; lanes go in order.
 */
#include "access.h"

#include "access_half.h"
#include "race.h"

typedef struct atom_value {
    uint64_t lo, hi;
} atom_value;

/* min and max of IEEE: a number wins over NaN, -0 is below +0. */
static float float_minmax(float x, float y, bool max)
{
    if (x != x)
        return y;
    if (y != y)
        return x;
    if (x == y)
        return (__builtin_signbit(x) != 0) == max ? y : x;
    return (x < y) == max ? y : x;
}

static uint32_t small_float(ptx_mod op, uint32_t a, uint32_t b, bool bf16)
{
    float x = bf16 ? sim_bf16_value(a) : sim_half_value(a);
    float y = bf16 ? sim_bf16_value(b) : sim_half_value(b);
    float r = op == PTX_MOD_ADD ? x + y : float_minmax(x, y, op == PTX_MOD_MAX);
    return bf16 ? sim_bf16_bits(r) : sim_half_bits(r);
}

static uint32_t float_add(uint32_t a, uint32_t b, bool flush)
{
    float x, y;
    if (flush && !(a & 0x7f800000))
        a &= 0x80000000;
    if (flush && !(b & 0x7f800000))
        b &= 0x80000000;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&a, &x, 4);
    if (x != x)
        return 0x7fffffff;
    return flush && !(a & 0x7f800000) ? a & 0x80000000 : a;
}

static uint64_t float_op(ptx_mod op, ptx_type type, uint64_t a, uint64_t b,
                         bool flush)
{
    uint32_t a0 = (uint32_t)a, b0 = (uint32_t)b;
    switch (type) {
    case PTX_F64: {
        double x, y;
        memcpy(&x, &a, 8);
        memcpy(&y, &b, 8);
        x += y;
        memcpy(&a, &x, 8);
        return x != x ? UINT64_C(0x7fffffffffffffff) : a;
    }
    case PTX_F32:
        if (op == PTX_MOD_ADD)
            return float_add(a0, b0, flush);
        float x, y;
        memcpy(&x, &a0, 4);
        memcpy(&y, &b0, 4);
        x = float_minmax(x, y, op == PTX_MOD_MAX);
        memcpy(&a0, &x, 4);
        return a0;
    case PTX_F16:
    case PTX_BF16:
        return small_float(op, a0, b0, type == PTX_BF16);
    default: { /* packed */
        bool bf16 = type == PTX_BF16X2;
        return small_float(op, a0 & 0xffff, b0 & 0xffff, bf16) |
               small_float(op, a0 >> 16, b0 >> 16, bf16) << 16;
    }
    }
}

static bool is_float(ptx_type type)
{
    return type == PTX_F16 || type == PTX_BF16 || type == PTX_F16X2 ||
           type == PTX_BF16X2 || type == PTX_F32 || type == PTX_F64;
}

static uint64_t integer_op(ptx_mod op, uint32_t bytes, bool is_signed,
                           uint64_t a, uint64_t b)
{
    int64_t x = bytes == 8 ? (int64_t)a : (int32_t)a;
    int64_t y = bytes == 8 ? (int64_t)b : (int32_t)b;
    bool less = is_signed ? x < y : a < b;
    switch (op) {
    case PTX_MOD_ADD:
        return a + b;
    case PTX_MOD_AND:
        return a & b;
    case PTX_MOD_OR:
        return a | b;
    case PTX_MOD_XOR:
        return a ^ b;
    case PTX_MOD_MIN:
        return less ? a : b;
    case PTX_MOD_MAX:
        return less ? b : a;
    case PTX_MOD_INC:
        return a >= b ? 0 : a + 1;
    case PTX_MOD_DEC:
        return a == 0 || a > b ? b : a - 1;
    default: /* exch */
        return b;
    }
}

/* The operation among the modifiers. */
static ptx_mod operation(const ptx_insn *insn)
{
    for (int i = 0; i < insn->n_mods; i++)
        switch (insn->mods[i]) {
        case PTX_MOD_ADD:
        case PTX_MOD_MIN:
        case PTX_MOD_MAX:
        case PTX_MOD_INC:
        case PTX_MOD_DEC:
        case PTX_MOD_EXCH:
        case PTX_MOD_CAS:
        case PTX_MOD_AND:
        case PTX_MOD_OR:
        case PTX_MOD_XOR:
            return insn->mods[i];
        default:
            break;
        }
    return PTX_MOD_EXCH;
}

static atom_value lane_value(const uint8_t *regs, const sim_arg *arg,
                             unsigned lane, uint32_t bytes)
{
    atom_value v = {0, 0};
    uint32_t n = bytes < arg->width ? bytes : arg->width;
    memcpy(&v, regs + arg->slot + arg->width * lane, n);
    return v;
}

typedef struct atom_op {
    ptx_mod op;
    ptx_type type;
    uint32_t bytes; /* of one element */
    bool flush;
    bool system; /* atomic for the program's own threads, too */
} atom_op;

static atom_value result_of(const atom_op *o, atom_value old, atom_value b,
                            atom_value c)
{
    if (o->op == PTX_MOD_CAS)
        return old.lo == b.lo && old.hi == b.hi ? c : old;
    if (o->op == PTX_MOD_EXCH)
        return b;
    if (is_float(o->type))
        return (atom_value){float_op(o->op, o->type, old.lo, b.lo, o->flush),
                            0};
    bool is_signed = o->type == PTX_S32 || o->type == PTX_S64;
    return (atom_value){integer_op(o->op, o->bytes, is_signed, old.lo, b.lo),
                        0};
}

/* Puts now where old stands; false when a thread of the program was faster. */
static bool replace(uint8_t *at, const atom_value *old, const atom_value *now,
                    const atom_op *o)
{
    uint64_t expected = old->lo;
    uint32_t expected_word = (uint32_t)old->lo;
    if (o->system && o->bytes == 8)
        return __atomic_compare_exchange_n((uint64_t *)(void *)at, &expected,
                                           now->lo, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
    if (o->system && o->bytes == 4)
        return __atomic_compare_exchange_n(
            (uint32_t *)(void *)at, &expected_word, (uint32_t)now->lo, false,
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    memcpy(at, now, o->bytes);
    return true;
}

/* What stands there: at once where the host may write it meanwhile. */
static void look(const uint8_t *at, atom_value *old, const atom_op *o)
{
    if (o->system && o->bytes == 4) {
        uint32_t value = __atomic_load_n((const uint32_t *)(const void *)at,
                                         __ATOMIC_RELAXED);
        memcpy(old, &value, sizeof value);
    } else if (o->system && o->bytes == 8) {
        uint64_t value = __atomic_load_n((const uint64_t *)(const void *)at,
                                         __ATOMIC_RELAXED);
        memcpy(old, &value, sizeof value);
    } else {
        memcpy(old, at, o->bytes);
    }
}

static void run(const sim_insn *in, uint8_t *regs, sim_access *a,
                const atom_op *o, int d, int s)
{
    const sim_args *args = in->args;
    uint32_t n = a->bytes / o->bytes;
    bool three = o->op == PTX_MOD_CAS;
    for (uint32_t rest = a->exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        for (uint32_t i = 0; i < n; i++) {
            uint8_t *at = a->at[l] + i * o->bytes;
            atom_value old = {0, 0}, c = {0, 0}, now;
            atom_value b =
                lane_value(regs, &args->arg[args->first[s] + i], l, o->bytes);
            if (three)
                c = lane_value(regs, &args->arg[args->first[s + 1] + i], l,
                               o->bytes);
            do {
                look(at, &old, o);
                now = result_of(o, old, b, c);
            } while (!replace(at, &old, &now, o));
            if (d < 0)
                continue;
            const sim_arg *to = &args->arg[args->first[d] + i];
            if (to->flags & SIM_ARG_SINK)
                continue;
            memcpy(regs + to->slot + to->width * l, &old, to->width);
        }
    }
}

void sim_atom_combine(const ptx_insn *insn, ptx_type type, uint8_t *at,
                      const uint8_t *from, uint32_t bytes)
{
    atom_op o = {.op = operation(insn), .type = type};
    o.bytes = ptx_type_bytes(o.type);
    o.flush = o.type == PTX_F32;
    for (uint32_t i = 0; i < bytes; i += o.bytes) {
        atom_value old = {0, 0}, b = {0, 0};
        memcpy(&old, at + i, o.bytes);
        memcpy(&b, from + i, o.bytes);
        atom_value now = result_of(&o, old, b, b);
        memcpy(at + i, &now, o.bytes);
    }
}

static void atomic(const sim_insn *in, sim_warp *w, uint8_t *regs,
                   uint32_t exec, bool checks, bool returns)
{
    if (!exec)
        return;
    const ptx_insn *insn = in->src;
    int first = returns ? 1 : 0;
    const sim_arg *address = &in->args->arg[in->args->first[first]];
    atom_op o = {.op = operation(insn), .type = insn->types[0]};
    o.bytes = ptx_type_bytes(o.type);
    o.flush = o.type == PTX_F32 && insn->space != PTX_SHARED;
    o.system = ptx_has(insn, PTX_MOD_SYS);
    sim_access a;
    sim_access_begin(&a, in, w, exec,
                     o.bytes * (insn->vector > 1 ? insn->vector : 1), false,
                     checks);
    a.strong = true;
    a.count = SIM_COUNT_ATOM;
    sim_access_addresses(address, w, regs, a.addr);
    struct sim_race *race = sim_cta_memory_of(w)->race;
    if (race) {
        sim_race_acquire(race, w->index, sim_race_atomics(race));
        sim_race_release(race, w->index, sim_race_atomics(race));
    }
    /* First as a read (was it written?), then as the write that it is. */
    sim_access_resolve(&a, insn->space);
    uint32_t unset = a.staged;
    if (unset && !a.failed) {
        a.write = true;
        a.count = -1;
        sim_access_resolve(&a, insn->space);
    }
    run(in, regs, &a, &o, returns ? 0 : -1, first + 1);
    if (a.local)
        sim_access_finish(&a);
}

static void op_atom(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    atomic(in, w, regs, exec, false, true);
}

static void op_atom_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                            uint32_t exec)
{
    atomic(in, w, regs, exec, true, true);
}

static void op_red(const sim_insn *in, sim_warp *w, uint8_t *regs,
                   uint32_t exec)
{
    atomic(in, w, regs, exec, false, false);
}

static void op_red_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                           uint32_t exec)
{
    atomic(in, w, regs, exec, true, false);
}

sim_op sim_atom_op(const ptx_insn *insn, bool checks)
{
    if (insn->op == PTX_OP_ATOM)
        return checks ? op_atom_checked : op_atom;
    if (insn->op == PTX_OP_RED)
        return checks ? op_red_checked : op_red;
    return NULL;
}
