/*
 * Function bodies: scopes, registers, labels and their tables.
 *
 * A label is seen in its own scope and in scopes within it, before and after
 * it stands there. So a reference waits until its scope closes: then it is
 * bound to a label of that scope, or handed on to the scope around it.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx_parse.h"

static spt_status bind(ptx_parser *parser, const ptx_fixup *fixup,
                       const ptx_symbol *symbol)
{
    if (fixup->in_table) {
        ptx_table *table = PTX_ITEM(parser->tables, ptx_table, fixup->at);
        table->targets[fixup->element] = symbol->index;
        if (symbol->kind == PTX_SYMBOL_LABEL)
            return SPT_OK;
    } else {
        ptx_insn *insn = PTX_ITEM(parser->insns, ptx_insn, fixup->at);
        ptx_operand *operand = &insn->operands[fixup->element];
        operand->index = symbol->index;
        if (symbol->kind ==
            (operand->kind == PTX_LABEL ? PTX_SYMBOL_LABEL : PTX_SYMBOL_TABLE))
            return SPT_OK;
    }
    int length = fixup->length < 80 ? (int)fixup->length : 80;
    return spt_fail(parser->err, SPT_E_FORMAT,
                    "PTX line %u: %.*s is not a label or table that can "
                    "stand there",
                    fixup->line, length, fixup->name);
}

static spt_status close_scope(ptx_parser *parser, uint32_t first)
{
    uint32_t count = PTX_COUNT(parser->fixups, ptx_fixup), kept = first;
    for (uint32_t i = first; i < count; i++) {
        ptx_fixup *fixup = PTX_ITEM(parser->fixups, ptx_fixup, i);
        const ptx_symbol *symbol =
            ptx_symbol_find(parser, fixup->name, fixup->length);
        bool here = symbol && symbol->depth == parser->depth &&
                    (symbol->kind == PTX_SYMBOL_LABEL ||
                     symbol->kind == PTX_SYMBOL_TABLE);
        if (here)
            SPT_TRY(bind(parser, fixup, symbol));
        else
            *PTX_ITEM(parser->fixups, ptx_fixup, kept++) = *fixup;
    }
    parser->fixups.size = kept * sizeof(ptx_fixup);
    ptx_symbols_drop(parser, parser->depth);
    parser->depth--;
    return SPT_OK;
}

spt_status ptx_register_add(ptx_parser *parser, ptx_type type,
                            const ptx_token *name)
{
    ptx_symbol *symbol;
    ptx_reg reg = {.type = (uint8_t)type};
    uint32_t index = PTX_COUNT(parser->regs, ptx_reg);
    reg.name =
        spt_arena_strdup(&parser->module->arena, name->text, name->length);
    if (!reg.name)
        return ptx_out_of_memory(parser);
    SPT_TRY(ptx_symbol_add(parser, name, PTX_SYMBOL_REGISTER, index, &symbol));
    return ptx_push(parser, &parser->regs, &reg, sizeof reg);
}

static spt_status add_range(ptx_parser *parser, ptx_type type,
                            const ptx_token *name)
{
    uint64_t count;
    ptx_symbol *symbol;
    SPT_TRY(ptx_lex_next(&parser->lex));
    /* Not an expression: its ">" closes the range. */
    if (parser->lex.token.kind != PTX_TOKEN_INTEGER)
        return ptx_unexpected(parser, "a number of registers");
    count = parser->lex.token.bits;
    parser->ranges += count;
    if (count > PTX_MAX_RANGE || parser->ranges > PTX_MAX_RANGES)
        return ptx_fail(parser, "too many registers");
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_symbol_add(parser, name, PTX_SYMBOL_RANGE, 0, &symbol));
    symbol->type = (uint8_t)type;
    symbol->count = (uint32_t)count;
    return ptx_expect(&parser->lex, ">");
}

/* .reg .b32 %r<100>, x; */
static spt_status read_registers(ptx_parser *parser)
{
    SPT_TRY(ptx_lex_next(&parser->lex));
    const ptx_token *token = &parser->lex.token;
    ptx_word word = {NULL, PTX_WORD_UNKNOWN, 0};
    if (token->kind == PTX_TOKEN_DOTTED)
        word = ptx_find_word(token->text + 1, token->length - 1);
    ptx_kind kind = ptx_type_kind((ptx_type)word.id);
    if (word.kind != PTX_WORD_TYPE || kind == PTX_KIND_SMALL)
        return ptx_unexpected(parser, "the type of registers");
    bool more;
    do {
        SPT_TRY(ptx_lex_next(&parser->lex));
        const ptx_token name = parser->lex.token;
        if (name.kind != PTX_TOKEN_WORD)
            return ptx_unexpected(parser, "a register");
        SPT_TRY(ptx_lex_next(&parser->lex));
        if (ptx_is(&parser->lex, "<"))
            SPT_TRY(add_range(parser, (ptx_type)word.id, &name));
        else
            SPT_TRY(ptx_register_add(parser, (ptx_type)word.id, &name));
        more = ptx_is(&parser->lex, ",");
    } while (more);
    return ptx_expect(&parser->lex, ";");
}

