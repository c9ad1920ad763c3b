/*
 * Operands as they are written. What an instruction makes of them is up to
 * ptx_check.c.
 */
#include <string.h>

#include "ptx_parse.h"

static spt_status read_vector(ptx_parser *parser, ptx_operand *operand,
                              const char *close);

/* A constant keeps its kind in fields that immediates do not use. */
static void set_raw(ptx_operand *operand, const ptx_value *value)
{
    *operand = (ptx_operand){
        .kind = PTX_IMMEDIATE,
        .base = value->real,
        .count = value->size,
        .negated = value->is_unsigned,
        .value = (int64_t)value->bits,
    };
}

ptx_value ptx_raw(const ptx_operand *operand)
{
    return (ptx_value){
        .real = operand->base,
        .size = operand->count,
        .is_unsigned = operand->negated,
        .bits = (uint64_t)operand->value,
    };
}

static spt_status read_constant(ptx_parser *parser, ptx_operand *operand)
{
    ptx_value value;
    SPT_TRY(ptx_constant(parser, &value));
    set_raw(operand, &value);
    return SPT_OK;
}

/* "+8", "-8", "+-8" behind a register or variable. */
static spt_status read_offset(ptx_parser *parser, ptx_operand *operand)
{
    ptx_value value;
    if (!ptx_is(&parser->lex, "+") && !ptx_is(&parser->lex, "-"))
        return SPT_OK;
    SPT_TRY(ptx_constant(parser, &value));
    if (value.real)
        return ptx_fail(parser, "an address takes an integer offset");
    operand->value = (int64_t)value.bits;
    return SPT_OK;
}

/* A name that is no register: special register, variable, function. */
static spt_status read_name(ptx_parser *parser, ptx_operand *operand)
{
    const ptx_token name = parser->lex.token;
    const ptx_symbol *symbol = ptx_symbol_find(parser, name.text, name.length);
    int special = ptx_find_special(name.text, name.length);
    *operand = (ptx_operand){.kind = PTX_SPECIALREG};
    if (special >= 0) {
        operand->index = (uint32_t)special;
        return ptx_lex_next(&parser->lex);
    }
    if (symbol && symbol->kind == PTX_SYMBOL_VAR) {
        operand->kind = PTX_ADDRESS;
        operand->base = PTX_BASE_VARIABLE;
        operand->index = symbol->index;
        SPT_TRY(ptx_lex_next(&parser->lex));
        return read_offset(parser, operand);
    }
    if (symbol && symbol->kind == PTX_SYMBOL_FUNC) {
        operand->kind = PTX_FUNCTION;
        operand->index = symbol->index;
        return ptx_lex_next(&parser->lex);
    }
    if (ptx_is(&parser->lex, "WARP_SZ"))
        return read_constant(parser, operand);
    int length = name.length < 80 ? (int)name.length : 80;
    return ptx_fail(parser, "%.*s is not declared", length, name.text);
}

static spt_status read_register(ptx_parser *parser, ptx_operand *operand,
                                bool *found)
{
    int32_t index;
    SPT_TRY(ptx_register_find(parser, &parser->lex.token, &index));
    *found = index >= 0;
    if (!*found)
        return SPT_OK;
    *operand = (ptx_operand){.kind = PTX_REGISTER, .index = (uint32_t)index};
    return ptx_lex_next(&parser->lex);
}

/* Behind the address of a tensor map: the coordinates, an operand of their
   own. */
static spt_status read_coordinates(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    bool more;
    SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    if (!more)
        return SPT_OK;
    if (!ptx_set_has(&ptx_op_row((ptx_op)insn->op)->mods, PTX_MOD_TENSOR_1D))
        return ptx_fail(parser, "brackets hold one address");
    if (insn->n_operands == PTX_MAX_OPERANDS)
        return ptx_fail_insn(parser, SPT_E_FORMAT, "too many operands");
    SPT_TRY(ptx_expect(&parser->lex, "{"));
    return read_vector(parser, &insn->operands[insn->n_operands++], "}");
}

static spt_status read_address(ptx_parser *parser, ptx_operand *operand)
{
    bool found = false;
    SPT_TRY(ptx_lex_next(&parser->lex));
    if (parser->lex.token.kind == PTX_TOKEN_WORD) {
        SPT_TRY(read_register(parser, operand, &found));
        if (found) {
            operand->kind = PTX_ADDRESS;
            operand->base = PTX_BASE_REGISTER;
            SPT_TRY(read_offset(parser, operand));
        } else {
            SPT_TRY(read_name(parser, operand));
        }
    } else {
        SPT_TRY(read_constant(parser, operand));
        if (operand->base)
            return ptx_fail(parser, "an address is an integer");
        *operand = (ptx_operand){
            .kind = PTX_ADDRESS, .base = PTX_NO_BASE, .value = operand->value};
    }
    if (operand->kind != PTX_ADDRESS)
        return ptx_fail(parser, "brackets hold a register, a variable or a "
                                "constant");
    operand->count = 1;
    SPT_TRY(read_coordinates(parser));
    return ptx_expect(&parser->lex, "]");
}

