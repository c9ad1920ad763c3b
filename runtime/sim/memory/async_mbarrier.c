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

/* An object: the CTA that has it, and where in its shared memory. */
typedef struct place {
    sim_cta *cta;
    uint32_t at;
} place;

/* Finds the object of an address, which may be another CTA's. */
static bool find(sim_warp *w, const sim_insn *in, unsigned lane,
                 uint32_t address, place *p)
{
    const sim_cta *own = w->cta;
    *p = (place){sim_shared_cta(w->cta, address),
                 address & (uint32_t)SIM_SHARED_OFFSET_MASK};
    if (p->at & 7) {
        sim_insn_report(w, in, SPT_SIM_MISALIGNED, lane, address, "mbarrier");
        return false;
    }
    if (!p->cta || (p->cta != own && sim_cta_has_ended(p->cta))) {
        sim_insn_report(w, in, SPT_SIM_BOUNDS_SHARED, lane, address,
                        "mbarrier of a block that has ended or never was");
        return false;
    }
    if (p->at < w->launch->shared_base || own->shared_bytes < 8 ||
        p->at > own->shared_bytes - 8) {
        sim_insn_report(w, in, SPT_SIM_BOUNDS_SHARED, lane, address,
                        "mbarrier");
        return false;
    }
    return true;
}

static bool get(sim_warp *w, const sim_insn *in, unsigned lane,
                uint32_t address, place *p, state *s)
{
    uint64_t word = 0;
    if (!find(w, in, lane, address, p))
        return false;
    memcpy(&word, p->cta->shared + p->at, 8);
    *s = unpack(word);
    if (!s->valid)
        sim_insn_report(w, in, SPT_SIM_MBARRIER, lane, address,
                        "not initialised");
    return s->valid;
}

static void phase_over(sim_cta *cta, uint32_t at)
{
    struct sim_mbarriers *table = ((sim_cta_memory *)cta->memory)->mbarriers;
    barrier_clock *c = table ? clock_of(table, at) : NULL;
    if (c)
        memcpy(c->over, c->arrived, table->warps * sizeof *c->over);
}

static void set(const place *p, state *s)
{
    if (!s->pending && !s->tx) {
        s->phase = !s->phase;
        s->pending = s->expected;
        phase_over(p->cta, p->at);
    }
    uint64_t word = pack(s);
    memcpy(p->cta->shared + p->at, &word, 8);
}

/* What another CTA orders counts as ordered for all warps of the object's. */
static void release(sim_warp *w, const place *p)
{
    sim_cta_memory *mem = p->cta->memory;
    barrier_clock *c = mem->race ? clock_of(mem->mbarriers, p->at) : NULL;
    bool own = p->cta == w->cta;
    for (uint32_t i = 0; c && !own && i < p->cta->n_warps; i++)
        sim_race_release(mem->race, i, c->arrived);
    if (c && own)
        sim_race_release(mem->race, w->index, c->arrived);
}

static void acquire(sim_warp *w, uint32_t at)
{
    sim_cta_memory *mem = sim_cta_memory_of(w);
    barrier_clock *c = mem->race ? clock_of(mem->mbarriers, at) : NULL;
    if (c)
        sim_race_acquire(mem->race, w->index, c->over);
}

/* barrier.cluster has a clock of its own in each CTA. */
enum { CLUSTER_AT = SIM_CLOCK_KEY };

void sim_clock_leave(sim_warp *w, uint32_t key)
{
    release(w, &(place){w->cta, key});
    phase_over(w->cta, key);
}

void sim_clock_take(sim_warp *w, uint32_t key)
{
    acquire(w, key);
}

void sim_memory_cluster_release(sim_warp *w)
{
    release(w, &(place){w->cta, CLUSTER_AT});
}

void sim_memory_cluster_over(sim_cta *cta)
{
    phase_over(cta, CLUSTER_AT);
}

