#include "tune.h"

#include <stdio.h>
#include <string.h>

#include "log.h"
#include "proof_cache.h"

static void tell(const spt_tune_input *in, const char *what, size_t done,
                 size_t count)
{
    if (in->progress)
        in->progress(what, done, count);
}

/* Why the machine's times are not the board's, or NULL. */
static const char *why_not_measure(const spt_machine *m)
{
    if (!m->is_board)
        return "is not that board (spectune doctor names its own, --board FILE "
               "describes another)";
    /* It proves, but it does not measure. */
    return m->driver.is_sim ? "is sim" : NULL;
}

/* A GPU where the effort asks for one and there is one; else one line. */
static spt_status open_gpu(const spt_tune_input *in, spt_tune *t,
                           spt_error *err)
{
    const spt_board *board = &t->survey.board;
    if (strcmp(in->effort, "estimate") == 0)
        return SPT_OK;
    if (spt_machine_open(board, SPT_DEVICE_GPU, false, &t->gpu, err) !=
        SPT_OK) {
        spt_log_line(in->log,
                     "no GPU of compute capability %d.%d: times stay modelled",
                     board->cc_major, board->cc_minor);
        return SPT_OK;
    }
    const char *why = why_not_measure(&t->gpu);
    t->measures = !why;
    if (why) {
        spt_log_line(in->log, "board %s: %s %s: times stay modelled",
                     board->name, t->gpu.name, why);
        spt_machine_close(&t->gpu);
    }
    return SPT_OK;
}

/* Instead of the model's pick of each number of rows, every config of it. */
static spt_status select_every(spt_tune *t, const spt_problem *problem,
                               spt_error *err)
{
    spt_selection *s = &t->selection;
    int64_t least = spt_config_int(&s->configs[0], "rows", 8);
    spt_config *every;
    size_t count, kept = 0;
    SPT_TRY(spt_offer_space(&t->survey.builder, problem, s->chunk, true, &every,
                            &count, err));
    for (size_t i = 0; i < count; i++)
        if (spt_config_int(&every[i], "rows", 8) >= least)
            every[kept++] = every[i];
    spt_free(s->configs);
    s->configs = every;
    s->count = kept;
    return SPT_OK;
}

static bool has_rows(const spt_offer *offer, int64_t rows)
{
    for (size_t i = 0; i < offer->count; i++)
        if (spt_config_int(&offer->attention[i].config, "rows", 0) == rows)
            return true;
    return false;
}

/* Puts a config before the first one with more rows. */
static void insert_by_rows(spt_config *list, size_t *count,
                           const spt_config *config)
{
    int64_t rows = spt_config_int(config, "rows", 0);
    size_t at = (*count)++;
    for (; at && spt_config_int(&list[at - 1], "rows", 0) > rows; at--)
        list[at] = list[at - 1];
    list[at] = *config;
}

/*
 * Only the assembler knows what spills. Where the pick of a number of rows
 * did, its configs with other row warps are built beside what is good.
 */
static spt_status replace_spilled(spt_tune *t, const spt_problem *problem,
                                  spt_error *err)
{
    spt_selection *s = &t->selection;
    int64_t least = spt_config_int(&s->configs[0], "rows", 8);
    spt_config *all, *list;
    size_t count, used = 0;
    SPT_TRY(spt_offer_space(&t->survey.builder, problem, s->chunk, false, &all,
                            &count, err));
    list = spt_calloc(count + t->offer.count, sizeof *list);
    if (!list) {
        spt_free(all);
        return spt_fail(err, SPT_E_MEMORY, "selection: out of memory");
    }
    for (size_t i = 0; i < t->offer.count; i++)
        insert_by_rows(list, &used, &t->offer.attention[i].config);
    for (size_t i = 0; i < count; i++) {
        int64_t rows = spt_config_int(&all[i], "rows", 0);
        if (rows >= least && !has_rows(&t->offer, rows))
            insert_by_rows(list, &used, &all[i]);
    }
    spt_free(all);
    spt_free(s->configs);
    s->configs = list;
    s->count = used;
    spt_offer_free(&t->offer);
    return spt_offer_build(&t->survey.builder, problem, s->chunk, s->configs,
                           s->count, &t->offer, err);
}

static spt_status select_and_build(const spt_tune_input *in, spt_tune *t,
                                   const spt_problem *problem, spt_error *err)
{
    spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX];
    size_t n = spt_survey_cells(&t->survey, cells);
    SPT_TRY(
        spt_select(&t->survey.builder, problem, cells, n, &t->selection, err));
    if (t->measures && strcmp(in->effort, "patient") == 0)
        SPT_TRY(select_every(t, problem, err));
    SPT_TRY(spt_offer_build(&t->survey.builder, problem, t->selection.chunk,
                            t->selection.configs, t->selection.count, &t->offer,
                            err));
    if (t->offer.spilled)
        SPT_TRY(replace_spilled(t, problem, err));
    if (!t->offer.count)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "no kernel for head dim %d on %s without spills",
                        problem->head_dim, t->survey.board.name);
    return SPT_OK;
}

