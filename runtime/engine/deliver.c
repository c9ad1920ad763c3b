/*
 * From tokens to what the caller sees: text in whole characters, stop texts
 * found across tokens, the end at the first token that ends it. Everything
 * goes token by token, so that it does not matter how many a step brought.
 */
#include <math.h>
#include <string.h>

#include "mem.h"
#include "session_int.h"

/* One event in the making. */
typedef struct event_buffers {
    bool drafted[SPT_DRAFT_NODES];
    size_t ends[SPT_DRAFT_NODES];
    double logprobs[SPT_DRAFT_NODES];
    spt_token_logprob *top; /* (SPT_DRAFT_NODES, n_top) */
    size_t n;
} event_buffers;

void spt_answer_free(spt_answer *answer)
{
    spt_buf_free(&answer->text);
    answer->text = (spt_buf){0};
}

static bool is_stop_token(const spt_session *s, int32_t token)
{
    const spt_answer_options *o = &s->answer.options;
    if (!o->ignore_end && spt_tokenizer_is_end(s->engine->tokenizer, token))
        return true;
    for (size_t i = 0; i < o->n_stop_tokens; i++)
        if (o->stop_tokens[i] == token)
            return true;
    return false;
}

/* Where the first stop text begins in what is held; its size if none. */
static size_t find_stop(const spt_answer *a)
{
    size_t first = a->text.size;
    for (size_t i = 0; i < a->options.n_stop_texts && a->text.data; i++) {
        const char *stop = a->options.stop_texts[i];
        const char *at = memmem(a->text.data, a->text.size, stop, strlen(stop));
        if (at && (size_t)(at - a->text.data) < first)
            first = (size_t)(at - a->text.data);
    }
    return first;
}

/* Bytes at the end that a stop text begins with, at most. */
static size_t held_back(const spt_answer *a)
{
    size_t most = 0;
    for (size_t i = 0; i < a->options.n_stop_texts; i++) {
        const char *stop = a->options.stop_texts[i];
        size_t begun = strlen(stop) - 1;
        if (begun > a->text.size)
            begun = a->text.size;
        while (begun > most &&
               memcmp(a->text.data + a->text.size - begun, stop, begun) != 0)
            begun--;
        most = begun > most ? begun : most;
    }
    return most;
}

/* Takes one token in; the answer may finish with it. */
static void take(spt_session *s, int32_t token)
{
    spt_answer *a = &s->answer;
    a->tokens++;
    if (is_stop_token(s, token)) {
        a->finish = SPT_FINISH_STOP_TOKEN;
        return;
    }
    spt_decoder_add(&a->decoder, token, &a->text);
    size_t stop = find_stop(a);
    if (a->options.n_stop_texts && stop < a->text.size) {
        a->text.size = stop;
        a->text.data[stop] = 0;
        a->finish = SPT_FINISH_STOP_TEXT;
    } else if (a->tokens == a->options.max_tokens) {
        a->finish = SPT_FINISH_LENGTH;
    }
}

static void end_text(spt_answer *a)
{
    if (a->finish != SPT_FINISH_STOP_TEXT)
        spt_decoder_end(&a->decoder, &a->text);
}

/* Gives the event and drops what it gave from the held text. */
static spt_status give(spt_session *s, spt_event *event, spt_error *err)
{
    spt_answer *a = &s->answer;
    if (a->text.failed)
        return spt_fail(err, SPT_E_MEMORY, "answer: out of memory");
    if (a->finish)
        end_text(a);
    event->finish = a->finish;
    event->text_size = a->text.size - (a->finish ? 0 : held_back(a));
    event->text = a->text.data ? a->text.data : "";
    bool cancel = a->options.event && a->options.event(a->options.user, event);
    size_t left = a->text.size - event->text_size;
    if (event->text_size) {
        memmove(a->text.data, a->text.data + event->text_size, left);
        a->text.data[left] = 0;
        a->text.size = left;
    }
    if (cancel && !a->finish)
        a->finish = SPT_FINISH_CANCELLED;
    s->answering = !a->finish;
    return SPT_OK;
}

