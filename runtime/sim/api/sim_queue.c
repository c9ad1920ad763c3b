/*
 * Streams as queues: enqueueing, and running what a wait implies.
 */
#include "sim_driver.h"

#include <string.h>
#include <time.h>

#include "mem.h"

/* A stream that nobody waits for runs by itself from here on. */
enum { MAX_PENDING = 4096 };

/* This thread runs work; calls from a host function are refused. */
static _Thread_local bool running_here;
static _Thread_local char thread_mark;

CUresult sim_stream_new(CUcontext ctx, unsigned flags, CUstream *stream)
{
    CUstream made = spt_calloc(1, sizeof(*made));
    if (!made || !sim_handle_add(made, SIM_HANDLE_STREAM)) {
        spt_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->ctx = ctx;
    made->id = sim_the.next_id++;
    made->flags = flags;
    made->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    made->next = ctx->streams;
    ctx->streams = made;
    *stream = made;
    return CUDA_SUCCESS;
}

void sim_stream_delete(CUstream stream)
{
    CUstream *link = &stream->ctx->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    while (stream->head) {
        sim_queued *next = stream->head->next;
        sim_work_free(&stream->head->work);
        spt_free(stream->head);
        stream->head = next;
    }
    sim_nodes_free(&stream->capture_tail);
    sim_handle_drop(stream);
    spt_free(stream);
}

CUstream sim_stream_by_id(uint64_t id)
{
    for (CUcontext ctx = sim_the.contexts; ctx; ctx = ctx->next)
        for (CUstream stream = ctx->streams; stream; stream = stream->next)
            if (stream->id == id)
                return stream;
    return NULL;
}

CUresult sim_stream_of(CUcontext ctx, CUstream handle, CUstream *stream)
{
    if (!handle || handle == CU_STREAM_LEGACY) {
        *stream = ctx->null_stream;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        for (CUstream s = ctx->streams; s; s = s->next)
            if (s->owner == &thread_mark) {
                *stream = s;
                return CUDA_SUCCESS;
            }
        CUresult result = sim_stream_new(ctx, CU_STREAM_DEFAULT, stream);
        if (result == CUDA_SUCCESS)
            (*stream)->owner = &thread_mark;
        return result;
    }
    if (!sim_handle_is(handle, SIM_HANDLE_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    *stream = handle;
    return CUDA_SUCCESS;
}

/* The legacy stream may not be used beside a capture that would need it. */
static bool legacy_forbidden(CUstream stream)
{
    if (stream != stream->ctx->null_stream)
        return false;
    for (CUstream s = stream->ctx->streams; s; s = s->next)
        if (s->capture == SIM_CAPTURE_ACTIVE && s->blocking)
            return true;
    return false;
}

CUresult sim_enqueue(CUstream stream, sim_work *work, uint64_t *number)
{
    if (running_here) {
        sim_work_free(work);
        return sim_because(CUDA_ERROR_NOT_PERMITTED,
                           "a host function must not call the driver");
    }
    if (stream->capture != SIM_CAPTURE_NONE)
        return sim_capture_add(stream, work);
    if (legacy_forbidden(stream)) {
        sim_work_free(work);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->length >= MAX_PENDING) {
        CUresult result = sim_drain_stream(stream);
        if (result != CUDA_SUCCESS) {
            sim_work_free(work);
            return result;
        }
    }
    sim_queued *item = spt_calloc(1, sizeof(*item));
    if (!item) {
        sim_work_free(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    item->number = sim_the.next_number++;
    item->work = *work;
    if (stream->tail)
        stream->tail->next = item;
    else
        stream->head = item;
    stream->tail = item;
    stream->length++;
    if (number)
        *number = item->number;
    sim_idle_start();
    return CUDA_SUCCESS;
}

static void drain(CUstream stream, uint64_t number);

/* What the head of the stream has to wait for; returns when it may start. */
static double drain_needs(CUstream stream)
{
    const sim_queued *item = stream->head;
    uint64_t before = item->number - 1;
    double start = stream->time_us;
    if (stream == stream->ctx->null_stream) {
        for (CUstream s = stream->ctx->streams; s; s = s->next) {
            if (s == stream || !s->blocking)
                continue;
            drain(s, before);
            if (s->time_us > start)
                start = s->time_us;
        }
    } else if (stream->blocking) {
        drain(stream->ctx->null_stream, before);
        if (stream->ctx->null_stream->time_us > start)
            start = stream->ctx->null_stream->time_us;
    }
    if (item->work.kind == SIM_WORK_WAIT) {
        CUstream other = sim_stream_by_id(item->work.wait.stream);
        if (other && other != stream) {
            drain(other, item->work.wait.number);
            if (other->time_us > start)
                start = other->time_us;
        }
    }
    return start;
}

static void run_head(CUstream stream)
{
    double start = drain_needs(stream), end = start;
    sim_queued *item = stream->head;
    CUcontext ctx = stream->ctx;
    if (ctx->error == CUDA_SUCCESS) {
        CUresult result = sim_work_run(ctx, &item->work, 0, start, &end);
        if (result != CUDA_SUCCESS)
            ctx->error = result;
    }
    /* Popped afterwards: only the busy thread takes from queues. */
    stream->time_us = end;
    stream->head = item->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->length--;
    sim_work_free(&item->work);
    spt_free(item);
}

static void drain(CUstream stream, uint64_t number)
{
    while (stream->head && stream->head->number <= number)
        run_head(stream);
}

double sim_drain_event(CUevent event, uint64_t before)
{
    CUstream stream = sim_stream_by_id(event->stream);
    if (!stream)
        return 0;
    drain(stream, event->number < before ? event->number : before - 1);
    return stream->time_us;
}

static void busy_begin(void)
{
    while (sim_the.busy)
        pthread_cond_wait(&sim_the.idle, &sim_the.lock);
    sim_the.busy = true;
    running_here = true;
}

static void busy_end(void)
{
    sim_the.busy = false;
    running_here = false;
    pthread_cond_broadcast(&sim_the.idle);
}

CUresult sim_drain(CUstream stream, uint64_t number)
{
    if (running_here)
        return sim_because(CUDA_ERROR_NOT_PERMITTED,
                           "a host function must not call the driver");
    uint64_t id = stream->id;
    CUcontext ctx = stream->ctx;
    busy_begin();
    /* Another thread may have destroyed it while this one waited. */
    if (sim_handle_is(stream, SIM_HANDLE_STREAM) && stream->id == id)
        drain(stream, number);
    busy_end();
    return sim_handle_is(ctx, SIM_HANDLE_CONTEXT)
               ? ctx->error
               : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_drain_stream(CUstream stream)
{
    return sim_drain(stream, sim_the.next_number - 1);
}

CUresult sim_drain_context(CUcontext ctx)
{
    if (running_here)
        return sim_because(CUDA_ERROR_NOT_PERMITTED,
                           "a host function must not call the driver");
    uint64_t number = sim_the.next_number - 1, id = ctx->id;
    busy_begin();
    if (sim_handle_is(ctx, SIM_HANDLE_CONTEXT) && ctx->id == id) {
        /* Streams that appear meanwhile only hold later work. */
        for (CUstream s = ctx->streams; s; s = s->next)
            drain(s, number);
    }
    busy_end();
    return sim_handle_is(ctx, SIM_HANDLE_CONTEXT)
               ? ctx->error
               : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_drain_all(void)
{
    CUresult result = CUDA_SUCCESS;
    for (CUcontext ctx = sim_the.contexts; ctx; ctx = ctx->next) {
        CUresult one = sim_drain_context(ctx);
        if (result == CUDA_SUCCESS)
            result = one;
    }
    return result;
}

/* --- progress without a wait -------------------------------------------- */

static bool any_pending(void)
{
    for (CUcontext ctx = sim_the.contexts; ctx; ctx = ctx->next)
        for (CUstream s = ctx->streams; s; s = s->next)
            if (s->head)
                return true;
    return false;
}

/* Until the machine closes: runs what is pending once no call has come for a
   while. A program may wait by other means: a callback, mapped memory. */
static void *run_idle(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&sim_the.lock);
    while (sim_the.idle_thread) {
        uint64_t before = sim_the.calls;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += sim_the.options.idle_ms % 1000 * 1000000L;
        until.tv_sec +=
            sim_the.options.idle_ms / 1000 + until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&sim_the.closing, &sim_the.lock, &until);
        if (sim_the.idle_thread && sim_the.calls == before && !sim_the.busy &&
            any_pending())
            sim_drain_all();
    }
    pthread_mutex_unlock(&sim_the.lock);
    return NULL;
}

void sim_idle_start(void)
{
    if (sim_the.options.idle_ms <= 0 || sim_the.idle_thread)
        return;
    sim_the.idle_thread =
        !pthread_create(&sim_the.idle_handle, NULL, run_idle, NULL);
}

void sim_idle_stop(void)
{
    if (!sim_the.idle_thread)
        return;
    sim_the.idle_thread = false;
    pthread_cond_broadcast(&sim_the.closing);
    pthread_mutex_unlock(&sim_the.lock);
    pthread_join(sim_the.idle_handle, NULL);
    pthread_mutex_lock(&sim_the.lock);
}

bool sim_drain_one(CUstream stream)
{
    if (!stream->head)
        return false;
    sim_drain(stream, stream->head->number);
    return true;
}
