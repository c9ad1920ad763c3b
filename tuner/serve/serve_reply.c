/* Answers in the shapes of OpenAI's API; metrics in vLLM's names. */
#include <stdio.h>
#include <string.h>

#include "serve_int.h"
#include "session_int.h"

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

/* usage: null where it comes later. */
static cJSON *begin_chunk(const serve_job *job)
{
    cJSON *root =
        begin(job, job->chat ? "chat.completion.chunk" : "text_completion");
    if (job->usage)
        cJSON_AddNullToObject(root, "usage");
    return root;
}

static cJSON *add_choice(cJSON *choices, const serve_choice *of,
                         spt_finish finish)
{
    cJSON *choice = cJSON_CreateObject();
    cJSON_AddItemToArray(choices, choice);
    cJSON_AddNumberToObject(choice, "index", of->index);
    if (finish == SPT_FINISH_NONE)
        cJSON_AddNullToObject(choice, "finish_reason");
    else
        cJSON_AddStringToObject(choice, "finish_reason", reason_of(finish));
    return choice;
}

/* A prompt counts once, however many answers it gets. */
static void set_usage(cJSON *root, const serve_job *job)
{
    size_t prompt = 0, answer = 0;
    for (int i = 0; i < job->n_choices; i++) {
        answer += job->choices[i].tokens;
        if (i % job->copies == 0)
            prompt += spt_serve_prompt_of(&job->choices[i])->count;
    }
    cJSON_DeleteItemFromObject(root, "usage");
    cJSON *usage = cJSON_AddObjectToObject(root, "usage");
    cJSON_AddNumberToObject(usage, "prompt_tokens", (double)prompt);
    cJSON_AddNumberToObject(usage, "completion_tokens", (double)answer);
    cJSON_AddNumberToObject(usage, "total_tokens", (double)(prompt + answer));
}

void spt_serve_print(const cJSON *root, spt_buf *out)
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
    spt_serve_print(root, out);
    spt_buf_puts(out, "\n\n");
    cJSON_Delete(root);
}

/* The token's text, and the bytes that it stands for: those of a part of a
   character have no text of their own, which gives U+FFFD. */
static void add_token(cJSON *entry, const serve_job *job, int32_t token,
                      double logprob)
{
    const spt_engine *engine = job->serve->options.engine;
    const spt_text bytes = spt_tokenizer_bytes(engine->tokenizer, token, true);
    spt_buf text = {0};
    spt_tokenizer_decode(engine->tokenizer, &token, 1, true, &text);
    spt_json_add_text(entry, "token", (spt_text){text.data, text.size});
    spt_buf_free(&text);
    cJSON_AddNumberToObject(entry, "logprob", logprob);
    cJSON *list = cJSON_AddArrayToObject(entry, "bytes");
    for (size_t i = 0; i < bytes.size; i++)
        cJSON_AddItemToArray(list,
                             cJSON_CreateNumber((unsigned char)bytes.data[i]));
}

/* Characters that begin in the text. */
static size_t count_characters(spt_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

/* One entry a token, as chat completions have it, and where it begins. */
static cJSON *logprobs_of(serve_choice *choice, const spt_event *event)
{
    const serve_job *job = choice->job;
    const spt_tokenizer *tokenizer = job->serve->options.engine->tokenizer;
    cJSON *entries = cJSON_CreateArray();
    for (size_t i = 0; i < event->n_tokens; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToArray(entries, entry);
        add_token(entry, job, event->tokens[i], event->logprobs[i]);
        if (!job->chat)
            cJSON_AddNumberToObject(entry, "at", (double)choice->characters);
        choice->characters += count_characters(
            spt_tokenizer_bytes(tokenizer, event->tokens[i], false));
        cJSON *tops = cJSON_AddArrayToObject(entry, "top_logprobs");
        for (size_t t = 0; event->top && t < event->n_top; t++) {
            const spt_token_logprob *row = &event->top[i * event->n_top + t];
            if (row->token < 0)
                break;
            cJSON *top = cJSON_CreateObject();
            cJSON_AddItemToArray(tops, top);
            add_token(top, job, row->token, row->logprob);
        }
    }
    return entries;
}

static const char *token_text(const cJSON *entry)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(entry, "token"));
}

static double number_in(const cJSON *entry, const char *field)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(entry, field));
}

/* The same as completions have it: lists beside each other. The token itself
   is among its alternatives. */
