/*
 * spectune methods: the drafting methods side by side for one target, board
 * and load: what each needs, what it costs to train and to run, what it gains.
 */
#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "commands.h"
#include "deployment.h"
#include "json.h"
#include "methods.h"
#include "options.h"
#include "show.h"
#include "survey_command.h"

/* Drafts that every method's time is shown for, so that they compare. */
enum { COMMON_LENGTH = 4 };

typedef struct table {
    const spt_survey *survey;
    const spt_choices *choices; /* one per method, one workload */
    const spt_method_words *words;
    const char *workload;
    spt_step step;
} table;

static const spt_choice *choice_of(const table *t, size_t drafter)
{
    return &t->choices->list[drafter];
}

static const spt_method_words *words_of(const table *t, size_t drafter)
{
    return &t->words[t->survey->drafters[drafter].method];
}

static double common_us(const table *t, size_t drafter)
{
    return spt_step_draft_us(&t->step, &t->survey->drafters[drafter],
                             COMMON_LENGTH);
}

/* Of everything, with the choice's drafts; else with as many as all have. */
static double memory_of(const table *t, size_t drafter)
{
    const spt_choice *c = choice_of(t, drafter);
    if (c->known)
        return c->memory_bytes;
    return spt_step_memory_bytes(&t->step, &t->survey->drafters[drafter],
                                 COMMON_LENGTH);
}

/* Where not all of the batch runs, or nothing. */
static void print_room(const table *t)
{
    char text[300], room[100];
    double running = spt_step_running(&t->step, NULL, 0);
    double bytes = spt_step_memory_bytes(&t->step, NULL, 0);
    if (!spt_step_fits(&t->step, NULL, 0, bytes)) {
        snprintf(text, sizeof text,
                 "the model and this KV do not fit: %s; times are those of a "
                 "board with enough",
                 spt_step_room_text(&t->step, bytes, room, sizeof room));
        spt_print_labelled("memory", text);
    } else if (running < t->step.batch) {
        spt_print_labelled(
            "waits", spt_waits_text(t->step.batch, running, text, sizeof text));
    }
}

static void print_head(const table *t)
{
    const spt_target *target = &t->survey->target;
    char text[400], context[24], us[24];
    const char *evidence;
    snprintf(text, sizeof text, "%s, %s, %.1f GB (%s)", target->name,
             target->weights, target->weight_bytes / 1e9, target->source);
    spt_print_labelled("target", text);
    spt_print_labelled("board", t->survey->board.title);
    snprintf(
        text, sizeof text, "batch %d, context %s, %s; plain step %s",
        t->step.batch,
        spt_tokens_text((int64_t)t->step.context, context, sizeof context),
        t->workload,
        spt_time_text(spt_step_target_us(&t->step, &evidence), us, sizeof us));
    spt_print_labelled("load", text);
    spt_survey_print_where(t->survey);
    print_room(t);
}

static void print_row(const table *t, size_t i)
{
    const spt_choice *c = choice_of(t, i);
    const spt_drafter *d = &t->survey->drafters[i];
    char common[24], draft[24], verify[24];
    double own = spt_drafter_weight_bytes(d, &t->survey->target);
    spt_time_text(common_us(t, i), common, sizeof common);
    printf("%-9s %-10.10s %6.2f  %9s", spt_drafter_name(d->method),
           words_of(t, i)->passes, own / 1e9, common);
    if (!c->known) {
        printf(c->fits ? "   -\n" : "   -  does not fit the board\n");
        return;
    }
    printf("  %2d  %5.2f  %9s  %9s  %5.2fx\n", c->draft_length,
           c->expected_length, spt_time_text(c->draft_us, draft, sizeof draft),
           spt_time_text(c->verify_us, verify, sizeof verify), c->speedup);
}

/* Microseconds of a step in which an engine restores states; 0: elsewhere they
   are kept apart. */
static double restore_us(const table *t, size_t drafter)
{
    const spt_load l = spt_step_load(&t->step, &t->survey->drafters[drafter]);
    return l.serving ? spt_serving_restore_us(&l, t->step.batch, COMMON_LENGTH)
                     : 0;
}

/* What a rejected draft costs a target with states of fixed size. */
static const char *restore_text(const table *t, size_t drafter, char *text,
                                size_t size)
{
    const spt_target *target = &t->survey->target;
    double us = restore_us(t, drafter);
    double bytes = spt_target_sequence_bytes(target, t->step.kv_bytes, 0);
    char time[24];
    if (us > 0)
        snprintf(text, size,
                 "%.0f MB of states of %lld linear layers for each sequence, "
                 "copied out and back, and kept drafts computed again: %s",
                 bytes / 1e6, (long long)target->linear_layers,
                 spt_time_text(us, time, sizeof time));
    else
        snprintf(text, size,
                 "%.0f MB of states of %lld linear layers are kept for each "
                 "sequence and draft; a rejection takes an earlier one",
                 bytes / 1e6, (long long)target->linear_layers);
    return text;
}

static void print_words(const table *t, size_t i)
{
    const spt_choice *c = choice_of(t, i);
    const spt_method_words *w = words_of(t, i);
    char text[1000], source[400];
    printf("\n%s\n", spt_drafter_name(t->survey->drafters[i].method));
    spt_print_labelled("  shape", t->survey->drafters[i].shape);
    spt_print_labelled("  needs", w->needs);
    snprintf(text, sizeof text, "%s (%s)", w->training, w->training_source);
    spt_print_labelled("  training", text);
    spt_print_labelled("  wins", w->wins);
    spt_print_labelled("  loses", w->loses);
    if (c->table)
        snprintf(text, sizeof text, "E[L] of %s%s: %s",
                 spt_table_text(&t->survey->acceptance, c->table, source,
                                sizeof source),
                 c->borrowed ? " (another target)" : "", c->table->source);
    else
        snprintf(text, sizeof text, "%s", c->reason);
    spt_print_labelled("  evidence", text);
    if (t->survey->target.linear_layers)
        spt_print_labelled("  restores", restore_text(t, i, text, sizeof text));
    if (c->known)
        spt_print_labelled("  tree",
                           spt_tree_text(&c->tree, text, sizeof text));
}

