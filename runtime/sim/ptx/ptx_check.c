/*
 * Operands against their row: the form whose kinds fit is chosen, then types
 * and widths are checked and constants take the type of their place.
 */
#include <string.h>

#include "ptx_parse.h"

static ptx_type widened(ptx_type type)
{
    switch (type) {
    case PTX_U16:
        return PTX_U32;
    case PTX_S16:
        return PTX_S32;
    case PTX_U32:
        return PTX_U64;
    case PTX_S32:
        return PTX_S64;
    default:
        return type;
    }
}

/* PTX_NONE: any type. */
static ptx_type place_type(const ptx_insn *insn, uint8_t place)
{
    if (place >= PTX_PLACE_FIXED)
        return (ptx_type)(place - PTX_PLACE_FIXED);
    if (place == PTX_PLACE_WIDE && ptx_has(insn, PTX_MOD_WIDE))
        return widened((ptx_type)insn->types[0]);
    if (place == PTX_PLACE_MIXED)
        place = insn->n_types > 1;
    if (place == PTX_PLACE_WIDE)
        place = 0;
    return place < insn->n_types ? (ptx_type)insn->types[place] : PTX_NONE;
}

static ptx_type register_type(const ptx_parser *parser,
                              const ptx_operand *operand)
{
    return (ptx_type)PTX_ITEM(parser->regs, ptx_reg, operand->index)->type;
}

static bool is_predicate(const ptx_parser *parser, const ptx_operand *operand)
{
    return operand->kind == PTX_REGISTER &&
           register_type(parser, operand) == PTX_PRED;
}

/* Whether an operand can stand where a form has this role and type. */
static bool fits(const ptx_parser *parser, const ptx_operand *operand,
                 char role, ptx_type type, bool vector)
{
    bool reg = operand->kind == PTX_REGISTER;
    bool address = operand->kind == PTX_ADDRESS;
    if (operand->kind == PTX_IMMEDIATE)
        return role == 's' || role == 'i' || role == 'x';
    if (reg && operand->negated && type != PTX_PRED &&
        parser->insn.op != PTX_OP_VMAD)
        return false;
    if (reg && type != PTX_NONE && role != 'a' &&
        is_predicate(parser, operand) != (type == PTX_PRED))
        return false;
    switch (role) {
    case 'd':
        return vector ? operand->kind == PTX_VECTOR
                      : (reg && !operand->negated) || operand->kind == PTX_SINK;
    case 's':
        if (vector)
            return operand->kind == PTX_VECTOR;
        return reg || operand->kind == PTX_SPECIALREG ||
               (address && !operand->count && type != PTX_PRED);
    case 'r':
        return reg;
    case 'a':
        return address && operand->count;
    case 'v':
    case 'u':
        return operand->kind == PTX_VECTOR || reg;
    case 'x':
        return reg || operand->kind == PTX_SPECIALREG ||
               operand->kind == PTX_VECTOR || operand->kind == PTX_FUNCTION ||
               (address && !operand->count);
    case 'L':
        return operand->kind == PTX_LABEL;
    case 'T':
        return operand->kind == PTX_TABLE;
    default:
        return false;
    }
}

/*
 * Form operands over those of the instruction. Returns how many fit before the
 * first that does not; *whole when all do.
 */
static int match(const ptx_parser *parser, const ptx_form *form, bool *whole)
{
    const ptx_insn *insn = &parser->insn;
    int at = 0, i;
    *whole = false;
    if ((form->with >= 0 && !ptx_has(insn, (ptx_mod)form->with)) ||
        (form->without >= 0 && ptx_has(insn, (ptx_mod)form->without)))
        return -1;
    for (i = 0; i < form->count && at < insn->n_operands; i++) {
        const ptx_operand *operand = &insn->operands[at];
        uint8_t place = form->operands[i].place;
        bool vector = insn->vector > 1 && place == 0;
        if (!fits(parser, operand, form->operands[i].role,
                  place_type(insn, place), vector))
            return at;
        if (operand->pair) {
            const ptx_operand *second = &insn->operands[at + 1];
            if (!form->operands[i].pair ||
                (second->kind != PTX_SINK && !is_predicate(parser, second)) ||
                second->negated)
                return at;
        }
        at += 1 + operand->pair;
    }
    *whole = at == insn->n_operands && i >= form->required;
    return at;
}

/* ld, st and cvt take registers that are wider than their type. */
static bool is_relaxed(const ptx_insn *insn)
{
    switch (insn->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
    case PTX_OP_ST:
    case PTX_OP_CVT:
        return true;
    default:
        return false;
    }
}

