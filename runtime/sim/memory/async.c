/*
 * cp.async: 4, 8 or 16 bytes from global to shared memory per lane.
 */
#include "async.h"

#include "memory_bits.h"
#include "race.h"

static sim_async *async_of(const sim_warp *w)
{
    return ((sim_warp_memory *)w->memory)->async;
}

sim_async *sim_async_new(void)
{
    return spt_calloc(1, sizeof(sim_async));
}

void sim_async_delete(sim_async *async)
{
    if (!async)
        return;
    spt_free(async->copies);
    spt_free(async->deferred);
    spt_free(async->bulks);
    spt_free(async);
}

void sim_async_begin(sim_async *async)
{
    async->count = async->n_deferred = async->n_bulks = 0;
    memset(async->committed, 0, sizeof async->committed);
    memset(async->bulk_committed, 0, sizeof async->bulk_committed);
}

/* A new entry of the list; NULL when out of memory. */
static sim_copy *append(sim_async *async)
{
    if (!spt_grow(&async->copies, &async->room, async->count + 1,
                  sizeof *async->copies))
        return NULL;
    return &async->copies[async->count++];
}

/* The thread reads for the copy engine, which writes and is not counted. */
static void begin(sim_access *a, const sim_insn *in, sim_warp *w,
                  uint32_t lanes, uint32_t bytes, bool write, bool checks)
{
    sim_access_begin(a, in, w, lanes, bytes, write, checks);
    a->async = write;
    a->count = write ? -1 : SIM_COUNT_ASYNC;
}

/* memcpy that knows the usual size. */
static inline void copy_bytes(uint8_t *to, const uint8_t *from, size_t n)
{
    if (n == 16)
        memcpy(to, from, 16);
    else
        memcpy(to, from, n);
}

static inline bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    uint64_t x[2], y[2];
    if (n != 16)
        return memcmp(a, b, n) == 0;
    memcpy(x, a, 16);
    memcpy(y, b, 16);
    return !((x[0] ^ y[0]) | (x[1] ^ y[1]));
}

/* How many bytes each lane reads: src-size, or none with ignore-src. */
static void source_sizes(const sim_insn *in, const uint8_t *regs,
                         uint32_t bytes, uint8_t *size)
{
    const sim_args *args = in->args;
    memset(size, (int)bytes, SIM_LANES);
    if (in->src->n_operands < 4)
        return;
    const sim_arg *arg = &args->arg[args->first[3]];
    if (arg->width == 0) {
        uint32_t ignore;
        memcpy(&ignore, regs + arg->slot, 4);
        for (unsigned l = 0; l < SIM_LANES; l++)
            if (ignore >> l & 1)
                size[l] = 0;
    } else if (arg->width == 4) {
        const uint32_t *want = (const void *)(regs + arg->slot);
        for (unsigned l = 0; l < SIM_LANES; l++)
            size[l] = (uint8_t)(want[l] < bytes ? want[l] : bytes);
    }
}

/* Checks and reads the source; lanes by their size, so that zero-filled parts
   are never touched. */
static void read_source(sim_access *a, sim_copy *copy, const sim_insn *in,
                        sim_warp *w, const uint8_t *regs, uint32_t exec,
                        bool checks)
{
    const sim_args *args = in->args;
    uint32_t whole = 0, part = 0;
    uint64_t bases[SIM_LANES]; /* resolving changes those of idle lanes */
    for (unsigned l = 0; l < SIM_LANES; l++)
        if ((exec >> l & 1) && copy->size[l])
            *(copy->size[l] == copy->bytes ? &whole : &part) |= 1u << l;
    begin(a, in, w, whole, copy->bytes, false, checks);
    sim_access_addresses(&args->arg[args->first[1]], w, regs, bases);
    memcpy(a->addr, bases, sizeof bases);
    memset(copy->from, 0, sizeof copy->from);
    a->failed = 0;
    if (whole)
        sim_access_resolve(a, PTX_GLOBAL);
    for (uint32_t rest = whole; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        copy_bytes(copy->data[l], a->at[l], copy->bytes);
        if (!(a->staged >> l & 1))
            copy->from[l] = a->at[l];
    }
    /* Odd sizes are read byte by byte. */
    for (uint32_t rest = part; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        a->exec = 1u << l;
        a->bytes = 1;
        for (uint32_t i = 0; i < copy->size[l]; i++) {
            a->addr[l] = bases[l] + i;
            sim_access_resolve(a, PTX_GLOBAL);
            copy->data[l][i] = *a->at[l];
        }
    }
}

