/* What is wrong with a request, as an object of OpenAI's API. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

#include "serve_int.h"

static const struct code_row {
    const char *text;
    unsigned http;
    const char *type;
    bool names_field;
} codes[] = {
#define SERVE_CODE(NAME, text, http, type, names_field) \
    {text, http, type, names_field},
#include "codes.def"
#undef SERVE_CODE
};

spt_status spt_serve_wrong(serve_fault *fault, serve_code code,
                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    fault->code = code;
    return SPT_E_USAGE;
}

spt_status spt_serve_failed(serve_fault *fault, const spt_error *err)
{
    switch (err->status) {
    case SPT_E_USAGE:
    case SPT_E_FORMAT:
    case SPT_E_UNSUPPORTED:
        return spt_serve_wrong(fault, SERVE_REFUSED, "%s", err->text);
    case SPT_E_MEMORY:
        return spt_serve_wrong(fault, SERVE_BUSY, "%s", err->text);
    case SPT_E_CANCELLED:
        return spt_serve_wrong(fault, SERVE_STOPPING, "%s", err->text);
    default:
        return spt_serve_wrong(fault, SERVE_INTERNAL, "%s", err->text);
    }
}

unsigned spt_serve_http_status(const serve_fault *fault)
{
    return codes[fault->code].http;
}

/* What an error quotes may be no UTF-8, or end within a character. */
static void keep_utf8(char *text)
{
    utf8proc_int32_t character;
    for (utf8proc_ssize_t n; *text; text += n) {
        n = utf8proc_iterate((utf8proc_uint8_t *)text, -1, &character);
        if (n < 1) {
            *text = '?';
            n = 1;
        }
    }
}

static void add_or_null(cJSON *object, const char *name, const char *text)
{
    if (*text)
        cJSON_AddStringToObject(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

void spt_serve_reply_fault(const serve_fault *fault, spt_buf *out)
{
    const struct code_row *row = &codes[fault->code];
    serve_fault shown = *fault;
    char field[64] = "";
    keep_utf8(shown.text);
    if (row->names_field)
        snprintf(field, sizeof field, "%.*s", (int)strcspn(shown.text, ":"),
                 shown.text);
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    cJSON_AddStringToObject(error, "message", shown.text);
    cJSON_AddStringToObject(error, "type", row->type);
    add_or_null(error, "param", field);
    add_or_null(error, "code", row->text);
    spt_serve_print(root, out);
    cJSON_Delete(root);
}
