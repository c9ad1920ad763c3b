/*
 * spectune why: one choice of draft length taken apart. The terms of the
 * verify step around it, the term that makes longer drafts dear, and what
 * would change the answer: batch, context, acceptance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "commands.h"
#include "deployment.h"
#include "json.h"
#include "options.h"
#include "pick.h"
#include "show.h"
#include "survey_command.h"

enum { SHOWN_MAX = 6, BATCH_MAX = 4096, CONTEXT_MAX = 1 << 22 };

typedef struct length {
    int draft_length, rows;
    spt_step_terms terms;
    double verify_us, draft_us, speedup; /* speedup negative: unknown */
    double expected; /* E[L], negative: unknown */
} length;

/* Where the answer becomes another one; 0 = nowhere that was looked at. */
typedef struct flip {
    double at;
    int draft_length; /* from there on */
} flip;

typedef struct account {
    const spt_survey *survey;
    const spt_drafter *drafter;
    const spt_table *table;
    const char *workload;
    bool borrowed;
    spt_step step;
    spt_pick pick;
    length lengths[SHOWN_MAX];
    int count;
    spt_term dear; /* what grows most beyond the choice */
    double dear_share; /* of the growth */
    flip batch, batch_off, context, worse, better;
    spt_pick independent; /* of a mixture whose rows share no experts */
    spt_gate gate;
} account;

static length length_of(const account *a, int d)
{
    length l = {.draft_length = d};
    const spt_target *t = a->step.target;
    double sum = d ? a->table->expected[d] : 0;
    l.rows = (int)(t->q_heads / t->kv_heads) * (1 + d);
    spt_step_verify_terms(&a->step, d, &l.terms);
    l.verify_us = spt_step_total_us(&l.terms);
    l.draft_us = spt_step_draft_us(&a->step, a->drafter, d);
    l.speedup = spt_pick_speedup(&a->step, a->drafter, a->table, d);
    l.expected = sum < 0 ? -1 : 1 + (d ? a->table->match_rate : 0) * sum;
    return l;
}

/* 0, the pick and its neighbours, some more, the last that kernels offer. */
static void make_lengths(account *a)
{
    int pick = a->pick.draft_length, shown = -1;
    const int wanted[SHOWN_MAX] = {0,        pick - 1, pick,
                                   pick + 1, pick + 4, SPT_DRAFT_MAX};
    for (int i = 0; i < SHOWN_MAX; i++)
        if (wanted[i] > shown && wanted[i] <= a->drafter->max_draft) {
            shown = wanted[i];
            a->lengths[a->count++] = length_of(a, shown);
        }
}

/* Of the step from the pick to four drafts more, the term that grows most. */
static void find_dear(account *a)
{
    spt_step_terms now, then;
    int pick = a->pick.draft_length;
    int more = pick + 4 <= SPT_DRAFT_MAX ? pick + 4 : SPT_DRAFT_MAX;
    double growth = 0;
    spt_step_verify_terms(&a->step, pick, &now);
    spt_step_verify_terms(&a->step, more, &then);
    for (int i = 0; i < SPT_TERM_COUNT; i++) {
        double grown = then.us[i] - now.us[i];
        growth += grown;
        if (grown > then.us[a->dear] - now.us[a->dear])
            a->dear = (spt_term)i;
    }
    double grown = then.us[a->dear] - now.us[a->dear];
    a->dear_share = growth > 0 ? grown / growth : 0;
}

/* Sequences that wait would take turns: no step of that batch runs. */
static bool all_run(const account *a, const spt_step *step, spt_pick pick)
{
    return pick.draft_length >= 0 &&
           spt_step_running(step, a->drafter, pick.draft_length) >= step->batch;
}

static void find_batches(account *a)
{
    spt_step step = a->step;
    for (step.batch *= 2; step.batch <= BATCH_MAX; step.batch *= 2) {
        spt_pick pick = spt_pick_length(&step, a->drafter, a->table);
        if (!all_run(a, &step, pick))
            return;
        if (!a->batch.at && pick.draft_length != a->pick.draft_length)
            a->batch = (flip){step.batch, pick.draft_length};
        if (pick.draft_length == 0) {
            a->batch_off = (flip){step.batch, 0};
            return;
        }
    }
}

static void find_context(account *a)
{
    spt_step step = a->step;
    double from = step.context < 512 ? 512 : step.context;
    for (step.context = from * 2; step.context <= CONTEXT_MAX;
         step.context *= 2) {
        spt_pick pick = spt_pick_length(&step, a->drafter, a->table);
        if (!all_run(a, &step, pick))
            return;
        if (pick.draft_length != a->pick.draft_length) {
            a->context = (flip){step.context, pick.draft_length};
            return;
        }
    }
}

