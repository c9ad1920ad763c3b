/* What the files of engine and session share. */
#ifndef SPT_SESSION_INT_H
#define SPT_SESSION_INT_H

#include <stdatomic.h>
#include <stdio.h>

#include "accept.h"
#include "draft_length.h"
#include "forward.h"
#include "step_times.h"
#include "tokenizer.h"

/* An answer that is being written. */
typedef struct spt_answer {
    spt_answer_options options;
    spt_finish finish;
    size_t tokens; /* written so far */
    spt_decoder decoder;
    spt_buf text; /* decoded and not given out: may begin a stop text */
    size_t longest_stop;
} spt_answer;

struct spt_session {
    spt_engine *engine;
    spt_session *next; /* of the engine's list */
    spt_session_options options;
    spt_sampler *sampler;
    spt_sequence sequence;
    void *draft_state; /* the drafter's, or NULL */
    spt_draft_meter meter;
    spt_draft draft; /* of the running step */
    spt_answer answer;
    bool drafted; /* the last step asked the drafter */
    int reused; /* tokens whose KV the last sync found */
    bool answering;
    atomic_bool cancelled;
    size_t turn; /* of the engine, in the last step that had the session */
    spt_session_stats stats;
};

struct spt_engine {
    spt_machine machine;
    spt_board board;
    spt_gen *gen;
    spt_compiler *compiler;
    spt_pack *pack;
    spt_model *model;
    spt_tokenizer *tokenizer;
    spt_forward *forward;
    spt_pool *pool;
    spt_draft_source drafter; /* class NULL: none */
    spt_engine_options options; /* defaults filled in */
    spt_step_times *times; /* of its steps */
    spt_step_key times_key;
    char *times_path; /* where they are kept, or NULL */
    bool times_failed; /* to be kept, which was said */
    int draft_nodes; /* of one session in one step */
    spt_memory memory;
    spt_session *sessions; /* all that are open */
    size_t turn; /* of steps; which session is first when not all can go */
    float *logits; /* (limits.logits, vocab) */
    spt_logprob_row *logprobs; /* (options.sessions, SPT_DRAFT_NODES) */
    /* Of a step, (options.sessions) each, and the tokens that it feeds. */
    struct spt_share *shares;
    spt_draft_request *requests;
    spt_forward_item *items;
    int32_t *fed; /* (limits.tokens) */
};

/* What one session does in a step: engine_step.c plans, runs, then settles. */
typedef struct spt_share {
    spt_session *session;
    int prefix; /* tokens of the text that are fed, the anchor included */
    bool decodes; /* the anchor is among them: there are logits */
    bool wants_draft; /* the drafter is asked, for `depth` tokens */
    bool catches_up; /* and was not before: it may have text to read */
    int depth;
    uint32_t tree[SPT_DRAFT_NODES];
    bool on_device; /* tokens are drawn and accepted there */
    spt_sample_row rows[SPT_DRAFT_NODES]; /* how, for the draft's nodes */
    spt_adjustment adjustment; /* of their logits, where something does */
    spt_forward_choice choice; /* what came of it */
    spt_logprob_row *logprobs; /* (SPT_DRAFT_NODES), by node, where the answer
                                  asks for them */
} spt_share;

/* deliver.c: gives out what a step appended from token `first` on, finishes
   the answer where it ends, and forgets tokens past its end. logprobs: of the
   nodes, where the answer asks for them. */
spt_status spt_answer_deliver(spt_session *session, int first,
                              const spt_accepted *accepted,
                              const spt_logprob_row *logprobs, spt_error *err);
/* Gives out what is known of the text's tokens first ... first + count - 1;
   logits (count, vocab) are of those before each. */
spt_status spt_answer_score(spt_session *session, int first, int count,
                            const float *logits, spt_error *err);
/* Ends an answer without new tokens. */
void spt_answer_end(spt_session *session, spt_finish finish);
void spt_answer_free(spt_answer *answer);

/* engine_drafter.c: opens the drafter of the options; its device bytes. */
spt_status spt_engine_open_drafter(spt_engine *engine,
                                   const spt_forward_source *source,
                                   spt_error *err);
spt_status spt_engine_estimate_drafter(const spt_engine_options *options,
                                       const spt_model *target, uint64_t *bytes,
                                       spt_error *err);
/* engine_open.c: what the options' passes may hold; defaults are filled in. */
spt_forward_limits spt_engine_limits(const spt_engine_options *options);

/* engine_times.c: the table of the options' file, if it fits; saves it. */
spt_status spt_engine_open_times(spt_engine *engine, spt_error *err);
void spt_engine_close_times(spt_engine *engine);
/* How far the session drafts, up to max, in a step of so many. */
int spt_engine_choose_length(spt_session *session, int batch, int max);
/* Whether a step of these shares does without drafts, to be timed. */
bool spt_engine_times_plain(const spt_engine *engine, const spt_share *shares,
                            int count);
/* Before a step drafts, and after its rows have run. */
spt_status spt_engine_start_clock(spt_engine *engine, spt_error *err);
spt_status spt_engine_stop_clock(spt_engine *engine, const spt_share *shares,
                                 int count, spt_error *err);

/* attention.c: the same on a driver that is open already; NULL: the system's
   libcuda. */
spt_status spt_attention_open_on(const spt_driver *driver,
                                 const spt_attention_problem *problem,
                                 spt_attention **attention, spt_error *err);

#endif
