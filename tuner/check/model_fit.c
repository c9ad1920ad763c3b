/*
 * The constants of one operator are found together: the mean absolute
 * logarithm of modelled over measured time, each row's capped, so that the
 * engines' outliers draw nothing, plus a weak pull to where the fit starts.
 * The search is Nelder and Mead's simplex in the logarithms of the constants
 * (coefficients by Gao and Han, 2012, doi 10.1007/s10589-010-9329-3), restarted
 * with a fresh simplex where it ended; linear_hold, which is a threshold and
 * may be 0, is searched on a grid.
 */
#include "model_fit.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

enum {
    DIMENSIONS = SPT_TIME_CONSTANTS,
    RESTARTS = 3,
    STEPS_PER_DIMENSION = 40,
    FIRST_ROWS = 600, /* of a board in the first round */
    JOINT_ROWS = 1000, /* in the last, of all boards together */
};

static const double row_cap = 1, pull = 0.002;
static const double hold_grid[] = {0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3};

typedef struct fit {
    spt_time_operator op;
    const spt_measured *boards[SPT_CALIBRATION_MAX];
    size_t n_boards;
    size_t most_rows; /* of one board; others are taken evenly */
    spt_time_constants now, start;
    int rows[DIMENSIONS]; /* of spt_time_constant_rows that are searched */
    int n;
} fit;

static bool on_grid(int row)
{
    return spt_time_constant_rows[row].min == 0;
}

static void set_point(fit *f, const double *z)
{
    for (int i = 0; i < f->n; i++) {
        const spt_time_constant *row = &spt_time_constant_rows[f->rows[i]];
        *spt_time_constant_at(&f->now, f->rows[i]) =
            fmin(row->max, fmax(row->min, exp(z[i])));
    }
}

static double board_loss(const fit *f, const spt_measured *m)
{
    spt_board board = m->board;
    size_t stride = (m->count + f->most_rows - 1) / f->most_rows, taken = 0;
    double sum = 0;
    board.time = f->now;
    for (size_t i = 0; i < m->count; i += stride, taken++) {
        double us = spt_measured_model_us(&board, f->op, &m->rows[i]);
        sum += fmin(row_cap, fabs(log(us / m->rows[i].us)));
    }
    return sum / (double)taken;
}

static double loss(fit *f)
{
    double sum = 0, away = 0;
    for (size_t i = 0; i < f->n_boards; i++)
        sum += board_loss(f, f->boards[i]) / (double)f->n_boards;
    for (int i = 0; i < f->n; i++) {
        double z = log(*spt_time_constant_at(&f->now, f->rows[i]) /
                       *spt_time_constant_at(&f->start, f->rows[i]));
        away += fmin(4, z * z);
    }
    return sum + pull * away / f->n;
}

static double loss_at(fit *f, const double *z)
{
    set_point(f, z);
    return loss(f);
}

/* A simplex of n + 1 points; order[0] is the best, order[n] the worst. */
typedef struct simplex {
    double z[DIMENSIONS + 1][DIMENSIONS], value[DIMENSIONS + 1];
    double centre[DIMENSIONS]; /* of all points but the worst */
    int order[DIMENSIONS + 1];
    int n;
} simplex;

static void sort(simplex *s)
{
    for (int i = 1; i <= s->n; i++)
        for (int j = i; j > 0; j--) {
            int a = s->order[j - 1], b = s->order[j];
            if (s->value[a] <= s->value[b])
                break;
            s->order[j - 1] = b;
            s->order[j] = a;
        }
    for (int d = 0; d < s->n; d++) {
        s->centre[d] = 0;
        for (int i = 0; i < s->n; i++)
            s->centre[d] += s->z[s->order[i]][d] / s->n;
    }
}

static void start(simplex *s, fit *f, const double *z, double size)
{
    s->n = f->n;
    for (int i = 0; i <= s->n; i++) {
        memcpy(s->z[i], z, sizeof(double) * (size_t)s->n);
        if (i)
            s->z[i][i - 1] += i % 2 ? size : -size;
        s->value[i] = loss_at(f, s->z[i]);
        s->order[i] = i;
    }
    sort(s);
}

/* The point at centre + by * (centre - worst). */
static double probe(const simplex *s, fit *f, double by, double *z)
{
    const double *worst = s->z[s->order[s->n]];
    for (int d = 0; d < s->n; d++)
        z[d] = s->centre[d] + by * (s->centre[d] - worst[d]);
    return loss_at(f, z);
}

static void take(simplex *s, const double *z, double value)
{
    int worst = s->order[s->n];
    memcpy(s->z[worst], z, sizeof(double) * (size_t)s->n);
    s->value[worst] = value;
    sort(s);
}

static void shrink(simplex *s, fit *f, double by)
{
    const double *best = s->z[s->order[0]];
    for (int i = 1; i <= s->n; i++) {
        double *z = s->z[s->order[i]];
        for (int d = 0; d < s->n; d++)
            z[d] = best[d] + by * (z[d] - best[d]);
        s->value[s->order[i]] = loss_at(f, z);
    }
    sort(s);
}

static void step(simplex *s, fit *f)
{
    double n = s->n, reflected[DIMENSIONS], other[DIMENSIONS];
    double second = s->value[s->order[s->n - 1]];
    double worst = s->value[s->order[s->n]];
    double value = probe(s, f, 1, reflected);
    if (value < s->value[s->order[0]]) {
        double far = probe(s, f, 1 + 2 / n, other);
        take(s, far < value ? other : reflected, fmin(far, value));
        return;
    }
    if (value < second) {
        take(s, reflected, value);
        return;
    }
    double by = 0.75 - 1 / (2 * n);
    double inner = probe(s, f, value < worst ? by : -by, other);
    if (inner < fmin(value, worst))
        take(s, other, inner);
    else
        shrink(s, f, 1 - 1 / n);
}

