/*
 * Modules: version and target, functions and their heads, sections that are
 * skipped.
 */
#include "ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

spt_status ptx_push(ptx_parser *parser, spt_buf *buf, const void *item,
                    size_t size)
{
    spt_buf_add(buf, item, size);
    return buf->failed || buf->size / size > INT32_MAX
               ? ptx_out_of_memory(parser)
               : SPT_OK;
}

spt_status ptx_out_of_memory(ptx_parser *parser)
{
    return spt_fail(parser->err, SPT_E_MEMORY, "PTX: out of memory");
}

spt_status ptx_fail(ptx_parser *parser, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return spt_fail(parser->err, SPT_E_FORMAT, "PTX line %u: %s",
                    parser->lex.token.line, text);
}

spt_status ptx_fail_insn(ptx_parser *parser, spt_status status, const char *fmt,
                         ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int length = parser->length < 120 ? (int)parser->length : 120;
    return spt_fail(parser->err, status, "PTX line %u: %.*s: %s",
                    parser->text_line, length, parser->text, text);
}

spt_status ptx_unexpected(ptx_parser *parser, const char *what)
{
    const ptx_token *token = &parser->lex.token;
    if (token->kind == PTX_TOKEN_END)
        return ptx_fail(parser, "expected %s before the end of the text", what);
    int length = token->length < 80 ? (int)token->length : 80;
    return ptx_fail(parser, "expected %s instead of \"%.*s\"", what, length,
                    token->text);
}

