/*
 * Embedding lookup, templates/embedding: row i of out is row ids[i] of a table
 * in one of the weight types, times scale. An id outside of the table gives
 * zeros. The table is rows as a file has them, or with `packed` the matrix of
 * a tied head as spt_linear_pack made it (linear.h).
 */
#ifndef SPT_EMBEDDING_H
#define SPT_EMBEDDING_H

#include "launch.h"

typedef struct spt_embedding_args {
    CUdeviceptr ids; /* int32 (row) */
    CUdeviceptr table; /* (vocabulary, width) in the kernel's weight type */
    CUdeviceptr out; /* float (row, width) */
    int64_t
        table_stride; /* bytes between rows; packed: spt_linear_panel_bytes */
    int64_t out_stride;
    int32_t vocabulary, width; /* width: a multiple of the type's block */
    float scale;
} spt_embedding_args;

spt_status spt_embedding_launch(const spt_driver *driver,
                                const spt_function *kernel,
                                const spt_embedding_args *args, int64_t rows,
                                CUstream stream, spt_error *err);

#endif
