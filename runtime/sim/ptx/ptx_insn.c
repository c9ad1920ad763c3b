/*
 * Instructions: mnemonic, suffixes, and the operands of branches and calls,
 * which name labels and functions.
 */
#include <string.h>

#include "ptx_parse.h"

enum { MNEMONIC_PARTS = 6 };

/* The longest dotted prefix of the opcode that is a mnemonic. */
static const ptx_mnemonic *find_mnemonic(const ptx_token *opcode,
                                         uint32_t *length)
{
    uint32_t ends[MNEMONIC_PARTS], count = 0;
    for (uint32_t i = 0; i <= opcode->length && count < MNEMONIC_PARTS; i++)
        if (i == opcode->length || opcode->text[i] == '.')
            ends[count++] = i;
    while (count--) {
        const ptx_mnemonic *found =
            ptx_find_mnemonic(opcode->text, ends[count]);
        if (found) {
            *length = ends[count];
            return found;
        }
    }
    return NULL;
}

/* Layouts of A and B; primary and secondary priority of a policy. */
static bool may_repeat(const ptx_insn *insn, uint32_t mod)
{
    return mod == PTX_MOD_ROW || mod == PTX_MOD_COL ||
           insn->op == PTX_OP_CREATEPOLICY;
}

static spt_status add_mod(ptx_parser *parser, uint32_t mod)
{
    ptx_insn *insn = &parser->insn;
    bool twice = ptx_has(insn, (ptx_mod)mod) && !may_repeat(insn, mod);
    if (twice || insn->n_mods == PTX_MAX_MODS)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             twice ? ".%s is given twice"
                                   : "too many modifiers at .%s",
                             ptx_mod_text((ptx_mod)mod));
    insn->mods[insn->n_mods++] = (uint8_t)mod;
    return SPT_OK;
}

static spt_status add_type(ptx_parser *parser, const ptx_row *row,
                           uint32_t type)
{
    ptx_insn *insn = &parser->insn;
    if (insn->n_types == row->max_types ||
        !(row->types[insn->n_types] >> type & 1))
        return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                             "type .%s is not allowed here",
                             ptx_type_text((ptx_type)type));
    insn->types[insn->n_types++] = (uint8_t)type;
    return SPT_OK;
}

static spt_status add_space(ptx_parser *parser, const ptx_row *row,
                            ptx_word word, uint32_t *spaces)
{
    bool cluster = word.kind == PTX_WORD_SPACE_CLUSTER;
    if (!(row->mods.spaces >> word.id & 1) || *spaces == 2 ||
        (cluster && !ptx_set_has(&row->mods, PTX_MOD_SHARED_CLUSTER)))
        return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                             ".%s is not allowed here", word.text);
    if ((*spaces)++)
        parser->insn.space2 = (uint8_t)word.id;
    else
        parser->insn.space = (uint8_t)word.id;
    return cluster ? add_mod(parser, PTX_MOD_SHARED_CLUSTER) : SPT_OK;
}

static spt_status add_suffix(ptx_parser *parser, const ptx_row *row,
                             const char *text, uint32_t length,
                             uint32_t *spaces)
{
    ptx_insn *insn = &parser->insn;
    ptx_word word = ptx_find_word(text, length);
    switch (word.kind) {
    case PTX_WORD_TYPE:
        return add_type(parser, row, word.id);
    case PTX_WORD_SPACE:
    case PTX_WORD_SPACE_CLUSTER:
        return add_space(parser, row, word, spaces);
    case PTX_WORD_VECTOR:
        if (insn->vector == 1 &&
            row->vectors >> (word.id == 8 ? 3 : word.id / 2) & 1)
            insn->vector = (uint8_t)word.id;
        else
            break;
        return SPT_OK;
    case PTX_WORD_MOD:
        if (ptx_set_has(&row->mods, word.id))
            return add_mod(parser, word.id);
        break;
    default:
        if (ptx_wgmma_shape(insn, text, length))
            return SPT_OK;
        break;
    }
    int shown = length < 80 ? (int)length : 80;
    return ptx_fail_insn(parser, SPT_E_UNSUPPORTED, "%s modifier .%.*s",
                         word.kind ? "misplaced" : "unknown", shown, text);
}

static bool has_of_group(const ptx_insn *insn, const ptx_mod_set *group,
                         bool space)
{
    for (int i = 0; i < insn->n_mods; i++)
        if (ptx_set_has(group, insn->mods[i]))
            return true;
    return space && group->spaces >> insn->space & 1;
}

