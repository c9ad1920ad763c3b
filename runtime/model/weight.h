/*
 * Types of stored weights and their plain decoder.
 *
 * The decoder is the reference that kernels are compared with: each value is
 * computed in fp32 in the order that the format's own definition has, so that
 * its bits are those of ggml's reference functions.
 */
#ifndef SPT_WEIGHT_H
#define SPT_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum spt_weight_type {
#define SPT_WEIGHT_TYPE(number, NAME, name, weights, bytes, decoder) \
    SPT_WEIGHT_##NAME,
#include "weight_types.def"
#undef SPT_WEIGHT_TYPE
    SPT_WEIGHT_TYPES,
} spt_weight_type;

typedef struct spt_weight_format {
    const char *name; /* "q4_1" */
    uint32_t gguf; /* its number in GGUF */
    int block_weights, block_bytes;
    bool decodes; /* spt_weight_row_f32 knows it, and so do the kernels */
} spt_weight_format;

/* The row of the table; type is below SPT_WEIGHT_TYPES. */
const spt_weight_format *spt_weight_format_of(spt_weight_type type);

/* The type with that number in GGUF, or that name; false: there is none. */
bool spt_weight_from_gguf(uint32_t number, spt_weight_type *type);
bool spt_weight_from_name(const char *name, spt_weight_type *type);

/* Bytes of `weights` values, a multiple of the block's. */
uint64_t spt_weight_bytes(spt_weight_type type, uint64_t weights);

/* Decodes `weights` values (a multiple of the block's) of a type that
   decodes; row needs no alignment. */
void spt_weight_row_f32(spt_weight_type type, const void *row, size_t weights,
                        float *out);

#endif