static bool is_integer(ptx_kind kind)
{
    return kind == PTX_KIND_UNSIGNED || kind == PTX_KIND_SIGNED;
}

static bool compatible(ptx_type reg, ptx_type type, bool relaxed)
{
    ptx_kind have = ptx_type_kind(reg), want = ptx_type_kind(type);
    uint32_t bytes = ptx_type_bytes(reg), needed = ptx_type_bytes(type);
    if (have == PTX_KIND_PREDICATE || want == PTX_KIND_PREDICATE)
        return have == want;
    if ((have == PTX_KIND_FLOAT && is_integer(want)) ||
        (want == PTX_KIND_FLOAT && is_integer(have)))
        return false;
    if (relaxed && want != PTX_KIND_FLOAT)
        return bytes >= needed;
    return bytes == needed;
}

static spt_status check_scalar(ptx_parser *parser, ptx_operand *operand,
                               ptx_type type, int number)
{
    const ptx_insn *insn = &parser->insn;
    bool relaxed = is_relaxed(insn);
    if (operand->kind == PTX_IMMEDIATE) {
        ptx_value raw = ptx_raw(operand);
        uint64_t bits = raw.bits;
        const char *why;
        if (type != PTX_NONE && !ptx_value_bits(&raw, type, &bits, &why))
            return ptx_fail_insn(parser, SPT_E_FORMAT, "operand %d is %s",
                                 number, why);
        *operand = (ptx_operand){.kind = PTX_IMMEDIATE,
                                 .pair = operand->pair,
                                 .value = (int64_t)bits};
        return SPT_OK;
    }
    if (type == PTX_NONE)
        return SPT_OK;
    ptx_type have;
    if (operand->kind == PTX_REGISTER)
        have = register_type(parser, operand);
    else if (operand->kind == PTX_SPECIALREG)
        have = ptx_special_type((ptx_special)operand->index);
    else
        return SPT_OK;
    if (!compatible(have, type, relaxed))
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "operand %d has type .%s where .%s is expected",
                             number, ptx_type_text(have), ptx_type_text(type));
    return SPT_OK;
}

static bool element_fits(const ptx_operand *element, char role)
{
    switch (element->kind) {
    case PTX_REGISTER:
        return true;
    case PTX_SINK:
        return role == 'd' || role == 'v' || role == 'x';
    case PTX_IMMEDIATE:
    case PTX_SPECIALREG:
        return role != 'd' && role != 'v';
    default:
        return false;
    }
}

/* A register where a vector of one may stand becomes that vector. */
static spt_status make_vector(ptx_parser *parser, ptx_operand *operand)
{
    uint32_t index = PTX_COUNT(parser->vectors, ptx_operand);
    if (operand->kind == PTX_VECTOR)
        return SPT_OK;
    SPT_TRY(ptx_push(parser, &parser->vectors, operand, sizeof *operand));
    *operand = (ptx_operand){.kind = PTX_VECTOR, .count = 1, .index = index};
    return SPT_OK;
}

static spt_status check_elements(ptx_parser *parser, ptx_operand *operand,
                                 char role, ptx_type type, int number)
{
    for (uint32_t i = 0; i < operand->count; i++) {
        ptx_operand *element =
            PTX_ITEM(parser->vectors, ptx_operand, operand->index + i);
        if (!element_fits(element, role))
            return ptx_fail_insn(parser, SPT_E_FORMAT,
                                 "element %u of operand %d is not a register",
                                 i + 1, number);
        SPT_TRY(check_scalar(parser, element, type, number));
    }
    return SPT_OK;
}

/* mov packs and unpacks: elements share the bits of the instruction's type. */
static spt_status check_mov_vector(ptx_parser *parser, ptx_operand *operand,
                                   char role, int number)
{
    ptx_type whole = (ptx_type)parser->insn.types[0];
    uint32_t bytes = ptx_type_bytes(whole), count = operand->count;
    static const ptx_type parts[] = {
        [1] = PTX_B8, [2] = PTX_B16, [4] = PTX_B32, [8] = PTX_B64};
    if (ptx_type_kind(whole) != PTX_KIND_BITS || (count != 2 && count != 4) ||
        bytes < 2 * (count / 2))
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "a vector of %u does not make a .%s", count,
                             ptx_type_text(whole));
    for (uint32_t i = 0; i < count; i++) {
        ptx_operand *element =
            PTX_ITEM(parser->vectors, ptx_operand, operand->index + i);
        if (!element_fits(element, role == 'd' ? 'd' : 's'))
            return ptx_fail_insn(parser, SPT_E_FORMAT,
                                 "element %u of operand %d is not a register",
                                 i + 1, number);
        SPT_TRY(check_scalar(parser, element, parts[bytes / count], number));
    }
    return SPT_OK;
}

