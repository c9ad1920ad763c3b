/*
 * libspectune: what a program that uses spectune's results sees.
 *
 * Functions return spt_status and, on failure, one line of text in an
 * spt_error of the caller. Nothing prints, exits or keeps global state; a
 * handle is used by one thread at a time.
 */
#ifndef SPECTUNE_H
#define SPECTUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPT_VERSION "0.1.0"

#if defined(__GNUC__)
#define SPT_API __attribute__((visibility("default")))
#else
#define SPT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Values never change; runtime/base/status.def has the texts. */
typedef enum spt_status {
    SPT_OK = 0,
    SPT_E_USAGE = 1,
    SPT_E_MEMORY = 2,
    SPT_E_IO = 3,
    SPT_E_FORMAT = 4,
    SPT_E_NOT_FOUND = 5,
    SPT_E_UNSUPPORTED = 6,
    SPT_E_COMPILE = 7,
    SPT_E_DEVICE = 8,
    SPT_E_PROOF = 9,
    SPT_E_TIMEOUT = 10,
    SPT_E_CANCELLED = 11,
    SPT_E_INTERNAL = 12,
} spt_status;

typedef struct spt_error {
    spt_status status;
    char text[1024]; /* what, where, what was expected; one line */
} spt_error;

/* Where one-line notes of the library go: the caller's function, or nowhere. */
typedef struct spt_log {
    void (*line)(void *user, const char *text); /* NULL: dropped */
    void *user;
    bool verbose; /* also a line for each kernel, where it came from */
} spt_log;

/* The version of the library, as in SPT_VERSION. */
SPT_API const char *spt_version(void);

/* The fixed text of a status; never NULL. */
SPT_API const char *spt_status_text(spt_status status);

/*
 * Packs: a folder of proved kernels as machine code, with manifest.json.
 * Strings of a pack live until spt_pack_close.
 */
typedef struct spt_pack spt_pack;

typedef struct spt_pack_kernel {
    const char *name; /* of the template: verify_attention */
    const char *symbol; /* of the function in the image */
    const char *config; /* "name=value name=value ..." */
    const char *key; /* reduction key: equal keys, equal bits */
    const char *target; /* what the cubin was assembled for: sm_90a */
    const char *template_hash; /* SHA-256 of what the text came from */
    const char *cubin, *ptx; /* paths in the pack; NULL = not there */
    int threads; /* per CTA */
    int registers; /* per thread */
    int shared_bytes; /* static, per CTA */
    int dynamic_shared_bytes; /* to be given at launch */
    int spill_bytes;
} spt_pack_kernel;

/*
 * Reads and checks folder/manifest.json; images are read when loaded.
 * SPT_E_IO when it cannot be read, SPT_E_FORMAT when it is wrong or damaged.
 */
SPT_API spt_status spt_pack_open(const char *folder, spt_pack **pack,
                                 spt_error *err);
SPT_API void spt_pack_close(spt_pack *pack);

SPT_API size_t spt_pack_count(const spt_pack *pack);
/* NULL when index is past the end. */
SPT_API const spt_pack_kernel *spt_pack_at(const spt_pack *pack, size_t index);
/* The SHA-256 of all that the pack holds, and the compiler that made it. */
SPT_API const char *spt_pack_digest(const spt_pack *pack);
SPT_API const char *spt_pack_compiler(const spt_pack *pack);

/*
 * Reads every file and compares size and hash; bad (may be NULL) is told of
 * each that fails. SPT_E_FORMAT with the first reason when one does.
 */
SPT_API spt_status spt_pack_verify(const spt_pack *pack,
                                   void (*bad)(void *user, const char *path,
                                               const char *reason),
                                   void *user, spt_error *err);

typedef struct spt_pack_image {
    char *data; /* NUL after size bytes; freed by spt_pack_image_free */
    size_t size;
    bool is_ptx;
    const spt_pack_kernel *kernel;
} spt_pack_image;

/*
 * The image of a kernel for a device of that compute capability: exact cubin,
 * else a cubin of the same family, else PTX that the driver can translate.
 * config NULL: the first kernel of that name. A wrong or damaged file is a
 * miss: the next candidate is tried, and log (may be NULL) gets one line.
 * SPT_E_NOT_FOUND, with the last reason, when none is left.
 */
SPT_API spt_status spt_pack_load(const spt_pack *pack, const char *name,
                                 const char *config, int cc_major, int cc_minor,
                                 const spt_log *log, spt_pack_image *image,
                                 spt_error *err);
SPT_API void spt_pack_image_free(spt_pack_image *image);

