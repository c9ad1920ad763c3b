/* Filters, methods, functions and tests of templates, each a row of a table. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jinja_int.h"

typedef const cJSON *call_fn(jinja *j, const cJSON *value,
                             const jinja_args *args);

typedef struct call_row {
    const char *name;
    call_fn *call;
} call_row;

static const cJSON *arg(const jinja_args *args, int index)
{
    return index < args->count ? args->values[index] : NULL;
}

/* The value's text, or a failure that says what was expected. */
static const char *need_text(jinja *j, const cJSON *value)
{
    const char *text = spt_jinja_chars(value);
    if (!text)
        spt_jinja_fail(j, SPT_E_FORMAT, "a text was expected");
    return text;
}

static bool in_set(char c, const char *set)
{
    return c && strchr(set, c) != NULL;
}

/* ends: 1 the beginning, 2 the end, 3 both. */
static const cJSON *strip(jinja *j, const cJSON *value, const jinja_args *args,
                          int ends)
{
    const char *text = need_text(j, value);
    const char *set = spt_jinja_chars(arg(args, 0));
    if (!text)
        return NULL;
    set = set ? set : " \t\n\r\f\v";
    size_t size = strlen(text);
    while (ends & 1 && in_set(*text, set))
        text++, size--;
    while (ends & 2 && size && in_set(text[size - 1], set))
        size--;
    return spt_jinja_text(j, text, size);
}

static const cJSON *do_strip(jinja *j, const cJSON *v, const jinja_args *a)
{
    return strip(j, v, a, 3);
}

static const cJSON *do_lstrip(jinja *j, const cJSON *v, const jinja_args *a)
{
    return strip(j, v, a, 1);
}

static const cJSON *do_rstrip(jinja *j, const cJSON *v, const jinja_args *a)
{
    return strip(j, v, a, 2);
}

/* Letters of ASCII; others stay, which is told in README.md. */
static const cJSON *recase(jinja *j, const cJSON *value, bool upper,
                           bool first_only)
{
    const char *text = need_text(j, value);
    spt_buf out = {0};
    if (!text)
        return NULL;
    for (const char *p = text; *p; p++) {
        bool up = first_only ? p == text : upper;
        char c = (char)(up ? toupper((unsigned char)*p)
                           : tolower((unsigned char)*p));
        spt_buf_add(&out, &c, 1);
    }
    const cJSON *made = spt_jinja_text(j, out.data ? out.data : "", out.size);
    spt_buf_free(&out);
    return made;
}

static const cJSON *do_upper(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    return recase(j, v, true, false);
}

static const cJSON *do_lower(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    return recase(j, v, false, false);
}

static const cJSON *do_capitalize(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    return recase(j, v, false, true);
}

static const cJSON *do_starts(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = need_text(j, v), *with = need_text(j, arg(a, 0));
    return text && with
               ? spt_jinja_bool(j, strncmp(text, with, strlen(with)) == 0)
               : NULL;
}

static const cJSON *do_ends(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = need_text(j, v), *with = need_text(j, arg(a, 0));
    if (!text || !with)
        return NULL;
    size_t n = strlen(text), m = strlen(with);
    return spt_jinja_bool(j, n >= m && strcmp(text + n - m, with) == 0);
}

static const cJSON *do_split(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = need_text(j, v), *by = need_text(j, arg(a, 0));
    const cJSON *most = arg(a, 1);
    int left = cJSON_IsNumber(most) ? most->valueint : -1;
    if (!text || !by || !*by)
        return spt_jinja_fail(j, SPT_E_UNSUPPORTED,
                              "split() needs a text to split by");
    cJSON *parts = cJSON_CreateArray();
    for (const char *next; left && (next = strstr(text, by)); left--) {
        char *part = spt_calloc((size_t)(next - text) + 1, 1);
        if (part)
            memcpy(part, text, (size_t)(next - text));
        cJSON_AddItemToArray(parts, cJSON_CreateString(part ? part : ""));
        j->bytes += (size_t)(next - text) + sizeof *parts;
        spt_free(part);
        text = next + strlen(by);
    }
    cJSON_AddItemToArray(parts, cJSON_CreateString(text));
    return spt_jinja_keep(j, parts, strlen(text));
}

