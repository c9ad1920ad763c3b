/*
 * ld and st of whole warps: each build moves what the lanes' addresses say,
 * one lane after the other, and leaves what is out of the ordinary (an address
 * outside, a misaligned one) to the instruction's own operation.
 */
#include <stdlib.h>

#include "access.h"
#include "check.h"
#include "decode.h"
#include "engine_lanes.h"

enum {
    BYTES = 4096,
    BASE = 1024, /* reserved shared memory */
    SLOT = 512,
    ADDRESS = 0,
    VALUES = SLOT, /* four slots */
    ROUNDS = 60,
    SPACES = 4,
    SHAPES = 7,
};
#define VA UINT64_C(0x10000000400)

static const struct shape {
    uint32_t bytes, count;
} shapes[SHAPES] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 2}, {4, 4}, {8, 2}};

typedef struct image {
    uint8_t regs[5 * SLOT] __attribute__((aligned(64)));
    uint8_t global[BYTES] __attribute__((aligned(64)));
    uint8_t shared[BYTES] __attribute__((aligned(64)));
} image;

static uint64_t state = 88172645463325252u;
static bool went_slow;
static image before, after, wanted;
static sim_launch launch;
static sim_cta cta;
static sim_warp warp;
static sim_cta_memory memory;
static sim_insn insns[2];
static sim_args *args;

static uint32_t next_random(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void slow(const sim_insn *in, sim_warp *w, uint8_t *regs, uint32_t exec)
{
    (void)in, (void)w, (void)regs, (void)exec;
    went_slow = true;
}

static const sim_insn *stop(const sim_insn *in, sim_warp *w, uint8_t *regs,
                            uint32_t exec)
{
    (void)in, (void)w, (void)regs, (void)exec;
    return NULL;
}

/* Where lane l goes, in bytes; total of them at each place. */
static uint32_t offset_of(int round, uint32_t l, uint32_t total)
{
    switch (round % 6) {
    case 0:
        return l * total;
    case 1:
        return 64 * (uint32_t)(round / 6 % 8) + l % 16 * total;
    case 2:
        return (31 - l) * total;
    case 3:
        return BYTES - BASE - total;
    case 4:
        return l * 80 + total - 80 % total;
    default:
        return next_random((BYTES - BASE) / total) * total;
    }
}

static void fill(int round, int space, uint32_t total, uint32_t exec)
{
    for (size_t i = 0; i < sizeof before; i++)
        ((uint8_t *)&before)[i] = (uint8_t)next_random(256);
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        uint64_t at = offset_of(round, l, total) / total * total;
        at += space == 0 || (space == 3 && round & 1) ? VA
              : space == 3                            ? SIM_SHARED_WINDOW + BASE
                                                      : BASE;
        if (!(exec >> l & 1))
            at = next_random(100000000);
        at -= 16; /* the instruction adds it */
        if (space == 1)
            ((uint32_t *)(void *)before.regs)[l] = (uint32_t)at;
        else
            ((uint64_t *)(void *)before.regs)[l] = at;
    }
}

static uint64_t address_of(int space, uint32_t l)
{
    if (space == 1)
        return ((const uint32_t *)(const void *)before.regs)[l] + 16u;
    return ((const uint64_t *)(const void *)before.regs)[l] + 16;
}

/* What the instruction does, from the manual: into wanted. */
static void expect(int space, const struct shape *shape, bool store,
                   uint32_t exec)
{
    uint32_t width = shape->bytes == 8 ? 8 : 4;
    wanted = before;
    for (uint32_t l = 0; l < SIM_LANES; l++) {
        if (!(exec >> l & 1))
            continue;
        uint64_t at = address_of(space, l);
        uint8_t *from = at >= SIM_SHARED_WINDOW
                            ? wanted.shared + (at - SIM_SHARED_WINDOW)
                        : at >= VA ? wanted.global + (at - VA)
                                   : wanted.shared + at;
        for (uint32_t k = 0; k < shape->count; k++) {
            uint8_t *lane = wanted.regs + VALUES + k * SLOT + l * width;
            if (store) {
                memcpy(from + k * shape->bytes, lane, shape->bytes);
                continue;
            }
            memset(lane, 0, width);
            memcpy(lane, from + k * shape->bytes, shape->bytes);
        }
    }
}

