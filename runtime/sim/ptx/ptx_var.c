/*
 * Variables: declarations, places in their space, initialisers.
 */
#include <string.h>

#include "ptx_parse.h"

enum { MAX_DIMS = 8, MAX_ALIGN = 4096 };

/* What stands before the name, and the array bounds behind it. */
typedef struct declaration {
    ptx_var var;
    uint32_t vector;
    ptx_token name;
    int n_dims;
    uint64_t dims[MAX_DIMS + 1]; /* the last one: vector width */
    bool open; /* [] */
    uint64_t items;
} declaration;

static spt_status read_align(ptx_parser *parser, uint32_t *align)
{
    uint64_t value;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_count(parser, MAX_ALIGN, ".align", &value));
    if (!value || (value & (value - 1)))
        return ptx_fail(parser, ".align must be a power of two");
    *align = (uint32_t)value;
    return SPT_OK;
}

/* .ptr .global .align 16: a hint about a pointer parameter. */
static spt_status skip_pointer_hint(ptx_parser *parser)
{
    uint32_t unused;
    SPT_TRY(ptx_lex_next(&parser->lex));
    const ptx_token *token = &parser->lex.token;
    if (token->kind == PTX_TOKEN_DOTTED &&
        ptx_find_word(token->text + 1, token->length - 1).kind ==
            PTX_WORD_SPACE)
        SPT_TRY(ptx_lex_next(&parser->lex));
    if (ptx_is(&parser->lex, ".align"))
        SPT_TRY(read_align(parser, &unused));
    return SPT_OK;
}

static spt_status read_head(ptx_parser *parser, declaration *head)
{
    const ptx_token *token = &parser->lex.token;
    while (token->kind == PTX_TOKEN_DOTTED) {
        ptx_word word = ptx_find_word(token->text + 1, token->length - 1);
        if (ptx_is(&parser->lex, ".align")) {
            SPT_TRY(read_align(parser, &head->var.align));
        } else if (ptx_is(&parser->lex, ".ptr")) {
            SPT_TRY(skip_pointer_hint(parser));
        } else if (ptx_is(&parser->lex, ".attribute")) {
            SPT_TRY(ptx_attribute_list(parser, &head->var.managed));
        } else if (word.kind == PTX_WORD_TYPE && !head->var.type) {
            head->var.type = (ptx_type)word.id;
            SPT_TRY(ptx_lex_next(&parser->lex));
        } else if (word.kind == PTX_WORD_VECTOR) {
            head->vector = word.id;
            SPT_TRY(ptx_lex_next(&parser->lex));
        } else {
            return ptx_unexpected(parser, "a type");
        }
    }
    ptx_kind kind = ptx_type_kind(head->var.type);
    if (kind == PTX_KIND_NONE)
        return ptx_unexpected(parser, "a type");
    if (kind == PTX_KIND_PREDICATE || kind == PTX_KIND_SMALL)
        return ptx_fail(parser, "a variable cannot have type .%s",
                        ptx_type_text(head->var.type));
    uint32_t natural = ptx_type_bytes(head->var.type) * head->vector;
    if (!head->var.align)
        head->var.align = natural;
    return SPT_OK;
}

/* Items of an open array: top-level commas of its initialiser, plus one. */
static spt_status count_items(ptx_parser *parser, uint64_t *items)
{
    ptx_lexer start = parser->lex;
    uint32_t depth = 0;
    *items = 1;
    do {
        const ptx_token *token = &parser->lex.token;
        bool mark = token->kind == PTX_TOKEN_PUNCT && token->length == 1;
        char c = mark ? *token->text : 0;
        depth += c == '{' || c == '(';
        depth -= (c == '}' || c == ')') && depth;
        *items += c == ',' && depth == 1;
        if (token->kind == PTX_TOKEN_END || c == ';')
            break;
        SPT_TRY(ptx_lex_next(&parser->lex));
    } while (depth);
    parser->lex = start;
    return SPT_OK;
}