/* Lanes of a video instruction; 0: it is none. */
static uint32_t video_lanes(const ptx_insn *insn)
{
    const char *text = ptx_op_text((ptx_op)insn->op);
    char last = text[strlen(text) - 1];
    if (*text != 'v' || insn->op == PTX_OP_VOTE)
        return 0;
    return last == '2' ? 2 : last == '4' ? 4 : 1;
}

/* "b3210" or "h10" behind a register's point. */
static spt_status read_select(ptx_parser *parser, ptx_operand *operand,
                              const char *text, uint32_t length, uint32_t lanes)
{
    bool halves = length && *text == 'h', to = parser->insn.n_operands == 1;
    uint32_t count = length ? length - 1 : 0, parts = halves ? 2 : 4;
    bool good = count >= 1 && count <= 4 && (halves || *text == 'b');
    if (lanes > 1) {
        good &= parts == lanes && (to ? count <= lanes : count == lanes);
        parts = to ? lanes : 2 * lanes;
    } else {
        good &= count == 1;
    }
    for (uint32_t i = 1; good && i <= count; i++) {
        uint32_t digit = (uint32_t)(text[i] - '0');
        good = digit < parts;
        operand->select = (uint16_t)(operand->select << 4 | 8 | digit);
    }
    operand->halves = halves;
    return good ? SPT_OK
                : ptx_fail(parser,
                           "%.*s does not select parts of this "
                           "instruction's operands",
                           length < 20 ? (int)length : 20, text);
}

/* Of a video instruction: a register or a part of it, "-" before it. */
static spt_status read_part(ptx_parser *parser, ptx_operand *operand,
                            uint32_t lanes)
{
    bool minus = false;
    if (parser->insn.op == PTX_OP_VMAD)
        SPT_TRY(ptx_accept(&parser->lex, "-", &minus));
    if (parser->lex.token.kind != PTX_TOKEN_WORD) {
        SPT_TRY(read_constant(parser, operand));
        if (minus)
            operand->value = (int64_t)(0 - (uint64_t)operand->value);
        return SPT_OK;
    }
    bool found;
    SPT_TRY(read_register(parser, operand, &found));
    if (!found)
        return read_name(parser, operand);
    operand->negated = minus;
    ptx_token part = parser->lex.token;
    if (part.length < 2 || *part.text != '.')
        return SPT_OK;
    SPT_TRY(
        read_select(parser, operand, part.text + 1, part.length - 1, lanes));
    return ptx_lex_next(&parser->lex);
}

static spt_status read_scalar(ptx_parser *parser, ptx_operand *operand)
{
    bool found;
    uint32_t lanes = video_lanes(&parser->insn);
    if (lanes)
        return read_part(parser, operand, lanes);
    if (parser->lex.token.kind != PTX_TOKEN_WORD)
        return read_constant(parser, operand);
    if (ptx_is(&parser->lex, "_")) {
        *operand = (ptx_operand){.kind = PTX_SINK};
        return ptx_lex_next(&parser->lex);
    }
    SPT_TRY(read_register(parser, operand, &found));
    return found ? SPT_OK : read_name(parser, operand);
}

/* Operands up to the closing bracket into one vector. */
static spt_status read_vector(ptx_parser *parser, ptx_operand *operand,
                              const char *close)
{
    uint32_t first = PTX_COUNT(parser->vectors, ptx_operand), count = 0;
    bool more = !ptx_is(&parser->lex, close);
    while (more) {
        ptx_operand element;
        if (count++ == PTX_MAX_LIST)
            return ptx_fail(parser, "a list has at most %d operands",
                            PTX_MAX_LIST);
        SPT_TRY(read_scalar(parser, &element));
        SPT_TRY(ptx_push(parser, &parser->vectors, &element, sizeof element));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    *operand = (ptx_operand){
        .kind = PTX_VECTOR, .count = (uint8_t)count, .index = first};
    return ptx_expect(&parser->lex, close);
}

spt_status ptx_operand_list(ptx_parser *parser, ptx_operand *operand)
{
    SPT_TRY(ptx_expect(&parser->lex, "("));
    return read_vector(parser, operand, ")");
}

spt_status ptx_operand_read(ptx_parser *parser, ptx_operand *operand)
{
    bool negated;
    if (ptx_is(&parser->lex, "["))
        return read_address(parser, operand);
    if (ptx_is(&parser->lex, "{")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        return read_vector(parser, operand, "}");
    }
    SPT_TRY(ptx_accept(&parser->lex, "!", &negated));
    SPT_TRY(read_scalar(parser, operand));
    if (negated && operand->kind != PTX_REGISTER)
        return ptx_fail(parser, "! needs a predicate");
    if (negated)
        operand->negated = 1;
    return SPT_OK;
}

spt_status ptx_operands(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    bool more = !ptx_is(&parser->lex, ";");
    while (more) {
        if (insn->n_operands == PTX_MAX_OPERANDS)
            return ptx_fail_insn(parser, SPT_E_FORMAT, "too many operands");
        ptx_operand *operand = &insn->operands[insn->n_operands++];
        SPT_TRY(ptx_operand_read(parser, operand));
        SPT_TRY(ptx_accept(&parser->lex, "|", &more));
        if (more)
            operand->pair = 1;
        else
            SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    return SPT_OK;
}
