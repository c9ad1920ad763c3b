/*
 * Draft lengths in a world that changes: the table of step times and the meter
 * of one session together, as a step uses them. What is compared is the tokens
 * per time that come of it with those of the best fixed length.
 */
#include "check.h"
#include "draft_length.h"
#include "step_times.h"

enum { LONGEST = 8 };

/* Microseconds of a step: of the batch, of each drafted token, of a context. */
typedef struct world {
    double plain_us, draft_us, context_us;
    double stair_us; /* more for each full tile of eight rows */
    double accepted; /* the part of judged drafts */
    double offered; /* the part of asked steps */
    int batch, context;
} world;

typedef struct life {
    spt_step_times *times;
    spt_draft_meter meter;
    spt_step_model model;
    bool drafted;
    double us, tokens; /* so far, as its lengths have them on the average */
    uint64_t state; /* of the random numbers */
} life;

static spt_step_times table;

static double random_part(life *l)
{
    l->state = l->state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(l->state >> 11) * 0x1p-53;
}

static double step_us(const world *w, int drafts)
{
    return w->plain_us + w->context_us * w->context + w->draft_us * drafts +
           w->stair_us * ((drafts + 1) / 8);
}

/* Of a step with that length on the average: tokens and microseconds. */
static double mean_tokens(const world *w, int length)
{
    double survival = 1, tokens = 1;
    for (int i = 0; i < length; i++) {
        survival *= w->accepted;
        tokens += survival;
    }
    return w->offered * tokens + 1 - w->offered;
}

static double mean_us(const world *w, int length)
{
    return w->offered * step_us(w, length) + (1 - w->offered) * step_us(w, 0);
}

/* Tokens per microsecond of a fixed length. */
static double fixed_rate(const world *w, int length)
{
    return mean_tokens(w, length) / mean_us(w, length);
}

static int best_length(const world *w)
{
    int best = 0;
    for (int d = 1; d <= LONGEST; d++)
        if (fixed_rate(w, d) > fixed_rate(w, best))
            best = d;
    return best;
}

static void begin(life *l, double (*us)(void *, int, int, int), void *user)
{
    memset(&table, 0, sizeof table);
    *l = (life){.times = &table, .model = {us, user, 1}, .state = 7};
    spt_draft_meter_start(&l->meter);
}

static int choose(life *l, const world *w)
{
    double us[LONGEST + 1];
    if (spt_step_times_want_plain(l->times, w->batch, w->context))
        return 0;
    spt_step_source source = spt_step_times_get(l->times, &l->model, w->batch,
                                                w->context, LONGEST, us);
    int length = spt_draft_meter_choose(&l->meter, source ? us : NULL, LONGEST);
    return spt_step_times_explore(l->times, &l->model, w->batch, w->context,
                                  LONGEST, length);
}

/* One step, which may be stalled; the length that was chosen. */
static int step(life *l, const world *w, double stall)
{
    int length = choose(l, w), accepted = 0;
    int drafts = random_part(l) < w->offered ? length : 0;
    double us = step_us(w, drafts) * (0.98 + 0.04 * random_part(l)) * stall;
    while (accepted < drafts && random_part(l) < w->accepted)
        accepted++;
    if (!length || l->drafted)
        spt_step_times_note(l->times, w->batch, w->context,
                            w->batch * (1 + drafts), us);
    l->drafted = length > 0;
    if (length)
        spt_draft_meter_note(&l->meter, drafts, accepted);
    l->us += mean_us(w, length);
    l->tokens += mean_tokens(w, length);
    return length;
}

static double live(life *l, const world *w, int steps)
{
    double sum = 0;
    for (int i = 0; i < steps; i++)
        sum += step(l, w, 1);
    return sum / steps;
}

/* Lives on; tokens per time as a part of the best fixed length's. */
static double gain(life *l, const world *w, int steps)
{
    l->us = l->tokens = 0;
    live(l, w, steps);
    return l->tokens / l->us / fixed_rate(w, best_length(w));
}

/* A model that takes drafts for cheap, and one that takes them for dear. */
static double cheap(void *user, int batch, int context, int length)
{
    (void)user;
    (void)context;
    return 100 * batch + length;
}

static double dear(void *user, int batch, int context, int length)
{
    (void)user;
    (void)context;
    return 100 * batch + 200 * length;
}

#define NEAR_BEST(l, w, steps, part, name)                                    \
    do {                                                                      \
        double seen = gain(l, w, steps);                                      \
        CHECK(seen > (part), "%s: %.3f of what length %d brings", name, seen, \
              best_length(w));                                                \
    } while (0)

static const world usual = {.plain_us = 100,
                            .draft_us = 10,
                            .accepted = 0.8,
                            .offered = 1,
                            .batch = 1,
                            .context = 100};

