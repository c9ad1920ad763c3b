/*
 * With A drafts kept out of D, a gate that stops at k commits 1 + min(A, k)
 * tokens in T(k). The best rate over all choices of k by A is where the largest
 * (or smallest) sum of tokens - rate * time is zero (Dinkelbach). In a batch
 * each sequence has its gate, but a pass of a serial drafter is made as long as
 * any of them goes on.
 */
#include "gate.h"

#include <math.h>
#include <stdio.h>

enum { ROUNDS_MAX = 60, WEIGHTS = 5 };

/* A printed length is a mean over few steps: survival may seem to rise by so
   much from one position to the next. Assumed. */
static const double survival_noise = 0.02;

/* Chances of keeping exactly a of D, and the times of stopping at k. */
typedef struct stops {
    int draft_length, batch;
    double chance[SPT_DRAFT_MAX + 1];
    double verify_us[SPT_DRAFT_MAX + 1], draft_us[SPT_DRAFT_MAX + 1];
} stops;

/* ahead: drafts beyond the last one that is verified, which show that it is
   time to stop. */
static bool fill(const spt_table *t, int draft_length, const spt_gate_times *at,
                 int ahead, stops *s)
{
    double before = 1;
    s->draft_length = draft_length;
    s->batch = at->batch > 1 ? at->batch : 1;
    for (int i = 1; i <= draft_length; i++) {
        if (t->expected[i] < 0)
            return false;
        double survival = t->expected[i] - (i > 1 ? t->expected[i - 1] : 0);
        if (survival > before + survival_noise)
            return false;
        survival = fmin(survival, before);
        s->chance[i - 1] = before - survival;
        before = survival;
    }
    s->chance[draft_length] = before;
    for (int k = 0; k <= draft_length; k++) {
        bool all = at->block || k + ahead > draft_length;
        s->verify_us[k] = at->verify_us[k];
        s->draft_us[k] = at->draft_us[all ? draft_length : k + ahead];
    }
    return true;
}

/* Where to stop when so many drafts would be kept; sign: 1 well, -1 badly;
   weight: of a pass, which others may need anyway. */
static int stop_at(const stops *s, int kept, double rate, double sign,
                   double weight)
{
    int chosen = 0;
    double best = -INFINITY;
    for (int k = 0; k <= s->draft_length; k++) {
        double tokens = 1 + (kept < k ? kept : k);
        double us = s->verify_us[k] + weight * s->draft_us[k];
        double value = sign * (tokens - rate * us);
        if (value > best) {
            best = value;
            chosen = k;
        }
    }
    return chosen;
}

/* Mean drafting time of a batch whose sequences stop at k with these chances:
   that of the last one. */
static double last_us(const stops *s, const double *stopping)
{
    double up_to = 0, before = 0, us = 0;
    for (int k = 0; k <= s->draft_length; k++) {
        up_to += stopping[k];
        double all = pow(fmin(up_to, 1), s->batch);
        us += (all - before) * s->draft_us[k];
        before = all;
    }
    return us;
}

static double extreme_rate(const stops *s, double sign, double weight)
{
    double rate = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        double tokens = 0, time = 0, before = rate;
        double stopping[SPT_DRAFT_MAX + 1] = {0};
        for (int a = 0; a <= s->draft_length; a++) {
            /* The first round takes the chain. */
            int k = round ? stop_at(s, a, rate, sign, weight) : s->draft_length;
            tokens += s->chance[a] * (1 + (a < k ? a : k));
            time += s->chance[a] * s->verify_us[k];
            stopping[k] += s->chance[a];
        }
        rate = tokens / (time + last_us(s, stopping));
        if (fabs(rate - before) <= 1e-12 * rate)
            break;
    }
    return rate;
}

bool spt_gate_rates(const spt_table *t, int draft_length,
                    const spt_gate_times *times, double *least, double *most)
{
    stops good, bad;
    if (draft_length < 1 || draft_length > t->longest ||
        !fill(t, draft_length, times, 0, &good) ||
        !fill(t, draft_length, times, 1, &bad))
        return false;
    int weights = good.batch > 1 ? WEIGHTS : 1;
    *least = INFINITY;
    *most = 0;
    for (int i = 0; i < weights; i++) {
        double weight = weights > 1 ? (double)i / (weights - 1) : 1;
        *most = fmax(*most, extreme_rate(&good, 1, weight));
        *least = fmin(*least, extreme_rate(&bad, -1, weight));
    }
    return true;
}

void spt_gate_weigh(const spt_drafter *drafter, const spt_table *t,
                    const spt_gate_times *times, int longest, int chain,
                    double rate, spt_gate *gate)
{
    double least, most;
    *gate = (spt_gate){.best = -1};
    if (drafter->method == SPT_METHOD_NGRAM) {
        snprintf(gate->reason, sizeof gate->reason,
                 "n-gram drafts have no probability of their own");
        return;
    }
    for (int d = 1; d <= longest; d++) {
        if (!spt_gate_rates(t, d, times, &least, &most))
            break;
        gate->known = true;
        if (d <= chain || d == 1)
            gate->worst = least / rate - 1;
        if (most / rate - 1 > gate->best) {
            gate->best = most / rate - 1;
            gate->draft_length = d;
        }
    }
    if (!gate->known)
        snprintf(gate->reason, sizeof gate->reason,
                 "survival is not known by position");
}

const char *spt_gate_text(const spt_gate *g, char *text, size_t size)
{
    if (!g->known)
        snprintf(text, size, "what one gains or loses is not known: %s",
                 g->reason);
    else if (g->best <= 0)
        snprintf(text, size, "none gains anything, not even a perfect one");
    else
        snprintf(
            text, size,
            "one gains at most %.0f %% (a perfect one over %d drafts), and "
            "a bad one loses up to %.0f %%",
            100 * g->best, g->draft_length, -100 * g->worst);
    return text;
}
