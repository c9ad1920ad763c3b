/*
 * How far to draft, from what became of earlier drafts and what a step costs.
 *
 * Depth i of a draft is judged when all before it were accepted. With a_i the
 * part of judged depths i that was accepted, S_i = a_1 ... a_i, h the part of
 * drafting steps in which the drafter had something to offer and T(D) the
 * time of a step with D drafts, tokens per time are
 *
 *     (1 + h (S_1 + ... + S_D)) / (h T(D) + (1 - h) T(0))
 *
 * and the D for which that is highest is taken, 0 included. Only the past
 * enters, so the choice never depends on the tokens that it is made for.
 *
 * Where 0 is best, the best other length is tried now and then, less and less
 * often: for two steps, as the first may have a drafter catch up, and on as
 * long as it pays. What was known of drafts fades meanwhile.
 */
#ifndef SPT_DRAFT_LENGTH_H
#define SPT_DRAFT_LENGTH_H

#include "draft_block.h"

typedef struct spt_draft_meter {
    double judged[SPT_DRAFT_NODES]; /* per depth; old ones fade */
    double accepted[SPT_DRAFT_NODES];
    double asked, offered; /* drafting steps, those with drafts */
    int plain_steps, probe_after; /* since D = 0; when to try again */
    int probe_steps; /* that are left of the trial */
    bool probing; /* the last choice was one */
    double needs; /* accepted drafts above which it pays */
} spt_draft_meter;

void spt_draft_meter_start(spt_draft_meter *meter);

/* A step that asked the drafter: depth offered (0 = nothing) and accepted. */
void spt_draft_meter_note(spt_draft_meter *meter, int offered, int accepted);

/* S_1 ... S_max; depths never judged are taken to be like the one before. */
void spt_draft_meter_survival(const spt_draft_meter *meter, int max,
                              double *survival);

/* The length for the next step. times: (max + 1), of steps with 0 ... max
   drafts, in any unit; NULL: max. */
int spt_draft_meter_choose(spt_draft_meter *meter, const double *times,
                           int max);

#endif