/* NAME[2][3], and for "[] =" the size of the initialiser. */
static spt_status read_name(ptx_parser *parser, declaration *head)
{
    head->name = parser->lex.token;
    if (head->name.kind != PTX_TOKEN_WORD)
        return ptx_unexpected(parser, "a name");
    SPT_TRY(ptx_lex_next(&parser->lex));
    head->n_dims = 0;
    head->open = false;
    while (ptx_is(&parser->lex, "[")) {
        if (head->n_dims == MAX_DIMS)
            return ptx_fail(parser, "an array has at most %d dimensions",
                            MAX_DIMS);
        SPT_TRY(ptx_lex_next(&parser->lex));
        uint64_t *dim = &head->dims[head->n_dims++];
        *dim = 0;
        if (!ptx_is(&parser->lex, "]"))
            SPT_TRY(ptx_count(parser, PTX_MAX_VAR_BYTES, "an array", dim));
        else if (head->n_dims > 1)
            return ptx_fail(parser, "only the first dimension can be open");
        else
            head->open = true;
        SPT_TRY(ptx_expect(&parser->lex, "]"));
    }
    head->dims[head->n_dims] = head->vector;
    if (head->open && ptx_is(&parser->lex, "=")) {
        ptx_lexer start = parser->lex;
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(count_items(parser, &head->dims[0]));
        parser->lex = start;
    }
    head->items = head->vector;
    for (int i = 0; i < head->n_dims; i++) {
        if (head->dims[i] && head->items > PTX_MAX_VAR_BYTES / head->dims[i])
            return ptx_fail(parser, "%.*s is too large", (int)head->name.length,
                            head->name.text);
        head->items *= head->dims[i];
    }
    head->var.size = head->items * ptx_type_bytes(head->var.type);
    return SPT_OK;
}

typedef struct initialiser {
    ptx_parser *parser;
    const declaration *head;
    uint8_t *bytes;
    spt_buf relocs; /* ptx_reloc */
} initialiser;

/* A variable's or function's address: name, name + constant. */
static spt_status read_symbol(ptx_parser *parser, ptx_reloc *reloc)
{
    const ptx_token name = parser->lex.token;
    const ptx_symbol *symbol =
        name.kind == PTX_TOKEN_WORD
            ? ptx_symbol_find(parser, name.text, name.length)
            : NULL;
    if (!symbol ||
        (symbol->kind != PTX_SYMBOL_VAR && symbol->kind != PTX_SYMBOL_FUNC))
        return ptx_unexpected(parser, "a constant or the name of a variable");
    reloc->var = symbol->index;
    reloc->is_function = symbol->kind == PTX_SYMBOL_FUNC;
    return ptx_lex_next(&parser->lex);
}

static spt_status read_addend(ptx_parser *parser, ptx_reloc *reloc)
{
    ptx_value value;
    if (!ptx_is(&parser->lex, "+") && !ptx_is(&parser->lex, "-"))
        return SPT_OK;
    SPT_TRY(ptx_constant(parser, &value));
    if (value.real)
        return ptx_fail(parser, "an address takes an integer offset");
    reloc->addend = (int64_t)value.bits;
    return SPT_OK;
}

/*
 * MASK(name): the byte of an address that the mask selects. Eight in a row,
 * from 0xFF on, are the whole address, which is one relocation.
 */
static spt_status masked_address(initialiser *init, uint64_t mask, uint64_t at)
{
    ptx_parser *parser = init->parser;
    ptx_reloc reloc = {.offset = at};
    bool found;
    int byte = 0;
    while (byte < 8 && mask != 0xffull << 8 * byte)
        byte++;
    if (byte == 8 || ptx_type_bytes(init->head->var.type) != 1)
        return ptx_fail(parser, "a mask selects one byte of an address, "
                                "in an array of bytes");
    SPT_TRY(ptx_expect(&parser->lex, "("));
    SPT_TRY(ptx_accept(&parser->lex, "generic", &found));
    reloc.generic = found;
    if (found)
        SPT_TRY(ptx_expect(&parser->lex, "("));
    SPT_TRY(read_symbol(parser, &reloc));
    if (found)
        SPT_TRY(ptx_expect(&parser->lex, ")"));
    SPT_TRY(read_addend(parser, &reloc));
    SPT_TRY(ptx_expect(&parser->lex, ")"));
    uint32_t count = PTX_COUNT(init->relocs, ptx_reloc);
    const ptx_reloc *last =
        count ? PTX_ITEM(init->relocs, ptx_reloc, count - 1) : NULL;
    if (byte == 0 && at + 8 <= init->head->var.size)
        return ptx_push(parser, &init->relocs, &reloc, sizeof reloc);
    if (!last || last->offset + (unsigned)byte != at || last->var != reloc.var)
        return ptx_fail(parser, "the bytes of an address must stand together");
    return SPT_OK;
}

