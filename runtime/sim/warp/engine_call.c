/*
 * Calls: frames, and arguments from and to local memory.
 */
#include <string.h>

#include "access.h"
#include "engine_args.h"
#include "memory_bits.h"
#include "taint.h"

/* The first local address that no lane of the frame uses. */
static uint64_t end_of(const sim_frame *frame)
{
    uint64_t most = 0;
    for (unsigned l = 0; l < SIM_LANES; l++)
        most = frame->taken[l] > most ? frame->taken[l] : most;
    return (frame->local_base + frame->code->frame_bytes + most + 15) / 16 * 16;
}

/* A frame's room: the newest free one that is large enough, or a new one. */
static sim_frame *frame_room(sim_warp *w, uint64_t bytes)
{
    sim_frame **link = &w->free_frames, *frame;
    while (*link && (*link)->regs_bytes < bytes)
        link = &(*link)->parent;
    frame = *link;
    if (frame) {
        *link = frame->parent;
        return frame;
    }
    frame = spt_calloc(1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->regs_bytes = (bytes + 63) / 64 * 64;
    frame->regs = aligned_alloc(64, frame->regs_bytes);
    if (!frame->regs) {
        spt_free(frame);
        return NULL;
    }
    frame->older = w->all_frames;
    w->all_frames = frame;
    return frame;
}

static uint64_t filled_value(const sim_warp *w, const sim_frame *frame,
                             const sim_filled *fill, unsigned lane)
{
    const sim_launch *launch = w->launch;
    uint64_t value = (uint64_t)fill->value;
    uint64_t align = fill->align ? fill->align : 1;
    switch (fill->fill) {
    case SIM_FILL_LOCAL:
        return value + frame->local_base;
    case SIM_FILL_SHARED:
        return value + launch->shared_base;
    case SIM_FILL_DYNAMIC:
        return value +
               (launch->shared_base + launch->func->shared_bytes + align - 1) /
                   align * align;
    default:
        return sim_special_value(w, (uint32_t)value, lane);
    }
}

/* Constants, addresses and special registers; again: only what another CTA
   has otherwise. */
static void fill_frame(const sim_warp *w, sim_frame *frame, bool again)
{
    const sim_code *code = frame->code;
    if (!again)
        memcpy(frame->regs + code->constants_at, code->constants,
               code->constants_bytes);
    for (uint32_t i = 0; i < code->n_filled; i++) {
        const sim_filled *fill = &code->filled[i];
        bool special = fill->fill == SIM_FILL_SPECIAL;
        if (again && !(special && sim_special_of_cta((uint32_t)fill->value)))
            continue;
        bool lanes = special && sim_special_of_lane((uint32_t)fill->value);
        uint8_t *to = frame->regs + fill->slot;
        uint64_t value = filled_value(w, frame, fill, 0);
        if (!fill->width) {
            uint32_t mask = value ? UINT32_MAX : 0;
            memcpy(to, &mask, sizeof mask);
        }
        for (unsigned l = 0; l < SIM_LANES && fill->width; l++) {
            if (lanes)
                value = filled_value(w, frame, fill, l);
            memcpy(to + l * fill->width, &value, fill->width);
        }
    }
}

sim_frame *sim_frame_new(sim_warp *w, sim_frame *parent, const sim_code *code,
                         uint32_t lanes)
{
    sim_frame *frame = frame_room(w, code->regs_bytes);
    if (!frame)
        return NULL;
    uint64_t local_base = parent ? end_of(parent) : 0;
    bool again = frame->code == code && frame->local_base == local_base;
    frame->parent = parent;
    frame->code = code;
    frame->lanes = lanes;
    frame->depth = parent ? parent->depth + 1 : 0;
    frame->local_base = local_base;
    memset(frame->taken, 0, sizeof frame->taken);
    memset(frame->regs, 0, again ? code->registers_bytes : code->constants_at);
    fill_frame(w, frame, again);
    return frame;
}

void sim_frame_free(sim_warp *w, sim_frame *frame)
{
    frame->parent = w->free_frames;
    w->free_frames = frame;
}

uint8_t *sim_local_byte(const sim_warp *w, uint64_t at, unsigned lane)
{
    return w->local + ((at / 4) * SIM_LANES + lane) * 4 + at % 4;
}

void sim_local_written(sim_warp *w, const uint8_t *byte, uint32_t bytes)
{
    sim_warp_memory *mem = w->memory;
    if (!mem || !mem->local_bits)
        return;
    for (uint32_t i = 0; i < bytes; i++) {
        uint64_t bit = (uint64_t)(byte + i - w->local);
        mem->local_bits[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    sim_taint_local_written(w, byte, bytes);
}

bool sim_local_is_written(const sim_warp *w, const uint8_t *byte)
{
    const sim_warp_memory *mem = w->memory;
    return !mem || !mem->local_bits ||
           (bits_get(mem->local_bits, (uint64_t)(byte - w->local)) &&
            !sim_taint_local(w, byte));
}

/* Copies an object between frames, with what is known of its bytes. */
static void copy_local(sim_warp *w, uint64_t to, uint64_t from, uint64_t size,
                       uint32_t lanes)
{
    sim_warp_memory *mem = w->memory;
    for (uint64_t i = 0; i < size; i++)
        for (unsigned l = 0; l < SIM_LANES; l++) {
            if (!(lanes >> l & 1))
                continue;
            uint8_t *d = sim_local_byte(w, to + i, l);
            const uint8_t *s = sim_local_byte(w, from + i, l);
            *d = *s;
            if (!mem || !mem->local_bits)
                continue;
            if (bits_get(mem->local_bits, (uint64_t)(s - w->local)))
                sim_local_written(w, d, 1);
            else
                bits_clear(mem->local_bits, (uint64_t)(d - w->local), 1);
            sim_taint_copy(w, d, s);
        }
}

static const ptx_var *var_of(const sim_warp *w, uint32_t index)
{
    return &w->launch->module->vars[index];
}

static void pass_arguments(const sim_insn *in, sim_warp *w, uint8_t *regs,
                           const sim_frame *frame, uint32_t lanes)
{
    const ptx_func *caller = w->frame->code->func;
    const ptx_func *callee = frame->code->func;
    const ptx_operand *list = &in->src->operands[2];
    const sim_arg *args = &in->args->arg[in->args->first[2]];
    for (uint32_t i = 0; i < list->count && i < callee->n_params; i++) {
        const ptx_operand *operand = &caller->vectors[list->index + i];
        const ptx_var *param = var_of(w, callee->params[i]);
        uint64_t to = frame->local_base + param->offset;
        if (operand->kind == PTX_ADDRESS) {
            const ptx_var *var = var_of(w, operand->index);
            copy_local(w, to, w->frame->local_base + var->offset,
                       var->size < param->size ? var->size : param->size,
                       lanes);
            continue;
        }
        for (unsigned l = 0; l < SIM_LANES; l++)
            for (uint32_t k = 0;
                 lanes >> l & 1 && k < args[i].width && k < param->size; k++) {
                uint8_t *d = sim_local_byte(w, to + k, l);
                *d = regs[args[i].slot + l * args[i].width + k];
                sim_local_written(w, d, 1);
            }
    }
}

static void take_results(sim_warp *w, const sim_frame *frame, uint32_t lanes)
{
    const sim_insn *in = frame->call;
    const sim_frame *parent = frame->parent;
    const ptx_func *caller = parent->code->func;
    const ptx_func *callee = frame->code->func;
    const ptx_operand *list = &in->src->operands[1];
    const sim_arg *args = &in->args->arg[in->args->first[1]];
    for (uint32_t i = 0; i < list->count && i < callee->n_returns; i++) {
        const ptx_operand *operand = &caller->vectors[list->index + i];
        const ptx_var *result = var_of(w, callee->returns[i]);
        uint64_t from = frame->local_base + result->offset;
        if (operand->kind == PTX_ADDRESS) {
            const ptx_var *var = var_of(w, operand->index);
            copy_local(w, parent->local_base + var->offset, from,
                       var->size < result->size ? var->size : result->size,
                       lanes);
            continue;
        }
        for (unsigned l = 0; l < SIM_LANES; l++)
            for (uint32_t k = 0;
                 lanes >> l & 1 && k < args[i].width && k < result->size; k++)
                parent->regs[args[i].slot + l * args[i].width + k] =
                    *sim_local_byte(w, from + k, l);
    }
}

static void call_report(const sim_insn *in, sim_warp *w, uint32_t exec,
                        spt_sim_kind kind, const char *detail, int result)
{
    sim_place place;
    sim_place_of(w, in, (unsigned)__builtin_ctz(exec), &place);
    sim_report_add(kind, &place, 0, 1, 0, detail);
    sim_fault(w, result);
}

/* The function that a lane calls; NULL when its address is none. */
static const ptx_func *callee_of(const sim_insn *in, const sim_warp *w,
                                 const uint8_t *regs, unsigned lane,
                                 uint64_t *address)
{
    const ptx_module *module = w->launch->module;
    const ptx_operand *operand = &in->src->operands[0];
    *address = 0;
    if (operand->kind == PTX_FUNCTION)
        return &module->funcs[operand->index];
    const sim_arg *arg = &in->args->arg[in->args->first[0]];
    memcpy(address, regs + arg->slot + lane * arg->width, sizeof *address);
    uint64_t index = (*address - SIM_FUNCTION_ADDRESS(0)) / 16;
    if (*address < SIM_FUNCTION_ADDRESS(0) || index >= module->n_funcs)
        return NULL;
    return &module->funcs[index];
}

void sim_call_run(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    uint64_t address, other;
    unsigned first = (unsigned)__builtin_ctz(exec);
    const ptx_func *callee = callee_of(in, w, regs, first, &address);
    uint32_t lanes = exec, rest = w->mask & ~exec;
    const sim_program *program = w->launch->args.program;
    for (unsigned l = 0; address && l < SIM_LANES; l++)
        if (lanes >> l & 1 &&
            (callee_of(in, w, regs, l, &other), other != address))
            lanes &= ~(1u << l);
    w->mask = 0;
    w->event = SIM_EVENT_GROUPS;
    if (exec & ~lanes)
        sim_group_add(w, in, w->frame, exec & ~lanes, SIM_READY, 0, 0);
    if (!callee) {
        call_report(in, w, lanes, SPT_SIM_CALL, "not a function", 719);
        return;
    }
    const sim_code *code = program->codes[callee - w->launch->module->funcs];
    if (rest)
        sim_group_add(w, in + 1, w->frame, rest, SIM_READY, 0, 0);
    if (!code) {
        sim_extern_run(in, w, regs, callee, lanes);
        sim_group_add(w, in + 1, w->frame, lanes, SIM_READY, 0, 0);
        return;
    }
    sim_frame *frame = sim_frame_new(w, w->frame, code, lanes);
    if (!frame || frame->local_base + code->frame_bytes > w->local_bytes) {
        call_report(in, w, lanes, SPT_SIM_BOUNDS_LOCAL, "stack overflow", 719);
        return;
    }
    frame->call = in;
    frame->back = in + 1;
    pass_arguments(in, w, regs, frame, lanes);
    sim_group_add(w, code->starts[0], frame, lanes, SIM_READY, 0, 0);
}

void sim_call_return(sim_warp *w, uint32_t lanes)
{
    sim_frame *frame = w->frame;
    take_results(w, frame, lanes);
    sim_group_add(w, frame->back, frame->parent, lanes, SIM_READY, 0, 0);
    frame->lanes &= ~lanes;
    if (!frame->lanes)
        sim_frame_free(w, frame);
}

/* ---- alloca: local memory behind the frame, by lane ---- */

static uint64_t stack_base(const sim_warp *w)
{
    return w->frame->local_base + w->frame->code->frame_bytes;
}

OP(stack_save)
{
    EACH_LANE
    put(arg_of(in, 0), regs, l, stack_base(w) + w->frame->taken[l]);
}

OP(stack_restore)
{
    EACH_LANE
    {
        uint64_t taken = get(in, regs, 0, l) - stack_base(w);
        if (taken <= w->frame->taken[l])
            w->frame->taken[l] = taken;
        else
            call_report(in, w, 1u << l, SPT_SIM_OPERAND,
                        "not a pointer that stacksave gave", 719);
    }
}

OP(stack_take)
{
    uint64_t align = in->src->n_operands > 2 ? get(in, regs, 2, 0) : 8;
    EACH_LANE
    {
        uint64_t size = get(in, regs, 1, l);
        uint64_t at = stack_base(w) + w->frame->taken[l];
        at = (at + align - 1) / align * align;
        put(arg_of(in, 0), regs, l, at);
        if (at + size < at || at + size > w->local_bytes) {
            call_report(in, w, 1u << l, SPT_SIM_BOUNDS_LOCAL, "stack overflow",
                        719);
            return;
        }
        w->frame->taken[l] = at + size - stack_base(w);
    }
}

sim_op sim_stack_op(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_STACKSAVE:
        return stack_save;
    case PTX_OP_STACKRESTORE:
        return stack_restore;
    case PTX_OP_ALLOCA:
        return stack_take;
    default:
        return NULL;
    }
}
