/*
 * Keeps the KV of an accepted path, templates/kv_compact: slot context + j of
 * each sequence gets what slot context + path[j] holds, for every layer. The
 * path names nodes of the draft block in ascending order, the anchor first;
 * where path[j] = j nothing moves.
 */
#ifndef SPT_KV_COMPACT_H
#define SPT_KV_COMPACT_H

#include "launch.h"

typedef struct spt_kv_compact_args {
    CUdeviceptr k, v; /* of layer 0, as in verify.h, 16 bits a number */
    CUdeviceptr page_table, kv_start; /* verify.h */
    CUdeviceptr context; /* int32 (sequence): slots before the draft block */
    CUdeviceptr path; /* int32 (sequence, path_stride) */
    CUdeviceptr path_length; /* int32 (sequence); 0 = nothing */
    int64_t layer_stride; /* elements between layers of k and of v */
    int64_t kv_page_stride, kv_token_stride, kv_head_stride;
    int32_t page_table_stride, path_stride;
    int32_t kv_heads, head_dim; /* head_dim: a multiple of 8 */
} spt_kv_compact_args;

spt_status spt_kv_compact_launch(const spt_driver *driver,
                                 const spt_function *kernel,
                                 const spt_kv_compact_args *args, int64_t batch,
                                 int64_t layers, CUstream stream,
                                 spt_error *err);

#endif
