/*
 * The pass through a model against a plain reference in double precision, for
 * each architecture: hidden states after every layer, and logits. What is
 * lost is the rounding of activations to 16 bits, nothing else.
 */
#include <math.h>

#include "tiny_engine.h"

enum { MAX_TOKENS = 40, WINDOW = 16 };

static int n_tokens; /* of the text that is fed */

static spt_error err;

typedef struct reference {
    const spt_model *model;
    const spt_model_config *c;
    double *x; /* (token, hidden): the residual */
    double *q, *k, *v; /* (token, heads, head dim) */
    double *out; /* (token, widest) */
} reference;

static void row_of(const spt_tensor *t, int row, float *out)
{
    spt_weight_row_f32(t->type,
                       (const char *)t->data + (size_t)row * t->row_bytes,
                       (size_t)t->cols, out);
}

/* out (token, rows) = w in (token, cols), plus a bias where there is one. */
static void multiply(const reference *r, spt_role role, spt_role bias,
                     int layer, const double *in, double *out)
{
    const spt_tensor *w = spt_model_tensor(r->model, role, layer);
    const spt_tensor *b = bias < SPT_ROLES && r->c->attn_bias
                              ? spt_model_tensor(r->model, bias, layer)
                              : NULL;
    float *row = calloc((size_t)w->cols, sizeof *row);
    float *biases = calloc((size_t)w->rows, sizeof *biases);
    if (b)
        row_of(b, 0, biases);
    for (int n = 0; n < w->rows; n++) {
        row_of(w, n, row);
        for (int t = 0; t < n_tokens; t++) {
            double sum = (double)biases[n];
            for (int i = 0; i < w->cols; i++)
                sum += (double)row[i] * in[t * w->cols + i];
            out[t * w->rows + n] = sum;
        }
    }
    free(row);
    free(biases);
}

/* Rows of `width` numbers in place or elsewhere. */
static void norm(const reference *r, spt_role role, int layer, const double *in,
                 double *out, int rows)
{
    const spt_tensor *w = spt_model_tensor(r->model, role, layer);
    float *weight = calloc((size_t)w->cols, sizeof *weight);
    row_of(w, 0, weight);
    for (int t = 0; t < rows; t++) {
        double sum = 0;
        const double *x = in + (size_t)t * (size_t)w->cols;
        for (int i = 0; i < w->cols; i++)
            sum += x[i] * x[i];
        double scale = 1 / sqrt(sum / w->cols + r->c->norm_eps);
        for (int i = 0; i < w->cols; i++)
            out[t * w->cols + i] =
                x[i] * scale * ((double)weight[i] + r->c->norm_offset);
    }
    free(weight);
}

static void rotate(const reference *r, double *x, int heads, bool local)
{
    const spt_rope *rope = &r->c->rope;
    float frequency[256], magnitude;
    int half = rope->dim / 2, dim = r->c->head_dim;
    spt_rope_table(rope, local, frequency, &magnitude);
    for (int t = 0; t < n_tokens; t++)
        for (int h = 0; h < heads; h++)
            for (int p = 0; p < half; p++) {
                bool pairs = rope->layout == SPT_ROPE_PAIRS;
                double *head = x + (t * heads + h) * dim;
                double *a = head + (pairs ? 2 * p : p);
                double *b = head + (pairs ? 2 * p + 1 : p + half);
                double angle = t * (double)frequency[p], was = *a;
                double cosine = cos(angle) * (double)magnitude;
                double sine = sin(angle) * (double)magnitude;
                *a = was * cosine - *b * sine;
                *b = was * sine + *b * cosine;
            }
}

static void attend_head(const reference *r, int t, int h, int first)
{
    int dim = r->c->head_dim, kv_heads = r->c->kv_heads;
    int kv = h / (r->c->q_heads / kv_heads);
    double score[MAX_TOKENS], top = -INFINITY, sum = 0;
    double *out = r->out + (t * r->c->q_heads + h) * dim;
    const double *q = r->q + (t * r->c->q_heads + h) * dim;
    for (int j = first; j <= t; j++) {
        score[j] = 0;
        for (int i = 0; i < dim; i++)
            score[j] += q[i] * r->k[(j * kv_heads + kv) * dim + i];
        score[j] *= r->c->attn_scale;
        top = fmax(top, score[j]);
    }
    for (int i = 0; i < dim; i++)
        out[i] = 0;
    for (int j = first; j <= t; j++) {
        double weight = exp(score[j] - top);
        sum += weight;
        for (int i = 0; i < dim; i++)
            out[i] += weight * r->v[(j * kv_heads + kv) * dim + i];
    }
    for (int i = 0; i < dim; i++)
        out[i] /= sum;
}

