/*
 * Loads, stores and atomics of every space and width, by what they leave in
 * memory: each case is a body and what thread t is to store in out[t].
 */
#include "check.h"
#include "sim_run.h"

#define OUT(reg) "st.global.u32 [%d1], " reg ";\n"
#define BAR "bar.sync 0;\n"

typedef uint32_t expectation(const uint32_t *in, unsigned t);

static uint32_t same(const uint32_t *in, unsigned t)
{
    return in[t];
}

static uint32_t sum_of_four(const uint32_t *in, unsigned t)
{
    return in[4 * t] + in[4 * t + 1] + in[4 * t + 2] + in[4 * t + 3];
}

static uint32_t signed_byte(const uint32_t *in, unsigned t)
{
    return (uint32_t)(int8_t)(in[t] >> 8);
}

static uint32_t unsigned_byte(const uint32_t *in, unsigned t)
{
    return in[t] >> 8 & 255;
}

static uint32_t signed_half(const uint32_t *in, unsigned t)
{
    return (uint32_t)(int16_t)(in[t] >> 16);
}

static uint32_t sign_of_byte(const uint32_t *in, unsigned t)
{
    return (in[t] >> 8 & 128) ? UINT32_MAX : 0;
}

static uint32_t two_words(const uint32_t *in, unsigned t)
{
    return in[2 * t] ^ in[2 * t + 1];
}

static uint32_t odd_only(const uint32_t *in, unsigned t)
{
    return t % 2 ? in[t] : 5;
}

static uint32_t mirrored(const uint32_t *in, unsigned t)
{
    return in[63 - t];
}

static uint32_t doubled(const uint32_t *in, unsigned t)
{
    (void)in;
    return 2 * t;
}

static uint32_t counted(const uint32_t *in, unsigned t)
{
    (void)in;
    return t % 32;
}

static uint32_t wrapped(const uint32_t *in, unsigned t)
{
    (void)in;
    return t % 32 % 6;
}

static uint32_t counted_down(const uint32_t *in, unsigned t)
{
    (void)in;
    return t % 32 ? 5 - (t % 32 - 1) % 6 : 0;
}

static uint32_t largest(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 31;
}

static uint32_t smallest(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return (uint32_t)-16;
}

static uint32_t sum_of_lanes(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 496;
}

static uint32_t float_sum(const uint32_t *in, unsigned t)
{
    float sum = 496.5f;
    uint32_t bits;
    (void)in, (void)t;
    memcpy(&bits, &sum, 4);
    return bits;
}

static uint32_t half_pair(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 0x54005000; /* 64, 32 */
}

static uint32_t bf16_pair(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 0x42804200;
}

static uint32_t all_bits(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return UINT32_MAX;
}

static uint32_t one(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 1;
}

static uint32_t lane_before(const uint32_t *in, unsigned t)
{
    (void)in;
    return t % 32 ? t - 1 : 7;
}

static uint32_t flushed(const uint32_t *in, unsigned t)
{
    (void)in, (void)t;
    return 0;
}

static uint32_t prefix(const uint32_t *in, unsigned t)
{
    (void)in;
    return t % 4 == 0 ? 0x11223344 : 0;
}

/* A word per warp: sh[warp], set to a start value by lane 0. */
#define WORD(start)                                    \
    "shl.b32 %r3, %warp, 4;\nadd.u32 %r3, %r0, %r3;\n" \
    "mov.b32 %r8, " start ";\n"                        \
    "st.shared.v4.b32 [%r3], {%r8, %r8, %r8, %r8};\nbar.warp.sync -1;\n"
#define READ "bar.warp.sync -1;\nld.shared.u32 %r4, [%r3];\n" OUT("%r4")

