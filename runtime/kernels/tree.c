#include "tree.h"

spt_status spt_tree_masks(const int32_t *parents, int count, uint32_t *masks,
                          spt_error *err)
{
    if (count < 0 || count > SPT_TREE_NODES)
        return spt_fail(err, SPT_E_USAGE, "tree: %d nodes, expected 0 to %d",
                        count, SPT_TREE_NODES);
    for (int i = 0; i < count; i++) {
        int32_t parent = parents[i];
        if (i == 0 ? parent != -1 : parent < 0 || parent >= i)
            return spt_fail(err, SPT_E_USAGE,
                            "tree: node %d has the parent %d, expected %s", i,
                            (int)parent,
                            i ? "a node before it" : "-1 for the anchor");
        masks[i] = (i ? masks[parent] : 0) | UINT32_C(1) << i;
    }
    return SPT_OK;
}
