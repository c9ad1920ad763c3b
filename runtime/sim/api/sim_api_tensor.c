/*
 * Driver calls that make tensor maps. What CUDA refuses is refused here with
 * the reason; interleaved layouts and packed types are not run yet.
 */
#include "sim_driver.h"

#include <string.h>

#include "tensor_map.h"

enum { MAP_ALIGN = 64 };
#define MOST_SIZE (UINT64_C(1) << 32)
#define MOST_STRIDE (UINT64_C(1) << 40)

_Static_assert(sizeof(sim_tensor_map) <= sizeof(CUtensorMap),
               "a tensor map has 128 bytes");

static const struct {
    const char *text;
    bool is_float;
} types[] = {
#define SIM_TENSOR_TYPE(name, ptx, is_float) \
    [CU_TENSOR_MAP_DATA_TYPE_##name] = {#name, is_float},
#include "tensor_types.def"
#undef SIM_TENSOR_TYPE
};

static const uint32_t spans[] = {
    [CU_TENSOR_MAP_SWIZZLE_NONE] = UINT32_MAX,
    [CU_TENSOR_MAP_SWIZZLE_32B] = 32,
    [CU_TENSOR_MAP_SWIZZLE_64B] = 64,
    [CU_TENSOR_MAP_SWIZZLE_128B] = 128,
};

static CUresult wrong(const char *what, uint64_t value, const char *expected)
{
    return sim_because(CUDA_ERROR_INVALID_VALUE,
                       "tensor map: %s is %llu, expected %s", what,
                       (unsigned long long)value, expected);
}

static CUresult check_modes(const sim_tensor_map *map, unsigned interleave,
                            unsigned promotion, unsigned fill)
{
    if (map->type > CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B)
        return wrong("the data type", map->type, "one of cuda.h's");
    if (map->type >= sizeof types / sizeof *types)
        return sim_lacks("cuTensorMapEncodeTiled", "packed data types");
    if (interleave > CU_TENSOR_MAP_INTERLEAVE_32B)
        return wrong("interleave", interleave, "one of cuda.h's");
    if (interleave)
        return sim_lacks("cuTensorMapEncodeTiled", "interleaved layouts");
    if (map->swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B)
        return wrong("swizzle", map->swizzle, "one of cuda.h's");
    if (map->swizzle >= sizeof spans / sizeof *spans)
        return sim_lacks("cuTensorMapEncodeTiled", "swizzles of atoms");
    if (promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        return wrong("the L2 promotion", promotion, "one of cuda.h's");
    if (fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
        return wrong("the fill", fill, "one of cuda.h's");
    if (fill && !types[map->type].is_float)
        return wrong("the fill", fill, "zeros for a type that is no float");
    return CUDA_SUCCESS;
}

static CUresult set_size(sim_tensor_map *map, const cuuint64_t *sizes,
                         const cuuint64_t *strides)
{
    for (int i = 0; i < map->rank; i++) {
        if (!sizes[i] || sizes[i] > MOST_SIZE)
            return wrong("a dimension", sizes[i], "1 to 2^32");
        map->last[i] = (uint32_t)(sizes[i] - 1);
        if (!i)
            continue;
        if (strides[i - 1] % SIM_CHUNK || strides[i - 1] >= MOST_STRIDE)
            return wrong("a stride", strides[i - 1],
                         "a multiple of 16 below 2^40");
        map->stride[i] = strides[i - 1];
    }
    map->stride[0] = sim_tensor_element_bytes(map);
    return CUDA_SUCCESS;
}

static CUresult set_box(sim_tensor_map *map, const cuuint32_t *box,
                        const cuuint32_t *steps)
{
    for (int i = 0; i < map->rank; i++) {
        if (!box[i] || box[i] > SIM_TENSOR_BOX)
            return wrong("a side of the box", box[i], "1 to 256");
        if (!steps[i] || steps[i] > SIM_TENSOR_STEP)
            return wrong("an element stride", steps[i], "1 to 8");
        map->box[i] = (uint16_t)box[i];
        map->step[i] = (uint8_t)(i ? steps[i] : 1);
    }
    uint32_t row = sim_tensor_row_bytes(map);
    if (row % SIM_CHUNK)
        return wrong("the box's inner side in bytes", row, "a multiple of 16");
    if (row > spans[map->swizzle])
        return wrong("the box's inner side in bytes", row,
                     "no more than the swizzle");
    return CUDA_SUCCESS;
}

CUresult SIM_FN(cuTensorMapEncodeTiled)(
    CUtensorMap *to, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    sim_tensor_map map = {
        .mark = SIM_TENSOR_MARK,
        .address = (uint64_t)(uintptr_t)address,
        .rank = (uint8_t)rank,
        .type = (unsigned)type > UINT8_MAX ? UINT8_MAX : (uint8_t)type,
        .swizzle = (unsigned)swizzle > UINT8_MAX ? UINT8_MAX : (uint8_t)swizzle,
        .nan_fill = fill != 0,
    };
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!to || !sizes || !box || !steps || (rank > 1 && !strides))
        result = CUDA_ERROR_INVALID_VALUE;
    else if ((uintptr_t)to % MAP_ALIGN)
        result = wrong("its address", (uintptr_t)to, "a multiple of 64");
    else if (!rank || rank > SIM_TENSOR_RANK)
        result = wrong("the rank", rank, "1 to 5");
    else if (!address || map.address % SIM_CHUNK)
        result = wrong("the tensor's address", map.address,
                       "a multiple of 16 that is not 0");
    else
        result = check_modes(&map, interleave, promotion, fill);
    if (result == CUDA_SUCCESS)
        result = set_size(&map, sizes, strides);
    if (result == CUDA_SUCCESS)
        result = set_box(&map, box, steps);
    if (result == CUDA_SUCCESS) {
        memset(to, 0, sizeof *to);
        memcpy(to, &map, sizeof map);
    }
    return sim_leave(result);
}

CUresult SIM_FN(cuTensorMapReplaceAddress)(CUtensorMap *at, void *address)
{
    sim_tensor_map map;
    CUresult result = sim_enter_any();
    if (result != CUDA_SUCCESS)
        return result;
    if (!at || (uintptr_t)at % MAP_ALIGN)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(&map, at, sizeof map);
    map.address = (uint64_t)(uintptr_t)address;
    if (map.mark != SIM_TENSOR_MARK || !address || map.address % SIM_CHUNK)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    memcpy(at, &map, sizeof map);
    return sim_leave(CUDA_SUCCESS);
}
