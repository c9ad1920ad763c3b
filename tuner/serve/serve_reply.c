/* Answers in the shapes of OpenAI's API; metrics in vLLM's names. */
#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

#include "serve_int.h"

static const char *reason_of(spt_finish finish)
{
    switch (finish) {
    case SPT_FINISH_STOP_TOKEN:
    case SPT_FINISH_STOP_TEXT:
        return "stop";
    case SPT_FINISH_CANCELLED:
        return "abort";
    default:
        return "length";
    }
}

/* The parts that every answer and every chunk begin with. */
static cJSON *begin(const serve_job *job, const char *object)
{
    char id[64];
    cJSON *root = cJSON_CreateObject();
    snprintf(id, sizeof id, "%s-%lu", job->chat ? "chatcmpl" : "cmpl", job->id);
    cJSON_AddStringToObject(root, "id", id);
    cJSON_AddStringToObject(root, "object", object);
    cJSON_AddNumberToObject(root, "created", (double)job->created);
    cJSON_AddStringToObject(root, "model", job->serve->options.model);
    return root;
}

static cJSON *add_choice(cJSON *root, spt_finish finish)
{
    cJSON *choice = cJSON_CreateObject();
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "choices"), choice);
    cJSON_AddNumberToObject(choice, "index", 0);
    if (finish == SPT_FINISH_NONE)
        cJSON_AddNullToObject(choice, "finish_reason");
    else
        cJSON_AddStringToObject(choice, "finish_reason", reason_of(finish));
    return choice;
}

static void add_usage(cJSON *root, const serve_job *job)
{
    cJSON *usage = cJSON_AddObjectToObject(root, "usage");
    cJSON_AddNumberToObject(usage, "prompt_tokens", (double)job->prompt_tokens);
    cJSON_AddNumberToObject(usage, "completion_tokens", (double)job->tokens);
    cJSON_AddNumberToObject(usage, "total_tokens",
                            (double)(job->prompt_tokens + job->tokens));
}

static void print(const cJSON *root, spt_buf *out)
{
    char *text = cJSON_PrintUnformatted(root);
    if (text)
        spt_buf_puts(out, text);
    else
        out->failed = true;
    cJSON_free(text);
}

static void print_chunk(cJSON *root, spt_buf *out)
{
    spt_buf_puts(out, "data: ");
    print(root, out);
    spt_buf_puts(out, "\n\n");
    cJSON_Delete(root);
}

/* The token's text; a part of a character gives U+FFFD. */
static void add_token(cJSON *entry, const serve_job *job, int32_t token)
{
    char text[256] = {0};
    size_t size = 0;
    spt_error ignored;
    spt_engine_decode(job->serve->options.engine, &token, 1, text,
                      sizeof text - 1, &size, &ignored);
    cJSON_AddStringToObject(entry, "token", text);
}

/* One entry a token, as chat completions have it. */
static cJSON *logprobs_of(const serve_job *job, const spt_event *event)
{
    cJSON *entries = cJSON_CreateArray();
    for (size_t i = 0; i < event->n_tokens; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToArray(entries, entry);
        add_token(entry, job, event->tokens[i]);
        cJSON_AddNumberToObject(entry, "logprob", event->logprobs[i]);
        cJSON *tops = cJSON_AddArrayToObject(entry, "top_logprobs");
        for (size_t t = 0; event->top && t < event->n_top; t++) {
            const spt_token_logprob *row = &event->top[i * event->n_top + t];
            cJSON *top = cJSON_CreateObject();
            cJSON_AddItemToArray(tops, top);
            add_token(top, job, row->token);
            cJSON_AddNumberToObject(top, "logprob", row->logprob);
        }
    }
    return entries;
}

static const char *token_text(const cJSON *entry)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(entry, "token"));
}