static void cp_async(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec, bool checks)
{
    if (!exec)
        return;
    sim_async *async = async_of(w);
    sim_copy *copy = append(async);
    if (!copy) {
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    const sim_args *args = in->args;
    sim_access a;
    copy->in = in;
    copy->bytes = *(const uint8_t *)(regs + args->arg[args->first[2]].slot);
    memcpy(copy->group, async->committed, sizeof copy->group);
    source_sizes(in, regs, copy->bytes, copy->size);
    read_source(&a, copy, in, w, regs, exec, checks);
    uint32_t failed = a.failed;
    begin(&a, in, w, exec & ~failed, copy->bytes, true, checks);
    a.count = SIM_COUNT_ASYNC;
    sim_access_addresses(&args->arg[args->first[0]], w, regs, a.addr);
    sim_access_resolve(&a, PTX_SHARED);
    copy->lanes = a.exec & ~a.failed;
    sim_cta_memory *mem = sim_cta_memory_of(w);
    for (uint32_t rest = copy->lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        copy->to[l] = (uint32_t)sim_shared_offset(a.addr[l]);
        mem->flights++;
        if (mem->flight_bits)
            bits_mark(mem->flight_bits, copy->to[l], copy->bytes, true);
    }
}

/* Lanes that read all their bytes, and those that read none; false: others. */
static bool whole_or_none(const sim_insn *in, const uint8_t *regs,
                          uint32_t bytes, uint32_t exec, uint32_t *whole)
{
    uint8_t size[SIM_LANES];
    uint32_t part = 0;
    source_sizes(in, regs, bytes, size);
    *whole = 0;
    for (unsigned l = 0; l < SIM_LANES; l++) {
        *whole |= (uint32_t)(size[l] == bytes) << l;
        part |= (uint32_t)(size[l] && size[l] != bytes) << l;
    }
    *whole &= exec;
    return !(part & exec);
}

/*
 * Without checks nobody is told of a missing wait: a copy is done when it is
 * issued, which is one of the moments that the rules allow.
 */
static void op_cp_async(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    const sim_args *args = in->args;
    uint32_t bytes = *(const uint8_t *)(regs + args->arg[args->first[2]].slot);
    uint32_t whole;
    if (!exec || !whole_or_none(in, regs, bytes, exec, &whole)) {
        cp_async(in, w, regs, exec, false);
        return;
    }
    sim_access from, to;
    begin(&from, in, w, whole, bytes, false, false);
    from.failed = 0;
    if (whole) {
        sim_access_addresses(&args->arg[args->first[1]], w, regs, from.addr);
        sim_access_resolve(&from, PTX_GLOBAL);
    }
    begin(&to, in, w, exec & ~from.failed, bytes, true, false);
    to.count = SIM_COUNT_ASYNC;
    sim_access_addresses(&args->arg[args->first[0]], w, regs, to.addr);
    if (to.exec)
        sim_access_resolve(&to, PTX_SHARED);
    static const uint8_t zeros[16];
    for (uint32_t rest = to.exec & ~to.failed; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        const uint8_t *at = whole >> l & 1 ? from.at[l] : zeros;
        if (bytes == 16)
            memcpy(to.at[l], at, 16);
        else
            memcpy(to.at[l], at, bytes);
    }
}

static void op_cp_async_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                                uint32_t exec)
{
    cp_async(in, w, regs, exec, true);
}

/* The write of done lanes, as the race detector sees it. */
static void race_write(sim_warp *w, const sim_copy *copy, uint32_t lanes)
{
    sim_access a;
    begin(&a, copy->in, w, lanes, copy->bytes, true, true);
    for (unsigned l = 0; l < SIM_LANES; l++)
        a.addr[l] = copy->to[l];
    sim_race_access(sim_cta_memory_of(w)->race, &a, lanes, copy->to, NULL);
}

/* Moves the data of some lanes of one entry. */
static void land(sim_warp *w, sim_copy *copy, uint32_t lanes)
{
    sim_cta *cta = w->cta;
    sim_cta_memory *mem = cta->memory;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        const uint8_t *data = copy->data[l];
        uint32_t n = copy->size[l];
        if (copy->from[l]) {
            if (mem->flight_bits && !same_bytes(data, copy->from[l], n))
                sim_insn_report(w, copy->in, SPT_SIM_ASYNC_WRITE, l,
                                copy->to[l],
                                "its source changed while it was in flight");
            data = copy->from[l];
        }
        uint8_t *to = cta->shared + copy->to[l];
        copy_bytes(to, data, n);
        if (n < copy->bytes)
            memset(to + n, 0, copy->bytes - n);
        mem->flights--;
        if (mem->flight_bits) {
            bits_mark(mem->flight_bits, copy->to[l], copy->bytes, false);
            bits_mark(mem->shared_bits, copy->to[l], copy->bytes, true);
        }
    }
    copy->lanes &= ~lanes;
    if (lanes && mem->race)
        race_write(w, copy, lanes);
}

