#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MOST = 100 << 20, DIMS_MOST = 16 };

/* Weights of a tensor: far above any, far below an overflow. */
#define WEIGHTS_MOST ((uint64_t)1 << 50)

static const struct dtype {
    const char *name;
    unsigned bits;
    spt_weight_type type;
} dtypes[] = {
#define SPT_ST_TYPE(name, bits, type) {#name, bits, SPT_WEIGHT_##type},
#include "safetensors_types.def"
#undef SPT_ST_TYPE
};

/* Where a tensor lies, to be checked when all are known. */
typedef struct span {
    uint64_t begin, end;
    const char *name; /* the JSON's */
} span;

typedef struct source {
    const char *name;
    const uint8_t *data; /* after the header */
    uint64_t size;
    spt_arena *arena;
} source;

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

/* An integer that a double holds exactly. */
static bool whole_number(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > 9007199254740992.0)
        return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static spt_status read_shape(const cJSON *entry, const char *where,
                             file_tensor *t, uint64_t *weights, spt_error *err)
{
    const cJSON *shape, *item;
    int dims = 0;
    SPT_TRY(spt_json_array(entry, where, "shape", &shape, err));
    *weights = 1;
    t->rows = t->cols = 1;
    cJSON_ArrayForEach(item, shape)
    {
        uint64_t size = 0;
        if (++dims > DIMS_MOST || !whole_number(item, &size) || !size ||
            size > WEIGHTS_MOST / *weights)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: shape has a size that is no positive number "
                            "of weights",
                            where);
        *weights *= size;
        t->rows = t->cols;
        t->cols = size;
    }
    t->plain = dims <= 2;
    return SPT_OK;
}

static spt_status read_span(const cJSON *entry, const char *where,
                            const source *s, span *at, spt_error *err)
{
    const cJSON *offsets;
    SPT_TRY(spt_json_array(entry, where, "data_offsets", &offsets, err));
    if (cJSON_GetArraySize(offsets) != 2 ||
        !whole_number(cJSON_GetArrayItem(offsets, 0), &at->begin) ||
        !whole_number(cJSON_GetArrayItem(offsets, 1), &at->end) ||
        at->begin > at->end || at->end > s->size)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: data_offsets are not two places in the %" PRIu64
                        " bytes of data",
                        where, s->size);
    return SPT_OK;
}

static spt_status read_entry(const source *s, const cJSON *entry,
                             file_tensor *t, span *at, spt_error *err)
{
    char where[160];
    const char *text;
    uint64_t weights;
    spt_text key = {entry->string, strlen(entry->string)};
    snprintf(where, sizeof where, "%.80s: tensor %s", s->name,
             spt_text_show(key).text);
    if (!cJSON_IsObject(entry))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", where);
    SPT_TRY(spt_json_only(entry, where, "dtype shape data_offsets", err));
    SPT_TRY(spt_json_text(entry, where, "dtype", &text, err));
    const struct dtype *dtype = find_dtype(text);
    if (!dtype)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s: dtype '%.20s' is not known", where, text);
    SPT_TRY(read_shape(entry, where, t, &weights, err));
    SPT_TRY(read_span(entry, where, s, at, err));
    at->name = entry->string;
    t->bytes = at->end - at->begin;
    if (weights * dtype->bits != t->bytes * 8)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: has %" PRIu64 " bytes, its shape and %s need "
                        "%" PRIu64,
                        where, t->bytes, dtype->name,
                        (weights * dtype->bits + 7) / 8);
    t->name.data = spt_arena_strdup(s->arena, key.data, key.size);
    t->name.size = key.size;
    t->format = dtype->name;
    t->type = dtype->type;
    t->data = s->data + at->begin;
    return t->name.data
               ? SPT_OK
               : spt_fail(err, SPT_E_MEMORY, "%s: out of memory", s->name);
}

static int by_begin(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static spt_status check_cover(const source *s, span *spans, size_t count,
                              spt_error *err)
{
    uint64_t next = 0;
    if (count)
        qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 0; i < count; i++) {
        spt_text key = {spans[i].name, strlen(spans[i].name)};
        if (spans[i].begin != next)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: tensor %s begins at %" PRIu64
                            ", expected %" PRIu64 " (no hole, no overlap)",
                            s->name, spt_text_show(key).text, spans[i].begin,
                            next);
        next = spans[i].end;
    }
    if (next != s->size)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: has %" PRIu64 " bytes of data, its tensors end at "
                        "%" PRIu64,
                        s->name, s->size, next);
    return SPT_OK;
}

static spt_status read_entries(const source *s, const cJSON *root,
                               file_tensor **files, size_t *count,
                               spt_error *err)
{
    size_t n = *count, most = n + (size_t)cJSON_GetArraySize(root), spanned = 0;
    file_tensor *all = spt_arena_alloc(s->arena, most + 1, sizeof *all);
    span *spans = spt_calloc(most + 1, sizeof *spans);
    spt_status status = SPT_OK;
    const cJSON *entry;
    if (!all || !spans) {
        spt_free(spans);
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", s->name);
    }
    if (n)
        memcpy(all, *files, n * sizeof *all);
    cJSON_ArrayForEach(entry, root)
    {
        if (status != SPT_OK || strcmp(entry->string, "__metadata__") == 0)
            continue;
        status = read_entry(s, entry, &all[n], &spans[spanned++], err);
        n++;
    }
    if (status == SPT_OK)
        status = check_cover(s, spans, spanned, err);
    spt_free(spans);
    SPT_TRY(status);
    *files = all;
    *count = n;
    return SPT_OK;
}

spt_status spt_safetensors_read(const void *data, size_t size, const char *name,
                                spt_arena *arena, file_tensor **files,
                                size_t *count, spt_error *err)
{
    const uint8_t *p = data;
    uint64_t header = 0;
    for (size_t i = 0; i < 8 && i < size; i++)
        header |= (uint64_t)p[i] << (8 * i);
    if (size < 8 || header > HEADER_MOST || header > size - 8)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: not a safetensors file, or one that ends inside "
                        "its header",
                        name);
    if (!header || p[8] != '{')
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: safetensors header is no JSON object", name);
    cJSON *root = NULL;
    SPT_TRY(
        spt_json_parse((const char *)p + 8, (size_t)header, name, &root, err));
    source s = {name, p + 8 + header, size - 8 - header, arena};
    spt_status status = read_entries(&s, root, files, count, err);
    cJSON_Delete(root);
    return status;
}
