/* HTTP of the server: what is asked for, and how an answer is sent. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "serve_http.h"

typedef serve_result result;

enum { LAST_WORDS = 2 }; /* seconds to tell waiting clients that it ends */

/* A request while its body comes in. */
typedef struct request {
    struct MHD_Connection *connection;
    const struct route *route;
    const char *rest; /* of the path, behind its route */
    spt_buf body;
    size_t taken; /* bytes of it at the gate */
    bool refused; /* its body is not kept */
    serve_fault fault;
    serve_job *job; /* streamed: left when the connection ends */
} request;

/* A path that ends with a slash has any name behind it. */
typedef struct route {
    const char *path, *method;
    bool open; /* without a key */
    result (*reply)(spt_serve *serve, struct MHD_Connection *connection,
                    request *r);
} route;

static struct MHD_Response *make_text(const char *type, spt_buf *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        text->size, text->data ? text->data : (void *)(uintptr_t) "",
        MHD_RESPMEM_MUST_COPY);
    if (response)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

/* Takes the response. */
static result answer(struct MHD_Connection *connection, unsigned status,
                     struct MHD_Response *response)
{
    result sent = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return sent;
}

static result send_text(struct MHD_Connection *connection, const char *type,
                        spt_buf *text)
{
    struct MHD_Response *response = make_text(type, text);
    return response ? answer(connection, MHD_HTTP_OK, response) : MHD_NO;
}

/* What belongs to an answer of that status. */
static const struct {
    unsigned status;
    const char *header, *value;
} extras[] = {
    {MHD_HTTP_UNAUTHORIZED, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer"},
    {MHD_HTTP_SERVICE_UNAVAILABLE, MHD_HTTP_HEADER_RETRY_AFTER, "1"},
};

static result send_fault(request *r, const serve_fault *fault)
{
    spt_buf text = {0};
    unsigned status = spt_serve_http_status(fault);
    spt_serve_reply_fault(fault, &text);
    struct MHD_Response *response = make_text("application/json", &text);
    spt_buf_free(&text);
    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        if (extras[i].status == status)
            MHD_add_response_header(response, extras[i].header,
                                    extras[i].value);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                r->route->method);
    return answer(r->connection, status, response);
}

/* Whether the other side has closed or reset the connection, whatever it has
   sent before. */
static bool is_gone(void *user)
{
    struct MHD_Connection *connection = user;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd one = {.events = POLLRDHUP};
    if (!info)
        return false;
    one.fd = info->connect_fd;
    return poll(&one, 1, 0) > 0;
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
        spt_serve_wait(serve, SERVE_LOOK_MS);
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
    spt_serve_may_idle(r->connection, true);
    pthread_mutex_lock(&serve->lock);
    bool there = wait_for(r->connection, job);
    if (!job->out.size && !job->open && job->failed && job->fault.text[0]) {
        /* A stream that fails says so in an event of its own. */
        spt_buf_puts(&job->out, "data: ");
        spt_serve_reply_fault(&job->fault, &job->out);
        spt_buf_puts(&job->out, "\n\n");
        job->fault.text[0] = 0;
    }
    size_t n = job->out.size < room ? job->out.size : room;
    if (n) {
        memcpy(to, job->out.data, n);
        memmove(job->out.data, job->out.data + n, job->out.size - n);
        job->out.size -= n;
    }
    pthread_mutex_unlock(&serve->lock);
    spt_serve_may_idle(r->connection, false);
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
        result sent = send_fault(r, &job->fault);
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
    return answer(connection, MHD_HTTP_OK, response);
}

static result reply_whole(struct MHD_Connection *connection, request *r,
                          serve_job *job)
{
    result sent = !job->failed
                      ? send_text(connection, "application/json", &job->out)
                      : send_fault(r, &job->fault);
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
                           serve_job **job, serve_fault *fault)
{
    const serve_client client = {is_gone, r->connection};
    size_t size = r->body.size;
    const char *body = r->body.data ? r->body.data : "";
    if (r->body.failed)
        return spt_serve_wrong(fault, SERVE_BUSY, "request: out of memory");
    if (!spt_serve_gate_enter(serve, size, &client))
        return spt_serve_wrong(fault, SERVE_STOPPING, "the client has gone");
    spt_status status = spt_serve_request(serve, chat, body, size, job, fault);
    drop_body(serve, r);
    if (status == SPT_OK)
        status = spt_serve_encode(*job, &client, fault);
    spt_serve_gate_leave(serve, size);
    return status;
}

