/* The data files of archs/, the schema's refusals and a user's own board. */
#include <stdlib.h>
#include <unistd.h>

#include "boards.h"
#include "check.h"
#include "files.h"
#include "gen.h"

static const char *const boards[] = {"a10",
                                     "a100_sxm",
                                     "b200_sxm",
                                     "b300_sxm",
                                     "cmp_170hx",
                                     "gb10",
                                     "h100_nvl",
                                     "h100_pcie",
                                     "h100_sxm",
                                     "h100_sxm_94gb",
                                     "h200_sxm",
                                     "l4",
                                     "l40s",
                                     "rtx_3060",
                                     "rtx_3060_laptop",
                                     "rtx_3060_ti",
                                     "rtx_3080",
                                     "rtx_3080_ti",
                                     "rtx_3090",
                                     "rtx_3090_ti",
                                     "rtx_4060_ti",
                                     "rtx_4070_ti_super",
                                     "rtx_4080",
                                     "rtx_4090",
                                     "rtx_5060_ti",
                                     "rtx_5070_ti",
                                     "rtx_5080",
                                     "rtx_5090",
                                     "rtx_5090_laptop",
                                     "rtx_6000_ada",
                                     "rtx_a5000",
                                     "rtx_a6000",
                                     "rtx_pro_4000",
                                     "rtx_pro_4500",
                                     "rtx_pro_5000",
                                     "rtx_pro_6000",
                                     "rtx_pro_6000_maxq"};
static const char *const archs[] = {"sm100", "sm103", "sm120", "sm121",
                                    "sm80",  "sm86",  "sm89",  "sm90"};

static void test_shipped(spt_gen *gen)
{
    spt_error err = {0};
    spt_board b;
    spt_fact facts[SPT_FACT_MAX];
    size_t count = 0;
    CHECK_INT((long long)spt_gen_board_count(gen),
              sizeof boards / sizeof *boards, "every board is listed here");
    CHECK_INT((long long)spt_gen_arch_count(gen), 8, "eight architectures");
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++) {
        CHECK_OK(spt_gen_board(gen, boards[i], &b, &err), &err, boards[i]);
        bool sourced =
            spt_gen_board_facts(gen, &b, facts, &count, &err) == SPT_OK;
        for (size_t k = 0; k < count; k++)
            sourced &= facts[k].source && strlen(facts[k].source) > 2;
        CHECK(sourced && count > 20, "%s: every figure has a source",
              boards[i]);
        CHECK(b.matrix_count > 0 && b.matrix[0].row_step == 8,
              "%s: mma.sync takes rows in steps of 8", boards[i]);
    }
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        CHECK_OK(spt_gen_default_board(gen, archs[i], &b, &err), &err,
                 archs[i]);
        CHECK_TEXT(b.arch, archs[i], "its board is of that architecture");
    }
    CHECK(spt_gen_board(gen, "h100", &b, &err) == SPT_E_USAGE,
          "an unknown board is a wrong use");
    CHECK_HAS(err.text, "h100_sxm", "and the error lists the boards");
    CHECK(spt_gen_default_board(gen, "sm99", &b, &err) == SPT_E_USAGE,
          "an unknown architecture too");
}

/* The text of a good board, with one part replaced. */
static char *with(const char *good, const char *part, const char *other)
{
    const char *at = strstr(good, part);
    if (!at)
        return NULL;
    spt_buf text = {0};
    spt_buf_add(&text, good, (size_t)(at - good));
    spt_buf_puts(&text, other);
    spt_buf_puts(&text, at + strlen(part));
    return text.data;
}

