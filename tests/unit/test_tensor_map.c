/*
 * Copies of tensors on sim against a loop over their elements, and what sim
 * says of wrong maps and wrong copies.
 */
#include "check.h"
#include "sim_run.h"

enum { SHARED = 32768, ELEMENTS = 1 << 16, THREADS = 64 };

typedef struct tensor_case {
    const char *name;
    CUtensorMapDataType type;
    uint32_t bytes, rank; /* of an element */
    cuuint64_t size[5];
    uint32_t pad; /* bytes between rows */
    cuuint32_t box[5], step[5];
    CUtensorMapSwizzle swizzle;
    bool nan;
    int32_t at[5];
} tensor_case;

#define ONES          \
    {                 \
        1, 1, 1, 1, 1 \
    }
static const tensor_case cases[] = {
    {"1d",
     CU_TENSOR_MAP_DATA_TYPE_UINT32,
     4,
     1,
     {100},
     0,
     {64},
     ONES,
     0,
     false,
     {7}},
    {"1d beyond the end",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
     4,
     1,
     {100},
     0,
     {64},
     ONES,
     0,
     false,
     {60}},
    {"2d",
     CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
     2,
     2,
     {80, 40},
     32,
     {32, 16},
     ONES,
     0,
     false,
     {5, 9}},
    {"2d, 32-byte swizzle",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
     2,
     2,
     {64, 40},
     0,
     {16, 32},
     ONES,
     CU_TENSOR_MAP_SWIZZLE_32B,
     false,
     {16, 8}},
    {"2d, 64-byte swizzle",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
     2,
     2,
     {64, 40},
     0,
     {32, 32},
     ONES,
     CU_TENSOR_MAP_SWIZZLE_64B,
     false,
     {-3, 30}},
    {"2d, 128-byte swizzle",
     CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
     2,
     2,
     {128, 64},
     0,
     {64, 64},
     ONES,
     CU_TENSOR_MAP_SWIZZLE_128B,
     false,
     {64, 0}},
    {"2d, narrow rows in a wide swizzle",
     CU_TENSOR_MAP_DATA_TYPE_UINT8,
     1,
     2,
     {96, 64},
     0,
     {32, 64},
     ONES,
     CU_TENSOR_MAP_SWIZZLE_128B,
     false,
     {33, 0}},
    {"2d, outside on all sides",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
     4,
     2,
     {20, 10},
     16,
     {32, 16},
     ONES,
     0,
     false,
     {-4, -3}},
    {"2d, filled with NaN",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
     2,
     2,
     {24, 10},
     0,
     {32, 16},
     ONES,
     0,
     true,
     {-4, 3}},
    {"3d",
     CU_TENSOR_MAP_DATA_TYPE_INT32,
     4,
     3,
     {12, 10, 6},
     0,
     {8, 4, 4},
     ONES,
     0,
     false,
     {2, 3, 4}},
    {"3d with element strides",
     CU_TENSOR_MAP_DATA_TYPE_UINT16,
     2,
     3,
     {32, 20, 9},
     0,
     {16, 8, 7},
     {1, 2, 3},
     0,
     false,
     {8, 3, 1}},
    {"4d",
     CU_TENSOR_MAP_DATA_TYPE_UINT64,
     8,
     4,
     {8, 6, 5, 4},
     0,
     {4, 3, 2, 2},
     ONES,
     0,
     false,
     {1, 1, 4, -1}},
    {"5d, 128-byte swizzle",
     CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
     4,
     5,
     {40, 5, 3, 4, 3},
     0,
     {32, 2, 3, 2, 2},
     ONES,
     CU_TENSOR_MAP_SWIZZLE_128B,
     false,
     {8, 2, 0, 1, 2}},
};
enum { CASES = sizeof cases / sizeof *cases };

static sim_run run;
static uint8_t tensor[ELEMENTS * 8], box[SHARED], seen[ELEMENTS * 8];
static CUdeviceptr global, result;

static void strides_of(const tensor_case *c, cuuint64_t *strides)
{
    strides[0] = c->size[0] * c->bytes + c->pad;
    for (uint32_t i = 1; i < c->rank; i++)
        strides[i] = strides[i - 1] * c->size[i];
}

