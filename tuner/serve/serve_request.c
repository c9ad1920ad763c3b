/* Requests of OpenAI's shape. A field that is not known is refused, since an
   answer that ignores it is not the one that was asked for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve_int.h"

typedef spt_status read_fn(serve_job *job, const cJSON *item, spt_error *err);

typedef struct field_row {
    const char *name;
    read_fn *read;
    enum { BOTH, TEXT, CHAT } of;
} field_row;

static spt_status wrong(const cJSON *item, const char *expected, spt_error *err)
{
    return spt_fail(err, SPT_E_USAGE, "%.40s: expected %s", item->string,
                    expected);
}

static spt_status number(const cJSON *item, double least, double most,
                         double *out, spt_error *err)
{
    char expected[80];
    if (cJSON_IsNumber(item) && item->valuedouble >= least &&
        item->valuedouble <= most) {
        *out = item->valuedouble;
        return SPT_OK;
    }
    snprintf(expected, sizeof expected, "a number from %.10g to %.10g", least,
             most);
    return wrong(item, expected, err);
}

static spt_status whole(const cJSON *item, double least, double most,
                        double *out, spt_error *err)
{
    double value = 0;
    SPT_TRY(number(item, least, most, &value, err));
    if (value != floor(value))
        return wrong(item, "a whole number", err);
    *out = value;
    return SPT_OK;
}

static spt_status flag(const cJSON *item, bool *out, spt_error *err)
{
    if (!cJSON_IsBool(item))
        return wrong(item, "true or false", err);
    *out = cJSON_IsTrue(item);
    return SPT_OK;
}

static spt_status read_model(serve_job *job, const cJSON *item, spt_error *err)
{
    const char *name = cJSON_GetStringValue(item);
    if (!name || strcmp(name, job->serve->options.model) != 0)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "model: '%.80s' is not served, expected %.200s",
                        name ? name : "?", job->serve->options.model);
    return SPT_OK;
}

static spt_status read_prompt(serve_job *job, const cJSON *item, spt_error *err)
{
    job->prompt = cJSON_GetStringValue(item);
    return job->prompt ? SPT_OK : wrong(item, "a text", err);
}

static spt_status read_messages(serve_job *job, const cJSON *item,
                                spt_error *err)
{
    const cJSON *message;
    if (!cJSON_IsArray(item) || !item->child)
        return wrong(item, "a list of messages", err);
    cJSON_ArrayForEach(message, item)
    {
        const cJSON *role = cJSON_GetObjectItemCaseSensitive(message, "role");
        const cJSON *text =
            cJSON_GetObjectItemCaseSensitive(message, "content");
        if (!cJSON_IsString(role) || !cJSON_IsString(text))
            return wrong(item, "a role and a content, both texts, in each",
                         err);
    }
    job->messages = item;
    return SPT_OK;
}

static spt_status read_max_tokens(serve_job *job, const cJSON *item,
                                  spt_error *err)
{
    double value = 0;
    SPT_TRY(whole(item, 1, 1 << 24, &value, err));
    job->answer.max_tokens = (size_t)value;
    return SPT_OK;
}

static spt_status read_temperature(serve_job *job, const cJSON *item,
                                   spt_error *err)
{
    return number(item, 0, 100, &job->session.sampling.temperature, err);
}

static spt_status read_top_p(serve_job *job, const cJSON *item, spt_error *err)
{
    /* 0 would be "all" to the engine. */
    return number(item, 1e-6, 1, &job->session.sampling.top_p, err);
}

static spt_status read_min_p(serve_job *job, const cJSON *item, spt_error *err)
{
    return number(item, 0, 1, &job->session.sampling.min_p, err);
}

static spt_status read_top_k(serve_job *job, const cJSON *item, spt_error *err)
{
    double value = 0;
    SPT_TRY(whole(item, -1, 1 << 24, &value, err));
    job->session.sampling.top_k = value > 0 ? (int)value : 0;
    return SPT_OK;
}

static spt_status read_seed(serve_job *job, const cJSON *item, spt_error *err)
{
    double value = 0;
    SPT_TRY(whole(item, 0, 9007199254740992.0, &value, err));
    job->session.sampling.seed = (uint64_t)value;
    return SPT_OK;
}

static spt_status read_presence(serve_job *job, const cJSON *item,
                                spt_error *err)
{
    return number(item, -100, 100, &job->session.sampling.presence_penalty,
                  err);
}

