/*
 * The builds of the lane handlers give the same bits, full and masked
 * handlers agree, and lanes that do not take part keep theirs.
 */
#include <stdlib.h>

#include "check.h"
#include "decode.h"
#include "engine_lanes.h"

enum { SLOT = 512, SLOTS = 6, ROUNDS = 24, D = 0, E = 5 };

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Any bits, small numbers, and the edges of the formats. */
static uint32_t word(int round)
{
    static const uint32_t edges[] = {
        0,          0x80000000, 1,          0xffffffff, 0x7fffffff,
        0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00001,
        0x007fffff, 0x00800000, 0x7f7fffff, 0x33000000, 0x477fe000,
        0x3c003c00, 0x7c00fc00, 0x80000001, 0x3ff00000, 0x7ff00000};
    uint64_t r = next_random();
    switch ((round + (r >> 60)) % 3) {
    case 0:
        return (uint32_t)r;
    case 1:
        return edges[r % (sizeof edges / sizeof *edges)];
    default:
        return r >> 40 & 1 ? (uint32_t)(r & 63)
                           : 0x3e000000 + (uint32_t)(r & 0x2ffffff);
    }
}

static const sim_insn *stop(const sim_insn *in, sim_warp *w, uint8_t *regs,
                            uint32_t exec)
{
    (void)in, (void)w, (void)regs, (void)exec;
    return NULL;
}

typedef struct bench_regs {
    uint8_t bytes[SLOTS * SLOT] __attribute__((aligned(64)));
} bench_regs;

typedef struct fixture {
    sim_insn insns[2];
    ptx_insn src;
    sim_args *args;
    sim_warp warp;
    bench_regs before;
} fixture;

static void fill(fixture *f, int round)
{
    for (size_t i = 0; i < sizeof f->before.bytes; i += 4) {
        uint32_t v = word(round);
        memcpy(f->before.bytes + i, &v, 4);
    }
    memset(f->insns, 0, sizeof f->insns);
    f->insns[0].d = D;
    f->insns[0].a = 1 * SLOT;
    f->insns[0].b = 2 * SLOT;
    f->insns[0].c = 3 * SLOT;
    f->insns[0].bits = round & 1 ? SIM_FTZ : 0;
    f->insns[0].args = f->args;
    f->insns[0].src = &f->src;
    f->insns[1].full = f->insns[1].masked = stop;
    f->src.operands[4].value = (int64_t)(next_random() & 255);
}

static void run(fixture *f, sim_handler handler, uint32_t exec,
                bench_regs *after)
{
    *after = f->before;
    handler(f->insns, &f->warp, after->bytes, exec);
}

/* Lanes of exec from one, the others from the other, for a slot's width. */
static bool blends(const bench_regs *masked, const bench_regs *full,
                   const bench_regs *before, uint32_t exec)
{
    for (int width = 0; width <= 8; width += 4) {
        bool good = true;
        for (unsigned l = 0; l < SIM_LANES && good; l++) {
            const bench_regs *r = exec >> l & 1 ? full : before;
            if (width)
                good = !memcmp(masked->bytes + l * (unsigned)width,
                               r->bytes + l * (unsigned)width, (unsigned)width);
            else
                good = (masked->bytes[l / 8] >> l % 8 & 1) ==
                       (r->bytes[l / 8] >> l % 8 & 1);
        }
        if (good)
            return true;
    }
    return false;
}

static void compare(fixture *f, const char *table, const sim_lane_table *plain,
                    const sim_lane_table *fast, const char *build)
{
    size_t unequal = 0, unmasked = 0;
    CHECK_INT((long long)plain->count, (long long)fast->count, table);
    for (size_t i = 0; i < plain->count; i++) {
        const sim_lane_op *x = &plain->ops[i], *y = &fast->ops[i];
        bool packs = !*x->keys; /* two destinations: only compare builds */
        for (int round = 0; round < ROUNDS; round++) {
            static bench_regs a, b, c, d;
            uint32_t exec = (uint32_t)next_random() | 1;
            fill(f, round);
            run(f, x->full, UINT32_MAX, &a);
            run(f, y->full, UINT32_MAX, &b);
            run(f, x->masked, exec, &c);
            run(f, y->masked, exec, &d);
            if (memcmp(&a, &b, sizeof a) || memcmp(&c, &d, sizeof c)) {
                printf("# builds differ: %s\n", x->keys);
                unequal++;
                break;
            }
            if (!packs && !blends(&c, &a, &f->before, exec)) {
                printf("# mask is not kept: %s\n", x->keys);
                unmasked++;
                break;
            }
        }
    }
    CHECK(!unequal, "%s: plain and %s give the same bits", table, build);
    CHECK(!unmasked, "%s, %s: masked handlers change only their lanes", table,
          build);
}

