/*
 * What a row cannot say: roundings that must or must not be there, fragments
 * of matrix instructions, targets of single types and modifiers.
 */
#include "ptx_parse.h"

#include <stdlib.h>

static const struct need {
    ptx_op op;
    enum { NEEDS_TYPE, NEEDS_SOURCE, NEEDS_MOD } kind;
    unsigned what;
    uint32_t sm;
} needs[] = {
#define PTX_NEEDS_TYPE_(name) PTX_##name
#define PTX_NEEDS_SOURCE_(name) PTX_##name
#define PTX_NEEDS_MOD_(name) PTX_MOD_##name
#define PTX_NEEDS(op, kind, name, sm) \
    {PTX_OP_##op, NEEDS_##kind, PTX_NEEDS_##kind##_(name), sm},
#include "ptx_needs.def"
#undef PTX_NEEDS
};

static spt_status check_needs(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct need *need = &needs[i];
        if (need->op != insn->op || parser->module->sm >= need->sm)
            continue;
        int place = need->kind == NEEDS_SOURCE;
        bool hit =
            need->kind == NEEDS_MOD
                ? ptx_has(insn, (ptx_mod)need->what)
                : insn->n_types > place && insn->types[place] == need->what;
        if (hit)
            return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                                 ".%s needs target sm_%u, the module has "
                                 "sm_%u",
                                 need->kind == NEEDS_MOD
                                     ? ptx_mod_text((ptx_mod)need->what)
                                     : ptx_type_text((ptx_type)need->what),
                                 need->sm, parser->module->sm);
    }
    return SPT_OK;
}

static spt_status check_only(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    size_t count;
    const ptx_only *rows = ptx_only_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const ptx_only *row = &rows[i];
        if (row->op != insn->op || insn->n_types <= row->place ||
            row->types >> insn->types[row->place] & 1)
            continue;
        for (int k = 0; k < insn->n_mods; k++)
            if (ptx_set_has(&row->mods, insn->mods[k]))
                return ptx_fail_insn(
                    parser, SPT_E_FORMAT, ".%s is not for .%s",
                    ptx_mod_text((ptx_mod)insn->mods[k]),
                    ptx_type_text((ptx_type)insn->types[row->place]));
    }
    return SPT_OK;
}

/* How many of the modifiers are there; mods ends with -1. */
static int count_mods(const ptx_insn *insn, const int *mods)
{
    int count = 0;
    for (; *mods >= 0; mods++)
        count += ptx_has(insn, (ptx_mod)*mods);
    return count;
}

static const int roundings[] = {PTX_MOD_RN,  PTX_MOD_RZ, PTX_MOD_RM, PTX_MOD_RP,
                                PTX_MOD_RNA, PTX_MOD_RS, -1};
static const int integer_roundings[] = {PTX_MOD_RNI, PTX_MOD_RZI, PTX_MOD_RMI,
                                        PTX_MOD_RPI, -1};
static const int halves[] = {PTX_MOD_LO, PTX_MOD_HI, PTX_MOD_WIDE, -1};
static const int methods[] = {PTX_MOD_APPROX, PTX_MOD_FULL, -1};

static bool is_float(ptx_type type)
{
    ptx_kind kind = ptx_type_kind(type);
    return kind == PTX_KIND_FLOAT || kind == PTX_KIND_PACKED;
}

/* m, n, k of a shape like m16n8k16; k is 0 in m8n8. */
static bool read_shape(const ptx_insn *insn, uint32_t shape[3])
{
    for (int i = 0; i < insn->n_mods; i++) {
        const char *text = ptx_mod_text((ptx_mod)insn->mods[i]);
        if (*text != 'm' || text[1] < '1' || text[1] > '9')
            continue;
        char *at;
        shape[0] = (uint32_t)strtoul(text + 1, &at, 10);
        shape[1] = *at == 'n' ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
        shape[2] = *at == 'k' ? (uint32_t)strtoul(at + 1, &at, 10) : 0;
        return true;
    }
    return false;
}

