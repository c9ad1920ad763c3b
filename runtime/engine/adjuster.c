#include "adjuster.h"

#include <string.h>

#include "mem.h"

enum { DEFAULT_REACH = 64 };

struct spt_adjuster {
    spt_adjust_list rule; /* count: entries so far */
    bool penalises;
    int reach; /* tokens that penalties look back; -1: all */
    int vocab;
    int n_bias; /* the first entries: those with a bias */
    int32_t *slot; /* (vocab): 1 + the token's entry; 0: it has none */
    spt_adjust_entry *entries; /* (vocab) */
    int32_t *changes; /* (SPT_TREE_NODES, SPT_ADJUST_CHANGES) */
    int n_changes;
    float *logits; /* (vocab) */
};

static bool penalises(const spt_sampling *o)
{
    return (o->repeat_penalty > 0 && o->repeat_penalty != 1) ||
           o->presence_penalty != 0 || o->frequency_penalty != 0;
}

/* The token's entry, a new one if need be; NULL: there is no such token. */
static spt_adjust_entry *entry_of(spt_adjuster *a, int32_t token)
{
    if (token < 0 || token >= a->vocab)
        return NULL;
    if (!a->slot[token]) {
        a->entries[a->rule.count++] = (spt_adjust_entry){.token = token};
        a->slot[token] = a->rule.count;
    }
    return &a->entries[a->slot[token] - 1];
}

/* Forgets what occurred. */
static void forget(spt_adjuster *a)
{
    while (a->rule.count > a->n_bias)
        a->slot[a->entries[--a->rule.count].token] = 0;
    for (int i = 0; i < a->n_bias; i++)
        a->entries[i].count = 0;
    a->n_changes = 0;
}

spt_status spt_adjuster_open(const spt_sampling *o, int vocab,
                             spt_adjuster **out, spt_error *err)
{
    size_t count = (size_t)vocab;
    *out = NULL;
    if (!o->n_bias && !penalises(o))
        return SPT_OK;
    spt_adjuster *a = spt_calloc(1, sizeof *a);
    if (!a)
        return spt_fail(err, SPT_E_MEMORY, "sampler: out of memory");
    *a = (spt_adjuster){
        .rule = {.repeat = o->repeat_penalty > 0 ? o->repeat_penalty : 1,
                 .presence = o->presence_penalty,
                 .frequency = o->frequency_penalty},
        .penalises = penalises(o),
        .reach = o->penalty_tokens ? o->penalty_tokens : DEFAULT_REACH,
        .vocab = vocab,
        .slot = spt_calloc(count, sizeof *a->slot),
        .entries = spt_calloc(count, sizeof *a->entries),
        .changes =
            spt_calloc(SPT_TREE_NODES * SPT_ADJUST_CHANGES, sizeof *a->changes),
        .logits = spt_calloc(count, sizeof *a->logits)};
    if (!a->slot || !a->entries || !a->changes || !a->logits) {
        spt_adjuster_close(a);
        return spt_fail(err, SPT_E_MEMORY, "sampler: out of memory");
    }
    for (size_t i = 0; i < o->n_bias; i++)
        entry_of(a, o->bias[i].token)->bias += o->bias[i].bias;
    a->n_bias = a->rule.count;
    *out = a;
    return SPT_OK;
}

void spt_adjuster_close(spt_adjuster *a)
{
    if (!a)
        return;
    spt_free(a->slot);
    spt_free(a->entries);
    spt_free(a->changes);
    spt_free(a->logits);
    spt_free(a);
}

/* The first of the text's tokens that count for the one at `position`. */
static int first_of(const spt_adjuster *a, int position)
{
    return a->reach < 0 || a->reach > position ? 0 : position - a->reach;
}

/* Entries for what the token after the text has. */
static void count_text(spt_adjuster *a, const int32_t *text, int count)
{
    forget(a);
    for (int i = first_of(a, count); i < count && a->penalises; i++) {
        spt_adjust_entry *entry = entry_of(a, text[i]);
        if (entry)
            entry->count++;
    }
}

static int depth_of(const int32_t *parent, int node)
{
    int depth = 0;
    for (; node > 0; node = parent[node])
        depth++;
    return depth;
}

/* What the node's row has more and less: drafts on the way to it, and tokens
   of the text that the penalties do not reach from there. */
static void add_changes(spt_adjuster *a, const int32_t *text, int count,
                        const int32_t *draft, const int32_t *parent, int node)
{
    int at = count + depth_of(parent, node), first = first_of(a, at);
    for (int i = first_of(a, count); i < first && i < count; i++)
        a->changes[a->n_changes++] = ~text[i];
    for (; node > 0 && --at >= first; node = parent[node])
        a->changes[a->n_changes++] = draft[node];
}

bool spt_adjuster_block(spt_adjuster *a, const int32_t *text, int count,
                        const int32_t *draft, const int32_t *parent, int nodes,
                        spt_adjustment *out)
{
    count_text(a, text, count);
    for (int i = 1; i < nodes && a->penalises; i++)
        entry_of(a, draft[i]);
    for (int i = 0; i < nodes; i++) {
        out->start[i] = a->n_changes;
        if (a->penalises)
            add_changes(a, text, count, draft, parent, i);
    }
    out->start[nodes] = a->n_changes;
    out->list = a->rule;
    out->entries = a->entries;
    out->changes = a->changes;
    return a->rule.count <= SPT_ADJUST_ENTRIES;
}

const float *spt_adjuster_apply(spt_adjuster *a, const float *logits,
                                const int32_t *text, int count)
{
    count_text(a, text, count);
    memcpy(a->logits, logits, (size_t)a->vocab * sizeof *logits);
    for (int i = 0; i < a->rule.count; i++) {
        const spt_adjust_entry *e = &a->entries[i];
        float *logit = &a->logits[e->token];
        *logit = spt_adjust_logit(&a->rule, *logit, e->bias, e->count);
    }
    return a->logits;
}
