/*
 * Planted faults, one per kind of report, each beside a clean twin: the fault
 * is reported as its kind with the source line; the twin is not.
 */
#include "check.h"
#include "sim_run.h"

typedef struct fault {
    const char *name;
    spt_sim_kind kind;
    unsigned threads;
    const char *bad, *good;
} fault;

#define AT(line) ".loc 1 " #line " 0\n"
#define BAR "bar.sync 0;\n"
#define OUT(reg) "st.global.u32 [%d1], " reg ";\n"
/* Shared addresses: own word, and the word of the thread a warp further. */
#define OTHER                 \
    "add.u32 %r2, %t, 32;\n"  \
    "and.b32 %r2, %r2, 63;\n" \
    "shl.b32 %r2, %r2, 2;\n"  \
    "add.u32 %r2, %r0, %r2;\n"
/* The word of the lane beside; warp-wide instructions that order lanes. */
#define NEIGHBOUR            \
    "xor.b32 %r2, %t, 1;\n"  \
    "shl.b32 %r2, %r2, 2;\n" \
    "add.u32 %r2, %r0, %r2;\n"
#define SHUFFLE "shfl.sync.bfly.b32 %r5, %t, 1, 31, -1;\n"
#define MATRIX                                             \
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " \
    "{%f1, %f2, %f3, %f4}, {%t, %t, %t, %t}, {%t, %t}, "   \
    "{%f1, %f2, %f3, %f4};\n"
#define COPY16                                              \
    "shl.b32 %r3, %t, 4;\n"                                 \
    "add.u32 %r3, %r0, %r3;\n"                              \
    "mad.wide.u32 %d3, %t, 16, %p;\n" AT(                   \
        41) "cp.async.cg.shared.global [%r3], [%d3], 16;\n" \
            "cp.async.commit_group;\n"
#define LOAD16 AT(42) "ld.shared.u32 %r4, [%r3];\n" OUT("%r4")
#define MBARRIER                \
    "setp.eq.u32 %x1, %t, 0;\n" \
    "@%x1 mbarrier.init.shared.b64 [sh+2048], 64;\n" BAR
#define MBARRIER_WAIT                                             \
    "mbarrier.arrive.shared.b64 %d5, [sh+2048];\n"                \
    "again: mbarrier.test_wait.shared.b64 %x2, [sh+2048], %d5;\n" \
    "@!%x2 bra again;\n"