static result complete(spt_serve *serve, struct MHD_Connection *connection,
                       request *r, bool chat)
{
    serve_fault fault = {0};
    serve_job *job = NULL;
    spt_status status = read_job(serve, r, chat, &job, &fault);
    if (status == SPT_OK)
        status = spt_serve_submit(job, &fault);
    if (status != SPT_OK) {
        spt_serve_job_free(job);
        return send_fault(r, &fault);
    }
    pthread_mutex_lock(&serve->lock);
    bool there = wait_for(connection, job);
    pthread_mutex_unlock(&serve->lock);
    if (!there) {
        spt_serve_leave(job);
        return MHD_NO;
    }
    return job->stream ? reply_stream(connection, r, job)
                       : reply_whole(connection, r, job);
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
    result sent = send_text(connection, "application/json", &text);
    spt_buf_free(&text);
    return sent;
}

static result reply_models(spt_serve *serve, struct MHD_Connection *connection,
                           request *r)
{
    spt_buf text = {0};
    serve_fault fault;
    bool list = !*r->rest;
    if (!list && strcmp(r->rest, serve->options.model) != 0) {
        spt_serve_wrong(&fault, SERVE_MODEL,
                        "model: '%.80s' is not served, expected %.200s",
                        r->rest, serve->options.model);
        return send_fault(r, &fault);
    }
    spt_serve_reply_models(serve, list, &text);
    result sent = send_text(connection, "application/json", &text);
    spt_buf_free(&text);
    return sent;
}

static result reply_metrics(spt_serve *serve, struct MHD_Connection *connection,
                            request *r)
{
    (void)r;
    spt_buf text = {0};
    spt_serve_reply_metrics(serve, &text);
    result sent = send_text(connection,
                            "text/plain; version=0.0.4; charset=utf-8", &text);
    spt_buf_free(&text);
    return sent;
}

static const route routes[] = {
    {"/health", "GET", true, reply_health},
    {"/metrics", "GET", true, reply_metrics},
    {"/v1/models", "GET", false, reply_models},
    {"/v1/models/", "GET", false, reply_models},
    {"/v1/completions", "POST", false, reply_text},
    {"/v1/chat/completions", "POST", false, reply_chat},
};

static const char *header_of(const request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static spt_status find_route(request *r, const char *path, const char *method)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t size = strlen(routes[i].path);
        bool any = routes[i].path[size - 1] == '/';
        if (strncmp(routes[i].path, path, size) == 0 && (any || !path[size])) {
            r->route = &routes[i];
            r->rest = path + size;
        }
    }
    if (!r->route)
        return spt_serve_wrong(&r->fault, SERVE_URL, "%.100s: there is nothing",
                               path);
    bool head =
        strcmp(method, "HEAD") == 0 && strcmp(r->route->method, "GET") == 0;
    if (strcmp(r->route->method, method) != 0 && !head)
        return spt_serve_wrong(&r->fault, SERVE_METHOD,
                               "%.100s: %.20s, expected %s", path, method,
                               r->route->method);
    return SPT_OK;
}

/* In a time that does not tell how much of the key is right. */
static bool is_key(const char *key, const char *given)
{
    size_t size = strlen(given);
    unsigned differ = strlen(key) != size;
    for (size_t i = 0, k = 0; i < size; i++, k += key[k] != 0)
        differ |= (unsigned char)given[i] ^ (unsigned char)key[k];
    return !differ;
}

static spt_status check_key(const spt_serve *serve, request *r)
{
    const char *given = header_of(r, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!serve->options.api_key || r->route->open)
        return SPT_OK;
    if (!given || strncasecmp(given, "Bearer ", 7) != 0)
        return spt_serve_wrong(&r->fault, SERVE_KEY,
                               "Authorization: expected Bearer and the key");
    given += 7 + strspn(given + 7, " ");
    if (!is_key(serve->options.api_key, given))
        return spt_serve_wrong(&r->fault, SERVE_KEY,
                               "Authorization: this is not the key");
    return SPT_OK;
}

/* JSON in UTF-8. Who says nothing is believed; what a web page can send
   without asking the browser's user is none of it. */
