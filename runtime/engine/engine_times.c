/*
 * The engine's clock: times of its own steps go into the table that draft
 * lengths are chosen by, and into a file where the options name one.
 */
#include <stdio.h>
#include <string.h>

#include "draft_model.h"
#include "files.h"
#include "hash.h"
#include "log.h"
#include "mem.h"
#include "session_int.h"

/* Steps between writes of the file: what kill -9 may lose. */
enum { WRITE_EVERY = 512 };

/* Sim's clock stands without its counters, which are part of its checks. */
static bool has_clock(const spt_engine *e)
{
    return !e->machine.driver.is_sim || e->options.checks;
}

static void set_key(spt_engine *e)
{
    const spt_draft_options *o = &e->options.draft;
    spt_step_key *k = &e->times_key;
    char drafter[SPT_SHA256_TEXT] = "";
    snprintf(k->chip, sizeof k->chip, "%s", e->board.target);
    snprintf(k->device, sizeof k->device, "%s", e->machine.name);
    snprintf(k->evidence, sizeof k->evidence, "%s",
             e->machine.driver.is_sim ? "simulated" : "measured");
    spt_forward_model_digest(e->forward, k->model);
    spt_forward_kernels_digest(e->forward, k->kernels);
    if (o->method == SPT_DRAFT_MODEL)
        spt_draft_model_digest(&e->drafter, drafter);
    snprintf(k->drafter, sizeof k->drafter, "%s, %d branches%s%s",
             e->drafter.class ? e->drafter.class->name : "none",
             o->branches > 1 ? o->branches : 1, *drafter ? " " : "", drafter);
}

spt_status spt_engine_open_times(spt_engine *e, spt_error *err)
{
    const char *path = e->options.step_times;
    spt_error why;
    e->times = spt_calloc(1, sizeof *e->times);
    if (!e->times)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    set_key(e);
    if (!path)
        return SPT_OK;
    spt_status status =
        spt_step_times_read(path, &e->times_key, e->times, &why);
    if (status == SPT_E_USAGE)
        return spt_fail(err, status, "%s", why.text);
    if (status != SPT_OK && (status != SPT_E_IO || spt_file_exists(path)))
        spt_log_line(&e->options.log, "%s", why.text);
    return SPT_OK;
}

static void write_times(spt_engine *e)
{
    const char *path = e->options.step_times;
    spt_error why;
    if (path && e->times->notes &&
        spt_step_times_write(path, &e->times_key, e->times, &why) != SPT_OK)
        spt_log_line(&e->options.log, "%s", why.text);
}

void spt_engine_close_times(spt_engine *e)
{
    if (e->times)
        write_times(e);
    spt_free(e->times);
}

bool spt_engine_step_times(const spt_engine *e, int batch, int context, int max,
                           double *times)
{
    const spt_step_model model = {e->options.step_us, e->options.step_user,
                                  e->options.draft.branches};
    return spt_step_times_get(e->times, &model, batch, context, max, times);
}

spt_status spt_engine_start_clock(spt_engine *e, spt_error *err)
{
    return has_clock(e) ? spt_forward_start_clock(e->forward, err) : SPT_OK;
}

/* Only steps in which every session decodes have a place in the table. */
spt_status spt_engine_stop_clock(spt_engine *e, const spt_share *shares,
                                 int count, spt_error *err)
{
    int rows = 0;
    int64_t context = 0;
    double us;
    if (!has_clock(e) || !count)
        return SPT_OK;
    for (int i = 0; i < count; i++) {
        const spt_session *s = shares[i].session;
        if (!shares[i].decodes || shares[i].prefix != 1)
            return SPT_OK;
        rows += 1 + s->draft.count;
        context += s->sequence.n_tokens;
    }
    SPT_TRY(spt_forward_stop_clock(e->forward, &us, err));
    spt_step_times_note(e->times, count, (int)(context / count), rows, us);
    if (e->times->notes % WRITE_EVERY == 0)
        write_times(e);
    return SPT_OK;
}