static CUresult encode(const tensor_case *c, CUtensorMap *map)
{
    cuuint64_t strides[5];
    strides_of(c, strides);
    return run.drv.cuTensorMapEncodeTiled(
        map, c->type, c->rank, (void *)(uintptr_t)global, c->size, strides,
        c->box, c->step, CU_TENSOR_MAP_INTERLEAVE_NONE, c->swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        c->nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
               : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Calls each element of the box: its place in shared memory and in the tensor,
   -1 where it is outside. Returns the box's bytes. */
typedef void visit(const tensor_case *c, uint32_t shared, int64_t at);

static uint32_t each(const tensor_case *c, visit *call)
{
    cuuint64_t strides[5];
    uint32_t count = 1, span[4] = {0, 1, 3, 7}, n[5];
    strides_of(c, strides);
    for (uint32_t i = 0; i < c->rank; i++)
        count *= n[i] = (c->box[i] + c->step[i] - 1) / c->step[i];
    for (uint32_t k = 0; k < count; k++) {
        int64_t at = 0;
        uint32_t rest = k, shared = k * c->bytes;
        bool inside = true;
        for (uint32_t i = 0; i < c->rank; i++) {
            int64_t x = c->at[i] + (int64_t)(rest % n[i] * c->step[i]);
            rest /= n[i];
            inside &= x >= 0 && x < (int64_t)c->size[i];
            at += x * (int64_t)(i ? strides[i - 1] : c->bytes);
        }
        shared ^= (shared >> 7 & span[c->swizzle]) << 4;
        call(c, shared, inside ? at : -1);
    }
    return count * c->bytes;
}

static void expect_box(const tensor_case *c, uint32_t shared, int64_t at)
{
    if (at >= 0)
        memcpy(box + shared, tensor + at, c->bytes);
    else
        memset(box + shared, c->nan ? 0xff : 0, c->bytes);
    if (at < 0 && c->nan)
        box[shared + c->bytes - 1] = 0x7f;
}

static void expect_tensor(const tensor_case *c, uint32_t shared, int64_t at)
{
    if (at >= 0)
        memcpy(tensor + at, box + shared, c->bytes);
}

static void expect_sum(const tensor_case *c, uint32_t shared, int64_t at)
{
    uint32_t x, y;
    if (at < 0)
        return;
    memcpy(&x, tensor + at, 4);
    memcpy(&y, box + shared, 4);
    x += y;
    memcpy(tensor + at, &x, c->bytes);
}

static const char head[] =
    ".version 8.7\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .align 64 .b8 k_map[128], .param .u64 k_out,"
    " .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3,"
    " .param .u32 c4, .param .u32 k_bytes)\n{\n"
    ".reg .pred %x<4>;\n.reg .b32 %r<24>;\n.reg .b64 %d<8>;\n"
    ".shared .align 1024 .b8 sh[32768];\n.shared .align 8 .b64 bar;\n"
    "mov.b64 %d0, k_map;\ncvta.param.u64 %d0, %d0;\n"
    "ld.param.u64 %d1, [k_out];\nld.param.u32 %r9, [k_bytes];\n"
    "ld.param.u32 %r0, [c0];\nld.param.u32 %r1, [c1];\n"
    "ld.param.u32 %r2, [c2];\nld.param.u32 %r3, [c3];\n"
    "ld.param.u32 %r4, [c4];\nmov.u32 %r5, sh;\nmov.u32 %r6, bar;\n"
    "mov.u32 %r7, %tid.x;\nsetp.eq.u32 %x0, %r7, 0;\n";

static const char load_tail[] =
    "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %x1, [%r6], 0;\n"
    "@!%x1 bra wait;\nmov.u32 %r10, %r7;\nnext:\nshl.b32 %r11, %r10, 2;\n"
    "setp.ge.u32 %x1, %r11, %r9;\n@%x1 bra done;\n"
    "add.u32 %r12, %r5, %r11;\nld.shared.b32 %r13, [%r12];\n"
    "cvt.u64.u32 %d2, %r11;\nadd.u64 %d2, %d1, %d2;\n"
    "st.global.b32 [%d2], %r13;\nadd.u32 %r10, %r10, 64;\nbra next;\n"
    "done:\nret;\n}\n";

static const char store_head[] =
    "mov.u32 %r10, %r7;\nnext:\nshl.b32 %r11, %r10, 2;\n"
    "setp.ge.u32 %x1, %r11, %r9;\n@%x1 bra go;\n"
    "cvt.u64.u32 %d2, %r11;\nadd.u64 %d2, %d1, %d2;\n"
    "ld.global.b32 %r13, [%d2];\nadd.u32 %r12, %r5, %r11;\n"
    "st.shared.b32 [%r12], %r13;\nadd.u32 %r10, %r10, 64;\nbra next;\n"
    "go:\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@!%x0 bra done;\n";

static const char *coordinates(uint32_t rank)
{
    static const char *const texts[] = {"%r0", "%r0, %r1", "%r0, %r1, %r2",
                                        "%r0, %r1, %r2, %r3",
                                        "%r0, %r1, %r2, %r3, %r4"};
    return texts[rank - 1];
}

/* The PTX of a load, or of what is done instead with the box. */
static void write_load(spt_buf *text, uint32_t rank)
{
    spt_buf_puts(text, head);
    spt_buf_printf(
        text,
        "@%%x0 mbarrier.init.shared.b64 [%%r6], 1;\nbar.sync 0;\n"
        "@!%%x0 bra wait;\nfence.proxy.async;\nprefetch.tensormap [%%d0];\n"
        "cp.async.bulk.prefetch.tensor.%ud.L2.global.tile [%%d0, {%s}];\n"
        "mbarrier.arrive.expect_tx.shared.b64 _, [%%r6], %%r9;\n"
        "cp.async.bulk.tensor.%ud.shared::cluster.global.tile.mbarrier::"
        "complete_tx::bytes [%%r5], [%%d0, {%s}], [%%r6];\n",
        rank, coordinates(rank), rank, coordinates(rank));
    spt_buf_puts(text, load_tail);
}

static void write_store(spt_buf *text, const char *instruction, uint32_t rank)
{
    spt_buf_puts(text, head);
    spt_buf_puts(text, store_head);
    spt_buf_printf(text,
                   "%s [%%d0, {%s}], [%%r5];\n"
                   "cp.async.bulk.commit_group;\n"
                   "cp.async.bulk.wait_group 0;\ndone:\nret;\n}\n",
                   instruction, coordinates(rank));
}

static bool launch(const char *text, const CUtensorMap *map, const int32_t *at,
                   uint32_t bytes)
{
    CUmodule module;
    CUfunction kernel;
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {run.error, (void *)(uintptr_t)sizeof run.error};
    spt_sim_clear();
    run.error[0] = 0;
    run.result = run.drv.cuModuleLoadDataEx(&module, text, 2, names, values);
    if (run.result) {
        printf("# module: %d %s\n", run.result, run.error);
        return false;
    }
    run.drv.cuModuleGetFunction(&kernel, module, "k");
    void *params[] = {(void *)(uintptr_t)map,    &result,
                      (void *)(uintptr_t)&at[0], (void *)(uintptr_t)&at[1],
                      (void *)(uintptr_t)&at[2], (void *)(uintptr_t)&at[3],
                      (void *)(uintptr_t)&at[4], &bytes};
    run.result = run.drv.cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL,
                                        params, NULL);
    if (!run.result)
        run.result = run.drv.cuCtxSynchronize();
    return !run.result;
}

static bool no_reports(void)
{
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        printf("# %s\n", report.text);
    return !spt_sim_report_count();
}

static void fill(uint8_t *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((i + seed) * 2654435761u >> 13);
}

static void test_load(const tensor_case *c)
{
    CUtensorMap map;
    spt_buf text = {0};
    fill(tensor, sizeof tensor, 1);
    run.drv.cuMemcpyHtoD(global, tensor, sizeof tensor);
    CHECK(encode(c, &map) == CUDA_SUCCESS, "%s: a map", c->name);
    uint32_t bytes = each(c, expect_box);
    write_load(&text, c->rank);
    bool ran = launch(text.data, &map, c->at, bytes);
    run.drv.cuMemcpyDtoH(seen, result, bytes);
    CHECK(ran && no_reports() && !memcmp(seen, box, bytes), "%s: loaded",
          c->name);
    spt_buf_free(&text);
}

static void test_store(const tensor_case *c, const char *operation,
                       visit *expect, const char *what)
{
    CUtensorMap map;
    spt_buf text = {0};
    char instruction[80];
    fill(tensor, sizeof tensor, 2);
    run.drv.cuMemcpyHtoD(global, tensor, sizeof tensor);
    encode(c, &map);
    fill(box, sizeof box, 3);
    run.drv.cuMemcpyHtoD(result, box, sizeof box);
    snprintf(instruction, sizeof instruction, operation, c->rank);
    write_store(&text, instruction, c->rank);
    bool ran = launch(text.data, &map, c->at, each(c, expect));
    run.drv.cuMemcpyDtoH(seen, global, sizeof tensor);
    CHECK(ran && no_reports() && !memcmp(seen, tensor, sizeof tensor), "%s: %s",
          c->name, what);
    spt_buf_free(&text);
}

static void test_cases(void)
{
    for (int i = 0; i < CASES; i++) {
        test_load(&cases[i]);
        test_store(&cases[i],
                   "cp.async.bulk.tensor.%ud.global.shared::cta.tile."
                   "bulk_group",
                   expect_tensor, "stored");
    }
    test_store(&cases[9],
               "cp.reduce.async.bulk.tensor.%ud.global.shared::cta.add.tile."
               "bulk_group",
               expect_sum, "added");
}

/* Words of a kind that a type brings into another form. */
static void test_forms(void)
{
    static const struct {
        CUtensorMapDataType type;
        uint32_t from, to;
    } forms[] = {
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 0x807fffff, 0x807fffff},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 0x807fffff, 0x80000000},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 0x3f801001, 0x3f802000},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 0x3f801000, 0x3f800000},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 0x00001234, 0},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tensor_case c = cases[0];
        CUtensorMap map;
        spt_buf text = {0};
        uint32_t value = 0;
        c.type = forms[i].type;
        run.drv.cuMemsetD32(global, forms[i].from, 128);
        encode(&c, &map);
        write_load(&text, 1);
        launch(text.data, &map, c.at, 256);
        run.drv.cuMemcpyDtoH(&value, result, 4);
        CHECK(value == forms[i].to, "form %zu: 0x%08x", i, value);
        spt_buf_free(&text);
    }
}

