/* spectune model check FILE.csv [--json] */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "csv.h"
#include "gen.h"
#include "json.h"
#include "options.h"
#include "sweeps.h"

static void print_json(const cJSON *root)
{
    spt_buf text = {0};
    spt_json_print(root, &text);
    puts(text.data ? text.data : "");
    spt_buf_free(&text);
}

static cJSON *sweep_json(const spt_sweep *w)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "sweep_id", w->id);
    cJSON_AddStringToObject(o, "prompts", w->prompts);
    cJSON_AddStringToObject(o, "concurrency", w->concurrency);
    cJSON_AddNumberToObject(o, "chosen", w->chosen);
    cJSON_AddNumberToObject(o, "best", w->best);
    spt_json_add4(o, "lost_percent", w->lost_percent);
    if (w->assumed[0])
        cJSON_AddStringToObject(o, "assumed", w->assumed);
    cJSON *list = cJSON_AddArrayToObject(o, "lengths");
    for (size_t i = 0; i < w->n_tried; i++) {
        cJSON *t = cJSON_CreateObject();
        cJSON_AddNumberToObject(t, "draft_length", w->tried[i].draft_length);
        spt_json_add4(t, "expected_length", w->tried[i].expected_length);
        spt_json_add4(t, "step_us", w->tried[i].step_us);
        cJSON_AddItemToArray(list, t);
    }
    return o;
}

static cJSON *sweeps_json(const spt_sweeps *s)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "spectune.model-check/1");
    cJSON_AddStringToObject(o, "evidence", "modelled");
    cJSON_AddItemToObject(o, "boards", cJSON_CreateArray());
    cJSON *list = cJSON_AddArrayToObject(o, "sweeps");
    for (size_t i = 0; i < s->count; i++)
        cJSON_AddItemToArray(list, sweep_json(&s->list[i]));
    spt_json_add4(o, "mean_lost", s->mean_lost);
    spt_json_add4(o, "median_lost", s->median_lost);
    spt_json_add4(o, "p90_lost", s->p90_lost);
    list = cJSON_AddArrayToObject(o, "fixed");
    for (size_t i = 0; i < s->n_fixed; i++) {
        cJSON *f = cJSON_CreateObject();
        cJSON_AddNumberToObject(f, "draft_length", s->fixed[i].draft_length);
        spt_json_add4(f, "mean_lost", s->fixed[i].mean_lost);
        spt_json_add4(f, "p90_lost", s->fixed[i].p90_lost);
        cJSON_AddItemToArray(list, f);
    }
    return o;
}

static void print_sweeps(const spt_sweeps *s)
{
    printf("%-26s %-20s %4s  %6s %4s  %6s\n", "sweep", "prompts", "at once",
           "chosen", "best", "lost");
    for (size_t i = 0; i < s->count; i++) {
        const spt_sweep *w = &s->list[i];
        printf("%-26.26s %-20.20s %7s  %6d %4d  %5.1f%%\n", w->id, w->prompts,
               w->concurrency, w->chosen, w->best, w->lost_percent);
        if (w->assumed[0])
            printf("  assumed: %s\n", w->assumed);
    }
    printf("\nlost to the best rate: mean %.2f %%, median %.2f %%, 90th "
           "percentile %.2f %%\n",
           s->mean_lost, s->median_lost, s->p90_lost);
    printf("a fixed draft length instead loses:\n");
    for (size_t i = 0; i < s->n_fixed; i++)
        printf("  D = %-2d  mean %5.2f %%  90th percentile %5.2f %%\n",
               s->fixed[i].draft_length, s->fixed[i].mean_lost,
               s->fixed[i].p90_lost);
}

static spt_status check_sweeps(spt_gen *gen, const spt_csv *csv, bool json,
                               spt_error *err)
{
    spt_sweeps s = {0};
    spt_status status = spt_sweeps_check(&s, gen, csv, err);
    if (status == SPT_OK && json) {
        cJSON *o = sweeps_json(&s);
        print_json(o);
        cJSON_Delete(o);
    } else if (status == SPT_OK) {
        print_sweeps(&s);
    }
    spt_sweeps_free(&s);
    return status;
}

typedef struct kind {
    const char *columns, *holds;
    spt_status (*check)(spt_gen *gen, const spt_csv *csv, bool json,
                        spt_error *err);
} kind;

static const kind kinds[] = {
#define SPT_MODEL_KIND(columns, check, holds) {columns, holds, check},
#include "model_kinds.def"
#undef SPT_MODEL_KIND
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static spt_status check(const char *path, bool json, spt_error *err)
{
    spt_csv csv = {0};
    spt_gen *gen = NULL;
    spt_status status = spt_csv_read(&csv, path, err);
    size_t k = 0;
    while (status == SPT_OK && k < KINDS &&
           !spt_csv_has(&csv, kinds[k].columns))
        k++;
    if (status == SPT_OK && k == KINDS)
        status = spt_fail(err, SPT_E_FORMAT,
                          "%s:1: columns of no kind of file that is known, "
                          "expected those of %s: %s",
                          path, kinds[0].holds, kinds[0].columns);
    if (status == SPT_OK)
        status = spt_gen_open(NULL, &gen, err);
    if (status == SPT_OK)
        status = kinds[k].check(gen, &csv, json, err);
    spt_gen_close(gen);
    spt_csv_free(&csv);
    return status;
}

int spt_cmd_model(int argc, char **argv)
{
    bool json = false;
    const spt_option options[] = {
        {"json", 0, SPT_OPTION_FLAG, &json, NULL, "print one JSON object", 0,
         0},
    };
    const spt_usage usage = {
        .command = "spectune model",
        .operands = "check FILE.csv",
        .min_operands = 2,
        .max_operands = 2,
        .summary = "Says how far the models are from measurements: for rates "
                   "over draft lengths, which length they choose and what it "
                   "loses.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    spt_texts operands = {0};
    spt_error err = {0};
    int code = spt_options(&usage, argc, argv, &operands);
    if (code >= 0)
        return code;
    if (strcmp(operands.values[0], "check") != 0)
        return spt_exit_usage(usage.command, "'%.40s': expected check",
                              operands.values[0]);
    if (check(operands.values[1], json, &err) != SPT_OK)
        return spt_exit_error(usage.command, &err);
    return 0;
}