static const cJSON *do_replace(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = need_text(j, v), *from = need_text(j, arg(a, 0)),
               *to = need_text(j, arg(a, 1));
    spt_buf out = {0};
    if (!text || !from || !to || !*from)
        return spt_jinja_fail(j, SPT_E_FORMAT, "replace() needs two texts");
    for (const char *next;
         (next = strstr(text, from)) && out.size < JINJA_BYTES;
         text = next + strlen(from)) {
        spt_buf_add(&out, text, (size_t)(next - text));
        spt_buf_puts(&out, to);
    }
    spt_buf_puts(&out, text);
    const cJSON *made = spt_jinja_text(j, out.data ? out.data : "", out.size);
    spt_buf_free(&out);
    return made;
}

static const cJSON *do_length(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = spt_jinja_chars(v);
    int n = 0;
    (void)a;
    for (; text && *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    if (!text && !cJSON_IsArray(v) && !cJSON_IsObject(v))
        return spt_jinja_fail(j, SPT_E_FORMAT, "length of what has none");
    return spt_jinja_number(j, text ? n : cJSON_GetArraySize(v));
}

static const cJSON *do_join(jinja *j, const cJSON *v, const jinja_args *a)
{
    const cJSON *list = spt_jinja_items(j, v), *item;
    const char *by = spt_jinja_chars(arg(a, 0));
    spt_buf out = {0};
    if (!list)
        return NULL;
    cJSON_ArrayForEach(item, list)
    {
        spt_buf_puts(&out, by && item != list->child ? by : "");
        spt_jinja_print(item, &out);
    }
    const cJSON *made = spt_jinja_text(j, out.data ? out.data : "", out.size);
    spt_buf_free(&out);
    return made;
}

static const cJSON *do_first(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    const cJSON *list = spt_jinja_items(j, v);
    return list ? list->child : NULL;
}

static const cJSON *do_last(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    const cJSON *list = spt_jinja_items(j, v);
    return list ? cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1) : NULL;
}

static const cJSON *do_string(jinja *j, const cJSON *v, const jinja_args *a)
{
    spt_buf out = {0};
    (void)a;
    spt_jinja_print(v, &out);
    const cJSON *made = spt_jinja_text(j, out.data ? out.data : "", out.size);
    spt_buf_free(&out);
    return made;
}

static const cJSON *do_int(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = spt_jinja_chars(v);
    (void)a;
    double value = text ? strtod(text, NULL) : v ? v->valuedouble : 0;
    return spt_jinja_number(j, value > -1e9 && value < 1e9 ? (int)value : 0);
}

static const cJSON *do_default(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)j;
    bool falsy = spt_jinja_true(arg(a, 1));
    return (falsy ? spt_jinja_true(v) : v != NULL) ? v : arg(a, 0);
}

static const cJSON *do_list(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)a;
    return spt_jinja_items(j, v);
}

static const cJSON *do_itself(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)j, (void)a;
    return v;
}

/* Python's separators: ", " and ": ". */
static void write_json(const cJSON *v, int indent, int depth, spt_buf *out)
{
    const cJSON *item;
    bool object = cJSON_IsObject(v);
    if (!v || (!object && !cJSON_IsArray(v))) {
        char *text = v ? cJSON_PrintUnformatted(v) : NULL;
        spt_buf_puts(out, text ? text : "null");
        cJSON_free(text);
        return;
    }
    spt_buf_puts(out, object ? "{" : "[");
    cJSON_ArrayForEach(item, v)
    {
        spt_buf_puts(out, item == v->child ? "" : indent ? "," : ", ");
        if (indent)
            spt_buf_printf(out, "\n%*s", indent * (depth + 1), "");
        if (object) {
            cJSON key = {.type = cJSON_String, .valuestring = item->string};
            write_json(&key, 0, 0, out);
            spt_buf_puts(out, ": ");
        }
        write_json(item, indent, depth + 1, out);
    }
    if (indent && v->child)
        spt_buf_printf(out, "\n%*s", indent * depth, "");
    spt_buf_puts(out, object ? "}" : "]");
}

