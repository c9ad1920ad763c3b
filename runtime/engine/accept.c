#include "accept.h"

/* What a draft was drawn from, read in the order of ids. */
typedef struct reader {
    const spt_candidate *q; /* NULL: all of it is the draft */
    size_t count, at;
    int32_t draft;
} reader;

static uint64_t part_of(reader *r, int32_t token)
{
    if (!r->q)
        return token == r->draft ? SPT_SAMPLE_WHOLE : 0;
    while (r->at < r->count && r->q[r->at].token < token)
        r->at++;
    return r->at < r->count && r->q[r->at].token == token ? r->q[r->at].part
                                                          : 0;
}

/* max(p - q, 0) at the reader's next token. */
static uint64_t left_of(const spt_candidate *p, reader *r)
{
    uint64_t taken = part_of(r, p->token);
    return p->part > taken ? p->part - taken : 0;
}

/*
 * From max(p - q, 0). Where nothing is left (p equals q to the last bit and
 * the draft was still rejected) from p.
 */
static int32_t residual(const spt_candidate *p, size_t n_p, const reader *from,
                        double v)
{
    reader all = *from, none = {.draft = -1}, *r;
    uint64_t sum = 0, whole = 0, at;
    for (size_t i = 0; i < n_p; i++) {
        sum += left_of(&p[i], &all);
        whole += p[i].part;
    }
    at = spt_sample_at(v, sum ? sum : whole);
    all.at = 0;
    r = sum ? &all : &none;
    for (size_t i = 0;; i++) {
        uint64_t left = left_of(&p[i], r);
        if (at < left)
            return p[i].token;
        at -= left;
    }
}

int32_t spt_reject(const spt_candidate *p, size_t n_p, int32_t draft,
                   const spt_candidate *q, size_t n_q, double u, double v)
{
    const reader from = {.q = q, .count = n_q, .draft = draft};
    reader of_p = {.q = p, .count = n_p}, of_q = from;
    if (spt_sample_at(u, part_of(&of_q, draft)) < part_of(&of_p, draft))
        return draft;
    return residual(p, n_p, &from, v);
}

static int child_with(const spt_draft *d, int parent, int32_t token)
{
    for (int i = parent + 1; i <= d->count; i++)
        if (d->parent[i] == parent && d->token[i] == token)
            return i;
    return -1;
}

/* The token after node by rejection of its one child. */
static spt_status judge(spt_sampler *sampler, const spt_draft *d, int node,
                        const float *logits, const spt_sequence *s,
                        int32_t *token, spt_error *err)
{
    uint64_t seed = spt_sampler_options(sampler)->seed;
    const spt_draft_origin *q = &d->from[node + 1];
    const spt_candidate *p;
    size_t n_p;
    SPT_TRY(spt_sampler_candidates(sampler, logits, s->tokens, s->n_tokens, &p,
                                   &n_p, err));
    *token = spt_reject(p, n_p, d->token[node + 1], q->parts, q->count,
                        spt_random(seed, s->n_tokens, SPT_RANDOM_ACCEPT),
                        spt_random(seed, s->n_tokens, SPT_RANDOM_RESIDUAL));
    return SPT_OK;
}

static int deepest(const spt_draft *d)
{
    int depth[SPT_DRAFT_NODES] = {0}, most = 0;
    for (int i = 1; i <= d->count; i++) {
        depth[i] = depth[d->parent[i]] + 1;
        most = depth[i] > most ? depth[i] : most;
    }
    return most;
}

spt_status spt_accept(spt_sampler *sampler, spt_accept_rule rule,
                      const spt_draft *draft, const float *logits, int vocab,
                      spt_sequence *sequence, spt_accepted *accepted,
                      spt_error *err)
{
    bool reject = rule == SPT_ACCEPT_REJECTION && draft->chain;
    accepted->count = accepted->nodes = 0;
    accepted->offered = deepest(draft);
    for (int node = 0; node >= 0;) {
        const float *row = logits + (size_t)node * (size_t)vocab;
        int32_t token = -1;
        accepted->path[accepted->nodes++] = node;
        if (reject && node < draft->count)
            SPT_TRY(judge(sampler, draft, node, row, sequence, &token, err));
        else
            SPT_TRY(spt_sampler_token(sampler, row, sequence->tokens,
                                      sequence->n_tokens, &token, err));
        accepted->count++;
        SPT_TRY(spt_sequence_append(sequence, &token, 1, err));
        node = child_with(draft, node, token);
    }
    return SPT_OK;
}

spt_status spt_accept_path(const spt_draft *draft, const int *path,
                           const int32_t *tokens, int nodes,
                           spt_sequence *sequence, spt_accepted *accepted,
                           spt_error *err)
{
    accepted->count = accepted->nodes = nodes;
    accepted->offered = deepest(draft);
    for (int i = 0; i < nodes; i++)
        accepted->path[i] = path[i];
    if (nodes < 1 || tokens[nodes - 1] < 0)
        return spt_sampler_nothing(err);
    return spt_sequence_append(sequence, tokens, nodes, err);
}
