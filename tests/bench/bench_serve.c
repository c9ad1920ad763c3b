/*
 * The server with 1, 4 and 16 clients at once, on a tiny model on sim: tokens
 * a second by the clock of this host, as medians of interleaved rounds, and
 * what they are of one client's. The model takes so little time that it is the
 * server that is timed: HTTP, JSON, the queue, steps of many sessions.
 */
#include <pthread.h>

#include "../engine/serve_client.h"

enum { ROUNDS = 5, REQUESTS = 4, TOKENS = 32, MOST = 16 };

static const int counts[] = {1, 4, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static void *client(void *user)
{
    long *tokens = user;
    for (int i = 0; i < REQUESTS; i++) {
        reply r = ask("POST", "/v1/completions",
                      "{\"prompt\":\"abc abc\",\"max_tokens\":32,"
                      "\"temperature\":0,\"ignore_eos\":true,"
                      "\"draft_length\":-1}");
        *tokens += r.code == 200 ? TOKENS : 0;
        spt_buf_free(&r.body);
    }
    return NULL;
}

/* Tokens a second. */
static double round_of(int clients)
{
    pthread_t threads[MOST];
    long tokens[MOST] = {0}, sum = 0;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < clients; i++)
        pthread_create(&threads[i], NULL, client, &tokens[i]);
    for (int i = 0; i < clients; i++) {
        pthread_join(threads[i], NULL);
        sum += tokens[i];
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)sum / ((double)(end.tv_sec - begin.tv_sec) +
                          1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    tiny_server server;
    double rates[COUNTS][ROUNDS], one = 0;
    if (!tiny_serve((spt_serve_options){.sessions = MOST, .queue = MOST},
                    &server))
        return 1;
    for (int c = 0; c < COUNTS; c++)
        round_of(counts[c]); /* graphs and caches */
    for (int r = 0; r < ROUNDS; r++)
        for (int c = 0; c < COUNTS; c++)
            rates[c][r] = round_of(counts[c]);
    for (int c = 0; c < COUNTS; c++) {
        qsort(rates[c], ROUNDS, sizeof **rates, by_value);
        double rate = rates[c][ROUNDS / 2];
        one = c ? one : rate;
        printf("serve: %2d clients, tiny model on sim %9.1f tokens/s of host "
               "time  %6.2f x one client\n",
               counts[c], rate, rate / one);
    }
    tiny_stop(&server);
    return 0;
}
