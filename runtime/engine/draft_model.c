#include "draft_model.h"

#include <math.h>
#include <string.h>

#include "mem.h"
#include "vocab_map.h"

/* Of one session of the target. */
typedef struct state {
    spt_sequence sequence; /* the text in the drafter's tokens, drafts too */
    spt_sampler *sampler; /* for sampling; NULL: not yet */
    spt_sampling sampling;
    spt_candidate *from[SPT_DRAFT_NODES]; /* what drafts were drawn from */
} state;

typedef struct draft_model {
    spt_model *model;
    spt_tokenizer *tokenizer;
    const spt_tokenizer *target;
    spt_vocab_map map;
    spt_forward *forward;
    spt_pool *pool;
    spt_forward_limits limits;
    uint64_t bytes;
    int vocab, prefill_chunk;
    float *logits; /* (sessions, vocab) */
    spt_forward_item *items;
    struct lane *lanes; /* (sessions) */
    int32_t *fed; /* (tokens) */
} draft_model;

/* One session while it drafts. */
typedef struct lane {
    spt_draft_request *request;
    state *state;
    int base; /* tokens of the text in the drafter's tokens */
    int node; /* last drafted node of the path, 0 = the anchor */
    int depth;
    bool busy;
    spt_sample_row row; /* how the device draws its next token */
    spt_forward_choice choice; /* which it was */
} lane;

static spt_forward_limits limits_of(const spt_draft_model_options *o)
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
                                .graphs = o->graphs};
}

static void close_model(void *drafter)
{
    draft_model *m = drafter;
    spt_forward_close(m->forward);
    spt_pool_close(m->pool);
    spt_vocab_map_free(&m->map);
    spt_tokenizer_close(m->tokenizer);
    spt_model_close(m->model);
    spt_free(m->logits);
    spt_free(m->items);
    spt_free(m->lanes);
    spt_free(m->fed);
    spt_free(m);
}

static spt_status open_session(void *drafter, void **out, spt_error *err)
{
    draft_model *m = drafter;
    state *s = spt_calloc(1, sizeof *s);
    if (!s)
        return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    spt_sequence_open(&s->sequence, m->pool);
    *out = s;
    return SPT_OK;
}

static void drop_from(state *s)
{
    for (int i = 0; i < SPT_DRAFT_NODES; i++) {
        spt_free(s->from[i]);
        s->from[i] = NULL;
    }
}

static void close_session(void *drafter, void *session)
{
    state *s = session;
    (void)drafter;
    drop_from(s);
    spt_sequence_close(&s->sequence);
    spt_sampler_close(s->sampler);
    spt_free(s);
}

static uint64_t bytes_of(const void *drafter)
{
    return ((const draft_model *)drafter)->bytes;
}

/* The text in the drafter's own tokens: decoded and encoded again. */
static spt_status reencode(const draft_model *m, const spt_draft_request *r,
                           spt_ids *ids, spt_error *err)
{
    spt_buf text = {0};
    const spt_encode_options options = {.begin = true};
    spt_tokenizer_decode(m->target, r->text, (size_t)r->count, false, &text);
    spt_status status = SPT_OK;
    if (text.failed)
        status = spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    else
        status = spt_tokenizer_encode(m->tokenizer, text.data ? text.data : "",
                                      text.size, options, ids, err);
    spt_buf_free(&text);
    return status;
}

/* The drafter's sequence becomes the text. */
static spt_status follow(const draft_model *m, lane *l, spt_error *err)
{
    const spt_draft_request *r = l->request;
    spt_sequence *q = &l->state->sequence;
    spt_status status;
    if (m->map.same) {
        status = spt_sequence_sync(q, r->text, r->count, NULL, err);
    } else {
        spt_ids ids = {0};
        status = reencode(m, r, &ids, err);
        if (status == SPT_OK)
            status = spt_sequence_sync(q, ids.data, (int)ids.size, NULL, err);
        spt_ids_free(&ids);
    }
    l->base = q->n_tokens;
    return status;
}

static spt_status set_sampler(const draft_model *m, state *s,
                              const spt_sampling *sampling, spt_error *err)
{
    if (s->sampler && memcmp(&s->sampling, sampling, sizeof *sampling) == 0)
        return SPT_OK;
    /* Biases are for the target's tokens. */
    spt_sampling own = *sampling;
    if (!m->map.same || own.n_bias)
        own.n_bias = 0;
    spt_sampler_close(s->sampler);
    s->sampler = NULL;
    SPT_TRY(spt_sampler_open(&own, m->vocab, &s->sampler, err));
    s->sampling = *sampling;
    return SPT_OK;
}

