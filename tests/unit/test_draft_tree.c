/* Ancestor bits of draft trees, and what launchers refuse. */
#include "check.h"
#include "ngram.h"
#include "tree.h"

static void check_masks(void)
{
    /* 0 - 1 - 3 - 4, 0 - 2 */
    const int32_t parents[] = {-1, 0, 0, 1, 3};
    uint32_t masks[SPT_TREE_NODES];
    spt_error err;
    CHECK_OK(spt_tree_masks(parents, 5, masks, &err), &err, "a tree");
    CHECK_INT(masks[0], 1, "the anchor");
    CHECK_INT(masks[2], 1 | 4, "a child");
    CHECK_INT(masks[4], 1 | 2 | 8 | 16, "a great-grandchild");
    CHECK_OK(spt_tree_masks(parents, 0, masks, &err), &err, "no node");
}

static void check_refused(const int32_t *parents, int count, const char *text)
{
    uint32_t masks[SPT_TREE_NODES];
    spt_error err = {0};
    CHECK_INT(spt_tree_masks(parents, count, masks, &err), SPT_E_USAGE, text);
    CHECK_HAS(err.text, text, "and said why");
}

static void check_matches_refused(int min_match, int max_match)
{
    const spt_ngram_args args = {.min_match = min_match,
                                 .max_match = max_match};
    spt_error err = {0};
    CHECK_INT(spt_ngram_launch(NULL, NULL, &args, 1, NULL, &err), SPT_E_USAGE,
              "matches without sense");
    CHECK_HAS(err.text, "expected 1 <= min", "and said why");
}

int main(void)
{
    const int32_t itself[] = {-1, 1}, second_root[] = {-1, -1};
    const int32_t no_anchor[] = {0};
    check_masks();
    check_refused(itself, 2, "node 1 has the parent 1");
    check_refused(second_root, 2, "node 1 has the parent -1");
    check_refused(no_anchor, 1, "node 0 has the parent 0");
    check_refused(itself, SPT_TREE_NODES + 1, "33 nodes");
    check_matches_refused(0, 3);
    check_matches_refused(4, 3);
    return check_done();
}
