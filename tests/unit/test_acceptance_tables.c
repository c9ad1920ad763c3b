/* Acceptance tables: the shipped ones and what the schema refuses. */
#include "acceptance.h"
#include "check.h"
#include "files.h"

static spt_error err;

static void test_shipped(void)
{
    spt_acceptance a = {0};
    CHECK_OK(spt_acceptance_read_all(&a, ".", &err), &err, "shipped tables");
    const spt_table *t =
        spt_acceptance_find(&a, "eagle3", NULL, "llama-3.1-8b", "chat");
    CHECK(t && t->longest == 10, "EAGLE-3 on Llama-3.1-8B, ten positions");
    if (t)
        CHECK_NEAR(1 + t->expected[10], 3.64, 0.005,
                   "whose expected length is the published one");
    t = spt_acceptance_find(&a, "external", "qwen3-1.7b", "qwen3-32b", "code");
    CHECK(t && t->longest == 6, "Qwen3-32B with 1.7B");
    t = spt_acceptance_find(&a, "dspark", NULL, "qwen3-8b", "code");
    CHECK(t && t->known == 1 && t->expected[7] > 4,
          "DSpark is known at seven drafts only");
    CHECK(!spt_acceptance_find(&a, "dspark", NULL, "qwen3-8b", "prose"),
          "what has no table has none");
    t = spt_acceptance_find(&a, "ngram", NULL, "smollm2-135m", "editing");
    CHECK(t && t->longest == 15 && t->match_rate < 1,
          "n-gram on SmolLM2-135M, own bench");
    t = spt_acceptance_find(&a, "external", "smollm2-fit1", "smollm2-135m",
                            "code");
    CHECK(t && t->longest == 2, "and with its fitted drafter");
    t = spt_acceptance_find(&a, "external", NULL, NULL, "mathematics");
    CHECK(!t, "which no stand-in borrows");
    t = spt_acceptance_find(&a, "ngram", NULL, NULL, "code");
    CHECK(t && strcmp(t->target, "llama-3.1-8b") == 0,
          "a stand-in borrows from a model of usual size");
    CHECK(!spt_acceptance_find(&a, "ngram", NULL, NULL, "editing"),
          "and nothing that only a tiny one has");
    bool sourced = true;
    for (size_t i = 0; i < a.count; i++)
        sourced &= strlen(a.tables[i].source) > 10;
    CHECK(sourced, "every table has a source");
    const char *user =
        "{\"schema\": \"spectune.acceptance/1\", \"source\": \"mine\","
        "\"tables\": [{\"method\": \"eagle3\", \"drafter\": \"mine\","
        "\"target\": \"llama-3.1-8b\", \"workload\": \"chat\","
        "\"words\": \"my prompts\", \"temperature\": 0, \"thinking\": null,"
        "\"survival\": [0.9, 0.8]}]}";
    CHECK_OK(spt_acceptance_parse(&a, user, strlen(user), "mine.json", 1, &err),
             &err, "a user's table");
    t = spt_acceptance_find(&a, "eagle3", NULL, "llama-3.1-8b", "chat");
    CHECK(t && strcmp(t->source, "mine") == 0, "comes before the shipped");
    spt_acceptance_free(&a);
}

#define TABLE(rest)                                                 \
    "{\"schema\": \"spectune.acceptance/1\", \"source\": \"test\"," \
    "\"tables\": [{\"method\": \"eagle3\", \"drafter\": \"d\","     \
    "\"target\": \"t\", \"workload\": \"chat\", \"words\": \"w\"," rest "}]}"

static void test_trees(void)
{
    spt_acceptance a = {0};
    CHECK_OK(spt_acceptance_read_all(&a, ".", &err), &err, "shipped tables");
    const spt_table *t =
        spt_acceptance_find(&a, "external", "llama-68m", "llama-7b", "chat");
    CHECK(t && t->n_trees == 4 && t->n_ranks == 5,
          "SpecInfer: four trees and five ranks");
    if (t) {
        CHECK_INT(t->trees[1].tree.nodes, 20,
                  "of which <1,1,3,1,1,1,1,1> has "
                  "twenty nodes");
        CHECK_NEAR(1 + t->trees[1].expected, 3.62, 1e-9, "and that length");
        CHECK_NEAR(t->ranks[4], 0.89, 1e-9, "among five likeliest");
    }
    spt_acceptance_free(&a);
}

static const struct refusal {
    const char *name, *text, *says;
} refusals[] = {
    {"another schema", "{\"schema\": \"x\", \"source\": \"y\"}", "schema"},
    {"no source", "{\"schema\": \"spectune.acceptance/1\"}", "source"},
    {"survival that grows", TABLE("\"survival\": [0.5, 0.6]"), "survival[1]"},
    {"survival above one", TABLE("\"survival\": [1.5]"), "survival[0]"},
    {"no survival", TABLE("\"note\": \"x\""), "survival or expected"},
    {"a tree with fewer nodes than levels",
     TABLE("\"survival\": [0.5], \"trees\": [{\"depth\": 3, \"top_k\": 2,"
           "\"nodes\": 2, \"length\": 2}]"),
     "nodes"},
    {"a tree that keeps more than its depth",
     TABLE("\"survival\": [0.5], \"trees\": [{\"depth\": 2, \"top_k\": 2,"
           "\"nodes\": 4, \"length\": 3.5}]"),
     "length"},
    {"ranks that fall", TABLE("\"survival\": [0.5], \"ranks\": [0.5, 0.4]"),
     "ranks[1]"},
    {"one rank", TABLE("\"survival\": [0.5], \"ranks\": [0.5]"), "ranks"},
    {"an empty survival", TABLE("\"survival\": []"), "survival"},
    {"an unknown field", TABLE("\"survival\": [0.5], \"extra\": 1"), "extra"},
    {"a match rate of another method",
     TABLE("\"survival\": [0.5], \"match_rate\": 1"), "match_rate"},
    {"a borrow that is no truth value",
     TABLE("\"survival\": [0.5], \"borrow\": 1"), "borrow"},
    {"a workload that nobody knows",
     "{\"schema\": \"spectune.acceptance/1\", \"source\": \"test\","
     "\"tables\": [{\"method\": \"eagle3\", \"drafter\": \"d\","
     "\"target\": \"t\", \"workload\": \"poems\", \"words\": \"w\","
     "\"survival\": [0.5]}]}",
     "workload"},
    {"an expected length above 1 + D",
     TABLE("\"expected\": [{\"draft_length\": 2, \"length\": 3.5}]"), "length"},
    {"an expected length that shrinks",
     TABLE("\"expected\": [{\"draft_length\": 1, \"length\": 1.8},"
           "{\"draft_length\": 2, \"length\": 1.5}]"),
     "shorter"},
    {"a draft length beyond 31",
     TABLE("\"expected\": [{\"draft_length\": 32, \"length\": 2}]"),
     "draft_length"},
    {"a list", "[1]", "expected a JSON object"},
    {"half a file", "{\"schema\": ", ":1:"},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        spt_acceptance a = {0};
        const struct refusal *r = &refusals[i];
        CHECK(spt_acceptance_parse(&a, r->text, strlen(r->text), "f.json", 1,
                                   &err) != SPT_OK,
              "%s is refused", r->name);
        CHECK_HAS(err.text, r->says, "and the line names the field");
        CHECK_HAS(err.text, "f.json", "and the file");
        CHECK_INT((long long)a.count, 0, "and nothing of it is kept");
        spt_acceptance_free(&a);
    }
}

int main(void)
{
    test_shipped();
    test_trees();
    test_refusals();
    return check_done();
}
