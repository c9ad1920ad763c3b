/*
 * Calibration: its file, what a board without measured times takes, a fit that
 * finds constants again, and how far the shipped constants are from times that
 * their fit has not seen (tests/data/, see README.md there).
 */
#include <math.h>

#include "check.h"
#include "gen.h"
#include "json.h"
#include "mem.h"
#include "model_fit.h"

static spt_error err;

static spt_calibration one_entry(const char *board, int major, int minor)
{
    spt_calibration c = {.source = "test", .count = 1};
    spt_calibration_entry *e = &c.entries[0];
    e->cc_major = major;
    e->cc_minor = minor;
    e->rows[SPT_TIME_GEMM] = 7;
    e->mape[SPT_TIME_GEMM] = 3.25;
    spt_time_constants_start(&e->constants);
    snprintf(e->constants.fitted_on, sizeof e->constants.fitted_on, "%s",
             board);
    return c;
}

static void test_file(void)
{
    spt_calibration c = one_entry("mine", 9, 0), back;
    c.entries[0].constants.linear_dram = 0.7654;
    cJSON *root = spt_calibration_json(&c);
    spt_buf text = {0};
    spt_json_print(root, &text);
    CHECK_OK(spt_calibration_parse(text.data, text.size, "t.json", &back, &err),
             &err, "what was written is read");
    CHECK_NEAR(back.entries[0].constants.linear_dram, 0.7654, 1e-12,
               "with its constants");
    CHECK_NEAR(back.entries[0].mape[SPT_TIME_GEMM], 3.25, 1e-12,
               "and the error of the fit");
    cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "boards"), 0);
    cJSON *constants = cJSON_GetObjectItem(entry, "constants");
    cJSON_SetNumberValue(cJSON_GetObjectItem(constants, "linear_dram"), 1.5);
    text.size = 0;
    spt_json_print(root, &text);
    CHECK(spt_calibration_parse(text.data, text.size, "t.json", &back, &err) ==
              SPT_E_FORMAT,
          "a share beyond its bounds is refused");
    CHECK_HAS(err.text, "linear_dram", "and named");
    cJSON_DeleteItemFromObject(constants, "linear_dram");
    text.size = 0;
    spt_json_print(root, &text);
    CHECK(spt_calibration_parse(text.data, text.size, "t.json", &back, &err) ==
              SPT_E_FORMAT,
          "a missing constant is refused");
    cJSON_Delete(root);
    spt_buf_free(&text);
}

static void test_nearest(void)
{
    spt_calibration c = one_entry("generic", 0, 0);
    c.entries[1] = one_entry("h100_sxm", 9, 0).entries[0];
    c.entries[2] = one_entry("l40s", 8, 9).entries[0];
    c.count = 3;
    spt_board b = {.name = "h200_sxm", .cc_major = 9, .cc_minor = 0};
    CHECK(spt_calibrate(&b, &c), "a board without an entry of its own");
    CHECK_TEXT(b.time.fitted_on, "h100_sxm", "takes one of its architecture");
    b.cc_major = 8;
    b.cc_minor = 6;
    spt_calibrate(&b, &c);
    CHECK_TEXT(b.time.fitted_on, "l40s", "or of a near one");
    b.cc_major = 12;
    b.cc_minor = 1;
    spt_calibrate(&b, &c);
    CHECK_TEXT(b.time.fitted_on, "l40s", "or of one with the same kind of SM");
    b.cc_major = 8;
    b.cc_minor = 0;
    spt_calibrate(&b, &c);
    CHECK_TEXT(b.time.fitted_on, "generic", "or what all boards share");
    c.entries[0] = c.entries[2];
    c.count = 2;
    CHECK(!spt_calibrate(&b, &c), "and without that none");
}

