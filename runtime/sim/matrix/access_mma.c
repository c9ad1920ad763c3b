/*
 * mma whose operands are laid out in their own way: sparse A (mma.sp), scaled
 * blocks (.block_scale) and the four small products of quad pairs (m8n8k4 of
 * f16).
 *
 * mma.sp. A holds K/2 elements of each row, in the layout of a dense A of K/2.
 * Of every four (tf32: two) elements two (one) are there; of the 4-bit types,
 * of every four pairs two. Metadata names which: two indices of 2 bits per
 * chunk, the first one low. A row's bits are one or more 32-bit words, or half
 * of one, in the lanes of its quad that the selector names: see word_of().
 */
#include "access.h"
#include "access_dot.h"
#include "engine_math.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH = 64 };

typedef struct sparse {
    unsigned k, bits; /* of an element */
    unsigned chunk, unit; /* logical elements of a chunk, of what is indexed */
    unsigned row_bits; /* of metadata */
    unsigned selector;
} sparse;

static bool packs_fp4(const ptx_insn *insn)
{
    return ptx_has(insn, PTX_MOD_KIND_MXF4) ||
           ptx_has(insn, PTX_MOD_KIND_MXF4NVF4);
}

static unsigned element_bits(const ptx_insn *insn, unsigned type)
{
    bool small = type == PTX_S4 || type == PTX_U4 || packs_fp4(insn);
    return small ? 4 : 8 * ptx_type_bytes(type);
}

static bool sparse_of(const ptx_insn *insn, sparse *s)
{
    static const struct {
        uint8_t mod, k;
    } depths[] = {
        {PTX_MOD_M16N8K8, 8},     {PTX_MOD_M16N8K16, 16},
        {PTX_MOD_M16N8K32, 32},   {PTX_MOD_M16N8K64, 64},
        {PTX_MOD_M16N8K128, 128},
    };
    *s = (sparse){.bits = element_bits(insn, insn->types[1])};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        if (ptx_has(insn, depths[i].mod))
            s->k = depths[i].k;
    s->unit = s->bits == 4 ? 2 : 1;
    s->chunk = s->bits == 32 ? 2 : 4 * s->unit;
    s->row_bits = s->k / s->chunk * 4;
    s->selector = (unsigned)insn->operands[5].value;
    return s->k && s->row_bits >= 16 && s->row_bits <= 64;
}

static uint32_t register_of(const sim_insn *in, const uint8_t *regs,
                            int operand, unsigned i, unsigned lane)
{
    uint32_t word;
    const sim_arg *arg = &in->args->arg[in->args->first[operand] + i];
    memcpy(&word, regs + arg->slot + arg->width * lane, sizeof word);
    return word;
}

/* Element of a dense fragment: lines are rows of A or columns of B, each has
   four lanes; parts is how many groups of eight lines there are. */
static double element(const sim_insn *in, const uint8_t *regs, int operand,
                      unsigned line, unsigned at, unsigned parts)
{
    unsigned type = in->src->types[operand], bits = element_bits(in->src, type);
    unsigned per = 32 / bits, quad = at / per;
    uint32_t word = register_of(in, regs, operand, quad / 4 * parts + line / 8,
                                line % 8 * 4 + quad % 4);
    word >>= at % per * bits;
    if (packs_fp4(in->src)) /* as if in its byte's middle */
        return sim_dot_number(type, (word & 15) << 2);
    return sim_dot_number(type, bits < 32 ? word & ((1u << bits) - 1) : word);
}

/* Up to 32 bits of a row's metadata, part by part. */
static uint32_t word_of(const sim_insn *in, const uint8_t *regs,
                        const sparse *s, unsigned row, unsigned part)
{
    unsigned quad = row % 8 * 4, high = row / 8;
    if (s->row_bits == 16)
        return register_of(in, regs, 4, 0, quad + s->selector) >> 16 * high;
    if (s->row_bits == 32 && s->bits < 16)
        return register_of(in, regs, 4, 0, quad + 2 * s->selector + high);
    if (s->row_bits == 64)
        return register_of(in, regs, 4, 0, quad + 2 * part + high);
    uint32_t first = register_of(in, regs, 4, 0, quad + 2 * s->selector);
    uint32_t second = register_of(in, regs, 4, 0, quad + 2 * s->selector + 1);
    return (first >> 16 * high & 0xffff) | second >> 16 * high << 16;
}

/* The logical place of the row's compressed element at. */
static unsigned place_of(const sparse *s, const uint32_t *meta, unsigned at)
{
    unsigned chunk = at / (s->chunk / 2), within = at % (s->chunk / 2);
    unsigned nibble = meta[chunk / 8] >> chunk % 8 * 4 & 15;
    unsigned index = nibble >> 2 * (within / s->unit) & 3;
    if (s->bits == 32)
        index /= 2; /* of halves of an element */
    return chunk * s->chunk + index * s->unit + within % s->unit;
}

