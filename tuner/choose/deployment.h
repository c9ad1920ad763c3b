/* Where a step runs, in words and as JSON: only what is not the usual, and what
   is assumed of it. */
#ifndef SPT_DEPLOYMENT_H
#define SPT_DEPLOYMENT_H

#include <cJSON.h>

#include "step.h"

enum { SPT_DEPLOYMENT_LINES = 8 };

typedef struct spt_labelled {
    const char *label;
    char text[400];
} spt_labelled;

/* Returns how many lines there are. */
int spt_deployment_lines(const spt_target *target, const spt_deployment *where,
                         spt_labelled lines[SPT_DEPLOYMENT_LINES]);
void spt_deployment_json(const spt_board *board, const spt_target *target,
                         const spt_deployment *where, cJSON *object);

/* "so many of the batch find room ..."; text. */
const char *spt_waits_text(int batch, double running, char *text, size_t size);

/* Which model the times come from: "modelled: ..."; text. */
const char *spt_times_text(const spt_board *board, const spt_deployment *where,
                           char *text, size_t size);

#endif
