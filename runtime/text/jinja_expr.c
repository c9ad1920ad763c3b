/*
 * Expressions, computed while they are parsed: one function per level of
 * precedence, loosest first. With `live` off they are only passed over.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_int.h"

static const cJSON *unary(jinja *j);

/* Runs fn with live off when it must not be computed. */
static const cJSON *guarded(jinja *j, bool live,
                            const cJSON *(*parse)(jinja *j))
{
    bool before = j->live;
    j->live = before && live;
    const cJSON *value = parse(j);
    j->live = before;
    return value;
}

static const cJSON *made_bool(jinja *j, bool value)
{
    return j->live ? spt_jinja_bool(j, value) : NULL;
}

static void read_args(jinja *j, jinja_args *args)
{
    *args = (jinja_args){0};
    while (j->status == SPT_OK && !spt_jinja_accept(j, ")")) {
        if (args->count == JINJA_ARGS) {
            spt_jinja_fail(j, SPT_E_UNSUPPORTED, "more than %d arguments",
                           JINJA_ARGS);
            return;
        }
        const jinja_token *t = spt_jinja_peek(j);
        if (t->kind == JINJA_NAME && t[1].kind == JINJA_OP &&
            spt_text_is(t[1].text, "=")) {
            args->names[args->count] = t->text;
            j->at += 2;
        }
        args->values[args->count++] = spt_jinja_expression(j);
        if (!spt_jinja_is(j, ")"))
            spt_jinja_expect(j, ",");
    }
}

static const cJSON *list(jinja *j, const char *close)
{
    cJSON *items = cJSON_CreateArray();
    size_t n = 0;
    while (j->status == SPT_OK && !spt_jinja_accept(j, close)) {
        const cJSON *item = spt_jinja_expression(j);
        n++;
        if (!spt_jinja_holds(j, item))
            break;
        if (item)
            cJSON_AddItemReferenceToArray(items, (cJSON *)(uintptr_t)item);
        else
            cJSON_AddItemToArray(items, cJSON_CreateNull());
        if (!spt_jinja_is(j, close))
            spt_jinja_expect(j, ",");
    }
    return spt_jinja_keep(j, items, n * sizeof *items);
}

static const cJSON *object(jinja *j)
{
    cJSON *made = cJSON_CreateObject();
    size_t n = 0;
    while (j->status == SPT_OK && !spt_jinja_accept(j, "}")) {
        const cJSON *key = spt_jinja_expression(j);
        spt_jinja_expect(j, ":");
        const cJSON *value = spt_jinja_expression(j);
        const char *name = spt_jinja_chars(key);
        n++;
        if (j->live && name && spt_jinja_holds(j, value))
            cJSON_AddItemToObject(made, name,
                                  value ? cJSON_Duplicate(value, true)
                                        : cJSON_CreateNull());
        if (!spt_jinja_is(j, "}"))
            spt_jinja_expect(j, ",");
    }
    return spt_jinja_keep(j, made, n * 4 * sizeof *made);
}

/* "(" was taken: a group, or a tuple. */
static const cJSON *group(jinja *j)
{
    const cJSON *first = spt_jinja_expression(j);
    if (spt_jinja_accept(j, ")"))
        return first;
    spt_jinja_expect(j, ",");
    const cJSON *rest = list(j, ")");
    if (!j->live || !rest)
        return NULL;
    if (!first || !spt_jinja_holds(j, first))
        return spt_jinja_fail(j, SPT_E_FORMAT, "a tuple of what is undefined");
    cJSON *all = cJSON_CreateArray();
    const cJSON *item;
    cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)first);
    cJSON_ArrayForEach(item, rest)
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)item);
    return spt_jinja_keep(j, all,
                          sizeof *all * (size_t)cJSON_GetArraySize(all));
}

