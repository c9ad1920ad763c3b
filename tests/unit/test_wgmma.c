/*
 * wgmma on sim against sums over k: types, layouts of A and B in shared memory,
 * A from registers; and what sim says of wrong use. All values are small
 * integers, so that every sum is exact.
 */
#include "check.h"
#include "sim_run.h"

enum { THREADS = 128, B_AT = 16384, BYTES = 49152, A_WORDS = BYTES };

typedef struct wgmma_type {
    const char *d, *a, *b;
    int exponent, fraction; /* bits of A's and B's format; 0: integers */
    int bytes;
} wgmma_type;

static const wgmma_type types[] = {
    {"f32", "bf16", "bf16", 8, 7, 2}, {"f32", "f16", "f16", 5, 10, 2},
    {"f16", "f16", "f16", 5, 10, 2},  {"f32", "tf32", "tf32", 8, 23, 4},
    {"f32", "e4m3", "e4m3", 4, 3, 1}, {"f32", "e5m2", "e5m2", 5, 2, 1},
    {"f16", "e4m3", "e4m3", 4, 3, 1}, {"s32", "s8", "s8", 0, 0, 1},
    {"s32", "s8", "u8", 0, 0, 1},
};
enum { TYPES = sizeof types / sizeof *types };

/* span: bytes that the swizzle permutes, 16: none. */
typedef struct wgmma_case {
    const wgmma_type *type;
    int n, span;
    bool across_a, across_b, registers, add;
    int sign_a, sign_b;
} wgmma_case;

static sim_run run;
static CUdeviceptr memory, result;
static uint8_t image[BYTES + THREADS * 16];
static int a[64][32], b[256][32];
static uint32_t out[THREADS * 128];

static int depth_of(const wgmma_type *type)
{
    return 32 / type->bytes;
}

/* ---- the matrices ---- */

static uint32_t encode(const wgmma_type *type, int v)
{
    int exponent = 0, magnitude = abs(v);
    if (!type->exponent)
        return (uint32_t)v & 0xff;
    if (!v)
        return 0;
    while (magnitude >> (exponent + 1))
        exponent++;
    uint32_t bias = (1u << (type->exponent - 1)) - 1;
    uint32_t bits = ((uint32_t)exponent + bias) << type->fraction |
                    ((uint32_t)magnitude << type->fraction >> exponent &
                     ((1u << type->fraction) - 1));
    return bits | (v < 0) << (type->exponent + type->fraction);
}

static void put(uint8_t *base, uint32_t at, int span, const wgmma_type *type,
                int v)
{
    uint32_t bits = encode(type, v), chunks = (uint32_t)span / 16;
    at ^= (at >> 7 & (chunks - 1)) << 4;
    memcpy(base + at, &bits, (size_t)type->bytes);
}

/* Strides of a layout: of groups of eight rows or k, of what is beside them. */
static void strides(const wgmma_case *c, bool across, uint32_t *leading,
                    uint32_t *stride)
{
    uint32_t span = (uint32_t)c->span;
    *leading = span == 16 ? 128 : across ? 16 * span : 16;
    *stride = span == 16 ? 256 : 8 * span;
}

/* Where the matrix begins in its place: swizzled rows of 128 bytes have room
   for more than one k-group, then it is the second. */
static uint32_t shift_of(const wgmma_case *c, bool across)
{
    return !across && c->span == 128 ? 32 : 0;
}

static void place(const wgmma_case *c, uint8_t *base, bool across, int line,
                  int k, int v)
{
    uint32_t leading, stride, r = (uint32_t)line, x = (uint32_t)k;
    uint32_t span = (uint32_t)c->span, bytes = (uint32_t)c->type->bytes;
    strides(c, across, &leading, &stride);
    uint32_t at = across ? r * bytes : x * bytes; /* along the chunks */
    uint32_t other = across ? x : r;
    if (span == 16)
        at = across ? at / 16 * stride + other / 8 * leading + other % 8 * 16 +
                          at % 16
                    : at / 16 * leading + other / 8 * stride + other % 8 * 16 +
                          at % 16;
    else
        at = other / 8 * stride + other % 8 * span + at % span +
             at / span * (across ? leading : 0);
    put(base, at + shift_of(c, across), c->span, c->type, v);
}

