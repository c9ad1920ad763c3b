#include "nvrtc_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *spt_nvrtc_absolute(const char *source)
{
    spt_buf out = {0};
    for (const char *line = source; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        const char *quote =
            strncmp(line, "#line ", 6) == 0 ? memchr(line, '"', n) : NULL;
        if (quote && quote[1] != '/') {
            size_t head = (size_t)(quote + 1 - line);
            spt_buf_add(&out, line, head);
            spt_buf_puts(&out, "/");
            spt_buf_add(&out, line + head, n - head);
        } else {
            spt_buf_add(&out, line, n);
        }
        line += n;
    }
    spt_buf_add(&out, "", 0);
    if (out.failed) {
        spt_buf_free(&out);
        return NULL;
    }
    return out.data;
}

void spt_nvrtc_relative(char *ptx)
{
    char *to = ptx;
    for (const char *line = ptx; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        const char *at = line + strspn(line, " \t");
        const char *quote =
            strncmp(at, ".file", 5) == 0 ? memchr(line, '"', n) : NULL;
        size_t head = quote && quote[1] == '/' ? (size_t)(quote + 1 - line) : n;
        memmove(to, line, head);
        to += head;
        if (head < n) {
            memmove(to, line + head + 1, n - head - 1);
            to += n - head - 1;
        }
        line += n;
    }
    *to = 0;
}

int spt_nvrtc_number(const char *log, const char *words)
{
    int largest = 0;
    for (const char *at = log; (at = strstr(at, words)) != NULL; at++) {
        const char *start = at;
        while (start > log && start[-1] == ' ')
            start--;
        while (start > log && start[-1] >= '0' && start[-1] <= '9')
            start--;
        int value = atoi(start);
        if (value > largest)
            largest = value;
    }
    return largest;
}

/*
 * The source position of a line of PTX: the last .loc before it. False when
 * there is none.
 */
static bool ptx_position(const char *ptx, int line, char *file, size_t size,
                         int *number)
{
    int index = 0, at_file;
    for (const char *at = ptx; line-- > 0 && *at; at += *at == '\n') {
        sscanf(at, " .loc %d %d", &index, number);
        at += strcspn(at, "\n");
    }
    for (const char *at = ptx; index && (at = strstr(at, ".file")); at++) {
        const char *quote = strchr(at, '"');
        if (!quote || sscanf(at, ".file %d", &at_file) != 1 || at_file != index)
            continue;
        quote += 1 + (quote[1] == '/');
        snprintf(file, size, "%.*s", (int)strcspn(quote, "\""), quote);
        return true;
    }
    return false;
}

/* An error of the assembler, "ptxas ..., line 28; error : text". */
static spt_status assembler_failed(const spt_kernel *k, const char *line,
                                   const char *ptx, spt_error *err)
{
    size_t n = strcspn(line, "\n");
    int ptx_line = 0, number = 0;
    char file[128] = "";
    const char *text = strstr(line, ": ");
    text = text && text < line + n ? text + 2 : line;
    const char *where = strstr(line, ", line ");
    if (where && where < line + n)
        ptx_line = atoi(where + 7);
    n -= (size_t)(text - line);
    if (ptx && ptx_line > 0 &&
        ptx_position(ptx, ptx_line, file, sizeof file, &number))
        return spt_fail(err, SPT_E_COMPILE, "%s:%d: ptxas: %.*s", file, number,
                        (int)n, text);
    return spt_fail(err, SPT_E_COMPILE, "%s for %s: ptxas: %.*s",
                    k->template_name, k->target, (int)n, text);
}

/* "/templates/x.cu(12): error: text" as "templates/x.cu:12: text". */
spt_status spt_nvrtc_fail(const spt_kernel *k, const char *log, const char *ptx,
                          spt_error *err)
{
    const char *at = strstr(log, "error");
    const char *line = at ? at : log;
    while (line > log && line[-1] != '\n')
        line--;
    size_t n = strcspn(line, "\n");
    if (strncmp(line, "ptxas", 5) == 0)
        return assembler_failed(k, line, ptx, err);
    const char *paren = memchr(line, '(', n);
    const char *text = strstr(line, ": error: ");
    if (paren && text && paren < text && text < line + n) {
        const char *file = line + (*line == '/');
        int name = (int)(paren - file), number = atoi(paren + 1);
        text += strlen(": error: ");
        return spt_fail(err, SPT_E_COMPILE, "%.*s:%d: %.*s", name, file, number,
                        (int)(line + n - text), text);
    }
    return spt_fail(err, SPT_E_COMPILE, "%s for %s: NVRTC: %.*s",
                    k->template_name, k->target, n ? (int)n : 10,
                    n ? line : "no message");
}