static cJSON *as_lists(const cJSON *entries)
{
    const cJSON *entry, *top;
    cJSON *lists = cJSON_CreateObject();
    cJSON *tokens = cJSON_AddArrayToObject(lists, "tokens");
    cJSON *values = cJSON_AddArrayToObject(lists, "token_logprobs");
    cJSON *tops = cJSON_AddArrayToObject(lists, "top_logprobs");
    cJSON *offsets = cJSON_AddArrayToObject(lists, "text_offset");
    cJSON_ArrayForEach(entry, entries)
    {
        cJSON *row = cJSON_CreateObject();
        const char *text = token_text(entry);
        double value = number_in(entry, "logprob");
        cJSON_AddItemToArray(tokens, cJSON_CreateString(text));
        cJSON_AddItemToArray(values, cJSON_CreateNumber(value));
        cJSON_AddItemToArray(offsets,
                             cJSON_CreateNumber(number_in(entry, "at")));
        cJSON_ArrayForEach(top, cJSON_GetObjectItem(entry, "top_logprobs")) if (
            !cJSON_GetObjectItemCaseSensitive(row, token_text(top)))
            cJSON_AddNumberToObject(row, token_text(top),
                                    number_in(top, "logprob"));
        if (!cJSON_GetObjectItemCaseSensitive(row, text))
            cJSON_AddNumberToObject(row, text, value);
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
        cJSON_AddNullToObject(logprobs, "refusal");
    } else {
        cJSON_AddItemToObject(choice, "logprobs", as_lists(entries));
        cJSON_Delete(entries);
    }
}

static void reply_chunk(serve_choice *choice, spt_text text, bool first,
                        cJSON *entries, spt_finish finish)
{
    serve_job *job = choice->job;
    cJSON *root = begin_chunk(job);
    cJSON *item =
        add_choice(cJSON_AddArrayToObject(root, "choices"), choice, finish);
    if (job->chat) {
        cJSON *delta = cJSON_AddObjectToObject(item, "delta");
        if (first)
            cJSON_AddStringToObject(delta, "role", "assistant");
        if (first || text.size)
            spt_json_add_text(delta, "content", text);
    } else {
        spt_json_add_text(item, "text", text);
    }
    add_logprobs(item, job, entries);
    print_chunk(root, &job->out);
}

void spt_serve_reply_echo(serve_choice *choice, spt_text prompt)
{
    if (choice->job->stream)
        reply_chunk(choice, prompt, false, NULL, SPT_FINISH_NONE);
    else
        spt_buf_add(&choice->text, prompt.data, prompt.size);
}

void spt_serve_reply_event(serve_choice *choice, const spt_event *event)
{
    const serve_job *job = choice->job;
    bool first = choice->tokens == 0;
    cJSON *entries = job->answer.logprobs && event->logprobs
                         ? logprobs_of(choice, event)
                         : NULL;
    choice->tokens += event->n_tokens;
    choice->finish = event->finish;
    if (job->stream) {
        const spt_text text = {event->text, event->text_size};
        if (first && job->chat)
            reply_chunk(choice, (spt_text){"", 0}, true, NULL, SPT_FINISH_NONE);
        if (text.size || entries || event->finish != SPT_FINISH_NONE)
            reply_chunk(choice, text, false, entries, event->finish);
        return;
    }
    spt_buf_add(&choice->text, event->text, event->text_size);
    while (entries && entries->child) {
        cJSON *entry = cJSON_DetachItemFromArray(entries, 0);
        if (!choice->logprobs)
            choice->logprobs = cJSON_CreateArray();
        cJSON_AddItemToArray(choice->logprobs, entry);
    }
    cJSON_Delete(entries);
}

static void end_stream(serve_job *job)
{
    if (job->usage) {
        cJSON *root = begin_chunk(job);
        cJSON_AddArrayToObject(root, "choices");
        set_usage(root, job);
        print_chunk(root, &job->out);
    }
    spt_buf_puts(&job->out, "data: [DONE]\n\n");
}

static void end_choice(serve_choice *choice, cJSON *choices)
{
    const serve_job *job = choice->job;
    const spt_text text = {choice->text.data, choice->text.size};
    cJSON *item = add_choice(choices, choice, choice->finish);
    if (job->chat) {
        cJSON *message = cJSON_AddObjectToObject(item, "message");
        cJSON_AddStringToObject(message, "role", "assistant");
        spt_json_add_text(message, "content", text);
        cJSON_AddNullToObject(message, "refusal");
    } else {
        spt_json_add_text(item, "text", text);
    }
    add_logprobs(item, job, choice->logprobs);
    choice->logprobs = NULL;
}

void spt_serve_reply_end(serve_job *job)
{
    if (job->stream) {
        end_stream(job);
        return;
    }
    cJSON *root = begin(job, job->chat ? "chat.completion" : "text_completion");
    cJSON *choices = cJSON_AddArrayToObject(root, "choices");
    for (int i = 0; i < job->n_choices; i++) {
        end_choice(&job->choices[i], choices);
        job->out.failed |= job->choices[i].text.failed;
    }
    set_usage(root, job);
    spt_serve_print(root, &job->out);
    cJSON_Delete(root);
}

void spt_serve_reply_models(const spt_serve *serve, bool list, spt_buf *out)
{
    cJSON *model = cJSON_CreateObject(), *root = model;
    if (list) {
        root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "object", "list");
        cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "data"), model);
    }
    cJSON_AddStringToObject(model, "id", serve->options.model);
    cJSON_AddStringToObject(model, "object", "model");
    cJSON_AddNumberToObject(model, "created", (double)serve->started);
    cJSON_AddStringToObject(model, "owned_by", "spectune");
    cJSON_AddNumberToObject(model, "max_model_len", serve->info.context);
    spt_serve_print(root, out);
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
