/* How a server's files work together; what they do stands in serve.h. */
#ifndef SPT_SERVE_INT_H
#define SPT_SERVE_INT_H

#include <pthread.h>

#include "chat.h"
#include "json.h"
#include "serve.h"

enum {
    SERVE_STOPS = 16, /* stop texts of a request */
    SERVE_STOP_TOKENS = 64,
    SERVE_BIASES = 1024,
    SERVE_CHOICES = 128, /* answers to a request */
    SERVE_BODY = 16 << 20, /* bytes of a request */
    SERVE_BODIES = 256 << 20, /* of all that are here unread */
    SERVE_SMALL = 64 << 10, /* of one that is read without waiting */
    SERVE_BUCKETS = 24, /* of a histogram */
    SERVE_LOOK_MS = 100, /* between two looks whether a client is there */
};

typedef struct serve_job serve_job;
typedef struct serve_connection serve_connection;

typedef enum serve_code {
#define SERVE_CODE(NAME, text, http, type, names_field) SERVE_##NAME,
#include "codes.def"
#undef SERVE_CODE
} serve_code;

/* Why a request gets no answer. */
typedef struct serve_fault {
    serve_code code;
    char text[1024]; /* begins with the field's name and ":" where it has one */
} serve_fault;

/* serve_error.c: fills it and returns SPT_E_USAGE; from an error of the
   library; its HTTP status; its text for the client. */
spt_status spt_serve_wrong(serve_fault *fault, serve_code code,
                           const char *format, ...) SPT_PRINTF(3, 4);
spt_status spt_serve_failed(serve_fault *fault, const spt_error *err);
unsigned spt_serve_http_status(const serve_fault *fault);
void spt_serve_reply_fault(const serve_fault *fault, spt_buf *out);

/* What is known of tokens, in their order. Owned where it grows. */
typedef struct serve_scores {
    int32_t *tokens; /* n of them */
    double *logprobs; /* (n); NaN: a text's first token has none */
    spt_token_logprob *top; /* (n, n_top), or NULL */
    size_t n, n_top, room;
    bool failed; /* out of memory once */
} serve_scores;

typedef struct serve_prompt {
    const char *text; /* or */
    const cJSON *list; /* of ids */
    int32_t *tokens; /* count of them; owned */
    size_t count;
    serve_scores scores; /* of them, when echo and logprobs ask for it */
} serve_prompt;

/* One answer: a request wants n of them to each of its prompts. */
typedef struct serve_choice {
    struct serve_choice *next; /* in the queue */
    serve_job *job;
    int index; /* in the job's list */

    /* The worker's. */
    spt_session *running;
    spt_session_stats counted; /* in the server's sum */
    double taken_at, first_at, last_at; /* its turn; tokens; 0 = not yet */
    size_t tokens;
    size_t reused; /* tokens of the prompt whose KV was there */
    size_t characters; /* of the text so far */
    spt_finish finish;
    bool begun; /* its first event has come */
    bool given; /* it is among the best */
    spt_buf text; /* when it is not streamed; before it begins, its prompt */
    serve_scores scores; /* of its tokens, when they are asked for */
} serve_choice;

/*
 * A request. Up to its queueing it is the connection's, then the worker's;
 * open, left, failed and out are shared under the server's lock.
 */
struct serve_job {
    struct spt_serve *serve;
    unsigned long id;
    long created; /* Unix seconds */
    double came_at; /* spt_serve_now */

    /* What is asked for. */
    cJSON *body; /* owns the texts below */
    cJSON *texts; /* owns those that consisted of parts */
    bool chat, stream, echo, logprobs;
    bool silent; /* max_tokens is 0: what is written is not shown */
    bool stream_options; /* are there */
    bool usage; /* in a last chunk of a stream */
    int n; /* answers per prompt */
    int best_of; /* the best of so many; 0 = not said */
    int copies; /* that are written: one of the two */
    size_t chat_tokens; /* max_completion_tokens; 0 = not said */
    spt_message *messages; /* of a chat; owned */
    size_t n_messages;
    serve_prompt *prompts; /* or prompts; of a chat one; owned */
    size_t n_prompts;
    spt_session_options session;
    spt_answer_options answer;
    const char *stops[SERVE_STOPS];
    int32_t stop_tokens[SERVE_STOP_TOKENS];
    spt_logit_bias *bias; /* owned */
    serve_choice *choices; /* copies of the first prompt, of the second ... */
    int n_choices;

    /* Shared. */
    int open; /* choices that have not ended */
    bool left; /* nobody waits for it any more */
    bool failed; /* the first of its choices that did, and why */
    serve_fault fault;
    spt_buf out; /* chunks of a stream, or the whole answer */
};

typedef enum serve_observed {
#define SERVE_HISTOGRAM(NAME, name, bounds, help) SERVE_##NAME,
#include "metrics.def"
#undef SERVE_HISTOGRAM
    SERVE_OBSERVED
} serve_observed;