static const fault faults[] = {
    {"unwritten global", SPT_SIM_UNINIT_GLOBAL, 64,
     AT(11) "ld.global.u32 %r4, [%d1];\n" OUT("%r4"),
     AT(11) "ld.global.u32 %r4, [%d0];\n" OUT("%r4")},
    {"unwritten bytes of a global word that are used", SPT_SIM_UNINIT_GLOBAL,
     64,
     "cvt.u16.u32 %h1, %t;\nst.global.u8 [%d1], %h1;\n"
     ".pragma \"used_bytes_mask 0x3\";\n" AT(11) "ld.global.u32 %r4, [%d1];\n",
     "cvt.u16.u32 %h1, %t;\nst.global.u8 [%d1], %h1;\n"
     ".pragma \"used_bytes_mask 1\";\n" AT(11) "ld.global.u32 %r4, [%d1];\n"},
    {"unwritten shared", SPT_SIM_UNINIT_SHARED, 64,
     AT(12) "ld.shared.u32 %r4, [%r1];\n" OUT("%r4"),
     "st.shared.u32 [%r1], %t;\n" AT(12) "ld.shared.u32 %r4, [%r1];\n" OUT(
         "%r4")},
    {"half of a shared word unwritten", SPT_SIM_UNINIT_SHARED, 64,
     "cvt.u16.u32 %h1, %t;\nst.shared.u16 [%r1], %h1;\n" AT(
         12) "ld.shared.u32 %r4, [%r1];\n" OUT("%r4"),
     "cvt.u16.u32 %h1, %t;\nst.shared.u16 [%r1], %h1;\n"
     "st.shared.u16 [%r1+2], %h1;\n" AT(12) "ld.shared.u32 %r4, [%r1];\n" OUT(
         "%r4")},
    {"unwritten local", SPT_SIM_UNINIT_LOCAL, 64,
     "st.local.u32 [loc], %t;\n" AT(
         13) "ld.local.v2.u32 {%r4, %r5}, [loc];\n" OUT("%r5"),
     "st.local.u32 [loc], %t;\nst.local.u32 [loc+4], %t;\n" AT(
         13) "ld.local.v2.u32 {%r4, %r5}, [loc];\n" OUT("%r5")},
    {"global load past the end", SPT_SIM_BOUNDS_GLOBAL, 64,
     AT(14) "ld.global.u32 %r4, [%d0+8188];\n" OUT("%r4"),
     AT(14) "ld.global.u32 %r4, [%d0+7936];\n" OUT("%r4")},
    {"global store before the start", SPT_SIM_BOUNDS_GLOBAL, 64,
     AT(15) "st.global.u32 [%d1+-8], %t;\n",
     AT(15) "st.global.u32 [%d1+8], %t;\n"},
    {"null pointer", SPT_SIM_BOUNDS_GLOBAL, 32,
     "mov.u64 %d2, 0;\n" AT(15) "st.global.u32 [%d2], %t;\n", OUT("%t")},
    {"shared store past the end", SPT_SIM_BOUNDS_SHARED, 64,
     AT(16) "st.shared.u32 [%r1+4092], %t;\n",
     AT(16) "st.shared.u32 [%r1+3840], %t;\n"},
    {"local store past the end", SPT_SIM_BOUNDS_LOCAL, 64,
     "mov.u64 %d2, loc;\nadd.u64 %d2, %d2, 4096;\n" AT(
         17) "st.local.u32 [%d2], %t;\n",
     "mov.u64 %d2, loc;\nadd.u64 %d2, %d2, 32;\n" AT(
         17) "st.local.u32 [%d2], %t;\n"},
    {"misaligned global", SPT_SIM_MISALIGNED, 64,
     AT(18) "ld.global.u32 %r4, [%d0+2];\n" OUT("%r4"),
     AT(18) "ld.global.u16 %r4, [%d0+2];\n" OUT("%r4")},
    {"misaligned shared vector", SPT_SIM_MISALIGNED, 32,
     AT(18) "st.shared.v4.u32 [%r1], {%t, %t, %t, %t};\n",
     "shl.b32 %r3, %t, 4;\nadd.u32 %r3, %r0, %r3;\n" AT(
         18) "st.shared.v4.u32 [%r3], {%t, %t, %t, %t};\n"},
    {"freed memory", SPT_SIM_FREED, 32,
     AT(19) "ld.global.u32 %r4, [%gone];\n" OUT("%r4"),
     AT(19) "ld.global.u32 %r4, [%p];\n" OUT("%r4")},
    {"two warps write one word", SPT_SIM_RACE_WRITE, 64,
     AT(20) "st.shared.u32 [%r0], %t;\n",
     "setp.lt.u32 %x1, %t, 32;\n@%x1 st.shared.u32 [%r0], %t;\n" BAR AT(
         20) "@!%x1 st.shared.u32 [%r0], %t;\n"},
    {"read of another warp's word without barrier", SPT_SIM_RACE_READ, 64,
     AT(21) "st.shared.u32 [%r1], %t;\n" OTHER AT(
         22) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4"),
     AT(21) "st.shared.u32 [%r1], %t;\n" OTHER BAR AT(
         22) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4")},
    {"read of another lane's word", SPT_SIM_RACE_READ, 32,
     "st.shared.u32 [%r1], %t;\n" NEIGHBOUR AT(
         33) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4"),
     "st.shared.u32 [%r1], %t;\n" NEIGHBOUR SHUFFLE AT(
         33) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4")},
    {"read of another lane's word before a matrix product", SPT_SIM_RACE_READ,
     32,
     "st.shared.u32 [%r1], %t;\n" NEIGHBOUR AT(
         34) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4"),
     "st.shared.u32 [%r1], %t;\n" NEIGHBOUR MATRIX AT(
         34) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4")},
    {"write over what another warp still reads", SPT_SIM_RACE_READ, 64,
     "st.shared.u32 [%r1], %t;\n" OTHER BAR AT(
         23) "ld.shared.u32 %r4, [%r2];\n" AT(24) "st.shared.u32 [%r1], %r4;\n",
     "st.shared.u32 [%r1], %t;\n" OTHER BAR
         AT(23) "ld.shared.u32 %r4, [%r2];\n" BAR AT(
             24) "st.shared.u32 [%r1], %r4;\n"},
    {"copy read before its wait", SPT_SIM_ASYNC_READ, 32,
     COPY16 LOAD16 "cp.async.wait_all;\n",
     COPY16 "cp.async.wait_all;\n" LOAD16},
    {"wait for too few groups", SPT_SIM_ASYNC_READ, 32,
     COPY16 "cp.async.wait_group 1;\n" LOAD16 "cp.async.wait_all;\n",
     COPY16 "cp.async.wait_group 0;\n" LOAD16},
    {"copy waited for but no barrier", SPT_SIM_RACE_READ, 64,
     COPY16 "cp.async.wait_all;\nxor.b32 %r3, %r3, 512;\n" LOAD16,
     COPY16 "cp.async.wait_all;\nxor.b32 %r3, %r3, 512;\n" BAR LOAD16},
    {"store into a copy in flight", SPT_SIM_ASYNC_WRITE, 32,
     COPY16 AT(27) "st.shared.u32 [%r3], %t;\ncp.async.wait_all;\n",
     COPY16 "cp.async.wait_all;\n" AT(27) "st.shared.u32 [%r3], %t;\n"},
    {"source of a copy changed", SPT_SIM_ASYNC_WRITE, 32,
     COPY16 "st.global.u32 [%d3], 77;\ncp.async.wait_all;\n",
     COPY16 "cp.async.wait_all;\nst.global.u32 [%d3], 77;\n"},
    {"copy never waited for", SPT_SIM_ASYNC_PENDING, 32, COPY16,
     COPY16 "cp.async.wait_all;\n"},
    {"mbarrier never initialised", SPT_SIM_MBARRIER, 64,
     AT(28) "mbarrier.arrive.shared.b64 %d5, [sh+2048];\n",
     MBARRIER AT(28) "mbarrier.arrive.shared.b64 %d5, [sh+2048];\n"},
    {"mbarrier arrived on too often", SPT_SIM_MBARRIER, 64,
     "setp.eq.u32 %x1, %t, 0;\n"
     "@%x1 mbarrier.init.shared.b64 [sh+2048], 1;\n" BAR AT(
         29) "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d5,"
             " [sh+2048], 2;\n",
     MBARRIER MBARRIER_WAIT},
    {"matrix load by half a warp", SPT_SIM_DIVERGENT, 32,
     "st.shared.u32 [%r1], %t;\nsetp.lt.u32 %x1, %t, 16;\n"
     "@!%x1 bra over;\n" AT(
         30) "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r0];\nover:\n",
     "st.shared.u32 [%r1], %t;\n" AT(
         30) "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r0];\n"},
    {"trap", SPT_SIM_TRAP, 32, AT(31) "trap;\n", ""},
    {"handed over through an mbarrier", SPT_SIM_RACE_READ, 64,
     MBARRIER
     "st.shared.u32 [%r1], %t;\n" OTHER AT(32) "ld.shared.u32 %r4, [%r2];\n",
     MBARRIER "st.shared.u32 [%r1], %t;\n" OTHER MBARRIER_WAIT AT(
         32) "ld.shared.u32 %r4, [%r2];\n" OUT("%r4")},
};

static bool lacks_line(const char *body)
{
    return strstr(body, ".loc") == NULL;
}

int main(void)
{
    static sim_run s;
    spt_sim_options options = {.threads = 1};
    if (!CHECK(sim_run_open(&s, &options), "sim opens"))
        return check_done();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault *f = &faults[i];
        sim_run_body(&s, f->bad, 1, f->threads);
        spt_sim_report r = {0};
        size_t seen = spt_sim_report_count();
        bool told = false;
        for (size_t j = 0; spt_sim_report_get(j, &r); j++)
            told |= r.kind == f->kind && r.text[0] &&
                    (lacks_line(f->bad) || r.line > 0);
        CHECK(told, "%s is reported", f->name);
        if (!told)
            printf("# result %d, %zu reports\n", s.result, seen);
        for (size_t j = 0; j < seen; j++)
            if (spt_sim_report_get(j, &r))
                printf("# %s\n", r.text);
        sim_run_body(&s, f->good, 1, f->threads);
        bool clean = spt_sim_report_count() == 0 && s.result == 0;
        CHECK(clean, "%s: the clean twin is not", f->name);
        for (size_t j = 0; !clean && spt_sim_report_get(j, &r); j++)
            printf("# %s\n", r.text);
    }
    sim_run_close(&s);
    return check_done();
}
