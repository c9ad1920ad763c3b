/* The choice of the draft length: it finds the best length of a known world. */
#include "check.h"
#include "draft_length.h"

static uint64_t state = 1;

static double random_part(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(state >> 11) * 0x1p-53;
}

/* One step in a world where each depth is accepted with probability part. */
static void live(spt_draft_meter *m, int length, double part, double match)
{
    int accepted = 0;
    if (length == 0)
        return;
    if (random_part() >= match) {
        spt_draft_meter_note(m, 0, 0);
        return;
    }
    while (accepted < length && random_part() < part)
        accepted++;
    spt_draft_meter_note(m, length, accepted);
}

static double mean_choice(spt_draft_meter *m, const double *times, double part,
                          double match, int steps)
{
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        int length = spt_draft_meter_choose(m, times, 15);
        sum += length;
        live(m, length, part, match);
    }
    return sum / steps;
}

static void test_choices(void)
{
    double flat[16], stairs[16], steep[16];
    for (int i = 0; i < 16; i++) {
        flat[i] = 1 + 0.001 * i;
        stairs[i] = 1 + (i + 1) / 8 * 0.5;
        steep[i] = 1 + i;
    }
    spt_draft_meter m;
    spt_draft_meter_start(&m);
    mean_choice(&m, flat, 0.9, 1, 500);
    CHECK_INT(spt_draft_meter_choose(&m, flat, 15), 15,
              "as long as possible where drafts cost nothing");
    CHECK_INT(spt_draft_meter_choose(&m, NULL, 15), 15,
              "and where no times are known");
    spt_draft_meter_start(&m);
    mean_choice(&m, stairs, 0.8, 1, 500);
    CHECK_INT(spt_draft_meter_choose(&m, stairs, 15), 6,
              "to the edge of a stair that is worth it");
    spt_draft_meter_start(&m);
    mean_choice(&m, steep, 0.3, 1, 500);
    CHECK(mean_choice(&m, steep, 0.3, 1, 1000) < 0.01,
          "hardly ever where a draft costs what it brings");
    mean_choice(&m, flat, 0.9, 1, 3000);
    CHECK(mean_choice(&m, flat, 0.9, 1, 100) > 10,
          "and again when the world has changed");
    spt_draft_meter_start(&m);
    mean_choice(&m, stairs, 0.8, 0.02, 500);
    CHECK(spt_draft_meter_choose(&m, stairs, 15) >= 6,
          "a drafter that seldom offers costs little");
}

static void test_survival(void)
{
    spt_draft_meter m;
    double survival[16];
    spt_draft_meter_start(&m);
    for (int i = 0; i < 3000; i++)
        live(&m, 4, 0.5, 1);
    spt_draft_meter_survival(&m, 15, survival);
    CHECK_NEAR(survival[1], 0.5, 0.1, "survival of the first");
    CHECK_NEAR(survival[3], 0.125, 0.06, "and the third");
    CHECK(survival[5] < survival[4] && survival[5] > 0.2 * survival[4],
          "unseen depths are like the last seen one");
}

int main(void)
{
    test_choices();
    test_survival();
    return check_done();
}
