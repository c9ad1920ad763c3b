/*
 * A verify-attention problem with numbers in it: what a proof runs.
 *
 * Data is logical: each sequence's KV slots one after the other, whatever
 * pages a device gives them. Slots past the context belong to the draft
 * block, in the order of its tokens.
 */
#ifndef SPT_PROBLEM_H
#define SPT_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "draft.h"
#include "error.h"
#include "half.h"

typedef enum spt_fill {
    SPT_FILL_RANDOM, /* normal-like numbers */
    SPT_FILL_EQUAL, /* Q = K = 0: a row is the mean of the V it sees */
} spt_fill;

typedef struct spt_problem {
    int q_heads, kv_heads, head_dim;
    spt_dtype dtype;
    int page_size; /* tokens; 0 = contiguous */
    bool tree;
    int window; /* last positions that a row sees; 0 = all */
    double softcap; /* 0 = none */
    bool sinks;
    int draft_length;
    int batch;
    int contexts[64]; /* of sequence s: contexts[s % n_contexts] */
    int n_contexts;
    uint64_t seed;
    spt_fill fill;
    bool far; /* KV stands past element 2^31 of its buffer */
} spt_problem;

typedef struct spt_instance {
    spt_problem problem;
    int batch, n_tokens; /* all draft tokens */
    int *context; /* (batch) */
    int *q_start; /* (batch + 1) */
    int64_t *kv_first; /* (batch + 1): first slot of each sequence */
    uint32_t *tree; /* (token): bits of ancestors, itself included */
    uint16_t *q; /* (token, query head, head dim) */
    uint16_t *k, *v; /* (slot, KV head, head dim) */
    float *sinks; /* (query head) */
} spt_instance;

/*
 * Sets dtype from the options --dtype and --kv-dtype (NULL: the same). Types
 * that kernels do not have, or two different ones, are SPT_E_USAGE.
 */
spt_status spt_problem_set_types(spt_problem *problem, const char *dtype,
                                 const char *kv_dtype, spt_error *err);

/* Rows per KV head of a full draft block: group * (1 + D). */
int spt_problem_rows(const spt_problem *problem);

/* "64/8 d128 bf16 page 16 D 7 chain context 5,1030": for messages. */
void spt_problem_text(const spt_problem *problem, char *text, int size);

/*
 * Makes an instance. Draft blocks are ragged: sequence 0 has the full block,
 * others less, every third of four or more none at all. Freed by
 * spt_instance_free.
 */
spt_status spt_instance_make(const spt_problem *problem, spt_instance *instance,
                             spt_error *err);

/* Sequence s alone and cut to its first `tokens` tokens (0 = all). */
spt_status spt_instance_cut(const spt_instance *from, int first, int count,
                            int tokens, spt_instance *instance, spt_error *err);

/*
 * The one row that decoding without speculation would compute: token i of
 * sequence s with its ancestors as context, a draft block of one token.
 */
spt_status spt_instance_single(const spt_instance *from, int s, int i,
                               spt_instance *instance, spt_error *err);

/*
 * Makes K and V not finite where only some rows see them: NaN and infinities
 * at the last draft token of sequence 0 and, where a window moves on within
 * the draft block, at the first position that its anchor sees. The other rows'
 * results must not change; spt_instance_sees_broken tells which these are.
 */
void spt_instance_break(spt_instance *instance);
bool spt_instance_sees_broken(const spt_instance *instance, int token);

void spt_instance_free(spt_instance *instance);

static inline int spt_instance_tokens(const spt_instance *in, int s)
{
    return in->q_start[s + 1] - in->q_start[s];
}

/* Depth of a token in its draft block; 0 for the anchor. */
int spt_instance_depth(const spt_instance *in, int token);

/*
 * Scalar reference in double. For (token, head, d): out the exact result,
 * weight the mean of |V| under the same weights, from which an error bound
 * follows; lse and reach (the largest sum of |q k| * scale that a visible
 * logit was made of) for (token, head). Buffers are the caller's.
 */
spt_status spt_reference(const spt_instance *in, double *out, double *weight,
                         double *lse, double *reach, spt_error *err);

/*
 * Bounds of the kernels' error at one element, from the roundings that they
 * make: P to the 16-bit type, scores and sums in fp32, exp by ex2.approx.
 */
double spt_bound_out(const spt_instance *in, double out, double weight,
                     double reach, int visible);
double spt_bound_lse(const spt_instance *in, double lse, double reach,
                     int visible);

/* How many KV tokens a draft token sees. */
int spt_instance_visible(const spt_instance *in, int s, int token);

#endif
