/*
 * What has happened, as Prometheus reads it. Histograms count what ended in a
 * bucket; buckets are made cumulative when they are shown.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve_int.h"
#include "session_int.h"

static const double first_token[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                     .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                     20,   40,   80,  160, 640, 2560};
static const double inter_token[] = {.01, .025, .05, .075, .1, .15, .2,
                                     .3,  .4,   .5,  .75,  1,  2.5, 5,
                                     7.5, 10,   20,  40,   80};
static const double latency[] = {.3, .5,  .8,  1,   1.5, 2,    2.5,
                                 5,  10,  15,  20,  30,  40,   50,
                                 60, 120, 240, 480, 960, 1920, 7680};
static const double tokens[] = {1,    2,    5,    10,  20,  50,  100, 200, 500,
                                1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5};
static const double choices[] = {1, 2, 5, 10, 20};

static const struct histogram_row {
    const char *name;
    const double *bounds;
    int count;
    const char *help;
} histograms[] = {
#define SERVE_HISTOGRAM(NAME, name, bounds, help) \
    {name, bounds, sizeof bounds / sizeof *bounds, help},
#include "metrics.def"
#undef SERVE_HISTOGRAM
};

#define SERVE_HISTOGRAM(NAME, name, bounds, help)                  \
    _Static_assert(sizeof bounds / sizeof *bounds < SERVE_BUCKETS, \
                   "more buckets than there is room for");
#include "metrics.def"
#undef SERVE_HISTOGRAM

double spt_serve_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void spt_serve_observe(spt_serve *serve, serve_observed what, double value,
                       size_t times)
{
    const struct histogram_row *row = &histograms[what];
    serve_histogram *h = &serve->counts.histograms[what];
    int i = 0;
    while (i < row->count && value > row->bounds[i])
        i++;
    h->in[i] += times;
    h->sum += value * (double)times;
}

/* Every field is a count. */
void spt_serve_count_stats(spt_serve *serve, serve_choice *choice)
{
    enum { FIELDS = sizeof(spt_session_stats) / sizeof(uint64_t) };
    _Static_assert(sizeof(spt_session_stats) == FIELDS * sizeof(uint64_t),
                   "other fields than counts");
    spt_session_stats now;
    spt_session_statistics(choice->running, &now);
    uint64_t *sum = (uint64_t *)&serve->counts.sum;
    uint64_t *before = (uint64_t *)&choice->counted, *after = (uint64_t *)&now;
    for (int i = 0; i < FIELDS; i++)
        sum[i] += after[i] - before[i];
    choice->counted = now;
}

void spt_serve_count_tokens(serve_choice *choice, size_t count)
{
    const serve_job *job = choice->job;
    double now = spt_serve_now();
    if (!count)
        return;
    if (choice->first_at == 0) {
        choice->first_at = now;
        spt_serve_observe(job->serve, SERVE_FIRST_TOKEN, now - job->came_at, 1);
        spt_serve_observe(job->serve, SERVE_PREFILL, now - choice->taken_at, 1);
        count--;
    }
    if (count)
        spt_serve_observe(job->serve, SERVE_INTER_TOKEN,
                          (now - choice->last_at) / (double)count, count);
    choice->last_at = now;
}

void spt_serve_count_end(serve_choice *choice)
{
    spt_serve *serve = choice->job->serve;
    double now = spt_serve_now();
    serve->counts.ends[choice->finish]++;
    if (choice->finish == SPT_FINISH_CANCELLED || choice->first_at == 0)
        return;
    spt_serve_observe(serve, SERVE_WHOLE, now - choice->job->came_at, 1);
    spt_serve_observe(serve, SERVE_QUEUE,
                      choice->taken_at - choice->job->came_at, 1);
    spt_serve_observe(serve, SERVE_INFERENCE, now - choice->taken_at, 1);
    spt_serve_observe(serve, SERVE_DECODE, choice->last_at - choice->first_at,
                      1);
    spt_serve_observe(serve, SERVE_PROMPT,
                      (double)spt_serve_prompt_of(choice)->count, 1);
    spt_serve_observe(serve, SERVE_GENERATION, (double)choice->tokens, 1);
}

