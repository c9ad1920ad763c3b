/*
 * spectune models: the presets of --model, and the shape of any model as the
 * answers take it.
 */
#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "commands.h"
#include "files.h"
#include "gen.h"
#include "json.h"
#include "mem.h"
#include "options.h"
#include "show.h"
#include "target.h"

/* Of one more token of context, beyond any window. */
static double kv_token_bytes(const spt_target *t)
{
    return spt_target_kv_bytes(t, 2) * (double)t->full_layers;
}

static cJSON *target_json(const spt_target *t)
{
    cJSON *o = cJSON_CreateObject();
    const struct {
        const char *field;
        int64_t value;
    } counts[] = {
        {"layers", t->layers},
        {"full_layers", t->full_layers},
        {"window_layers", t->window_layers},
        {"linear_layers", t->linear_layers},
        {"window", t->window},
        {"hidden", t->hidden},
        {"ffn", t->ffn},
        {"vocab", t->vocab},
        {"q_heads", t->q_heads},
        {"kv_heads", t->kv_heads},
        {"head_dim", t->head_dim},
        {"experts", t->experts},
        {"experts_per_token", t->experts_per_token},
        {"mtp_layers", t->mtp_layers},
    };
    cJSON_AddStringToObject(o, "name", t->name);
    cJSON_AddStringToObject(o, "source", t->source);
    cJSON_AddStringToObject(o, "weights", t->weights);
    cJSON_AddNumberToObject(o, "weight_bytes", t->weight_bytes);
    cJSON_AddNumberToObject(o, "parameters", spt_target_params(t));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cJSON_AddNumberToObject(o, counts[i].field, (double)counts[i].value);
    cJSON_AddNumberToObject(o, "kv_token_bytes", kv_token_bytes(t));
    cJSON_AddStringToObject(o, "drafter", t->drafter);
    return o;
}

static void print_row(const spt_target *t)
{
    char heads[24];
    snprintf(heads, sizeof heads, "%lld/%lld", (long long)t->q_heads,
             (long long)t->kv_heads);
    printf("%-18.18s %-7.7s %6.1f %6lld %7s %4lld  %-7s%s%s\n", t->name,
           t->weights, t->weight_bytes / 1e9, (long long)t->layers, heads,
           (long long)t->head_dim, t->experts ? "experts" : "dense",
           *t->drafter ? "  " : "", t->drafter);
}

/* "48, 12 with full attention, 36 with linear attention". */
static void print_layers(const spt_target *t)
{
    char window[48];
    spt_buf text = {0};
    snprintf(window, sizeof window, "with a window of %lld",
             (long long)t->window);
    const struct {
        const char *what;
        int64_t count;
    } kinds[] = {{"with full attention", t->full_layers},
                 {window, t->window_layers},
                 {"with linear attention", t->linear_layers},
                 {"with experts", t->moe_layers},
                 {"to predict the next token (MTP)", t->mtp_layers}};
    spt_buf_printf(&text, "%lld", (long long)t->layers);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].count)
            spt_buf_printf(&text, ", %lld %s", (long long)kinds[i].count,
                           kinds[i].what);
    if (!text.failed)
        spt_print_labelled("layers", text.data);
    spt_buf_free(&text);
}

static void print_target(const spt_target *t)
{
    char text[300];
    spt_print_labelled("model", t->name);
    spt_print_labelled("source", t->source);
    snprintf(text, sizeof text, "%.2f billion in %s: %.1f GB",
             spt_target_params(t) / 1e9, t->weights, t->weight_bytes / 1e9);
    spt_print_labelled("weights", text);
    print_layers(t);
    snprintf(text, sizeof text,
             "%lld query, %lld KV, %lld numbers each; KV %.1f KiB per token "
             "at 16 bits",
             (long long)t->q_heads, (long long)t->kv_heads,
             (long long)t->head_dim, kv_token_bytes(t) / 1024);
    spt_print_labelled("heads", text);
    snprintf(text, sizeof text, "hidden %lld, vocabulary %lld",
             (long long)t->hidden, (long long)t->vocab);
    spt_print_labelled("widths", text);
    if (t->ffn) {
        snprintf(text, sizeof text, "width %lld", (long long)t->ffn);
        spt_print_labelled("dense", text);
    }
    if (t->experts) {
        snprintf(text, sizeof text, "%lld, %lld for a token, width %lld",
                 (long long)t->experts, (long long)t->experts_per_token,
                 (long long)t->expert_ffn);
        spt_print_labelled("experts", text);
    }
    if (*t->drafter)
        spt_print_labelled("drafter", t->drafter);
}

typedef struct listing {
    const char *weights;
    cJSON *json; /* an array, or NULL: print rows */
    int rows;
} listing;

static spt_status list_one(void *user, const char *path, spt_error *err)
{
    listing *l = user;
    spt_target t;
    SPT_TRY(spt_target_load(NULL, path, l->weights, &t, err));
    if (l->json) {
        cJSON_AddItemToArray(l->json, target_json(&t));
        return SPT_OK;
    }
    if (l->rows++ == 0)
        printf("%-18s %-7s %6s %6s %7s %4s  %-7s  %s\n", "model", "weights",
               "GB", "layers", "heads", "dim", "layer", "usual drafter");
    print_row(&t);
    return SPT_OK;
}

static spt_status list_all(const char *home, const char *weights, bool json,
                           spt_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.models/1");
    cJSON *array = cJSON_AddArrayToObject(root, "models");
    listing l = {weights, json ? array : NULL, 0};
    char *folder = spt_path_join(home, "profiles/models");
    spt_status status =
        folder ? spt_folder_each(folder, ".json", list_one, &l, err)
               : spt_fail(err, SPT_E_MEMORY, "out of memory");
    spt_free(folder);
    if (status == SPT_OK && json) {
        spt_print_json(root);
        return status;
    }
    cJSON_Delete(root);
    if (status == SPT_OK)
        printf("\nThese are names for --model and --drafter external:NAME; a "
               "config.json or a\nGGUF file does as well. spectune models NAME "
               "shows the shape.\n");
    return status;
}

static void print_one(const spt_target *t, bool json)
{
    if (!json) {
        print_target(t);
        return;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.models/1");
    cJSON_AddItemToObject(root, "model", target_json(t));
    spt_print_json(root);
}

static spt_status run(const char *name, const char *weights, bool json,
                      spt_error *err)
{
    spt_gen *gen = NULL;
    spt_target t;
    SPT_TRY(spt_gen_open(NULL, &gen, err));
    spt_status status;
    if (!name) {
        status = list_all(spt_gen_root(gen), weights, json, err);
    } else {
        status = spt_target_load(spt_gen_root(gen), name, weights, &t, err);
        if (status == SPT_OK)
            print_one(&t, json);
    }
    spt_gen_close(gen);
    return status;
}

int spt_cmd_models(int argc, char **argv)
{
    bool json = false;
    const char *weights = NULL;
    const spt_option options[] = {
        {"weights", 0, SPT_OPTION_TEXT, &weights, "FORMAT",
         "format of the weights (the model's own, or bf16)", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune models",
        .operands = "[NAME|FILE]",
        .max_operands = 1,
        .summary = "Lists the models that --model knows by name; of one, or of "
                   "a config.json or GGUF file, shows the shape that answers "
                   "are made from.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_texts names = {0};
    spt_error err = {0};
    int code = spt_options(&usage, argc, argv, &names);
    if (code >= 0)
        return code;
    spt_status status =
        run(names.count ? names.values[0] : NULL, weights, json, &err);
    return status == SPT_OK ? 0 : spt_exit_error("spectune models", &err);
}