/* ---- what is refused ---- */

static void refuse(const char *what, const tensor_case *c)
{
    CUtensorMap map;
    CUresult got = encode(c, &map);
    CHECK(got == CUDA_ERROR_INVALID_VALUE && strstr(spt_sim_last_error(), what),
          "refused: %s (%d, %s)", what, got, spt_sim_last_error());
}

static void test_refusals(void)
{
    tensor_case c = cases[2];
    c.rank = 6;
    refuse("the rank is 6", &c);
    c = cases[2];
    c.pad = 8;
    refuse("a stride is 168, expected a multiple of 16", &c);
    c = cases[2];
    c.box[0] = 257;
    refuse("a side of the box is 257, expected 1 to 256", &c);
    c.box[0] = 12;
    refuse("inner side in bytes is 24, expected a multiple of 16", &c);
    c.box[0] = 32;
    c.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
    refuse("no more than the swizzle", &c);
    c = cases[2];
    c.step[1] = 9;
    refuse("an element stride is 9", &c);
    c = cases[2];
    c.size[1] = 0;
    refuse("a dimension is 0, expected 1 to 2^32", &c);
    c = cases[0];
    c.nan = true;
    refuse("zeros for a type that is no float", &c);
    CUdeviceptr good = global;
    global += 8;
    refuse("the tensor's address", &cases[0]);
    global = good;
    c = cases[0];
    c.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
    CUtensorMap map;
    CHECK(encode(&c, &map) == CUDA_ERROR_NOT_SUPPORTED, "packed types");
}

