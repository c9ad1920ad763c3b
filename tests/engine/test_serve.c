/*
 * Connections of the server, on a tiny model: many at once, clients that
 * leave, crowd, are slow, send too much; the end.
 */
#include <pthread.h>

#include "serve_client.h"

static char *plain_text; /* of the greedy request below */

/* One that takes long. */
static const char long_request[] =
    "{\"prompt\":\"abc abc\",\"max_tokens\":480,\"temperature\":0,"
    "\"ignore_eos\":true,\"stream\":true}";

enum { CLIENTS = 50, ROUNDS = 2 };

static void *ask_many(void *user)
{
    int *good = user;
    char *body = with("");
    for (int i = 0; i < ROUNDS; i++) {
        reply r = ask("POST", "/v1/completions", body);
        cJSON *root = cJSON_Parse(r.body.data ? r.body.data : "");
        *good += strcmp(text_at(first_choice(root), "text"), plain_text) == 0;
        cJSON_Delete(root);
        spt_buf_free(&r.body);
    }
    spt_free(body);
    return NULL;
}

static void test_together(void)
{
    pthread_t threads[CLIENTS];
    int good[CLIENTS] = {0}, sum = 0;
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, ask_many, &good[i]);
    /* One that leaves in the middle of its stream. */
    char *body = with(",\"stream\":true");
    int fd = send_request("POST", "/v1/completions", body);
    close(fd);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        sum += good[i];
    }
    CHECK_INT(sum, ROUNDS * CLIENTS,
              "requests at once get the text that one alone gets");
    spt_free(body);
}

/* Of the plain one by name, or with a label. */
static long metric(const char *name, const char *label)
{
    char start[120];
    reply r = ask("GET", "/metrics", "");
    snprintf(start, sizeof start, "\n%s{model_name=\"tiny\"%s} ", name, label);
    const char *at = r.body.data ? strstr(r.body.data, start) : NULL;
    long value = at ? strtol(at + strlen(start), NULL, 10) : -1;
    spt_buf_free(&r.body);
    return value;
}

static long count_left(void)
{
    return metric("vllm:request_success_total", ",finished_reason=\"abort\"");
}

/* Waits, a minute at most, until so many requests run and wait. */
static bool until(long running, long waiting)
{
    for (int i = 0; i < 3000; i++) {
        if (metric("vllm:num_requests_running", "") == running &&
            metric("vllm:num_requests_waiting", "") == waiting)
            return true;
        usleep(10000);
    }
    return false;
}

/* The connection ends with a reset, not in order. */
static void reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static void hang_up(int fd)
{
    close(fd);
}

/* One that leaves while it waits for its turn is out of the queue; those that
   leave while they are answered make room. */
static void test_left(void (*leave)(int fd))
{
    int fds[4];
    CHECK(until(0, 0), "a server without work");
    long fed = metric("vllm:prompt_tokens_total", ""), left = count_left();
    for (int i = 0; i < 3; i++)
        fds[i] = send_request("POST", "/v1/completions", long_request);
    bool busy = until(3, 0);
    fds[3] = send_request("POST", "/v1/completions", long_request);
    busy = busy && until(3, 1);
    leave(fds[3]);
    CHECK(busy && until(3, 0), "who leaves the queue is out of it");
    for (int i = 0; i < 3; i++)
        leave(fds[i]);
    CHECK(until(0, 0), "all have left");
    fed = metric("vllm:prompt_tokens_total", "") - fed;
    CHECK(fed % 3 == 0, "who left in the queue is not begun");
    CHECK_INT(count_left() - left, 3, "who left early is not written for");
}

/* One that leaves in the middle of a stream: what it asked for would take
   minutes. */
static void test_left_stream(void)
{
    char part[4096];
    long left = count_left();
    int fd = send_request("POST", "/v1/completions",
                          "{\"prompt\":\"abc\",\"max_tokens\":480,\"n\":128,"
                          "\"ignore_eos\":true,\"stream\":true}");
    ssize_t n = read(fd, part, sizeof part - 1);
    part[n > 0 ? n : 0] = 0;
    CHECK_HAS(part, "200 OK", "a long stream begins");
    close(fd);
    CHECK(until(0, 0), "who leaves it gives all sessions back");
    CHECK(count_left() > left, "in the middle of their answers");
}

/* More connections than a server of threads likes to have. */
static void test_crowd(void)
{
    enum { CROWD = 400 };
    int fds[CROWD], open = 0;
    for (int i = 0; i < CROWD; i++)
        open += (fds[i] = connect_to()) >= 0;
    reply r = ask("GET", "/health", "");
    CHECK(open == CROWD && r.code == 200,
          "four hundred idle clients keep no other out");
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    spt_buf_free(&r.body);
}

/* A body that is too long is read to its end, for who sends does not listen. */
static void test_too_long(void)
{
    size_t size = (16 << 20) + 1;
    char *body = spt_calloc(size + 1, 1);
    memset(body, ' ', size);
    reply r = ask("POST", "/v1/completions", body);
    CHECK_INT(r.code, 413, "a request of more than 16 MiB");
    CHECK_HAS(r.body.data ? r.body.data : "", "more than 16 MiB",
              "is refused with the limit");
    spt_buf_free(&r.body);
    spt_free(body);
}

/* Prompts are read beside the worker: that one does not fit is found while
   every session is busy. */
