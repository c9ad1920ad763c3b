/*
 * spectune serve: a model behind HTTP until a signal ends it.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "progress.h"
#include "run_options.h"
#include "run_times.h"
#include "serve.h"

typedef struct command {
    spt_run_options options;
    const char *host, *alias, *api_key;
    int64_t port, sessions, queue, grace;
    spt_run_times times;
    char model[256]; /* its name when no alias is given */
} command;

static int read_options(command *c, int argc, char **argv)
{
    const spt_option own[] = {
        {"host", 0, SPT_OPTION_TEXT, &c->host, "ADDRESS",
         "listens on this address or name (127.0.0.1)", 0, 0},
        {"port", 0, SPT_OPTION_INT, &c->port, "N",
         "and this port, 0 = a free one (8080)", 0, 65535},
        {"parallel", 0, SPT_OPTION_INT, &c->sessions, "N",
         "requests that are stepped together (4)", 1, 256},
        {"queue", 0, SPT_OPTION_INT, &c->queue, "N",
         "requests that may wait (256)", 1, 65536},
        {"grace", 0, SPT_OPTION_INT, &c->grace, "SECONDS",
         "after SIGTERM or SIGINT, for answers to end; a second signal ends at "
         "once (30)",
         0, 86400},
        {"api-key", 0, SPT_OPTION_TEXT, &c->api_key, "KEY",
         "what /v1/ asks clients for (SPECTUNE_API_KEY)", 0, 0},
        {"alias", 'a', SPT_OPTION_TEXT, &c->alias, "NAME",
         "the model's name in requests (the file's)", 0, 0},
    };
    return spt_serve_options_read(&c->options, own, sizeof own / sizeof *own,
                                  argc, argv);
}

/* The file's or folder's name without ".gguf". */
static void name_model(command *c)
{
    const char *path = c->options.engine.model;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    if (end - begin > 5 && memcmp(path + end - 5, ".gguf", 5) == 0)
        end -= 5;
    snprintf(c->model, sizeof c->model, "%.*s", (int)(end - begin),
             path + begin);
}

static void log_line(void *user, const char *text)
{
    (void)user;
    spt_progress_clear();
    fprintf(stderr, "spectune serve: %s\n", text);
}

static sem_t stopped;

/* The first signal ends the server, a second one the process. */
static void on_stop(int which)
{
    (void)which;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sem_post(&stopped);
}

/* Serves on the engine until a signal comes. */
static spt_status serve_until(const command *c, spt_engine *engine,
                              int listener, spt_error *err)
{
    spt_serve *serve = NULL;
    const spt_serve_options options = {
        .engine = engine,
        .listener = listener,
        .sessions = (int)c->sessions,
        .queue = (int)c->queue,
        .model = c->alias ? c->alias : c->model,
        .session = c->options.session,
        .api_key = c->api_key && *c->api_key ? c->api_key : NULL,
        .log = c->options.engine.log,
    };
    sem_init(&stopped, 0, 0);
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    SPT_TRY(spt_serve_start(&options, &serve, err));
    bool v6 = strchr(c->host, ':') != NULL;
    printf("%s is served at http://%s%s%s:%d\n", options.model, v6 ? "[" : "",
           c->host, v6 ? "]" : "", spt_serve_port(serve));
    fflush(stdout);
    while (sem_wait(&stopped) != 0 && errno == EINTR)
        ;
    spt_serve_drain(serve, (int)c->grace);
    spt_serve_stop(serve);
    return SPT_OK;
}

static spt_status run(command *c, spt_error *err)
{
    spt_engine *engine = NULL;
    int listener;
    SPT_TRY(spt_serve_bind(c->host, (int)c->port, &listener, err));
    signal(SIGPIPE, SIG_IGN);
    c->options.engine.sessions = (int)c->sessions;
    c->options.engine.log.line = log_line;
    c->options.engine.compiling = spt_progress_compiling;
    bool timed = spt_run_times_attach(&c->times, &c->options.engine);
    spt_status status = spt_engine_open(&c->options.engine, &engine, err);
    if (status == SPT_OK)
        status = serve_until(c, engine, listener, err);
    if (status != SPT_OK)
        close(listener);
    spt_engine_close(engine);
    if (timed)
        spt_run_times_close(&c->times);
    return status;
}

int spt_cmd_serve(int argc, char **argv)
{
    static command c;
    spt_error err = {0};
    c = (command){.host = "127.0.0.1",
                  .port = 8080,
                  .sessions = 4,
                  .queue = 256,
                  .grace = 30,
                  .api_key = getenv("SPECTUNE_API_KEY")};
    int exit_status = read_options(&c, argc, argv);
    if (exit_status >= 0)
        return exit_status;
    name_model(&c);
    return run(&c, &err) == SPT_OK ? 0 : spt_exit_error("spectune serve", &err);
}
