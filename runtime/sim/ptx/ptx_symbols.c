/*
 * Names of a module and of the open scopes: one hash table over a stack. The
 * newest symbol of a name is the first in its bucket, so that inner scopes
 * hide outer ones and closing a scope pops the stack.
 */
#include <string.h>

#include "ptx_parse.h"

enum { BUCKETS = 16384 };

spt_status ptx_symbols_start(ptx_parser *parser)
{
    parser->buckets = spt_calloc(BUCKETS, sizeof *parser->buckets);
    return parser->buckets ? SPT_OK : ptx_out_of_memory(parser);
}

static ptx_symbol *symbol_at(ptx_parser *parser, uint32_t index)
{
    return PTX_ITEM(parser->symbols, ptx_symbol, index);
}

static ptx_symbol *find(ptx_parser *parser, const char *name, uint32_t length,
                        bool range)
{
    uint32_t hash = ptx_hash(name, length);
    uint32_t at = parser->buckets[hash % BUCKETS];
    for (; at; at = symbol_at(parser, at - 1)->next) {
        ptx_symbol *symbol = symbol_at(parser, at - 1);
        if (symbol->hash == hash && symbol->length == length &&
            (symbol->kind == PTX_SYMBOL_RANGE) == range &&
            !memcmp(symbol->name, name, length))
            return symbol;
    }
    return NULL;
}

ptx_symbol *ptx_symbol_find(ptx_parser *parser, const char *name,
                            uint32_t length)
{
    return find(parser, name, length, false);
}

spt_status ptx_symbol_add(ptx_parser *parser, const ptx_token *name,
                          ptx_symbol_kind kind, uint32_t index,
                          ptx_symbol **symbol)
{
    bool range = kind == PTX_SYMBOL_RANGE;
    const ptx_symbol *old = find(parser, name->text, name->length, range);
    if (old && old->depth == parser->depth)
        return ptx_fail(parser, "%.*s is declared twice", (int)name->length,
                        name->text);
    uint32_t hash = ptx_hash(name->text, name->length);
    ptx_symbol item = {
        .name = name->text,
        .length = name->length,
        .hash = hash,
        .next = parser->buckets[hash % BUCKETS],
        .kind = (uint8_t)kind,
        .depth = (uint8_t)parser->depth,
        .index = index,
    };
    SPT_TRY(ptx_push(parser, &parser->symbols, &item, sizeof item));
    uint32_t count = PTX_COUNT(parser->symbols, ptx_symbol);
    parser->buckets[hash % BUCKETS] = count;
    if (symbol)
        *symbol = symbol_at(parser, count - 1);
    return SPT_OK;
}

void ptx_symbols_drop(ptx_parser *parser, uint32_t depth)
{
    uint32_t count = PTX_COUNT(parser->symbols, ptx_symbol);
    for (; count; count--) {
        const ptx_symbol *symbol = symbol_at(parser, count - 1);
        if (symbol->depth < depth)
            break;
        parser->buckets[symbol->hash % BUCKETS] = symbol->next;
    }
    parser->symbols.size = count * sizeof(ptx_symbol);
}

static spt_status new_register(ptx_parser *parser, const ptx_token *name,
                               uint8_t type, uint32_t *index)
{
    ptx_reg reg = {.type = type};
    reg.name =
        spt_arena_strdup(&parser->module->arena, name->text, name->length);
    if (!reg.name)
        return ptx_out_of_memory(parser);
    *index = PTX_COUNT(parser->regs, ptx_reg);
    return ptx_push(parser, &parser->regs, &reg, sizeof reg);
}

/* %r12 of .reg .b32 %r<100>: prefix and number. */
static ptx_symbol *find_range(ptx_parser *parser, const ptx_token *name,
                              uint32_t *number)
{
    uint32_t prefix = name->length;
    while (prefix && name->text[prefix - 1] >= '0' &&
           name->text[prefix - 1] <= '9')
        prefix--;
    uint32_t digits = name->length - prefix;
    if (!prefix || !digits || digits > 7 ||
        (digits > 1 && name->text[prefix] == '0'))
        return NULL;
    *number = 0;
    for (uint32_t i = prefix; i < name->length; i++)
        *number = *number * 10 + (uint32_t)(name->text[i] - '0');
    ptx_symbol *range = find(parser, name->text, prefix, true);
    return range && *number < range->count ? range : NULL;
}

spt_status ptx_register_find(ptx_parser *parser, const ptx_token *name,
                             int32_t *index)
{
    *index = -1;
    uint32_t number = 0, made = 0;
    ptx_symbol *symbol = ptx_symbol_find(parser, name->text, name->length);
    if (symbol) {
        if (symbol->kind == PTX_SYMBOL_REGISTER)
            *index = (int32_t)symbol->index;
        return SPT_OK;
    }
    ptx_symbol *range = find_range(parser, name, &number);
    if (!range)
        return SPT_OK;
    if (!range->map) {
        range->map = spt_arena_alloc(&parser->module->arena, range->count,
                                     sizeof *range->map);
        if (!range->map)
            return ptx_out_of_memory(parser);
    }
    if (!range->map[number]) {
        SPT_TRY(new_register(parser, name, range->type, &made));
        range->map[number] = made + 1;
    }
    *index = (int32_t)range->map[number] - 1;
    return SPT_OK;
}