static void print_table(const table *t)
{
    size_t n = t->survey->input.n_drafters;
    print_head(t);
    printf(
        "\nmethod    passes     own GB   draft(%d)   D   E[L]      draft     "
        "verify  speed\n",
        COMMON_LENGTH);
    for (size_t i = 0; i < n; i++)
        print_row(t, i);
    for (size_t i = 0; i < n; i++)
        print_words(t, i);
    printf("\n");
    spt_survey_print_times(t->survey);
    spt_print_labelled("speed", "E[L] x target / (draft + verify); - where no "
                                "table of acceptance is known");
}

static void add_number(cJSON *o, const char *field, bool known, double value)
{
    if (known)
        spt_json_add4(o, field, value);
    else
        cJSON_AddNullToObject(o, field);
}

static cJSON *method_json(const table *t, size_t i)
{
    const spt_choice *c = choice_of(t, i);
    const spt_method_words *w = words_of(t, i);
    const spt_drafter *d = &t->survey->drafters[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "method", spt_drafter_name(d->method));
    cJSON_AddStringToObject(o, "shape", d->shape);
    cJSON_AddStringToObject(o, "needs", w->needs);
    cJSON_AddStringToObject(o, "training", w->training);
    cJSON_AddStringToObject(o, "training_source", w->training_source);
    cJSON_AddStringToObject(o, "passes", w->passes);
    cJSON_AddNumberToObject(o, "weight_bytes",
                            spt_drafter_weight_bytes(d, &t->survey->target));
    spt_json_add4(o, "draft_4_us", common_us(t, i));
    add_number(o, "draft_length", c->known, c->draft_length);
    add_number(o, "expected_length", c->known, c->expected_length);
    spt_json_add4(o, "target_us", c->target_us);
    add_number(o, "draft_us", c->known, c->draft_us);
    add_number(o, "verify_us", c->known, c->verify_us);
    add_number(o, "speedup", c->known, c->speedup);
    spt_json_add4(o, "memory_bytes", memory_of(t, i));
    spt_json_add4(o, "restore_us", restore_us(t, i));
    spt_json_add4(o, "running", c->running);
    cJSON_AddStringToObject(o, "wins", w->wins);
    cJSON_AddStringToObject(o, "loses", w->loses);
    cJSON_AddStringToObject(o, "acceptance", c->table ? c->table->source : "");
    cJSON_AddStringToObject(o, "reason", c->reason);
    cJSON_AddStringToObject(o, "evidence", c->evidence);
    return o;
}

static cJSON *table_json(const table *t)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "spectune.methods/1");
    cJSON_AddStringToObject(o, "board", t->survey->board.name);
    cJSON_AddStringToObject(o, "model", t->survey->target.name);
    cJSON_AddNumberToObject(o, "batch", t->step.batch);
    cJSON_AddNumberToObject(o, "context", t->step.context);
    cJSON_AddStringToObject(o, "workload", t->workload);
    spt_survey_json(t->survey, o);
    cJSON *list = cJSON_AddArrayToObject(o, "methods");
    for (size_t i = 0; i < t->survey->input.n_drafters; i++)
        cJSON_AddItemToArray(list, method_json(t, i));
    return o;
}

static spt_status run(spt_survey *survey, const spt_survey_ask *ask, void *user,
                      spt_error *err)
{
    spt_choices choices;
    cJSON *root = NULL;
    spt_method_words words[SPT_METHOD_COUNT];
    const char *workload = ask->workload;
    (void)user;
    SPT_TRY(spt_survey_begin(survey, &workload, err));
    /* Of several loads the first counts. */
    survey->input.n_batches = survey->input.n_contexts = 1;
    spt_status status =
        spt_methods_read(spt_gen_root(survey->builder.gen), &root, words, err);
    if (status == SPT_OK)
        status = spt_choose(&survey->input, &choices, err);
    if (status == SPT_OK) {
        const table t = {survey, &choices, words, workload,
                         spt_survey_step(survey, survey->batches[0],
                                         survey->input.contexts[0])};
        if (ask->json)
            spt_print_json(table_json(&t));
        else
            print_table(&t);
        spt_choices_free(&choices);
    }
    cJSON_Delete(root);
    return status;
}

int spt_cmd_methods(int argc, char **argv)
{
    spt_survey_options o = {
        .link_us = -1,
        .batches = {1, {1}},
        .contexts = {1, {8192}},
        .drafters = {.count = 6,
                     .values = {"external", "eagle3", "mtp", "dflash", "dspark",
                                "ngram"}},
    };
    const spt_option own[] = {
        {"heads", 0, SPT_OPTION_TEXT, &o.heads, "Q/KV",
         "query heads / KV heads, for a stand-in", 0, 0},
    };
    const spt_survey_command command = {
        .name = "spectune methods",
        .summary = "Shows the drafting methods side by side for a target: "
                   "needs, training, time, expected length, speedup. Of "
                   "several batches or contexts the first counts.",
        .own = own,
        .n_own = sizeof own / sizeof *own,
        .options = &o,
        .run = run,
    };
    return spt_survey_main(&command, argc, argv);
}
