/*
 * Vector clocks, and what a race's report says.
 *
 * Clocks run on from CTA to CTA, with all warps joined in between, so that
 * cells need no clearing. Where all warps meet, all clocks become the latest.
 */
#include <stdio.h>

#include "race_cells.h"

static void tell(void *user, const sim_access *a, uint32_t lane,
                 uint64_t address, const sim_race_other *other)
{
    (void)user;
    const sim_launch *launch = a->w->launch;
    char where[80] = "a called function";
    sim_place place;
    sim_place_of(a->w, a->in, lane, &place);
    if (other->insn < launch->func->n_insns) {
        const ptx_insn *insn = &launch->func->insns[other->insn];
        const ptx_module *m = launch->module;
        const char *file = insn->file < m->n_files && m->files[insn->file]
                               ? m->files[insn->file]
                               : NULL;
        const char *slash = file ? strrchr(file, '/') : NULL;
        if (insn->line && file)
            snprintf(where, sizeof where, "%.60s:%u", slash ? slash + 1 : file,
                     insn->line);
        else
            snprintf(where, sizeof where, "PTX line %u", insn->ptx_line);
    }
    char detail[160], who[32] = "another thread of the warp";
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
    race->clock = spt_calloc((size_t)warps * (warps + 3), sizeof(uint32_t));
    race->cell = spt_calloc(race->cells + 1, sizeof *race->cell);
    race->touched = spt_calloc(warps, sizeof *race->touched);
    if (!race->clock || !race->cell || !race->touched) {
        sim_race_delete(race);
        return NULL;
    }
    race->joined = race->clock + (size_t)warps * warps;
    race->atomics = race->joined + warps;
    race->last = race->atomics + warps;
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
        race->atomics[w] = race->base;
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
