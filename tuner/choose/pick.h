/*
 * One load, one drafter, one acceptance table: the speedup at a draft length,
 * and the length to pick. What tables over many designs are made of; choose.h
 * does the same for whole grids.
 */
#ifndef SPT_PICK_H
#define SPT_PICK_H

#include "acceptance.h"
#include "choose.h"
#include "step.h"

/*
 * Rate with draft_length drafts over the rate of plain decoding; 1 at 0, and
 * negative where the table does not know that length or the drafter does not
 * draft that far.
 */
double spt_pick_speedup(const spt_step *step, const spt_drafter *drafter,
                        const spt_table *table, int draft_length);

typedef struct spt_pick {
    int draft_length; /* -1: not even plain decoding fits the board */
    double speedup;
} spt_pick;

/* The fastest draft length that fits; of those within the noise the shortest.*/
spt_pick spt_pick_length(const spt_step *step, const spt_drafter *drafter,
                         const spt_table *table);

/*
 * The table as if each draft were kept `factor` times as often as it is, given
 * that those before it were kept: survival S_i becomes S_i * factor^i. Lengths
 * past the first that the table does not know become unknown.
 */
spt_table spt_pick_scaled(const spt_table *table, double factor);

#endif
