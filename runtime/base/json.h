/*
 * JSON over cJSON: reading with errors that name file, line and field, and
 * printing that gives the same bytes for the same content.
 *
 * The getters take `where`, the words an error starts with ("pack.json" or
 * "pack.json: kernels[3]"). They write *out only on success.
 */
#ifndef SPT_JSON_H
#define SPT_JSON_H

#include <cJSON.h>

#include "error.h"
#include "mem.h"
#include "text.h"

/* Parses a file whole; SPT_E_FORMAT says "path:line:column: ...". */
spt_status spt_json_read(const char *path, size_t max_bytes, cJSON **root,
                         spt_error *err);
spt_status spt_json_parse(const char *text, size_t size, const char *name,
                          cJSON **root, spt_error *err);

/* Required fields of an object; a missing or wrong one is SPT_E_FORMAT. */
spt_status spt_json_text(const cJSON *object, const char *where,
                         const char *field, const char **out, spt_error *err);
spt_status spt_json_number(const cJSON *object, const char *where,
                           const char *field, double min, double max,
                           double *out, spt_error *err);
spt_status spt_json_int(const cJSON *object, const char *where,
                        const char *field, int64_t min, int64_t max,
                        int64_t *out, spt_error *err);
spt_status spt_json_bool(const cJSON *object, const char *where,
                         const char *field, bool *out, spt_error *err);
spt_status spt_json_array(const cJSON *object, const char *where,
                          const char *field, const cJSON **out, spt_error *err);
spt_status spt_json_object(const cJSON *object, const char *where,
                           const char *field, const cJSON **out,
                           spt_error *err);

/* True when the field is there and not null. */
bool spt_json_has(const cJSON *object, const char *field);

/*
 * Fails on a field that is not in `fields` (separated by blanks), and on one
 * that is there twice.
 */
spt_status spt_json_only(const cJSON *object, const char *where,
                         const char *fields, spt_error *err);

/*
 * Appends the value as text: fields in their order, two blanks of indent,
 * what fits into 80 columns on one line, integers in full, other numbers with
 * as few digits as give the same double. Ends without a newline.
 */
void spt_json_print(const cJSON *value, spt_buf *out);

/* Writes the value and a newline as a whole file. */
spt_status spt_json_write(const char *path, const cJSON *value, spt_error *err);

/* The number with four significant decimal digits. */
double spt_round4(double value);

/* Adds the number rounded to four digits; null when it is not finite. */
void spt_json_add4(cJSON *object, const char *field, double value);

/* Adds a text that may have NULs, which cJSON cannot hold, as U+FFFD. */
void spt_json_add_text(cJSON *object, const char *field, spt_text text);

#endif