static spt_status read_address(initialiser *init, uint64_t at)
{
    ptx_parser *parser = init->parser;
    ptx_reloc reloc = {.offset = at};
    bool found;
    if (ptx_type_bytes(init->head->var.type) != 8)
        return ptx_fail(parser, "an address needs an element of 8 bytes");
    SPT_TRY(ptx_accept(&parser->lex, "generic", &found));
    reloc.generic = found;
    if (found)
        SPT_TRY(ptx_expect(&parser->lex, "("));
    SPT_TRY(read_symbol(parser, &reloc));
    if (found)
        SPT_TRY(ptx_expect(&parser->lex, ")"));
    SPT_TRY(read_addend(parser, &reloc));
    return ptx_push(parser, &init->relocs, &reloc, sizeof reloc);
}

static spt_status init_scalar(initialiser *init, uint64_t item)
{
    ptx_parser *parser = init->parser;
    ptx_type type = init->head->var.type;
    uint32_t bytes = ptx_type_bytes(type);
    if (item >= init->head->items)
        return ptx_fail(parser, "%.*s has more initial values than elements",
                        (int)init->head->name.length, init->head->name.text);
    if (parser->lex.token.kind == PTX_TOKEN_WORD &&
        !ptx_is(&parser->lex, "WARP_SZ"))
        return read_address(init, item * bytes);
    ptx_value value;
    uint64_t bits;
    const char *why;
    SPT_TRY(ptx_constant(parser, &value));
    if (!value.real && ptx_is(&parser->lex, "("))
        return masked_address(init, value.bits, item * bytes);
    if (!ptx_value_bits(&value, type, &bits, &why))
        return ptx_fail(parser, "%s", why);
    memcpy(init->bytes + item * bytes, &bits, bytes < 8 ? bytes : 8);
    return SPT_OK;
}

/* Values from item on: one, or those in braces of an array of this level. */
static spt_status init_level(initialiser *init, int level, uint64_t item)
{
    ptx_parser *parser = init->parser;
    bool found;
    SPT_TRY(ptx_accept(&parser->lex, "{", &found));
    if (!found)
        return init_scalar(init, item);
    if (level > init->head->n_dims)
        return ptx_fail(parser, "initial values are nested too deeply");
    uint64_t stride = 1;
    for (int i = level + 1; i <= init->head->n_dims; i++)
        stride *= init->head->dims[i];
    uint64_t at = item, step = stride ? stride : 1;
    SPT_TRY(ptx_accept(&parser->lex, "}", &found));
    while (!found) {
        bool inner = ptx_is(&parser->lex, "{");
        if (inner)
            at = item + (at - item + step - 1) / step * step;
        SPT_TRY(init_level(init, level + 1, at));
        at += inner ? step : 1;
        SPT_TRY(ptx_accept(&parser->lex, ",", &found));
        if (found)
            found = ptx_is(&parser->lex, "}");
        else if (!ptx_is(&parser->lex, "}"))
            return ptx_unexpected(parser, "\",\" or \"}\"");
        else
            found = true;
        if (found)
            SPT_TRY(ptx_lex_next(&parser->lex));
    }
    return SPT_OK;
}

static spt_status read_init(ptx_parser *parser, declaration *head)
{
    if (head->var.space != PTX_GLOBAL && head->var.space != PTX_CONST)
        return ptx_fail(parser, "only .global and .const variables have "
                                "initial values");
    parser->init_bytes += head->var.size;
    if (head->var.size > PTX_MAX_INIT_BYTES ||
        parser->init_bytes > PTX_MAX_INIT_BYTES)
        return ptx_fail(parser, "initialised variables are too large");
    initialiser init = {.parser = parser, .head = head};
    spt_arena *arena = &parser->module->arena;
    init.bytes = spt_arena_alloc(arena, head->var.size, 1);
    if (!init.bytes)
        return ptx_out_of_memory(parser);
    spt_status status = init_level(&init, 0, 0);
    uint32_t count = PTX_COUNT(init.relocs, ptx_reloc);
    if (status == SPT_OK && count) {
        ptx_reloc *relocs = spt_arena_alloc(arena, count, sizeof *relocs);
        if (relocs)
            memcpy(relocs, init.relocs.data, count * sizeof *relocs);
        else
            status = ptx_out_of_memory(parser);
        head->var.relocs = relocs;
        head->var.n_relocs = count;
    }
    spt_buf_free(&init.relocs);
    head->var.init = init.bytes;
    return status;
}

