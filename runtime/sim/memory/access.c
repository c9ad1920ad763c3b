/*
 * ld and st of every space, type and vector width, and the instructions that
 * only look at addresses.
 */
#include "access.h"

#include "race.h"

/* The order modifiers that make an access take part in synchronisation. */
static bool is_strong(const ptx_insn *insn)
{
    static const uint8_t mods[] = {PTX_MOD_VOLATILE, PTX_MOD_RELAXED,
                                   PTX_MOD_ACQUIRE, PTX_MOD_RELEASE,
                                   PTX_MOD_MMIO};
    for (size_t i = 0; i < sizeof mods; i++)
        if (ptx_has(insn, mods[i]))
            return true;
    return false;
}

static bool bypasses_l1(const ptx_insn *insn)
{
    return ptx_has(insn, PTX_MOD_CG) || ptx_has(insn, PTX_MOD_CV) ||
           is_strong(insn);
}

bool sim_access_is_plain(const ptx_insn *insn)
{
    return !bypasses_l1(insn);
}

/* Parameters of device functions and of calls live in the local frame. */
static unsigned space_of_insn(const sim_insn *in, const sim_warp *w,
                              const sim_arg *address)
{
    if (in->src->space != PTX_PARAM)
        return in->src->space;
    bool local = (address->flags & SIM_ARG_FRAME) || w->frame->depth;
    return local ? PTX_LOCAL : PTX_PARAM;
}

#define EACH_LANE(exec, body)                                      \
    do {                                                           \
        if ((exec) == UINT32_MAX)                                  \
            for (unsigned l = 0; l < SIM_LANES; l++) {             \
                body;                                              \
            }                                                      \
        else                                                       \
            for (uint32_t rest = (exec); rest; rest &= rest - 1) { \
                unsigned l = sim_first_lane(rest);                 \
                body;                                              \
            }                                                      \
    } while (0)

/* Extends an element to its register: by its sign, or with zeros. */
static inline uint64_t extended(uint64_t value, uint32_t bytes,
                                uint32_t register_bytes, bool is_signed)
{
    if (is_signed && bytes < register_bytes) {
        unsigned shift = 64 - 8 * bytes;
        value = (uint64_t)((int64_t)(value << shift) >> shift);
        if (register_bytes < 8)
            value &= (UINT64_C(1) << 8 * register_bytes) - 1;
    }
    return value;
}

/* Element number i of every lane into the register of arg. */
static void load_element(const sim_access *a, uint8_t *regs, const sim_arg *arg,
                         uint32_t bytes, uint32_t i, bool is_signed)
{
    uint32_t exec = a->exec, at = i * bytes;
    uint32_t *d32 = SIM_U32(arg->slot);
    uint64_t *d64 = SIM_U64(arg->slot);
    uint32_t register_bytes = ptx_type_bytes(arg->type);
    if (bytes == 4 && arg->width == 4) {
        EACH_LANE(exec, memcpy(&d32[l], a->at[l] + at, 4));
    } else if (bytes == 2 && arg->width == 4 && !is_signed) {
        EACH_LANE(exec, {
            uint16_t value;
            memcpy(&value, a->at[l] + at, 2);
            d32[l] = value;
        });
    } else if (bytes == 1 && arg->width == 4 && !is_signed) {
        EACH_LANE(exec, d32[l] = a->at[l][at]);
    } else if (bytes == 8) {
        EACH_LANE(exec, memcpy(&d64[l], a->at[l] + at, 8));
    } else if (bytes == 16) {
        EACH_LANE(exec, memcpy(regs + arg->slot + 16 * l, a->at[l] + at, 16));
    } else {
        EACH_LANE(exec, {
            uint64_t value = 0;
            memcpy(&value, a->at[l] + at, bytes);
            value = extended(value, bytes, register_bytes, is_signed);
            if (arg->width == 4)
                d32[l] = (uint32_t)value;
            else
                d64[l] = value;
        });
    }
}