/*
 * How a token is chosen from the model's logits. Zero is a default everywhere:
 * a zeroed struct is greedy decoding. The filters work in this order: logit
 * bias, penalties, top-k, top-p, min-p, temperature.
 */
typedef struct spt_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -infinity forbids the token */
} spt_logit_bias;

typedef struct spt_sampling {
    double temperature; /* 0 = greedy: the highest logit */
    uint64_t seed; /* of the random numbers, keyed by position */
    int top_k; /* the k highest; 0 = all */
    double top_p; /* the fewest that hold this probability; 0 or 1 = all */
    double min_p; /* at least this part of the highest's; 0 = all */
    double repeat_penalty; /* divides or multiplies; 0 or 1 = none */
    double presence_penalty; /* subtracted once from what occurred */
    double frequency_penalty; /* subtracted per occurrence */
    int penalty_tokens; /* of the text's end; 0 = 64, -1 = all */
    const spt_logit_bias *bias; /* n_bias of them */
    size_t n_bias;
} spt_sampling;

/* How drafts become text. */
typedef enum spt_accept_rule {
    SPT_ACCEPT_MATCH = 0, /* the text is the one without drafts */
    SPT_ACCEPT_REJECTION = 1, /* its distribution is, where drafts are drawn */
} spt_accept_rule;

/*
 * The engine: a model that writes text, with or without drafts.
 *
 *     engine    a model on a device, its kernels, its KV pool, one drafter
 *     session   one text: the tokens so far and their KV
 *     step      draft, verify, accept: one pass for any number of sessions
 *
 * Whatever drafts, how far, and what else runs in the same steps: a session's
 * tokens are those that it would have got alone and without drafts (with
 * SPT_ACCEPT_MATCH). An engine and its sessions are used by one thread at a
 * time, whichever; spt_session_cancel alone may be called from any. A process
 * may have several engines. A call leaves the thread's CUDA context as it was;
 * while an event function runs, the engine's is current.
 */
typedef struct spt_engine spt_engine;
typedef struct spt_session spt_session;

typedef enum spt_device_choice {
    SPT_DEVICE_AUTO = 0, /* a GPU of the board's kind, else sim */
    SPT_DEVICE_SIM = 1, /* engines of a process share one board */
    SPT_DEVICE_GPU = 2, /* a GPU of the board's kind, or fail */
} spt_device_choice;

typedef enum spt_draft_method {
    SPT_DRAFT_NONE = 0,
    SPT_DRAFT_NGRAM = 1, /* what followed the last tokens before */
    SPT_DRAFT_MODEL = 2, /* a smaller model of the same vocabulary */
    SPT_DRAFT_EAGLE3 = 3, /* a head that reads the model's hidden states */
} spt_draft_method;

enum { SPT_DRAFT_LENGTH_MAX = 31 };

typedef struct spt_draft_options {
    spt_draft_method method;
    const char *model; /* MODEL: its file or folder; EAGLE3: its folder */
    int min_match, max_match; /* NGRAM: tokens; 0 = 2 and 8 */
    bool longest; /* NGRAM: the longest match, else the most recent */
    int branches; /* children per node of a draft tree; 0 or 1 = a chain */
} spt_draft_options;

/* The 16-bit type of activations and KV: fp16 rounds eight times finer, bf16
   holds larger numbers. */
typedef enum spt_activation_type {
    SPT_TYPE_AUTO = 0, /* fp16 for models whose numbers fit, else bf16 */
    SPT_TYPE_BF16 = 1,
    SPT_TYPE_FP16 = 2,
} spt_activation_type;

