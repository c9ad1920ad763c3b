/*
 * Draft trees: from parents to the ancestor bits that verify attention takes.
 * A parent stands before its children; the anchor, node 0, has none (-1).
 */
#ifndef SPT_TREE_H
#define SPT_TREE_H

#include "error.h"

enum { SPT_TREE_NODES = 32 };

/*
 * masks[i]: bits of the ancestors of node i and its own. SPT_E_USAGE names the
 * node whose parent is wrong; count is at most SPT_TREE_NODES.
 */
spt_status spt_tree_masks(const int32_t *parents, int count, uint32_t *masks,
                          spt_error *err);

#endif
