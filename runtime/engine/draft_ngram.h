/*
 * Drafts from the text itself: where the last n tokens stood before, what
 * followed there is proposed. runtime/kernels/ngram.h defines matches; a tree
 * takes several. The device searches, and the host does by the same rule where
 * there is no device or a text is not on it.
 */
#ifndef SPT_DRAFT_NGRAM_H
#define SPT_DRAFT_NGRAM_H

#include "draft_block.h"
#include "forward.h"

/* forward, with histories, outlives it; NULL: the host searches. */
spt_status spt_ngram_open(const spt_ngram_rule *rule, spt_forward *forward,
                          spt_draft_source *source, spt_error *err);

/*
 * Ends of matches (the token after the match is text[end]), best first, at
 * most `room` of them, each with another token after it. Returns how many.
 */
int spt_ngram_find(const int32_t *text, int count, int min_match, int max_match,
                   bool longest, int *ends, int room);

#endif
