/*
 * SmolLM2-135M against llama.cpp (tests/fixtures/smollm2_greedy.py): along the
 * texts that it wrote, nearly always the same token is the best one, and
 * log-probabilities are near. Not nearer, for llama.cpp rounds activations to 8
 * bits: in double precision (test_forward_reference.c) our 200 best tokens of
 * these texts are the right ones, and 192 of its own.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "json.h"
#include "session_int.h"

static const char MODEL[] = "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
static const char TEXTS[] = "tests/fixtures/smollm2_greedy.json";

static spt_error err;

typedef struct agreement {
    int tokens, best; /* of those, ours is the best too */
    int clear, clear_best; /* lead of more than 1 */
    double difference; /* of the log-probability, summed up */
} agreement;

static double number_at(const cJSON *array, int i)
{
    return cJSON_GetArrayItem(array, i)->valuedouble;
}

static void compare(const cJSON *row, const float *logits, int vocab,
                    agreement *a)
{
    const cJSON *tokens = cJSON_GetObjectItem(row, "tokens");
    const cJSON *logprobs = cJSON_GetObjectItem(row, "logprobs");
    for (int i = 0; i < cJSON_GetArraySize(tokens); i++) {
        int32_t token = (int32_t)number_at(tokens, i);
        const cJSON *both = cJSON_GetArrayItem(logprobs, i);
        const float *ours = logits + (size_t)i * (size_t)vocab;
        spt_logprob_row o;
        spt_logprob_row_of(ours, vocab, token, 1, &o);
        bool clear = number_at(both, 0) - number_at(both, 1) > 1;
        a->tokens++;
        a->best += o.best[0].token == token;
        a->clear += clear;
        a->clear_best += clear && o.best[0].token == token;
        a->difference += fabs(spt_logprob_of(&o, o.logit) - number_at(both, 0));
    }
}

/* Logits along prompt and text in one pass; each row of them is ours. */
static void check_row(spt_engine *e, const cJSON *row, agreement *a)
{
    const char *prompt =
        cJSON_GetStringValue(cJSON_GetObjectItem(row, "prompt"));
    const cJSON *tokens = cJSON_GetObjectItem(row, "tokens");
    int written = cJSON_GetArraySize(tokens), vocab = 0;
    int32_t text[64];
    size_t count = 0;
    spt_sequence s;
    spt_page_copy copy;
    spt_sequence_open(&s, e->pool);
    spt_engine_encode(e, prompt, strlen(prompt), true, true, text, 64, &count,
                      &err);
    for (int i = 0; i + 1 < written && count < 64; i++)
        text[count++] = (int32_t)number_at(tokens, i);
    vocab = spt_model_config_of(e->model)->vocab;
    spt_sequence_append(&s, text, (int)count, &err);
    spt_sequence_reserve(&s, (int)count, &copy, &err);
    const spt_forward_item item = {
        .sequence = &s, .tokens = text, .count = (int)count, .logits = written};
    if (CHECK_OK(spt_forward_run(e->forward, &item, 1, e->logits, &err), &err,
                 "a pass along a text"))
        compare(row, e->logits, vocab, a);
    spt_sequence_close(&s);
}

int main(void)
{
    spt_engine *e = NULL;
    cJSON *root = NULL;
    const cJSON *row;
    agreement a = {0};
    const spt_engine_options options = {.model = MODEL,
                                        .device = SPT_DEVICE_SIM,
                                        .context = 128,
                                        .sessions = 2,
                                        .draft_length = 31,
                                        .draft = {.method = SPT_DRAFT_NGRAM}};
    if (!CHECK_OK(spt_json_read(TEXTS, 1 << 20, &root, &err), &err, "texts") ||
        !CHECK_OK(spt_engine_open(&options, &e, &err), &err, "SmolLM2 opens"))
        return check_done();
    spt_machine_enter(&e->machine, &err);
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "rows"))
        check_row(e, row, &a);
    spt_machine_leave(&e->machine);
    CHECK(a.clear > 100 && a.clear_best >= 0.97 * a.clear,
          "the same best token where its lead is clear (%d of %d)",
          a.clear_best, a.clear);
    CHECK(a.best >= 0.95 * a.tokens, "and in %d of all %d", a.best, a.tokens);
    CHECK(a.difference / a.tokens < 0.1,
          "log-probabilities differ by %.3f on average",
          a.difference / a.tokens);
    spt_engine_close(e);
    cJSON_Delete(root);
    return check_done();
}
