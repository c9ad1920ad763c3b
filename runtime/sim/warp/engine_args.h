/*
 * An instruction's operands lane by lane, for operations that are not worth a
 * lane handler.
 */
#ifndef SPT_SIM_ENGINE_ARGS_H
#define SPT_SIM_ENGINE_ARGS_H

#include <string.h>

#include "engine_int.h"

static inline uint64_t get(const sim_insn *in, const uint8_t *regs, int operand,
                           unsigned lane)
{
    uint64_t value = 0;
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    const uint8_t *at = regs + arg->slot + lane * arg->width;
    if (arg->width == 4)
        memcpy(&value, at, 4);
    else if (arg->width == 8)
        memcpy(&value, at, 8);
    else
        memcpy(&value, at, arg->width);
    return value;
}

static inline void put(const sim_arg *arg, uint8_t *regs, unsigned lane,
                       uint64_t value)
{
    if (arg->flags & SIM_ARG_SINK)
        return;
    if (arg->width == 4 && ptx_type_bytes((ptx_type)arg->type) == 2)
        value &= 0xffff;
    uint8_t *at = regs + arg->slot + lane * arg->width;
    if (arg->width == 4)
        memcpy(at, &value, 4);
    else if (arg->width >= 8)
        memcpy(at, &value, 8);
    else
        memcpy(at, &value, arg->width);
}

static inline const sim_arg *arg_of(const sim_insn *in, int operand)
{
    return &in->args->arg[in->args->first[operand]];
}

static inline uint32_t pred_of(const sim_insn *in, const uint8_t *regs,
                               int operand)
{
    uint32_t bits;
    memcpy(&bits, regs + arg_of(in, operand)->slot, sizeof bits);
    return in->src->operands[operand].negated ? ~bits : bits;
}

static inline void put_pred(const sim_insn *in, uint8_t *regs, int operand,
                            uint32_t bits, uint32_t exec)
{
    const sim_arg *arg = arg_of(in, operand);
    if (!(arg->flags & SIM_ARG_SINK))
        SIM_PRED(arg->slot) = (SIM_PRED(arg->slot) & ~exec) | (bits & exec);
}

#define OP(name)                                                     \
    static void name(const sim_insn *in, sim_warp *w, uint8_t *regs, \
                     uint32_t exec)
#define EACH_LANE                            \
    (void)w;                                 \
    for (unsigned l = 0; l < SIM_LANES; l++) \
        if (exec >> l & 1)

#endif
