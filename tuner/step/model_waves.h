/*
 * What the models of all operators share: CTAs run in waves of a fixed cost;
 * beside it the longer counts of the CTAs' own work, wave after wave, and the
 * memory traffic. Near the crossing both slow each other down: the norm of
 * the two, of power 3, which fits measured times of all boards best.
 */
#ifndef SPT_MODEL_WAVES_H
#define SPT_MODEL_WAVES_H

#include <math.h>

#include "board.h"

typedef struct spt_waves {
    double ctas, slots; /* slots: CTAs that run at the same time */
    double fixed_us; /* per wave */
    double full_us, rest_us; /* a CTA's work in a full wave, in the last one */
    double memory_us; /* traffic of all CTAs at the bandwidth */
} spt_waves;

static inline double spt_overlap(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;
    if (least <= 0)
        return most;
    double ratio = least / most;
    return most * cbrt(1 + ratio * ratio * ratio);
}

static inline double spt_waves_us(const spt_waves *w)
{
    double full = floor(w->ctas / w->slots);
    double rest = w->ctas - full * w->slots;
    double waves = full + (rest > 0);
    double work = full * w->full_us + (rest > 0 ? w->rest_us : 0);
    return waves * w->fixed_us + spt_overlap(work, w->memory_us);
}

/* Bytes per microsecond of an SM's way to L2: 64 bytes a cycle. */
static inline double spt_port_rate(const spt_board *b)
{
    return 64 * b->clock_mhz;
}

#endif
