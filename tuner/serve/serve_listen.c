/*
 * The socket, the connections, and who of them may stay: one that takes too
 * long to send a request is shut, however steadily its bytes trickle in.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve_http.h"

enum {
    IDLE_SECONDS = 60, /* of a connection that sends and takes nothing */
    PATIENCE = 300, /* seconds for a request to come in */
    /* Beside those of requests that may be here. Each has a thread; at the
       limit libmicrohttpd resets new ones instead of letting them wait. */
    SPARE_CONNECTIONS = 1024,
};

/* Names are looked up; IPv4 first, as it is what most clients try. */
static spt_status bind_to(const struct addrinfo *list, int *fd)
{
    static const int families[] = {AF_INET, AF_INET6};
    int on = 1, why = EADDRNOTAVAIL;
    for (int f = 0; f < 2; f++)
        for (const struct addrinfo *a = list; a; a = a->ai_next) {
            if (a->ai_family != families[f])
                continue;
            int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (s >= 0) {
                setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
                if (bind(s, a->ai_addr, a->ai_addrlen) == 0) {
                    *fd = s;
                    return SPT_OK;
                }
            }
            why = errno;
            if (s >= 0)
                close(s);
        }
    errno = why;
    return SPT_E_IO;
}

spt_status spt_serve_bind(const char *host, int port, int *fd, spt_error *err)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int failed = getaddrinfo(host, service, &wanted, &list);
    if (failed)
        return spt_fail(err, SPT_E_USAGE,
                        "--host: '%.60s' is no address, expected one like "
                        "127.0.0.1 or ::1: %s",
                        host, gai_strerror(failed));
    spt_status status = bind_to(list, fd);
    if (status != SPT_OK)
        status = spt_fail(err, SPT_E_IO, "%.60s port %d: cannot listen: %s",
                          host, port, strerror(errno));
    freeaddrinfo(list);
    return status;
}

static long now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec;
}

void spt_serve_reads(spt_serve *serve, struct MHD_Connection *connection,
                     bool reads)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    serve_connection *c = info ? info->socket_context : NULL;
    if (!c)
        return;
    pthread_mutex_lock(&serve->lock);
    c->reading_since = reads ? now_seconds() : -1;
    pthread_mutex_unlock(&serve->lock);
}

static void add_connection(spt_serve *serve, struct MHD_Connection *connection,
                           void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    serve_connection *c = spt_calloc(1, sizeof *c);
    *context = c;
    if (!c || !info)
        return;
    c->fd = info->connect_fd;
    c->reading_since = now_seconds();
    pthread_mutex_lock(&serve->lock);
    c->next = serve->connections;
    serve->connections = c;
    pthread_mutex_unlock(&serve->lock);
}

static void drop_connection(spt_serve *serve, void **context)
{
    serve_connection *c = *context;
    pthread_mutex_lock(&serve->lock);
    for (serve_connection **at = &serve->connections; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    pthread_mutex_unlock(&serve->lock);
    spt_free(c);
    *context = NULL;
}

/* The socket is still open when its end is told. */
static void connected(void *user, struct MHD_Connection *connection,
                      void **context, enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        add_connection(user, connection, context);
    else
        drop_connection(user, context);
}

/* Shuts those that have had their time; their threads see the end. */
static void *keep(void *user)
{
    spt_serve *serve = user;
    long patience =
        serve->options.patience ? serve->options.patience : PATIENCE;
    pthread_mutex_lock(&serve->lock);
    while (!serve->stopping) {
        long oldest = now_seconds() - patience;
        for (serve_connection *c = serve->connections; c; c = c->next)
            if (c->reading_since >= 0 && c->reading_since < oldest)
                shutdown(c->fd, SHUT_RDWR);
        spt_serve_wait(serve, 1000);
    }
    pthread_mutex_unlock(&serve->lock);
    return NULL;
}

/* As the library does it, but for %00, which would end the path. */
static size_t unescape(void *user, struct MHD_Connection *connection,
                       char *text)
{
    char *to = text;
    unsigned byte;
    (void)user, (void)connection;
    for (const char *p = text; *p; to++) {
        bool hex = *p == '%' && strspn(p + 1, "0123456789abcdefABCDEF") >= 2;
        if (hex && sscanf(p + 1, "%2x", &byte) == 1 && byte) {
            *to = (char)byte;
            p += 3;
        } else {
            *to = *p++;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}

static void start_daemon(spt_serve *serve)
{
    const spt_serve_options *o = &serve->options;
    serve->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
            MHD_USE_POLL | MHD_USE_ITC,
        0, NULL, NULL, spt_serve_handle, serve, MHD_OPTION_LISTEN_SOCKET,
        o->listener, MHD_OPTION_NOTIFY_COMPLETED, spt_serve_request_ended,
        serve, MHD_OPTION_NOTIFY_CONNECTION, connected, serve,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, unescape,
        serve, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(o->queue + o->sessions + SPARE_CONNECTIONS),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
}

void spt_serve_may_idle(struct MHD_Connection *connection, bool may)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              may ? 0u : (unsigned)IDLE_SECONDS);
}

spt_status spt_serve_listen(spt_serve *serve, spt_error *err)
{
    if (listen(serve->options.listener, SOMAXCONN) == 0)
        start_daemon(serve);
    if (!serve->daemon)
        return spt_fail(err, SPT_E_IO, "server: cannot listen: %s",
                        strerror(errno));
    if (pthread_create(&serve->keeper, NULL, keep, serve) != 0) {
        MHD_quiesce_daemon(serve->daemon); /* leaves the listener open */
        MHD_stop_daemon(serve->daemon);
        return spt_fail(err, SPT_E_INTERNAL, "cannot start a thread");
    }
    return SPT_OK;
}

void spt_serve_close_door(spt_serve *serve)
{
    int fd = MHD_quiesce_daemon(serve->daemon);
    if (fd >= 0)
        close(fd);
}

/* With the lock held. */
static bool is_answering(const spt_serve *serve)
{
    const serve_connection *c = serve->connections;
    while (c && c->reading_since >= 0)
        c = c->next;
    return c != NULL;
}

void spt_serve_await_answers(spt_serve *serve, double seconds)
{
    double end = spt_serve_now() + seconds;
    pthread_mutex_lock(&serve->lock);
    while (is_answering(serve) && spt_serve_now() < end)
        spt_serve_wait(serve, SERVE_LOOK_MS);
    pthread_mutex_unlock(&serve->lock);
}

void spt_serve_stop_listening(spt_serve *serve)
{
    MHD_stop_daemon(serve->daemon);
    pthread_join(serve->keeper, NULL);
}

int spt_serve_port(const spt_serve *serve)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    char port[16] = "0";
    if (getsockname(serve->options.listener, (struct sockaddr *)&at, &size) ==
        0)
        getnameinfo((struct sockaddr *)&at, size, NULL, 0, port, sizeof port,
                    NI_NUMERICSERV);
    return (int)strtol(port, NULL, 10);
}
