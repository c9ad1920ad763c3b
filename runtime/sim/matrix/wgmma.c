/*
 * wgmma: four warps multiply matrices that stand in shared memory, D some time
 * between the instruction and wgmma.wait_group. Each warp has 16 of the 64 rows
 * of A and D, in the layout of mma.m16n8, eight columns after the other.
 *
 * A product is one of four warps: a wait ends when all of them have issued what
 * is waited for, and then it is done for all, any of which may overwrite A and
 * B.
 *
 * With checks the work is done at the wait, as late as the rules allow: shared
 * memory that has changed meanwhile shows. Instructions that name a register of
 * a wgmma in flight, or wrote one without a wgmma.fence behind it, are
 * reported; a mov, which compilers add, makes the wgmma end and is not.
 *
 * A matrix in shared memory is made of chunks of 16 bytes; a register of a
 * fragment is eight of them. chunk_at() says where they are.
 */
#include "access.h"

#include "async.h"
#include "decode.h"
#include "engine_int.h"
#include "lanes_mma.h"
#include "ptx_live.h"
#include "race.h"

enum {
    REGISTER = SIM_LANES * 4,
    ROWS = 16,
    GROUP_WARPS = 4,
    COMMITS = 8, /* groups that a wait can leave in flight, and one */
    AT_WAIT = SIM_CLUSTER_BARRIER + 1, /* a group that waits for warps */
};

typedef struct wgmma_op {
    const sim_insn *in;
    sim_frame *frame;
    uint64_t a, b; /* descriptors */
    bool add; /* to D */
    uint32_t warp; /* whose rows it has */
    uint64_t number; /* of those that the warp has issued, from 1 on */
    uint8_t held[4][REGISTER]; /* A from registers */
} wgmma_op;

typedef struct sim_wgmma {
    wgmma_op *ops; /* in flight, oldest first */
    size_t count, room;
    uint64_t issued, commits[COMMITS]; /* numbers when groups were committed */
    uint32_t committed;
    bool fenced;
    /* Registers of a function that were written since the last fence. */
    const ptx_func *func;
    bool *dirty;
} sim_wgmma;

static sim_warp_memory *memory_of(const sim_warp *w)
{
    return w->memory;
}

static sim_wgmma *state_of(sim_warp *w)
{
    sim_warp_memory *mem = memory_of(w);
    if (!mem->wgmma && !(mem->wgmma = spt_calloc(1, sizeof *mem->wgmma)))
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
    return mem->wgmma;
}

void sim_wgmma_delete(sim_wgmma *wgmma)
{
    if (!wgmma)
        return;
    spt_free(wgmma->ops);
    spt_free(wgmma->dirty);
    spt_free(wgmma);
}

static void report(sim_warp *w, const sim_insn *in, const char *detail)
{
    sim_insn_report(w, in, SPT_SIM_WGMMA, 0, 0, detail);
}

void sim_wgmma_begin(sim_warp *w)
{
    sim_wgmma *state = memory_of(w)->wgmma;
    if (!state)
        return;
    state->count = 0;
    state->issued = 0;
    state->committed = 0;
    state->fenced = false;
    state->func = NULL;
}

void sim_wgmma_end(sim_warp *w)
{
    sim_wgmma *state = memory_of(w)->wgmma;
    if (state && state->count && !w->cta->fault)
        report(w, state->ops[0].in, "never waited for");
}

/* ---- matrices in shared memory ---- */

typedef struct matrix {
    uint32_t start, leading, stride; /* bytes */
    uint32_t base; /* of the swizzle's pattern */
    uint32_t span; /* chunks that the swizzle permutes: 1, 2, 4, 8 */
    bool across; /* chunks lie along M or N, not along K */
} matrix;

static matrix matrix_of(uint64_t descriptor, bool across)
{
    static const uint8_t spans[] = {1, 8, 4, 2};
    return (matrix){
        .start = (uint32_t)(descriptor & 0x3fff) << 4,
        .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
        .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
        .base = (uint32_t)(descriptor >> 49 & 7),
        .span = spans[descriptor >> 62],
        .across = across,
    };
}

