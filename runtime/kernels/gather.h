/*
 * Rows by an index, templates/gather: row to[i] of out is row from[i] of in,
 * rounded to out's type. A negative `from` gives zeros, a negative `to` leaves
 * the row out.
 */
#ifndef SPT_GATHER_H
#define SPT_GATHER_H

#include "launch.h"

typedef struct spt_gather_args {
    CUdeviceptr in,
        out; /* (.., width) in the kernel's types, 16-byte aligned */
    CUdeviceptr from, to; /* int32 (row); 0: rows in their order */
    int64_t in_stride, out_stride; /* numbers between rows, multiples of 8 */
    int32_t width; /* a multiple of 8 */
} spt_gather_args;

spt_status spt_gather_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_gather_args *args, int64_t rows,
                             CUstream stream, spt_error *err);

#endif
