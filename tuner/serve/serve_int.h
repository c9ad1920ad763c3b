/* How a server's files work together; what they do stands in serve.h. */
#ifndef SPT_SERVE_INT_H
#define SPT_SERVE_INT_H

#include <pthread.h>

#include "json.h"
#include "serve.h"

enum {
    SERVE_STOPS = 16, /* stop texts of a request */
    SERVE_STOP_TOKENS = 64,
    SERVE_BIASES = 1024,
    SERVE_BODY = 16 << 20, /* bytes of a request */
};

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE } job_state;

/*
 * A request. Up to its queueing it is the connection's, then the worker's;
 * state, out and left are shared under the server's lock.
 */
typedef struct serve_job {
    struct serve_job *next; /* in the queue */
    struct spt_serve *serve;
    unsigned long id;
    long created; /* Unix seconds */

    /* What is asked for. */
    cJSON *body; /* owns the texts below */
    bool chat, stream, usage; /* usage: in a last chunk of a stream */
    const cJSON *messages; /* of a chat */
    const char *prompt; /* or text */
    spt_session_options session;
    spt_answer_options answer;
    const char *stops[SERVE_STOPS];
    int32_t stop_tokens[SERVE_STOP_TOKENS];
    spt_logit_bias *bias; /* owned */

    /* The worker's. */
    spt_session *running;
    size_t prompt_tokens, tokens;
    spt_buf text; /* of the answer, when it is not streamed */
    cJSON *logprobs; /* entries, when they are asked for */

    /* Shared. */
    job_state state;
    bool left; /* nobody waits for it any more */
    spt_status status; /* of a failed one */
    spt_error err;
    spt_finish finish;
    spt_buf out; /* chunks of a stream, or the whole answer */
} serve_job;

/* What has happened since the start, for /metrics. */
typedef struct serve_counts {
    unsigned long requests[SPT_FINISH_CANCELLED + 1]; /* by how they ended */
    unsigned long failed;
    spt_session_stats sum;
} serve_counts;

struct spt_serve {
    spt_serve_options options;
    spt_engine_info info;
    struct MHD_Daemon *daemon;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any of what follows, or a job's shared part */
    serve_job *first, *last; /* the queue */
    int waiting, running;
    bool stopping;
    long started; /* Unix seconds */
    unsigned long next_id;
    serve_counts counts;
};

/* serve_request.c: a job from a body; SPT_E_USAGE says what is wrong. */
spt_status spt_serve_request(spt_serve *serve, bool chat, const char *body,
                             size_t size, serve_job **job, spt_error *err);
void spt_serve_job_free(serve_job *job);

/* serve_reply.c: texts of answers. Events are given with the lock held. */
void spt_serve_reply_event(serve_job *job, const spt_event *event);
void spt_serve_reply_end(serve_job *job);
void spt_serve_reply_error(const spt_error *err, const char *type,
                           spt_buf *out);
void spt_serve_reply_models(const spt_serve *serve, spt_buf *out);
void spt_serve_reply_metrics(spt_serve *serve, spt_buf *out);

/* serve_worker.c: the queue and who empties it. */
spt_status spt_serve_worker_start(spt_serve *serve, spt_error *err);
void spt_serve_worker_stop(spt_serve *serve);
/* SPT_E_MEMORY: too many wait. On success the job is the worker's. */
spt_status spt_serve_submit(serve_job *job, spt_error *err);
/* Nobody waits for it any more: it is cancelled, and freed when it is done. */
void spt_serve_leave(serve_job *job);

#endif