/* .loc FILE LINE COLUMN, function_name ..., inlined_at ... */
static spt_status read_loc(ptx_parser *parser)
{
    uint64_t file, line, column;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_count(parser, PTX_MAX_FILES, ".loc", &file));
    SPT_TRY(ptx_count(parser, UINT32_MAX, ".loc", &line));
    SPT_TRY(ptx_count(parser, UINT32_MAX, ".loc", &column));
    parser->file = (uint32_t)file;
    parser->line = (uint32_t)line;
    bool more;
    SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    while (more) {
        bool inlined = ptx_is(&parser->lex, "inlined_at");
        bool named = ptx_is(&parser->lex, "function_name");
        if (!inlined && !named)
            return ptx_unexpected(parser, "function_name or inlined_at");
        SPT_TRY(ptx_lex_next(&parser->lex));
        if (named) { /* a label of a string, perhaps with an offset */
            SPT_TRY(ptx_lex_next(&parser->lex));
            if (ptx_is(&parser->lex, "+"))
                SPT_TRY(ptx_count(parser, UINT32_MAX, ".loc", &column));
        }
        for (int i = 0; inlined && i < 3; i++)
            SPT_TRY(ptx_count(parser, UINT32_MAX, ".loc", &column));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    return SPT_OK;
}

static spt_status new_table(ptx_parser *parser, const ptx_token *name,
                            uint32_t *index)
{
    ptx_table table = {NULL, 0};
    *index = PTX_COUNT(parser->tables, ptx_table);
    SPT_TRY(ptx_symbol_add(parser, name, PTX_SYMBOL_TABLE, *index, NULL));
    return ptx_push(parser, &parser->tables, &table, sizeof table);
}