/* C and D: 32-bit elements, or packed halves. */
static double c_element(const sim_insn *in, const uint8_t *regs, unsigned row,
                        unsigned column)
{
    unsigned type = in->src->types[3], lane = row % 8 * 4 + column / 2;
    if (type != PTX_F16)
        return sim_dot_number(
            type, register_of(in, regs, 3, row / 8 * 2 + column % 2, lane));
    uint32_t word = register_of(in, regs, 3, row / 8, lane);
    return sim_dot_number(type, word >> 16 * (column % 2) & 0xffff);
}

static void store_d(const sim_insn *in, uint8_t *regs, uint32_t exec,
                    uint32_t d[ROWS][COLUMNS])
{
    const sim_arg *arg = &in->args->arg[in->args->first[0]];
    bool halves = in->src->types[0] == PTX_F16;
    for (unsigned l = 0; l < SIM_LANES; l++)
        for (unsigned i = 0; i < (halves ? 2u : 4u) && exec >> l & 1; i++) {
            unsigned row = l / 4 + 8 * (halves ? i : i / 2);
            const uint32_t *pair = &d[row][l % 4 * 2];
            uint32_t word = halves ? pair[0] | pair[1] << 16 : pair[i % 2];
            memcpy(regs + arg[i].slot + arg[i].width * l, &word, sizeof word);
        }
}

static void op_sparse(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    sparse s;
    uint32_t d[ROWS][COLUMNS];
    sim_whole_warp(w, in, exec);
    sparse_of(in->src, &s);
    unsigned held = s.k / 2;
    for (unsigned row = 0; row < ROWS; row++) {
        double a[DEPTH], b[DEPTH];
        uint8_t place[DEPTH];
        uint32_t meta[2] = {word_of(in, regs, &s, row, 0),
                            word_of(in, regs, &s, row, 1)};
        for (unsigned i = 0; i < held; i++) {
            a[i] = element(in, regs, 1, row, i, 2);
            place[i] = (uint8_t)place_of(&s, meta, i);
        }
        for (unsigned n = 0; n < COLUMNS; n++) {
            for (unsigned i = 0; i < held; i++)
                b[i] = element(in, regs, 2, n, place[i], 1);
            d[row][n] = (uint32_t)sim_dot(in->src, a, b,
                                          c_element(in, regs, row, n), held);
        }
    }
    store_d(in, regs, exec, d);
}

/* ---- scaled blocks ---- */

/* What a lane's word holds for block of a row of A (operand 4) or a column of
   B (6); the operand behind it names the first byte and the lane of the quad,
   of A the first of two lanes: rows 0 to 7 and 8 to 15. */
static double scale_of(const sim_insn *in, const uint8_t *regs, int operand,
                       unsigned line, unsigned block)
{
    unsigned byte = register_of(in, regs, operand + 1, 0, 0) & 3;
    unsigned lane = register_of(in, regs, operand + 1, 1, 0) & 3;
    lane = line % 8 * 4 + (operand == 4 ? lane % 2 * 2 + line / 8 : lane);
    uint32_t word = register_of(in, regs, operand, 0, lane);
    uint32_t bits = word >> (byte + block) % 4 * 8 & 0xff;
    if (in->src->types[4] == PTX_UE4M3)
        return from_fp8(bits & 0x7f, false);
    return bits == 0xff ? f64_of(SIM_NAN_F64)
                        : f64_of((uint64_t)(bits + 1023 - 127) << 52);
}

static unsigned blocks_of(const ptx_insn *insn)
{
    return ptx_has(insn, PTX_MOD_SCALE_VEC_4X) ? 4 : packs_fp4(insn) ? 2 : 1;
}

static void op_scaled(const sim_insn *in, sim_warp *w, uint8_t *regs,
                      uint32_t exec)
{
    uint32_t d[ROWS][COLUMNS];
    unsigned k = packs_fp4(in->src) ? 64 : 32, size = k / blocks_of(in->src);
    sim_whole_warp(w, in, exec);
    for (unsigned row = 0; row < ROWS; row++) {
        double a[DEPTH], b[DEPTH];
        for (unsigned i = 0; i < k; i++)
            a[i] = element(in, regs, 1, row, i, 2) *
                   scale_of(in, regs, 4, row, i / size);
        for (unsigned n = 0; n < COLUMNS; n++) {
            for (unsigned i = 0; i < k; i++)
                b[i] = element(in, regs, 2, n, i, 1) *
                       scale_of(in, regs, 6, n, i / size);
            d[row][n] = (uint32_t)sim_dot(in->src, a, b,
                                          c_element(in, regs, row, n), k);
        }
    }
    store_d(in, regs, exec, d);
}

