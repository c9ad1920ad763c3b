/*
 * Writing ahead: what drafters that run a model of their own have in common.
 * Each session has a lane, a sequence of the drafter's KV; all lanes go one
 * token further by one pass, until each has what it was asked for.
 *
 * Tokens are drawn in the target's ids, by the target's sampler, where the
 * drafter's logits stand at the target's tokens. Where temperature is above 0 a
 * lane draws with the random number that the target will draw with at the same
 * position, so that equal distributions give equal tokens; for rejection it
 * draws with numbers of its own and says from what: rows that stay on the
 * device where the target judges there. With more than one branch the next best
 * tokens are siblings.
 */
#ifndef SPT_DRAFT_AHEAD_H
#define SPT_DRAFT_AHEAD_H

#include "draft_block.h"
#include "forward.h"

/* Of one session of the target. */
typedef struct spt_ahead_state {
    spt_sequence sequence; /* what is fed: the text, then drafts */
    int base; /* its tokens that are of the text */
    int32_t first; /* a head's: the text's first token, which is not fed */
    spt_candidate *from[SPT_DRAFT_NODES]; /* what the host drew drafts from */
} spt_ahead_state;

/* One session while it drafts. */
typedef struct spt_ahead_lane {
    spt_draft_request *request;
    spt_ahead_state *state;
    int node; /* last drafted node of the path, 0 = the anchor */
    int depth;
    int32_t drafted[SPT_DRAFT_NODES]; /* (depth) the path's tokens */
    bool busy, on_device; /* the device draws its tokens */
    spt_sample_row row; /* how the device draws its next token */
    spt_adjustment adjustment; /* and what changes its logits first */
    spt_forward_choice choice; /* which it was */
    spt_logprob_row best; /* and those for branches */
} spt_ahead_lane;

/* As the target's engine has them. */
typedef struct spt_ahead_options {
    int target_vocab;
    int sessions, context, prefill_chunk, page_size;
    int draft_length; /* at most, of a session in a step */
    bool fp16;
    int graphs; /* spt_forward_limits */
} spt_ahead_options;

/* What a model needs to write ahead. */
spt_forward_limits spt_ahead_limits(const spt_ahead_options *options);

typedef struct spt_ahead {
    /* The drafter's to set. follow: the lane's sequence becomes the request's
       text. item (may be NULL): what the item of lane `lane` still lacks. */
    void *user;
    spt_status (*follow)(void *user, spt_ahead_lane *lane, spt_error *err);
    void (*item)(void *user, int lane, spt_forward_item *item);
    void (*close)(void *user); /* frees the drafter, after spt_ahead_close */
    spt_forward *forward; /* closed with it; its limits have target_vocab */
    uint64_t bytes; /* of the device */
    const int32_t *to_target; /* (vocab) the target's id of each token, or -1;
                                 NULL: the same. Of tokens with the same id the
                                 first counts. */
    bool feeds_target; /* sequences are in the target's ids */
    bool alone; /* spt_sequence */
    int prefill_chunk;
    /* Its own. */
    spt_pool *pool;
    int vocab, target_vocab;
    int kept; /* rows of logits that a lane can keep */
    int32_t *from_target; /* (target_vocab) its token of each id, or -1 */
    float *logits; /* (sessions, vocab) */
    float *translated; /* (target_vocab) a row in the target's ids */
    int32_t *text; /* (text_room) a lane's text and its drafts */
    size_t text_room;
    spt_forward_item *items; /* (sessions) */
    spt_ahead_lane *lanes; /* (sessions) */
    int *who; /* (sessions) lanes of the items */
    int32_t *fed; /* (tokens) */
} spt_ahead;

/* Room for what the forward's limits say; the drafter's part is set. */
spt_status spt_ahead_open(spt_ahead *ahead, spt_error *err);
/* Also of one that was never opened. */
void spt_ahead_close(spt_ahead *ahead);

/* The functions of spt_draft_class but its name; self is a spt_ahead. */
spt_status spt_ahead_session_open(void *ahead, void **state, spt_error *err);
void spt_ahead_session_close(void *ahead, void *state);
spt_status spt_ahead_draft(void *ahead, spt_draft_request *requests, int count,
                           spt_error *err);
uint64_t spt_ahead_bytes(const void *ahead);
void spt_ahead_drop(void *ahead);

#define SPT_AHEAD_CLASS(name_)                                              \
    {                                                                       \
        .name = (name_), .close = spt_ahead_drop,                           \
        .session_open = spt_ahead_session_open,                             \
        .session_close = spt_ahead_session_close, .draft = spt_ahead_draft, \
        .bytes = spt_ahead_bytes,                                           \
    }

/* Of a drafter whose class is made so; NULL for others. */
spt_ahead *spt_ahead_of(const spt_draft_source *drafter);

#endif
