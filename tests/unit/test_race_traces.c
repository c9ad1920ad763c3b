/*
 * Races by random traces: the detector against the plainest one there is,
 * which keeps for every byte the last read and write of every warp. Both must
 * hear of the same races, in the same order.
 */
#include "check.h"
#include "mem.h"
#include "race.h"

enum {
    WARPS_MAX = 6,
    SHARED = 640,
    INSNS = 6,
    OBJECTS = 2,
    TRACES = 3000,
    EVENTS_MAX = 20000,
    PART = 16,
};

/* ---- the plain detector ---- */

typedef struct mark {
    uint32_t epoch, insn, lane; /* epoch 0: none */
} mark;

enum { SEVERAL = 99 };

typedef struct plain {
    uint32_t warps, base;
    uint32_t clock[WARPS_MAX][WARPS_MAX];
    bool touched[WARPS_MAX];
    mark last[SHARED][WARPS_MAX][2];
} plain;

typedef struct event {
    uint32_t access, lane, warp, insn;
    bool write;
    uint64_t address;
} event;

typedef struct events {
    size_t count;
    event list[EVENTS_MAX];
} events;

typedef struct trace {
    uint64_t random;
    uint32_t warps, access, gone;
    sim_race *race;
    plain p;
    events heard, expected;
    uint32_t object[OBJECTS][2][WARPS_MAX]; /* clocks: of both detectors */
    ptx_insn insns[INSNS];
    sim_insn in[INSNS];
    ptx_func func;
    sim_launch launch;
    sim_cta cta;
    sim_warp warp[WARPS_MAX];
    sim_shapes shapes;
    uint8_t shared[SHARED];
    uint8_t regs[32 * 32];
    sim_arg value[8];
} trace;

static uint32_t pick(trace *t, uint32_t n)
{
    t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(t->random >> 33) % n;
}

static void add(events *e, const event *one)
{
    if (e->count < EVENTS_MAX)
        e->list[e->count++] = *one;
}

static void plain_begin(plain *p)
{
    uint32_t top = 0;
    for (uint32_t w = 0; w < p->warps; w++)
        top = p->clock[w][w] > top ? p->clock[w][w] : top;
    p->base = top;
    for (uint32_t w = 0; w < p->warps; w++)
        for (uint32_t v = 0; v < p->warps; v++)
            p->clock[w][v] = top + (v == w);
}

static void plain_barrier(plain *p, const uint32_t *synced)
{
    uint32_t joined[WARPS_MAX] = {0};
    for (uint32_t w = 0; w < p->warps; w++)
        for (uint32_t v = 0; synced[w] && v < p->warps; v++)
            if (p->clock[w][v] > joined[v])
                joined[v] = p->clock[w][v];
    for (uint32_t w = 0; w < p->warps; w++)
        if (synced[w]) {
            memcpy(p->clock[w], joined, sizeof joined);
            p->clock[w][w]++;
        }
}

static bool same_value(const trace *t, const sim_access *a, uint32_t lanes,
                       uint64_t address)
{
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t k = address - a->addr[l];
        if (!(lanes >> l & 1) || k >= a->bytes)
            continue;
        const sim_arg *from = &a->value[k / a->element];
        if (t->regs[from->slot + l * from->width + k % a->element] !=
            t->shared[address])
            return false;
    }
    return true;
}

/* One byte: what races with it goes to found, mask says on which bytes. */
static void plain_byte(plain *p, const sim_access *a, uint64_t address,
                       mark mine, event *found, uint32_t *mask, uint32_t *n)
{
    mark *own = &p->last[address][a->w->index][a->write];
    if (own->epoch == mine.epoch && own->lane == mine.lane)
        return;
    for (uint32_t w = 0; w < p->warps; w++)
        for (int write = 1; write >= 0; write--) {
            mark m = p->last[address][w][write];
            bool races = m.epoch > p->base && (a->write || write);
            if (w != a->w->index)
                races &= m.epoch > p->clock[a->w->index][w];
            else
                races &= m.epoch == mine.epoch && m.lane != mine.lane &&
                         !(a->write && write && m.insn == mine.insn);
            if (!races)
                continue;
            /* `access` holds the epoch until the event is passed on. */
            event e = {m.epoch, 0, w, m.insn, write, 0};
            uint32_t i = 0;
            while (i < *n && memcmp(&found[i], &e, sizeof e) != 0)
                i++;
            found[i] = e;
            mask[i] = (i < *n ? mask[i] : 0) | 1u << address % PART;
            *n += i == *n;
        }
    if (!a->write && own->epoch == mine.epoch && own->lane != mine.lane)
        mine.lane = SEVERAL;
    *own = mine;
}

