/* What gguf.c reads and gguf_values.c gives out. */
#ifndef SPT_GGUF_INT_H
#define SPT_GGUF_INT_H

#include "gguf.h"
#include "mem.h"

typedef struct gguf_pair {
    spt_text key;
    uint32_t type;
    uint64_t bits; /* a scalar's bytes, little-endian, zero above */
    spt_text text; /* SPT_GGUF_STRING */
    spt_gguf_array array; /* SPT_GGUF_ARRAY */
} gguf_pair;

struct spt_gguf {
    spt_arena arena;
    const char *name;
    const uint8_t *data;
    size_t size;
    uint64_t data_start, data_end; /* of the tensors, in the file */
    size_t pair_count, tensor_count;
    gguf_pair *pairs; /* by key */
    spt_gguf_tensor *tensors; /* in file order */
    const spt_gguf_tensor **by_name;
};

/* Bytes of a scalar; 0 for texts, arrays and unknown types. */
unsigned spt_gguf_type_bytes(uint32_t type);

#endif
