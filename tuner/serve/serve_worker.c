/*
 * The thread that owns the engine. It takes waiting jobs while there is room,
 * steps all running ones together, and lets finished ones go.
 */
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "serve_int.h"

typedef struct worker {
    spt_serve *serve;
    serve_job **jobs; /* running */
    spt_session **sessions; /* of theirs, for a step */
    int count;
} worker;

static bool on_event(void *user, const spt_event *event)
{
    serve_job *job = user;
    pthread_mutex_lock(&job->serve->lock);
    spt_serve_reply_event(job, event);
    bool cancel = job->left || job->serve->stopping || job->out.failed;
    pthread_cond_broadcast(&job->serve->changed);
    pthread_mutex_unlock(&job->serve->lock);
    return cancel;
}

static void add_stats(spt_session_stats *sum, const spt_session_stats *s)
{
    sum->prompt_tokens += s->prompt_tokens;
    sum->reused_tokens += s->reused_tokens;
    sum->tokens += s->tokens;
    sum->steps += s->steps;
    sum->drafts += s->drafts;
    sum->draft_tokens += s->draft_tokens;
    sum->accepted_tokens += s->accepted_tokens;
    for (int d = 0; d < SPT_DRAFT_LENGTH_MAX; d++) {
        sum->drafted_at[d] += s->drafted_at[d];
        sum->accepted_at[d] += s->accepted_at[d];
    }
}

/* The job is the connection's again, or nobody's. */
static void let_go(serve_job *job, spt_status status, const spt_error *err)
{
    spt_serve *serve = job->serve;
    spt_session_stats stats = {0};
    if (job->running)
        spt_session_statistics(job->running, &stats);
    spt_session_close(job->running);
    pthread_mutex_lock(&serve->lock);
    add_stats(&serve->counts.sum, &stats);
    job->running = NULL;
    job->status = status;
    if (status != SPT_OK) {
        job->err = *err;
        serve->counts.failed++;
    } else {
        serve->counts.requests[job->finish]++;
        spt_serve_reply_end(job);
    }
    job->state = JOB_DONE;
    bool left = job->left;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
    if (left)
        spt_serve_job_free(job);
}

/* The chat as a text that is the caller's (spt_free). */
static spt_status chat_text(const serve_job *job, char **text, size_t *size,
                            spt_error *err)
{
    spt_engine *engine = job->serve->options.engine;
    size_t count = (size_t)cJSON_GetArraySize(job->messages), n = 0;
    spt_chat_message *messages = spt_calloc(count, sizeof *messages);
    const cJSON *item;
    if (!messages)
        return spt_fail(err, SPT_E_MEMORY, "messages: out of memory");
    cJSON_ArrayForEach(item, job->messages) messages[n++] = (spt_chat_message){
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "role")),
        cJSON_GetStringValue(
            cJSON_GetObjectItemCaseSensitive(item, "content"))};
    spt_status status =
        spt_engine_chat(engine, messages, count, NULL, 0, size, err);
    *text = status == SPT_OK ? spt_calloc(*size + 1, 1) : NULL;
    if (*text)
        status =
            spt_engine_chat(engine, messages, count, *text, *size, size, err);
    else if (status == SPT_OK)
        status = spt_fail(err, SPT_E_MEMORY, "messages: out of memory");
    spt_free(messages);
    return status;
}

static spt_status sync_text(serve_job *job, const char *text, size_t size,
                            spt_error *err)
{
    spt_serve *serve = job->serve;
    size_t count = 0;
    SPT_TRY(spt_engine_encode(serve->options.engine, text, size, !job->chat,
                              job->chat, NULL, 0, &count, err));
    if (count == 0 || count >= (size_t)serve->info.context)
        return spt_fail(err, SPT_E_USAGE,
                        "the prompt has %zu tokens, expected 1 to %d", count,
                        serve->info.context - 1);
    int32_t *tokens = spt_calloc(count, sizeof *tokens);
    if (!tokens)
        return spt_fail(err, SPT_E_MEMORY, "the prompt: out of memory");
    spt_status status =
        spt_engine_encode(serve->options.engine, text, size, !job->chat,
                          job->chat, tokens, count, &count, err);
    if (status == SPT_OK)
        status = spt_session_sync(job->running, tokens, count, NULL, err);
    spt_free(tokens);
    job->prompt_tokens = count;
    return status;
}

static spt_status begin(serve_job *job, spt_error *err)
{
    char *chat = NULL;
    size_t size = 0;
    SPT_TRY(spt_session_open(job->serve->options.engine, &job->session,
                             &job->running, err));
    spt_status status = SPT_OK;
    if (job->chat)
        status = chat_text(job, &chat, &size, err);
    if (status == SPT_OK)
        status = sync_text(job, job->chat ? chat : job->prompt,
                           job->chat ? size : strlen(job->prompt), err);
    spt_free(chat);
    SPT_TRY(status);
    job->answer.event = on_event;
    job->answer.user = job;
    return spt_session_answer(job->running, &job->answer, err);
}