static spt_status expect(ptx_parser *parser, bool good, const char *what)
{
    return good ? SPT_OK : ptx_fail_insn(parser, SPT_E_FORMAT, "%s", what);
}

static spt_status needs_target(ptx_parser *parser, uint32_t sm,
                               const char *what)
{
    if (parser->module->sm >= sm)
        return SPT_OK;
    return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                         "%s needs target sm_%u, the module has sm_%u", what,
                         sm, parser->module->sm);
}

static spt_status check_product(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    ptx_type type = (ptx_type)insn->types[0];
    int count = count_mods(insn, halves);
    if (is_float(type))
        return expect(parser, !count, ".lo, .hi and .wide are for integers");
    SPT_TRY(
        expect(parser, count == 1, "one of .lo, .hi and .wide is expected"));
    SPT_TRY(expect(parser, !count_mods(insn, roundings),
                   "an integer product has no rounding"));
    return expect(parser,
                  !ptx_has(insn, PTX_MOD_WIDE) || ptx_type_bytes(type) < 8,
                  ".wide is for 16 and 32 bits");
}

/* Divisions, roots and fma say how they round, or that they do not care. */
static spt_status check_rounding(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    int count = count_mods(insn, roundings) + count_mods(insn, methods);
    if (!is_float((ptx_type)insn->types[0]))
        return expect(parser, !count, "integers have no rounding");
    return expect(parser, count == 1, "one rounding is expected");
}

/* Conversions that can lose bits say how they round. */
static spt_status check_cvt(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    ptx_type to = (ptx_type)insn->types[0], from = (ptx_type)insn->types[1];
    int float_rounding = count_mods(insn, roundings);
    int integer_rounding = count_mods(insn, integer_roundings);
    bool to_float = is_float(to), from_float = is_float(from);
    bool narrower = to_float && from_float &&
                    ptx_type_kind(to) == PTX_KIND_FLOAT &&
                    ptx_type_kind(from) == PTX_KIND_FLOAT &&
                    ptx_type_bytes(to) < ptx_type_bytes(from);
    if ((to == PTX_BF16 && from != PTX_F32) ||
        (from == PTX_BF16 && to != PTX_F32))
        SPT_TRY(needs_target(parser, 90, ".bf16 from or to this type"));
    SPT_TRY(expect(parser, float_rounding + integer_rounding < 2,
                   "more than one rounding"));
    if ((!to_float && from_float) || (from == to && from_float))
        SPT_TRY(expect(parser, !float_rounding || from == to,
                       "to an integer round with .rni, .rzi, .rmi or .rpi"));
    if (!to_float && from_float)
        return expect(parser, integer_rounding == 1,
                      "one of .rni, .rzi, .rmi and .rpi is expected");
    if ((to_float && !from_float) || narrower)
        return expect(parser, float_rounding == 1, "a rounding is expected");
    if (!to_float && !from_float)
        return expect(parser, !float_rounding && !integer_rounding,
                      "between integers nothing is rounded");
    return SPT_OK;
}

/* Halves are added without flush, and have no other atomic but in vectors. */
static spt_status check_halves(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    ptx_type type = (ptx_type)insn->types[0];
    bool half = type == PTX_F16 || type == PTX_F16X2 || type == PTX_BF16 ||
                type == PTX_BF16X2;
    bool add = ptx_has(insn, PTX_MOD_ADD), vector = insn->vector > 1;
    SPT_TRY(expect(parser, !half || ptx_has(insn, PTX_MOD_NOFTZ),
                   "halves need .noftz"));
    SPT_TRY(expect(parser, !half || add || vector,
                   ".min and .max of halves are for vectors"));
    SPT_TRY(expect(parser, !vector || half || (type == PTX_F32 && add),
                   "vectors are for halves and sums of .f32"));
    return expect(parser, !vector || insn->vector * ptx_type_bytes(type) <= 16,
                  "a vector has at most 16 bytes");
}

