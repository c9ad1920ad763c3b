#include "tree_choice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "choose.h"

/* Of trees made from ranks; engines verify more rows than our kernels. */
enum { ENGINE_NODES = 63 };

/* A node that may be added: its chance, and how deep it is. */
typedef struct leaf {
    double chance;
    int depth;
} leaf;

enum { LEAVES_MAX = (ENGINE_NODES + 1) * SPT_RANKS_MAX };

typedef struct growth {
    double kept[SPT_DRAFT_MAX + 1]; /* chance of rank 1, given its parent */
    double share[SPT_RANKS_MAX + 1]; /* of rank r >= 2 where rank 1 is wrong */
    int depth, top_k;
    int width[SPT_DRAFT_MAX + 1]; /* nodes at each depth */
    leaf leaves[LEAVES_MAX];
    int count;
} growth;

/* False where the table knows too little. */
static bool prepare(const spt_table *t, int depth, int top_k, growth *g)
{
    memset(g, 0, sizeof *g);
    g->depth = depth;
    g->top_k = top_k;
    if (depth > t->longest || top_k > t->n_ranks)
        return false;
    double before = 1;
    for (int i = 1; i <= depth; i++) {
        if (t->expected[i] < 0)
            return false;
        double survival = t->expected[i] - (i > 1 ? t->expected[i - 1] : 0);
        g->kept[i] = before > 0 ? fmin(survival / before, 1) : 0;
        before = survival;
    }
    double wrong = 1 - t->ranks[0];
    for (int r = 2; r <= top_k; r++)
        g->share[r] =
            wrong > 0 ? (t->ranks[r - 1] - t->ranks[r - 2]) / wrong : 0;
    return true;
}

/* The children of a node of that chance and depth. */
static void sprout(growth *g, double chance, int depth)
{
    if (depth == g->depth)
        return;
    double kept = g->kept[depth + 1];
    for (int r = 1; r <= g->top_k; r++)
        g->leaves[g->count++] = (leaf){
            chance * (r == 1 ? kept : (1 - kept) * g->share[r]), depth + 1};
}

/* The likeliest leaf at a depth that has room, or -1. */
static int likeliest(const growth *g)
{
    int best = -1;
    for (int i = 0; i < g->count; i++)
        if (g->width[g->leaves[i].depth] < g->top_k &&
            (best < 0 || g->leaves[i].chance > g->leaves[best].chance))
            best = i;
    return best;
}

bool spt_tree_expected(const spt_table *t, int depth, int top_k, int nodes,
                       double *expected)
{
    growth g;
    double sum = 0;
    if (nodes > ENGINE_NODES || !prepare(t, depth, top_k, &g))
        return false;
    sprout(&g, 1, 0);
    for (int n = 1; n <= nodes; n++) {
        int i = likeliest(&g);
        if (i >= 0) {
            leaf chosen = g.leaves[i];
            g.leaves[i] = g.leaves[--g.count];
            g.width[chosen.depth]++;
            sum += chosen.chance;
            sprout(&g, chosen.chance, chosen.depth);
        }
        expected[n] = sum;
    }
    return true;
}

/* What stays the same while trees are weighed. */
typedef struct scale {
    const spt_step *step;
    const spt_drafter *drafter;
    double plain_us;
    spt_tree_choice *choice;
    bool any; /* there was a tree whose length is known */
} scale;

/* Keeps a tree that is faster than the ones before it. */
static void weigh(scale *s, const spt_draft_tree *tree, double expected,
                  double draft_us, bool published)
{
    spt_tree_choice *c = s->choice;
    s->any = true;
    double memory = spt_step_memory_bytes(s->step, s->drafter, tree->nodes);
    if (!spt_step_fits(s->step, s->drafter, tree->nodes, memory))
        return;
    double verify_us = spt_step_tree_verify_us(s->step, tree);
    double speedup = (1 + expected) * s->plain_us / (draft_us + verify_us);
    if (c->known && speedup <= c->speedup * (1 + spt_choose_noise))
        return;
    *c = (spt_tree_choice){.known = true,
                           .published = published,
                           .tree = *tree,
                           .expected_length = 1 + expected,
                           .draft_us = draft_us,
                           .verify_us = verify_us,
                           .memory_bytes = memory,
                           .speedup = speedup};
}

/* Trees whose length somebody measured. */
static void weigh_published(scale *s, const spt_table *t, int most)
{
    for (int i = 0; i < t->n_trees; i++) {
        const spt_draft_tree *tree = &t->trees[i].tree;
        if (tree->nodes <= most)
            weigh(s, tree, t->trees[i].expected,
                  spt_step_tree_draft_us(s->step, s->drafter, tree), true);
    }
}

/* Every shape that survival and ranks give a length for. */
static void weigh_modelled(scale *s, const spt_table *t, int most)
{
    double expected[ENGINE_NODES + 1];
    for (int depth = 1; depth <= t->longest && depth <= s->drafter->max_draft;
         depth++)
        for (int top_k = 2; top_k <= t->n_ranks; top_k++) {
            if (!spt_tree_expected(t, depth, top_k, most, expected))
                continue;
            spt_draft_tree tree = {depth, top_k, 0};
            double draft_us =
                spt_step_tree_draft_us(s->step, s->drafter, &tree);
            for (int n = depth + 1; n <= most && n <= depth * top_k; n++) {
                tree.nodes = n;
                weigh(s, &tree, expected[n], draft_us, false);
            }
        }
}

static void say_unknown(const scale *s)
{
    spt_tree_choice *c = s->choice;
    const spt_drafter *d = s->drafter;
    const spt_serving *e = s->step->where.serving;
    const char *method = spt_drafter_name(d->method);
    const char *none = spt_drafter_no_tree(d->method);
    if (none)
        snprintf(c->reason, sizeof c->reason, "%s drafts no trees: %s", method,
                 none);
    else if (e && !spt_serving_has_trees(e, d->method))
        snprintf(c->reason, sizeof c->reason, "%s has no trees of %s", e->name,
                 method);
    else if (s->any)
        snprintf(c->reason, sizeof c->reason,
                 "no tree whose length is known fits the board's memory");
    else
        snprintf(c->reason, sizeof c->reason,
                 "neither the length of a tree nor the chance of the second "
                 "rank is published for this drafter and workload");
}

void spt_tree_weigh(const spt_step *step, const spt_drafter *drafter,
                    const spt_table *t, double plain_us, double chain,
                    spt_tree_choice *choice)
{
    const spt_serving *e = step->where.serving;
    scale s = {step, drafter, plain_us, choice, false};
    *choice = (spt_tree_choice){0};
    if (!spt_drafter_no_tree(drafter->method) &&
        (!e || spt_serving_has_trees(e, drafter->method))) {
        int most = e ? ENGINE_NODES : SPT_DRAFT_MAX;
        weigh_published(&s, t, most);
        weigh_modelled(&s, t, most);
    }
    if (!choice->known)
        say_unknown(&s);
    choice->beats =
        choice->known && choice->speedup > chain * (1 + spt_choose_noise);
}

const char *spt_tree_text(const spt_tree_choice *c, char *text, size_t size)
{
    if (!c->known) {
        snprintf(text, size, "no number: %s", c->reason);
        return text;
    }
    snprintf(text, size,
             "of %d nodes, %d deep, top %d (E[L] %.2f %s): %.2fx, %s",
             c->tree.nodes, c->tree.depth, c->tree.top_k, c->expected_length,
             c->published ? "published" : "from its ranks", c->speedup,
             c->beats ? "faster than the chain" : "not faster than the chain");
    return text;
}