/*
 * Shared address of a chunk. Along K: line is a row of A or a column of B, at
 * 0 or 1 the chunk of it. Across: line is the k, at the chunk of eight rows or
 * columns.
 */
static uint32_t chunk_at(const matrix *m, uint32_t line, uint32_t at)
{
    uint32_t row = line % 8 * m->span * 16, eight = line / 8, place;
    if (!m->across)
        place = row + eight * m->stride + at * (m->span > 1 ? 16 : m->leading);
    else if (m->span == 1)
        place = row + eight * m->leading + at * m->stride;
    else
        place = row + eight * m->stride + at % m->span * 16 +
                at / m->span * m->leading;
    place += m->start;
    return place ^ (((place >> 7) - m->base) & (m->span - 1)) << 4;
}

/* An 8x8 matrix of 16-bit elements, transposed. */
static void transpose(uint8_t *block)
{
    uint16_t in[64], out[64];
    memcpy(in, block, sizeof in);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++)
            out[c * 8 + r] = in[r * 8 + c];
    memcpy(block, out, sizeof out);
}

/* What threads wrote to a matrix needs a fence for wgmma to see it. */
static void check_proxy(sim_warp *w, const wgmma_op *op, const matrix *m,
                        uint32_t first, uint32_t lines)
{
    uint32_t size = w->cta->shared_bytes;
    for (uint32_t i = 0; i < 2 * lines; i++) {
        uint32_t line = first + i / 2;
        uint32_t at = m->across ? chunk_at(m, i % 16, first / 8 + i / 16)
                                : chunk_at(m, line, i % 2);
        if (at >= w->launch->shared_base && at + 16 <= size)
            sim_race_proxy_read(w, op->in, 0, at, 16);
    }
}

/* The two registers of eight rows or columns, from first on, one for each half
   of k; two such pairs at once. */
static void fetch(sim_warp *w, const wgmma_op *op, const matrix *m,
                  uint32_t first, uint32_t pairs, uint8_t (*to)[REGISTER])
{
    sim_access a;
    sim_access_begin(&a, op->in, w, pairs == 2 ? UINT32_MAX : UINT16_MAX, 16,
                     false, w->launch->args.checks);
    a.count = -1;
    for (uint32_t l = 0; l < 16 * pairs; l++) {
        uint32_t line = l % 8, half = l / 8 % 2, block = first / 8 + l / 16;
        a.addr[l] = m->across ? chunk_at(m, 8 * half + line, block)
                              : chunk_at(m, 8 * block + line, half);
    }
    sim_access_resolve(&a, PTX_SHARED);
    for (uint32_t l = 0; l < 16 * pairs; l++)
        memcpy(to[l / 8] + l % 8 * 16, a.at[l], 16);
    for (uint32_t i = 0; m->across && i < 2 * pairs; i++)
        transpose(to[i]);
}

/* ---- the product ---- */

static int32_t constant(const sim_insn *in, int operand)
{
    return operand < in->src->n_operands
               ? (int32_t)in->src->operands[operand].value
               : 0;
}

static bool has_registers(const ptx_insn *src)
{
    return src->operands[1].kind == PTX_VECTOR;
}

static matrix matrix_a(const wgmma_op *op)
{
    return matrix_of(op->a, constant(op->in, 6) == 1);
}

static matrix matrix_b(const wgmma_op *op)
{
    int last = has_registers(op->in->src) ? 6 : 7;
    return matrix_of(op->b, constant(op->in, last) == 1);
}

/* Flips the signs of all elements when a scale is -1. */
static void negate(uint8_t *bytes, size_t n, unsigned type, int32_t scale)
{
    size_t size = ptx_type_bytes(type);
    for (size_t i = size - 1; scale == -1 && i < n; i += size)
        bytes[i] ^= 0x80;
}

static void load_a(sim_warp *w, const wgmma_op *op, uint8_t (*to)[REGISTER])
{
    const ptx_insn *src = op->in->src;
    uint8_t pairs[4][REGISTER];
    if (has_registers(src)) {
        memcpy(to, op->held, 4 * REGISTER);
    } else {
        matrix m = matrix_a(op);
        fetch(w, op, &m, op->warp % GROUP_WARPS * ROWS, 2, pairs);
        memcpy(to[0], pairs[0], REGISTER);
        memcpy(to[1], pairs[2], REGISTER);
        memcpy(to[2], pairs[1], REGISTER);
        memcpy(to[3], pairs[3], REGISTER);
    }
    negate(to[0], 4 * REGISTER, src->types[1], constant(op->in, 4));
}