static void attention(const reference *r, int layer, double *h)
{
    const spt_model_config *c = r->c;
    int window = spt_model_layer_window(c, layer);
    norm(r, SPT_ROLE_ATTN_NORM, layer, r->x, h, n_tokens);
    multiply(r, SPT_ROLE_Q, SPT_ROLE_Q_BIAS, layer, h, r->q);
    multiply(r, SPT_ROLE_K, SPT_ROLE_K_BIAS, layer, h, r->k);
    multiply(r, SPT_ROLE_V, SPT_ROLE_V_BIAS, layer, h, r->v);
    if (c->qk_norm) {
        norm(r, SPT_ROLE_Q_NORM, layer, r->q, r->q, n_tokens * c->q_heads);
        norm(r, SPT_ROLE_K_NORM, layer, r->k, r->k, n_tokens * c->kv_heads);
    }
    rotate(r, r->q, c->q_heads, window > 0);
    rotate(r, r->k, c->kv_heads, window > 0);
    for (int t = 0; t < n_tokens; t++)
        for (int head = 0; head < c->q_heads; head++)
            attend_head(r, t, head, window && t >= window ? t - window + 1 : 0);
    multiply(r, SPT_ROLE_O, SPT_ROLES, layer, r->out, h);
    if (c->post_norms)
        norm(r, SPT_ROLE_POST_ATTN_NORM, layer, h, h, n_tokens);
}

static double activate(const spt_model_config *c, double x)
{
    if (c->activation == SPT_ACTIVATION_SILU)
        return x / (1 + exp(-x));
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static void feed_forward(const reference *r, int layer, double *h)
{
    const spt_model_config *c = r->c;
    double *up = calloc((size_t)(n_tokens * c->ffn), sizeof *up);
    norm(r, SPT_ROLE_FFN_NORM, layer, r->x, h, n_tokens);
    multiply(r, SPT_ROLE_GATE, SPT_ROLES, layer, h, r->out);
    multiply(r, SPT_ROLE_UP, SPT_ROLES, layer, h, up);
    for (int i = 0; i < n_tokens * c->ffn; i++)
        r->out[i] = activate(c, r->out[i]) * up[i];
    multiply(r, SPT_ROLE_DOWN, SPT_ROLES, layer, r->out, h);
    if (c->post_norms)
        norm(r, SPT_ROLE_POST_FFN_NORM, layer, h, h, n_tokens);
    free(up);
}

static void add(const reference *r, const double *h)
{
    for (int i = 0; i < n_tokens * r->c->hidden; i++)
        r->x[i] += h[i];
}

/* Frobenius norm of the difference over that of the expected. */
static double distance(const float *is, const double *expected, size_t count)
{
    double difference = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)is[i] - expected[i];
        difference += d * d;
        all += expected[i] * expected[i];
    }
    return sqrt(difference / all);
}

/* Walks the layers beside the tapped hidden states; the worst distance. */
static double compare_layers(const reference *r, const float *tapped)
{
    size_t count = (size_t)(n_tokens * r->c->hidden);
    double *h = calloc(count, sizeof *h), worst = 0;
    for (int layer = 0; layer < r->c->layers; layer++) {
        attention(r, layer, h);
        add(r, h);
        feed_forward(r, layer, h);
        add(r, h);
        worst =
            fmax(worst, distance(tapped + (size_t)layer * count, r->x, count));
    }
    free(h);
    return worst;
}

static double *numbers(int count)
{
    return calloc((size_t)count, sizeof(double));
}

static void check_pass(const spt_engine *e, const int32_t *tokens,
                       const float *tapped, const float *logits,
                       const char *name)
{
    const spt_model_config *c = spt_model_config_of(e->model);
    int widest = c->ffn > c->vocab ? c->ffn : c->vocab;
    int q_width = c->q_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    reference r = {
        .model = e->model,
        .c = c,
        .x = numbers(n_tokens * c->hidden),
        .q = numbers(n_tokens * q_width),
        .k = numbers(n_tokens * kv),
        .v = numbers(n_tokens * kv),
        .out = numbers(n_tokens * (widest > q_width ? widest : q_width))};
    float *row = calloc((size_t)c->hidden, sizeof *row);
    for (int t = 0; t < n_tokens; t++) {
        row_of(spt_model_tensor(e->model, SPT_ROLE_TOKEN_EMBED, 0), tokens[t],
               row);
        for (int i = 0; i < c->hidden; i++)
            r.x[t * c->hidden + i] = (double)row[i] * c->embed_scale;
    }
    double hidden = compare_layers(&r, tapped);
    CHECK(hidden < 1.5e-2, "%s: hidden states of every layer (%.1e)", name,
          hidden);
    norm(&r, SPT_ROLE_OUTPUT_NORM, 0, r.x, r.x, n_tokens);
    multiply(&r, SPT_ROLE_OUTPUT, SPT_ROLES, 0, r.x, r.out);
    for (int i = 0; c->final_softcap > 0 && i < n_tokens * c->vocab; i++)
        r.out[i] = c->final_softcap * tanh(r.out[i] / c->final_softcap);
    double head = distance(logits, r.out, (size_t)(n_tokens * c->vocab));
    CHECK(head < 1.5e-2, "%s: logits (%.1e)", name, head);
    free(row);
    free(r.x);
    free(r.q);
    free(r.k);
    free(r.v);
    free(r.out);
}

