#include "survival.h"

#include <stdbool.h>

enum { STEPS = 60, MAX = SPT_SURVIVAL_MAX };

static const double decay = 0.94;

typedef struct curve {
    double a, b;
} curve;

static double kept_of(curve c, int d)
{
    double sum = 0, s = c.a;
    for (int i = 0; i < d; i++, s *= c.b)
        sum += s;
    return sum;
}

/* From one length: a such that a * (1 + b + ...) is what was kept. */
static curve through_one(int d, double kept)
{
    double low = 0, high = 1;
    for (int i = 0; i < STEPS; i++) {
        double a = (low + high) / 2;
        *(kept_of((curve){a, decay * a}, d) < kept ? &low : &high) = a;
    }
    return (curve){low, decay * low};
}

/* From two: the ratio of sums grows with b, and a follows. */
static curve through_two(int d1, double kept1, int d2, double kept2)
{
    double low = 0, high = 1;
    for (int i = 0; i < STEPS; i++) {
        double b = (low + high) / 2;
        curve c = {1, b};
        bool less = kept_of(c, d2) * kept1 < kept2 * kept_of(c, d1);
        *(less ? &low : &high) = b;
    }
    return (curve){kept1 / kept_of((curve){1, low}, d1), low};
}

/* The nearest known length below (step -1) or above (+1) d; 0 = none. */
static int neighbour(const double known[MAX + 1], int d, int step)
{
    for (d += step; d > 0 && d <= MAX; d += step)
        if (known[d] >= 0)
            return d;
    return 0;
}

/* By how much what is known differs from the curve. */
static double error_at(const double known[MAX + 1], curve c, int d)
{
    double fitted = kept_of(c, d);
    return fitted > 0 ? known[d] / fitted : 1;
}

void spt_survival_fill(double kept[MAX + 1])
{
    double known[MAX + 1];
    for (int d = 0; d <= MAX; d++)
        known[d] = d ? kept[d] : 0;
    int first = neighbour(known, 0, 1), last = neighbour(known, MAX + 1, -1);
    curve c = first == last
                  ? through_one(first, known[first])
                  : through_two(first, known[first], last, known[last]);
    kept[0] = 0;
    for (int d = 1; d <= MAX; d++) {
        if (known[d] >= 0)
            continue;
        int below = neighbour(known, d, -1), above = neighbour(known, d, 1);
        double error = error_at(known, c, below ? below : above);
        if (below && above)
            error += (error_at(known, c, above) - error) * (d - below) /
                     (above - below);
        kept[d] = kept_of(c, d) * error;
    }
}
