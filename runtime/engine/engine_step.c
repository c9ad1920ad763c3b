/*
 * One step: plan who feeds what, draft, run the model, settle.
 *
 * Sessions that write get their rows first; what room is left goes to prompts.
 * A session that finds no room in the KV pool first does without drafts, then
 * waits.
 */
#include <string.h>

#include "mem.h"
#include "session_int.h"
#include "tree.h"

typedef struct step {
    spt_engine *engine;
    spt_share *shares;
    int count;
    int tokens; /* rows so far */
    spt_error reason; /* why a session waits */
} step;

static bool is_active(const spt_session *s)
{
    return s->answering;
}

static int pending_tokens(const spt_session *s)
{
    return s->sequence.n_tokens - s->sequence.n_kv;
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* How many tokens could still be drafted: context and max_tokens end it. */
static int room_for_drafts(const spt_session *s)
{
    const spt_answer *a = &s->answer;
    int room = s->engine->options.context - s->sequence.n_tokens - 1;
    if (a->options.max_tokens &&
        a->options.max_tokens - a->tokens - 1 < (size_t)(room > 0 ? room : 0))
        room = (int)(a->options.max_tokens - a->tokens - 1);
    return room > 0 ? room : 0;
}

static int draft_depth(spt_session *s, int batch)
{
    const spt_engine *e = s->engine;
    int max = lesser(e->options.draft_length, room_for_drafts(s));
    if (!e->drafter.class || s->options.draft_length < 0)
        return 0;
    if (s->options.draft_length > 0)
        return lesser(max, s->options.draft_length);
    return spt_engine_choose_length(s, batch, max);
}

/* Fills shares with those that write, then with prompts. */
static void plan(step *st, spt_session *const *sessions, size_t count)
{
    spt_engine *e = st->engine;
    int room = spt_forward_limits_of(e->forward)->tokens;
    int per_writer = 1 + e->draft_nodes;
    for (int prompts = 0; prompts < 2; prompts++)
        for (size_t i = 0; i < count; i++) {
            spt_session *s = sessions[(e->turn + i) % count];
            bool is_prompt = is_active(s) && pending_tokens(s) > 1;
            if (!is_active(s) || is_prompt != (prompts == 1) ||
                st->count == e->options.sessions)
                continue;
            int feed = lesser(pending_tokens(s), e->options.prefill_chunk);
            int left = room - st->tokens;
            feed = lesser(feed, left);
            if (s->answer.options.prompt)
                feed = lesser(feed, per_writer); /* each has logits */
            if (feed < 1)
                continue;
            st->tokens += is_prompt ? feed : lesser(per_writer, left);
            st->shares[st->count] = (spt_share){
                .session = s,
                .prefix = feed,
                .decodes = feed == pending_tokens(s),
                .logprobs = e->logprobs + st->count * SPT_DRAFT_NODES};
            st->count++;
        }
}

/* By the options alone: what is drafted must not choose how it is judged. */
static bool judges(const spt_session *s)
{
    return s->options.accept == SPT_ACCEPT_REJECTION &&
           s->options.sampling.temperature > 0 &&
           s->engine->options.draft.branches <= 1;
}

/* Rows whose next token the text has, when what the model thinks of it is
   asked for. */
static int scored_rows(const spt_share *share)
{
    return share->session->answer.options.prompt
               ? share->prefix - share->decodes
               : 0;
}

/* Where no row of the share has to come to the host. */
static bool stays_there(const spt_share *share)
{
    return share->decodes && !scored_rows(share) &&
           spt_forward_chooses(share->session->engine->forward);
}

/* Whether the session's tokens will be drawn on the device, whatever is
   drafted. */
static bool can_choose(const spt_share *share)
{
    const spt_session *s = share->session;
    spt_adjuster *adjuster = spt_sampler_adjuster(s->sampler);
    spt_adjustment now;
    if (!stays_there(share))
        return false;
    return !adjuster ||
           (spt_adjuster_block(adjuster, s->sequence.tokens,
                               s->sequence.n_tokens, NULL, NULL, 1, &now) &&
            now.list.count + SPT_DRAFT_NODES <= SPT_ADJUST_ENTRIES);
}

static spt_status draft(step *st, spt_error *err)
{
    spt_engine *e = st->engine;
    spt_draft_request *requests = e->requests;
    bool plain = spt_engine_times_plain(e, st->shares, st->count);
    int n = 0;
    for (int i = 0; i < st->count; i++) {
        spt_share *share = &st->shares[i];
        spt_session *s = share->session;
        spt_draft_clear(&s->draft);
        int depth = share->decodes && share->prefix == 1 && !plain
                        ? draft_depth(s, st->count)
                        : 0;
        share->wants_draft = depth > 0;
        share->catches_up = depth > 0 && !s->drafted;
        s->drafted = depth > 0;
        share->depth = depth;
        if (depth > 0)
            requests[n++] =
                (spt_draft_request){.state = s->draft_state,
                                    .text = s->sequence.tokens,
                                    .count = s->sequence.n_tokens,
                                    .sequence = &s->sequence,
                                    .want = depth,
                                    .branches = e->options.draft.branches,
                                    .sampler = s->sampler,
                                    .sample = judges(s),
                                    .on_device = can_choose(share),
                                    .draft = &s->draft};
    }
    if (!n)
        return SPT_OK;
    SPT_TRY(e->drafter.class->draft(e->drafter.self, requests, n, err));
    int vocab = spt_forward_config(e->forward)->vocab;
    for (int i = 0; i < st->count; i++)
        spt_draft_clean(&st->shares[i].session->draft, vocab,
                        st->shares[i].depth, e->draft_nodes);
    return SPT_OK;
}

/* Pages for the share's tokens; false when it has to wait. */
static bool reserve(step *st, spt_share *share, spt_page_copy *copy)
{
    spt_session *s = share->session;
    int count = share->prefix + s->draft.count;
    if (spt_sequence_reserve(&s->sequence, count, copy, &st->reason) == SPT_OK)
        return true;
    spt_draft_clear(&s->draft);
    return spt_sequence_reserve(&s->sequence, share->prefix, copy,
                                &st->reason) == SPT_OK;
}

static spt_status reserve_all(step *st, spt_error *err)
{
    int kept = 0;
    for (int i = 0; i < st->count; i++) {
        spt_page_copy copy;
        if (!reserve(st, &st->shares[i], &copy))
            continue;
        if (copy.to >= 0)
            SPT_TRY(spt_forward_copy_page(st->engine->forward, copy, err));
        st->shares[kept++] = st->shares[i];
    }
    if (!kept && st->count) {
        *err = st->reason;
        return err->status;
    }
    st->count = kept;
    return SPT_OK;
}

/* The row before a draft judges it; false: what it was drawn from is here. */
static bool judge_on_device(const spt_draft *d, int node, spt_sample_row *row)
{
    row->use = SPT_RANDOM_ACCEPT;
    row->draft = d->token[node];
    row->from = d->from[node].logits;
    return !d->from[node].parts;
}

/*
 * Whether tokens are drawn and drafts accepted on the device, and how. The
 * host does what needs all logits, or what the kernels do not have.
 */
static bool choose_on_device(spt_share *share)
{
    const spt_session *s = share->session;
    const spt_draft *d = &s->draft;
    spt_adjuster *adjuster = spt_sampler_adjuster(s->sampler);
    bool judged = judges(s) && d->chain, able = stays_there(share);
    for (int i = 0; i <= d->count && able; i++) {
        int position = s->sequence.n_tokens + spt_draft_depth(d, i);
        share->rows[i] = spt_sampler_row(s->sampler, position);
        if (judged && i < d->count)
            able = judge_on_device(d, i + 1, &share->rows[i]);
    }
    if (!able || !adjuster)
        return able;
    return spt_adjuster_block(adjuster, s->sequence.tokens,
                              s->sequence.n_tokens, d->token, d->parent,
                              1 + d->count, &share->adjustment);
}

static bool wants_logprobs(const spt_session *s)
{
    const spt_answer_options *o = &s->answer.options;
    return o->logprobs || o->top_logprobs;
}

/* What the share feeds: tokens of the text, then drafts. */
static spt_status make_item(spt_share *share, int32_t *fed,
                            spt_forward_item *item, spt_error *err)
{
    const spt_session *s = share->session;
    const spt_draft *d = &s->draft;
    memcpy(fed, s->sequence.tokens + s->sequence.n_kv,
           (size_t)share->prefix * sizeof *fed);
    memcpy(fed + share->prefix, d->token + 1, (size_t)d->count * sizeof *fed);
    *item = (spt_forward_item){.sequence = &s->sequence,
                               .tokens = fed,
                               .count = share->prefix + d->count,
                               .logits = scored_rows(share) +
                                         (share->decodes ? 1 + d->count : 0)};
    share->on_device = choose_on_device(share);
    if (share->on_device) {
        item->sample = share->rows;
        item->parent = d->parent;
        item->choice = &share->choice;
        if (spt_sampler_adjuster(s->sampler))
            item->adjust = &share->adjustment;
        item->logprobs = wants_logprobs(s) ? share->logprobs : NULL;
        item->best = (int)s->answer.options.top_logprobs;
    }
    if (d->chain)
        return SPT_OK;
    item->tree = share->tree;
    return spt_tree_masks(d->parent, 1 + d->count, share->tree, err);
}

static spt_status run(step *st, spt_error *err)
{
    spt_engine *e = st->engine;
    int32_t *fed = e->fed;
    for (int i = 0; i < st->count; i++) {
        SPT_TRY(make_item(&st->shares[i], fed, &e->items[i], err));
        fed += e->items[i].count;
    }
    return spt_forward_run(e->forward, e->items, st->count, e->logits, err);
}

static void count_step(spt_session *s, const spt_accepted *a, bool asked)
{
    spt_session_stats *t = &s->stats;
    int accepted = a->count - 1;
    t->steps++;
    if (asked)
        spt_draft_meter_note(&s->meter, a->offered, accepted);
    if (!a->offered)
        return;
    t->drafts++;
    t->draft_tokens += (uint64_t)a->offered;
    t->accepted_tokens += (uint64_t)accepted;
    for (int i = 0; i < a->offered; i++) {
        t->drafted_at[i]++;
        t->accepted_at[i] += i < accepted;
    }
}

/* KV of the accepted path to where a chain would have it. */
static spt_status keep(const spt_share *share, const spt_accepted *a,
                       spt_error *err)
{
    spt_session *s = share->session;
    if (!s->draft.chain)
        SPT_TRY(spt_forward_compact(s->engine->forward, &s->sequence, a->path,
                                    a->nodes, err));
    spt_sequence_keep(&s->sequence, share->prefix - 1 + a->nodes);
    return SPT_OK;
}

/* The host's own of the accepted nodes, from their logits. */
static void make_logprobs(const spt_share *share, const float *logits,
                          const spt_accepted *a)
{
    const spt_session *s = share->session;
    int vocab = spt_forward_config(s->engine->forward)->vocab;
    const int32_t *text = s->sequence.tokens + s->sequence.n_tokens - a->count;
    for (int i = 0; i < a->count; i++)
        spt_logprob_row_of(logits + (size_t)a->path[i] * (size_t)vocab, vocab,
                           text[i], (int)s->answer.options.top_logprobs,
                           &share->logprobs[a->path[i]]);
}

static spt_status accept_drafts(const spt_share *share, const float *logits,
                                spt_accepted *accepted, spt_error *err)
{
    spt_session *s = share->session;
    const spt_forward_choice *c = &share->choice;
    int vocab = spt_forward_config(s->engine->forward)->vocab;
    if (share->on_device)
        return spt_accept_path(&s->draft, c->path, c->token, c->count,
                               &s->sequence, accepted, err);
    spt_accept_rule rule = judges(s) ? SPT_ACCEPT_REJECTION : SPT_ACCEPT_MATCH;
    SPT_TRY(spt_accept(s->sampler, rule, &s->draft, logits, vocab, &s->sequence,
                       accepted, err));
    if (wants_logprobs(s))
        make_logprobs(share, logits, accepted);
    return SPT_OK;
}

/* Tokens of one share; logits are its own. */
static spt_status settle(const spt_share *share, const float *logits,
                         spt_error *err)
{
    spt_session *s = share->session;
    int first = s->sequence.n_tokens, scored = scored_rows(share);
    spt_accepted accepted;
    if (scored)
        SPT_TRY(spt_answer_score(s, s->sequence.n_kv + 1, scored, logits, err));
    logits +=
        (size_t)scored * (size_t)spt_forward_config(s->engine->forward)->vocab;
    s->stats.prompt_tokens +=
        (uint64_t)(share->prefix - (share->decodes && s->answer.tokens > 0));
    if (!share->decodes) {
        spt_sequence_keep(&s->sequence, share->prefix);
        return SPT_OK;
    }
    SPT_TRY(accept_drafts(share, logits, &accepted, err));
    SPT_TRY(keep(share, &accepted, err));
    count_step(s, &accepted, share->wants_draft);
    return spt_answer_deliver(s, first, &accepted, share->logprobs, err);
}

static spt_status settle_all(step *st, spt_error *err)
{
    const spt_engine *e = st->engine;
    size_t vocab = (size_t)spt_forward_config(e->forward)->vocab, row = 0;
    for (int i = 0; i < st->count; i++) {
        SPT_TRY(settle(&st->shares[i], e->logits + row * vocab, err));
        row += st->shares[i].on_device ? 0 : (size_t)e->items[i].logits;
    }
    return SPT_OK;
}

/* Ends what is cancelled or has no room left. */
static void end_some(spt_session *const *sessions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        spt_session *s = sessions[i];
        if (!is_active(s))
            continue;
        if (atomic_load(&s->cancelled))
            spt_answer_end(s, SPT_FINISH_CANCELLED);
        else if (s->sequence.n_tokens >= s->engine->options.context)
            spt_answer_end(s, SPT_FINISH_CONTEXT);
    }
}

