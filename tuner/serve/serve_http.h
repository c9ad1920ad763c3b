/* What the files that know libmicrohttpd share. */
#ifndef SPT_SERVE_HTTP_H
#define SPT_SERVE_HTTP_H

#include <microhttpd.h>

#include "serve_int.h"

/* libmicrohttpd 0.9.71 and later. */
typedef enum MHD_Result serve_result;

/* One that is open; in the server's list, under its lock. */
struct serve_connection {
    serve_connection *next;
    int fd;
    long reading_since; /* seconds of the monotonic clock; -1: it is not its
                           turn to send */
};

/* serve_listen.c */
spt_status spt_serve_listen(spt_serve *serve, spt_error *err);
/* Nobody new is let in. */
void spt_serve_close_door(spt_serve *serve);
void spt_serve_stop_listening(spt_serve *serve);
/* Waits until no request is being answered, at most so many seconds. */
void spt_serve_await_answers(spt_serve *serve, double seconds);
/* Whether it is the connection's turn to send a request, or ours. */
void spt_serve_reads(spt_serve *serve, struct MHD_Connection *connection,
                     bool reads);
/* How long it may be without sending or taking anything: for ever while an
   answer is awaited. */
void spt_serve_may_idle(struct MHD_Connection *connection, bool may);

/* serve_http.c: what is called when a request begins, for each part of its
   body, and at its end; when it is done with. */
serve_result spt_serve_handle(void *user, struct MHD_Connection *connection,
                              const char *path, const char *method,
                              const char *version, const char *part,
                              size_t *size, void **state);
void spt_serve_request_ended(void *user, struct MHD_Connection *connection,
                             void **state, enum MHD_RequestTerminationCode why);

#endif
