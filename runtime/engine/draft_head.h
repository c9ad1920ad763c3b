/*
 * A head as drafter: a layer that reads the target's hidden states, EAGLE-3.
 *
 * Slot p of a head stands for the token at p + 1 beside the target's features
 * at p: a text of n tokens has n - 1 slots, of which the last one gives the
 * first draft. What is drafted reads features that the head left itself; in the
 * next step those slots are written again from the target's.
 */
#ifndef SPT_DRAFT_HEAD_H
#define SPT_DRAFT_HEAD_H

#include "draft_ahead.h"

typedef struct spt_draft_head_options {
    const char *path; /* folder */
    spt_ahead_options ahead;
    int heard_tokens, heard_slots; /* spt_forward_limits */
} spt_draft_head_options;

/* The source has the target. SPT_E_UNSUPPORTED where the head does not fit. */
spt_status spt_draft_head_open(const spt_forward_source *source,
                               const spt_draft_head_options *options,
                               spt_draft_source *drafter, spt_error *err);

/* What opening would take of the device. */
spt_status spt_draft_head_estimate(const spt_draft_head_options *options,
                                   const spt_model *target, uint64_t *bytes,
                                   spt_error *err);

#endif
