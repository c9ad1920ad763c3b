/*
 * CSV as spreadsheets write it (RFC 4180): a header, rows of as many cells,
 * quotes around cells that hold commas, quotes or line ends. Columns are
 * found by name, errors name file, line and column.
 */
#ifndef SPT_CSV_H
#define SPT_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "mem.h"

typedef struct spt_csv {
    spt_arena arena;
    const char *name; /* what errors call the file */
    const char **cells; /* rows * columns; the header is not among them */
    const int *lines; /* where each row starts */
    const char **header;
    size_t rows, columns;
} spt_csv;

/* Zero-initialise csv before; spt_csv_free after, also on failure. */
spt_status spt_csv_read(spt_csv *csv, const char *path, spt_error *err);
/* From bytes in memory; both are copied. */
spt_status spt_csv_parse(spt_csv *csv, const char *text, size_t size,
                         const char *name, spt_error *err);
void spt_csv_free(spt_csv *csv);

/* Index of a column, or -1. */
int spt_csv_column(const spt_csv *csv, const char *name);
/* True when the header has all of them (separated by blanks). */
bool spt_csv_has(const spt_csv *csv, const char *names);

/* The cell of a column that is known to exist. */
const char *spt_csv_text(const spt_csv *csv, size_t row, const char *column);
/* A number within bounds; an empty cell gives `empty`. */
spt_status spt_csv_number(const spt_csv *csv, size_t row, const char *column,
                          double min, double max, double empty, double *out,
                          spt_error *err);

#endif
