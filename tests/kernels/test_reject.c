/*
 * Drafts that are judged on the device: the kernel gives the host's token, to
 * the bit, whatever the distributions and the options are; and what it gives
 * is distributed as the target, by chi-square, for drafts of any kind. 1.2
 * million draws with TEST_LONG; in short many draws are the host's to show
 * (test_accept_rules.c), whose tokens these are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "reject_pairs.h"
#include "sim_kernels.h"

enum { VOCAB = 3001, ROWS = 60, SMALL = REJECT_TOKENS, LAUNCH = 500 };

static spt_error err;
static spt_machine machine;
static const spt_function *kernel;
static uint64_t state = 1;

static uint64_t next(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return state >> 33;
}

/* Rows of logits on the device, drawn from as the options say. */
static bool run(CUdeviceptr logits, int vocab, int64_t stride,
                const spt_sample_row *rows, int n, int32_t *tokens)
{
    const spt_driver *d = &machine.driver;
    CUdeviceptr memory[2];
    d->cuMemAlloc(&memory[0], (size_t)n * sizeof *rows);
    d->cuMemAlloc(&memory[1], (size_t)n * sizeof *tokens);
    d->cuMemcpyHtoD(memory[0], rows, (size_t)n * sizeof *rows);
    const spt_sample_args args = {.logits = logits,
                                  .rows = memory[0],
                                  .token = memory[1],
                                  .logits_stride = stride,
                                  .vocabulary = vocab};
    bool good =
        spt_sample_launch(d, kernel, &args, n, NULL, &err) == SPT_OK &&
        d->cuMemcpyDtoH(tokens, memory[1], (size_t)n * sizeof *tokens) == 0;
    d->cuMemFree(memory[0]);
    d->cuMemFree(memory[1]);
    return good;
}

static CUdeviceptr upload(const float *logits, size_t count)
{
    CUdeviceptr at = 0;
    machine.driver.cuMemAlloc(&at, count * sizeof *logits);
    machine.driver.cuMemcpyHtoD(at, logits, count * sizeof *logits);
    return at;
}

static float target[ROWS][VOCAB], drafter[ROWS][VOCAB];
static spt_sampling options[ROWS];

static float noise(double scale)
{
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += (double)next() * 0x1p-31;
    return (float)((sum - 3) * scale);
}

/* The same, near, other, and disjoint distributions; ties and NaN. */
static void make_row(int row)
{
    static const double temperatures[] = {0.8, 1, 2.5, 0.05, 40};
    static const double top_ps[] = {0, 0.9, 0.5, 0.999};
    static const double min_ps[] = {0, 0, 0.05, 1};
    static const int top_ks[] = {0, 1, 40, VOCAB, 1000};
    for (int i = 0; i < VOCAB; i++) {
        float x = noise(row % 3 ? 4 : 0.5);
        float y = row % 5 == 0 ? x : x + noise(row % 5 == 1 ? 0.2 : 5);
        if (row % 7 == 1) {
            x = floorf(x);
            y = floorf(y);
        }
        if (row % 7 == 2 && next() % 3 == 0)
            x = NAN;
        if (row % 7 == 3)
            *(i % 2 ? &x : &y) = -INFINITY;
        target[row][i] = x;
        drafter[row][i] = y;
    }
    options[row] = (spt_sampling){.temperature = temperatures[next() % 5],
                                  .top_p = top_ps[next() % 4],
                                  .min_p = min_ps[next() % 4],
                                  .top_k = top_ks[next() % 5],
                                  .seed = next() << 32 | next()};
}

static int position_of(int row)
{
    return row * 4099;
}

static size_t candidates_of(spt_sampler *s, const float *logits,
                            spt_candidate *c)
{
    const spt_candidate *found = NULL;
    size_t n = 0;
    if (spt_sampler_candidates(s, logits, NULL, 0, &found, &n, &err) == SPT_OK)
        memcpy(c, found, n * sizeof *c);
    return n;
}

/* The host's draft of a row, then its token; every third draft is certain. */
static void host_row(int row, int32_t *draft, int32_t *token)
{
    static spt_candidate p[VOCAB], q[VOCAB];
    spt_sampler *s = NULL;
    uint64_t seed = options[row].seed;
    int position = position_of(row);
    spt_sampler_open(&options[row], VOCAB, &s, &err);
    spt_sampler_draw(s, drafter[row], NULL, position, SPT_RANDOM_DRAFT, draft,
                     &err);
    size_t n_p = candidates_of(s, target[row], p);
    size_t n_q = candidates_of(s, drafter[row], q);
    *token = spt_reject(p, n_p, *draft, row % 3 ? q : NULL, n_q,
                        spt_random(seed, position, SPT_RANDOM_ACCEPT),
                        spt_random(seed, position, SPT_RANDOM_RESIDUAL));
    spt_sampler_close(s);
}

