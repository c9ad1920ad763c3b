/*
 * Clusters on sim: what CTAs see of each other, how they meet, and what sim
 * says of what goes wrong between them.
 */
#include "check.h"
#include "sim_run.h"

static sim_run run;

/* Runs a body in clusters of n; %c is the block's rank, %g its number in the
   grid, %0 to %3 are registers, q[] is at %q. */
static void go(unsigned n, const char *body, unsigned blocks, unsigned threads)
{
    spt_buf text = {0};
    spt_buf_printf(
        &text,
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 k_p, .param .u64 k_q,"
        " .param .u64 k_gone, .param .u32 k_n)\n"
        ".explicitcluster\n.reqnctapercluster %u, 1, 1\n{\n"
        ".reg .pred %%x<8>;\n.reg .b32 %%r<32>;\n.reg .b64 %%d<16>;\n"
        ".reg .b32 %%t, %%c, %%g;\n.reg .b64 %%p, %%q, %%to;\n"
        ".shared .align 128 .b8 sh[2048];\n.shared .align 8 .b64 bar;\n"
        "mov.u32 %%t, %%tid.x;\nmov.u32 %%c, %%cluster_ctarank;\n"
        "mov.u32 %%g, %%ctaid.x;\nld.param.u64 %%p, [k_p];\n"
        "ld.param.u64 %%q, [k_q];\nmov.u32 %%r0, sh;\nmov.u32 %%r1, bar;\n"
        "shl.b32 %%r2, %%t, 2;\nadd.u32 %%r2, %%r2, %%r0;\n" /* &sh[t] */
        "mad.lo.u32 %%r3, %%g, %u, %%t;\n"
        "mad.wide.u32 %%to, %%r3, 4, %%q;\n" /* &q[thread of the grid] */
        "setp.eq.u32 %%x0, %%t, 0;\nsetp.eq.u32 %%x1, %%c, 0;\n"
        "and.pred %%x2, %%x0, %%x1;\n",
        n, threads);
    spt_buf_puts(&text, body);
    spt_buf_puts(&text, "\nret;\n}\n");
    sim_run_module(&run, text.data, blocks, threads);
    spt_buf_free(&text);
}

#define MEET "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

static bool quiet(void)
{
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        printf("# %s\n", report.text);
    return !spt_sim_report_count() && !run.result;
}

static void told(spt_sim_kind kind, const char *part, const char *what)
{
    spt_sim_report report;
    bool found = false;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++) {
        found |= report.kind == kind && strstr(report.text, part);
        printf("# %s\n", report.text);
    }
    CHECK(found, "reported: %s", what);
}

/* q[i] is expected(i) for the threads of the grid. */
static void same(const char *what, unsigned count,
                 uint32_t (*expected)(uint32_t i))
{
    bool good = quiet();
    for (uint32_t i = 0; i < count; i++)
        if (run.out[i] != expected(i)) {
            printf("# q[%u] is %u, expected %u\n", i, run.out[i], expected(i));
            good = false;
            break;
        }
    CHECK(good, "%s", what);
}

/* ---- special registers ---- */

/* 6 blocks in clusters of 2: number, rank, sizes and id, in digits. */
static uint32_t digits(uint32_t block)
{
    return 1 + 10 * (block % 2) + 100 * 2 + 1000 * 3 + 10000 * (block / 2);
}

static void test_special(void)
{
    go(2,
       ".reg .pred e;\nmov.pred e, %is_explicit_cluster;\n"
       "selp.u32 %r4, 1, 0, e;\nmad.lo.u32 %r4, %c, 10, %r4;\n"
       "mov.u32 %r5, %cluster_nctarank;\nmad.lo.u32 %r4, %r5, 100, %r4;\n"
       "mov.u32 %r5, %nclusterid.x;\nmad.lo.u32 %r4, %r5, 1000, %r4;\n"
       "mov.u32 %r5, %clusterid.x;\nmad.lo.u32 %r4, %r5, 10000, %r4;\n"
       "st.global.u32 [%to], %r4;",
       6, 1);
    same("special registers", 6, digits);
}

/* ---- each other's memory ---- */

