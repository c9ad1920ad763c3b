/*
 * Tensor maps that a kernel changes on sim: tensormap.replace in shared memory,
 * tensormap.cp_fenceproxy to global memory, a load by the new map.
 */
#include "check.h"
#include "sim_run.h"

enum { ROWS = 16, COLUMNS = 8 };

static sim_run run;
static CUdeviceptr tensor, maps, result;
static uint32_t words[4096], out[ROWS * COLUMNS];

/* 32 threads; map is copied to shared memory, changed by `changes`, written to
   maps and loaded by: 16 rows of 8 words from (0, 0) on. */
static const char head[] =
    ".version 8.7\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_maps,"
    " .param .u64 k_out, .param .u64 k_tensor)\n{\n"
    ".reg .pred %x<4>;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\n"
    ".shared .align 128 .b8 sh[512];\n.shared .align 128 .b8 map[128];\n"
    ".shared .align 8 .b64 bar;\n"
    "mov.b64 %d0, k_map;\ncvta.param.u64 %d0, %d0;\n"
    "ld.param.u64 %d1, [k_maps];\nld.param.u64 %d2, [k_out];\n"
    "ld.param.u64 %d3, [k_tensor];\nmov.u32 %r0, %tid.x;\n"
    "mov.u32 %r1, map;\nmov.u32 %r2, sh;\nmov.u32 %r3, bar;\n"
    "setp.eq.u32 %x0, %r0, 0;\nmul.wide.u32 %d4, %r0, 4;\n"
    "add.u64 %d5, %d0, %d4;\nld.b32 %r4, [%d5];\n"
    "mad.lo.u32 %r5, %r0, 4, %r1;\nst.shared.b32 [%r5], %r4;\n"
    "@%x0 mbarrier.init.shared::cta.b64 [%r3], 1;\nbar.sync 0;\n"
    "@!%x0 bra changed;\n";

static const char tail[] =
    "changed:\nbar.warp.sync 0xffffffff;\n"
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"
    ".sync.aligned [%d1], [%r1], 128;\n"
    "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;\n"
    "@!%x0 bra wait;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
    "bytes [%r2], [%d1, {0, 0}], [%r3];\n"
    "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %x1, [%r3], 0;\n"
    "@!%x1 bra wait;\nmul.lo.u32 %r6, %r0, 16;\nadd.u32 %r7, %r2, %r6;\n"
    "ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r7];\n"
    "mad.wide.u32 %d2, %r0, 16, %d2;\n"
    "st.global.v4.b32 [%d2], {%r8, %r9, %r10, %r11};\nret;\n}\n";

static bool go(const char *changes, const CUtensorMap *map)
{
    CUmodule module;
    CUfunction kernel;
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {run.error, (void *)(uintptr_t)sizeof run.error};
    void *params[] = {(void *)(uintptr_t)map, &maps, &result, &tensor};
    spt_buf text = {0};
    spt_sim_clear();
    spt_buf_printf(&text, "%s%s%s", head, changes, tail);
    run.error[0] = 0;
    run.result =
        run.drv.cuModuleLoadDataEx(&module, text.data, 2, names, values);
    spt_buf_free(&text);
    if (run.result) {
        printf("# %s\n", run.error);
        return false;
    }
    run.drv.cuModuleGetFunction(&kernel, module, "k");
    run.result = run.drv.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL,
                                        params, NULL);
    if (!run.result)
        run.result = run.drv.cuCtxSynchronize();
    run.drv.cuMemcpyDtoH(out, result, sizeof out);
    run.drv.cuModuleUnload(module);
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        printf("# %s\n", report.text);
    return !run.result && !spt_sim_report_count();
}

/* 64 columns, rows 256 bytes apart; another base, rows and columns. */
static void test_changes(const CUtensorMap *map)
{
    bool good = go("add.u64 %d6, %d3, 1024;\n"
                   "tensormap.replace.tile.global_address.shared::cta.b1024.b64"
                   " [%r1], %d6;\n"
                   "tensormap.replace.tile.global_dim.shared::cta.b1024.b32"
                   " [%r1], 0, 6;\n"
                   "mov.u32 %r8, 10;\n"
                   "tensormap.replace.tile.global_dim.shared::cta.b1024.b32"
                   " [%r1], 1, %r8;\n"
                   "tensormap.replace.tile.global_stride.shared::cta.b1024.b64"
                   " [%r1], 0, 128;\n",
                   map);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        uint32_t row = i / COLUMNS, column = i % COLUMNS;
        uint32_t expected =
            row < 10 && column < 6 ? words[256 + row * 32 + column] : 0;
        if (out[i] != expected) {
            printf("# word %u is %u, expected %u\n", i, out[i], expected);
            good = false;
            break;
        }
    }
    CHECK(good, "address, dimensions and stride are replaced");
}

static void refused(const char *instruction, const char *why,
                    const CUtensorMap *map)
{
    CHECK(!go(instruction, map) && strstr(run.error, why), "refused: %s", why);
}

static void test_wrong(const CUtensorMap *map)
{
    refused("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], "
            "%r8;\n",
            "needs the dimension's number", map);
    refused("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], "
            "4, %d6;\n",
            "there is no such dimension", map);
    refused("tensormap.replace.tile.global_address.shared::cta.b1024.b32 "
            "[%r1], %r8;\n",
            "addresses and strides are .b64", map);
    spt_sim_report report;
    go("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, "
       "100;\n",
       map);
    CHECK(spt_sim_report_get(0, &report) && report.kind == SPT_SIM_OPERAND &&
              strstr(report.text, "no value for this field"),
          "reported: a stride that is no multiple of 16");
}

static bool set_up(CUtensorMap *map)
{
    const spt_sim_options options = {.threads = 1};
    const cuuint64_t size[] = {64, 64}, stride[] = {256};
    const cuuint32_t box[] = {COLUMNS, ROWS}, step[] = {1, 1};
    if (!sim_run_open(&run, &options))
        return false;
    run.drv.cuMemAlloc(&tensor, sizeof words);
    run.drv.cuMemAlloc(&maps, sizeof *map);
    run.drv.cuMemAlloc(&result, sizeof out);
    for (uint32_t i = 0; i < 4096; i++)
        words[i] = i + 1;
    run.drv.cuMemcpyHtoD(tensor, words, sizeof words);
    return CHECK(!run.drv.cuTensorMapEncodeTiled(
                     map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2,
                     (void *)(uintptr_t)tensor, size, stride, box, step,
                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                     CU_TENSOR_MAP_L2_PROMOTION_NONE,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                 "a map");
}

/* Maps that no box can be made of are reported where they are used. */
static void test_unsound(void)
{
    static const char *const changes[] = {
        "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 1, "
        "0;\n",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, 4096;"
        "\ntensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, 1;"
        "\n",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, 7;\n",
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        CUtensorMap map;
        spt_sim_report report;
        bool found = false;
        if (!set_up(&map))
            continue;
        go(changes[i], &map);
        for (size_t k = 0; spt_sim_report_get(k, &report); k++)
            found = found || strstr(report.text, "has no box");
        CHECK(found, "reported: a map without a box, case %zu", i);
        sim_run_close(&run);
    }
}

int main(void)
{
    CUtensorMap map;
    if (!set_up(&map))
        return 1;
    test_changes(&map);
    test_wrong(&map);
    sim_run_close(&run);
    test_unsound();
    return check_done();
}
