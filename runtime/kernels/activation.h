/*
 * Gated activation where no linear fuses it, templates/activation:
 * out = act(gate) * up, act being SiLU or GELU by tanh.
 */
#ifndef SPT_ACTIVATION_H
#define SPT_ACTIVATION_H

#include "launch.h"

typedef struct spt_activation_args {
    CUdeviceptr gate, up; /* (row, width) of the kernel's type `in` */
    CUdeviceptr out; /* (row, width) of the kernel's type `out` */
    int64_t gate_stride, up_stride, out_stride;
    int32_t width; /* a multiple of 8 */
} spt_activation_args;

spt_status spt_activation_launch(const spt_driver *driver,
                                 const spt_function *kernel,
                                 const spt_activation_args *args, int64_t rows,
                                 CUstream stream, spt_error *err);

#endif
