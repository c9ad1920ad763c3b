/*
 * Row gather, templates/gather: row i of out is row index[i] of in, whatever
 * its type. A negative index gives zeros.
 */
#ifndef SPT_GATHER_H
#define SPT_GATHER_H

#include "launch.h"

typedef struct spt_gather_args {
    CUdeviceptr in, out; /* 16-byte aligned */
    CUdeviceptr index; /* int32 (row) */
    int64_t in_stride, out_stride; /* bytes, multiples of 16 */
    int64_t row_bytes; /* a multiple of 16 */
} spt_gather_args;

spt_status spt_gather_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_gather_args *args, int64_t rows,
                             CUstream stream, spt_error *err);

#endif
