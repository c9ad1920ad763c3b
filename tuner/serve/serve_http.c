/* HTTP of the server: what is asked for, and how an answer is sent. */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "serve_int.h"

/* libmicrohttpd 0.9.71 and later. */
typedef enum MHD_Result result;

enum {
    IDLE_SECONDS = 600, /* of a connection that sends and takes nothing */
    /* Beside those of requests that may be here. Each has a thread; at the
       limit libmicrohttpd resets new ones instead of letting them wait. */
    SPARE_CONNECTIONS = 1024,
};

/* A request while its body comes in. */
typedef struct request {
    struct MHD_Connection *connection;
    const char *rest; /* of the path, behind its route */
    spt_buf body;
    size_t taken; /* bytes of it at the gate */
    bool too_long, no_room;
    serve_job *job; /* streamed: left when the connection ends */
} request;

static result send_text(struct MHD_Connection *connection, unsigned code,
                        const char *type, spt_buf *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        text->size, text->data ? text->data : (void *)(uintptr_t) "",
        MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    result sent = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return sent;
}

static unsigned code_of(spt_status status)
{
    switch (status) {
    case SPT_E_USAGE:
    case SPT_E_FORMAT:
    case SPT_E_UNSUPPORTED:
        return MHD_HTTP_BAD_REQUEST;
    case SPT_E_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case SPT_E_MEMORY:
    case SPT_E_CANCELLED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static result send_error(struct MHD_Connection *connection, unsigned code,
                         const spt_error *err)
{
    spt_buf text = {0};
    spt_serve_reply_error(
        err, code < 500 ? "invalid_request_error" : "server_error", &text);
    result sent = send_text(connection, code, "application/json", &text);
    spt_buf_free(&text);
    return sent;
}

/* Whether the other side has closed or reset the connection. */
static bool is_gone(void *user)
{
    struct MHD_Connection *connection = user;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;
    if (!info)
        return false;
    ssize_t n = recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 ||
           (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/*
 * Waits, with the lock held, for the job's end, or a part of it when it is
 * streamed; false: nobody does any more.
 */
static bool wait_for(struct MHD_Connection *connection, serve_job *job)
{
    spt_serve *serve = job->serve;
    bool gone = false;
    while (job->open && !(job->stream && job->out.size) && !gone) {
        spt_serve_wait(serve);
        gone = is_gone(connection);
    }
    return !gone;
}

/* Bytes of the stream from `at` on; waits until there are some. */
static ssize_t read_stream(void *user, uint64_t at, char *to, size_t room)
{
    request *r = user;
    serve_job *job = r->job;
    spt_serve *serve = job->serve;
    (void)at;
    pthread_mutex_lock(&serve->lock);
    bool there = wait_for(r->connection, job);
    if (!job->out.size && !job->open && job->failed != SPT_OK &&
        job->err.text[0]) {
        /* A stream that fails says so in an event of its own. */
        spt_buf_puts(&job->out, "data: ");
        spt_serve_reply_error(&job->err, "server_error", &job->out);
        spt_buf_puts(&job->out, "\n\n");
        job->err.text[0] = 0;
    }
    size_t n = job->out.size < room ? job->out.size : room;
    if (n) {
        memcpy(to, job->out.data, n);
        memmove(job->out.data, job->out.data + n, job->out.size - n);
        job->out.size -= n;
    }
    pthread_mutex_unlock(&serve->lock);
    if (!there)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    return n ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

/* After wait_for; false: it has failed, and has the error. */
static bool has_begun(serve_job *job)
{
    pthread_mutex_lock(&job->serve->lock);
    bool begun = job->out.size > 0;
    pthread_mutex_unlock(&job->serve->lock);
    return begun;
}

static result reply_stream(struct MHD_Connection *connection, request *r,
                           serve_job *job)
{
    if (!has_begun(job)) {
        result sent = send_error(connection, code_of(job->failed), &job->err);
        spt_serve_job_free(job);
        return sent;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, 4096, read_stream, r, NULL);
    r->job = job;
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            "text/event-stream");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                            "no-cache");
    result sent = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return sent;
}

static result reply_whole(struct MHD_Connection *connection, serve_job *job)
{
    result sent =
        job->failed == SPT_OK
            ? send_text(connection, MHD_HTTP_OK, "application/json", &job->out)
            : send_error(connection, code_of(job->failed), &job->err);
    spt_serve_job_free(job);
    return sent;
}

static void drop_body(spt_serve *serve, request *r)
{
    spt_serve_gate_drop(serve, r->taken);
    spt_buf_free(&r->body);
    r->body = (spt_buf){0};
    r->taken = 0;
}

/* The body to a job with tokens: here, so that the worker steps meanwhile. */
static spt_status read_job(spt_serve *serve, request *r, bool chat,
                           serve_job **job, spt_error *err)
{
    const serve_client client = {is_gone, r->connection};
    size_t size = r->body.size;
    const char *body = r->body.data ? r->body.data : "";
    if (r->no_room)
        return spt_fail(err, SPT_E_MEMORY,
                        "%d MiB of requests are here: try again later",
                        SERVE_BODIES >> 20);
    if (r->body.failed)
        return spt_fail(err, SPT_E_MEMORY, "request: out of memory");
    if (!spt_serve_gate_enter(serve, size, &client))
        return spt_fail(err, SPT_E_CANCELLED, "request: the client has gone");
    spt_status status = spt_serve_request(serve, chat, body, size, job, err);
    drop_body(serve, r);
    if (status == SPT_OK)
        status = spt_serve_encode(*job, &client, err);
    spt_serve_gate_leave(serve, size);
    return status;
}

static result complete(spt_serve *serve, struct MHD_Connection *connection,
                       request *r, bool chat)
{
    spt_error err = {0};
    serve_job *job = NULL;
    if (r->too_long) {
        spt_fail(&err, SPT_E_USAGE, "request: more than %d MiB, expected less",
                 SERVE_BODY >> 20);
        return send_error(connection, MHD_HTTP_CONTENT_TOO_LARGE, &err);
    }
    spt_status status = read_job(serve, r, chat, &job, &err);
    if (status == SPT_OK)
        status = spt_serve_submit(job, &err);
    if (status != SPT_OK) {
        spt_serve_job_free(job);
        return send_error(connection, code_of(status), &err);
    }
    pthread_mutex_lock(&serve->lock);
    bool there = wait_for(connection, job);
    pthread_mutex_unlock(&serve->lock);
    if (!there) {
        spt_serve_leave(job);
        return MHD_NO;
    }
    return job->stream ? reply_stream(connection, r, job)
                       : reply_whole(connection, job);
}

static result reply_text(spt_serve *serve, struct MHD_Connection *connection,
                         request *r)
{
    return complete(serve, connection, r, false);
}

static result reply_chat(spt_serve *serve, struct MHD_Connection *connection,
                         request *r)
{
    return complete(serve, connection, r, true);
}

static result reply_health(spt_serve *serve, struct MHD_Connection *connection,
                           request *r)
{
    (void)serve, (void)r;
    spt_buf text = {0};
    spt_buf_puts(&text, "{\"status\":\"ok\"}");
    result sent = send_text(connection, MHD_HTTP_OK, "application/json", &text);
    spt_buf_free(&text);
    return sent;
}

static result reply_models(spt_serve *serve, struct MHD_Connection *connection,
                           request *r)
{
    spt_buf text = {0};
    spt_error err;
    bool list = !*r->rest;
    if (!list && strcmp(r->rest, serve->options.model) != 0) {
        spt_fail(&err, SPT_E_NOT_FOUND,
                 "model: '%.80s' is not served, expected %.200s", r->rest,
                 serve->options.model);
        return send_error(connection, MHD_HTTP_NOT_FOUND, &err);
    }
    spt_serve_reply_models(serve, list, &text);
    result sent = send_text(connection, MHD_HTTP_OK, "application/json", &text);
    spt_buf_free(&text);
    return sent;
}

static result reply_metrics(spt_serve *serve, struct MHD_Connection *connection,
                            request *r)
{
    (void)r;
    spt_buf text = {0};
    spt_serve_reply_metrics(serve, &text);
    result sent =
        send_text(connection, MHD_HTTP_OK, "text/plain; version=0.0.4", &text);
    spt_buf_free(&text);
    return sent;
}

/* A path that ends with a slash has any name behind it. */
static const struct route {
    const char *path, *method;
    result (*reply)(spt_serve *serve, struct MHD_Connection *connection,
                    request *r);
} routes[] = {
    {"/health", "GET", reply_health},
    {"/metrics", "GET", reply_metrics},
    {"/v1/models", "GET", reply_models},
    {"/v1/models/", "GET", reply_models},
    {"/v1/completions", "POST", reply_text},
    {"/v1/chat/completions", "POST", reply_chat},
};

static result reply(spt_serve *serve, struct MHD_Connection *connection,
                    const char *path, const char *method, request *r)
{
    spt_error err;
    const struct route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t size = strlen(routes[i].path);
        bool open = routes[i].path[size - 1] == '/';
        if (strncmp(routes[i].path, path, size) == 0 && (open || !path[size])) {
            found = &routes[i];
            r->rest = path + size;
        }
    }
    if (!found) {
        spt_fail(&err, SPT_E_NOT_FOUND, "%.100s: there is nothing", path);
        return send_error(connection, MHD_HTTP_NOT_FOUND, &err);
    }
    bool head =
        strcmp(method, "HEAD") == 0 && strcmp(found->method, "GET") == 0;
    if (strcmp(found->method, method) != 0 && !head) {
        spt_fail(&err, SPT_E_USAGE, "%s: %.20s, expected %s", path, method,
                 found->method);
        return send_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, &err);
    }
    return found->reply(serve, connection, r);
}

static void take_part(spt_serve *serve, request *r, const char *part,
                      size_t size)
{
    r->too_long |= r->taken + size > SERVE_BODY;
    if (r->too_long || r->no_room)
        return;
    r->no_room = !spt_serve_gate_take(serve, size);
    if (r->no_room)
        return;
    r->taken += size;
    spt_buf_add(&r->body, part, size);
}

/* Called once when a request begins, for each part of its body, at its end. */
static result handle(void *user, struct MHD_Connection *connection,
                     const char *path, const char *method, const char *version,
                     const char *part, size_t *size, void **state)
{
    request *r = *state;
    (void)version;
    if (!r) {
        *state = r = spt_calloc(1, sizeof *r);
        if (r)
            r->connection = connection;
        return r ? MHD_YES : MHD_NO;
    }
    if (*size) {
        take_part(user, r, part, *size);
        *size = 0;
        return MHD_YES;
    }
    return reply(user, connection, path, method, r);
}

static void ended(void *user, struct MHD_Connection *connection, void **state,
                  enum MHD_RequestTerminationCode why)
{
    request *r = *state;
    (void)connection, (void)why;
    if (!r)
        return;
    if (r->job)
        spt_serve_leave(r->job);
    drop_body(user, r);
    spt_free(r);
    *state = NULL;
}

typedef struct address {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    bool is_v6;
} address;

static spt_status read_address(const char *host, int at_port, address *a,
                               spt_error *err)
{
    *a = (address){.v4.sin_family = AF_INET, .v6.sin6_family = AF_INET6};
    a->v4.sin_port = a->v6.sin6_port = htons((uint16_t)at_port);
    a->is_v6 = inet_pton(AF_INET6, host, &a->v6.sin6_addr) == 1;
    if (!a->is_v6 && inet_pton(AF_INET, host, &a->v4.sin_addr) != 1)
        return spt_fail(err, SPT_E_USAGE,
                        "--host: '%.60s' is no address, expected one like "
                        "127.0.0.1 or ::1",
                        host);
    return SPT_OK;
}

spt_status spt_serve_check_host(const char *host, spt_error *err)
{
    address a;
    return read_address(host, 0, &a, err);
}

static spt_status listen_on(spt_serve *serve, spt_error *err)
{
    const spt_serve_options *o = &serve->options;
    address a;
    SPT_TRY(read_address(o->host, o->port, &a, err));
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                     (a.is_v6 ? MHD_USE_IPv6 : 0);
    const void *to = a.is_v6 ? (const void *)&a.v6 : &a.v4;
    serve->daemon = MHD_start_daemon(
        flags, (uint16_t)o->port, NULL, NULL, handle, serve,
        MHD_OPTION_SOCK_ADDR, (const struct sockaddr *)to,
        MHD_OPTION_NOTIFY_COMPLETED, ended, serve, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(o->queue + o->sessions + SPARE_CONNECTIONS),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    if (!serve->daemon)
        return spt_fail(err, SPT_E_IO, "%.60s port %d: cannot listen", o->host,
                        o->port);
    return SPT_OK;
}

spt_status spt_serve_start(const spt_serve_options *options, spt_serve **out,
                           spt_error *err)
{
    spt_serve *serve = spt_calloc(1, sizeof *serve);
    if (!serve)
        return spt_fail(err, SPT_E_MEMORY, "server: out of memory");
    serve->options = *options;
    serve->started = (long)time(NULL);
    spt_engine_describe(options->engine, &serve->info);
    pthread_mutex_init(&serve->lock, NULL);
    pthread_cond_init(&serve->changed, NULL);
    spt_status status = spt_serve_worker_start(serve, err);
    if (status == SPT_OK) {
        status = listen_on(serve, err);
        if (status == SPT_OK) {
            *out = serve;
            return SPT_OK;
        }
        spt_serve_worker_stop(serve);
    }
    pthread_cond_destroy(&serve->changed);
    pthread_mutex_destroy(&serve->lock);
    spt_free(serve);
    return status;
}

int spt_serve_port(const spt_serve *serve)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(serve->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : serve->options.port;
}

void spt_serve_stop(spt_serve *serve)
{
    if (!serve)
        return;
    /* The worker first: waiting connections get their answers from it. */
    spt_serve_worker_stop(serve);
    MHD_stop_daemon(serve->daemon);
    pthread_cond_destroy(&serve->changed);
    pthread_mutex_destroy(&serve->lock);
    spt_free(serve);
}
