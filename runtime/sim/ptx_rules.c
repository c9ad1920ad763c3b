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

static spt_status expect(ptx_parser *parser, bool good, const char *what)
{
    return good ? SPT_OK : ptx_fail_insn(parser, SPT_E_FORMAT, "%s", what);
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

static spt_status check_atom(ptx_parser *parser)
{
    const ptx_insn *insn = &parser->insn;
    bool cas = ptx_has(insn, PTX_MOD_CAS);
    int hint = ptx_has(insn, PTX_MOD_L2_CACHE_HINT);
    SPT_TRY(expect(parser, insn->n_operands == 3 + cas + hint,
                   cas ? "cas takes a destination, an address and two values"
                       : "expected a destination, an address and a value"));
    bool inc = ptx_has(insn, PTX_MOD_INC) || ptx_has(insn, PTX_MOD_DEC);
    return expect(parser, !inc || insn->types[0] == PTX_U32,
                  ".inc and .dec need .u32");
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

spt_status ptx_check_rules(ptx_parser *parser)
{
    SPT_TRY(check_needs(parser));
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
    case PTX_OP_FENCE:
        return check_fence(parser);
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
    char matrix = matrix_of(insn, operand, &type);
    return matrix ? fragment(insn, matrix, type, &bytes) : 0;
}

uint32_t ptx_fragment_bytes(const ptx_insn *insn, int operand)
{
    ptx_type type;
    uint32_t bytes = 0;
    char matrix = matrix_of(insn, operand, &type);
    if (matrix)
        fragment(insn, matrix, type, &bytes);
    else if (insn->op == PTX_OP_MMA)
        bytes = 2; /* {byte-id, thread-id} of block scales */
    return bytes;
}
