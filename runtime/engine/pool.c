/*
 * Published pages stand in a hash table by (content of the parent, tokens).
 * The content of a page is a number that is given once and never again, so a
 * page whose parent was reused can't be found by other text. Pages without a
 * holder stand in a list, the longest unused first; pages without content
 * before all others.
 */
#include "pool.h"

#include <string.h>

#include "mem.h"

typedef struct kv_page {
    int holders;
    uint64_t content; /* 0 = not published */
    uint64_t parent; /* content that its tokens follow; 0 = none */
    uint64_t hash;
    int next_in_bucket;
    int older, newer; /* of the list of pages without a holder */
} kv_page;

struct spt_pool {
    int count, page_size, available;
    kv_page *pages; /* count, then the list's two ends as one more */
    int32_t *tokens; /* (page, slot) of published pages */
    int *buckets; /* first page, -1 = none; as many as pages */
    uint64_t contents; /* given so far */
};

spt_status spt_pool_open(int pages, int page_size, spt_pool **out,
                         spt_error *err)
{
    if (pages < 1 || page_size < 1)
        return spt_fail(err, SPT_E_USAGE,
                        "KV pool: %d pages of %d tokens, expected one or more",
                        pages, page_size);
    size_t count = (size_t)pages;
    spt_pool *pool = spt_calloc(1, sizeof *pool);
    if (!pool)
        return spt_fail(err, SPT_E_MEMORY, "KV pool: out of memory");
    *pool = (spt_pool){
        .count = pages,
        .page_size = page_size,
        .available = pages,
        .pages = spt_calloc(count + 1, sizeof *pool->pages),
        .tokens = spt_calloc(count * (size_t)page_size, sizeof *pool->tokens),
        .buckets = spt_calloc(count, sizeof *pool->buckets)};
    if (!pool->pages || !pool->tokens || !pool->buckets) {
        spt_pool_close(pool);
        return spt_fail(err, SPT_E_MEMORY, "KV pool: out of memory");
    }
    for (int i = 0; i <= pages; i++) {
        pool->pages[i].older = i ? i - 1 : pages;
        pool->pages[i].newer = i < pages ? i + 1 : 0;
    }
    for (int i = 0; i < pages; i++)
        pool->buckets[i] = -1;
    *out = pool;
    return SPT_OK;
}

void spt_pool_close(spt_pool *pool)
{
    if (!pool)
        return;
    spt_free(pool->pages);
    spt_free(pool->tokens);
    spt_free(pool->buckets);
    spt_free(pool);
}

int spt_pool_pages(const spt_pool *pool)
{
    return pool->count;
}

int spt_pool_page_size(const spt_pool *pool)
{
    return pool->page_size;
}

int spt_pool_available(const spt_pool *pool)
{
    return pool->available;
}

static void list_remove(spt_pool *pool, int p)
{
    kv_page *pages = pool->pages;
    pages[pages[p].older].newer = pages[p].newer;
    pages[pages[p].newer].older = pages[p].older;
    pool->available--;
}

/* Between `older` and what follows it. */
static void list_insert(spt_pool *pool, int p, int older)
{
    kv_page *pages = pool->pages;
    pages[p].older = older;
    pages[p].newer = pages[older].newer;
    pages[pages[p].newer].older = p;
    pages[older].newer = p;
    pool->available++;
}

static int *bucket_of(spt_pool *pool, uint64_t hash)
{
    return &pool->buckets[hash % (uint64_t)pool->count];
}

static void unpublish(spt_pool *pool, int p)
{
    kv_page *page = &pool->pages[p];
    if (!page->content)
        return;
    int *at = bucket_of(pool, page->hash);
    while (*at != p)
        at = &pool->pages[*at].next_in_bucket;
    *at = page->next_in_bucket;
    page->content = 0;
}

int spt_pool_take(spt_pool *pool)
{
    int p = pool->pages[pool->count].newer;
    if (p == pool->count)
        return -1;
    list_remove(pool, p);
    unpublish(pool, p);
    pool->pages[p].holders = 1;
    return p;
}

void spt_pool_hold(spt_pool *pool, int p)
{
    if (pool->pages[p].holders++ == 0)
        list_remove(pool, p);
}

void spt_pool_release(spt_pool *pool, int p)
{
    kv_page *page = &pool->pages[p];
    if (--page->holders > 0)
        return;
    int end = pool->count;
    list_insert(pool, p, page->content ? pool->pages[end].older : end);
}

bool spt_pool_writable(const spt_pool *pool, int p)
{
    return pool->pages[p].holders == 1 && !pool->pages[p].content;
}

/* FNV-1a over the parent and the tokens, then mixed. */
static uint64_t hash_of(const spt_pool *pool, uint64_t parent,
                        const int32_t *tokens)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ parent;
    for (int i = 0; i < pool->page_size; i++)
        hash = (hash ^ (uint32_t)tokens[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static int find(spt_pool *pool, uint64_t parent, uint64_t hash,
                const int32_t *tokens)
{
    size_t size = (size_t)pool->page_size;
    int p = *bucket_of(pool, hash);
    while (p >= 0) {
        const kv_page *page = &pool->pages[p];
        if (page->hash == hash && page->parent == parent &&
            memcmp(pool->tokens + (size_t)p * size, tokens,
                   size * sizeof *tokens) == 0)
            return p;
        p = page->next_in_bucket;
    }
    return -1;
}

int spt_pool_publish(spt_pool *pool, int p, int parent, const int32_t *tokens)
{
    uint64_t follows = parent >= 0 ? pool->pages[parent].content : 0;
    uint64_t hash = hash_of(pool, follows, tokens);
    int same = find(pool, follows, hash, tokens);
    if (same >= 0) {
        spt_pool_hold(pool, same);
        spt_pool_release(pool, p);
        return same;
    }
    size_t size = (size_t)pool->page_size;
    memcpy(pool->tokens + (size_t)p * size, tokens, size * sizeof *tokens);
    int *bucket = bucket_of(pool, hash);
    kv_page *page = &pool->pages[p];
    page->content = ++pool->contents;
    page->parent = follows;
    page->hash = hash;
    page->next_in_bucket = *bucket;
    *bucket = p;
    return p;
}

int spt_pool_match(spt_pool *pool, const int32_t *tokens, int count, int *pages)
{
    int found = 0;
    uint64_t parent = 0;
    for (int at = 0; count - at >= pool->page_size; at += pool->page_size) {
        uint64_t hash = hash_of(pool, parent, tokens + at);
        int p = find(pool, parent, hash, tokens + at);
        if (p < 0)
            break;
        spt_pool_hold(pool, p);
        parent = pool->pages[p].content;
        pages[found++] = p;
    }
    return found;
}
