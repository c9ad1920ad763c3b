/*
 * Operands of an instruction: which slot each has. A register has the slot
 * that decode_slots.c gave it; constants, addresses and special registers get
 * one here, each once.
 */
#include <string.h>

#include "decode_int.h"

typedef struct constant {
    uint64_t bits;
    uint32_t width, slot;
} constant;

typedef struct temp {
    uint32_t slot, width;
} temp;

uint32_t sim_slot_width(ptx_type type)
{
    uint32_t bytes = ptx_type_bytes(type);
    if (type == PTX_PRED)
        return 0;
    return bytes <= 4 ? 4 : bytes;
}

static uint32_t new_slot(sim_decoder *d, uint32_t width)
{
    uint32_t slot = d->top;
    d->top += sim_slot_bytes(width);
    return slot;
}

uint32_t sim_decode_temp(sim_decoder *d, uint32_t width)
{
    uint32_t count = (uint32_t)(d->temps.size / sizeof(temp));
    temp *all = (void *)d->temps.data;
    for (uint32_t i = d->used_temps; i < count; i++) {
        if (all[i].width != width)
            continue;
        temp found = all[i];
        all[i] = all[d->used_temps];
        all[d->used_temps++] = found;
        return found.slot;
    }
    temp made = {new_slot(d, width), width};
    spt_buf_add(&d->temps, &made, sizeof made);
    all = (void *)d->temps.data;
    if (!d->temps.failed) {
        all[count] = all[d->used_temps];
        all[d->used_temps++] = made;
    }
    return made.slot;
}

/* Constants come after all registers: slots are given at the end, as
   negative numbers until then. */
enum { PENDING = 0x40000000 };

static uint32_t constant_slot(sim_decoder *d, uint64_t bits, uint32_t width)
{
    uint32_t count = (uint32_t)(d->constants.size / sizeof(constant));
    const constant *all = (const void *)d->constants.data;
    for (uint32_t i = 0; i < count; i++)
        if (all[i].bits == bits && all[i].width == width)
            return PENDING + all[i].slot;
    uint32_t slot =
        count ? all[count - 1].slot + sim_slot_bytes(all[count - 1].width) : 0;
    constant item = {bits, width, slot};
    spt_buf_add(&d->constants, &item, sizeof item);
    return PENDING + slot;
}

static uint32_t filled_slot(sim_decoder *d, sim_fill fill, int64_t value,
                            uint32_t width, uint32_t align)
{
    uint32_t count = (uint32_t)(d->filled.size / sizeof(sim_filled));
    const sim_filled *all = (const void *)d->filled.data;
    for (uint32_t i = 0; i < count; i++)
        if (all[i].fill == fill && all[i].value == value &&
            all[i].width == width && all[i].align == align)
            return all[i].slot;
    sim_filled item = {new_slot(d, width), (uint8_t)fill, (uint8_t)width, align,
                       value};
    spt_buf_add(&d->filled, &item, sizeof item);
    return item.slot;
}

/* Slot of a variable's address plus offset; width 4 or 8. */
static uint32_t address_slot(sim_decoder *d, uint32_t var, int64_t offset,
                             uint32_t width)
{
    const ptx_var *v = &d->program->module->vars[var];
    int64_t at = (int64_t)v->offset + offset;
    if (v->space == PTX_LOCAL)
        return filled_slot(d, SIM_FILL_LOCAL, at, width, 0);
    if (v->space == PTX_SHARED && v->external)
        return filled_slot(d, SIM_FILL_DYNAMIC, offset, width, v->align);
    if (v->space == PTX_SHARED)
        return filled_slot(d, SIM_FILL_SHARED, at, width, 0);
    if (v->space == PTX_PARAM)
        return constant_slot(d, (uint64_t)at, width);
    return constant_slot(d, d->program->addresses[var] + (uint64_t)offset,
                         width);
}

/* The slot of a special register; one that changes is read just before. */
static uint32_t special_slot(sim_decoder *d, uint32_t special, uint32_t width,
                             const ptx_insn *src)
{
    if (!sim_special_of_clock(special))
        return filled_slot(d, SIM_FILL_SPECIAL, special, width, 0);
    uint32_t slot = sim_decode_temp(d, width);
    sim_insn *insn = sim_decode_add(d, sim_flow_special, sim_flow_special, src);
    if (insn) {
        insn->d = slot;
        insn->a = special;
        insn->b = width;
    }
    return slot;
}