static int small(uint32_t i, bool negative)
{
    int v = (int)(i * 2654435761u >> 28);
    return negative ? v % 5 - 2 : v % 4;
}

static void make(const wgmma_case *c)
{
    int k_max = depth_of(c->type), each = 4 / c->type->bytes;
    bool unsigned_b = c->type->b[0] == 'u';
    memset(image, 0, sizeof image);
    for (int r = 0; r < 64; r++)
        for (int k = 0; k < k_max; k++) {
            a[r][k] = small((uint32_t)(r * 37 + k), true);
            place(c, image, c->across_a, r, k, a[r][k]);
        }
    for (int r = 0; r < c->n; r++)
        for (int k = 0; k < k_max; k++) {
            b[r][k] = small((uint32_t)(r * 41 + k + 7), !unsigned_b);
            place(c, image + B_AT, c->across_b, r, k, b[r][k]);
        }
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < 4; i++)
            for (int e = 0; e < each; e++) {
                int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8;
                int k = (i / 2 * 4 + t % 4) * each + e;
                uint32_t bits = encode(c->type, a[row][k]);
                memcpy(image + A_WORDS + t * 16 + i * 4 + e * c->type->bytes,
                       &bits, (size_t)c->type->bytes);
            }
}

static double expected(const wgmma_case *c, int row, int column)
{
    double sum = 0;
    for (int k = 0; k < depth_of(c->type); k++)
        sum += c->sign_a * a[row][k] * c->sign_b * b[column][k];
    return sum + (c->add ? 3 : 0);
}

/* ---- the kernel ---- */

static int registers_of(const wgmma_case *c)
{
    return c->n / (c->type->d[1] == '1' ? 4 : 2);
}

static void write_list(spt_buf *text, const char *name, int n)
{
    spt_buf_puts(text, "{");
    for (int i = 0; i < n; i++)
        spt_buf_printf(text, "%s%%%s%d", i ? ", " : "", name, i);
    spt_buf_puts(text, "}");
}

static void write_instruction(spt_buf *text, const wgmma_case *c)
{
    const wgmma_type *t = c->type;
    spt_buf_printf(text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ",
                   c->n, depth_of(t), t->d, t->a, t->b);
    write_list(text, "v", registers_of(c));
    if (c->registers) {
        spt_buf_puts(text, ", ");
        write_list(text, "a", 4);
    } else {
        spt_buf_puts(text, ", %da");
    }
    spt_buf_puts(text, ", %db, %xs");
    if (t->exponent)
        spt_buf_printf(text, ", %d, %d", c->sign_a, c->sign_b);
    if (t->bytes == 2 && !c->registers)
        spt_buf_printf(text, ", %d", c->across_a);
    if (t->bytes == 2)
        spt_buf_printf(text, ", %d", c->across_b);
    spt_buf_puts(text, ";\n");
}

