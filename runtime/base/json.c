#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

static spt_status bad_syntax(const char *name, const char *text, size_t size,
                             size_t at, spt_error *err)
{
    int line = 1, column = 1;
    if (at > size)
        at = size;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (at >= size)
        return spt_fail(err, SPT_E_FORMAT, "%s:%d:%d: JSON ends early", name,
                        line, column);
    char seen[8];
    unsigned char c = (unsigned char)text[at];
    snprintf(seen, sizeof seen, c >= 32 && c < 127 ? "'%c'" : "0x%02x", c);
    /* cJSON points at the last byte when the text ends too early. */
    return spt_fail(
        err, SPT_E_FORMAT, "%s:%d:%d: JSON %s %s here", name, line, column,
        at + 1 == size ? "ends early, or does not allow" : "does not allow",
        seen);
}

spt_status spt_json_parse(const char *text, size_t size, const char *name,
                          cJSON **root, spt_error *err)
{
    const char *end = NULL;
    cJSON *value = cJSON_ParseWithLengthOpts(text, size, &end, false);
    size_t at = end ? (size_t)(end - text) : 0;
    if (value) {
        while (at < size && strchr(" \t\r\n", text[at]) && text[at])
            at++;
        if (at == size) {
            *root = value;
            return SPT_OK;
        }
        cJSON_Delete(value);
    }
    return bad_syntax(name, text, size, at, err);
}

spt_status spt_json_read(const char *path, size_t max_bytes, cJSON **root,
                         spt_error *err)
{
    spt_buf text = {0};
    spt_status status = spt_file_read(path, max_bytes, &text, err);
    if (status == SPT_OK)
        status = spt_json_parse(text.data, text.size, path, root, err);
    spt_buf_free(&text);
    return status;
}

static const cJSON *get(const cJSON *object, const char *field)
{
    return cJSON_GetObjectItemCaseSensitive(object, field);
}

static spt_status wrong(const cJSON *item, const char *where, const char *field,
                        const char *expected, spt_error *err)
{
    if (!item)
        return spt_fail(err, SPT_E_FORMAT, "%s: %s: is missing, expected %s",
                        where, field, expected);
    return spt_fail(err, SPT_E_FORMAT, "%s: %s: expected %s", where, field,
                    expected);
}

spt_status spt_json_text(const cJSON *object, const char *where,
                         const char *field, const char **out, spt_error *err)
{
    const cJSON *item = get(object, field);
    if (!cJSON_IsString(item))
        return wrong(item, where, field, "a string", err);
    *out = item->valuestring;
    return SPT_OK;
}

spt_status spt_json_number(const cJSON *object, const char *where,
                           const char *field, double min, double max,
                           double *out, spt_error *err)
{
    const cJSON *item = get(object, field);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min) ||
        !(item->valuedouble <= max)) {
        char expected[80];
        snprintf(expected, sizeof expected, "a number from %.10g to %.10g", min,
                 max);
        return wrong(item, where, field, expected, err);
    }
    *out = item->valuedouble;
    return SPT_OK;
}

spt_status spt_json_int(const cJSON *object, const char *where,
                        const char *field, int64_t min, int64_t max,
                        int64_t *out, spt_error *err)
{
    const cJSON *item = get(object, field);
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    /* Past 2^53 a double no longer holds every integer. */
    if (!(fabs(v) <= 9007199254740992.0) || v != floor(v) || (int64_t)v < min ||
        (int64_t)v > max) {
        char expected[80];
        snprintf(expected, sizeof expected, "an integer from %lld to %lld",
                 (long long)min, (long long)max);
        return wrong(item, where, field, expected, err);
    }
    *out = (int64_t)v;
    return SPT_OK;
}

spt_status spt_json_bool(const cJSON *object, const char *where,
                         const char *field, bool *out, spt_error *err)
{
    const cJSON *item = get(object, field);
    if (!cJSON_IsBool(item))
        return wrong(item, where, field, "true or false", err);
    *out = cJSON_IsTrue(item);
    return SPT_OK;
}

spt_status spt_json_array(const cJSON *object, const char *where,
                          const char *field, const cJSON **out, spt_error *err)
{
    const cJSON *item = get(object, field);
    if (!cJSON_IsArray(item))
        return wrong(item, where, field, "an array", err);
    *out = item;
    return SPT_OK;
}

spt_status spt_json_object(const cJSON *object, const char *where,
                           const char *field, const cJSON **out, spt_error *err)
{
    const cJSON *item = get(object, field);
    if (!cJSON_IsObject(item))
        return wrong(item, where, field, "an object", err);
    *out = item;
    return SPT_OK;
}

