/*
 * Pages of a KV cache, as bookkeeping: who holds which page, and which pages
 * hold the KV of which tokens. Knows nothing of the device; page p is the p-th
 * page of every layer's KV buffers.
 *
 * A page that is full of committed tokens can be published: who starts with
 * the same tokens gets it instead of computing it again. A published page is
 * never written; without a holder it stays as long as no one needs the room,
 * the longest unused going first.
 */
#ifndef SPT_POOL_H
#define SPT_POOL_H

#include "error.h"

typedef struct spt_pool spt_pool;

/* pages >= 1 pages of page_size >= 1 tokens each. */
spt_status spt_pool_open(int pages, int page_size, spt_pool **pool,
                         spt_error *err);
void spt_pool_close(spt_pool *pool);

int spt_pool_pages(const spt_pool *pool);
int spt_pool_page_size(const spt_pool *pool);
/* Pages without a holder: what spt_pool_take can give. */
int spt_pool_available(const spt_pool *pool);

/* A page with one holder and no content; -1 when all have holders. */
int spt_pool_take(spt_pool *pool);
void spt_pool_hold(spt_pool *pool, int page);
void spt_pool_release(spt_pool *pool, int page);

/* One holder, and not published. */
bool spt_pool_writable(const spt_pool *pool, int page);

/*
 * The held page holds the KV of page_size tokens that follow those of parent
 * (a published page, -1 = the tokens start the text). Where another page
 * already holds the same text, that one is held and the given one released.
 * Returns the page to go on with.
 */
int spt_pool_publish(spt_pool *pool, int page, int parent,
                     const int32_t *tokens);

/*
 * Holds the pages of the longest published prefix of count tokens, whole pages
 * only, and returns how many they are. pages has room for count / page_size.
 */
int spt_pool_match(spt_pool *pool, const int32_t *tokens, int count,
                   int *pages);

#endif