/* Zero is a default everywhere but for the model. */
typedef struct spt_engine_options {
    const char *model; /* .gguf, or a folder with config.json */
    spt_device_choice device;
    const char *board; /* name of archs/, or FILE.lua; NULL = h100_sxm */
    const char *pack; /* folder of kernels to take first, or NULL */
    bool pack_only; /* compile nothing */
    spt_activation_type dtype; /* of activations and KV */
    bool checks; /* sim reports what kernels do wrong; slow */
    bool no_graphs; /* launch kernels one by one; else steps of a shape that
                       comes again are CUDA graphs */
    int context; /* tokens of one session; 0 = the model's, at most 4096 */
    int sessions; /* stepped together; 0 = 1 */
    int kv_tokens; /* of the KV pool; 0 = sessions * context */
    int page_size; /* tokens of a KV page; 0 = 16 */
    int prefill_chunk; /* prompt tokens of one step; 0 = 64 */
    int draft_length; /* the longest draft; 0 = 8, at most 31 */
    spt_draft_options draft;
    /* Microseconds of a step in which each of `batch` sessions with `context`
       tokens drafts and verifies draft_length tokens: what draft lengths are
       chosen by. NULL: drafts that may adapt have the full length. */
    double (*step_us)(void *user, int batch, int context, int draft_length);
    void *step_user;
    /* The engine times its own steps (on a GPU; on sim with checks) and prefers
       those times to step_us. They are kept in this file, which is read first;
       several processes may share it, each save takes in what the others wrote.
       One that is damaged, or for another chip, model, layout, drafter or
       kernel, is not used but replaced, and log says why; where no file can be
       written it is SPT_E_USAGE, and so are measured times for sim. NULL: see
       step_times_folder. */
    const char *step_times;
    spt_log log;
    /* Told while spt_engine_open compiles kernels: the one that was begun last
       (NULL: so far all were in the cache), how many of how many are there. */
    void (*compiling)(void *user, const char *kernel, size_t done,
                      size_t total);
    void *compiling_user;
    /* Without step_times: measured times for the drafter are kept in a file of
       this folder, SHA256.steps, named by all that they hold for; the folder is
       made. Sim keeps nothing there. NULL: times last as long as the engine. */
    const char *step_times_folder;
} spt_engine_options;

/*
 * Loads model, drafter and kernels. A drafter that does not fit the model is
 * SPT_E_UNSUPPORTED with the reason.
 */
SPT_API spt_status spt_engine_open(const spt_engine_options *options,
                                   spt_engine **engine, spt_error *err);
/* Sessions are closed before. NULL is fine. */
SPT_API void spt_engine_close(spt_engine *engine);

/* What an engine takes of the device, in bytes; without what the driver takes
   for a context and code. */
typedef struct spt_memory {
    uint64_t weights, kv, workspace; /* of the model */
    uint64_t drafter; /* all of it */
    uint64_t total; /* of these */
    /* Beside it, what the driver may take for CUDA graphs of the model's steps
       when those of all shapes have come again: an estimate from the number of
       their kernels. A draft model's are not in it. */
    uint64_t graphs;
} spt_memory;

/* What spt_engine_open with these options would take; allocates nothing. */
SPT_API spt_status spt_engine_estimate(const spt_engine_options *options,
                                       spt_memory *memory, spt_error *err);

typedef struct spt_engine_info {
    char model[96], architecture[32]; /* of the model */
    char device[128]; /* as its driver says */
    bool is_sim; /* nothing that it times is a measurement */
    char drafter[32]; /* "none", "n-gram", "model", "eagle3" */
    int vocab, context; /* tokens; of one session */
    int kv_pages, kv_pages_free, page_size;
    spt_memory memory; /* as allocated */
} spt_engine_info;

SPT_API void spt_engine_describe(const spt_engine *engine,
                                 spt_engine_info *info);

/*
 * Text to tokens as the model's tokenizer does it. begin: with the token that
 * begins a text, where the model wants one; specials: names of special tokens
 * are those tokens. At most room ids are written, *count is how many there
 * are. SPT_E_FORMAT: not UTF-8.
 */
SPT_API spt_status spt_engine_encode(const spt_engine *engine, const char *text,
                                     size_t size, bool begin, bool specials,
                                     int32_t *tokens, size_t room,
                                     size_t *count, spt_error *err);

/* The text of tokens; at most room bytes are written, *size is how many. */
SPT_API spt_status spt_engine_decode(const spt_engine *engine,
                                     const int32_t *tokens, size_t count,
                                     char *text, size_t room, size_t *size,
                                     spt_error *err);

/* Messages of a chat as the model's template writes them, up to the answer. */
typedef struct spt_chat_message {
    const char *role, *content; /* system, user, assistant */
} spt_chat_message;

SPT_API spt_status spt_engine_chat(const spt_engine *engine,
                                   const spt_chat_message *messages,
                                   size_t count, char *text, size_t room,
                                   size_t *size, spt_error *err);

typedef struct spt_session_options {
    spt_sampling sampling;
    spt_accept_rule accept;
    int draft_length; /* 0 = as long as pays, N = always N, -1 = none */
} spt_session_options;

SPT_API spt_status spt_session_open(spt_engine *engine,
                                    const spt_session_options *options,
                                    spt_session **session, spt_error *err);
SPT_API void spt_session_close(spt_session *session);

/* New options from the next step on. */
SPT_API spt_status spt_session_set(spt_session *session,
                                   const spt_session_options *options,
                                   spt_error *err);

