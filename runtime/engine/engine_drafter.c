/* The drafter that the options name. */
#include "draft_head.h"
#include "draft_model.h"
#include "draft_ngram.h"
#include "session_int.h"

enum { DEFAULT_MIN_MATCH = 2, DEFAULT_MAX_MATCH = 8, GRAPHS = 8 };

static spt_status open_ngram(spt_engine *e, spt_error *err)
{
    const spt_draft_options *o = &e->options.draft;
    int min = o->min_match ? o->min_match : DEFAULT_MIN_MATCH;
    int max = o->max_match ? o->max_match : DEFAULT_MAX_MATCH;
    if (!o->max_match && max < min)
        max = min;
    if (!o->min_match && min > max)
        min = max;
    const spt_ngram_rule rule = {min, max, o->longest};
    return spt_ngram_open(&rule, e->forward, &e->drafter, err);
}

static spt_ahead_options ahead_options(const spt_engine_options *o,
                                       int target_vocab)
{
    return (spt_ahead_options){.target_vocab = target_vocab,
                               .sessions = o->sessions,
                               .context = o->context,
                               .prefill_chunk = o->prefill_chunk,
                               .page_size = o->page_size,
                               .draft_length = o->draft_length,
                               .fp16 = o->dtype == SPT_TYPE_FP16,
                               .graphs = o->no_graphs ? 0 : GRAPHS};
}

static spt_draft_model_options model_options(const spt_engine_options *o,
                                             int target_vocab)
{
    return (spt_draft_model_options){.path = o->draft.model,
                                     .ahead = ahead_options(o, target_vocab)};
}

static spt_draft_head_options head_options(const spt_engine_options *o,
                                           int target_vocab)
{
    const spt_forward_limits limits = spt_engine_limits(o);
    return (spt_draft_head_options){.path = o->draft.model,
                                    .ahead = ahead_options(o, target_vocab),
                                    .heard_tokens = limits.tokens,
                                    .heard_slots =
                                        limits.pages * limits.page_size};
}

static spt_status open_model(spt_engine *e, const spt_forward_source *source,
                             spt_error *err)
{
    spt_draft_model_options o =
        model_options(&e->options, spt_model_config_of(e->model)->vocab);
    o.tokenizer = e->tokenizer;
    return spt_draft_model_open(source, &o, &e->drafter, err);
}

static spt_status open_head(spt_engine *e, const spt_forward_source *source,
                            spt_error *err)
{
    const spt_draft_head_options o =
        head_options(&e->options, spt_model_config_of(e->model)->vocab);
    spt_forward_source own = *source;
    own.target = e->forward;
    return spt_draft_head_open(&own, &o, &e->drafter, err);
}

/* A drafter with memory of its own. */
static spt_status count_memory(spt_engine *e, spt_status opened)
{
    SPT_TRY(opened);
    e->memory.drafter = e->drafter.class->bytes(e->drafter.self);
    e->memory.total += e->memory.drafter;
    return SPT_OK;
}

spt_status spt_engine_open_drafter(spt_engine *e,
                                   const spt_forward_source *source,
                                   spt_error *err)
{
    const spt_draft_options *o = &e->options.draft;
    switch (o->method) {
    case SPT_DRAFT_NONE:
        return SPT_OK;
    case SPT_DRAFT_NGRAM:
        return open_ngram(e, err);
    case SPT_DRAFT_MODEL:
        return count_memory(e, open_model(e, source, err));
    case SPT_DRAFT_EAGLE3:
        return count_memory(e, open_head(e, source, err));
    }
    return spt_fail(err, SPT_E_USAGE, "engine: draft method %d is none",
                    (int)o->method);
}

spt_status spt_engine_estimate_drafter(const spt_engine_options *options,
                                       const spt_model *target, uint64_t *bytes,
                                       spt_error *err)
{
    int target_vocab = spt_model_config_of(target)->vocab;
    *bytes = 0; /* what n-gram drafts take is the model's workspace */
    if (options->draft.method == SPT_DRAFT_EAGLE3) {
        const spt_draft_head_options o = head_options(options, target_vocab);
        return spt_draft_head_estimate(&o, target, bytes, err);
    }
    if (options->draft.method != SPT_DRAFT_MODEL)
        return SPT_OK;
    const spt_draft_model_options o = model_options(options, target_vocab);
    return spt_draft_model_estimate(&o, bytes, err);
}
