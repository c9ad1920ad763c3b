/*
 * Warp instructions and matrix instructions per second of one core, on
 * kernels given as PTX, with sim's checks and counters on and off. Each row is
 * the best of RUNS launches of one warp-filled CTA; the loop's own counting
 * and branching are among the instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

enum { RUNS = 5, REPEAT = 16, WARPS = 4, BYTES = 1 << 20, TEXT = 16384 };

typedef struct work {
    const char *name, *unit;
    const char *body; /* REPEAT times in the loop */
    unsigned per_body; /* units of one body */
    unsigned loops;
} work;

static const work works[] = {
    {"integer and float", "warp instructions",
     "add.s32 %r2, %r2, %r1; mad.lo.s32 %r3, %r2, %r1, %r3;\n"
     "xor.b32 %r4, %r4, %r3; fma.rn.f32 %f1, %f2, %f3, %f1;\n"
     "add.f32 %f4, %f4, %f1; mul.f32 %f5, %f4, %f2;\n"
     "shl.b32 %r5, %r4, 3; and.b32 %r6, %r5, %r2;\n",
     8, 20000},
    {"compare and select", "warp instructions",
     "setp.lt.s32 %p2, %r2, %r3; selp.b32 %r4, %r2, %r3, %p2;\n"
     "add.s32 %r2, %r4, %r1; max.s32 %r3, %r3, %r4;\n"
     "@%p2 add.s32 %r5, %r5, 1; min.u32 %r6, %r5, %r3;\n",
     6, 20000},
    {"64-bit addresses", "warp instructions",
     "mul.wide.s32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;\n"
     "shl.b64 %d4, %d3, 1; cvt.u32.u64 %r2, %d4;\n",
     4, 20000},
    {"global loads and stores", "warp accesses",
     "ld.global.u32 %r2, [%d5]; st.global.u32 [%d5+4096], %r2;\n", 2, 4000},
    {"shared loads and stores", "warp accesses",
     "st.shared.u32 [%r7], %r2; ld.shared.u32 %r2, [%r7];\n", 2, 8000},
    {"exponentials", "warp instructions", "ex2.approx.ftz.f32 %f1, %f1;\n", 1,
     8000},
    {"mma.m16n8k16 bf16", "matrix instructions",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
     "{%f10,%f11,%f12,%f13}, {%r10,%r11,%r12,%r13}, {%r14,%r15}, "
     "{%f10,%f11,%f12,%f13};\n",
     1, 4000},
};

