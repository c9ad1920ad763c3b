#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void spt_log_line(const spt_log *log, const char *fmt, ...)
{
    if (!log || !log->line)
        return;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log->line(log->user, text);
}
