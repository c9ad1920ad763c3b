/*
 * The server over real connections, on a tiny model: shapes of answers,
 * streams, errors, several requests at once, clients that leave.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "json.h"
#include "serve.h"
#include "tiny_engine.h"

static spt_error err;
static int port;

typedef struct reply {
    int code;
    spt_buf body; /* chunks put together */
} reply;

static int connect_to(void)
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

static int send_request(const char *method, const char *path, const char *body)
{
    spt_buf text = {0};
    int fd = connect_to();
    spt_buf_printf(&text,
                   "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   method, path, strlen(body), body);
    if (fd >= 0 && write(fd, text.data, text.size) != (ssize_t)text.size) {
        close(fd);
        fd = -1;
    }
    spt_buf_free(&text);
    return fd;
}

/* Puts the chunks of a chunked body together. */
static void join_chunks(const char *text, spt_buf *body)
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

static reply ask(const char *method, const char *path, const char *body)
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

static cJSON *parse(const reply *r)
{
    cJSON *root = cJSON_Parse(r->body.data ? r->body.data : "");
    if (!CHECK(root && r->code == 200, "an answer in JSON"))
        printf("#   %d %s\n", r->code, r->body.data ? r->body.data : "");
    return root;
}

static const cJSON *first_choice(const cJSON *root)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItem(root, "choices"), 0);
}

static const char *text_at(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
    return text ? text : "";
}

static double number_at(const cJSON *object, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

static char *plain_text; /* of the greedy completion below */

static const char request[] =
    "{\"prompt\":\"abc abc\",\"max_tokens\":6,\"temperature\":0,"
    "\"ignore_eos\":true";

/* One that takes long. */
static const char long_request[] =
    "{\"prompt\":\"abc abc\",\"max_tokens\":480,\"temperature\":0,"
    "\"ignore_eos\":true,\"stream\":true}";

static char *with(const char *more)
{
    spt_buf text = {0};
    spt_buf_printf(&text, "%s%s}", request, more);
    return text.data;
}

static void test_completion(void)
{
    char *body = with(",\"logprobs\":2");
    reply r = ask("POST", "/v1/completions", body);
    cJSON *root = parse(&r);
    const cJSON *choice = first_choice(root);
    const cJSON *usage = cJSON_GetObjectItem(root, "usage");
    CHECK_INT(r.code, 200, "a completion");
    CHECK_TEXT(text_at(root, "object"), "text_completion", "has its kind");
    CHECK_TEXT(text_at(choice, "finish_reason"), "length", "its end");
    CHECK(number_at(usage, "completion_tokens") == 6 &&
              number_at(usage, "prompt_tokens") > 3,
          "its counts");
    const cJSON *logprobs = cJSON_GetObjectItem(choice, "logprobs");
    CHECK(cJSON_GetArraySize(cJSON_GetObjectItem(logprobs, "tokens")) == 6 &&
              cJSON_GetNumberValue(cJSON_GetArrayItem(
                  cJSON_GetObjectItem(logprobs, "token_logprobs"), 0)) < 0,
          "and its log probabilities");
    plain_text = spt_strdup(text_at(choice, "text"));
    cJSON_Delete(root);
    spt_buf_free(&r.body);
    spt_free(body);
}

/* The texts of a stream's chunks, one after the other. */
static int read_stream(const reply *r, spt_buf *text, bool *done)
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

static void test_stream(void)
{
    char *body =
        with(",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    reply r = ask("POST", "/v1/completions", body);
    spt_buf text = {0};
    bool done = false;
    CHECK_INT(r.code, 200, "a streamed completion");
    CHECK(read_stream(&r, &text, &done) > 1 && done, "comes in parts");
    CHECK_TEXT(text.data ? text.data : "", plain_text,
               "that give the text of the whole one");
    CHECK(r.body.data && strstr(r.body.data, "\"total_tokens\""),
          "and its counts");
    spt_buf_free(&text);
    spt_buf_free(&r.body);
    spt_free(body);
}

static void test_chat(void)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"max_tokens\":4,\"temperature\":0,\"seed\":1,\"model\":\"tiny\","
        "\"logprobs\":true,\"top_logprobs\":1,\"draft_length\":-1";
    char whole[400], streamed[400];
    snprintf(whole, sizeof whole, "%s}", body);
    snprintf(streamed, sizeof streamed, "%s,\"stream\":true}", body);
    reply r = ask("POST", "/v1/chat/completions", whole);
    reply s = ask("POST", "/v1/chat/completions", streamed);
    cJSON *root = parse(&r);
    const cJSON *message = cJSON_GetObjectItem(first_choice(root), "message");
    spt_buf text = {0};
    bool done = false;
    CHECK_INT(r.code, 200, "a chat completion");
    CHECK_TEXT(text_at(message, "role"), "assistant", "is the assistant's");
    read_stream(&s, &text, &done);
    CHECK(done && strstr(s.body.data, "\"role\":\"assistant\""),
          "a streamed one too");
    CHECK_TEXT(text.data ? text.data : "", text_at(message, "content"),
               "and has the same text");
    CHECK(strstr(r.body.data, "\"top_logprobs\":[{"), "with alternatives");
    cJSON_Delete(root);
    spt_buf_free(&text);
    spt_buf_free(&r.body);
    spt_buf_free(&s.body);
}

/* 80 bytes with an "x" before them end within a character. */
#define AE10 "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
#define LONG AE10 AE10 AE10 AE10 AE10

static void test_errors(void)
{
    static const struct {
        const char *method, *path, *body, *says;
        int code;
    } cases[] = {
        {"GET", "/nowhere", "", "there is nothing", 404},
        {"GET", "/v1/completions", "", "GET, expected POST", 405},
        {"POST", "/v1/completions", "{", "request:1:1: JSON ends early", 400},
        {"POST", "/v1/completions", "[]", "expected a JSON object", 400},
        {"POST", "/v1/completions", "{}", "prompt: is missing", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"\"}", "has 0 tokens", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"n\":2}",
         "n: expected 1", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"echo\":true}",
         "echo: this field is not supported", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"temperature\":-1}",
         "temperature: expected a number from 0 to 100", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"stop\":\"\"}",
         "stop: expected up to 16 texts", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":1.5}",
         "max_tokens: expected a whole number", 400},
        {"POST", "/v1/completions",
         "{\"prompt\":\"a\",\"logit_bias\":{\"99999\":1}}",
         "logit_bias: expected token ids", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}",
         "'other' is not served, expected tiny", 404},
        {"POST", "/v1/chat/completions", "{\"messages\":[]}",
         "messages: expected a list", 400},
        {"POST", "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\"}]}",
         "expected a role and a content", 400},
        {"POST", "/v1/completions",
         "{\"prompt\":\"a\",\"stream\":true,\"prompt\":7}",
         "prompt: is there twice", 400},
        {"POST", "/v1/completions",
         "{\"prompt\":\"a\",\"logit_bias\":{\"1\":1,\"2\":1,\"3\":1,\"4\":1},"
         "\"logit_bias\":{\"1\":1},\"max_tokens\":1}",
         "logit_bias: is there twice", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\\u0000b\"}",
         "has the character U+0000", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"x" LONG "\":1}",
         "?: this field is not supported", 400},
        {"POST", "/v1/completions",
         "{\"prompt\":\"a\",\"stream_options\":5,\"max_tokens\":1}",
         "stream_options: expected an object", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":0}",
         "max_tokens: expected a number from 1 to 16777216", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply r = ask(cases[i].method, cases[i].path, cases[i].body);
        CHECK_INT(r.code, cases[i].code, "a wrong request is refused");
        CHECK_HAS(r.body.data ? r.body.data : "", cases[i].says,
                  "and the answer says why");
        spt_buf_free(&r.body);
    }
}

static void *ask_many(void *user)
{
    int *good = user;
    char *body = with("");
    for (int i = 0; i < 3; i++) {
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
    pthread_t threads[4];
    int good[4] = {0}, sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask_many, &good[i]);
    /* One that leaves in the middle of its stream. */
    char *body = with(",\"stream\":true");
    int fd = send_request("POST", "/v1/completions", body);
    close(fd);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += good[i];
    }
    CHECK_INT(sum, 12, "requests at once get the text that one alone gets");
    spt_free(body);
}