/* Drafts kept less often, or more, by hundredths. */
static flip find_acceptance(const account *a, double step)
{
    for (int i = 1; i <= 60; i++) {
        double factor = 1 + step * i;
        spt_table table = spt_pick_scaled(a->table, factor);
        if (table.expected[1] < 0)
            break;
        spt_pick pick = spt_pick_length(&a->step, a->drafter, &table);
        if (pick.draft_length >= 0 && pick.draft_length != a->pick.draft_length)
            return (flip){factor, pick.draft_length};
    }
    return (flip){0};
}

/* The answer where the assumption of target.h does not hold. */
static void find_independent(account *a)
{
    spt_step step = a->step;
    spt_target target = *step.target;
    target.experts_exponent = 1;
    step.target = &target;
    a->independent = spt_pick_length(&step, a->drafter, a->table);
}

/* What stopping early could do; lengths that do not fit are left out. */
static void find_gate(account *a)
{
    double verify[SPT_DRAFT_MAX + 1], draft[SPT_DRAFT_MAX + 1];
    const char *evidence;
    const spt_gate_times times = {
        verify, draft, spt_drafter_is_block(a->drafter->method), a->step.batch};
    int longest = 0, max = a->drafter->max_draft;
    for (int d = 0; d <= max; d++) {
        verify[d] = spt_step_verify_us(&a->step, d, &evidence);
        draft[d] = spt_step_draft_us(&a->step, a->drafter, d);
        double bytes = spt_step_memory_bytes(&a->step, a->drafter, d);
        if (d == longest + 1 && spt_step_fits(&a->step, a->drafter, d, bytes))
            longest = d;
    }
    spt_gate_weigh(a->drafter, a->table, &times, longest, a->pick.draft_length,
                   a->pick.speedup / verify[0], &a->gate);
}

static void make_account(account *a)
{
    make_lengths(a);
    find_dear(a);
    find_batches(a);
    find_context(a);
    a->worse = find_acceptance(a, -0.01);
    a->better = find_acceptance(a, 0.01);
    find_gate(a);
    if (a->step.target->moe_layers)
        find_independent(a);
}

/* Draft lengths side by side, one term below the other. */
static void print_cell(double value, const char *format)
{
    char text[24] = "-";
    if (value >= 0)
        snprintf(text, sizeof text, format, value);
    printf(" %9s", text);
}

static void print_times(const account *a, const char *name,
                        double (*time)(const length *l, int term), int term)
{
    char text[24];
    printf("%-14s", name);
    for (int i = 0; i < a->count; i++)
        printf(" %9s",
               spt_time_text(time(&a->lengths[i], term), text, sizeof text));
    putchar('\n');
}

static double term_us(const length *l, int term)
{
    return l->terms.us[term];
}

static double verify_us(const length *l, int term)
{
    (void)term;
    return l->verify_us;
}

static double draft_us(const length *l, int term)
{
    (void)term;
    return l->draft_us;
}

static void print_chosen(int draft_length, int pick)
{
    char text[16];
    snprintf(text, sizeof text, "%s%d", draft_length == pick ? "> " : "",
             draft_length);
    printf(" %9s", text);
}

static void print_lengths(const account *a)
{
    printf("\n%-14s", "D");
    for (int i = 0; i < a->count; i++)
        print_chosen(a->lengths[i].draft_length, a->pick.draft_length);
    printf("\n%-14s", "rows");
    for (int i = 0; i < a->count; i++)
        printf(" %9d", a->lengths[i].rows);
    putchar('\n');
    for (int t = 0; t < SPT_TERM_COUNT; t++)
        if (a->lengths[0].terms.us[t] > 0)
            print_times(a, spt_term_name((spt_term)t), term_us, t);
    print_times(a, "verify", verify_us, 0);
    print_times(a, "draft", draft_us, 0);
    printf("%-14s", "E[L]");
    for (int i = 0; i < a->count; i++)
        print_cell(a->lengths[i].expected, "%.2f");
    printf("\n%-14s", "speed");
    for (int i = 0; i < a->count; i++)
        print_cell(a->lengths[i].speedup, "%.2fx");
    putchar('\n');
}