void spt_answer_end(spt_session *s, spt_finish finish)
{
    spt_event event = {0};
    spt_error ignored;
    s->answer.finish = finish;
    give(s, &event, &ignored);
    s->answering = false;
}

/* The n_top likeliest tokens of a row. */
static void note_top(const spt_logprob_row *row, size_t n_top,
                     spt_token_logprob *top)
{
    for (size_t i = 0; i < n_top; i++) {
        top[i] = (spt_token_logprob){-1, -INFINITY};
        if (i < (size_t)row->count)
            top[i] = (spt_token_logprob){
                row->best[i].token, spt_logprob_of(row, row->best[i].value)};
    }
}

static void note_logprobs(const spt_session *s, const spt_logprob_row *row,
                          event_buffers *b)
{
    size_t n_top = s->answer.options.top_logprobs;
    b->logprobs[b->n] = spt_logprob_of(row, row->logit);
    note_top(row, n_top, b->top + b->n * n_top);
}

spt_status spt_answer_score(spt_session *s, int first, int count,
                            const float *logits, spt_error *err)
{
    const spt_answer_options *o = &s->answer.options;
    int vocab = spt_forward_config(s->engine->forward)->vocab;
    const int32_t *tokens = s->sequence.tokens + first;
    double logprobs[SPT_DRAFT_NODES];
    spt_token_logprob *top =
        spt_calloc((size_t)count * o->top_logprobs + 1, sizeof *top);
    if (!top)
        return spt_fail(err, SPT_E_MEMORY, "answer: out of memory");
    for (int i = 0; i < count; i++, logits += vocab) {
        spt_logprob_row row;
        spt_logprob_row_of(logits, vocab, tokens[i], (int)o->top_logprobs,
                           &row);
        logprobs[i] = spt_logprob_of(&row, row.logit);
        note_top(&row, o->top_logprobs, top + (size_t)i * o->top_logprobs);
    }
    const spt_prompt_event event = {.first = (size_t)first,
                                    .tokens = tokens,
                                    .n_tokens = (size_t)count,
                                    .logprobs = logprobs,
                                    .top = o->top_logprobs ? top : NULL,
                                    .n_top = o->top_logprobs};
    o->prompt(o->user, &event);
    spt_free(top);
    return SPT_OK;
}

static spt_status deliver(spt_session *s, int first,
                          const spt_accepted *accepted,
                          const spt_logprob_row *logprobs, event_buffers *b,
                          spt_error *err)
{
    spt_answer *a = &s->answer;
    const spt_answer_options *o = &a->options;
    while (b->n < (size_t)accepted->count && !a->finish) {
        take(s, s->sequence.tokens[first + (int)b->n]);
        b->drafted[b->n] = (int)b->n + 1 < accepted->count;
        b->ends[b->n] = a->text.size;
        if (o->logprobs || o->top_logprobs)
            note_logprobs(s, &logprobs[accepted->path[b->n]], b);
        b->n++;
    }
    int end = first + (int)b->n;
    if (end < s->sequence.n_tokens)
        spt_sequence_rewind(&s->sequence, end);
    if (!a->finish && end >= s->engine->options.context)
        a->finish = SPT_FINISH_CONTEXT;
    s->stats.tokens += b->n;
    spt_event event = {.tokens = s->sequence.tokens + first,
                       .drafted = b->drafted,
                       .ends = b->ends,
                       .n_tokens = b->n,
                       .logprobs = o->logprobs ? b->logprobs : NULL,
                       .top = b->top,
                       .n_top = o->top_logprobs};
    return give(s, &event, err);
}

spt_status spt_answer_deliver(spt_session *s, int first,
                              const spt_accepted *accepted,
                              const spt_logprob_row *logprobs, spt_error *err)
{
    event_buffers b = {.n = 0};
    size_t n_top = s->answer.options.top_logprobs;
    if (n_top) {
        b.top = spt_calloc(SPT_DRAFT_NODES * n_top, sizeof *b.top);
        if (!b.top)
            return spt_fail(err, SPT_E_MEMORY, "answer: out of memory");
    }
    spt_status status = deliver(s, first, accepted, logprobs, &b, err);
    spt_free(b.top);
    return status;
}