static spt_status read_frequency(serve_job *job, const cJSON *item,
                                 spt_error *err)
{
    return number(item, -100, 100, &job->session.sampling.frequency_penalty,
                  err);
}

static spt_status read_repetition(serve_job *job, const cJSON *item,
                                  spt_error *err)
{
    return number(item, 1e-3, 100, &job->session.sampling.repeat_penalty, err);
}

static spt_status read_draft_length(serve_job *job, const cJSON *item,
                                    spt_error *err)
{
    double value = 0;
    SPT_TRY(whole(item, -1, SPT_DRAFT_LENGTH_MAX, &value, err));
    job->session.draft_length = (int)value;
    return SPT_OK;
}

static spt_status read_stream(serve_job *job, const cJSON *item, spt_error *err)
{
    return flag(item, &job->stream, err);
}

static spt_status read_stream_options(serve_job *job, const cJSON *item,
                                      spt_error *err)
{
    const cJSON *usage =
        cJSON_GetObjectItemCaseSensitive(item, "include_usage");
    if (!cJSON_IsObject(item))
        return wrong(item, "an object", err);
    return usage ? flag(usage, &job->usage, err) : SPT_OK;
}

static spt_status read_ignore_eos(serve_job *job, const cJSON *item,
                                  spt_error *err)
{
    return flag(item, &job->answer.ignore_end, err);
}

static spt_status read_stop(serve_job *job, const cJSON *item, spt_error *err)
{
    const cJSON *each = cJSON_IsArray(item) ? item->child : item;
    for (; each; each = cJSON_IsArray(item) ? each->next : NULL) {
        const char *text = cJSON_GetStringValue(each);
        if (!text || !*text || job->answer.n_stop_texts == SERVE_STOPS)
            return wrong(item, "up to 16 texts that are not empty", err);
        job->stops[job->answer.n_stop_texts++] = text;
    }
    job->answer.stop_texts = job->stops;
    return SPT_OK;
}

static spt_status read_stop_tokens(serve_job *job, const cJSON *item,
                                   spt_error *err)
{
    const cJSON *each;
    size_t n = 0;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > SERVE_STOP_TOKENS)
        return wrong(item, "a list of up to 64 token ids", err);
    cJSON_ArrayForEach(each, item)
    {
        if (!cJSON_IsNumber(each))
            return wrong(item, "a list of token ids", err);
        job->stop_tokens[n++] = each->valueint;
    }
    job->answer.stop_tokens = job->stop_tokens;
    job->answer.n_stop_tokens = n;
    return SPT_OK;
}

static spt_status read_bias(serve_job *job, const cJSON *item, spt_error *err)
{
    const cJSON *each;
    int count = cJSON_GetArraySize(item);
    if (!cJSON_IsObject(item) || count > SERVE_BIASES)
        return wrong(item, "an object of token ids with numbers", err);
    job->bias = spt_calloc((size_t)count + 1, sizeof *job->bias);
    if (!job->bias)
        return spt_fail(err, SPT_E_MEMORY, "logit_bias: out of memory");
    spt_sampling *s = &job->session.sampling;
    cJSON_ArrayForEach(each, item)
    {
        char *end;
        long id = strtol(each->string, &end, 10);
        if (*end || !*each->string || id < 0 || id >= job->serve->info.vocab ||
            !cJSON_IsNumber(each) || fabs(each->valuedouble) > 100)
            return wrong(item, "token ids with numbers from -100 to 100", err);
        job->bias[s->n_bias++] =
            (spt_logit_bias){(int32_t)id, (float)each->valuedouble};
    }
    s->bias = job->bias;
    return SPT_OK;
}

/* Completions: a number of alternatives. Chat: a flag, the number beside. */
static spt_status read_logprobs(serve_job *job, const cJSON *item,
                                spt_error *err)
{
    double value = 0;
    if (job->chat)
        return flag(item, &job->answer.logprobs, err);
    SPT_TRY(whole(item, 0, 20, &value, err));
    job->answer.logprobs = true;
    job->answer.top_logprobs = (size_t)value;
    return SPT_OK;
}

static spt_status read_top_logprobs(serve_job *job, const cJSON *item,
                                    spt_error *err)
{
    double value = 0;
    SPT_TRY(whole(item, 0, 20, &value, err));
    job->answer.top_logprobs = (size_t)value;
    return SPT_OK;
}