/* Times that the model itself gives for other constants. */
static void test_fit(spt_gen *gen)
{
    enum { ROWS = 120 };
    spt_measured_row rows[ROWS];
    spt_measured_set set = {.count = 1};
    spt_measured *m = &set.list[0];
    spt_calibration *c = spt_calloc(1, sizeof *c);
    *m = (spt_measured){.op = SPT_TIME_GEMM, .rows = rows, .count = ROWS};
    CHECK_OK(spt_gen_board(gen, "h100_sxm", &m->board, &err), &err, "board");
    spt_board truth = m->board;
    truth.time.linear_launch_us = 3.1;
    truth.time.linear_dram = 0.62;
    for (int i = 0; i < ROWS; i++) {
        rows[i] = (spt_measured_row){.m = 1 << i % 8,
                                     .n = 512 * (1 + i % 11),
                                     .k = 1024 * (1 + i % 7),
                                     .bits = 16};
        rows[i].us = spt_measured_model_us(&truth, m->op, &rows[i]);
    }
    rows[17].us *= 30; /* an outlier draws nothing */
    if (CHECK_OK(spt_model_fit(&set, "test", c, &err), &err, "a fit")) {
        const spt_calibration_entry *e = &c->entries[0];
        CHECK_INT(c->count, 1, "of one board has no generic entry");
        CHECK_NEAR(e->constants.linear_dram, 0.62, 0.03, "finds a rate");
        CHECK(e->mape[SPT_TIME_GEMM] < 5, "and the times (%.2f %%)",
              e->mape[SPT_TIME_GEMM]);
        CHECK_NEAR(e->constants.attend_dram, m->board.time.attend_dram, 0,
                   "and leaves the other operator alone");
    }
    spt_free(c);
}

/* Largest mean and median error on rows that the fit has not seen. */
static const struct {
    const char *board;
    spt_time_operator op;
    double mean, median;
} held[] = {
    {"a100_sxm", SPT_TIME_ATTENTION, 12.2, 7.0},
    {"b200_sxm", SPT_TIME_ATTENTION, 4.7, 3.2},
    {"h100_sxm", SPT_TIME_ATTENTION, 5.8, 4.3},
    {"h200_sxm", SPT_TIME_ATTENTION, 5.8, 4.4},
    {"l40s", SPT_TIME_ATTENTION, 6.3, 4.4},
    {"a100_sxm", SPT_TIME_GEMM, 8.7, 6.6},
    {"b200_sxm", SPT_TIME_GEMM, 9.1, 6.9},
    {"h100_sxm", SPT_TIME_GEMM, 6.4, 4.9},
    {"h200_sxm", SPT_TIME_GEMM, 7.0, 5.6},
    {"l40s", SPT_TIME_GEMM, 15.5, 10.9},
};

static void check_held(const spt_measured *m)
{
    spt_model_score s;
    CHECK_OK(spt_measured_score(m, &s, &err), &err, m->board.name);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i].op == m->op && strcmp(held[i].board, m->board.name) == 0)
            CHECK(s.mape <= held[i].mean && s.median <= held[i].median,
                  "%s, %s: mean error %.2f %%, median %.2f %%", m->board.name,
                  spt_time_operator_name(m->op), s.mape, s.median);
}

static void test_held(spt_gen *gen)
{
    static const char *const files[] = {
        [SPT_TIME_ATTENTION] = "tests/data/held_attention.csv",
        [SPT_TIME_GEMM] = "tests/data/held_gemm.csv",
    };
    spt_measured_set set = {0};
    for (int op = 0; op < SPT_TIME_OPERATORS; op++) {
        spt_csv csv = {0};
        CHECK_OK(spt_csv_read(&csv, files[op], &err), &err, files[op]);
        CHECK_OK(spt_measured_add(&set, gen, NULL, &csv, op, &err), &err,
                 files[op]);
        spt_csv_free(&csv);
    }
    CHECK_INT((long long)set.count, sizeof held / sizeof *held,
              "every board is there");
    for (size_t i = 0; i < set.count; i++)
        check_held(&set.list[i]);
    spt_measured_free(&set);
}

int main(void)
{
    spt_gen *gen = NULL;
    if (!CHECK_OK(spt_gen_open(".", &gen, &err), &err, "archs/ opens"))
        return check_done();
    test_file();
    test_nearest();
    test_fit(gen);
    test_held(gen);
    spt_gen_close(gen);
    return check_done();
}