static const cJSON *do_tojson(jinja *j, const cJSON *v, const jinja_args *a)
{
    const cJSON *indent = arg(a, 0);
    spt_buf out = {0};
    int by = cJSON_IsNumber(indent) ? indent->valueint : 0;
    write_json(v, by > 0 && by < 16 ? by : 0, 0, &out);
    const cJSON *made = spt_jinja_text(j, out.data ? out.data : "", out.size);
    spt_buf_free(&out);
    return made;
}

static const cJSON *do_items(jinja *j, const cJSON *v, const jinja_args *a)
{
    const cJSON *item;
    (void)a;
    if (!cJSON_IsObject(v))
        return spt_jinja_fail(j, SPT_E_FORMAT, "items of what is no object");
    cJSON *list = cJSON_CreateArray();
    cJSON_ArrayForEach(item, v)
    {
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateString(item->string));
        cJSON_AddItemReferenceToArray(pair, (cJSON *)(uintptr_t)item);
        cJSON_AddItemToArray(list, pair);
    }
    return spt_jinja_keep(j, list, 256 * (size_t)cJSON_GetArraySize(list));
}

static const cJSON *do_get(jinja *j, const cJSON *v, const jinja_args *a)
{
    const cJSON *found = spt_jinja_index(j, v, arg(a, 0));
    return found       ? found
           : arg(a, 1) ? arg(a, 1)
                       : spt_jinja_keep(j, cJSON_CreateNull(), 0);
}

/* Items whose field passes the test (or is true), or does not. */
static const cJSON *select_by(jinja *j, const cJSON *v, const jinja_args *a,
                              bool wanted)
{
    const char *test = spt_jinja_chars(arg(a, 1));
    const cJSON *list = spt_jinja_items(j, v), *item;
    jinja_args rest = {.values = {arg(a, 2)}, .count = a->count > 2};
    cJSON *made = cJSON_CreateArray();
    cJSON_ArrayForEach(item, list)
    {
        const cJSON *field = spt_jinja_index(j, item, arg(a, 0));
        spt_text name = {test, test ? strlen(test) : 0};
        bool holds = test ? spt_jinja_test(j, name, field, &rest)
                          : spt_jinja_true(field);
        if (holds == wanted)
            cJSON_AddItemReferenceToArray(made, (cJSON *)(uintptr_t)item);
    }
    return spt_jinja_keep(j, made,
                          sizeof *made * (size_t)cJSON_GetArraySize(made));
}

static const cJSON *do_select(jinja *j, const cJSON *v, const jinja_args *a)
{
    return select_by(j, v, a, true);
}

static const cJSON *do_reject(jinja *j, const cJSON *v, const jinja_args *a)
{
    return select_by(j, v, a, false);
}

static const call_row filters[] = {
    {"trim", do_strip},        {"upper", do_upper},
    {"lower", do_lower},       {"capitalize", do_capitalize},
    {"replace", do_replace},   {"length", do_length},
    {"count", do_length},      {"join", do_join},
    {"first", do_first},       {"last", do_last},
    {"string", do_string},     {"int", do_int},
    {"default", do_default},   {"list", do_list},
    {"tojson", do_tojson},     {"items", do_items},
    {"safe", do_itself},       {"selectattr", do_select},
    {"rejectattr", do_reject},
};

static const call_row methods[] = {
    {"strip", do_strip},       {"lstrip", do_lstrip},
    {"rstrip", do_rstrip},     {"upper", do_upper},
    {"lower", do_lower},       {"capitalize", do_capitalize},
    {"startswith", do_starts}, {"endswith", do_ends},
    {"split", do_split},       {"replace", do_replace},
    {"items", do_items},       {"get", do_get},
    {"keys", do_list},
};

static const cJSON *call(jinja *j, const call_row *rows, size_t count,
                         const char *what, spt_text name, const cJSON *value,
                         const jinja_args *args)
{
    for (size_t i = 0; i < count; i++)
        if (spt_text_is(name, rows[i].name))
            return rows[i].call(j, value, args);
    return spt_jinja_fail(j, SPT_E_UNSUPPORTED, "%s '%s' is not known", what,
                          spt_text_show(name).text);
}

const cJSON *spt_jinja_filter(jinja *j, spt_text name, const cJSON *value,
                              const jinja_args *args)
{
    return call(j, filters, sizeof filters / sizeof *filters, "filter", name,
                value, args);
}

