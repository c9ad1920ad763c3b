/*
 * Reads acceptance tables:
 *   {"schema": "spectune.acceptance/1", "source": "...", "tables": [
 *     {"method", "drafter", "target", "workload", "words", "temperature",
 *      "thinking", "survival": [...] or "expected": [{"draft_length",
 *      "length"}], "trees": [{"depth", "top_k", "nodes", "length"}],
 *      "ranks": [...], "match_rate" (n-gram), "borrow", "note"}]}
 */
#include "acceptance.h"

#include <stdio.h>
#include <string.h>

#include "drafter.h"
#include "files.h"
#include "json.h"

static const char *const workloads[] = {
    "code", "chat", "prose", "mathematics", "mixed", "translation", "editing"};

static bool known_workload(const char *name)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i], name) == 0)
            return true;
    return false;
}

static const char *keep(spt_acceptance *a, const char *text)
{
    return spt_arena_strdup(&a->arena, text, strlen(text));
}

static spt_status read_survival(const cJSON *json, const char *where,
                                spt_table *t, spt_error *err)
{
    const cJSON *list, *item;
    double before = 1, sum = 0;
    SPT_TRY(spt_json_array(json, where, "survival", &list, err));
    int count = cJSON_GetArraySize(list), i = 0;
    if (count < 1 || count > SPT_DRAFT_MAX)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: survival has %d positions, expected 1 to %d",
                        where, count, SPT_DRAFT_MAX);
    cJSON_ArrayForEach(item, list)
    {
        double s = cJSON_IsNumber(item) ? item->valuedouble : -1;
        i++;
        if (!(s >= 0 && s <= before))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: survival[%d]: expected a number from 0 to "
                            "that of the position before (%g)",
                            where, i - 1, before);
        before = s;
        sum += s;
        t->expected[i] = sum;
    }
    t->longest = count;
    return SPT_OK;
}

static spt_status read_expected(const cJSON *json, const char *where,
                                spt_table *t, spt_error *err)
{
    const cJSON *list, *item;
    SPT_TRY(spt_json_array(json, where, "expected", &list, err));
    cJSON_ArrayForEach(item, list)
    {
        int64_t d;
        double length;
        if (!cJSON_IsObject(item))
            return spt_fail(err, SPT_E_FORMAT, "%s: expected: expected objects",
                            where);
        SPT_TRY(spt_json_only(item, where, "draft_length length", err));
        SPT_TRY(spt_json_int(item, where, "draft_length", 1, SPT_DRAFT_MAX, &d,
                             err));
        SPT_TRY(spt_json_number(item, where, "length", 1, (double)(1 + d),
                                &length, err));
        if (t->expected[d] >= 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: expected: draft_length %lld twice", where,
                            (long long)d);
        t->expected[d] = length - 1;
        if (d > t->longest)
            t->longest = (int)d;
    }
    double before = 0;
    for (int d = 1; d <= t->longest; d++) {
        if (t->expected[d] < 0)
            continue;
        if (t->expected[d] < before)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: expected: shorter at draft_length %d than "
                            "before",
                            where, d);
        before = t->expected[d];
    }
    if (t->longest)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT, "%s: expected: no entry", where);
}

static spt_status read_tree(const cJSON *json, const char *where, spt_table *t,
                            spt_error *err)
{
    int64_t depth, top_k, nodes;
    double length;
    if (!cJSON_IsObject(json))
        return spt_fail(err, SPT_E_FORMAT, "%s: trees: expected objects",
                        where);
    if (t->n_trees == SPT_TREES_MAX)
        return spt_fail(err, SPT_E_FORMAT, "%s: trees: more than %d", where,
                        SPT_TREES_MAX);
    SPT_TRY(spt_json_only(json, where, "depth top_k nodes length", err));
    SPT_TRY(spt_json_int(json, where, "depth", 1, SPT_DRAFT_MAX, &depth, err));
    SPT_TRY(spt_json_int(json, where, "top_k", 2, 64, &top_k, err));
    SPT_TRY(spt_json_int(json, where, "nodes", depth, 1024, &nodes, err));
    SPT_TRY(spt_json_number(json, where, "length", 1, (double)(1 + depth),
                            &length, err));
    t->trees[t->n_trees++] =
        (spt_tree_length){{(int)depth, (int)top_k, (int)nodes}, length - 1};
    return SPT_OK;
}

static spt_status read_ranks(const cJSON *json, const char *where, spt_table *t,
                             spt_error *err)
{
    const cJSON *list, *item;
    double before = 0;
    SPT_TRY(spt_json_array(json, where, "ranks", &list, err));
    int count = cJSON_GetArraySize(list);
    if (count < 2 || count > SPT_RANKS_MAX)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: ranks has %d numbers, expected 2 to %d", where,
                        count, SPT_RANKS_MAX);
    cJSON_ArrayForEach(item, list)
    {
        double share = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(share >= before && share <= 1))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: ranks[%d]: expected a number from that of "
                            "the rank before (%g) to 1",
                            where, t->n_ranks, before);
        t->ranks[t->n_ranks++] = before = share;
    }
    return SPT_OK;
}

