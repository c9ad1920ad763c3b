#include "draft_ngram.h"

#include "mem.h"

typedef struct ngram {
    int min_match, max_match;
    bool longest;
} ngram;

/* Tokens that agree going back from `end` and from the text's end. */
static int match_size(const int32_t *text, int count, int end, int max)
{
    int size = 0;
    while (size < max && size < end &&
           text[end - 1 - size] == text[count - 1 - size])
        size++;
    return size;
}

static bool has_successor(const int32_t *text, const int *ends, int n,
                          int32_t token)
{
    for (int i = 0; i < n; i++)
        if (text[ends[i]] == token)
            return true;
    return false;
}

/* Matches of at least `least` tokens, the most recent first. */
static int find_recent(const int32_t *text, int count, int least, int max,
                       int *ends, int found, int room)
{
    for (int end = count - 1; end > 0 && found < room; end--)
        if (match_size(text, count, end, max) >= least &&
            !has_successor(text, ends, found, text[end]))
            ends[found++] = end;
    return found;
}

/* The size of the longest match, 0 = none. */
static int longest_match(const int32_t *text, int count, int max)
{
    int most = 0;
    for (int end = count - 1; end > 0 && most < max; end--) {
        int size = match_size(text, count, end, max);
        most = size > most ? size : most;
    }
    return most;
}

int spt_ngram_find(const int32_t *text, int count, int min_match, int max_match,
                   bool longest, int *ends, int room)
{
    int found = 0;
    if (longest) {
        int most = longest_match(text, count, max_match);
        if (most >= min_match)
            found = find_recent(text, count, most, max_match, ends, 0, 1);
    }
    return find_recent(text, count, min_match, max_match, ends, found, room);
}

/* What followed, below node 0; past the text's end it goes on with itself. */
static void propose(const spt_draft_request *r, int end)
{
    int node = 0, distance = r->count - end;
    int32_t drafted[SPT_DRAFT_NODES];
    for (int i = 0; i < r->want && i + 1 < SPT_DRAFT_NODES; i++) {
        int at = end + i, same = -1;
        drafted[i] = at < r->count ? r->text[at] : drafted[i - distance];
        int added = spt_draft_add(r->draft, node, drafted[i], &same);
        node = added >= 0 ? added : same;
        if (node < 0)
            return;
    }
}

static spt_status draft(void *drafter, spt_draft_request *requests, int count,
                        spt_error *err)
{
    const ngram *n = drafter;
    (void)err;
    for (int i = 0; i < count; i++) {
        const spt_draft_request *r = &requests[i];
        int ends[SPT_DRAFT_NODES];
        int room = r->branches < 1                 ? 1
                   : r->branches < SPT_DRAFT_NODES ? r->branches
                                                   : SPT_DRAFT_NODES;
        int found = spt_ngram_find(r->text, r->count, n->min_match,
                                   n->max_match, n->longest, ends, room);
        for (int j = 0; j < found; j++)
            propose(r, ends[j]);
    }
    return SPT_OK;
}

static const spt_draft_class ngram_class = {
    .name = "n-gram",
    .close = spt_free,
    .draft = draft,
};

spt_status spt_ngram_open(int min_match, int max_match, bool longest,
                          spt_draft_source *source, spt_error *err)
{
    if (min_match < 1 || max_match < min_match)
        return spt_fail(err, SPT_E_USAGE,
                        "n-gram: matches of %d to %d tokens, expected 1 <= min "
                        "<= max",
                        min_match, max_match);
    ngram *n = spt_calloc(1, sizeof *n);
    if (!n)
        return spt_fail(err, SPT_E_MEMORY, "n-gram: out of memory");
    *n = (ngram){min_match, max_match, longest};
    *source = (spt_draft_source){&ngram_class, n};
    return SPT_OK;
}
