/*
 * Shapes of targets: presets, the stand-in, formats and sums over the shape.
 * Reading of config.json and GGUF stands in target_config.c and
 * target_gguf.c.
 */
#include "target.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "json.h"
#include "mem.h"

static const struct weights_row {
    const char *name;
    double bits, attention_bits, head_bits;
} weights_rows[] = {
#define SPT_WEIGHTS(name, bits, attention_bits, head_bits, doc) \
    {#name, bits, attention_bits, head_bits},
#include "weights.def"
#undef SPT_WEIGHTS
};
enum { WEIGHTS_ROWS = sizeof weights_rows / sizeof *weights_rows };

int spt_weights_find(const char *name)
{
    for (int i = 0; i < WEIGHTS_ROWS; i++)
        if (strcmp(weights_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *spt_weights_name(int index)
{
    return index >= 0 && index < WEIGHTS_ROWS ? weights_rows[index].name : NULL;
}

double spt_weights_bits(int index)
{
    return index >= 0 && index < WEIGHTS_ROWS ? weights_rows[index].bits : 0;
}

spt_status spt_target_set_weights(spt_target *target, const char *weights,
                                  spt_error *err)
{
    int i = spt_weights_find(weights);
    if (i < 0) {
        spt_buf list = {0};
        for (int k = 0; k < WEIGHTS_ROWS; k++)
            spt_buf_printf(&list, "%s%s", k ? " " : "", weights_rows[k].name);
        spt_fail(err, SPT_E_USAGE,
                 "--weights '%.32s': unknown format, expected one of: %s",
                 weights, list.data ? list.data : "");
        spt_buf_free(&list);
        return SPT_E_USAGE;
    }
    snprintf(target->weights, sizeof target->weights, "%s", weights);
    target->layer_bits = weights_rows[i].bits;
    target->attention_bits = weights_rows[i].attention_bits;
    target->head_bits = weights_rows[i].head_bits;
    /* Embedding rows are looked up, not multiplied. */
    target->embed_bits = target->head_bits < 16 ? target->layer_bits : 16;
    return SPT_OK;
}

static const struct kv_type {
    const char *word, *name;
    double bytes;
} kv_types[] = {{"bf16", "bf16", 2},        {"bfloat16", "bf16", 2},
                {"fp16", "fp16", 2},        {"f16", "fp16", 2},
                {"float16", "fp16", 2},     {"half", "fp16", 2},
                {"fp8", "fp8", 1},          {"fp8_e4m3", "fp8", 1},
                {"fp8_e5m2", "fp8", 1},     {"q8_0", "q8_0", 34.0 / 32},
                {"q4_0", "q4_0", 18.0 / 32}};

static const struct kv_type *find_kv_type(const char *word)
{
    for (size_t i = 0; i < sizeof kv_types / sizeof *kv_types; i++)
        if (strcasecmp(kv_types[i].word, word) == 0)
            return &kv_types[i];
    return NULL;
}

const char *spt_kv_type_name(const char *word)
{
    const struct kv_type *type = find_kv_type(word);
    return type ? type->name : NULL;
}

double spt_kv_type_bytes(const char *word)
{
    const struct kv_type *type = find_kv_type(word);
    return type ? type->bytes : -1;
}

/* Latent attention: down and up for queries and KV, output. */
static double latent_params(const spt_target *t)
{
    double h = (double)t->hidden, n = (double)t->q_heads;
    double q = n * (double)(t->nope_dim + t->rope_dim);
    double r = (double)t->q_rank;
    return (r > 0 ? r * (h + q) : h * q) +
           h * (double)(t->kv_rank + t->rope_dim) +
           (double)t->kv_rank * n * (double)(t->nope_dim + t->value_dim) +
           n * (double)t->value_dim * h;
}

double spt_target_attention_params(const spt_target *t)
{
    if (t->kv_rank)
        return latent_params(t);
    double h = (double)t->hidden, d = (double)t->head_dim;
    double q = (double)t->q_heads * d, kv = (double)t->kv_heads * d;
    return h * (q * (t->output_gate ? 2 : 1) + 2 * kv) + q * h;
}

double spt_target_linear_params(const spt_target *t)
{
    double h = (double)t->hidden;
    double k = (double)(t->linear_k_heads * t->linear_k_dim);
    double v = (double)(t->linear_v_heads * t->linear_v_dim);
    /* q, k, v, output gate, two gates per value head; output. */
    return h * (2 * k + 2 * v + 2 * (double)t->linear_v_heads) + v * h;
}

double spt_target_ffn_params(const spt_target *t)
{
    return 3 * (double)t->hidden * (double)t->ffn;
}

double spt_target_expert_params(const spt_target *t)
{
    return 3 * (double)t->hidden * (double)t->expert_ffn;
}

double spt_target_mixer_params(const spt_target *t)
{
    return (double)(t->full_layers + t->window_layers) *
               spt_target_attention_params(t) +
           (double)t->linear_layers * spt_target_linear_params(t);
}

double spt_target_dense_params(const spt_target *t)
{
    double h = (double)t->hidden;
    return (double)(t->layers - t->moe_layers) * spt_target_ffn_params(t) +
           (double)t->moe_layers * h *
               (3 * (double)t->shared_ffn + (double)t->experts);
}

static double body_params(const spt_target *t)
{
    return spt_target_mixer_params(t) + spt_target_dense_params(t) +
           (double)(t->moe_layers * t->experts) * spt_target_expert_params(t);
}

double spt_target_params(const spt_target *t)
{
    double head = (double)t->vocab * (double)t->hidden;
    return body_params(t) + head * (t->tied_head ? 1 : 2);
}

double spt_target_kv_bytes(const spt_target *t, double element_bytes)
{
    return (t->kv_rank ? 1 : 2) * (double)(t->kv_heads * t->head_dim) *
           element_bytes;
}

/* State of one linear layer: fp32 k x v per value head, and its window of
   convolution inputs. */
static double linear_state_bytes(const spt_target *t)
{
    double v = (double)(t->linear_v_heads * t->linear_v_dim);
    double k = (double)(t->linear_k_heads * t->linear_k_dim);
    return 4 * v * (double)t->linear_k_dim +
           2 * (2 * k + v) * (double)t->linear_conv;
}

double spt_target_sequence_bytes(const spt_target *t, double element_bytes,
                                 double context)
{
    double kv = spt_target_kv_bytes(t, element_bytes);
    double window = (double)t->window < context ? (double)t->window : context;
    return (double)t->full_layers * kv * context +
           (double)t->window_layers * kv * window +
           (double)t->linear_layers * linear_state_bytes(t);
}

double spt_target_kv_copies(const spt_target *t, int boards)
{
    double heads = (double)t->kv_heads;
    return boards > 1 ? boards * ceil(heads / boards) / heads : 1;
}

double spt_target_shared_bytes(const spt_target *t, double element_bytes,
                               double context, int boards)
{
    double fixed = spt_target_sequence_bytes(t, element_bytes, 0);
    double kv = spt_target_sequence_bytes(t, element_bytes, context) - fixed;
    return kv * spt_target_kv_copies(t, boards) + fixed;
}

double spt_target_experts_touched(const spt_target *t, double sequences,
                                  double rows_each)
{
    double e = (double)t->experts;
    double usual = SPT_EXPERTS_EXPONENT, own = t->experts_exponent;
    double rows = sequences * pow(rows_each, own > 0 ? own : usual);
    if (e <= 0)
        return 0;
    return e * (1 - pow(1 - (double)t->experts_per_token / e, rows));
}

static spt_status in_range(const spt_target *t, const char *what, int64_t value,
                           int64_t min, int64_t max, spt_error *err)
{
    if (value >= min && value <= max)
        return SPT_OK;
    return spt_fail(err, SPT_E_FORMAT, "%s: %s is %lld, expected %lld to %lld",
                    t->name, what, (long long)value, (long long)min,
                    (long long)max);
}

spt_status spt_target_finish(spt_target *t, spt_error *err)
{
    SPT_TRY(in_range(t, "number of layers", t->layers, 1, 1024, err));
    SPT_TRY(in_range(t, "hidden size", t->hidden, 8, 1 << 18, err));
    SPT_TRY(in_range(t, "ffn size", t->ffn, t->moe_layers == t->layers ? 0 : 1,
                     1 << 22, err));
    SPT_TRY(in_range(t, "vocabulary", t->vocab, 2, 1 << 24, err));
    SPT_TRY(in_range(t, "query heads", t->q_heads, 1, 1024, err));
    SPT_TRY(in_range(t, "KV heads", t->kv_heads, 1, t->q_heads, err));
    SPT_TRY(in_range(t, "head dim", t->head_dim, 1, 1024, err));
    SPT_TRY(in_range(t, "experts", t->experts, 0, 1 << 14, err));
    SPT_TRY(in_range(t, "experts per token", t->experts_per_token, 0,
                     t->experts, err));
    SPT_TRY(in_range(t, "expert ffn size", t->expert_ffn, 0, 1 << 22, err));
    SPT_TRY(in_range(t, "shared expert size", t->shared_ffn, 0, 1 << 22, err));
    SPT_TRY(in_range(t, "mtp layers", t->mtp_layers, 0, 16, err));
    SPT_TRY(in_range(t, "linear key heads", t->linear_k_heads, 0, 1024, err));
    SPT_TRY(in_range(t, "linear value heads", t->linear_v_heads, 0, 1024, err));
    SPT_TRY(in_range(t, "linear key dim", t->linear_k_dim, 0, 4096, err));
    SPT_TRY(in_range(t, "linear value dim", t->linear_v_dim, 0, 4096, err));
    SPT_TRY(in_range(t, "convolution width", t->linear_conv, 0, 64, err));
    SPT_TRY(in_range(t, "window", t->window, 0, 1 << 26, err));
    SPT_TRY(in_range(t, "KV rank", t->kv_rank, 0, 1 << 16, err));
    SPT_TRY(in_range(t, "query rank", t->q_rank, 0, 1 << 16, err));
    SPT_TRY(in_range(t, "nope dim", t->nope_dim, 0, 1024, err));
    SPT_TRY(in_range(t, "rope dim", t->rope_dim, 0, 1024, err));
    SPT_TRY(in_range(t, "value dim", t->value_dim, 0, 1024, err));
    if (t->q_heads % t->kv_heads)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %lld query heads are no multiple of %lld KV heads",
                        t->name, (long long)t->q_heads, (long long)t->kv_heads);
    if (t->full_layers + t->window_layers + t->linear_layers != t->layers)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: layers by kind of attention do not add up",
                        t->name);
    if (t->weight_bytes <= 0) {
        double head = (double)t->vocab * (double)t->hidden;
        double mixer = spt_target_mixer_params(t);
        t->weight_bytes = ((body_params(t) - mixer) * t->layer_bits +
                           mixer * t->attention_bits + head * t->head_bits +
                           (t->tied_head ? 0 : head * t->embed_bits)) /
                          8;
    }
    return SPT_OK;
}

spt_status spt_target_stand_in(int q_heads, int kv_heads, int head_dim,
                               const char *weights, spt_target *target,
                               spt_error *err)
{
    spt_target t = {.stand_in = true, .layers = 32, .vocab = 128256};
    if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads)
        return spt_fail(err, SPT_E_USAGE,
                        "heads %d/%d: expected query heads that are a "
                        "multiple of KV heads",
                        q_heads, kv_heads);
    t.full_layers = t.layers;
    t.q_heads = q_heads;
    t.kv_heads = kv_heads;
    t.head_dim = head_dim;
    t.hidden = (int64_t)q_heads * head_dim;
    t.ffn = (7 * t.hidden / 2 + 255) / 256 * 256;
    snprintf(t.name, sizeof t.name, "stand-in-%dx%d-%d", q_heads, kv_heads,
             head_dim);
    snprintf(t.source, sizeof t.source,
             "stand-in from the heads: 32 layers, hidden %lld, ffn %lld, "
             "vocabulary 128256; give --model for a real one",
             (long long)t.hidden, (long long)t.ffn);
    SPT_TRY(spt_target_set_weights(&t, weights ? weights : "bf16", err));
    SPT_TRY(spt_target_finish(&t, err));
    *target = t;
    return SPT_OK;
}

/* Layers over hidden size, as published families have them. */
static void size_layers(spt_target *t, double active)
{
    t->layers = (int64_t)fmax(8, round(28 * pow(active / 1.7e9, 0.25)));
    t->full_layers = t->layers;
    double l = (double)t->layers, v = (double)t->vocab;
    /* 13 h^2 for each layer, embedding and head. */
    double h = (sqrt(v * v + 13 * l * active) - v) / (13 * l);
    int64_t heads = (int64_t)fmax(1, round(h / 1024)) * 8;
    t->head_dim = 128;
    t->hidden = heads * 128;
    t->q_heads = heads;
    t->kv_heads = heads / 8;
    h = (double)t->hidden;
    double rest = (active - 2 * v * h) / l - spt_target_attention_params(t);
    t->ffn = (int64_t)fmax(h, rest / (3 * h));
}

spt_status spt_target_sized(const char *name, double params, double active,
                            const char *weights, spt_target *target,
                            spt_error *err)
{
    spt_target t = {.stand_in = true, .vocab = 151936};
    bool mixed = active < 0.7 * params;
    snprintf(t.name, sizeof t.name, "%s", name);
    size_layers(&t, mixed ? params / 4 : active);
    if (mixed) {
        /* Eight experts are three fifths of what a row reads. */
        t.experts_per_token = 8;
        double one = 0.6 * active / 8;
        t.experts = (int64_t)fmin(1 << 14, (params - 0.4 * active) / one);
        t.moe_layers = t.layers;
        t.hidden = t.hidden / 2 / 128 * 128 > 0 ? t.hidden / 2 : t.hidden;
        t.expert_ffn =
            (int64_t)fmax(1, one / (3.0 * (double)(t.hidden * t.layers)));
        t.ffn = 0;
    }
    snprintf(t.source, sizeof t.source, "sized: %.3g of %.3g billion weights",
             active / 1e9, params / 1e9);
    SPT_TRY(spt_target_set_weights(&t, weights, err));
    SPT_TRY(spt_target_finish(&t, err));
    *target = t;
    return SPT_OK;
}

/* Name of a model from its file: the folder's of a config.json, else the
   file's without its ending. */
static void name_from_path(const char *path, char *name, size_t size)
{
    const char *end = path + strlen(path);
    const char *slash = strrchr(path, '/');
    if (slash && strcmp(slash, "/config.json") == 0)
        end = slash;
    const char *start = end;
    while (start > path && start[-1] != '/')
        start--;
    int length = (int)(end - start);
    const char *dot = memrchr(start, '.', (size_t)length);
    if (dot && dot > start && end[0] == 0)
        length = (int)(dot - start);
    if (length <= 0)
        snprintf(name, size, "model");
    else
        snprintf(name, size, "%.*s", length, start);
}

static spt_status load_gguf(const char *path, spt_target *target,
                            spt_error *err)
{
    spt_mapping file = {0};
    SPT_TRY(spt_file_map(path, &file, err));
    spt_status status =
        spt_target_gguf(file.data, file.size, path, target, err);
    spt_file_unmap(&file);
    return status;
}

static bool starts_with_gguf(const char *path)
{
    char magic[4] = {0};
    struct stat info;
    /* What is read of a pipe could not be read again. */
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    FILE *file = fopen(path, "rb");
    bool is =
        file && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (file)
        fclose(file);
    return is;
}

static spt_status load_file(const char *path, spt_target *target,
                            spt_error *err)
{
    spt_buf text = {0};
    spt_status status = spt_file_read(path, 16 << 20, &text, err);
    if (status == SPT_OK)
        status = spt_target_config(text.data ? text.data : "", text.size, path,
                                   target, err);
    spt_buf_free(&text);
    return status;
}

/* "no such model" with the presets that there are. */
static spt_status no_model(const char *name, spt_error *err)
{
    return spt_fail(err, SPT_E_USAGE,
                    "--model '%.200s': no such file or preset, expected a "
                    "config.json, a .gguf, or a name that spectune models "
                    "lists",
                    name);
}

/* The path of the file that name stands for; spt_free. */
static char *find_file(const char *home, const char *name)
{
    struct stat st;
    if (stat(name, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            return spt_strdup(name);
        return spt_path_join(name, "config.json");
    }
    if (!home || strchr(name, '/') || !*name)
        return NULL;
    spt_buf path = {0};
    spt_buf_printf(&path, "%s/profiles/models/%s.json", home, name);
    if (path.failed || !spt_file_exists(path.data)) {
        spt_buf_free(&path);
        return NULL;
    }
    return path.data;
}

spt_status spt_target_load(const char *home, const char *name,
                           const char *weights, spt_target *target,
                           spt_error *err)
{
    char *path = find_file(home, name);
    if (!path)
        return no_model(name, err);
    spt_target t = {0};
    name_from_path(path, t.name, sizeof t.name);
    bool gguf = starts_with_gguf(path);
    spt_status status =
        gguf ? load_gguf(path, &t, err) : load_file(path, &t, err);
    spt_free(path);
    SPT_TRY(status);
    if (gguf && weights && strcmp(weights, "gguf") != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--weights %s: a GGUF has its own formats, expected "
                        "none or gguf",
                        weights);
    if (!gguf) {
        if (weights)
            SPT_TRY(spt_target_set_weights(&t, weights, err));
        t.weight_bytes = 0;
        SPT_TRY(spt_target_finish(&t, err));
    }
    *target = t;
    return SPT_OK;
}
