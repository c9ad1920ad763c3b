/* Draft blocks: how long they get, chains and trees. */
#ifndef SPT_DRAFT_H
#define SPT_DRAFT_H

/* The most drafted tokens of kernels and choices, and with the anchor. */
enum { SPT_DRAFT_MAX = 31, SPT_NODES_MAX = SPT_DRAFT_MAX + 1 };

/*
 * What a step drafts. A chain has one node at each depth (top_k 1); a tree
 * has up to top_k at each, and `nodes` in all, the anchor not counted.
 */
typedef struct spt_draft_tree {
    int depth, top_k, nodes;
} spt_draft_tree;

static inline spt_draft_tree spt_draft_chain(int length)
{
    return (spt_draft_tree){length, 1, length};
}

#endif
