/*
 * spectune codesign: for people who still design the model. Over the number of
 * KV heads: KV bytes, the rung that draft rows fill, the best draft length and
 * the block to train a drafter for, beside the published rule.
 */
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

typedef struct job {
    spt_survey *survey;
    int64_t q_heads;
    const char *workload;
    const spt_table *table; /* of the drafter on the workload */
    bool borrowed; /* it is another target's */
} job;

/* One design on one load. */
typedef struct design {
    int kv_heads, group;
    double token_bytes; /* KV of one token more, past full windows */
    spt_rule rule;
    double rule_speedup; /* at the published length; negative: unknown */
    spt_pick pick;
    int rows; /* of the pick's draft block */
    double target_us, verify_us, draft_us;
} design;

/* Groups that kernels offer: up to 128 query heads for one KV head. */
static bool is_design(int q_heads, int kv_heads)
{
    return q_heads % kv_heads == 0 && q_heads / kv_heads <= 128;
}

/* The model with other heads: query heads and KV heads are replaced. */
static spt_status make_target(job *j, int kv_heads, spt_target *target,
                              spt_error *err)
{
    const spt_survey_options *o = j->survey->options;
    if (!o->model)
        return spt_target_stand_in((int)j->q_heads, kv_heads,
                                   spt_survey_head_dim(o), o->weights, target,
                                   err);
    SPT_TRY(spt_target_load(spt_gen_root(j->survey->builder.gen), o->model,
                            o->weights, target, err));
    if (target->kv_rank)
        return spt_fail(err, SPT_E_USAGE,
                        "--model %s: has latent attention, whose KV does not "
                        "depend on KV heads",
                        o->model);
    target->q_heads = j->q_heads;
    target->kv_heads = kv_heads;
    return spt_target_finish(target, err);
}

static spt_status find_table(job *j, spt_error *err)
{
    const spt_drafter *drafter = &j->survey->drafters[0];
    spt_choose_input any = j->survey->input;
    spt_target nobody = j->survey->target;
    j->table = spt_choose_table(&any, drafter, j->workload, &j->borrowed);
    /* A new design has no acceptance of its own: that of any target. */
    nobody.stand_in = true;
    any.target = &nobody;
    if (!j->table)
        j->table = spt_choose_table(&any, drafter, j->workload, &j->borrowed);
    if (!j->table)
        return spt_fail(err, SPT_E_USAGE,
                        "--drafter %s: no acceptance table on %s for any "
                        "target, expected --acceptance FILE with one",
                        drafter->name, j->workload);
    return SPT_OK;
}

static void weigh(const job *j, int batch, int64_t context, design *d)
{
    const spt_survey *s = j->survey;
    const spt_drafter *drafter = &s->drafters[0];
    spt_step step = spt_survey_step(s, batch, context);
    const char *evidence;
    d->kv_heads = (int)s->target.kv_heads;
    d->group = (int)(s->target.q_heads / s->target.kv_heads);
    d->token_bytes = spt_target_sequence_bytes(&s->target, s->input.kv_bytes,
                                               (double)context + 1) -
                     spt_target_sequence_bytes(&s->target, s->input.kv_bytes,
                                               (double)context);
    d->rule = spt_published_rule(d->group);
    d->rule_speedup =
        d->rule.draft_length <= SPT_DRAFT_MAX
            ? spt_pick_speedup(&step, drafter, j->table, d->rule.draft_length)
            : -1;
    d->pick = spt_pick_length(&step, drafter, j->table);
    if (d->pick.draft_length < 0)
        d->rule_speedup = -1;
    int length = d->pick.draft_length > 0 ? d->pick.draft_length : 0;
    d->rows = d->group * (1 + length);
    d->target_us = spt_step_target_us(&step, &evidence);
    d->verify_us = spt_step_verify_us(&step, length, &evidence);
    d->draft_us = spt_step_draft_us(&step, drafter, length);
}