bool spt_json_has(const cJSON *object, const char *field)
{
    const cJSON *item = get(object, field);
    return item && !cJSON_IsNull(item);
}

static bool listed(const char *fields, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = fields; *at;) {
        size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0)
            return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}

spt_status spt_json_only(const cJSON *object, const char *where,
                         const char *fields, spt_error *err)
{
    if (!cJSON_IsObject(object))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", where);
    for (const cJSON *item = object->child; item; item = item->next) {
        if (!listed(fields, item->string))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: unknown field '%.60s', expected one of: %s",
                            where, item->string, fields);
        if (get(object, item->string) != item)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: field '%.60s' is there twice", where,
                            item->string);
    }
    return SPT_OK;
}

static void print_string(const char *text, spt_buf *out)
{
    spt_buf_puts(out, "\"");
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            spt_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            spt_buf_puts(out, "\\n");
        else if (c < 32 || c == 127)
            spt_buf_printf(out, "\\u%04x", c);
        else
            spt_buf_add(out, at, 1);
    }
    spt_buf_puts(out, "\"");
}

static void print_number(double value, spt_buf *out)
{
    char text[40];
    if (!isfinite(value)) {
        spt_buf_puts(out, "null");
        return;
    }
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(text, sizeof text, "%.0f", value == 0 ? 0.0 : value);
    } else {
        for (int digits = 4; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
    }
    spt_buf_puts(out, text);
}

/* The value on one line, as it would stand inside a longer one. */
static void print_flat(const cJSON *value, spt_buf *out)
{
    bool object = cJSON_IsObject(value);
    if (cJSON_IsString(value)) {
        print_string(value->valuestring, out);
    } else if (cJSON_IsNumber(value)) {
        print_number(value->valuedouble, out);
    } else if (cJSON_IsBool(value)) {
        spt_buf_puts(out, cJSON_IsTrue(value) ? "true" : "false");
    } else if (object || cJSON_IsArray(value)) {
        spt_buf_puts(out, object ? "{" : "[");
        for (const cJSON *item = value->child; item; item = item->next) {
            if (object) {
                print_string(item->string, out);
                spt_buf_puts(out, ": ");
            }
            print_flat(item, out);
            if (item->next)
                spt_buf_puts(out, ", ");
        }
        spt_buf_puts(out, object ? "}" : "]");
    } else {
        spt_buf_puts(out, "null");
    }
}

/* depth: indent; used: columns of the line that are taken already. */
static void print_value(const cJSON *value, int depth, size_t used,
                        spt_buf *out)
{
    bool object = cJSON_IsObject(value);
    size_t start = out->size;
    print_flat(value, out);
    if ((!object && !cJSON_IsArray(value)) || !value->child ||
        (used + out->size - start <= 79 && depth > 0) || out->failed)
        return;
    out->size = start;
    spt_buf_puts(out, object ? "{" : "[");
    for (const cJSON *item = value->child; item; item = item->next) {
        spt_buf_printf(out, "\n%*s", 2 * (depth + 1), "");
        size_t line = out->size;
        if (object) {
            print_string(item->string, out);
            spt_buf_puts(out, ": ");
        }
        print_value(item, depth + 1,
                    (size_t)(2 * (depth + 1)) + out->size - line, out);
        if (item->next)
            spt_buf_puts(out, ",");
    }
    spt_buf_printf(out, "\n%*s%s", 2 * depth, "", object ? "}" : "]");
}

void spt_json_print(const cJSON *value, spt_buf *out)
{
    print_value(value, 0, 0, out);
}

spt_status spt_json_write(const char *path, const cJSON *value, spt_error *err)
{
    spt_buf text = {0};
    spt_status status;
    spt_json_print(value, &text);
    spt_buf_puts(&text, "\n");
    if (text.failed)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    else
        status = spt_file_write(path, text.data, text.size, err);
    spt_buf_free(&text);
    return status;
}

double spt_round4(double value)
{
    char text[40];
    if (!isfinite(value))
        return value;
    snprintf(text, sizeof text, "%.4g", value);
    return strtod(text, NULL);
}

void spt_json_add4(cJSON *object, const char *field, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, field, spt_round4(value));
    else
        cJSON_AddNullToObject(object, field);
}

void spt_json_add_text(cJSON *object, const char *field, spt_text text)
{
    spt_buf copy = {0};
    for (size_t i = 0; i < text.size; i++)
        spt_buf_add(&copy, text.data[i] ? text.data + i : "\xef\xbf\xbd",
                    text.data[i] ? 1 : 3);
    cJSON_AddStringToObject(object, field, copy.data ? copy.data : "");
    spt_buf_free(&copy);
}
