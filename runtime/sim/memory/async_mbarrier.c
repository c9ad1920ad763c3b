/*
 * mbarrier objects. The 64 bits in shared memory, from bit 0: phase, expected
 * arrivals (20 bits), pending arrivals (20), pending bytes (21, signed), and
 * the mark 2 that tells an initialised object. Arrivals of cp.async are put
 * off until somebody looks at the object.
 */
#include "async.h"

#include "memory_bits.h"
#include "race.h"
#include "taint.h"

enum { COUNT_MAX = (1 << 20) - 1, TX_MAX = (1 << 20) - 1, MARK = 2 };

typedef struct state {
    bool phase;
    uint32_t expected, pending;
    int32_t tx;
    bool valid;
} state;

/* What arrivals order: clocks of the arrivals so far and of those whose phase
   is over. */
typedef struct barrier_clock {
    uint32_t address;
    uint32_t *arrived, *over;
} barrier_clock;

struct sim_mbarriers {
    uint32_t warps;
    size_t count, room;
    barrier_clock *clocks;
};

struct sim_mbarriers *sim_mbarriers_new(uint32_t warps)
{
    struct sim_mbarriers *table = spt_calloc(1, sizeof *table);
    if (table)
        table->warps = warps;
    return table;
}

void sim_mbarriers_begin(struct sim_mbarriers *table)
{
    for (size_t i = 0; i < table->count; i++)
        spt_free(table->clocks[i].arrived);
    table->count = 0;
}

void sim_mbarriers_delete(struct sim_mbarriers *table)
{
    if (!table)
        return;
    sim_mbarriers_begin(table);
    spt_free(table->clocks);
    spt_free(table);
}

static barrier_clock *clock_of(struct sim_mbarriers *table, uint32_t address)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->clocks[i].address == address)
            return &table->clocks[i];
    if (!spt_grow(&table->clocks, &table->room, table->count + 1,
                  sizeof *table->clocks))
        return NULL;
    uint32_t *both = spt_calloc(2 * (size_t)table->warps, sizeof *both);
    if (!both)
        return NULL;
    barrier_clock *c = &table->clocks[table->count++];
    *c = (barrier_clock){address, both, both + table->warps};
    return c;
}

static state unpack(uint64_t word)
{
    state s;
    s.phase = word & 1;
    s.expected = word >> 1 & COUNT_MAX;
    s.pending = word >> 21 & COUNT_MAX;
    s.tx = (int32_t)((uint32_t)(word >> 41) << 11) >> 11;
    s.valid = word >> 62 == MARK;
    return s;
}

static uint64_t pack(const state *s)
{
    return (uint64_t)s->phase | (uint64_t)s->expected << 1 |
           (uint64_t)s->pending << 21 |
           ((uint64_t)(uint32_t)s->tx & 0x1fffff) << 41 | (uint64_t)MARK << 62;
}

/* The object's place, or NULL with a report. */
static uint8_t *object(sim_warp *w, const sim_insn *in, unsigned lane,
                       uint32_t address)
{
    sim_cta *cta = w->cta;
    if (address & 7) {
        sim_insn_report(w, in, SPT_SIM_MISALIGNED, lane, address, "mbarrier");
        return NULL;
    }
    if (address < w->launch->shared_base || cta->shared_bytes < 8 ||
        address > cta->shared_bytes - 8) {
        sim_insn_report(w, in, SPT_SIM_BOUNDS_SHARED, lane, address,
                        "mbarrier");
        return NULL;
    }
    return cta->shared + address;
}

static bool get(sim_warp *w, const sim_insn *in, unsigned lane,
                uint32_t address, state *s)
{
    const uint8_t *at = object(w, in, lane, address);
    uint64_t word = 0;
    if (!at)
        return false;
    memcpy(&word, at, 8);
    *s = unpack(word);
    if (!s->valid)
        sim_insn_report(w, in, SPT_SIM_MBARRIER, lane, address,
                        "not initialised");
    return s->valid;
}