static void print_flips(const account *a)
{
    char text[200], context[24];
    printf("\nWhat would change the answer\n");
    if (a->batch.at)
        snprintf(text, sizeof text, "from batch %.0f on: D = %d", a->batch.at,
                 a->batch.draft_length);
    else
        snprintf(text, sizeof text, "the same for every larger one that fits");
    if (a->batch_off.at && a->batch_off.at != a->batch.at)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "; from batch %.0f on drafts do not pay", a->batch_off.at);
    spt_print_labelled("  batch", text);
    if (a->context.at)
        snprintf(
            text, sizeof text, "from context %s on: D = %d",
            spt_tokens_text((int64_t)a->context.at, context, sizeof context),
            a->context.draft_length);
    else
        snprintf(text, sizeof text, "the same for every longer one that fits");
    spt_print_labelled("  context", text);
    if (a->worse.at)
        snprintf(text, sizeof text,
                 "drafts kept %.0f %% less often each: D = %d",
                 100 * (1 - a->worse.at), a->worse.draft_length);
    else
        snprintf(text, sizeof text, "not known by position");
    if (a->better.at)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "; %.0f %% more often: D = %d", 100 * (a->better.at - 1),
                 a->better.draft_length);
    spt_print_labelled("  kept", text);
    if (a->step.target->moe_layers) {
        snprintf(text, sizeof text,
                 "rows of a sequence that share none: D = %d, %.2fx",
                 a->independent.draft_length, a->independent.speedup);
        spt_print_labelled("  experts", text);
    }
    spt_print_labelled("  gate", spt_gate_text(&a->gate, text, sizeof text));
}

static void print_account(const account *a)
{
    char text[700], table[400], context[24];
    const spt_target *t = a->step.target;
    spt_print_labelled("board", a->step.board->title);
    snprintf(text, sizeof text, "%s, %s, %.1f GB, %lld/%lld heads%s", t->name,
             t->weights, t->weight_bytes / 1e9, (long long)t->q_heads,
             (long long)t->kv_heads,
             t->kv_rank ? " (latent attention, absorbed)" : "");
    spt_print_labelled("target", text);
    snprintf(text, sizeof text, "%s: %s", a->drafter->name, a->drafter->shape);
    spt_print_labelled("drafter", text);
    snprintf(
        text, sizeof text, "batch %d, context %s, %s: %s%s", a->step.batch,
        spt_tokens_text((int64_t)a->step.context, context, sizeof context),
        a->workload,
        spt_table_text(&a->survey->acceptance, a->table, table, sizeof table),
        a->borrowed ? " (another target's)" : "");
    spt_print_labelled("load", text);
    spt_survey_print_where(a->survey);
    double running =
        spt_step_running(&a->step, a->drafter, a->pick.draft_length);
    if (running < a->step.batch)
        spt_print_labelled(
            "waits", spt_waits_text(a->step.batch, running, text, sizeof text));
    snprintf(text, sizeof text,
             "D = %d, %.2f times plain decoding (the fastest; of lengths "
             "within 0.5 %% of it the shortest)",
             a->pick.draft_length, a->pick.speedup);
    spt_print_labelled("choice", text);
    print_lengths(a);
    snprintf(text, sizeof text,
             "%s: %.0f %% of what verification takes more with longer drafts",
             spt_term_name(a->dear), 100 * a->dear_share);
    printf("\n");
    spt_print_labelled("dear", text);
    print_flips(a);
    printf("\n");
    spt_survey_print_times(a->survey);
}

static void add_flip(cJSON *o, const char *name, flip f)
{
    if (!f.at) {
        cJSON_AddNullToObject(o, name);
        return;
    }
    cJSON *item = cJSON_AddObjectToObject(o, name);
    spt_json_add4(item, "at", f.at);
    cJSON_AddNumberToObject(item, "draft_length", f.draft_length);
}

static cJSON *length_json(const length *l)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "draft_length", l->draft_length);
    cJSON_AddNumberToObject(o, "rows", l->rows);
    cJSON *terms = cJSON_AddObjectToObject(o, "terms_us");
    for (int i = 0; i < SPT_TERM_COUNT; i++)
        spt_json_add4(terms, spt_term_name((spt_term)i), l->terms.us[i]);
    spt_json_add4(o, "verify_us", l->verify_us);
    spt_json_add4(o, "draft_us", l->draft_us);
    spt_json_add4(o, "expected_length", l->expected < 0 ? NAN : l->expected);
    spt_json_add4(o, "speedup", l->speedup < 0 ? NAN : l->speedup);
    return o;
}

static void add_flips(cJSON *o, const account *a)
{
    cJSON *flips = cJSON_AddObjectToObject(o, "flips");
    add_flip(flips, "batch", a->batch);
    add_flip(flips, "batch_off", a->batch_off);
    add_flip(flips, "context", a->context);
    add_flip(flips, "acceptance_down", a->worse);
    add_flip(flips, "acceptance_up", a->better);
    if (a->step.target->moe_layers) {
        cJSON *independent = cJSON_AddObjectToObject(flips, "experts_apart");
        cJSON_AddNumberToObject(independent, "draft_length",
                                a->independent.draft_length);
        spt_json_add4(independent, "speedup", a->independent.speedup);
    }
}

