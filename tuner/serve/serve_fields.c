/*
 * The fields of a request. One that nobody knows is left aside, as servers of
 * this API do; one that would change the answer and is not done here is
 * refused, unless it asks for nothing.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve_int.h"

typedef struct field_row {
    const char *name;
    enum { BOTH, TEXT, CHAT } of;
    spt_status (*read)(serve_job *job, const struct field_row *row,
                       const cJSON *item, serve_fault *fault);
    size_t at; /* in the job, of what it sets */
    double least, most; /* of numbers */
} field_row;

static spt_status wrong(const cJSON *item, serve_code code,
                        const char *expected, serve_fault *fault)
{
    return spt_serve_wrong(fault, code, "%.40s: expected %s", item->string,
                           expected);
}

static void *place(serve_job *job, const field_row *row)
{
    return (char *)job + row->at;
}

static spt_status in_range(const field_row *row, const cJSON *item, bool whole,
                           double *out, serve_fault *fault)
{
    static const serve_code codes[2][2] = {{SERVE_REAL_LOW, SERVE_REAL_HIGH},
                                           {SERVE_LOW, SERVE_HIGH}};
    double value = item->valuedouble;
    if (cJSON_IsNumber(item) && value >= row->least && value <= row->most) {
        *out = value;
        return SPT_OK;
    }
    return spt_serve_wrong(
        fault,
        cJSON_IsNumber(item) ? codes[whole][value > row->most] : SERVE_TYPE,
        "%s: expected a number from %.16g to %.16g", item->string, row->least,
        row->most);
}

static spt_status number(const field_row *row, const cJSON *item, double *out,
                         serve_fault *fault)
{
    return in_range(row, item, false, out, fault);
}

static spt_status whole(const field_row *row, const cJSON *item, double *out,
                        serve_fault *fault)
{
    double value = 0;
    SPT_TRY(in_range(row, item, true, &value, fault));
    if (value != floor(value))
        return wrong(item, SERVE_TYPE, "a whole number", fault);
    *out = value;
    return SPT_OK;
}

static spt_status flag(const cJSON *item, bool *out, serve_fault *fault)
{
    if (!cJSON_IsBool(item))
        return wrong(item, SERVE_TYPE, "true or false", fault);
    *out = cJSON_IsTrue(item);
    return SPT_OK;
}

static spt_status read_real(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    return number(row, item, place(job, row), fault);
}

static spt_status read_int(serve_job *job, const field_row *row,
                           const cJSON *item, serve_fault *fault)
{
    double value = 0;
    SPT_TRY(whole(row, item, &value, fault));
    *(int *)place(job, row) = (int)value;
    return SPT_OK;
}

static spt_status read_size(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    double value = 0;
    SPT_TRY(whole(row, item, &value, fault));
    *(size_t *)place(job, row) = (size_t)value;
    return SPT_OK;
}

static spt_status read_flag(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    return flag(item, place(job, row), fault);
}

/* What is 0 here is "all" to the engine. */
static spt_status read_top_p(serve_job *job, const field_row *row,
                             const cJSON *item, serve_fault *fault)
{
    double value = 0;
    SPT_TRY(number(row, item, &value, fault));
    job->session.sampling.top_p = value > 1e-6 ? value : 1e-6;
    return SPT_OK;
}

/* Here -1 is "all", too. */
static spt_status read_top_k(serve_job *job, const field_row *row,
                             const cJSON *item, serve_fault *fault)
{
    double value = 0;
    SPT_TRY(whole(row, item, &value, fault));
    job->session.sampling.top_k = value > 0 ? (int)value : 0;
    return SPT_OK;
}

static spt_status read_seed(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    double value = 0;
    SPT_TRY(whole(row, item, &value, fault));
    job->session.sampling.seed = (uint64_t)(int64_t)value;
    return SPT_OK;
}

static spt_status read_model(serve_job *job, const field_row *row,
                             const cJSON *item, serve_fault *fault)
{
    const char *name = cJSON_GetStringValue(item);
    (void)row;
    if (!name)
        return wrong(item, SERVE_TYPE, "a text", fault);
    if (strcmp(name, job->serve->options.model) != 0)
        return spt_serve_wrong(fault, SERVE_MODEL,
                               "model: '%.80s' is not served, expected %.200s",
                               name, job->serve->options.model);
    return SPT_OK;
}

static spt_status read_prompt(serve_job *job, const field_row *row,
                              const cJSON *item, serve_fault *fault)
{
    (void)row;
    return spt_serve_read_prompt(job, item, fault);
}

static spt_status read_messages(serve_job *job, const field_row *row,
                                const cJSON *item, serve_fault *fault)
{
    (void)row;
    return spt_serve_read_messages(job, item, fault);
}

static spt_status read_stream_options(serve_job *job, const field_row *row,
                                      const cJSON *item, serve_fault *fault)
{
    const cJSON *usage =
        cJSON_GetObjectItemCaseSensitive(item, "include_usage");
    (void)row;
    job->stream_options = true;
    if (!cJSON_IsObject(item))
        return wrong(item, SERVE_TYPE, "an object", fault);
    return usage && !cJSON_IsNull(usage) ? flag(usage, &job->usage, fault)
                                         : SPT_OK;
}

