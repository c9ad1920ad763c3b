#include "draft_model.h"

#include "mem.h"
#include "vocab_map.h"

typedef struct draft_model {
    spt_model *model;
    spt_tokenizer *tokenizer;
    const spt_tokenizer *target;
    spt_vocab_map map;
    spt_ahead ahead;
} draft_model;

static void close_model(void *drafter)
{
    draft_model *m = drafter;
    spt_vocab_map_free(&m->map);
    spt_tokenizer_close(m->tokenizer);
    spt_model_close(m->model);
    spt_free(m);
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

static spt_status follow(void *user, spt_ahead_lane *l, spt_error *err)
{
    const draft_model *m = user;
    const spt_draft_request *r = l->request;
    spt_sequence *q = &l->state->sequence;
    if (m->map.same)
        return spt_sequence_sync(q, r->text, r->count, NULL, err);
    spt_ids ids = {0};
    spt_status status = reencode(m, r, &ids, err);
    if (status == SPT_OK)
        status = spt_sequence_sync(q, ids.data, (int)ids.size, NULL, err);
    spt_ids_free(&ids);
    return status;
}

static const spt_draft_class model_class = SPT_AHEAD_CLASS("model");

static spt_status fill(draft_model *m, const spt_forward_source *source,
                       const spt_draft_model_options *o, spt_error *err)
{
    spt_forward_memory memory;
    const spt_forward_limits limits = spt_ahead_limits(&o->ahead);
    SPT_TRY(spt_model_open(&m->model, o->path, err));
    SPT_TRY(spt_forward_estimate(m->model, &limits, &memory, err));
    SPT_TRY(spt_tokenizer_open(&m->tokenizer, m->model, err));
    m->target = o->tokenizer;
    SPT_TRY(
        spt_vocab_map_make(o->tokenizer, o->ahead.target_vocab, m->tokenizer,
                           spt_model_config_of(m->model)->vocab, &m->map, err));
    m->ahead.bytes = memory.total;
    m->ahead.follow = follow;
    m->ahead.to_target = m->map.to_target;
    m->ahead.prefill_chunk = o->ahead.prefill_chunk;
    SPT_TRY(
        spt_forward_open(source, m->model, &limits, &m->ahead.forward, err));
    return spt_ahead_open(&m->ahead, err);
}

spt_status spt_draft_model_open(const spt_forward_source *source,
                                const spt_draft_model_options *options,
                                spt_draft_source *drafter, spt_error *err)
{
    draft_model *m = spt_calloc(1, sizeof *m);
    if (!m)
        return spt_fail(err, SPT_E_MEMORY, "draft model: out of memory");
    m->ahead.user = m;
    m->ahead.close = close_model;
    spt_status status = fill(m, source, options, err);
    if (status != SPT_OK) {
        spt_ahead_drop(&m->ahead);
        return status;
    }
    *drafter = (spt_draft_source){&model_class, &m->ahead};
    return SPT_OK;
}

spt_status spt_draft_model_estimate(const spt_draft_model_options *options,
                                    uint64_t *bytes, spt_error *err)
{
    spt_model *model = NULL;
    spt_forward_memory memory;
    spt_forward_limits limits = spt_ahead_limits(&options->ahead);
    SPT_TRY(spt_model_open(&model, options->path, err));
    spt_status status = spt_forward_estimate(model, &limits, &memory, err);
    if (status == SPT_OK)
        *bytes = memory.total;
    spt_model_close(model);
    return status;
}
