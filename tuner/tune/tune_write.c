/*
 * What the main job leaves: JSON, profile, pack.
 */
#include <stdio.h>

#include "answer.h"
#include "files.h"
#include "json.h"
#include "pack_write.h"
#include "tune.h"

static cJSON *kernel_json(const spt_built *built, const spt_proof *proof,
                          const char *proved_on)
{
    const spt_kernel *k = &built->kernel;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", k->symbol);
    cJSON_AddStringToObject(json, "config", k->config);
    cJSON_AddStringToObject(json, "key", k->key);
    cJSON_AddStringToObject(json, "target", k->target);
    cJSON_AddNumberToObject(json, "registers", built->image.registers);
    cJSON_AddNumberToObject(json, "shared_bytes",
                            k->shared_bytes + built->image.shared_bytes);
    cJSON_AddNumberToObject(json, "spill_bytes", built->image.spill_bytes);
    spt_json_add4(json, "max_error", proof->max_error);
    spt_json_add4(json, "bound", proof->bound);
    cJSON_AddBoolToObject(json, "rows_bit_equal", proof->rows_bit_equal);
    cJSON_AddStringToObject(json, "proved_on", proved_on);
    return json;
}

/* Combine runs in every proof: the worst of them is its own. */
static spt_proof combine_proof(const spt_tune *t)
{
    spt_proof worst = t->proofs[0];
    for (size_t i = 1; i < t->offer.count; i++)
        if (spt_proof_nearer(&worst, t->proofs[i].max_error,
                             t->proofs[i].bound))
            worst = t->proofs[i];
    return worst;
}

/* Empty where another engine serves. */
static void add_kernel_list(const spt_tune *t, cJSON *root)
{
    cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
    for (size_t i = 0; i < t->offer.count; i++)
        cJSON_AddItemToArray(kernels, kernel_json(&t->offer.attention[i],
                                                  &t->proofs[i], t->proved_on));
    if (!t->offer.count)
        return;
    spt_proof combine = combine_proof(t);
    cJSON_AddItemToArray(
        kernels, kernel_json(&t->offer.combine, &combine, t->proved_on));
}

spt_status spt_tune_json(const spt_tune *t, const char *schema,
                         const char *profile, const char *pack, cJSON **json,
                         spt_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", schema);
    spt_status status =
        spt_answer_json(&t->survey.input, &t->choices, root, err);
    if (status != SPT_OK) {
        cJSON_Delete(root);
        return status;
    }
    add_kernel_list(t, root);
    if (profile) {
        cJSON *files = cJSON_AddObjectToObject(root, "files");
        cJSON_AddStringToObject(files, "profile", profile);
        cJSON_AddStringToObject(files, "pack", pack);
    }
    *json = root;
    return SPT_OK;
}

/* The ladder's times of a kernel. */
static cJSON *times_json(const spt_tune *t, size_t kernel)
{
    cJSON *times = cJSON_CreateArray();
    for (size_t i = 0; i < t->choices.n_rungs; i++) {
        const spt_rung *rung = &t->choices.ladder[i];
        if (rung->config != kernel)
            continue;
        cJSON *time = cJSON_CreateObject();
        cJSON_AddNumberToObject(time, "batch", t->choices.ladder_batch);
        cJSON_AddNumberToObject(time, "context",
                                (double)t->choices.ladder_context);
        cJSON_AddNumberToObject(time, "rows", rung->rows);
        spt_json_add4(time, "us", rung->attention_us);
        cJSON_AddStringToObject(time, "evidence", rung->evidence);
        cJSON_AddItemToArray(times, time);
    }
    return times;
}

static spt_status add_kernels(const spt_tune *t, spt_pack_writer *writer,
                              spt_error *err)
{
    for (size_t i = 0; i < t->offer.count; i++) {
        const spt_built *built = &t->offer.attention[i];
        SPT_TRY(
            spt_pack_writer_add(writer, &built->kernel, &built->image,
                                spt_proof_summary(&t->proofs[i], t->proved_on),
                                times_json(t, i), err));
    }
    spt_proof combine = combine_proof(t);
    return spt_pack_writer_add(
        writer, &t->offer.combine.kernel, &t->offer.combine.image,
        spt_proof_summary(&combine, t->proved_on), NULL, err);
}

static spt_status write_pack(const spt_tune *t, const char *folder,
                             spt_error *err)
{
    spt_pack_writer *writer;
    SPT_TRY(
        spt_pack_writer_open(t->offer.combine.image.compiler, &writer, err));
    spt_status status = add_kernels(t, writer, err);
    if (status == SPT_OK)
        status = spt_pack_writer_finish(writer, folder, err);
    spt_pack_writer_close(writer);
    return status;
}

static spt_status write_profile(const spt_tune *t, const char *path,
                                spt_error *err)
{
    cJSON *json;
    SPT_TRY(spt_tune_json(t, "spectune.profile/1", NULL, NULL, &json, err));
    cJSON_AddStringToObject(json, "compiler", t->offer.combine.image.compiler);
    spt_status status = spt_json_write(path, json, err);
    cJSON_Delete(json);
    return status;
}

spt_status spt_tune_write(const spt_tune *t, const char *folder, spt_error *err)
{
    char *profile = spt_path_join(folder, "profile.json");
    char *pack = spt_path_join(folder, "pack");
    spt_status status = SPT_OK;
    if (!profile || !pack)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    if (status == SPT_OK)
        status = write_pack(t, pack, err);
    if (status == SPT_OK)
        status = write_profile(t, profile, err);
    spt_free(profile);
    spt_free(pack);
    return status;
}
