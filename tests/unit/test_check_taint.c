/*
 * Loads of memory never written: reported where the value decides something,
 * with the line of the load; not where nothing comes of it.
 */
#include "check.h"
#include "sim_run.h"

#define AT(line) ".loc 1 " #line " 0\n"
#define OUT(reg) AT(90) "st.global.u32 [%d1], " reg ";\n"
#define LOAD AT(7) "ld.local.u32 %r4, [loc];\n" AT(8)
#define LOAD_SHARED AT(7) "ld.shared.u32 %r4, [%r1];\n" AT(8)
#define WORD "st.local.u8 [loc], %t;\n" LOAD /* its low byte is written */
/* Predicates that hold in all threads, and in none; unknown to compilers. */
#define YES "setp.lt.u32 %x1, %t, 1024;\n"
#define NO "setp.gt.u32 %x1, %t, 1024;\n"
#define GUARDED_OUT "st.global.u32 [%d1], %r5;\n"
#define CALL "{ .param .b32 a; .param .b32 b;\n"
#define CALLED "ld.param.b32 %r5, [b]; }\n"

static const struct {
    const char *name;
    const char *body;
    bool fault;
} cases[] = {
    {"nothing", LOAD, false},
    {"stored to global memory", LOAD OUT("%r4"), true},
    {"overwritten", LOAD "mov.u32 %r4, %t;\n" OUT("%r4"), false},
    {"overwritten in other threads only",
     "setp.lt.u32 %x1, %t, 3;\n" LOAD "@%x1 mov.u32 %r4, %t;\n" OUT("%r4"),
     true},
    {"one element of a vector that is not used",
     "st.local.u32 [loc], %t;\n" AT(
         7) "ld.local.v2.u32 {%r4, %r5}, [loc];\n" OUT("%r4"),
     false},
    {"the element that is",
     "st.local.u32 [loc], %t;\n" AT(
         7) "ld.local.v2.u32 {%r4, %r5}, [loc];\n" OUT("%r5"),
     true},
    {"not chosen by selp", YES LOAD "selp.u32 %r5, %t, %r4, %x1;\n" OUT("%r5"),
     false},
    {"chosen by selp", NO LOAD "selp.u32 %r5, %t, %r4, %x1;\n" OUT("%r5"),
     true},
    {"chooses in selp",
     LOAD "setp.eq.u32 %x2, %r4, 5;\nselp.u32 %r5, 1, 2, %x2;\n" OUT("%r5"),
     true},
    {"through arithmetic",
     LOAD_SHARED "cvt.rn.f32.u32 %f1, %r4;\nfma.rn.f32 %f2, %f1, %f1, %f1;\n"
                 "mov.b32 %r5, %f2;\nmov.b64 %d4, {%t, %r5};\n"
                 "mov.b64 {%r6, %r7}, %d4;\n" OUT("%r7"),
     true},
    {"in an address",
     LOAD "and.b32 %r5, %r4, 4;\ncvt.u64.u32 %d4, %r5;\n"
          "add.u64 %d4, %d4, %d1;\nst.global.u32 [%d4], %t;\n",
     true},
    {"in a branch",
     LOAD "setp.eq.u32 %x2, %r4, 5;\n@%x2 bra over;\n" OUT("%t") "over:\n",
     true},
    {"in a guard",
     LOAD "setp.eq.u32 %x2, %r4, 5;\n@%x2 st.global.u32 [%d1], %t;\n", true},
    {"in a guard of nothing that follows",
     LOAD "setp.eq.u32 %x2, %r4, 5;\n" OUT("%t"), false},
    {"beside a condition that is false",
     NO LOAD "setp.eq.u32 %x2, %r4, 5;\nand.pred %x3, %x1, %x2;\n"
             "@%x3 bra over;\n" OUT("%t") "over:\n",
     false},
    {"beside a condition that is true",
     YES LOAD "setp.eq.u32 %x2, %r4, 5;\nand.pred %x3, %x1, %x2;\n"
              "@%x3 bra over;\n" OUT("%t") "over:\n",
     true},
    {"beside a condition that is true, or",
     YES LOAD "setp.eq.u32 %x2, %r4, 5;\nor.pred %x3, %x2, %x1;\n"
              "@%x3 bra over;\n" OUT("%t") "over:\n",
     false},
    {"copied to local memory and left there",
     LOAD "st.local.u32 [loc+8], %r4;\n" OUT("%t"), false},
    {"copied over what was written",
     "st.local.u32 [loc+8], %t;\n" LOAD "st.local.u32 [loc+8], %r4;\n"
     "ld.local.u32 %r5, [loc+8];\n" OUT("%r5"),
     true},
    {"copied to shared memory and left there",
     LOAD "st.shared.u32 [%r1], %r4;\n" OUT("%t"), false},
    {"read there by another warp",
     LOAD "st.shared.u32 [%r1], %r4;\nbar.sync 0;\nxor.b32 %r2, %r1, 128;\n"
          "ld.shared.u32 %r5, [%r2];\n" OUT("%r5"),
     true},
    {"by a generic address",
     LOAD "cvta.local.u64 %d4, 16;\nst.u32 [%d4], %r4;\n" OUT("%t"), false},
    {"in a loop, dead",
     "mov.u32 %r6, 0;\nagain:\n" LOAD "add.u32 %r6, %r6, 1;\n"
     "setp.lt.u32 %x2, %r6, 1000;\n@%x2 bra again;\n" OUT("%r6"),
     false},
    {"in a loop, summed up",
     "mov.u32 %r6, 0;\nmov.u32 %r7, 0;\nagain:\n" LOAD
     "add.u32 %r7, %r7, %r4;\nadd.u32 %r6, %r6, 1;\n"
     "setp.lt.u32 %x2, %r6, 10;\n@%x2 bra again;\n" OUT("%r7"),
     true},
    {"of a thread that has left",
     "setp.lt.u32 %x2, %t, 5;\n" LOAD "@%x2 exit;\n"
     "@!%x2 mov.u32 %r4, 1;\n" OUT("%r4"),
     false},
    {"by other lanes",
     LOAD "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;\n" OUT("%r5"), true},
    {"of a lane that gives nothing",
     "setp.eq.u32 %x2, %lane, 31;\n" LOAD "@!%x2 mov.u32 %r4, %t;\n"
     "shfl.sync.up.b32 %r5|%x3, %r4, 1, 0, -1;\n@%x3 " GUARDED_OUT,
     false},
    {"of a lane that gives it to the next",
     "setp.eq.u32 %x2, %lane, 30;\n" LOAD "@!%x2 mov.u32 %r4, %t;\n"
     "shfl.sync.up.b32 %r5|%x3, %r4, 1, 0, -1;\n@%x3 " GUARDED_OUT,
     true},
    {"voted on",
     LOAD "setp.eq.u32 %x2, %r4, 5;\nvote.sync.ballot.b32 %r5, %x2, -1;\n",
     true},
    {"by an atomic", LOAD "red.global.add.u32 [%d0], %r4;\n", true},
    {"passed on and not used",
     LOAD CALL
     "st.param.b32 [a], %r4;\ncall (b), first, (a);\n" CALLED OUT("%r5"),
     false},
    {"passed on and used",
     LOAD CALL
     "st.param.b32 [a], %r4;\ncall (b), second, (a);\n" CALLED OUT("%r5"),
     true},
    {"the byte of a word that was written",
     WORD "and.b32 %r5, %r4, 255;\n" OUT("%r5"), false},
    {"another byte", WORD "and.b32 %r5, %r4, 0x100;\n" OUT("%r5"), true},
    {"bits that are set whatever they were",
     LOAD "or.b32 %r5, %r4, -1;\n" OUT("%r5"), false},
    {"bit fields set one by one",
     LOAD "and.b32 %r4, %r4, -16;\nor.b32 %r4, %r4, 3;\n"
          "st.local.u32 [loc], %r4;\nld.local.u32 %r5, [loc];\n"
          "bfi.b32 %r5, %t, %r5, 4, 28;\n" OUT("%r5"),
     false},
    {"a bit field left out",
     LOAD "and.b32 %r4, %r4, -16;\nor.b32 %r4, %r4, 3;\n"
          "st.local.u32 [loc], %r4;\nld.local.u32 %r5, [loc];\n"
          "bfi.b32 %r5, %t, %r5, 5, 27;\n" OUT("%r5"),
     true},
    {"shifted out", WORD "shl.b32 %r5, %r4, 24;\n" OUT("%r5"), false},
    {"shifted in", WORD "shr.u32 %r5, %r4, 4;\n" OUT("%r5"), true},
    {"extracted", WORD "bfe.u32 %r5, %r4, 0, 8;\n" OUT("%r5"), false},
    {"extracted beside", WORD "bfe.u32 %r5, %r4, 1, 8;\n" OUT("%r5"), true},
    {"permuted away", WORD "prmt.b32 %r5, %r4, %t, 0x4440;\n" OUT("%r5"),
     false},
    {"permuted in", WORD "prmt.b32 %r5, %r4, %t, 0x4410;\n" OUT("%r5"), true},
    {"cut by a conversion", WORD "cvt.u32.u8 %r5, %r4;\n" OUT("%r5"), false},
    {"below a carry",
     WORD "add.u32 %r5, %r4, %t;\nand.b32 %r5, %r5, 255;\n" OUT("%r5"), false},
    {"passed to the runtime",
     AT(7) "ld.local.u64 %d4, [loc];\n" AT(
         8) "{ .param .b64 a; .param .b64 b;\nst.param.b64 [a], %d4;\n"
            "call (b), malloc, (a); }\n",
     true},
};

