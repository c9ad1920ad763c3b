#include "tensor_map.h"

#include <string.h>

static const struct {
    ptx_type ptx;
    bool is_float;
} types[] = {
#define SIM_TENSOR_TYPE(name, ptx, is_float) \
    [CU_TENSOR_MAP_DATA_TYPE_##name] = {PTX_##ptx, is_float},
#include "tensor_types.def"
#undef SIM_TENSOR_TYPE
};

ptx_type sim_tensor_type(const sim_tensor_map *map)
{
    return types[map->type].ptx;
}

uint32_t sim_tensor_element_bytes(const sim_tensor_map *map)
{
    return ptx_type_bytes(types[map->type].ptx);
}

uint32_t sim_tensor_row_bytes(const sim_tensor_map *map)
{
    return map->box[0] * sim_tensor_element_bytes(map);
}

static uint32_t steps_of(const sim_tensor_map *map, int dimension)
{
    uint32_t step = map->step[dimension];
    return (map->box[dimension] + step - 1) / step;
}

uint32_t sim_tensor_rows(const sim_tensor_map *map)
{
    uint32_t rows = 1;
    for (int i = 1; i < map->rank; i++)
        rows *= steps_of(map, i);
    return rows;
}

bool sim_tensor_has_box(const sim_tensor_map *map)
{
    for (int i = 0; i < map->rank; i++)
        if (!map->box[i] || map->box[i] > SIM_TENSOR_BOX || !map->step[i] ||
            map->step[i] > SIM_TENSOR_STEP)
            return false;
    return sim_tensor_row_bytes(map) % SIM_CHUNK == 0;
}

sim_tensor_row sim_tensor_row_of(const sim_tensor_map *map, const int32_t *at,
                                 uint32_t number)
{
    int64_t bytes = sim_tensor_element_bytes(map);
    int64_t first = at[0] < 0 ? -(int64_t)at[0] : 0;
    int64_t end = (int64_t)map->last[0] + 1 - at[0];
    uint64_t global = map->address + (uint64_t)(at[0] * bytes);
    end = end < map->box[0] ? end : map->box[0];
    for (int i = 1; i < map->rank; i++) {
        uint32_t steps = steps_of(map, i);
        int64_t c = at[i] + (int64_t)(number % steps) * map->step[i];
        number /= steps;
        if (c < 0 || c > map->last[i])
            end = 0;
        global += (uint64_t)c * map->stride[i];
    }
    if (first >= end)
        return (sim_tensor_row){global, 0, 0};
    return (sim_tensor_row){global, (uint32_t)(first * bytes),
                            (uint32_t)(end * bytes)};
}

uint32_t sim_tensor_swizzled(const sim_tensor_map *map, uint32_t address)
{
    /* Bits 4 to 6 of the address, as many as the span has chunks. */
    static const uint32_t chunks[] = {
        [CU_TENSOR_MAP_SWIZZLE_32B] = 1,
        [CU_TENSOR_MAP_SWIZZLE_64B] = 3,
        [CU_TENSOR_MAP_SWIZZLE_128B] = 7,
    };
    return address ^ (address >> 7 & chunks[map->swizzle]) << 4;
}

/* Subnormals become zero; tf32 keeps 10 bits of the fraction, rounded to the
   nearest, ties to even (the manual does not say how). */
static uint32_t converted(unsigned type, uint32_t bits)
{
    bool tf32 = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 ||
                type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
    bool flush = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ ||
                 type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
    uint32_t exponent = bits & 0x7f800000;
    if (flush && !exponent)
        return bits & 0x80000000;
    if (tf32 && exponent != 0x7f800000)
        bits += 0xfff + (bits >> 13 & 1);
    return tf32 ? bits & 0xffffe000 : bits;
}

static void fill(const sim_tensor_map *map, uint8_t *bytes, uint32_t from,
                 uint32_t to)
{
    uint32_t size = sim_tensor_element_bytes(map);
    if (from >= to)
        return;
    memset(bytes + from, 0, to - from);
    if (!map->nan_fill)
        return;
    for (uint32_t i = from; i < to; i += size) {
        memset(bytes + i, 0xff, size);
        bytes[i + size - 1] = 0x7f;
    }
}

void sim_tensor_finish_row(const sim_tensor_map *map, const sim_tensor_row *row,
                           uint8_t *bytes)
{
    if (map->type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ)
        for (uint32_t i = row->from; i < row->to; i += 4) {
            uint32_t bits;
            memcpy(&bits, bytes + i, 4);
            bits = converted(map->type, bits);
            memcpy(bytes + i, &bits, 4);
        }
    fill(map, bytes, 0, row->from);
    fill(map, bytes, row->to, sim_tensor_row_bytes(map));
}

static bool replace_size(sim_tensor_map *map, ptx_mod field, uint32_t number,
                         uint64_t value)
{
    switch (field) {
    case PTX_MOD_GLOBAL_DIM:
        map->last[number] = (uint32_t)(value - 1);
        return value > 0;
    case PTX_MOD_BOX_DIM:
        map->box[number] = (uint16_t)value;
        return value > 0 && value <= SIM_TENSOR_BOX;
    case PTX_MOD_ELEMENT_STRIDE:
        map->step[number] = (uint8_t)value;
        return value > 0 && value <= SIM_TENSOR_STEP;
    default: /* rank, one less than there are dimensions */
        map->rank = (uint8_t)(value + 1);
        return value < SIM_TENSOR_RANK;
    }
}

bool sim_tensor_replace(sim_tensor_map *map, ptx_mod field, uint32_t number,
                        uint64_t value)
{
    if (field == PTX_MOD_GLOBAL_ADDRESS) {
        map->address = value;
        return value % SIM_CHUNK == 0;
    }
    if (field == PTX_MOD_GLOBAL_STRIDE) {
        map->stride[number + 1] = value;
        return value % SIM_CHUNK == 0 && value < UINT64_C(1) << 40;
    }
    return replace_size(map, field, number, value);
}
