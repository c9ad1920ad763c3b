#include "survey_command.h"

#include <string.h>

#include "deployment.h"
#include "show.h"

int spt_survey_main(const spt_survey_command *c, int argc, char **argv)
{
    enum { OWN_MAX = 8 };
    spt_survey_options *o = c->options;
    spt_survey_ask ask = {.workload = "code"};
    const spt_option shared[] = {
#define SPT_SURVEY_OPTION SPT_SURVEY_ROW
#include "survey.def"
#undef SPT_SURVEY_OPTION
        {"workload", 0, SPT_OPTION_TEXT, &ask.workload, "NAME",
         "what is written: a word of the acceptance tables (code)", 0, 0},
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
    int code = spt_options(&usage, argc, argv, NULL);
    if (code >= 0)
        return code;
    spt_error err = {0};
    static spt_survey survey;
    spt_status status = spt_survey_open(&survey, o, false, &err);
    if (status == SPT_OK)
        status = c->run(&survey, &ask, c->user, &err);
    spt_survey_close(&survey);
    return status == SPT_OK ? 0 : spt_exit_error(c->name, &err);
}

spt_status spt_survey_begin(spt_survey *s, const char *workload, spt_error *err)
{
    spt_target target;
    SPT_TRY(spt_survey_load(s, &target, err));
    SPT_TRY(spt_survey_take(s, &target, err));
    SPT_TRY(spt_survey_pick_kernels(s, err));
    return spt_survey_workload(s, workload, err);
}

void spt_survey_print_where(const spt_survey *s)
{
    spt_labelled lines[SPT_DEPLOYMENT_LINES];
    int n = spt_deployment_lines(&s->input.where, lines);
    for (int i = 0; i < n; i++)
        spt_print_labelled(lines[i].label, lines[i].text);
}

void spt_survey_print_times(const spt_survey *s)
{
    char text[300];
    spt_print_labelled(
        "times", spt_times_text(&s->board, &s->input.where, text, sizeof text));
}
