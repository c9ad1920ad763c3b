/*
 * ldmatrix, stmatrix, movmatrix, mma and wmma as PTX, against the formulas of
 * the PTX manual.
 */
#include "check.h"
#include "sim_run.h"

/* 128 rows of 16 bytes of p in shared memory; row i of lane l: %r3. */
#define FILL                                          \
    "mad.wide.u32 %d3, %t, 16, %p;\n"                 \
    "shl.b32 %r3, %t, 4;\nadd.u32 %r3, %r0, %r3;\n"   \
    "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d3];\n" \
    "st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};\n" \
    "bar.warp.sync -1;\n"
#define OUT4                          \
    "mad.wide.u32 %d3, %t, 16, %q;\n" \
    "st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7};\n"

static uint16_t half_at(const uint32_t *words, unsigned index)
{
    return (uint16_t)(words[index / 2] >> (16 * (index % 2)));
}

/* Element (row, col) of matrix m, its rows being 16 bytes each. */
static uint16_t source(const uint32_t *in, unsigned m, unsigned row,
                       unsigned col)
{
    return half_at(in, (8 * m + row) * 8 + col);
}

static void load(sim_run *s, unsigned n, bool trans)
{
    char body[1024];
    static const char *const regs[] = {"", "{%r4}", "{%r4, %r5}", "",
                                       "{%r4, %r5, %r6, %r7}"};
    snprintf(body, sizeof body, "%s%u%s%s%s%s",
             FILL "mov.u32 %r4, 0;\nmov.u32 %r5, 0;\nmov.u32 %r6, 0;\n"
                  "mov.u32 %r7, 0;\nldmatrix.sync.aligned.m8n8.x",
             n, trans ? ".trans" : "", ".shared.b16 ", regs[n],
             ", [%r3];\n" OUT4);
    sim_run_body(s, body, 1, 32);
    unsigned wrong = 0;
    for (unsigned l = 0; l < 32; l++)
        for (unsigned m = 0; m < n; m++)
            for (unsigned i = 0; i < 2; i++) {
                unsigned row = l / 4, col = 2 * (l % 4) + i;
                uint16_t want = trans ? source(s->in, m, col, row)
                                      : source(s->in, m, row, col);
                wrong += half_at(s->out, (4 * l + m) * 2 + i) != want;
            }
    CHECK(!wrong && !s->result && !spt_sim_report_count(),
          "ldmatrix.x%u%s: %u wrong", n, trans ? ".trans" : "", wrong);
}

static void store(sim_run *s, bool trans)
{
    char body[1024];
    snprintf(body, sizeof body, "%s%s%s",
             FILL "bar.warp.sync -1;\n"
                  "stmatrix.sync.aligned.m8n8.x4",
             trans ? ".trans" : "",
             ".shared.b16 [%r3], {%r4, %r5, %r6, %r7};\nbar.warp.sync -1;\n"
             "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];\n" OUT4);
    sim_run_body(s, body, 1, 32);
    unsigned wrong = 0;
    for (unsigned l = 0; l < 32; l++)
        for (unsigned m = 0; m < 4; m++)
            for (unsigned i = 0; i < 2; i++) {
                unsigned row = l / 4, col = 2 * (l % 4) + i;
                uint16_t value = half_at(s->in, (4 * l + m) * 2 + i);
                uint16_t seen = trans ? source(s->out, m, col, row)
                                      : source(s->out, m, row, col);
                wrong += seen != value;
            }
    CHECK(!wrong && !s->result && !spt_sim_report_count(),
          "stmatrix.x4%s: %u wrong", trans ? ".trans" : "", wrong);
}

static void move(sim_run *s)
{
    sim_run_body(s,
                 "ld.global.u32 %r4, [%d0];\n"
                 "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;\n"
                 "st.global.u32 [%d1], %r5;\n",
                 1, 32);
    unsigned wrong = 0;
    for (unsigned r = 0; r < 8; r++)
        for (unsigned c = 0; c < 8; c++)
            wrong += half_at(s->out, r * 8 + c) != half_at(s->in, c * 8 + r);
    CHECK(!wrong && !s->result, "movmatrix: %u wrong", wrong);
}

static double bf16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &word, 4);
    return (double)f;
}

/* Small whole numbers as bf16, so that every order gives the same sum. */
#define SMALL(reg)                                                 \
    "and.b32 " reg ", " reg ", 0x00070007;\n"                      \
    "and.b32 %r20, " reg ", 0xffff;\nshr.u32 %r21, " reg ", 16;\n" \
    "cvt.rn.f32.u32 %f20, %r20;\ncvt.rn.f32.u32 %f21, %r21;\n"     \
    "cvt.rn.bf16x2.f32 " reg ", %f21, %f20;\n"

static double small(const uint32_t *in, unsigned lane, unsigned reg, unsigned i)
{
    return half_at(in, (lane * 8 + reg) * 2 + i) & 7;
}

