/*
 * From checked PTX to handlers: each register, constant and special register
 * gets its slot, each block a header, each instruction its handlers.
 */
#include <stdio.h>
#include <string.h>

#include "decode.h"

typedef struct constant {
    uint64_t bits;
    uint32_t width, slot;
} constant;

typedef struct decoder {
    sim_program *program;
    const ptx_func *func;
    sim_code *code;
    uint32_t *slots; /* per register */
    uint32_t top; /* bytes of the frame so far */
    spt_buf insns; /* sim_insn; branches hold indices until the end */
    spt_buf constants, filled, callees;
    uint32_t *starts; /* per PTX instruction: index of header + 1 */
    spt_error *err;
} decoder;

static uint32_t width_of(ptx_type type)
{
    uint32_t bytes = ptx_type_bytes(type);
    if (type == PTX_PRED)
        return 0;
    return bytes <= 4 ? 4 : bytes;
}

static uint32_t new_slot(decoder *d, uint32_t width)
{
    uint32_t slot = d->top;
    d->top += width ? width * SIM_LANES : 32;
    return slot;
}

static spt_status out_of_memory(decoder *d)
{
    return spt_fail(d->err, SPT_E_MEMORY, "sim: out of memory");
}

/* Constants come after all registers: slots are given at the end, as
   negative numbers until then. */
enum { PENDING = 0x40000000 };

static uint32_t constant_slot(decoder *d, uint64_t bits, uint32_t width)
{
    uint32_t count = (uint32_t)(d->constants.size / sizeof(constant));
    const constant *all = (const void *)d->constants.data;
    for (uint32_t i = 0; i < count; i++)
        if (all[i].bits == bits && all[i].width == width)
            return PENDING + all[i].slot;
    uint32_t slot =
        count
            ? all[count - 1].slot +
                  (all[count - 1].width ? all[count - 1].width * SIM_LANES : 32)
            : 0;
    constant item = {bits, width, slot};
    spt_buf_add(&d->constants, &item, sizeof item);
    return PENDING + slot;
}

