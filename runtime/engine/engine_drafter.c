/* The drafter that the options name. */
#include "draft_ngram.h"
#include "session_int.h"

enum { DEFAULT_MIN_MATCH = 2, DEFAULT_MAX_MATCH = 8 };

static spt_status open_ngram(const spt_draft_options *o,
                             spt_draft_source *source, spt_error *err)
{
    int min = o->min_match ? o->min_match : DEFAULT_MIN_MATCH;
    int max = o->max_match ? o->max_match : DEFAULT_MAX_MATCH;
    if (!o->max_match && max < min)
        max = min;
    return spt_ngram_open(min, max, o->longest, source, err);
}

spt_status spt_engine_open_drafter(spt_engine *e, spt_error *err)
{
    const spt_draft_options *o = &e->options.draft;
    switch (o->method) {
    case SPT_DRAFT_NONE:
        return SPT_OK;
    case SPT_DRAFT_NGRAM:
        return open_ngram(o, &e->drafter, err);
    default:
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "engine: draft method %d, expected none or n-gram",
                        (int)o->method);
    }
}

spt_status spt_engine_estimate_drafter(const spt_engine_options *options,
                                       uint64_t *bytes, spt_error *err)
{
    (void)options;
    (void)err;
    *bytes = 0; /* the text is searched on the host */
    return SPT_OK;
}