static const char good_board[] =
    "return {\n"
    "  kind = \"board\",\n"
    "  arch = \"sm90\",\n"
    "  title = \"Mine\",\n"
    "  sm_count = {100, \"SMs\", \"mine\"},\n"
    "  clock_mhz = {1500, \"MHz\", \"mine\"},\n"
    "  dram_gbps = {3000, \"GB/s\", \"mine\"},\n"
    "  dram_efficiency = {0.9, \"fraction\", \"mine\"},\n"
    "  l2_gbps = {8000, \"GB/s\", \"mine\"},\n"
    "  l2_bytes = {50 * 2^20, \"bytes\", \"mine\"},\n"
    "  memory_bytes = {80 * 2^30, \"bytes\", \"mine\"},\n"
    "  bf16_tflops = {600, \"TFLOPS\", \"mine\"},\n"
    "  fp8_tflops = {1200, \"TFLOPS\", \"mine\"},\n"
    "  link_gbps = {0, \"GB/s\", \"none\"},\n"
    "  l2_latency_ns = {150, \"ns\", \"mine\"},\n"
    "  dram_latency_ns = {400, \"ns\", \"mine\"},\n"
    "}\n";

static const struct refusal {
    const char *name, *part, *other, *says;
} refusals[] = {
    {"an unknown field", "  link_gbps", "  link_speed = 3,\n  link_gbps",
     ":14: link_speed: unknown field"},
    {"a missing field", "  sm_count = {100, \"SMs\", \"mine\"},\n", "",
     "field sm_count is missing"},
    {"another unit", "3000, \"GB/s\"", "3, \"TB/s\"",
     ":7: dram_gbps: expected the unit \"GB/s\""},
    {"an absurd figure", "{100, \"SMs\"", "{100000, \"SMs\"",
     ":5: sm_count: 100000"},
    {"a figure that is no whole number", "{100, \"SMs\"", "{100.5, \"SMs\"",
     ":5: sm_count: expected a whole number"},
    {"a figure without source", "{1500, \"MHz\", \"mine\"}", "{1500, \"MHz\"}",
     ":6: clock_mhz: expected {value"},
    {"a bare number", "{1500, \"MHz\", \"mine\"}", "1500", ":6: clock_mhz"},
    {"a figure that is not a number", "{0.9,", "{0/0,", ":8: dram_efficiency"},
    {"an L2 slower than DRAM", "{8000,", "{1000,", ":9: l2_gbps"},
    {"a rate that no SM has", "{600,", "{40000,", ":12: bf16_tflops"},
    {"an architecture that is not there", "sm90", "sm91", ":3: arch"},
    {"an architecture's file as a board", "\"board\"", "\"arch\"", "unknown"},
    {"a syntax error", "return {", "return {{", "my_board.lua:"},
    {"a file that calls out", "return {", "os.exit(0) return {", "os"},
    {"a file that never ends", "return {", "while true do end return {",
     "my_board.lua"},
};

static void test_user_board(spt_gen *gen)
{
    spt_error err = {0};
    spt_board b;
    char folder[] = "/tmp/spectune-boards-XXXXXX";
    if (!CHECK(mkdtemp(folder) != NULL, "a folder for the boards"))
        return;
    char *path = spt_path_join(folder, "my_board.lua");
    spt_file_write(path, good_board, strlen(good_board), &err);
    CHECK_OK(spt_gen_board_file(gen, path, &b, &err), &err,
             "a board of one's own");
    CHECK_TEXT(b.name, "my_board", "has its file's name");
    CHECK_INT(b.shared_per_cta_bytes, 227 * 1024, "and its arch's limits");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        char *text = with(good_board, r->part, r->other);
        spt_file_write(path, text, strlen(text), &err);
        CHECK(spt_gen_board_file(gen, path, &b, &err) != SPT_OK,
              "%s is refused", r->name);
        CHECK_HAS(err.text, r->says, "and the line says so");
        CHECK(!strchr(err.text, '\n'), "in one line");
        spt_free(text);
    }
    unlink(path);
    CHECK(spt_gen_board_file(gen, path, &b, &err) != SPT_OK,
          "a missing file is refused");
    rmdir(folder);
    spt_free(path);
}

int main(void)
{
    spt_gen *gen = NULL;
    spt_error err = {0};
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    test_shipped(gen);
    test_user_board(gen);
    spt_gen_close(gen);
    return check_done();
}
