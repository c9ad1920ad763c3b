/* Blocks that grow: what is in them stays, and a refusal changes nothing. */
#include <stdint.h>

#include "check.h"
#include "mem.h"

static void test_keeps(void)
{
    int64_t *items = NULL;
    size_t room = 0, moves = 0, small = 0, wrong = 0;
    for (size_t i = 0; i < 100000; i++) {
        size_t before = room;
        if (!spt_grow(&items, &room, i + 1, sizeof *items))
            break;
        moves += room != before;
        small += room <= i || (room != before && room < 2 * before);
        items[i] = (int64_t)i * 3;
    }
    for (size_t i = 0; i < 100000; i++)
        wrong += items[i] != (int64_t)i * 3;
    CHECK(wrong == 0, "100,000 elements stay what they were");
    CHECK(small == 0, "there is room, and it at least doubles");
    CHECK(moves < 20, "the block moves seldom: %zu times", moves);
    spt_free(items);
}

static void test_jump(void)
{
    char *bytes = NULL;
    size_t room = 0;
    CHECK(spt_grow(&bytes, &room, 1000, 1) && room == 1000,
          "room for many at once");
    CHECK(spt_grow(&bytes, &room, 7, 1) && room == 1000, "no less for fewer");
    spt_free(bytes);
}

static void test_refusal(void)
{
    double *items = NULL;
    size_t room = 0;
    CHECK(spt_grow(&items, &room, 1, sizeof *items), "room for one");
    items[0] = 2.5;
    const double *block = items;
    const size_t had = room;
    CHECK(!spt_grow(&items, &room, SIZE_MAX / 4, sizeof *items),
          "a size that overflows is refused");
    CHECK(!spt_grow(&items, &room, SIZE_MAX, sizeof *items), "so is the most");
    CHECK(items == block && room == had && items[0] == 2.5,
          "block and room are as they were");
    spt_free(items);
}

int main(void)
{
    test_keeps();
    test_jump();
    test_refusal();
    return check_done();
}
