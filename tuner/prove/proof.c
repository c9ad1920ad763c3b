#include "proof.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "json.h"
#include "sim.h"

spt_proof spt_proof_begin(void)
{
    return (spt_proof){
        .within_bound = true, .rows_bit_equal = true, .guards_ok = true};
}

void spt_proof_end(spt_proof *proof, const spt_image *image)
{
    int spills = image->spill_bytes;
    if (spills)
        spt_proof_blame(proof, "%d bytes of registers are spilled", spills);
    proof->ok = proof->within_bound && proof->rows_bit_equal &&
                proof->guards_ok && !proof->reports && !spills;
}

void spt_proof_blame(spt_proof *proof, const char *fmt, ...)
{
    if (proof->text[0])
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(proof->text, sizeof proof->text, fmt, args);
    va_end(args);
}

void spt_proof_take_reports(spt_proof *proof, const spt_machine *machine)
{
    spt_sim_report report;
    if (!machine->driver.is_sim)
        return;
    for (size_t i = 0; i < spt_sim_report_count(); i++)
        if (spt_sim_report_get(i, &report)) {
            proof->reports += report.count;
            spt_proof_blame(proof, "%s", report.text);
        }
    spt_sim_clear();
}

bool spt_proof_nearer(const spt_proof *proof, double error, double bound)
{
    /* An error that is no number is the nearest of all. */
    return !(error * proof->bound <= proof->max_error * bound) ||
           proof->bound == 0;
}

void spt_proof_compare(spt_proof *proof, double seen, double right,
                       double bound, const char *what, size_t row)
{
    double error = fabs(seen - right);
    if (!(error <= bound)) {
        proof->within_bound = false;
        spt_proof_blame(proof,
                        "%s of row %zu is %.9g, expected %.9g within %.3g",
                        what, row, seen, right, bound);
    }
    if (spt_proof_nearer(proof, error, bound)) {
        proof->max_error = error;
        proof->bound = bound;
    }
}

cJSON *spt_proof_summary(const spt_proof *proof, const char *proved_on)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "ok", proof->ok);
    cJSON_AddStringToObject(json, "proved_on", proved_on);
    spt_json_add4(json, "max_error", proof->max_error);
    spt_json_add4(json, "bound", proof->bound);
    cJSON_AddBoolToObject(json, "rows_bit_equal", proof->rows_bit_equal);
    cJSON_AddNumberToObject(json, "reports", (double)proof->reports);
    cJSON_AddNumberToObject(json, "runs", (double)proof->runs);
    return json;
}

cJSON *spt_proof_json(const spt_built *built, const char *problem,
                      const spt_proof *proof)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "kernel", built->kernel.symbol);
    cJSON_AddStringToObject(json, "config", built->kernel.config);
    cJSON_AddStringToObject(json, "problem", problem);
    spt_json_add4(json, "max_error", proof->max_error);
    spt_json_add4(json, "bound", proof->bound);
    cJSON_AddBoolToObject(json, "rows_bit_equal", proof->rows_bit_equal);
    cJSON_AddNumberToObject(json, "reports", (double)proof->reports);
    cJSON_AddNumberToObject(json, "spill_bytes", built->image.spill_bytes);
    cJSON_AddBoolToObject(json, "ok", proof->ok);
    if (proof->text[0])
        cJSON_AddStringToObject(json, "text", proof->text);
    return json;
}