/* How many names follow, up to ";". */
static spt_status count_names(ptx_parser *parser, uint32_t *count)
{
    ptx_lexer start = parser->lex;
    bool more = true;
    *count = 0;
    while (more) {
        if (parser->lex.token.kind != PTX_TOKEN_WORD)
            return ptx_unexpected(parser, "a name");
        if (++*count > PTX_MAX_TABLE)
            return ptx_fail(parser, "too many targets");
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    parser->lex = start;
    return SPT_OK;
}

/* NAME: .branchtargets L1, L2; and NAME: .calltargets f, g; */
static spt_status read_targets(ptx_parser *parser, const ptx_token *label,
                               bool functions)
{
    uint32_t index, count;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(new_table(parser, label, &index));
    SPT_TRY(count_names(parser, &count));
    uint32_t *targets =
        spt_arena_alloc(&parser->module->arena, count, sizeof *targets);
    if (!targets)
        return ptx_out_of_memory(parser);
    *PTX_ITEM(parser->tables, ptx_table, index) = (ptx_table){targets, count};
    for (uint32_t i = 0; i < count; i++) {
        const ptx_token name = parser->lex.token;
        const ptx_symbol *symbol =
            ptx_symbol_find(parser, name.text, name.length);
        ptx_fixup fixup = {.name = name.text,
                           .length = name.length,
                           .line = name.line,
                           .in_table = true,
                           .at = index,
                           .element = i};
        if (!functions)
            SPT_TRY(ptx_push(parser, &parser->fixups, &fixup, sizeof fixup));
        else if (symbol && symbol->kind == PTX_SYMBOL_FUNC)
            targets[i] = symbol->index;
        else
            return ptx_unexpected(parser, "a function");
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(ptx_expect(&parser->lex, i + 1 < count ? "," : ";"));
    }
    return SPT_OK;
}

/* A call checks its arguments at run time, against the function it reaches. */
static spt_status skip_prototype(ptx_parser *parser, const ptx_token *label)
{
    uint32_t index;
    SPT_TRY(new_table(parser, label, &index));
    while (!ptx_is(&parser->lex, ";")) {
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\";\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    return ptx_lex_next(&parser->lex);
}

static spt_status read_label(ptx_parser *parser, const ptx_token *label)
{
    SPT_TRY(ptx_lex_next(&parser->lex));
    if (ptx_is(&parser->lex, ".branchtargets"))
        return read_targets(parser, label, false);
    if (ptx_is(&parser->lex, ".calltargets"))
        return read_targets(parser, label, true);
    if (ptx_is(&parser->lex, ".callprototype"))
        return skip_prototype(parser, label);
    return ptx_symbol_add(parser, label, PTX_SYMBOL_LABEL,
                          PTX_COUNT(parser->insns, ptx_insn), NULL);
}

static spt_status read_guard(ptx_parser *parser)
{
    bool negated;
    int32_t index;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_accept(&parser->lex, "!", &negated));
    SPT_TRY(ptx_register_find(parser, &parser->lex.token, &index));
    if (index < 0 || PTX_ITEM(parser->regs, ptx_reg, index)->type != PTX_PRED)
        return ptx_unexpected(parser, "a predicate register");
    parser->insn.guard = index;
    parser->insn.guard_negated = negated;
    return ptx_lex_next(&parser->lex);
}

static spt_status read_instruction(ptx_parser *parser)
{
    memset(&parser->insn, 0, sizeof parser->insn);
    parser->insn.guard = -1;
    bool guarded = ptx_is(&parser->lex, "@");
    if (guarded)
        SPT_TRY(read_guard(parser));
    if (parser->lex.token.kind != PTX_TOKEN_WORD)
        return ptx_unexpected(parser, "an instruction");
    ptx_token word = parser->lex.token;
    ptx_lex_opcode(&parser->lex);
    ptx_token opcode = parser->lex.token;
    SPT_TRY(ptx_lex_next(&parser->lex));
    if (ptx_is(&parser->lex, ":") && !guarded && word.length == opcode.length)
        return read_label(parser, &word);
    return ptx_instruction(parser, &opcode);
}

/* Hints, but for the bytes that the next load really wants. */
static spt_status read_pragma(ptx_parser *parser)
{
    static const char name[] = "used_bytes_mask ";
    const ptx_token *token = &parser->lex.token;
    while (!ptx_is(&parser->lex, ";") && token->kind != PTX_TOKEN_END) {
        char text[32] = "";
        if (token->kind == PTX_TOKEN_STRING && token->length < sizeof text)
            memcpy(text, token->text, token->length);
        if (!strncmp(text, name, sizeof name - 1))
            parser->unused_bytes =
                ~(uint32_t)strtoul(text + sizeof name - 1, NULL, 0);
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    return ptx_expect(&parser->lex, ";");
}

static spt_status read_directive(ptx_parser *parser)
{
    const ptx_token *token = &parser->lex.token;
    ptx_word word = ptx_find_word(token->text + 1, token->length - 1);
    if (ptx_is(&parser->lex, ".reg"))
        return read_registers(parser);
    if (word.kind == PTX_WORD_SPACE)
        return ptx_variables(parser, false, false);
    if (ptx_is(&parser->lex, ".loc"))
        return read_loc(parser);
    if (ptx_is(&parser->lex, ".extern")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        word = ptx_find_word(token->text + 1,
                             token->length ? token->length - 1 : 0);
        if (token->kind == PTX_TOKEN_DOTTED && word.kind == PTX_WORD_SPACE)
            return ptx_variables(parser, true, false);
    }
    if (ptx_is(&parser->lex, ".pragma"))
        return read_pragma(parser);
    return ptx_unexpected(parser, "an instruction or a directive of a body");
}

spt_status ptx_body(ptx_parser *parser)
{
    uint32_t firsts[PTX_MAX_DEPTH + 1]; /* fixups when the scope opened */
    uint32_t bottom = parser->depth;
    do {
        if (ptx_is(&parser->lex, "{")) {
            if (++parser->depth > PTX_MAX_DEPTH)
                return ptx_fail(parser, "scopes are nested too deeply");
            firsts[parser->depth] = PTX_COUNT(parser->fixups, ptx_fixup);
            SPT_TRY(ptx_lex_next(&parser->lex));
        } else if (ptx_is(&parser->lex, "}")) {
            SPT_TRY(close_scope(parser, firsts[parser->depth]));
            SPT_TRY(ptx_lex_next(&parser->lex));
        } else if (ptx_is(&parser->lex, ";")) {
            SPT_TRY(ptx_lex_next(&parser->lex));
        } else if (parser->lex.token.kind == PTX_TOKEN_DOTTED) {
            SPT_TRY(read_directive(parser));
        } else {
            SPT_TRY(read_instruction(parser));
        }
    } while (parser->depth > bottom);
    if (!PTX_COUNT(parser->fixups, ptx_fixup))
        return SPT_OK;
    const ptx_fixup *fixup = PTX_ITEM(parser->fixups, ptx_fixup, 0);
    int length = fixup->length < 80 ? (int)fixup->length : 80;
    return spt_fail(parser->err, SPT_E_FORMAT,
                    "PTX line %u: %.*s is not declared", fixup->line, length,
                    fixup->name);
}
