/*
 * Ragged sequences with draft blocks and a KV cache, for operators that take
 * the arrays of verify attention. A case's rows are its sequences; a part also
 * cuts their draft blocks to half.
 *
 * The arrays are buffers of the case, SPT_OP_Q_START and so on after the index
 * `shape` of the first; the functions below read them.
 */
#ifndef SPT_OP_SEQUENCES_H
#define SPT_OP_SEQUENCES_H

#include "operator.h"
#include "tree.h"

enum { SPT_OP_CONTEXT_MAX = 200 };

enum {
    SPT_OP_Q_START,
    SPT_OP_KV_LEN,
    SPT_OP_KV_START,
    SPT_OP_TREE,
    SPT_OP_PAGE_TABLE,
};

#define SPT_OP_SEQUENCE_VALUES                                              \
    {                                                                       \
        "tokens", 5, 1, SPT_TREE_NODES, "tokens of the largest draft block" \
    }

typedef struct spt_op_sequences {
    size_t n_tokens; /* of all draft blocks */
    size_t *origin; /* (token): its place in the whole */
    size_t *tokens, *context; /* (sequence) */
    size_t page_slots, pages; /* slots of a page, pages per sequence */
    size_t places; /* pages of a layer of the cache */
    size_t token_elements; /* kv_heads * head_dim */
    size_t stride; /* elements between pages of the cache */
} spt_op_sequences;

/* Lengths and trees of the case's sequences, from their places alone. */
spt_status spt_op_sequences_make(spt_op_case *c, spt_op_sequences *s,
                                 spt_error *err);

/*
 * Adds a cache: a row per page, layer after layer; every sequence's pages lie
 * apart. Without pages a sequence has one that holds it all.
 */
spt_op_buffer *spt_op_sequences_cache(spt_op_case *c, spt_op_sequences *s,
                                      const char *name, spt_element type,
                                      spt_role role, size_t layers);

/* Adds the arrays; after the caches. */
void spt_op_sequences_add(spt_op_case *c, const spt_op_sequences *s);

size_t spt_op_tokens(const spt_op_case *c, int shape, size_t s);
size_t spt_op_context(const spt_op_case *c, int shape, size_t s);
/* Row of token i of sequence s in buffers by token. */
size_t spt_op_token(const spt_op_case *c, int shape, size_t s, size_t i);
/* context + depth. */
size_t spt_op_position(const spt_op_case *c, int shape, size_t s, size_t i);
/* Row of a cache and element in it where a slot of a sequence begins. */
void spt_op_slot(const spt_op_case *c, int shape, size_t s, size_t slot,
                 size_t *row, size_t *at);

typedef struct spt_op_cache_strides {
    int64_t page, token, head;
    int32_t table;
} spt_op_cache_strides;

spt_op_cache_strides spt_op_cache_strides_of(const spt_op_case *c, int shape,
                                             int cache);

#endif