/* The same as completions have it: lists beside each other. */
static cJSON *as_lists(const cJSON *entries)
{
    const cJSON *entry, *top;
    cJSON *lists = cJSON_CreateObject();
    cJSON *tokens = cJSON_AddArrayToObject(lists, "tokens");
    cJSON *values = cJSON_AddArrayToObject(lists, "token_logprobs");
    cJSON *tops = cJSON_AddArrayToObject(lists, "top_logprobs");
    cJSON_ArrayForEach(entry, entries)
    {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(tokens, cJSON_CreateString(token_text(entry)));
        cJSON_AddItemToArray(
            values, cJSON_CreateNumber(
                        cJSON_GetObjectItem(entry, "logprob")->valuedouble));
        cJSON_ArrayForEach(top, cJSON_GetObjectItem(entry, "top_logprobs"))
            cJSON_AddNumberToObject(
                row, token_text(top),
                cJSON_GetObjectItem(top, "logprob")->valuedouble);
        cJSON_AddItemToArray(tops, row);
    }
    return lists;
}

/* Takes the entries. */
static void add_logprobs(cJSON *choice, const serve_job *job, cJSON *entries)
{
    if (!entries) {
        cJSON_AddNullToObject(choice, "logprobs");
    } else if (job->chat) {
        cJSON *logprobs = cJSON_AddObjectToObject(choice, "logprobs");
        cJSON_AddItemToObject(logprobs, "content", entries);
    } else {
        cJSON_AddItemToObject(choice, "logprobs", as_lists(entries));
        cJSON_Delete(entries);
    }
}

static void reply_chunk(serve_job *job, spt_text text, bool first,
                        cJSON *entries, spt_finish finish)
{
    cJSON *root =
        begin(job, job->chat ? "chat.completion.chunk" : "text_completion");
    cJSON *choice = add_choice(root, finish);
    if (job->chat) {
        cJSON *delta = cJSON_AddObjectToObject(choice, "delta");
        if (first)
            cJSON_AddStringToObject(delta, "role", "assistant");
        if (first || text.size)
            spt_json_add_text(delta, "content", text);
    } else {
        spt_json_add_text(choice, "text", text);
    }
    add_logprobs(choice, job, entries);
    print_chunk(root, &job->out);
}

void spt_serve_reply_event(serve_job *job, const spt_event *event)
{
    bool first = job->tokens == 0;
    cJSON *entries = job->answer.logprobs && event->logprobs
                         ? logprobs_of(job, event)
                         : NULL;
    job->tokens += event->n_tokens;
    job->finish = event->finish;
    if (job->stream) {
        const spt_text text = {event->text, event->text_size};
        if (first && job->chat)
            reply_chunk(job, (spt_text){"", 0}, true, NULL, SPT_FINISH_NONE);
        if (text.size || entries || event->finish != SPT_FINISH_NONE)
            reply_chunk(job, text, false, entries, event->finish);
        return;
    }
    spt_buf_add(&job->text, event->text, event->text_size);
    while (entries && entries->child) {
        cJSON *entry = cJSON_DetachItemFromArray(entries, 0);
        if (!job->logprobs)
            job->logprobs = cJSON_CreateArray();
        cJSON_AddItemToArray(job->logprobs, entry);
    }
    cJSON_Delete(entries);
}

static void end_stream(serve_job *job)
{
    if (job->usage) {
        cJSON *root =
            begin(job, job->chat ? "chat.completion.chunk" : "text_completion");
        cJSON_AddArrayToObject(root, "choices");
        add_usage(root, job);
        print_chunk(root, &job->out);
    }
    spt_buf_puts(&job->out, "data: [DONE]\n\n");
}

void spt_serve_reply_end(serve_job *job)
{
    if (job->stream) {
        end_stream(job);
        return;
    }
    const spt_text text = {job->text.data, job->text.size};
    cJSON *root = begin(job, job->chat ? "chat.completion" : "text_completion");
    cJSON *choice = add_choice(root, job->finish);
    if (job->chat) {
        cJSON *message = cJSON_AddObjectToObject(choice, "message");
        cJSON_AddStringToObject(message, "role", "assistant");
        spt_json_add_text(message, "content", text);
    } else {
        spt_json_add_text(choice, "text", text);
    }
    add_logprobs(choice, job, job->logprobs);
    job->logprobs = NULL;
    add_usage(root, job);
    print(root, &job->out);
    cJSON_Delete(root);
}

/* What an error quotes may be no UTF-8, or end within a character. */
static void keep_utf8(char *text)
{
    utf8proc_int32_t character;
    for (utf8proc_ssize_t n; *text; text += n) {
        n = utf8proc_iterate((utf8proc_uint8_t *)text, -1, &character);
        if (n < 1) {
            *text = '?';
            n = 1;
        }
    }
}

