/* Sectors, wavefronts, L2, occupancy and the time of a launch. */
#include "check.h"
#include "counters.h"
#include "mem.h"
#include "occupancy.h"
#include "test_board.h"

static sim_counts *counts;
static uint64_t lanes[32];
static uint32_t offsets[32]; /* the same, in shared memory */

static void lanes_at(uint64_t base, uint64_t stride)
{
    for (uint64_t i = 0; i < 32; i++)
        lanes[i] = offsets[i] = (uint32_t)(base + i * stride);
}

static uint64_t shared_wavefronts(uint64_t stride, uint32_t bytes)
{
    sim_counts_reset(counts);
    lanes_at(0, stride);
    sim_count_shared(counts, SIM_COUNT_LD, offsets, UINT32_MAX, bytes);
    return counts->sums.l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld;
}

static void shared(void)
{
    CHECK_INT(shared_wavefronts(4, 4), 1, "words in a row: one wavefront");
    CHECK_INT(shared_wavefronts(0, 4), 1, "one word for all: broadcast");
    CHECK_INT(shared_wavefronts(8, 4), 2, "every second word: two");
    CHECK_INT(shared_wavefronts(128, 4), 32, "one bank: thirty-two");
    CHECK_INT(shared_wavefronts(132, 4), 1, "padded column: one");
    CHECK_INT(shared_wavefronts(2, 2), 1, "halves in a row: one");
    CHECK_INT(shared_wavefronts(8, 8), 2, "8 bytes per lane: two");
    CHECK_INT(shared_wavefronts(16, 16), 4, "16 bytes per lane: four");
    CHECK_INT(shared_wavefronts(256, 16), 32,
              "rows of 256 bytes: ldmatrix "
              "conflicts eight times");
    CHECK_INT(shared_wavefronts(272, 16), 4, "rows padded by 16 bytes: none");
    CHECK_INT((long long)counts->sums
                  .l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld,
              0, "no conflicts then");
    sim_counts_reset(counts);
    lanes_at(0, 0);
    sim_count_shared(counts, SIM_COUNT_ATOM, offsets, 0xff, 4);
    CHECK_INT((long long)counts->sums
                  .l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom,
              8, "atomics on one word are serial");
}

static uint64_t load_sectors(uint64_t base, uint64_t stride, uint32_t mask,
                             uint32_t bytes)
{
    uint64_t before = counts->sums.l1tex__t_sectors_pipe_lsu_mem_global_op_ld;
    lanes_at(base, stride);
    sim_count_global(counts, SIM_COUNT_LD, lanes, mask, bytes);
    return counts->sums.l1tex__t_sectors_pipe_lsu_mem_global_op_ld - before;
}

static void global(void)
{
    sim_counts_reset(counts);
    CHECK_INT(load_sectors(4096, 4, UINT32_MAX, 4), 4, "a row of words");
    CHECK_INT(load_sectors(4100, 4, UINT32_MAX, 4), 5, "the same, shifted");
    CHECK_INT(load_sectors(0, 16, UINT32_MAX, 16), 16, "16 bytes per lane");
    CHECK_INT(load_sectors(0, 128, UINT32_MAX, 4), 32, "a column");
    CHECK_INT(load_sectors(0, 0, UINT32_MAX, 4), 1, "one word for all");
    CHECK_INT(load_sectors(0, 4, 0xff, 4), 1, "a quarter of the lanes");
    CHECK_INT(load_sectors(30, 4, 1, 4), 2, "a word across two sectors");
    CHECK_INT(
        (long long)counts->sums.l1tex__t_requests_pipe_lsu_mem_global_op_ld, 7,
        "requests");
    CHECK(counts->sums.l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit >
              0,
          "repeated loads hit L1");
}

static spt_sim_counters replayed(sim_l2 *l2)
{
    spt_sim_counters sums = {0};
    sim_l2_replay(l2, &counts->trace, &sums);
    sim_counts_reset(counts);
    return sums;
}

