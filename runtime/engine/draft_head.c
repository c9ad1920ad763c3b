#include "draft_head.h"

#include "mem.h"

typedef struct draft_head {
    spt_model *model;
    spt_ahead ahead;
    int32_t *reads; /* (tokens) rows of features that a pass reads */
    int32_t *own; /* (sessions) rows that the lanes write */
} draft_head;

static spt_forward_limits limits_of(const spt_draft_head_options *o)
{
    spt_forward_limits limits = spt_ahead_limits(&o->ahead);
    limits.heard_tokens = o->heard_tokens;
    limits.heard_slots = o->heard_slots;
    return limits;
}

static void close_head(void *drafter)
{
    draft_head *h = drafter;
    spt_model_close(h->model);
    spt_free(h->reads);
    spt_free(h->own);
    spt_free(h);
}

/* The text but for its first token. What was drafted goes, accepted or not,
   and all where another first token stands before the rest. */
static spt_status follow(void *user, spt_ahead_lane *l, spt_error *err)
{
    const spt_draft_request *r = l->request;
    spt_ahead_state *s = l->state;
    (void)user;
    if (s->first != r->text[0])
        spt_sequence_rewind(&s->sequence, 0);
    else if (s->sequence.n_kv > s->base)
        spt_sequence_rewind(&s->sequence, s->base + 1);
    s->first = r->text[0];
    return spt_sequence_sync(&s->sequence, r->text + 1, r->count - 1, NULL,
                             err);
}

/* Slots of the text read what the target left, drafts what their lane did. */
static void set_rows(void *user, int lane, spt_forward_item *item)
{
    const draft_head *h = user;
    const spt_ahead_lane *l = &h->ahead.lanes[lane];
    const spt_sequence *target = l->request->sequence;
    int32_t *reads = h->reads + (item->tokens - h->ahead.fed);
    int size = spt_pool_page_size(target->pool);
    for (int i = 0; i < item->count; i++) {
        int slot = item->sequence->n_kv + i;
        reads[i] = slot < l->state->base
                       ? target->pages[slot / size] * size + slot % size
                       : h->own[lane];
    }
    item->reads = reads;
    item->writes = &h->own[lane];
}

static const spt_draft_class head_class = SPT_AHEAD_CLASS("eagle3");

static spt_status make_rows(draft_head *h, const spt_forward_limits *limits,
                            spt_error *err)
{
    h->reads = spt_calloc((size_t)limits->tokens, sizeof *h->reads);
    h->own = spt_calloc((size_t)limits->sequences, sizeof *h->own);
    if (!h->reads || !h->own)
        return spt_fail(err, SPT_E_MEMORY, "head: out of memory");
    for (int i = 0; i < limits->sequences; i++)
        h->own[i] = limits->heard_slots + i;
    return SPT_OK;
}

static spt_status fill(draft_head *h, const spt_forward_source *source,
                       const spt_draft_head_options *o, spt_error *err)
{
    spt_forward_memory memory;
    const spt_forward_limits limits = limits_of(o);
    SPT_TRY(spt_model_open(&h->model, o->path, err));
    const spt_model_config *c = spt_model_config_of(h->model);
    SPT_TRY(spt_forward_fits(c, spt_forward_config(source->target), err));
    SPT_TRY(spt_forward_estimate(h->model, &limits, &memory, err));
    SPT_TRY(make_rows(h, &limits, err));
    h->ahead.bytes = memory.total;
    h->ahead.follow = follow;
    h->ahead.item = set_rows;
    h->ahead.to_target = c->head.to_target;
    h->ahead.feeds_target = h->ahead.alone = true;
    h->ahead.prefill_chunk = o->ahead.prefill_chunk;
    SPT_TRY(
        spt_forward_open(source, h->model, &limits, &h->ahead.forward, err));
    return spt_ahead_open(&h->ahead, err);
}

spt_status spt_draft_head_open(const spt_forward_source *source,
                               const spt_draft_head_options *options,
                               spt_draft_source *drafter, spt_error *err)
{
    draft_head *h = spt_calloc(1, sizeof *h);
    if (!h)
        return spt_fail(err, SPT_E_MEMORY, "head: out of memory");
    h->ahead.user = h;
    h->ahead.close = close_head;
    spt_status status = fill(h, source, options, err);
    if (status != SPT_OK) {
        spt_ahead_drop(&h->ahead);
        return status;
    }
    *drafter = (spt_draft_source){&head_class, &h->ahead};
    return SPT_OK;
}

spt_status spt_draft_head_estimate(const spt_draft_head_options *options,
                                   const spt_model *target, uint64_t *bytes,
                                   spt_error *err)
{
    spt_model *model = NULL;
    spt_forward_memory memory;
    const spt_forward_limits limits = limits_of(options);
    SPT_TRY(spt_model_open(&model, options->path, err));
    spt_status status = spt_forward_fits(spt_model_config_of(model),
                                         spt_model_config_of(target), err);
    if (status == SPT_OK)
        status = spt_forward_estimate(model, &limits, &memory, err);
    if (status == SPT_OK)
        *bytes = memory.total;
    spt_model_close(model);
    return status;
}
