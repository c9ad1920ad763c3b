/* Values of templates: making, comparing, printing, taking apart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jinja_int.h"

const cJSON *spt_jinja_keep(jinja *j, cJSON *value, size_t bytes)
{
    j->bytes += bytes + sizeof *value;
    if (value && j->bytes <= JINJA_BYTES &&
        cJSON_AddItemToArray(j->values, value))
        return value;
    cJSON_Delete(value);
    return spt_jinja_fail(j, SPT_E_MEMORY, "more than %d MiB of values",
                          JINJA_BYTES >> 20);
}

static void weigh(jinja *j, const cJSON *value, int depth)
{
    const cJSON *item;
    j->bytes += sizeof *value;
    j->steps++;
    if (value && cJSON_IsString(value))
        j->bytes += strlen(value->valuestring);
    if (depth > JINJA_NESTED)
        spt_jinja_fail(j, SPT_E_UNSUPPORTED, "values nest deeper than %d",
                       JINJA_NESTED);
    for (item = value ? value->child : NULL; item && j->status == SPT_OK;
         item = item->next)
        weigh(j, item, depth + 1);
    if (j->bytes > JINJA_BYTES || j->steps > JINJA_STEPS)
        spt_jinja_fail(j, SPT_E_MEMORY, "more than %d MiB of values",
                       JINJA_BYTES >> 20);
}

bool spt_jinja_holds(jinja *j, const cJSON *value)
{
    weigh(j, value, 0);
    return j->status == SPT_OK;
}

const cJSON *spt_jinja_text(jinja *j, const char *text, size_t size)
{
    char *copy = size < JINJA_BYTES ? spt_calloc(size + 1, 1) : NULL;
    if (copy)
        memcpy(copy, text, size);
    cJSON *value = copy ? cJSON_CreateString(copy) : NULL;
    spt_free(copy);
    return spt_jinja_keep(j, value, size);
}

const cJSON *spt_jinja_number(jinja *j, double number)
{
    return spt_jinja_keep(j, cJSON_CreateNumber(number), 0);
}

const cJSON *spt_jinja_bool(jinja *j, bool value)
{
    return spt_jinja_keep(j, cJSON_CreateBool(value), 0);
}

const char *spt_jinja_chars(const cJSON *value)
{
    return cJSON_GetStringValue(value);
}

bool spt_jinja_true(const cJSON *value)
{
    if (!value || cJSON_IsNull(value) || cJSON_IsFalse(value))
        return false;
    if (cJSON_IsNumber(value))
        return value->valuedouble != 0;
    if (cJSON_IsString(value))
        return *value->valuestring != 0;
    return !(cJSON_IsArray(value) || cJSON_IsObject(value)) || value->child;
}

bool spt_jinja_equal(const cJSON *a, const cJSON *b)
{
    if (!a || !b)
        return !a && !b;
    return cJSON_Compare(a, b, true);
}

bool spt_jinja_contains(jinja *j, const cJSON *in, const cJSON *value)
{
    const char *text = spt_jinja_chars(value), *whole = spt_jinja_chars(in);
    const cJSON *item;
    if (whole && text)
        return strstr(whole, text) != NULL;
    if (cJSON_IsObject(in))
        return text && cJSON_GetObjectItemCaseSensitive(in, text);
    if (!cJSON_IsArray(in)) {
        spt_jinja_fail(j, SPT_E_FORMAT, "'in' of what is no list or text");
        return false;
    }
    cJSON_ArrayForEach(item, in) if (spt_jinja_equal(item, value)) return true;
    return false;
}

static void print_number(double value, spt_buf *out)
{
    if (value == floor(value) && fabs(value) < 1e15)
        spt_buf_printf(out, "%.0f", value);
    else
        spt_buf_printf(out, "%.12g", value);
}

/* Inside a list or an object, as Python shows it. */
static void print_inner(const cJSON *value, spt_buf *out)
{
    const char *text = spt_jinja_chars(value);
    if (text)
        spt_buf_printf(out, "'%s'", text);
    else
        spt_jinja_print(value, out);
}

void spt_jinja_print(const cJSON *value, spt_buf *out)
{
    const cJSON *item;
    const char *text = spt_jinja_chars(value);
    if (!value)
        return;
    if (text) {
        spt_buf_puts(out, text);
    } else if (cJSON_IsNumber(value)) {
        print_number(value->valuedouble, out);
    } else if (cJSON_IsArray(value) || cJSON_IsObject(value)) {
        bool object = cJSON_IsObject(value);
        spt_buf_puts(out, object ? "{" : "[");
        cJSON_ArrayForEach(item, value)
        {
            spt_buf_puts(out, item == value->child ? "" : ", ");
            if (object)
                spt_buf_printf(out, "'%s': ", item->string);
            print_inner(item, out);
        }
        spt_buf_puts(out, object ? "}" : "]");
    } else {
        spt_buf_puts(out, cJSON_IsTrue(value)    ? "True"
                          : cJSON_IsFalse(value) ? "False"
                                                 : "None");
    }
}