/* What is known of trees beside the chain. */
static spt_status read_trees(const cJSON *json, const char *where, spt_table *t,
                             spt_error *err)
{
    const cJSON *list, *item;
    bool trees = spt_json_has(json, "trees"),
         ranks = spt_json_has(json, "ranks");
    const char *none =
        spt_drafter_no_tree((spt_method)spt_drafter_find(t->method));
    if ((trees || ranks) && none)
        return spt_fail(err, SPT_E_FORMAT, "%s: %s: %s has none: %s", where,
                        trees ? "trees" : "ranks", t->method, none);
    if (ranks)
        SPT_TRY(read_ranks(json, where, t, err));
    if (!trees)
        return SPT_OK;
    SPT_TRY(spt_json_array(json, where, "trees", &list, err));
    cJSON_ArrayForEach(item, list) SPT_TRY(read_tree(item, where, t, err));
    return SPT_OK;
}

static spt_status read_key(const cJSON *json, const char *where, spt_table *t,
                           spt_error *err)
{
    SPT_TRY(spt_json_only(json, where,
                          "method drafter target workload words temperature "
                          "thinking survival expected trees ranks match_rate "
                          "borrow note",
                          err));
    SPT_TRY(spt_json_text(json, where, "method", &t->method, err));
    SPT_TRY(spt_json_text(json, where, "drafter", &t->drafter, err));
    SPT_TRY(spt_json_text(json, where, "target", &t->target, err));
    SPT_TRY(spt_json_text(json, where, "workload", &t->workload, err));
    SPT_TRY(spt_json_text(json, where, "words", &t->words, err));
    t->note = "";
    if (spt_json_has(json, "note"))
        SPT_TRY(spt_json_text(json, where, "note", &t->note, err));
    if (spt_drafter_find(t->method) < 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: method '%.40s': expected one of: %s", where,
                        t->method, spt_drafter_list());
    if (!known_workload(t->workload))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: workload '%.40s': expected code, chat, prose, "
                        "mathematics, mixed, translation or editing",
                        where, t->workload);
    t->borrow = true;
    if (spt_json_has(json, "borrow"))
        SPT_TRY(spt_json_bool(json, where, "borrow", &t->borrow, err));
    t->temperature = -1;
    if (spt_json_has(json, "temperature"))
        SPT_TRY(spt_json_number(json, where, "temperature", 0, 10,
                                &t->temperature, err));
    bool thinking = false;
    t->thinking = -1;
    if (spt_json_has(json, "thinking")) {
        SPT_TRY(spt_json_bool(json, where, "thinking", &thinking, err));
        t->thinking = thinking;
    }
    return SPT_OK;
}

static spt_status read_table(const cJSON *json, const char *where, spt_table *t,
                             spt_error *err)
{
    if (!cJSON_IsObject(json))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", where);
    SPT_TRY(read_key(json, where, t, err));
    t->match_rate = 1;
    if (strcmp(t->method, "ngram") == 0)
        SPT_TRY(spt_json_number(json, where, "match_rate", 0, 1, &t->match_rate,
                                err));
    else if (spt_json_has(json, "match_rate"))
        return spt_fail(err, SPT_E_FORMAT, "%s: match_rate: only ngram has one",
                        where);
    for (int d = 1; d <= SPT_DRAFT_MAX; d++)
        t->expected[d] = -1;
    bool survival = spt_json_has(json, "survival");
    if (survival == spt_json_has(json, "expected"))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: expected either survival or expected", where);
    SPT_TRY(survival ? read_survival(json, where, t, err)
                     : read_expected(json, where, t, err));
    SPT_TRY(read_trees(json, where, t, err));
    for (int d = 1; d <= t->longest; d++)
        t->known += t->expected[d] >= 0;
    return SPT_OK;
}

static spt_status keep_table(spt_acceptance *a, spt_table *t,
                             const char *source, spt_error *err)
{
    if (!spt_grow(&a->tables, &a->capacity, a->count + 1, sizeof *a->tables))
        return spt_fail(err, SPT_E_MEMORY, "acceptance: out of memory");
    t->source = source;
    const char **texts[] = {&t->method,   &t->drafter, &t->target,
                            &t->workload, &t->words,   &t->note};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = keep(a, *texts[i]);
        if (!*texts[i])
            return spt_fail(err, SPT_E_MEMORY, "acceptance: out of memory");
    }
    a->tables[a->count++] = *t;
    return SPT_OK;
}

