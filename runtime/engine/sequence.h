/*
 * A sequence of tokens and the KV pages that hold its beginning.
 *
 *     tokens   t0 t1 t2 ... t(n_kv-1) | t(n_kv) ... t(n-1)
 *              KV is in the pages       still to be fed, the last one too
 *
 * Whoever steps a sequence reserves the slots n_kv, n_kv + 1, ..., feeds them
 * and then says how many stay. Nothing here touches the device: where a shared
 * page has to be written, the caller is told to copy it first.
 */
#ifndef SPT_SEQUENCE_H
#define SPT_SEQUENCE_H

#include "pool.h"

typedef struct spt_sequence {
    spt_pool *pool;
    int32_t *tokens;
    int n_tokens;
    size_t token_room;
    int n_kv; /* leading tokens whose KV is in the pages */
    int *pages;
    int n_pages;
    size_t page_room;
    int n_published; /* leading pages that others may find */
    bool alone; /* neither looks for pages of others nor lets them find its */
} spt_sequence;

/* Page `to` must become a copy of page `from` before slots are written. */
typedef struct spt_page_copy {
    int from, to; /* -1: nothing to copy */
} spt_page_copy;

void spt_sequence_open(spt_sequence *sequence, spt_pool *pool);
/* alone stays what it is. */
void spt_sequence_close(spt_sequence *sequence);

/*
 * Makes the text equal to these tokens. What KV fits stays: the longest common
 * beginning, or a longer one that the pool knows. The last token is always
 * left to be fed, as its result is what the caller wants. Counts of tokens
 * whose KV was there before: *reused (may be NULL).
 */
spt_status spt_sequence_sync(spt_sequence *sequence, const int32_t *tokens,
                             int count, int *reused, spt_error *err);

/* Appends tokens that are still to be fed. */
spt_status spt_sequence_append(spt_sequence *sequence, const int32_t *tokens,
                               int count, spt_error *err);

/* Forgets all but the first count tokens. */
void spt_sequence_rewind(spt_sequence *sequence, int count);

/* Gives the KV back: all tokens are to be fed again, to new pages. */
void spt_sequence_reread(spt_sequence *sequence);

/* copy becomes an equal sequence that shares the pages. */
spt_status spt_sequence_fork(const spt_sequence *sequence, spt_sequence *copy,
                             spt_error *err);

/*
 * Pages for slots n_kv ... n_kv + count - 1 that only this sequence writes.
 * SPT_E_MEMORY when the pool has no room; the sequence is then as before.
 */
spt_status spt_sequence_reserve(spt_sequence *sequence, int count,
                                spt_page_copy *copy, spt_error *err);

/*
 * The first count slots that were reserved hold the KV of the next count
 * tokens; the others are given back, full pages published.
 */
void spt_sequence_keep(spt_sequence *sequence, int count);

#endif