static spt_status check_sessions(spt_engine *e, spt_session *const *sessions,
                                 size_t count, spt_error *err)
{
    e->turn++;
    for (size_t i = 0; i < count; i++) {
        if (sessions[i]->engine != e)
            return spt_fail(err, SPT_E_USAGE,
                            "step: session %zu is another engine's", i);
        if (sessions[i]->turn == e->turn)
            return spt_fail(err, SPT_E_USAGE,
                            "step: session %zu is there twice", i);
        sessions[i]->turn = e->turn;
    }
    return SPT_OK;
}

static spt_status do_step(spt_engine *engine, spt_session *const *sessions,
                          size_t count, spt_error *err)
{
    step st = {.engine = engine, .shares = engine->shares};
    end_some(sessions, count);
    plan(&st, sessions, count);
    SPT_TRY(spt_engine_start_clock(engine, err));
    SPT_TRY(draft(&st, err));
    SPT_TRY(reserve_all(&st, err));
    SPT_TRY(run(&st, err));
    SPT_TRY(spt_engine_stop_clock(engine, st.shares, st.count, err));
    return settle_all(&st, err);
}

spt_status spt_engine_step(spt_engine *engine, spt_session *const *sessions,
                           size_t count, spt_error *err)
{
    SPT_TRY(check_sessions(engine, sessions, count, err));
    SPT_TRY(spt_machine_enter(&engine->machine, err));
    spt_status status = do_step(engine, sessions, count, err);
    spt_machine_leave(&engine->machine);
    return status;
}
