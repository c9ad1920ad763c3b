/*
 * Many clients that send whatever comes to mind: whole requests and broken
 * ones, cut off, changed in a byte, left at any moment. Nothing of it may hurt
 * the server or stay behind. Meant for the sanitizers; TEST_LONG=1 does more.
 */
#include <pthread.h>

#include "serve_client.h"

enum { CLIENTS = 8 };

static const char *const bodies[] = {
    "{\"prompt\":\"abc\",\"max_tokens\":4,\"stream\":true,\"n\":3}",
    "{\"prompt\":[\"ab\",[1,2,3],\"c\"],\"max_tokens\":3,\"echo\":true,"
    "\"logprobs\":3}",
    "{\"prompt\":\"abc abc abc abc\",\"best_of\":3,\"n\":2,\"max_tokens\":5,"
    "\"stop\":[\"a\",\"bc\"],\"logit_bias\":{\"7\":3}}",
    "{\"prompt\":\"a\",\"max_tokens\":0,\"echo\":true,\"logprobs\":0,"
    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"logprobs\":true,"
    "\"top_logprobs\":2,\"max_completion_tokens\":4,\"n\":2}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
    "\"text\":\"x\"}]}],\"stream\":true,\"max_tokens\":200}",
};
static const char *const paths[] = {"/v1/completions", "/v1/chat/completions"};

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void make_request(uint32_t *state, spt_buf *text)
{
    enum { BODIES = sizeof bodies / sizeof *bodies };
    uint32_t which = next(state) % (BODIES + 2);
    if (which >= BODIES) {
        spt_buf_printf(text, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
                       which == BODIES ? "/metrics" : "/v1/models");
    } else {
        spt_buf_printf(text,
                       "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: "
                       "%zu\r\n\r\n%s",
                       paths[which >= BODIES - 2], strlen(bodies[which]),
                       bodies[which]);
    }
    if (next(state) % 2)
        text->data[next(state) % text->size] = (char)next(state);
    if (next(state) % 4 == 0)
        text->size = next(state) % text->size;
}

/* What the server sends may be left in the middle; a cut request is answered
   when the client is done with sending. */
static void take_some(int fd, uint32_t *state)
{
    char part[1024];
    uint32_t most = next(state) % 3 ? 1000000 : next(state) % 300;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    for (uint32_t taken = 0; taken < most;) {
        if (poll(&one, 1, 300) <= 0)
            break;
        ssize_t n = read(fd, part, sizeof part);
        if (n <= 0)
            break;
        taken += (uint32_t)n;
    }
}

static void *client(void *user)
{
    uint32_t *state = user;
    const char *more = getenv("TEST_LONG");
    for (int i = more ? 300 : 12; i > 0; i--) {
        spt_buf text = {0};
        int fd = connect_to();
        make_request(state, &text);
        if (fd >= 0 && send(fd, text.data, text.size, MSG_NOSIGNAL) > 0)
            take_some(fd, state);
        if (fd >= 0)
            close(fd);
        spt_buf_free(&text);
    }
    return NULL;
}

static bool has(const char *part)
{
    reply r = ask("GET", "/metrics", "");
    bool found = r.body.data && strstr(r.body.data, part);
    spt_buf_free(&r.body);
    return found;
}

int main(void)
{
    tiny_server server;
    pthread_t threads[CLIENTS];
    uint32_t states[CLIENTS];
    if (tiny_serve((spt_serve_options){.sessions = 3, .queue = 12}, &server)) {
        for (int i = 0; i < CLIENTS; i++) {
            states[i] = (uint32_t)i * 7919 + 1;
            pthread_create(&threads[i], NULL, client, &states[i]);
        }
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 6000; i++) {
            if (has("\nvllm:num_requests_running{model_name=\"tiny\"} 0\n") &&
                has("\nvllm:num_requests_waiting{model_name=\"tiny\"} 0\n"))
                break;
            usleep(10000);
        }
        CHECK(has("\nvllm:num_requests_running{model_name=\"tiny\"} 0\n"),
              "nobody's answer goes on");
        CHECK(has("\nvllm:num_requests_waiting{model_name=\"tiny\"} 0\n"),
              "nor waits");
        CHECK(has("\nvllm:kv_cache_usage_perc{model_name=\"tiny\"} 0\n"),
              "no page is kept");
        char *body = with("");
        reply r = ask("POST", "/v1/completions", body);
        CHECK_INT(r.code, 200, "the next is answered");
        spt_buf_free(&r.body);
        spt_free(body);
    }
    tiny_stop(&server);
    return check_done();
}
