#include "draft_ahead.h"

#include <math.h>
#include <string.h>

#include "mem.h"

static spt_status no_memory(spt_error *err)
{
    return spt_fail(err, SPT_E_MEMORY, "drafts: out of memory");
}

spt_status spt_ahead_open(spt_ahead *a, spt_error *err)
{
    const spt_forward_limits *l = spt_forward_limits_of(a->forward);
    size_t sessions = (size_t)l->sequences;
    a->vocab = spt_forward_config(a->forward)->vocab;
    SPT_TRY(spt_pool_open(l->pages, l->page_size, &a->pool, err));
    a->logits = spt_calloc(sessions * (size_t)a->vocab, sizeof *a->logits);
    a->items = spt_calloc(sessions, sizeof *a->items);
    a->lanes = spt_calloc(sessions, sizeof *a->lanes);
    a->who = spt_calloc(sessions, sizeof *a->who);
    a->fed = spt_calloc((size_t)l->tokens, sizeof *a->fed);
    return a->logits && a->items && a->lanes && a->who && a->fed
               ? SPT_OK
               : no_memory(err);
}

void spt_ahead_close(spt_ahead *a)
{
    spt_forward_close(a->forward);
    spt_pool_close(a->pool);
    spt_free(a->logits);
    spt_free(a->items);
    spt_free(a->lanes);
    spt_free(a->who);
    spt_free(a->fed);
}

spt_status spt_ahead_session_open(spt_ahead *a, void **out, spt_error *err)
{
    spt_ahead_state *s = spt_calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    spt_sequence_open(&s->sequence, a->pool);
    *out = s;
    return SPT_OK;
}

static void drop_from(spt_ahead_state *s)
{
    for (int i = 0; i < SPT_DRAFT_NODES; i++) {
        spt_free(s->from[i]);
        s->from[i] = NULL;
    }
}

void spt_ahead_session_close(void *session)
{
    spt_ahead_state *s = session;
    drop_from(s);
    spt_sequence_close(&s->sequence);
    spt_sampler_close(s->sampler);
    spt_free(s);
}

static spt_status set_sampler(const spt_ahead *a, spt_ahead_state *s,
                              const spt_sampling *sampling, spt_error *err)
{
    if (s->sampler && memcmp(&s->sampling, sampling, sizeof *sampling) == 0)
        return SPT_OK;
    /* Biases are for the target's tokens. */
    spt_sampling own = *sampling;
    own.n_bias = 0;
    spt_sampler_close(s->sampler);
    s->sampler = NULL;
    SPT_TRY(spt_sampler_open(&own, a->vocab, &s->sampler, err));
    s->sampling = *sampling;
    return SPT_OK;
}

static spt_status start(spt_ahead *a, spt_ahead_lane *l, spt_draft_request *r,
                        spt_error *err)
{
    *l = (spt_ahead_lane){.request = r, .state = r->state};
    drop_from(l->state);
    SPT_TRY(set_sampler(a, l->state, r->sampling, err));
    SPT_TRY(a->follow(a->user, l, err));
    int base = l->state->base = l->state->sequence.n_tokens;
    int room = spt_forward_limits_of(a->forward)->context - base - 1;
    l->busy = base > 0 && r->want > 0 && room > r->want;
    return SPT_OK;
}

/*
 * Whether the device draws the lane's next token, and how. The host does where
 * it has to know what a draft was drawn from, or the next best tokens, and
 * where not every token is the target's.
 */
static bool draws_on_device(const spt_ahead *a, spt_ahead_lane *l)
{
    const spt_draft_request *r = l->request;
    return (!a->to_target || a->complete) && !r->sample && r->branches <= 1 &&
           spt_forward_chooses(a->forward) &&
           spt_sampler_row(l->state->sampler, r->count + l->depth, &l->row);
}

/* Hides what the target has no token for. */
static void mask(const spt_ahead *a, float *logits)
{
    for (int i = 0; a->to_target && !a->complete && i < a->vocab; i++)
        if (a->to_target[i] < 0)
            logits[i] = -INFINITY;
}

static int32_t target_token(const spt_ahead *a, int32_t token)
{
    return a->to_target ? a->to_target[token] : token;
}

/* Remembers what a draft was drawn from, in the target's tokens. */
static spt_status remember(const spt_ahead *a, spt_ahead_lane *l, int node,
                           const spt_candidate *c, size_t n, spt_error *err)
{
    spt_candidate *copy = spt_calloc(n, sizeof *copy);
    if (!copy)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        copy[i] = (spt_candidate){target_token(a, c[i].token), c[i].p};
    l->state->from[node] = copy;
    l->request->draft->from[node] = copy;
    l->request->draft->n_from[node] = n;
    return SPT_OK;
}

/* The next best tokens as siblings of the path's node. */
static void add_siblings(const spt_ahead *a, spt_ahead_lane *l,
                         const float *logits, int parent)
{
    spt_logprob_row row;
    spt_logprob_row_of(logits, a->vocab, -1, l->request->branches, &row);
    for (int i = 0; i < row.count; i++)
        spt_draft_add(l->request->draft, parent,
                      target_token(a, row.best[i].token), NULL);
}

