/*
 * ldmatrix, stmatrix, movmatrix and mma.sync: the shared-memory side and the
 * operands; the arithmetic is in lanes_mma.c.
 */
#include "access.h"

#include "decode.h"
#include "lanes_mma.h"

static uint32_t matrices(const ptx_insn *insn)
{
    return ptx_has(insn, PTX_MOD_X4) ? 4 : ptx_has(insn, PTX_MOD_X2) ? 2 : 1;
}

/* Only lanes of exec may change. */
static void put(uint32_t *d, const uint32_t *value, uint32_t exec)
{
    for (unsigned l = 0; l < SIM_LANES; l++)
        if (exec >> l & 1)
            d[l] = value[l];
}

/* An 8x8 matrix of 16-bit elements in a register, transposed. */
static void transpose16(const uint32_t *from, uint32_t *to)
{
    uint16_t in[64], out[64];
    memcpy(in, from, sizeof in);
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++)
            out[c * 8 + r] = in[r * 8 + c];
    memcpy(to, out, sizeof out);
}

/*
 * b16: lane l of a register has row l/4, bytes 4*(l%4) on: the rows in order.
 */
static void ldmatrix(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec, bool checks)
{
    const sim_args *args = in->args;
    uint32_t n = matrices(in->src);
    bool trans = ptx_has(in->src, PTX_MOD_TRANS);
    sim_access a;
    if (!sim_whole_warp(w, in, exec) && !exec)
        return;
    sim_access_begin(&a, in, w, (uint32_t)((UINT64_C(1) << 8 * n) - 1), 16,
                     false, checks);
    sim_access_addresses(&args->arg[args->first[1]], w, regs, a.addr);
    sim_access_resolve(&a, in->src->space);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows[SIM_LANES] __attribute__((aligned(32)));
        uint32_t *d = SIM_U32(args->arg[args->first[0] + i].slot);
        for (int r = 0; r < 8; r++)
            memcpy(rows + 4 * r, a.at[8 * i + (uint32_t)r], 16);
        if (trans)
            transpose16(rows, rows);
        if (exec == UINT32_MAX)
            memcpy(d, rows, sizeof rows);
        else
            put(d, rows, exec);
    }
}

static void stmatrix(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec, bool checks)
{
    const sim_args *args = in->args;
    uint32_t n = matrices(in->src);
    bool trans = ptx_has(in->src, PTX_MOD_TRANS);
    sim_access a;
    if (!sim_whole_warp(w, in, exec) && !exec)
        return;
    sim_access_begin(&a, in, w, (uint32_t)((UINT64_C(1) << 8 * n) - 1), 16,
                     true, checks);
    sim_access_addresses(&args->arg[args->first[0]], w, regs, a.addr);
    sim_access_resolve(&a, in->src->space);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows[SIM_LANES];
        memcpy(rows, SIM_U32(args->arg[args->first[1] + i].slot), sizeof rows);
        if (trans)
            transpose16(rows, rows);
        for (int r = 0; r < 8; r++)
            memcpy(a.at[8 * i + (uint32_t)r], rows + 4 * r, 16);
    }
    sim_access_finish(&a);
}

/* A row of 16 elements of 4 or 6 bits, from the low bits up, to bytes. */
static void widen_row(uint8_t *row, unsigned bits)
{
    uint8_t packed[17] = {0};
    memcpy(packed, row, 16);
    for (unsigned i = 0; i < 16; i++) {
        unsigned at = i * bits;
        uint32_t word = packed[at / 8] | (uint32_t)packed[at / 8 + 1] << 8;
        row[i] = (uint8_t)(word >> at % 8 & ((1u << bits) - 1));
    }
}

/*
 * Bytes. m8n16: lane l of register i has row 8i + l/4, bytes 4*(l%4) on.
 * m16n16.trans: lane l of register i has column l/4 + 8*(i%2) of matrix i/2,
 * its rows 4*(l%4) on.
 */
