/*
 * A model on the device: weights, KV pages, and the pass that takes rows of
 * tokens to rows of logits. Prompt chunks, single tokens and draft blocks all
 * go through the one function spt_forward_run; the bits of a row depend on its
 * text alone, not on what runs beside it.
 */
#ifndef SPT_FORWARD_H
#define SPT_FORWARD_H

#include "adjuster.h"
#include "half.h"
#include "kernel_set.h"
#include "logprobs.h"
#include "machine.h"
#include "model_file.h"
#include "sample.h"
#include "sequence.h"
#include "tree.h"

typedef struct spt_forward spt_forward;

/* What one pass may hold; part of what memory costs. */
typedef struct spt_forward_limits {
    int sequences; /* of one pass */
    int tokens; /* of one pass, over all sequences */
    int logits; /* rows with logits of one pass */
    int context; /* tokens of one sequence */
    int pages, page_size; /* of the KV pool */
    spt_dtype dtype; /* of activations and KV */
    bool trees; /* draft blocks may be trees */
    int histories; /* texts that n-gram drafts are searched in; 0 = none */
    int matches; /* of one search: 0 ... SPT_NGRAM_MATCHES; 0 = 1 */
    int graphs; /* shapes of passes kept as CUDA graphs; 0 = no graphs */
    int target_vocab; /* tokens are drawn in the ids of a target that has so
                         many (spt_forward_translate); 0 = in its own */
    /* A head's: of the model that it reads, tokens of one pass, and slots of
       the KV pool. */
    int heard_tokens, heard_slots;
    int kept; /* rows of those logits that can be kept on the device */
} spt_forward_limits;

/* Where kernels come from: a pack, or templates and a compiler. */
typedef struct spt_forward_source {
    spt_machine *machine;
    const spt_board *board;
    const spt_pack *pack; /* or NULL */
    spt_gen *gen; /* or NULL, with compiler */
    spt_compiler *compiler;
    const spt_log *log; /* or NULL */
    spt_compile_progress *progress; /* or NULL */
    void *user;
    spt_forward *target; /* a head's, else NULL; outlives it */
} spt_forward_source;

/* Device bytes by what they are for: one row of forward_buffers.def each. */
typedef enum spt_forward_buffer {
#define SPT_FORWARD_BUFFER(NAME, what, bytes) SPT_FORWARD_##NAME,
#include "forward_buffers.def"
#undef SPT_FORWARD_BUFFER
    SPT_FORWARD_BUFFERS,
} spt_forward_buffer;

typedef struct spt_forward_memory {
    uint64_t bytes[SPT_FORWARD_BUFFERS];
    uint64_t total;
    uint64_t graphs; /* the driver's for CUDA graphs, at most; no part of it */
} spt_forward_memory;

const char *spt_forward_buffer_text(spt_forward_buffer buffer);

/* Exactly what spt_forward_open allocates for it; allocates nothing. */
spt_status spt_forward_estimate(const spt_model *model,
                                const spt_forward_limits *limits,
                                spt_forward_memory *memory, spt_error *err);

/* The usual type of activations and KV: fp16 where the numbers fit. */
spt_dtype spt_forward_dtype(const spt_model_config *config);

/*
 * The kernels that spt_forward_open asks for, each once: *requests, `count` of
 * them (spt_free). Loads nothing; of the limits page_size, dtype, trees,
 * histories, target_vocab and kept (some or none) matter.
 */
spt_status spt_forward_kernels(const spt_model *model,
                               const spt_forward_limits *limits,
                               spt_kernel_request **requests, size_t *count,
                               spt_error *err);

/* Why a head does not fit a target: SPT_E_UNSUPPORTED. */
spt_status spt_forward_fits(const spt_model_config *head,
                            const spt_model_config *target, spt_error *err);

/*
 * Loads the model's weights and kernels. A head reads the source's target from
 * now on: every pass of that leaves rows of features in the head, one for each
 * slot of its KV, that go with the KV's pages; sequences + heard_slots rows, of
 * which the last ones are the head's own to write. The machine's context is
 * current and stays so; model and source outlive it.
 */
spt_status spt_forward_open(const spt_forward_source *source,
                            const spt_model *model,
                            const spt_forward_limits *limits, spt_forward **out,
                            spt_error *err);
void spt_forward_close(spt_forward *forward);

const spt_forward_limits *spt_forward_limits_of(const spt_forward *forward);
const spt_model_config *spt_forward_config(const spt_forward *forward);

/* The text that a draft block became on the device. */
typedef struct spt_forward_choice {
    int count; /* nodes of the accepted path, from the block's first on */
    int path[SPT_TREE_NODES]; /* those nodes */
    int32_t token[SPT_TREE_NODES]; /* the target's after each; -1: no logit is
                                      above -infinity */
} spt_forward_choice;

