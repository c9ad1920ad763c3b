#include "draft_ngram.h"

#include <string.h>

#include "mem.h"

/* A text on the device, and what is known to be there. */
typedef struct history {
    const void *owner; /* a session's state, NULL: nobody's */
    uint64_t used; /* the last round that searched it */
    int32_t *text; /* (context) */
    int count;
} history;

typedef struct ngram {
    spt_ngram_rule rule;
    spt_forward *forward; /* NULL: the host searches */
    int n_histories, context;
    int matches; /* of one text, that the device finds at most */
    history *histories;
    spt_forward_search *searches; /* (n_histories) */
    int32_t (*drafts)[SPT_DRAFT_NODES]; /* (n_histories, matches) */
    uint64_t round;
} ngram;

/* Of a session: it only has to be another one than the others'. */
typedef struct state {
    int history; /* that it had last, -1 = none */
} state;

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

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static int wanted(const spt_draft_request *r)
{
    return lesser(r->want, SPT_DRAFT_NODES - 1);
}

/* A path below node 0, where others may go along with it. */
static void propose(const spt_draft_request *r, const int32_t *tokens)
{
    for (int i = 0, node = 0; i < wanted(r) && node >= 0; i++) {
        int same = -1, added = spt_draft_add(r->draft, node, tokens[i], &same);
        node = added >= 0 ? added : same;
    }
}

/* What followed; past the text's end it goes on with itself. */
static void follow(const spt_draft_request *r, int end, int32_t *tokens)
{
    for (int i = 0; i < wanted(r); i++)
        tokens[i] = r->text[end + i % (r->count - end)];
}

static int branches(const spt_draft_request *r)
{
    return r->branches > 1 ? lesser(r->branches, SPT_DRAFT_NODES) : 1;
}

static void draft_on_host(const ngram *n, spt_draft_request *requests,
                          int count)
{
    for (int i = 0; i < count; i++) {
        const spt_draft_request *r = &requests[i];
        int ends[SPT_DRAFT_NODES];
        int32_t tokens[SPT_DRAFT_NODES];
        int found = spt_ngram_find(r->text, r->count, n->rule.min_match,
                                   n->rule.max_match, n->rule.longest, ends,
                                   branches(r));
        for (int j = 0; j < found; j++) {
            follow(r, ends[j], tokens);
            propose(r, tokens);
        }
    }
}

/* The session's own, where it still has one. */
static history *own_history(ngram *n, const state *s)
{
    history *h = s->history < 0 ? NULL : &n->histories[s->history];
    return h && h->owner == s ? h : NULL;
}

/* The one that was not used for longest becomes the session's. */
static void take_history(ngram *n, state *s)
{
    int oldest = 0;
    for (int i = 1; i < n->n_histories; i++)
        if (n->histories[i].used < n->histories[oldest].used)
            oldest = i;
    s->history = oldest;
    n->histories[oldest].owner = s;
    n->histories[oldest].used = n->round;
}

static void find_histories(ngram *n, spt_draft_request *requests, int count)
{
    n->round++;
    for (int i = 0; i < count; i++) {
        history *h = own_history(n, requests[i].state);
        if (h)
            h->used = n->round;
    }
    for (int i = 0; i < count; i++)
        if (!own_history(n, requests[i].state))
            take_history(n, requests[i].state);
}

/* The history becomes the request's text; what differs is to be sent. */
static void prepare(ngram *n, const spt_draft_request *r, int i)
{
    const state *s = r->state;
    history *h = &n->histories[s->history];
    int common = 0;
    while (common < h->count && common < r->count &&
           h->text[common] == r->text[common])
        common++;
    memcpy(h->text + common, r->text + common,
           (size_t)(r->count - common) * sizeof *h->text);
    h->count = r->count;
    n->searches[i] = (spt_forward_search){
        .history = s->history,
        .text = r->text,
        .count = r->count,
        .common = common,
        .want = wanted(r),
        .matches = branches(r),
        .draft = n->drafts + (size_t)i * (size_t)n->matches};
}