static void head(const char *name, const char *type, const char *help,
                 spt_buf *out)
{
    spt_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* name{model_name="...",extra} value */
static void sample(const spt_serve *serve, const char *name, const char *extra,
                   double value, spt_buf *out)
{
    spt_buf_printf(out, "%s{model_name=\"", name);
    for (const char *p = serve->options.model; *p; p++)
        spt_buf_printf(out,
                       *p == '\n'                ? "\\n"
                       : *p == '"' || *p == '\\' ? "\\%c"
                                                 : "%c",
                       *p);
    spt_buf_printf(out, "\"%s%s} %.15g\n", *extra ? "," : "", extra, value);
}

static void show_histogram(const spt_serve *serve, int which, spt_buf *out)
{
    const struct histogram_row *row = &histograms[which];
    const serve_histogram *h = &serve->counts.histograms[which];
    unsigned long below = 0;
    char name[80], le[40];
    head(row->name, "histogram", row->help, out);
    snprintf(name, sizeof name, "%s_bucket", row->name);
    for (int i = 0; i <= row->count; i++) {
        below += h->in[i];
        if (i < row->count)
            snprintf(le, sizeof le, "le=\"%.15g\"", row->bounds[i]);
        else
            snprintf(le, sizeof le, "le=\"+Inf\"");
        sample(serve, name, le, (double)below, out);
    }
    snprintf(name, sizeof name, "%s_count", row->name);
    sample(serve, name, "", (double)below, out);
    snprintf(name, sizeof name, "%s_sum", row->name);
    sample(serve, name, "", h->sum, out);
}

static void show_ends(const spt_serve *serve, spt_buf *out)
{
    static const char name[] = "vllm:request_success_total";
    const unsigned long *n = serve->counts.ends;
    const struct {
        const char *label;
        unsigned long count;
    } rows[] = {
        {"stop", n[SPT_FINISH_STOP_TOKEN] + n[SPT_FINISH_STOP_TEXT]},
        {"length", n[SPT_FINISH_LENGTH] + n[SPT_FINISH_CONTEXT]},
        {"abort", n[SPT_FINISH_CANCELLED]},
        {"error", serve->counts.failed},
    };
    head(name, "counter", "Answers, by how they ended", out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char label[40];
        snprintf(label, sizeof label, "finished_reason=\"%s\"", rows[i].label);
        sample(serve, name, label, (double)rows[i].count, out);
    }
}

/* All positions from the start, as rates need. */
static void show_positions(const spt_serve *serve, spt_buf *out)
{
    static const char name[] =
        "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    const spt_engine *engine = serve->options.engine;
    if (!engine->drafter.class)
        return;
    head(name, "counter", "Draft tokens that were accepted, by position", out);
    for (int d = 0; d < engine->options.draft_length; d++) {
        char label[40];
        snprintf(label, sizeof label, "position=\"%d\"", d);
        sample(serve, name, label, (double)serve->counts.sum.accepted_at[d],
               out);
    }
}

static void show_cache(const spt_serve *serve, spt_buf *out)
{
    static const char name[] = "vllm:cache_config_info";
    char labels[80];
    head(name, "gauge", "The KV cache: pages and tokens of one", out);
    snprintf(labels, sizeof labels, "block_size=\"%d\",num_gpu_blocks=\"%d\"",
             serve->info.page_size, serve->info.kv_pages);
    sample(serve, name, labels, 1, out);
}

static void show_values(const spt_serve *serve, spt_buf *out)
{
    const spt_session_stats *s = &serve->counts.sum;
    const struct {
        const char *name, *type;
        double value;
        const char *help;
    } rows[] = {
        {"vllm:num_requests_running", "gauge", serve->running,
         "Answers that are written"},
        {"vllm:num_requests_waiting", "gauge", serve->waiting,
         "Answers that wait for their turn"},
        {"vllm:kv_cache_usage_perc", "gauge", serve->kv_usage,
         "The part of the KV cache's pages that are in use, 0 to 1"},
        {"vllm:num_preemptions_total", "counter", 0,
         "Answers whose KV was given up: none ever is"},
        {"vllm:prompt_tokens_total", "counter",
         (double)(s->prompt_tokens + s->reused_tokens), "Tokens of prompts"},
        {"vllm:prompt_tokens_cached_total", "counter", (double)s->reused_tokens,
         "Tokens of prompts whose KV was there"},
        {"vllm:prefix_cache_queries_total", "counter",
         (double)(s->prompt_tokens + s->reused_tokens),
         "Tokens whose KV was looked for"},
        {"vllm:prefix_cache_hits_total", "counter", (double)s->reused_tokens,
         "Tokens whose KV was found"},
        {"vllm:generation_tokens_total", "counter", (double)s->tokens,
         "Tokens that were written"},
        {"vllm:spec_decode_num_drafts_total", "counter", (double)s->drafts,
         "Drafts"},
        {"vllm:spec_decode_num_draft_tokens_total", "counter",
         (double)s->draft_tokens, "Tokens of drafts"},
        {"vllm:spec_decode_num_accepted_tokens_total", "counter",
         (double)s->accepted_tokens, "Tokens of drafts that were accepted"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        head(rows[i].name, rows[i].type, rows[i].help, out);
        sample(serve, rows[i].name, "", rows[i].value, out);
    }
}

void spt_serve_reply_metrics(spt_serve *serve, spt_buf *out)
{
    pthread_mutex_lock(&serve->lock);
    show_values(serve, out);
    show_positions(serve, out);
    show_ends(serve, out);
    show_cache(serve, out);
    for (int i = 0; i < SERVE_OBSERVED; i++)
        show_histogram(serve, i, out);
    pthread_mutex_unlock(&serve->lock);
}