static spt_status check_media(request *r)
{
    const char *type = header_of(r, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *packed = header_of(r, MHD_HTTP_HEADER_CONTENT_ENCODING);
    size_t size = type ? strcspn(type, "; \t") : 0;
    const char *set = type ? strcasestr(type + size, "charset=") : NULL;
    set = set ? set + 8 + (set[8] == '"') : "utf-8";
    if (packed && strcasecmp(packed, "identity") != 0)
        return spt_serve_wrong(&r->fault, SERVE_MEDIA,
                               "Content-Encoding: '%.40s' is not supported",
                               packed);
    if (type && (size != 16 || strncasecmp(type, "application/json", 16) != 0))
        return spt_serve_wrong(&r->fault, SERVE_MEDIA,
                               "Content-Type: '%.80s', expected "
                               "application/json",
                               type);
    if (strncasecmp(set, "utf-8", 5) != 0 &&
        strncasecmp(set, "us-ascii", 8) != 0)
        return spt_serve_wrong(&r->fault, SERVE_MEDIA,
                               "Content-Type: '%.80s', expected charset utf-8",
                               type);
    return SPT_OK;
}

static spt_status check_size(request *r)
{
    const char *size = header_of(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (size && strtoull(size, NULL, 10) > SERVE_BODY)
        return spt_serve_wrong(&r->fault, SERVE_LARGE,
                               "request: more than %d MiB, expected less",
                               SERVE_BODY >> 20);
    return SPT_OK;
}

/* What can be said before the body. */
static spt_status check_head(const spt_serve *serve, request *r,
                             const char *path, const char *method)
{
    SPT_TRY(find_route(r, path, method));
    SPT_TRY(check_key(serve, r));
    if (strcmp(r->route->method, "POST") == 0)
        SPT_TRY(check_media(r));
    return check_size(r);
}

static spt_status take_part(spt_serve *serve, request *r, const char *part,
                            size_t size)
{
    if (r->taken + size > SERVE_BODY)
        return spt_serve_wrong(&r->fault, SERVE_LARGE,
                               "request: more than %d MiB, expected less",
                               SERVE_BODY >> 20);
    if (!spt_serve_gate_take(serve, size))
        return spt_serve_wrong(&r->fault, SERVE_BUSY,
                               "%d MiB of requests are here: try again later",
                               SERVE_BODIES >> 20);
    r->taken += size;
    spt_buf_add(&r->body, part, size);
    return SPT_OK;
}

static result begin(spt_serve *serve, struct MHD_Connection *connection,
                    const char *path, const char *method, void **state)
{
    request *r = spt_calloc(1, sizeof *r);
    if (!r)
        return MHD_NO;
    *state = r;
    r->connection = connection;
    r->refused = check_head(serve, r, path, method) != SPT_OK;
    /* Who asks before sending is told; others hear nothing until they have
       sent all of it. */
    if (r->refused && header_of(r, MHD_HTTP_HEADER_EXPECT))
        return send_fault(r, &r->fault);
    return MHD_YES;
}

serve_result spt_serve_handle(void *user, struct MHD_Connection *connection,
                              const char *path, const char *method,
                              const char *version, const char *part,
                              size_t *size, void **state)
{
    request *r = *state;
    spt_serve *serve = user;
    (void)version;
    if (!r)
        return begin(serve, connection, path, method, state);
    if (*size) {
        if (!r->refused)
            r->refused = take_part(serve, r, part, *size) != SPT_OK;
        *size = 0;
        return MHD_YES;
    }
    spt_serve_reads(serve, connection, false);
    if (r->refused)
        return send_fault(r, &r->fault);
    spt_serve_may_idle(connection, true);
    result sent = r->route->reply(serve, connection, r);
    spt_serve_may_idle(connection, false);
    return sent;
}

void spt_serve_request_ended(void *user, struct MHD_Connection *connection,
                             void **state, enum MHD_RequestTerminationCode why)
{
    request *r = *state;
    (void)why;
    spt_serve_reads(user, connection, true);
    if (!r)
        return;
    if (r->job)
        spt_serve_leave(r->job);
    drop_body(user, r);
    spt_free(r);
    *state = NULL;
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
        status = spt_serve_listen(serve, err);
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

void spt_serve_drain(spt_serve *serve, int seconds)
{
    spt_serve_close_door(serve);
    pthread_mutex_lock(&serve->lock);
    serve->draining = true;
    pthread_mutex_unlock(&serve->lock);
    spt_serve_await_answers(serve, seconds);
}

void spt_serve_stop(spt_serve *serve)
{
    if (!serve)
        return;
    spt_serve_close_door(serve);
    /* The worker first: waiting connections get their answers from it, and a
       moment to send them. */
    spt_serve_worker_stop(serve);
    spt_serve_await_answers(serve, LAST_WORDS);
    spt_serve_stop_listening(serve);
    pthread_cond_destroy(&serve->changed);
    pthread_mutex_destroy(&serve->lock);
    spt_free(serve);
}
