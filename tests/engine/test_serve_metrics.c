/*
 * What /metrics says: text that Prometheus reads, as strictly as promtool
 * does, and numbers that agree with the answers and with each other.
 */
#include <ctype.h>
#include <math.h>

#include "serve_client.h"

/* A sample: everything before its value, and the value. */
typedef struct sample {
    char series[200];
    double value;
} sample;

static sample samples[600];
static int n_samples;

/* Of a family, as its lines came. */
static char family[100], type[20];
static char seen[8000]; /* the families so far, a blank around each */

static bool is_name(const char *text, size_t size)
{
    bool good = size > 0 && !isdigit((unsigned char)*text);
    for (size_t i = 0; i < size; i++)
        good &=
            isalnum((unsigned char)text[i]) || text[i] == '_' || text[i] == ':';
    return good;
}

/* The sample's name belongs to the family, by its type. */
static bool is_of_family(const char *name, size_t size)
{
    static const char *const parts[] = {"_bucket", "_count", "_sum"};
    size_t own = strlen(family);
    if (strcmp(type, "histogram") != 0)
        return size == own && strncmp(name, family, own) == 0 &&
               (strcmp(type, "counter") == 0) ==
                   (own > 6 && strcmp(family + own - 6, "_total") == 0);
    for (int i = 0; i < 3; i++)
        if (size == own + strlen(parts[i]) && strncmp(name, family, own) == 0 &&
            strncmp(name + own, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

/* {name="text",...} */
static const char *skip_labels(const char *at)
{
    do {
        size_t size = strcspn(++at, "=");
        if (!is_name(at, size) || strncmp(at + size, "=\"", 2) != 0)
            return NULL;
        for (at += size + 2; *at && *at != '"'; at++)
            at += *at == '\\';
        if (*at++ != '"')
            return NULL;
    } while (*at == ',');
    return *at == '}' ? at + 1 : NULL;
}

static bool read_sample(const char *line)
{
    size_t size = strcspn(line, "{");
    const char *end = line[size] ? skip_labels(line + size) : NULL;
    char *rest;
    sample *s = &samples[n_samples];
    if (!end || !is_name(line, size) || !is_of_family(line, size) ||
        *end != ' ' || n_samples == 599)
        return false;
    snprintf(s->series, sizeof s->series, "%.*s", (int)(end - line), line);
    s->value = strtod(end + 1, &rest);
    for (int i = 0; i < n_samples; i++)
        if (strcmp(samples[i].series, s->series) == 0)
            return false;
    n_samples++;
    return !*rest;
}

/* HELP, then TYPE of the same name, once each, then samples. */
static bool read_line(const char *line)
{
    char name[100], word[20];
    if (sscanf(line, "# HELP %99s %19s", name, word) == 2) {
        char mark[110];
        snprintf(mark, sizeof mark, " %s ", name);
        bool again = strstr(seen, mark) != NULL;
        strcat(seen, mark);
        snprintf(family, sizeof family, "%s", name);
        *type = 0;
        return !again;
    }
    if (sscanf(line, "# TYPE %99s %19s", name, type) == 2)
        return strcmp(name, family) == 0 &&
               (strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                strcmp(type, "histogram") == 0);
    return *type && read_sample(line);
}

static void read_metrics(void)
{
    reply r = ask("GET", "/metrics", "");
    int wrong = 0;
    n_samples = 0;
    *seen = 0;
    char *text = r.body.data, *line;
    CHECK(text && r.body.size && text[r.body.size - 1] == '\n',
          "the text ends with a line");
    while (text && (line = strsep(&text, "\n")) != NULL)
        if (*line && !read_line(line)) {
            printf("# %s\n", line);
            wrong++;
        }
    CHECK_INT(wrong, 0, "every line is one that Prometheus reads");
    spt_buf_free(&r.body);
}

/* vllm:NAME of the model, with more labels. */
static double value(const char *name, const char *labels)
{
    char series[200];
    snprintf(series, sizeof series, "vllm:%s{model_name=\"tiny\"%s}", name,
             labels);
    for (int i = 0; i < n_samples; i++)
        if (strcmp(samples[i].series, series) == 0)
            return samples[i].value;
    printf("# no %s\n", series);
    return NAN;
}

static double count_of(const char *histogram)
{
    char name[100];
    snprintf(name, sizeof name, "%s_count", histogram);
    return value(name, "");
}

/* Buckets grow with their bound; the last has all. */
static void test_buckets(void)
{
    bool grows = true, full = true;
    int n = 0;
    for (int i = 0; i + 1 < n_samples; i++) {
        const char *a = strstr(samples[i].series, "le=\"");
        const char *b = strstr(samples[i + 1].series, "le=\"");
        if (!a)
            continue;
        n++;
        if (b)
            grows &= samples[i].value <= samples[i + 1].value &&
                     strtod(a + 4, NULL) < strtod(b + 4, NULL);
        else
            full &= strncmp(a, "le=\"+Inf\"", 9) == 0 &&
                    samples[i].value == samples[i + 1].value;
    }
    CHECK(n > 100 && grows, "buckets hold those below them");
    CHECK(full, "the last of them holds all");
}

static void test_counts(double written)
{
    double drafted = value("spec_decode_num_draft_tokens_total", "");
    double accepted = value("spec_decode_num_accepted_tokens_total", "");
    double by_position = 0;
    for (int d = 0; d < 8; d++) {
        char label[40];
        snprintf(label, sizeof label, ",position=\"%d\"", d);
        by_position +=
            value("spec_decode_num_accepted_tokens_per_pos_total", label);
    }
    CHECK(drafted > 0 && accepted <= drafted && accepted == by_position &&
              value("spec_decode_num_drafts_total", "") <= drafted,
          "accepted drafts are those of all positions");
    CHECK(value("generation_tokens_total", "") == written &&
              value("request_generation_tokens_sum", "") == written,
          "tokens are those of the answers");
    CHECK(value("request_success_total", ",finished_reason=\"length\"") == 5 &&
              value("request_success_total", ",finished_reason=\"error\"") == 0,
          "answers by how they ended");
    CHECK(count_of("time_to_first_token_seconds") == 5 &&
              count_of("e2e_request_latency_seconds") == 5 &&
              count_of("request_queue_time_seconds") == 5 &&
              count_of("request_params_n") == 3,
          "each has its times");
    CHECK(count_of("inter_token_latency_seconds") == written - 5,
          "each token but the first has one");
    CHECK(value("e2e_request_latency_seconds_sum", "") >=
                  value("request_inference_time_seconds_sum", "") &&
              value("request_inference_time_seconds_sum", "") >=
                  value("request_decode_time_seconds_sum", ""),
          "parts are not longer than the whole");
    CHECK(value("prefix_cache_hits_total", "") > 0 &&
              value("prefix_cache_hits_total", "") <
                  value("prefix_cache_queries_total", "") &&
              value("prompt_tokens_total", "") ==
                  value("request_prompt_tokens_sum", ""),
          "prompts, and what was known of them");
    CHECK(value("kv_cache_usage_perc", "") == 0 &&
              value("num_requests_running", "") == 0 &&
              value("num_requests_waiting", "") == 0,
          "nothing is in use when all has ended");
}

int main(void)
{
    static const char body[] =
        "{\"prompt\":\"abcabcabcabcabcabcabcabcabcabc\",\"max_tokens\":20,"
        "\"temperature\":0,\"ignore_eos\":true,\"draft_length\":3,\"n\":%d}";
    tiny_server server;
    const spt_serve_options options = {.sessions = 2, .queue = 16};
    if (tiny_serve(options, &server)) {
        read_metrics();
        CHECK(value("generation_tokens_total", "") == 0 &&
                  count_of("e2e_request_latency_seconds") == 0,
              "counts begin at nothing");
        for (int n = 1; n <= 3; n++) {
            char text[300];
            snprintf(text, sizeof text, body, n == 3 ? 2 : n);
            reply r = ask("POST", "/v1/completions", text);
            CHECK_INT(r.code, 200, "an answer");
            spt_buf_free(&r.body);
        }
        read_metrics();
        test_buckets();
        test_counts(5 * 20);
    }
    tiny_stop(&server);
    return check_done();
}