static void test_read_beside(void)
{
    int fds[3];
    spt_buf body = {0};
    spt_buf_puts(&body, "{\"prompt\":\"");
    for (int i = 0; i < 500000; i++)
        spt_buf_puts(&body, "abc abc ab");
    spt_buf_puts(&body, "\"}");
    bool idle = until(0, 0);
    for (int i = 0; i < 3; i++)
        fds[i] = send_request("POST", "/v1/completions", long_request);
    CHECK(idle && until(3, 0), "a server that is busy");
    reply r = ask("POST", "/v1/completions", body.data);
    CHECK_INT(r.code, 400, "refuses a prompt that is too long");
    CHECK_HAS(r.body.data ? r.body.data : "", "prompt: has more than 511",
              "with how long it may be");
    CHECK_INT((int)metric("vllm:num_requests_running", ""), 3,
              "and goes on answering the others");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    spt_buf_free(&r.body);
    spt_buf_free(&body);
}

/* As many fields that nobody knows as a body can hold. */
static void test_many_fields(void)
{
    spt_buf body = {0};
    spt_buf_puts(&body, "{\"max_tokens\":-1");
    for (int i = 0; i < 1000000; i++)
        spt_buf_printf(&body, ",\"k%d\":1", i);
    spt_buf_puts(&body, "}");
    reply r = ask("POST", "/v1/completions", body.data);
    CHECK_INT(r.code, 400, "a million fields are read");
    CHECK_HAS(r.body.data ? r.body.data : "", "max_tokens: expected",
              "and the wrong one is named");
    spt_buf_free(&r.body);
    spt_buf_free(&body);
}

static size_t read_answer(int fd, char *text, size_t room)
{
    size_t size = 0;
    ssize_t n;
    text[0] = 0;
    while (size + 1 < room && !strstr(text, "}") &&
           (n = read(fd, text + size, room - size - 1)) > 0)
        text[size += (size_t)n] = 0;
    return size;
}

static void test_keep_alive(void)
{
    static const char half[] = "GET /health HTTP/1.1\r\nHost: test\r\n";
    char text[2048];
    int fd = connect_to(), slow = connect_to(), good = 0;
    bool sent = write(slow, half, sizeof half - 1) > 0;
    for (int i = 0; i < 3; i++) {
        sent = sent && write(fd, half, sizeof half - 1) > 0 &&
               write(fd, "\r\n", 2) == 2;
        read_answer(fd, text, sizeof text);
        good += strstr(text, "{\"status\":\"ok\"}") != NULL;
    }
    CHECK(sent && good == 3, "a connection serves one request after the other");
    sent = write(slow, "\r\n", 2) == 2;
    read_answer(slow, text, sizeof text);
    CHECK(sent && strstr(text, "200 OK"), "a slow one has its turn");
    close(fd);
    close(slow);
}

/* Who waits when the server stops is told so. */
static void test_stop(tiny_server *server)
{
    char part[2048];
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = send_request("POST", "/v1/completions", long_request);
        CHECK(until(1, i), "one is answered, one waits");
    }
    tiny_stop(server);
    read_answer(fds[1], part, sizeof part);
    CHECK_HAS(part, " 503 ", "who waits when the server stops");
    CHECK_HAS(part, "the server is stopping", "is told so");
    for (int i = 0; i < 2; i++)
        close(fds[i]);
}

static void *drain(void *user)
{
    spt_serve_drain(user, 600);
    return NULL;
}

/* Answers that are being written are written to their end; nobody else is let
   in, and no new request of those who are. */
static void test_drain(spt_serve *serve)
{
    pthread_t thread;
    spt_buf all = {0};
    char part[4096];
    ssize_t n;
    int fd = -1, other = connect_to();
    bool idle = until(0, 0);
    int stream = send_request("POST", "/v1/completions", long_request);
    CHECK(idle && until(1, 0), "a server that answers");
    pthread_create(&thread, NULL, drain, serve);
    for (int i = 0; i < 3000 && (fd = connect_to()) >= 0; i++) {
        close(fd);
        usleep(10000);
    }
    CHECK(fd < 0, "and ends lets nobody in");
    write_request(other, "POST", "/v1/completions", long_request);
    read_answer(other, part, sizeof part);
    CHECK_HAS(part, "\"code\":\"shutting_down\"", "takes no new request");
    close(other);
    while ((n = read(stream, part, sizeof part)) > 0)
        spt_buf_add(&all, part, (size_t)n);
    CHECK_HAS(all.data ? all.data : "", "data: [DONE]",
              "and ends what it has begun");
    close(stream);
    pthread_join(thread, NULL);
    spt_buf_free(&all);
}

static void set_plain(void)
{
    char *body = with("");
    reply r = ask("POST", "/v1/completions", body);
    cJSON *root = parse(&r);
    plain_text = spt_strdup(text_at(first_choice(root), "text"));
    cJSON_Delete(root);
    spt_buf_free(&r.body);
    spt_free(body);
}

int main(void)
{
    tiny_server server;
    if (tiny_serve((spt_serve_options){.sessions = 3, .queue = 64}, &server)) {
        set_plain();
        test_together();
        test_left(hang_up);
        test_left(reset);
        test_left_stream();
        test_crowd();
        test_too_long();
        test_read_beside();
        test_many_fields();
        test_keep_alive();
        test_drain(server.serve);
    }
    tiny_stop(&server);
    if (tiny_serve((spt_serve_options){.sessions = 1, .queue = 4}, &server))
        test_stop(&server);
    else
        tiny_stop(&server);
    spt_free(plain_text);
    return check_done();
}
