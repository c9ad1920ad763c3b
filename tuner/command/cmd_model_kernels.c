/* spectune model check and fit on measured times of kernels. */
#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "cmd_model.h"
#include "json.h"
#include "model_fit.h"
#include "show.h"

/* The constants that a board's rows are scored with. */
static spt_status calibrate(const spt_model_job *job, spt_measured *m,
                            spt_error *err)
{
    if (!job->calibration.count || spt_calibrate(&m->board, &job->calibration))
        return SPT_OK;
    return spt_fail(err, SPT_E_USAGE,
                    "--calibration: neither %s nor a generic entry",
                    m->board.name);
}

static void add_row(cJSON *list, const spt_measured *m,
                    const spt_model_score *s)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "board", m->board.name);
    cJSON_AddStringToObject(o, "op", spt_time_operator_name(m->op));
    cJSON_AddNumberToObject(o, "rows", (double)s->rows);
    spt_json_add4(o, "mape", s->mape);
    spt_json_add4(o, "median_ape", s->median);
    spt_json_add4(o, "p90_ape", s->p90);
    spt_json_add4(o, "bias", s->bias);
    cJSON_AddItemToArray(list, o);
}

static void print_head(void)
{
    printf("%-14s %-9s %6s  %6s %6s %6s %6s  %s\n", "board", "op", "rows",
           "mean", "median", "p90", "bias", "constants of");
}

static void print_row(const spt_measured *m, const spt_model_score *s)
{
    printf("%-14s %-9s %6zu  %5.1f%% %5.1f%% %5.1f%% %+5.1f%%  %s\n",
           m->board.name, spt_time_operator_name(m->op), s->rows, s->mape,
           s->median, s->p90, s->bias, m->board.time.fitted_on);
}

/* Scores every board; list NULL prints a table. */
static spt_status score(const spt_model_job *job, spt_measured_set *set,
                        cJSON *list, spt_error *err)
{
    if (!list)
        print_head();
    for (size_t i = 0; i < set->count; i++) {
        spt_measured *m = &set->list[i];
        spt_model_score s;
        SPT_TRY(calibrate(job, m, err));
        SPT_TRY(spt_measured_score(m, &s, err));
        if (list)
            add_row(list, m, &s);
        else
            print_row(m, &s);
    }
    return SPT_OK;
}

static const spt_board *own_board(const spt_model_job *job)
{
    return *job->own.name ? &job->own : NULL;
}

static spt_status check(const spt_model_job *job, const spt_csv *csv,
                        spt_time_operator op, spt_error *err)
{
    spt_measured_set set = {0};
    cJSON *root = cJSON_CreateObject(), *list = NULL;
    cJSON_AddStringToObject(root, "schema", "spectune.model-check/1");
    cJSON_AddStringToObject(root, "evidence", "modelled");
    if (job->json)
        list = cJSON_AddArrayToObject(root, "boards");
    spt_status status =
        spt_measured_add(&set, job->gen, own_board(job), csv, op, err);
    if (status == SPT_OK)
        status = score(job, &set, list, err);
    if (status == SPT_OK && list)
        spt_print_json(root);
    else
        cJSON_Delete(root);
    spt_measured_free(&set);
    return status;
}

spt_status spt_check_attention(const spt_model_job *job, const spt_csv *csv,
                               spt_error *err)
{
    return check(job, csv, SPT_TIME_ATTENTION, err);
}

spt_status spt_check_gemm(const spt_model_job *job, const spt_csv *csv,
                          spt_error *err)
{
    return check(job, csv, SPT_TIME_GEMM, err);
}

static spt_status read_file(const spt_model_job *job, spt_measured_set *set,
                            const char *path, spt_error *err)
{
    spt_csv csv = {0};
    spt_time_operator op = SPT_TIME_ATTENTION;
    spt_status status = spt_csv_read(&csv, path, err);
    if (status == SPT_OK && !spt_csv_has(&csv, SPT_ATTENTION_COLUMNS)) {
        op = SPT_TIME_GEMM;
        if (!spt_csv_has(&csv, SPT_GEMM_COLUMNS))
            status = spt_fail(err, SPT_E_FORMAT,
                              "%s:1: expected the columns of attention or gemm "
                              "times: %s, or %s",
                              path, SPT_ATTENTION_COLUMNS, SPT_GEMM_COLUMNS);
    }
    if (status == SPT_OK)
        status = spt_measured_add(set, job->gen, own_board(job), &csv, op, err);
    spt_csv_free(&csv);
    return status;
}

/* "fitted to A.csv, B.csv": the files' names without their folders. */
static void describe(const char *const *paths, int count, char *text,
                     size_t size)
{
    size_t used = (size_t)snprintf(text, size, "fitted to");
    for (int i = 0; i < count && used < size; i++) {
        const char *slash = strrchr(paths[i], '/');
        used += (size_t)snprintf(text + used, size - used, "%s %s",
                                 i ? "," : "", slash ? slash + 1 : paths[i]);
    }
}

static void print_fit(const spt_calibration *c)
{
    printf("%-14s %9s %9s %9s %9s\n", "board", "attention", "mean", "gemm",
           "mean");
    for (int i = 0; i < c->count; i++) {
        const spt_calibration_entry *e = &c->entries[i];
        printf("%-14s", e->constants.fitted_on);
        for (int op = 0; op < SPT_TIME_OPERATORS; op++) {
            if (e->rows[op])
                printf(" %9d %8.1f%%", e->rows[op], e->mape[op]);
            else
                printf(" %9s %9s", "-", "-");
        }
        putchar('\n');
    }
}

spt_status spt_fit_kernels(const spt_model_job *job, const char *const *paths,
                           int count, const char *source, const char *output,
                           spt_error *err)
{
    char files[256];
    spt_measured_set set = {0};
    spt_calibration *c = spt_calloc(1, sizeof *c);
    spt_status status =
        c ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "fit: out of memory");
    for (int i = 0; i < count && status == SPT_OK; i++)
        status = read_file(job, &set, paths[i], err);
    describe(paths, count, files, sizeof files);
    if (status == SPT_OK)
        status = spt_model_fit(&set, source ? source : files, c, err);
    if (status == SPT_OK && output)
        status = spt_calibration_write(output, c, err);
    if (status == SPT_OK && job->json) {
        spt_print_json(spt_calibration_json(c));
    } else if (status == SPT_OK) {
        print_fit(c);
    }
    spt_free(c);
    spt_measured_free(&set);
    return status;
}
