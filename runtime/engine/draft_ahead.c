#include "draft_ahead.h"

#include <string.h>

#include "mem.h"
#include "translate.h"

static spt_status no_memory(spt_error *err)
{
    return spt_fail(err, SPT_E_MEMORY, "drafts: out of memory");
}

spt_forward_limits spt_ahead_limits(const spt_ahead_options *o)
{
    /* What is drafted may stand past the context's end for a moment. */
    int context = o->context + SPT_DRAFT_NODES;
    int pages = (context + o->page_size - 1) / o->page_size;
    int chunk = o->prefill_chunk;
    return (spt_forward_limits){.sequences = o->sessions,
                                .tokens =
                                    chunk > o->sessions ? chunk : o->sessions,
                                .logits = o->sessions,
                                .context = context,
                                .pages = o->sessions * pages,
                                .page_size = o->page_size,
                                .dtype = o->fp16 ? SPT_FP16 : SPT_BF16,
                                .graphs = o->graphs,
                                .target_vocab = o->target_vocab,
                                .kept = o->sessions * o->draft_length};
}

/* Which token each id of the target is. */
static void invert(const spt_ahead *a)
{
    for (int i = 0; i < a->target_vocab; i++)
        a->from_target[i] = !a->to_target && i < a->vocab ? i : -1;
    for (int i = 0; a->to_target && i < a->vocab; i++) {
        int32_t id = a->to_target[i];
        if (id >= 0 && id < a->target_vocab && a->from_target[id] < 0)
            a->from_target[id] = i;
    }
}

static bool allocate(spt_ahead *a, const spt_forward_limits *l)
{
    size_t sessions = (size_t)l->sequences, ids = (size_t)l->target_vocab;
    a->from_target = spt_calloc(ids, sizeof *a->from_target);
    a->translated = spt_calloc(ids, sizeof *a->translated);
    a->logits = spt_calloc(sessions * (size_t)a->vocab, sizeof *a->logits);
    a->items = spt_calloc(sessions, sizeof *a->items);
    a->lanes = spt_calloc(sessions, sizeof *a->lanes);
    a->who = spt_calloc(sessions, sizeof *a->who);
    a->fed = spt_calloc((size_t)l->tokens, sizeof *a->fed);
    return a->from_target && a->translated && a->logits && a->items &&
           a->lanes && a->who && a->fed;
}

spt_status spt_ahead_open(spt_ahead *a, spt_error *err)
{
    const spt_forward_limits *l = spt_forward_limits_of(a->forward);
    a->vocab = spt_forward_config(a->forward)->vocab;
    a->target_vocab = l->target_vocab;
    a->kept = l->kept / l->sequences;
    SPT_TRY(spt_pool_open(l->pages, l->page_size, &a->pool, err));
    if (!allocate(a, l))
        return no_memory(err);
    invert(a);
    return spt_forward_translate(a->forward, a->from_target, err);
}

void spt_ahead_close(spt_ahead *a)
{
    spt_forward_close(a->forward);
    spt_pool_close(a->pool);
    spt_free(a->from_target);
    spt_free(a->logits);
    spt_free(a->translated);
    spt_free(a->text);
    spt_free(a->items);
    spt_free(a->lanes);
    spt_free(a->who);
    spt_free(a->fed);
}

void spt_ahead_drop(void *ahead)
{
    spt_ahead *a = ahead;
    void (*close)(void *) = a->close;
    void *user = a->user;
    spt_ahead_close(a);
    close(user);
}

uint64_t spt_ahead_bytes(const void *ahead)
{
    return ((const spt_ahead *)ahead)->bytes;
}

spt_ahead *spt_ahead_of(const spt_draft_source *drafter)
{
    bool ahead = drafter->class && drafter->class->draft == spt_ahead_draft;
    return ahead ? drafter->self : NULL;
}

