/*
 * st.async and red.async: a register's value on its way to shared memory of a
 * CTA of the cluster, where it completes at an mbarrier.
 */
#include "async.h"

static void op_value(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    const sim_args *args = in->args;
    uint32_t each = ptx_type_bytes(in->src->types[0]);
    uint64_t to[SIM_LANES], mbarrier[SIM_LANES];
    sim_access_addresses(&args->arg[args->first[0]], w, regs, to);
    sim_access_addresses(&args->arg[args->first[2]], w, regs, mbarrier);
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        unsigned l = sim_first_lane(rest);
        sim_bulk bulk = {.in = in,
                         .lane = l,
                         .kind = SIM_BULK_VALUE,
                         .bytes = each * in->src->vector};
        for (uint32_t i = 0; i < in->src->vector; i++) {
            const sim_arg *arg = &args->arg[args->first[1] + i];
            memcpy(bulk.value + i * each, regs + arg->slot + l * arg->width,
                   each);
        }
        if (!sim_bulk_target(w, &bulk, sim_shared_offset(to[l]),
                             sim_shared_offset(mbarrier[l])))
            continue;
        if (bulk.to % bulk.bytes)
            sim_insn_report(w, in, SPT_SIM_MISALIGNED, l, to[l], "");
        else if (sim_bulk_fits(w, &bulk, bulk.to))
            sim_bulk_issue(w, &bulk);
    }
}

void sim_value_move(sim_warp *w, const sim_bulk *bulk)
{
    uint8_t *at = bulk->target->shared + bulk->to;
    const ptx_insn *src = bulk->in->src;
    if (src->op == PTX_OP_RED_ASYNC)
        sim_atom_combine(src, src->types[0], at, bulk->value, bulk->bytes);
    else
        memcpy(at, bulk->value, bulk->bytes);
    sim_bulk_land(w, bulk, bulk->to, bulk->bytes);
}

sim_op sim_value_op(const ptx_insn *insn)
{
    return insn->vector * ptx_type_bytes(insn->types[0]) <= SIM_CHUNK ? op_value
                                                                      : NULL;
}
