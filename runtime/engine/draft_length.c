#include "draft_length.h"

enum { FIRST_PROBE = 8, LAST_PROBE = 512 };

/* A step's weight after n more of them is FADE^n: a few hundred count. */
static const double FADE = 0.995;
/* What nothing is known of: as if judged this often, accepted this part. */
static const double PRIOR_WEIGHT = 2, PRIOR = 0.7;

void spt_draft_meter_start(spt_draft_meter *m)
{
    *m = (spt_draft_meter){.probe_after = FIRST_PROBE};
}

void spt_draft_meter_note(spt_draft_meter *m, int offered, int accepted)
{
    m->asked = m->asked * FADE + 1;
    m->offered = m->offered * FADE + (offered > 0);
    for (int i = 1; i <= offered && i <= accepted + 1; i++) {
        m->judged[i] = m->judged[i] * FADE + 1;
        m->accepted[i] = m->accepted[i] * FADE + (i <= accepted);
    }
}

void spt_draft_meter_survival(const spt_draft_meter *m, int max,
                              double *survival)
{
    double part = PRIOR, all = 1;
    for (int i = 1; i <= max; i++) {
        part = (m->accepted[i] + PRIOR_WEIGHT * part) /
               (m->judged[i] + PRIOR_WEIGHT);
        all *= part;
        survival[i] = all;
    }
}

static int best(const spt_draft_meter *m, const double *times, int max)
{
    double survival[SPT_DRAFT_NODES], expected = 0, highest = 0;
    double h = (m->offered + PRIOR_WEIGHT) / (m->asked + PRIOR_WEIGHT);
    int choice = 0;
    spt_draft_meter_survival(m, max, survival);
    for (int d = 0; d <= max; d++) {
        expected += d ? survival[d] : 0;
        double rate = (1 + h * expected) / (h * times[d] + (1 - h) * times[0]);
        if (rate > highest) {
            highest = rate;
            choice = d;
        }
    }
    return choice;
}

int spt_draft_meter_choose(spt_draft_meter *m, const double *times, int max)
{
    int choice = times ? best(m, times, max) : max;
    if (choice > 0 || max == 0) {
        m->plain_steps = 0;
        m->probe_after = FIRST_PROBE;
        return choice;
    }
    if (++m->plain_steps < m->probe_after)
        return 0;
    m->plain_steps = 0;
    if (m->probe_after < LAST_PROBE)
        m->probe_after *= 2;
    return 1;
}
