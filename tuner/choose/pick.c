#include "pick.h"

#include <math.h>

double spt_pick_speedup(const spt_step *step, const spt_drafter *drafter,
                        const spt_table *table, int d)
{
    const char *evidence;
    if (d == 0)
        return 1;
    if (d > drafter->max_draft || d > table->longest || table->expected[d] < 0)
        return -1;
    double plain = spt_step_target_us(step, &evidence);
    double time = spt_step_verify_us(step, d, &evidence) +
                  spt_step_draft_us(step, drafter, d);
    return plain * spt_choose_rate(table, d, plain, time);
}

static bool fits(const spt_step *step, const spt_drafter *drafter, int d)
{
    return spt_step_fits(step, drafter, d,
                         spt_step_memory_bytes(step, drafter, d));
}

spt_pick spt_pick_length(const spt_step *step, const spt_drafter *drafter,
                         const spt_table *table)
{
    double speedups[SPT_DRAFT_MAX + 1], best = 0;
    if (!fits(step, drafter, 0))
        return (spt_pick){-1, 0};
    for (int d = 0; d <= SPT_DRAFT_MAX; d++) {
        speedups[d] = fits(step, drafter, d)
                          ? spt_pick_speedup(step, drafter, table, d)
                          : -1;
        best = fmax(best, speedups[d]);
    }
    int d = 0;
    while (speedups[d] < best * (1 - spt_choose_noise))
        d++;
    return (spt_pick){d, speedups[d]};
}

spt_table spt_pick_scaled(const spt_table *table, double factor)
{
    spt_table scaled = *table;
    double sum = 0;
    bool known = true;
    for (int d = 1; d <= SPT_DRAFT_MAX; d++) {
        known = known && d <= table->longest && table->expected[d] >= 0;
        if (known) {
            double survival = table->expected[d] - table->expected[d - 1];
            sum += fmin(survival * pow(factor, d), 1);
        }
        scaled.expected[d] = known ? sum : -1;
    }
    return scaled;
}
