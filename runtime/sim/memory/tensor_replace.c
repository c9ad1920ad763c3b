/*
 * tensormap.replace and tensormap.cp_fenceproxy: maps that a kernel changes.
 */
#include "async.h"

static void chunk(sim_access *a, const sim_insn *in, sim_warp *w, unsigned lane,
                  uint64_t address, unsigned space, bool write)
{
    sim_access_begin(a, in, w, 1u << lane, SIM_CHUNK, write,
                     w->launch->args.checks);
    a->count = -1;
    sim_access_one(a, address);
    sim_access_resolve(a, space);
}

/* A lane's 128 bytes at an address, to or from memory of sim's own. */
static void bring(const sim_insn *in, sim_warp *w, unsigned lane,
                  uint64_t address, unsigned space, bool write, uint8_t *bytes)
{
    for (uint32_t i = 0; i < sizeof(CUtensorMap); i += SIM_CHUNK) {
        sim_access a;
        chunk(&a, in, w, lane, address + i, space, write);
        if (write)
            memcpy(a.at[lane], bytes + i, SIM_CHUNK);
        else
            memcpy(bytes + i, a.at[lane], SIM_CHUNK);
    }
}

static ptx_mod field_of(const ptx_insn *src)
{
    for (int i = 0; i < src->n_mods; i++)
        if (src->mods[i] >= PTX_MOD_GLOBAL_ADDRESS &&
            src->mods[i] <= PTX_MOD_RANK)
            return src->mods[i];
    return PTX_MOD_GLOBAL_ADDRESS;
}

static void op_replace(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec)
{
    const ptx_insn *src = in->src;
    uint32_t number = 0;
    uint64_t addr[SIM_LANES];
    sim_access_addresses(&in->args->arg[in->args->first[0]], w, regs, addr);
    if (src->n_operands > 2)
        number = (uint32_t)src->operands[1].value;
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        uint8_t bytes[sizeof(CUtensorMap)];
        sim_tensor_map map;
        bring(in, w, l, addr[l], src->space, false, bytes);
        memcpy(&map, bytes, sizeof map);
        if (map.mark != SIM_TENSOR_MARK) {
            sim_insn_report(w, in, SPT_SIM_OPERAND, l, addr[l],
                            "no tensor map stands there");
            continue;
        }
        if (!sim_tensor_replace(
                &map, field_of(src), number,
                sim_bulk_operand(in, regs, src->n_operands - 1, l)))
            sim_insn_report(w, in, SPT_SIM_OPERAND, l, addr[l],
                            "no value for this field of a tensor map");
        memcpy(bytes, &map, sizeof map);
        bring(in, w, l, addr[l], src->space, true, bytes);
    }
}

/* All lanes together copy one map: the first one does. */
static void op_copy(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    uint64_t to[SIM_LANES], from[SIM_LANES];
    uint8_t bytes[sizeof(CUtensorMap)];
    unsigned l = sim_first_lane(exec);
    sim_whole_warp(w, in, exec);
    sim_access_addresses(&in->args->arg[in->args->first[0]], w, regs, to);
    sim_access_addresses(&in->args->arg[in->args->first[1]], w, regs, from);
    bring(in, w, l, from[l], in->src->space2, false, bytes);
    bring(in, w, l, to[l], in->src->space, true, bytes);
}

sim_op sim_replace_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_TENSORMAP_REPLACE:
        return op_replace;
    case PTX_OP_TENSORMAP_CP_FENCEPROXY:
        return op_copy;
    default:
        return NULL;
    }
}
