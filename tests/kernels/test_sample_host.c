/*
 * The kernel and the host draw the same token from the same logits, to the
 * bit, under any options that the kernel has.
 */
#include <math.h>

#include "sampler.h"
#include "sim_kernels.h"

enum { VOCAB = 3001, ROWS = 480 };

static spt_error err;
static spt_machine machine;
static float logits[ROWS][VOCAB];
static spt_sampling options[ROWS];
static uint64_t state = 1;

static uint64_t next(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return state >> 33;
}

/* About normal, of that deviation. */
static double normal(double deviation)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)next() * 0x1p-31;
    return (sum - 6) * deviation;
}

static void make_row(int row)
{
    static const double deviations[] = {0.5, 3, 12};
    for (int i = 0; i < VOCAB; i++) {
        double x = normal(deviations[row % 3]);
        if (row % 7 == 1) /* many ties */
            x = floor(x);
        if (row % 7 == 2 && next() % 3 == 0)
            x = NAN;
        if (row % 7 == 3 && next() % 4)
            x = -INFINITY;
        if (row % 7 == 4 && next() % 900 == 0)
            x = INFINITY;
        if (row % 97 == 5)
            x = NAN;
        logits[row][i] = (float)x;
    }
}

static void make_options(int row)
{
    static const double temperatures[] = {0.8, 1, 0, 2.5, 0.05, 40, 1e6};
    static const double top_ps[] = {0, 0.9, 0.5, 1, 1e-9, 0.999};
    static const double min_ps[] = {0, 0, 0.05, 0.4, 1};
    static const int top_ks[] = {0, 1, 40, 0, VOCAB, 7, 1000};
    options[row] = (spt_sampling){.temperature = temperatures[next() % 7],
                                  .top_p = top_ps[next() % 6],
                                  .min_p = min_ps[next() % 5],
                                  .top_k = top_ks[next() % 7],
                                  .seed = next() << 32 | next()};
}

/* Of the token that the row gives. */
static int position_of(int row)
{
    return row * 4099;
}

static int32_t host_token(int row)
{
    spt_sampler *sampler = NULL;
    int32_t token = -1;
    if (spt_sampler_open(&options[row], VOCAB, &sampler, &err) != SPT_OK)
        return -2;
    if (spt_sampler_token(sampler, logits[row], NULL, position_of(row), &token,
                          &err) != SPT_OK)
        token = -1;
    spt_sampler_close(sampler);
    return token;
}

static void device_tokens(const spt_function *kernel, int32_t *tokens)
{
    static spt_sample_row rows[ROWS];
    CUdeviceptr memory[3];
    const spt_driver *d = &machine.driver;
    for (int i = 0; i < ROWS; i++) {
        spt_sampler *sampler = NULL;
        if (spt_sampler_open(&options[i], VOCAB, &sampler, &err) == SPT_OK)
            rows[i] = spt_sampler_row(sampler, position_of(i));
        spt_sampler_close(sampler);
    }
    d->cuMemAlloc(&memory[0], sizeof logits);
    d->cuMemAlloc(&memory[1], sizeof rows);
    d->cuMemAlloc(&memory[2], ROWS * sizeof *tokens);
    d->cuMemcpyHtoD(memory[0], logits, sizeof logits);
    d->cuMemcpyHtoD(memory[1], rows, sizeof rows);
    const spt_sample_args args = {.logits = memory[0],
                                  .rows = memory[1],
                                  .token = memory[2],
                                  .logits_stride = VOCAB,
                                  .vocabulary = VOCAB};
    CHECK_OK(spt_sample_launch(d, kernel, &args, ROWS, NULL, &err), &err,
             "the kernel is launched");
    CHECK_INT(d->cuMemcpyDtoH(tokens, memory[2], ROWS * sizeof *tokens), 0,
              "and gives tokens");
    for (int i = 0; i < 3; i++)
        d->cuMemFree(memory[i]);
}

static void compare(const spt_function *kernel)
{
    static int32_t tokens[ROWS];
    int same = 0, none = 0;
    for (int row = 0; row < ROWS; row++) {
        make_row(row);
        make_options(row);
    }
    device_tokens(kernel, tokens);
    for (int row = 0; row < ROWS; row++) {
        int32_t token = host_token(row);
        same += token == tokens[row];
        none += token == -1;
        if (token != tokens[row])
            printf("# row %d: host %d, device %d\n", row, (int)token,
                   (int)tokens[row]);
    }
    CHECK_INT(same, ROWS, "host and kernel draw the same tokens");
    CHECK(none > 0 && none < ROWS / 20, "rows without a logit are refused");
}

int main(void)
{
    sim_kernels sim = {0};
    spt_kernel_set *set = NULL;
    const spt_kernel_request request = {.template_name = "sample"};
    bool good = sim_kernels_open(&sim, &machine);
    const spt_kernel_source source = sim_kernels_source(&sim, &machine);
    if (good && CHECK_OK(spt_kernel_set_open(&source, &request, 1, &set, &err),
                         &err, "the kernel"))
        compare(spt_kernel_set_at(set, 0));
    spt_kernel_set_close(set);
    if (good)
        spt_machine_close(&machine);
    sim_kernels_close(&sim);
    return check_done();
}
