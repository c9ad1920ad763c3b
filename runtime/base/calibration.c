#include "calibration.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char schema[] = "spectune.calibration/1";
static const char generic[] = "generic";
static const char *const operator_names[] = {"attention", "gemm"};
enum { FILE_MAX = 1 << 20 };

/* Distances of an entry from a board. */
enum { OWN = 0, NEAR = 1, GENERIC = 100, NEVER = 1000 };

const spt_time_constant spt_time_constant_rows[SPT_TIME_CONSTANTS] = {
#define SPT_TIME_CONSTANT(field, op, unit, min, max, start, meaning) \
    {#field, unit, meaning, SPT_TIME_##op, min, max, start},
#include "time_constants.def"
#undef SPT_TIME_CONSTANT
};

static const size_t offsets[SPT_TIME_CONSTANTS] = {
#define SPT_TIME_CONSTANT(field, ...) offsetof(spt_time_constants, field),
#include "time_constants.def"
#undef SPT_TIME_CONSTANT
};

double *spt_time_constant_at(spt_time_constants *c, int row)
{
    return (double *)((char *)c + offsets[row]);
}

void spt_time_constants_start(spt_time_constants *c)
{
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++)
        *spt_time_constant_at(c, i) = spt_time_constant_rows[i].start;
}

static spt_status read_name(const cJSON *json, const char *where, char *name,
                            size_t size, spt_error *err)
{
    const char *text;
    SPT_TRY(spt_json_text(json, where, "board", &text, err));
    if (!*text || strlen(text) >= size)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: board '%.40s': expected 1 to %zu characters",
                        where, text, size - 1);
    memcpy(name, text, strlen(text) + 1);
    return SPT_OK;
}

static spt_status read_cc(const cJSON *json, const char *where,
                          spt_calibration_entry *e, spt_error *err)
{
    const cJSON *list;
    SPT_TRY(spt_json_array(json, where, "cc", &list, err));
    const cJSON *major = cJSON_GetArrayItem(list, 0);
    const cJSON *minor = cJSON_GetArrayItem(list, 1);
    if (cJSON_GetArraySize(list) != 2 || !cJSON_IsNumber(major) ||
        !cJSON_IsNumber(minor) || major->valueint < 0 || major->valueint > 99 ||
        minor->valueint < 0 || minor->valueint > 9)
        return spt_fail(err, SPT_E_FORMAT, "%s: cc: expected [major, minor]",
                        where);
    e->cc_major = major->valueint;
    e->cc_minor = minor->valueint;
    return SPT_OK;
}

static spt_status read_fitted(const cJSON *json, const char *where,
                              spt_calibration_entry *e, spt_error *err)
{
    const cJSON *fitted, *op;
    SPT_TRY(spt_json_object(json, where, "fitted", &fitted, err));
    SPT_TRY(spt_json_only(fitted, where, "attention gemm", err));
    for (int i = 0; i < SPT_TIME_OPERATORS; i++) {
        int64_t rows = 0;
        if (!spt_json_has(fitted, operator_names[i]))
            continue;
        SPT_TRY(spt_json_object(fitted, where, operator_names[i], &op, err));
        SPT_TRY(spt_json_only(op, where, "rows mape", err));
        SPT_TRY(spt_json_int(op, where, "rows", 1, 1 << 28, &rows, err));
        SPT_TRY(spt_json_number(op, where, "mape", 0, 1e6, &e->mape[i], err));
        e->rows[i] = (int)rows;
    }
    return SPT_OK;
}

static spt_status read_constants(const cJSON *json, const char *where,
                                 spt_time_constants *c, spt_error *err)
{
    static const char fields[] =
#define SPT_TIME_CONSTANT(field, ...) #field " "
#include "time_constants.def"
#undef SPT_TIME_CONSTANT
        ;
    const cJSON *object;
    SPT_TRY(spt_json_object(json, where, "constants", &object, err));
    SPT_TRY(spt_json_only(object, where, fields, err));
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++) {
        const spt_time_constant *row = &spt_time_constant_rows[i];
        SPT_TRY(spt_json_number(object, where, row->field, row->min, row->max,
                                spt_time_constant_at(c, i), err));
    }
    return SPT_OK;
}

static spt_status read_entry(const cJSON *json, const char *where,
                             spt_calibration *out, spt_error *err)
{
    if (!cJSON_IsObject(json))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", where);
    spt_calibration_entry *e = &out->entries[out->count];
    *e = (spt_calibration_entry){0};
    SPT_TRY(spt_json_only(json, where, "board cc fitted constants", err));
    SPT_TRY(read_name(json, where, e->constants.fitted_on,
                      sizeof e->constants.fitted_on, err));
    SPT_TRY(read_cc(json, where, e, err));
    SPT_TRY(read_fitted(json, where, e, err));
    SPT_TRY(read_constants(json, where, &e->constants, err));
    for (int i = 0; i < out->count; i++)
        if (strcmp(out->entries[i].constants.fitted_on,
                   e->constants.fitted_on) == 0)
            return spt_fail(err, SPT_E_FORMAT, "%s: board '%s' twice", where,
                            e->constants.fitted_on);
    out->count++;
    return SPT_OK;
}