static sim_mma_function *unit(void)
{
    static sim_mma_function *const units[] = {
        [SIM_BUILD_PLAIN] = sim_mma_plain,
#if defined(__x86_64__)
        [SIM_BUILD_AVX2] = sim_mma_avx2,
        [SIM_BUILD_AVX512] = sim_mma_avx512,
#endif
    };
    return units[sim_lanes_build()];
}

static sim_mma describe(const ptx_insn *src)
{
    bool half = src->types[0] == PTX_F16;
    return (sim_mma){
        .a = (uint8_t)sim_mma_element_of(src->types[1]),
        .b = (uint8_t)sim_mma_element_of(src->types[2]),
        .m = ROWS,
        .k = (uint8_t)(src->depth - 1),
        .c_half = half,
        .d_half = half,
        .saturate = ptx_has(src, PTX_MOD_SATFINITE),
    };
}

/* Eight columns of D, whose registers begin with number first. */
static void multiply(const wgmma_op *op, const sim_mma *m, uint32_t first,
                     const uint8_t (*a)[REGISTER], const uint8_t (*b)[REGISTER])
{
    static const uint8_t zeros[REGISTER] __attribute__((aligned(64)));
    const sim_arg *arg = &op->in->args->arg[op->in->args->first[0] + first];
    const void *ra[4] = {a[0], a[1], a[2], a[3]}, *rb[2] = {b[0], b[1]};
    const void *c[4];
    void *d[4];
    for (uint32_t i = 0; i < (m->d_half ? 2u : 4u); i++) {
        d[i] = op->frame->regs + arg[i].slot;
        c[i] = op->add ? d[i] : zeros;
    }
    unit()(m, d, ra, rb, c);
}

static void perform(sim_warp *w, const wgmma_op *op)
{
    const ptx_insn *src = op->in->src;
    uint8_t a[4][REGISTER] __attribute__((aligned(64)));
    uint8_t b[4][REGISTER] __attribute__((aligned(64)));
    sim_mma mma = describe(src);
    matrix m = matrix_b(op);
    uint32_t each = mma.d_half ? 2 : 4;
    load_a(w, op, a);
    for (uint32_t n = 0; n < src->columns && !w->cta->fault; n += 16) {
        uint32_t pairs = src->columns - n >= 16 ? 2 : 1;
        fetch(w, op, &m, n, pairs, b);
        negate(b[0], pairs * 2 * REGISTER, src->types[2], constant(op->in, 5));
        for (uint32_t i = 0; i < pairs; i++)
            multiply(op, &mma, (n / 8 + i) * each,
                     (const uint8_t(*)[REGISTER])a,
                     (const uint8_t(*)[REGISTER])(b + 2 * i));
    }
}

/* The oldest n that are in flight. */
static void complete(sim_warp *w, sim_wgmma *state, size_t n)
{
    for (size_t i = 0; i < n && !w->cta->fault; i++)
        perform(w, &state->ops[i]);
    state->count -= n;
    memmove(state->ops, state->ops + n, state->count * sizeof *state->ops);
}

/* ---- registers ---- */

static bool names(const sim_frame *frame, const ptx_operand *operand,
                  uint32_t reg)
{
    uint32_t at = 0, one;
    while (ptx_live_next(frame->code->func, operand, &at, &one))
        if (one == reg)
            return true;
    return false;
}

/* Number of ops up to the last in flight that works on a register; 0: none. */
static size_t in_flight(const sim_wgmma *state, const sim_frame *frame,
                        uint32_t reg, bool written)
{
    for (size_t i = state->count; i > 0; i--) {
        const wgmma_op *op = &state->ops[i - 1];
        const ptx_operand *operands = op->in->src->operands;
        if (op->frame == frame && (names(frame, &operands[0], reg) ||
                                   (written && has_registers(op->in->src) &&
                                    names(frame, &operands[1], reg))))
            return i;
    }
    return 0;
}

