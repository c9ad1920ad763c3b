/*
 * What a drafter proposes for one sequence, and the interface of drafters.
 *
 * A draft block is a tree of nodes. Node 0 is the anchor, the last token of
 * the text; node i > 0 is the i-th drafted token and follows its parent, a
 * node before it. In a chain node i follows node i - 1.
 */
#ifndef SPT_DRAFT_BLOCK_H
#define SPT_DRAFT_BLOCK_H

#include "sampler.h"
#include "sequence.h"

enum { SPT_DRAFT_NODES = 32 }; /* the anchor counted */

/*
 * What a token was drawn from, for rejection; all 0: it was certain. The
 * drafter's until its next call.
 */
typedef struct spt_draft_origin {
    const spt_candidate *parts; /* (count) in the order of ids */
    size_t count;
    uint64_t logits; /* or on the device: address of a row in the target's ids,
                        whose parts are what the request's sampler leaves */
} spt_draft_origin;

typedef struct spt_draft {
    int count; /* drafted nodes: 0 ... SPT_DRAFT_NODES - 1 */
    bool chain; /* parent[i] == i - 1 for all */
    int32_t token[SPT_DRAFT_NODES]; /* [0] is not used */
    int32_t parent[SPT_DRAFT_NODES]; /* [0] is -1 */
    spt_draft_origin from[SPT_DRAFT_NODES];
} spt_draft;

/* No drafts. */
void spt_draft_clear(spt_draft *draft);

/*
 * Adds a node and returns it; -1 when the block is full, or when a sibling
 * has the same token: that one is then the node, in *same (may be NULL).
 */
int spt_draft_add(spt_draft *draft, int parent, int32_t token, int *same);

/*
 * Drops every node whose token is not 0 ... vocab - 1, that stands too deep
 * (max_depth; the anchor has 0), or whose parent was dropped or is wrong, and
 * the last ones until max_nodes are left.
 */
void spt_draft_clean(spt_draft *draft, int vocab, int max_depth, int max_nodes);

/* Depth of a node: drafted tokens from the anchor to it, itself included. */
int spt_draft_depth(const spt_draft *draft, int node);

/* One sequence of a drafting round. */
typedef struct spt_draft_request {
    void *state; /* of this session, from the class's session_open */
    const int32_t *text; /* count tokens, the last is the anchor */
    int count;
    const spt_sequence *sequence; /* the target's: KV of all but the anchor */
    int want; /* depth to draft, at least 1 */
    int branches; /* children per node: 1 = a chain */
    spt_sampler *sampler; /* the session's, for the target's tokens */
    bool sample; /* draw drafts and say from what: rejection will judge */
    bool on_device; /* and can judge there */
    spt_draft *draft; /* cleared; to be filled */
} spt_draft_request;

/*
 * A way of drafting. Whatever it proposes, the text that results is the same:
 * it can only make it slower. A drafter belongs to one engine and is used by
 * one thread at a time.
 */
typedef struct spt_draft_class {
    const char *name; /* "n-gram" */
    void (*close)(void *drafter);
    /* State of one session; NULL functions: the class needs none. */
    spt_status (*session_open)(void *drafter, void **state, spt_error *err);
    void (*session_close)(void *drafter, void *state);
    spt_status (*draft)(void *drafter, spt_draft_request *requests, int count,
                        spt_error *err);
    /* Device bytes that it holds; NULL = none. */
    uint64_t (*bytes)(const void *drafter);
} spt_draft_class;

typedef struct spt_draft_source {
    const spt_draft_class *class;
    void *self;
} spt_draft_source;

#endif
