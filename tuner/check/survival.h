/*
 * Drafts kept at every length, from what was printed at some.
 *
 * The chance that drafts 1 to i are all kept is taken as a * b^(i-1): a is the
 * first draft's, b a later one's after those before it. Both follow from the
 * shortest and the longest length that are known; from one length with
 * b = 0.94 a, the middle of published sweeps. Known lengths stay as they are,
 * lengths between them follow the curve, corrected for its error at both
 * neighbours.
 */
#ifndef SPT_SURVIVAL_H
#define SPT_SURVIVAL_H

#include <stddef.h>

enum { SPT_SURVIVAL_MAX = 64 };

/* kept[D]: mean drafts kept of D, for D = 0 to SPT_SURVIVAL_MAX. Entries
   that are negative are unknown and get filled; at least one D > 0 must be
   known. kept[0] becomes 0. */
void spt_survival_fill(double kept[SPT_SURVIVAL_MAX + 1]);

#endif