/* Waits for work; the next job of the queue where there is room; NULL. */
static serve_job *take_job(worker *w)
{
    spt_serve *serve = w->serve;
    serve_job *job = NULL;
    pthread_mutex_lock(&serve->lock);
    while (!serve->first && !w->count && !serve->stopping)
        pthread_cond_wait(&serve->changed, &serve->lock);
    if (serve->first && w->count < serve->options.sessions) {
        job = serve->first;
        serve->first = job->next;
        serve->last = serve->first ? serve->last : NULL;
        serve->waiting--;
        serve->running++;
        job->state = JOB_RUNS;
    }
    pthread_mutex_unlock(&serve->lock);
    return job;
}

static void drop(worker *w, int index)
{
    pthread_mutex_lock(&w->serve->lock);
    w->serve->running--;
    pthread_mutex_unlock(&w->serve->lock);
    w->jobs[index] = w->jobs[--w->count];
}

static void take_jobs(worker *w)
{
    spt_error err = {0};
    serve_job *job;
    while ((job = take_job(w)) != NULL) {
        w->jobs[w->count++] = job;
        spt_status status = begin(job, &err);
        if (status == SPT_OK)
            continue;
        drop(w, w->count - 1);
        let_go(job, status, &err);
    }
}

/* Those that nobody waits for need not even read their prompts. */
static void cancel_left(worker *w)
{
    pthread_mutex_lock(&w->serve->lock);
    for (int i = 0; i < w->count; i++)
        if (w->jobs[i]->left)
            spt_session_cancel(w->jobs[i]->running);
    pthread_mutex_unlock(&w->serve->lock);
}

static void step(worker *w)
{
    spt_error err = {0};
    for (int i = 0; i < w->count; i++)
        w->sessions[i] = w->jobs[i]->running;
    cancel_left(w);
    spt_status status = spt_engine_step(w->serve->options.engine, w->sessions,
                                        (size_t)w->count, &err);
    if (status != SPT_OK)
        spt_log_line(&w->serve->options.log, "step failed: %s", err.text);
    for (int i = w->count - 1; i >= 0; i--) {
        serve_job *job = w->jobs[i];
        bool done = spt_session_finish(job->running) != SPT_FINISH_NONE;
        if (!done && status == SPT_OK)
            continue;
        drop(w, i);
        let_go(job, done ? SPT_OK : status, &err);
    }
}

static bool is_stopping(spt_serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    bool stopping = serve->stopping;
    pthread_mutex_unlock(&serve->lock);
    return stopping;
}

static void *work(void *user)
{
    worker w = {.serve = user};
    size_t most = (size_t)w.serve->options.sessions;
    spt_error stopped = {SPT_E_CANCELLED, "the server is stopping"};
    w.jobs = spt_calloc(most, sizeof *w.jobs);
    w.sessions = spt_calloc(most, sizeof *w.sessions);
    while (w.jobs && w.sessions && !is_stopping(w.serve)) {
        take_jobs(&w);
        if (w.count)
            step(&w);
    }
    while (w.count) {
        serve_job *job = w.jobs[w.count - 1];
        drop(&w, w.count - 1);
        let_go(job, SPT_E_CANCELLED, &stopped);
    }
    pthread_mutex_lock(&w.serve->lock);
    w.serve->stopping = true;
    serve_job *rest = w.serve->first;
    w.serve->first = w.serve->last = NULL;
    w.serve->waiting = 0;
    pthread_mutex_unlock(&w.serve->lock);
    while (rest) {
        serve_job *next = rest->next;
        let_go(rest, SPT_E_CANCELLED, &stopped);
        rest = next;
    }
    spt_free(w.jobs);
    spt_free(w.sessions);
    return NULL;
}

spt_status spt_serve_worker_start(spt_serve *serve, spt_error *err)
{
    if (pthread_create(&serve->worker, NULL, work, serve) != 0)
        return spt_fail(err, SPT_E_INTERNAL, "cannot start a thread");
    return SPT_OK;
}

void spt_serve_worker_stop(spt_serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    serve->stopping = true;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
    pthread_join(serve->worker, NULL);
}

spt_status spt_serve_submit(serve_job *job, spt_error *err)
{
    spt_serve *serve = job->serve;
    pthread_mutex_lock(&serve->lock);
    bool full = serve->waiting >= serve->options.queue;
    bool stopping = serve->stopping;
    if (!full && !stopping) {
        job->id = ++serve->next_id;
        *(serve->last ? &serve->last->next : &serve->first) = job;
        serve->last = job;
        serve->waiting++;
        pthread_cond_broadcast(&serve->changed);
    }
    pthread_mutex_unlock(&serve->lock);
    if (stopping)
        return spt_fail(err, SPT_E_CANCELLED, "the server is stopping");
    return full ? spt_fail(err, SPT_E_MEMORY,
                           "%d requests wait already: try again later",
                           serve->options.queue)
                : SPT_OK;
}

void spt_serve_leave(serve_job *job)
{
    spt_serve *serve = job->serve;
    pthread_mutex_lock(&serve->lock);
    bool done = job->state == JOB_DONE;
    job->left = true;
    pthread_mutex_unlock(&serve->lock);
    if (done)
        spt_serve_job_free(job);
}
