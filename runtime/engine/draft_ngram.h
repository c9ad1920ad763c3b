/*
 * Drafts from the text itself, on the host: where the last n tokens stood
 * before, what followed there is proposed. runtime/kernels/ngram.h defines
 * matches; this is the same search.
 */
#ifndef SPT_DRAFT_NGRAM_H
#define SPT_DRAFT_NGRAM_H

#include "draft_block.h"

/* 1 <= min_match <= max_match. longest: the longest match, else the last. */
spt_status spt_ngram_open(int min_match, int max_match, bool longest,
                          spt_draft_source *source, spt_error *err);

/*
 * Ends of matches (the token after the match is text[end]), best first, at
 * most `room` of them, each with another token after it. Returns how many.
 */
int spt_ngram_find(const int32_t *text, int count, int min_match, int max_match,
                   bool longest, int *ends, int room);

#endif