static spt_status check_atom(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool cas = ptx_has(insn, PTX_MOD_CAS);
    int hint = ptx_has(insn, PTX_MOD_L2_CACHE_HINT);
    SPT_TRY(expect(parser, insn->n_operands == 3 + cas + hint,
                   cas ? "cas takes a destination, an address and two values"
                       : "expected a destination, an address and a value"));
    bool inc = ptx_has(insn, PTX_MOD_INC) || ptx_has(insn, PTX_MOD_DEC);
    SPT_TRY(expect(parser, !inc || insn->types[0] == PTX_U32,
                   ".inc and .dec need .u32"));
    return check_halves(parser);
}

static spt_status check_red(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool acquires =
        ptx_has(insn, PTX_MOD_ACQUIRE) || ptx_has(insn, PTX_MOD_ACQ_REL);
    SPT_TRY(expect(parser, !acquires, "red returns nothing to acquire"));
    return check_halves(parser);
}

/* 256 bits need a newer target, and are global; local memory has no order. */
static spt_status check_vector(ptx_parser *parser)
{
    static const int orders[] = {PTX_MOD_VOLATILE, PTX_MOD_RELAXED,
                                 PTX_MOD_ACQUIRE,  PTX_MOD_RELEASE,
                                 PTX_MOD_MMIO,     -1};
    static const int priorities[] = {PTX_MOD_L2_EVICT_FIRST,
                                     PTX_MOD_L2_EVICT_LAST,
                                     PTX_MOD_L2_EVICT_NORMAL, -1};
    const ptx_insn *insn = &parser->insn;
    uint32_t bytes = ptx_type_bytes((ptx_type)insn->types[0]) * insn->vector;
    bool global = insn->space == PTX_GLOBAL || insn->space == PTX_GENERIC;
    bool wide =
        bytes == 32 && global && ptx_type_bytes((ptx_type)insn->types[0]) >= 4;
    SPT_TRY(expect(parser, bytes <= 16 || wide,
                   "a vector has at most 16 bytes, in global memory 32"));
    SPT_TRY(expect(parser,
                   insn->space != PTX_LOCAL || !count_mods(insn, orders),
                   "local memory is one thread's: no order"));
    SPT_TRY(expect(parser, bytes == 32 || !count_mods(insn, priorities),
                   "an L2 priority is for vectors of 32 bytes"));
    return bytes > 16 ? needs_target(parser, 100, "a vector of 32 bytes")
                      : SPT_OK;
}

static spt_status check_least(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    if (insn->n_operands < 4)
        return SPT_OK;
    SPT_TRY(
        expect(parser, insn->types[0] == PTX_F32, "three values are for .f32"));
    return needs_target(parser, 100, "the least of three");
}

static spt_status check_cp_async(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    int64_t bytes = insn->operands[2].value;
    if (ptx_has(insn, PTX_MOD_CG))
        return expect(parser, bytes == 16, ".cg copies 16 bytes");
    return expect(parser, bytes == 4 || bytes == 8 || bytes == 16,
                  "a copy has 4, 8 or 16 bytes");
}

/* Which shapes, types and scales go with a kind of scaled blocks. */
static spt_status check_scaled(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool bytes = ptx_has(insn, PTX_MOD_KIND_MXF8F6F4);
    bool four = ptx_has(insn, PTX_MOD_SCALE_VEC_4X);
    bool two = ptx_has(insn, PTX_MOD_SCALE_VEC_2X);
    bool nvidia = ptx_has(insn, PTX_MOD_KIND_MXF4NVF4);
    SPT_TRY(expect(parser, insn->n_types == 5, "the scales' type is missing"));
    SPT_TRY(expect(parser,
                   ptx_has(insn, bytes ? PTX_MOD_M16N8K32 : PTX_MOD_M16N8K64) &&
                       insn->types[0] == PTX_F32 && insn->types[3] == PTX_F32,
                   "scaled blocks are m16n8k32 of bytes or m16n8k64 of .e2m1, "
                   "to .f32"));
    SPT_TRY(expect(
        parser,
        bytes || (insn->types[1] == PTX_E2M1 && insn->types[2] == PTX_E2M1),
        "this kind is for .e2m1"));
    SPT_TRY(expect(parser, bytes ? !two && !four : nvidia || !four,
                   "this kind has not that many scales"));
    SPT_TRY(expect(parser, !nvidia || two || four,
                   ".kind::mxf4nvf4 says how many scales there are"));
    return expect(parser, four == (insn->types[4] == PTX_UE4M3),
                  "four scales are .ue4m3, fewer .ue8m0");
}

