/* Which board a device is taken for, every board of archs/ as a device. */
#include "check.h"
#include "gen.h"
#include "gpu.h"
#include "sim.h"

enum { BOARDS = 64 };

static spt_error err;
static spt_gen *gen;
static spt_board boards[BOARDS];
static int count;

static void read_boards(void)
{
    if (!CHECK_OK(spt_gen_open(NULL, &gen, &err), &err, "archs/ opens"))
        return;
    count = (int)spt_gen_board_count(gen);
    if (!CHECK(count > 30 && count <= BOARDS, "%d boards", count))
        count = 0;
    for (int i = 0; i < count; i++)
        if (spt_gen_board(gen, spt_gen_board_name(gen, (size_t)i), &boards[i],
                          &err) != SPT_OK)
            CHECK(false, "%s", err.text);
}

/* One chip, memory and bandwidth: only the power limit differs. */
static bool same_figures(const spt_board *a, const spt_board *b)
{
    return a->sm_count == b->sm_count && a->memory_bytes == b->memory_bytes &&
           a->dram_gbps == b->dram_gbps && a->cc_major == b->cc_major &&
           a->cc_minor == b->cc_minor;
}

static void test_each(void)
{
    for (int i = 0; i < count; i++) {
        spt_driver driver;
        spt_board found = {.name = "none"};
        spt_gpu gpu = {0};
        if (spt_sim_open(&boards[i], 1, NULL, &driver, &err) != SPT_OK ||
            driver.cuInit(0) != CUDA_SUCCESS) {
            CHECK(false, "%s", err.text);
            continue;
        }
        spt_gpu_board(&driver, gen, &found, &gpu, &err);
        CHECK(same_figures(&found, &boards[i]) && gpu.is_board,
              "%s is taken for %s", boards[i].name, found.name);
        spt_sim_close();
    }
}

static const spt_board *named(const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(boards[i].name, name) == 0)
            return &boards[i];
    return &boards[0];
}

/* Two devices of one architecture, and one of another. */
static void test_choice(void)
{
    spt_board devices[] = {*named("h100_pcie"), *named("h200_sxm"),
                           *named("l40s")};
    spt_driver driver;
    spt_gpu gpu;
    if (!CHECK_OK(spt_sim_open(devices, 3, NULL, &driver, &err), &err,
                  "three devices") ||
        driver.cuInit(0) != CUDA_SUCCESS)
        return;
    CHECK_OK(spt_gpu_find(&driver, named("h200_sxm"), &gpu, &err), &err,
             "a device for h200_sxm");
    CHECK(gpu.device == 1 && gpu.is_board, "it is the H200");
    CHECK_OK(spt_gpu_find(&driver, named("h100_sxm"), &gpu, &err), &err,
             "a device for h100_sxm");
    CHECK(gpu.device == 1 && !gpu.is_board,
          "as many SMs are nearer, though it is another board");
    CHECK_OK(spt_gpu_find(&driver, named("l4"), &gpu, &err), &err,
             "a device for l4");
    CHECK(gpu.device == 2 && !gpu.is_board, "of its architecture");
    CHECK(spt_gpu_find(&driver, named("b200_sxm"), &gpu, &err) ==
              SPT_E_NOT_FOUND,
          "none for b200_sxm");
    CHECK_HAS(err.text, "no GPU of compute capability 10.0 (sm100) among 3",
              "with the reason");
    spt_sim_close();
}

int main(void)
{
    read_boards();
    if (count) {
        test_each();
        test_choice();
    }
    spt_gen_close(gen);
    return check_done();
}
