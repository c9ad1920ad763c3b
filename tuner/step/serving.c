#include "serving.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "json.h"

typedef struct fact_row {
    const char *name, *unit;
    double min, max;
    size_t offset;
} fact_row;

static const fact_row facts[] = {
#define SPT_SERVING_FACT(field, unit, min, max, meaning) \
    {#field, unit, min, max, offsetof(spt_serving, field)},
#include "serving.def"
#undef SPT_SERVING_FACT
};
enum { FACTS = sizeof facts / sizeof *facts };

/* "field": [value, "unit", "source"] */
static spt_status read_fact(const cJSON *object, const char *where,
                            const fact_row *row, spt_serving *s, spt_error *err)
{
    const cJSON *list;
    SPT_TRY(spt_json_array(object, where, row->name, &list, err));
    const cJSON *value = cJSON_GetArrayItem(list, 0);
    const char *unit = cJSON_GetStringValue(cJSON_GetArrayItem(list, 1));
    const char *source = cJSON_GetStringValue(cJSON_GetArrayItem(list, 2));
    if (cJSON_GetArraySize(list) != 3 || !cJSON_IsNumber(value) || !unit ||
        strcmp(unit, row->unit) != 0 || !source || !*source)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %s: expected [number, \"%s\", source]", where,
                        row->name, row->unit);
    if (!(value->valuedouble >= row->min && value->valuedouble <= row->max))
        return spt_fail(err, SPT_E_FORMAT, "%s: %s is %g, expected %g to %g",
                        where, row->name, value->valuedouble, row->min,
                        row->max);
    memcpy((char *)s + row->offset, &value->valuedouble, sizeof(double));
    return SPT_OK;
}

static spt_status read_facts(const cJSON *root, const char *where,
                             spt_serving *s, spt_error *err)
{
    const cJSON *object, *item;
    SPT_TRY(spt_json_object(root, where, "facts", &object, err));
    for (size_t i = 0; i < FACTS; i++)
        SPT_TRY(read_fact(object, where, &facts[i], s, err));
    cJSON_ArrayForEach(item, object)
    {
        size_t i = 0;
        while (i < FACTS && strcmp(facts[i].name, item->string) != 0)
            i++;
        if (i == FACTS)
            return spt_fail(err, SPT_E_FORMAT, "%s: %.40s: unknown fact", where,
                            item->string);
    }
    if (cJSON_GetArraySize(object) != FACTS)
        return spt_fail(err, SPT_E_FORMAT, "%s: a fact is there twice", where);
    return SPT_OK;
}

static spt_status read_copy(const cJSON *root, const char *where,
                            const char *field, char *out, size_t size,
                            spt_error *err)
{
    const char *text;
    SPT_TRY(spt_json_text(root, where, field, &text, err));
    if (strlen(text) >= size)
        return spt_fail(err, SPT_E_FORMAT, "%s: %s: longer than %zu", where,
                        field, size - 1);
    snprintf(out, size, "%s", text);
    return SPT_OK;
}

/* "methods": {"mtp": {"flags", "tree" (optional), "source"}, ...}: those that
   the engine has. */
static spt_status read_methods(const cJSON *root, const char *path,
                               spt_serving *s, spt_error *err)
{
    const cJSON *object, *item;
    char where[320];
    SPT_TRY(spt_json_object(root, path, "methods", &object, err));
    cJSON_ArrayForEach(item, object)
    {
        int method = spt_drafter_find(item->string);
        if (method < 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: methods: '%.40s', expected one of: %s", path,
                            item->string, spt_drafter_list());
        spt_serving_method *m = &s->methods[method];
        snprintf(where, sizeof where, "%.250s: methods.%s", path, item->string);
        if (!cJSON_IsObject(item))
            return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", where);
        SPT_TRY(
            spt_json_only(item, where, "flags tree no_pipeline source", err));
        SPT_TRY(
            read_copy(item, where, "flags", m->flags, sizeof m->flags, err));
        if (spt_json_has(item, "tree"))
            SPT_TRY(
                read_copy(item, where, "tree", m->tree, sizeof m->tree, err));
        if (spt_json_has(item, "no_pipeline"))
            SPT_TRY(read_copy(item, where, "no_pipeline", m->no_pipeline,
                              sizeof m->no_pipeline, err));
        SPT_TRY(
            read_copy(item, where, "source", m->source, sizeof m->source, err));
    }
    return SPT_OK;
}

static spt_status read_serving(const cJSON *root, const char *where,
                               spt_serving *s, spt_error *err)
{
    const char *schema;
    SPT_TRY(spt_json_text(root, where, "schema", &schema, err));
    if (strcmp(schema, "spectune.engine/2") != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: schema '%.40s', expected spectune.engine/2", where,
                        schema);
    SPT_TRY(spt_json_only(root, where, "schema name source off methods facts",
                          err));
    SPT_TRY(read_copy(root, where, "name", s->name, sizeof s->name, err));
    SPT_TRY(read_copy(root, where, "source", s->source, sizeof s->source, err));
    SPT_TRY(read_copy(root, where, "off", s->off, sizeof s->off, err));
    SPT_TRY(read_methods(root, where, s, err));
    return read_facts(root, where, s, err);
}

spt_status spt_serving_parse(const char *text, size_t size, const char *name,
                             spt_serving *serving, spt_error *err)
{
    cJSON *root = NULL;
    spt_serving s = {0};
    SPT_TRY(spt_json_parse(text, size, name, &root, err));
    spt_status status = read_serving(root, name, &s, err);
    cJSON_Delete(root);
    if (status == SPT_OK)
        *serving = s;
    return status;
}

spt_status spt_serving_load(const char *home, const char *name,
                            spt_serving *serving, spt_error *err)
{
    spt_buf path = {0}, text = {0};
    char lower[24];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)tolower((unsigned char)name[n]);
    lower[n] = 0;
    spt_buf_printf(&path, "%s/profiles/engines/%s.json", home, lower);
    spt_status status = SPT_OK;
    if (name[n] || strchr(name, '/') || path.failed || !*name ||
        !spt_file_exists(path.data))
        status = spt_fail(err, SPT_E_USAGE,
                          "engine '%.40s': expected llama.cpp, vllm, sglang "
                          "or trtllm",
                          name);
    if (status == SPT_OK)
        status = spt_file_read(path.data, 1 << 20, &text, err);
    if (status == SPT_OK)
        status = spt_serving_parse(text.data ? text.data : "", text.size,
                                   path.data, serving, err);
    spt_buf_free(&path);
    spt_buf_free(&text);
    return status;
}

