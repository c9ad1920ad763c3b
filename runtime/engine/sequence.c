#include "sequence.h"

#include <string.h>

#include "mem.h"

static int pages_for(const spt_sequence *s, int tokens)
{
    int size = spt_pool_page_size(s->pool);
    return (int)(((int64_t)tokens + size - 1) / size);
}

void spt_sequence_open(spt_sequence *s, spt_pool *pool)
{
    *s = (spt_sequence){.pool = pool};
}

/* The last page first: what others can use longest is reused last. */
static void release_pages(spt_sequence *s, int keep)
{
    while (s->n_pages > keep)
        spt_pool_release(s->pool, s->pages[--s->n_pages]);
    if (s->n_published > keep)
        s->n_published = keep;
}

void spt_sequence_close(spt_sequence *s)
{
    release_pages(s, 0);
    spt_free(s->tokens);
    spt_free(s->pages);
    *s = (spt_sequence){.pool = s->pool, .alone = s->alone};
}

static spt_status token_room(spt_sequence *s, int count, spt_error *err)
{
    if (spt_grow(&s->tokens, &s->token_room, (size_t)count, sizeof *s->tokens))
        return SPT_OK;
    return spt_fail(err, SPT_E_MEMORY, "sequence: out of memory");
}

static spt_status page_room(spt_sequence *s, int count, spt_error *err)
{
    if (spt_grow(&s->pages, &s->page_room, (size_t)count, sizeof *s->pages))
        return SPT_OK;
    return spt_fail(err, SPT_E_MEMORY, "sequence: out of memory");
}

/* Takes the published pages of the text where they reach further than n_kv. */
static spt_status match_pages(spt_sequence *s, spt_error *err)
{
    if (s->alone)
        return SPT_OK;
    SPT_TRY(page_room(s, pages_for(s, s->n_tokens), err));
    int *found = spt_calloc(s->page_room, sizeof *found);
    if (!found)
        return spt_fail(err, SPT_E_MEMORY, "sequence: out of memory");
    int count = spt_pool_match(s->pool, s->tokens, s->n_tokens, found);
    int kv = count * spt_pool_page_size(s->pool);
    if (kv > s->n_kv) {
        release_pages(s, 0);
        memcpy(s->pages, found, (size_t)count * sizeof *found);
        s->n_pages = s->n_published = count;
        s->n_kv = kv;
    } else {
        while (count > 0)
            spt_pool_release(s->pool, found[--count]);
    }
    spt_free(found);
    return SPT_OK;
}

static void leave_last(spt_sequence *s)
{
    if (s->n_kv >= s->n_tokens)
        s->n_kv = s->n_tokens > 0 ? s->n_tokens - 1 : 0;
    release_pages(s, pages_for(s, s->n_kv));
}

spt_status spt_sequence_sync(spt_sequence *s, const int32_t *tokens, int count,
                             int *reused, spt_error *err)
{
    int common = 0;
    while (common < count && common < s->n_tokens &&
           s->tokens[common] == tokens[common])
        common++;
    SPT_TRY(token_room(s, count, err));
    if (count > 0)
        memmove(s->tokens, tokens, (size_t)count * sizeof *tokens);
    s->n_tokens = count;
    if (s->n_kv > common)
        s->n_kv = common;
    release_pages(s, pages_for(s, s->n_kv));
    SPT_TRY(match_pages(s, err));
    leave_last(s);
    if (reused)
        *reused = s->n_kv;
    return SPT_OK;
}

spt_status spt_sequence_append(spt_sequence *s, const int32_t *tokens,
                               int count, spt_error *err)
{
    if (count > INT32_MAX / 2 - s->n_tokens)
        return spt_fail(err, SPT_E_USAGE, "sequence: too many tokens");
    SPT_TRY(token_room(s, s->n_tokens + count, err));
    if (count > 0)
        memcpy(s->tokens + s->n_tokens, tokens, (size_t)count * sizeof *tokens);
    s->n_tokens += count;
    return SPT_OK;
}

void spt_sequence_reread(spt_sequence *s)
{
    release_pages(s, 0);
    s->n_kv = 0;
}

void spt_sequence_rewind(spt_sequence *s, int count)
{
    if (count < s->n_tokens)
        s->n_tokens = count > 0 ? count : 0;
    leave_last(s);
}

spt_status spt_sequence_fork(const spt_sequence *s, spt_sequence *copy,
                             spt_error *err)
{
    spt_sequence made = {.pool = s->pool};
    spt_status status = spt_sequence_append(&made, s->tokens, s->n_tokens, err);
    if (status == SPT_OK)
        status = page_room(&made, s->n_pages, err);
    if (status != SPT_OK) {
        spt_sequence_close(&made);
        return status;
    }
    made.n_kv = s->n_kv;
    made.n_published = s->n_published;
    for (int i = 0; i < s->n_pages; i++) {
        made.pages[made.n_pages++] = s->pages[i];
        spt_pool_hold(s->pool, s->pages[i]);
    }
    *copy = made;
    return SPT_OK;
}

spt_status spt_sequence_reserve(spt_sequence *s, int count, spt_page_copy *copy,
                                spt_error *err)
{
    int size = spt_pool_page_size(s->pool);
    int first = s->n_kv / size; /* the page of the first slot */
    int before = s->n_pages, need = pages_for(s, s->n_kv + count);
    bool shared = count > 0 && first < before &&
                  !spt_pool_writable(s->pool, s->pages[first]);
    int more = (need > before ? need - before : 0) + shared;
    *copy = (spt_page_copy){-1, -1};
    if (more > spt_pool_available(s->pool))
        return spt_fail(err, SPT_E_MEMORY,
                        "KV pool: %d pages needed, %d of %d are free", more,
                        spt_pool_available(s->pool), spt_pool_pages(s->pool));
    SPT_TRY(page_room(s, need, err));
    while (s->n_pages < need)
        s->pages[s->n_pages++] = spt_pool_take(s->pool);
    if (shared) {
        *copy = (spt_page_copy){s->pages[first], spt_pool_take(s->pool)};
        spt_pool_release(s->pool, copy->from);
        s->pages[first] = copy->to;
        if (s->n_published > first)
            s->n_published = first;
    }
    return SPT_OK;
}

static void publish_full(spt_sequence *s)
{
    int size = spt_pool_page_size(s->pool);
    while (!s->alone && (s->n_published + 1) * size <= s->n_kv) {
        int i = s->n_published++;
        s->pages[i] =
            spt_pool_publish(s->pool, s->pages[i], i ? s->pages[i - 1] : -1,
                             s->tokens + (size_t)i * (size_t)size);
    }
}

void spt_sequence_keep(spt_sequence *s, int count)
{
    s->n_kv += count;
    publish_full(s);
    release_pages(s, pages_for(s, s->n_kv));
}