/* All loads of all designs, in the order of divisors, batches, contexts. */
static spt_status weigh_all(job *j, design *designs, spt_error *err)
{
    spt_survey *s = j->survey;
    size_t n = 0;
    for (int kv = (int)j->q_heads; kv >= 1; kv--) {
        spt_target target;
        if (!is_design((int)j->q_heads, kv))
            continue;
        SPT_TRY(make_target(j, kv, &target, err));
        SPT_TRY(spt_survey_take(s, &target, err));
        SPT_TRY(spt_survey_pick_kernels(s, err));
        if (!j->workload)
            j->workload = spt_survey_usual_workload(s);
        SPT_TRY(spt_survey_workload(s, j->workload, err));
        SPT_TRY(find_table(j, err));
        for (int b = 0; b < s->options->batches.count; b++)
            for (int c = 0; c < s->options->contexts.count; c++)
                weigh(j, s->batches[b], s->options->contexts.values[c],
                      &designs[n++]);
    }
    return SPT_OK;
}

static int count_designs(int q_heads)
{
    int n = 0;
    for (int kv = 1; kv <= q_heads; kv++)
        n += is_design(q_heads, kv);
    return n;
}

static void print_row(const design *d)
{
    char target[24], verify[24], rule[24] = "-";
    if (d->rule_speedup > 0)
        snprintf(rule, sizeof rule, "%.2fx", d->rule_speedup);
    printf("%4d %4d %9.1f  %4d %7s ", d->kv_heads, d->group,
           d->token_bytes / 1024, d->rule.draft_length, rule);
    if (d->pick.draft_length < 0) {
        printf("  does not fit the board\n");
        return;
    }
    printf(" %3d %5d %4d  %5.2fx  %9s %9s\n", d->pick.draft_length,
           d->pick.draft_length + 1, d->rows, d->pick.speedup,
           spt_time_text(d->target_us, target, sizeof target),
           spt_time_text(d->verify_us, verify, sizeof verify));
}

static void print_designs(const job *j, const design *designs)
{
    const spt_survey *s = j->survey;
    int loads = s->options->batches.count * s->options->contexts.count;
    int n = count_designs((int)j->q_heads);
    char text[1000], table[400], context[24];
    spt_print_labelled("board", s->board.title);
    snprintf(text, sizeof text, "%s, %lld query heads, head dim %lld, %s",
             s->options->model ? s->target.name : "stand-in",
             (long long)j->q_heads, (long long)s->target.head_dim,
             s->target.weights);
    spt_print_labelled("model", text);
    snprintf(text, sizeof text, "%s; %s on %s: %s%s; %s", s->drafters[0].shape,
             s->drafters[0].name, j->workload,
             spt_table_text(&s->acceptance, j->table, table, sizeof table),
             j->borrowed ? " (another target's)" : "", j->table->source);
    spt_print_labelled("drafter", text);
    spt_survey_print_where(s);
    for (int load = 0; load < loads; load++) {
        int64_t tokens =
            s->options->contexts.values[load % s->options->contexts.count];
        printf("\nbatch %d, context %s\n",
               s->batches[load / s->options->contexts.count],
               spt_tokens_text(tokens, context, sizeof context));
        printf("  KV    G  KV KiB/t  rule   speed    D block rows   speed     "
               "target    verify\n");
        for (int i = 0; i < n; i++)
            print_row(&designs[i * loads + load]);
    }
    printf("\n");
    spt_print_labelled("rule", "the published D = 128 / G - 1, and what it "
                               "gains (-: no acceptance is known that far)");
    spt_print_labelled("KV", "of one token more at that context");
    spt_print_labelled("rows",
                       "G x (1 + D); kernels fill them up to 8, 16, 32, "
                       "64 or 128");
    spt_print_labelled("D", "the fastest; of lengths within 0.5 % of it the "
                            "shortest");
    spt_survey_print_times(s);
}

