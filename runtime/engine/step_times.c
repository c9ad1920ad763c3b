#include "step_times.h"

#include <math.h>
#include <stdlib.h>

enum {
    SEEDS = 8, /* first times, of which the lowest counts */
    ENOUGH = 3, /* times that a cell needs to be believed */
    FOLLOW = 16, /* then each moves it by this part of the difference */
};

/* A time that counts for more than this over the cell's is cut. */
static const double STALL = 1.25;

typedef spt_step_cell cells[SPT_DRAFT_NODES];

static int bucket(int value, int first, int count)
{
    int i = 0;
    while (i + 1 < count && (int64_t)first << i < value)
        i++;
    return i;
}

static int batch_bucket(int batch)
{
    return bucket(batch, 1, SPT_STEP_BATCHES);
}

static int context_bucket(int context)
{
    return bucket(context, SPT_STEP_CONTEXT, SPT_STEP_CONTEXTS);
}

/* Two ways that a cell went since it was last the same, one by n steps. */
static spt_step_cell both(spt_step_cell own, spt_step_cell file, uint32_t n,
                          uint32_t before)
{
    uint32_t others = file.steps - (before < file.steps ? before : 0);
    double low = fmin(own.us, file.us), high = fmax(own.us, file.us);
    double mine = fmin(n, FOLLOW), theirs = fmin(others, FOLLOW);
    uint32_t room = UINT32_MAX - file.steps, steps = file.steps;
    steps += n < room ? n : room;
    if (steps <= SEEDS)
        return (spt_step_cell){steps, low};
    high = fmin(high, low * STALL);
    double part = mine / (mine + theirs);
    return (spt_step_cell){steps, own.us < file.us
                                      ? low * part + high * (1 - part)
                                      : high * part + low * (1 - part)};
}

static spt_step_cell merged(spt_step_cell own, spt_step_cell kept,
                            spt_step_cell file)
{
    if (!file.steps || (file.steps == kept.steps && !(file.us < kept.us) &&
                        !(file.us > kept.us)))
        return own;
    if (own.steps == kept.steps)
        return file;
    return both(own, file, own.steps - kept.steps, kept.steps);
}

void spt_step_times_merge(spt_step_times *t, const spt_step_times *file)
{
    for (int b = 0; b < SPT_STEP_BATCHES; b++)
        for (int c = 0; c < SPT_STEP_CONTEXTS; c++)
            for (int r = 0; r < SPT_DRAFT_NODES; r++)
                t->cell[b][c][r] = merged(t->cell[b][c][r], t->kept[b][c][r],
                                          file->cell[b][c][r]);
}

spt_step_cell *spt_step_times_at(spt_step_times *t, int batch, int context,
                                 int rows)
{
    return &t->cell[batch_bucket(batch)][context_bucket(context)][rows - 1];
}

void spt_step_times_note(spt_step_times *t, int batch, int context, int rows,
                         double us)
{
    int per_sequence = (rows + batch - 1) / batch;
    if (per_sequence < 1 || per_sequence > SPT_DRAFT_NODES ||
        !(us >= SPT_STEP_US_MIN && us <= SPT_STEP_US_MAX))
        return;
    spt_step_cell *c = spt_step_times_at(t, batch, context, per_sequence);
    if (c->steps < SEEDS)
        c->us = c->steps ? fmin(c->us, us) : us;
    else
        c->us += (fmin(us, c->us * STALL) - c->us) / FOLLOW;
    if (c->steps < UINT32_MAX)
        c->steps++;
    t->notes++;
}

static int rows_of(const spt_step_model *m, int draft_length)
{
    int rows = 1 + draft_length * (m->branches > 1 ? m->branches : 1);
    return rows < SPT_DRAFT_NODES ? rows : SPT_DRAFT_NODES;
}

/* The draft length whose step has about so many rows. */
static int length_of(const spt_step_model *m, int rows)
{
    return (rows - 1) / (m->branches > 1 ? m->branches : 1);
}

/* Rows, nearest to those, that were timed; 0 = none. Fewer on a tie. */
static int nearest_rows(const cells *c, int rows)
{
    int best = 0;
    for (int r = 1; r <= SPT_DRAFT_NODES; r++)
        if ((*c)[r - 1].steps >= ENOUGH &&
            (!best || abs(r - rows) < abs(best - rows)))
            best = r;
    return best;
}

/* The context bucket nearest to that one in which anything was timed. */
static int nearest_context(const cells *of_batch, int context)
{
    for (int away = 0; away < SPT_STEP_CONTEXTS; away++)
        for (int side = -1; side <= 1; side += 2) {
            int i = context + side * away;
            if (i >= 0 && i < SPT_STEP_CONTEXTS &&
                nearest_rows(&of_batch[i], 1))
                return i;
        }
    return -1;
}

/* A context of the bucket, for the model. */
static int context_in(int i)
{
    return SPT_STEP_CONTEXT << i;
}

bool spt_step_times_get(const spt_step_times *t, const spt_step_model *m,
                        int batch, int context, int max, double *times)
{
    const cells *of_batch = t->cell[batch_bucket(batch)];
    int own = context_bucket(context), from = nearest_context(of_batch, own);
    for (int d = 0; d <= max && m->us; d++)
        times[d] = m->us(m->user, batch, context, d);
    if (from < 0)
        return m->us != NULL;
    int then = from == own ? context : context_in(from);
    for (int d = 0; d <= max; d++) {
        int rows = rows_of(m, d), near = nearest_rows(&of_batch[from], rows);
        double us = of_batch[from][near - 1].us;
        bool taken = from == own && near == rows;
        if (taken || !m->us)
            times[d] = us;
        else
            times[d] *= us / m->us(m->user, batch, then, length_of(m, near));
    }
    return true;
}