static void ldmatrix_bytes(const sim_insn *in, sim_warp *w, uint8_t *regs,
                           uint32_t exec)
{
    const ptx_insn *src = in->src;
    const sim_arg *d = &in->args->arg[in->args->first[0]];
    bool trans = ptx_has(src, PTX_MOD_M16N16);
    unsigned n = matrices(src), rows = n * (trans ? 16 : 8);
    unsigned bits = src->n_types < 2                 ? 8
                    : src->types[1] == PTX_B6X16_P32 ? 6
                                                     : 4;
    uint8_t row[SIM_LANES][16];
    sim_access a;
    if (!sim_whole_warp(w, in, exec) && !exec)
        return;
    sim_access_begin(&a, in, w, (uint32_t)((UINT64_C(1) << rows) - 1), 16,
                     false, w->launch->args.checks);
    sim_access_addresses(&in->args->arg[in->args->first[1]], w, regs, a.addr);
    sim_access_resolve(&a, src->space);
    for (unsigned r = 0; r < rows; r++) {
        memcpy(row[r], a.at[r], 16);
        if (bits < 8)
            widen_row(row[r], bits);
    }
    for (unsigned i = 0; i < (trans ? 2 * n : n); i++) {
        uint32_t out[SIM_LANES];
        for (unsigned l = 0; l < SIM_LANES; l++) {
            uint8_t byte[4];
            for (unsigned b = 0; b < 4; b++)
                byte[b] =
                    trans ? row[i / 2 * 16 + l % 4 * 4 + b][l / 4 + 8 * (i % 2)]
                          : row[8 * i + l / 4][l % 4 * 4 + b];
            memcpy(&out[l], byte, 4);
        }
        put(SIM_U32(d[i].slot), out, exec);
    }
}

/* m16n8.trans: a lane's bytes b are rows 2*(l%4) + b%2 of columns l/4 and,
   for b over 1, l/4 + 8 of the matrix that it becomes. */
static void stmatrix_bytes(const sim_insn *in, sim_warp *w, uint8_t *regs,
                           uint32_t exec)
{
    const sim_arg *from = &in->args->arg[in->args->first[1]];
    unsigned n = matrices(in->src);
    sim_access a;
    if (!sim_whole_warp(w, in, exec) && !exec)
        return;
    sim_access_begin(&a, in, w, (uint32_t)((UINT64_C(1) << 8 * n) - 1), 16,
                     true, w->launch->args.checks);
    sim_access_addresses(&in->args->arg[in->args->first[0]], w, regs, a.addr);
    sim_access_resolve(&a, in->src->space);
    for (unsigned i = 0; i < n; i++)
        for (unsigned l = 0; l < SIM_LANES; l++)
            for (unsigned b = 0; b < 4; b++)
                a.at[8 * i + l % 4 * 2 + b % 2][l / 4 + b / 2 * 8] =
                    (uint8_t)(SIM_U32(from[i].slot)[l] >> 8 * b);
    sim_access_finish(&a);
}

static void op_ldmatrix(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    ldmatrix(in, w, regs, exec, false);
}

static void op_ldmatrix_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                                uint32_t exec)
{
    ldmatrix(in, w, regs, exec, true);
}

static void op_stmatrix(const sim_insn *in, sim_warp *w, uint8_t *regs,
                        uint32_t exec)
{
    stmatrix(in, w, regs, exec, false);
}

static void op_stmatrix_checked(const sim_insn *in, sim_warp *w, uint8_t *regs,
                                uint32_t exec)
{
    stmatrix(in, w, regs, exec, true);
}

static void op_movmatrix(const sim_insn *in, sim_warp *w, uint8_t *regs,
                         uint32_t exec)
{
    const sim_args *args = in->args;
    uint32_t out[SIM_LANES];
    sim_whole_warp(w, in, exec);
    transpose16(SIM_U32(args->arg[args->first[1]].slot), out);
    put(SIM_U32(args->arg[args->first[0]].slot), out, exec);
}

int sim_mma_element_of(unsigned type)
{
    switch (type) {
#define ELEMENT(name, bits, is_float) \
    case PTX_##name:                  \
        return SIM_MMA_##name;
        SIM_MMA_ELEMENTS(ELEMENT)
#undef ELEMENT
    default:
        return -1;
    }
}

