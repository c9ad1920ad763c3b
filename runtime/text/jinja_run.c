/*
 * Statements. A block is run from its tokens; a branch that is not taken is
 * passed over with `live` off, a loop goes back to its first token.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja_int.h"

static void block(jinja *j);

const cJSON *spt_jinja_fail(jinja *j, spt_status status, const char *fmt, ...)
{
    char text[400];
    va_list args;
    if (j->status != SPT_OK)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int last = j->at < j->count ? j->at : j->count - 1;
    if (status == SPT_E_USAGE || last < 0)
        j->status = spt_fail(j->err, status, "%s: %s", j->name, text);
    else
        j->status = spt_fail(j->err, status, "%s: line %d: %s", j->name,
                             j->tokens[last].line, text);
    return NULL;
}

const jinja_token *spt_jinja_peek(const jinja *j)
{
    return &j->tokens[j->status == SPT_OK ? j->at : j->count - 1];
}

const jinja_token *spt_jinja_take(jinja *j)
{
    const jinja_token *t = spt_jinja_peek(j);
    if (j->status == SPT_OK && t->kind != JINJA_END)
        j->at++;
    if (++j->steps > JINJA_STEPS)
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "the template does not end");
    return t;
}

bool spt_jinja_is(const jinja *j, const char *text)
{
    const jinja_token *t = spt_jinja_peek(j);
    return (t->kind == JINJA_OP || t->kind == JINJA_NAME) &&
           spt_text_is(t->text, text);
}

bool spt_jinja_accept(jinja *j, const char *text)
{
    bool is = spt_jinja_is(j, text);
    if (is)
        spt_jinja_take(j);
    return is;
}

void spt_jinja_expect(jinja *j, const char *text)
{
    const jinja_token *t = spt_jinja_peek(j);
    if (!spt_jinja_accept(j, text))
        spt_jinja_fail(j, SPT_E_FORMAT, "'%s' where '%s' was expected",
                       spt_text_show(t->text).text, text);
}

static void expect_close(jinja *j)
{
    const jinja_token *t = spt_jinja_take(j);
    if (t->kind != JINJA_CLOSE)
        spt_jinja_fail(j, SPT_E_FORMAT, "'%s' where the tag's end was expected",
                       spt_text_show(t->text).text);
}

const cJSON *spt_jinja_variable(const jinja *j, spt_text name)
{
    char key[64] = {0};
    for (int i = j->variable_count - 1; i >= 0; i--)
        if (spt_text_compare(j->variables[i].name, name) == 0)
            return j->variables[i].value;
    if (name.size >= sizeof key)
        return NULL;
    memcpy(key, name.data, name.size);
    return cJSON_GetObjectItemCaseSensitive(j->context, key);
}

void spt_jinja_set(jinja *j, spt_text name, const cJSON *value)
{
    int i = j->variable_count - 1;
    while (i >= 0 && j->variables[i].depth == j->depth &&
           spt_text_compare(j->variables[i].name, name) != 0)
        i--;
    if (i >= 0 && j->variables[i].depth == j->depth) {
        j->variables[i].value = value;
        return;
    }
    if (j->variable_count == JINJA_VARIABLES) {
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "more than %d variables",
                       JINJA_VARIABLES);
        return;
    }
    j->variables[j->variable_count++] = (jinja_variable){name, value, j->depth};
}

static void leave_scope(jinja *j)
{
    while (j->variable_count &&
           j->variables[j->variable_count - 1].depth == j->depth)
        j->variable_count--;
    j->depth--;
}

/* A field of a namespace. What it held may still be referred to. */
static void set_field(jinja *j, const cJSON *owner, spt_text name,
                      const cJSON *value)
{
    char key[64] = {0};
    if (!cJSON_IsObject(owner) || name.size >= sizeof key) {
        spt_jinja_fail(j, SPT_E_FORMAT, "set of a field of no namespace");
        return;
    }
    if (!spt_jinja_holds(j, value))
        return;
    memcpy(key, name.data, name.size);
    cJSON *object = (cJSON *)(uintptr_t)owner;
    cJSON *copy = value ? cJSON_Duplicate(value, true) : cJSON_CreateNull();
    cJSON *old = cJSON_DetachItemFromObjectCaseSensitive(object, key);
    if (old)
        spt_jinja_keep(j, old, 0);
    j->bytes += 256;
    if (!copy || !cJSON_AddItemToObject(object, key, copy))
        spt_jinja_fail(j, SPT_E_MEMORY, "out of memory");
}