static spt_status read_one(serve_job *job, const cJSON *item, spt_error *err)
{
    (void)job;
    return cJSON_IsNumber(item) && item->valuedouble == 1
               ? SPT_OK
               : wrong(item, "1: an answer at a time", err);
}

static spt_status read_nothing(serve_job *job, const cJSON *item,
                               spt_error *err)
{
    (void)job, (void)item, (void)err;
    return SPT_OK;
}

static const field_row fields[] = {
    {"model", read_model, BOTH},
    {"prompt", read_prompt, TEXT},
    {"messages", read_messages, CHAT},
    {"max_tokens", read_max_tokens, BOTH},
    {"max_completion_tokens", read_max_tokens, CHAT},
    {"temperature", read_temperature, BOTH},
    {"top_p", read_top_p, BOTH},
    {"min_p", read_min_p, BOTH},
    {"top_k", read_top_k, BOTH},
    {"seed", read_seed, BOTH},
    {"presence_penalty", read_presence, BOTH},
    {"frequency_penalty", read_frequency, BOTH},
    {"repetition_penalty", read_repetition, BOTH},
    {"repeat_penalty", read_repetition, BOTH},
    {"logit_bias", read_bias, BOTH},
    {"stop", read_stop, BOTH},
    {"stop_token_ids", read_stop_tokens, BOTH},
    {"ignore_eos", read_ignore_eos, BOTH},
    {"stream", read_stream, BOTH},
    {"stream_options", read_stream_options, BOTH},
    {"logprobs", read_logprobs, BOTH},
    {"top_logprobs", read_top_logprobs, CHAT},
    {"draft_length", read_draft_length, BOTH},
    {"n", read_one, BOTH},
    {"best_of", read_one, TEXT},
    {"user", read_nothing, BOTH},
    {"metadata", read_nothing, BOTH},
    {"store", read_nothing, CHAT},
};

static spt_status read_field(serve_job *job, const cJSON *item, spt_error *err)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const field_row *row = &fields[i];
        if (strcmp(row->name, item->string) != 0 ||
            (row->of != BOTH && (row->of == CHAT) != job->chat))
            continue;
        /* null is what is not there. */
        return cJSON_IsNull(item) ? SPT_OK : row->read(job, item, err);
    }
    return spt_fail(err, SPT_E_USAGE, "%.80s: this field is not supported",
                    item->string);
}

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

static spt_status read_body(serve_job *job, const char *body, size_t size,
                            spt_error *err)
{
    const cJSON *item;
    SPT_TRY(spt_json_parse(body, size, "request", &job->body, err));
    if (has_nul(body, size))
        return spt_fail(err, SPT_E_USAGE,
                        "request: has the character U+0000, expected none");
    if (!cJSON_IsObject(job->body))
        return spt_fail(err, SPT_E_USAGE, "request: expected a JSON object");
    job->session = job->serve->options.session;
    /* The defaults of OpenAI's API. */
    job->session.sampling.temperature = 1;
    if (getrandom(&job->session.sampling.seed, 6, 0) != 6)
        return spt_fail(err, SPT_E_IO, "request: no random numbers");
    if (!job->chat)
        job->answer.max_tokens = 16;
    cJSON_ArrayForEach(item, job->body)
    {
        if (cJSON_GetObjectItemCaseSensitive(job->body, item->string) != item)
            return spt_fail(err, SPT_E_USAGE, "%.80s: is there twice",
                            item->string);
        SPT_TRY(read_field(job, item, err));
    }
    if (job->chat ? !job->messages : !job->prompt)
        return spt_fail(err, SPT_E_USAGE, "%s: is missing",
                        job->chat ? "messages" : "prompt");
    if (job->answer.top_logprobs && !job->answer.logprobs)
        return spt_fail(err, SPT_E_USAGE,
                        "top_logprobs: expected logprobs to be true");
    return SPT_OK;
}

spt_status spt_serve_request(spt_serve *serve, bool chat, const char *body,
                             size_t size, serve_job **out, spt_error *err)
{
    serve_job *job = spt_calloc(1, sizeof *job);
    if (!job)
        return spt_fail(err, SPT_E_MEMORY, "request: out of memory");
    job->serve = serve;
    job->chat = chat;
    job->created = (long)time(NULL);
    spt_status status = read_body(job, body, size, err);
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
    cJSON_Delete(job->body);
    cJSON_Delete(job->logprobs);
    spt_free(job->bias);
    spt_buf_free(&job->text);
    spt_buf_free(&job->out);
    spt_free(job);
}