/*
 * Makes the session's text these tokens. KV of the longest common beginning
 * stays, or comes from what other sessions computed; the rest is fed by the
 * next steps. *reused (may be NULL): tokens whose KV was there.
 */
SPT_API spt_status spt_session_sync(spt_session *session, const int32_t *tokens,
                                    size_t count, size_t *reused,
                                    spt_error *err);
/* Forgets all but the first count tokens. */
SPT_API void spt_session_rewind(spt_session *session, size_t count);
/* An equal session of the same engine; shares the KV until either writes. */
SPT_API spt_status spt_session_fork(const spt_session *session,
                                    spt_session **copy, spt_error *err);
/* Tokens of the text so far; valid until the session changes. */
SPT_API const int32_t *spt_session_tokens(const spt_session *session,
                                          size_t *count);

/*
 * Text and KV as one file, for an engine with the same model, type of KV and
 * page size. Loading something else is SPT_E_FORMAT; damage is found.
 */
SPT_API spt_status spt_session_save(const spt_session *session,
                                    const char *path, spt_error *err);
SPT_API spt_status spt_session_load(spt_session *session, const char *path,
                                    spt_error *err);

typedef enum spt_finish {
    SPT_FINISH_NONE = 0, /* not yet */
    SPT_FINISH_STOP_TOKEN = 1, /* a token that ends: model's or caller's */
    SPT_FINISH_STOP_TEXT = 2,
    SPT_FINISH_LENGTH = 3, /* max_tokens */
    SPT_FINISH_CONTEXT = 4, /* the context is full */
    SPT_FINISH_CANCELLED = 5,
} spt_finish;

SPT_API const char *spt_finish_text(spt_finish finish);

typedef struct spt_token_logprob {
    int32_t token;
    double logprob; /* natural, of the model's plain distribution; to 1e-6 */
} spt_token_logprob;

/* What one step added to an answer. Everything is the library's until the
   callback returns. */
typedef struct spt_event {
    const char *text; /* whole characters, nothing of a stop text; may be "" */
    size_t text_size;
    const int32_t *tokens; /* n_tokens of them */
    const bool *drafted; /* (n_tokens) it was an accepted draft */
    const size_t *ends; /* (n_tokens) where in text its bytes end; what lies
                           past text_size is still held back */
    size_t n_tokens;
    const double *logprobs; /* (n_tokens), or NULL */
    const spt_token_logprob *top; /* (n_tokens, n_top), or NULL; token -1 where
                                     fewer logits are above -infinity */
    size_t n_top;
    spt_finish finish; /* not NONE: this is the last event */
} spt_event;

/* Log-probabilities of a part of the session's own text. Everything is the
   library's until the callback returns. */
typedef struct spt_prompt_event {
    size_t first; /* place of its first token in the text: 1 or more */
    const int32_t *tokens; /* n_tokens of them */
    size_t n_tokens;
    const double *logprobs; /* (n_tokens): of each after all before it */
    const spt_token_logprob *top; /* (n_tokens, n_top), or NULL */
    size_t n_top;
} spt_prompt_event;

/* An answer: what is written after the session's text. */
typedef struct spt_answer_options {
    size_t max_tokens; /* 0 = until the context is full */
    const char *const *stop_texts; /* n_stop_texts, not empty ones */
    size_t n_stop_texts;
    const int32_t *stop_tokens; /* n_stop_tokens, beside the model's own */
    size_t n_stop_tokens;
    bool ignore_end; /* the model's own end tokens do not end it */
    bool show_specials; /* special tokens are part of the text */
    bool logprobs;
    size_t top_logprobs; /* alternatives per token, at most 20 */
    /* Called after each step that adds something; true cancels. */
    bool (*event)(void *user, const spt_event *event);
    void *user;
    /* Called for the text's tokens from the second on, in order, before the
       first event; all KV is computed anew for it. NULL: they are not
       wanted. */
    void (*prompt)(void *user, const spt_prompt_event *event);
} spt_answer_options;

/*
 * Begins an answer; steps write it. The options are copied, what they point to
 * must live until the answer has finished. The session has a text.
 */
SPT_API spt_status spt_session_answer(spt_session *session,
                                      const spt_answer_options *options,
                                      spt_error *err);
/* NONE while the answer is being written. */
SPT_API spt_finish spt_session_finish(const spt_session *session);

/*
 * One step for all of the sessions that have an answer to write: prompts are
 * fed by chunks, the others draft, verify and accept. Sessions for which the
 * KV pool has no room wait for the others; when none can go on it is
 * SPT_E_MEMORY. A session that is there twice is SPT_E_USAGE.
 */