static spt_status start(draft_model *m, lane *l, spt_draft_request *r,
                        spt_error *err)
{
    *l = (lane){.request = r, .state = r->state};
    drop_from(l->state);
    SPT_TRY(set_sampler(m, l->state, r->sampling, err));
    SPT_TRY(follow(m, l, err));
    int room = m->limits.context - l->base - 1;
    l->busy = l->base > 0 && r->want > 0 && room > r->want;
    return SPT_OK;
}

/*
 * Whether the device draws the lane's next token, and how. The host does where
 * it has to know what a draft was drawn from, or the next best tokens, and
 * where not every token is the target's.
 */
static bool draws_on_device(const draft_model *m, lane *l)
{
    const spt_draft_request *r = l->request;
    return m->map.same && !r->sample && r->branches <= 1 &&
           spt_forward_chooses(m->forward) &&
           spt_sampler_row(l->state->sampler, r->count + l->depth, &l->row);
}

/* Hides what the target has no token for. */
static void mask(const draft_model *m, float *logits)
{
    for (int i = 0; !m->map.same && i < m->vocab; i++)
        if (m->map.to_target[i] < 0)
            logits[i] = -INFINITY;
}

static int32_t target_token(const draft_model *m, int32_t token)
{
    return m->map.same ? token : m->map.to_target[token];
}

/* Remembers what a draft was drawn from, in the target's tokens. */
static spt_status remember(const draft_model *m, lane *l, int node,
                           const spt_candidate *c, size_t n, spt_error *err)
{
    spt_candidate *copy = spt_calloc(n, sizeof *copy);
    if (!copy)
        return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    for (size_t i = 0; i < n; i++)
        copy[i] = (spt_candidate){target_token(m, c[i].token), c[i].p};
    l->state->from[node] = copy;
    l->request->draft->from[node] = copy;
    l->request->draft->n_from[node] = n;
    return SPT_OK;
}

/* The next best tokens as siblings of the path's node. */
static void add_siblings(const draft_model *m, lane *l, const float *logits,
                         int parent)
{
    spt_candidate top[SPT_DRAFT_NODES];
    size_t want = (size_t)l->request->branches;
    size_t n = spt_top_logprobs(logits, m->vocab, top, want);
    for (size_t i = 0; i < n; i++)
        if (top[i].p > -INFINITY)
            spt_draft_add(l->request->draft, parent,
                          target_token(m, top[i].token), NULL);
}

/* One more token of the path; what it was drawn from, where that matters. */
static spt_status add_token(draft_model *m, lane *l, int32_t token,
                            spt_error *err)
{
    spt_draft_request *r = l->request;
    l->node = spt_draft_add(r->draft, l->node, target_token(m, token), NULL);
    l->busy = l->node >= 0 && ++l->depth < r->want;
    return l->busy ? spt_sequence_append(&l->state->sequence, &token, 1, err)
                   : SPT_OK;
}

/* The token that the device has drawn; none: the lane stops. */
static spt_status grow_by_choice(draft_model *m, lane *l, spt_error *err)
{
    int32_t token = l->choice.count > 0 ? l->choice.token[0] : -1;
    l->busy = token >= 0;
    return l->busy ? add_token(m, l, token, err) : SPT_OK;
}

/* The same from the lane's logits, with all that the host is for. */
static spt_status grow(draft_model *m, lane *l, float *logits, spt_error *err)
{
    spt_draft_request *r = l->request;
    spt_sequence *q = &l->state->sequence;
    const spt_candidate *c;
    size_t n;
    int64_t position = r->count + l->depth; /* of the token, in the target */
    mask(m, logits);
    SPT_TRY(spt_sampler_candidates(l->state->sampler, logits, q->tokens,
                                   q->n_tokens, &c, &n, err));
    spt_random_use use = r->sample ? SPT_RANDOM_DRAFT : SPT_RANDOM_SAMPLE;
    double u = n > 1 ? spt_random(r->sampling->seed, position, use) : 0;
    int32_t token = spt_pick(c, n, u);
    int parent = l->node;
    SPT_TRY(add_token(m, l, token, err));
    if (l->node >= 0 && r->sample)
        SPT_TRY(remember(m, l, l->node, c, n, err));
    if (l->node >= 0 && r->branches > 1)
        add_siblings(m, l, logits, parent);
    return SPT_OK;
}

