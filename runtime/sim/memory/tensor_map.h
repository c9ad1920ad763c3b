/*
 * Tensor maps: what cuTensorMapEncodeTiled writes into the 128 bytes that are
 * opaque to programs, and where a box of the tensor lies.
 *
 * A box is copied in rows of its dimension 0, which lie one behind the other in
 * shared memory; chunks of 16 bytes change places there by the swizzle.
 */
#ifndef SPT_SIM_TENSOR_MAP_H
#define SPT_SIM_TENSOR_MAP_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "ptx.h"

enum { SIM_TENSOR_RANK = 5, SIM_TENSOR_ROW_MAX = 256 * 8, SIM_CHUNK = 16 };
enum { SIM_TENSOR_BOX = 256, SIM_TENSOR_STEP = 8 }; /* at most */
#define SIM_TENSOR_MARK UINT64_C(0x70616d20726f736e)

typedef struct sim_tensor_map {
    uint64_t mark; /* SIM_TENSOR_MARK, or it is no map */
    uint64_t address; /* global */
    uint64_t stride[SIM_TENSOR_RANK]; /* bytes; of dimension 0 an element's */
    uint32_t last[SIM_TENSOR_RANK]; /* elements - 1 of the tensor */
    uint16_t box[SIM_TENSOR_RANK]; /* elements, before steps */
    uint8_t step[SIM_TENSOR_RANK];
    uint8_t rank;
    uint8_t type; /* CUtensorMapDataType */
    uint8_t swizzle; /* CUtensorMapSwizzle: none, 32, 64 or 128 bytes */
    uint8_t nan_fill;
} sim_tensor_map;

/* A row of a box: its bytes from..to are inside of the tensor, the others are
   filled; byte 0 would be at global. */
typedef struct sim_tensor_row {
    uint64_t global;
    uint32_t from, to;
} sim_tensor_row;

uint32_t sim_tensor_element_bytes(const sim_tensor_map *map);
ptx_type sim_tensor_type(const sim_tensor_map *map);
uint32_t sim_tensor_row_bytes(const sim_tensor_map *map);
uint32_t sim_tensor_rows(const sim_tensor_map *map);

/* Whether a map that a kernel may have changed has boxes: sides, steps and rows
   are such as a map can be made with. */
bool sim_tensor_has_box(const sim_tensor_map *map);

/* Row number of the box whose first element has the coordinates at. */
sim_tensor_row sim_tensor_row_of(const sim_tensor_map *map, const int32_t *at,
                                 uint32_t number);

/* Where the chunk at a shared address goes. */
uint32_t sim_tensor_swizzled(const sim_tensor_map *map, uint32_t address);

/* Gives a field of tensormap.replace, by its modifier, a new value; number: of
   the dimension. false: the value is none that a map may have. */
bool sim_tensor_replace(sim_tensor_map *map, ptx_mod field, uint32_t number,
                        uint64_t value);

/* Fills a row outside of from..to, and brings what was read into the form that
   the element type has in shared memory. */
void sim_tensor_finish_row(const sim_tensor_map *map, const sim_tensor_row *row,
                           uint8_t *bytes);

#endif