static cJSON *account_json(const account *a)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "spectune.why/1");
    cJSON_AddStringToObject(o, "board", a->step.board->name);
    cJSON_AddStringToObject(o, "model", a->step.target->name);
    cJSON_AddStringToObject(o, "drafter", a->drafter->name);
    cJSON_AddStringToObject(o, "workload", a->workload);
    spt_survey_json(a->survey, o);
    cJSON_AddNumberToObject(o, "batch", a->step.batch);
    cJSON_AddNumberToObject(o, "context", a->step.context);
    cJSON_AddNumberToObject(o, "draft_length", a->pick.draft_length);
    spt_json_add4(o, "speedup", a->pick.speedup);
    spt_json_add4(o, "running",
                  spt_step_running(&a->step, a->drafter, a->pick.draft_length));
    cJSON *lengths = cJSON_AddArrayToObject(o, "lengths");
    for (int i = 0; i < a->count; i++)
        cJSON_AddItemToArray(lengths, length_json(&a->lengths[i]));
    cJSON_AddStringToObject(o, "dear", spt_term_name(a->dear));
    spt_json_add4(o, "dear_share", a->dear_share);
    add_flips(o, a);
    if (a->gate.known) {
        cJSON *gate = cJSON_AddObjectToObject(o, "gate");
        cJSON_AddNumberToObject(gate, "draft_length", a->gate.draft_length);
        spt_json_add4(gate, "best_gain", a->gate.best);
        spt_json_add4(gate, "worst_gain", a->gate.worst);
    } else {
        cJSON_AddNullToObject(o, "gate");
    }
    cJSON_AddStringToObject(o, "evidence", "modelled");
    return o;
}

static spt_status no_table(const account *a, spt_error *err)
{
    char others[100];
    spt_survey_workloads_of(a->survey, a->drafter, others, sizeof others);
    return spt_fail(err, SPT_E_USAGE,
                    "--drafter %s: no acceptance table for %s on %s, expected "
                    "--acceptance FILE with one%s%s",
                    a->drafter->name, a->step.target->name, a->workload,
                    *others ? ", or --workload " : "", others);
}

static spt_status run(spt_survey *s, const spt_survey_ask *ask, void *user,
                      spt_error *err)
{
    (void)user;
    account a = {
        .survey = s, .drafter = &s->drafters[0], .workload = ask->workload};
    SPT_TRY(spt_survey_begin(s, &a.workload, err));
    a.step = spt_survey_step(s, s->batches[0], s->input.contexts[0]);
    a.table = spt_choose_table(&s->input, a.drafter, a.workload, &a.borrowed);
    if (!a.table)
        return no_table(&a, err);
    const spt_serving *serving = s->input.where.serving;
    if (serving && !spt_serving_has(serving, a.drafter->method))
        return spt_fail(err, SPT_E_USAGE,
                        "--drafter %s: expected a method that %s has",
                        a.drafter->name, serving->name);
    a.pick = spt_pick_length(&a.step, a.drafter, a.table);
    if (a.pick.draft_length < 0)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "%s at batch %d and context %lld does not fit %s",
                        s->target.name, a.step.batch, (long long)a.step.context,
                        s->board.name);
    make_account(&a);
    if (ask->json)
        spt_print_json(account_json(&a));
    else
        print_account(&a);
    return SPT_OK;
}

int spt_cmd_why(int argc, char **argv)
{
    spt_survey_options o = {
        .link_us = -1,
        .batches = {1, {1}},
        .contexts = {1, {8192}},
        .drafters = {.count = 1, .values = {"eagle3"}},
    };
    const spt_option own[] = {
        {"heads", 0, SPT_OPTION_TEXT, &o.heads, "Q/KV",
         "query heads / KV heads, for a stand-in", 0, 0},
        {"drafter", 0, SPT_OPTION_TEXT, &o.drafters.values[0], "NAME",
         "the drafter (eagle3)", 0, 0},
    };
    const spt_survey_command command = {
        .name = "spectune why",
        .summary = "Takes one choice of draft length apart: what the step's "
                   "time is made of, which part makes longer drafts dear, and "
                   "what would change the answer.",
        .own = own,
        .n_own = sizeof own / sizeof *own,
        .options = &o,
        .run = run,
    };
    return spt_survey_main(&command, argc, argv);
}