static const char *const functions =
    ".version 8.7\n.target sm_90a\n.address_size 64\n"
    ".extern .func (.param .b64 r) malloc(.param .b64 x);\n"
    ".func (.param .b32 r) first(.param .b32 x)\n"
    "{ .reg .b32 %r<3>; .local .b32 own; ld.param.u32 %r1, [x];\n"
    "st.local.u32 [own], %r1; mov.u32 %r2, 3;\n"
    "st.param.b32 [r], %r2; ret; }\n"
    ".func (.param .b32 r) second(.param .b32 x)\n"
    "{ .reg .b32 %r<3>; .local .b32 own; ld.param.u32 %r1, [x];\n"
    "st.local.u32 [own], %r1; ld.local.u32 %r2, [own];\n"
    "st.param.b32 [r], %r2; ret; }\n";

static void run(sim_run *s, const char *body)
{
    static const char *const head =
        ".visible .entry k(.param .u64 k_p, .param .u64 k_q,"
        " .param .u64 k_gone, .param .u32 k_n)\n{\n"
        ".reg .pred %x<16>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n"
        ".reg .b64 %d<32>;\n.reg .b32 %t, %lane;\n.reg .b64 %p, %q;\n"
        ".shared .align 128 .b8 sh[4096];\n"
        ".local .align 16 .b8 loc[128];\n"
        "mov.u32 %t, %tid.x;\nmov.u32 %lane, %laneid;\n"
        "ld.param.u64 %p, [k_p];\nld.param.u64 %q, [k_q];\n"
        "mad.wide.u32 %d0, %t, 4, %p;\nmad.wide.u32 %d1, %t, 4, %q;\n"
        "mov.u32 %r0, sh;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r0, %r1;\n";
    spt_buf text = {0};
    spt_buf_printf(&text, "%s%s%s\nret;\n}\n.file 1 \"fault.cu\"\n", functions,
                   head, body);
    sim_run_module(s, text.data, 2, 64);
    spt_buf_free(&text);
}

