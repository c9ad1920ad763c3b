/* Times of offered kernels, taken on sim: the path that a GPU goes. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "mem.h"
#include "tune_measure.h"

static spt_error err;
static const spt_cell cells[] = {{1, 70}, {2, 300}, {4096, 1 << 24}};
static char notes[512];

static void note(void *user, const char *text)
{
    (void)user;
    snprintf(notes, sizeof notes, "%s", text);
}

static spt_status take(const spt_board *board, const spt_time_input *in,
                       spt_times *times)
{
    spt_machine machine;
    SPT_TRY(spt_machine_open(board, SPT_DEVICE_SIM, true, &machine, &err));
    spt_status status = spt_times_take(&machine, in, times, &err);
    spt_machine_close(&machine);
    return status;
}

static void check_times(const spt_problem *p, spt_times *t)
{
    const char *evidence = "modelled";
    spt_attention_shape shape = {.batch = 2,
                                 .context = 300 + 1 + 1,
                                 .q_heads = p->q_heads,
                                 .kv_heads = p->kv_heads,
                                 .head_dim = p->head_dim,
                                 .element_bytes = 2,
                                 .draft_length = 1};
    double us = spt_times_us(t, 0, &shape, &evidence);
    CHECK(us > 0 && isfinite(us), "a time of a full kernel: %g", us);
    CHECK_TEXT(evidence, "simulated", "labelled as sim's, never measured");
    CHECK(isinf(spt_times_us(t, 1, &shape, &evidence)),
          "a kernel without a time does not compete with it");
    shape.context++;
    CHECK(spt_times_us(t, 0, &shape, &evidence) < 0, "another context");
    shape.context--;
    shape.q_heads *= 2;
    CHECK(spt_times_us(t, 0, &shape, &evidence) < 0, "other heads");
    shape.q_heads = p->q_heads;
    shape.batch = 3;
    CHECK(spt_times_us(t, 0, &shape, &evidence) < 0, "another batch");
    shape.batch = 4096;
    shape.context = (1 << 24) + 2;
    CHECK(spt_times_us(t, 0, &shape, &evidence) < 0, "a cell that did not fit");
}

static void test_page_size(const spt_builder *builder, int page_size)
{
    char path[] = "/tmp/spt_times_XXXXXX";
    int fd = mkstemp(path);
    spt_problem p = {.q_heads = 8,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .dtype = SPT_BF16,
                     .page_size = page_size};
    spt_config *configs;
    size_t count;
    spt_offer offer;
    spt_times t, again;
    bool keep[2];
    const spt_log log = {.line = note};
    CHECK_OK(spt_offer_space(builder, &p, 256, false, &configs, &count, &err),
             &err, "configs");
    CHECK_OK(spt_offer_build(builder, &p, 256, configs, 2, &offer, &err), &err,
             "two kernels");
    spt_time_input in = {.problem = &p,
                         .offer = &offer,
                         .cells = cells,
                         .n_cells = 3,
                         .chunk = 256,
                         .full_only = true,
                         .rounds = 1,
                         .samples = path,
                         .log = &log};
    if (CHECK_OK(take(builder->board, &in, &t), &err, "timed on sim")) {
        CHECK_INT((long long)t.timed, 2, "cells whose KV fits");
        CHECK_HAS(notes, "batch 4096", "the other one is named");
        check_times(&p, &t);
        spt_times_fastest(&t, &offer, keep);
        CHECK(keep[0] && keep[1], "one of each number of rows is kept");
        CHECK_OK(take(builder->board, &in, &again), &err, "again");
        double most = 0;
        for (size_t i = 0; i < 6 * 32; i++)
            most = fmax(most, fabs(t.us[i] - again.us[i]));
        CHECK(most <= 1e-4, "from the samples, which have four decimals");
        spt_times_free(&t);
        spt_times_free(&again);
    }
    spt_free(configs);
    spt_offer_free(&offer);
    close(fd);
    unlink(path);
}

int main(void)
{
    spt_builder builder = {0};
    static spt_board board;
    if (CHECK_OK(spt_builder_open(&builder, "sm90", NULL, &board, &err), &err,
                 "builder")) {
        test_page_size(&builder, 16);
        test_page_size(&builder, 0);
    }
    spt_builder_close(&builder);
    return check_done();
}
