/*
 * wmma: whole matrices in fragments whose layout is ours to choose.
 *
 * Layout. Number the matrix's elements, A and C and D along their rows, B
 * along its columns. With E = elements / 32, lane l has the numbers l*E to
 * l*E + E-1, in the order of its registers and from the low bits up in each. A
 * fragment that has more room than that (the halves' A and B) repeats them.
 * mma adds a k-group as a tree, as mma.sync does, and C last.
 */
#include "access.h"
#include "access_dot.h"

enum { M_MAX = 32, N_MAX = 32, K_MAX = 128 };

typedef enum part { PART_A, PART_B, PART_C } part;

typedef struct wmma_shape {
    uint8_t mod, m, n, k;
} wmma_shape;

static const wmma_shape shapes[] = {
    {PTX_MOD_M16N16K16, 16, 16, 16}, {PTX_MOD_M16N16K8, 16, 16, 8},
    {PTX_MOD_M32N8K16, 32, 8, 16},   {PTX_MOD_M8N32K16, 8, 32, 16},
    {PTX_MOD_M8N8K4, 8, 8, 4},       {PTX_MOD_M8N8K32, 8, 8, 32},
    {PTX_MOD_M8N8K128, 8, 8, 128},
};

static const wmma_shape *shape_of(const ptx_insn *insn)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (ptx_has(insn, shapes[i].mod))
            return &shapes[i];
    return NULL;
}

static unsigned bits_of(unsigned type)
{
    switch (type) {
    case PTX_B1:
        return 1;
    case PTX_S4:
    case PTX_U4:
        return 4;
    default:
        return 8 * ptx_type_bytes(type);
    }
}

/* A part's lines (rows of A and C, columns of B) and their length. */
static void extent(const wmma_shape *s, part which, unsigned *lines,
                   unsigned *length)
{
    *lines = which == PART_B ? s->n : s->m;
    *length = which == PART_C ? s->n : s->k;
}

/* Elements of less than a byte move eight, or 32, at a time. */
static void element_addresses(sim_access *a, const uint64_t *base,
                              const sim_insn *in, const uint8_t *regs,
                              part which, unsigned bits, unsigned index)
{
    const wmma_shape *s = shape_of(in->src);
    unsigned lines, length;
    extent(s, which, &lines, &length);
    unsigned per = lines * length / SIM_LANES;
    bool row = ptx_has(in->src, PTX_MOD_ROW);
    bool along = row == (which != PART_B); /* lines are contiguous */
    const sim_arg *stride =
        in->src->n_operands > 2 ? &in->args->arg[in->args->first[2]] : NULL;
    for (unsigned l = 0; l < SIM_LANES; l++) {
        uint64_t lead = along ? length : lines;
        if (stride) {
            uint32_t value;
            memcpy(&value, regs + stride->slot + stride->width * l, 4);
            lead = value;
        }
        uint64_t number = l * per + index;
        uint64_t line = number / length, at = number % length;
        uint64_t place = along ? line * lead + at : at * lead + line;
        a->addr[l] = base[l] + place * bits / 8;
    }
}

/* Value of element i in the fragment's registers, and back. */
static uint64_t fragment_get(const uint8_t *regs, const sim_insn *in,
                             int operand, unsigned bits, unsigned l, unsigned i)
{
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    if (bits >= 32) {
        uint64_t value = 0;
        memcpy(&value, regs + arg[i].slot + arg[i].width * l, bits / 8);
        return value;
    }
    unsigned per = 32 / bits;
    uint32_t word;
    memcpy(&word, regs + arg[i / per].slot + 4 * l, 4);
    return word >> (i % per * bits) & ((1u << bits) - 1);
}

static void fragment_set(uint8_t *regs, const sim_insn *in, int operand,
                         unsigned bits, unsigned l, unsigned i, uint64_t value)
{
    const sim_arg *arg = &in->args->arg[in->args->first[operand]];
    if (bits >= 32) {
        memcpy(regs + arg[i].slot + arg[i].width * l, &value, bits / 8);
        return;
    }
    unsigned per = 32 / bits;
    uint32_t word, mask = ((1u << bits) - 1) << (i % per * bits);
    uint8_t *at = regs + arg[i / per].slot + 4 * l;
    memcpy(&word, at, 4);
    word = (word & ~mask) | ((uint32_t)value << (i % per * bits) & mask);
    memcpy(at, &word, 4);
}

static part part_of(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_WMMA_LOAD_A:
        return PART_A;
    case PTX_OP_WMMA_LOAD_B:
        return PART_B;
    default:
        return PART_C;
    }
}