static sim_arg make_arg(sim_decoder *d, const ptx_operand *operand,
                        ptx_type type, const ptx_insn *src)
{
    sim_arg arg = {.type = (uint8_t)type, .width = 4};
    uint32_t width = type == PTX_NONE ? 4 : sim_slot_width(type);
    switch (operand->kind) {
    case PTX_REGISTER:
        arg.type = d->func->regs[operand->index].type;
        arg.width = (uint8_t)sim_slot_width((ptx_type)arg.type);
        arg.slot = d->slots[operand->index];
        break;
    case PTX_IMMEDIATE:
        arg.flags = SIM_ARG_IMMEDIATE;
        arg.width = (uint8_t)width;
        arg.slot = constant_slot(d, (uint64_t)operand->value, width);
        break;
    case PTX_SPECIALREG:
        width = sim_slot_width(ptx_special_type((ptx_special)operand->index));
        if (type != PTX_NONE && type != PTX_PRED)
            width = sim_slot_width(type);
        arg.width = (uint8_t)width;
        arg.slot = special_slot(d, operand->index, width, src);
        break;
    case PTX_SINK:
        arg.flags = SIM_ARG_SINK;
        arg.width = (uint8_t)width;
        arg.slot = sim_decode_temp(d, 16);
        break;
    case PTX_FUNCTION:
        arg.flags = SIM_ARG_IMMEDIATE;
        arg.width = 8;
        arg.slot = constant_slot(d, SIM_FUNCTION_ADDRESS(operand->index), 8);
        break;
    case PTX_ADDRESS:
        if (!operand->count) { /* a value: the address itself */
            width = width < 4 ? 8 : width;
            arg.width = (uint8_t)width;
            arg.flags = SIM_ARG_IMMEDIATE;
            arg.slot = address_slot(d, operand->index, operand->value, width);
            break;
        }
        arg.flags = SIM_ARG_ADDRESS;
        arg.offset = operand->value;
        arg.width = 8;
        if (operand->base == PTX_BASE_REGISTER) {
            arg.type = d->func->regs[operand->index].type;
            arg.width = (uint8_t)sim_slot_width((ptx_type)arg.type);
            arg.slot = d->slots[operand->index];
        } else if (operand->base == PTX_NO_BASE) {
            arg.slot = constant_slot(d, 0, 8);
        } else {
            const ptx_var *var = &d->program->module->vars[operand->index];
            if (var->space == PTX_LOCAL) {
                arg.flags |= SIM_ARG_FRAME;
                arg.slot = constant_slot(d, 0, 8);
                arg.offset += (int64_t)var->offset;
            } else {
                arg.slot = address_slot(d, operand->index, 0, 8);
            }
        }
        break;
    default:
        arg.slot = constant_slot(d, 0, 8);
        break;
    }
    return arg;
}

const sim_args *sim_decode_args(sim_decoder *d, const ptx_insn *src)
{
    uint32_t count = 0;
    for (int i = 0; i < src->n_operands; i++)
        count +=
            src->operands[i].kind == PTX_VECTOR ? src->operands[i].count : 1u;
    sim_args *args = spt_arena_alloc(
        &d->program->arena, 1, sizeof *args + (count + 1) * sizeof(sim_arg));
    if (!args)
        return NULL;
    uint16_t at = 0;
    for (int i = 0; i < src->n_operands; i++) {
        const ptx_operand *operand = &src->operands[i];
        ptx_type type = sim_operand_type(src, i);
        args->first[i] = at;
        if (operand->kind != PTX_VECTOR) {
            args->arg[at++] = make_arg(d, operand, type, src);
            continue;
        }
        if (src->op == PTX_OP_MOV && operand->count)
            type = ptx_type_bytes((ptx_type)src->types[0]) / operand->count == 8
                       ? PTX_B64
                       : PTX_B32;
        for (uint32_t j = 0; j < operand->count; j++) {
            sim_arg arg =
                make_arg(d, &d->func->vectors[operand->index + j], type, src);
            arg.flags |= SIM_ARG_VECTOR;
            args->arg[at++] = arg;
        }
    }
    for (int i = src->n_operands; i <= PTX_MAX_OPERANDS; i++)
        args->first[i] = at;
    args->count = at;
    return args;
}

uint32_t sim_decode_final(const sim_decoder *d, uint32_t slot)
{
    return slot >= PENDING && slot != SIM_NO_GUARD
               ? slot - PENDING + d->code->constants_at
               : slot;
}

bool sim_decode_constants(sim_decoder *d)
{
    sim_code *code = d->code;
    uint32_t count = (uint32_t)(d->constants.size / sizeof(constant));
    const constant *all = (const void *)d->constants.data;
    uint32_t bytes = 0;
    code->constants_at = d->top;
    if (count)
        bytes = all[count - 1].slot + sim_slot_bytes(all[count - 1].width);
    code->constants_bytes = bytes;
    code->regs_bytes = d->top + bytes + 32;
    code->constants = spt_arena_alloc(&d->program->arena, bytes + 1, 1);
    if (!code->constants)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *to = code->constants + all[i].slot;
        uint32_t mask = all[i].bits ? UINT32_MAX : 0;
        if (!all[i].width)
            memcpy(to, &mask, sizeof mask);
        for (uint32_t l = 0; all[i].width && l < SIM_LANES; l++)
            memcpy(to + l * all[i].width, &all[i].bits,
                   all[i].width < 8 ? all[i].width : 8);
    }
    return true;
}