static bool *dirty_of(sim_warp *w, sim_wgmma *state)
{
    const ptx_func *func = w->frame->code->func;
    if (state->func == func)
        return state->dirty;
    spt_free(state->dirty);
    state->func = func;
    state->dirty = spt_calloc(func->n_regs, sizeof *state->dirty);
    if (!state->dirty)
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
    return state->dirty;
}

static void touch(sim_warp *w, sim_wgmma *state, const sim_insn *in,
                  uint32_t reg, bool written)
{
    bool move = in->src->op == PTX_OP_MOV;
    bool *dirty = dirty_of(w, state);
    size_t n = in_flight(state, w->frame, reg, written);
    if (dirty && written && !move)
        dirty[reg] = true;
    if (n && move && !written)
        complete(w, state, n);
    else if (n)
        report(w, in,
               written ? "writes a register of a wgmma in flight"
                       : "reads a register of a wgmma in flight");
}

void sim_wgmma_touch(const sim_insn *in, sim_warp *w)
{
    sim_wgmma *state = state_of(w);
    int results = ptx_live_results(in->src);
    for (int i = 0; state && i < in->src->n_operands; i++) {
        uint32_t at = 0, reg;
        while (ptx_live_next(w->frame->code->func, &in->src->operands[i], &at,
                             &reg))
            touch(w, state, in, reg, i < results);
    }
}

/* Registers that were written need a fence before wgmma works on them. */
static void check_fence(sim_warp *w, sim_wgmma *state, const sim_insn *in)
{
    const bool *dirty = dirty_of(w, state);
    bool missing = !state->fenced;
    for (int i = 0; dirty && i < 2; i++) {
        uint32_t at = 0, reg;
        while (in->src->operands[i].kind == PTX_VECTOR &&
               ptx_live_next(state->func, &in->src->operands[i], &at, &reg)) {
            missing |= dirty[reg];
            if (i && in_flight(state, w->frame, reg, false))
                report(w, in, "reads a register of a wgmma in flight");
        }
    }
    if (missing)
        report(w, in, "no wgmma.fence behind a register's last write");
}

/* ---- instructions ---- */

static uint64_t value_of(const sim_insn *in, const uint8_t *regs, int operand,
                         unsigned lane)
{
    uint64_t value;
    memcpy(&value,
           regs + in->args->arg[in->args->first[operand]].slot + 8 * lane, 8);
    return value;
}

static void check_uniform(sim_warp *w, const sim_insn *in, const uint8_t *regs)
{
    for (int i = has_registers(in->src) ? 2 : 1; i < 3; i++)
        for (unsigned l = 1; l < SIM_LANES; l++)
            if (value_of(in, regs, i, l) != value_of(in, regs, i, 0)) {
                report(w, in, "lanes have different descriptors");
                return;
            }
}

/* All warps of the group that still run have issued that many. */
static bool all_issued(const sim_warp *w, uint64_t number)
{
    uint32_t first = w->index / GROUP_WARPS * GROUP_WARPS;
    for (uint32_t i = first; i < first + GROUP_WARPS && i < w->cta->n_warps;
         i++) {
        const sim_warp *other = &w->cta->warps[i];
        const sim_wgmma *state = memory_of(other)->wgmma;
        if (!other->done && (state ? state->issued : 0) < number)
            return false;
    }
    return true;
}

/* Warps that wait for this one look again. */
static void wake(sim_warp *w)
{
    uint32_t first = w->index / GROUP_WARPS * GROUP_WARPS;
    for (uint32_t i = first; i < first + GROUP_WARPS && i < w->cta->n_warps;
         i++) {
        sim_warp *other = &w->cta->warps[i];
        for (int k = 0; k < other->n_groups; k++)
            if (other->groups[k].state == SIM_AT_BARRIER &&
                other->groups[k].barrier == AT_WAIT) {
                other->groups[k].state = SIM_READY;
                other->groups[k].barrier = 0;
            }
    }
}