/* What one sequence feeds. */
typedef struct spt_forward_item {
    const spt_sequence *sequence; /* its pages have room for the tokens */
    const int32_t *tokens; /* count of them, for slots n_kv, n_kv + 1, ... */
    int count;
    const uint32_t *tree; /* (count) ancestor bits; NULL = a chain */
    int logits; /* the last so many tokens get logits */
    /* NULL: the logits go to the host. Else (logits): how the tokens after
       them are drawn; they are a draft block, at most SPT_TREE_NODES of them,
       and *choice is what is accepted of it. Where spt_forward_chooses. */
    const spt_sample_row *sample;
    const int32_t *parent; /* (logits), with a tree: nodes of the block */
    spt_forward_choice *choice;
    const spt_adjustment *adjust; /* what changes the logits first, or NULL */
    /* NULL, or (logits): log-probabilities of the drawn tokens and of the
       `best` most probable ones. */
    spt_logprob_row *logprobs;
    int best;
    /* A head's: rows of features that the tokens read, and that those with
       logits leave. */
    const int32_t *reads, *writes; /* (count), (logits) */
    bool keeps; /* what the (one) token is drawn from is kept, as row `keep` */
    int keep;
} spt_forward_item;

/* Tokens can be drawn on the device: the vocabulary is not too large. */
bool spt_forward_chooses(const spt_forward *forward);

/*
 * Which of the model's tokens each of the target's is: (limits.target_vocab),
 * -1: none. Before tokens are drawn on the device; what the host gets stays in
 * the model's ids.
 */
spt_status spt_forward_translate(spt_forward *forward, const int32_t *from,
                                 spt_error *err);

/* Device address of a row of kept logits, in the target's ids. */
uint64_t spt_forward_kept(const spt_forward *forward, int row);

/*
 * Runs the items, in their order, and waits. logits (row, vocab) of those
 * tokens that want them on the host, in the items' order; NULL when none does.
 * A tree has at most SPT_TREE_NODES tokens. The caller has seen to the limits.
 */
spt_status spt_forward_run(spt_forward *forward, const spt_forward_item *items,
                           int count, float *logits, spt_error *err);

/* Pages of the KV cache, all layers; enqueued in order. */
spt_status spt_forward_copy_page(spt_forward *forward, spt_page_copy copy,
                                 spt_error *err);

/*
 * Moves KV of an accepted path together: slot n_kv + j gets what slot n_kv +
 * path[j] holds, for j < count. The path ascends.
 */
spt_status spt_forward_compact(spt_forward *forward,
                               const spt_sequence *sequence, const int *path,
                               int count, spt_error *err);

/* Which matches count: sizes in tokens, the longest or the most recent. */
typedef struct spt_ngram_rule {
    int min_match, max_match; /* 1 <= min <= max */
    bool longest;
} spt_ngram_rule;

/* One text to search. */
typedef struct spt_forward_search {
    int history; /* which of the limits' it is kept in */
    const int32_t *text; /* count tokens, at most the limits' context */
    int count, common; /* the first `common` of them are there already */
    int want; /* tokens to draft: 1 ... SPT_TREE_NODES */
    int matches; /* to find: 1 ... what the limits say */
    int32_t (*draft)[SPT_TREE_NODES]; /* (matches): what followed each */
    int found; /* matches that there are: so many drafts of `want` tokens */
} spt_forward_search;

/* Drafts of n texts, of different histories, by one launch; waits. */
spt_status spt_forward_ngram(spt_forward *forward, const spt_ngram_rule *rule,
                             spt_forward_search *searches, int n,
                             spt_error *err);

/*
 * A clock of the device: microseconds from start to stop, both in the order of
 * what is enqueued. Stopping waits.
 */
spt_status spt_forward_start_clock(spt_forward *forward, spt_error *err);
spt_status spt_forward_stop_clock(spt_forward *forward, double *us,
                                  spt_error *err);

/* What times depend on, as 64 hexadecimal digits: the model's shape and types
   of weights; the code of its kernels. */
void spt_forward_model_digest(const spt_forward *forward, char *hex);
void spt_forward_kernels_digest(const spt_forward *forward, char *hex);

/*
 * For tests and trained drafters: after every layer of the pass its residual
 * rows, fp32, are copied to (layer, token, hidden) in `into`, host memory that
 * holds all of them. NULL ends it.
 */
void spt_forward_tap(spt_forward *forward, float *into);

/* KV bytes of pages on the host: save and load of sessions. */
size_t spt_forward_page_bytes(const spt_forward *forward);
spt_status spt_forward_read_page(spt_forward *forward, int page, void *data,
                                 spt_error *err);
spt_status spt_forward_write_page(spt_forward *forward, int page,
                                  const void *data, spt_error *err);

#endif