/* More dead registers than can be marked at once: those are forgotten. */
static void run_many(sim_run *s)
{
    spt_buf body = {0};
    spt_buf_puts(&body, NO "{ .reg .b32 %z<400>;\n");
    for (int i = 0; i < 400; i++)
        spt_buf_printf(&body,
                       "ld.local.u32 %%z%d, [loc];\n@%%x1 bra L%d;\nL%d:\n", i,
                       i, i);
    spt_buf_puts(&body, "}\n" OUT("%t"));
    run(s, body.data);
    spt_buf_free(&body);
    CHECK_INT((int)spt_sim_report_count(), 0,
              "many that nothing comes of: no report");
}

int main(void)
{
    static sim_run s;
    spt_sim_options options = {.threads = 1};
    if (!CHECK(sim_run_open(&s, &options), "sim opens"))
        return check_done();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spt_sim_report r = {0};
        run(&s, cases[i].body);
        size_t count = spt_sim_report_count();
        spt_sim_report_get(0, &r);
        bool told = count == 1 && (r.kind == SPT_SIM_UNINIT_LOCAL ||
                                   r.kind == SPT_SIM_UNINIT_SHARED);
        bool good = cases[i].fault ? told : !count;
        CHECK(good && !s.result, "%s: %s", cases[i].name,
              cases[i].fault ? "reported" : "no report");
        if (!good || s.result)
            printf("# result %d, %zu reports: %s\n", s.result, count, r.text);
    }
    run(&s, WORD "st.shared.u32 [%r1], %r4;\nld.shared.u32 %r5, [%r1];\n"
                 "and.b32 %r5, %r5, 255;\n" OUT("%r5"));
    CHECK_INT(s.out[7], 7, "a copy of part of a word has its value");
    CHECK_INT((int)spt_sim_report_count(), 0, "and no report");
    run_many(&s);
    sim_run_close(&s);
    return check_done();
}
