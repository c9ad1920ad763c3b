/*
 * From checked PTX to handlers: each register, constant and special register
 * gets its slot, each block a header, each instruction its handlers.
 */
#include <string.h>

#include "decode_int.h"
#include "ptx_live.h"

static spt_status out_of_memory(sim_decoder *d)
{
    return spt_fail(d->err, SPT_E_MEMORY, "sim: out of memory");
}

sim_insn *sim_decode_add(sim_decoder *d, sim_handler full, sim_handler masked,
                         const ptx_insn *src)
{
    sim_insn insn = {.full = full, .masked = masked, .src = src};
    spt_buf_add(&d->insns, &insn, sizeof insn);
    if (d->insns.failed)
        return NULL;
    return (sim_insn *)(void *)(d->insns.data + d->insns.size) - 1;
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
    case PTX_OP_BARRIER_CLUSTER_ARRIVE:
    case PTX_OP_BARRIER_CLUSTER_WAIT:
        return sim_flow_cluster;
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
    case PTX_OP_WGMMA_FENCE:
    case PTX_OP_WGMMA_COMMIT_GROUP:
    case PTX_OP_WGMMA_WAIT_GROUP:
    case PTX_OP_WGMMA_MMA_ASYNC:
        return 255;
    default:
        return 0;
    }
}

/* With all lanes there, a warp-wide instruction of all lanes just runs; what
   checks do besides is sim_flow_sync's. */
static bool goes_without_waiting(const sim_decoder *d, const ptx_insn *src)
{
    int members = member_operand(src);
    if (!members || d->program->checks)
        return false;
    return members == 255 ||
           (src->operands[members].kind == PTX_IMMEDIATE &&
            (uint32_t)src->operands[members].value == UINT32_MAX);
}

/* cvt between registers of another width than its types goes through
   registers of the right width. */
static void fit_cvt(sim_decoder *d, sim_insn *insn, const sim_args *args,
                    const ptx_insn *src, uint32_t *after)
{
    *after = 0;
    if (src->op != PTX_OP_CVT || src->n_operands != 2)
        return;
    uint32_t to = sim_slot_width((ptx_type)src->types[0]);
    if (args->arg[0].width == to || args->arg[0].flags & SIM_ARG_SINK)
        return;
    insn->d = sim_decode_temp(d, to);
    *after = args->arg[0].slot;
}