static void test_text(const char *instruction, const char *why)
{
    spt_buf text = {0};
    CUtensorMap map;
    spt_buf_printf(&text, "%s%s\nret;\n}\n", head, instruction);
    encode(&cases[0], &map);
    CHECK(!launch(text.data, &map, cases[0].at, 0) &&
              strstr(run.error, "line 24") && strstr(run.error, why),
          "refused: %s", why);
    spt_buf_free(&text);
}

static void test_texts(void)
{
    test_text("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
              "complete_tx::bytes [%r5], [%d0, {%r0}], [%r6];",
              "operand 3 has 1 registers, expected 2");
    test_text("cp.async.bulk.tensor.1d.global.shared::cluster.bulk_group "
              "[%d0, {%r0}], [%r5];",
              "a tensor is copied from");
    test_text("cp.async.bulk.tensor.1d.shared::cta.global [%r5], [%d0, {%r0}], "
              "[%r6];",
              "a load completes by");
    test_text("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx"
              "::bytes.multicast::cluster [%r5], [%d0, {%r0}], [%r6], 1;",
              ".multicast::cluster is for");
    test_text("cp.async.bulk.tensor.1d.shared::cluster.global.im2col.mbarrier::"
              "complete_tx::bytes [%r5], [%d0, {%r0}], [%r6];",
              "unknown modifier .im2col");
    test_text("ld.global.b32 %r1, [%d0, {%r0}];", "brackets hold one address");
}