/* Only quad pairs of halves have a choice of layouts. */
static spt_status check_mma(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool pairs = ptx_has(insn, PTX_MOD_M8N8K4) && insn->types[1] == PTX_F16;
    int rows = 0, columns = 0;
    for (int i = 0; i < insn->n_mods; i++) {
        rows += insn->mods[i] == PTX_MOD_ROW && !columns;
        columns += insn->mods[i] == PTX_MOD_COL;
    }
    SPT_TRY(expect(parser, pairs || (rows == 1 && columns == 1),
                   "the layouts of A and B are .row.col"));
    bool wide = insn->types[1] == PTX_F64 && !ptx_has(insn, PTX_MOD_M8N8K4);
    SPT_TRY(wide ? needs_target(parser, 90, ".f64 of 16 rows") : SPT_OK);
    return ptx_has(insn, PTX_MOD_BLOCK_SCALE)
               ? check_scaled(parser)
               : expect(parser, insn->n_types < 5, "scales need .block_scale");
}

/* How many of a quad's lanes can hold a row pair's metadata. */
static spt_status check_selector(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    ptx_type type = (ptx_type)insn->types[1];
    uint32_t shape[3],
        bits = type == PTX_S4 || type == PTX_U4 ? 4 : 8 * ptx_type_bytes(type);
    SPT_TRY(expect(parser, read_shape(insn, shape) && shape[0] == 16,
                   "A has 16 rows"));
    uint32_t held = shape[2] * bits / 32; /* words of a row, with zeros */
    uint32_t choices = bits < 16 ? held > 8 ? 1 : 2 : held > 8 ? 2 : 4;
    return expect(parser,
                  insn->operands[5].value >= 0 &&
                      insn->operands[5].value < (int64_t)choices,
                  choices == 1   ? "the selector must be 0"
                  : choices == 2 ? "the selector must be 0 or 1"
                                 : "the selector must be 0 to 3");
}

/* Shapes by the elements' type; bytes are transposed in 16 rows or columns. */
static spt_status check_matrix_move(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool load = insn->op == PTX_OP_LDMATRIX, b16 = insn->types[0] == PTX_B16;
    bool trans = ptx_has(insn, PTX_MOD_TRANS);
    bool square = ptx_has(insn, PTX_MOD_M16N16);
    SPT_TRY(expect(parser,
                   b16 == (insn->types[0] != PTX_B8 && insn->n_types < 2),
                   "two types are for .b8x16"));
    SPT_TRY(expect(parser, b16 == ptx_has(insn, PTX_MOD_M8N8),
                   "m8n8 is for .b16, and only that"));
    if (b16)
        return SPT_OK;
    SPT_TRY(expect(parser, trans == (square || !load),
                   ".m16n16 and .m16n8 are transposed, .m8n16 is not"));
    SPT_TRY(expect(parser, !load || square || insn->n_types == 2,
                   ".m8n16 is for 4 and 6 bits"));
    return expect(parser, !square || !ptx_has(insn, PTX_MOD_X4),
                  ".m16n16 has .x1 and .x2");
}

static spt_status check_fence(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    static const int orders[] = {PTX_MOD_SC, PTX_MOD_ACQ_REL, PTX_MOD_ACQUIRE,
                                 PTX_MOD_RELEASE, -1};
    static const int scopes[] = {PTX_MOD_CTA, PTX_MOD_CLUSTER, PTX_MOD_GPU,
                                 PTX_MOD_SYS, -1};
    SPT_TRY(
        expect(parser, count_mods(insn, orders) < 2, "more than one order"));
    return expect(parser, count_mods(insn, scopes) == 1,
                  "one scope is expected");
}

