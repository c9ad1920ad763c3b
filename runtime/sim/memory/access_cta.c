/*
 * What the memory spaces keep per CTA and per warp, and which file has the
 * handler of an instruction.
 */
#include "access.h"
#include "async.h"
#include "race.h"

static size_t words_of_bits(uint64_t bytes)
{
    return (size_t)(bytes / 64 + 1);
}

static bool warp_open(sim_warp *w, uint64_t local_bytes, bool checks)
{
    sim_warp_memory *mem = spt_calloc(1, sizeof *mem);
    w->memory = mem;
    if (!mem || !(mem->async = sim_async_new()))
        return false;
    if (!checks || !local_bytes)
        return true;
    mem->local_bits =
        spt_calloc(words_of_bits(local_bytes * SIM_LANES), sizeof(uint64_t));
    return mem->local_bits != NULL;
}

bool sim_memory_cta_open(sim_cta *cta)
{
    bool checks = cta->launch->args.checks;
    sim_cta_memory *mem = spt_calloc(1, sizeof *mem);
    bool ok = (cta->memory = mem) != NULL;
    cta->watched = checks || cta->counts;
    if (ok && checks) {
        size_t words = words_of_bits(cta->shared_bytes);
        mem->shared_bits = spt_calloc(words, sizeof(uint64_t));
        mem->flight_bits = spt_calloc(words, sizeof(uint64_t));
        mem->race = sim_race_new(cta->shared_bytes, cta->n_warps);
        mem->shapes = spt_calloc(1, sizeof *mem->shapes);
        mem->mbarriers = sim_mbarriers_new(cta->n_warps);
        ok = mem->shared_bits && mem->flight_bits && mem->race && mem->shapes &&
             mem->mbarriers;
    }
    for (uint32_t i = 0; ok && i < cta->n_warps; i++)
        ok = warp_open(&cta->warps[i], cta->launch->local_bytes, checks);
    if (!ok)
        sim_memory_cta_close(cta);
    return ok;
}

void sim_memory_cta_close(sim_cta *cta)
{
    sim_cta_memory *mem = cta->memory;
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp_memory *of_warp = cta->warps[i].memory;
        if (!of_warp)
            continue;
        sim_async_delete(of_warp->async);
        sim_wgmma_delete(of_warp->wgmma);
        spt_free(of_warp->local_bits);
        spt_free(of_warp);
        cta->warps[i].memory = NULL;
    }
    if (!mem)
        return;
    sim_race_delete(mem->race);
    sim_mbarriers_delete(mem->mbarriers);
    spt_free(mem->shapes);
    spt_free(mem->shared_bits);
    spt_free(mem->flight_bits);
    spt_free(mem);
    cta->memory = NULL;
}

/* What the last CTA left behind is gone: memory starts as poison. */
void sim_memory_cta_begin(sim_cta *cta)
{
    sim_cta_memory *mem = cta->memory;
    uint64_t local = cta->launch->local_bytes * SIM_LANES;
    memset(mem->ranges, 0, sizeof mem->ranges);
    mem->flights = 0;
    if (cta->shared_bytes)
        memset(cta->shared, SIM_POISON, cta->shared_bytes);
    for (uint32_t i = 0; i < cta->n_warps; i++) {
        sim_warp_memory *of_warp = cta->warps[i].memory;
        sim_async_begin(of_warp->async);
        sim_wgmma_begin(&cta->warps[i]);
        if (local)
            memset(cta->warps[i].local, SIM_POISON, local);
        if (of_warp->local_bits)
            memset(of_warp->local_bits, 0, words_of_bits(local) * 8);
    }
    if (!mem->shared_bits)
        return;
    memset(mem->shared_bits, 0, words_of_bits(cta->shared_bytes) * 8);
    memset(mem->flight_bits, 0, words_of_bits(cta->shared_bytes) * 8);
    sim_race_begin(mem->race);
    sim_mbarriers_begin(mem->mbarriers);
}

void sim_memory_cta_end(sim_cta *cta)
{
    for (uint32_t i = 0; i < cta->n_warps; i++)
        sim_async_end(&cta->warps[i]);
    for (uint32_t i = 0; i < cta->n_warps; i++)
        sim_wgmma_end(&cta->warps[i]);
}

void sim_memory_barrier(sim_cta *cta)
{
    sim_cta_memory *mem = cta->memory;
    uint32_t gone = 0;
    if (!mem->race)
        return;
    for (uint32_t i = 0; i < cta->n_warps; i++)
        gone |= (uint32_t)!cta->warps[i].alive << i;
    sim_race_barrier(mem->race, cta->synced, gone);
}

void sim_memory_warp_sync(sim_warp *w)
{
    sim_cta_memory *mem = w->cta->memory;
    if (mem->race)
        sim_race_warp(mem->race, w->index);
}

sim_op sim_memory_op(const ptx_insn *insn, bool checks)
{
    sim_op cluster = sim_cluster_op(insn);
    if (cluster)
        return cluster;
    static sim_op (*const tables[])(const ptx_insn *, bool) = {
        sim_access_op, sim_atom_op,     sim_matrix_op, sim_wmma_op,
        sim_async_op,  sim_mbarrier_op, sim_wgmma_op,
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        sim_op op = tables[i](insn, checks);
        if (op)
            return op;
    }
    return NULL;
}
