/*
 * Draft trees beside the chain: whether one of N nodes is faster, and which.
 *
 * E[L] of a tree comes from evidence alone: its published length, or the
 * survival of each position together with how often the target's token is
 * among the drafter's k likeliest. Without either there is no number.
 */
#ifndef SPT_TREE_CHOICE_H
#define SPT_TREE_CHOICE_H

#include "acceptance.h"
#include "step.h"

typedef struct spt_tree_choice {
    bool known; /* false: reason says why */
    bool published; /* the length of this very tree; else from the ranks */
    bool beats; /* the chain's best, beyond the noise */
    spt_draft_tree tree;
    double expected_length, draft_us, verify_us, memory_bytes, speedup;
    char reason[160];
} spt_tree_choice;

/*
 * Fills expected[n], n = 1 to nodes, with E[L] - 1 of the best tree of n nodes
 * that is at most depth deep and has at most top_k nodes at each depth.
 *
 * That the target takes rank r >= 2 is taken as the chance that rank 1 is
 * wrong there, times rank r's share of those cases in the table's ranks; after
 * a node the chances are those of its depth, whatever ranks led there.
 * False where the table does not know survival that deep, or ranks that wide.
 */
bool spt_tree_expected(const spt_table *table, int depth, int top_k, int nodes,
                       double *expected);

/*
 * The fastest tree that fits, for a step that takes plain_us without drafts;
 * chain: speedup of the best chain.
 */
void spt_tree_weigh(const spt_step *step, const spt_drafter *drafter,
                    const spt_table *table, double plain_us, double chain,
                    spt_tree_choice *choice);

/* "of 20 nodes, 8 deep, top 3 ...", or why there is no number; text. */
const char *spt_tree_text(const spt_tree_choice *choice, char *text,
                          size_t size);

#endif
