/*
 * The file of step times: a sealed JSON object with what the times hold for
 * and one entry per cell. Several processes may keep theirs in one file.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "hash.h"
#include "json.h"
#include "sealed.h"
#include "step_times.h"

static const char KIND[] = "spectune-steps-1", SCHEMA[] = "spectune.steps/1";
static const char MEASURED[] = "measured";

enum {
    FILE_MAX = 4 << 20,
    LAST_CONTEXT = SPT_STEP_CONTEXT << (SPT_STEP_CONTEXTS - 1),
    LAST_BATCH = 1 << (SPT_STEP_BATCHES - 1),
};

void spt_step_key_hash(const spt_step_key *key, char *hex)
{
    spt_buf text = {0};
#define SPT_STEP_KEY(field) spt_buf_printf(&text, "%s\n", key->field);
    SPT_STEP_KEYS(SPT_STEP_KEY)
#undef SPT_STEP_KEY
    spt_sha256(text.data, text.failed ? 0 : text.size, hex);
    spt_buf_free(&text);
}

static void add_cells(cJSON *array, const spt_step_times *t, int b, int c)
{
    for (int r = 0; r < SPT_DRAFT_NODES; r++) {
        const spt_step_cell *cell = &t->cell[b][c][r];
        if (!cell->steps)
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "batch", 1 << b);
        cJSON_AddNumberToObject(o, "context", SPT_STEP_CONTEXT << c);
        cJSON_AddNumberToObject(o, "rows", r + 1);
        cJSON_AddNumberToObject(o, "us", cell->us);
        cJSON_AddNumberToObject(o, "steps", cell->steps);
        cJSON_AddItemToArray(array, o);
    }
}

static spt_status write_all(const char *path, const spt_step_key *key,
                            const spt_step_times *t, spt_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", SCHEMA);
#define SPT_STEP_KEY(field) cJSON_AddStringToObject(root, #field, key->field);
    SPT_STEP_KEYS(SPT_STEP_KEY)
#undef SPT_STEP_KEY
    cJSON *array = cJSON_AddArrayToObject(root, "cells");
    for (int b = 0; b < SPT_STEP_BATCHES; b++)
        for (int c = 0; c < SPT_STEP_CONTEXTS; c++)
            add_cells(array, t, b, c);
    spt_buf text = {0};
    spt_json_print(root, &text);
    spt_buf_add(&text, "\n", 1);
    cJSON_Delete(root);
    spt_status status =
        text.failed ? spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path)
                    : spt_sealed_write(path, KIND, text.data, text.size, err);
    spt_buf_free(&text);
    return status;
}

/* Whatever is not measured never takes the place of what is. */
static spt_status check_evidence(const cJSON *root, const char *path,
                                 const spt_step_key *key, spt_error *err)
{
    const char *evidence;
    SPT_TRY(spt_json_text(root, path, "evidence", &evidence, err));
    if (strcmp(evidence, MEASURED) == 0 && strcmp(key->evidence, MEASURED) != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "%s: has measured times of steps, expected another "
                        "file for %.40s ones",
                        path, key->evidence);
    return SPT_OK;
}

static spt_status check_key(const cJSON *root, const char *path,
                            const spt_step_key *key, spt_error *err)
{
    const struct {
        const char *field, *value;
    } fields[] = {{"schema", SCHEMA},
#define SPT_STEP_KEY(field) {#field, key->field},
                  SPT_STEP_KEYS(SPT_STEP_KEY)
#undef SPT_STEP_KEY
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *text;
        SPT_TRY(spt_json_text(root, path, fields[i].field, &text, err));
        if (strcmp(text, fields[i].value) != 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: times of steps for %s %.80s, not %.80s", path,
                            fields[i].field, text, fields[i].value);
    }
    return SPT_OK;
}

static spt_status read_cell(const cJSON *o, const char *path, spt_step_times *t,
                            spt_error *err)
{
    int64_t batch, context, rows, steps;
    double us;
    SPT_TRY(spt_json_int(o, path, "batch", 1, LAST_BATCH, &batch, err));
    SPT_TRY(spt_json_int(o, path, "context", SPT_STEP_CONTEXT, LAST_CONTEXT,
                         &context, err));
    SPT_TRY(spt_json_int(o, path, "rows", 1, SPT_DRAFT_NODES, &rows, err));
    SPT_TRY(spt_json_int(o, path, "steps", 1, UINT32_MAX, &steps, err));
    SPT_TRY(spt_json_number(o, path, "us", SPT_STEP_US_MIN, SPT_STEP_US_MAX,
                            &us, err));
    *spt_step_times_at(t, (int)batch, (int)context, (int)rows) =
        (spt_step_cell){.steps = (uint32_t)steps, .us = us};
    return SPT_OK;
}

static spt_status take_cells(const cJSON *root, const char *path,
                             const spt_step_key *key, spt_step_times *t,
                             spt_error *err)
{
    const cJSON *array, *o;
    SPT_TRY(check_evidence(root, path, key, err));
    SPT_TRY(check_key(root, path, key, err));
    SPT_TRY(spt_json_array(root, path, "cells", &array, err));
    cJSON_ArrayForEach(o, array) SPT_TRY(read_cell(o, path, t, err));
    return SPT_OK;
}

/* Into an empty table. */
static spt_status read_all(const char *path, const spt_step_key *key,
                           spt_step_times *t, spt_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return spt_fail(err, SPT_E_USAGE,
                        "%s: is no file, expected one for times of steps",
                        path);
    spt_buf text = {0};
    cJSON *root = NULL;
    spt_status status = spt_sealed_read(path, KIND, FILE_MAX, &text, err);
    if (status == SPT_OK)
        status = spt_json_parse(text.data, text.size, path, &root, err);
    if (status == SPT_OK)
        status = take_cells(root, path, key, t, err);
    cJSON_Delete(root);
    spt_buf_free(&text);
    return status;
}

static void keep(spt_step_times *t)
{
    memcpy(t->kept, t->cell, sizeof t->kept);
}

spt_status spt_step_times_read(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err)
{
    spt_step_times *found = spt_calloc(1, sizeof *found);
    if (!found)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    spt_status status = read_all(path, key, found, err);
    if (status == SPT_OK) {
        memcpy(t->cell, found->cell, sizeof t->cell);
        memset(t->clock, 0, sizeof t->clock);
        keep(t);
    }
    spt_free(found);
    return status;
}

/* With the lock held, or in vain waited for: what is there counts as well. */
static spt_status save(const char *path, const spt_step_key *key,
                       spt_step_times *t, spt_step_times *there, spt_error *err)
{
    spt_status status = read_all(path, key, there, err);
    if (status == SPT_E_USAGE)
        return status;
    if (status == SPT_OK)
        spt_step_times_merge(t, there);
    SPT_TRY(write_all(path, key, t, err));
    keep(t);
    return SPT_OK;
}

spt_status spt_step_times_save(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err)
{
    spt_step_times *there = spt_calloc(1, sizeof *there);
    if (!there)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    int lock = spt_file_lock(path);
    spt_status status = save(path, key, t, there, err);
    spt_file_unlock(lock);
    spt_free(there);
    return status;
}
