/*
 * Rates. A step with D drafts commits E[L] = 1 + sum of survivals tokens in
 * T_draft(D) + T_verify(D); plain decoding commits one in T_target. n-gram
 * proposes only at a share h of the steps:
 *   (1 + h * sum) / (h * T(D) + (1 - h) * T(0)).
 * The speedup is the ratio of rates. Draft lengths whose rate lies within the
 * noise of the best are told apart by a fixed order: the shortest wins.
 */
#include "choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const double spt_choose_noise = 0.005;
/* The model's rates are off by more than this (spectune model check). */
static const double model_noise = 0.02;

static const int rungs[] = {8, 16, 32, 64, 128};
enum { TILE_ROWS = 128 };

/* Times of one (batch, context), for every draft length. */
typedef struct cell {
    spt_step step;
    double verify_us[SPT_DRAFT_MAX + 1];
    const char *evidence[SPT_DRAFT_MAX + 1];
    size_t config[SPT_DRAFT_MAX + 1];
} cell;

/* And of one drafter in it. */
typedef struct drafted {
    double draft_us[SPT_DRAFT_MAX + 1];
    double memory[SPT_DRAFT_MAX + 1];
    bool fits[SPT_DRAFT_MAX + 1];
} drafted;

spt_rule spt_published_rule(int group)
{
    int draft_length = TILE_ROWS / group - 1;
    return (spt_rule){TILE_ROWS, draft_length > 0 ? draft_length : 0};
}

static void fill_cell(const spt_choose_input *in, int batch, int64_t context,
                      cell *c)
{
    c->step = (spt_step){.board = in->board,
                         .target = in->target,
                         .kernels = in->kernels,
                         .kv_bytes = in->kv_bytes,
                         .batch = batch,
                         .context = (double)context,
                         .where = in->where};
    for (int d = 0; d <= SPT_DRAFT_MAX; d++) {
        c->verify_us[d] = spt_step_verify_us(&c->step, d, &c->evidence[d]);
        if (!in->where.serving)
            c->config[d] = spt_step_attention(&c->step, d).config;
    }
}

static void fill_drafted(const cell *c, const spt_drafter *drafter, drafted *t)
{
    for (int d = 0; d <= SPT_DRAFT_MAX; d++) {
        t->draft_us[d] = spt_step_draft_us(&c->step, drafter, d);
        t->memory[d] = spt_step_memory_bytes(&c->step, drafter, d);
        t->fits[d] =
            spt_step_fits(&c->step, d ? drafter : NULL, d, t->memory[d]);
    }
}

double spt_choose_rate(const spt_table *table, int d, double plain_us,
                       double step_us)
{
    double sum = table->expected[d], h = table->match_rate;
    if (d == 0)
        return 1 / plain_us;
    if (sum < 0)
        return -1;
    return (1 + h * sum) / (h * step_us + (1 - h) * plain_us);
}

static double rate(const cell *c, const drafted *t, const spt_table *table,
                   int d)
{
    double plain = c->verify_us[0];
    return spt_choose_rate(table, d, plain, t->draft_us[d] + c->verify_us[d]);
}

/* The drafter's model as tables call it: what follows "external:". */
static const char *drafter_model(const spt_drafter *drafter)
{
    if (drafter->method != SPT_METHOD_EXTERNAL)
        return NULL;
    return drafter->model.name;
}

const spt_table *spt_choose_table(const spt_choose_input *in,
                                  const spt_drafter *drafter,
                                  const char *workload, bool *borrowed)
{
    const char *method = spt_drafter_name(drafter->method);
    *borrowed = false;
    const spt_table *t =
        spt_acceptance_find(in->acceptance, method, drafter_model(drafter),
                            in->target->name, workload);
    if (t || !in->target->stand_in)
        return t;
    /* A stand-in has no acceptance of its own; it takes a real target's. */
    *borrowed = true;
    t = spt_acceptance_find(in->acceptance, method, drafter_model(drafter),
                            NULL, workload);
    if (t || strchr(drafter->name, ':'))
        return t;
    return spt_acceptance_find(in->acceptance, method, NULL, NULL, workload);
}

static void say_unknown(const spt_choose_input *in, spt_choice *choice)
{
    const spt_drafter *d = choice->drafter;
    choice->evidence = "modelled";
    if (in->target->stand_in)
        snprintf(choice->reason, sizeof choice->reason,
                 "no acceptance table for %s on %s, of any target",
                 spt_drafter_name(d->method), choice->workload);
    else
        snprintf(choice->reason, sizeof choice->reason,
                 "no acceptance table for %s%s%s with %s on %s", d->name,
                 drafter_model(d) && !strchr(d->name, ':') ? ":" : "",
                 drafter_model(d) && !strchr(d->name, ':') ? d->model.name : "",
                 in->target->name, choice->workload);
}