/* 4 blocks of 32 threads, clusters of 2: what the neighbour's thread wrote. */
static uint32_t neighbour(uint32_t i)
{
    return 100 * (i / 32 ^ 1) + i % 32;
}

static void test_memory(void)
{
    static const char load[] =
        "mad.lo.u32 %r4, %g, 100, %t;\nst.shared.u32 [%r2], %r4;\n" MEET
        "xor.b32 %r5, %c, 1;\nmapa.shared::cluster.u32 %r6, %r2, %r5;\n"
        "ld.shared::cluster.u32 %r7, [%r6];\nst.global.u32 [%to], %r7;\n" MEET;
    go(2, load, 4, 32);
    same("a neighbour's memory is read", 128, neighbour);
    static const char store[] =
        MEET "mad.lo.u32 %r4, %g, 100, %t;\nxor.b32 %r5, %c, 1;\n"
             "cvta.shared.u64 %d1, sh;\nmapa.u64 %d1, %d1, %r5;\n"
             "mad.wide.u32 %d1, %t, 4, %d1;\nst.u32 [%d1], %r4;\n" MEET
             "ld.shared.u32 %r7, [%r2];\nst.global.u32 [%to], %r7;\n";
    go(2, store, 4, 32);
    same("a neighbour's memory is written by generic addresses", 128,
         neighbour);
    static const char own[] =
        "mad.lo.u32 %r4, %g, 100, %t;\nmapa.shared::cluster.u32 %r6, %r2, %c;\n"
        "st.shared::cluster.u32 [%r6], %r4;\nld.shared.u32 %r7, [%r2];\n"
        "getctarank.shared::cluster.u32 %r8, %r6;\nsub.u32 %r8, %r8, %c;\n"
        "add.u32 %r7, %r7, %r8;\nxor.b32 %r9, %g, 1;\n"
        "mad.lo.u32 %r3, %r9, 32, %t;\nmad.wide.u32 %to, %r3, 4, %q;\n"
        "st.global.u32 [%to], %r7;\n";
    go(2, own, 4, 32);
    same("the own rank is the own memory", 128, neighbour);
}

static uint32_t sum_of_4(uint32_t i)
{
    (void)i;
    return 4 * 32 * 33 / 2;
}

static void test_atomics(void)
{
    go(4,
       "@%x0 st.shared.u32 [sh], 0;\n" MEET
       "mapa.shared::cluster.u32 %r6, %r0, 0;\nadd.u32 %r4, %t, 1;\n"
       "red.relaxed.cluster.shared::cluster.add.u32 [%r6], %r4;\n" MEET
       "ld.shared::cluster.u32 %r7, [%r6];\nst.global.u32 [%to], %r7;\n" MEET,
       4, 32);
    same("atomics on the first block's memory", 128, sum_of_4);
}

/* ---- mbarriers ---- */

#define WAIT(label, phase)                                                  \
    label ":\nmbarrier.try_wait.parity.shared::cta.b64 %x4, [%r1], " #phase \
          ";\n@!%x4 bra " label ";\n"

static uint32_t first_is_9(uint32_t i)
{
    return i == 0 ? 9 : 0;
}

static void test_mbarrier(void)
{
    go(4,
       "@%x0 mbarrier.init.shared::cta.b64 [%r1], 4;\n"
       "fence.mbarrier_init.release.cluster;\n" MEET
       "mapa.shared::cluster.u32 %r6, %r1, 0;\n"
       "@%x0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
       "@!%x1 bra done;\n" WAIT(
           "wait", 0) "st.global.u32 [%to], 9;\n"
                      "done:\n@!%x1 st.global.u32 [%to], 0;\n" MEET,
       4, 1);
    same("blocks arrive at the first one's mbarrier", 4, first_is_9);
}

static uint32_t values(uint32_t i)
{
    return i < 4 ? 50 + i : 0;
}