static spt_status check_groups(ptx_parser *parser, const ptx_row *row,
                               bool space)
{
    for (int i = 0; i < row->n_groups; i++) {
        const ptx_mod_set *group = &row->groups[i];
        if (has_of_group(&parser->insn, group, space))
            continue;
        int mod = 0;
        while (mod < PTX_MOD_COUNT && !ptx_set_has(group, (unsigned)mod))
            mod++;
        return ptx_fail_insn(
            parser, SPT_E_FORMAT,
            mod < PTX_MOD_COUNT ? "a modifier like .%s is missing"
                                : "the state space is missing%s",
            mod < PTX_MOD_COUNT ? ptx_mod_text((ptx_mod)mod) : "");
    }
    return SPT_OK;
}

static spt_status read_suffixes(ptx_parser *parser, const ptx_token *opcode)
{
    uint32_t at = 0, spaces = 0;
    const ptx_mnemonic *mnemonic = find_mnemonic(opcode, &at);
    if (!mnemonic)
        return ptx_fail_insn(parser, SPT_E_UNSUPPORTED, "unknown instruction");
    const ptx_row *row = ptx_op_row(mnemonic->op);
    parser->insn.op = (uint16_t)mnemonic->op;
    if (mnemonic->implied >= 0)
        SPT_TRY(add_mod(parser, (uint32_t)mnemonic->implied));
    while (at < opcode->length) {
        uint32_t from = ++at;
        while (at < opcode->length && opcode->text[at] != '.')
            at++;
        SPT_TRY(
            add_suffix(parser, row, opcode->text + from, at - from, &spaces));
    }
    if (parser->insn.n_types < row->min_types)
        return ptx_fail_insn(parser, SPT_E_FORMAT, "a type is missing");
    if (parser->module->sm < row->sm)
        return ptx_fail_insn(parser, SPT_E_UNSUPPORTED,
                             "needs target sm_%u, the module has sm_%u",
                             row->sm, parser->module->sm);
    return check_groups(parser, row, spaces > 0);
}

/* The current word as a label or table that is resolved later. */
static spt_status add_fixup(ptx_parser *parser, uint8_t kind)
{
    const ptx_token *name = &parser->lex.token;
    ptx_insn *insn = &parser->insn;
    if (name->kind != PTX_TOKEN_WORD)
        return ptx_unexpected(parser, "a label");
    ptx_fixup fixup = {
        .name = name->text,
        .length = name->length,
        .line = name->line,
        .at = PTX_COUNT(parser->insns, ptx_insn),
        .element = insn->n_operands,
    };
    insn->operands[insn->n_operands++] = (ptx_operand){.kind = kind};
    SPT_TRY(ptx_push(parser, &parser->fixups, &fixup, sizeof fixup));
    return ptx_lex_next(&parser->lex);
}

static spt_status read_branch_table(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    insn->n_operands = 1;
    SPT_TRY(ptx_operand_read(parser, &insn->operands[0]));
    SPT_TRY(ptx_expect(&parser->lex, ","));
    return add_fixup(parser, PTX_TABLE);
}

static spt_status check_arguments(ptx_parser *parser, const ptx_func *callee,
                                  const uint32_t *params, uint32_t n_params,
                                  const ptx_operand *list, const char *what)
{
    if (list->count != n_params)
        return ptx_fail_insn(parser, SPT_E_FORMAT,
                             "%s has %u %s, the call has %u", callee->name,
                             n_params, what, list->count);
    for (uint32_t i = 0; i < n_params; i++) {
        const ptx_var *param = PTX_ITEM(parser->vars, ptx_var, params[i]);
        const ptx_operand *arg =
            PTX_ITEM(parser->vectors, ptx_operand, list->index + i);
        if (arg->kind != PTX_ADDRESS)
            continue;
        const ptx_var *var = PTX_ITEM(parser->vars, ptx_var, arg->index);
        if (param->size && var->size != param->size)
            return ptx_fail_insn(parser, SPT_E_FORMAT,
                                 "%s of %s has %llu bytes, the call passes "
                                 "%llu",
                                 param->name, callee->name,
                                 (unsigned long long)param->size,
                                 (unsigned long long)var->size);
    }
    return SPT_OK;
}

/* Elements of a call's list: .param variables of the body, or registers. */
static spt_status check_list(ptx_parser *parser, const ptx_operand *list,
                             bool results)
{
    for (uint32_t i = 0; i < list->count; i++) {
        ptx_operand *arg =
            PTX_ITEM(parser->vectors, ptx_operand, list->index + i);
        bool good = arg->kind == PTX_REGISTER;
        if (arg->kind == PTX_ADDRESS && arg->base == PTX_BASE_VARIABLE)
            good =
                !arg->value &&
                PTX_ITEM(parser->vars, ptx_var, arg->index)->space == PTX_LOCAL;
        if (arg->kind == PTX_IMMEDIATE && !results) {
            ptx_value value = ptx_raw(arg);
            *arg = (ptx_operand){.kind = PTX_IMMEDIATE,
                                 .value = (int64_t)value.bits};
            good = true;
        }
        if (!good)
            return ptx_fail_insn(parser, SPT_E_FORMAT,
                                 "operand %u of a list is neither a .param "
                                 "variable nor a register",
                                 i + 1);
    }
    return SPT_OK;
}