static const cJSON *word(jinja *j, spt_text name)
{
    jinja_args args;
    bool yes = spt_text_is(name, "true") || spt_text_is(name, "True");
    if (yes || spt_text_is(name, "false") || spt_text_is(name, "False"))
        return made_bool(j, yes);
    if (spt_text_is(name, "none") || spt_text_is(name, "None"))
        return j->live ? spt_jinja_keep(j, cJSON_CreateNull(), 0) : NULL;
    if (spt_jinja_is(j, "(") && spt_jinja_is_function(name)) {
        spt_jinja_take(j);
        read_args(j, &args);
        return j->live && j->status == SPT_OK
                   ? spt_jinja_function(j, name, &args)
                   : NULL;
    }
    const jinja_macro *macro =
        spt_jinja_is(j, "(") ? spt_jinja_macro(j, name) : NULL;
    if (macro) {
        spt_jinja_take(j);
        read_args(j, &args);
        return j->live && j->status == SPT_OK
                   ? spt_jinja_call_macro(j, macro, &args)
                   : NULL;
    }
    return j->live ? spt_jinja_variable(j, name) : NULL;
}

static const cJSON *primary(jinja *j)
{
    const jinja_token *t = spt_jinja_take(j);
    if (t->kind == JINJA_NAME)
        return word(j, t->text);
    if (t->kind == JINJA_NUMBER)
        return j->live ? spt_jinja_number(j, strtod(t->text.data, NULL)) : NULL;
    if (t->kind == JINJA_STRING) {
        spt_buf text = {0};
        spt_buf_add(&text, t->text.data, t->text.size);
        /* Strings that follow each other are one. */
        while (spt_jinja_peek(j)->kind == JINJA_STRING) {
            t = spt_jinja_take(j);
            spt_buf_add(&text, t->text.data, t->text.size);
        }
        const cJSON *made =
            j->live ? spt_jinja_text(j, text.data, text.size) : NULL;
        spt_buf_free(&text);
        return made;
    }
    if (t->kind == JINJA_OP && spt_text_is(t->text, "("))
        return group(j);
    if (t->kind == JINJA_OP && spt_text_is(t->text, "["))
        return list(j, "]");
    if (t->kind == JINJA_OP && spt_text_is(t->text, "{"))
        return object(j);
    return spt_jinja_fail(j, SPT_E_FORMAT, "'%s' where a value was expected",
                          spt_text_show(t->text).text);
}

/* "[" was taken. */
static const cJSON *subscript(jinja *j, const cJSON *value)
{
    const cJSON *parts[3] = {0};
    int part = 0;
    bool slice = false;
    while (j->status == SPT_OK && !spt_jinja_accept(j, "]")) {
        if (part < 2 && spt_jinja_accept(j, ":")) {
            slice = true;
            part++;
        } else {
            parts[part] = spt_jinja_expression(j);
            if (!spt_jinja_is(j, ":") && !spt_jinja_is(j, "]"))
                spt_jinja_expect(j, "]");
        }
    }
    if (!j->live || j->status != SPT_OK)
        return NULL;
    return slice ? spt_jinja_slice(j, value, parts[0], parts[1], parts[2])
                 : spt_jinja_index(j, value, parts[0]);
}

/* "." was taken: a method that is called, or a field. */
static const cJSON *attribute(jinja *j, const cJSON *value)
{
    jinja_args args;
    spt_text name = spt_jinja_take(j)->text;
    if (spt_jinja_accept(j, "(")) {
        read_args(j, &args);
        return j->live && j->status == SPT_OK
                   ? spt_jinja_method(j, name, value, &args)
                   : NULL;
    }
    return j->live ? spt_jinja_index(j, value,
                                     spt_jinja_text(j, name.data, name.size))
                   : NULL;
}

static const cJSON *filtered(jinja *j, const cJSON *value)
{
    jinja_args args = {0};
    spt_text name = spt_jinja_take(j)->text;
    if (spt_jinja_accept(j, "("))
        read_args(j, &args);
    return j->live && j->status == SPT_OK
               ? spt_jinja_filter(j, name, value, &args)
               : NULL;
}

/* "(" was taken. A branch that asked whether the function is there is passed
   over. */
static const cJSON *unknown_call(jinja *j)
{
    jinja_args args;
    read_args(j, &args);
    return j->live ? spt_jinja_fail(j, SPT_E_UNSUPPORTED,
                                    "a call of what is no known function")
                   : NULL;
}

static const cJSON *postfix(jinja *j)
{
    const cJSON *value = primary(j);
    while (j->status == SPT_OK) {
        if (spt_jinja_accept(j, "."))
            value = attribute(j, value);
        else if (spt_jinja_accept(j, "["))
            value = subscript(j, value);
        else if (spt_jinja_accept(j, "|"))
            value = filtered(j, value);
        else if (spt_jinja_accept(j, "("))
            value = unknown_call(j);
        else
            break;
    }
    return value;
}