static void set(sim_warp *w, uint32_t address, state *s)
{
    if (!s->pending && !s->tx) {
        s->phase = !s->phase;
        s->pending = s->expected;
        struct sim_mbarriers *table = sim_cta_memory_of(w)->mbarriers;
        barrier_clock *c = table ? clock_of(table, address) : NULL;
        if (c)
            memcpy(c->over, c->arrived, table->warps * sizeof *c->over);
    }
    uint64_t word = pack(s);
    memcpy(w->cta->shared + address, &word, 8);
}

static void release(sim_warp *w, uint32_t address)
{
    sim_cta_memory *mem = sim_cta_memory_of(w);
    barrier_clock *c = mem->race ? clock_of(mem->mbarriers, address) : NULL;
    if (c)
        sim_race_release(mem->race, w->index, c->arrived);
}

static void acquire(sim_warp *w, uint32_t address)
{
    sim_cta_memory *mem = sim_cta_memory_of(w);
    barrier_clock *c = mem->race ? clock_of(mem->mbarriers, address) : NULL;
    if (c)
        sim_race_acquire(mem->race, w->index, c->over);
}

static void arrive(sim_warp *w, const sim_insn *in, unsigned lane,
                   uint32_t address, state *s, uint32_t count, bool drop)
{
    if (count > s->pending) {
        sim_insn_report(w, in, SPT_SIM_MBARRIER, lane, address,
                        "more arrivals than the phase expects");
        return;
    }
    release(w, address);
    s->pending -= count;
    if (drop)
        s->expected -= count < s->expected ? count : s->expected;
    set(w, address, s);
}

void sim_mbarrier_arrive(sim_warp *w, const sim_insn *in, unsigned lane,
                         uint32_t address, uint32_t count, bool drop)
{
    state s;
    if (get(w, in, lane, address, &s))
        arrive(w, in, lane, address, &s, count, drop);
}

void sim_mbarrier_await(sim_warp *w, const sim_insn *in, unsigned lane,
                        uint32_t address)
{
    state s;
    if (!get(w, in, lane, address, &s))
        return;
    s.pending++;
    set(w, address, &s);
}

/* Performs what every warp has put off for this object. */
static void settle(sim_cta *cta, uint32_t address)
{
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        sim_async *async = ((sim_warp_memory *)w->memory)->async;
        sim_bulk_settle(w, address);
        for (size_t d = 0; d < async->n_deferred;) {
            sim_deferred one = async->deferred[d];
            if (one.address != address) {
                d++;
                continue;
            }
            memmove(async->deferred + d, async->deferred + d + 1,
                    (--async->n_deferred - d) * sizeof one);
            sim_async_perform(w, one.copies, one.lanes);
            sim_mbarrier_arrive(w, one.in, sim_first_lane(one.lanes), address,
                                (uint32_t)__builtin_popcount(one.lanes), false);
        }
    }
}

void sim_mbarrier_complete(sim_warp *w, const sim_insn *in, unsigned lane,
                           uint32_t address, uint32_t bytes)
{
    state s;
    if (!get(w, in, lane, address, &s))
        return;
    release(w, address);
    s.tx -= (int32_t)bytes;
    set(w, address, &s);
}

static const sim_arg *operand(const sim_insn *in, int i)
{
    return i < in->src->n_operands ? &in->args->arg[in->args->first[i]] : NULL;
}

static uint32_t lane_u32(const uint8_t *regs, const sim_arg *arg, unsigned l,
                         uint32_t otherwise)
{
    uint32_t value = otherwise;
    if (arg)
        memcpy(&value, regs + arg->slot + arg->width * l, 4);
    return value;
}

#define EACH(exec, l)                   \
    for (uint32_t rest = (exec), l = 0; \
         rest && (l = sim_first_lane(rest), true); rest &= rest - 1)

