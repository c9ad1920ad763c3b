/*
 * Real models against transformers in fp32 on the dequantised weights
 * (tests/fixtures/hidden_states.py): the residual stream after every layer,
 * and the best token at every position. Hidden states are compared by sums
 * with random signs; the first token, whose activations dwarf all others, is
 * left out of them and its norm compared instead. A part of the texts; with
 * TEST_LONG=1 all of them.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "files.h"
#include "json.h"
#include "session_int.h"

enum { PART = 64, SKETCHES = 32, RECORD = 2 + SKETCHES, MAX_LAYERS = 64 };

static spt_error err;

typedef struct real_model {
    const char *name, *file;
    const char *fixture; /* .json and .bin of it */
    int texts, tokens; /* of the short form */
    bool optional; /* fetched by `make models` */
} real_model;

static const real_model models[] = {
    {"SmolLM2-135M", "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf",
     "tests/fixtures/smollm2_hidden", 1, 128, false},
    {"gemma-3-270m", "deps/models/gemma-3-270m-q4_k_m.gguf",
     "tests/fixtures/gemma3_hidden", 1, 100, true},
};

/* One layer of one text: squares of Frobenius norms. */
typedef struct layer_sum {
    double difference, all; /* but for the first token */
    double first, first_expected;
} layer_sum;

typedef struct comparison {
    spt_engine *e;
    const float *records; /* (layer, part, RECORD) of the text */
    int parts; /* of the fixture's text */
    float *tapped, *logits;
    layer_sum layers[MAX_LAYERS];
    int tokens, best, clear, clear_best; /* clear: leads by more than 0.25 */
    double worst; /* relative error of a layer */
} comparison;

static uint64_t splitmix64(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void add_signed(double *sums, float number, uint64_t signs)
{
    for (int j = 0; j < SKETCHES; j++)
        sums[j] += signs >> j & 1 ? (double)number : -(double)number;
}

static void add_part(layer_sum *sum, const float *rows, int width, int first,
                     int count, const float *record)
{
    double sums[SKETCHES] = {0};
    int skip = first == 0;
    for (int i = 0; i < skip * width; i++)
        sum->first += (double)rows[i] * (double)rows[i];
    for (int i = skip * width; i < count * width; i++)
        add_signed(sums, rows[i],
                   splitmix64((uint64_t)first * (uint64_t)width + (uint64_t)i));
    for (int j = 0; j < SKETCHES; j++) {
        double d = sums[j] - (double)record[2 + j];
        sum->difference += d * d / SKETCHES;
    }
    sum->all += (double)record[0] - (double)record[1];
    sum->first_expected += (double)record[1];
}

static void add_best(comparison *c, const cJSON *text, int first, int count)
{
    int vocab = spt_model_config_of(c->e->model)->vocab;
    const cJSON *best = cJSON_GetObjectItem(text, "best");
    const cJSON *lead = cJSON_GetObjectItem(text, "lead");
    for (int i = 0; i < count; i++) {
        spt_logprob_row row;
        spt_logprob_row_of(c->logits + (size_t)i * (size_t)vocab, vocab, -1, 1,
                           &row);
        bool same =
            row.best[0].token == cJSON_GetArrayItem(best, first + i)->valueint;
        bool clear = cJSON_GetArrayItem(lead, first + i)->valuedouble > 0.25;
        c->tokens++;
        c->best += same;
        c->clear += clear;
        c->clear_best += clear && same;
    }
}

/* Feeds the text by parts. */
static bool feed(comparison *c, const cJSON *text, const int32_t *ids,
                 int count)
{
    const spt_model_config *config = spt_model_config_of(c->e->model);
    spt_sequence s;
    spt_page_copy copy;
    bool good = true;
    spt_sequence_open(&s, c->e->pool);
    spt_sequence_append(&s, ids, count, &err);
    spt_forward_tap(c->e->forward, c->tapped);
    for (int first = 0; first < count && good; first += PART) {
        int n = count - first < PART ? count - first : PART;
        const spt_forward_item item = {
            .sequence = &s, .tokens = ids + first, .count = n, .logits = n};
        good =
            spt_sequence_reserve(&s, n, &copy, &err) == SPT_OK &&
            spt_forward_run(c->e->forward, &item, 1, c->logits, &err) == SPT_OK;
        spt_sequence_keep(&s, n);
        for (int l = 0; l < config->layers && good; l++)
            add_part(&c->layers[l],
                     c->tapped + (size_t)l * (size_t)(n * config->hidden),
                     config->hidden, first, n,
                     c->records + (l * c->parts + first / PART) * RECORD);
        if (good)
            add_best(c, text, first, n);
    }
    spt_forward_tap(c->e->forward, NULL);
    spt_sequence_close(&s);
    return good;
}

static void check_text(comparison *c, const cJSON *text, int limit)
{
    const cJSON *tokens = cJSON_GetObjectItem(text, "tokens");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(text, "text"));
    int count = cJSON_GetArraySize(tokens);
    int layers = spt_model_config_of(c->e->model)->layers;
    int32_t ids[512];
    double worst = 0, first = 0;
    c->parts = (count + PART - 1) / PART;
    count = count < limit ? count : limit;
    for (int i = 0; i < count; i++)
        ids[i] = cJSON_GetArrayItem(tokens, i)->valueint;
    memset(c->layers, 0, sizeof c->layers);
    if (!CHECK(feed(c, text, ids, count), "%s: %s", name, err.text))
        return;
    for (int l = 0; l < layers; l++) {
        const layer_sum *s = &c->layers[l];
        worst = fmax(worst, sqrt(s->difference / s->all));
        first = fmax(first, fabs(sqrt(s->first / s->first_expected) - 1));
    }
    CHECK(worst <= 1.5e-2, "%s, %d tokens: hidden states of %d layers (%.1e)",
          name, count, layers, worst);
    CHECK(first <= 1.5e-2, "and of the first token their size (%.1e)", first);
}

