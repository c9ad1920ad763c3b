/*
 * The public attention kernel on buffers of the test's own: what it computes,
 * and that a sequence's rows do not depend on its neighbours.
 */
#include <math.h>
#include <stdlib.h>

#include "boards.h"
#include "check.h"
#include "half.h"
#include "session_int.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 64, KV = 40, BATCH = 2, TOKENS = 3 };

static spt_error err;
static spt_machine machine;

static CUdeviceptr to_device(const void *data, size_t bytes)
{
    CUdeviceptr at = 0;
    machine.driver.cuMemAlloc(&at, bytes);
    if (data)
        machine.driver.cuMemcpyHtoD(at, data, bytes);
    return at;
}

/* Smooth numbers that differ everywhere. */
static uint16_t *numbers(size_t count, double phase)
{
    uint16_t *x = calloc(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = spt_half_from_float(SPT_BF16,
                                   (float)sin(phase + 0.7 * (double)(i % 977)));
    return x;
}

static double value(const uint16_t *x, size_t i)
{
    return (double)spt_half_to_float(SPT_BF16, x[i]);
}

/* One number of the result, computed plainly. */
static double expected(const uint16_t *q, const uint16_t *k, const uint16_t *v,
                       int sequence, int token, int head, int dim)
{
    double sum = 0, out = 0;
    int kv_head = head / (HEADS / KV_HEADS);
    int visible = KV - TOKENS + token + 1;
    for (int j = 0; j < visible; j++) {
        double score = 0;
        size_t row =
            ((size_t)(sequence * KV + j) * KV_HEADS + (size_t)kv_head) * DIM;
        for (int i = 0; i < DIM; i++)
            score +=
                value(q, (size_t)((sequence * TOKENS + token) * HEADS + head) *
                                 DIM +
                             (size_t)i) *
                value(k, row + (size_t)i);
        double weight = exp(score / 8);
        sum += weight;
        out += weight * value(v, row + (size_t)dim);
    }
    return out / sum;
}

typedef struct buffers {
    uint16_t *q, *k, *v;
    spt_attention_call call;
} buffers;

static buffers make(const spt_attention *a)
{
    const int32_t q_start[] = {0, TOKENS, 2 * TOKENS}, kv_len[] = {KV, KV};
    const int64_t kv_start[] = {0, KV};
    size_t kv = (size_t)BATCH * KV * KV_HEADS * DIM;
    size_t rows = (size_t)BATCH * TOKENS * HEADS;
    buffers b = {numbers(rows * DIM, 1), numbers(kv, 2), numbers(kv, 3), {0}};
    b.call = (spt_attention_call){
        .q = to_device(b.q, rows * DIM * 2),
        .k = to_device(b.k, kv * 2),
        .v = to_device(b.v, kv * 2),
        .out = to_device(NULL, rows * DIM * 2),
        .lse = to_device(NULL, rows * 4),
        .q_start = to_device(q_start, sizeof q_start),
        .kv_len = to_device(kv_len, sizeof kv_len),
        .kv_start = to_device(kv_start, sizeof kv_start),
        .workspace = to_device(NULL, spt_attention_workspace(a)),
        .q_token_stride = HEADS * DIM,
        .kv_token_stride = KV_HEADS * DIM,
        .kv_head_stride = DIM,
        .batch = BATCH,
        .max_tokens = TOKENS,
        .max_kv = KV};
    return b;
}

static void check_numbers(const buffers *b, const uint16_t *out)
{
    double worst = 0;
    for (int s = 0; s < BATCH; s++)
        for (int t = 0; t < TOKENS; t++)
            for (int h = 0; h < HEADS; h++)
                for (int d = 0; d < DIM; d += 9) {
                    size_t at = (size_t)((s * TOKENS + t) * HEADS + h) * DIM +
                                (size_t)d;
                    double is = value(out, at);
                    worst =
                        fmax(worst,
                             fabs(is - expected(b->q, b->k, b->v, s, t, h, d)));
                }
    CHECK(worst < 0.01, "the numbers are right (%.1e)", worst);
}

static void test_calls(spt_attention *a)
{
    buffers b = make(a);
    size_t bytes = (size_t)BATCH * TOKENS * HEADS * DIM * 2;
    uint16_t *both = calloc(bytes, 1), *alone = calloc(bytes, 1);
    CHECK_OK(spt_attention_launch(a, &b.call, NULL, &err), &err, "a launch");
    machine.driver.cuMemcpyDtoH(both, b.call.out, bytes);
    check_numbers(&b, both);
    b.call.batch = 1;
    CHECK_OK(spt_attention_launch(a, &b.call, NULL, &err), &err, "alone");
    machine.driver.cuMemcpyDtoH(alone, b.call.out, bytes);
    CHECK(memcmp(both, alone, bytes / 2) == 0, "the same bits");
    b.call.batch = BATCH + 1;
    CHECK_INT(spt_attention_launch(a, &b.call, NULL, &err), SPT_E_USAGE,
              "no more sequences than said");
    free(both);
    free(alone);
    free(b.q);
    free(b.k);
    free(b.v);
}

int main(void)
{
    spt_gen *gen = NULL;
    spt_board board;
    spt_attention *a = NULL;
    spt_attention_problem p = {.q_heads = HEADS,
                               .kv_heads = KV_HEADS,
                               .head_dim = DIM,
                               .max_batch = BATCH,
                               .max_tokens = TOKENS,
                               .max_kv = KV};
    if (spt_gen_open(NULL, &gen, &err) != SPT_OK ||
        spt_gen_board(gen, "h100_sxm", &board, &err) != SPT_OK ||
        spt_machine_open(&board, SPT_DEVICE_SIM, true, &machine, &err) !=
            SPT_OK)
        return 1;
    if (CHECK_OK(spt_attention_open_on(&machine.driver, &p, &a, &err), &err,
                 "a kernel for the problem")) {
        CHECK_HAS(spt_attention_key(a), "attention", "with its key");
        test_calls(a);
    }
    spt_attention_close(a);
    p.kv_heads = 3;
    CHECK_INT(spt_attention_open_on(&machine.driver, &p, &a, &err), SPT_E_USAGE,
              "heads that do not divide");
    spt_machine_close(&machine);
    spt_gen_close(gen);
    return check_done();
}