static cJSON *design_json(const job *j, const design *d, int load)
{
    const spt_survey_options *options = j->survey->options;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "kv_heads", d->kv_heads);
    cJSON_AddNumberToObject(o, "group", d->group);
    cJSON_AddNumberToObject(o, "kv_token_bytes", d->token_bytes);
    cJSON_AddNumberToObject(o, "batch",
                            j->survey->batches[load / options->contexts.count]);
    cJSON_AddNumberToObject(
        o, "context",
        (double)options->contexts.values[load % options->contexts.count]);
    cJSON_AddNumberToObject(o, "rule_draft_length", d->rule.draft_length);
    if (d->rule_speedup > 0)
        spt_json_add4(o, "rule_speedup", d->rule_speedup);
    else
        cJSON_AddNullToObject(o, "rule_speedup");
    if (d->pick.draft_length < 0) {
        cJSON_AddNullToObject(o, "draft_length");
        return o;
    }
    cJSON_AddNumberToObject(o, "draft_length", d->pick.draft_length);
    cJSON_AddNumberToObject(o, "block", d->pick.draft_length + 1);
    cJSON_AddNumberToObject(o, "rows", d->rows);
    spt_json_add4(o, "target_us", d->target_us);
    spt_json_add4(o, "draft_us", d->draft_us);
    spt_json_add4(o, "verify_us", d->verify_us);
    spt_json_add4(o, "speedup", d->pick.speedup);
    cJSON_AddStringToObject(o, "evidence", "modelled");
    return o;
}

static cJSON *designs_json(const job *j, const design *designs)
{
    const spt_survey_options *options = j->survey->options;
    int loads = options->batches.count * options->contexts.count;
    int n = count_designs((int)j->q_heads) * loads;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "schema", "spectune.codesign/1");
    cJSON_AddStringToObject(o, "board", j->survey->board.name);
    cJSON_AddStringToObject(o, "model",
                            options->model ? j->survey->target.name : "");
    cJSON_AddNumberToObject(o, "q_heads", (double)j->q_heads);
    cJSON_AddStringToObject(o, "drafter", j->survey->drafters[0].name);
    cJSON_AddStringToObject(o, "workload", j->workload);
    spt_survey_json(j->survey, o);
    cJSON *list = cJSON_AddArrayToObject(o, "designs");
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, design_json(j, &designs[i], i % loads));
    return o;
}

static spt_status run(spt_survey *s, const spt_survey_ask *ask, void *user,
                      spt_error *err)
{
    job *j = user;
    const spt_survey_options *o = s->options;
    if (j->q_heads < 1)
        return spt_fail(err, SPT_E_USAGE,
                        "--q-heads: expected the number of query heads");
    j->survey = s;
    j->workload = ask->workload;
    size_t count = (size_t)count_designs((int)j->q_heads) *
                   (size_t)o->batches.count * (size_t)o->contexts.count;
    design *designs = spt_calloc(count, sizeof *designs);
    if (!designs)
        return spt_fail(err, SPT_E_MEMORY, "codesign: out of memory");
    spt_status status = weigh_all(j, designs, err);
    if (status == SPT_OK && ask->json)
        spt_print_json(designs_json(j, designs));
    else if (status == SPT_OK)
        print_designs(j, designs);
    spt_free(designs);
    return status;
}

int spt_cmd_codesign(int argc, char **argv)
{
    job j = {0};
    spt_survey_options o = {
        .link_us = -1,
        .batches = {2, {1, 16}},
        .contexts = {2, {8192, 65536}},
        .drafters = {.count = 1, .values = {"eagle3"}},
    };
    const spt_option own[] = {
        {"q-heads", 0, SPT_OPTION_INT, &j.q_heads, "N", "query heads", 1, 1024},
        {"drafter", 0, SPT_OPTION_TEXT, &o.drafters.values[0], "NAME",
         "drafter to design for (eagle3)", 0, 0},
    };
    const spt_survey_command command = {
        .name = "spectune codesign",
        .summary = "For a model that is still designed: over the number of KV "
                   "heads, the KV's size, the best draft length, and the "
                   "block to train a drafter for.",
        .own = own,
        .n_own = sizeof own / sizeof *own,
        .options = &o,
        .run = run,
        .user = &j,
    };
    return spt_survey_main(&command, argc, argv);
}
