/*
 * The main command: spectune --arch sm90 --heads 64/8.
 */
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "commands.h"
#include "files.h"
#include "json.h"
#include "options.h"
#include "progress.h"
#include "tune.h"

typedef struct tune_options {
    spt_survey_options survey;
    const char *folder;
    int64_t page_size;
    bool json, quiet;
} tune_options;

static int parse(int argc, char **argv, tune_options *t)
{
    spt_survey_options *o = &t->survey;
    const spt_option options[] = {
#define SPT_SURVEY_OPTION SPT_SURVEY_ROW
#include "survey.def"
#undef SPT_SURVEY_OPTION
        {"heads", 0, SPT_OPTION_TEXT, &o->heads, "Q/KV",
         "query heads / KV heads, for a stand-in", 0, 0},
        {"drafter", 0, SPT_OPTION_TEXTS, &o->drafters, "LIST",
         "drafters to weigh (all six)", 0, 0},
        {"dtype", 0, SPT_OPTION_CHOICE, &o->dtype, "bf16|fp16",
         "type of queries and output (bf16)", 0, 0},
        {"page-size", 0, SPT_OPTION_INT, &t->page_size, "N",
         "tokens per KV page, 0 = contiguous (16)", 0, 65536},
        {"effort", 0, SPT_OPTION_CHOICE, &o->effort, "estimate|measure|patient",
         "model only, or times from a GPU (estimate)", 0, 0},
        {"output", 'o', SPT_OPTION_TEXT, &t->folder, "DIR",
         "folder for profile.json and pack/ (out/BOARD-Q-KV-dN)", 0, 0},
        {"json", 0, SPT_OPTION_FLAG, &t->json, NULL, "print one JSON object", 0,
         0},
        {"quiet", 'q', SPT_OPTION_FLAG, &t->quiet, NULL, "print nothing", 0, 0},
    };
    const spt_usage usage = {
        .command = "spectune",
        .summary = "Generates verify-attention kernels for a chip and a head "
                   "grouping, proves them, times them, and says which draft "
                   "length makes speculative decoding fastest. With --engine, "
                   "of another engine's kernels: the draft length, and what to "
                   "type there.",
        .options = options,
        .count = sizeof options / sizeof *options,
    };
    return spt_options(&usage, argc, argv, NULL);
}

/* What only our kernels have. */
static spt_status check_options(const tune_options *o, spt_error *err)
{
    const spt_survey_options *s = &o->survey;
    if (!spt_survey_other_engine(s))
        return SPT_OK;
    if (o->folder)
        return spt_fail(err, SPT_E_USAGE,
                        "--output %s: expected none beside --engine %s, which "
                        "has its own kernels",
                        o->folder, s->engine);
    if (strcmp(s->effort, "estimate") != 0)
        return spt_fail(err, SPT_E_USAGE,
                        "--effort %s: expected estimate beside --engine %s, "
                        "whose kernels are not here",
                        s->effort, s->engine);
    return SPT_OK;
}

static void note(void *user, const char *text)
{
    (void)user;
    spt_progress_clear();
    fprintf(stderr, "spectune: %s\n", text);
}

/* folder: of profile and pack; NULL when there are none. */
static spt_status print_answer(const tune_options *o, const spt_tune *t,
                               const char *folder, spt_error *err)
{
    spt_buf profile = {0}, pack = {0}, text = {0};
    cJSON *json = NULL;
    if (folder) {
        spt_buf_printf(&profile, "%s/profile.json", folder);
        spt_buf_printf(&pack, "%s/pack", folder);
    }
    spt_status status = SPT_OK;
    if (o->json)
        status = spt_tune_json(t, "spectune.answer/1", profile.data, pack.data,
                               &json, err);
    if (status == SPT_OK && o->json) {
        spt_json_print(json, &text);
        puts(text.data ? text.data : "");
    } else if (status == SPT_OK && !o->quiet) {
        spt_answer_print(stdout, &t->survey.input, &t->choices,
                         spt_answer_colour(stdout));
        if (folder)
            printf("\n%zu kernels proved on %s, chunk %d\n"
                   "profile and pack in %s\n",
                   t->offer.count + 1, t->proved_on, t->selection.chunk,
                   folder);
    }
    cJSON_Delete(json);
    spt_buf_free(&profile);
    spt_buf_free(&pack);
    spt_buf_free(&text);
    return status;
}

/* out/BOARD-Q-KV-dN, or out/BOARD-model. */
static void name_folder(const tune_options *o, const spt_survey *s,
                        spt_buf *folder)
{
    const spt_target *t = &s->target;
    if (o->folder)
        spt_buf_puts(folder, o->folder);
    else if (o->survey.heads)
        spt_buf_printf(folder, "out/%s-%lld-%lld-d%lld", s->board.name,
                       (long long)t->q_heads, (long long)t->kv_heads,
                       (long long)t->head_dim);
    else
        spt_buf_printf(folder, "out/%s-model", s->board.name);
}

/* The whole job, with its files. */
static spt_status tune_into(const tune_options *o, spt_tune_input *in,
                            spt_tune *t, const char *folder, spt_error *err)
{
    SPT_TRY(spt_folder_make(folder, err));
    char *samples = spt_path_join(folder, "samples.log");
    const spt_log log = {.line = note};
    in->samples = samples;
    in->log = &log;
    spt_status status = spt_tune_run(in, t, err);
    spt_free(samples);
    spt_progress_clear();
    if (status == SPT_OK)
        status = spt_tune_write(t, folder, err);
    return status == SPT_OK ? print_answer(o, t, folder, err) : status;
}

static spt_status tune(const tune_options *o, spt_tune_input *in, spt_tune *t,
                       spt_error *err)
{
    spt_target target;
    SPT_TRY(check_options(o, err));
    SPT_TRY(spt_survey_open(&t->survey, &o->survey, true, err));
    SPT_TRY(spt_survey_load(&t->survey, &target, err));
    SPT_TRY(spt_survey_take(&t->survey, &target, err));
    if (spt_survey_other_engine(&o->survey)) {
        /* Nothing is built and nothing written. */
        SPT_TRY(spt_tune_run(in, t, err));
        return print_answer(o, t, NULL, err);
    }
    spt_buf folder = {0};
    name_folder(o, &t->survey, &folder);
    spt_status status = tune_into(o, in, t, folder.data, err);
    spt_buf_free(&folder);
    return status;
}

int spt_cmd_tune(int argc, char **argv)
{
    tune_options o = {
        .survey = {.dtype = "bf16",
                   .effort = "estimate",
                   .link_us = -1,
                   .drafters = {.count = 6,
                                .values = {"external", "eagle3", "mtp",
                                           "dflash", "dspark", "ngram"}}},
        .page_size = 16,
    };
    spt_survey_usual_loads(&o.survey);
    int code = parse(argc, argv, &o);
    if (code >= 0)
        return code;
    spt_error err = {0};
    spt_tune_input in = {.page_size = (int)o.page_size,
                         .effort = o.survey.effort};
    static spt_tune t;
    if (!o.quiet)
        in.progress = spt_progress;
    spt_status status = tune(&o, &in, &t, &err);
    spt_tune_free(&t);
    spt_survey_close(&t.survey);
    return status == SPT_OK ? 0 : spt_exit_error("spectune", &err);
}
