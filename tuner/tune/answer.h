/*
 * What the main command says: to people, 80 columns wide, and as JSON.
 */
#ifndef SPT_ANSWER_H
#define SPT_ANSWER_H

#include <cJSON.h>
#include <stdio.h>

#include "choose.h"

/*
 * Adds rule, ladder, choices, model, heads and the like to an object, times
 * rounded to four digits: all fields of the choice except kernels and files.
 * SPT_E_MEMORY when it could not.
 */
spt_status spt_answer_json(const spt_choose_input *input,
                           const spt_choices *choices, cJSON *object,
                           spt_error *err);

/* The answer in words and tables; colour: with terminal escapes. */
void spt_answer_print(FILE *out, const spt_choose_input *input,
                      const spt_choices *choices, bool colour);

/* True when out is a terminal and NO_COLOR is not set. */
bool spt_answer_colour(FILE *out);

#endif