typedef struct serve_histogram {
    unsigned long in[SERVE_BUCKETS];
    double sum;
} serve_histogram;

/* What has happened since the start, for /metrics. */
typedef struct serve_counts {
    unsigned long ends[SPT_FINISH_CANCELLED + 1]; /* of answers, by how */
    unsigned long failed;
    spt_session_stats sum;
    serve_histogram histograms[SERVE_OBSERVED];
} serve_counts;

struct spt_serve {
    spt_serve_options options;
    spt_engine_info info;
    struct MHD_Daemon *daemon;
    serve_connection *connections;
    pthread_t worker, keeper;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* what follows, or a job's shared part */
    serve_choice *first, *last; /* the queue */
    int waiting, running; /* choices */
    size_t unread; /* bytes of bodies that have come */
    size_t reading; /* of large ones that are parsed and encoded */
    bool draining; /* no new requests */
    bool stopping;
    long started; /* Unix seconds */
    unsigned long next_id;
    serve_counts counts;
    double kv_usage; /* the part of the KV pool that is in use */
};

/* serve_request.c: a job from a body. */
spt_status spt_serve_request(spt_serve *serve, bool chat, const char *body,
                             size_t size, serve_job **job, serve_fault *fault);
void spt_serve_job_free(serve_job *job);

/* serve_fields.c: one field of it. */
spt_status spt_serve_field(serve_job *job, const cJSON *item,
                           serve_fault *fault);

/* serve_prompt.c: what is to be answered. */
spt_status spt_serve_read_prompt(serve_job *job, const cJSON *item,
                                 serve_fault *fault);
spt_status spt_serve_read_messages(serve_job *job, const cJSON *item,
                                   serve_fault *fault);
/* Who waits for a request; gone: it does no more. */
typedef struct serve_client {
    bool (*gone)(void *user);
    void *user;
} serve_client;
/* The tokens of its prompts, on the caller's thread; what they are made from
   is freed. */
spt_status spt_serve_encode(serve_job *job, const serve_client *client,
                            serve_fault *fault);
serve_prompt *spt_serve_prompt_of(const serve_choice *choice);

/* serve_gate.c: how much of requests is in memory at once. A part of a body
   comes in (false: there is no room), then the body is read by its thread when
   it is its turn (false: the client has gone), then it is done with. */
bool spt_serve_gate_take(spt_serve *serve, size_t size);
bool spt_serve_gate_enter(spt_serve *serve, size_t size,
                          const serve_client *client);
void spt_serve_gate_leave(spt_serve *serve, size_t size);
void spt_serve_gate_drop(spt_serve *serve, size_t size);
/* With the lock held: waits for a change, at most so long. */
void spt_serve_wait(spt_serve *serve, int ms);

/* serve_reply.c: texts of answers, made with the lock held. */
void spt_serve_reply_echo(serve_choice *choice, spt_text prompt);
void spt_serve_reply_event(serve_choice *choice, const spt_event *event);
void spt_serve_reply_prompt(serve_choice *choice,
                            const spt_prompt_event *event);
void spt_serve_reply_end(serve_job *job);
void spt_serve_print(const cJSON *root, spt_buf *out);
/* All of them (the one) as a list, or the one alone. */
void spt_serve_reply_models(const spt_serve *serve, bool list, spt_buf *out);

/* serve_metrics.c. Seconds of a clock that only goes forward; with the lock
   held: a value that comes so many times, what a choice's session has done
   since it was counted, tokens of it, its end. */
double spt_serve_now(void);
void spt_serve_observe(spt_serve *serve, serve_observed what, double value,
                       size_t times);
void spt_serve_count_stats(spt_serve *serve, serve_choice *choice);
void spt_serve_count_tokens(serve_choice *choice, size_t count);
void spt_serve_count_end(serve_choice *choice);
void spt_serve_reply_metrics(spt_serve *serve, spt_buf *out);

/* serve_scores.c: copies; JSON of a prompt's (may be empty) and an answer's,
   which begins at character *at of the text. */
void spt_serve_scores_add(serve_scores *scores, const serve_scores *more);
void spt_serve_scores_free(serve_scores *scores);
void spt_serve_add_scores(cJSON *choice, const serve_job *job,
                          const serve_scores *prompt,
                          const serve_scores *scores, size_t *at);

/* serve_worker.c: the queue and who empties it. */
spt_status spt_serve_worker_start(spt_serve *serve, spt_error *err);
void spt_serve_worker_stop(spt_serve *serve);
/* On success the job is the worker's. */
spt_status spt_serve_submit(serve_job *job, serve_fault *fault);
/* Nobody waits for it any more: it is cancelled, and freed when it is done. */
void spt_serve_leave(serve_job *job);

#endif