static spt_status read_stop(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    const cJSON *each = cJSON_IsArray(item) ? item->child : item;
    (void)row;
    for (; each; each = cJSON_IsArray(item) ? each->next : NULL) {
        const char *text = cJSON_GetStringValue(each);
        if (!text || !*text || job->answer.n_stop_texts == SERVE_STOPS)
            return wrong(item,
                         !text   ? SERVE_TYPE
                         : *text ? SERVE_LONG_LIST
                                 : SERVE_VALUE,
                         "up to 16 texts that are not empty", fault);
        job->stops[job->answer.n_stop_texts++] = text;
    }
    job->answer.stop_texts = job->stops;
    return SPT_OK;
}

static spt_status read_stop_tokens(serve_job *job, const field_row *row,
                                   const cJSON *item, serve_fault *fault)
{
    const cJSON *each;
    size_t n = 0;
    (void)row;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > SERVE_STOP_TOKENS)
        return wrong(item, cJSON_IsArray(item) ? SERVE_LONG_LIST : SERVE_TYPE,
                     "a list of up to 64 token ids", fault);
    cJSON_ArrayForEach(each, item)
    {
        if (!cJSON_IsNumber(each))
            return wrong(item, SERVE_TYPE, "a list of token ids", fault);
        job->stop_tokens[n++] = each->valueint;
    }
    job->answer.stop_tokens = job->stop_tokens;
    job->answer.n_stop_tokens = n;
    return SPT_OK;
}

static spt_status read_bias(serve_job *job, const field_row *row,
                            const cJSON *item, serve_fault *fault)
{
    const cJSON *each;
    int count = cJSON_GetArraySize(item);
    (void)row;
    if (!cJSON_IsObject(item) || count > SERVE_BIASES)
        return wrong(item, cJSON_IsObject(item) ? SERVE_VALUE : SERVE_TYPE,
                     "an object of up to 1024 token ids with numbers", fault);
    job->bias = spt_calloc((size_t)count + 1, sizeof *job->bias);
    if (!job->bias)
        return spt_serve_wrong(fault, SERVE_BUSY, "logit_bias: out of memory");
    spt_sampling *s = &job->session.sampling;
    cJSON_ArrayForEach(each, item)
    {
        char *end;
        long id = strtol(each->string, &end, 10);
        if (*end || !*each->string || id < 0 || id >= job->serve->info.vocab ||
            !cJSON_IsNumber(each) || fabs(each->valuedouble) > 100)
            return wrong(item, SERVE_VALUE,
                         "token ids with numbers from -100 to 100", fault);
        job->bias[s->n_bias++] =
            (spt_logit_bias){(int32_t)id, (float)each->valuedouble};
    }
    s->bias = job->bias;
    return SPT_OK;
}

/* Completions: a number of alternatives. Chat: a flag, the number beside. */
static spt_status read_logprobs(serve_job *job, const field_row *row,
                                const cJSON *item, serve_fault *fault)
{
    if (job->chat)
        return flag(item, &job->logprobs, fault);
    SPT_TRY(read_size(job, row, item, fault));
    job->logprobs = true;
    return SPT_OK;
}

static bool is_text(const cJSON *item, const char *text)
{
    return cJSON_IsString(item) && strcmp(item->valuestring, text) == 0;
}

static spt_status read_format(serve_job *job, const field_row *row,
                              const cJSON *item, serve_fault *fault)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "type");
    (void)job, (void)row;
    if (is_text(type, "text"))
        return SPT_OK;
    return spt_serve_wrong(
        fault, SERVE_NO_SUCH,
        "%s: the type '%.40s' is not supported, expected text", item->string,
        cJSON_IsString(type) ? type->valuestring : "?");
}

static spt_status read_tool_choice(serve_job *job, const field_row *row,
                                   const cJSON *item, serve_fault *fault)
{
    (void)job, (void)row;
    return is_text(item, "none") || is_text(item, "auto")
               ? SPT_OK
               : wrong(item, SERVE_NO_SUCH, "none: tools are not supported",
                       fault);
}

static spt_status read_modalities(serve_job *job, const field_row *row,
                                  const cJSON *item, serve_fault *fault)
{
    const cJSON *each;
    (void)job, (void)row;
    cJSON_ArrayForEach(each, item) if (!is_text(each, "text")) return wrong(
        item, SERVE_NO_SUCH, "text: nothing else is supported", fault);
    return SPT_OK;
}

/* What would change the answer. */
static spt_status read_unless_empty(serve_job *job, const field_row *row,
                                    const cJSON *item, serve_fault *fault)
{
    (void)job, (void)row;
    bool list = cJSON_IsArray(item) || cJSON_IsObject(item);
    if (cJSON_IsFalse(item) || is_text(item, "") || (list && !item->child))
        return SPT_OK;
    return spt_serve_wrong(fault, SERVE_UNSUPPORTED, "%s: is not supported",
                           item->string);
}