/* What kept longer drafts out, in words; nothing when all were weighed. */
static void say_limits(const spt_table *table, const drafted *t, int max,
                       spt_choice *choice)
{
    int known = table->known, room = -1;
    for (int d = 0; d <= max && t->fits[d]; d++)
        room = d;
    if (room < max && room < table->longest)
        snprintf(choice->reason, sizeof choice->reason,
                 room < 1 ? "no draft fits the board's memory"
                          : "drafts beyond %d do not fit the board's memory",
                 room);
    else if (known < table->longest)
        snprintf(choice->reason, sizeof choice->reason,
                 "the table knows %d of the draft lengths up to %d", known,
                 table->longest);
    else if (choice->draft_length == table->longest && known < max)
        snprintf(choice->reason, sizeof choice->reason,
                 "the table ends at %d drafts", table->longest);
}

/* Lengths next to the chosen one that the model cannot tell from it. */
static void find_alike(const cell *c, const drafted *t, const spt_table *table,
                       int max, spt_choice *choice)
{
    int chosen = choice->draft_length;
    double least = rate(c, t, table, chosen) * (1 - model_noise);
    choice->alike_from = choice->alike_to = chosen;
    for (int step = -1; step <= 1; step += 2)
        for (int d = chosen + step; d >= 0 && d <= max; d += step) {
            if (d && table->expected[d] < 0)
                continue; /* nothing is known of it */
            if (!(d == 0 || t->fits[d]) || rate(c, t, table, d) < least)
                break;
            *(step < 0 ? &choice->alike_from : &choice->alike_to) = d;
        }
}

/* From which answer on a drafter's pass over every sequence's prompt is won
   back: each of them has one, while a step serves all. */
static void weigh_prefill(const cell *c, const drafted *t,
                          const spt_table *table, spt_choice *choice)
{
    int d = choice->draft_length;
    choice->prefill_us = spt_step_prefill_us(&c->step);
    if (!d)
        return;
    choice->draft_prefill_us =
        spt_step_draft_prefill_us(&c->step, choice->drafter);
    double won = c->verify_us[0] - 1 / rate(c, t, table, d);
    choice->break_even =
        won > 0 ? choice->batch * choice->draft_prefill_us / won : 0;
}

/* What stopping early could gain and lose. */
static void weigh_gate(const cell *c, const drafted *t, const spt_table *table,
                       int max, spt_choice *choice)
{
    const spt_gate_times times = {c->verify_us, t->draft_us,
                                  spt_drafter_is_block(choice->drafter->method),
                                  choice->batch};
    int longest = 0;
    while (longest < max && t->fits[longest + 1])
        longest++;
    spt_gate_weigh(choice->drafter, table, &times, longest,
                   choice->draft_length,
                   rate(c, t, table, choice->draft_length), &choice->gate);
}

/* The best draft length of the ones that are known and fit. */
static void pick(const cell *c, const drafted *t, const spt_table *table,
                 spt_choice *choice)
{
    int max = choice->drafter->max_draft;
    if (max > table->longest)
        max = table->longest;
    double best = rate(c, t, table, 0);
    for (int d = 1; d <= max; d++)
        if (t->fits[d])
            best = fmax(best, rate(c, t, table, d));
    int chosen = 0;
    while (chosen < max &&
           !((chosen == 0 || t->fits[chosen]) &&
             rate(c, t, table, chosen) >= best * (1 - spt_choose_noise)))
        chosen++;
    choice->draft_length = chosen;
    double h = chosen ? table->match_rate : 1;
    choice->expected_length = 1 + h * (chosen ? table->expected[chosen] : 0);
    choice->speedup = rate(c, t, table, chosen) * c->verify_us[0];
    choice->draft_us = t->draft_us[chosen];
    choice->verify_us = c->verify_us[chosen];
    choice->memory_bytes = t->memory[chosen];
    choice->memory = spt_step_footprint(&c->step, choice->drafter, chosen);
    choice->fits = t->fits[chosen];
    choice->running = spt_step_running(&c->step, choice->drafter, chosen);
    choice->config = c->config[chosen];
    choice->evidence = c->evidence[chosen];
    choice->known = true;
    weigh_gate(c, t, table, max, choice);
    spt_tree_weigh(&c->step, choice->drafter, table, c->verify_us[0],
                   choice->speedup, &choice->tree);
    find_alike(c, t, table, max, choice);
    weigh_prefill(c, t, table, choice);
    say_limits(table, t, max, choice);
}

