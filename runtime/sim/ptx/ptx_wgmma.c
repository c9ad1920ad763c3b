/* wgmma: its shapes, which are many, and what goes with which type. */
#include "ptx_parse.h"

#include <stdlib.h>
#include <string.h>

bool ptx_wgmma_shape(ptx_insn *insn, const char *text, uint32_t length)
{
    char copy[16], *end;
    if (insn->op != PTX_OP_WGMMA_MMA_ASYNC || insn->columns ||
        length >= sizeof copy || strncmp(text, "m64n", 4))
        return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    unsigned long n = strtoul(copy + 4, &end, 10);
    if (*end != 'k' || n < 8 || n > 256 || n % 8)
        return false;
    unsigned long k = strtoul(end + 1, &end, 10);
    if (*end || !k || k > 256)
        return false;
    insn->columns = (uint16_t)n;
    insn->depth = (uint16_t)k;
    return true;
}

static spt_status expect(ptx_parser *parser, bool good, const char *what)
{
    return good ? SPT_OK : ptx_fail_insn(parser, SPT_E_FORMAT, "%s", what);
}

typedef enum family { HALVES, TF32, BYTES, INTEGERS } family;

static family family_of(ptx_type type)
{
    switch (type) {
    case PTX_TF32:
        return TF32;
    case PTX_E4M3:
    case PTX_E5M2:
        return BYTES;
    case PTX_S8:
    case PTX_U8:
        return INTEGERS;
    default:
        return HALVES;
    }
}

static spt_status check_pair(ptx_parser *parser, family f)
{
    const ptx_insn *insn = &parser->insn;
    ptx_type d = (ptx_type)insn->types[0], a = (ptx_type)insn->types[1];
    bool same = a == insn->types[2];
    bool half = a == PTX_F16 || f == BYTES;
    SPT_TRY(expect(parser,
                   family_of((ptx_type)insn->types[2]) == f &&
                       (same || f == BYTES || f == INTEGERS),
                   "A and B have types that do not go together"));
    return expect(parser,
                  f == INTEGERS ? d == PTX_S32
                                : d == PTX_F32 || (d == PTX_F16 && half),
                  "D has a type that does not go with A's");
}

/* Constants behind scale-d: signs of A and B, then their transpositions. */
static spt_status check_constants(ptx_parser *parser, family f)
{
    const ptx_insn *insn = &parser->insn;
    bool registers = insn->operands[1].kind == PTX_VECTOR;
    int signs = f == INTEGERS ? 0 : 2;
    int count = 4 + signs + (f == HALVES ? 2 - registers : 0);
    SPT_TRY(expect(parser, insn->n_operands == count,
                   "the number of operands does not go with the types"));
    for (int i = 4; i < count; i++) {
        int32_t value = (int32_t)insn->operands[i].value;
        if (i < 4 + signs)
            SPT_TRY(expect(parser, value == 1 || value == -1,
                           "a scale of A or B is 1 or -1"));
        else
            SPT_TRY(expect(parser, value == 0 || value == 1,
                           "a transposition is 0 or 1"));
    }
    return SPT_OK;
}

spt_status ptx_check_wgmma(ptx_parser *parser)
{
    static const uint16_t depths[] = {
        [HALVES] = 16, [TF32] = 8, [BYTES] = 32, [INTEGERS] = 32};
    const ptx_insn *insn = &parser->insn;
    if (parser->module->suffix != 'a' || parser->module->sm != 90)
        return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                             "wgmma needs target sm_90a");
    if (insn->op != PTX_OP_WGMMA_MMA_ASYNC)
        return SPT_OK;
    family f = family_of((ptx_type)insn->types[1]);
    SPT_TRY(expect(parser, insn->columns > 0, "the shape is missing"));
    SPT_TRY(check_pair(parser, f));
    SPT_TRY(expect(parser, insn->depth == depths[f],
                   "the shape's k does not go with the types"));
    SPT_TRY(expect(
        parser, f != INTEGERS || insn->columns <= 24 || insn->columns % 16 == 0,
        "integers have 8, 16, 24 columns or a multiple of 16"));
    SPT_TRY(expect(parser, f == INTEGERS || !ptx_has(insn, PTX_MOD_SATFINITE),
                   ".satfinite is for integers"));
    return check_constants(parser, f);
}

uint32_t ptx_wgmma_registers(const ptx_insn *insn, int operand)
{
    if (insn->op != PTX_OP_WGMMA_MMA_ASYNC || operand > 1)
        return 0;
    if (operand)
        return 4;
    return insn->columns / (insn->types[0] == PTX_F16 ? 4u : 2u);
}
