#include "survey_command.h"

#include <stdio.h>
#include <string.h>

#include "deployment.h"
#include "show.h"

static bool same_ints(const spt_ints *a, const spt_ints *b)
{
    return a->count == b->count &&
           memcmp(a->values, b->values, (size_t)a->count * sizeof *a->values) ==
               0;
}

int spt_survey_main(const spt_survey_command *c, int argc, char **argv)
{
    enum { OWN_MAX = 8 };
    spt_survey_options *o = c->options;
    spt_survey_ask ask = {0};
    const spt_option shared[] = {
#define SPT_SURVEY_OPTION SPT_SURVEY_ROW
#include "survey.def"
#undef SPT_SURVEY_OPTION
        {"workload", 0, SPT_OPTION_TEXT, &ask.workload, "NAME",
         "what is written: a word of the acceptance tables (code, or the "
         "first that there is a table for)",
         0, 0},
        {"json", 0, SPT_OPTION_FLAG, &ask.json, NULL, "print one JSON object",
         0, 0},
    };
    spt_option options[OWN_MAX + sizeof shared / sizeof *shared];
    memcpy(options, c->own, (size_t)c->n_own * sizeof *options);
    memcpy(options + c->n_own, shared, sizeof shared);
    const spt_usage usage = {
        .command = c->name,
        .summary = c->summary,
        .options = options,
        .count = c->n_own + (int)(sizeof shared / sizeof *shared),
    };
    const spt_ints batches = o->batches, contexts = o->contexts;
    int code = spt_options(&usage, argc, argv, NULL);
    if (code >= 0)
        return code;
    o->usual_loads =
        same_ints(&batches, &o->batches) && same_ints(&contexts, &o->contexts);
    spt_error err = {0};
    static spt_survey survey;
    spt_status status = spt_survey_open(&survey, o, false, &err);
    if (status == SPT_OK)
        status = c->run(&survey, &ask, c->user, &err);
    spt_survey_close(&survey);
    return status == SPT_OK ? 0 : spt_exit_error(c->name, &err);
}

spt_status spt_survey_begin(spt_survey *s, const char **workload,
                            spt_error *err)
{
    spt_target target;
    SPT_TRY(spt_survey_load(s, &target, err));
    SPT_TRY(spt_survey_take(s, &target, err));
    SPT_TRY(spt_survey_pick_kernels(s, err));
    if (!*workload)
        *workload = spt_survey_usual_workload(s);
    return spt_survey_workload(s, *workload, err);
}

/* Tokens that a CTA reads: the same in all kernels of an answer. */
static int chunk_of(const spt_survey *s)
{
    return s->kernels.configs[0].chunk;
}

void spt_survey_print_where(const spt_survey *s)
{
    spt_labelled lines[SPT_DEPLOYMENT_LINES];
    int n = spt_deployment_lines(&s->target, &s->input.where, lines);
    for (int i = 0; i < n; i++)
        spt_print_labelled(lines[i].label, lines[i].text);
    char text[200];
    if (!s->kernels.count)
        return;
    snprintf(text, sizeof text, "of KV chunks of %d tokens, one size for %s",
             chunk_of(s),
             s->options->usual_loads
                 ? "the usual loads (batch 1 to 64, context 1k to 32k)"
                 : "the loads asked for: others may take another");
    spt_print_labelled("kernels", text);
}

void spt_survey_json(const spt_survey *s, cJSON *object)
{
    spt_deployment_json(&s->board, &s->target, &s->input.where, object);
    if (s->kernels.count)
        cJSON_AddNumberToObject(object, "chunk", chunk_of(s));
}

void spt_survey_print_times(const spt_survey *s)
{
    char text[300];
    spt_print_labelled(
        "times", spt_times_text(&s->board, &s->input.where, text, sizeof text));
}
