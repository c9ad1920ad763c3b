/*
 * HTTP of the server as clients of all kinds speak it: odd paths, methods and
 * headers, chunks, old versions, keys; clients that are slow or half gone.
 */
#include <time.h>

#include "serve_client.h"

#define KEY "Authorization: Bearer secret\r\n"
#define HOST "Host: test\r\n"
#define CLOSE "Connection: close\r\n"
#define POST "POST /v1/completions HTTP/1.1\r\n" HOST KEY CLOSE
#define BODY "{\"prompt\":\"abc\",\"max_tokens\":2,\"temperature\":0}"
#define LENGTH "Content-Length: 47\r\n"

static void put(int fd, const char *text)
{
    for (size_t n; *text; text += n) {
        ssize_t sent = write(fd, text, strlen(text));
        if (sent <= 0)
            return;
        n = (size_t)sent;
    }
}

/* All that comes until the other side closes. */
static char *take_all(int fd)
{
    spt_buf all = {0};
    char part[4096];
    ssize_t n;
    spt_buf_puts(&all, "");
    while ((n = read(fd, part, sizeof part)) > 0)
        spt_buf_add(&all, part, (size_t)n);
    close(fd);
    return all.data ? all.data : spt_strdup("");
}

static char *exchange(const char *text)
{
    int fd = connect_to();
    put(fd, text);
    return take_all(fd);
}

static const struct {
    const char *what, *sent, *status, *says;
} cases[] = {
    {"health needs no key", "GET /health HTTP/1.1\r\n" HOST CLOSE "\r\n",
     " 200 ", "\"ok\""},
    {"models need one", "GET /v1/models HTTP/1.1\r\n" HOST CLOSE "\r\n",
     " 401 ", "\"code\":\"invalid_api_key\""},
    {"the right one",
     "GET /v1/models HTTP/1.1\r\n" HOST CLOSE
     "authorization: bearer secrets\r\n\r\n",
     " 401 ", "this is not the key"},
    {"the whole of it",
     "GET /v1/models HTTP/1.1\r\n" HOST CLOSE
     "authorization: bearer secre\r\n\r\n",
     " 401 ", "WWW-Authenticate: Bearer"},
    {"as Bearer",
     "GET /v1/models HTTP/1.1\r\n" HOST CLOSE "Authorization: secret\r\n\r\n",
     " 401 ", "expected Bearer and the key"},
    {"in any case of letters",
     "GET /v1/models HTTP/1.1\r\n" HOST CLOSE
     "authorization: bearer secret\r\n\r\n",
     " 200 ", "\"id\":\"tiny\""},
    {"a completion without a key",
     "POST /v1/completions HTTP/1.1\r\n" HOST CLOSE LENGTH "\r\n" BODY, " 401 ",
     "invalid_api_key"},
    {"a NUL in a path", "GET /v1/models/%00 HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
     " 404 ", "'%00' is not served, expected tiny"},
    {"a NUL behind a name",
     "GET /v1/models/tiny%00x HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", " 404 ",
     "\"param\":\"model\",\"code\":\"model_not_found\""},
    {"a name with escapes",
     "GET /v1/models/t%69n%79?x=%00 HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
     " 200 ", "\"id\":\"tiny\""},
    {"an escape that is none",
     "GET /v1/models/tiny%7 HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", " 404 ",
     "'tiny%7'"},
    {"bytes that are no UTF-8",
     "GET /v1/models/%ff%fe HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", " 404 ",
     "'?\?' is not served"},
    {"a path that is not there", "GET /v2 HTTP/1.1\r\n" HOST CLOSE "\r\n",
     " 404 ", "\"param\":null,\"code\":\"unknown_url\""},
    {"a path above", "GET /../health HTTP/1.1\r\n" HOST CLOSE "\r\n", " 404 ",
     "unknown_url"},
    {"a method that is not there",
     "BREW /health HTTP/1.1\r\n" HOST CLOSE "\r\n", " 405 ",
     "\"code\":\"method_not_supported\""},
    {"a method that is another's",
     "GET /v1/completions HTTP/1.1\r\n" HOST CLOSE "\r\n", " 405 ",
     "Allow: POST"},
    {"JSON by its name",
     POST "Content-Type: application/json\r\n" LENGTH "\r\n" BODY, " 200 ",
     "\"text\""},
    {"in UTF-8",
     POST "Content-Type: Application/JSON; charset=\"UTF-8\"\r\n" LENGTH
          "\r\n" BODY,
     " 200 ", "\"text\""},
    {"not in UTF-16",
     POST "Content-Type: application/json; charset=utf-16\r\n" LENGTH
          "\r\n" BODY,
     " 415 ", "expected charset utf-8"},
    {"nor as a form",
     POST "Content-Type: application/x-www-form-urlencoded\r\n" LENGTH
          "\r\n" BODY,
     " 415 ", "unsupported_media_type"},
    {"nor packed", POST "Content-Encoding: gzip\r\n" LENGTH "\r\n" BODY,
     " 415 ", "Content-Encoding: 'gzip' is not supported"},
    {"a body in chunks",
     POST "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"prompt\":\"abc\",\r\n"
          "1f\r\n\"max_tokens\":2,\"temperature\":0}\r\n0\r\n\r\n",
     " 200 ", "\"text\""},
    {"chunks that are none",
     POST "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", " 400 ",
     ""},
    {"a length that is none", POST "Content-Length: -1\r\n\r\n", " 400 ", ""},
    {"no body", POST "\r\n", " 400 ", "JSON ends early"},
    {"one that asks before it sends",
     POST "Expect: 100-continue\r\n" LENGTH "\r\n" BODY, " 100 ", "\"text\""},
    {"too much, asked before it is sent",
     POST "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", " 413 ",
     "\"code\":\"request_too_large\""},
    {"HTTP/1.0", "POST /v1/completions HTTP/1.0\r\n" KEY LENGTH "\r\n" BODY,
     " 200 ", "\"text\""},
    {"two requests at once",
     "GET /health HTTP/1.1\r\n" HOST
     "\r\nGET /v1/models HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
     " 200 ", "\"id\":\"tiny\""},
    {"no host", "GET /health HTTP/1.1\r\n" CLOSE "\r\n", " 400 ", ""},
    {"HEAD", "HEAD /health HTTP/1.1\r\n" HOST CLOSE "\r\n", " 200 ",
     "Content-Length: 15"},
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = exchange(cases[i].sent);
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\r"), text);
        CHECK_HAS(first, cases[i].status, cases[i].what);
        CHECK_HAS(text, cases[i].says, "and its answer");
        spt_free(text);
    }
}

