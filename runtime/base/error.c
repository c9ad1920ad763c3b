#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One line, whatever names and words it quotes. */
static void keep_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

spt_status spt_fail(spt_error *err, spt_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    keep_one_line(err->text);
    err->status = status;
    return status;
}

spt_status spt_fail_in(spt_error *err, const char *prefix)
{
    if (!err)
        return SPT_E_INTERNAL;
    char text[sizeof err->text];
    memcpy(text, err->text, sizeof text);
    snprintf(err->text, sizeof err->text, "%.256s: %.760s", prefix, text);
    keep_one_line(err->text);
    return err->status;
}

const char *spt_status_text(spt_status status)
{
    switch (status) {
#define SPT_STATUS(name, value, text) \
    case SPT_##name:                  \
        return text;
#include "status.def"
#undef SPT_STATUS
    }
    return "unknown status";
}

const char *spt_version(void)
{
    return SPT_VERSION;
}