static spt_status read_root(spt_acceptance *a, const cJSON *root,
                            const char *name, spt_error *err)
{
    const char *schema, *source;
    const cJSON *list, *item;
    char where[300];
    if (!cJSON_IsObject(root))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected a JSON object", name);
    SPT_TRY(spt_json_only(root, name, "schema source tables", err));
    SPT_TRY(spt_json_text(root, name, "schema", &schema, err));
    if (strcmp(schema, "spectune.acceptance/1") != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: schema '%.40s', expected spectune.acceptance/1",
                        name, schema);
    SPT_TRY(spt_json_text(root, name, "source", &source, err));
    SPT_TRY(spt_json_array(root, name, "tables", &list, err));
    source = keep(a, source);
    if (!source)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    int index = 0;
    cJSON_ArrayForEach(item, list)
    {
        spt_table t = {0};
        snprintf(where, sizeof where, "%.250s: tables[%d]", name, index++);
        SPT_TRY(read_table(item, where, &t, err));
        SPT_TRY(keep_table(a, &t, source, err));
    }
    return SPT_OK;
}

spt_status spt_acceptance_parse(spt_acceptance *a, const char *text,
                                size_t size, const char *name, int layer,
                                spt_error *err)
{
    cJSON *root = NULL;
    size_t before = a->count;
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    spt_status status = read_root(a, root, name, err);
    cJSON_Delete(root);
    if (status != SPT_OK) {
        a->count = before;
        return status;
    }
    for (size_t i = before; i < a->count; i++)
        a->tables[i].layer = layer;
    return SPT_OK;
}

static spt_status read_file(spt_acceptance *a, const char *path, int layer,
                            spt_error *err)
{
    spt_buf text = {0};
    spt_status status = spt_file_read(path, 16 << 20, &text, err);
    if (status == SPT_OK)
        status = spt_acceptance_parse(a, text.data ? text.data : "", text.size,
                                      path, layer, err);
    spt_buf_free(&text);
    return status;
}

spt_status spt_acceptance_read(spt_acceptance *a, const char *path,
                               spt_error *err)
{
    return read_file(a, path, 1, err);
}

static spt_status read_shipped(void *user, const char *path, spt_error *err)
{
    return read_file(user, path, 0, err);
}

spt_status spt_acceptance_read_all(spt_acceptance *a, const char *home,
                                   spt_error *err)
{
    char *folder = spt_path_join(home, "profiles/acceptance");
    if (!folder)
        return spt_fail(err, SPT_E_MEMORY, "acceptance: out of memory");
    spt_status status = spt_folder_each(folder, ".json", read_shipped, a, err);
    spt_free(folder);
    return status;
}

void spt_acceptance_free(spt_acceptance *a)
{
    spt_arena_free(&a->arena);
    spt_free(a->tables);
    memset(a, 0, sizeof *a);
}

const spt_table *spt_acceptance_find(const spt_acceptance *a,
                                     const char *method, const char *drafter,
                                     const char *target, const char *workload)
{
    const spt_table *best = NULL;
    for (size_t i = 0; i < a->count; i++) {
        const spt_table *t = &a->tables[i];
        if (strcmp(t->method, method) != 0 ||
            strcmp(t->workload, workload) != 0 ||
            (target ? strcasecmp(t->target, target) != 0 : !t->borrow) ||
            (drafter && strcasecmp(t->drafter, drafter) != 0))
            continue;
        if (!best || t->layer > best->layer ||
            (t->layer == best->layer && t->known > best->known))
            best = t;
    }
    return best;
}

static bool same_key(const spt_table *a, const spt_table *b)
{
    return strcmp(a->method, b->method) == 0 &&
           strcmp(a->drafter, b->drafter) == 0 &&
           strcmp(a->target, b->target) == 0 &&
           strcmp(a->workload, b->workload) == 0;
}

const char *spt_table_text(const spt_acceptance *a, const spt_table *table,
                           char *text, size_t size)
{
    bool stated = strcmp(table->words, "not stated") != 0;
    int used = snprintf(text, size, "%s with %s on %s", table->drafter,
                        table->target, stated ? table->words : "unnamed texts");
    const char *join = " (not taken: ";
    for (size_t i = 0; i < a->count; i++)
        if (&a->tables[i] != table && same_key(&a->tables[i], table) &&
            (size_t)used < size) {
            used += snprintf(text + used, size - (size_t)used, "%s%s", join,
                             a->tables[i].words);
            join = ", ";
        }
    if (*join == ',' && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ")");
    return text;
}

size_t spt_acceptance_workloads(const spt_acceptance *a, const char **out,
                                size_t max)
{
    size_t count = 0;
    for (size_t w = 0; w < sizeof workloads / sizeof *workloads; w++)
        for (size_t i = 0; i < a->count && count < max; i++)
            if (strcmp(a->tables[i].workload, workloads[w]) == 0) {
                out[count++] = workloads[w];
                break;
            }
    return count;
}