typedef struct mma_shape {
    uint8_t mod;
    uint8_t m;
    uint16_t k;
} mma_shape;

/* Shapes whose registers follow the common scheme of lanes_mma.c. */
static const mma_shape shapes[] = {
    {PTX_MOD_M8N8K4, 8, 4},       {PTX_MOD_M8N8K16, 8, 16},
    {PTX_MOD_M8N8K32, 8, 32},     {PTX_MOD_M8N8K128, 8, 128},
    {PTX_MOD_M16N8K4, 16, 4},     {PTX_MOD_M16N8K8, 16, 8},
    {PTX_MOD_M16N8K16, 16, 16},   {PTX_MOD_M16N8K32, 16, 32},
    {PTX_MOD_M16N8K64, 16, 64},   {PTX_MOD_M16N8K128, 16, 128},
    {PTX_MOD_M16N8K256, 16, 256},
};

static bool describe(const ptx_insn *insn, sim_mma *mma)
{
    *mma = (sim_mma){0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (ptx_has(insn, shapes[i].mod)) {
            mma->m = shapes[i].m;
            mma->k = (uint8_t)(shapes[i].k - 1);
        }
    int a = sim_mma_element_of(insn->types[1]);
    int b = sim_mma_element_of(insn->types[2]);
    if (!mma->m || a < 0 || b < 0 || ptx_has(insn, PTX_MOD_BLOCK_SCALE))
        return false;
    mma->a = (uint8_t)a;
    mma->b = (uint8_t)b;
    mma->c_half = insn->types[3] == PTX_F16;
    mma->d_half = insn->types[0] == PTX_F16;
    mma->saturate = ptx_has(insn, PTX_MOD_SATFINITE);
    mma->xor_popc = ptx_has(insn, PTX_MOD_XOR);
    /* Half precision on quads of lanes (sm_70) has a scheme of its own. */
    return !(a == SIM_MMA_F16 && mma->m == 8);
}

enum { MMA_REGISTERS = 8, MMA_ALIGN = 32 };

typedef struct mma_temp {
    uint8_t lanes[MMA_REGISTERS][SIM_LANES * 8]
        __attribute__((aligned(MMA_ALIGN)));
} mma_temp;

static int pointers(const sim_insn *in, uint8_t *regs, int operand, void **out)
{
    const sim_args *args = in->args;
    int n = args->first[operand + 1] - args->first[operand];
    if (n > MMA_REGISTERS)
        n = MMA_REGISTERS;
    for (int i = 0; i < n; i++)
        out[i] = regs + args->arg[args->first[operand] + i].slot;
    return n;
}

static void mma(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec,
                sim_mma m, sim_mma_function *f)
{
    void *d[MMA_REGISTERS], *a[MMA_REGISTERS], *b[MMA_REGISTERS],
        *c[MMA_REGISTERS];
    int n = pointers(in, regs, 0, d);
    pointers(in, regs, 1, a);
    pointers(in, regs, 2, b);
    pointers(in, regs, 3, c);
    /* D may be C in place; in another order it needs a copy. */
    bool apart = exec != UINT32_MAX;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            apart |= i != j && d[i] == c[j];
    if (!apart) {
        f(&m, d, (const void *const *)a, (const void *const *)b,
          (const void *const *)c);
        return;
    }
    sim_whole_warp(w, in, exec);
    mma_temp temp;
    void *to[MMA_REGISTERS];
    for (int i = 0; i < n; i++)
        to[i] = temp.lanes[i];
    f(&m, to, (const void *const *)a, (const void *const *)b,
      (const void *const *)c);
    unsigned bytes = m.a == SIM_MMA_F64 ? 8 : 4;
    for (int i = 0; i < n; i++)
        for (unsigned l = 0; l < SIM_LANES; l++)
            if (exec >> l & 1)
                memcpy((uint8_t *)d[i] + bytes * l, temp.lanes[i] + bytes * l,
                       bytes);
}

/* Of m16n8k16 the operands' places are known, and D is C as a rule. */
static inline void mma_common(const sim_insn *in, sim_warp *w, uint8_t *regs,
                              uint32_t exec, sim_mma m, sim_mma_function *f)
{
    const sim_arg *g = in->args->arg;
    for (int i = 0; i < 4; i++)
        if (g[i].slot != g[10 + i].slot || exec != UINT32_MAX) {
            mma(in, w, regs, exec, m, f);
            return;
        }
    void *d[4] = {regs + g[0].slot, regs + g[1].slot, regs + g[2].slot,
                  regs + g[3].slot};
    const void *a[4] = {regs + g[4].slot, regs + g[5].slot, regs + g[6].slot,
                        regs + g[7].slot};
    const void *b[2] = {regs + g[8].slot, regs + g[9].slot};
    f(&m, d, a, b, (const void *const *)d);
}

/* The two shapes that kernels live on are known beforehand. */
#define MMA_BF16 ((sim_mma){SIM_MMA_BF16, SIM_MMA_BF16, 16, 15, 0, 0, 0, 0})
#define MMA_F16 ((sim_mma){SIM_MMA_F16, SIM_MMA_F16, 16, 15, 0, 0, 0, 0})

#define MMA_HANDLERS(unit)                                                    \
    static void op_mma_##unit(const sim_insn *in, sim_warp *w, uint8_t *regs, \
                              uint32_t exec)                                  \
    {                                                                         \
        sim_mma m;                                                            \
        describe(in->src, &m);                                                \
        mma(in, w, regs, exec, m, sim_mma_##unit);                            \
    }                                                                         \
    static void op_mma_bf16_##unit(const sim_insn *in, sim_warp *w,           \
                                   uint8_t *regs, uint32_t exec)              \
    {                                                                         \
        mma_common(in, w, regs, exec, MMA_BF16, sim_mma_##unit);              \
    }                                                                         \
    static void op_mma_f16_##unit(const sim_insn *in, sim_warp *w,            \
                                  uint8_t *regs, uint32_t exec)               \
    {                                                                         \
        mma_common(in, w, regs, exec, MMA_F16, sim_mma_##unit);               \
    }
MMA_HANDLERS(plain)
#if defined(__x86_64__)
MMA_HANDLERS(avx2)
MMA_HANDLERS(avx512)
#endif

typedef struct mma_unit {
    sim_op any, bf16, f16;
} mma_unit;

static const mma_unit mma_units[] = {
    [SIM_BUILD_PLAIN] = {op_mma_plain, op_mma_bf16_plain, op_mma_f16_plain},
#if defined(__x86_64__)
    [SIM_BUILD_AVX2] = {op_mma_avx2, op_mma_bf16_avx2, op_mma_f16_avx2},
    [SIM_BUILD_AVX512] = {op_mma_avx512, op_mma_bf16_avx512, op_mma_f16_avx512},
#endif
};

static sim_op mma_op(const ptx_insn *insn)
{
    sim_mma m;
    if (!describe(insn, &m))
        return sim_mma_op(insn);
    const mma_unit *unit = &mma_units[sim_lanes_build()];
    bool common =
        m.m == 16 && m.k == 15 && !m.c_half && !m.d_half && m.a == m.b;
    if (common && m.a == SIM_MMA_BF16)
        return unit->bf16;
    return common && m.a == SIM_MMA_F16 ? unit->f16 : unit->any;
}

sim_op sim_matrix_op(const ptx_insn *insn, bool checks)
{
    switch (insn->op) {
    case PTX_OP_LDMATRIX:
        if (insn->types[0] != PTX_B16)
            return ldmatrix_bytes;
        return checks ? op_ldmatrix_checked : op_ldmatrix;
    case PTX_OP_STMATRIX:
        if (insn->types[0] != PTX_B16)
            return stmatrix_bytes;
        return checks ? op_stmatrix_checked : op_stmatrix;
    case PTX_OP_MOVMATRIX:
        return op_movmatrix;
    case PTX_OP_MMA:
        return mma_op(insn);
    case PTX_OP_MMA_SP:
        return sim_mma_op(insn);
    default:
        return NULL;
    }
}
