#include "draft_length.h"

enum { FIRST_PROBE = 8, LAST_PROBE = 512, PROBE_STEPS = 2 };

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
    if (m->probing && accepted > m->needs)
        m->probe_steps = 1;
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

/* Of the lengths first ... max. */
static int best(const spt_draft_meter *m, const double *times, int first,
                int max)
{
    double survival[SPT_DRAFT_NODES], expected = 0, highest = 0;
    double h = (m->offered + PRIOR_WEIGHT) / (m->asked + PRIOR_WEIGHT);
    int choice = first;
    spt_draft_meter_survival(m, max, survival);
    for (int d = 0; d <= max; d++) {
        expected += d ? survival[d] : 0;
        double rate = (1 + h * expected) / (h * times[d] + (1 - h) * times[0]);
        if (d >= first && rate > highest) {
            highest = rate;
            choice = d;
        }
    }
    return choice;
}

/* A step without drafts makes the past older, too. */
static void fade(spt_draft_meter *m)
{
    m->asked *= FADE;
    m->offered *= FADE;
    for (int i = 1; i < SPT_DRAFT_NODES; i++) {
        m->judged[i] *= FADE;
        m->accepted[i] *= FADE;
    }
}

/* D = 0 is best: that, or a trial of the best other length. */
static int probe(spt_draft_meter *m, const double *times, int max)
{
    if (!m->probe_steps && ++m->plain_steps < m->probe_after) {
        fade(m);
        return 0;
    }
    if (!m->probe_steps) {
        m->probe_steps = PROBE_STEPS;
        m->plain_steps = 0;
        if (m->probe_after < LAST_PROBE)
            m->probe_after *= 2;
    }
    m->probe_steps--;
    m->probing = true;
    int choice = best(m, times, 1, max);
    m->needs = times[choice] / times[0] - 1;
    return choice;
}

int spt_draft_meter_choose(spt_draft_meter *m, const double *times, int max)
{
    if (max == 0)
        return 0;
    m->probing = false;
    int choice = times ? best(m, times, 0, max) : max;
    if (!choice)
        return probe(m, times, max);
    m->plain_steps = m->probe_steps = 0;
    if (m->probe_after > FIRST_PROBE)
        m->probe_after /= 2;
    return choice;
}