/* Replaces each `mark` in text. */
static void fill(char *text, size_t size, const char *mark, const char *value)
{
    spt_buf out = {0};
    const char *at = text;
    for (const char *hit; (hit = strstr(at, mark)) != NULL;
         at = hit + strlen(mark)) {
        spt_buf_add(&out, at, (size_t)(hit - at));
        spt_buf_puts(&out, value);
    }
    spt_buf_puts(&out, at);
    snprintf(text, size, "%s", out.data ? out.data : "");
    spt_buf_free(&out);
}

bool spt_serving_has(const spt_serving *s, spt_method method)
{
    return s->methods[method].flags[0] != 0;
}

bool spt_serving_has_trees(const spt_serving *s, spt_method method)
{
    return s->methods[method].tree[0] != 0;
}

/* Replaces each `mark` by a number. */
static void fill_number(char *text, size_t size, const char *mark, int number)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%d", number);
    fill(text, size, mark, digits);
}

bool spt_serving_tree_flags(const spt_serving *s, spt_method method,
                            const spt_draft_tree *tree, char *text, size_t size)
{
    snprintf(text, size, "%s", s->methods[method].tree);
    fill_number(text, size, "{DEPTH}", tree->depth);
    fill_number(text, size, "{TOP_K}", tree->top_k);
    fill_number(text, size, "{NODES}", tree->nodes);
    fill_number(text, size, "{NODES+1}", tree->nodes + 1);
    fill(text, size, "{DRAFTER}", "DRAFTER");
    return spt_serving_has_trees(s, method);
}

bool spt_serving_flags(const spt_serving *s, spt_method method,
                       int draft_length, char *text, size_t size)
{
    snprintf(text, size, "%s",
             draft_length ? s->methods[method].flags : s->off);
    fill_number(text, size, "{D}", draft_length);
    fill_number(text, size, "{D+1}", draft_length + 1);
    fill(text, size, "{DRAFTER}", "DRAFTER");
    return spt_serving_has(s, method);
}