static spt_status check_callee(ptx_parser *parser)
{
    ptx_operand *operands = parser->insn.operands;
    SPT_TRY(check_list(parser, &operands[1], true));
    SPT_TRY(check_list(parser, &operands[2], false));
    if (operands[0].kind != PTX_FUNCTION) {
        const ptx_reg *reg =
            operands[0].kind == PTX_REGISTER
                ? PTX_ITEM(parser->regs, ptx_reg, operands[0].index)
                : NULL;
        if (!reg || ptx_type_bytes((ptx_type)reg->type) != 8)
            return ptx_fail_insn(parser, SPT_E_FORMAT,
                                 "what is called must be a function or a "
                                 "64-bit register");
        return SPT_OK;
    }
    const ptx_func *callee =
        PTX_ITEM(parser->funcs, ptx_func, operands[0].index);
    if (callee->entry)
        return ptx_fail_insn(parser, SPT_E_FORMAT, "%s is a kernel",
                             callee->name);
    SPT_TRY(check_arguments(parser, callee, callee->returns, callee->n_returns,
                            &operands[1], "results"));
    return check_arguments(parser, callee, callee->params, callee->n_params,
                           &operands[2], "parameters");
}

/* call (results), function, (arguments), prototype; all but one optional */
static spt_status read_call(ptx_parser *parser)
{
    ptx_insn *insn = &parser->insn;
    ptx_operand *operands = insn->operands;
    bool more;
    operands[1] = operands[2] = (ptx_operand){.kind = PTX_VECTOR};
    if (ptx_is(&parser->lex, "(")) {
        SPT_TRY(ptx_operand_list(parser, &operands[1]));
        SPT_TRY(ptx_expect(&parser->lex, ","));
    }
    SPT_TRY(ptx_operand_read(parser, &operands[0]));
    insn->n_operands = 3;
    SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    if (more && ptx_is(&parser->lex, "(")) {
        SPT_TRY(ptx_operand_list(parser, &operands[2]));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    if (more)
        SPT_TRY(add_fixup(parser, PTX_TABLE));
    return check_callee(parser);
}

static spt_status read_operands(ptx_parser *parser)
{
    switch (parser->insn.op) {
    case PTX_OP_BRA:
        return add_fixup(parser, PTX_LABEL);
    case PTX_OP_BRX_IDX:
        SPT_TRY(read_branch_table(parser));
        return ptx_check(parser);
    case PTX_OP_CALL:
        return read_call(parser);
    default:
        SPT_TRY(ptx_operands(parser));
        return ptx_check(parser);
    }
}

spt_status ptx_move_held(ptx_parser *parser, bool results, int32_t guard,
                         bool negated)
{
    uint32_t count = PTX_COUNT(parser->held, ptx_held);
    for (uint32_t i = 0; i < count; i++) {
        const ptx_held *held = PTX_ITEM(parser->held, ptx_held, i);
        ptx_insn insn = {
            .op = results ? PTX_OP_ST : PTX_OP_LD,
            .n_operands = 2,
            .n_types = 1,
            .space = PTX_PARAM,
            .vector = 1,
            .guard = guard,
            .guard_negated = negated,
            .types = {PTX_ITEM(parser->vars, ptx_var, held->var)->type},
            .file = parser->file,
            .line = parser->line,
            .ptx_line = parser->lex.token.line,
        };
        insn.operands[results] =
            (ptx_operand){.kind = PTX_REGISTER, .index = held->reg};
        insn.operands[!results] = (ptx_operand){.kind = PTX_ADDRESS,
                                                .count = 1,
                                                .base = PTX_BASE_VARIABLE,
                                                .index = held->var};
        if (held->result == results)
            SPT_TRY(ptx_push(parser, &parser->insns, &insn, sizeof insn));
    }
    return SPT_OK;
}

spt_status ptx_instruction(ptx_parser *parser, const ptx_token *opcode)
{
    ptx_insn *insn = &parser->insn;
    parser->text = opcode->text;
    parser->length = opcode->length;
    parser->text_line = opcode->line;
    insn->vector = 1;
    insn->file = parser->file;
    insn->line = parser->line;
    insn->ptx_line = opcode->line;
    insn->unused_bytes = parser->unused_bytes;
    parser->unused_bytes = 0;
    SPT_TRY(read_suffixes(parser, opcode));
    SPT_TRY(read_operands(parser));
    if (insn->op == PTX_OP_RET)
        SPT_TRY(ptx_move_held(parser, true, insn->guard, insn->guard_negated));
    SPT_TRY(ptx_push(parser, &parser->insns, insn, sizeof *insn));
    return ptx_expect(&parser->lex, ";");
}