static void place(ptx_var *var, uint64_t *end)
{
    var->offset = (*end + var->align - 1) / var->align * var->align;
    *end = var->offset + var->size;
}

static spt_status place_var(ptx_parser *parser, declaration *head)
{
    ptx_module *module = parser->module;
    ptx_func *func = parser->func < 0
                         ? NULL
                         : PTX_ITEM(parser->funcs, ptx_func, parser->func);
    ptx_var *var = &head->var;
    var->function = parser->func;
    if (var->external) {
        var->size = var->space == PTX_SHARED ? 0 : var->size;
        return SPT_OK;
    }
    if (head->open && !head->dims[0])
        return ptx_fail(parser, "%.*s has no size", (int)head->name.length,
                        head->name.text);
    switch (var->space) {
    case PTX_GLOBAL:
        place(var, &module->global_bytes);
        break;
    case PTX_CONST:
        place(var, &module->const_bytes);
        break;
    case PTX_SHARED:
        if (func && func->entry) {
            place(var, &func->shared_bytes);
        } else {
            var->function = -1;
            place(var, &module->shared_bytes);
        }
        break;
    default:
        if (!func)
            return ptx_fail(parser,
                            "%.*s: .local and .param variables "
                            "belong into a function",
                            (int)head->name.length, head->name.text);
        var->space = PTX_LOCAL;
        place(var, &func->local_bytes);
    }
    if (module->global_bytes > PTX_MAX_VAR_BYTES ||
        module->const_bytes > PTX_MAX_VAR_BYTES ||
        module->shared_bytes > PTX_MAX_VAR_BYTES ||
        (func && (func->shared_bytes > PTX_MAX_VAR_BYTES ||
                  func->local_bytes > UINT32_MAX)))
        return ptx_fail(parser, "variables are too large");
    return SPT_OK;
}

/* Makes the variable known, or completes one that was only declared. */
static spt_status add_var(ptx_parser *parser, declaration *head,
                          uint32_t *index)
{
    const ptx_token *name = &head->name;
    head->var.name =
        spt_arena_strdup(&parser->module->arena, name->text, name->length);
    if (!head->var.name)
        return ptx_out_of_memory(parser);
    ptx_symbol *old = ptx_symbol_find(parser, name->text, name->length);
    if (old && old->kind == PTX_SYMBOL_VAR && old->depth == parser->depth) {
        ptx_var *first = PTX_ITEM(parser->vars, ptx_var, old->index);
        if (first->space == head->var.space &&
            (first->external || head->var.external)) {
            if (first->external)
                *first = head->var;
            *index = old->index;
            return SPT_OK;
        }
    }
    *index = PTX_COUNT(parser->vars, ptx_var);
    SPT_TRY(ptx_symbol_add(parser, name, PTX_SYMBOL_VAR, *index, NULL));
    return ptx_push(parser, &parser->vars, &head->var, sizeof head->var);
}

static spt_status skip_bank(ptx_parser *parser)
{
    bool found;
    uint64_t unused;
    SPT_TRY(ptx_accept(&parser->lex, "[", &found));
    if (!found)
        return SPT_OK;
    SPT_TRY(ptx_count(parser, 10, "a constant bank", &unused));
    return ptx_expect(&parser->lex, "]");
}

spt_status ptx_variables(ptx_parser *parser, bool external, bool visible)
{
    const ptx_token *token = &parser->lex.token;
    ptx_word space = ptx_find_word(token->text + 1, token->length - 1);
    declaration head = {.vector = 1};
    bool more;
    head.var.space = (ptx_space)space.id;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(skip_bank(parser));
    SPT_TRY(read_head(parser, &head));
    do {
        uint32_t index;
        head.var.external = external;
        head.var.visible = visible;
        head.var.init = NULL;
        head.var.relocs = NULL;
        head.var.n_relocs = 0;
        SPT_TRY(read_name(parser, &head));
        SPT_TRY(place_var(parser, &head));
        SPT_TRY(ptx_accept(&parser->lex, "=", &more));
        if (more)
            SPT_TRY(read_init(parser, &head));
        SPT_TRY(add_var(parser, &head, &index));
        head.var.space = (ptx_space)space.id;
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    } while (more);
    return ptx_expect(&parser->lex, ";");
}