/* ---- quad pairs: lanes 4p to 4p+3 and 16+4p to 16+4p+3, p = 0 to 3 ---- */

/* Lane of the pair that has row (or column) line; f32 spreads C otherwise. */
static unsigned pair_lane(unsigned pair, unsigned line)
{
    return 4 * pair + line % 4 + (line < 4 ? 0 : 16);
}

/* Element (line, at) of A or B, 8 x 4: along says that a lane has a line. */
static double pair_element(const sim_insn *in, const uint8_t *regs, int operand,
                           unsigned pair, unsigned line, unsigned at,
                           bool along)
{
    unsigned lane =
        along ? pair_lane(pair, line) : 4 * pair + at + (line < 4 ? 0 : 16);
    unsigned i = along ? at : line % 4;
    uint32_t word = register_of(in, regs, operand, i / 2, lane);
    return sim_dot_number(PTX_F16, word >> 16 * (i % 2) & 0xffff);
}

/* Lane and number of the element (row, column) of C or D. */
static unsigned pair_place(unsigned type, unsigned pair, unsigned row,
                           unsigned column, unsigned *i)
{
    if (type == PTX_F16) {
        *i = column;
        return pair_lane(pair, row);
    }
    *i = (row & 2) | (column & 4) | (column & 1);
    return pair_lane(pair, (row & 4) | (row & 1) | (column & 2));
}

static double pair_c(const sim_insn *in, const uint8_t *regs, unsigned pair,
                     unsigned row, unsigned column)
{
    unsigned i, type = in->src->types[3];
    unsigned lane = pair_place(type, pair, row, column, &i);
    if (type == PTX_F32)
        return sim_dot_number(type, register_of(in, regs, 3, i, lane));
    uint32_t word = register_of(in, regs, 3, i / 2, lane);
    return sim_dot_number(type, word >> 16 * (i % 2) & 0xffff);
}

static void pair_store(const sim_insn *in, uint8_t *regs, uint32_t exec,
                       unsigned pair, uint32_t d[8][8])
{
    const sim_arg *arg = &in->args->arg[in->args->first[0]];
    unsigned i, type = in->src->types[0];
    for (unsigned n = 0; n < 64; n++) {
        unsigned lane = pair_place(type, pair, n / 8, n % 8, &i);
        bool half = type == PTX_F16;
        uint32_t value = d[n / 8][n % 8];
        const sim_arg *to = &arg[half ? i / 2 : i];
        uint8_t *at = regs + to->slot + to->width * lane;
        if (exec >> lane & 1)
            memcpy(at + (half ? i % 2 * 2 : 0), &value, half ? 2 : 4);
    }
}

static void op_pairs(const sim_insn *in, sim_warp *w, uint8_t *regs,
                     uint32_t exec)
{
    const ptx_insn *src = in->src;
    bool a_row = src->mods[0] == PTX_MOD_ROW, b_col = false;
    unsigned layouts = 0;
    uint32_t d[4][8][8];
    for (int i = 0; i < src->n_mods; i++) {
        bool row = src->mods[i] == PTX_MOD_ROW;
        if (!row && src->mods[i] != PTX_MOD_COL)
            continue;
        if (!layouts++)
            a_row = row;
        else
            b_col = !row;
    }
    sim_whole_warp(w, in, exec);
    for (unsigned n = 0; n < 4 * 64; n++) {
        unsigned pair = n / 64, row = n / 8 % 8, column = n % 8;
        double a[4], b[4];
        for (unsigned k = 0; k < 4; k++) {
            a[k] = pair_element(in, regs, 1, pair, row, k, a_row);
            b[k] = pair_element(in, regs, 2, pair, column, k, b_col);
        }
        d[pair][row][column] = (uint32_t)sim_dot(
            src, a, b, pair_c(in, regs, pair, row, column), 4);
    }
    for (unsigned pair = 0; pair < 4; pair++)
        pair_store(in, regs, exec, pair, d[pair]);
}

sim_op sim_mma_op(const ptx_insn *insn)
{
    sparse s;
    if (insn->op == PTX_OP_MMA_SP)
        return sparse_of(insn, &s) ? op_sparse : NULL;
    if (insn->op == PTX_OP_MMA && ptx_has(insn, PTX_MOD_BLOCK_SCALE))
        return op_scaled;
    bool pairs = ptx_has(insn, PTX_MOD_M8N8K4) && insn->types[1] == PTX_F16;
    return insn->op == PTX_OP_MMA && pairs ? op_pairs : NULL;
}