/* 128 threads bring the image to shared memory; the registers begin as 3. */
static void write_head(spt_buf *text, const wgmma_case *c)
{
    const char *three = c->type->d[0] == 's'   ? "3"
                        : c->type->d[1] == '1' ? "0x42004200"
                                               : "0x40400000";
    spt_buf_printf(
        text,
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 k_p, .param .u64 k_q, .param .u64 k_da,"
        " .param .u64 k_db, .param .u32 k_add)\n{\n"
        ".reg .pred %%x<4>, %%xs;\n.reg .b32 %%r<8>, %%v<128>, %%a<4>;\n"
        ".reg .b64 %%d<8>, %%da, %%db;\n"
        ".shared .align 1024 .b8 sh[%d];\n"
        "ld.param.u64 %%d0, [k_p];\nld.param.u64 %%d1, [k_q];\n"
        "ld.param.u64 %%da, [k_da];\nld.param.u64 %%db, [k_db];\n"
        "ld.param.u32 %%r0, [k_add];\nsetp.ne.u32 %%xs, %%r0, 0;\n"
        "mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%d2, %%r1, 16;\n"
        "mov.u32 %%r2, sh;\nmad.lo.u32 %%r2, %%r1, 16, %%r2;\n"
        "add.u64 %%d3, %%d0, %%d2;\nmov.u32 %%r3, 0;\n"
        "copy:\nld.global.v4.b32 {%%a0, %%a1, %%a2, %%a3}, [%%d3];\n"
        "st.shared.v4.b32 [%%r2], {%%a0, %%a1, %%a2, %%a3};\n"
        "add.u64 %%d3, %%d3, 2048;\nadd.u32 %%r2, %%r2, 2048;\n"
        "add.u32 %%r3, %%r3, 2048;\nsetp.lt.u32 %%x0, %%r3, %d;\n"
        "@%%x0 bra copy;\nfence.proxy.async.shared::cta;\n"
        "ld.global.v4.b32 {%%a0, %%a1, %%a2, %%a3}, [%%d3];\nbar.sync 0;\n",
        BYTES, BYTES);
    for (int i = 0; i < 128; i++)
        spt_buf_printf(text, "mov.b32 %%v%d, %s;\n", i, three);
}

static void write_tail(spt_buf *text, const wgmma_case *c)
{
    int n = registers_of(c);
    spt_buf_printf(text, "mad.wide.u32 %%d1, %%r1, %d, %%d1;\n", 4 * n);
    for (int i = 0; i < n; i++)
        spt_buf_printf(text, "st.global.b32 [%%d1+%d], %%v%d;\n", 4 * i, i);
    spt_buf_puts(text, "ret;\n}\n");
}

static uint64_t descriptor(const wgmma_case *c, bool across, uint32_t start)
{
    uint32_t leading, stride;
    uint64_t mode = c->span == 128  ? 1
                    : c->span == 64 ? 2
                    : c->span == 32 ? 3
                                    : 0;
    strides(c, across, &leading, &stride);
    start += shift_of(c, across) + 1024; /* what the device reserves */
    return (start >> 4) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | mode << 62;
}

static bool launch(const wgmma_case *c, const char *text)
{
    CUmodule module;
    CUfunction kernel;
    uint64_t da = descriptor(c, c->across_a, 0);
    uint64_t db = descriptor(c, c->across_b, B_AT);
    uint32_t add = c->add;
    void *params[] = {&memory, &result, &da, &db, &add};
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {run.error, (void *)(uintptr_t)sizeof run.error};
    spt_sim_clear();
    run.error[0] = 0;
    run.result = run.drv.cuModuleLoadDataEx(&module, text, 2, names, values);
    if (run.result) {
        printf("# %s\n", run.error);
        return false;
    }
    run.drv.cuModuleGetFunction(&kernel, module, "k");
    run.drv.cuMemcpyHtoD(memory, image, sizeof image);
    run.result = run.drv.cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL,
                                        params, NULL);
    if (!run.result)
        run.result = run.drv.cuCtxSynchronize();
    if (!run.result)
        run.result = run.drv.cuMemcpyDtoH(out, result, sizeof out);
    run.drv.cuModuleUnload(module);
    return !run.result;
}

/* ---- results ---- */

static double half_value(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (bits & 1023) / 1024.0 + (exponent ? 1 : 0);
    double value = ldexp(fraction, (exponent ? exponent : 1) - 15);
    return bits & 0x8000 ? -value : value;
}

static double seen(const wgmma_case *c, int row, int column)
{
    int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    int high = row % 16 / 8, n = registers_of(c);
    uint32_t word;
    float real;
    if (c->type->d[1] == '1') {
        word = out[thread * n + column / 8 * 2 + high];
        return half_value(word >> 16 * (column % 2) & 0xffff);
    }
    word = out[thread * n + column / 8 * 4 + high * 2 + column % 2];
    memcpy(&real, &word, 4);
    return c->type->d[0] == 's' ? (int32_t)word : (double)real;
}

