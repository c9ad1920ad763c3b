/*
 * Which memory, matrix and warp-wide instructions have handlers that take the
 * whole warp at once (lanes_memory.c, lanes_copy.c, lanes_shuffle.c,
 * lanes_mma.c). They need an instruction whose registers are as wide as what
 * it moves; with checks, copies and what orders other accesses have none.
 */
#include "access.h"
#include "decode_int.h"
#include "engine_lanes.h"

/* As the rows of those files stand. */
enum { GLOBAL, SHARED32, SHARED64, GENERIC, SPACES };
enum { SHAPE8, SHAPE16, SHAPE32, SHAPE64, SHAPE32X2, SHAPE32X4, SHAPE64X2 };
enum {
    SHAPES = SHAPE64X2 + 1,
    PARAMETER32 = 2 * SPACES * SHAPES,
    PARAMETER64,
    COPY4 = 0,
    COPY8,
    COPY16,
    MATRIX, /* x1 x2 x4, then .trans */
    SHUFFLE = 0, /* up down bfly idx */
    MMA_BF16 = 0,
    MMA_F16,
};

static int shape_of(uint32_t bytes, uint32_t count)
{
    switch (bytes) {
    case 1:
        return count == 1 ? SHAPE8 : -1;
    case 2:
        return count == 1 ? SHAPE16 : -1;
    case 4:
        return count == 1   ? SHAPE32
               : count == 2 ? SHAPE32X2
               : count == 4 ? SHAPE32X4
                            : -1;
    case 8:
        return count == 1 ? SHAPE64 : count == 2 ? SHAPE64X2 : -1;
    default:
        return -1;
    }
}

static int space_of(const ptx_insn *src, const sim_arg *address)
{
    if (address->flags & SIM_ARG_FRAME)
        return -1;
    switch (src->space) {
    case PTX_GLOBAL:
    case PTX_CONST:
        return address->width == 8 ? GLOBAL : -1;
    case PTX_SHARED:
        return address->width == 8 ? SHARED64 : SHARED32;
    case PTX_GENERIC:
        return address->width == 8 ? GENERIC : -1;
    default:
        return -1;
    }
}

/* Each register takes one element, with zeros above it. */
static bool registers_fit(const ptx_insn *src, const sim_arg *arg,
                          uint32_t count, uint32_t bytes)
{
    bool is_signed = ptx_type_kind((ptx_type)src->types[0]) == PTX_KIND_SIGNED;
    for (uint32_t i = 0; i < count; i++) {
        if (arg[i].flags & SIM_ARG_SINK)
            continue;
        if (arg[i].width != (bytes <= 4 ? 4 : bytes))
            return false;
        if (src->op != PTX_OP_ST && is_signed &&
            ptx_type_bytes((ptx_type)arg[i].type) != bytes)
            return false;
    }
    return true;
}

/* A kernel's parameter; those of calls lie in local memory. */
static int parameter_row(const sim_decoder *d, const ptx_insn *src,
                         const sim_arg *address, uint32_t bytes)
{
    if (src->op != PTX_OP_LD || address->flags & SIM_ARG_FRAME ||
        address->width != 8 || !d->func->entry ||
        (src->operands[1].base == PTX_BASE_VARIABLE &&
         d->program->module->vars[src->operands[1].index].space != PTX_PARAM))
        return -1;
    return bytes == 4 ? PARAMETER32 : bytes == 8 ? PARAMETER64 : -1;
}

static int move_row(const sim_decoder *d, const ptx_insn *src,
                    const sim_args *args)
{
    bool store = src->op == PTX_OP_ST;
    uint32_t bytes = ptx_type_bytes((ptx_type)src->types[0]);
    uint32_t count = src->vector > 1 ? src->vector : 1;
    const sim_arg *address = &args->arg[args->first[!store]];
    if (!registers_fit(src, &args->arg[args->first[store]], count, bytes))
        return -1;
    if (src->space == PTX_PARAM)
        return parameter_row(d, src, address, bytes);
    int shape = shape_of(bytes, count), space = space_of(src, address);
    return shape < 0 || space < 0 ? -1 : 2 * (space * SHAPES + shape) + store;
}