static const cJSON *arithmetic(jinja *j, char op, const cJSON *a,
                               const cJSON *b)
{
    if (!cJSON_IsNumber(a) || !cJSON_IsNumber(b))
        return spt_jinja_fail(j, SPT_E_FORMAT, "'%c' of what are no numbers",
                              op);
    double x = a->valuedouble, y = b->valuedouble;
    if (!y && (op == '/' || op == '%'))
        return spt_jinja_fail(j, SPT_E_FORMAT, "division by zero");
    return spt_jinja_number(j, op == '+'   ? x + y
                               : op == '-' ? x - y
                               : op == '*' ? x * y
                               : op == '/' ? x / y
                                           : x - y * floor(x / y));
}

static const cJSON *joined(jinja *j, const cJSON *a, const cJSON *b)
{
    spt_buf text = {0};
    spt_jinja_print(a, &text);
    spt_jinja_print(b, &text);
    const cJSON *made =
        spt_jinja_text(j, text.data ? text.data : "", text.size);
    spt_buf_free(&text);
    return made;
}

static const cJSON *added(jinja *j, const cJSON *a, const cJSON *b)
{
    if (cJSON_IsString(a) && cJSON_IsString(b))
        return joined(j, a, b);
    if (!cJSON_IsArray(a) || !cJSON_IsArray(b)) {
        if (!a || !b || cJSON_IsString(a) || cJSON_IsString(b))
            return spt_jinja_fail(j, SPT_E_FORMAT,
                                  "'+' of a text and what is none");
        return arithmetic(j, '+', a, b);
    }
    cJSON *all = cJSON_CreateArray();
    const cJSON *item;
    cJSON_ArrayForEach(item, a)
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)item);
    cJSON_ArrayForEach(item, b)
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)item);
    return spt_jinja_keep(j, all,
                          sizeof *all * (size_t)cJSON_GetArraySize(all));
}

static const cJSON *unary(jinja *j)
{
    if (!spt_jinja_accept(j, "-"))
        return postfix(j);
    const cJSON *value = postfix(j);
    return j->live && j->status == SPT_OK
               ? arithmetic(j, '-', spt_jinja_number(j, 0), value)
               : NULL;
}

static const cJSON *product(jinja *j)
{
    const cJSON *value = unary(j);
    while (j->status == SPT_OK) {
        char op = spt_jinja_accept(j, "*")   ? '*'
                  : spt_jinja_accept(j, "/") ? '/'
                  : spt_jinja_accept(j, "%") ? '%'
                                             : 0;
        if (!op)
            break;
        const cJSON *right = unary(j);
        if (j->live && j->status == SPT_OK)
            value = arithmetic(j, op, value, right);
    }
    return value;
}

static const cJSON *sum(jinja *j)
{
    const cJSON *value = product(j);
    while (j->status == SPT_OK) {
        char op = spt_jinja_accept(j, "+")   ? '+'
                  : spt_jinja_accept(j, "-") ? '-'
                  : spt_jinja_accept(j, "~") ? '~'
                                             : 0;
        if (!op)
            break;
        const cJSON *right = product(j);
        if (!j->live || j->status != SPT_OK)
            continue;
        value = op == '+'   ? added(j, value, right)
                : op == '~' ? joined(j, value, right)
                            : arithmetic(j, '-', value, right);
    }
    return value;
}

/* -1, 0, 1 of two numbers or two texts. */
static int order(jinja *j, const cJSON *a, const cJSON *b)
{
    if (cJSON_IsNumber(a) && cJSON_IsNumber(b))
        return (a->valuedouble > b->valuedouble) -
               (a->valuedouble < b->valuedouble);
    if (cJSON_IsString(a) && cJSON_IsString(b))
        return strcmp(a->valuestring, b->valuestring);
    spt_jinja_fail(j, SPT_E_FORMAT, "values of two kinds have no order");
    return 0;
}

static const cJSON *tested(jinja *j, const cJSON *value)
{
    jinja_args args = {0};
    bool negated = spt_jinja_accept(j, "not");
    spt_text name = spt_jinja_take(j)->text;
    if (spt_jinja_accept(j, "("))
        read_args(j, &args);
    if (!j->live || j->status != SPT_OK)
        return NULL;
    return spt_jinja_bool(j, spt_jinja_test(j, name, value, &args) != negated);
}