static const char head[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n"
    ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<8>; "
    ".reg .f32 %f<20>;\n"
    ".shared .align 16 .b8 sh[4096];\n"
    "ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1;\n"
    "ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;\n"
    "mul.wide.u32 %d2, %r1, 4; add.s64 %d5, %d1, %d2;\n"
    "mov.u32 %r7, sh; mad.lo.s32 %r7, %r1, 4, %r7;\n"
    "mov.u32 %r2, 1; mov.u32 %r3, 2; mov.u32 %r4, 3; mov.u32 %r5, 4;\n"
    "mov.u32 %r6, 5; mov.f32 %f1, 0f3F000000; mov.f32 %f2, 0f3F100000;\n"
    "mov.f32 %f3, 0f3E000000; mov.f32 %f4, 0f3E800000;\n"
    "mov.f32 %f5, 0f3F800000; mov.u32 %r10, 0x3f803f80;\n"
    "mov.u32 %r11, %r10; mov.u32 %r12, %r10; mov.u32 %r13, %r10;\n"
    "mov.u32 %r14, %r10; mov.u32 %r15, %r10; mov.f32 %f10, 0f00000000;\n"
    "mov.f32 %f11, %f10; mov.f32 %f12, %f10; mov.f32 %f13, %f10;\n"
    "LOOP:\n";

static const char tail[] =
    "add.s32 %r0, %r0, -1; setp.ne.s32 %p1, %r0, 0;\n@%p1 bra LOOP;\n"
    "add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r4;\n"
    "add.s32 %r2, %r2, %r5; add.s32 %r2, %r2, %r6;\n"
    "add.f32 %f1, %f1, %f10; cvt.rzi.s32.f32 %r3, %f1;\n"
    "add.s32 %r2, %r2, %r3; st.global.u32 [%d5], %r2;\nret;\n}\n";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void board_fill(spt_board *board)
{
    *board = (spt_board){.cc_major = 8,
                         .sm_count = 4,
                         .max_threads_per_sm = 2048,
                         .max_warps_per_sm = 64,
                         .max_ctas_per_sm = 32,
                         .max_threads_per_cta = 1024,
                         .registers_per_sm = 65536,
                         .max_registers_per_thread = 255,
                         .register_unit = 256,
                         .shared_per_sm_bytes = 164 << 10,
                         .shared_per_cta_bytes = 163 << 10,
                         .shared_reserved_bytes = 1024,
                         .clock_mhz = 1000,
                         .dram_gbps = 1000,
                         .dram_efficiency = 1,
                         .l2_gbps = 2000,
                         .l2_bytes = 1 << 22,
                         .memory_bytes = 1 << 30,
                         .bf16_tflops = 100,
                         .mma_sync_fraction = 1};
    snprintf(board->name, sizeof board->name, "bench");
    snprintf(board->title, sizeof board->title, "bench");
    snprintf(board->arch, sizeof board->arch, "sm80");
    snprintf(board->target, sizeof board->target, "sm_80");
}

/* Best seconds of one launch; negative when something failed. */
static double launch(const spt_driver *drv, const work *todo)
{
    static char text[TEXT];
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr memory;
    size_t at = (size_t)snprintf(text, sizeof text, "%s", head);
    for (int i = 0; i < REPEAT; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", todo->body);
    snprintf(text + at, sizeof text - at, "%s", tail);
    if (drv->cuModuleLoadData(&module, text) ||
        drv->cuModuleGetFunction(&kernel, module, "k") ||
        drv->cuMemAlloc(&memory, BYTES) || drv->cuMemsetD8(memory, 0, BYTES))
        return -1;
    unsigned n = todo->loops;
    void *params[] = {&memory, &n};
    double best = -1;
    for (int run = 0; run < RUNS; run++) {
        double begin = now();
        if (drv->cuLaunchKernel(kernel, 1, 1, 1, 32 * WARPS, 1, 1, 0, NULL,
                                params, NULL) ||
            drv->cuCtxSynchronize())
            return -1;
        double seconds = now() - begin;
        if (best < 0 || seconds < best)
            best = seconds;
    }
    drv->cuMemFree(memory);
    drv->cuModuleUnload(module);
    return best;
}

enum { WORKS = sizeof works / sizeof *works };

/* Million units per second of each kind of work. */
static bool measure(bool checks_off, double *rate)
{
    spt_board board;
    spt_driver drv;
    spt_error err;
    CUcontext context;
    spt_sim_options options = {
        .checks_off = checks_off, .counters_off = checks_off, .threads = 1};
    board_fill(&board);
    if (spt_sim_open(&board, 1, &options, &drv, &err) != SPT_OK) {
        fprintf(stderr, "bench_sim: %s\n", err.text);
        return false;
    }
    if (drv.cuInit(0) || drv.cuDevicePrimaryCtxRetain(&context, 0) ||
        drv.cuCtxSetCurrent(context)) {
        fprintf(stderr, "bench_sim: no context\n");
        return false;
    }
    for (int i = 0; i < WORKS; i++) {
        double seconds = launch(&drv, &works[i]);
        double units =
            (double)works[i].loops * WARPS * REPEAT * works[i].per_body;
        rate[i] = seconds > 0 ? units / seconds / 1e6 : -1;
    }
    drv.cuDevicePrimaryCtxRelease(0);
    spt_sim_close();
    return true;
}

int main(void)
{
    double off[WORKS], on[WORKS];
    if (!measure(true, off) || !measure(false, on))
        return 1;
    int status = 0;
    printf("%-36s %11s %11s\n", "sim, per core", "checks off", "on");
    for (int i = 0; i < WORKS; i++) {
        if (off[i] < 0 || on[i] < 0) {
            printf("%-36s failed\n", works[i].name);
            status = 1;
            continue;
        }
        printf("%-36s %11.2f %11.2f M %s/s\n", works[i].name, off[i], on[i],
               works[i].unit);
    }
    return status;
}
