#include "step_times.h"

#include <math.h>
#include <stdlib.h>

enum {
    SEEDS = 8, /* first times, of which the lowest counts */
    ENOUGH = 3, /* times that a cell needs to be believed */
    FOLLOW = 16, /* then each moves it by this part of the difference */
    UNSEEN = 32, /* steps after which a cell without times is due */
    ANEW = 256, /* steps after which a cell begins anew */
    APART = 1024, /* after which drafts are due where there are none */
    EXPIRED = 2048, /* after which a cell is not believed */
};

/* A time that counts for more than this over the cell's is cut; beyond it, or
   below by the same, a time is far from it. */
static const double STALL = 1.25;

/* Where a cell's batch and context stand. */
typedef struct place {
    int batch, context;
} place;

static int bucket(int value, int first, int count)
{
    int i = 0;
    while (i + 1 < count && (int64_t)first << i < value)
        i++;
    return i;
}

static place place_of(int batch, int context)
{
    return (place){bucket(batch, 1, SPT_STEP_BATCHES),
                   bucket(context, SPT_STEP_CONTEXT, SPT_STEP_CONTEXTS)};
}

static const spt_step_cell *cell_at(const spt_step_times *t, place p, int rows)
{
    return &t->cell[p.batch][p.context][rows - 1];
}

/* Steps of its place since it was timed. */
static uint32_t age(const spt_step_times *t, place p, const spt_step_cell *c)
{
    return t->clock[p.batch][p.context] - c->seen;
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
    high = fmin(high, low * STALL);
    double part = (own.us < file.us ? theirs : mine) / (mine + theirs);
    own.us = steps <= SEEDS ? low : low + (high - low) * part;
    own.steps = steps;
    return own;
}

static spt_step_cell merged(spt_step_cell own, spt_step_cell kept,
                            spt_step_cell file)
{
    if (!file.steps || (file.steps == kept.steps && !(file.us < kept.us) &&
                        !(file.us > kept.us)))
        return own;
    if (own.steps == kept.steps) {
        own.steps = file.steps;
        own.us = file.us;
        return own;
    }
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
    place p = place_of(batch, context);
    return &t->cell[p.batch][p.context][rows - 1];
}

/* Times that may replace the cell's: after long any, else far ones in a row. */
static bool replace(spt_step_cell *c, double us)
{
    bool far = us > c->us * STALL || us < c->us / STALL;
    if (!c->anew && !far) {
        c->fresh = 0;
        return false;
    }
    c->fresh_us = c->fresh ? fmin(c->fresh_us, us) : us;
    if (++c->fresh < (c->anew ? ENOUGH : SEEDS))
        return c->anew;
    c->us = c->fresh_us;
    c->fresh = 0;
    c->anew = false;
    return true;
}

void spt_step_times_note(spt_step_times *t, int batch, int context, int rows,
                         double us)
{
    int per_sequence = (rows + batch / 2) / batch;
    if (per_sequence < 1 || per_sequence > SPT_DRAFT_NODES ||
        !(us >= SPT_STEP_US_MIN && us <= SPT_STEP_US_MAX))
        return;
    place p = place_of(batch, context);
    spt_step_cell *c = &t->cell[p.batch][p.context][per_sequence - 1];
    t->clock[p.batch][p.context]++;
    if (age(t, p, c) > ANEW && !c->anew) {
        c->anew = c->steps >= SEEDS;
        c->fresh = 0;
    }
    if (c->steps < SEEDS)
        c->us = c->steps ? fmin(c->us, us) : us;
    else if (!replace(c, us))
        c->us += (fmin(us, c->us * STALL) - c->us) / FOLLOW;
    c->seen = t->clock[p.batch][p.context];
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

/* Rows, nearest to those, whose time is believed; 0 = none. Fewer on a tie. */
static int nearest_rows(const spt_step_times *t, place p, int rows)
{
    int best = 0;
    for (int r = 1; r <= SPT_DRAFT_NODES; r++) {
        const spt_step_cell *c = cell_at(t, p, r);
        if (c->steps >= ENOUGH && age(t, p, c) <= EXPIRED &&
            (!best || abs(r - rows) < abs(best - rows)))
            best = r;
    }
    return best;
}

/* The context nearest to p's, of its batch, in which anything was timed. */
static bool nearest_context(const spt_step_times *t, place *p)
{
    int own = p->context;
    for (int away = 0; away < SPT_STEP_CONTEXTS; away++)
        for (int side = -1; side <= 1; side += 2) {
            p->context = own + side * away;
            if (p->context >= 0 && p->context < SPT_STEP_CONTEXTS &&
                nearest_rows(t, *p, 1))
                return true;
        }
    p->context = own;
    return false;
}

/* The nearest place in which anything was timed. */
static bool nearest_place(const spt_step_times *t, place *p)
{
    int own = p->batch;
    for (int away = 0; away < SPT_STEP_BATCHES; away++)
        for (int side = -1; side <= 1; side += 2) {
            p->batch = own + side * away;
            if (p->batch >= 0 && p->batch < SPT_STEP_BATCHES &&
                nearest_context(t, p))
                return true;
        }
    return false;
}

spt_step_source spt_step_times_get(const spt_step_times *t,
                                   const spt_step_model *m, int batch,
                                   int context, int max, double *times)
{
    const place own = place_of(batch, context);
    place from = own;
    for (int d = 0; d <= max && m->us; d++)
        times[d] = m->us(m->user, batch, context, d);
    if (!nearest_place(t, &from))
        return m->us ? SPT_STEP_MODELLED : SPT_STEP_UNKNOWN;
    /* What the model is asked for: the middle of a place elsewhere. */
    bool here = from.batch == own.batch && from.context == own.context;
    int of_batch = from.batch == own.batch ? batch : 1 << from.batch;
    int then = here ? context : SPT_STEP_CONTEXT << from.context;
    for (int d = 0; d <= max; d++) {
        int rows = rows_of(m, d), near = nearest_rows(t, from, rows);
        double us = cell_at(t, from, near)->us;
        if ((here && near == rows) || !m->us)
            times[d] = us;
        else
            times[d] *= us / m->us(m->user, of_batch, then, length_of(m, near));
    }
    return SPT_STEP_TIMED;
}

/* What was begun is due until it has enough times. */
static bool is_due(const spt_step_times *t, place p, int rows, uint32_t after)
{
    const spt_step_cell *c = cell_at(t, p, rows);
    bool begun = c->anew || (c->steps && c->steps < ENOUGH);
    return begun || age(t, p, c) >= (c->steps ? after : UNSEEN);
}

bool spt_step_times_want_plain(const spt_step_times *t, int batch, int context)
{
    return is_due(t, place_of(batch, context), 1, ANEW);
}

int spt_step_times_explore(const spt_step_times *t, const spt_step_model *m,
                           int batch, int context, int max, int chosen)
{
    place p = place_of(batch, context);
    for (int d = chosen - 1; d <= chosen + 1; d += 2)
        if (d >= 1 && d <= max &&
            is_due(t, p, rows_of(m, d), chosen ? ANEW : APART))
            return d;
    return chosen;
}