/*
 * What a kernel is proved on: its group, two KV heads, a draft block that
 * fills the most rows, a short and a long context whose block begins with the
 * last position of a chunk.
 */
static spt_problem proof_problem(const spt_problem *problem,
                                 const spt_offer *offer, int chunk)
{
    int group = problem->q_heads / problem->kv_heads;
    const spt_config *most = &offer->attention[offer->count - 1].config;
    int tokens = (int)spt_config_int(most, "rows", 8) / group;
    spt_problem p = *problem;
    p.q_heads = 2 * group;
    p.kv_heads = 2;
    p.draft_length = tokens < 2               ? 1
                     : tokens > SPT_NODES_MAX ? SPT_DRAFT_MAX
                                              : tokens - 1;
    p.batch = p.n_contexts = 2;
    p.contexts[0] = 5;
    p.contexts[1] = chunk - 1;
    p.seed = 1;
    return p;
}

/* The proofs that the cache lacks, while they are made. */
typedef struct missing {
    const spt_tune_input *in;
    spt_tune *t;
    spt_built *attention; /* (count): the kernels, owned by the offer */
    size_t *index; /* (count): of each in the offer */
    spt_proof *proofs; /* (count) */
    char (*keys)[65]; /* of the whole offer */
    size_t count;
} missing;

static void keep_proof(void *user, size_t i, const spt_proof *proof)
{
    missing *m = user;
    m->t->proofs[m->index[i]] = *proof;
    spt_proof_store(m->keys[m->index[i]], proof);
    tell(m->in, "proving", i + 1, m->count);
}

/* All at once: what they are compared with is computed once. */
static spt_status prove_missing(missing *m, const spt_proof_set *set,
                                spt_error *err)
{
    spt_machine machine;
    spt_proof_set rest = *set;
    rest.attention = m->attention;
    rest.count = m->count;
    rest.done = keep_proof;
    rest.user = m;
    SPT_TRY(spt_machine_open(&m->t->survey.board, SPT_DEVICE_SIM, true,
                             &machine, err));
    spt_status status = spt_prove(&machine, &rest, m->proofs, err);
    spt_machine_close(&machine);
    for (size_t i = 0; status == SPT_OK && i < m->count; i++)
        if (!m->proofs[i].ok)
            status = spt_fail(err, SPT_E_PROOF, "%s: not proved: %s",
                              m->attention[i].kernel.symbol, m->proofs[i].text);
    return status;
}

static spt_status prove_on_sim(const spt_tune_input *in, spt_tune *t,
                               const spt_proof_set *set, spt_error *err)
{
    missing m = {.in = in,
                 .t = t,
                 .attention = spt_calloc(set->count, sizeof *m.attention),
                 .index = spt_calloc(set->count, sizeof *m.index),
                 .proofs = spt_calloc(set->count, sizeof *m.proofs),
                 .keys = spt_calloc(set->count, sizeof *m.keys)};
    spt_status status =
        m.attention && m.index && m.proofs && m.keys
            ? spt_proof_keys(set, "sim", m.keys, err)
            : spt_fail(err, SPT_E_MEMORY, "proofs: out of memory");
    for (size_t i = 0; status == SPT_OK && i < set->count; i++)
        if (!spt_proof_load(m.keys[i], &t->proofs[i])) {
            m.attention[m.count] = set->attention[i];
            m.index[m.count++] = i;
        }
    if (status == SPT_OK && m.count) {
        tell(in, "proving", 0, m.count);
        status = prove_missing(&m, set, err);
    }
    spt_free(m.attention);
    spt_free(m.index);
    spt_free(m.proofs);
    spt_free(m.keys);
    return status;
}

/*
 * The same on the GPU, which has no checks but is what will run: what sim
 * reported stays in the proofs, errors are the larger of the two.
 */
static spt_status prove_on_gpu(const spt_tune_input *in, spt_tune *t,
                               const spt_proof_set *set, spt_error *err)
{
    tell(in, "proving on the GPU", 0, 0);
    spt_proof *proofs = spt_calloc(set->count, sizeof *proofs);
    if (!proofs)
        return spt_fail(err, SPT_E_MEMORY, "proofs: out of memory");
    spt_status status = spt_prove(&t->gpu, set, proofs, err);
    for (size_t i = 0; status == SPT_OK && i < set->count; i++) {
        spt_proof *both = &t->proofs[i];
        if (!proofs[i].ok)
            status = spt_fail(err, SPT_E_PROOF, "%s: not proved on %s: %s",
                              set->attention[i].kernel.symbol, t->gpu.name,
                              proofs[i].text);
        both->runs += proofs[i].runs;
        if (spt_proof_nearer(both, proofs[i].max_error, proofs[i].bound)) {
            both->max_error = proofs[i].max_error;
            both->bound = proofs[i].bound;
        }
    }
    spt_free(proofs);
    snprintf(t->proved_on, sizeof t->proved_on, "gpu");
    return status;
}

