/*
 * The manifest: parsed strictly (unknown fields, wrong types, bad paths and a
 * digest that does not match are refused), so that what is loaded later is
 * what was proved.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "json.h"
#include "pack.h"

bool spt_pack_path_valid(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    size_t length = strlen(path);
    if (length == 0 || length > SPT_PACK_PATH_MAX ||
        strspn(path, plain) != length)
        return false;
    for (const char *at = path; at;) {
        /* No component is empty or starts with a dot. */
        if (*at == '/' || *at == '.' || *at == 0)
            return false;
        at = strchr(at, '/');
        at = at ? at + 1 : NULL;
    }
    return true;
}

spt_status spt_pack_digest_of(const cJSON *manifest,
                              char digest[SPT_SHA256_TEXT], spt_error *err)
{
    cJSON *copy = cJSON_Duplicate(manifest, true);
    spt_buf text = {0};
    if (copy) {
        cJSON_DeleteItemFromObjectCaseSensitive(copy, "digest");
        spt_json_print(copy, &text);
        cJSON_Delete(copy);
    }
    spt_status status = SPT_OK;
    if (!copy || text.failed || !text.data)
        status = spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    else
        spt_sha256(text.data, text.size, digest);
    spt_buf_free(&text);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const spt_pack_file *)a)->path,
                  ((const spt_pack_file *)b)->path);
}

const spt_pack_file *spt_pack_find_file(const spt_pack *pack, const char *path)
{
    spt_pack_file key = {.path = path};
    if (!pack->n_files)
        return NULL;
    return bsearch(&key, pack->files, pack->n_files, sizeof key, by_path);
}

static spt_status read_files(spt_pack *pack, const char *name,
                             const cJSON *list, spt_error *err)
{
    size_t count = (size_t)cJSON_GetArraySize(list), i = 0;
    pack->files = spt_arena_alloc(&pack->arena, count + 1, sizeof *pack->files);
    if (!pack->files)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    for (const cJSON *item = list->child; item; item = item->next, i++) {
        spt_pack_file *file = &pack->files[i];
        const char *hash;
        int64_t bytes;
        char where[300];
        snprintf(where, sizeof where, "%.250s: files[%zu]", name, i);
        SPT_TRY(spt_json_only(item, where, "path sha256 bytes", err));
        SPT_TRY(spt_json_text(item, where, "path", &file->path, err));
        SPT_TRY(spt_json_text(item, where, "sha256", &hash, err));
        SPT_TRY(spt_json_int(item, where, "bytes", 0, SPT_PACK_FILE_MAX, &bytes,
                             err));
        if (!spt_pack_path_valid(file->path))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: path: '%.60s' is not a plain relative path",
                            where, file->path);
        if (!spt_sha256_valid(hash))
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: sha256: expected 64 digits 0-9a-f", where);
        memcpy(file->sha256, hash, sizeof file->sha256);
        file->bytes = (uint64_t)bytes;
        if (i && strcmp(file[-1].path, file->path) >= 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "%s: path: expected each once, in ascending order",
                            where);
    }
    pack->n_files = count;
    return SPT_OK;
}

/* An image of a kernel: null, or a path that the pack lists. */
static spt_status read_image_path(const spt_pack *pack, const cJSON *item,
                                  const char *where, const char *field,
                                  const char **out, spt_error *err)
{
    if (!spt_json_has(item, field))
        return SPT_OK;
    SPT_TRY(spt_json_text(item, where, field, out, err));
    if (!spt_pack_find_file(pack, *out))
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: %s: '%.60s' is not among the pack's files", where,
                        field, *out);
    return SPT_OK;
}

static spt_status read_int(const cJSON *item, const char *where,
                           const char *field, int *out, spt_error *err)
{
    int64_t value;
    SPT_TRY(spt_json_int(item, where, field, 0, 1 << 24, &value, err));
    *out = (int)value;
    return SPT_OK;
}

static spt_status read_kernel(const spt_pack *pack, const cJSON *item,
                              const char *where, spt_pack_kernel *k,
                              spt_error *err)
{
    const cJSON *part;
    SPT_TRY(spt_json_only(item, where,
                          "name symbol config key target template_hash "
                          "registers shared_bytes dynamic_shared_bytes "
                          "spill_bytes threads cubin ptx proof times",
                          err));
    SPT_TRY(spt_json_text(item, where, "name", &k->name, err));
    SPT_TRY(spt_json_text(item, where, "symbol", &k->symbol, err));
    SPT_TRY(spt_json_text(item, where, "config", &k->config, err));
    SPT_TRY(spt_json_text(item, where, "key", &k->key, err));
    SPT_TRY(spt_json_text(item, where, "target", &k->target, err));
    SPT_TRY(
        spt_json_text(item, where, "template_hash", &k->template_hash, err));
    SPT_TRY(read_int(item, where, "registers", &k->registers, err));
    SPT_TRY(read_int(item, where, "shared_bytes", &k->shared_bytes, err));
    SPT_TRY(read_int(item, where, "dynamic_shared_bytes",
                     &k->dynamic_shared_bytes, err));
    SPT_TRY(read_int(item, where, "spill_bytes", &k->spill_bytes, err));
    SPT_TRY(read_int(item, where, "threads", &k->threads, err));
    SPT_TRY(read_image_path(pack, item, where, "cubin", &k->cubin, err));
    SPT_TRY(read_image_path(pack, item, where, "ptx", &k->ptx, err));
    SPT_TRY(spt_json_object(item, where, "proof", &part, err));
    SPT_TRY(spt_json_array(item, where, "times", &part, err));
    if (!k->cubin && !k->ptx)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: expected a cubin or a ptx, or both", where);
    return SPT_OK;
}