static void plain_part(trace *t, const sim_access *a, uint64_t at, uint64_t to,
                       uint64_t from, uint32_t lane, uint32_t repeated)
{
    event found[PART * WARPS_MAX * 2];
    uint32_t mask[PART * WARPS_MAX * 2], n = 0;
    uint32_t insn = (uint32_t)(a->in - t->in);
    uint32_t epoch = t->p.clock[a->w->index][a->w->index];
    memset(found, 0, sizeof found);
    for (uint64_t b = at; b < to; b++) {
        uint32_t i = (uint32_t)((b - from) / a->bytes);
        mark mine = {epoch, insn, repeated >> i & 1 ? SEVERAL : lane + i};
        plain_byte(&t->p, a, b, mine, found, mask, &n);
    }
    for (uint32_t i = 0; i < n; i++) {
        event e = found[i];
        bool same = a->write && e.write && a->value;
        for (uint64_t b = 0; same && b < PART; b++)
            if (mask[i] >> b & 1)
                same = same_value(t, a, a->exec, at / PART * PART + b);
        e.access = t->access;
        e.lane = lane + (uint32_t)((at - from) / a->bytes);
        e.address = at;
        if (!same)
            add(&t->expected, &e);
    }
}

/* Lanes of 16 bytes and more are looked at one by one. */
static bool joins(const sim_access *a, uint32_t lane)
{
    return (a->exec >> lane & 1) && a->bytes < PART;
}

static void plain_access(trace *t, const sim_access *a)
{
    t->p.touched[a->w->index] = true;
    for (uint32_t l = 0; l < SIM_LANES;) {
        if (!(a->exec >> l & 1)) {
            l++;
            continue;
        }
        uint32_t lane = l, repeated = 0;
        uint64_t from = a->addr[l], to = from;
        do
            to += a->bytes, l++;
        while (l < SIM_LANES && joins(a, l) && a->addr[l] == to);
        for (; l < SIM_LANES && joins(a, l) && a->addr[l] >= from &&
               a->addr[l] + a->bytes <= to;
             l++)
            repeated |= 1u << (a->addr[l] - from) / a->bytes;
        for (uint64_t at = from, end; at < to; at = end) {
            end = at / PART * PART + PART;
            end = end < to ? end : to;
            plain_part(t, a, at, end, from, lane, a->write ? 0 : repeated);
        }
    }
}

/* ---- traces ---- */

static void hear(void *user, const sim_access *a, uint32_t lane,
                 uint64_t address, const sim_race_other *other)
{
    trace *t = user;
    event e;
    memset(&e, 0, sizeof e);
    e = (event){t->access,   lane,         other->warp,
                other->insn, other->write, address};
    (void)a;
    add(&t->heard, &e);
}

/* Addresses of the usual shapes, and of none. */
static void addresses(trace *t, sim_access *a)
{
    uint32_t room = SHARED / a->bytes, shape = pick(t, 7);
    uint32_t start = pick(t, room), stride = 1 + pick(t, 5);
    uint32_t turn = pick(t, 32);
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint32_t unit = start; /* shape 0: all lanes the same */
        if (shape == 1 || shape == 2)
            unit = start + l;
        else if (shape == 3)
            unit = start + l % 16;
        else if (shape == 4)
            unit = start + l / 16;
        else if (shape == 5)
            unit = start + (l ^ turn) * stride;
        else if (shape == 6)
            unit = pick(t, room);
        a->addr[l] = (uint64_t)(unit % room) * a->bytes;
    }
}

