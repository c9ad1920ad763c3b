/*
 * Acceptance: how many drafts the target keeps, from published tables.
 *
 * A table is keyed by method, drafter, target, workload, temperature and
 * thinking. It holds either the survival of each position (the chance that
 * drafts 1 to i are all kept), or the expected length at some draft lengths.
 * Beside them may stand the expected lengths of draft trees, and how often the
 * target's token is among the drafter's k likeliest. What has no table stays
 * unknown.
 */
#ifndef SPT_ACCEPTANCE_H
#define SPT_ACCEPTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "draft.h"
#include "error.h"
#include "mem.h"

/* A tree whose expected length was published. */
typedef struct spt_tree_length {
    spt_draft_tree tree;
    double expected; /* E[L] - 1 */
} spt_tree_length;

enum { SPT_TREES_MAX = 16, SPT_RANKS_MAX = 8 };

typedef struct spt_table {
    const char *method, *drafter, *target, *workload;
    const char *words; /* the source's own word for the workload */
    const char *source, *note; /* note: or "" */
    double temperature; /* -1 = not stated */
    int thinking; /* 1, 0, or -1 = not stated */
    bool borrow; /* targets without tables may take it */
    double match_rate; /* of n-gram: steps that have something to propose */
    /* expected[D] = E[L] - 1 with D drafts, given that there is a proposal;
       negative = unknown. expected[0] = 0. */
    double expected[SPT_DRAFT_MAX + 1];
    spt_tree_length trees[SPT_TREES_MAX];
    int n_trees;
    /* ranks[k - 1]: how often the target's token is among the k likeliest of
       the drafter, whatever the depth. */
    double ranks[SPT_RANKS_MAX];
    int n_ranks;
    int longest, known; /* largest D that is known, and how many are */
    int layer; /* 1 = of a user's file, 0 = shipped */
} spt_table;

typedef struct spt_acceptance {
    spt_arena arena;
    spt_table *tables;
    size_t count, capacity;
} spt_acceptance;

/* Adds the tables of a file; errors name file, table and field. */
spt_status spt_acceptance_read(spt_acceptance *acceptance, const char *path,
                               spt_error *err);
/* Adds every file of home/profiles/acceptance, by name. */
spt_status spt_acceptance_read_all(spt_acceptance *acceptance, const char *home,
                                   spt_error *err);
spt_status spt_acceptance_parse(spt_acceptance *acceptance, const char *text,
                                size_t size, const char *name, int layer,
                                spt_error *err);
void spt_acceptance_free(spt_acceptance *acceptance);

/*
 * The table for a key, or NULL. A user's file comes before the shipped ones;
 * of several tables the one that knows the most draft lengths wins, then the
 * first. drafter NULL: any; target NULL: any whose tables may be borrowed.
 */
const spt_table *spt_acceptance_find(const spt_acceptance *acceptance,
                                     const char *method, const char *drafter,
                                     const char *target, const char *workload);

/* "drafter with target on data set": a table, and the other data sets of its
   key that were not taken; text. */
const char *spt_table_text(const spt_acceptance *acceptance,
                           const spt_table *table, char *text, size_t size);

/* Workload words that tables use, in the order of first appearance. */
size_t spt_acceptance_workloads(const spt_acceptance *acceptance,
                                const char **workloads, size_t max);

#endif
