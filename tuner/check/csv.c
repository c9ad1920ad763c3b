#include "csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

enum { MAX_BYTES = 64 << 20, MAX_COLUMNS = 256 };

typedef struct reader {
    spt_csv *csv;
    const char *at, *end;
    int line;
    spt_buf cells; /* char pointers */
    spt_buf lines; /* ints */
    spt_error *err;
} reader;

static spt_status bad(const reader *r, int line, const char *what)
{
    return spt_fail(r->err, SPT_E_FORMAT, "%s:%d: %s", r->csv->name, line,
                    what);
}

/* The part between quotes, each pair of quotes inside it made one. */
static spt_status quoted(reader *r, spt_buf *text)
{
    int start = r->line;
    for (r->at++; r->at < r->end; r->at++) {
        if (*r->at == '\n')
            r->line++;
        if (*r->at != '"') {
            spt_buf_add(text, r->at, 1);
            continue;
        }
        r->at++;
        if (r->at == r->end || *r->at != '"')
            return SPT_OK;
        spt_buf_add(text, r->at, 1);
    }
    return bad(r, start, "a quote that nothing closes");
}

static bool ends_cell(const reader *r)
{
    return r->at == r->end || *r->at == ',' || *r->at == '\n' || *r->at == '\r';
}

static spt_status cell(reader *r)
{
    spt_buf text = {0};
    spt_status status = SPT_OK;
    if (r->at < r->end && *r->at == '"')
        status = quoted(r, &text);
    else
        for (; !ends_cell(r); r->at++)
            spt_buf_add(&text, r->at, 1);
    if (status == SPT_OK && !ends_cell(r))
        status = bad(r, r->line, "text after a closing quote, expected ','");
    if (status == SPT_OK && text.data && memchr(text.data, 0, text.size))
        status = bad(r, r->line, "a NUL byte, expected text");
    const char *kept =
        spt_arena_strdup(&r->csv->arena, text.data ? text.data : "", text.size);
    if (status == SPT_OK && (!kept || text.failed))
        status =
            spt_fail(r->err, SPT_E_MEMORY, "%s: out of memory", r->csv->name);
    spt_buf_add(&r->cells, &kept, sizeof kept);
    spt_buf_free(&text);
    return status;
}

/* One line; an empty one is left out. Sets *count to its cells. */
static spt_status row(reader *r, size_t *count)
{
    int line = r->line;
    *count = 0;
    if (*r->at != '\n' && *r->at != '\r') {
        spt_buf_add(&r->lines, &line, sizeof line);
        for (;;) {
            SPT_TRY(cell(r));
            if (++*count > MAX_COLUMNS)
                return bad(r, line, "more than 256 columns");
            if (r->at == r->end || *r->at != ',')
                break;
            r->at++;
        }
    }
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end && *r->at == '\n')
        r->at++, r->line++;
    return SPT_OK;
}

static spt_status rows(reader *r)
{
    spt_csv *csv = r->csv;
    while (r->at < r->end) {
        int line = r->line;
        size_t count;
        SPT_TRY(row(r, &count));
        if (!count)
            continue;
        if (!csv->columns)
            csv->columns = count;
        if (count != csv->columns)
            return spt_fail(r->err, SPT_E_FORMAT,
                            "%s:%d: %zu cells, expected %zu as in the header",
                            csv->name, line, count, csv->columns);
        csv->rows++;
    }
    if (!csv->rows)
        return spt_fail(r->err, SPT_E_FORMAT,
                        "%s: empty, expected a header and rows", csv->name);
    csv->rows--; /* the header */
    return SPT_OK;
}

spt_status spt_csv_parse(spt_csv *csv, const char *text, size_t size,
                         const char *name, spt_error *err)
{
    reader r = {.csv = csv, .line = 1, .err = err};
    csv->name = spt_arena_strdup(&csv->arena, name, strlen(name));
    if (!csv->name)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    r.at = text;
    r.end = text + size;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    spt_status status = rows(&r);
    if (status == SPT_OK) {
        size_t bytes = r.cells.size, n = r.lines.size;
        char *cells = spt_arena_alloc(&csv->arena, 1, bytes);
        char *lines = spt_arena_alloc(&csv->arena, 1, n);
        if (!cells || !lines || r.cells.failed || r.lines.failed) {
            status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
        } else {
            memcpy(cells, r.cells.data, bytes);
            memcpy(lines, r.lines.data, n);
            csv->header = (const char **)(void *)cells;
            csv->cells = csv->header + csv->columns;
            csv->lines = (const int *)(void *)lines + 1;
        }
    }
    spt_buf_free(&r.cells);
    spt_buf_free(&r.lines);
    return status;
}

spt_status spt_csv_read(spt_csv *csv, const char *path, spt_error *err)
{
    spt_buf text = {0};
    spt_status status = spt_file_read(path, MAX_BYTES, &text, err);
    if (status == SPT_OK)
        status = spt_csv_parse(csv, text.data ? text.data : "", text.size, path,
                               err);
    spt_buf_free(&text);
    return status;
}

void spt_csv_free(spt_csv *csv)
{
    spt_arena_free(&csv->arena);
    memset(csv, 0, sizeof *csv);
}

int spt_csv_column(const spt_csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++)
        if (strcmp(csv->header[i], name) == 0)
            return (int)i;
    return -1;
}

bool spt_csv_has(const spt_csv *csv, const char *names)
{
    char list[512], *rest = list;
    snprintf(list, sizeof list, "%s", names);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;)
        if (spt_csv_column(csv, name) < 0)
            return false;
    return true;
}

const char *spt_csv_text(const spt_csv *csv, size_t row, const char *column)
{
    return csv->cells[row * csv->columns + (size_t)spt_csv_column(csv, column)];
}

spt_status spt_csv_number(const spt_csv *csv, size_t row, const char *column,
                          double min, double max, double empty, double *out,
                          spt_error *err)
{
    const char *text = spt_csv_text(csv, row, column);
    char *end;
    if (!*text) {
        *out = empty;
        return SPT_OK;
    }
    double value = strtod(text, &end);
    if (*end || end == text || !isfinite(value) || value < min || value > max)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s:%d: %s is '%.40s', expected a number from %g to %g",
                        csv->name, csv->lines[row], column, text, min, max);
    *out = value;
    return SPT_OK;
}
