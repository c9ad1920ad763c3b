/*
 * The thread that owns the engine. It takes what waits while there is room,
 * steps all running ones together, and lets finished ones go.
 */
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "serve_int.h"

typedef struct worker {
    spt_serve *serve;
    serve_choice **choices; /* running */
    spt_session **sessions; /* of theirs, for a step */
    int count;
} worker;

static bool on_event(void *user, const spt_event *event)
{
    serve_choice *choice = user;
    serve_job *job = choice->job;
    pthread_mutex_lock(&job->serve->lock);
    spt_serve_count_tokens(choice, event->n_tokens);
    spt_serve_reply_event(choice, event);
    bool cancel =
        job->left || job->failed || job->out.failed || job->serve->stopping;
    pthread_cond_broadcast(&job->serve->changed);
    pthread_mutex_unlock(&job->serve->lock);
    return cancel;
}

static void on_prompt(void *user, const spt_prompt_event *event)
{
    spt_serve_reply_prompt(user, event);
}

/* With the lock held: those of the job that wait, wait no more. */
static void unqueue(serve_job *job)
{
    spt_serve *serve = job->serve;
    serve_choice **at = &serve->first;
    serve->last = NULL;
    while (*at) {
        if ((*at)->job == job) {
            *at = (*at)->next;
            serve->waiting--;
            job->open--;
        } else {
            serve->last = *at;
            at = &(*at)->next;
        }
    }
}

/* With the lock held, when the last of its choices has ended. */
static void close_job(serve_job *job)
{
    if (!job->failed)
        spt_serve_reply_end(job);
    if (!job->failed && job->out.failed) {
        spt_serve_wrong(&job->fault, SERVE_BUSY, "answer: out of memory");
        job->failed = true;
    }
}

static void count_pages(spt_serve *serve)
{
    spt_engine_info info;
    spt_engine_describe(serve->options.engine, &info);
    serve->kv_usage = 1 - (double)info.kv_pages_free / (double)info.kv_pages;
}

/* It has ended. Its job is the connection's again, or nobody's, when it was
   the last; when it failed, the others need not go on. */
static void let_go(serve_choice *choice, spt_status status,
                   const spt_error *err)
{
    serve_job *job = choice->job;
    spt_serve *serve = job->serve;
    pthread_mutex_lock(&serve->lock);
    if (choice->running) {
        spt_serve_count_stats(serve, choice);
        if (!choice->job->silent || !choice->finish)
            choice->finish = spt_session_finish(choice->running);
    }
    spt_session_close(choice->running);
    choice->running = NULL;
    count_pages(serve);
    if (status == SPT_OK) {
        spt_serve_count_end(choice);
    } else {
        serve->counts.failed++;
        if (!job->failed) {
            job->failed = true;
            spt_serve_failed(&job->fault, err);
            unqueue(job);
        }
    }
    if (--job->open == 0)
        close_job(job);
    bool nobodys = job->open == 0 && job->left;
    pthread_cond_broadcast(&serve->changed);
    pthread_mutex_unlock(&serve->lock);
    if (nobodys)
        spt_serve_job_free(job);
}

/* The prompt comes first in the answer; special tokens have no text there. */
static spt_status echo(serve_choice *choice, const int32_t *tokens,
                       size_t count, spt_error *err)
{
    spt_serve *serve = choice->job->serve;
    const spt_engine *engine = serve->options.engine;
    size_t size = 0;
    SPT_TRY(spt_engine_decode(engine, tokens, count, NULL, 0, &size, err));
    char *text = spt_calloc(size + 1, 1);
    if (!text)
        return spt_fail(err, SPT_E_MEMORY, "echo: out of memory");
    spt_status status =
        spt_engine_decode(engine, tokens, count, text, size, &size, err);
    pthread_mutex_lock(&serve->lock);
    if (status == SPT_OK)
        spt_serve_reply_echo(choice, (spt_text){text, size});
    pthread_mutex_unlock(&serve->lock);
    spt_free(text);
    return status;
}

static spt_status begin(serve_choice *choice, spt_error *err)
{
    serve_job *job = choice->job;
    const serve_prompt *prompt = spt_serve_prompt_of(choice);
    spt_session_options session = job->session;
    spt_answer_options answer = job->answer;
    answer.event = on_event;
    answer.user = choice;
    if (job->echo && job->logprobs && choice->index % job->copies == 0)
        answer.prompt = on_prompt;
    /* The copies differ by their random numbers alone. */
    session.sampling.seed += (uint64_t)(choice->index % job->copies);
    SPT_TRY(spt_session_open(job->serve->options.engine, &session,
                             &choice->running, err));
    SPT_TRY(spt_session_sync(choice->running, prompt->tokens, prompt->count,
                             &choice->reused, err));
    if (job->echo)
        SPT_TRY(echo(choice, prompt->tokens, prompt->count, err));
    return spt_session_answer(choice->running, &answer, err);
}

/* With the lock held: takes what *at points to out of the queue. */
static serve_choice *unlink_at(spt_serve *serve, serve_choice **at)
{
    serve_choice *choice = *at;
    *at = choice->next;
    serve->last = NULL;
    for (serve_choice *c = serve->first; c; c = c->next)
        serve->last = c;
    serve->waiting--;
    return choice;
}

