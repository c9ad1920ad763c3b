/*
 * Which logits bias and penalties change, and how: by lists of a few tokens,
 * for the kernel of kernels/adjust.h and for the host. What occurred is counted
 * over the last tokens of the text before each drawn token, drafts on the way
 * to it among them.
 */
#ifndef SPT_ADJUSTER_H
#define SPT_ADJUSTER_H

#include "adjust.h"
#include "spectune.h"
#include "tree.h"

typedef struct spt_adjuster spt_adjuster;

/* Of the rows of a draft block. */
typedef struct spt_adjustment {
    spt_adjust_list list; /* first: 0 */
    const spt_adjust_entry *entries; /* (list.count) */
    const int32_t *changes; /* of all rows; as in spt_adjust_row */
    int start[SPT_TREE_NODES + 1]; /* row i has [start[i], start[i + 1]) */
} spt_adjustment;

/* *adjuster is NULL for options that change no logits. They are checked. */
spt_status spt_adjuster_open(const spt_sampling *options, int vocab,
                             spt_adjuster **adjuster, spt_error *err);
void spt_adjuster_close(spt_adjuster *adjuster);

/*
 * For a block of drafts after count tokens of text: draft and parent as in
 * spt_draft, `nodes` with the anchor. Valid until the adjuster's next call.
 * False: the list is longer than the kernel's (SPT_ADJUST_ENTRIES).
 */
bool spt_adjuster_block(spt_adjuster *adjuster, const int32_t *text, int count,
                        const int32_t *draft, const int32_t *parent, int nodes,
                        spt_adjustment *adjustment);

/* The logits of the token after count tokens of text, adjusted by the host;
   the adjuster's until its next call. */
const float *spt_adjuster_apply(spt_adjuster *adjuster, const float *logits,
                                const int32_t *text, int count);

#endif
