#include "run_times.h"

#include <stdio.h>
#include <string.h>

#include "boards.h"
#include "mem.h"
#include "select.h"

static const char DEFAULT_BOARD[] = "h100_sxm";

/* Query rows of the engine's attention kernels, and their chunk. */
static const int rows_of[SPT_RUN_VARIANTS] = {8, 16, 64};
enum { CHUNK = 512, BOARD_NAME = 4 /* ".lua" */ };

static spt_status find_board(spt_run_times *t, const char *name, spt_error *err)
{
    size_t length = name ? strlen(name) : 0;
    if (length > BOARD_NAME && strcmp(name + length - BOARD_NAME, ".lua") == 0)
        return spt_gen_board_file(t->gen, name, &t->board, err);
    return spt_gen_board(t->gen, name ? name : DEFAULT_BOARD, &t->board, err);
}

/* The first config of the space with those rows, as the model takes it. */
static spt_status attention(spt_run_times *t, int rows,
                            spt_attention_config *out, spt_error *err)
{
    const spt_target *m = &t->target;
    spt_config problem = {0}, *configs = NULL;
    spt_kernel kernel;
    size_t count = 0;
    while (rows > 8 && rows * m->head_dim > 64 * 128)
        rows /= 2;
    spt_config_set_int(&problem, "group", m->q_heads / m->kv_heads);
    spt_config_set_int(&problem, "head_dim", m->head_dim);
    spt_config_set_int(&problem, "page_size", 16);
    spt_config_set_int(&problem, "chunk", CHUNK);
    spt_config_set_int(&problem, "rows", rows);
    SPT_TRY(spt_gen_space(t->gen, "verify_attention", &problem, &t->board,
                          &configs, &count, err));
    spt_status status = spt_gen_describe(t->gen, "verify_attention",
                                         &configs[0], &t->board, &kernel, err);
    if (status == SPT_OK)
        *out = spt_select_model_config(&configs[0], &kernel, 0);
    spt_free(configs);
    return status;
}

static spt_status find_drafter(spt_run_times *t, const spt_engine_options *o,
                               spt_error *err)
{
    char name[4200] = "ngram";
    t->drafts = o->draft.method != SPT_DRAFT_NONE;
    if (!t->drafts)
        return SPT_OK;
    if (o->draft.method == SPT_DRAFT_MODEL)
        snprintf(name, sizeof name, "external:%s", o->draft.model);
    if (o->draft.method == SPT_DRAFT_EAGLE3)
        snprintf(name, sizeof name, "eagle3");
    return spt_drafter_make(spt_gen_root(t->gen), name, &t->target, &t->drafter,
                            err);
}

static spt_status fill(spt_run_times *t, const spt_engine_options *o,
                       spt_error *err)
{
    SPT_TRY(spt_gen_open(NULL, &t->gen, err));
    SPT_TRY(find_board(t, o->board, err));
    SPT_TRY(
        spt_target_load(spt_gen_root(t->gen), o->model, NULL, &t->target, err));
    for (int i = 0; i < SPT_RUN_VARIANTS; i++)
        SPT_TRY(attention(t, rows_of[i], &t->configs[i], err));
    t->kernels =
        (spt_kernels){.configs = t->configs, .count = SPT_RUN_VARIANTS};
    return find_drafter(t, o, err);
}

spt_status spt_run_times_open(spt_run_times *t, const spt_engine_options *o,
                              spt_error *err)
{
    *t = (spt_run_times){0};
    spt_status status = fill(t, o, err);
    if (status != SPT_OK)
        spt_run_times_close(t);
    return status;
}

void spt_run_times_close(spt_run_times *t)
{
    spt_gen_close(t->gen);
    t->gen = NULL;
}

double spt_run_times_us(void *user, int batch, int context, int draft_length)
{
    const spt_run_times *t = user;
    const char *evidence;
    const spt_step step = {.board = &t->board,
                           .target = &t->target,
                           .kernels = &t->kernels,
                           .kv_bytes = 2,
                           .batch = batch,
                           .context = context};
    double us = spt_step_verify_us(&step, draft_length, &evidence);
    if (t->drafts && draft_length > 0)
        us += spt_step_draft_us(&step, &t->drafter, draft_length);
    return us;
}

spt_run_cost spt_run_times_cost(spt_run_times *t, const spt_session_stats *s,
                                int context)
{
    double plain = spt_run_times_us(t, 1, context, 0);
    double all = (double)(s->steps - s->drafts) * plain;
    for (int d = 1; d <= SPT_DRAFT_LENGTH_MAX && s->drafted_at[d - 1]; d++) {
        uint64_t longer = d < SPT_DRAFT_LENGTH_MAX ? s->drafted_at[d] : 0;
        uint64_t steps = s->drafted_at[d - 1] - longer;
        if (steps)
            all += (double)steps * spt_run_times_us(t, 1, context, d);
    }
    return (spt_run_cost){.us_per_token =
                              s->tokens ? all / (double)s->tokens : 0,
                          .plain_us_per_token = plain};
}

bool spt_run_times_attach(spt_run_times *times, spt_engine_options *options)
{
    spt_error why;
    if (spt_run_times_open(times, options, &why) != SPT_OK)
        return false;
    options->step_us = spt_run_times_us;
    options->step_user = times;
    return true;
}
