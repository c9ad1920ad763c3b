/*
 * Runs of lanes, cut into parts of cells.
 */
#include "shape.h"

/* How lanes go on from the one before: side by side, or at the same place. */
typedef struct neighbours {
    uint32_t next, same; /* lanes */
} neighbours;

static neighbours neighbours_of(const uint32_t *at, uint32_t lanes,
                                uint32_t bytes)
{
    neighbours n = {0, 0};
    for (uint32_t l = 1; l < SIM_LANES; l++) {
        uint32_t apart = at[l] - at[l - 1];
        n.next |= (uint32_t)(apart == bytes) << l;
        n.same |= (uint32_t)(apart == 0) << l;
    }
    lanes &= lanes << 1;
    n.next &= lanes;
    n.same &= lanes;
    return n;
}

/* Lanes from `lane` on that mask has after it, itself included. */
static uint32_t streak(uint32_t mask, uint32_t lane)
{
    uint64_t behind = (uint64_t)mask >> lane >> 1;
    return 1 + (uint32_t)__builtin_ctzll(~behind);
}

/* The lowest n bits. */
static uint32_t low_bits(uint32_t n)
{
    return n < 32 ? (1u << n) - 1 : UINT32_MAX;
}

static void add_run(sim_shape *s, uint32_t cell0, uint32_t from, uint32_t to,
                    uint32_t lane, uint32_t repeated)
{
    for (uint32_t at = from, end; at < to; at = end) {
        uint32_t i = (at - from) / s->bytes;
        end = at - at % SIM_CELL + SIM_CELL;
        end = end < to ? end : to;
        uint32_t n = end - at, first = at % SIM_CELL, lanes = n / s->bytes;
        uint32_t several = repeated >> i & low_bits(lanes);
        s->part[s->n++] = (sim_shape_part){
            .cell = (int32_t)(at / SIM_CELL - cell0),
            .bytes = (uint16_t)(low_bits(n) << first),
            .first = (uint8_t)first,
            .n = (uint8_t)n,
            .lane = (uint8_t)(lane + i),
            .whole = n == SIM_CELL && (!several || several == low_bits(lanes)),
            .several = (uint16_t)several,
            .who = several ? SIM_SHAPE_SEVERAL
                           : SIM_SHAPE_WHO(__builtin_ctz(s->bytes), lane + i)};
    }
}

/* Lanes side by side make a run; those behind it that access parts of the run
   again join it. */
void sim_shape_make(sim_shape *s, const uint32_t *at, uint32_t lanes,
                    uint32_t bytes, bool write)
{
    neighbours near = neighbours_of(at, lanes, bytes);
    s->lanes = lanes;
    s->bytes = bytes;
    s->place = at[0] % SIM_CELL;
    s->write = write;
    s->wavefronts.ideal = 0;
    s->n = 0;
    for (uint32_t l = 0; l < SIM_LANES; l++)
        s->apart[l] = at[l] - at[0];
    for (uint32_t lane = 0; lane < SIM_LANES;) {
        if (!(lanes >> lane & 1)) {
            lane++;
            continue;
        }
        uint32_t n = streak(near.next, lane), next = lane + n, repeated = 0;
        uint32_t from = at[lane], to = from + n * bytes;
        while (next < SIM_LANES && (lanes >> next & 1) && at[next] >= from &&
               at[next] + bytes <= to) {
            uint32_t i = (at[next] - from) / bytes;
            uint32_t more = streak(near.next, next);
            more = more < n - i ? more : n - i;
            repeated |= low_bits(more) << i;
            next += more > 1 ? more : streak(near.same, next);
        }
        add_run(s, at[0] / SIM_CELL, from, to, lane, write ? 0 : repeated);
        lane = next;
    }
}

sim_shape *sim_shape_of(sim_shapes *shapes, const uint32_t *at, uint32_t lanes,
                        uint32_t bytes, bool write)
{
    uint32_t first = at[0], place = first % SIM_CELL, differ = 0;
    uint32_t key[] = {at[1] - first, at[8] - first, at[16] - first,
                      at[31] - first};
    uint32_t hash = key[0] ^ key[1] * 3 ^ key[2] * 7 ^ key[3] * 11 ^ lanes ^
                    bytes * 13 ^ place * 29 ^ write * 5;
    hash *= UINT32_C(0x9e3779b1);
    sim_shape *s = &shapes->shape[hash / (UINT32_MAX / SIM_SHAPES + 1)];
    for (uint32_t l = 0; l < SIM_LANES; l++)
        differ |= (at[l] - first) ^ s->apart[l];
    if (differ | (s->lanes ^ lanes) | (s->bytes ^ bytes) | (s->place ^ place) |
        (uint32_t)(s->write ^ write))
        sim_shape_make(s, at, lanes, bytes, write);
    return s;
}