/* One more token of the path. */
static spt_status add_token(spt_ahead *a, spt_ahead_lane *l, int32_t token,
                            spt_error *err)
{
    spt_draft_request *r = l->request;
    int32_t target = target_token(a, token);
    int32_t fed = a->feeds_target ? target : token;
    l->node = spt_draft_add(r->draft, l->node, target, NULL);
    l->busy = l->node >= 0 && ++l->depth < r->want;
    return l->busy ? spt_sequence_append(&l->state->sequence, &fed, 1, err)
                   : SPT_OK;
}

/* The token that the device has drawn; none: the lane stops. */
static spt_status grow_by_choice(spt_ahead *a, spt_ahead_lane *l,
                                 spt_error *err)
{
    int32_t token = l->choice.count > 0 ? l->choice.token[0] : -1;
    l->busy = token >= 0;
    return l->busy ? add_token(a, l, token, err) : SPT_OK;
}

/* The same from the lane's logits, with all that the host is for. */
static spt_status grow(spt_ahead *a, spt_ahead_lane *l, float *logits,
                       spt_error *err)
{
    spt_draft_request *r = l->request;
    const spt_sequence *q = &l->state->sequence;
    const spt_candidate *c;
    size_t n;
    int64_t position = r->count + l->depth; /* of the token, in the target */
    /* Penalties need the text in the ids of the logits. */
    int text = a->feeds_target && a->to_target ? 0 : q->n_tokens;
    mask(a, logits);
    SPT_TRY(spt_sampler_candidates(l->state->sampler, logits, q->tokens, text,
                                   &c, &n, err));
    spt_random_use use = r->sample ? SPT_RANDOM_DRAFT : SPT_RANDOM_SAMPLE;
    double u = n > 1 ? spt_random(r->sampling->seed, position, use) : 0;
    int32_t token = spt_pick(c, n, u);
    int parent = l->node;
    SPT_TRY(add_token(a, l, token, err));
    if (l->node >= 0 && r->sample)
        SPT_TRY(remember(a, l, l->node, c, n, err));
    if (l->node >= 0 && r->branches > 1)
        add_siblings(a, l, logits, parent);
    return SPT_OK;
}

/* Pages for the lane's next `feed` tokens; false: the pool has none. */
static bool reserve(spt_ahead *a, spt_sequence *q, int feed)
{
    spt_page_copy copy;
    spt_error ignored;
    return spt_sequence_reserve(q, feed, &copy, &ignored) == SPT_OK &&
           (copy.to < 0 ||
            spt_forward_copy_page(a->forward, copy, &ignored) == SPT_OK);
}

static spt_forward_item make_item(const spt_ahead *a, int lane, int32_t *fed,
                                  int feed)
{
    spt_ahead_lane *l = &a->lanes[lane];
    const spt_sequence *q = &l->state->sequence;
    spt_forward_item item = {.sequence = q,
                             .tokens = fed,
                             .count = feed,
                             .logits = q->n_kv + feed == q->n_tokens};
    memcpy(fed, q->tokens + q->n_kv, (size_t)feed * sizeof *fed);
    if (item.logits && draws_on_device(a, l)) {
        item.sample = &l->row;
        item.choice = &l->choice;
    }
    if (a->item)
        a->item(a->user, lane, &item);
    return item;
}

/* What busy lanes feed in one pass; lanes that find no room stop. */
static int make_items(spt_ahead *a, int count)
{
    int n = 0, room = spt_forward_limits_of(a->forward)->tokens;
    int32_t *fed = a->fed;
    for (int i = 0; i < count; i++) {
        spt_ahead_lane *l = &a->lanes[i];
        spt_sequence *q = &l->state->sequence;
        int feed = q->n_tokens - q->n_kv;
        if (!l->busy || room == 0)
            continue;
        feed = feed < a->prefill_chunk ? feed : a->prefill_chunk;
        feed = feed < room ? feed : room;
        if (!reserve(a, q, feed)) {
            l->busy = false;
            continue;
        }
        a->items[n] = make_item(a, i, fed, feed);
        a->who[n++] = i;
        fed += feed;
        room -= feed;
    }
    return n;
}

/* What the pass of n items gives their lanes. */
static spt_status take(spt_ahead *a, int n, spt_error *err)
{
    float *logits = a->logits;
    for (int i = 0; i < n; i++) {
        spt_ahead_lane *l = &a->lanes[a->who[i]];
        const spt_forward_item *item = &a->items[i];
        spt_sequence_keep(&l->state->sequence, item->count);
        if (item->sample) {
            SPT_TRY(grow_by_choice(a, l, err));
        } else if (item->logits) {
            SPT_TRY(grow(a, l, logits, err));
            logits += a->vocab;
        }
    }
    return SPT_OK;
}

spt_status spt_ahead_draft(spt_ahead *a, spt_draft_request *requests, int count,
                           spt_error *err)
{
    for (int i = 0; i < count; i++)
        SPT_TRY(start(a, &a->lanes[i], &requests[i], err));
    for (int n; (n = make_items(a, count)) > 0;) {
        SPT_TRY(spt_forward_run(a->forward, a->items, n, a->logits, err));
        SPT_TRY(take(a, n, err));
    }
    return SPT_OK;
}
