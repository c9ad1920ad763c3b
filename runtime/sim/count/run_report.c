#include "run_report.h"

#include <stdio.h>

#include "json.h"
#include "sim.h"

static void add_triple(cJSON *object, const char *field, const unsigned *of)
{
    cJSON *list = cJSON_AddArrayToObject(object, field);
    for (int i = 0; i < 3; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(of[i]));
}

static cJSON *report_json(const spt_sim_report *r)
{
    char address[24];
    cJSON *o = cJSON_CreateObject();
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)r->address);
    cJSON_AddStringToObject(o, "kind", spt_sim_kind_text(r->kind));
    cJSON_AddStringToObject(o, "kernel", r->kernel);
    cJSON_AddStringToObject(o, "file", r->file);
    cJSON_AddNumberToObject(o, "line", r->line);
    add_triple(o, "block", r->block);
    add_triple(o, "thread", r->thread);
    cJSON_AddStringToObject(o, "address", address);
    cJSON_AddNumberToObject(o, "count", (double)r->count);
    cJSON_AddStringToObject(o, "text", r->text);
    return o;
}

static cJSON *counters_json(const spt_sim_counters *c)
{
    cJSON *o = cJSON_CreateObject();
#define SPT_SIM_COUNTER(name, unit, meaning) \
    cJSON_AddNumberToObject(o, #name, (double)c->name);
#include "sim_counters.def"
#undef SPT_SIM_COUNTER
    return o;
}

spt_status sim_run_report_write(const char *path, const char *board,
                                spt_error *err)
{
    spt_sim_report report;
    spt_sim_counters counters;
    const char *kernel;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "spectune.sim-run/1");
    cJSON_AddStringToObject(root, "board", board);
    cJSON_AddStringToObject(root, "evidence", "simulated");
    /* Of time_us; answers have the calibrated one of the tuner. */
    cJSON_AddStringToObject(root, "time_model", "counters");
    cJSON *list = cJSON_AddArrayToObject(root, "reports");
    for (size_t i = 0; spt_sim_report_get(i, &report); i++)
        cJSON_AddItemToArray(list, report_json(&report));
    list = cJSON_AddArrayToObject(root, "kernels");
    for (size_t i = 0; spt_sim_kernel_get(i, &kernel, &counters); i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "kernel", kernel);
        spt_json_add4(o, "time_us", (double)counters.modelled_time_ns / 1e3);
        cJSON_AddItemToObject(o, "counters", counters_json(&counters));
        cJSON_AddItemToArray(list, o);
    }
    spt_status status = spt_json_write(path, root, err);
    cJSON_Delete(root);
    return status;
}