static void l2(void)
{
    sim_l2 *cache = sim_l2_new(1 << 20);
    sim_counts_reset(counts);
    for (uint64_t i = 0; i < 1024; i++) {
        lanes_at(i * 128, 4);
        sim_count_global(counts, SIM_COUNT_LD, lanes, UINT32_MAX, 4);
    }
    spt_sim_counters sums = replayed(cache);
    CHECK_INT((long long)sums.dram__bytes_read, 1024 * 128, "cold: all read");
    for (uint64_t i = 0; i < 1024; i++) {
        lanes_at(i * 128, 4);
        sim_count_global(counts, SIM_COUNT_LD, lanes, UINT32_MAX, 4);
    }
    sums = replayed(cache);
    CHECK_INT((long long)sums.dram__bytes_read, 0, "warm: none");
    CHECK_INT((long long)sums.lts__t_sectors_lookup_hit, 4096, "all hits");
    for (uint64_t i = 0; i < 65536; i++) {
        lanes_at((1 << 20) + i * 128, 4);
        sim_count_global(counts, SIM_COUNT_ST, lanes, UINT32_MAX, 4);
    }
    sums = replayed(cache);
    CHECK_INT((long long)sums.dram__bytes_read, 0, "stores read nothing");
    CHECK(sums.dram__bytes_write > 6 << 20 && sums.dram__bytes_write < 8 << 20,
          "what does not fit is written back");
    sim_l2_free(cache);
}

/* Two CTAs whose order matters for L2, ended in both orders. */
static spt_sim_counters two_ctas(bool reversed)
{
    sim_l2 *cache = sim_l2_new(128 * 16);
    sim_launch_counts *launch = sim_launch_counts_new(cache, 2);
    spt_sim_counters sums = {0};
    sim_counts *pair[2] = {spt_calloc(1, sizeof(sim_counts)),
                           spt_calloc(1, sizeof(sim_counts))};
    for (uint64_t i = 0; i < 40; i++) {
        lanes_at(i * 128, 4);
        sim_count_global(pair[0], SIM_COUNT_LD, lanes, UINT32_MAX, 4);
        if (i < 20)
            sim_count_global(pair[1], SIM_COUNT_LD, lanes, UINT32_MAX, 4);
    }
    sim_counts_end(launch, reversed, pair[reversed]);
    sim_counts_end(launch, !reversed, pair[!reversed]);
    sim_launch_counts_finish(launch, &sums);
    sim_launch_counts_free(launch);
    sim_counts_free(pair[0]);
    sim_counts_free(pair[1]);
    sim_l2_free(cache);
    return sums;
}

static void order(void)
{
    spt_sim_counters one = two_ctas(false), two = two_ctas(true);
    CHECK(!memcmp(&one, &two, sizeof(one)),
          "counters do not hang on which CTA ends first");
}

static void occupancy(void)
{
    spt_board board = test_board();
    CHECK_INT(spt_occupancy(&board, 128, 32, 0), 16, "warps decide");
    CHECK_INT(spt_occupancy(&board, 32, 16, 0), 32, "CTAs decide");
    CHECK_INT(spt_occupancy(&board, 128, 255, 0), 2, "registers decide");
    CHECK_INT(spt_occupancy(&board, 128, 168, 0), 3, "168 registers");
    CHECK_INT(spt_occupancy(&board, 1024, 65, 0), 0,
              "65 registers for 1,024 threads: none");
    CHECK_INT(spt_occupancy(&board, 128, 32, 100 << 10), 2, "shared decides");
    CHECK_INT(spt_occupancy(&board, 128, 32, 232448), 1, "all of shared");
    CHECK_INT(spt_occupancy(&board, 128, 32, 232449), 0, "more than that");
    CHECK_INT(spt_occupancy(&board, 1025, 32, 0), 0, "too many threads");
}

static void time_of(void)
{
    spt_board board = test_board();
    sim_geometry geometry = {
        .ctas = 132, .threads = 128, .registers = 64, .graph = true};
    spt_sim_counters c = {0};
    double idle = sim_time_us(&c, &board, &geometry);
    CHECK(idle > 0 && idle < 5, "an empty launch has its fixed cost");
    c.dram__bytes_read = 3015000000; /* 3,350 GB/s, 90 % of it reachable */
    CHECK_NEAR(sim_time_us(&c, &board, &geometry) - idle, 1000, 1,
               "3 GB from DRAM take a millisecond");
    geometry.graph = false;
    c = (spt_sim_counters){0};
    CHECK(sim_time_us(&c, &board, &geometry) >= board.launch_eager_us,
          "an eager launch costs the host's time");
    geometry.graph = true;
    c.ptx_inst = 132ull * 4 * 1700 * 100;
    CHECK_NEAR(sim_time_us(&c, &board, &geometry) - idle, 100, 1,
               "four instructions per cycle and SM");
    geometry.ctas = 1;
    CHECK_NEAR(sim_time_us(&c, &board, &geometry) - idle, 13200, 20,
               "one CTA uses one SM");
}

int main(void)
{
    counts = spt_calloc(1, sizeof(*counts));
    shared();
    global();
    l2();
    order();
    occupancy();
    time_of();
    sim_counts_free(counts);
    return check_done();
}