/* {% set a = x %}, {% set ns.a = x %}, {% set a %}...{% endset %}. */
static void run_set(jinja *j)
{
    spt_text name = spt_jinja_take(j)->text, field = {"", 0};
    if (spt_jinja_accept(j, "."))
        field = spt_jinja_take(j)->text;
    if (spt_jinja_accept(j, "=")) {
        const cJSON *value = spt_jinja_expression(j);
        expect_close(j);
        if (!j->live || j->status != SPT_OK)
            return;
        if (field.size)
            set_field(j, spt_jinja_variable(j, name), field, value);
        else
            spt_jinja_set(j, name, value);
        return;
    }
    expect_close(j);
    spt_buf *outer = j->out, inner = {0};
    j->out = &inner;
    block(j);
    j->out = outer;
    spt_jinja_expect(j, "endset");
    expect_close(j);
    if (j->live && j->status == SPT_OK)
        spt_jinja_set(
            j, name,
            spt_jinja_text(j, inner.data ? inner.data : "", inner.size));
    spt_buf_free(&inner);
}

static void branch(jinja *j, bool live)
{
    bool before = j->live;
    j->live = before && live;
    block(j);
    j->live = before && j->flow == FLOW_ON;
    /* A break inside leaves the loop's rest dead; the loop revives it. */
}

static void run_if(jinja *j)
{
    bool done = false, before = j->live;
    bool holds = spt_jinja_true(spt_jinja_expression(j));
    expect_close(j);
    branch(j, holds);
    done = holds;
    while (spt_jinja_is(j, "elif") || spt_jinja_is(j, "else")) {
        bool otherwise = spt_jinja_is(j, "else");
        spt_jinja_take(j);
        bool live = j->live;
        j->live = live && !done;
        holds = otherwise || spt_jinja_true(spt_jinja_expression(j));
        j->live = live;
        expect_close(j);
        branch(j, holds && !done);
        done |= holds;
    }
    spt_jinja_expect(j, "endif");
    expect_close(j);
    j->live = before && j->flow == FLOW_ON;
}

typedef struct loop {
    spt_text names[2]; /* of the item; two take a pair apart */
    const cJSON *items;
    int filter; /* token of the loop's condition, or 0 */
    int body;
} loop;

static void bind(jinja *j, const loop *l, const cJSON *item)
{
    if (!l->names[1].size) {
        spt_jinja_set(j, l->names[0], item);
        return;
    }
    spt_jinja_set(j, l->names[0], cJSON_GetArrayItem(item, 0));
    spt_jinja_set(j, l->names[1], cJSON_GetArrayItem(item, 1));
}

/* The items for which the loop's condition holds. */
static const cJSON *chosen(jinja *j, const loop *l)
{
    cJSON *list = cJSON_CreateArray();
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, l->items)
    {
        j->at = l->filter;
        j->depth++;
        bind(j, l, item);
        if (spt_jinja_true(spt_jinja_expression(j)) && ++n)
            cJSON_AddItemReferenceToArray(list, (cJSON *)(uintptr_t)item);
        leave_scope(j);
    }
    return spt_jinja_keep(j, list, n * sizeof *list);
}

static const cJSON *loop_object(jinja *j, int index, int count)
{
    cJSON *made = cJSON_CreateObject();
    cJSON_AddNumberToObject(made, "index", index + 1);
    cJSON_AddNumberToObject(made, "index0", index);
    cJSON_AddNumberToObject(made, "revindex", count - index);
    cJSON_AddNumberToObject(made, "length", count);
    cJSON_AddBoolToObject(made, "first", index == 0);
    cJSON_AddBoolToObject(made, "last", index == count - 1);
    return spt_jinja_keep(j, made, 7 * sizeof *made);
}

static void run_body(jinja *j, const loop *l, const cJSON *item, int index,
                     int count)
{
    static const spt_text name = {"loop", 4};
    j->at = l->body;
    j->depth++;
    bind(j, l, item);
    const cJSON *about = loop_object(j, index, count);
    cJSON *object = (cJSON *)(uintptr_t)about;
    if (about && item && item->prev && index)
        cJSON_AddItemReferenceToObject(object, "previtem", item->prev);
    if (about && item && item->next)
        cJSON_AddItemReferenceToObject(object, "nextitem", item->next);
    spt_jinja_set(j, name, about);
    block(j);
    leave_scope(j);
}

