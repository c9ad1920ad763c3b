/*
 * Which drafts become text.
 *
 * SPT_ACCEPT_MATCH, the default: at each node, from the anchor on, the
 * target's own token is drawn with the random number of its position; where a
 * child has that token the walk goes on there, else it ends. Every token is
 * the target's, so the text is the one without drafts at any temperature.
 *
 * SPT_ACCEPT_REJECTION (Leviathan et al. 2211.17192, Chen et al. 2302.01318):
 * a draft d drawn from q is accepted with probability p(d) / q(d), else the
 * token is drawn from max(p - q, 0) scaled to 1. The text is another one than
 * without drafts, its distribution the same. Chains only: a tree is matched,
 * and so is whatever may become one, as the choice must not hang on the drafts.
 * Probabilities are integers, so that host and device judge alike
 * (kernels/sample.h). At temperature 0 both rules are one.
 */
#ifndef SPT_ACCEPT_H
#define SPT_ACCEPT_H

#include "draft_block.h"
#include "sequence.h"

typedef struct spt_accepted {
    int count; /* tokens that the step adds: accepted drafts and one more */
    int nodes; /* nodes whose KV stays: the anchor and the accepted drafts */
    int path[SPT_DRAFT_NODES]; /* those nodes, in order */
    int offered; /* depth of the draft: how many could have been accepted */
} spt_accepted;

/*
 * logits: (node, vocab), node 0 is the anchor. Appends the tokens to the
 * sequence's text; its KV is the caller's to keep (nodes of it).
 */
spt_status spt_accept(spt_sampler *sampler, spt_accept_rule rule,
                      const spt_draft *draft, const float *logits, int vocab,
                      spt_sequence *sequence, spt_accepted *accepted,
                      spt_error *err);

/*
 * The same where the device has accepted: `nodes` nodes of the draft,
 * and the target's token after each.
 */
spt_status spt_accept_path(const spt_draft *draft, const int *path,
                           const int32_t *tokens, int nodes,
                           spt_sequence *sequence, spt_accepted *accepted,
                           spt_error *err);

/*
 * Rejection of one draft: the token that the text gets, from p, from what the
 * draft was drawn from, q (NULL: it was certain), both in the order of ids, and
 * the uniform numbers u (accept?) and v (which instead?).
 */
int32_t spt_reject(const spt_candidate *p, size_t n_p, int32_t draft,
                   const spt_candidate *q, size_t n_q, double u, double v);

#endif
