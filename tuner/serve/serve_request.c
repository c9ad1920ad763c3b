/* A request's JSON to a job. */
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve_int.h"

/* Whether a text in the JSON has a NUL, where cJSON would end it. */
static bool has_nul(const char *body, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!body[i])
            return true;
        if (body[i] == '\\' && size - i > 5 &&
            memcmp(body + i + 1, "u0000", 5) == 0)
            return true;
        i += body[i] == '\\';
    }
    return false;
}

/* What one field alone can't tell. */
static spt_status check(const serve_job *job, serve_fault *fault)
{
    if (!job->prompts)
        return spt_serve_wrong(fault, SERVE_MISSING, "%s: is missing",
                               job->chat ? "messages" : "prompt");
    if (job->answer.top_logprobs && !job->logprobs)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "top_logprobs: expected logprobs to be true");
    if (job->best_of && job->best_of < job->n)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "best_of: expected at least n (%d)", job->n);
    if (job->best_of > job->n && job->stream)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "best_of: expected n (%d): the best are not "
                               "known while they are streamed",
                               job->n);
    if (job->stream_options && !job->stream)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "stream_options: expected stream to be true");
    return SPT_OK;
}

/* What fields say together. */
static void settle(serve_job *job)
{
    spt_answer_options *a = &job->answer;
    job->copies = job->best_of > job->n ? job->best_of : job->n;
    a->logprobs = job->logprobs || job->copies > job->n;
    if (job->chat_tokens)
        a->max_tokens = job->chat_tokens;
    job->silent = !job->chat && a->max_tokens == 0;
    if (job->silent)
        a->max_tokens = 1;
}

static spt_status add_choices(serve_job *job, serve_fault *fault)
{
    size_t count = job->n_prompts * (size_t)job->copies;
    if (count > SERVE_CHOICES)
        return spt_serve_wrong(fault, SERVE_VALUE,
                               "n: %zu answers in all, expected at most %d",
                               count, SERVE_CHOICES);
    job->choices = spt_calloc(count, sizeof *job->choices);
    if (!job->choices)
        return spt_serve_wrong(fault, SERVE_BUSY, "request: out of memory");
    job->n_choices = (int)count;
    for (int i = 0; i < job->n_choices; i++) {
        job->choices[i].job = job;
        job->choices[i].index = i;
    }
    return SPT_OK;
}

static spt_status read_body(serve_job *job, const char *body, size_t size,
                            serve_fault *fault)
{
    const cJSON *item;
    spt_error err;
    if (spt_json_parse(body, size, "request", &job->body, &err) != SPT_OK)
        return spt_serve_wrong(fault, SERVE_JSON, "%s", err.text);
    if (has_nul(body, size))
        return spt_serve_wrong(
            fault, SERVE_JSON,
            "request: has the character U+0000, expected none");
    if (!cJSON_IsObject(job->body))
        return spt_serve_wrong(fault, SERVE_JSON,
                               "request: expected a JSON object");
    job->session = job->serve->options.session;
    job->n = 1;
    /* The defaults of OpenAI's API. */
    job->session.sampling.temperature = 1;
    if (getrandom(&job->session.sampling.seed, 6, 0) != 6)
        return spt_serve_wrong(fault, SERVE_INTERNAL,
                               "request: no random numbers");
    if (!job->chat)
        job->answer.max_tokens = 16;
    cJSON_ArrayForEach(item, job->body)
        SPT_TRY(spt_serve_field(job, item, fault));
    SPT_TRY(check(job, fault));
    settle(job);
    return add_choices(job, fault);
}

spt_status spt_serve_request(spt_serve *serve, bool chat, const char *body,
                             size_t size, serve_job **out, serve_fault *fault)
{
    serve_job *job = spt_calloc(1, sizeof *job);
    if (!job)
        return spt_serve_wrong(fault, SERVE_BUSY, "request: out of memory");
    job->serve = serve;
    job->chat = chat;
    job->created = (long)time(NULL);
    job->came_at = spt_serve_now();
    spt_status status = read_body(job, body, size, fault);
    if (status == SPT_OK)
        *out = job;
    else
        spt_serve_job_free(job);
    return status;
}

void spt_serve_job_free(serve_job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->n_choices; i++) {
        spt_serve_scores_free(&job->choices[i].scores);
        spt_buf_free(&job->choices[i].text);
    }
    for (size_t i = 0; i < job->n_prompts; i++) {
        spt_free(job->prompts[i].tokens);
        spt_serve_scores_free(&job->prompts[i].scores);
    }
    cJSON_Delete(job->body);
    cJSON_Delete(job->texts);
    spt_free(job->messages);
    spt_free(job->prompts);
    spt_free(job->choices);
    spt_free(job->bias);
    spt_buf_free(&job->out);
    spt_free(job);
}