static bool quiet(void)
{
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        printf("# %s\n", report.text);
    return !spt_sim_report_count();
}

static void test_case(wgmma_case c)
{
    spt_buf text = {0};
    int wrong = 0;
    make(&c);
    write_head(&text, &c);
    spt_buf_puts(&text, "wgmma.fence.sync.aligned;\n");
    write_instruction(&text, &c);
    spt_buf_puts(&text, "wgmma.commit_group.sync.aligned;\n"
                        "wgmma.wait_group.sync.aligned 0;\n");
    write_tail(&text, &c);
    bool ran = launch(&c, text.data) && quiet();
    for (int row = 0; row < 64; row++)
        for (int column = 0; column < c.n; column++)
            if (seen(&c, row, column) != expected(&c, row, column) && !wrong++)
                printf("# (%d, %d) is %g, expected %g\n", row, column,
                       seen(&c, row, column), expected(&c, row, column));
    CHECK(ran && !wrong, "n%d %s.%s.%s, %d bytes, A %s%s, B %s", c.n, c.type->d,
          c.type->a, c.type->b, c.span,
          c.registers  ? "in registers"
          : c.across_a ? "along M"
                       : "along K",
          c.add ? ", added" : "", c.across_b ? "along N" : "along K");
    spt_buf_free(&text);
}

static void test_products(void)
{
    static const int spans[] = {16, 32, 64, 128};
    for (int t = 0; t < TYPES; t++)
        for (int s = 0; s < 4; s++) {
            wgmma_case c = {.type = &types[t],
                            .n = s == 3 ? 64 : 8 << (s % 2),
                            .span = spans[s],
                            .add = s % 2,
                            .sign_a = 1,
                            .sign_b = 1};
            test_case(c);
            c.registers = true;
            test_case(c);
        }
    for (int s = 0; s < 4; s++)
        for (int both = 1; both < 4; both++)
            test_case((wgmma_case){.type = &types[s % 2],
                                   .n = 64,
                                   .span = spans[s],
                                   .across_a = both & 1,
                                   .across_b = both >> 1,
                                   .sign_a = both == 1 ? -1 : 1,
                                   .sign_b = both == 2 ? -1 : 1});
    test_case((wgmma_case){
        .type = &types[0], .n = 256, .span = 128, .sign_a = -1, .sign_b = 1});
    test_case((wgmma_case){
        .type = &types[4], .n = 24, .span = 128, .sign_a = -1, .sign_b = -1});
}

/* ---- wrong use ---- */

static const wgmma_case plain = {
    .type = types, .n = 8, .span = 128, .sign_a = 1, .sign_b = 1};

/* Text before and behind the instruction, and what must be reported. */
static void test_report(const char *before, const char *behind,
                        const char *expected_text, const char *what)
{
    spt_buf text = {0};
    spt_sim_report report;
    bool found = false;
    make(&plain);
    write_head(&text, &plain);
    spt_buf_puts(&text, before);
    write_instruction(&text, &plain);
    spt_buf_puts(&text, behind);
    write_tail(&text, &plain);
    launch(&plain, text.data);
    for (size_t i = 0; spt_sim_report_get(i, &report); i++) {
        found |= strstr(report.text, expected_text) != NULL;
        printf("# %s\n", report.text);
    }
    CHECK(found, "reported: %s", what);
    spt_buf_free(&text);
}

#define FENCE "wgmma.fence.sync.aligned;\n"
#define COMMIT "wgmma.commit_group.sync.aligned;\n"
#define WAIT COMMIT "wgmma.wait_group.sync.aligned 0;\n"

static void renew(void)
{
    run.drv.cuDevicePrimaryCtxRelease(0);
    run.drv.cuDevicePrimaryCtxRetain(&run.context, 0);
    run.drv.cuCtxSetCurrent(run.context);
    run.drv.cuMemAlloc(&memory, sizeof image);
    run.drv.cuMemAlloc(&result, sizeof out);
}