/* ".attribute(.managed, .unified(1, 2))" */
spt_status ptx_attribute_list(ptx_parser *parser, bool *managed)
{
    uint32_t depth = 0;
    SPT_TRY(ptx_lex_next(&parser->lex));
    if (!ptx_is(&parser->lex, "("))
        return ptx_unexpected(parser, "\"(\"");
    do {
        depth += ptx_is(&parser->lex, "(");
        depth -= ptx_is(&parser->lex, ")");
        if (managed && ptx_is(&parser->lex, ".managed"))
            *managed = true;
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\")\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    } while (depth);
    return SPT_OK;
}

static spt_status skip_statement(ptx_parser *parser)
{
    while (!ptx_is(&parser->lex, ";")) {
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\";\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    return ptx_lex_next(&parser->lex);
}

/* .section NAME { ... } of debug data */
static spt_status skip_section(ptx_parser *parser)
{
    uint32_t depth = 0;
    while (!ptx_is(&parser->lex, "{")) {
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\"{\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    do {
        depth += ptx_is(&parser->lex, "{");
        depth -= ptx_is(&parser->lex, "}");
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\"}\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    } while (depth);
    return SPT_OK;
}

/* .file INDEX "NAME" [, TIME, SIZE] */
static spt_status read_file(ptx_parser *parser)
{
    uint64_t index, unused;
    const char *none = NULL;
    bool more;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_count(parser, PTX_MAX_FILES, ".file", &index));
    const ptx_token name = parser->lex.token;
    if (name.kind != PTX_TOKEN_STRING)
        return ptx_unexpected(parser, "a file name");
    while (PTX_COUNT(parser->files, const char *) <= index)
        SPT_TRY(ptx_push(parser, &parser->files, &none, sizeof none));
    const char *copy =
        spt_arena_strdup(&parser->module->arena, name.text, name.length);
    if (!copy)
        return ptx_out_of_memory(parser);
    *PTX_ITEM(parser->files, const char *, index) = copy;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    while (more) {
        SPT_TRY(ptx_count(parser, UINT64_MAX, ".file", &unused));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    return SPT_OK;
}

static spt_status read_params(ptx_parser *parser, bool kernel,
                              uint32_t **params, uint32_t *count)
{
    spt_buf list = {0};
    bool more;
    SPT_TRY(ptx_expect(&parser->lex, "("));
    more = !ptx_is(&parser->lex, ")");
    spt_status status = SPT_OK;
    while (more && status == SPT_OK) {
        uint32_t index;
        status = ptx_parameter(parser, kernel, &index);
        if (status == SPT_OK)
            status = ptx_push(parser, &list, &index, sizeof index);
        if (status == SPT_OK)
            status = ptx_accept(&parser->lex, ",", &more);
    }
    *count = PTX_COUNT(list, uint32_t);
    if (status == SPT_OK && *count) {
        *params =
            spt_arena_alloc(&parser->module->arena, *count, sizeof **params);
        if (*params)
            memcpy(*params, list.data, *count * sizeof **params);
        else
            status = ptx_out_of_memory(parser);
    }
    spt_buf_free(&list);
    return status == SPT_OK ? ptx_expect(&parser->lex, ")") : status;
}

/* Up to three numbers, "128, 1, 1"; missing ones are 1. */
static spt_status read_triple(ptx_parser *parser, uint32_t triple[3])
{
    bool more = true;
    SPT_TRY(ptx_lex_next(&parser->lex));
    for (int i = 0; i < 3; i++) {
        uint64_t value = 1;
        if (more) {
            SPT_TRY(ptx_count(parser, UINT32_MAX, "a dimension", &value));
            SPT_TRY(ptx_accept(&parser->lex, ",", &more));
        }
        triple[i] = (uint32_t)value;
    }
    return SPT_OK;
}

static spt_status read_limit(ptx_parser *parser, ptx_func *func, bool *known)
{
    uint64_t value;
    *known = true;
    if (ptx_is(&parser->lex, ".maxntid"))
        return read_triple(parser, func->max_threads);
    if (ptx_is(&parser->lex, ".reqntid"))
        return read_triple(parser, func->required_threads);
    if (ptx_is(&parser->lex, ".reqnctapercluster"))
        return read_triple(parser, func->cluster);
    bool minimum = ptx_is(&parser->lex, ".minnctapersm");
    bool rank = ptx_is(&parser->lex, ".maxclusterrank");
    if (minimum || ptx_is(&parser->lex, ".maxnreg") ||
        ptx_is(&parser->lex, ".maxnctapersm") || rank ||
        ptx_is(&parser->lex, ".abi_preserve") ||
        ptx_is(&parser->lex, ".abi_preserve_control")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(ptx_count(parser, UINT32_MAX, "a limit", &value));
        if (minimum)
            func->min_ctas = (uint32_t)value;
        if (rank)
            func->max_cluster = (uint32_t)value;
        return SPT_OK;
    }
    if (ptx_is(&parser->lex, ".noreturn") ||
        ptx_is(&parser->lex, ".explicitcluster") ||
        ptx_is(&parser->lex, ".blocksareclusters")) {
        func->explicit_cluster |= ptx_is(&parser->lex, ".explicitcluster");
        return ptx_lex_next(&parser->lex);
    }
    if (ptx_is(&parser->lex, ".attribute"))
        return ptx_attribute_list(parser, NULL);
    if (ptx_is(&parser->lex, ".pragma"))
        return skip_statement(parser);
    *known = false;
    return SPT_OK;
}

static void *copy_items(ptx_parser *parser, const spt_buf *buf)
{
    void *copy = spt_arena_alloc(&parser->module->arena, buf->size, 1);
    if (copy && buf->size)
        memcpy(copy, buf->data, buf->size);
    return copy;
}

/* Whether control can come to the place behind the last instruction. */
static bool falls_off(const ptx_parser *parser)
{
    uint32_t count = PTX_COUNT(parser->insns, ptx_insn);
    uint32_t n_tables = PTX_COUNT(parser->tables, ptx_table);
    for (uint32_t i = 0; i < count; i++) {
        const ptx_insn *insn = PTX_ITEM(parser->insns, ptx_insn, i);
        if (insn->op == PTX_OP_BRA && insn->operands[0].index == count)
            return true;
    }
    for (uint32_t i = 0; i < n_tables; i++) {
        const ptx_table *table = PTX_ITEM(parser->tables, ptx_table, i);
        for (uint32_t j = 0; j < table->count; j++)
            if (table->targets[j] == count)
                return true;
    }
    const ptx_insn *last =
        count ? PTX_ITEM(parser->insns, ptx_insn, count - 1) : NULL;
    return !last || last->guard >= 0 || !ptx_ends_block(last);
}

static spt_status add_return(ptx_parser *parser)
{
    ptx_insn ret = {.op = PTX_OP_RET, .guard = -1, .vector = 1};
    ret.file = parser->file;
    ret.line = parser->line;
    ret.ptx_line = parser->lex.token.line;
    SPT_TRY(ptx_move_held(parser, true, -1, false));
    return ptx_push(parser, &parser->insns, &ret, sizeof ret);
}

static spt_status end_body(ptx_parser *parser)
{
    if (falls_off(parser))
        SPT_TRY(add_return(parser));
    ptx_func *func = PTX_ITEM(parser->funcs, ptx_func, parser->func);
    func->n_regs = PTX_COUNT(parser->regs, ptx_reg);
    func->n_insns = PTX_COUNT(parser->insns, ptx_insn);
    func->n_vectors = PTX_COUNT(parser->vectors, ptx_operand);
    func->n_tables = PTX_COUNT(parser->tables, ptx_table);
    func->regs = copy_items(parser, &parser->regs);
    func->insns = copy_items(parser, &parser->insns);
    func->vectors = copy_items(parser, &parser->vectors);
    func->tables = copy_items(parser, &parser->tables);
    if (!func->regs || !func->insns || !func->vectors || !func->tables)
        return ptx_out_of_memory(parser);
    func->defined = true;
    return ptx_flow(func, &parser->module->arena, parser->err);
}

static spt_status new_func(ptx_parser *parser, const ptx_token *name,
                           bool entry, ptx_func *func)
{
    const ptx_symbol *old = ptx_symbol_find(parser, name->text, name->length);
    *func = (ptx_func){.entry = entry};
    func->name =
        spt_arena_strdup(&parser->module->arena, name->text, name->length);
    if (!func->name)
        return ptx_out_of_memory(parser);
    if (!old) {
        parser->func = (int32_t)PTX_COUNT(parser->funcs, ptx_func);
        SPT_TRY(ptx_symbol_add(parser, name, PTX_SYMBOL_FUNC,
                               (uint32_t)parser->func, NULL));
        return ptx_push(parser, &parser->funcs, func, sizeof *func);
    }
    bool declared =
        old->kind == PTX_SYMBOL_FUNC &&
        !PTX_ITEM(parser->funcs, ptx_func, old->index)->defined &&
        PTX_ITEM(parser->funcs, ptx_func, old->index)->entry == entry;
    if (!declared)
        return ptx_fail(parser, "%.*s is declared twice", (int)name->length,
                        name->text);
    parser->func = (int32_t)old->index;
    *PTX_ITEM(parser->funcs, ptx_func, old->index) = *func;
    return SPT_OK;
}

static spt_status read_name(ptx_parser *parser, bool entry)
{
    ptx_func func;
    const ptx_token name = parser->lex.token;
    if (name.kind != PTX_TOKEN_WORD)
        return ptx_unexpected(parser, "the name of a function");
    SPT_TRY(new_func(parser, &name, entry, &func));
    return ptx_lex_next(&parser->lex);
}

/* The results' names come before the function's: read it first. */
static spt_status read_results(ptx_parser *parser)
{
    ptx_lexer start = parser->lex;
    uint32_t *returns = NULL, n_returns;
    while (!ptx_is(&parser->lex, ")")) {
        if (parser->lex.token.kind == PTX_TOKEN_END)
            return ptx_unexpected(parser, "\")\"");
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(read_name(parser, false));
    ptx_lexer after = parser->lex;
    parser->lex = start;
    parser->depth = 1;
    SPT_TRY(read_params(parser, false, &returns, &n_returns));
    ptx_func *func = PTX_ITEM(parser->funcs, ptx_func, parser->func);
    func->returns = returns;
    func->n_returns = n_returns;
    for (uint32_t i = 0; i < PTX_COUNT(parser->held, ptx_held); i++)
        PTX_ITEM(parser->held, ptx_held, i)->result = true;
    parser->lex = after;
    return SPT_OK;
}

static spt_status read_head(ptx_parser *parser, bool entry)
{
    uint32_t *params = NULL, n_params = 0;
    SPT_TRY(ptx_lex_next(&parser->lex));
    if (ptx_is(&parser->lex, ".attribute"))
        SPT_TRY(ptx_attribute_list(parser, NULL));
    if (!entry && ptx_is(&parser->lex, "("))
        SPT_TRY(read_results(parser));
    else
        SPT_TRY(read_name(parser, entry));
    parser->depth = 1;
    if (ptx_is(&parser->lex, "("))
        SPT_TRY(read_params(parser, entry, &params, &n_params));
    ptx_func *func = PTX_ITEM(parser->funcs, ptx_func, parser->func);
    func->params = params;
    func->n_params = n_params;
    bool known = true;
    while (known)
        SPT_TRY(read_limit(parser, func, &known));
    return SPT_OK;
}

static void clear_body(ptx_parser *parser)
{
    parser->regs.size = parser->insns.size = 0;
    parser->vectors.size = parser->tables.size = 0;
    parser->fixups.size = parser->held.size = 0;
    parser->file = parser->line = 0;
}

static spt_status read_function(ptx_parser *parser, bool entry)
{
    clear_body(parser);
    SPT_TRY(read_head(parser, entry));
    if (ptx_is(&parser->lex, "{")) {
        SPT_TRY(ptx_move_held(parser, false, -1, false));
        SPT_TRY(ptx_body(parser));
        SPT_TRY(end_body(parser));
    } else if (ptx_is(&parser->lex, ";")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
    } else {
        return ptx_unexpected(parser, "\"{\" or \";\"");
    }
    ptx_symbols_drop(parser, 1);
    parser->depth = 0;
    parser->func = -1;
    return SPT_OK;
}

/* .alias NEW, OLD; a second name of a function that is known. */
static spt_status read_alias(ptx_parser *parser)
{
    ptx_token names[2];
    for (int i = 0; i < 2; i++) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        names[i] = parser->lex.token;
        if (names[i].kind != PTX_TOKEN_WORD)
            return ptx_unexpected(parser, "the name of a function");
        SPT_TRY(ptx_lex_next(&parser->lex));
        if (!ptx_is(&parser->lex, i ? ";" : ","))
            return ptx_unexpected(parser, i ? "\";\"" : "\",\"");
    }
    const ptx_symbol *old =
        ptx_symbol_find(parser, names[1].text, names[1].length);
    ptx_symbol *alias = ptx_symbol_find(parser, names[0].text, names[0].length);
    if (!old || old->kind != PTX_SYMBOL_FUNC)
        return ptx_fail(parser, "%.*s is not a function", (int)names[1].length,
                        names[1].text);
    if (!alias)
        SPT_TRY(ptx_symbol_add(parser, &names[0], PTX_SYMBOL_FUNC, old->index,
                               NULL));
    else if (alias->kind != PTX_SYMBOL_FUNC)
        return ptx_fail(parser, "%.*s is declared twice", (int)names[0].length,
                        names[0].text);
    else /* calls may name it already: it takes the other's body */
        *PTX_ITEM(parser->funcs, ptx_func, alias->index) =
            *PTX_ITEM(parser->funcs, ptx_func, old->index);
    return ptx_expect(&parser->lex, ";");
}

static spt_status read_version(ptx_parser *parser)
{
    SPT_TRY(ptx_expect(&parser->lex, ".version"));
    const ptx_token token = parser->lex.token;
    unsigned major, minor;
    char text[16];
    snprintf(text, sizeof text, "%.*s",
             token.length < 15 ? (int)token.length : 15, token.text);
    if (sscanf(text, "%2u.%1u", &major, &minor) != 2)
        return ptx_unexpected(parser, "a version like 8.0");
    parser->module->version = 10 * major + minor;
    return ptx_lex_next(&parser->lex);
}

/* A suffix binds a module to one chip (a) or to one family (f). */
static spt_status check_target(ptx_parser *parser, const char *text)
{
    const ptx_module *module = parser->module;
    uint32_t max_sm = parser->max_sm;
    bool good = module->sm <= max_sm;
    if (module->suffix == 'a')
        good = module->sm == max_sm;
    if (module->suffix == 'f')
        good = good && module->sm / 10 == max_sm / 10;
    if (good)
        return SPT_OK;
    return spt_fail(parser->err, SPT_E_UNSUPPORTED,
                    "PTX line %u: target %s does not run on a device of "
                    "compute capability %u.%u",
                    parser->lex.token.line, text, max_sm / 10, max_sm % 10);
}

static spt_status read_target(ptx_parser *parser)
{
    char text[24];
    unsigned sm;
    int used = 0;
    SPT_TRY(ptx_expect(&parser->lex, ".target"));
    const ptx_token token = parser->lex.token;
    snprintf(text, sizeof text, "%.*s",
             token.length < 20 ? (int)token.length : 20, token.text);
    if (token.kind != PTX_TOKEN_WORD ||
        sscanf(text, "sm_%4u%n", &sm, &used) != 1 ||
        (text[used] &&
         ((text[used] != 'a' && text[used] != 'f') || text[used + 1])))
        return ptx_unexpected(parser, "a target like sm_80");
    parser->module->sm = sm;
    parser->module->suffix = text[used];
    SPT_TRY(check_target(parser, text));
    bool more;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    while (more) { /* texmode_independent, debug */
        if (parser->lex.token.kind != PTX_TOKEN_WORD)
            return ptx_unexpected(parser, "an option of .target");
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(ptx_accept(&parser->lex, ",", &more));
    }
    return SPT_OK;
}

static spt_status read_head_of_module(ptx_parser *parser)
{
    uint64_t size;
    SPT_TRY(read_version(parser));
    SPT_TRY(read_target(parser));
    SPT_TRY(ptx_expect(&parser->lex, ".address_size"));
    SPT_TRY(ptx_count(parser, 1024, ".address_size", &size));
    return size == 64 ? SPT_OK : ptx_fail(parser, ".address_size must be 64");
}

static spt_status read_item(ptx_parser *parser)
{
    bool external = false, visible = false;
    const ptx_token *token = &parser->lex.token;
    for (;;) {
        bool other =
            ptx_is(&parser->lex, ".weak") || ptx_is(&parser->lex, ".common");
        if (ptx_is(&parser->lex, ".extern"))
            external = true;
        else if (ptx_is(&parser->lex, ".visible") || other)
            visible = true;
        else
            break;
        SPT_TRY(ptx_lex_next(&parser->lex));
    }
    ptx_word word = {NULL, PTX_WORD_UNKNOWN, 0};
    if (token->kind == PTX_TOKEN_DOTTED)
        word = ptx_find_word(token->text + 1, token->length - 1);
    if (word.kind == PTX_WORD_SPACE)
        return ptx_variables(parser, external, visible);
    if (ptx_is(&parser->lex, ".entry") || ptx_is(&parser->lex, ".func"))
        return read_function(parser, ptx_is(&parser->lex, ".entry"));
    if (ptx_is(&parser->lex, ".file"))
        return read_file(parser);
    if (ptx_is(&parser->lex, ".section"))
        return skip_section(parser);
    if (ptx_is(&parser->lex, ".alias"))
        return read_alias(parser);
    if (ptx_is(&parser->lex, ".pragma"))
        return skip_statement(parser);
    if (ptx_is(&parser->lex, ";"))
        return ptx_lex_next(&parser->lex);
    return ptx_unexpected(parser, "a function, a variable or a section");
}

static spt_status finish(ptx_parser *parser)
{
    ptx_module *module = parser->module;
    SPT_TRY(ptx_place_shared(parser));
    module->n_vars = PTX_COUNT(parser->vars, ptx_var);
    module->n_funcs = PTX_COUNT(parser->funcs, ptx_func);
    module->n_files = PTX_COUNT(parser->files, const char *);
    module->vars = copy_items(parser, &parser->vars);
    module->funcs = copy_items(parser, &parser->funcs);
    module->files = copy_items(parser, &parser->files);
    if (!module->vars || !module->funcs || !module->files)
        return ptx_out_of_memory(parser);
    return SPT_OK;
}

static spt_status parse(ptx_parser *parser, const char *text, size_t size)
{
    SPT_TRY(ptx_symbols_start(parser));
    SPT_TRY(ptx_lex_start(&parser->lex, text, size, parser->err));
    SPT_TRY(read_head_of_module(parser));
    while (parser->lex.token.kind != PTX_TOKEN_END)
        SPT_TRY(read_item(parser));
    return finish(parser);
}

static void free_parser(ptx_parser *parser)
{
    spt_free(parser->buckets);
    spt_buf_free(&parser->symbols);
    spt_buf_free(&parser->vars);
    spt_buf_free(&parser->funcs);
    spt_buf_free(&parser->files);
    spt_buf_free(&parser->regs);
    spt_buf_free(&parser->insns);
    spt_buf_free(&parser->vectors);
    spt_buf_free(&parser->tables);
    spt_buf_free(&parser->fixups);
    spt_buf_free(&parser->held);
    spt_free(parser);
}

spt_status ptx_parse(const char *text, size_t size, uint32_t max_sm,
                     ptx_module **module, spt_error *err)
{
    while (size && !text[size - 1]) /* the NUL that texts come with */
        size--;
    if (size > UINT32_MAX)
        return spt_fail(err, SPT_E_FORMAT, "PTX: larger than 4 GiB");
    ptx_parser *parser = spt_calloc(1, sizeof *parser);
    ptx_module *made = spt_calloc(1, sizeof *made);
    if (!parser || !made) {
        spt_free(parser);
        spt_free(made);
        return spt_fail(err, SPT_E_MEMORY, "PTX: out of memory");
    }
    parser->err = err;
    parser->module = made;
    parser->max_sm = max_sm;
    parser->func = -1;
    spt_status status = parse(parser, text, size);
    free_parser(parser);
    if (status != SPT_OK)
        ptx_free(made);
    else
        *module = made;
    return status;
}

void ptx_free(ptx_module *module)
{
    if (!module)
        return;
    spt_arena_free(&module->arena);
    spt_free(module);
}