static const sim_lane_op *row_of(const sim_lane_table *table, const char *key)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->ops[i].keys, key))
            return &table->ops[i];
    return NULL;
}

/* A row of vectors gives what the row of all roundings gives to nearest. */
static void check_usual(fixture *f, const sim_lane_table *table,
                        const char *key)
{
    char any[40];
    int wrong = 0;
    bool rounds = !strncmp(key, "cvt.rn.", 7);
    snprintf(any, sizeof any, "~%s%s", rounds ? "cvt." : "",
             key + (rounds ? 7 : 0));
    const sim_lane_op *x = row_of(table, key), *y = row_of(table, any);
    if (!CHECK(x && y, "%s has both rows", key))
        return;
    for (int round = 0; round < 4000; round++) {
        static bench_regs a, b;
        fill(f, round);
        f->insns[0].bits = SIM_RN;
        /* Registers of 16 bits have zeros above. */
        if (!strstr(key, "x2") && !strstr(key, "16.f32"))
            for (size_t i = 2; i < sizeof f->before.bytes; i += 4)
                memset(f->before.bytes + i, 0, 2);
        run(f, x->full, UINT32_MAX, &a);
        run(f, y->full, UINT32_MAX, &b);
        wrong += memcmp(&a, &b, sizeof a) != 0;
    }
    CHECK(!wrong, "%s: one rounding to nearest", key);
}

static void check_halves(fixture *f)
{
    static const char *const keys[] = {
        "add.f16",    "sub.f16",   "mul.f16",    "fma.f16",    "add.bf16",
        "sub.bf16",   "mul.bf16",  "fma.bf16",   "add.f16x2",  "sub.f16x2",
        "mul.f16x2",  "fma.f16x2", "add.bf16x2", "sub.bf16x2", "mul.bf16x2",
        "fma.bf16x2", "min.f16x2", "max.f16x2",  "min.bf16x2", "max.bf16x2"};
    static const char *const conversions[] = {
        "cvt.f32.f16",     "cvt.f32.bf16",     "cvt.rn.f16.f32",
        "cvt.rn.bf16.f32", "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_usual(f, &sim_lanes_float_plain, keys[i]);
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
        check_usual(f, &sim_lanes_convert_plain, conversions[i]);
}

/* The result nearest to 2^x, or its neighbour. */
static void check_ex2(fixture *f)
{
    const sim_lane_op *op = NULL;
    double worst = 0;
    for (size_t i = 0; i < sim_lanes_float_plain.count; i++)
        if (!strcmp(sim_lanes_float_plain.ops[i].keys, "~ex2.approx.f32"))
            op = &sim_lanes_float_plain.ops[i];
    if (!CHECK(op != NULL, "ex2 has a row"))
        return;
    for (int k = 0; k < 20000; k++) {
        static bench_regs after;
        fill(f, 0);
        float *x = (void *)(f->before.bytes + SLOT);
        for (int l = 0; l < SIM_LANES; l++)
            x[l] = (float)((double)(next_random() >> 11) * 0x1p-53 * 252 - 126);
        run(f, op->full, UINT32_MAX, &after);
        const float *y = (const void *)after.bytes;
        for (int l = 0; l < SIM_LANES; l++) {
            double exact = exp2((double)x[l]);
            worst = fmax(worst, fabs((double)y[l] - exact) / exact);
        }
    }
    CHECK(worst < 0x1.0001p-24, "ex2 is rounded right (worst %.3g)", worst);
}

int main(void)
{
    fixture *f = aligned_alloc(64, (sizeof *f + 63) / 64 * 64);
    memset(f, 0, sizeof *f);
    f->args = calloc(1, sizeof *f->args + 5 * sizeof *f->args->arg);
    f->args->count = 5;
    for (uint32_t i = 0; i < 5; i++) {
        f->args->arg[i].slot = (i == 4 ? E : i) * SLOT;
        f->args->first[i] = (uint16_t)i;
    }
    if (sim_lanes_build() == SIM_BUILD_PLAIN)
        CHECK(true, "no AVX2 here: nothing to compare");
#define COMPARE_TABLE(name)                                                    \
    if (sim_lanes_build() >= SIM_BUILD_AVX2)                                   \
        compare(f, #name, &sim_lanes_##name##_plain, &sim_lanes_##name##_avx2, \
                "AVX2");                                                       \
    if (sim_lanes_build() >= SIM_BUILD_AVX512)                                 \
        compare(f, #name, &sim_lanes_##name##_plain,                           \
                &sim_lanes_##name##_avx512, "AVX-512");
    SIM_LANE_TABLES(COMPARE_TABLE)
#undef COMPARE_TABLE
    check_ex2(f);
    check_halves(f);
    free(f->args);
    free(f);
    return check_done();
}
