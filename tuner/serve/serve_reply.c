/* Answers in the shapes of OpenAI's API; metrics in vLLM's names. */
#include <math.h>
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
    size_t prompt = 0, answer = 0, cached = 0;
    for (int i = 0; i < job->n_choices; i++) {
        answer += job->choices[i].tokens;
        if (i % job->copies == 0) {
            prompt += spt_serve_prompt_of(&job->choices[i])->count;
            cached += job->choices[i].reused;
        }
    }
    cJSON_DeleteItemFromObject(root, "usage");
    cJSON *usage = cJSON_AddObjectToObject(root, "usage");
    cJSON_AddNumberToObject(usage, "prompt_tokens", (double)prompt);
    cJSON_AddNumberToObject(usage, "completion_tokens", (double)answer);
    cJSON_AddNumberToObject(usage, "total_tokens", (double)(prompt + answer));
    cJSON *details = cJSON_AddObjectToObject(usage, "prompt_tokens_details");
    cJSON_AddNumberToObject(details, "cached_tokens", (double)cached);
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

/* What a chunk says beside its text. */
typedef struct chunk {
    spt_text text;
    bool first; /* of a chat */
    const serve_scores *prompt, *scores;
    spt_finish finish;
} chunk;

static const serve_scores no_scores;

static void reply_chunk(serve_choice *choice, const chunk *c)
{
    serve_job *job = choice->job;
    cJSON *root = begin_chunk(job);
    cJSON *item =
        add_choice(cJSON_AddArrayToObject(root, "choices"), choice, c->finish);
    if (job->chat) {
        cJSON *delta = cJSON_AddObjectToObject(item, "delta");
        if (c->first)
            cJSON_AddStringToObject(delta, "role", "assistant");
        if (c->first || c->text.size)
            spt_json_add_text(delta, "content", c->text);
    } else {
        spt_json_add_text(item, "text", c->text);
    }
    spt_serve_add_scores(item, job, c->prompt, c->scores, &choice->characters);
    print_chunk(root, &job->out);
}

void spt_serve_reply_echo(serve_choice *choice, spt_text prompt)
{
    spt_buf_add(&choice->text, prompt.data, prompt.size);
}

void spt_serve_reply_prompt(serve_choice *choice, const spt_prompt_event *event)
{
    serve_prompt *prompt = spt_serve_prompt_of(choice);
    double none = NAN;
    spt_token_logprob tops[20] = {{0}};
    const serve_scores first = {.tokens = prompt->tokens,
                                .logprobs = &none,
                                .top = tops,
                                .n = 1,
                                .n_top = event ? event->n_top : 0};
    if (!prompt->scores.n)
        spt_serve_scores_add(&prompt->scores, &first);
    if (!event)
        return;
    const serve_scores more = {.tokens = (int32_t *)(uintptr_t)event->tokens,
                               .logprobs = (double *)(uintptr_t)event->logprobs,
                               .top = (void *)(uintptr_t)event->top,
                               .n = event->n_tokens,
                               .n_top = event->n_top};
    spt_serve_scores_add(&prompt->scores, &more);
}

/* What comes before the first token of a stream. */
static void begin_stream(serve_choice *choice)
{
    const serve_job *job = choice->job;
    chunk c = {.text = {"", 0}, .prompt = &no_scores, .scores = &no_scores};
    if (job->chat) {
        c.first = true;
        reply_chunk(choice, &c);
    }
    if (job->echo) {
        c.text = (spt_text){choice->text.data, choice->text.size};
        c.prompt = &spt_serve_prompt_of(choice)->scores;
        reply_chunk(choice, &c);
        spt_buf_free(&choice->text);
        choice->text = (spt_buf){0};
    }
}

static void show(serve_choice *choice, const spt_event *event,
                 const serve_scores *scores)
{
    const chunk c = {.text = {event->text, event->text_size},
                     .prompt = &no_scores,
                     .scores = scores,
                     .finish = event->finish};
    if (!choice->job->stream) {
        spt_buf_add(&choice->text, event->text, event->text_size);
        spt_serve_scores_add(&choice->scores, scores);
    } else if (c.text.size || (choice->job->logprobs && scores->n) ||
               event->finish != SPT_FINISH_NONE) {
        reply_chunk(choice, &c);
    }
}

void spt_serve_reply_event(serve_choice *choice, const spt_event *event)
{
    const serve_job *job = choice->job;
    const serve_scores scores = {.tokens = (int32_t *)(uintptr_t)event->tokens,
                                 .logprobs =
                                     (double *)(uintptr_t)event->logprobs,
                                 .top = (void *)(uintptr_t)event->top,
                                 .n = event->logprobs ? event->n_tokens : 0,
                                 .n_top = event->n_top};
    const spt_event nothing = {.text = "", .finish = SPT_FINISH_LENGTH};
    bool first = !choice->begun;
    choice->begun = true;
    choice->finish =
        job->silent && event->n_tokens ? SPT_FINISH_LENGTH : event->finish;
    if (first && job->echo && job->logprobs &&
        !spt_serve_prompt_of(choice)->scores.n)
        spt_serve_reply_prompt(choice, NULL); /* of a single token */
    if (first && job->stream)
        begin_stream(choice);
    if (job->silent) {
        show(choice, &nothing, &no_scores);
        return;
    }
    choice->tokens += event->n_tokens;
    show(choice, event, &scores);
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

static void end_choice(serve_choice *choice, int index, cJSON *choices)
{
    const serve_job *job = choice->job;
    const spt_text text = {choice->text.data, choice->text.size};
    size_t at = 0;
    cJSON *item = add_choice(choices, choice, choice->finish);
    cJSON_SetNumberValue(cJSON_GetObjectItem(item, "index"), index);
    if (job->chat) {
        cJSON *message = cJSON_AddObjectToObject(item, "message");
        cJSON_AddStringToObject(message, "role", "assistant");
        spt_json_add_text(message, "content", text);
        cJSON_AddNullToObject(message, "refusal");
    } else {
        spt_json_add_text(item, "text", text);
    }
    spt_serve_add_scores(item, job,
                         job->echo ? &spt_serve_prompt_of(choice)->scores
                                   : &no_scores,
                         &choice->scores, &at);
}

static double mean_logprob(const serve_choice *choice)
{
    double sum = 0;
    for (size_t i = 0; i < choice->scores.n; i++)
        sum += choice->scores.logprobs[i];
    return choice->scores.n ? sum / (double)choice->scores.n : 0;
}

/* The next of those to a prompt, by what the model thinks of a token of
   theirs; the first of equals, and in their order when all are given. */
static serve_choice *next_best(serve_job *job, int prompt)
{
    serve_choice *best = NULL, *all = &job->choices[prompt * job->copies];
    for (int i = 0; i < job->copies; i++)
        if (!all[i].given &&
            (!best || (job->copies > job->n &&
                       mean_logprob(&all[i]) > mean_logprob(best))))
            best = &all[i];
    best->given = true;
    return best;
}

void spt_serve_reply_end(serve_job *job)
{
    if (job->stream) {
        end_stream(job);
        return;
    }
    cJSON *root = begin(job, job->chat ? "chat.completion" : "text_completion");
    cJSON *choices = cJSON_AddArrayToObject(root, "choices");
    for (int i = 0; i < job->n_choices / job->copies * job->n; i++)
        end_choice(next_best(job, i / job->n), i, choices);
    for (int i = 0; i < job->n_choices; i++)
        job->out.failed |=
            job->choices[i].text.failed || job->choices[i].scores.failed;
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
