#include "mem.h"
#include "session_int.h"

const char *spt_finish_text(spt_finish finish)
{
    static const char *const texts[] = {"none",   "stop_token", "stop_text",
                                        "length", "context",    "cancelled"};
    size_t count = sizeof texts / sizeof *texts;
    return (size_t)finish < count ? texts[finish] : "unknown";
}

static spt_status check_options(const spt_session_options *o, spt_error *err)
{
    if (o->draft_length < -1 || o->draft_length > SPT_DRAFT_LENGTH_MAX)
        return spt_fail(err, SPT_E_USAGE,
                        "session: draft_length %d, expected -1 to %d",
                        o->draft_length, SPT_DRAFT_LENGTH_MAX);
    if (o->accept != SPT_ACCEPT_MATCH && o->accept != SPT_ACCEPT_REJECTION)
        return spt_fail(err, SPT_E_USAGE, "session: accept %d is no rule",
                        (int)o->accept);
    return SPT_OK;
}

spt_status spt_session_set(spt_session *s, const spt_session_options *options,
                           spt_error *err)
{
    spt_sampler *sampler = NULL;
    int vocab = spt_forward_config(s->engine->forward)->vocab;
    SPT_TRY(check_options(options, err));
    SPT_TRY(spt_sampler_open(&options->sampling, vocab, &sampler, err));
    spt_sampler_close(s->sampler);
    s->sampler = sampler;
    s->options = *options;
    s->options.sampling = *spt_sampler_options(sampler);
    return SPT_OK;
}

static spt_status open_drafting(spt_session *s, spt_error *err)
{
    const spt_draft_source *d = &s->engine->drafter;
    spt_draft_meter_start(&s->meter);
    if (!d->class || !d->class->session_open)
        return SPT_OK;
    return d->class->session_open(d->self, &s->draft_state, err);
}

spt_status spt_session_open(spt_engine *engine,
                            const spt_session_options *options,
                            spt_session **out, spt_error *err)
{
    spt_session *s = spt_calloc(1, sizeof *s);
    if (!s)
        return spt_fail(err, SPT_E_MEMORY, "session: out of memory");
    s->engine = engine;
    spt_sequence_open(&s->sequence, engine->pool);
    s->next = engine->sessions;
    engine->sessions = s;
    spt_status status = spt_session_set(s, options, err);
    if (status == SPT_OK)
        status = open_drafting(s, err);
    if (status != SPT_OK) {
        spt_session_close(s);
        return status;
    }
    *out = s;
    return SPT_OK;
}

void spt_session_close(spt_session *s)
{
    if (!s)
        return;
    const spt_draft_source *d = &s->engine->drafter;
    spt_session **at = &s->engine->sessions;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (s->draft_state && d->class->session_close)
        d->class->session_close(d->self, s->draft_state);
    spt_answer_free(&s->answer);
    spt_sampler_close(s->sampler);
    spt_sequence_close(&s->sequence);
    spt_free(s);
}

spt_status spt_session_sync(spt_session *s, const int32_t *tokens, size_t count,
                            size_t *reused, spt_error *err)
{
    const spt_engine *e = s->engine;
    int vocab = spt_forward_config(e->forward)->vocab, found = 0;
    if (count > (size_t)e->options.context)
        return spt_fail(err, SPT_E_USAGE,
                        "session: %zu tokens, expected at most %d (context)",
                        count, e->options.context);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return spt_fail(err, SPT_E_USAGE,
                            "session: token %zu is %d, expected 0 to %d", i,
                            (int)tokens[i], vocab - 1);
    SPT_TRY(spt_sequence_sync(&s->sequence, tokens, (int)count, &found, err));
    s->stats.reused_tokens += (uint64_t)found;
    s->reused = found;
    s->answering = false;
    if (reused)
        *reused = (size_t)found;
    return SPT_OK;
}

void spt_session_rewind(spt_session *s, size_t count)
{
    if (count < (size_t)s->sequence.n_tokens)
        spt_sequence_rewind(&s->sequence, (int)count);
    s->answering = false;
}

spt_status spt_session_fork(const spt_session *s, spt_session **out,
                            spt_error *err)
{
    spt_session *copy = NULL;
    SPT_TRY(spt_session_open(s->engine, &s->options, &copy, err));
    spt_status status = spt_sequence_fork(&s->sequence, &copy->sequence, err);
    if (status != SPT_OK) {
        spt_session_close(copy);
        return status;
    }
    copy->meter = s->meter;
    *out = copy;
    return SPT_OK;
}

const int32_t *spt_session_tokens(const spt_session *s, size_t *count)
{
    *count = (size_t)s->sequence.n_tokens;
    return s->sequence.tokens;
}

static spt_status check_answer(const spt_session *s,
                               const spt_answer_options *o, spt_error *err)
{
    if (s->sequence.n_tokens == 0)
        return spt_fail(err, SPT_E_USAGE,
                        "answer: the session has no text, expected at least "
                        "one token");
    if (o->top_logprobs > 20)
        return spt_fail(err, SPT_E_USAGE,
                        "answer: %zu top_logprobs, expected at most 20",
                        o->top_logprobs);
    for (size_t i = 0; i < o->n_stop_texts; i++)
        if (!o->stop_texts[i] || !*o->stop_texts[i])
            return spt_fail(err, SPT_E_USAGE, "answer: stop text %zu is empty",
                            i);
    return SPT_OK;
}

spt_status spt_session_answer(spt_session *s, const spt_answer_options *options,
                              spt_error *err)
{
    SPT_TRY(check_answer(s, options, err));
    spt_answer_free(&s->answer);
    if (options->prompt) {
        spt_sequence_reread(&s->sequence);
        s->stats.reused_tokens -= (uint64_t)s->reused;
    }
    s->reused = 0;
    s->answer = (spt_answer){.options = *options};
    spt_decoder_start(&s->answer.decoder, s->engine->tokenizer,
                      options->show_specials);
    atomic_store(&s->cancelled, false);
    s->answering = true;
    return SPT_OK;
}

spt_finish spt_session_finish(const spt_session *s)
{
    return s->answer.finish;
}

spt_status spt_session_generate(spt_session *s,
                                const spt_answer_options *options,
                                spt_finish *finish, spt_error *err)
{
    SPT_TRY(spt_session_answer(s, options, err));
    while (s->answering)
        SPT_TRY(spt_engine_step(s->engine, &s, 1, err));
    if (finish)
        *finish = s->answer.finish;
    return SPT_OK;
}

void spt_session_cancel(spt_session *s)
{
    atomic_store(&s->cancelled, true);
}

void spt_session_statistics(const spt_session *s, spt_session_stats *stats)
{
    *stats = s->stats;
}
