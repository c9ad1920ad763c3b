/*
 * Vector clocks, and what a race's report says.
 *
 * Clocks run on from CTA to CTA, with all warps joined in between, so that
 * cells need no clearing. Where all warps meet, all clocks become the latest.
 */
#include <stdio.h>

#include "race_cells.h"

/* Where an instruction of the kernel stands, for a report. */
static void where_is(const sim_launch *launch, uint32_t insn, char *text,
                     size_t size)
{
    snprintf(text, size, "a called function");
    if (insn >= launch->func->n_insns)
        return;
    const ptx_insn *src = &launch->func->insns[insn];
    const ptx_module *m = launch->module;
    const char *file = src->file < m->n_files && m->files[src->file]
                           ? m->files[src->file]
                           : NULL;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (src->line && file)
        snprintf(text, size, "%.60s:%u", slash ? slash + 1 : file, src->line);
    else
        snprintf(text, size, "PTX line %u", src->ptx_line);
}

static void tell(void *user, const sim_access *a, uint32_t lane,
                 uint64_t address, const sim_race_other *other)
{
    (void)user;
    char where[80], detail[160], who[32] = "another thread of the warp";
    sim_place place;
    sim_place_of(a->w, a->in, lane, &place);
    where_is(a->w->launch, other->insn, where, sizeof where);
    if (other->warp != a->w->index)
        snprintf(who, sizeof who, "warp %u", other->warp);
    snprintf(detail, sizeof detail, "%s here, %s %s at %s",
             a->write ? "write" : "read", who, other->write ? "wrote" : "read",
             where);
    spt_sim_kind kind =
        a->write && other->write ? SPT_SIM_RACE_WRITE : SPT_SIM_RACE_READ;
    sim_report_add(kind, &place, address, 1, other->insn + 1, detail);
}

void sim_race_delete(sim_race *race)
{
    if (!race)
        return;
    race_cells_forget(race);
    spt_free(race->clock);
    spt_free(race->cell);
    spt_free(race->touched);
    spt_free(race);
}

sim_race *sim_race_new(uint32_t shared_bytes, uint32_t warps)
{
    sim_race *race = spt_calloc(1, sizeof *race);
    if (!race)
        return NULL;
    race->warps = warps;
    race->cells = (shared_bytes + RACE_CELL - 1) / RACE_CELL;
    race->clock = spt_calloc((size_t)warps * (warps + 4), sizeof(uint32_t));
    race->cell = spt_calloc(race->cells + 1, sizeof *race->cell);
    race->touched = spt_calloc(warps, sizeof *race->touched);
    if (!race->clock || !race->cell || !race->touched) {
        sim_race_delete(race);
        return NULL;
    }
    race->joined = race->clock + (size_t)warps * warps;
    race->atomics = race->joined + warps;
    race->last = race->atomics + warps;
    race->fenced = race->last + warps;
    race->found = tell;
    return race;
}

void sim_race_listen(sim_race *race, sim_race_found *found, void *user)
{
    race->found = found;
    race->user = user;
}

/* All warps know of everything so far. */
static void meet(sim_race *race)
{
    uint32_t n = race->warps, top = race->base;
    for (uint32_t w = 0; w < n; w++)
        if (race_clock(race, w)[w] > top)
            top = race_clock(race, w)[w];
    race->base = top;
    for (size_t i = 0; i < (size_t)n * n; i++)
        race->clock[i] = top;
    for (uint32_t w = 0; w < n && top < RACE_EPOCH_MAX; w++)
        race_clock(race, w)[w] = top + 1;
    memset(race->touched, 0, n * sizeof *race->touched);
}

void sim_race_begin(sim_race *race)
{
    meet(race);
    if (race->base > RACE_EPOCH_MAX / 2) {
        race_cells_forget(race);
        memset(race->clock, 0, (size_t)race->warps * race->warps * 4);
        memset(race->last, 0, race->warps * sizeof *race->last);
        race->base = 0;
        meet(race);
    }
    for (uint32_t w = 0; w < race->warps; w++)
        race->atomics[w] = race->fenced[w] = race->base;
}

static void advance(sim_race *race, uint32_t warp)
{
    uint32_t *own = &race_clock(race, warp)[warp];
    if (*own < RACE_EPOCH_MAX)
        ++*own;
}

void sim_race_warp(sim_race *race, uint32_t warp)
{
    /* Epochs are few: one in which nothing happened goes on. */
    if (race->touched[warp])
        advance(race, warp);
    race->touched[warp] = false;
}

/* A warp that has ended need not come, unless what it did last is not known
   to the others. */