static spt_status check_slct(ptx_parser *parser)
{
    return expect(parser,
                  parser->insn.types[1] == PTX_F32 ||
                      !ptx_has(&parser->insn, PTX_MOD_FTZ),
                  ".ftz needs .f32");
}

static spt_status check_vote(ptx_parser *parser)
{
    bool ballot = ptx_has(&parser->insn, PTX_MOD_BALLOT);
    return expect(parser, ballot == (parser->insn.types[0] == PTX_B32),
                  ".ballot gives .b32, the others .pred");
}

static spt_status check_redux(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool bits = ptx_has(insn, PTX_MOD_AND) || ptx_has(insn, PTX_MOD_OR) ||
                ptx_has(insn, PTX_MOD_XOR);
    return expect(parser, bits == (insn->types[0] == PTX_B32),
                  ".and, .or and .xor need .b32, the others a number");
}

static spt_status check_alloca(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    int64_t align = insn->n_operands > 2 ? insn->operands[2].value : 8;
    return expect(parser, align > 0 && !(align & (align - 1)),
                  "the alignment must be a power of two");
}

static spt_status check_video(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool second = ptx_has(insn, PTX_MOD_ADD) || ptx_has(insn, PTX_MOD_MIN) ||
                  ptx_has(insn, PTX_MOD_MAX);
    bool part = insn->operands[0].select;
    SPT_TRY(expect(parser, !(second && part),
                   "a second operation writes all of the destination"));
    return expect(parser, (second || part) == (insn->n_operands == 4),
                  "c is for a second operation or a part of the destination");
}

/* What one opcode asks for beyond its row. */
static spt_status check_own(ptx_parser *parser)
{
    switch (parser->insn.op) {
    case PTX_OP_MUL:
        return check_product(parser);
    case PTX_OP_MAD:
        SPT_TRY(check_product(parser));
        return is_float((ptx_type)parser->insn.types[0])
                   ? check_rounding(parser)
                   : SPT_OK;
    case PTX_OP_FMA:
    case PTX_OP_DIV:
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
        return check_rounding(parser);
    case PTX_OP_CVT:
        return check_cvt(parser);
    case PTX_OP_ATOM:
        return check_atom(parser);
    case PTX_OP_RED:
        return check_red(parser);
    case PTX_OP_LD:
    case PTX_OP_ST:
    case PTX_OP_LDU:
        return check_vector(parser);
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        return check_least(parser);
    case PTX_OP_CP_ASYNC:
        return check_cp_async(parser);
    case PTX_OP_MMA:
        return check_mma(parser);
    case PTX_OP_MMA_SP:
        SPT_TRY(check_selector(parser));
        return check_mma(parser);
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
        return check_matrix_move(parser);
    case PTX_OP_FENCE:
        return check_fence(parser);
    case PTX_OP_CP_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR:
        return ptx_check_tensor(parser);
    case PTX_OP_TENSORMAP_REPLACE:
        return ptx_check_replace(parser);
    case PTX_OP_WGMMA_FENCE:
    case PTX_OP_WGMMA_COMMIT_GROUP:
    case PTX_OP_WGMMA_WAIT_GROUP:
    case PTX_OP_WGMMA_MMA_ASYNC:
        return ptx_check_wgmma(parser);
    case PTX_OP_ALLOCA:
        return check_alloca(parser);
    case PTX_OP_SLCT:
        return check_slct(parser);
    case PTX_OP_VOTE:
        return check_vote(parser);
    case PTX_OP_REDUX:
        return check_redux(parser);
    case PTX_OP_VADD:
    case PTX_OP_VSUB:
    case PTX_OP_VABSDIFF:
    case PTX_OP_VMIN:
    case PTX_OP_VMAX:
    case PTX_OP_VSHL:
    case PTX_OP_VSHR:
    case PTX_OP_VSET:
        return check_video(parser);
    default:
        return SPT_OK;
    }
}

spt_status ptx_check_rules(ptx_parser *parser)
{
    SPT_TRY(check_needs(parser));
    SPT_TRY(check_own(parser));
    return check_only(parser);
}