/* Passes over the body and an else; runs the else when there was no item. */
static void end_loop(jinja *j, const loop *l, bool empty)
{
    bool before = j->live;
    j->live = false;
    j->at = l->body;
    block(j);
    j->live = before;
    if (spt_jinja_accept(j, "else")) {
        expect_close(j);
        branch(j, empty);
        j->live = before;
    }
    spt_jinja_expect(j, "endfor");
    expect_close(j);
}

static void run_for(jinja *j)
{
    loop l = {0};
    l.names[0] = spt_jinja_take(j)->text;
    if (spt_jinja_accept(j, ","))
        l.names[1] = spt_jinja_take(j)->text;
    spt_jinja_expect(j, "in");
    const cJSON *over = spt_jinja_condition(j);
    l.items = j->live && j->status == SPT_OK ? spt_jinja_items(j, over) : NULL;
    if (spt_jinja_accept(j, "if")) {
        bool before = j->live;
        l.filter = j->at;
        j->live = false;
        spt_jinja_expression(j);
        j->live = before;
    }
    expect_close(j);
    l.body = j->at;
    if (l.filter && l.items)
        l.items = chosen(j, &l);
    int count = l.items ? cJSON_GetArraySize(l.items) : 0, index = 0;
    bool live = j->live;
    for (const cJSON *item = l.items ? l.items->child : NULL;
         item && j->status == SPT_OK && j->flow != FLOW_BREAK;
         item = item->next) {
        j->flow = FLOW_ON;
        j->live = live;
        run_body(j, &l, item, index++, count);
    }
    j->flow = FLOW_ON;
    j->live = live;
    if (j->status == SPT_OK)
        end_loop(j, &l, count == 0);
}

static void run_flow(jinja *j, jinja_flow flow)
{
    expect_close(j);
    if (j->live) {
        j->flow = flow;
        j->live = false;
    }
}

/* {% macro name(a, b='x') %}...{% endmacro %}: noted, and passed over. */
static void run_macro(jinja *j)
{
    bool before = j->live;
    jinja_macro macro = {.name = spt_jinja_take(j)->text};
    spt_jinja_expect(j, "(");
    macro.parameters = j->at;
    j->live = false;
    while (j->status == SPT_OK && !spt_jinja_accept(j, ")")) {
        spt_jinja_take(j);
        if (spt_jinja_accept(j, "="))
            spt_jinja_expression(j);
        if (!spt_jinja_is(j, ")"))
            spt_jinja_expect(j, ",");
    }
    expect_close(j);
    macro.body = j->at;
    block(j);
    j->live = before;
    spt_jinja_expect(j, "endmacro");
    expect_close(j);
    if (before && j->macro_count == JINJA_MACROS)
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "more than %d macros",
                       JINJA_MACROS);
    else if (before)
        j->macros[j->macro_count++] = macro;
}

const jinja_macro *spt_jinja_macro(const jinja *j, spt_text name)
{
    for (int i = j->macro_count - 1; i >= 0; i--)
        if (spt_text_compare(j->macros[i].name, name) == 0)
            return &j->macros[i];
    return NULL;
}

/* The argument of that name, or at that place; false: it was not given. */
static bool find_argument(const jinja_args *args, spt_text name, int place,
                          const cJSON **value)
{
    for (int i = 0; i < args->count; i++) {
        bool named = args->names[i].size > 0;
        if (named ? spt_text_compare(args->names[i], name) == 0 : i == place) {
            *value = args->values[i];
            return true;
        }
    }
    return false;
}

static void bind_parameters(jinja *j, const jinja_args *args)
{
    for (int place = 0; j->status == SPT_OK && !spt_jinja_accept(j, ")");
         place++) {
        const cJSON *value = NULL;
        spt_text name = spt_jinja_take(j)->text;
        bool given = find_argument(args, name, place, &value);
        if (spt_jinja_accept(j, "=")) {
            j->live = !given;
            const cJSON *otherwise = spt_jinja_expression(j);
            j->live = true;
            value = given ? value : otherwise;
        }
        spt_jinja_set(j, name, value);
        spt_jinja_accept(j, ",");
    }
}