const cJSON *spt_jinja_method(jinja *j, spt_text name, const cJSON *value,
                              const jinja_args *args)
{
    return call(j, methods, sizeof methods / sizeof *methods, "method", name,
                value, args);
}

/* range(end), range(begin, end), range(begin, end, step). */
static const cJSON *do_range(jinja *j, const cJSON *v, const jinja_args *a)
{
    const cJSON *first = arg(a, 0), *second = arg(a, 1), *third = arg(a, 2);
    double begin = second ? cJSON_GetNumberValue(first) : 0;
    double end = cJSON_GetNumberValue(second ? second : first);
    double step = third ? cJSON_GetNumberValue(third) : 1;
    (void)v;
    if (!(fabs(begin) < 1e9) || !(fabs(end) < 1e9) || !(fabs(step) >= 1) ||
        (end - begin) / step > 100000)
        return spt_jinja_fail(j, SPT_E_UNSUPPORTED,
                              "range() of up to three numbers was expected");
    cJSON *list = cJSON_CreateArray();
    for (double i = begin; step > 0 ? i < end : i > end; i += step)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(i));
    return spt_jinja_keep(j, list,
                          sizeof *list * (size_t)cJSON_GetArraySize(list));
}

static const cJSON *do_namespace(jinja *j, const cJSON *v, const jinja_args *a)
{
    (void)v;
    cJSON *made = cJSON_CreateObject();
    for (int i = 0; i < a->count; i++) {
        char name[64] = {0};
        if (!a->names[i].size || !spt_jinja_holds(j, a->values[i])) {
            spt_jinja_fail(j, SPT_E_UNSUPPORTED, "arguments without names");
            break;
        }
        memcpy(name, a->names[i].data,
               a->names[i].size < sizeof name ? a->names[i].size : 0);
        cJSON_AddItemToObject(made, name,
                              a->values[i] ? cJSON_Duplicate(a->values[i], true)
                                           : cJSON_CreateNull());
    }
    return spt_jinja_keep(j, made, 256);
}

static const cJSON *do_raise(jinja *j, const cJSON *v, const jinja_args *a)
{
    const char *text = spt_jinja_chars(arg(a, 0));
    (void)v;
    return spt_jinja_fail(j, SPT_E_USAGE, "%.200s", text ? text : "?");
}

static const call_row functions[] = {
    {"range", do_range},
    {"namespace", do_namespace},
    {"dict", do_namespace},
    {"raise_exception", do_raise},
};

bool spt_jinja_is_function(spt_text name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (spt_text_is(name, functions[i].name))
            return true;
    return false;
}

const cJSON *spt_jinja_function(jinja *j, spt_text name, const jinja_args *args)
{
    return call(j, functions, sizeof functions / sizeof *functions, "function",
                name, NULL, args);
}

static bool is_iterable(const cJSON *v)
{
    return cJSON_IsArray(v) || cJSON_IsObject(v) || cJSON_IsString(v);
}

bool spt_jinja_test(jinja *j, spt_text name, const cJSON *v,
                    const jinja_args *args)
{
    const struct {
        const char *name;
        bool holds;
    } tests[] = {
        {"defined", v != NULL},
        {"undefined", v == NULL},
        {"none", cJSON_IsNull(v)},
        {"string", cJSON_IsString(v)},
        {"number", cJSON_IsNumber(v)},
        {"boolean", cJSON_IsBool(v)},
        {"true", cJSON_IsTrue(v)},
        {"false", cJSON_IsFalse(v)},
        {"mapping", cJSON_IsObject(v)},
        {"sequence", is_iterable(v)},
        {"iterable", is_iterable(v)},
        {"even", cJSON_IsNumber(v) && v->valueint % 2 == 0},
        {"odd", cJSON_IsNumber(v) && v->valueint % 2 != 0},
        {"equalto", args->count && spt_jinja_equal(v, args->values[0])},
        {"eq", args->count && spt_jinja_equal(v, args->values[0])},
        {"ne", args->count && !spt_jinja_equal(v, args->values[0])},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (spt_text_is(name, tests[i].name))
            return tests[i].holds;
    spt_jinja_fail(j, SPT_E_UNSUPPORTED, "test '%s' is not known",
                   spt_text_show(name).text);
    return false;
}