static long metric(const char *name)
{
    char start[80];
    reply r = ask("GET", "/metrics", "");
    snprintf(start, sizeof start, "\n%s{model_name=\"tiny\"} ", name);
    const char *at = r.body.data ? strstr(r.body.data, start) : NULL;
    long value = at ? strtol(at + strlen(start), NULL, 10) : -1;
    spt_buf_free(&r.body);
    return value;
}

/* Waits, a minute at most, until so many requests run and wait. */
static bool until(long running, long waiting)
{
    for (int i = 0; i < 3000; i++) {
        if (metric("vllm:num_requests_running") == running &&
            metric("vllm:num_requests_waiting") == waiting)
            return true;
        usleep(10000);
    }
    return false;
}

/* One that leaves while it waits for its turn is not begun. */
static void test_left(void)
{
    int fds[4];
    CHECK(until(0, 0), "a server without work");
    long before = metric("vllm:prompt_tokens_total");
    for (int i = 0; i < 3; i++)
        fds[i] = send_request("POST", "/v1/completions", long_request);
    bool busy = until(3, 0);
    fds[3] = send_request("POST", "/v1/completions", long_request);
    busy = busy && until(3, 1);
    close(fds[3]);
    usleep(200000);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    CHECK(until(0, 0), "all have left");
    long fed = metric("vllm:prompt_tokens_total") - before;
    CHECK(!busy || fed % 3 == 0, "who left in the queue is not begun");
}

static void test_rest(void)
{
    reply health = ask("GET", "/health", "");
    reply models = ask("GET", "/v1/models", "");
    reply metrics = ask("GET", "/metrics", "");
    CHECK(health.code == 200 && models.code == 200 && metrics.code == 200,
          "health, models and metrics");
    CHECK_HAS(models.body.data, "\"id\":\"tiny\"", "name the model");
    CHECK_HAS(metrics.body.data,
              "vllm:request_success_total{model_name=\"tiny\","
              "finished_reason=\"length\"} ",
              "count requests");
    CHECK_HAS(metrics.body.data, "vllm:generation_tokens_total{", "and tokens");
    spt_buf_free(&health.body);
    spt_buf_free(&models.body);
    spt_buf_free(&metrics.body);
}

int main(void)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    spt_engine_options engine_options = {.device = SPT_DEVICE_SIM,
                                         .sessions = 3};
    spt_engine *engine = tiny_open(&t, &engine_options);
    spt_serve_options options = {.engine = engine,
                                 .host = "127.0.0.1",
                                 .sessions = 3,
                                 .queue = 16,
                                 .model = "tiny"};
    spt_serve *serve = NULL;
    if (CHECK_OK(spt_serve_start(&options, &serve, &err), &err,
                 "a server starts")) {
        port = spt_serve_port(serve);
        test_completion();
        test_stream();
        test_chat();
        test_errors();
        test_together();
        test_left();
        test_rest();
        /* One that is still running when the server stops. */
        int fd = send_request("POST", "/v1/completions", long_request);
        spt_serve_stop(serve);
        CHECK(fd >= 0, "a server stops while it answers");
        close(fd);
    }
    spt_engine_close(engine);
    spt_free(plain_text);
    return check_done();
}