static void test_same_tokens(void)
{
    static spt_sample_row rows[ROWS];
    int32_t drafts[ROWS], tokens[ROWS];
    int same = 0, kept = 0;
    for (int row = 0; row < ROWS; row++) {
        make_row(row);
        spt_sampler *s = NULL;
        spt_sampler_open(&options[row], VOCAB, &s, &err);
        rows[row] = spt_sampler_row(s, position_of(row));
        rows[row].use = SPT_RANDOM_DRAFT;
        spt_sampler_close(s);
    }
    CUdeviceptr p = upload(target[0], ROWS * VOCAB);
    CUdeviceptr q = upload(drafter[0], ROWS * VOCAB);
    CHECK(run(q, VOCAB, VOCAB, rows, ROWS, drafts), "the device drafts");
    for (int row = 0; row < ROWS; row++) {
        rows[row].use = SPT_RANDOM_ACCEPT;
        rows[row].draft = drafts[row];
        rows[row].from = row % 3 ? q + (size_t)row * sizeof target[0] : 0;
    }
    CHECK(run(p, VOCAB, VOCAB, rows, ROWS, tokens), "and judges");
    for (int row = 0; row < ROWS; row++) {
        int32_t draft, token;
        host_row(row, &draft, &token);
        same += draft == drafts[row] && token == tokens[row];
        kept += token == draft;
        if (draft != drafts[row] || token != tokens[row])
            printf("# row %d: %d then %d, on the host %d then %d\n", row,
                   (int)drafts[row], (int)tokens[row], (int)draft, (int)token);
    }
    CHECK_INT(same, ROWS, "host and device draft and judge alike");
    CHECK(kept > ROWS / 8 && kept < ROWS * 7 / 8,
          "some drafts are kept: %d of %d", kept, ROWS);
    machine.driver.cuMemFree(p);
    machine.driver.cuMemFree(q);
}

static CUdeviceptr upload_logs(const double *p)
{
    float logits[SMALL];
    for (int i = 0; i < SMALL; i++)
        logits[i] = (float)log(p[i]); /* -infinity at 0 */
    return upload(logits, SMALL);
}

/* Draws `positions` on, counted by token. */
static bool count(CUdeviceptr p, CUdeviceptr q, bool certain, int first,
                  double *counts)
{
    static spt_sample_row rows[LAUNCH];
    static int32_t tokens[LAUNCH];
    for (int i = 0; i < LAUNCH; i++) {
        rows[i] = spt_sample_row_of(1, 0, 0, 0);
        rows[i].seed = 5;
        rows[i].position = first + i;
        rows[i].use = SPT_RANDOM_DRAFT;
    }
    bool good = run(q, SMALL, 0, rows, LAUNCH, tokens);
    for (int i = 0; i < LAUNCH; i++) {
        rows[i].use = SPT_RANDOM_ACCEPT;
        rows[i].draft = tokens[i];
        rows[i].from = certain ? 0 : q;
    }
    good = good && run(p, SMALL, 0, rows, LAUNCH, tokens);
    for (int i = 0; i < LAUNCH && good; i++)
        counts[tokens[i]]++;
    return good;
}

static double chi_square(const reject_pair *t, bool certain, int n)
{
    double counts[SMALL] = {0};
    CUdeviceptr p = upload_logs(t->p), q = upload_logs(t->q);
    bool good = true;
    for (int first = 0; first < n && good; first += LAUNCH)
        good = count(p, q, certain, first, counts);
    machine.driver.cuMemFree(p);
    machine.driver.cuMemFree(q);
    return good ? reject_chi_square(t->p, counts, n) : INFINITY;
}

static void test_distribution(void)
{
    int n = getenv("TEST_LONG") ? 100000 : 500;
    for (size_t i = 0; i < REJECT_PAIRS; i++)
        for (int certain = 0; certain < 2; certain++) {
            double chi = chi_square(&reject_pairs[i], certain != 0, n);
            CHECK(chi < reject_bound, "%s, %s draft, %d draws: chi-square %.2f",
                  reject_pairs[i].name, certain ? "certain" : "drawn", n, chi);
        }
}

/* With the kernel, on a machine with sim's checks or a fast one. */
static void on_machine(const sim_kernels *sim, void (*test)(void))
{
    spt_kernel_set *set = NULL;
    spt_kernel_request request = {.template_name = "sample"};
    spt_config_set_int(&request.config, "threads", 256);
    const spt_kernel_source source = sim_kernels_source(sim, &machine);
    if (CHECK_OK(spt_kernel_set_open(&source, &request, 1, &set, &err), &err,
                 "the kernel")) {
        kernel = spt_kernel_set_at(set, 0);
        test();
    }
    spt_kernel_set_close(set);
    spt_machine_close(&machine);
}

int main(void)
{
    sim_kernels sim = {0};
    if (sim_kernels_open(&sim, &machine)) {
        on_machine(&sim, test_same_tokens);
        if (CHECK_OK(spt_machine_open(&sim.board, SPT_DEVICE_SIM, false,
                                      &machine, &err),
                     &err, "sim without checks"))
            on_machine(&sim, test_distribution);
    }
    sim_kernels_close(&sim);
    return check_done();
}
