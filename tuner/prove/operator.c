#include "operator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "half.h"
#include "hash.h"

static const spt_operator *const operators[] = {
#define SPT_OPERATOR(name) &spt_op_##name,
#include "operators.def"
#undef SPT_OPERATOR
};

/* Values of every operator. */
static const spt_op_value common[SPT_OP_COMMON_VALUES] = {
    {"rows", 5, 0, 1 << 20, "rows of the problem"},
    {"seed", 1, 0, INT32_MAX, "of the data"},
    {"pad", 24, 0, 1 << 20, "elements between rows"},
    {"far", 0, 0, 1, "1: rows stand past element 2^31 of their buffers"},
};

static const struct {
    const char *name;
    size_t bytes;
} elements[] = {
#define SPT_ELEMENT(name, bytes) {#name, bytes},
#include "elements.def"
#undef SPT_ELEMENT
};

const spt_operator *spt_operator_at(size_t index)
{
    size_t count = sizeof operators / sizeof *operators;
    return index < count ? operators[index] : NULL;
}

const spt_operator *spt_operator_find(const char *name)
{
    const spt_operator *op;
    for (size_t i = 0; (op = spt_operator_at(i)) != NULL; i++)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

const spt_op_value *spt_operator_value_at(const spt_operator *op, size_t i)
{
    if (i < SPT_OP_COMMON_VALUES)
        return &common[i];
    i -= SPT_OP_COMMON_VALUES;
    return i < SPT_OP_VALUES && op->values[i].name ? &op->values[i] : NULL;
}

const spt_op_value *spt_operator_value(const spt_operator *op, const char *name)
{
    const spt_op_value *value;
    for (size_t i = 0; (value = spt_operator_value_at(op, i)) != NULL; i++)
        if (strcmp(value->name, name) == 0)
            return value;
    return NULL;
}

void spt_op_complete(const spt_operator *op, const spt_config *config,
                     spt_config *values)
{
    const spt_op_value *v;
    for (size_t i = 0; (v = spt_operator_value_at(op, i)) != NULL; i++)
        if (!spt_config_get(values, v->name))
            spt_config_set_int(values, v->name, v->fallback);
    for (int i = 0; i < config->count; i++)
        if (!spt_config_get(values, config->values[i].name) &&
            values->count < SPT_CONFIG_MAX)
            values->values[values->count++] = config->values[i];
}

size_t spt_element_bytes(spt_element type)
{
    return elements[type].bytes;
}

spt_element spt_element_of(const char *name)
{
    return strcmp(name, "fp32") == 0   ? SPT_ELEMENT_F32
           : strcmp(name, "bf16") == 0 ? SPT_ELEMENT_BF16
                                       : SPT_ELEMENT_FP16;
}

int64_t spt_op_int(const spt_op_case *c, const char *name)
{
    return spt_config_int(&c->values, name, 0);
}

const char *spt_op_text(const spt_op_case *c, const char *name)
{
    const spt_value *value = spt_config_get(&c->values, name);
    return value ? value->text : "";
}

/* Elements between rows: pad, or so many that the last row is far out. */
void spt_op_spread(const spt_op_case *c, spt_op_buffer *b)
{
    b->stride = b->width + (size_t)spt_op_int(c, "pad");
    size_t far = b->rows > 1 ? (size_t)INT32_MAX / (b->rows - 1) + 64 : 0;
    if (spt_op_int(c, "far") && b->stride < far)
        b->stride = far;
    b->stride = (b->stride + 7) / 8 * 8;
}

spt_op_buffer *spt_op_add(spt_op_case *c, const char *name, spt_element type,
                          spt_role role, bool by_row, size_t rows, size_t width)
{
    /* One entry is never a buffer: what does not fit is written there. */
    int i = c->n_buffers < SPT_OP_BUFFERS - 1 ? c->n_buffers++ : c->n_buffers;
    spt_op_buffer *b = &c->buffers[i];
    bool result = role != SPT_ROLE_IN;
    *b = (spt_op_buffer){.name = name,
                         .type = type,
                         .role = role,
                         .by_row = by_row,
                         .rows = rows,
                         .width = width};
    b->stride = width;
    if (by_row)
        spt_op_spread(c, b);
    size_t count = rows * width;
    b->data = spt_arena_alloc(&c->arena, count + 1, spt_element_bytes(type));
    if (result) {
        b->expect = spt_arena_alloc(&c->arena, count + 1, sizeof *b->expect);
        b->bound = spt_arena_alloc(&c->arena, count + 1, sizeof *b->bound);
    }
    if (i == SPT_OP_BUFFERS - 1 || !b->data ||
        (result && (!b->expect || !b->bound))) {
        c->failed = true;
        b->rows = 0;
    }
    for (size_t k = 0; result && k < b->rows * width; k++)
        b->bound[k] = -1;
    return b;
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t spt_op_random(const spt_op_case *c, const char *name, size_t row,
                       size_t i)
{
    uint64_t x = mix((uint64_t)spt_op_int(c, "seed"));
    for (; *name; name++)
        x = mix(x ^ (unsigned char)*name);
    return mix(mix(x ^ row) ^ i);
}

/* The place of a row in the whole. */
static size_t place(const spt_op_case *c, const spt_op_buffer *b, size_t row)
{
    return b->origin ? b->origin[row] : b->by_row ? c->first + row : row;
}

/* The sum of four uniform numbers, of variance 1. */
static double normal_like(uint64_t bits)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(bits >> 16 * i & 0xffff) / 65535 - 0.5;
    return sum * 1.7320508075688772;
}

void spt_op_fill(const spt_op_case *c, spt_op_buffer *b, double scale)
{
    for (size_t row = 0; row < b->rows; row++)
        for (size_t i = 0; i < b->width; i++) {
            uint64_t bits = spt_op_random(c, b->name, place(c, b, row), i);
            spt_op_set(b, row, i, scale * normal_like(bits));
        }
}

void spt_op_fill_int(const spt_op_case *c, spt_op_buffer *b, int64_t low,
                     int64_t high)
{
    uint64_t span = (uint64_t)(high - low) + 1;
    for (size_t row = 0; row < b->rows; row++)
        for (size_t i = 0; i < b->width; i++) {
            uint64_t bits = spt_op_random(c, b->name, place(c, b, row), i);
            spt_op_set(b, row, i, (double)(low + (int64_t)(bits % span)));
        }
}

static double read_element(spt_element type, const char *at)
{
    float f32;
    uint16_t half;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    switch (type) {
    case SPT_ELEMENT_F32:
        return memcpy(&f32, at, sizeof f32), (double)f32;
    case SPT_ELEMENT_BF16:
        memcpy(&half, at, sizeof half);
        return (double)spt_half_to_float(SPT_BF16, half);
    case SPT_ELEMENT_FP16:
        memcpy(&half, at, sizeof half);
        return (double)spt_half_to_float(SPT_FP16, half);
    case SPT_ELEMENT_I32:
        return memcpy(&i32, at, sizeof i32), (double)i32;
    case SPT_ELEMENT_U32:
        return memcpy(&u32, at, sizeof u32), (double)u32;
    case SPT_ELEMENT_I64:
        return memcpy(&i64, at, sizeof i64), (double)i64;
    case SPT_ELEMENT_U8:
        return (double)(unsigned char)*at;
    }
    return 0;
}

static void write_element(spt_element type, char *at, double value)
{
    float f32 = (float)value;
    uint16_t half;
    int64_t i64;
    int32_t i32;
    uint32_t u32;
    switch (type) {
    case SPT_ELEMENT_F32:
        memcpy(at, &f32, sizeof f32);
        break;
    case SPT_ELEMENT_BF16:
    case SPT_ELEMENT_FP16:
        half = spt_half_from_float(
            type == SPT_ELEMENT_BF16 ? SPT_BF16 : SPT_FP16, f32);
        memcpy(at, &half, sizeof half);
        break;
    case SPT_ELEMENT_I32:
        i32 = (int32_t)value;
        memcpy(at, &i32, sizeof i32);
        break;
    case SPT_ELEMENT_U32:
        u32 = (uint32_t)value;
        memcpy(at, &u32, sizeof u32);
        break;
    case SPT_ELEMENT_I64:
        i64 = (int64_t)value;
        memcpy(at, &i64, sizeof i64);
        break;
    case SPT_ELEMENT_U8:
        *at = (char)(unsigned char)value;
        break;
    }
}

static char *element(const spt_op_buffer *b, size_t row, size_t i)
{
    return b->data + (row * b->width + i) * spt_element_bytes(b->type);
}

double spt_op_get(const spt_op_buffer *b, size_t row, size_t i)
{
    return read_element(b->type, element(b, row, i));
}

void spt_op_set(spt_op_buffer *b, size_t row, size_t i, double value)
{
    write_element(b->type, element(b, row, i), value);
}

/* Rounding to the type adds this much at a number of that size. */
static double roundoff(spt_element type, double value)
{
    switch (type) {
    case SPT_ELEMENT_F32:
        return fabs(value) * 0x1p-24 + 0x1p-149;
    case SPT_ELEMENT_BF16:
        return fabs(value) * spt_half_roundoff(SPT_BF16) + 0x1p-133;
    case SPT_ELEMENT_FP16:
        return fabs(value) * spt_half_roundoff(SPT_FP16) + 0x1p-25;
    default:
        return 0;
    }
}

void spt_op_expect(spt_op_buffer *b, size_t row, size_t i, double value,
                   double bound)
{
    b->expect[row * b->width + i] = value;
    b->bound[row * b->width + i] =
        bound + roundoff(b->type, fabs(value) + bound);
}

void spt_op_expect_exactly(spt_op_buffer *b, size_t row, size_t i, double value)
{
    b->expect[row * b->width + i] = value;
    b->bound[row * b->width + i] = 0;
}

spt_status spt_op_case_make(const spt_operator *op, const spt_config *values,
                            size_t first, size_t rows, spt_op_case *c,
                            spt_error *err)
{
    *c = (spt_op_case){
        .op = op, .values = *values, .first = first, .rows = rows};
    spt_status status = op->make(c, err);
    if (status == SPT_OK && !c->failed)
        op->reference(c);
    if (status == SPT_OK && c->failed)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", op->name);
    if (status != SPT_OK)
        spt_op_case_free(c);
    return status;
}

void spt_op_case_free(spt_op_case *c)
{
    spt_arena_free(&c->arena);
    *c = (spt_op_case){0};
}