static void test_models(void)
{
    double (*const models[])(void *, int, int, int) = {cheap, dear, NULL};
    const char *const names[] = {"a model that is too low", "one too high",
                                 "none"};
    for (int i = 0; i < 3; i++) {
        life l;
        world w = usual;
        begin(&l, models[i], NULL);
        live(&l, &w, 1000);
        NEAR_BEST(&l, &w, 3000, 0.97, names[i]);
        w.draft_us = 150;
        begin(&l, models[i], NULL);
        live(&l, &w, 1000);
        NEAR_BEST(&l, &w, 3000, 0.97, "drafts that do not pay");
        CHECK_INT(best_length(&w), 0, "there are none");
    }
}

/* Lengths before a step of the ladder. */
static void test_stairs(void)
{
    life l;
    world w = usual;
    w.accepted = 0.95;
    w.draft_us = 1;
    w.stair_us = 300;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    CHECK_INT(best_length(&w), 6, "six drafts and the token fill a tile");
    NEAR_BEST(&l, &w, 1000, 0.97, "and seven are not taken");
}

static void test_stall(void)
{
    life l;
    const world w = usual;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    step(&l, &w, 1000);
    NEAR_BEST(&l, &w, 200, 0.97, "one stalled step changes nothing");
    begin(&l, cheap, NULL);
    step(&l, &w, 1);
    step(&l, &w, 1000);
    live(&l, &w, 500);
    NEAR_BEST(&l, &w, 1000, 0.97, "nor does one of the first");
}

/* All steps take longer, then shorter than before. */
static void test_drift(void)
{
    life l;
    world w = usual;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    w.plain_us *= 2;
    w.draft_us *= 2;
    NEAR_BEST(&l, &w, 1000, 0.9, "steps become slower");
    NEAR_BEST(&l, &w, 1000, 0.97, "and stay so");
    w.plain_us /= 4;
    w.draft_us /= 4;
    NEAR_BEST(&l, &w, 1000, 0.9, "they become faster");
    NEAR_BEST(&l, &w, 1000, 0.97, "and stay so");
}

/* The times of one length change, or were taken at a bad moment. */
static void test_one_side(void)
{
    life l;
    world w = usual, slow = usual;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    w.draft_us = 150;
    live(&l, &w, 300);
    NEAR_BEST(&l, &w, 1000, 0.95, "the drafter becomes slow");
    CHECK(live(&l, &w, 500) < 0.2, "and is hardly asked");
    w.draft_us = 10;
    live(&l, &w, 3000);
    NEAR_BEST(&l, &w, 2000, 0.95, "it is fast again");
    slow.plain_us = 1000;
    slow.draft_us = 1;
    w.draft_us = 150;
    begin(&l, NULL, NULL);
    live(&l, &slow, 60);
    CHECK(live(&l, &w, 10) > 0, "a GPU that others used at first");
    live(&l, &w, 1500);
    NEAR_BEST(&l, &w, 2000, 0.95, "does not hide that drafts cost much");
}

/* What is written becomes hard to foresee, then easy. */
static void test_text(void)
{
    life l;
    world w = usual;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    w.draft_us = 20;
    w.accepted = 0.05;
    live(&l, &w, 400);
    NEAR_BEST(&l, &w, 4000, 0.97, "drafts that are wrong");
    CHECK(live(&l, &w, 1000) < 0.3, "are left off");
    w.accepted = 0.9;
    live(&l, &w, 1100);
    NEAR_BEST(&l, &w, 2000, 0.95, "drafts that are right again");
    w.offered = 0.1;
    live(&l, &w, 500);
    NEAR_BEST(&l, &w, 2000, 0.95, "and seldom to be had");
}

/* Streams come and go; with many of them a step is full without drafts. */
static void test_batch(void)
{
    double (*const models[])(void *, int, int, int) = {cheap, dear, NULL};
    for (int i = 0; i < 3; i++) {
        life l;
        world one = usual, many = usual;
        many.batch = 64;
        many.plain_us = 300;
        many.draft_us = 250;
        begin(&l, models[i], NULL);
        live(&l, &one, 1000);
        live(&l, &many, 300);
        NEAR_BEST(&l, &many, 2000, 0.95, "many streams");
        NEAR_BEST(&l, &one, 1000, 0.95, "and one again");
    }
}

static void test_context(void)
{
    life l;
    world w = usual;
    w.context_us = 0.05;
    begin(&l, cheap, NULL);
    live(&l, &w, 1000);
    for (w.context = 300; w.context < 40000; w.context *= 2) {
        double seen = gain(&l, &w, 500);
        CHECK(seen > 0.93, "a context of %d: %.3f", w.context, seen);
    }
}

int main(void)
{
    test_models();
    test_stairs();
    test_stall();
    test_drift();
    test_one_side();
    test_text();
    test_batch();
    test_context();
    return check_done();
}
