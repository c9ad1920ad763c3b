/*
 * Which drafts become text, templates/accept: from the anchor of a sequence's
 * draft block on, the node that has the target's token after the node before
 * it, as long as there is one (the first, should two have it). The text grows
 * by the target's tokens along the path: it is the text without drafts.
 */
#ifndef SPT_ACCEPT_PATH_H
#define SPT_ACCEPT_PATH_H

#include "launch.h"

typedef struct spt_accept_args {
    CUdeviceptr q_start; /* int32 (sequences + 1); at most 32 tokens each */
    CUdeviceptr draft; /* int32 (token): the block; negative: never accepted */
    CUdeviceptr target; /* int32 (token): what spt_sample_launch gave */
    CUdeviceptr parent; /* int32 (token): kernels with `tree`; of the anchor
                           it is not read */
    CUdeviceptr path; /* int32 (sequence, path_stride): nodes, in order */
    CUdeviceptr text; /* int32 (sequence, path_stride): target after them */
    CUdeviceptr
        count; /* int32 (sequence): nodes of the path, 0 without block */
    int32_t path_stride;
} spt_accept_args;

spt_status spt_accept_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_accept_args *args, int64_t sequences,
                             CUstream stream, spt_error *err);

#endif
