/* Values and tensors of a GGUF by name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gguf_int.h"

static const struct {
    uint8_t bytes;
    char kind; /* i integer, u unsigned, f float, t text, a array */
    const char *name;
} types[SPT_GGUF_TYPES] = {
    [SPT_GGUF_U8] = {1, 'u', "an integer"},
    [SPT_GGUF_I8] = {1, 'i', "an integer"},
    [SPT_GGUF_U16] = {2, 'u', "an integer"},
    [SPT_GGUF_I16] = {2, 'i', "an integer"},
    [SPT_GGUF_U32] = {4, 'u', "an integer"},
    [SPT_GGUF_I32] = {4, 'i', "an integer"},
    [SPT_GGUF_F32] = {4, 'f', "a number"},
    [SPT_GGUF_BOOL] = {1, 'u', "true or false"},
    [SPT_GGUF_STRING] = {0, 't', "a text"},
    [SPT_GGUF_ARRAY] = {0, 'a', "an array"},
    [SPT_GGUF_U64] = {8, 'u', "an integer"},
    [SPT_GGUF_I64] = {8, 'i', "an integer"},
    [SPT_GGUF_F64] = {8, 'f', "a number"},
};

unsigned spt_gguf_type_bytes(uint32_t type)
{
    return type < SPT_GGUF_TYPES ? types[type].bytes : 0;
}

static const gguf_pair *find_pair(const spt_gguf *g, const char *key)
{
    spt_text wanted = {key, strlen(key)};
    size_t low = 0, high = g->pair_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = spt_text_compare(g->pairs[middle].key, wanted);
        if (order == 0)
            return &g->pairs[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static spt_status wrong_type(const spt_gguf *g, const gguf_pair *pair,
                             const char *expected, spt_error *err)
{
    return spt_fail(err, SPT_E_FORMAT, "%s: GGUF key %s is %s, expected %s",
                    g->name, spt_text_show(pair->key).text,
                    types[pair->type].name, expected);
}

/* The integer in `bits` of that type; false: not one, or above INT64_MAX. */
static bool to_int(uint32_t type, uint64_t bits, int64_t *out)
{
    if (type >= SPT_GGUF_TYPES ||
        (types[type].kind != 'i' && types[type].kind != 'u'))
        return false;
    if (types[type].kind == 'u' && bits > INT64_MAX)
        return false;
    unsigned shift = 64 - 8 * types[type].bytes;
    *out = types[type].kind == 'i' ? (int64_t)(bits << shift) >> shift
                                   : (int64_t)bits;
    return true;
}

static bool to_double(uint32_t type, uint64_t bits, double *out)
{
    int64_t integer;
    float single;
    uint32_t word = (uint32_t)bits;
    if (type == SPT_GGUF_F32) {
        memcpy(&single, &word, sizeof single);
        *out = (double)single;
    } else if (type == SPT_GGUF_F64) {
        memcpy(out, &bits, sizeof *out);
    } else if (to_int(type, bits, &integer)) {
        *out = (double)integer;
    } else {
        return false;
    }
    return true;
}

bool spt_gguf_has(const spt_gguf *gguf, const char *key)
{
    return find_pair(gguf, key) != NULL;
}

spt_status spt_gguf_int(const spt_gguf *gguf, const char *key, int64_t min,
                        int64_t max, int64_t *out, spt_error *err)
{
    const gguf_pair *pair = find_pair(gguf, key);
    int64_t value;
    if (!pair)
        return SPT_OK;
    if (types[pair->type].kind != 'i' && types[pair->type].kind != 'u')
        return wrong_type(gguf, pair, "an integer", err);
    if (!to_int(pair->type, pair->bits, &value) || value < min || value > max)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: GGUF key %s is out of range, expected %" PRId64
                        " to %" PRId64,
                        gguf->name, key, min, max);
    *out = value;
    return SPT_OK;
}

spt_status spt_gguf_number(const spt_gguf *gguf, const char *key, double *out,
                           spt_error *err)
{
    const gguf_pair *pair = find_pair(gguf, key);
    if (pair && !to_double(pair->type, pair->bits, out))
        return wrong_type(gguf, pair, "a number", err);
    return SPT_OK;
}

spt_status spt_gguf_bool(const spt_gguf *gguf, const char *key, bool *out,
                         spt_error *err)
{
    const gguf_pair *pair = find_pair(gguf, key);
    int64_t value;
    if (!pair)
        return SPT_OK;
    if (!to_int(pair->type, pair->bits, &value))
        return wrong_type(gguf, pair, "true or false", err);
    *out = value != 0;
    return SPT_OK;
}

spt_status spt_gguf_string(const spt_gguf *gguf, const char *key, spt_text *out,
                           spt_error *err)
{
    const gguf_pair *pair = find_pair(gguf, key);
    if (pair && pair->type != SPT_GGUF_STRING)
        return wrong_type(gguf, pair, "a text", err);
    if (pair)
        *out = pair->text;
    return SPT_OK;
}

spt_status spt_gguf_get_array(const spt_gguf *gguf, const char *key,
                              spt_gguf_array *out, spt_error *err)
{
    const gguf_pair *pair = find_pair(gguf, key);
    if (pair && pair->type != SPT_GGUF_ARRAY)
        return wrong_type(gguf, pair, "an array", err);
    if (pair)
        *out = pair->array;
    return SPT_OK;
}

static uint64_t element_bits(const spt_gguf_array *array, uint64_t index)
{
    unsigned bytes = types[array->type].bytes;
    const uint8_t *p = (const uint8_t *)array->data + index * bytes;
    uint64_t bits = 0;
    for (unsigned i = 0; i < bytes; i++)
        bits |= (uint64_t)p[i] << (8 * i);
    return bits;
}

bool spt_gguf_array_int(const spt_gguf_array *array, uint64_t index,
                        int64_t *out)
{
    return array->data && index < array->count &&
           to_int(array->type, element_bits(array, index), out);
}

bool spt_gguf_array_float(const spt_gguf_array *array, uint64_t index,
                          float *out)
{
    double value;
    if (!array->data || index >= array->count ||
        !to_double(array->type, element_bits(array, index), &value))
        return false;
    *out = (float)value;
    return true;
}

const char *spt_gguf_name(const spt_gguf *gguf)
{
    return gguf->name;
}

size_t spt_gguf_tensor_count(const spt_gguf *gguf)
{
    return gguf->tensor_count;
}

const spt_gguf_tensor *spt_gguf_tensor_at(const spt_gguf *gguf, size_t index)
{
    return &gguf->tensors[index];
}

const spt_gguf_tensor *spt_gguf_tensor_find(const spt_gguf *gguf,
                                            const char *name)
{
    spt_text wanted = {name, strlen(name)};
    size_t low = 0, high = gguf->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = spt_text_compare(gguf->by_name[middle]->name, wanted);
        if (order == 0)
            return gguf->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const void *spt_gguf_tensor_data(const spt_gguf *gguf,
                                 const spt_gguf_tensor *tensor)
{
    return gguf->data + gguf->data_start + tensor->offset;
}