static wgmma_op issue(const sim_insn *in, sim_warp *w, const uint8_t *regs)
{
    const sim_args *args = in->args;
    wgmma_op op = {.in = in, .frame = w->frame, .warp = w->index};
    uint32_t scale = SIM_PRED(args->arg[args->first[3]].slot) & 1;
    op.add = scale != in->src->operands[3].negated;
    op.b = value_of(in, regs, 2, 0);
    if (!has_registers(in->src))
        op.a = value_of(in, regs, 1, 0);
    for (int i = 0; has_registers(in->src) && i < 4; i++)
        memcpy(op.held[i], regs + args->arg[args->first[1] + i].slot, REGISTER);
    return op;
}

static void op_mma(const sim_insn *in, sim_warp *w, uint8_t *regs,
                   uint32_t exec)
{
    sim_wgmma *state = state_of(w);
    if (!state)
        return;
    sim_whole_warp(w, in, exec);
    wgmma_op op = issue(in, w, regs);
    perform(w, &op);
    state->issued++;
    wake(w);
}

static void op_mma_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                           uint32_t exec)
{
    sim_wgmma *state = state_of(w);
    if (!state)
        return;
    sim_whole_warp(w, in, exec);
    check_uniform(w, in, regs);
    check_fence(w, state, in);
    if (!spt_grow(&state->ops, &state->room, state->count + 1,
                  sizeof *state->ops)) {
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    wgmma_op *op = &state->ops[state->count++];
    *op = issue(in, w, regs);
    op->number = ++state->issued;
    matrix a = matrix_a(op), b = matrix_b(op);
    if (!has_registers(in->src))
        check_proxy(w, op, &a, w->index % GROUP_WARPS * ROWS, ROWS);
    check_proxy(w, op, &b, 0, in->src->columns);
    wake(w);
}

static void op_fence(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    sim_wgmma *state = state_of(w);
    (void)in, (void)regs, (void)exec;
    if (!state)
        return;
    state->fenced = true;
    bool *dirty = dirty_of(w, state);
    if (dirty)
        memset(dirty, 0, state->func->n_regs * sizeof *dirty);
}

static void op_commit(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    sim_wgmma *state = state_of(w);
    (void)in, (void)regs, (void)exec;
    if (state)
        state->commits[state->committed++ % COMMITS] = state->issued;
}

/* Completes what the warps of the group have issued, up to a number. */
static void complete_group(sim_warp *w, uint64_t number)
{
    uint32_t first = w->index / GROUP_WARPS * GROUP_WARPS;
    for (uint32_t i = first; i < first + GROUP_WARPS && i < w->cta->n_warps;
         i++) {
        sim_wgmma *state = memory_of(&w->cta->warps[i])->wgmma;
        size_t n = 0;
        while (state && n < state->count && state->ops[n].number <= number)
            n++;
        if (n)
            complete(w, state, n);
    }
}

static void op_wait(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    sim_wgmma *state = state_of(w);
    uint32_t keep = (uint32_t)in->src->operands[0].value;
    (void)regs;
    if (!state || state->committed <= keep || keep >= COMMITS)
        return;
    uint64_t number = state->commits[(state->committed - keep - 1) % COMMITS];
    if (!all_issued(w, number)) {
        sim_group_park(w, in, in, exec, SIM_AT_BARRIER, 0, AT_WAIT);
        return;
    }
    if (!w->launch->args.checks)
        return;
    uint32_t key = SIM_CLOCK_KEY - 1 - w->index / GROUP_WARPS;
    if (state->count && state->ops[0].number <= number) {
        complete_group(w, number);
        sim_clock_leave(w, key);
    }
    sim_clock_take(w, key);
}

static void op_nothing(const sim_insn *in, sim_warp *w, uint8_t *regs,
                       uint32_t exec)
{
    (void)in, (void)w, (void)regs, (void)exec;
}

sim_op sim_wgmma_op(const ptx_insn *insn, bool checks)
{
    switch (insn->op) {
    case PTX_OP_WGMMA_MMA_ASYNC:
        return checks ? op_mma_checked : op_mma;
    case PTX_OP_WGMMA_FENCE:
        return checks ? op_fence : op_nothing;
    case PTX_OP_WGMMA_COMMIT_GROUP:
        return op_commit;
    case PTX_OP_WGMMA_WAIT_GROUP:
        return op_wait;
    default:
        return NULL;
    }
}
