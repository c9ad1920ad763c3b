/* What the files of forward share. */
#ifndef SPT_FORWARD_INT_H
#define SPT_FORWARD_INT_H

#include "forward.h"
#include "kv_compact.h"
#include "linear.h"

/* Numbers that forward_buffers.def computes with. */
typedef struct spt_forward_sizes {
    uint64_t layers, hidden, ffn, vocab, q_heads, head_dim, q_width, kv_width;
    uint64_t post_norms; /* 0 or 1 */
    uint64_t sequences, tokens, logits, histories, search_ints;
    uint64_t pages, page_bytes; /* of K or V in one layer */
    uint64_t tables, positions, pairs; /* of rotary angles */
    uint64_t adjusted; /* tokens of a row that bias and penalties change */
    uint64_t input_ints, partial_rows, weight_bytes;
    uint64_t kept; /* rows */
    uint64_t drawn; /* ids of the target, in eights; 0: rows stay as they are */
    uint64_t in_width; /* of what a layer's attention reads */
    uint64_t heard_tokens, tap_width, feature_rows; /* a head's */
    uint64_t graphs, graph_nodes; /* of one, with all that a pass can have */
} spt_forward_sizes;

/* Kernels for few rows do less work on padding than those for many. */
enum { FORWARD_VARIANTS = 3 };

/* One matrix, or several that lie below each other, on the device. */
typedef struct forward_linear {
    spt_linear_shape shape;
    CUdeviceptr weights, bias; /* bias 0: none */
    int column; /* of the output where its results begin */
    float cap; /* softcap of the results; 0: none */
    spt_linear_kernel kernel[FORWARD_VARIANTS];
} forward_linear;

typedef struct forward_layer {
    forward_linear qkv[3]; /* Q, K, V; those of one type are one */
    int n_qkv;
    forward_linear o, gate_up, down;
    CUdeviceptr attn_norm, ffn_norm; /* float (hidden) */
    CUdeviceptr post_attn_norm, post_ffn_norm; /* where there are post norms */
    CUdeviceptr q_norm, k_norm; /* float (head dim), with qk_norm */
    CUdeviceptr hidden_norm; /* float (hidden), a head's */
    int window; /* tokens, 0 = all */
} forward_layer;

/* By [tree][window]. */
typedef struct forward_attention {
    const spt_function *attention[FORWARD_VARIANTS], *combine;
} forward_attention;

typedef struct forward_kernels {
    spt_kernel_set *set;
    const spt_function *embedding, *norm, *norm_gather, *norm_add, *compact;
    /* A head's: rows to features, features to rows, norm in the residual. */
    const spt_function *keep, *recall, *norm_wide;
    const spt_function *translate, *adjust, *sample, *logprobs, *accept, *ngram;
    const spt_function *keep_logits;
    const spt_function *rotary[2]; /* [tree] */
    forward_attention attention[2][2]; /* [tree][window] */
} forward_kernels;

/* What the launches of a pass depend on, beside the inputs. */
typedef struct forward_shape {
    int items, tokens, rows, max_tokens, page_stride, chunks, tree;
    int lists, adjusted, restore; /* of forward_adjusting */
    int blocks, logprobs, keeps; /* of forward_choosing */
    int ints; /* of the inputs */
} forward_shape;

typedef struct forward_graph {
    forward_shape shape;
    uint64_t used; /* the last turn; 0 = the entry is empty */
    CUgraphExec exec; /* NULL: it came once so far */
} forward_graph;

struct spt_forward {
    spt_forward_source source;
    const spt_driver *driver;
    const spt_model *model;
    const spt_model_config *config;
    spt_forward_limits limits;
    spt_forward_sizes sizes;
    CUstream stream;
    CUdeviceptr buffer[SPT_FORWARD_BUFFERS];
    forward_kernels kernels;
    forward_layer *layers; /* (layers) */
    forward_linear head, fc;
    CUdeviceptr embedding, output_norm;
    const spt_forward *embeds; /* whose table of tokens it is; mostly itself */
    const spt_forward *listener; /* the head that reads this one, or NULL */
    int hears[SPT_TAPS_MAX]; /* a head's: layers of its target */
    int32_t *inputs; /* host side of the inputs */
    int32_t *choices; /* and of the choices */
    spt_logprob_row *logprobs; /* and of the log-probabilities */
    int32_t *search; /* and of the search in texts */
    float *tap; /* or NULL */
    bool on_host; /* for tests: no tokens are drawn on the device */
    forward_graph *graphs; /* (limits.graphs) */
    uint64_t graph_turn;
    CUevent clock[2]; /* start and stop; NULL until they are used */
};

/* Rows of variant `index` for attention (query rows) and linears. */
int forward_variant_rows(int index, int head_dim);
/* The smallest variant that takes so many rows at once, or the largest. */
int forward_variant(int64_t rows, int head_dim);

/* KV tokens per CTA of attention: fixed, as it fixes bits. */
enum { FORWARD_CHUNK = 512 };

/* forward_weights.c: bytes of the weights as they will lie on the device. */
spt_status forward_weights_measure(const spt_model *model, spt_dtype dtype,
                                   uint64_t *bytes, spt_error *err);
/*
 * The table of tokens is the packed head: it is tied, and packing rounds no
 * number of it.
 */