SPT_API spt_status spt_engine_step(spt_engine *engine,
                                   spt_session *const *sessions, size_t count,
                                   spt_error *err);

/* Begins an answer and steps until it has finished. */
SPT_API spt_status spt_session_generate(spt_session *session,
                                        const spt_answer_options *options,
                                        spt_finish *finish, spt_error *err);

/* From any thread: the answer ends after the step that runs. */
SPT_API void spt_session_cancel(spt_session *session);

/* Counts since the session was opened. */
typedef struct spt_session_stats {
    uint64_t prompt_tokens; /* fed */
    uint64_t reused_tokens; /* not fed: their KV was there */
    uint64_t tokens; /* written */
    uint64_t steps; /* that wrote tokens */
    uint64_t drafts; /* of those, with drafts */
    uint64_t draft_tokens, accepted_tokens; /* by depth of the draft */
    uint64_t drafted_at[SPT_DRAFT_LENGTH_MAX]; /* drafts of that depth */
    uint64_t accepted_at[SPT_DRAFT_LENGTH_MAX];
    /* Lengths that were chosen by times of own steps, by step_us alone. */
    uint64_t lengths_timed, lengths_modelled;
} spt_session_stats;

SPT_API void spt_session_statistics(const spt_session *session,
                                    spt_session_stats *stats);

/*
 * One kernel on its own: verify attention with its combine, for programs that
 * have buffers, streams and a CUDA context. The driver is the libcuda of the
 * system (or sim's in its place); the calling thread's context is used.
 */
typedef struct spt_attention spt_attention;

typedef struct spt_attention_problem {
    int q_heads, kv_heads, head_dim; /* head_dim: 64, 80, 96, 128 or 256 */
    bool fp16; /* instead of bf16: queries, KV and output */
    int page_size; /* tokens of a KV page; 0 = contiguous */
    bool tree; /* draft blocks are trees of at most 32 tokens */
    bool sinks; /* one more logit per query head in the denominator */
    int window; /* a row sees this many last positions; 0 = all */
    double scale; /* of the logits; 0 = 1 / sqrt(head_dim) */
    double softcap; /* c tanh(x / c) of scaled logits; 0 = none */
    int max_batch, max_tokens; /* sequences; tokens of a draft block */
    int64_t max_kv; /* tokens of a sequence, draft block included */
    const char *pack; /* kernels that were proved, or NULL: compiled here */
} spt_attention_problem;

/*
 * Device addresses; counts of elements. A sequence brings a block of tokens
 * (the anchor and its drafts) that stand at positions kv_len - tokens on, in a
 * tree by depth; their K and V are in the cache already.
 */
typedef struct spt_attention_call {
    uint64_t q, out; /* (token, query head, head dim) */
    uint64_t k, v; /* (page, slot, KV head, head dim) by strides */
    uint64_t page_table; /* int32 (sequence, page); with pages */
    uint64_t kv_start; /* int64 (sequence): first KV token; without */
    uint64_t q_start; /* int32 (sequence + 1): first token of each in q */
    uint64_t kv_len; /* int32 (sequence) */
    uint64_t tree; /* uint32 (token): bits of ancestors and itself; or 0 */
    uint64_t sinks; /* float (query head); or 0 */
    uint64_t lse; /* float (token, query head), natural logarithm */
    uint64_t workspace; /* of spt_attention_workspace bytes */
    int64_t q_token_stride, kv_page_stride, kv_token_stride, kv_head_stride;
    int page_table_stride;
    int batch, max_tokens; /* at most the problem's */
    int64_t max_kv;
} spt_attention_call;

/* SPT_E_DEVICE without a current context; SPT_E_NOT_FOUND: no such kernel. */
SPT_API spt_status spt_attention_open(const spt_attention_problem *problem,
                                      spt_attention **attention,
                                      spt_error *err);
SPT_API void spt_attention_close(spt_attention *attention);

/* Device bytes that a call may use; two calls at once need two. */
SPT_API size_t spt_attention_workspace(const spt_attention *attention);

/* Its reduction key: equal keys, equal bits. The attention's. */
SPT_API const char *spt_attention_key(const spt_attention *attention);

/* Enqueues both kernels on a CUstream (NULL: the default one). */
SPT_API spt_status spt_attention_launch(spt_attention *attention,
                                        const spt_attention_call *call,
                                        void *stream, spt_error *err);

#ifdef __cplusplus
}
#endif

#endif