spt_status spt_ahead_session_open(void *ahead, void **out, spt_error *err)
{
    spt_ahead *a = ahead;
    spt_ahead_state *s = spt_calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    spt_sequence_open(&s->sequence, a->pool);
    s->sequence.alone = a->alone;
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

void spt_ahead_session_close(void *ahead, void *session)
{
    spt_ahead_state *s = session;
    (void)ahead;
    drop_from(s);
    spt_sequence_close(&s->sequence);
    spt_free(s);
}

/* The host draws where the target judges there. */
static bool draws_on_device(const spt_ahead *a, const spt_draft_request *r)
{
    bool stays = !r->sample || (r->on_device && r->want <= a->kept);
    return stays && spt_forward_chooses(a->forward);
}

static spt_status start(spt_ahead *a, spt_ahead_lane *l, spt_draft_request *r,
                        spt_error *err)
{
    *l = (spt_ahead_lane){.request = r, .state = r->state};
    drop_from(l->state);
    SPT_TRY(a->follow(a->user, l, err));
    int base = l->state->base = l->state->sequence.n_tokens;
    int room = spt_forward_limits_of(a->forward)->context - base - 1;
    l->busy = base > 0 && r->want > 0 && room > r->want;
    l->on_device = draws_on_device(a, r);
    return SPT_OK;
}

/* The text that the lane's next token follows, in a->text; *count of it. */
static spt_status write_text(spt_ahead *a, const spt_ahead_lane *l, int *count,
                             spt_error *err)
{
    const spt_draft_request *r = l->request;
    *count = r->count + l->depth;
    if (!spt_grow(&a->text, &a->text_room, (size_t)*count, sizeof *a->text))
        return no_memory(err);
    memcpy(a->text, r->text, (size_t)r->count * sizeof *a->text);
    memcpy(a->text + r->count, l->drafted, (size_t)l->depth * sizeof *a->text);
    return SPT_OK;
}

/* How the device draws the lane's next token; false: the host has to. */
static bool write_row(spt_ahead *a, spt_ahead_lane *l)
{
    const spt_draft_request *r = l->request;
    spt_adjuster *adjuster = spt_sampler_adjuster(r->sampler);
    spt_error ignored; /* the host will meet it too */
    int count;
    l->row = spt_sampler_row(r->sampler, r->count + l->depth);
    l->row.use = r->sample ? SPT_RANDOM_DRAFT : SPT_RANDOM_SAMPLE;
    return !adjuster || (write_text(a, l, &count, &ignored) == SPT_OK &&
                         spt_adjuster_block(adjuster, a->text, count, NULL,
                                            NULL, 1, &l->adjustment));
}

/* How many of the most probable tokens are wanted beside the drawn one. */
static int branches(const spt_draft_request *r)
{
    return r->branches > 1 ? r->branches : 0;
}

/* Remembers what a draft was drawn from. */
static spt_status remember(spt_ahead_lane *l, const spt_candidate *c, size_t n,
                           spt_error *err)
{
    spt_candidate *copy = spt_calloc(n, sizeof *copy);
    if (!copy)
        return no_memory(err);
    memcpy(copy, c, n * sizeof *copy);
    l->state->from[l->node] = copy;
    l->request->draft->from[l->node] = (spt_draft_origin){copy, n, 0};
    return SPT_OK;
}

/* The next best tokens as siblings of the path's node. */
static void add_siblings(const spt_ahead_lane *l, int parent)
{
    for (int i = 0; i < l->best.count; i++)
        spt_draft_add(l->request->draft, parent, l->best.best[i].token, NULL);
}

/* One more token of the path, the target's, and its siblings. */
static spt_status add_token(spt_ahead *a, spt_ahead_lane *l, int32_t token,
                            spt_error *err)
{
    spt_draft_request *r = l->request;
    int32_t fed = a->feeds_target ? token : a->from_target[token];
    int parent = l->node;
    l->node = spt_draft_add(r->draft, parent, token, NULL);
    if (l->node >= 0 && r->branches > 1)
        add_siblings(l, parent);
    l->busy = l->node >= 0 && l->depth + 1 < r->want;
    l->drafted[l->depth++] = token;
    return l->busy ? spt_sequence_append(&l->state->sequence, &fed, 1, err)
                   : SPT_OK;
}

/* Where the logits of the lane's next token are kept. */
static int kept_row(const spt_ahead *a, const spt_ahead_lane *l)
{
    return (int)(l - a->lanes) * a->kept + l->depth;
}

/* The token that the device has drawn; none: the lane stops. */
static spt_status grow_by_choice(spt_ahead *a, spt_ahead_lane *l,
                                 spt_error *err)
{
    int32_t token = l->choice.count > 0 ? l->choice.token[0] : -1;
    int row = kept_row(a, l);
    l->busy = token >= 0;
    if (!l->busy)
        return SPT_OK;
    SPT_TRY(add_token(a, l, token, err));
    if (l->node >= 0 && l->request->sample)
        l->request->draft->from[l->node].logits =
            spt_forward_kept(a->forward, row);
    return SPT_OK;
}

/* The same from the lane's logits. */
static spt_status grow(spt_ahead *a, spt_ahead_lane *l, const float *logits,
                       spt_error *err)
{
    spt_draft_request *r = l->request;
    spt_random_use use = r->sample ? SPT_RANDOM_DRAFT : SPT_RANDOM_SAMPLE;
    const spt_candidate *c;
    size_t n;
    int32_t token;
    int count;
    l->busy = !(r->sample && l->on_device); /* the device should have drawn */
    if (!l->busy)
        return SPT_OK;
    SPT_TRY(write_text(a, l, &count, err));
    spt_translate_row(logits, a->vocab, a->from_target, a->target_vocab,
                      a->translated);
    spt_error nothing;
    l->busy = spt_sampler_draw(r->sampler, a->translated, a->text, count, use,
                               &token, &nothing) == SPT_OK;
    if (!l->busy)
        return SPT_OK;
    spt_logprob_row_of(a->translated, a->target_vocab, -1, branches(r),
                       &l->best);
    SPT_TRY(add_token(a, l, token, err));
    if (l->node < 0 || !r->sample)
        return SPT_OK;
    SPT_TRY(spt_sampler_candidates(r->sampler, a->translated, a->text, count,
                                   &c, &n, err));
    return remember(l, c, n, err);
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

static spt_forward_item make_item(spt_ahead *a, int lane, int32_t *fed,
                                  int feed)
{
    spt_ahead_lane *l = &a->lanes[lane];
    const spt_sequence *q = &l->state->sequence;
    spt_forward_item item = {.sequence = q,
                             .tokens = fed,
                             .count = feed,
                             .logits = q->n_kv + feed == q->n_tokens};
    memcpy(fed, q->tokens + q->n_kv, (size_t)feed * sizeof *fed);
    if (item.logits && l->on_device && write_row(a, l)) {
        item.sample = &l->row;
        if (spt_sampler_adjuster(l->request->sampler))
            item.adjust = &l->adjustment;
        item.choice = &l->choice;
        item.logprobs = branches(l->request) ? &l->best : NULL;
        item.best = branches(l->request);
        item.keeps = l->request->sample;
        item.keep = kept_row(a, l);
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

spt_status spt_ahead_draft(void *ahead, spt_draft_request *requests, int count,
                           spt_error *err)
{
    spt_ahead *a = ahead;
    for (int i = 0; i < count; i++)
        SPT_TRY(start(a, &a->lanes[i], &requests[i], err));
    for (int n; (n = make_items(a, count)) > 0;) {
        SPT_TRY(spt_forward_run(a->forward, a->items, n, a->logits, err));
        SPT_TRY(take(a, n, err));
    }
    return SPT_OK;
}