/* load and store: unit by unit, a unit being an element or, below a byte, as
   many as fill 32 bits. */
static void transfer(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec, bool write)
{
    const sim_args *args = in->args;
    int fragment = write ? 1 : 0, address = write ? 0 : 1;
    part which = part_of(in->src);
    unsigned lines, length, bits = bits_of(in->src->types[0]);
    unsigned unit = bits < 8 ? 32 / bits : 1;
    sim_access a;
    uint64_t base[SIM_LANES];
    sim_whole_warp(w, in, exec);
    sim_access_begin(&a, in, w, exec, unit * bits / 8, write,
                     w->launch->args.checks);
    extent(shape_of(in->src), which, &lines, &length);
    sim_access_addresses(&args->arg[args->first[address]], w, regs, base);
    unsigned n = lines * length / SIM_LANES;
    unsigned held =
        (unsigned)(args->first[fragment + 1] - args->first[fragment]) *
        (bits < 32 ? 32 / bits : 1);
    for (unsigned i = 0; i < n; i += unit) {
        element_addresses(&a, base, in, regs, which, bits, i);
        sim_access_resolve(&a, in->src->space);
        for (uint32_t rest = exec; rest; rest &= rest - 1) {
            unsigned l = sim_first_lane(rest);
            uint64_t value = 0;
            if (write) {
                value =
                    fragment_get(regs, in, fragment, unit * bits, l, i / unit);
                memcpy(a.at[l], &value, a.bytes);
                continue;
            }
            memcpy(&value, a.at[l], a.bytes);
            for (unsigned again = i; again < held; again += n)
                fragment_set(regs, in, fragment, unit * bits, l, again / unit,
                             value);
        }
        sim_access_finish(&a);
    }
}

static void op_load(const sim_insn *in, sim_warp *w, uint8_t *regs,
                    uint32_t exec)
{
    if (exec)
        transfer(in, w, regs, exec, false);
}

static void op_store(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    if (exec)
        transfer(in, w, regs, exec, true);
}

typedef struct wmma_data {
    double a[M_MAX][K_MAX], b[N_MAX][K_MAX], c[M_MAX][N_MAX];
} wmma_data;

static void gather(const uint8_t *regs, const sim_insn *in, int operand,
                   unsigned type, unsigned lines, unsigned length, double *out,
                   unsigned room)
{
    unsigned per = lines * length / SIM_LANES, bits = bits_of(type);
    for (unsigned number = 0; number < lines * length; number++)
        out[number / length * room + number % length] =
            sim_dot_number(type, fragment_get(regs, in, operand, bits,
                                              number / per, number % per));
}

static void op_mma(const sim_insn *in, sim_warp *w, uint8_t *regs,
                   uint32_t exec)
{
    const ptx_insn *insn = in->src;
    const wmma_shape *s = shape_of(insn);
    bool halves = insn->n_types < 4;
    unsigned ta = halves ? PTX_F16 : insn->types[1];
    unsigned tb = halves ? PTX_F16 : insn->types[2];
    unsigned tc = insn->types[halves ? 1 : 3], td = insn->types[0];
    sim_whole_warp(w, in, exec);
    wmma_data *data = spt_calloc(1, sizeof *data);
    if (!data) {
        sim_fault(w, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    gather(regs, in, 1, ta, s->m, s->k, data->a[0], K_MAX);
    gather(regs, in, 2, tb, s->n, s->k, data->b[0], K_MAX);
    gather(regs, in, 3, tc, s->m, s->n, data->c[0], N_MAX);
    unsigned per = s->m * s->n / SIM_LANES, bits = bits_of(td);
    for (unsigned number = 0; number < s->m * s->n; number++) {
        unsigned r = number / s->n, c = number % s->n, l = number / per;
        uint64_t value =
            sim_dot(insn, data->a[r], data->b[c], data->c[r][c], s->k);
        if (exec >> l & 1)
            fragment_set(regs, in, 0, bits, l, number % per, value);
    }
    spt_free(data);
}

sim_op sim_wmma_op(const ptx_insn *insn, bool checks)
{
    (void)checks;
    switch (insn->op) {
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
        return shape_of(insn) ? op_load : NULL;
    case PTX_OP_WMMA_STORE_D:
        return shape_of(insn) ? op_store : NULL;
    case PTX_OP_WMMA_MMA:
        return shape_of(insn) ? op_mma : NULL;
    default:
        return NULL;
    }
}
