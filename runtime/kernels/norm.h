/*
 * RMS norm, templates/norm: out = in * rsqrt(mean(in^2) + eps) * weight, the
 * weight being 1 + w where the kernel has `offset`; with `add` the result is
 * added to out (a norm after attention or FFN, into the residual stream), and
 * with a `next_type` the sum's own norm is written beside it: what the kernel
 * without `add` would give for it, bit for bit.
 */
#ifndef SPT_NORM_H
#define SPT_NORM_H

#include "launch.h"

/* Arguments as the kernel takes them; widths are the kernel's. */
typedef struct spt_norm_args {
    CUdeviceptr in; /* (row, width) of the kernel's type `in` */
    CUdeviceptr weight; /* float (width) */
    CUdeviceptr out; /* (row, width) of the kernel's type `out` */
    CUdeviceptr index; /* int32 (row): the row of in; kernels with `gather` */
    CUdeviceptr next_weight; /* float (width); kernels with next_type */
    CUdeviceptr next; /* (row, width) of that type */
    int64_t in_stride, out_stride, next_stride;
    float eps;
} spt_norm_args;

/* One CTA a row. in and out may be the same rows. */
spt_status spt_norm_launch(const spt_driver *driver, const spt_function *kernel,
                           const spt_norm_args *args, int64_t rows,
                           CUstream stream, spt_error *err);

#endif