/* Bytes of the character at p, whatever follows. */
static size_t character(const char *p)
{
    size_t n = 1;
    while (((unsigned char)p[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* A new list's item that refers to one that lives on. */
static bool refer(cJSON *list, const cJSON *item)
{
    return cJSON_AddItemReferenceToArray(list, (cJSON *)(uintptr_t)item);
}

const cJSON *spt_jinja_items(jinja *j, const cJSON *value)
{
    const char *text = spt_jinja_chars(value);
    if (cJSON_IsArray(value))
        return value;
    if (!text && !cJSON_IsObject(value))
        return spt_jinja_fail(j, SPT_E_FORMAT,
                              "a loop over what is no list, object or text");
    cJSON *list = cJSON_CreateArray();
    const cJSON *item;
    size_t bytes = 0;
    if (cJSON_IsObject(value)) {
        cJSON_ArrayForEach(item, value)
        {
            cJSON_AddItemToArray(list, cJSON_CreateString(item->string));
            bytes += sizeof *item;
        }
    }
    for (size_t n; text && *text; text += n) {
        char one[8] = {0};
        n = character(text);
        memcpy(one, text, n < sizeof one ? n : 0);
        cJSON_AddItemToArray(list, cJSON_CreateString(one));
        bytes += sizeof *item;
    }
    return spt_jinja_keep(j, list, bytes);
}

static int bound(const cJSON *value, int otherwise, int count)
{
    if (!cJSON_IsNumber(value))
        return otherwise;
    double at = value->valuedouble;
    at = at < 0 ? at + count : at;
    return !(at >= -1) ? -1 : at > count ? count : (int)at;
}

const cJSON *spt_jinja_slice(jinja *j, const cJSON *value, const cJSON *from,
                             const cJSON *to, const cJSON *step)
{
    const cJSON *list = spt_jinja_items(j, value);
    if (!list)
        return NULL;
    int count = cJSON_GetArraySize(list);
    int by = cJSON_IsNumber(step) ? step->valueint : 1;
    if (by != 1 && by != -1)
        return spt_jinja_fail(j, SPT_E_UNSUPPORTED, "a slice by %d", by);
    int first = bound(from, by > 0 ? 0 : count - 1, count);
    int end = bound(to, by > 0 ? count : -1, count);
    first = by > 0 && first < 0 ? 0 : first;
    first = by < 0 && first >= count ? count - 1 : first;
    cJSON *part = cJSON_CreateArray();
    int index = 0;
    /* A list is walked once; a slice backwards is turned round. */
    for (const cJSON *item = list->child; item; item = item->next, index++) {
        bool in = by > 0 ? index >= first && index < end
                         : index <= first && index > end;
        if (!in)
            continue;
        if (by > 0)
            refer(part, item);
        else
            cJSON_InsertItemInArray(part, 0, cJSON_Duplicate(item, true));
    }
    const cJSON *kept = spt_jinja_keep(
        j, part, sizeof *part * (size_t)cJSON_GetArraySize(part));
    if (!kept || !cJSON_IsString(value))
        return kept;
    spt_buf text = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, kept) spt_jinja_print(item, &text);
    kept = spt_jinja_text(j, text.data ? text.data : "", text.size);
    spt_buf_free(&text);
    return kept;
}

const cJSON *spt_jinja_index(jinja *j, const cJSON *value, const cJSON *index)
{
    const char *key = spt_jinja_chars(index);
    if (!value || cJSON_IsNull(value))
        return spt_jinja_fail(j, SPT_E_FORMAT, "%s has no fields",
                              value ? "none" : "what is undefined");
    if (key && cJSON_IsObject(value))
        return cJSON_GetObjectItemCaseSensitive(value, key);
    if (!cJSON_IsNumber(index) ||
        !(cJSON_IsArray(value) || cJSON_IsString(value)))
        return NULL;
    const cJSON *list = spt_jinja_items(j, value);
    int count = cJSON_GetArraySize(list);
    int at = index->valueint < 0 ? index->valueint + count : index->valueint;
    return at < 0 ? NULL : cJSON_GetArrayItem(list, at);
}