static void choose_one(const spt_choose_input *in, const cell *c,
                       const drafted *t, spt_choice *choice)
{
    char room[100];
    choice->target_us = c->verify_us[0];
    choice->memory_bytes = t->memory[0];
    choice->memory = spt_step_footprint(&c->step, NULL, 0);
    choice->fits = t->fits[0];
    choice->running = spt_step_running(&c->step, NULL, 0);
    choice->config = c->config[0];
    choice->table = spt_choose_table(in, choice->drafter, choice->workload,
                                     &choice->borrowed);
    if (!choice->table) {
        say_unknown(in, choice);
        return;
    }
    const spt_serving *serving = in->where.serving;
    if (serving && !spt_serving_has(serving, choice->drafter->method)) {
        choice->evidence = "modelled";
        snprintf(choice->reason, sizeof choice->reason, "%s does not have %s",
                 serving->name, spt_drafter_name(choice->drafter->method));
        return;
    }
    const char *apart =
        serving ? serving->methods[choice->drafter->method].no_pipeline : "";
    if (in->where.stages > 1 && *apart) {
        choice->evidence = "modelled";
        snprintf(choice->reason, sizeof choice->reason, "%s: %s", serving->name,
                 apart);
        return;
    }
    if (!t->fits[0]) {
        choice->evidence = c->evidence[0];
        snprintf(choice->reason, sizeof choice->reason,
                 "the model and this KV do not fit: %s",
                 spt_step_room_text(&c->step, t->memory[0], room, sizeof room));
        return;
    }
    pick(c, t, choice->table, choice);
}

static void fill_ladder(const spt_choose_input *in, const cell *c,
                        spt_choices *out)
{
    int group = (int)(in->target->q_heads / in->target->kv_heads);
    int last = -1;
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
        int d = rungs[i] / group - 1;
        if (d < 0 || d > SPT_DRAFT_MAX || d == last)
            continue; /* a rung that adds no draft is none */
        last = d;
        spt_attention_best best = spt_step_attention(&c->step, d);
        out->ladder[out->n_rungs++] = (spt_rung){
            .rows = rungs[i],
            .draft_length = d,
            .attention_us = best.us,
            .step_us = c->verify_us[d],
            .config = best.config,
            .evidence = best.evidence,
        };
    }
}

spt_status spt_choose(const spt_choose_input *in, spt_choices *out,
                      spt_error *err)
{
    size_t total =
        in->n_batches * in->n_contexts * in->n_drafters * in->n_workloads;
    spt_choices result = {0};
    if (!in->where.serving && !in->kernels->count)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "choose: no attention kernel to choose from");
    result.list = spt_calloc(total + 1, sizeof *result.list);
    cell *c = spt_calloc(1, sizeof *c);
    drafted *t = spt_calloc(1, sizeof *t);
    if (!result.list || !c || !t) {
        spt_free(result.list);
        spt_free(c);
        spt_free(t);
        return spt_fail(err, SPT_E_MEMORY, "choose: out of memory");
    }
    result.rule =
        spt_published_rule((int)(in->target->q_heads / in->target->kv_heads));
    for (size_t b = 0; b < in->n_batches; b++)
        for (size_t x = 0; x < in->n_contexts; x++) {
            fill_cell(in, in->batches[b], in->contexts[x], c);
            if (b == 0 && x + 1 == in->n_contexts && !in->where.serving) {
                result.ladder_batch = in->batches[b];
                result.ladder_context = in->contexts[x];
                fill_ladder(in, c, &result);
            }
            for (size_t d = 0; d < in->n_drafters; d++) {
                fill_drafted(c, &in->drafters[d], t);
                for (size_t w = 0; w < in->n_workloads; w++) {
                    spt_choice *choice = &result.list[result.count++];
                    choice->batch = in->batches[b];
                    choice->context = in->contexts[x];
                    choice->drafter = &in->drafters[d];
                    choice->workload = in->workloads[w];
                    choose_one(in, c, t, choice);
                }
            }
        }
    spt_free(c);
    spt_free(t);
    *out = result;
    return SPT_OK;
}

void spt_choices_free(spt_choices *choices)
{
    spt_free(choices->list);
    memset(choices, 0, sizeof *choices);
}