void sim_memory_cluster_acquire(sim_warp *w)
{
    acquire(w, CLUSTER_AT);
}

static void arrive(sim_warp *w, const sim_insn *in, unsigned lane,
                   const place *p, state *s, uint32_t count, bool drop)
{
    if (count > s->pending) {
        sim_insn_report(w, in, SPT_SIM_MBARRIER, lane, p->at,
                        "more arrivals than the phase expects");
        return;
    }
    release(w, p);
    s->pending -= count;
    if (drop)
        s->expected -= count < s->expected ? count : s->expected;
    set(p, s);
}

void sim_mbarrier_arrive(sim_warp *w, const sim_insn *in, unsigned lane,
                         uint32_t address, uint32_t count, bool drop)
{
    state s;
    place p;
    if (get(w, in, lane, address, &p, &s))
        arrive(w, in, lane, &p, &s, count, drop);
}

void sim_mbarrier_await(sim_warp *w, const sim_insn *in, unsigned lane,
                        uint32_t address)
{
    state s;
    place p;
    if (!get(w, in, lane, address, &p, &s))
        return;
    s.pending++;
    set(&p, &s);
}

/* Performs what every warp has put off for this object. */
static void settle(sim_cta *cta, uint32_t address)
{
    for (uint32_t c = 0; c < cta->cluster->n; c++)
        for (uint32_t i = 0; i < cta->n_warps; i++)
            sim_bulk_settle(&cta->cluster->ctas[c].warps[i], cta, address);
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp *w = &cta->warps[i];
        sim_async *async = ((sim_warp_memory *)w->memory)->async;
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
    place p;
    if (!get(w, in, lane, address, &p, &s))
        return;
    release(w, &p);
    s.tx -= (int32_t)bytes;
    set(&p, &s);
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

/* Only a CTA's own threads make, end and wait for its objects. */
static bool own(sim_warp *w, const sim_insn *in, unsigned lane, const place *p)
{
    if (p->cta == w->cta)
        return true;
    sim_insn_report(w, in, SPT_SIM_MBARRIER, lane, p->at,
                    "this is for a block's own mbarriers");
    return false;
}

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
        place p;
        if (!find(w, in, l, at, &p) || !own(w, in, l, &p))
            continue;
        state s = {false, count, count, 0, true};
        uint64_t word = pack(&s);
        memcpy(w->cta->shared + p.at, &word, 8);
        if (sim_cta_memory_of(w)->shared_bits)
            bits_set(sim_cta_memory_of(w)->shared_bits, p.at, 8);
        sim_taint_shared_written(w->cta, p.at, 8);
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
        place p;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (get(w, in, l, at, &p, &s) && own(w, in, l, &p))
            memset(w->cta->shared + p.at, 0, 8);
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
        place p;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (!get(w, in, l, at, &p, &s))
            continue;
        s.tx += sign * (int32_t)lane_u32(regs, operand(in, 1), l, 0);
        if (s.tx > TX_MAX || s.tx < -TX_MAX)
            sim_insn_report(w, in, SPT_SIM_MBARRIER, l, at,
                            "bytes are not within 2^20-1");
        set(&p, &s);
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
        place p;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        if (!get(w, in, l, at, &p, &s))
            continue;
        uint32_t n = lane_u32(regs, operand(in, 2), l, 1);
        uint64_t token = pack(&s);
        if (bytes)
            s.tx += (int32_t)n;
        arrive(w, in, l, &p, &s, bytes ? 1 : n, drop);
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
        place p;
        uint32_t at = (uint32_t)sim_shared_offset(addr[l]);
        settle(w->cta, at & (uint32_t)SIM_SHARED_OFFSET_MASK);
        if (!get(w, in, l, at, &p, &s) || !own(w, in, l, &p))
            continue;
        if (s.phase == (lane_u32(regs, token, l, 0) & 1))
            continue;
        done |= 1u << l;
        acquire(w, p.at);
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
