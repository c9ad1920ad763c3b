/*
 * Commands that answer from the model alone: shared options, board and tables
 * opened, the error printed.
 */
#ifndef SPT_SURVEY_COMMAND_H
#define SPT_SURVEY_COMMAND_H

#include <cJSON.h>

#include "survey.h"

/* What is asked beside the survey's options. */
typedef struct spt_survey_ask {
    const char *workload; /* NULL: not named */
    bool json;
} spt_survey_ask;

typedef struct spt_survey_command {
    const char *name, *summary; /* "spectune why" */
    const spt_option *own; /* options of its own, shown first */
    int n_own;
    spt_survey_options *options; /* with the command's defaults */
    /* The answer, of a survey that is open. */
    spt_status (*run)(spt_survey *survey, const spt_survey_ask *ask, void *user,
                      spt_error *err);
    void *user;
} spt_survey_command;

/* The exit status. */
int spt_survey_main(const spt_survey_command *command, int argc, char **argv);

/* Takes the target that the options name, with the model's kernels and one
   workload; NULL becomes the usual one. */
spt_status spt_survey_begin(spt_survey *survey, const char **workload,
                            spt_error *err);

/* Engine, boards and power, where they are not the usual; what is assumed of
   experts; the kernels' chunk. */
void spt_survey_print_where(const spt_survey *survey);
void spt_survey_json(const spt_survey *survey, cJSON *object);
/* "times   modelled with ...". */
void spt_survey_print_times(const spt_survey *survey);

#endif
