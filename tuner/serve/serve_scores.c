/* Log-probabilities of tokens, kept in few bytes, shown as the API has them. */
#include <math.h>
#include <string.h>

#include "serve_int.h"
#include "session_int.h"

static bool room_for(serve_scores *s, size_t more)
{
    size_t wanted = s->n + more, room = s->room, top_room = s->room;
    return spt_grow(&s->tokens, &room, wanted, sizeof *s->tokens) &&
           (!s->n_top ||
            spt_grow(&s->top, &top_room, wanted, s->n_top * sizeof *s->top)) &&
           spt_grow(&s->logprobs, &s->room, wanted, sizeof *s->logprobs);
}

void spt_serve_scores_add(serve_scores *s, const serve_scores *more)
{
    if (!s->n)
        s->n_top = more->n_top;
    if (s->failed || !room_for(s, more->n)) {
        s->failed = true;
        return;
    }
    memcpy(s->tokens + s->n, more->tokens, more->n * sizeof *s->tokens);
    memcpy(s->logprobs + s->n, more->logprobs, more->n * sizeof *s->logprobs);
    if (s->n_top && more->top)
        memcpy(s->top + s->n * s->n_top, more->top,
               more->n * s->n_top * sizeof *s->top);
    s->n += more->n;
}

void spt_serve_scores_free(serve_scores *s)
{
    spt_free(s->tokens);
    spt_free(s->logprobs);
    spt_free(s->top);
    *s = (serve_scores){0};
}

/* JSON has no infinity; what no number stands for is the lowest. */
static double shown(double logprob)
{
    return isfinite(logprob) ? logprob : -9999;
}

static void token_text(const serve_job *job, int32_t token, spt_buf *text)
{
    const spt_engine *engine = job->serve->options.engine;
    text->size = 0;
    spt_buf_puts(text, "");
    spt_tokenizer_decode(engine->tokenizer, &token, 1, true, text);
}

/* The token's text, and the bytes that it stands for: those of a part of a
   character have no text of their own, which gives U+FFFD. */
static void add_token(cJSON *entry, const serve_job *job, int32_t token,
                      double logprob)
{
    const spt_engine *engine = job->serve->options.engine;
    const spt_text bytes = spt_tokenizer_bytes(engine->tokenizer, token, true);
    spt_buf text = {0};
    token_text(job, token, &text);
    spt_json_add_text(entry, "token", (spt_text){text.data, text.size});
    spt_buf_free(&text);
    cJSON_AddNumberToObject(entry, "logprob", shown(logprob));
    cJSON *list = cJSON_AddArrayToObject(entry, "bytes");
    for (size_t i = 0; i < bytes.size; i++)
        cJSON_AddItemToArray(list,
                             cJSON_CreateNumber((unsigned char)bytes.data[i]));
}

static void add_entries(cJSON *list, const serve_job *job,
                        const serve_scores *s)
{
    for (size_t i = 0; i < s->n; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddItemToArray(list, entry);
        add_token(entry, job, s->tokens[i], s->logprobs[i]);
        cJSON *tops = cJSON_AddArrayToObject(entry, "top_logprobs");
        for (size_t t = 0; s->top && t < s->n_top; t++) {
            const spt_token_logprob *row = &s->top[i * s->n_top + t];
            if (row->token < 0)
                break;
            cJSON *top = cJSON_CreateObject();
            cJSON_AddItemToArray(tops, top);
            add_token(top, job, row->token, row->logprob);
        }
    }
}

/* Characters that begin in the text. */
static size_t count_characters(spt_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

static void add_value(cJSON *row, const serve_job *job, int32_t token,
                      double logprob)
{
    spt_buf text = {0};
    token_text(job, token, &text);
    if (text.data && !cJSON_GetObjectItemCaseSensitive(row, text.data))
        cJSON_AddNumberToObject(row, text.data, shown(logprob));
    spt_buf_free(&text);
}

/* The token itself is among its alternatives. The first of a text has
   neither. */
static cJSON *alternatives(const serve_job *job, const serve_scores *s,
                           size_t i)
{
    if (isnan(s->logprobs[i]))
        return cJSON_CreateNull();
    cJSON *row = cJSON_CreateObject();
    for (size_t t = 0; s->top && t < s->n_top; t++) {
        const spt_token_logprob *top = &s->top[i * s->n_top + t];
        if (top->token < 0)
            break;
        add_value(row, job, top->token, top->logprob);
    }
    add_value(row, job, s->tokens[i], s->logprobs[i]);
    return row;
}

/* As completions have it: lists beside each other. */
static void add_lists(cJSON *lists, const serve_job *job, const serve_scores *s,
                      size_t *at)
{
    const spt_tokenizer *tokenizer = job->serve->options.engine->tokenizer;
    cJSON *tokens = cJSON_GetObjectItem(lists, "tokens");
    cJSON *values = cJSON_GetObjectItem(lists, "token_logprobs");
    cJSON *tops = cJSON_GetObjectItem(lists, "top_logprobs");
    cJSON *offsets = cJSON_GetObjectItem(lists, "text_offset");
    for (size_t i = 0; i < s->n; i++) {
        spt_buf text = {0};
        token_text(job, s->tokens[i], &text);
        cJSON_AddItemToArray(tokens, cJSON_CreateString(text.data));
        spt_buf_free(&text);
        cJSON_AddItemToArray(values,
                             isnan(s->logprobs[i])
                                 ? cJSON_CreateNull()
                                 : cJSON_CreateNumber(shown(s->logprobs[i])));
        cJSON_AddItemToArray(tops, alternatives(job, s, i));
        cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*at));
        *at += count_characters(
            spt_tokenizer_bytes(tokenizer, s->tokens[i], false));
    }
}

void spt_serve_add_scores(cJSON *choice, const serve_job *job,
                          const serve_scores *prompt, const serve_scores *s,
                          size_t *at)
{
    static const char *const names[] = {"tokens", "token_logprobs",
                                        "top_logprobs", "text_offset"};
    if (!job->logprobs || (job->stream && !prompt->n && !s->n)) {
        cJSON_AddNullToObject(choice, "logprobs");
        return;
    }
    cJSON *logprobs = cJSON_AddObjectToObject(choice, "logprobs");
    if (job->chat) {
        add_entries(cJSON_AddArrayToObject(logprobs, "content"), job, s);
        cJSON_AddNullToObject(logprobs, "refusal");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cJSON_AddArrayToObject(logprobs, names[i]);
    add_lists(logprobs, job, prompt, at);
    add_lists(logprobs, job, s, at);
}