static void test_reports(void)
{
    test_report("", WAIT, "no wgmma.fence behind a register's last write",
                "no fence");
    test_report(FENCE "add.f32 %v0, %v0, %v1;\n", WAIT, "no wgmma.fence",
                "a register written behind the fence");
    test_report(FENCE,
                COMMIT "add.f32 %v0, %v0, %v1;\n"
                       "wgmma.wait_group.sync.aligned 0;\n",
                "writes a register of a wgmma in flight",
                "a register written before the wait");
    test_report(FENCE,
                COMMIT "st.global.b32 [%d1], %v1;\n"
                       "wgmma.wait_group.sync.aligned 0;\n",
                "reads a register of a wgmma in flight",
                "a register read before the wait");
    test_report(FENCE, COMMIT "wgmma.wait_group.sync.aligned 1;\n",
                "reads a register of a wgmma in flight",
                "a wait for all but this one");
    test_report(FENCE, "exit;\n", "never waited for", "no wait");
    test_report(FENCE "cvt.u64.u32 %d7, %r1;\nadd.u64 %da, %da, %d7;\n", WAIT,
                "lanes have different descriptors", "different descriptors");
    test_report(FENCE "or.b64 %da, %da, 0x3fff;\n", WAIT,
                "shared access out of bounds", "a matrix out of bounds");
    renew();
    test_report("setp.eq.u32 %x1, %r1, 0;\n"
                "@%x1 st.shared.b32 [sh+32], %r1;\nbar.sync 0;\n" FENCE,
                WAIT, "missing proxy fence", "a store without a proxy fence");
}

/* Shared memory that is overwritten before the wait shows in D; a chain of two
   adds up; what a compiler copies is what the chain has. */
static void test_late(void)
{
    spt_buf text = {0};
    make(&plain);
    write_head(&text, &plain);
    spt_buf_puts(&text, "mov.pred %xs, 1;\n" FENCE);
    write_instruction(&text, &plain);
    write_instruction(&text, &plain);
    spt_buf_puts(&text, COMMIT "mov.b32 %r4, %v0;\n"
                               "wgmma.wait_group.sync.aligned 0;\n"
                               "mov.b32 %v1, %r4;\n");
    write_tail(&text, &plain);
    bool ran = launch(&plain, text.data) && quiet();
    double twice = 2 * expected(&plain, 0, 0) + 3;
    CHECK(ran && seen(&plain, 0, 0) == twice && seen(&plain, 0, 1) == twice,
          "two in a row and a copy: %g, %g", seen(&plain, 0, 0),
          seen(&plain, 0, 1));
    spt_sim_counters counters;
    spt_sim_counters_get(&counters);
    CHECK(counters.wgmma_flops == 2 * (2 * 64 * 8 * 16) &&
              counters.mma_flops == counters.wgmma_flops,
          "two of 2 m n k: %llu", (unsigned long long)counters.wgmma_flops);
    text.size = 0;
    write_head(&text, &plain);
    spt_buf_puts(&text, FENCE);
    write_instruction(&text, &plain);
    spt_buf_puts(&text, COMMIT "bar.sync 0;\nmov.u32 %r2, sh;\n"
                               "mad.lo.u32 %r2, %r1, 64, %r2;\n"
                               "st.shared.v4.b32 [%r2], {0, 0, 0, 0};\n"
                               "st.shared.v4.b32 [%r2+16], {0, 0, 0, 0};\n"
                               "st.shared.v4.b32 [%r2+32], {0, 0, 0, 0};\n"
                               "st.shared.v4.b32 [%r2+48], {0, 0, 0, 0};\n"
                               "bar.sync 0;\n"
                               "wgmma.wait_group.sync.aligned 0;\n");
    write_tail(&text, &plain);
    launch(&plain, text.data);
    CHECK(seen(&plain, 5, 3) == 0 && expected(&plain, 5, 3) != 0,
          "A overwritten before the wait");
    spt_buf_free(&text);
}