static spt_status read_kernels(spt_pack *pack, const char *name,
                               const cJSON *list, spt_error *err)
{
    size_t count = (size_t)cJSON_GetArraySize(list), i = 0;
    pack->kernels =
        spt_arena_alloc(&pack->arena, count + 1, sizeof *pack->kernels);
    if (!pack->kernels)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", name);
    for (const cJSON *item = list->child; item; item = item->next, i++) {
        char where[300];
        snprintf(where, sizeof where, "%.250s: kernels[%zu]", name, i);
        SPT_TRY(read_kernel(pack, item, where, &pack->kernels[i], err));
    }
    pack->n_kernels = count;
    return SPT_OK;
}

static spt_status read_manifest(spt_pack *pack, const char *name,
                                spt_error *err)
{
    const cJSON *root = pack->manifest, *list;
    const char *text;
    char digest[SPT_SHA256_TEXT];
    if (!cJSON_IsObject(root))
        return spt_fail(err, SPT_E_FORMAT, "%s: expected an object", name);
    SPT_TRY(spt_json_text(root, name, "schema", &text, err));
    if (strcmp(text, SPT_PACK_SCHEMA) != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: schema: is '%.40s', expected '%s'", name, text,
                        SPT_PACK_SCHEMA);
    SPT_TRY(spt_json_only(root, name,
                          "schema tool compiler kernels files digest", err));
    SPT_TRY(spt_json_text(root, name, "tool", &text, err));
    SPT_TRY(spt_json_text(root, name, "compiler", &pack->compiler, err));
    SPT_TRY(spt_json_text(root, name, "digest", &text, err));
    SPT_TRY(spt_pack_digest_of(root, digest, err));
    if (strcmp(text, digest) != 0)
        return spt_fail(err, SPT_E_FORMAT,
                        "%s: digest: does not match: the manifest was changed "
                        "after it was written",
                        name);
    memcpy(pack->digest, digest, sizeof digest);
    SPT_TRY(spt_json_array(root, name, "files", &list, err));
    SPT_TRY(read_files(pack, name, list, err));
    SPT_TRY(spt_json_array(root, name, "kernels", &list, err));
    return read_kernels(pack, name, list, err);
}

spt_status spt_pack_parse(const char *text, size_t size, const char *folder,
                          spt_pack **pack, spt_error *err)
{
    char *name = spt_path_join(folder, SPT_PACK_MANIFEST);
    spt_pack *p = spt_calloc(1, sizeof *p);
    spt_status status;
    if (p)
        p->folder = spt_strdup(folder);
    if (!name || !p || !p->folder) {
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
        goto done;
    }
    status = spt_json_parse(text, size, name, &p->manifest, err);
    if (status == SPT_OK)
        status = read_manifest(p, name, err);
done:
    spt_free(name);
    if (status == SPT_OK)
        *pack = p;
    else
        spt_pack_close(p);
    return status;
}

spt_status spt_pack_open(const char *folder, spt_pack **pack, spt_error *err)
{
    spt_buf text = {0};
    char *path = spt_path_join(folder, SPT_PACK_MANIFEST);
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    spt_status status = spt_file_read(path, SPT_PACK_MANIFEST_MAX, &text, err);
    if (status == SPT_OK)
        status = spt_pack_parse(text.data, text.size, folder, pack, err);
    spt_buf_free(&text);
    spt_free(path);
    return status;
}

void spt_pack_close(spt_pack *pack)
{
    if (!pack)
        return;
    cJSON_Delete(pack->manifest);
    spt_arena_free(&pack->arena);
    spt_free(pack->folder);
    spt_free(pack);
}

size_t spt_pack_count(const spt_pack *pack)
{
    return pack->n_kernels;
}

const spt_pack_kernel *spt_pack_at(const spt_pack *pack, size_t index)
{
    return index < pack->n_kernels ? &pack->kernels[index] : NULL;
}

const char *spt_pack_digest(const spt_pack *pack)
{
    return pack->digest;
}

const char *spt_pack_compiler(const spt_pack *pack)
{
    return pack->compiler;
}