/* Feeds the tokens in two passes, as logits of all do not fit into one. */
static bool run(spt_engine *e, const int32_t *tokens, float *tapped,
                float *logits, const char *name)
{
    int half = n_tokens / 2, vocab = spt_model_config_of(e->model)->vocab;
    spt_sequence s;
    spt_page_copy copy;
    bool good = true;
    spt_sequence_open(&s, e->pool);
    spt_sequence_append(&s, tokens, n_tokens, &err);
    spt_sequence_reserve(&s, n_tokens, &copy, &err);
    spt_forward_tap(e->forward, tapped);
    spt_machine_enter(&e->machine, &err);
    for (int part = 0; part < 2 && good; part++) {
        const spt_forward_item item = {.sequence = &s,
                                       .tokens = tokens,
                                       .count = part ? n_tokens : half,
                                       .logits = half};
        float *to = logits + (size_t)(part * half) * (size_t)vocab;
        good = CHECK_OK(spt_forward_run(e->forward, &item, 1, to, &err), &err,
                        name);
    }
    spt_machine_leave(&e->machine);
    spt_sequence_close(&s);
    return good;
}

static void test_engine(spt_engine *e, const char *name)
{
    const spt_model_config *c = spt_model_config_of(e->model);
    size_t rows = (size_t)c->layers * (size_t)(n_tokens * c->hidden);
    float *tapped = calloc(rows, sizeof *tapped);
    float *logits = calloc((size_t)n_tokens * (size_t)c->vocab, sizeof *logits);
    int32_t tokens[MAX_TOKENS];
    for (int i = 0; i < n_tokens; i++)
        tokens[i] = (i * 37 + 11) % 320;
    if (run(e, tokens, tapped, logits, name))
        check_pass(e, tokens, tapped, logits, name);
    free(tapped);
    free(logits);
    spt_engine_close(e);
}

static spt_engine_options options_for(bool fp16)
{
    return (spt_engine_options){.context = 64,
                                .dtype = fp16 ? SPT_TYPE_FP16 : SPT_TYPE_BF16,
                                .draft_length = 31,
                                .draft = {.method = SPT_DRAFT_NGRAM}};
}

static void test_tiny(const char *arch, spt_weight_type type, bool fp16,
                      float softcap)
{
    tiny_model t = tiny_default(arch, type);
    const spt_engine_options options = options_for(fp16);
    char name[64];
    t.window = WINDOW;
    t.softcap = softcap;
    n_tokens = 40;
    snprintf(name, sizeof name, "%s %s %s%s", arch,
             spt_weight_format_of(type)->name, fp16 ? "fp16" : "bf16",
             softcap > 0 ? " softcap" : "");
    test_engine(tiny_open(&t, &options), name);
}

/* A real model, with as many tokens as the reference has time for. */
static void test_smollm2(void)
{
    spt_engine *e = NULL;
    spt_engine_options options = options_for(true);
    options.model = "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    options.device = SPT_DEVICE_SIM;
    n_tokens = 8;
    if (CHECK_OK(spt_engine_open(&options, &e, &err), &err, "SmolLM2 opens"))
        test_engine(e, "SmolLM2-135M fp16");
}

int main(void)
{
    test_tiny("llama", SPT_WEIGHT_F16, false, 0);
    test_tiny("qwen2", SPT_WEIGHT_F16, false, 0);
    test_tiny("qwen3", SPT_WEIGHT_Q8_0, false, 0);
    test_tiny("gemma3", SPT_WEIGHT_F16, false, 0);
    test_tiny("gemma3", SPT_WEIGHT_Q4_K, true, 0);
    test_tiny("gemma3", SPT_WEIGHT_F16, false, 2);
    test_smollm2();
    return check_done();
}