void spt_serve_reply_error(const spt_error *err, const char *type, spt_buf *out)
{
    spt_error shown = *err;
    keep_utf8(shown.text);
    cJSON *root = cJSON_CreateObject();
    cJSON *error = cJSON_AddObjectToObject(root, "error");
    cJSON_AddStringToObject(error, "message", shown.text);
    cJSON_AddStringToObject(error, "type", type);
    cJSON_AddNullToObject(error, "param");
    cJSON_AddNullToObject(error, "code");
    print(root, out);
    cJSON_Delete(root);
}

void spt_serve_reply_models(const spt_serve *serve, spt_buf *out)
{
    cJSON *root = cJSON_CreateObject(), *model = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "object", "list");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "data"), model);
    cJSON_AddStringToObject(model, "id", serve->options.model);
    cJSON_AddStringToObject(model, "object", "model");
    cJSON_AddNumberToObject(model, "created", (double)serve->started);
    cJSON_AddStringToObject(model, "owned_by", "spectune");
    cJSON_AddNumberToObject(model, "max_model_len", serve->info.context);
    print(root, out);
    cJSON_Delete(root);
}

/* name{model_name="...",extra} value, with the lines that say what it is. */
static void metric(const spt_serve *serve, const char *name, const char *type,
                   const char *extra, unsigned long long value, spt_buf *out)
{
    if (type)
        spt_buf_printf(out, "# TYPE %s %s\n", name, type);
    spt_buf_printf(out, "%s{model_name=\"", name);
    for (const char *p = serve->options.model; *p; p++)
        spt_buf_printf(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
    spt_buf_printf(out, "\"%s%s} %llu\n", *extra ? "," : "", extra, value);
}

static void finish_metrics(const spt_serve *serve, spt_buf *out)
{
    static const char name[] = "vllm:request_success_total";
    const unsigned long *n = serve->counts.requests;
    const struct {
        const char *label;
        unsigned long count;
    } rows[] = {
        {"finished_reason=\"stop\"",
         n[SPT_FINISH_STOP_TOKEN] + n[SPT_FINISH_STOP_TEXT]},
        {"finished_reason=\"length\"",
         n[SPT_FINISH_LENGTH] + n[SPT_FINISH_CONTEXT]},
        {"finished_reason=\"abort\"", n[SPT_FINISH_CANCELLED]},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        metric(serve, name, i ? NULL : "counter", rows[i].label, rows[i].count,
               out);
}

void spt_serve_reply_metrics(spt_serve *serve, spt_buf *out)
{
    pthread_mutex_lock(&serve->lock);
    const spt_session_stats *s = &serve->counts.sum;
    const struct {
        const char *name, *type;
        unsigned long long value;
    } rows[] = {
        {"vllm:num_requests_running", "gauge",
         (unsigned long long)serve->running},
        {"vllm:num_requests_waiting", "gauge",
         (unsigned long long)serve->waiting},
        {"vllm:prompt_tokens_total", "counter", s->prompt_tokens},
        {"vllm:prompt_tokens_cached_total", "counter", s->reused_tokens},
        {"vllm:generation_tokens_total", "counter", s->tokens},
        {"vllm:spec_decode_num_drafts_total", "counter", s->drafts},
        {"vllm:spec_decode_num_draft_tokens_total", "counter", s->draft_tokens},
        {"vllm:spec_decode_num_accepted_tokens_total", "counter",
         s->accepted_tokens},
        {"spectune:requests_failed_total", "counter", serve->counts.failed},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        metric(serve, rows[i].name, rows[i].type, "", rows[i].value, out);
    for (int d = 0; d < SPT_DRAFT_LENGTH_MAX && s->drafted_at[d]; d++) {
        char extra[40];
        snprintf(extra, sizeof extra, "position=\"%d\"", d);
        metric(serve, "vllm:spec_decode_num_accepted_tokens_per_pos_total",
               d ? NULL : "counter", extra, s->accepted_at[d], out);
    }
    finish_metrics(serve, out);
    pthread_mutex_unlock(&serve->lock);
}