/* Those that may not be called change nothing. */
static spt_status read_tools(serve_job *job, const field_row *row,
                             const cJSON *item, serve_fault *fault)
{
    const cJSON *choice =
        cJSON_GetObjectItemCaseSensitive(job->body, "tool_choice");
    return is_text(choice, "none") ? SPT_OK
                                   : read_unless_empty(job, row, item, fault);
}

#define SAMPLING(field) offsetof(serve_job, session.sampling.field)
#define ANSWER(field) offsetof(serve_job, answer.field)
#define JOB(field) offsetof(serve_job, field)

/* clang-format off */
static const field_row fields[] = {
    {"model", BOTH, read_model, 0, 0, 0},
    {"prompt", TEXT, read_prompt, 0, 0, 0},
    {"messages", CHAT, read_messages, 0, 0, 0},
    {"max_tokens", TEXT, read_size, ANSWER(max_tokens), 0, 1 << 24},
    {"max_tokens", CHAT, read_size, ANSWER(max_tokens), 1, 1 << 24},
    {"max_completion_tokens", CHAT, read_size, JOB(chat_tokens), 1, 1 << 24},
    {"temperature", BOTH, read_real, SAMPLING(temperature), 0, 100},
    {"top_p", BOTH, read_top_p, 0, 0, 1},
    {"min_p", BOTH, read_real, SAMPLING(min_p), 0, 1},
    {"top_k", BOTH, read_top_k, 0, -1, 1 << 24},
    {"seed", BOTH, read_seed, 0, -9007199254740992.0, 9007199254740992.0},
    {"presence_penalty", BOTH, read_real, SAMPLING(presence_penalty),
     -100, 100},
    {"frequency_penalty", BOTH, read_real, SAMPLING(frequency_penalty),
     -100, 100},
    {"repetition_penalty", BOTH, read_real, SAMPLING(repeat_penalty),
     1e-3, 100},
    {"repeat_penalty", BOTH, read_real, SAMPLING(repeat_penalty), 1e-3, 100},
    {"logit_bias", BOTH, read_bias, 0, 0, 0},
    {"stop", BOTH, read_stop, 0, 0, 0},
    {"stop_token_ids", BOTH, read_stop_tokens, 0, 0, 0},
    {"ignore_eos", BOTH, read_flag, ANSWER(ignore_end), 0, 0},
    {"stream", BOTH, read_flag, JOB(stream), 0, 0},
    {"stream_options", BOTH, read_stream_options, 0, 0, 0},
    {"logprobs", BOTH, read_logprobs, ANSWER(top_logprobs), 0, 20},
    {"top_logprobs", CHAT, read_size, ANSWER(top_logprobs), 0, 20},
    {"echo", TEXT, read_flag, JOB(echo), 0, 0},
    {"draft_length", BOTH, read_int, JOB(session.draft_length),
     -1, SPT_DRAFT_LENGTH_MAX},
    {"n", BOTH, read_int, JOB(n), 1, SERVE_CHOICES},
    {"best_of", TEXT, read_int, JOB(best_of), 1, SERVE_CHOICES},
    {"response_format", BOTH, read_format, 0, 0, 0},
    {"tool_choice", CHAT, read_tool_choice, 0, 0, 0},
    {"function_call", CHAT, read_tool_choice, 0, 0, 0},
    {"modalities", CHAT, read_modalities, 0, 0, 0},
    {"tools", CHAT, read_tools, 0, 0, 0},
    {"functions", CHAT, read_unless_empty, 0, 0, 0},
    {"audio", CHAT, read_unless_empty, 0, 0, 0},
    {"suffix", TEXT, read_unless_empty, 0, 0, 0},
    {"prompt_logprobs", BOTH, read_unless_empty, 0, 0, 0},
    {"prompt_embeds", TEXT, read_unless_empty, 0, 0, 0},
    {"use_beam_search", BOTH, read_unless_empty, 0, 0, 0},
    {"structured_outputs", BOTH, read_unless_empty, 0, 0, 0},
    {"guided_json", BOTH, read_unless_empty, 0, 0, 0},
    {"guided_regex", BOTH, read_unless_empty, 0, 0, 0},
    {"guided_choice", BOTH, read_unless_empty, 0, 0, 0},
    {"guided_grammar", BOTH, read_unless_empty, 0, 0, 0},
    {"json_schema", BOTH, read_unless_empty, 0, 0, 0},
    {"grammar", BOTH, read_unless_empty, 0, 0, 0},
};
/* clang-format on */

spt_status spt_serve_field(serve_job *job, const cJSON *item,
                           serve_fault *fault)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const field_row *row = &fields[i];
        if (strcmp(row->name, item->string) != 0 ||
            (row->of != BOTH && (row->of == CHAT) != job->chat))
            continue;
        /* Only of fields that are known: a body has millions of others. */
        if (cJSON_GetObjectItemCaseSensitive(job->body, row->name) != item)
            return spt_serve_wrong(fault, SERVE_VALUE, "%s: is there twice",
                                   row->name);
        /* null is what is not there. */
        return cJSON_IsNull(item) ? SPT_OK : row->read(job, row, item, fault);
    }
    return SPT_OK;
}