/* Drops entries that are done, keeping deferred arrivals' positions. */
static void compact(sim_async *async)
{
    size_t kept = 0;
    for (size_t i = 0; i < async->count; i++) {
        if (async->copies[i].lanes) {
            if (kept != i)
                async->copies[kept] = async->copies[i];
            kept++;
            continue;
        }
        for (size_t d = 0; d < async->n_deferred; d++)
            if (async->deferred[d].copies > kept)
                async->deferred[d].copies--;
    }
    async->count = kept;
}

void sim_async_perform(sim_warp *w, size_t n, uint32_t lanes)
{
    sim_async *async = async_of(w);
    for (size_t i = 0; i < n && i < async->count; i++)
        land(w, &async->copies[i], async->copies[i].lanes & lanes);
    compact(async);
}

static void op_commit(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    (void)in, (void)regs;
    sim_async *async = async_of(w);
    for (unsigned l = 0; l < SIM_LANES; l++)
        async->committed[l] += exec >> l & 1;
}

static void op_wait_group(const sim_insn *in, sim_warp *w, uint8_t *regs,
                          uint32_t exec)
{
    sim_async *async = async_of(w);
    uint32_t keep;
    memcpy(&keep, regs + in->args->arg[in->args->first[0]].slot, 4);
    for (size_t i = 0; i < async->count; i++) {
        sim_copy *copy = &async->copies[i];
        uint32_t done = 0;
        for (unsigned l = 0; l < SIM_LANES; l++)
            if (async->committed[l] > keep &&
                copy->group[l] < async->committed[l] - keep)
                done |= 1u << l;
        done &= copy->lanes & exec;
        if (done)
            land(w, copy, done);
    }
    compact(async);
}

static void op_wait_all(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    (void)in, (void)regs;
    sim_async_perform(w, SIZE_MAX, exec);
}

/* The arrival itself comes as late as a waiter can tell: when it looks. */
static void op_arrive(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    sim_async *async = async_of(w);
    uint64_t addr[SIM_LANES];
    bool noinc = ptx_has(in->src, PTX_MOD_NOINC);
    sim_access_addresses(&in->args->arg[in->args->first[0]], w, regs, addr);
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint32_t to =
            (uint32_t)(sim_shared_offset(addr[l]) & SIM_SHARED_OFFSET_MASK);
        if (!noinc)
            sim_mbarrier_await(w, in, l, to);
        size_t d = async->n_deferred;
        if (d && async->deferred[d - 1].in == in &&
            async->deferred[d - 1].address == to &&
            async->deferred[d - 1].copies == async->count &&
            !(async->deferred[d - 1].lanes >> l & 1)) {
            async->deferred[d - 1].lanes |= 1u << l;
            continue;
        }
        if (!spt_grow(&async->deferred, &async->deferred_room, d + 1,
                      sizeof *async->deferred)) {
            sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
            return;
        }
        async->deferred[async->n_deferred++] =
            (sim_deferred){in, to, 1u << l, async->count};
    }
}

void sim_async_end(sim_warp *w)
{
    sim_async *async = async_of(w);
    for (size_t i = 0; i < async->count; i++)
        if (async->copies[i].lanes && !w->cta->fault)
            sim_insn_report(w, async->copies[i].in, SPT_SIM_ASYNC_PENDING,
                            sim_first_lane(async->copies[i].lanes), 0, "");
    async->count = async->n_deferred = 0;
    sim_bulk_end(w);
}

sim_op sim_async_op(const ptx_insn *insn, bool checks)
{
    switch (insn->op) {
    case PTX_OP_CP_ASYNC:
        return checks ? op_cp_async_checked : op_cp_async;
    case PTX_OP_CP_ASYNC_COMMIT_GROUP:
        return op_commit;
    case PTX_OP_CP_ASYNC_WAIT_GROUP:
        return op_wait_group;
    case PTX_OP_CP_ASYNC_WAIT_ALL:
        return op_wait_all;
    case PTX_OP_CP_ASYNC_MBARRIER_ARRIVE:
        return op_arrive;
    default:
        return sim_bulk_op(insn);
    }
}