/* Behind its wait a warp may overwrite what all four have multiplied. */
static void test_reuse(void)
{
    spt_buf text = {0};
    bool good = true;
    make(&plain);
    write_head(&text, &plain);
    spt_buf_puts(&text, FENCE);
    write_instruction(&text, &plain);
    spt_buf_puts(&text, WAIT "mov.u32 %r2, sh;\n"
                             "mad.lo.u32 %r2, %r1, 64, %r2;\n"
                             "st.shared.v4.b32 [%r2], {0, 0, 0, 0};\n"
                             "st.shared.v4.b32 [%r2+32], {0, 0, 0, 0};\n"
                             "st.shared.v4.b32 [%r2+16384], {0, 0, 0, 0};\n");
    write_tail(&text, &plain);
    good = launch(&plain, text.data) && quiet();
    for (int row = 0; row < 64; row++)
        for (int column = 0; column < plain.n; column++)
            good &= seen(&plain, row, column) == expected(&plain, row, column);
    CHECK(good, "a warp overwrites A and B behind its wait");
    spt_buf_free(&text);
}

static void test_text(const char *instruction, const char *why)
{
    spt_buf text = {0};
    write_head(&text, &plain);
    spt_buf_printf(&text, "%s\nret;\n}\n", instruction);
    CHECK(!launch(&plain, text.data) && strstr(run.error, why), "refused: %s",
          why);
    spt_buf_free(&text);
}

#define MMA "wgmma.mma_async.sync.aligned."

static void test_texts(void)
{
    test_text(MMA "m64n8k16.f32.bf16.bf16 {%v0, %v1}, %da, %db, %xs, 1, 1, 0, "
                  "0;",
              "operand 1 has 2 registers, expected 4");
    test_text(MMA "m64n12k16.f32.bf16.bf16 {%v0, %v1, %v2, %v3}, %da, %db, "
                  "%xs, 1, 1, 0, 0;",
              "unknown modifier .m64n12k16");
    test_text(MMA "m64n8k32.f32.bf16.bf16 {%v0, %v1, %v2, %v3}, %da, %db, %xs, "
                  "1, 1, 0, 0;",
              "the shape's k does not go with the types");
    test_text(MMA "m64n8k16.f32.bf16.f16 {%v0, %v1, %v2, %v3}, %da, %db, %xs, "
                  "1, 1, 0, 0;",
              "types that do not go together");
    test_text(MMA "m64n8k16.f16.bf16.bf16 {%v0, %v1}, %da, %db, %xs, 1, 1, 0, "
                  "0;",
              "D has a type that does not go with A's");
    test_text(MMA "m64n8k16.f32.bf16.bf16 {%v0, %v1, %v2, %v3}, %da, %db, %xs, "
                  "2, 1, 0, 0;",
              "a scale of A or B is 1 or -1");
    test_text(MMA "m64n8k8.f32.tf32.tf32 {%v0, %v1, %v2, %v3}, %da, %db, %xs, "
                  "1, 1, 0, 0;",
              "the number of operands does not go with the types");
    test_text("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%v0, %v1, "
              "%v2, %v3}, %da, %db, %v4, 0, %xs, 1, 1, 0, 0;",
              "unknown modifier .sp");
    static const char other[] =
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k()\n"
        "{\nwgmma.fence.sync.aligned;\nret;\n}\n";
    CHECK(!launch(&plain, other) && strstr(run.error, "wgmma needs target "
                                                      "sm_90a"),
          "refused: sm_90");
}

int main(void)
{
    const spt_sim_options options = {.threads = 1};
    if (!sim_run_open(&run, &options))
        return 1;
    run.drv.cuMemAlloc(&memory, sizeof image);
    run.drv.cuMemAlloc(&result, sizeof out);
    test_products();
    test_late();
    test_reuse();
    test_texts();
    test_reports();
    sim_run_close(&run);
    return check_done();
}
