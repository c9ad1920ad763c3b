/*
 * A smaller model as drafter: it keeps its own KV of every session's text and
 * writes ahead (draft_ahead.h).
 */
#ifndef SPT_DRAFT_MODEL_H
#define SPT_DRAFT_MODEL_H

#include "draft_ahead.h"
#include "tokenizer.h"

typedef struct spt_draft_model_options {
    const char *path;
    const spt_tokenizer *tokenizer; /* of the target; outlives the drafter */
    spt_ahead_options ahead;
} spt_draft_model_options;

spt_status spt_draft_model_open(const spt_forward_source *source,
                                const spt_draft_model_options *options,
                                spt_draft_source *drafter, spt_error *err);

/* What opening would take of the device. */
spt_status spt_draft_model_estimate(const spt_draft_model_options *options,
                                    uint64_t *bytes, spt_error *err);

#endif