static void test_async_stores(void)
{
    go(4,
       "@%x0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
       "fence.mbarrier_init.release.cluster;\n"
       "@%x2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n" MEET
       "mapa.shared::cluster.u32 %r6, %r1, 0;\n"
       "mapa.shared::cluster.u32 %r7, %r0, 0;\nmad.lo.u32 %r7, %c, 4, %r7;\n"
       "add.u32 %r8, %c, 50;\n"
       "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], "
       "%r8, [%r6];\n@!%x1 bra done;\n" WAIT(
           "wait",
           0) "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [sh];\n"
              "st.global.v4.u32 [%to], {%r10, %r11, %r12, %r13};\ndone:\n" MEET,
       4, 1);
    same("st.async", 4, values);
    go(4,
       "@%x0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"
       "@%x0 st.shared.v4.u32 [sh], {40, 51, 52, 53};\n"
       "fence.mbarrier_init.release.cluster;\n"
       "@%x2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n" MEET
       "mapa.shared::cluster.u32 %r6, %r1, 0;\n"
       "mapa.shared::cluster.u32 %r7, %r0, 0;\nadd.u32 %r8, %c, 1;\n"
       "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
       ".add.u32 [%r7], %r8, [%r6];\n@!%x1 bra done;\n" WAIT(
           "wait",
           0) "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [sh];\n"
              "st.global.v4.u32 [%to], {%r10, %r11, %r12, %r13};\ndone:\n" MEET,
       4, 1);
    same("red.async", 4, values);
}

/* p[i] as sim_run fills it; 64 threads read 256 bytes in each of 2 blocks. */
static uint32_t words_of_p(uint32_t i)
{
    return i % 64 * 2654435761u;
}

#define INIT_AND_EXPECT                                         \
    "@%x0 mbarrier.init.shared::cta.b64 [%r1], 1;\n"            \
    "fence.mbarrier_init.release.cluster;\n"                    \
    "@%x0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], " \
    "256;\n" MEET
#define SHOW                      \
    WAIT("wait", 0)               \
    "ld.shared.u32 %r7, [%r2];\n" \
    "st.global.u32 [%to], %r7;\n" MEET

static void test_bulk(void)
{
    go(2,
       INIT_AND_EXPECT
       "@%x2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
       ".multicast::cluster [%r0], [%p], 256, [%r1], 3;\n" SHOW,
       2, 64);
    same("one load for two blocks", 128, words_of_p);
    spt_sim_counters counters;
    spt_sim_counters_get(&counters);
    CHECK(counters.ldgsts_sectors == 8, "read once: %llu sectors",
          (unsigned long long)counters.ldgsts_sectors);
    go(2,
       "mul.lo.u32 %r9, %t, 0x9e3779b1;\nst.shared.u32 [%r2+512], %r9;\n"
       "fence.proxy.async.shared::cta;\n" INIT_AND_EXPECT
       "xor.b32 %r5, %c, 1;\nadd.u32 %r8, %r0, 512;\n"
       "mapa.shared::cluster.u32 %r6, %r0, %r5;\n"
       "mapa.shared::cluster.u32 %r10, %r1, %r5;\n"
       "@%x0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
       "bytes [%r6], [%r8], 256, [%r10];\n" SHOW,
       2, 64);
    same("a copy into the neighbour's memory", 128, words_of_p);
}

/* ---- what goes wrong ---- */

