/*
 * Pairs of distributions, p of a target and q of its drafts, that rejection is
 * tested with, and how far counts of what it gave are from p.
 */
#ifndef SPT_REJECT_PAIRS_H
#define SPT_REJECT_PAIRS_H

#include <math.h>

enum { REJECT_TOKENS = 6 };

typedef struct reject_pair {
    const char *name;
    double p[REJECT_TOKENS], q[REJECT_TOKENS];
} reject_pair;

static const reject_pair reject_pairs[] = {
    {"equal", {.5, .2, .1, .1, .05, .05}, {.5, .2, .1, .1, .05, .05}},
    {"near", {.5, .2, .1, .1, .05, .05}, {.4, .3, .05, .15, .05, .05}},
    {"zeros in both", {.7, .3, 0, 0, 0, 0}, {0, .5, .5, 0, 0, 0}},
    {"disjoint", {.25, .25, .5, 0, 0, 0}, {0, 0, 0, .5, .25, .25}},
    {"uniform",
     {1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6},
     {.9, .02, .02, .02, .02, .02}},
    {"two tokens", {.999, .001, 0, 0, 0, 0}, {.001, .999, 0, 0, 0, 0}},
};
enum { REJECT_PAIRS = sizeof reject_pairs / sizeof *reject_pairs };

/* The 99.99 % point of chi-square with five degrees of freedom. */
static const double reject_bound = 25.74;

/* Chi-square of n draws against p; infinity where one was impossible. */
static double reject_chi_square(const double *p, const double *counts, int n)
{
    double chi = 0;
    for (int i = 0; i < REJECT_TOKENS; i++) {
        double expected = p[i] * n;
        if (p[i] == 0 && counts[i] > 0)
            return INFINITY;
        if (p[i] > 0)
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return chi;
}

#endif