/* ---- what is reported ---- */

static bool reported(spt_sim_kind kind, const char *part)
{
    spt_sim_report report;
    for (size_t i = 0; spt_sim_report_get(i, &report); i++) {
        if (report.kind == kind && strstr(report.text, part))
            return true;
        printf("# %s\n", report.text);
    }
    return false;
}

static void renew(void)
{
    run.drv.cuDevicePrimaryCtxRelease(0);
    run.drv.cuDevicePrimaryCtxRetain(&run.context, 0);
    run.drv.cuCtxSetCurrent(run.context);
    run.drv.cuMemAlloc(&global, sizeof tensor);
    run.drv.cuMemAlloc(&result, sizeof tensor);
    run.drv.cuMemcpyHtoD(global, tensor, sizeof tensor);
}

static void test_reports(void)
{
    CUtensorMap map;
    spt_buf text = {0};
    write_load(&text, 2);
    encode(&cases[0], &map);
    launch(text.data, &map, cases[0].at, 256);
    CHECK(reported(SPT_SIM_OPERAND, "has 1 dimensions, the copy 2"),
          "a map of another rank");
    renew();
    memset(&map, 0, sizeof map);
    launch(text.data, &map, cases[0].at, 256);
    CHECK(reported(SPT_SIM_OPERAND, "no tensor map stands there"), "no map");
    renew();
    encode(&cases[2], &map);
    run.drv.cuMemFree(global);
    launch(text.data, &map, cases[2].at, 1024);
    CHECK(reported(SPT_SIM_FREED, "read"), "a tensor that was freed");
    renew();
    spt_buf_free(&text);
    spt_buf_printf(&text, "%sadd.u32 %%r5, %%r5, 64;\n", head);
    spt_buf_puts(&text,
                 "@%x0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group "
                 "[%d0, {%r0}], [%r5];\nret;\n}\n");
    encode(&cases[0], &map);
    launch(text.data, &map, cases[0].at, 256);
    CHECK(reported(SPT_SIM_MISALIGNED, "a multiple of 128 bytes"),
          "a box at a place that is no multiple of 128");
    renew();
    spt_buf_free(&text);
    spt_buf_printf(&text, "%s@%%x0 st.shared.b32 [sh+60], 7;\n", head);
    spt_buf_puts(&text,
                 "@%x0 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group "
                 "[%d0, {%r0}], [%r5];\nret;\n}\n");
    encode(&cases[0], &map);
    launch(text.data, &map, cases[0].at, 256);
    CHECK(reported(SPT_SIM_PROXY_FENCE, "warp 0 wrote at PTX line 24"),
          "a store of what was written without a proxy fence");
    spt_buf_free(&text);
}

/* A part of the text, which is there once. */
static void replace(spt_buf *text, const char *part, const char *by)
{
    spt_buf made = {0};
    const char *at = strstr(text->data, part);
    spt_buf_add(&made, text->data, (size_t)(at - text->data));
    spt_buf_puts(&made, by);
    spt_buf_puts(&made, at + strlen(part));
    spt_buf_free(text);
    *text = made;
}

/* A swizzle moves a chunk of the box's last line behind all shared memory. */
static void test_swizzled_end(void)
{
    const tensor_case c = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                           .bytes = 4,
                           .rank = 2,
                           .size = {8, 8},
                           .box = {4, 1},
                           .step = ONES,
                           .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
    CUtensorMap map;
    spt_buf text = {0};
    renew();
    write_load(&text, 2);
    replace(&text, "sh[32768]", "sh[912]");
    replace(&text, "%r5, sh;", "%r5, sh+896;");
    encode(&c, &map);
    launch(text.data, &map, c.at, 16);
    CHECK(reported(SPT_SIM_BOUNDS_SHARED, "bulk copy"),
          "a box that is swizzled past the end of shared memory");
    spt_buf_free(&text);
}

int main(void)
{
    const spt_sim_options options = {.threads = 1};
    if (!sim_run_open(&run, &options))
        return 1;
    run.drv.cuMemAlloc(&global, sizeof tensor);
    run.drv.cuMemAlloc(&result, sizeof tensor);
    test_cases();
    test_forms();
    test_refusals();
    test_texts();
    test_reports();
    test_swizzled_end();
    sim_run_close(&run);
    return check_done();
}