static uint32_t filled_slot(decoder *d, sim_fill fill, int64_t value,
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
static uint32_t address_slot(decoder *d, uint32_t var, int64_t offset,
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

static sim_insn *add_insn(decoder *d, sim_handler full, sim_handler masked,
                          const ptx_insn *src)
{
    sim_insn insn = {.full = full, .masked = masked, .src = src};
    spt_buf_add(&d->insns, &insn, sizeof insn);
    if (d->insns.failed)
        return NULL;
    return (sim_insn *)(void *)(d->insns.data + d->insns.size) - 1;
}

static bool is_dynamic(uint32_t special)
{
    switch (special) {
    case PTX_SPECIAL_CLOCK:
    case PTX_SPECIAL_CLOCK_HI:
    case PTX_SPECIAL_CLOCK64:
    case PTX_SPECIAL_GLOBALTIMER:
    case PTX_SPECIAL_GLOBALTIMER_LO:
    case PTX_SPECIAL_GLOBALTIMER_HI:
        return true;
    default:
        return false;
    }
}

/* The slot of a special register; one that changes is read just before. */
static uint32_t special_slot(decoder *d, uint32_t special, uint32_t width,
                             const ptx_insn *src)
{
    if (!is_dynamic(special))
        return filled_slot(d, SIM_FILL_SPECIAL, special, width, 0);
    uint32_t slot = new_slot(d, width);
    sim_insn *insn = add_insn(d, sim_flow_special, sim_flow_special, src);
    if (insn) {
        insn->d = slot;
        insn->a = special;
        insn->b = width;
    }
    return slot;
}

static sim_arg make_arg(decoder *d, const ptx_operand *operand, ptx_type type,
                        const ptx_insn *src)
{
    sim_arg arg = {.type = (uint8_t)type, .width = 4};
    uint32_t width = type == PTX_NONE ? 4 : width_of(type);
    switch (operand->kind) {
    case PTX_REGISTER:
        arg.type = d->func->regs[operand->index].type;
        arg.width = (uint8_t)width_of((ptx_type)arg.type);
        arg.slot = d->slots[operand->index];
        break;
    case PTX_IMMEDIATE:
        arg.flags = SIM_ARG_IMMEDIATE;
        arg.width = (uint8_t)width;
        arg.slot = constant_slot(d, (uint64_t)operand->value, width);
        break;
    case PTX_SPECIALREG:
        width = width_of(ptx_special_type((ptx_special)operand->index));
        if (type != PTX_NONE && type != PTX_PRED)
            width = width_of(type);
        arg.width = (uint8_t)width;
        arg.slot = special_slot(d, operand->index, width, src);
        break;
    case PTX_SINK:
        arg.flags = SIM_ARG_SINK;
        arg.width = (uint8_t)width;
        arg.slot = new_slot(d, 16);
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
            arg.width = (uint8_t)width_of((ptx_type)arg.type);
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

static sim_args *make_args(decoder *d, const ptx_insn *src)
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

static void set_slots(sim_insn *insn, const sim_args *args, const ptx_insn *src)
{
    insn->args = args;
    uint32_t slots[4] = {0};
    for (int i = 0; i < 4 && i < src->n_operands; i++)
        if (args->first[i] < args->count)
            slots[i] = args->arg[args->first[i]].slot;
    insn->d = slots[0];
    insn->a = src->n_operands > 1 ? slots[1] : slots[0];
    insn->b = src->n_operands > 2 ? slots[2] : insn->a;
    insn->c = src->n_operands > 3 ? slots[3] : insn->a;
    for (uint32_t i = 0; i < args->count; i++)
        if (args->arg[i].flags & SIM_ARG_ADDRESS) {
            insn->offset = args->arg[i].offset;
            break;
        }
}

/* Instructions that do nothing a kernel could see. */
static bool does_nothing(const ptx_insn *src)
{
    switch (src->op) {
    case PTX_OP_PMEVENT:
    case PTX_OP_SETMAXNREG:
    case PTX_OP_GRIDDEPCONTROL:
    case PTX_OP_BRKPT:
        return true;
    default:
        return false;
    }
}

static sim_handler control_handler(const ptx_insn *src)
{
    switch (src->op) {
    case PTX_OP_BRX_IDX:
        return sim_flow_brx;
    case PTX_OP_CALL:
        return sim_flow_call;
    case PTX_OP_TRAP:
        return sim_flow_trap;
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BARRIER_ARRIVE:
    case PTX_OP_BARRIER_RED:
        return sim_flow_barrier;
    case PTX_OP_BAR_WARP_SYNC:
        return sim_flow_warp_sync;
    case PTX_OP_NANOSLEEP:
        return sim_flow_nanosleep;
    default:
        return does_nothing(src) ? sim_flow_nop : NULL;
    }
}

/* The operand with the member mask of a warp-wide instruction, 255 when all
   lanes take part, 0 when it is not one. */
static int member_operand(const ptx_insn *src)
{
    switch (src->op) {
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ELECT:
        return src->n_operands - 1;
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX:
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_WMMA_STORE_D:
    case PTX_OP_WMMA_MMA:
        return 255;
    default:
        return 0;
    }
}

/* cvt between registers of another width than its types goes through
   registers of the right width. */
static void fit_cvt(decoder *d, sim_insn *insn, const sim_args *args,
                    const ptx_insn *src, uint32_t *after)
{
    *after = 0;
    if (src->op != PTX_OP_CVT || src->n_operands != 2)
        return;
    uint32_t to = width_of((ptx_type)src->types[0]);
    if (args->arg[0].width == to || args->arg[0].flags & SIM_ARG_SINK)
        return;
    insn->d = new_slot(d, to);
    *after = args->arg[0].slot;
}

static spt_status unsupported(decoder *d, const ptx_insn *src)
{
    spt_buf text = {0};
    spt_buf_puts(&text, ptx_op_text((ptx_op)src->op));
    for (int i = 0; i < src->n_mods; i++)
        spt_buf_printf(&text, ".%s", ptx_mod_text((ptx_mod)src->mods[i]));
    for (int i = 0; i < src->n_types; i++)
        spt_buf_printf(&text, ".%s", ptx_type_text((ptx_type)src->types[i]));
    spt_status status =
        spt_fail(d->err, SPT_E_UNSUPPORTED, "PTX line %u: sim cannot run %s",
                 src->ptx_line, text.data ? text.data : "this");
    spt_buf_free(&text);
    return status;
}

/* setp with more than one predicate, and set: first the comparison alone. */
static spt_status add_comparison(decoder *d, const ptx_insn *src,
                                 const sim_args *args)
{
    ptx_insn plain = *src;
    sim_handler full, masked;
    uint64_t bits;
    plain.op = PTX_OP_SETP;
    plain.n_mods = 0;
    for (int i = 0; i < src->n_mods; i++)
        if (src->mods[i] != PTX_MOD_AND && src->mods[i] != PTX_MOD_OR &&
            src->mods[i] != PTX_MOD_XOR)
            plain.mods[plain.n_mods++] = src->mods[i];
    plain.n_types = 1;
    plain.types[0] = src->types[src->n_types - 1];
    if (!sim_lanes_find(&plain, &full, &masked, &bits))
        return unsupported(d, src);
    sim_insn *insn = add_insn(d, full, masked, src);
    if (!insn)
        return out_of_memory(d);
    int base = 1 + src->operands[0].pair;
    uint32_t slot = insn->d = new_slot(d, 0);
    insn->a = args->arg[args->first[base]].slot;
    insn->b = args->arg[args->first[base + 1]].slot;
    insn->c = insn->a;
    insn->bits = bits;
    insn = add_insn(d, sim_flow_op, sim_flow_op, src);
    if (!insn)
        return out_of_memory(d);
    insn->op = sim_move_op(src);
    insn->args = args;
    insn->d = insn->b = insn->c = 0;
    insn->a = slot;
    return SPT_OK;
}

static bool is_comparison(const ptx_insn *src)
{
    if (sim_compares_packed(src))
        return false;
    return src->op == PTX_OP_SET ||
           (src->op == PTX_OP_SETP &&
            (src->n_operands > 3 || src->operands[0].pair));
}

/* Adds the handler of one instruction, without its guard. */
static spt_status add_body(decoder *d, const ptx_insn *src)
{
    sim_handler full = NULL, masked = NULL;
    uint64_t bits = 0;
    const sim_args *args = make_args(d, src);
    if (!args)
        return out_of_memory(d);
    if (is_comparison(src))
        return add_comparison(d, src, args);
    sim_op op = NULL;
    full = masked = control_handler(src);
    bool lanes = !full && sim_lanes_find(src, &full, &masked, &bits);
    if (!full) {
        op = sim_warp_op(src);
        op = op ? op : sim_move_op(src);
        op = op ? op : sim_memory_op(src, d->program->checks);
        if (!op)
            return unsupported(d, src);
        full = masked = member_operand(src) ? sim_flow_sync : sim_flow_op;
    }
    uint32_t narrow = 0;
    if (lanes && src->op == PTX_OP_CVT && src->n_operands == 2) {
        uint32_t from = width_of((ptx_type)src->types[1]);
        if (args->arg[1].width != from) {
            sim_insn *cut = add_insn(d, sim_flow_op, sim_flow_op, src);
            if (!cut)
                return out_of_memory(d);
            narrow = new_slot(d, from);
            cut->op = sim_move_op(NULL);
            cut->d = narrow;
            cut->a = args->arg[1].slot;
            cut->b = from;
            cut->c = args->arg[1].width;
        }
    }
    sim_insn *insn = add_insn(d, full, masked, src);
    if (!insn)
        return out_of_memory(d);
    set_slots(insn, args, src);
    if (narrow)
        insn->a = narrow;
    if (op) {
        insn->op = op;
        if (full == sim_flow_sync)
            insn->c = (uint32_t)member_operand(src);
    } else if (lanes)
        insn->bits = bits;
    if (lanes) {
        uint32_t after;
        fit_cvt(d, insn, args, src, &after);
        if (after || (insn->d != args->arg[0].slot)) {
            uint32_t from = insn->d;
            insn = add_insn(d, sim_flow_op, sim_flow_op, src);
            if (!insn)
                return out_of_memory(d);
            insn->op = sim_move_op(NULL);
            insn->d = args->arg[0].slot;
            insn->a = from;
            insn->b = args->arg[0].width;
            insn->c = width_of((ptx_type)src->types[0]);
            insn->offset =
                ptx_type_kind((ptx_type)src->types[0]) == PTX_KIND_SIGNED;
        }
    }
    return SPT_OK;
}

/* Control flow has its guard inside. */
static bool guards_itself(const ptx_insn *src)
{
    return src->op == PTX_OP_BRA || src->op == PTX_OP_RET ||
           src->op == PTX_OP_EXIT;
}

static spt_status add_control(decoder *d, const ptx_insn *src)
{
    sim_handler handler = src->op == PTX_OP_BRA   ? sim_flow_bra
                          : src->op == PTX_OP_RET ? sim_flow_ret
                                                  : sim_flow_exit;
    sim_insn *insn = add_insn(d, handler, handler, src);
    if (!insn)
        return out_of_memory(d);
    insn->a = src->guard < 0 ? SIM_NO_GUARD : d->slots[src->guard];
    insn->b = src->guard_negated ? UINT32_MAX : 0;
    if (src->op == PTX_OP_BRA)
        insn->bits = src->operands[0].index;
    return SPT_OK;
}

static spt_status add_guarded(decoder *d, const ptx_insn *src)
{
    if (guards_itself(src))
        return add_control(d, src);
    if (src->guard < 0)
        return add_body(d, src);
    size_t at = d->insns.size;
    if (!add_insn(d, sim_flow_guard, sim_flow_guard, src))
        return out_of_memory(d);
    SPT_TRY(add_body(d, src));
    if (!add_insn(d, sim_flow_unguard, sim_flow_unguard, src))
        return out_of_memory(d);
    sim_insn *guard = (sim_insn *)(void *)(d->insns.data + at);
    guard->a = d->slots[src->guard];
    guard->b = src->guard_negated ? UINT32_MAX : 0;
    guard->c = (uint32_t)((d->insns.size - at) / sizeof *guard - 1);
    return SPT_OK;
}

static void count_insn(sim_code *code, sim_block *block, const ptx_insn *src)
{
    block->n_insns++;
    if (sim_is_special(src))
        block->special++;
    else
        block->classes[ptx_insn_class(src)]++;
    block->flops += sim_flops_of(src);
    code->communicates |= sim_memory_communicates(src);
}

static spt_status add_block(decoder *d, uint32_t index)
{
    const ptx_block *block = &d->func->blocks[index];
    sim_block *counts = &d->code->blocks[index];
    const ptx_insn *src = &d->func->insns[block->first];
    counts->rank = block->rank;
    d->starts[block->first] = (uint32_t)(d->insns.size / sizeof(sim_insn));
    sim_insn *header = add_insn(d, sim_flow_header, sim_flow_header, src);
    if (!header)
        return out_of_memory(d);
    header->a = d->code->first_block + index;
    header->b = block->rank;
    header->c = block->last - block->first + 1;
    for (uint32_t i = block->first; i <= block->last; i++) {
        src = &d->func->insns[i];
        count_insn(d->code, counts, src);
        SPT_TRY(add_guarded(d, src));
    }
    if (!add_insn(d, sim_flow_next, sim_flow_next, src))
        return out_of_memory(d);
    return SPT_OK;
}

static void note_calls(decoder *d)
{
    for (uint32_t i = 0; i < d->func->n_insns; i++) {
        const ptx_insn *src = &d->func->insns[i];
        d->code->allocates |= src->op == PTX_OP_ALLOCA;
        if (src->op != PTX_OP_CALL)
            continue;
        d->code->calls = true;
        if (src->operands[0].kind != PTX_FUNCTION) {
            d->code->calls_unknown = true;
            continue;
        }
        uint32_t index = src->operands[0].index;
        const ptx_func *callee = &d->program->module->funcs[index];
        spt_buf_add(&d->callees, &index, sizeof index);
        d->code->communicates |=
            !callee->defined && sim_extern_communicates(callee->name);
    }
}

static uint32_t final_slot(const decoder *d, uint32_t slot)
{
    return slot >= PENDING && slot != SIM_NO_GUARD
               ? slot - PENDING + d->code->constants_at
               : slot;
}

static bool fill_constants(decoder *d)
{
    sim_code *code = d->code;
    uint32_t count = (uint32_t)(d->constants.size / sizeof(constant));
    const constant *all = (const void *)d->constants.data;
    uint32_t bytes = 0;
    code->constants_at = d->top;
    if (count)
        bytes = all[count - 1].slot +
                (all[count - 1].width ? all[count - 1].width * SIM_LANES : 32);
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

/* Final slots, and pointers where indices were. */
static void link(decoder *d)
{
    sim_code *code = d->code;
    size_t count = d->insns.size / sizeof(sim_insn);
    const sim_args *last = NULL;
    for (size_t i = 0; i < count; i++) {
        sim_insn *in = &code->insns[i];
        if (in->full == sim_flow_header)
            continue;
        if (in->full == sim_flow_bra)
            in->target = &code->insns[d->starts[in->bits]];
        in->d = final_slot(d, in->d);
        if (in->full != sim_flow_special)
            in->a = final_slot(d, in->a);
        in->b = in->b == UINT32_MAX ? in->b : final_slot(d, in->b);
        in->c = final_slot(d, in->c);
        if (!in->args || in->args == last)
            continue;
        last = in->args;
        for (uint32_t k = 0; k < last->count; k++) {
            sim_arg *arg = (sim_arg *)&last->arg[k];
            arg->slot = final_slot(d, arg->slot);
        }
    }
    for (uint32_t i = 0; i < d->func->n_insns; i++)
        if (d->func->blocks[d->func->block_of[i]].first == i)
            code->starts[i] = &code->insns[d->starts[i]];
}

static void *copy_out(decoder *d, const spt_buf *buf)
{
    void *copy = spt_arena_alloc(&d->program->arena, buf->size + 1, 1);
    if (copy && buf->size)
        memcpy(copy, buf->data, buf->size);
    return copy;
}

static spt_status finish(decoder *d)
{
    sim_code *code = d->code;
    if (d->insns.failed || d->constants.failed || d->filled.failed ||
        d->callees.failed || !fill_constants(d))
        return out_of_memory(d);
    code->insns = copy_out(d, &d->insns);
    code->filled = copy_out(d, &d->filled);
    code->callees = copy_out(d, &d->callees);
    code->n_filled = (uint32_t)(d->filled.size / sizeof(sim_filled));
    code->n_callees = (uint32_t)(d->callees.size / sizeof(uint32_t));
    code->starts = spt_arena_alloc(&d->program->arena, d->func->n_insns,
                                   sizeof *code->starts);
    if (!code->insns || !code->filled || !code->callees || !code->starts)
        return out_of_memory(d);
    link(d);
    return SPT_OK;
}

static spt_status decode(decoder *d)
{
    const ptx_func *func = d->func;
    sim_code *code = d->code;
    spt_arena *arena = &d->program->arena;
    d->slots = spt_calloc(func->n_regs, sizeof *d->slots);
    d->starts = spt_calloc(func->n_insns, sizeof *d->starts);
    code->blocks = spt_arena_alloc(arena, func->n_blocks, sizeof *code->blocks);
    if (!d->slots || !d->starts || !code->blocks)
        return out_of_memory(d);
    code->frame_bytes = (func->local_bytes + 15) / 16 * 16;
    for (uint32_t i = 0; i < func->n_regs; i++)
        d->slots[i] = new_slot(d, width_of((ptx_type)func->regs[i].type));
    note_calls(d);
    for (uint32_t i = 0; i < func->n_blocks; i++)
        SPT_TRY(add_block(d, i));
    return finish(d);
}

spt_status sim_decode_function(sim_program *program, uint32_t index,
                               spt_error *err)
{
    const ptx_func *func = &program->module->funcs[index];
    if (program->codes[index] || !func->defined)
        return SPT_OK;
    sim_code *code = spt_arena_alloc(&program->arena, 1, sizeof *code);
    if (!code)
        return spt_fail(err, SPT_E_MEMORY, "sim: out of memory");
    *code = (sim_code){
        .func = func, .index = index, .first_block = program->n_blocks};
    program->n_blocks += func->n_blocks;
    decoder d = {.program = program, .func = func, .code = code, .err = err};
    spt_status status = decode(&d);
    spt_free(d.slots);
    spt_free(d.starts);
    spt_buf_free(&d.insns);
    spt_buf_free(&d.constants);
    spt_buf_free(&d.filled);
    spt_buf_free(&d.callees);
    if (status == SPT_OK)
        program->codes[index] = code;
    return status;
}
