/* spectune model check|fit FILE.csv... */
#include <stdio.h>
#include <string.h>

#include "cmd_model.h"
#include "commands.h"
#include "csv.h"
#include "json.h"
#include "model_rows.h"
#include "options.h"
#include "show.h"
#include "sweeps.h"

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

static spt_status check_sweeps(const spt_model_job *job, const spt_csv *csv,
                               spt_error *err)
{
    spt_sweeps s = {0};
    spt_status status = spt_sweeps_check(&s, job->gen, csv, err);
    if (status == SPT_OK && job->json) {
        spt_print_json(sweeps_json(&s));
    } else if (status == SPT_OK) {
        print_sweeps(&s);
    }
    spt_sweeps_free(&s);
    return status;
}

typedef struct kind {
    const char *columns, *holds;
    spt_status (*check)(const spt_model_job *job, const spt_csv *csv,
                        spt_error *err);
} kind;

static const kind kinds[] = {
#define SPT_MODEL_KIND(columns, check, holds) {columns, holds, check},
#include "model_kinds.def"
#undef SPT_MODEL_KIND
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static spt_status no_kind(const char *path, spt_error *err)
{
    spt_buf list = {0};
    for (size_t k = 0; k < KINDS; k++)
        spt_buf_printf(&list, "%s%s (%s)", k ? ", " : "", kinds[k].holds,
                       kinds[k].columns);
    spt_status status = spt_fail(err, SPT_E_FORMAT,
                                 "%s:1: columns of no kind of file that is "
                                 "known, expected those of %s",
                                 path, list.data ? list.data : "");
    spt_buf_free(&list);
    return status;
}

static spt_status check(const spt_model_job *job, const char *path,
                        spt_error *err)
{
    spt_csv csv = {0};
    spt_status status = spt_csv_read(&csv, path, err);
    size_t k = 0;
    while (status == SPT_OK && k < KINDS &&
           !spt_csv_has(&csv, kinds[k].columns))
        k++;
    if (status == SPT_OK)
        status =
            k < KINDS ? kinds[k].check(job, &csv, err) : no_kind(path, err);
    spt_csv_free(&csv);
    return status;
}

/* Of --help: what the files hold, and their columns. */
static const char files_help[] =
    "FILE.csv is one of these, told by its columns; the order does not matter. "
    "Types: bf16, fp16, fp8, as they are usually spelt. Times in microseconds."
#define SPT_MODEL_KIND(columns, check, holds) "\n" holds ": " columns
#include "model_kinds.def"
#undef SPT_MODEL_KIND
    ;

typedef struct options {
    const char *board, *calibration, *output, *source;
    bool json;
} options;

static spt_status run(const options *o, const spt_texts *operands,
                      spt_error *err)
{
    bool fit = strcmp(operands->values[0], "fit") == 0;
    spt_model_job *job = spt_calloc(1, sizeof *job);
    if (!job)
        return spt_fail(err, SPT_E_MEMORY, "out of memory");
    job->json = o->json;
    spt_status status = spt_gen_open(NULL, &job->gen, err);
    if (status == SPT_OK && o->board)
        status = spt_gen_board_file(job->gen, o->board, &job->own, err);
    if (status == SPT_OK && o->calibration)
        status = spt_calibration_read(o->calibration, &job->calibration, err);
    if (status == SPT_OK && fit)
        status = spt_fit_kernels(job, operands->values + 1, operands->count - 1,
                                 o->source, o->output, err);
    else if (status == SPT_OK)
        status = check(job, operands->values[1], err);
    spt_gen_close(job->gen);
    spt_free(job);
    return status;
}

int spt_cmd_model(int argc, char **argv)
{
    options o = {0};
    const spt_option rows[] = {
        {"output", 'o', SPT_OPTION_TEXT, &o.output, "FILE.json",
         "fit: write the constants here", 0, 0},
        {"source", 0, SPT_OPTION_TEXT, &o.source, "TEXT",
         "fit: where the times come from; default: the files' names", 0, 0},
        {"calibration", 0, SPT_OPTION_TEXT, &o.calibration, "FILE.json",
         "check: constants that fit wrote, instead of the shipped ones", 0, 0},
        {"board", 0, SPT_OPTION_TEXT, &o.board, "FILE.lua",
         "a board of your own that the files' gpu column names", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &o.json, NULL, "print one JSON object", 0,
         0},
    };
    const spt_usage usage = {
        .command = "spectune model",
        .operands = "check FILE.csv | fit FILE.csv...",
        .min_operands = 2,
        .max_operands = 16,
        .summary =
            "check: says how far the models are from measurements: for times "
            "of attention and gemm the errors by board, for rates over draft "
            "lengths which length they choose and what it loses. fit: finds "
            "the constants of the time model for the boards of such times.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .epilogue = files_help,
    };
    spt_texts operands = {0};
    spt_error err = {0};
    int code = spt_options(&usage, argc, argv, &operands);
    if (code >= 0)
        return code;
    bool fit = strcmp(operands.values[0], "fit") == 0;
    if (!fit && strcmp(operands.values[0], "check") != 0)
        return spt_exit_usage(usage.command, "'%.40s': expected check or fit",
                              operands.values[0]);
    if (!fit && operands.count > 2)
        return spt_exit_usage(usage.command, "check: expected one file");
    if (fit ? o.calibration != NULL : o.output != NULL)
        return spt_exit_usage(usage.command, "%s does not go with %s",
                              fit ? "--calibration" : "--output",
                              operands.values[0]);
    if (run(&o, &operands, &err) != SPT_OK)
        return spt_exit_error(usage.command, &err);
    return 0;
}