static void run(const sim_lane_op *op, uint32_t count, bool store,
                uint32_t exec)
{
    uint32_t address = store ? 0 : count;
    after = before;
    args->first[0] = 0;
    args->first[1] = (uint16_t)(store ? 1 : count);
    for (uint32_t k = 0; k < count; k++)
        args->arg[k + store].slot = VALUES + k * SLOT;
    args->arg[address].slot = ADDRESS;
    insns[0] = (sim_insn){.op = slow, .args = args, .offset = 16};
    *(store ? &insns[0].d : &insns[0].a) = ADDRESS;
    *(store ? &insns[0].a : &insns[0].d) = VALUES;
    insns[1] = (sim_insn){.full = stop, .masked = stop};
    memory.ranges[1] =
        (sim_range){.va = VA, .size = BYTES - BASE, .host = after.global};
    cta.shared = after.shared;
    went_slow = false;
    sim_handler handler = exec == UINT32_MAX ? op->full : op->masked;
    handler(&insns[0], &warp, after.regs, exec);
}

/* One lane outside, or misaligned: nothing may have been done. */
static bool refuses(const sim_lane_op *op, int space, const struct shape *shape,
                    bool store, uint32_t exec, bool misaligned)
{
    uint32_t total = shape->bytes * shape->count;
    uint32_t lane = 31 - (uint32_t)__builtin_clz(exec);
    uint32_t add = misaligned ? 1 : BYTES;
    if (misaligned && total == 1)
        return true;
    if (space == 1)
        ((uint32_t *)(void *)before.regs)[lane] += add;
    else
        ((uint64_t *)(void *)before.regs)[lane] += add;
    run(op, shape->count, store, exec);
    return went_slow && !memcmp(&after, &before, sizeof after);
}

static void check_build(const char *build, const sim_lane_table *table)
{
    static const char *const spaces[SPACES] = {"global", "shared, 32 bits",
                                               "shared, 64 bits", "generic"};
    for (int row = 0; row < 2 * SPACES * SHAPES; row++) {
        int space = row / 2 / SHAPES;
        const struct shape *shape = &shapes[row / 2 % SHAPES];
        bool store = row & 1;
        uint32_t total = shape->bytes * shape->count;
        int wrong = 0, taken = 0;
        for (int round = 0; round < ROUNDS; round++) {
            uint32_t some = next_random(UINT32_MAX) | 1;
            uint32_t exec = round % 4 ? UINT32_MAX : some;
            fill(round, space, total, exec);
            run(&table->ops[row], shape->count, store, exec);
            expect(space, shape, store, exec);
            wrong += went_slow || memcmp(&after, &wanted, sizeof after) != 0;
            taken += !refuses(&table->ops[row], space, shape, store, exec,
                              round & 1);
        }
        CHECK(!wrong, "%s: %s, %u x %u bytes, %s", build, store ? "st" : "ld",
              shape->count, shape->bytes, spaces[space]);
        CHECK(!taken, "%s: %s, %u x %u bytes, %s: faults are not its own",
              build, store ? "st" : "ld", shape->count, shape->bytes,
              spaces[space]);
    }
}

int main(void)
{
    args = calloc(1, sizeof *args + 5 * sizeof *args->arg);
    launch.shared_base = BASE;
    cta =
        (sim_cta){.launch = &launch, .shared_bytes = BYTES, .memory = &memory};
    warp = (sim_warp){.cta = &cta, .launch = &launch};
    check_build("plain", &sim_lanes_memory_plain);
    if (sim_lanes_build() >= SIM_BUILD_AVX2)
        check_build("AVX2", &sim_lanes_memory_avx2);
    if (sim_lanes_build() >= SIM_BUILD_AVX512)
        check_build("AVX-512", &sim_lanes_memory_avx512);
    free(args);
    return check_done();
}