static void minimise(fit *f)
{
    simplex *s = spt_calloc(1, sizeof *s);
    double z[DIMENSIONS];
    for (int i = 0; i < f->n; i++)
        z[i] = log(*spt_time_constant_at(&f->now, f->rows[i]));
    for (int restart = 0; s && restart < RESTARTS; restart++) {
        start(s, f, z, restart % 2 ? 0.1 : 0.4);
        for (int i = 0; i < STEPS_PER_DIMENSION * f->n; i++)
            step(s, f);
        memcpy(z, s->z[s->order[0]], sizeof z);
        set_point(f, z);
    }
    spt_free(s);
}

static void search_grid(fit *f)
{
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++) {
        if (spt_time_constant_rows[i].op != f->op || !on_grid(i))
            continue;
        double *value = spt_time_constant_at(&f->now, i), best = *value;
        double least = loss(f);
        for (size_t g = 0; g < sizeof hold_grid / sizeof *hold_grid; g++) {
            *value = hold_grid[g];
            double l = loss(f);
            if (l < least) {
                least = l;
                best = hold_grid[g];
            }
        }
        *value = best;
    }
}

/* Searches from constants, writes back those of the operator. */
static void run(fit *f, size_t last_rows, spt_time_constants *constants)
{
    f->now = f->start = *constants;
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++)
        if (spt_time_constant_rows[i].op == f->op && !on_grid(i))
            f->rows[f->n++] = i;
    for (int round = 0; round < 2; round++) {
        f->most_rows = round == 0 ? FIRST_ROWS : last_rows;
        search_grid(f);
        minimise(f);
    }
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++)
        if (spt_time_constant_rows[i].op == f->op)
            *spt_time_constant_at(constants, i) =
                spt_round4(*spt_time_constant_at(&f->now, i));
}

/* Fits one operator's constants to the boards of the set that `only` names
   (NULL: all), and notes rows and error in the entry. */
static spt_status fit_operator(const spt_measured_set *set,
                               spt_time_operator op, const char *only,
                               spt_calibration_entry *e, spt_error *err)
{
    fit *f = spt_calloc(1, sizeof *f);
    if (!f)
        return spt_fail(err, SPT_E_MEMORY, "fit: out of memory");
    f->op = op;
    for (size_t i = 0; i < set->count; i++) {
        const spt_measured *m = &set->list[i];
        if (m->op == op && (!only || strcmp(m->board.name, only) == 0))
            f->boards[f->n_boards++] = m;
    }
    if (f->n_boards)
        run(f, only ? SIZE_MAX / 2 : JOINT_ROWS, &e->constants);
    spt_status status = SPT_OK;
    double sum = 0;
    for (size_t i = 0; i < f->n_boards && status == SPT_OK; i++) {
        spt_model_score score;
        spt_measured m = *f->boards[i];
        m.board.time = e->constants;
        status = spt_measured_score(&m, &score, err);
        sum += status == SPT_OK ? score.mape : 0;
        e->rows[op] += (int)m.count;
    }
    e->mape[op] = f->n_boards ? sum / (double)f->n_boards : 0;
    spt_free(f);
    return status;
}

static bool has_entry(const spt_calibration *c, const char *board)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->entries[i].constants.fitted_on, board) == 0)
            return true;
    return false;
}

/* Where a fit of the operators that have rows starts. */
static void set_start(const spt_measured_set *set, spt_time_constants *c,
                      spt_time_constants *from)
{
    bool has[SPT_TIME_OPERATORS] = {false};
    for (size_t i = 0; i < set->count; i++)
        has[set->list[i].op] = true;
    for (int i = 0; i < SPT_TIME_CONSTANTS; i++)
        if (has[spt_time_constant_rows[i].op])
            *spt_time_constant_at(c, i) = *spt_time_constant_at(from, i);
}

/* Adds an entry; board NULL: of all boards together. */
static spt_status add_entry(const spt_measured_set *set, const spt_board *board,
                            spt_time_constants *from, spt_calibration *out,
                            spt_error *err)
{
    spt_calibration_entry *e = &out->entries[out->count];
    *e = (spt_calibration_entry){.constants = set->list[0].board.time};
    if (board) {
        e->constants = board->time;
        e->cc_major = board->cc_major;
        e->cc_minor = board->cc_minor;
    }
    set_start(set, &e->constants, from);
    snprintf(e->constants.fitted_on, sizeof e->constants.fitted_on, "%s",
             board ? board->name : "generic");
    for (int op = 0; op < SPT_TIME_OPERATORS; op++)
        SPT_TRY(fit_operator(set, op, board ? board->name : NULL, e, err));
    out->count++;
    return SPT_OK;
}

spt_status spt_model_fit(const spt_measured_set *set, const char *source,
                         spt_calibration *out, spt_error *err)
{
    spt_time_constants from = {0};
    bool several = false;
    *out = (spt_calibration){0};
    snprintf(out->source, sizeof out->source, "%s", source);
    spt_time_constants_start(&from);
    for (size_t i = 1; i < set->count; i++)
        several |= strcmp(set->list[0].board.name, set->list[i].board.name);
    if (several) {
        SPT_TRY(add_entry(set, NULL, &from, out, err));
        from = out->entries[0].constants;
    }
    for (size_t i = 0; i < set->count; i++) {
        const spt_board *board = &set->list[i].board;
        if (has_entry(out, board->name))
            continue;
        if (out->count == SPT_CALIBRATION_MAX)
            return spt_fail(err, SPT_E_UNSUPPORTED, "fit: too many boards");
        SPT_TRY(add_entry(set, board, &from, out, err));
    }
    return SPT_OK;
}