static void test_reports(void)
{
    go(2,
       "@%x1 bra first;\nbra done;\nfirst:\nmov.u32 %r9, 0;\n"
       "loop:\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %x4, %r9, 20000;\n"
       "@%x4 bra loop;\nmapa.shared::cluster.u32 %r6, %r0, 1;\n"
       "ld.shared::cluster.u32 %r7, [%r6];\ndone:\n",
       2, 1);
    told(SPT_SIM_BOUNDS_SHARED, "the cluster's block of rank 1 has ended",
         "memory of a block that has ended");
    go(2,
       "mapa.shared::cluster.u32 %r6, %r0, 1;\n"
       "@%x1 ld.shared::cluster.u32 %r7, [%r6];\n"
       "@%x1 st.global.u32 [%to], %r7;\n" MEET,
       2, 1);
    told(SPT_SIM_UNINIT_SHARED, "",
         "a neighbour's memory before it is written");
    go(2, "mapa.shared::cluster.u32 %r6, %r0, 2;\n", 2, 1);
    told(SPT_SIM_OPERAND, "rank 2 in a cluster of 2 blocks", "no such rank");
    go(2, "barrier.cluster.wait.aligned;\n", 2, 1);
    told(SPT_SIM_BARRIER_COUNT, "without an arrive", "a wait without arrive");
    go(2, "barrier.cluster.arrive.aligned;\n" MEET, 2, 1);
    told(SPT_SIM_BARRIER_COUNT, "again before the wait", "two arrivals");
    go(2,
       "setp.lt.u32 %x4, %t, 32;\nand.pred %x4, %x4, %x1;\n"
       "@%x4 bra other;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
       "ret;\nother:\nbarrier.sync 1, 64;\n",
       2, 64);
    told(SPT_SIM_DEADLOCK, "", "a cluster that waits for itself");
    go(2,
       "@%x0 mbarrier.init.shared::cta.b64 [%r1], 1;\n" MEET
       "mapa.shared::cluster.u32 %r6, %r1, 1;\n"
       "@%x2 mbarrier.inval.shared::cta.b64 [%r6];\n" MEET,
       2, 1);
    told(SPT_SIM_MBARRIER, "own mbarriers", "another block's mbarrier ended");
    go(2,
       INIT_AND_EXPECT
       "@%x2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
       ".multicast::cluster [%r0], [%p], 256, [%r1], 5;\n" SHOW,
       2, 64);
    told(SPT_SIM_BOUNDS_SHARED, "the cluster has no block 2 of the mask",
         "a mask beyond the cluster");
}

/* Values that a load brings are not there before the wait. */
static void test_early(void)
{
    go(2,
       INIT_AND_EXPECT
       "@%x2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
       ".multicast::cluster [%r0], [%p], 256, [%r1], 3;\n" MEET
       "ld.shared.u32 %r8, [%r2];\nst.global.u32 [%to], %r8;\n" SHOW,
       2, 64);
    told(SPT_SIM_ASYNC_READ, "", "a multicast read before its wait");
}

/* cuLaunchKernelEx with a cluster of n (0: none) of a kernel so marked. */
static void launch_by_attribute(const char *mark, unsigned n, CUresult expected,
                                const char *what)
{
    char text[256];
    CUmodule module;
    CUfunction kernel;
    snprintf(text, sizeof text,
             ".version 8.7\n.target sm_90a\n.address_size 64\n"
             ".visible .entry k() %s\n{\nret;\n}\n",
             mark);
    run.drv.cuModuleLoadData(&module, text);
    run.drv.cuModuleGetFunction(&kernel, module, "k");
    CUlaunchAttribute attribute = {
        .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        .value.clusterDim = {n, 1, 1},
    };
    CUlaunchConfig config = {
        .gridDimX = 4,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 32,
        .blockDimY = 1,
        .blockDimZ = 1,
        .attrs = &attribute,
        .numAttrs = n > 0,
    };
    CUresult got = run.drv.cuLaunchKernelEx(&config, kernel, NULL, NULL);
    CHECK(got == expected, "%s (%d)", what, got);
    run.drv.cuModuleUnload(module);
}

static void test_launches(void)
{
    go(2, "", 3, 1);
    CHECK(run.result == CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "a grid that is no multiple of the cluster");
    go(16, "", 16, 1);
    CHECK(run.result == CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "16 blocks need the attribute");
    launch_by_attribute(".explicitcluster", 0, CUDA_ERROR_INVALID_CLUSTER_SIZE,
                        "a cluster that nobody has sized");
    launch_by_attribute(".explicitcluster", 2, CUDA_SUCCESS,
                        "a cluster sized by the launch");
    launch_by_attribute(".maxclusterrank 2", 4, CUDA_ERROR_INVALID_CLUSTER_SIZE,
                        "more blocks than the kernel takes");
    launch_by_attribute(".reqnctapercluster 4", 2,
                        CUDA_ERROR_INVALID_CLUSTER_SIZE,
                        "another size than the kernel's");
}

int main(void)
{
    const spt_sim_options options = {.threads = 2};
    if (!sim_run_open(&run, &options))
        return 1;
    test_special();
    test_memory();
    test_atomics();
    test_mbarrier();
    test_async_stores();
    test_bulk();
    test_reports();
    test_early();
    test_launches();
    sim_run_close(&run);
    return check_done();
}
