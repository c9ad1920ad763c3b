/* What drafts: --spec-type, and vLLM's JSON by the rows of speculative.def. */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "run_options.h"

static const char WHERE[] = "--speculative-config";

static const struct {
    const char *name;
    spt_draft_method method;
} methods[] = {
#define METHOD(name, method) {name, SPT_DRAFT_##method},
#include "speculative.def"
};

typedef enum field_does { USED, ASIDE, ONE, OFF, REFUSED } field_does;

typedef struct field {
    const char *name;
    field_does does;
    const char *text;
} field;

static const field fields[] = {
#define FIELD(name, does, text) {name, does, text},
#include "speculative.def"
};

spt_status spt_run_method(const char *where, const char *name,
                          spt_draft_method *method, spt_error *err)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0) {
            *method = methods[i].method;
            return SPT_OK;
        }
    return spt_fail(err, SPT_E_USAGE,
                    "%s: '%.40s' is not run here, expected none, ngram, "
                    "model (draft_model) or eagle3",
                    where, name);
}

bool spt_run_method_has_file(spt_draft_method method)
{
    return method == SPT_DRAFT_MODEL || method == SPT_DRAFT_EAGLE3;
}

static const field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

/* Whether a value is how it is here anyway. */
static bool is_usual(const field *f, const cJSON *item)
{
    return cJSON_IsNull(item) ||
           (f->does == ONE && cJSON_IsNumber(item) && item->valuedouble == 1) ||
           (f->does == OFF && cJSON_IsFalse(item));
}

/* Known fields, each once; what is not used here is refused or noted. */
static spt_status check_fields(const cJSON *root, const char *command,
                               spt_error *err)
{
    if (!cJSON_IsObject(root))
        return spt_fail(err, SPT_E_USAGE, "%s: expected an object", WHERE);
    for (const cJSON *item = root->child; item; item = item->next) {
        const field *f = find_field(item->string);
        if (!f)
            return spt_fail(err, SPT_E_USAGE,
                            "%s: unknown field '%.60s', expected method, "
                            "model, num_speculative_tokens, prompt_lookup_min "
                            "or prompt_lookup_max",
                            WHERE, item->string);
        if (cJSON_GetObjectItemCaseSensitive(root, item->string) != item)
            return spt_fail(err, SPT_E_USAGE,
                            "%s: field '%.60s' is there twice", WHERE, f->name);
        if (f->does == USED || is_usual(f, item))
            continue;
        if (f->does != ASIDE)
            return spt_fail(err, SPT_E_USAGE, "%s: %s: is not here: %s", WHERE,
                            f->name, f->text);
        fprintf(stderr, "%s: %s: %s is left aside: %s\n", command, WHERE,
                f->name, f->text);
    }
    return SPT_OK;
}

static spt_status whole(const cJSON *root, const char *name, int64_t max,
                        int64_t *out, spt_error *err)
{
    if (!spt_json_has(root, name))
        return SPT_OK;
    return spt_json_int(root, WHERE, name, 1, max, out, err);
}

static spt_status read(spt_run_options *o, const cJSON *root, spt_error *err)
{
    const char *method = NULL, *model = NULL;
    spt_draft_options *draft = &o->engine.draft;
    SPT_TRY(
        check_fields(root, o->serves ? "spectune serve" : "spectune run", err));
    if (spt_json_has(root, "model")) {
        SPT_TRY(spt_json_text(root, WHERE, "model", &model, err));
        if (strlen(model) >= sizeof o->draft_model)
            return spt_fail(err, SPT_E_USAGE, "%s: model: the path is too long",
                            WHERE);
        strcpy(o->draft_model, model);
        bool is_ngram =
            strcmp(model, "ngram") == 0 || strcmp(model, "[ngram]") == 0;
        draft->model = is_ngram ? NULL : o->draft_model;
        draft->method = is_ngram ? SPT_DRAFT_NGRAM : SPT_DRAFT_MODEL;
    }
    if (spt_json_has(root, "method")) {
        SPT_TRY(spt_json_text(root, WHERE, "method", &method, err));
        SPT_TRY(spt_run_method("--speculative-config: method", method,
                               &draft->method, err));
    }
    SPT_TRY(whole(root, "num_speculative_tokens", SPT_DRAFT_LENGTH_MAX,
                  &o->draft_length, err));
    SPT_TRY(whole(root, "prompt_lookup_min", SPT_RUN_MATCH_MAX, &o->min_match,
                  err));
    return whole(root, "prompt_lookup_max", SPT_RUN_MATCH_MAX, &o->max_match,
                 err);
}

spt_status spt_run_speculative(spt_run_options *o, const char *json,
                               spt_error *err)
{
    cJSON *root = NULL;
    spt_status status = spt_json_parse(json, strlen(json), WHERE, &root, err);
    if (status == SPT_OK)
        status = read(o, root, err);
    cJSON_Delete(root);
    if (status == SPT_E_FORMAT)
        status = err->status = SPT_E_USAGE;
    return status;
}