const cJSON *spt_jinja_call_macro(jinja *j, const jinja_macro *macro,
                                  const jinja_args *args)
{
    int back = j->at;
    spt_buf *outer = j->out, inner = {0};
    j->out = &inner;
    j->depth++;
    j->at = macro->parameters;
    bind_parameters(j, args);
    j->at = macro->body;
    block(j);
    leave_scope(j);
    j->at = back;
    j->out = outer;
    const cJSON *text =
        j->status == SPT_OK
            ? spt_jinja_text(j, inner.data ? inner.data : "", inner.size)
            : NULL;
    spt_buf_free(&inner);
    return text;
}

/* Words that end a block, left for who began it. */
static bool ends_block(const jinja *j)
{
    static const char *const words[] = {"endif",        "elif",   "else",
                                        "endfor",       "endset", "endmacro",
                                        "endgeneration"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (spt_jinja_is(j, words[i]))
            return true;
    return false;
}

static void statement(jinja *j)
{
    if (spt_jinja_accept(j, "if")) {
        run_if(j);
    } else if (spt_jinja_accept(j, "for")) {
        run_for(j);
    } else if (spt_jinja_accept(j, "set")) {
        run_set(j);
    } else if (spt_jinja_accept(j, "macro")) {
        run_macro(j);
    } else if (spt_jinja_accept(j, "break")) {
        run_flow(j, FLOW_BREAK);
    } else if (spt_jinja_accept(j, "continue")) {
        run_flow(j, FLOW_CONTINUE);
    } else if (spt_jinja_accept(j, "generation")) {
        /* Marks the assistant's text for training; the text is the same. */
        expect_close(j);
        block(j);
        spt_jinja_expect(j, "endgeneration");
        expect_close(j);
    } else {
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "statement '%s' is not known",
                       spt_text_show(spt_jinja_peek(j)->text).text);
    }
}

static void print(jinja *j, const cJSON *value)
{
    size_t before = j->out->size;
    spt_jinja_print(value, j->out);
    j->bytes += j->out->size - before;
    if (j->bytes > JINJA_BYTES || j->out->failed)
        spt_jinja_fail(j, SPT_E_MEMORY, "more than %d MiB of text",
                       JINJA_BYTES >> 20);
}

/* Up to the end of the template, or a tag with a word that ends a block; its
   opening is taken. */
static void block(jinja *j)
{
    if (++j->nesting > JINJA_DEPTH)
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "blocks nest deeper than %d",
                       JINJA_DEPTH);
    while (j->status == SPT_OK && spt_jinja_peek(j)->kind != JINJA_END) {
        const jinja_token *t = spt_jinja_take(j);
        if (t->kind == JINJA_TEXT && j->live) {
            spt_buf_add(j->out, t->text.data, t->text.size);
            j->bytes += t->text.size;
        } else if (t->kind == JINJA_OUT) {
            const cJSON *value = spt_jinja_expression(j);
            expect_close(j);
            if (j->live && j->status == SPT_OK)
                print(j, value);
        } else if (t->kind == JINJA_TAG) {
            if (ends_block(j))
                break;
            statement(j);
        }
    }
    j->nesting--;
}

spt_status spt_jinja_render(const char *template, size_t size, const char *name,
                            const cJSON *context, spt_buf *out, spt_error *err)
{
    jinja *j = spt_calloc(1, sizeof *j);
    cJSON *values = cJSON_CreateArray();
    if (!j || !values) {
        spt_free(j);
        cJSON_Delete(values);
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    }
    spt_buf text = {0};
    j->name = name;
    j->context = context;
    j->values = values;
    j->out = &text;
    j->err = err;
    j->live = true;
    if (spt_jinja_lex(j, template, size) == SPT_OK) {
        block(j);
        if (j->status == SPT_OK && spt_jinja_peek(j)->kind != JINJA_END)
            spt_jinja_fail(j, SPT_E_FORMAT, "'%s' without what it ends",
                           spt_text_show(spt_jinja_peek(j)->text).text);
    }
    spt_status status = j->status;
    if (status == SPT_OK)
        spt_buf_add(out, text.data ? text.data : "", text.size);
    spt_buf_free(&text);
    cJSON_Delete(values);
    spt_arena_free(&j->arena);
    spt_free(j);
    return status;
}