/* A parameter in a register: a place without a name, and the register. */
static spt_status hold(ptx_parser *parser, const declaration *head)
{
    ptx_held held = {
        .reg = PTX_COUNT(parser->regs, ptx_reg),
        .var = PTX_COUNT(parser->vars, ptx_var),
    };
    SPT_TRY(ptx_register_add(parser, head->var.type, &head->name));
    return ptx_push(parser, &parser->held, &held, sizeof held);
}

spt_status ptx_parameter(ptx_parser *parser, bool kernel, uint32_t *index)
{
    declaration head = {.vector = 1};
    ptx_func *func = PTX_ITEM(parser->funcs, ptx_func, parser->func);
    bool held = false;
    if (!kernel)
        SPT_TRY(ptx_accept(&parser->lex, ".reg", &held));
    if (!held)
        SPT_TRY(ptx_expect(&parser->lex, ".param"));
    SPT_TRY(read_head(parser, &head));
    SPT_TRY(read_name(parser, &head));
    head.var.function = parser->func;
    head.var.space = kernel ? PTX_PARAM : PTX_LOCAL;
    place(&head.var, kernel ? &func->param_bytes : &func->local_bytes);
    if (func->param_bytes > UINT32_MAX || func->local_bytes > UINT32_MAX)
        return ptx_fail(parser, "parameters are too large");
    if (held)
        SPT_TRY(hold(parser, &head));
    if (!held && !ptx_token_is(&head.name, "_"))
        return add_var(parser, &head, index);
    *index = PTX_COUNT(parser->vars, ptx_var);
    head.var.name = "_";
    return ptx_push(parser, &parser->vars, &head.var, sizeof head.var);
}

/* Whether a kernel can reach shared variables that are not its own. */
static bool reaches_module_shared(const ptx_parser *parser,
                                  const ptx_func *func)
{
    for (uint32_t i = 0; i < func->n_insns; i++) {
        const ptx_insn *insn = &func->insns[i];
        if (insn->op == PTX_OP_CALL)
            return true;
        for (int j = 0; j < insn->n_operands; j++) {
            const ptx_operand *operand = &insn->operands[j];
            if (operand->kind != PTX_ADDRESS ||
                operand->base != PTX_BASE_VARIABLE)
                continue;
            const ptx_var *var =
                PTX_ITEM(parser->vars, ptx_var, operand->index);
            if (var->space == PTX_SHARED && var->function < 0 && !var->external)
                return true;
        }
    }
    return false;
}

spt_status ptx_place_shared(ptx_parser *parser)
{
    uint32_t n_funcs = PTX_COUNT(parser->funcs, ptx_func);
    uint32_t n_vars = PTX_COUNT(parser->vars, ptx_var);
    uint64_t *bases = spt_calloc(n_funcs, sizeof *bases);
    if (!bases)
        return ptx_out_of_memory(parser);
    for (uint32_t i = 0; i < n_funcs; i++) {
        ptx_func *func = PTX_ITEM(parser->funcs, ptx_func, i);
        if (!func->entry || !reaches_module_shared(parser, func))
            continue;
        bases[i] = parser->module->shared_bytes;
    }
    for (uint32_t i = 0; i < n_vars; i++) {
        const ptx_var *var = PTX_ITEM(parser->vars, ptx_var, i);
        if (var->space == PTX_SHARED && var->function >= 0 && !var->external) {
            uint64_t *base = &bases[var->function];
            *base = (*base + var->align - 1) / var->align * var->align;
        }
    }
    for (uint32_t i = 0; i < n_vars; i++) {
        ptx_var *var = PTX_ITEM(parser->vars, ptx_var, i);
        if (var->space == PTX_SHARED && var->function >= 0 && !var->external)
            var->offset += bases[var->function];
    }
    for (uint32_t i = 0; i < n_funcs; i++)
        PTX_ITEM(parser->funcs, ptx_func, i)->shared_bytes += bases[i];
    spt_free(bases);
    return SPT_OK;
}