static uint32_t element_bits(const ptx_insn *insn, ptx_type type)
{
    switch (type) {
    case PTX_B1:
        return 1;
    case PTX_U4:
    case PTX_S4:
        return 4;
    case PTX_E2M1: {
        bool packed = ptx_has(insn, PTX_MOD_KIND_MXF4) ||
                      ptx_has(insn, PTX_MOD_KIND_MXF4NVF4);
        return packed ? 4 : 8;
    }
    default:
        return 8 * ptx_type_bytes(type);
    }
}

/* Which matrix an operand of mma or wmma is: 'a' to 'd', 0 for none. */
static char matrix_of(const ptx_insn *insn, int operand, ptx_type *type)
{
    static const char order[] = "dabc";
    int n = insn->n_types;
    *type = n ? (ptx_type)insn->types[0] : PTX_NONE;
    switch (insn->op) {
    case PTX_OP_WMMA_LOAD_A:
        return operand ? 0 : 'a';
    case PTX_OP_WMMA_LOAD_B:
        return operand ? 0 : 'b';
    case PTX_OP_WMMA_LOAD_C:
        return operand ? 0 : 'c';
    case PTX_OP_WMMA_STORE_D:
        return operand == 1 ? 'd' : 0;
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_WMMA_MMA:
        if (operand > 3)
            return 0;
        if (operand && n == 2) /* wmma.mma of f16 names only D and C */
            *type = operand == 3 ? (ptx_type)insn->types[1] : PTX_F16;
        else if (operand < n)
            *type = (ptx_type)insn->types[operand];
        return order[operand];
    default:
        return 0;
    }
}

static uint32_t fragment(const ptx_insn *insn, char matrix, ptx_type type,
                         uint32_t *bytes)
{
    uint32_t shape[3];
    *bytes = type == PTX_F64 ? 8 : 4;
    if (!matrix || !read_shape(insn, shape) || !shape[2])
        return 0;
    bool sparse = insn->op == PTX_OP_MMA_SP;
    bool wmma = insn->op != PTX_OP_MMA && !sparse;
    bool input = matrix == 'a' || matrix == 'b';
    bool volta = !wmma && shape[0] == 8 && shape[2] == 4 && type != PTX_F64;
    if (volta)
        return input ? 2 : type == PTX_F32 ? 8 : 4;
    if (wmma && input && type == PTX_F16)
        return 8;
    uint32_t items = matrix == 'a'   ? shape[0] * shape[2] >> sparse
                     : matrix == 'b' ? shape[2] * shape[1]
                                     : shape[0] * shape[1];
    return items * element_bits(insn, type) / (32 * 8 * *bytes);
}

static uint32_t matrix_rows(const ptx_insn *insn)
{
    uint32_t count = ptx_has(insn, PTX_MOD_X4)   ? 4
                     : ptx_has(insn, PTX_MOD_X2) ? 2
                                                 : 1;
    return ptx_has(insn, PTX_MOD_M16N16) ? 2 * count : count;
}

uint32_t ptx_fragment_count(const ptx_insn *insn, int operand)
{
    ptx_type type;
    uint32_t bytes;
    if (insn->op == PTX_OP_LDMATRIX || insn->op == PTX_OP_STMATRIX)
        return matrix_rows(insn);
    if (insn->op == PTX_OP_CVT)
        return 4;
    if (insn->op == PTX_OP_WGMMA_MMA_ASYNC)
        return ptx_wgmma_registers(insn, operand);
    char matrix = matrix_of(insn, operand, &type);
    return matrix ? fragment(insn, matrix, type, &bytes)
                  : ptx_tensor_rank(insn);
}

uint32_t ptx_fragment_bytes(const ptx_insn *insn, int operand)
{
    ptx_type type;
    uint32_t bytes = 0;
    char matrix = matrix_of(insn, operand, &type);
    if (matrix)
        fragment(insn, matrix, type, &bytes);
    else if (ptx_wgmma_registers(insn, operand))
        bytes = 4;
    else if (insn->op == PTX_OP_MMA)
        bytes = 2; /* {byte-id, thread-id} of block scales */
    return bytes;
}