static void check_texts(comparison *c, const real_model *m, const cJSON *root,
                        const spt_buf *records)
{
    const spt_model_config *config = spt_model_config_of(c->e->model);
    bool whole = getenv("TEST_LONG") != NULL;
    const cJSON *text;
    int i = 0;
    c->records = (const float *)records->data;
    c->tapped =
        calloc((size_t)(config->layers * PART * config->hidden), sizeof(float));
    c->logits = calloc((size_t)PART * (size_t)config->vocab, sizeof(float));
    cJSON_ArrayForEach(text, cJSON_GetObjectItem(root, "rows"))
    {
        if (i++ < m->texts || whole)
            check_text(c, text, whole ? 512 : m->tokens);
        c->records += config->layers * c->parts * RECORD;
    }
    CHECK(c->best >= 0.98 * c->tokens, "%s: the best token in %d of %d",
          m->name, c->best, c->tokens);
    CHECK(c->clear && c->clear_best == c->clear,
          "and in %d of %d where it leads by 0.25", c->clear_best, c->clear);
    free(c->tapped);
    free(c->logits);
}

static void test_model(const real_model *m)
{
    comparison c = {0};
    char json[256], bin[256];
    cJSON *root = NULL;
    spt_buf records = {0};
    const spt_engine_options options = {.model = m->file,
                                        .device = SPT_DEVICE_SIM,
                                        .context = 512,
                                        .sessions = 2,
                                        .draft_length = 31,
                                        .draft = {.method = SPT_DRAFT_NGRAM}};
    snprintf(json, sizeof json, "%s.json", m->fixture);
    snprintf(bin, sizeof bin, "%s.bin", m->fixture);
    if (CHECK_OK(spt_json_read(json, 1 << 20, &root, &err), &err, json) &&
        CHECK_OK(spt_file_read(bin, 1 << 20, &records, &err), &err, bin) &&
        CHECK_OK(spt_engine_open(&options, &c.e, &err), &err, m->name) &&
        spt_machine_enter(&c.e->machine, &err) == SPT_OK) {
        check_texts(&c, m, root, &records);
        spt_machine_leave(&c.e->machine);
    }
    spt_engine_close(c.e);
    spt_buf_free(&records);
    cJSON_Delete(root);
}

int main(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (models[i].optional && access(models[i].file, R_OK) != 0)
            printf("# no %s: make models fetches it\n", models[i].file);
        else
            test_model(&models[i]);
    }
    return check_done();
}
