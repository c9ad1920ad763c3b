#include "step_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "json.h"
#include "sealed.h"

static const char KIND[] = "spectune-steps-1", SCHEMA[] = "spectune.steps/1";

enum {
    SEEDS = 8, /* first times, of which the lowest counts */
    ENOUGH = 3, /* times that a cell needs to be believed */
    FOLLOW = 16, /* then each moves it by this part of the difference */
    FIRST_CONTEXT = 256,
    FILE_MAX = 4 << 20,
};

/* A time that counts for more than this over the cell's is cut. */
static const double STALL = 1.25;

typedef spt_step_cell cells[SPT_DRAFT_NODES];

static int bucket(int value, int first, int count)
{
    int i = 0;
    while (i + 1 < count && (int64_t)first << i < value)
        i++;
    return i;
}

static int batch_bucket(int batch)
{
    return bucket(batch, 1, SPT_STEP_BATCHES);
}

static int context_bucket(int context)
{
    return bucket(context, FIRST_CONTEXT, SPT_STEP_CONTEXTS);
}

void spt_step_times_note(spt_step_times *t, int batch, int context, int rows,
                         double us)
{
    int per_sequence = (rows + batch - 1) / batch;
    if (per_sequence < 1 || per_sequence > SPT_DRAFT_NODES || !(us > 0))
        return;
    spt_step_cell *c = &t->cell[batch_bucket(batch)][context_bucket(context)]
                               [per_sequence - 1];
    if (c->steps < SEEDS)
        c->us = c->steps ? fmin(c->us, us) : us;
    else
        c->us += (fmin(us, c->us * STALL) - c->us) / FOLLOW;
    if (c->steps < UINT32_MAX)
        c->steps++;
    t->notes++;
}

static int rows_of(const spt_step_model *m, int draft_length)
{
    int rows = 1 + draft_length * (m->branches > 1 ? m->branches : 1);
    return rows < SPT_DRAFT_NODES ? rows : SPT_DRAFT_NODES;
}

/* The draft length whose step has about so many rows. */
static int length_of(const spt_step_model *m, int rows)
{
    return (rows - 1) / (m->branches > 1 ? m->branches : 1);
}

/* Rows, nearest to those, that were timed; 0 = none. Fewer on a tie. */
static int nearest_rows(const cells *c, int rows)
{
    int best = 0;
    for (int r = 1; r <= SPT_DRAFT_NODES; r++)
        if ((*c)[r - 1].steps >= ENOUGH &&
            (!best || abs(r - rows) < abs(best - rows)))
            best = r;
    return best;
}

/* The context bucket nearest to that one in which anything was timed. */
static int nearest_context(const cells *of_batch, int context)
{
    for (int away = 0; away < SPT_STEP_CONTEXTS; away++)
        for (int side = -1; side <= 1; side += 2) {
            int i = context + side * away;
            if (i >= 0 && i < SPT_STEP_CONTEXTS &&
                nearest_rows(&of_batch[i], 1))
                return i;
        }
    return -1;
}

/* A context of the bucket, for the model. */
static int context_in(int i)
{
    return FIRST_CONTEXT << i;
}

bool spt_step_times_get(const spt_step_times *t, const spt_step_model *m,
                        int batch, int context, int max, double *times)
{
    const cells *of_batch = t->cell[batch_bucket(batch)];
    int own = context_bucket(context), from = nearest_context(of_batch, own);
    for (int d = 0; d <= max && m->us; d++)
        times[d] = m->us(m->user, batch, context, d);
    if (from < 0)
        return m->us != NULL;
    int then = from == own ? context : context_in(from);
    for (int d = 0; d <= max; d++) {
        int rows = rows_of(m, d), near = nearest_rows(&of_batch[from], rows);
        double us = of_batch[from][near - 1].us;
        bool taken = from == own && near == rows;
        if (taken || !m->us)
            times[d] = us;
        else
            times[d] *= us / m->us(m->user, batch, then, length_of(m, near));
    }
    return true;
}

static void add_cells(cJSON *array, const spt_step_times *t, int b, int c)
{
    for (int r = 0; r < SPT_DRAFT_NODES; r++) {
        const spt_step_cell *cell = &t->cell[b][c][r];
        if (!cell->steps)
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "batch", 1 << b);
        cJSON_AddNumberToObject(o, "context", context_in(c));
        cJSON_AddNumberToObject(o, "rows", r + 1);
        cJSON_AddNumberToObject(o, "us", cell->us);
        cJSON_AddNumberToObject(o, "steps", cell->steps);
        cJSON_AddItemToArray(array, o);
    }
}

spt_status spt_step_times_write(const char *path, const spt_step_key *key,
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
    SPT_TRY(spt_json_int(o, path, "batch", 1, 1 << (SPT_STEP_BATCHES - 1),
                         &batch, err));
    SPT_TRY(spt_json_int(o, path, "context", FIRST_CONTEXT,
                         context_in(SPT_STEP_CONTEXTS - 1), &context, err));
    SPT_TRY(spt_json_int(o, path, "rows", 1, SPT_DRAFT_NODES, &rows, err));
    SPT_TRY(spt_json_int(o, path, "steps", 1, UINT32_MAX, &steps, err));
    SPT_TRY(spt_json_number(o, path, "us", 1e-3, 1e12, &us, err));
    t->cell[batch_bucket((int)batch)][context_bucket((int)context)][rows - 1] =
        (spt_step_cell){(uint32_t)steps, us};
    return SPT_OK;
}

static spt_status read_all(const cJSON *root, const char *path,
                           const spt_step_key *key, spt_step_times *t,
                           spt_error *err)
{
    const cJSON *array, *o;
    SPT_TRY(check_key(root, path, key, err));
    SPT_TRY(spt_json_array(root, path, "cells", &array, err));
    cJSON_ArrayForEach(o, array) SPT_TRY(read_cell(o, path, t, err));
    return SPT_OK;
}

spt_status spt_step_times_read(const char *path, const spt_step_key *key,
                               spt_step_times *t, spt_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return spt_fail(err, SPT_E_USAGE,
                        "%s: is no file, expected one for times of steps",
                        path);
    spt_buf text = {0};
    cJSON *root = NULL;
    spt_step_times *found = spt_calloc(1, sizeof *found);
    spt_status status =
        found ? spt_sealed_read(path, KIND, FILE_MAX, &text, err)
              : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    if (status == SPT_OK)
        status = spt_json_parse(text.data, text.size, path, &root, err);
    if (status == SPT_OK)
        status = read_all(root, path, key, found, err);
    if (status == SPT_OK)
        memcpy(t->cell, found->cell, sizeof t->cell);
    cJSON_Delete(root);
    spt_buf_free(&text);
    spt_free(found);
    return status;
}