static void mma(sim_run *s, bool swapped)
{
    char body[3000];
    snprintf(
        body, sizeof body, "%s%s%s",
        "mad.wide.u32 %d3, %t, 32, %p;\n"
        "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d3];\n"
        "ld.global.v2.u32 {%r8, %r9}, [%d3+16];\n" SMALL("%r4") SMALL("%r5")
            SMALL("%r6") SMALL("%r7") SMALL("%r8") SMALL(
                "%r9") "cvt.rn.f32.u32 %f1, %t;\nmov.f32 %f2, %f1;\nmov.f32 "
                       "%f3, %f1;\n"
                       "mov.f32 %f4, %f1;\n"
                       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ",
        swapped ? "{%f4, %f3, %f2, %f1}, " : "{%f1, %f2, %f3, %f4}, ",
        "{%r4, %r5, %r6, %r7}, {%r8, %r9}, {%f1, %f2, %f3, %f4};\n"
        "mad.wide.u32 %d4, %t, 16, %q;\n"
        "st.global.v4.f32 [%d4], {%f1, %f2, %f3, %f4};\n");
    sim_run_body(s, body, 1, 32);
    unsigned wrong = 0;
    for (unsigned row = 0; row < 16; row++)
        for (unsigned col = 0; col < 8; col++) {
            unsigned lane = row % 8 * 4 + col / 2;
            unsigned reg = row / 8 * 2 + col % 2;
            double sum = lane;
            for (unsigned k = 0; k < 16; k++) {
                unsigned t = k % 8 / 2, half = k / 8;
                sum +=
                    small(s->in, row % 8 * 4 + t, row / 8 + 2 * half, k % 2) *
                    small(s->in, col * 4 + t, 4 + half, k % 2);
            }
            float seen;
            memcpy(&seen, &s->out[4 * lane + (swapped ? 3 - reg : reg)], 4);
            wrong += (double)seen != sum;
        }
    CHECK(!wrong && !s->result, "mma.m16n8k16.bf16%s: %u wrong",
          swapped ? " into C's registers backwards" : "", wrong);
}

/* A 16x16 in p, B 16x16 512 bytes further; bf16; out f32 in q. */
static void wmma(sim_run *s, bool a_row, bool b_row)
{
    char body[2000];
    const char *a = a_row ? "row" : "col", *b = b_row ? "row" : "col";
    snprintf(body, sizeof body,
             "ld.global.u32 %%r4, [%%d0];\n"
             "mov.u32 %%r5, 16;\n"
             "wmma.load.a.sync.aligned.%s.m16n16k16.global.bf16 "
             "{%%r10, %%r11, %%r12, %%r13}, [%%p], %%r5;\n"
             "wmma.load.b.sync.aligned.%s.m16n16k16.global.bf16 "
             "{%%r14, %%r15, %%r16, %%r17}, [%%p+512], %%r5;\n"
             "mov.f32 %%f1, 0f3f800000;\n"
             "wmma.mma.sync.aligned.%s.%s.m16n16k16.f32.bf16.bf16.f32 "
             "{%%f2, %%f3, %%f4, %%f5, %%f6, %%f7, %%f8, %%f9}, "
             "{%%r10, %%r11, %%r12, %%r13}, {%%r14, %%r15, %%r16, %%r17}, "
             "{%%f1, %%f1, %%f1, %%f1, %%f1, %%f1, %%f1, %%f1};\n"
             "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%%q], "
             "{%%f2, %%f3, %%f4, %%f5, %%f6, %%f7, %%f8, %%f9}, 16;\n",
             a, b, a, b);
    sim_run_body(s, body, 1, 32);
    unsigned wrong = 0;
    for (unsigned m = 0; m < 16; m++)
        for (unsigned n = 0; n < 16; n++) {
            float v[16];
            for (unsigned k = 0; k < 16; k++) {
                unsigned x = a_row ? m * 16 + k : k * 16 + m;
                unsigned y = b_row ? k * 16 + n : n * 16 + k;
                v[k] = (float)(bf16(half_at(s->in, x)) *
                               bf16(half_at(s->in, 256 + y)));
            }
            for (unsigned step = 1; step < 16; step *= 2)
                for (unsigned k = 0; k < 16; k += 2 * step)
                    v[k] += v[k + step];
            float seen, want = v[0] + 1;
            memcpy(&seen, &s->out[m * 16 + n], 4);
            wrong += !(seen == want || (seen != seen && want != want));
        }
    CHECK(!wrong && !s->result, "wmma.m16n16k16.bf16 %s %s: %u wrong", a, b,
          wrong);
}

int main(void)
{
    static sim_run s;
    spt_sim_options options = {.threads = 1};
    if (!CHECK(sim_run_open(&s, &options), "sim opens"))
        return check_done();
    for (unsigned n = 1; n <= 4; n *= 2) {
        load(&s, n, false);
        load(&s, n, true);
    }
    store(&s, false);
    store(&s, true);
    move(&s);
    mma(&s, false);
    mma(&s, true);
    for (int i = 0; i < 4; i++)
        wmma(&s, i & 1, i & 2);
    sim_run_close(&s);
    return check_done();
}