/* Copies begin when the first one has read their prompt: they share its KV. */
static bool may_begin(const serve_choice *choice)
{
    const serve_job *job = choice->job;
    const serve_choice *first =
        &job->choices[choice->index - choice->index % job->copies];
    return choice == first || first->begun || first->finish;
}

/* With the lock held: the next that may begin, or NULL. */
static serve_choice *pop(spt_serve *serve)
{
    for (serve_choice **at = &serve->first; *at; at = &(*at)->next)
        if (may_begin(*at))
            return unlink_at(serve, at);
    return NULL;
}

/* Waits for work; the next of the queue where there is room; NULL. */
static serve_choice *take(worker *w)
{
    spt_serve *serve = w->serve;
    serve_choice *choice = NULL;
    pthread_mutex_lock(&serve->lock);
    while (!serve->first && !w->count && !serve->stopping)
        pthread_cond_wait(&serve->changed, &serve->lock);
    if (w->count < serve->options.sessions)
        choice = pop(serve);
    serve->running += choice != NULL;
    if (choice)
        choice->taken_at = spt_serve_now();
    pthread_mutex_unlock(&serve->lock);
    return choice;
}

static void drop(worker *w, int index)
{
    pthread_mutex_lock(&w->serve->lock);
    w->serve->running--;
    pthread_mutex_unlock(&w->serve->lock);
    w->choices[index] = w->choices[--w->count];
}

static void take_all(worker *w)
{
    spt_error err = {0};
    serve_choice *choice;
    while ((choice = take(w)) != NULL) {
        w->choices[w->count++] = choice;
        spt_status status = begin(choice, &err);
        if (status == SPT_OK)
            continue;
        drop(w, w->count - 1);
        let_go(choice, status, &err);
    }
}

/* Those that nobody waits for need not even read their prompts. */
static void cancel_left(worker *w)
{
    pthread_mutex_lock(&w->serve->lock);
    for (int i = 0; i < w->count; i++) {
        const serve_job *job = w->choices[i]->job;
        if (job->left || job->failed)
            spt_session_cancel(w->choices[i]->running);
    }
    pthread_mutex_unlock(&w->serve->lock);
}

/* What /metrics says while answers are written. */
static void count_step(worker *w)
{
    pthread_mutex_lock(&w->serve->lock);
    for (int i = 0; i < w->count; i++)
        spt_serve_count_stats(w->serve, w->choices[i]);
    count_pages(w->serve);
    pthread_mutex_unlock(&w->serve->lock);
}

static void step(worker *w)
{
    spt_error err = {0};
    for (int i = 0; i < w->count; i++)
        w->sessions[i] = w->choices[i]->running;
    cancel_left(w);
    spt_status status = spt_engine_step(w->serve->options.engine, w->sessions,
                                        (size_t)w->count, &err);
    if (status != SPT_OK)
        spt_log_line(&w->serve->options.log, "step failed: %s", err.text);
    for (int i = w->count - 1; i >= 0; i--) {
        serve_choice *choice = w->choices[i];
        bool done = spt_session_finish(choice->running) != SPT_FINISH_NONE;
        if (!done && status == SPT_OK)
            continue;
        drop(w, i);
        let_go(choice, done ? SPT_OK : status, &err);
    }
    count_step(w);
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
    serve_choice *rest;
    w.choices = spt_calloc(most, sizeof *w.choices);
    w.sessions = spt_calloc(most, sizeof *w.sessions);
    while (w.choices && w.sessions && !is_stopping(w.serve)) {
        take_all(&w);
        if (w.count)
            step(&w);
    }
    while (w.count) {
        rest = w.choices[w.count - 1];
        drop(&w, w.count - 1);
        let_go(rest, SPT_E_CANCELLED, &stopped);
    }
    do {
        pthread_mutex_lock(&w.serve->lock);
        w.serve->stopping = true;
        rest = w.serve->first ? unlink_at(w.serve, &w.serve->first) : NULL;
        pthread_mutex_unlock(&w.serve->lock);
        if (rest)
            let_go(rest, SPT_E_CANCELLED, &stopped);
    } while (rest);
    spt_free(w.choices);
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

spt_status spt_serve_submit(serve_job *job, serve_fault *fault)
{
    spt_serve *serve = job->serve;
    pthread_mutex_lock(&serve->lock);
    bool full = serve->waiting >= serve->options.queue;
    bool stopping = serve->stopping || serve->draining;
    if (!full && !stopping) {
        job->id = ++serve->next_id;
        job->open = job->n_choices;
        spt_serve_observe(serve, SERVE_N, job->n, 1);
        for (int i = 0; i < job->n_choices; i++) {
            serve_choice *choice = &job->choices[i];
            *(serve->last ? &serve->last->next : &serve->first) = choice;
            serve->last = choice;
        }
        serve->waiting += job->n_choices;
        pthread_cond_broadcast(&serve->changed);
    }
    pthread_mutex_unlock(&serve->lock);
    if (stopping)
        return spt_serve_wrong(fault, SERVE_STOPPING, "the server is stopping");
    return full ? spt_serve_wrong(fault, SERVE_BUSY,
                                  "%d requests wait already: try again later",
                                  serve->options.queue)
                : SPT_OK;
}

void spt_serve_leave(serve_job *job)
{
    spt_serve *serve = job->serve;
    pthread_mutex_lock(&serve->lock);
    unqueue(job);
    bool done = job->open == 0;
    job->left = true;
    pthread_mutex_unlock(&serve->lock);
    if (done)
        spt_serve_job_free(job);
}
