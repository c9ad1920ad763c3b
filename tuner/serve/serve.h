/*
 * An engine behind HTTP, in the shapes of OpenAI's API: completions and chat
 * completions, whole or streamed, models, health, metrics.
 *
 * Connections have threads of their own (libmicrohttpd); they read requests,
 * make tokens of them and wait. One worker thread owns the engine: it takes
 * requests from a queue and steps all running ones together. A job is what the
 * two share. A client that closes its side has left: nothing is written for it.
 */
#ifndef SPT_SERVE_H
#define SPT_SERVE_H

#include "error.h"

typedef struct spt_serve_options {
    spt_engine *engine; /* the server's until it is stopped */
    int listener; /* a socket of spt_serve_bind; the server's on success */
    int sessions; /* requests that are stepped together */
    int queue; /* requests that may wait; more are refused (503) */
    const char *model; /* its name in requests and answers */
    spt_session_options session; /* what a request does not say */
    const char *api_key; /* what /v1/ asks for, or NULL */
    int patience; /* seconds for a request to come in; 0 = 300 */
    spt_log log;
} spt_serve_options;

typedef struct spt_serve spt_serve;

/*
 * A socket at this address or name, and port (0 = a free one), that does not
 * listen yet: what cannot be is found before a model is loaded. The caller
 * closes it unless a server starts on it.
 */
spt_status spt_serve_bind(const char *host, int port, int *fd, spt_error *err);

/* Listens and answers from now on; the options' texts must live as long. */
spt_status spt_serve_start(const spt_serve_options *options, spt_serve **serve,
                           spt_error *err);
int spt_serve_port(const spt_serve *serve);

/*
 * Lets nobody new in, refuses new requests of those who are in, and waits until
 * every other has its answer, at most so many seconds.
 */
void spt_serve_drain(spt_serve *serve, int seconds);

/* Ends running answers, then the server; NULL is fine. */
void spt_serve_stop(spt_serve *serve);

#endif
