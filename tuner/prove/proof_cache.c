#include "proof_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cache.h"
#include "files.h"
#include "hash.h"
#include "json.h"
#include "sealed.h"

#define PROOF_KIND "spectune-proof-entry/1"

/* program: hash of this program's file. */
static spt_status proof_key(const spt_proof_set *set, size_t i,
                            const char *program, const char *machine,
                            char key[65], spt_error *err)
{
    char problem[320];
    spt_problem_text(&set->problem, problem, sizeof problem);
    spt_buf text = {0};
    spt_buf_printf(
        &text, "%s\n%s\n%s seed %llu widths %d\n%s\n%s\n%s\n%s\n", program,
        machine, problem, (unsigned long long)set->problem.seed,
        set->every_width, set->attention[i].image.key, set->combine->image.key,
        set->base_attention->image.key, set->base_combine->image.key);
    if (!text.failed)
        spt_sha256(text.data, text.size, key);
    bool failed = text.failed;
    spt_buf_free(&text);
    return failed ? spt_fail(err, SPT_E_MEMORY, "proof: out of memory")
                  : SPT_OK;
}

spt_status spt_proof_keys(const spt_proof_set *set, const char *machine,
                          char (*keys)[65], spt_error *err)
{
    char program[SPT_SHA256_TEXT];
    SPT_TRY(spt_sha256_file("/proc/self/exe", program, NULL, err));
    for (size_t i = 0; i < set->count; i++)
        SPT_TRY(proof_key(set, i, program, machine, keys[i], err));
    return SPT_OK;
}

/* "cache folder/KEY.proof" (spt_free), or NULL. */
static char *entry_path(const char *key)
{
    char name[96];
    char *folder = spt_cache_default();
    if (!folder)
        return NULL;
    snprintf(name, sizeof name, "%s.proof", key);
    char *path = spt_path_join(folder, name);
    spt_free(folder);
    return path;
}

static bool read_entry(const cJSON *root, const char *path, const char *key,
                       spt_proof *proof)
{
    const char *own;
    double runs;
    *proof = (spt_proof){.ok = true,
                         .within_bound = true,
                         .rows_bit_equal = true,
                         .guards_ok = true};
    if (spt_json_text(root, path, "key", &own, NULL) != SPT_OK ||
        strcmp(own, key) != 0 ||
        spt_json_number(root, path, "max_error", 0, 1e9, &proof->max_error,
                        NULL) != SPT_OK ||
        spt_json_number(root, path, "bound", 0, 1e9, &proof->bound, NULL) !=
            SPT_OK ||
        spt_json_number(root, path, "runs", 1, 1e9, &runs, NULL) != SPT_OK)
        return false;
    proof->runs = (uint64_t)runs;
    return true;
}

bool spt_proof_load(const char *key, spt_proof *proof)
{
    char *path = entry_path(key);
    cJSON *root = NULL;
    spt_buf text = {0};
    bool found =
        path &&
        spt_sealed_read(path, PROOF_KIND, 4096, &text, NULL) == SPT_OK &&
        spt_json_parse(text.data, text.size, path, &root, NULL) == SPT_OK &&
        read_entry(root, path, key, proof);
    if (found)
        utimensat(AT_FDCWD, path, NULL, 0); /* its last use */
    cJSON_Delete(root);
    spt_buf_free(&text);
    spt_free(path);
    return found;
}

void spt_proof_store(const char *key, const spt_proof *proof)
{
    if (!proof->ok)
        return;
    char *path = entry_path(key);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "key", key);
    cJSON_AddNumberToObject(root, "max_error", proof->max_error);
    cJSON_AddNumberToObject(root, "bound", proof->bound);
    cJSON_AddNumberToObject(root, "runs", (double)proof->runs);
    spt_buf text = {0};
    spt_json_print(root, &text);
    if (path && !text.failed)
        spt_sealed_write(path, PROOF_KIND, text.data, text.size, NULL);
    spt_buf_free(&text);
    cJSON_Delete(root);
    spt_free(path);
}