static spt_status read_root(const cJSON *root, const char *name,
                            spt_calibration *out, spt_error *err)
{
    const char *text;
    const cJSON *list, *item;
    if (!cJSON_IsObject(root))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", name);
    SPT_TRY(spt_json_only(root, name, "schema source boards", err));
    SPT_TRY(spt_json_text(root, name, "schema", &text, err));
    if (strcmp(text, schema) != 0)
        return spt_fail(err, SPT_E_FORMAT, "%s: schema '%.40s': expected %s",
                        name, text, schema);
    SPT_TRY(spt_json_text(root, name, "source", &text, err));
    snprintf(out->source, sizeof out->source, "%s", text);
    SPT_TRY(spt_json_array(root, name, "boards", &list, err));
    if (cJSON_GetArraySize(list) > SPT_CALIBRATION_MAX)
        return spt_fail(err, SPT_E_FORMAT, "%s: boards: more than %d", name,
                        SPT_CALIBRATION_MAX);
    cJSON_ArrayForEach(item, list)
    {
        char where[160];
        snprintf(where, sizeof where, "%.120s: boards[%d]", name, out->count);
        SPT_TRY(read_entry(item, where, out, err));
    }
    return SPT_OK;
}

spt_status spt_calibration_parse(const char *text, size_t size,
                                 const char *name, spt_calibration *out,
                                 spt_error *err)
{
    cJSON *root;
    *out = (spt_calibration){0};
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    spt_status status = read_root(root, name, out, err);
    cJSON_Delete(root);
    return status;
}

spt_status spt_calibration_read(const char *path, spt_calibration *out,
                                spt_error *err)
{
    cJSON *root;
    *out = (spt_calibration){0};
    SPT_TRY(spt_json_read(path, FILE_MAX, &root, err));
    spt_status status = read_root(root, path, out, err);
    cJSON_Delete(root);
    return status;
}

static cJSON *entry_json(const spt_calibration_entry *e)
{
    spt_time_constants constants = e->constants;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "board", constants.fitted_on);
    cJSON *cc = cJSON_AddArrayToObject(o, "cc");
    cJSON_AddItemToArray(cc, cJSON_CreateNumber(e->cc_major));
    cJSON_AddItemToArray(cc, cJSON_CreateNumber(e->cc_minor));
    cJSON *fitted = cJSON_AddObjectToObject(o, "fitted");
    for (int i = 0; i < SPT_TIME_OPERATORS; i++) {
        if (!e->rows[i])
            continue;
        cJSON *op = cJSON_AddObjectToObject(fitted, operator_names[i]);
        cJSON_AddNumberToObject(op, "rows", e->rows[i]);
        spt_json_add4(op, "mape", e->mape[i]);
    }
    cJSON *c = cJSON_AddObjectToObject(o, "constants");
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++)
        spt_json_add4(c, spt_time_constant_rows[i].field,
                      *spt_time_constant_at(&constants, i));
    return o;
}

cJSON *spt_calibration_json(const spt_calibration *c)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", schema);
    cJSON_AddStringToObject(root, "source", c->source);
    cJSON *list = cJSON_AddArrayToObject(root, "boards");
    for (int i = 0; i < c->count; i++)
        cJSON_AddItemToArray(list, entry_json(&c->entries[i]));
    return root;
}

spt_status spt_calibration_write(const char *path, const spt_calibration *c,
                                 spt_error *err)
{
    cJSON *root = spt_calibration_json(c);
    spt_status status = spt_json_write(path, root, err);
    cJSON_Delete(root);
    return status;
}

/* Compute capabilities with the same matrix instructions and limits. */
static int sm_kind(int major, int minor)
{
    bool small = major == 12 || (major == 8 && minor >= 6);
    return small ? 12 : major;
}

static int distance(const spt_board *board, const spt_calibration_entry *e)
{
    if (strcmp(e->constants.fitted_on, generic) == 0)
        return GENERIC;
    if (strcmp(e->constants.fitted_on, board->name) == 0)
        return OWN;
    int kind = sm_kind(board->cc_major, board->cc_minor);
    if (kind != sm_kind(e->cc_major, e->cc_minor))
        return NEVER;
    return NEAR + abs(10 * (e->cc_major - board->cc_major) + e->cc_minor -
                      board->cc_minor);
}

bool spt_calibrate(spt_board *board, const spt_calibration *c)
{
    int nearest = NEVER;
    for (int i = 0; i < c->count; i++) {
        int d = distance(board, &c->entries[i]);
        if (d >= nearest)
            continue;
        nearest = d;
        board->time = c->entries[i].constants;
        board->time.attention_mape = c->entries[i].mape[SPT_TIME_ATTENTION];
        board->time.gemm_mape = c->entries[i].mape[SPT_TIME_GEMM];
    }
    return nearest < NEVER;
}