bool forward_table_packed(const spt_model *model, spt_dtype dtype);
/* Fills layers and head but for what is on a device. */
spt_status forward_weights_shapes(spt_forward *f, spt_error *err);
/* Fills layers, head, norms and the device's WEIGHTS. */
spt_status forward_weights_load(spt_forward *f, spt_error *err);

/* forward_kernels.c: loads all kernels; layers and head are filled. */
spt_status forward_kernels_load(spt_forward *f, spt_error *err);

/* Ints for the device: where they will be, and what they are so far. */
typedef struct forward_writer {
    int32_t *host;
    CUdeviceptr device;
    size_t at;
} forward_writer;

int32_t *forward_write_ints(forward_writer *w, int count, CUdeviceptr *device);

/* Of those items whose tokens are drawn on the device, the ones whose logits
   change before that (kernels/adjust.h). */
typedef struct forward_adjusting {
    int lists, rows;
    bool restore; /* logits as they were are asked for afterwards */
    CUdeviceptr list, row, data;
} forward_adjusting;

/* Rows of logits that tokens are drawn from. */
typedef struct forward_rows {
    CUdeviceptr logits;
    int64_t stride;
    int vocabulary;
} forward_rows;

forward_rows forward_rows_of(const spt_forward *f);

/* forward_adjust.c: entries of a list, ints of the inputs at most; writes what
   the kernel reads; enqueues it. */
uint64_t forward_adjust_entries(const spt_model_config *config,
                                const spt_forward_limits *limits);
uint64_t forward_adjust_ints(const spt_model_config *config,
                             const spt_forward_limits *limits);
void forward_adjust_write(const spt_forward_item *items, int count,
                          forward_writer *w, forward_adjusting *a);
spt_status forward_adjust(const spt_forward *f, const forward_adjusting *a,
                          bool restore, spt_error *err);

/* Items whose tokens are drawn on the device; their rows of logits are the
   first ones. */
typedef struct forward_choosing {
    int rows, blocks;
    bool logprobs, keeps; /* of some rows */
    forward_adjusting adjusting;
    CUdeviceptr sample, want; /* kernels/sample.h, logprobs.h */
    CUdeviceptr draft, parent, start; /* kernels/accept_path.h */
    CUdeviceptr keep; /* int32 (row): which kept row it is, or -1 */
} forward_choosing;

/* What the device writes of a block: path, text, count. */
enum { FORWARD_CHOICE_INTS = 2 * SPT_TREE_NODES + 1 };

/* Ints of a search in a text: start (64 bits), length and want to the device;
   of each match the draft, its count and the match's size from it. */
enum { FORWARD_SEARCH_IN = 4, FORWARD_SEARCH_MATCH = SPT_TREE_NODES + 2 };

/* forward_choose.c: writes what the kernels read; enqueues them and the copy
   of the choices; when that is done, hands them to the items. */
void forward_choose_write(const spt_forward_item *items, int count,
                          forward_writer *w, forward_choosing *c);
spt_status forward_choose(const spt_forward *f, const forward_choosing *c,
                          spt_error *err);
void forward_choose_read(const spt_forward *f, const spt_forward_item *items,
                         int count, const forward_choosing *c);

/* What a head hears of a pass of its target. */
typedef struct forward_heard {
    int layer, tokens;
    CUdeviceptr residual; /* float (token, hidden), after the layer */
    CUdeviceptr slots; /* int32 (token): their rows of features */
    CUstream stream; /* the target's */
} forward_heard;

/* forward_head.c: makes features where the layer is the last that is read. */
spt_status forward_hear(const spt_forward *head, const forward_heard *heard,
                        spt_error *err);
/* Rows of features to the residual, by an index; rows of the residual to
   features, by an index each. */
spt_status forward_recall(const spt_forward *head, CUdeviceptr rows, int count,
                          spt_error *err);
spt_status forward_keep(const spt_forward *head, CUdeviceptr from,
                        CUdeviceptr to, int count, spt_error *err);
/* Features of the head that reads this one, where there is one, as the KV of
   their slots: a copy, a page without a text, an accepted path. */
spt_status forward_copy_features(const spt_forward *f, spt_page_copy copy,
                                 spt_error *err);
spt_status forward_clear_features(const spt_forward *f, int page,
                                  spt_error *err);
spt_status forward_compact_features(const spt_forward *f,
                                    const spt_kv_compact_args *kv,
                                    spt_error *err);
/* Checks that it fits, and reads its target from now on. */
spt_status forward_attach(spt_forward *head, spt_forward *target,
                          spt_error *err);

/* What enqueues a pass. */
typedef struct forward_work {
    spt_status (*enqueue)(void *user, spt_error *err);
    void *user;
} forward_work;

/* forward_graph.c: enqueues the work, or the graph that it was before. */
spt_status forward_graph_run(spt_forward *f, const forward_shape *shape,
                             const forward_work *work, spt_error *err);
void forward_graphs_close(spt_forward *f);
/* Nodes of a graph of one pass, with penalties and log-probabilities. */
uint64_t forward_graph_nodes(const spt_model *model);

/* What the driver takes for a node: the authors of NVIDIA's CCCL reckon with
   10240 bytes (cudax, executable_graph_cache.cuh); nobody has measured it for
   these graphs. */
enum { FORWARD_NODE_BYTES = 10240 };

/* "what: CUDA error" */
spt_status forward_check(const spt_forward *f, CUresult result,
                         const char *what, spt_error *err);

#endif