static void op_init(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    uint64_t addr[SIM_LANES];
    sim_access_addresses(operand(in, 0), w, regs, addr);
    EACH(exec, l)
    {
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        uint32_t count = lane_u32(regs, operand(in, 1), l, 1);
        if (count < 1 || count > COUNT_MAX) {
            sim_insn_report(w, in, SPT_SIM_MBARRIER, l, at,
                            "count is not in 1 to 2^20-1");
            continue;
        }
        if (!object(w, in, l, at))
            continue;
        state s = {false, count, count, 0, true};
        uint64_t word = pack(&s);
        memcpy(w->cta->shared + at, &word, 8);
        if (sim_cta_memory_of(w)->shared_bits)
            bits_set(sim_cta_memory_of(w)->shared_bits, at, 8);
        sim_taint_shared_written(w->cta, at, 8);
    }
}

static void op_inval(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    uint64_t addr[SIM_LANES];
    sim_access_addresses(operand(in, 0), w, regs, addr);
    EACH(exec, l)
    {
        state s;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (get(w, in, l, at, &s))
            memset(w->cta->shared + at, 0, 8);
    }
}

static void op_tx(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    uint64_t addr[SIM_LANES];
    int sign = in->src->op == PTX_OP_MBARRIER_EXPECT_TX ? 1 : -1;
    sim_access_addresses(operand(in, 0), w, regs, addr);
    EACH(exec, l)
    {
        state s;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (!get(w, in, l, at, &s))
            continue;
        s.tx += sign * (int32_t)lane_u32(regs, operand(in, 1), l, 0);
        if (s.tx > TX_MAX || s.tx < -TX_MAX)
            sim_insn_report(w, in, SPT_SIM_MBARRIER, l, at,
                            "bytes are not within 2^20-1");
        set(w, at, &s);
    }
}

static void op_arrive(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    uint64_t addr[SIM_LANES];
    const sim_arg *d = operand(in, 0);
    bool drop = in->src->op == PTX_OP_MBARRIER_ARRIVE_DROP;
    bool bytes = ptx_has(in->src, PTX_MOD_EXPECT_TX);
    sim_access_addresses(operand(in, 1), w, regs, addr);
    EACH(exec, l)
    {
        state s;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (!get(w, in, l, at, &s))
            continue;
        uint32_t n = lane_u32(regs, operand(in, 2), l, 1);
        uint64_t token = pack(&s);
        if (bytes)
            s.tx += (int32_t)n;
        arrive(w, in, l, at, &s, bytes ? 1 : n, drop);
        if (!(d->flags & SIM_ARG_SINK))
            SIM_U64(d->slot)[l] = token;
    }
}

static void op_wait(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    uint64_t addr[SIM_LANES];
    const sim_arg *d = operand(in, 0), *token = operand(in, 2);
    uint32_t done = 0;
    sim_access_addresses(operand(in, 1), w, regs, addr);
    EACH(exec, l)
    {
        state s;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        settle(w->cta, at);
        if (!get(w, in, l, at, &s))
            continue;
        if (s.phase == (lane_u32(regs, token, l, 0) & 1))
            continue;
        done |= 1u << l;
        acquire(w, at);
    }
    SIM_PRED(d->slot) = (SIM_PRED(d->slot) & ~exec) | done;
    if (done != exec)
        sim_yield(w);
}

static void op_pending(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec)
{
    (void)w;
    const uint64_t *token = SIM_U64(operand(in, 1)->slot);
    EACH(exec, l)
    SIM_U32(operand(in, 0)->slot)[l] = unpack(token[l]).pending;
}

sim_op sim_mbarrier_op(const ptx_insn *insn, bool checks)
{
    (void)checks;
    switch (insn->op) {
    case PTX_OP_MBARRIER_INIT:
        return op_init;
    case PTX_OP_MBARRIER_INVAL:
        return op_inval;
    case PTX_OP_MBARRIER_EXPECT_TX:
    case PTX_OP_MBARRIER_COMPLETE_TX:
        return op_tx;
    case PTX_OP_MBARRIER_ARRIVE:
    case PTX_OP_MBARRIER_ARRIVE_DROP:
        return op_arrive;
    case PTX_OP_MBARRIER_TEST_WAIT:
    case PTX_OP_MBARRIER_TRY_WAIT:
        return op_wait;
    case PTX_OP_MBARRIER_PENDING_COUNT:
        return op_pending;
    default:
        return NULL;
    }
}
