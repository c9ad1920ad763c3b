/*
 * A client of the server under test, and that server on a tiny model: what the
 * tests of its shapes and of its connections share.
 */
#ifndef SPT_SERVE_CLIENT_H
#define SPT_SERVE_CLIENT_H

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "json.h"
#include "serve.h"
#include "tiny_engine.h"

static int port;

typedef struct reply {
    int code;
    spt_buf body; /* chunks put together */
} reply;

__attribute__((unused)) static int connect_to(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

__attribute__((unused)) static void
write_request(int fd, const char *method, const char *path, const char *body)
{
    spt_buf text = {0};
    spt_buf_printf(&text,
                   "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   method, path, strlen(body), body);
    for (size_t sent = 0; fd >= 0 && sent < text.size;) {
        ssize_t n = write(fd, text.data + sent, text.size - sent);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    spt_buf_free(&text);
}

__attribute__((unused)) static int
send_request(const char *method, const char *path, const char *body)
{
    int fd = connect_to();
    write_request(fd, method, path, body);
    return fd;
}

/* Puts the chunks of a chunked body together. */
__attribute__((unused)) static void join_chunks(const char *text, spt_buf *body)
{
    char *end;
    for (;;) {
        unsigned long size = strtoul(text, &end, 16);
        if (!size || strncmp(end, "\r\n", 2) != 0)
            return;
        spt_buf_add(body, end + 2, size);
        text = end + 2 + size + 2;
    }
}

__attribute__((unused)) static reply ask(const char *method, const char *path,
                                         const char *body)
{
    reply r = {0};
    spt_buf all = {0};
    char part[4096];
    ssize_t n;
    int fd = send_request(method, path, body);
    while (fd >= 0 && (n = read(fd, part, sizeof part)) > 0)
        spt_buf_add(&all, part, (size_t)n);
    if (fd >= 0)
        close(fd);
    const char *head = all.data ? all.data : "";
    const char *at = strstr(head, "\r\n\r\n");
    sscanf(head, "HTTP/1.1 %d", &r.code);
    if (at && strstr(head, "chunked"))
        join_chunks(at + 4, &r.body);
    else if (at)
        spt_buf_puts(&r.body, at + 4);
    spt_buf_free(&all);
    return r;
}

__attribute__((unused)) static cJSON *parse(const reply *r)
{
    cJSON *root = cJSON_Parse(r->body.data ? r->body.data : "");
    if (!CHECK(root && r->code == 200, "an answer in JSON"))
        printf("#   %d %s\n", r->code, r->body.data ? r->body.data : "");
    return root;
}

__attribute__((unused)) static const cJSON *first_choice(const cJSON *root)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(root, "choices"), 0);
}

__attribute__((unused)) static const char *text_at(const cJSON *object,
                                                   const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
    return text ? text : "";
}

__attribute__((unused)) static double number_at(const cJSON *object,
                                                const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

/* The texts of a stream's chunks, one after the other. */
__attribute__((unused)) static int read_stream(const reply *r, spt_buf *text,
                                               bool *done)
{
    int chunks = 0;
    const char *at = r->body.data ? r->body.data : "";
    for (; (at = strstr(at, "data: ")) != NULL; at += 6) {
        if (strncmp(at + 6, "[DONE]", 6) == 0) {
            *done = true;
            continue;
        }
        cJSON *root = cJSON_ParseWithOpts(at + 6, NULL, false);
        const cJSON *choice = first_choice(root);
        const cJSON *delta = cJSON_GetObjectItem(choice, "delta");
        spt_buf_puts(text, delta ? text_at(delta, "content")
                                 : text_at(choice, "text"));
        chunks += root != NULL;
        cJSON_Delete(root);
    }
    return chunks;
}

/* A greedy completion, without its last brace. */
static const char request[] =
    "{\"prompt\":\"abc abc\",\"max_tokens\":6,\"temperature\":0,"
    "\"ignore_eos\":true";

/* The same with more fields. */
__attribute__((unused)) static char *with(const char *more)
{
    spt_buf text = {0};
    spt_buf_printf(&text, "%s%s}", request, more);
    return text.data;
}

/* What a server needs. */
typedef struct tiny_server {
    spt_engine *engine;
    spt_serve *serve;
} tiny_server;

/* A server on the tiny model, on a free port; of the options engine, listener
   and model are filled in. */
__attribute__((unused)) static bool tiny_serve(spt_serve_options options,
                                               tiny_server *server)
{
    spt_error err;
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    spt_engine_options engine = {.sessions = options.sessions,
                                 .draft = {.method = SPT_DRAFT_NGRAM}};
    server->serve = NULL;
    server->engine = options.engine = tiny_open(&t, &engine);
    options.model = "tiny";
    if (!CHECK_OK(spt_serve_bind("127.0.0.1", 0, &options.listener, &err), &err,
                  "a port") ||
        !CHECK_OK(spt_serve_start(&options, &server->serve, &err), &err,
                  "a server starts"))
        return false;
    port = spt_serve_port(server->serve);
    return true;
}

__attribute__((unused)) static void tiny_stop(tiny_server *server)
{
    spt_serve_stop(server->serve);
    spt_engine_close(server->engine);
}

#endif