static spt_status check_mov(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    ptx_type type = (ptx_type)insn->types[0];
    for (int i = 0; i < 2; i++) {
        ptx_operand *operand = &insn->operands[i];
        if (operand->kind == PTX_VECTOR)
            SPT_TRY(check_mov_vector(parser, operand, i ? 's' : 'd', i + 1));
        else
            SPT_TRY(check_scalar(parser, operand, type, i + 1));
    }
    const ptx_operand *to = &insn->operands[0], *from = &insn->operands[1];
    bool unpack = to->kind == PTX_VECTOR;
    if ((!unpack && to->kind != PTX_REGISTER) ||
        (unpack && from->kind == PTX_VECTOR))
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "the destination must be a register");
    bool address = from->kind == PTX_ADDRESS || from->kind == PTX_FUNCTION;
    if (address && ptx_type_bytes(type) != 8 && ptx_type_bytes(type) != 4)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "an address needs 32 or 64 bits");
    return SPT_OK;
}

static spt_status check_address(ptx_parser *parser, const ptx_operand *operand,
                                int number)
{
    if (operand->base != PTX_BASE_REGISTER)
        return SPT_OK;
    ptx_type type = register_type(parser, operand);
    uint32_t bytes = ptx_type_bytes(type);
    ptx_kind kind = ptx_type_kind(type);
    if ((kind != PTX_KIND_BITS && !is_integer(kind)) ||
        (bytes != 4 && bytes != 8))
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "operand %d: an address is in a register of 32 "
                             "or 64 bits, not .%s",
                             number, ptx_type_text(type));
    return SPT_OK;
}

static spt_status check_vector(ptx_parser *parser, ptx_operand *operand,
                               char role, ptx_type type, int at)
{
    const ptx_insn *insn = &parser->insn;
    uint32_t count = insn->vector;
    if (role == 'v' || role == 'u') {
        SPT_TRY(make_vector(parser, operand));
        count = ptx_fragment_count(insn, at);
        if (type == PTX_NONE && ptx_fragment_bytes(insn, at))
            type = ptx_fragment_bytes(insn, at) == 8   ? PTX_B64
                   : ptx_fragment_bytes(insn, at) == 2 ? PTX_B16
                                                       : PTX_B32;
    }
    if (count && operand->count != count)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "operand %d has %u registers, expected %u", at + 1,
                             operand->count, count);
    return check_elements(parser, operand, role, type, at + 1);
}

static spt_status check_types(ptx_parser *parser, const ptx_form *form)
{
    ptx_insn *insn = &parser->insn;
    if (insn->op == PTX_OP_MOV)
        return check_mov(parser);
    for (int i = 0, at = 0; at < insn->n_operands; i++) {
        ptx_operand *operand = &insn->operands[at];
        char role = form->operands[i].role;
        ptx_type type = place_type(insn, form->operands[i].place);
        if (operand->kind == PTX_VECTOR || role == 'v' || role == 'u')
            SPT_TRY(check_vector(parser, operand, role, type, at));
        else if (role == 'a')
            SPT_TRY(check_address(parser, operand, at + 1));
        else
            SPT_TRY(check_scalar(parser, operand, type, at + 1));
        at += 1 + operand->pair;
    }
    return SPT_OK;
}

spt_status ptx_check(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    const ptx_row *row = ptx_op_row((ptx_op)insn->op);
    int best = 0;
    if (insn->n_operands && insn->operands[insn->n_operands - 1].pair)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "the second half of a pair is missing");
    for (int i = 0; i < row->n_forms; i++) {
        bool whole;
        int count = match(parser, &row->forms[i], &whole);
        if (whole) {
            SPT_TRY(check_types(parser, &row->forms[i]));
            return ptx_check_rules(parser);
        }
        best = count > best ? count : best;
    }
    if (best < insn->n_operands)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "operand %d is not of the kind that is expected "
                             "there",
                             best + 1);
    return ptx_fail_insn(parser, SPT_E_FORMAT, "operands are missing after %d",
                         insn->n_operands);
}