static spt_status prove_offer(const spt_tune_input *in, spt_tune *t,
                              const spt_problem *problem, spt_error *err)
{
    const spt_proof_set set = {
        .problem = proof_problem(problem, &t->offer, t->selection.chunk),
        .attention = t->offer.attention,
        .count = t->offer.count,
        .combine = &t->offer.combine,
        .base_attention = &t->offer.base_attention,
        .base_combine = &t->offer.base_combine,
    };
    t->proofs = spt_calloc(t->offer.count, sizeof *t->proofs);
    if (!t->proofs)
        return spt_fail(err, SPT_E_MEMORY, "proofs: out of memory");
    snprintf(t->proved_on, sizeof t->proved_on, "sim");
    SPT_TRY(prove_on_sim(in, t, &set, err));
    return t->measures ? prove_on_gpu(in, t, &set, err) : SPT_OK;
}

/* Of every config of a number of rows the fastest stays. */
static void keep_fastest(spt_tune *t, const bool *keep)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->offer.count; i++) {
        if (!keep[i]) {
            spt_built_free(&t->offer.attention[i]);
            continue;
        }
        t->offer.attention[kept] = t->offer.attention[i];
        t->proofs[kept++] = t->proofs[i];
    }
    t->offer.count = kept;
}

static spt_status drop_slower(spt_tune *t, spt_time_input *time, spt_error *err)
{
    bool *keep = spt_calloc(t->offer.count, sizeof *keep);
    if (!keep)
        return spt_fail(err, SPT_E_MEMORY, "timing: out of memory");
    spt_times full;
    time->full_only = true;
    spt_status status = spt_times_take(&t->gpu, time, &full, err);
    if (status == SPT_OK) {
        spt_times_fastest(&full, &t->offer, keep);
        keep_fastest(t, keep);
        spt_times_free(&full);
    }
    time->full_only = false;
    spt_free(keep);
    return status;
}

/* What stands in the samples already is not timed again. */
static spt_status measure(const spt_tune_input *in, spt_tune *t,
                          const spt_problem *problem, spt_error *err)
{
    spt_cell cells[SPT_LIST_MAX * SPT_LIST_MAX];
    spt_time_input time = {.problem = problem,
                           .offer = &t->offer,
                           .cells = cells,
                           .n_cells = spt_survey_cells(&t->survey, cells),
                           .chunk = t->selection.chunk,
                           .samples = in->samples,
                           .log = in->log,
                           .progress = in->progress};
    if (strcmp(in->effort, "patient") == 0)
        SPT_TRY(drop_slower(t, &time, err));
    SPT_TRY(spt_times_take(&t->gpu, &time, &t->times, err));
    t->survey.kernels.time = spt_times_us;
    t->survey.kernels.user = &t->times;
    return SPT_OK;
}

/* The survey's kernels become those of the offer. */
static spt_status take_offer(spt_tune *t, spt_error *err)
{
    spt_survey *s = &t->survey;
    s->configs = spt_calloc(t->offer.count, sizeof *s->configs);
    if (!s->configs)
        return spt_fail(err, SPT_E_MEMORY, "choice: out of memory");
    for (size_t i = 0; i < t->offer.count; i++) {
        const spt_built *built = &t->offer.attention[i];
        s->configs[i] = spt_select_model_config(&built->config, &built->kernel,
                                                built->image.registers);
    }
    s->kernels.configs = s->configs;
    s->kernels.count = t->offer.count;
    return SPT_OK;
}

spt_status spt_tune_run(const spt_tune_input *in, spt_tune *t, spt_error *err)
{
    spt_survey *s = &t->survey;
    if (spt_survey_other_engine(s->options))
        return spt_choose(&s->input, &t->choices, err);
    SPT_TRY(spt_survey_check_attention(s, err));
    spt_problem problem = spt_survey_problem(s, in->page_size);
    SPT_TRY(open_gpu(in, t, err));
    tell(in, "compiling", 0, 0);
    SPT_TRY(select_and_build(in, t, &problem, err));
    SPT_TRY(prove_offer(in, t, &problem, err));
    if (t->measures)
        SPT_TRY(measure(in, t, &problem, err));
    SPT_TRY(take_offer(t, err));
    SPT_TRY(spt_survey_pick_draft_kernels(s, err));
    return spt_choose(&s->input, &t->choices, err);
}

void spt_tune_free(spt_tune *t)
{
    spt_choices_free(&t->choices);
    spt_offer_free(&t->offer);
    spt_free(t->selection.configs);
    spt_free(t->proofs);
    spt_times_free(&t->times);
    if (t->measures)
        spt_machine_close(&t->gpu);
    t->measures = false;
}
