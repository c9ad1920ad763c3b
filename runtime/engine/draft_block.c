#include "draft_block.h"

void spt_draft_clear(spt_draft *d)
{
    d->count = 0;
    d->chain = true;
    d->token[0] = d->parent[0] = -1;
    d->from[0] = (spt_draft_origin){0};
}

static int find_child(const spt_draft *d, int parent, int32_t token)
{
    for (int i = 1; i <= d->count; i++)
        if (d->parent[i] == parent && d->token[i] == token)
            return i;
    return -1;
}

int spt_draft_add(spt_draft *d, int parent, int32_t token, int *same)
{
    int known = find_child(d, parent, token);
    if (same)
        *same = known;
    if (known >= 0 || d->count + 1 >= SPT_DRAFT_NODES)
        return -1;
    int node = ++d->count;
    d->token[node] = token;
    d->parent[node] = parent;
    d->from[node] = (spt_draft_origin){0};
    d->chain = d->chain && parent == node - 1;
    return node;
}

void spt_draft_clean(spt_draft *d, int vocab, int max_depth, int max_nodes)
{
    int moved[SPT_DRAFT_NODES] = {0}, depth[SPT_DRAFT_NODES] = {0};
    int count = d->count < 0 ? 0 : d->count, kept = 0;
    if (count >= SPT_DRAFT_NODES)
        count = SPT_DRAFT_NODES - 1;
    d->chain = true;
    for (int i = 1; i <= count; i++) {
        int parent = d->parent[i];
        bool good = kept < max_nodes && parent >= 0 && parent < i &&
                    moved[parent] >= 0 && d->token[i] >= 0 &&
                    d->token[i] < vocab && depth[moved[parent]] < max_depth;
        moved[i] = good ? ++kept : -1;
        if (!good)
            continue;
        depth[kept] = depth[moved[parent]] + 1;
        d->token[kept] = d->token[i];
        d->parent[kept] = moved[parent];
        d->from[kept] = d->from[i];
        d->chain = d->chain && moved[parent] == kept - 1;
    }
    d->count = kept;
}

int spt_draft_depth(const spt_draft *d, int node)
{
    int depth = 0;
    for (; node > 0; node = d->parent[node])
        depth++;
    return depth;
}