static void store_element(const sim_access *a, const uint8_t *regs,
                          const sim_arg *arg, uint32_t bytes, uint32_t i)
{
    uint32_t exec = a->exec, at = i * bytes;
    const uint8_t *from = regs + arg->slot;
    uint32_t step = arg->width;
    if (bytes == 4 && step == 4) {
        EACH_LANE(exec, memcpy(a->at[l] + at, from + 4 * l, 4));
    } else if (bytes == 8) {
        EACH_LANE(exec, memcpy(a->at[l] + at, from + 8 * l, 8));
    } else if (bytes == 2) {
        EACH_LANE(exec, memcpy(a->at[l] + at, from + step * l, 2));
    } else {
        EACH_LANE(exec, memcpy(a->at[l] + at, from + step * l, bytes));
    }
}

static inline bool is_signed_type(unsigned type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 ||
           type == PTX_S64;
}

/* A strong access orders what this warp did and does against other warps. */
static void order(const sim_access *a)
{
    struct sim_race *race = sim_cta_memory_of(a->w)->race;
    if (!race || !a->strong)
        return;
    sim_race_acquire(race, a->w->index, sim_race_atomics(race));
    sim_race_release(race, a->w->index, sim_race_atomics(race));
}

/* The register's 32 lanes and the memory are the same bytes in a row. */
static inline bool in_one_piece(const sim_access *a, const sim_arg *arg,
                                uint32_t bytes, uint32_t n)
{
    return a->run && n == 1 && bytes == arg->width && !a->staged && !a->local;
}

/* 32 lanes of a register in one piece, in steps of a known size: a copy of any
   size is dear to begin. */
static inline void copy_lanes(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        memcpy(to + i * SIM_LANES, from + i * SIM_LANES, SIM_LANES);
}

static inline void ld(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec, bool checks, bool strong, int count)
{
    if (!exec)
        return;
    const sim_args *args = in->args;
    const sim_arg *address = &args->arg[args->first[1]];
    uint32_t bytes = ptx_type_bytes(in->src->types[0]);
    uint32_t n = in->src->vector > 1 ? in->src->vector : 1;
    sim_access a;
    sim_access_begin(&a, in, w, exec, bytes * n, false, checks);
    a.strong = strong;
    a.count = count;
    sim_access_addresses(address, w, regs, a.addr);
    sim_access_resolve(&a, space_of_insn(in, w, address));
    if (checks)
        order(&a);
    const sim_arg *to = &args->arg[args->first[0]];
    if (in_one_piece(&a, to, bytes, n)) {
        copy_lanes(regs + to->slot, a.at[0], bytes);
        return;
    }
    bool is_signed = is_signed_type(in->src->types[0]);
    for (uint32_t i = 0; i < n; i++) {
        const sim_arg *d = &args->arg[args->first[0] + i];
        if (!(d->flags & SIM_ARG_SINK))
            load_element(&a, regs, d, bytes, i, is_signed);
    }
}

