/*
 * The engine's clock: times of its own steps go into the table that draft
 * lengths are chosen by, and into a file where the options want one.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "draft_ahead.h"
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

static void name_device(const spt_engine *e, spt_step_key *k)
{
    const spt_driver *d = &e->machine.driver;
    int sms = 0, version = 0;
    d->cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                            e->machine.device);
    d->cuDriverGetVersion(&version);
    snprintf(k->device, sizeof k->device, "%s, %d SMs", e->machine.name, sms);
    snprintf(k->driver, sizeof k->driver, "%d", version);
    snprintf(k->chip, sizeof k->chip, "%s", e->board.target);
    snprintf(k->board, sizeof k->board, "%s", e->board.name);
    snprintf(k->evidence, sizeof k->evidence, "%s",
             d->is_sim ? "simulated" : "measured");
}

static void set_key(spt_engine *e)
{
    const spt_draft_options *o = &e->options.draft;
    const spt_ahead *ahead = spt_ahead_of(&e->drafter);
    spt_step_key *k = &e->times_key;
    char drafter[SPT_SHA256_TEXT] = "";
    name_device(e, k);
    spt_forward_model_digest(e->forward, k->model);
    spt_forward_kernels_digest(e->forward, k->kernels);
    snprintf(k->layout, sizeof k->layout, "%s, pages of %d, %s",
             e->options.dtype == SPT_TYPE_FP16 ? "fp16" : "bf16",
             e->options.page_size,
             e->options.no_graphs ? "no graphs" : "graphs");
    if (ahead)
        spt_forward_model_digest(ahead->forward, drafter);
    snprintf(k->drafter, sizeof k->drafter, "%s, %d branches%s%s",
             e->drafter.class ? e->drafter.class->name : "none",
             o->branches > 1 ? o->branches : 1, *drafter ? " " : "", drafter);
}

/* The options' file, or that of the key in their folder; NULL: none. */
static spt_status name_file(spt_engine *e, spt_error *err)
{
    const spt_engine_options *o = &e->options;
    char name[SPT_SHA256_TEXT + 8];
    if (o->step_times) {
        e->times_path = spt_strdup(o->step_times);
    } else if (o->step_times_folder && e->drafter.class &&
               !e->machine.driver.is_sim) {
        spt_step_key_hash(&e->times_key, name);
        strcat(name, ".steps");
        e->times_path = spt_path_join(o->step_times_folder, name);
    } else {
        return SPT_OK;
    }
    return e->times_path ? SPT_OK
                         : spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
}

/* A save makes a file beside the old one and renames it. */
static bool has_folder(const char *path)
{
    char *folder = spt_strdup(*path ? path : ".");
    if (folder)
        spt_path_cut(folder);
    bool good = folder && access(folder, W_OK) == 0;
    spt_free(folder);
    return good;
}

static spt_status check_folder(const char *path, spt_error *err)
{
    if (!path || has_folder(path))
        return SPT_OK;
    return spt_fail(err, SPT_E_USAGE,
                    "%s: step times cannot be kept there, expected a folder "
                    "that can be written",
                    path);
}

spt_status spt_engine_open_times(spt_engine *e, spt_error *err)
{
    spt_error why;
    e->times = spt_calloc(1, sizeof *e->times);
    if (!e->times)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    set_key(e);
    SPT_TRY(check_folder(e->options.step_times, err));
    SPT_TRY(name_file(e, err));
    const char *path = e->times_path;
    if (!path)
        return SPT_OK;
    spt_status status =
        spt_step_times_read(path, &e->times_key, e->times, &why);
    if (status == SPT_E_USAGE && e->options.step_times)
        return spt_fail(err, status, "%s", why.text);
    if (e->options.step_times && !has_clock(e))
        spt_log_line(&e->options.log,
                     "%s: keeps nothing new, sim has a clock with checks alone",
                     path);
    if (status != SPT_OK && (status != SPT_E_IO || spt_file_exists(path)))
        spt_log_line(&e->options.log, "%s", why.text);
    return SPT_OK;
}

/* That it fails is said once; it is tried again. */
static void save_times(spt_engine *e)
{
    spt_error why;
    if (!e->times_path || !e->times->notes)
        return;
    spt_status status =
        e->options.step_times
            ? SPT_OK
            : spt_folder_make(e->options.step_times_folder, &why);
    if (status == SPT_OK)
        status =
            spt_step_times_save(e->times_path, &e->times_key, e->times, &why);
    if (status != SPT_OK && !e->times_failed)
        spt_log_line(&e->options.log, "%s", why.text);
    e->times_failed = status != SPT_OK;
}

void spt_engine_close_times(spt_engine *e)
{
    if (e->times)
        save_times(e);
    spt_free(e->times);
    spt_free(e->times_path);
    e->times = NULL;
    e->times_path = NULL;
}

int spt_engine_choose_length(spt_session *s, int batch, int max)
{
    const spt_engine *e = s->engine;
    const spt_step_model model = {e->options.step_us, e->options.step_user,
                                  e->options.draft.branches};
    int context = s->sequence.n_tokens;
    double us[SPT_DRAFT_NODES];
    spt_step_source source =
        spt_step_times_get(e->times, &model, batch, context, max, us);
    s->stats.lengths_timed += source == SPT_STEP_TIMED;
    s->stats.lengths_modelled += source == SPT_STEP_MODELLED;
    int length = spt_draft_meter_choose(
        &s->meter, source == SPT_STEP_UNKNOWN ? NULL : us, max);
    return has_clock(e) ? spt_step_times_explore(e->times, &model, batch,
                                                 context, max, length)
                        : length;
}

/* Only steps in which every session decodes have a place in the table. */
static bool has_place(const spt_share *shares, int count)
{
    for (int i = 0; i < count; i++)
        if (!shares[i].decodes || shares[i].prefix != 1)
            return false;
    return count > 0;
}

/* Tokens of a session, on the average. */
static int mean_context(const spt_share *shares, int count)
{
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += shares[i].session->sequence.n_tokens;
    return (int)(sum / count);
}

bool spt_engine_times_plain(const spt_engine *e, const spt_share *shares,
                            int count)
{
    if (!has_clock(e) || !has_place(shares, count))
        return false;
    for (int i = 0; i < count; i++)
        if (shares[i].session->options.draft_length != 0)
            return false;
    return spt_step_times_want_plain(e->times, count,
                                     mean_context(shares, count));
}

spt_status spt_engine_start_clock(spt_engine *e, spt_error *err)
{
    return has_clock(e) ? spt_forward_start_clock(e->forward, err) : SPT_OK;
}

spt_status spt_engine_stop_clock(spt_engine *e, const spt_share *shares,
                                 int count, spt_error *err)
{
    int rows = 0;
    double us;
    if (!has_clock(e) || !has_place(shares, count))
        return SPT_OK;
    for (int i = 0; i < count; i++) {
        if (shares[i].catches_up)
            return SPT_OK;
        rows += 1 + shares[i].session->draft.count;
    }
    SPT_TRY(spt_forward_stop_clock(e->forward, &us, err));
    spt_step_times_note(e->times, count, mean_context(shares, count), rows, us);
    if (e->times->notes % WRITE_EVERY == 0)
        save_times(e);
    return SPT_OK;
}
