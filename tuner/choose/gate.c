/*
 * With A drafts kept out of D, a gate that stops at k commits 1 + min(A, k)
 * tokens in T(k). The best rate over all choices of k by A is where the largest
 * (or smallest) sum of tokens - rate * time is zero (Dinkelbach).
 */
#include "gate.h"

#include <math.h>
#include <stdio.h>

enum { ROUNDS_MAX = 60 };

/* Chances of keeping exactly a of D, and the time of stopping at k. */
typedef struct stops {
    int draft_length;
    double chance[SPT_DRAFT_MAX + 1];
    double time_us[SPT_DRAFT_MAX + 1];
} stops;

static bool fill(const spt_table *t, int draft_length, const spt_gate_times *at,
                 stops *s)
{
    double before = 1;
    s->draft_length = draft_length;
    for (int i = 1; i <= draft_length; i++) {
        if (t->expected[i] < 0)
            return false;
        double survival = t->expected[i] - (i > 1 ? t->expected[i - 1] : 0);
        s->chance[i - 1] = fmax(before - survival, 0);
        before = survival;
    }
    s->chance[draft_length] = before;
    for (int k = 0; k <= draft_length; k++) {
        int drafted = at->block || k == draft_length ? draft_length : k + 1;
        s->time_us[k] = at->verify_us[k] + at->draft_us[drafted];
    }
    return true;
}

/* Where to stop when a drafts would be kept; sign: 1 well, -1 badly. */
static int stop_at(const stops *s, int kept, double rate, double sign)
{
    int chosen = 0;
    double best = -INFINITY;
    for (int k = 0; k <= s->draft_length; k++) {
        double tokens = 1 + (kept < k ? kept : k);
        double value = sign * (tokens - rate * s->time_us[k]);
        if (value > best) {
            best = value;
            chosen = k;
        }
    }
    return chosen;
}

static double extreme_rate(const stops *s, double sign)
{
    double rate = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        double tokens = 0, time = 0, before = rate;
        for (int a = 0; a <= s->draft_length; a++) {
            /* The first round takes the chain. */
            int k = round ? stop_at(s, a, rate, sign) : s->draft_length;
            tokens += s->chance[a] * (1 + (a < k ? a : k));
            time += s->chance[a] * s->time_us[k];
        }
        rate = tokens / time;
        if (fabs(rate - before) <= 1e-12 * rate)
            break;
    }
    return rate;
}

bool spt_gate_rates(const spt_table *t, int draft_length,
                    const spt_gate_times *times, double *least, double *most)
{
    stops s;
    if (draft_length < 1 || draft_length > t->longest ||
        !fill(t, draft_length, times, &s))
        return false;
    *most = extreme_rate(&s, 1);
    *least = extreme_rate(&s, -1);
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
        snprintf(text, size, "no bounds: %s", g->reason);
    else if (g->best <= 0)
        snprintf(text, size, "none gains anything, not even a perfect one");
    else
        snprintf(text, size,
                 "gains at most %.0f %% (a perfect one over %d drafts), and a "
                 "bad one loses up to %.0f %%",
                 100 * g->best, g->draft_length, -100 * g->worst);
    return text;
}