static bool compare(jinja *j, const char *op, const cJSON *a, const cJSON *b)
{
    if (op[0] == '=' || op[0] == '!')
        return spt_jinja_equal(a, b) == (op[0] == '=');
    if (op[0] == 'i' || op[0] == 'n')
        return spt_jinja_contains(j, b, a) == (op[0] == 'i');
    int way = order(j, a, b);
    return op[1] == '='   ? (op[0] == '<' ? way <= 0 : way >= 0)
           : op[0] == '<' ? way < 0
                          : way > 0;
}

static const char *comparison_operator(jinja *j)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">", "in"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (spt_jinja_accept(j, ops[i]))
            return ops[i];
    if (!spt_jinja_is(j, "not") ||
        !spt_text_is(spt_jinja_peek(j)[1].text, "in"))
        return NULL;
    j->at += 2;
    return "not in";
}

static const cJSON *comparison(jinja *j)
{
    const cJSON *value = sum(j);
    while (j->status == SPT_OK) {
        if (spt_jinja_accept(j, "is")) {
            value = tested(j, value);
            continue;
        }
        const char *op = comparison_operator(j);
        if (!op)
            break;
        const cJSON *right = sum(j);
        if (j->live && j->status == SPT_OK)
            value = spt_jinja_bool(j, compare(j, op, value, right));
    }
    return value;
}

static const cJSON *negation(jinja *j)
{
    int count = 0;
    while (spt_jinja_accept(j, "not"))
        count++;
    const cJSON *value = comparison(j);
    return count ? made_bool(j, spt_jinja_true(value) != (count % 2 == 1))
                 : value;
}

static const cJSON *conjunction(jinja *j)
{
    const cJSON *value = negation(j);
    while (spt_jinja_accept(j, "and")) {
        bool go_on = spt_jinja_true(value);
        const cJSON *right = guarded(j, go_on, negation);
        value = go_on ? right : value;
    }
    return value;
}

const cJSON *spt_jinja_condition(jinja *j)
{
    const cJSON *value = conjunction(j);
    while (spt_jinja_accept(j, "or")) {
        bool go_on = !spt_jinja_true(value);
        const cJSON *right = guarded(j, go_on, conjunction);
        value = go_on ? right : value;
    }
    return value;
}

/* Whether "if" follows before this expression ends. */
static bool has_condition(const jinja *j)
{
    int depth = 0;
    for (const jinja_token *t = spt_jinja_peek(j); depth >= 0; t++) {
        if (t->kind == JINJA_CLOSE || t->kind == JINJA_END)
            return false;
        bool op = t->kind == JINJA_OP && t->text.size == 1;
        char c = op ? *t->text.data : 0;
        depth += (c == '(' || c == '[' || c == '{') -
                 (c == ')' || c == ']' || c == '}');
        if (depth == 0 && (c == ',' || c == ':'))
            return false;
        if (depth == 0 && t->kind == JINJA_NAME && spt_text_is(t->text, "if"))
            return true;
    }
    return false;
}

/* The value before "if" counts only when the condition after it holds: it is
   passed over first, and computed when that is known. */
static const cJSON *conditional(jinja *j)
{
    int begin = j->at;
    if (!has_condition(j))
        return spt_jinja_condition(j);
    guarded(j, false, spt_jinja_condition);
    spt_jinja_expect(j, "if");
    bool holds = spt_jinja_true(spt_jinja_condition(j));
    const cJSON *other = spt_jinja_accept(j, "else")
                             ? guarded(j, !holds, spt_jinja_expression)
                             : NULL;
    int end = j->at;
    if (!holds || !j->live || j->status != SPT_OK)
        return other;
    j->at = begin;
    const cJSON *value = spt_jinja_condition(j);
    j->at = end;
    return value;
}

const cJSON *spt_jinja_expression(jinja *j)
{
    if (j->status != SPT_OK)
        return NULL;
    if (++j->nesting > JINJA_DEPTH)
        return spt_jinja_fail(j, SPT_E_UNSUPPORTED,
                              "expressions nest deeper than %d", JINJA_DEPTH);
    const cJSON *value = conditional(j);
    j->nesting--;
    return value;
}