static int copy_row(const ptx_insn *src, const sim_args *args)
{
    const sim_arg *to = &args->arg[args->first[0]];
    const sim_arg *from = &args->arg[args->first[1]];
    if ((to->flags | from->flags) & SIM_ARG_FRAME || from->width != 8 ||
        src->operands[2].kind != PTX_IMMEDIATE || src->n_operands > 4 ||
        (src->n_operands == 4 && args->arg[args->first[3]].width != 4))
        return -1;
    switch (src->operands[2].value) {
    case 4:
        return COPY4;
    case 8:
        return COPY8;
    case 16:
        return COPY16;
    default:
        return -1;
    }
}

static int matrix_row(const ptx_insn *src, const sim_args *args)
{
    if (src->types[0] != PTX_B16 || src->space != PTX_SHARED ||
        args->arg[args->first[1]].width != 4)
        return -1;
    return MATRIX + 3 * ptx_has(src, PTX_MOD_TRANS) +
           (ptx_has(src, PTX_MOD_X4)   ? 2
            : ptx_has(src, PTX_MOD_X2) ? 1
                                       : 0);
}

/* Data, distance, clamp and members are registers or constants of 32 bits. */
static int shuffle_row(const ptx_insn *src, const sim_args *args)
{
    int base = 1 + src->operands[0].pair;
    if (args->arg[0].width != 4 || src->n_operands != base + 4)
        return -1;
    for (int i = base; i < base + 4; i++)
        if (args->arg[args->first[i]].width != 4)
            return -1;
    return SHUFFLE + (ptx_has(src, PTX_MOD_UP)     ? 0
                      : ptx_has(src, PTX_MOD_DOWN) ? 1
                      : ptx_has(src, PTX_MOD_BFLY) ? 2
                                                   : 3);
}

/* m16n8k16 of halves; a register of D that is another one of C needs a copy. */
static int mma_row(const ptx_insn *src, const sim_args *args)
{
    if (!ptx_has(src, PTX_MOD_M16N8K16) || src->n_types != 4 ||
        src->types[0] != PTX_F32 || src->types[3] != PTX_F32 ||
        src->types[1] != src->types[2] || args->count != 14)
        return -1;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (args->arg[i].slot == args->arg[10 + j].slot && i != j)
                return -1;
    return src->types[1] == PTX_BF16  ? MMA_BF16
           : src->types[1] == PTX_F16 ? MMA_F16
                                      : -1;
}

void sim_decode_memory(const sim_decoder *d, const ptx_insn *src,
                       const sim_args *args, sim_handler *full,
                       sim_handler *masked)
{
    const sim_lane_table *table = sim_lanes_memory();
    int row = -1;
    bool checks = d->program->checks;
    if (checks && (src->op == PTX_OP_CP_ASYNC || !sim_access_is_plain(src)))
        return;
    switch (src->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
    case PTX_OP_ST:
        row = move_row(d, src, args);
        break;
    case PTX_OP_CP_ASYNC:
        table = sim_lanes_copy();
        row = copy_row(src, args);
        break;
    case PTX_OP_LDMATRIX:
        table = sim_lanes_copy();
        row = matrix_row(src, args);
        break;
    case PTX_OP_SHFL:
        table = sim_lanes_shuffle();
        row = shuffle_row(src, args);
        break;
    case PTX_OP_MMA:
        table = sim_lanes_mma();
        row = mma_row(src, args);
        break;
    default:
        break;
    }
    if (row < 0)
        return;
    *full = table->ops[row].full;
    *masked = table->ops[row].masked ? table->ops[row].masked : *masked;
}