static void fill_values(trace *t, sim_access *a)
{
    bool often = pick(t, 4) == 0;
    a->element = a->bytes > 4 ? 4 : a->bytes;
    a->value = pick(t, 3) ? t->value : NULL;
    a->regs = t->regs;
    for (uint32_t i = 0; i < 8; i++)
        t->value[i] = (sim_arg){.slot = 128 * i, .width = 4};
    for (size_t i = 0; i < sizeof t->regs; i++)
        t->regs[i] = often && pick(t, 40) == 0;
}

static void random_access(trace *t)
{
    static const uint32_t sizes[] = {1, 2, 4, 4, 4, 8, 16, 16, 32};
    sim_access a;
    memset(&a, 0, sizeof a);
    uint32_t warp = pick(t, t->warps);
    a.w = &t->warp[warp];
    if (t->gone >> warp & 1)
        return;
    a.in = &t->in[pick(t, INSNS)];
    a.bytes = sizes[pick(t, sizeof sizes / sizeof *sizes)];
    a.write = pick(t, 3) == 0;
    a.exec = UINT32_MAX;
    if (pick(t, 3) == 0)
        a.exec = pick(t, 2) ? pick(t, 1 << 30) : 1u << pick(t, 32);
    if (!a.exec)
        return;
    addresses(t, &a);
    if (a.write)
        fill_values(t, &a);
    a.run = a.exec == UINT32_MAX;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        a.run &= a.addr[l] == a.addr[0] + l * a.bytes;
    t->access++;
    uint32_t at[SIM_LANES];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        at[l] = (uint32_t)a.addr[l];
    sim_race_access(t->race, &a, a.exec, at,
                    a.bytes < PART
                        ? sim_shape_of(&t->shapes, at, a.exec, a.bytes, a.write)
                        : NULL);
    plain_access(t, &a);
}

static void random_barrier(trace *t, bool all)
{
    uint32_t synced[WARPS_MAX];
    for (uint32_t w = 0; w < t->warps; w++)
        synced[w] = t->gone >> w & 1 ? 0 : all || pick(t, 2);
    sim_race_barrier(t->race, synced, t->gone);
    plain_barrier(&t->p, synced);
}

static void random_order(trace *t)
{
    uint32_t warp = pick(t, t->warps), object = pick(t, OBJECTS);
    uint32_t *own = t->p.clock[warp], *clock = t->object[object][1];
    if (t->gone >> warp & 1)
        return;
    if (pick(t, 2)) {
        sim_race_release(t->race, warp, t->object[object][0]);
        for (uint32_t v = 0; v < t->warps; v++)
            clock[v] = own[v] > clock[v] ? own[v] : clock[v];
        own[warp]++;
    } else {
        sim_race_acquire(t->race, warp, t->object[object][0]);
        for (uint32_t v = 0; v < t->warps; v++)
            if (v != warp && clock[v] > own[v])
                own[v] = clock[v];
    }
}

static void random_step(trace *t, uint32_t order)
{
    uint32_t warp = pick(t, t->warps);
    switch (pick(t, 10 + order)) {
    case 0:
        random_barrier(t, true);
        break;
    case 1:
        if (pick(t, 12) == 0)
            t->gone |= 1u << warp;
        break;
    case 2:
        if (pick(t, 8) == 0) {
            sim_race_begin(t->race);
            plain_begin(&t->p);
            memset(t->object, 0, sizeof t->object);
            t->gone = 0;
        }
        break;
    case 10:
    case 11:
        random_barrier(t, false);
        break;
    case 12:
    case 13:
    case 14:
        random_order(t);
        break;
    default:
        random_access(t);
    }
    if (pick(t, 3) == 0) {
        sim_race_warp(t->race, warp);
        t->p.clock[warp][warp] += t->p.touched[warp];
        t->p.touched[warp] = false;
    }
}

