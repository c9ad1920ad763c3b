/* The table of angles that rotary embeddings read. */
#include "check.h"
#include "rotary.h"

enum { PAIRS = 3 };

int main(void)
{
    const float frequency[PAIRS] = {1, 0.125f, 1e-6f};
    static float table[20 * 2 * PAIRS], part[2 * PAIRS];
    spt_rotary_table(frequency, PAIRS, 1, 0, 20, table);
    CHECK_NEAR((double)table[0], 1, 0, "position 0 is not rotated");
    CHECK_NEAR((double)table[1], 0, 0, "by any pair");
    CHECK_NEAR((double)table[7 * 2 * PAIRS], cos(7.0), 1e-7,
               "a pair turns by its frequency per position");
    CHECK_NEAR((double)table[16 * 2 * PAIRS + 3], sin(2.0), 1e-7,
               "each by its own");
    spt_rotary_table(frequency, PAIRS, 1, 19, 1, part);
    CHECK(memcmp(part, table + 19 * 2 * PAIRS, sizeof part) == 0,
          "a part of the table is the table's");
    spt_rotary_table(frequency, PAIRS, 3, 131071, 1, part);
    CHECK_NEAR((double)part[0], 3 * cos(131071.0), 1e-6,
               "far positions are exact, and the magnitude multiplies");
    CHECK_NEAR((double)part[5], 3 * sin(131071 * (double)1e-6f), 1e-6,
               "slow pairs too");
    return check_done();
}