static const struct {
    const char *name, *body;
    expectation *expect;
} cases[] = {
    {"ld.v4.u32",
     "mad.wide.u32 %d3, %t, 16, %p;\n"
     "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d3];\n"
     "add.u32 %r4, %r4, %r5;\nadd.u32 %r6, %r6, %r7;\n"
     "add.u32 %r4, %r4, %r6;\n" OUT("%r4"),
     sum_of_four},
    {"ld.nc with a hint",
     "ld.global.nc.L1::no_allocate.u32 %r4, [%d0];\n" OUT("%r4"), same},
    {"ld.s8 into 32 bits", "ld.global.s8 %r4, [%d0+1];\n" OUT("%r4"),
     signed_byte},
    {"ld.u8 into 32 bits", "ld.global.u8 %r4, [%d0+1];\n" OUT("%r4"),
     unsigned_byte},
    {"ld.u8 into 16 bits",
     "ld.global.u8 %h1, [%d0+1];\n"
     "cvt.u32.u16 %r4, %h1;\n" OUT("%r4"),
     unsigned_byte},
    {"ld.s8 into 16 bits",
     "ld.global.s8 %h1, [%d0+1];\n"
     "cvt.s32.s16 %r4, %h1;\n" OUT("%r4"),
     signed_byte},
    {"ld.s8 into 64 bits",
     "ld.global.s8 %d4, [%d0+1];\n"
     "shr.u64 %d4, %d4, 32;\ncvt.u32.u64 %r4, %d4;\n" OUT("%r4"),
     sign_of_byte},
    {"ld.s16", "ld.global.s16 %r4, [%d0+2];\n" OUT("%r4"), signed_half},
    {"ld.u64",
     "mad.wide.u32 %d3, %t, 8, %p;\nld.global.u64 %d4, [%d3];\n"
     "mov.b64 {%r4, %r5}, %d4;\nxor.b32 %r4, %r4, %r5;\n" OUT("%r4"),
     two_words},
    {"ld.v2.u64 and st.v2.u64",
     "mad.wide.u32 %d3, %t, 16, %p;\n"
     "mad.wide.u32 %d4, %t, 16, %q;\nld.global.v2.u64 {%d5, %d6}, [%d3];\n"
     "st.global.v2.u64 [%d4], {%d5, %d6};\n",
     same},
    {"st.u8 and st.u16",
     "ld.global.u32 %r4, [%d0];\n"
     "st.global.u8 [%d1], %r4;\nshr.u32 %r5, %r4, 8;\n"
     "st.global.u8 [%d1+1], %r5;\nshr.u32 %r5, %r4, 16;\n"
     "cvt.u16.u32 %h1, %r5;\nst.global.u16 [%d1+2], %h1;\n",
     same},
    {"guarded ld",
     "mov.u32 %r4, 5;\nand.b32 %r5, %t, 1;\n"
     "setp.eq.u32 %x1, %r5, 1;\n@%x1 ld.global.u32 %r4, [%d0];\n" OUT("%r4"),
     odd_only},
    {"shared, another thread's word",
     "ld.global.u32 %r4, [%d0];\n"
     "st.shared.u32 [%r1], %r4;\n" BAR "sub.u32 %r5, 63, %t;\n"
     "shl.b32 %r5, %r5, 2;\nadd.u32 %r5, %r0, %r5;\n"
     "ld.shared.u32 %r4, [%r5];\n" OUT("%r4"),
     mirrored},
    {"generic address of shared",
     "ld.global.u32 %r4, [%d0];\n"
     "cvt.u64.u32 %d3, %r1;\ncvta.shared.u64 %d3, %d3;\n"
     "st.u32 [%d3], %r4;\nld.u32 %r5, [%d3];\n" OUT("%r5"),
     same},
    {"generic address of global", "ld.u32 %r4, [%d0];\nst.u32 [%d1], %r4;\n",
     same},
    {"generic address of local",
     "ld.global.u32 %r4, [%d0];\n"
     "mov.u64 %d3, loc;\ncvta.local.u64 %d3, %d3;\n"
     "st.u32 [%d3+8], %r4;\nld.local.u32 %r5, [loc+8];\n" OUT("%r5"),
     same},
    {"local vectors",
     "ld.global.u32 %r4, [%d0];\n"
     "st.local.v4.u32 [loc+16], {%r4, %t, %t, %r4};\n"
     "ld.local.v2.u32 {%r5, %r6}, [loc+24];\n" OUT("%r6"),
     same},
    {"local bytes",
     "ld.global.u32 %r4, [%d0];\nst.local.u32 [loc], %r4;\n"
     "ld.local.u8 %r5, [loc+1];\n" OUT("%r5"),
     unsigned_byte},
    {"local words of their own in each lane",
     "ld.global.u32 %r4, [%d0];\n"
     "mov.u64 %d4, loc;\nmad.wide.u32 %d4, %lane, 4, %d4;\n"
     "st.local.u32 [%d4], %r4;\nld.local.u32 %r5, [%d4];\n" OUT("%r5"),
     same},
    {"parameters",
     "ld.param.u32 %r4, [k_n];\nsub.u32 %r4, %r4, 63;\n" OUT("%r4"), one},
    {"isspacep",
     "cvt.u64.u32 %d3, %r1;\ncvta.shared.u64 %d3, %d3;\n"
     "isspacep.shared %x1, %d3;\nisspacep.global %x2, %d3;\n"
     "not.pred %x2, %x2;\nand.pred %x1, %x1, %x2;\n"
     "selp.u32 %r4, 1, 0, %x1;\n" OUT("%r4"),
     one},
    {"atom.add gives old values in lane order",
     WORD("0") "atom.shared.add.u32 %r4, [%r3], 1;\n" OUT("%r4"), counted},
    {"atom.inc", WORD("0") "atom.shared.inc.u32 %r4, [%r3], 5;\n" OUT("%r4"),
     wrapped},
    {"atom.dec", WORD("0") "atom.shared.dec.u32 %r4, [%r3], 5;\n" OUT("%r4"),
     counted_down},
    {"atom.max.u32", WORD("0") "atom.shared.max.u32 %r4, [%r3], %lane;\n" READ,
     largest},
    {"atom.min.s32",
     WORD("100") "sub.u32 %r5, %lane, 16;\n"
                 "atom.shared.min.s32 %r4, [%r3], %r5;\n" READ,
     smallest},
    {"red.add.u32", WORD("0") "red.shared.add.u32 [%r3], %lane;\n" READ,
     sum_of_lanes},
    {"atom.add.u64",
     WORD("0") "cvt.u64.u32 %d3, %lane;\n"
               "atom.shared.add.u64 %d4, [%r3], %d3;\n" READ,
     sum_of_lanes},
    {"atom.add.f32",
     WORD("0f3f000000") "cvt.rn.f32.u32 %f1, %lane;\n"
                        "atom.shared.add.f32 %f2, [%r3], %f1;\n" READ,
     float_sum},
    {"atom.add.f64",
     WORD("0") "cvt.rn.f64.u32 %e1, %lane;\n"
               "atom.shared.add.f64 %e2, [%r3], %e1;\nbar.warp.sync -1;\n"
               "ld.shared.f64 %e3, [%r3];\ncvt.rzi.u32.f64 %r4, %e3;\n" OUT(
                   "%r4"),
     sum_of_lanes},
    {"atom.add.noftz.f16x2",
     WORD("0") "mov.b32 %r5, 0x40003c00;\n"
               "atom.shared.add.noftz.f16x2 %r4, [%r3], %r5;\n" READ,
     half_pair},
    {"red.add.noftz.bf16x2",
     WORD("0") "mov.b32 %r5, 0x40003f80;\n"
               "red.shared.add.noftz.bf16x2 [%r3], %r5;\n" READ,
     bf16_pair},
    {"atom.or",
     WORD("0") "mov.u32 %r5, 1;\nshl.b32 %r5, %r5, %lane;\n"
               "atom.shared.or.b32 %r4, [%r3], %r5;\n" READ,
     all_bits},
    {"atom.xor and atom.and",
     WORD(
         "0") "mov.u32 %r5, 1;\n"
              "shl.b32 %r5, %r5, %lane;\natom.shared.xor.b32 %r4, [%r3], %r5;\n"
              "bar.warp.sync -1;\natom.shared.and.b32 %r4, [%r3], 1;\n" READ,
     one},
    {"atom.exch", WORD("7") "atom.shared.exch.b32 %r4, [%r3], %t;\n" OUT("%r4"),
     lane_before},
    {"atom.cas",
     WORD("0") "add.u32 %r5, %lane, 1;\n"
               "atom.shared.cas.b32 %r4, [%r3], %lane, %r5;\n" OUT("%r4"),
     counted},
    {"atom.cas.b64",
     WORD("0") "cvt.u64.u32 %d3, %lane;\n"
               "add.u64 %d4, %d3, 1;\natom.shared.cas.b64 %d5, [%r3], %d3, "
               "%d4;\n"
               "cvt.u32.u64 %r4, %d5;\n" OUT("%r4"),
     counted},
    {"atom.global.add.f32 flushes",
     "mov.b32 %r5, 3;\n"
     "st.global.u32 [%d1], %r5;\nmov.b32 %f1, %r5;\n"
     "atom.global.add.f32 %f2, [%d1], %f1;\n",
     flushed},
    {"red.global.add.u32",
     "st.global.u32 [%d1], %t;\n"
     "red.global.add.u32 [%d1], %t;\n",
     doubled},
    {"cp.async 16 bytes",
     "shl.b32 %r3, %t, 4;\nadd.u32 %r3, %r0, %r3;\n"
     "mad.wide.u32 %d3, %t, 16, %p;\n"
     "cp.async.cg.shared.global [%r3], [%d3], 16;\n"
     "cp.async.commit_group;\ncp.async.wait_group 0;\n" BAR
     "ld.shared.u32 %r4, [%r1];\n" OUT("%r4"),
     same},
    {"cp.async 4 bytes with wait_all",
     "cp.async.ca.shared.global [%r1], [%d0], 4;\ncp.async.wait_all;\n"
     "ld.shared.u32 %r4, [%r1];\n" OUT("%r4"),
     same},
    {"cp.async with src-size fills with zeros",
     "and.b32 %r5, %t, 3;\nsetp.eq.u32 %x1, %r5, 0;\n"
     "mov.b32 %r6, 0x11223344;\nst.global.u32 [%d1], %r6;\n"
     "selp.u32 %r5, 4, 0, %x1;\n"
     "cp.async.ca.shared.global [%r1], [%d1], 4, %r5;\n"
     "cp.async.wait_all;\nld.shared.u32 %r4, [%r1];\n" OUT("%r4"),
     prefix},
    {"cp.async groups complete in order",
     "cp.async.ca.shared.global [%r1], [%d0], 4;\ncp.async.commit_group;\n"
     "cp.async.ca.shared.global [%r1+512], [%d0+4], 4;\n"
     "cp.async.commit_group;\ncp.async.wait_group 1;\n"
     "ld.shared.u32 %r4, [%r1];\ncp.async.wait_group 0;\n" OUT("%r4"),
     same},
    {"cp.async.mbarrier.arrive.noinc",
     "setp.eq.u32 %x1, %t, 0;\n"
     "@%x1 mbarrier.init.shared.b64 [sh+2048], 64;\n" BAR
     "cp.async.ca.shared.global [%r1], [%d0], 4;\n"
     "cp.async.mbarrier.arrive.noinc.shared.b64 [sh+2048];\n"
     "again: mbarrier.test_wait.parity.shared.b64 %x2, [sh+2048], 0;\n"
     "@!%x2 bra again;\n"
     "sub.u32 %r5, 63, %t;\nshl.b32 %r5, %r5, 2;\n"
     "add.u32 %r5, %r0, %r5;\nld.shared.u32 %r4, [%r5];\n" OUT("%r4"),
     mirrored},
    {"cp.async.mbarrier.arrive with an arrival",
     "setp.eq.u32 %x1, %t, 0;\n"
     "@%x1 mbarrier.init.shared.b64 [sh+2048], 64;\n" BAR
     "cp.async.ca.shared.global [%r1], [%d0], 4;\n"
     "cp.async.mbarrier.arrive.shared.b64 [sh+2048];\n"
     "mbarrier.arrive.shared.b64 %d5, [sh+2048];\n"
     "again: mbarrier.try_wait.shared.b64 %x2, [sh+2048], %d5;\n"
     "@!%x2 bra again;\n"
     "sub.u32 %r5, 63, %t;\nshl.b32 %r5, %r5, 2;\n"
     "add.u32 %r5, %r0, %r5;\nld.shared.u32 %r4, [%r5];\n" OUT("%r4"),
     mirrored},
};

int main(void)
{
    static sim_run s;
    for (int checks = 0; checks < 2; checks++) {
        spt_sim_options options = {.threads = 1, .checks_off = !checks};
        if (!CHECK(sim_run_open(&s, &options), "sim opens"))
            return check_done();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            unsigned wrong = 0, first = 0;
            sim_run_body(&s, cases[i].body, 1, 64);
            for (unsigned t = 64; t-- > 0;)
                if (s.out[t] != cases[i].expect(s.in, t)) {
                    wrong++;
                    first = t;
                }
            bool good = !wrong && !s.result && !spt_sim_report_count();
            CHECK(good, "%s, checks %s", cases[i].name, checks ? "on" : "off");
            if (!good)
                printf("#   result %d, %u wrong, out[%u] %08x for %08x\n",
                       s.result, wrong, first, s.out[first],
                       cases[i].expect(s.in, first));
            spt_sim_report r;
            for (size_t j = 0; spt_sim_report_get(j, &r); j++)
                printf("#   %s\n", r.text);
        }
        sim_run_close(&s);
    }
    return check_done();
}
