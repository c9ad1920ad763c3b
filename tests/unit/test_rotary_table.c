/*
 * Angles of rotary embeddings. The frequencies were computed in Python from
 * the formulas that the models' publishers give for each scaling.
 */
#include "check.h"
#include "rotary.h"

enum { DIM = 128, PAIRS = DIM / 2 };

typedef struct frequency {
    int pair;
    double radians; /* per position */
} frequency;

static const spt_rotary_params llama3 = {.dim = DIM,
                                         .theta = 5e5,
                                         .scaling = SPT_ROTARY_LLAMA3,
                                         .factor = 8,
                                         .original_context = 8192};
static const frequency llama3_frequencies[] = {
    {0, 1},
    {10, 0.1286873734},
    {25, 0.005940730376},
    {28, 0.003211445995},
    {30, 0.001371893568},
    {33, 0.0003126937504},
    {35, 9.556212354e-05},
    {63, 3.068925989e-07},
};

static const spt_rotary_params yarn = {.dim = DIM,
                                       .theta = 1e6,
                                       .scaling = SPT_ROTARY_YARN,
                                       .factor = 4,
                                       .original_context = 32768};
static const frequency yarn_frequencies[] = {
    {0, 1},
    {20, 0.01333521432},
    {25, 0.004131738023},
    {30, 0.001064360981},
    {35, 0.0002462584069},
    {40, 4.445698525e-05},
    {63, 3.102344402e-07},
};

static void check_frequencies(const char *name, const spt_rotary_params *params,
                              const frequency *list, int count, double factor)
{
    const int64_t position = 1000;
    float table[DIM];
    spt_error err;
    CHECK_OK(spt_rotary_table(params, position, 1, table, &err), &err, name);
    for (int i = 0; i < count; i++) {
        double angle = list[i].radians * (double)position;
        const float *pair = table + 2 * list[i].pair;
        bool good = fabs((double)pair[0] - factor * cos(angle)) < 1e-6 &&
                    fabs((double)pair[1] - factor * sin(angle)) < 1e-6;
        CHECK(good, "%s: pair %d", name, list[i].pair);
    }
}

static void check_refused(const char *text, spt_rotary_params params)
{
    float table[DIM];
    spt_error err = {0};
    spt_status status = spt_rotary_table(&params, 0, 1, table, &err);
    CHECK_INT(status, SPT_E_USAGE, text);
    CHECK_HAS(err.text, text, "and said why");
}

static void check_plain(void)
{
    static float table[DIM * 20], part[DIM];
    float divisors[PAIRS];
    spt_rotary_params params = {.dim = DIM, .theta = 1e4};
    spt_error err;
    spt_rotary_table(&params, 0, 20, table, &err);
    CHECK_NEAR((double)table[0], 1, 0, "position 0 is not rotated");
    CHECK_NEAR((double)table[7 * DIM], cos(7.0), 1e-7, "pair 0 turns by 1");
    spt_rotary_table(&params, 19, 1, part, &err);
    CHECK(memcmp(part, table + 19 * DIM, sizeof part) == 0,
          "a part of the table is the table's");
    for (int i = 0; i < PAIRS; i++)
        divisors[i] = 2;
    params.freq_factors = divisors;
    spt_rotary_table(&params, 14, 1, part, &err);
    CHECK_NEAR((double)part[0], cos(7.0), 1e-7, "divisors slow pairs down");
    params.freq_factors = NULL;
    params.scaling = SPT_ROTARY_LINEAR;
    params.factor = 2.5;
    params.attention_factor = 3;
    spt_rotary_table(&params, 10, 1, part, &err);
    CHECK_NEAR((double)part[1], 3 * sin(4.0), 1e-6, "linear scaling");
}

int main(void)
{
    check_plain();
    check_frequencies("llama 3", &llama3, llama3_frequencies,
                      sizeof llama3_frequencies / sizeof *llama3_frequencies,
                      1);
    check_frequencies("yarn", &yarn, yarn_frequencies,
                      sizeof yarn_frequencies / sizeof *yarn_frequencies,
                      1.138629436111989);
    check_refused("dim 3", (spt_rotary_params){.dim = 3, .theta = 1e4});
    check_refused("theta 1", (spt_rotary_params){.dim = 4, .theta = 1});
    check_refused("factor 0",
                  (spt_rotary_params){
                      .dim = 4, .theta = 1e4, .scaling = SPT_ROTARY_LINEAR});
    check_refused(
        "original context 0",
        (spt_rotary_params){
            .dim = 4, .theta = 1e4, .factor = 2, .scaling = SPT_ROTARY_YARN});
    return check_done();
}