static inline void st(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec, bool checks, bool strong, int count)
{
    if (!exec)
        return;
    const sim_args *args = in->args;
    const sim_arg *address = &args->arg[args->first[0]];
    uint32_t bytes = ptx_type_bytes(in->src->types[0]);
    uint32_t n = in->src->vector > 1 ? in->src->vector : 1;
    sim_access a;
    sim_access_begin(&a, in, w, exec, bytes * n, true, checks);
    a.strong = strong;
    const sim_arg *from = &args->arg[args->first[1]];
    a.value = from;
    a.regs = regs;
    a.element = bytes;
    a.count = count;
    sim_access_addresses(address, w, regs, a.addr);
    if (checks)
        order(&a);
    sim_access_resolve(&a, space_of_insn(in, w, address));
    if (in_one_piece(&a, from, bytes, n)) {
        copy_lanes(a.at[0], regs + from->slot, bytes);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        store_element(&a, regs, &args->arg[args->first[1] + i], bytes, i);
    if (a.local)
        sim_access_finish(&a);
}

/* One handler per choice that is known beforehand. */
#define VARIANT(name, body, checks, strong, count)                   \
    static void name(const sim_insn *in, sim_warp *w, uint8_t *regs, \
                     uint32_t exec)                                  \
    {                                                                \
        body(in, w, regs, exec, checks, strong, count);              \
    }
VARIANT(ld_plain, ld, false, false, SIM_COUNT_LD)
VARIANT(ld_plain_l2, ld, false, false, SIM_COUNT_LD | SIM_COUNT_BYPASS_L1)
VARIANT(ld_checked, ld, true, false, SIM_COUNT_LD)
VARIANT(ld_checked_l2, ld, true, false, SIM_COUNT_LD | SIM_COUNT_BYPASS_L1)
VARIANT(ld_strong, ld, true, true, SIM_COUNT_LD | SIM_COUNT_BYPASS_L1)
VARIANT(st_plain, st, false, false, SIM_COUNT_ST)
VARIANT(st_checked, st, true, false, SIM_COUNT_ST)
VARIANT(st_strong, st, true, true, SIM_COUNT_ST)

static void op_nothing(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec)
{
    (void)in, (void)w, (void)regs, (void)exec;
}

/* Fences: memory is coherent here; for races they count as an order. */
static void op_fence(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    (void)regs;
    struct sim_race *race = sim_cta_memory_of(w)->race;
    if (!race || !exec)
        return;
    sim_race_release(race, w->index, sim_race_atomics(race));
    if (in->src->op == PTX_OP_FENCE_PROXY && ptx_has(in->src, PTX_MOD_ASYNC))
        sim_race_proxy_fence(race);
}

static void op_isspacep(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    const sim_args *args = in->args;
    const sim_arg *d = &args->arg[args->first[0]];
    uint64_t addr[SIM_LANES];
    bool cluster = ptx_has(in->src, PTX_MOD_SHARED_CLUSTER);
    sim_access_addresses(&args->arg[args->first[1]], w, regs, addr);
    uint32_t is = 0;
    for (unsigned l = 0; l < SIM_LANES; l++) {
        uint64_t top = addr[l] >> 40;
        bool yes;
        switch (in->src->space) {
        case PTX_SHARED:
            yes = top == SIM_SHARED_WINDOW >> 40 &&
                  (cluster ||
                   sim_shared_cta(w->cta, addr[l] & SIM_WINDOW_MASK) == w->cta);
            break;
        case PTX_LOCAL:
            yes = top == SIM_LOCAL_WINDOW >> 40;
            break;
        case PTX_PARAM:
            yes = top == SIM_PARAM_WINDOW >> 40;
            break;
        case PTX_CONST:
            yes = top == SIM_CONST_WINDOW >> 40;
            break;
        default:
            yes = addr[l] && (top < SIM_SHARED_WINDOW >> 40 ||
                              top > SIM_CONST_WINDOW >> 40);
        }
        is |= (uint32_t)yes << l;
    }
    SIM_PRED(d->slot) = (SIM_PRED(d->slot) & ~exec) | (is & exec);
}

/* A policy is a hint; its bits mean nothing here. */
static void op_createpolicy(const sim_insn *in, sim_warp *w, uint8_t *regs,
                            uint32_t exec)
{
    (void)w;
    uint64_t *d = SIM_U64(in->args->arg[in->args->first[0]].slot);
    EACH_LANE(exec, d[l] = 0);
}

sim_op sim_access_op(const ptx_insn *insn, bool checks)
{
    switch (insn->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
        if (checks && is_strong(insn))
            return ld_strong;
        if (bypasses_l1(insn))
            return checks ? ld_checked_l2 : ld_plain_l2;
        return checks ? ld_checked : ld_plain;
    case PTX_OP_ST:
        return !checks ? st_plain : is_strong(insn) ? st_strong : st_checked;
    case PTX_OP_MEMBAR:
    case PTX_OP_FENCE:
    case PTX_OP_FENCE_PROXY:
        return checks ? op_fence : op_nothing;
    case PTX_OP_PREFETCH:
    case PTX_OP_PREFETCHU:
    case PTX_OP_CP_ASYNC_BULK_PREFETCH:
    case PTX_OP_APPLYPRIORITY:
    case PTX_OP_DISCARD:
        return op_nothing;
    case PTX_OP_ISSPACEP:
        return op_isspacep;
    case PTX_OP_CREATEPOLICY:
    case PTX_OP_CREATEPOLICY_CVT:
        return op_createpolicy;
    default:
        return NULL;
    }
}

bool sim_memory_communicates(const ptx_insn *insn)
{
    if (insn->space != PTX_GLOBAL && insn->space != PTX_GENERIC)
        return false;
    switch (insn->op) {
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_CP_REDUCE_ASYNC_BULK:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR:
        return true;
    case PTX_OP_LD:
    case PTX_OP_ST:
        return is_strong(insn);
    default:
        return false;
    }
}