static bool trace_open(trace *t, uint32_t seed)
{
    memset(t, 0, sizeof *t);
    t->random = seed;
    t->warps = t->p.warps = 1 + pick(t, WARPS_MAX);
    t->func.insns = t->insns;
    t->func.n_insns = INSNS;
    t->launch.func = &t->func;
    t->cta.launch = &t->launch;
    t->cta.shared = t->shared;
    for (uint32_t i = 0; i < INSNS; i++)
        t->in[i].src = &t->insns[i];
    for (uint32_t w = 0; w < t->warps; w++) {
        t->warp[w].index = w;
        t->warp[w].cta = &t->cta;
        t->warp[w].launch = &t->launch;
    }
    t->race = sim_race_new(SHARED, t->warps);
    if (!t->race)
        return false;
    sim_race_listen(t->race, hear, t);
    sim_race_begin(t->race);
    plain_begin(&t->p);
    return true;
}

/* Where the two part for the first time. */
static void show(const trace *t, uint32_t seed)
{
    const events *lists[] = {&t->heard, &t->expected};
    size_t i = 0;
    while (i < t->heard.count && i < t->expected.count &&
           memcmp(&t->heard.list[i], &t->expected.list[i], sizeof(event)) == 0)
        i++;
    printf("# seed %u: %zu heard, %zu expected\n", seed, t->heard.count,
           t->expected.count);
    for (int k = 0; k < 2; k++)
        if (i < lists[k]->count) {
            const event *e = &lists[k]->list[i];
            printf("# %s: access %u lane %u address %llu warp %u insn %u %s\n",
                   k ? "expected" : "heard", e->access, e->lane,
                   (unsigned long long)e->address, e->warp, e->insn,
                   e->write ? "write" : "read");
        }
}

/* Races that two detectors heard of, 0 where they differ. */
static size_t run_trace(trace *t, uint32_t seed, bool *same)
{
    *same = false;
    if (!trace_open(t, seed))
        return 0;
    uint32_t order = seed % 3 ? 5 : 0, steps = 40 + pick(t, 100);
    for (uint32_t i = 0; i < steps; i++)
        random_step(t, order);
    *same = t->heard.count == t->expected.count &&
            memcmp(t->heard.list, t->expected.list,
                   t->heard.count * sizeof(event)) == 0;
    sim_race_delete(t->race);
    return t->expected.count;
}

/* Epochs run out: what is not known any more is no race, and the next CTA
   begins anew. */
static void check_epochs(trace *t)
{
    sim_access read, write;
    uint32_t at[SIM_LANES] = {0};
    if (!trace_open(t, 2) || t->warps < 2)
        return;
    memset(&read, 0, sizeof read);
    read.w = &t->warp[0];
    read.in = &t->in[0];
    read.bytes = 4;
    read.exec = 1;
    write = read;
    write.w = &t->warp[1];
    write.in = &t->in[1];
    write.write = true;
    sim_race_access(t->race, &read, 1, at, NULL);
    for (uint32_t i = 0; i < 1 << 24; i++) {
        sim_race_access(t->race, &read, 1, at, NULL);
        sim_race_warp(t->race, 0);
    }
    sim_race_begin(t->race);
    sim_race_access(t->race, &write, 1, at, NULL);
    CHECK(t->heard.count == 0, "a CTA after 2^24 epochs begins anew");
    sim_race_access(t->race, &read, 1, at, NULL);
    CHECK(t->heard.count == 1, "and has its races");
    sim_race_delete(t->race);
}

int main(void)
{
    trace *t = malloc(sizeof *t);
    size_t races = 0, quiet = 0;
    uint32_t wrong = 0;
    if (!t)
        return 1;
    for (uint32_t seed = 1; seed <= TRACES && wrong < 3; seed++) {
        bool same;
        size_t n = run_trace(t, seed, &same);
        races += n;
        quiet += n == 0;
        if (!same) {
            wrong++;
            show(t, seed);
        }
    }
    CHECK(!wrong, "%d traces: the same races", TRACES);
    CHECK(races > TRACES && quiet > 10, "%zu races, %zu traces without", races,
          quiet);
    check_epochs(t);
    free(t);
    return check_done();
}