static spt_status draft_on_device(ngram *n, spt_draft_request *requests,
                                  int count, spt_error *err)
{
    find_histories(n, requests, count);
    for (int i = 0; i < count; i++)
        prepare(n, &requests[i], i);
    spt_status status =
        spt_forward_ngram(n->forward, &n->rule, n->searches, count, err);
    for (int i = 0; i < count; i++) {
        const spt_forward_search *s = &n->searches[i];
        if (status != SPT_OK)
            n->histories[s->history].count = 0;
        for (int j = 0; status == SPT_OK && j < s->found; j++)
            propose(&requests[i], s->draft[j]);
    }
    return status;
}

static spt_status draft(void *drafter, spt_draft_request *requests, int count,
                        spt_error *err)
{
    ngram *n = drafter;
    bool fits = n->forward && count <= n->n_histories;
    for (int i = 0; i < count; i++)
        fits = fits && branches(&requests[i]) <= n->matches &&
               requests[i].count <= n->context;
    if (fits)
        return draft_on_device(n, requests, count, err);
    draft_on_host(n, requests, count);
    return SPT_OK;
}

static spt_status open_session(void *drafter, void **out, spt_error *err)
{
    state *s = spt_calloc(1, sizeof *s);
    (void)drafter;
    if (!s)
        return spt_fail(err, SPT_E_MEMORY, "n-gram: out of memory");
    s->history = -1;
    *out = s;
    return SPT_OK;
}

static void close_session(void *drafter, void *session)
{
    history *h = own_history(drafter, session);
    if (h)
        *h = (history){.text = h->text};
    spt_free(session);
}

static void close_ngram(void *drafter)
{
    ngram *n = drafter;
    for (int i = 0; n->histories && i < n->n_histories; i++)
        spt_free(n->histories[i].text);
    spt_free(n->histories);
    spt_free(n->searches);
    spt_free(n->drafts);
    spt_free(n);
}

static const spt_draft_class ngram_class = {
    .name = "n-gram",
    .close = close_ngram,
    .session_open = open_session,
    .session_close = close_session,
    .draft = draft,
};

static bool allocate(ngram *n)
{
    size_t count = (size_t)n->n_histories;
    n->histories = spt_calloc(count, sizeof *n->histories);
    n->searches = spt_calloc(count, sizeof *n->searches);
    n->drafts = spt_calloc(count * (size_t)n->matches, sizeof *n->drafts);
    bool good = n->histories && n->searches && n->drafts;
    for (size_t i = 0; good && i < count; i++) {
        history *h = &n->histories[i];
        h->text = spt_calloc((size_t)n->context, sizeof *h->text);
        good = h->text != NULL;
    }
    return good;
}

spt_status spt_ngram_open(const spt_ngram_rule *rule, spt_forward *forward,
                          spt_draft_source *source, spt_error *err)
{
    if (rule->min_match < 1 || rule->max_match < rule->min_match)
        return spt_fail(err, SPT_E_USAGE,
                        "n-gram: matches of %d to %d tokens, expected 1 <= min "
                        "<= max",
                        rule->min_match, rule->max_match);
    ngram *n = spt_calloc(1, sizeof *n);
    if (!n)
        return spt_fail(err, SPT_E_MEMORY, "n-gram: out of memory");
    *n = (ngram){.rule = *rule, .forward = forward};
    if (forward) {
        n->n_histories = spt_forward_limits_of(forward)->histories;
        n->context = spt_forward_limits_of(forward)->context;
        int matches = spt_forward_limits_of(forward)->matches;
        n->matches = matches > 1 ? matches : 1;
        if (!allocate(n)) {
            close_ngram(n);
            return spt_fail(err, SPT_E_MEMORY, "n-gram: out of memory");
        }
    }
    *source = (spt_draft_source){&ngram_class, n};
    return SPT_OK;
}