/* A stream to a client that knows no chunks ends with the connection. */
static void test_old_stream(void)
{
    char *text = exchange("POST /v1/completions HTTP/1.0\r\n" KEY
                          "Content-Length: 36\r\n\r\n"
                          "{\"prompt\":\"a\",\"stream\":true,\"n\":2  }");
    CHECK(strstr(text, " 200 ") && !strstr(text, "chunked") &&
              strstr(text, "data: [DONE]\n\n"),
          "HTTP/1.0 gets a stream without chunks");
    spt_free(text);
}

static void test_huge_header(void)
{
    spt_buf text = {0};
    spt_buf_puts(&text, "GET /health HTTP/1.1\r\n" HOST CLOSE "X: ");
    for (int i = 0; i < 100000; i++)
        spt_buf_puts(&text, "x");
    spt_buf_puts(&text, "\r\n\r\n");
    char *seen = exchange(text.data);
    CHECK(!*seen || strstr(seen, " 431 "), "a huge header is refused");
    spt_free(seen);
    spt_buf_free(&text);
}

/* Who closes its sending side only still gets what needs no waiting. */
static void test_half_closed(void)
{
    int fd = connect_to();
    put(fd, "GET /health HTTP/1.1\r\n" HOST "\r\n");
    shutdown(fd, SHUT_WR);
    char *text = take_all(fd);
    CHECK_HAS(text, "{\"status\":\"ok\"}",
              "a half closed connection is answered");
    spt_free(text);
}

/* Whether the server shuts it while a byte comes now and then. */
static bool is_shut(const char *head, const char *trickle)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    int fd = connect_to();
    struct pollfd one = {.fd = fd, .events = POLLIN};
    bool shut = false;
    put(fd, head);
    for (size_t i = 0; i < 3000 && !shut; i++) {
        char byte[2] = {trickle[i % strlen(trickle)], 0};
        if (send(fd, byte, 1, MSG_NOSIGNAL) != 1)
            shut = true;
        nanosleep(&pause, NULL);
        shut = shut || poll(&one, 1, 0) > 0;
    }
    close(fd);
    return shut;
}

static void test_trickle(void)
{
    CHECK(is_shut("GET /health HTTP/1.1\r\n", "X: 1\r\n"),
          "a header that never ends is not waited for");
    CHECK(is_shut(POST "Content-Length: 1000000\r\n\r\n", " "), "nor a body");
}

int main(void)
{
    tiny_server server;
    const spt_serve_options options = {
        .sessions = 2, .queue = 16, .patience = 1, .api_key = "secret"};
    if (tiny_serve(options, &server)) {
        test_cases();
        test_old_stream();
        test_huge_header();
        test_half_closed();
        test_trickle();
        char *text = exchange("GET /health HTTP/1.1\r\n" HOST CLOSE "\r\n");
        CHECK_HAS(text, " 200 ", "the server is well after all of it");
        spt_free(text);
    }
    tiny_stop(&server);
    return check_done();
}