static bool all_came(const sim_race *race, const uint32_t *synced,
                     uint32_t gone)
{
    for (uint32_t w = 0; w < race->warps; w++)
        if (!synced[w] && (!(gone >> w & 1) || race->last[w] > race->base))
            return false;
    return true;
}

void sim_race_barrier(sim_race *race, const uint32_t *synced, uint32_t gone)
{
    uint32_t n = race->warps;
    if (all_came(race, synced, gone)) {
        meet(race);
        return;
    }
    memset(race->joined, 0, n * sizeof *race->joined);
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t v = 0; synced[w] && v < n; v++)
            if (race_clock(race, w)[v] > race->joined[v])
                race->joined[v] = race_clock(race, w)[v];
    for (uint32_t w = 0; w < n; w++)
        if (synced[w]) {
            memcpy(race_clock(race, w), race->joined, n * sizeof(uint32_t));
            advance(race, w);
        }
}

void sim_race_release(sim_race *race, uint32_t warp, uint32_t *clock)
{
    const uint32_t *own = race_clock(race, warp);
    for (uint32_t v = 0; v < race->warps; v++)
        if (own[v] > clock[v])
            clock[v] = own[v];
    advance(race, warp);
}

void sim_race_acquire(sim_race *race, uint32_t warp, const uint32_t *clock)
{
    uint32_t *own = race_clock(race, warp);
    for (uint32_t v = 0; v < race->warps; v++)
        if (v != warp && clock[v] > own[v])
            own[v] = clock[v];
}

uint32_t *sim_race_atomics(sim_race *race)
{
    return race->atomics;
}

/* ---- the async proxy ---- */

void sim_race_proxy_fence(sim_race *race)
{
    for (uint32_t w = 0; w < race->warps; w++) {
        race->fenced[w] = race_clock(race, w)[w];
        sim_race_warp(race, w);
    }
}

/* What the async proxy itself writes needs no fence, nor do copies of
   cp.async, of which the manual does not say so. */
static bool is_by_thread(const sim_launch *launch, uint32_t insn)
{
    if (insn >= launch->func->n_insns)
        return false;
    switch (launch->func->insns[insn].op) {
    case PTX_OP_ST:
    case PTX_OP_STMATRIX:
    case PTX_OP_WMMA_STORE_D:
    case PTX_OP_ATOM:
    case PTX_OP_RED:
        return true;
    default:
        return false;
    }
}

static bool unit_unfenced(const sim_race *race, const sim_launch *launch,
                          int level, size_t unit, sim_race_other *other)
{
    for (uint32_t w = 0; w < race->warps; w++) {
        race_mark mark = race_marks(race, level, w, RACE_WRITE)[unit];
        uint32_t epoch = (uint32_t)(mark >> RACE_EPOCH_SHIFT);
        uint32_t insn = (uint32_t)((mark & RACE_INSN) >> RACE_INSN_SHIFT);
        if (epoch <= race->fenced[w] || !is_by_thread(launch, insn))
            continue;
        *other = (sim_race_other){w, epoch, insn, true};
        return true;
    }
    return false;
}

bool sim_race_unfenced(const sim_race *race, const sim_launch *launch,
                       uint32_t at, uint32_t bytes, sim_race_other *other)
{
    static const uint32_t sizes[RACE_LEVELS] = {RACE_CELL, 4, 1};
    for (uint32_t end = at + bytes; at < end; at += RACE_CELL) {
        uint32_t written = (uint32_t)race->cell[at / RACE_CELL];
        int level = (int)(written >> RACE_LEVEL_SHIFT & 3);
        uint32_t warp = written & RACE_MANY;
        if (!race->marks[level] ||
            (warp < race->warps &&
             written >> RACE_WORD_SHIFT <= race->fenced[warp]))
            continue;
        uint32_t size = sizes[level], n = RACE_CELL / size;
        for (uint32_t i = 0; i < n; i++)
            if (unit_unfenced(race, launch, level, at / RACE_CELL * n + i,
                              other))
                return true;
    }
    return false;
}

void sim_race_proxy_read(sim_warp *w, const sim_insn *in, unsigned lane,
                         uint32_t at, uint32_t bytes)
{
    const sim_race *race = sim_cta_memory_of(w)->race;
    sim_race_other other;
    if (!race || !sim_race_unfenced(race, w->launch, at, bytes, &other))
        return;
    char where[80], detail[160];
    sim_place place;
    where_is(w->launch, other.insn, where, sizeof where);
    snprintf(detail, sizeof detail,
             "warp %u wrote at %s, no fence.proxy.async since", other.warp,
             where);
    sim_place_of(w, in, lane, &place);
    sim_report_add(SPT_SIM_PROXY_FENCE, &place, at, 1, other.insn + 1, detail);
}
