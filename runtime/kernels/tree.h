/*
 * Draft trees: from parents to the ancestor bits that verify attention takes.
 * A parent stands before its children; the anchor, node 0, has none (-1).
 */
#ifndef SPT_TREE_H
#define SPT_TREE_H

#include "launch.h"

enum { SPT_TREE_NODES = 32 };

/*
 * masks[i]: bits of the ancestors of node i and its own. SPT_E_USAGE names the
 * node whose parent is wrong; count is at most SPT_TREE_NODES.
 */
spt_status spt_tree_masks(const int32_t *parents, int count, uint32_t *masks,
                          spt_error *err);

/* The same on the device, templates/tree, for blocks of all sequences. */
typedef struct spt_tree_args {
    CUdeviceptr q_start; /* int32 (sequences + 1) */
    CUdeviceptr parent; /* int32 (token): node of its own block, or -1 */
    CUdeviceptr tree; /* uint32 (token): ancestor bits */
    CUdeviceptr depth; /* int32 (token) */
} spt_tree_args;

/* A wrong parent (not before its child) counts as none. */
spt_status spt_tree_launch(const spt_driver *driver, const spt_function *kernel,
                           const spt_tree_args *args, int64_t batch,
                           CUstream stream, spt_error *err);

#endif