/* What busy lanes feed in one pass; lanes that find no room stop. */
static int make_items(draft_model *m, lane *lanes, int count, int *who)
{
    int n = 0, room = m->limits.tokens;
    int32_t *fed = m->fed;
    for (int i = 0; i < count; i++) {
        spt_sequence *q = &lanes[i].state->sequence;
        int feed = q->n_tokens - q->n_kv;
        spt_page_copy copy;
        spt_error ignored;
        if (!lanes[i].busy || room == 0)
            continue;
        feed = feed < m->prefill_chunk ? feed : m->prefill_chunk;
        feed = feed < room ? feed : room;
        if (spt_sequence_reserve(q, feed, &copy, &ignored) != SPT_OK ||
            (copy.to >= 0 &&
             spt_forward_copy_page(m->forward, copy, &ignored) != SPT_OK)) {
            lanes[i].busy = false;
            continue;
        }
        memcpy(fed, q->tokens + q->n_kv, (size_t)feed * sizeof *fed);
        m->items[n] =
            (spt_forward_item){.sequence = q,
                               .tokens = fed,
                               .count = feed,
                               .logits = q->n_kv + feed == q->n_tokens};
        if (m->items[n].logits && draws_on_device(m, &lanes[i])) {
            m->items[n].sample = &lanes[i].row;
            m->items[n].choice = &lanes[i].choice;
        }
        who[n++] = i;
        fed += feed;
        room -= feed;
    }
    return n;
}

static spt_status draft(void *drafter, spt_draft_request *requests, int count,
                        spt_error *err)
{
    draft_model *m = drafter;
    int *who = spt_calloc((size_t)count, sizeof *who);
    if (!who)
        return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    spt_status status = SPT_OK;
    for (int i = 0; i < count && status == SPT_OK; i++)
        status = start(m, &m->lanes[i], &requests[i], err);
    while (status == SPT_OK) {
        int n = make_items(m, m->lanes, count, who);
        if (!n)
            break;
        status = spt_forward_run(m->forward, m->items, n, m->logits, err);
        float *logits = m->logits;
        for (int i = 0; i < n && status == SPT_OK; i++) {
            lane *l = &m->lanes[who[i]];
            spt_sequence_keep(&l->state->sequence, m->items[i].count);
            if (!m->items[i].logits)
                continue;
            if (m->items[i].sample) {
                status = grow_by_choice(m, l, err);
                continue;
            }
            status = grow(m, l, logits, err);
            logits += m->vocab;
        }
    }
    spt_free(who);
    return status;
}

static const spt_draft_class model_class = {
    .name = "model",
    .close = close_model,
    .session_open = open_session,
    .session_close = close_session,
    .draft = draft,
    .bytes = bytes_of,
};

static spt_status allocate(draft_model *m, spt_error *err)
{
    size_t sessions = (size_t)m->limits.sequences;
    m->logits = spt_calloc(sessions * (size_t)m->vocab, sizeof *m->logits);
    m->items = spt_calloc(sessions, sizeof *m->items);
    m->lanes = spt_calloc(sessions, sizeof *m->lanes);
    m->fed = spt_calloc((size_t)m->limits.tokens, sizeof *m->fed);
    if (m->logits && m->items && m->lanes && m->fed)
        return SPT_OK;
    return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
}

static spt_status fill(draft_model *m, const spt_forward_source *source,
                       const spt_draft_model_options *o, spt_error *err)
{
    spt_forward_memory memory;
    SPT_TRY(spt_model_open(&m->model, o->path, err));
    SPT_TRY(spt_tokenizer_open(&m->tokenizer, m->model, err));
    m->vocab = spt_model_config_of(m->model)->vocab;
    m->target = o->tokenizer;
    SPT_TRY(spt_vocab_map_make(o->tokenizer, o->target_vocab, m->tokenizer,
                               m->vocab, &m->map, err));
    m->limits = limits_of(o);
    m->prefill_chunk = o->prefill_chunk;
    SPT_TRY(spt_forward_estimate(m->model, &m->limits, &memory, err));
    m->bytes = memory.total;
    SPT_TRY(spt_forward_open(source, m->model, &m->limits, &m->forward, err));
    SPT_TRY(spt_pool_open(m->limits.pages, m->limits.page_size, &m->pool, err));
    return allocate(m, err);
}

spt_status spt_draft_model_open(const spt_forward_source *source,
                                const spt_draft_model_options *options,
                                spt_draft_source *drafter, spt_error *err)
{
    draft_model *m = spt_calloc(1, sizeof *m);
    if (!m)
        return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    spt_status status = fill(m, source, options, err);
    if (status != SPT_OK) {
        close_model(m);
        return status;
    }
    *drafter = (spt_draft_source){&model_class, m};
    return SPT_OK;
}

void spt_draft_model_digest(const spt_draft_source *drafter, char *hex)
{
    spt_forward_model_digest(((const draft_model *)drafter->self)->forward,
                             hex);
}

spt_status spt_draft_model_estimate(const spt_draft_model_options *options,
                                    uint64_t *bytes, spt_error *err)
{
    spt_model *model = NULL;
    spt_forward_memory memory;
    spt_forward_limits limits = limits_of(options);
    SPT_TRY(spt_model_open(&model, options->path, err));
    spt_status status = spt_forward_estimate(model, &limits, &memory, err);
    if (status == SPT_OK)
        *bytes = memory.total;
    spt_model_close(model);
    return status;
}