static spt_status unsupported(sim_decoder *d, const ptx_insn *src)
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
static spt_status add_comparison(sim_decoder *d, const ptx_insn *src,
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
    sim_insn *insn = sim_decode_add(d, full, masked, src);
    if (!insn)
        return out_of_memory(d);
    int base = 1 + src->operands[0].pair;
    uint32_t slot = insn->d = sim_decode_temp(d, 0);
    insn->a = args->arg[args->first[base]].slot;
    insn->b = args->arg[args->first[base + 1]].slot;
    insn->c = insn->a;
    insn->bits = bits;
    insn = sim_decode_add(d, sim_flow_op, sim_flow_op, src);
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

/* wgmma works on registers while other instructions run: with checks those
   that name one of them are looked at. */
static bool touches(const sim_decoder *d, const ptx_insn *src)
{
    if (!d->matrix || src->op == PTX_OP_WGMMA_MMA_ASYNC)
        return false;
    for (int i = 0; i < src->n_operands; i++) {
        uint32_t at = 0, reg;
        while (ptx_live_next(d->func, &src->operands[i], &at, &reg))
            if (d->matrix[reg])
                return true;
    }
    return false;
}

static bool note_matrix(sim_decoder *d)
{
    for (uint32_t i = 0; d->program->checks && i < d->func->n_insns; i++) {
        const ptx_insn *src = &d->func->insns[i];
        if (src->op != PTX_OP_WGMMA_MMA_ASYNC)
            continue;
        if (!d->matrix)
            d->matrix = spt_calloc(d->func->n_regs, sizeof *d->matrix);
        for (int k = 0; d->matrix && k < 2; k++) {
            uint32_t at = 0, reg;
            while (src->operands[k].kind == PTX_VECTOR &&
                   ptx_live_next(d->func, &src->operands[k], &at, &reg))
                d->matrix[reg] = true;
        }
        if (!d->matrix)
            return false;
    }
    return true;
}

/* Adds the handler of one instruction, without its guard. */
static spt_status add_body(sim_decoder *d, const ptx_insn *src)
{
    sim_handler full = NULL, masked = NULL;
    uint64_t bits = 0;
    const sim_args *args = sim_decode_args(d, src);
    if (!args || (touches(d, src) &&
                  !sim_decode_add(d, sim_flow_touch, sim_flow_touch, src)))
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
        if (goes_without_waiting(d, src))
            full = sim_flow_sync_full;
        sim_decode_memory(d, src, args, &full, &masked);
    }
    uint32_t narrow = 0;
    if (lanes && src->op == PTX_OP_CVT && src->n_operands == 2) {
        uint32_t from = sim_slot_width((ptx_type)src->types[1]);
        if (args->arg[1].width != from) {
            sim_insn *cut = sim_decode_add(d, sim_flow_op, sim_flow_op, src);
            if (!cut)
                return out_of_memory(d);
            narrow = sim_decode_temp(d, from);
            cut->op = sim_move_op(NULL);
            cut->d = narrow;
            cut->a = args->arg[1].slot;
            cut->b = from;
            cut->c = args->arg[1].width;
        }
    }
    sim_insn *insn = sim_decode_add(d, full, masked, src);
    if (!insn)
        return out_of_memory(d);
    set_slots(insn, args, src);
    if (narrow)
        insn->a = narrow;
    if (op) {
        insn->op = op;
        if (masked == sim_flow_sync)
            insn->c = (uint32_t)member_operand(src);
    } else if (lanes)
        insn->bits = bits;
    if (lanes) {
        uint32_t after;
        fit_cvt(d, insn, args, src, &after);
        if (after || (insn->d != args->arg[0].slot)) {
            uint32_t from = insn->d;
            insn = sim_decode_add(d, sim_flow_op, sim_flow_op, src);
            if (!insn)
                return out_of_memory(d);
            insn->op = sim_move_op(NULL);
            insn->d = args->arg[0].slot;
            insn->a = from;
            insn->b = args->arg[0].width;
            insn->c = sim_slot_width((ptx_type)src->types[0]);
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

static spt_status add_control(sim_decoder *d, const ptx_insn *src)
{
    sim_handler handler = src->op == PTX_OP_BRA   ? sim_flow_bra
                          : src->op == PTX_OP_RET ? sim_flow_ret
                                                  : sim_flow_exit;
    sim_insn *insn = sim_decode_add(d, handler, handler, src);
    if (!insn)
        return out_of_memory(d);
    insn->a = src->guard < 0 ? SIM_NO_GUARD : d->slots[src->guard];
    insn->b = src->guard_negated ? UINT32_MAX : 0;
    if (src->op == PTX_OP_BRA)
        insn->bits = src->operands[0].index;
    return SPT_OK;
}

static spt_status add_guarded(sim_decoder *d, const ptx_insn *src)
{
    d->used_temps = 0;
    if (guards_itself(src))
        return add_control(d, src);
    if (src->guard < 0)
        return add_body(d, src);
    size_t at = d->insns.size;
    if (!sim_decode_add(d, sim_flow_guard, sim_flow_guard, src))
        return out_of_memory(d);
    SPT_TRY(add_body(d, src));
    if (!sim_decode_add(d, sim_flow_unguard, sim_flow_unguard, src))
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
    if (src->op == PTX_OP_WGMMA_MMA_ASYNC)
        block->wgmma_flops += sim_flops_of(src);
    code->communicates |= sim_memory_communicates(src);
}

static spt_status add_block(sim_decoder *d, uint32_t index)
{
    const ptx_block *block = &d->func->blocks[index];
    sim_block *counts = &d->code->blocks[index];
    const ptx_insn *src = &d->func->insns[block->first];
    counts->rank = block->rank;
    d->starts[block->first] = (uint32_t)(d->insns.size / sizeof(sim_insn));
    sim_insn *header = sim_decode_add(d, sim_flow_header, sim_flow_header, src);
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
    if (!sim_decode_add(d, sim_flow_next, sim_flow_next, src))
        return out_of_memory(d);
    return SPT_OK;
}

static void note_calls(sim_decoder *d)
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

/* Final slots, and pointers where indices were. */
static void link(sim_decoder *d)
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
        in->d = sim_decode_final(d, in->d);
        if (in->full != sim_flow_special)
            in->a = sim_decode_final(d, in->a);
        in->b = in->b == UINT32_MAX ? in->b : sim_decode_final(d, in->b);
        in->c = sim_decode_final(d, in->c);
        if (!in->args || in->args == last)
            continue;
        last = in->args;
        for (uint32_t k = 0; k < last->count; k++) {
            sim_arg *arg = (sim_arg *)&last->arg[k];
            arg->slot = sim_decode_final(d, arg->slot);
        }
    }
    for (uint32_t i = 0; i < d->func->n_insns; i++)
        if (d->func->blocks[d->func->block_of[i]].first == i)
            code->starts[i] = &code->insns[d->starts[i]];
}

static void *copy_out(sim_decoder *d, const spt_buf *buf)
{
    void *copy = spt_arena_alloc(&d->program->arena, buf->size + 1, 1);
    if (copy && buf->size)
        memcpy(copy, buf->data, buf->size);
    return copy;
}

static spt_status finish(sim_decoder *d)
{
    sim_code *code = d->code;
    if (d->insns.failed || d->constants.failed || d->filled.failed ||
        d->callees.failed || d->temps.failed || !sim_decode_constants(d))
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

static spt_status decode(sim_decoder *d)
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
    if (!sim_slots_give(func, d->slots, &d->top))
        return out_of_memory(d);
    code->registers_bytes = d->top;
    note_calls(d);
    if (!note_matrix(d))
        return out_of_memory(d);
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
    sim_decoder d = {
        .program = program, .func = func, .code = code, .err = err};
    spt_status status = decode(&d);
    spt_free(d.slots);
    spt_free(d.starts);
    spt_free(d.matrix);
    spt_buf_free(&d.insns);
    spt_buf_free(&d.temps);
    spt_buf_free(&d.constants);
    spt_buf_free(&d.filled);
    spt_buf_free(&d.callees);
    if (status == SPT_OK)
        program->codes[index] = code;
    return status;
}
