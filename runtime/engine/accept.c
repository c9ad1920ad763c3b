#include "accept.h"

static double probability(const spt_candidate *c, size_t count, int32_t token)
{
    for (size_t i = 0; i < count; i++)
        if (c[i].token == token)
            return c[i].p;
    return 0;
}

/* What q holds at token; a certain draft holds 1 at itself. */
static double drawn_from(const spt_candidate *q, size_t n_q, int32_t draft,
                         int32_t token)
{
    return q ? probability(q, n_q, token) : token == draft;
}

/*
 * From max(p - q, 0). Where nothing is left (p equals q to the last bit and
 * the draft was still rejected, which takes u = 1 - 2^-53 at least) from p.
 */
static int32_t residual(const spt_candidate *p, size_t n_p, int32_t draft,
                        const spt_candidate *q, size_t n_q, double v)
{
    double sum = 0;
    int32_t last = -1;
    for (size_t i = 0; i < n_p; i++) {
        double left = p[i].p - drawn_from(q, n_q, draft, p[i].token);
        if (left > 0) {
            sum += left;
            last = p[i].token;
        }
    }
    if (last < 0)
        return spt_pick(p, n_p, v);
    v *= sum;
    for (size_t i = 0; i < n_p; i++) {
        double left = p[i].p - drawn_from(q, n_q, draft, p[i].token);
        if (left <= 0)
            continue;
        v -= left;
        if (v < 0)
            return p[i].token;
    }
    return last;
}

int32_t spt_reject(const spt_candidate *p, size_t n_p, int32_t draft,
                   const spt_candidate *q, size_t n_q, double u, double v,
                   bool *kept)
{
    double have = probability(p, n_p, draft);
    *kept = u * drawn_from(q, n_q, draft, draft) < have;
    return *kept ? draft : residual(p, n_p, draft, q, n_q, v);
}

static int child_with(const spt_draft *d, int parent, int32_t token)
{
    for (int i = parent + 1; i <= d->count; i++)
        if (d->parent[i] == parent && d->token[i] == token)
            return i;
    return -1;
}

typedef struct walk {
    spt_sampler *sampler;
    const spt_draft *draft;
    const spt_sequence *sequence;
} walk;

/* The token after node by rejection of its one child; *next: the child. */
static spt_status judge(const walk *w, uint64_t seed, int node,
                        const float *logits, int32_t *token, int *next,
                        spt_error *err)
{
    const spt_sequence *s = w->sequence;
    const spt_draft *d = w->draft;
    const spt_candidate *p;
    size_t n_p;
    int child = node + 1;
    bool kept;
    SPT_TRY(spt_sampler_candidates(w->sampler, logits, s->tokens, s->n_tokens,
                                   &p, &n_p, err));
    *token =
        spt_reject(p, n_p, d->token[child], d->from[child], d->n_from[child],
                   spt_random(seed, s->n_tokens, SPT_RANDOM_ACCEPT),
                   spt_random(seed, s->n_tokens, SPT_RANDOM_RESIDUAL), &kept);
    *next = kept ? child : -1;
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
    walk w = {sampler, draft, sequence};
    uint64_t seed = spt_sampler_options(sampler)->seed;
    bool reject = rule == SPT_ACCEPT_REJECTION && draft->chain;
    int node = 0;
    accepted->count = accepted->nodes = 0;
    accepted->offered = deepest(draft);
    while (node >= 0) {
        const float *row = logits + (size_t)node * (size_t)vocab;
        int32_t token = -1;
        int next = -1;
        accepted->path[accepted->nodes++] = node;
        if (reject && node < draft->count) {
            SPT_TRY(judge(&w, seed, node, row, &token, &next, err));
        } else {
            SPT_TRY(spt_sampler_token(sampler, row, sequence->tokens,
                                      sequence->n_tokens, &token, err));
            next = child_with(draft, node, token);
        }
        accepted->count++;
        SPT_TRY(spt_sequence_append(sequence, &token, 1, err));
        node = next;
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
