#include "pack_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "hash.h"
#include "json.h"
#include "pack.h"

typedef struct pack_entry {
    char path[SPT_PACK_PATH_MAX];
    char *data;
    size_t size;
} pack_entry;

struct spt_pack_writer {
    cJSON *kernels;
    char compiler[sizeof((spt_image *)0)->compiler];
    pack_entry *entries;
    size_t count, capacity;
};

spt_status spt_pack_writer_open(const char *compiler, spt_pack_writer **writer,
                                spt_error *err)
{
    spt_pack_writer *w = spt_calloc(1, sizeof *w);
    if (w)
        w->kernels = cJSON_CreateArray();
    if (!w || !w->kernels) {
        spt_pack_writer_close(w);
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    }
    snprintf(w->compiler, sizeof w->compiler, "%s", compiler);
    *writer = w;
    return SPT_OK;
}

void spt_pack_writer_close(spt_pack_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->count; i++)
        spt_free(writer->entries[i].data);
    spt_free(writer->entries);
    cJSON_Delete(writer->kernels);
    spt_free(writer);
}

/* Adds an image unless a file of that path is there already. */
static spt_status add_entry(spt_pack_writer *w, const char *path,
                            const void *data, size_t size, spt_error *err)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->entries[i].path, path) == 0)
            return SPT_OK;
    if (!spt_grow(&w->entries, &w->capacity, w->count + 1, sizeof *w->entries))
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    pack_entry *entry = &w->entries[w->count];
    snprintf(entry->path, sizeof entry->path, "%s", path);
    entry->data = spt_calloc(size + 1, 1);
    if (!entry->data)
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    memcpy(entry->data, data, size);
    entry->size = size;
    w->count++;
    return SPT_OK;
}

static spt_status add_image(spt_pack_writer *w, cJSON *item,
                            const spt_kernel *kernel, const spt_image *image,
                            const char *kind, spt_error *err)
{
    bool ptx = strcmp(kind, "ptx") == 0;
    const char *data = ptx ? image->ptx : image->cubin;
    size_t size = ptx ? image->ptx_size : image->cubin_size;
    char path[SPT_PACK_PATH_MAX];
    if (!data) {
        cJSON_AddNullToObject(item, kind);
        return SPT_OK;
    }
    snprintf(path, sizeof path, "%s/%s.%s-%.16s.%s", kind,
             kernel->template_name, kernel->target, image->key, kind);
    if (!spt_pack_path_valid(path))
        return spt_fail(err, SPT_E_INTERNAL, "pack: '%s' is not a valid path",
                        path);
    cJSON_AddStringToObject(item, kind, path);
    return add_entry(w, path, data, size, err);
}

static spt_status describe(spt_pack_writer *w, const spt_kernel *kernel,
                           const spt_image *image, cJSON *item, spt_error *err)
{
    cJSON_AddStringToObject(item, "name", kernel->template_name);
    cJSON_AddStringToObject(item, "symbol", kernel->symbol);
    cJSON_AddStringToObject(item, "config", kernel->config);
    cJSON_AddStringToObject(item, "key", kernel->key);
    cJSON_AddStringToObject(item, "target", kernel->target);
    cJSON_AddStringToObject(item, "template_hash", kernel->template_hash);
    cJSON_AddNumberToObject(item, "threads", kernel->threads);
    cJSON_AddNumberToObject(item, "registers", image->registers);
    cJSON_AddNumberToObject(item, "shared_bytes", image->shared_bytes);
    cJSON_AddNumberToObject(item, "dynamic_shared_bytes", kernel->shared_bytes);
    cJSON_AddNumberToObject(item, "spill_bytes", image->spill_bytes);
    SPT_TRY(add_image(w, item, kernel, image, "cubin", err));
    return add_image(w, item, kernel, image, "ptx", err);
}

spt_status spt_pack_writer_add(spt_pack_writer *writer,
                               const spt_kernel *kernel, const spt_image *image,
                               cJSON *proof, cJSON *times, spt_error *err)
{
    cJSON *item = cJSON_CreateObject();
    spt_status status = SPT_OK;
    if (!times)
        times = cJSON_CreateArray();
    if (!item || !times)
        status = spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    else if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(proof, "ok")))
        status = spt_fail(err, SPT_E_PROOF,
                          "pack: %s %s is not proved and cannot be shipped",
                          kernel->template_name, kernel->config);
    else
        status = describe(writer, kernel, image, item, err);
    if (status != SPT_OK) {
        cJSON_Delete(item);
        cJSON_Delete(proof);
        cJSON_Delete(times);
        return status;
    }
    cJSON_AddItemToObject(item, "proof", proof);
    cJSON_AddItemToObject(item, "times", times);
    cJSON_AddItemToArray(writer->kernels, item);
    return SPT_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const pack_entry *)a)->path, ((const pack_entry *)b)->path);
}

static cJSON *list_files(const spt_pack_writer *w)
{
    cJSON *files = cJSON_CreateArray();
    for (size_t i = 0; i < w->count; i++) {
        char hash[SPT_SHA256_TEXT];
        cJSON *file = cJSON_CreateObject();
        spt_sha256(w->entries[i].data, w->entries[i].size, hash);
        cJSON_AddStringToObject(file, "path", w->entries[i].path);
        cJSON_AddStringToObject(file, "sha256", hash);
        cJSON_AddNumberToObject(file, "bytes", (double)w->entries[i].size);
        cJSON_AddItemToArray(files, file);
    }
    return files;
}

static spt_status write_manifest(const spt_pack_writer *w, const char *path,
                                 spt_error *err)
{
    char digest[SPT_SHA256_TEXT];
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", SPT_PACK_SCHEMA);
    cJSON_AddStringToObject(root, "tool", "spectune " SPT_VERSION);
    cJSON_AddStringToObject(root, "compiler", w->compiler);
    cJSON_AddItemToObject(root, "kernels", cJSON_Duplicate(w->kernels, true));
    cJSON_AddItemToObject(root, "files", list_files(w));
    spt_status status = spt_pack_digest_of(root, digest, err);
    if (status == SPT_OK) {
        cJSON_AddStringToObject(root, "digest", digest);
        status = spt_json_write(path, root, err);
    }
    cJSON_Delete(root);
    return status;
}

/* The manifest comes last: a folder without one is no pack. */
static spt_status write_all(spt_pack_writer *w, const char *folder,
                            spt_error *err)
{
    spt_status status = SPT_OK;
    if (w->count)
        qsort(w->entries, w->count, sizeof *w->entries, by_path);
    for (size_t i = 0; i < w->count && status == SPT_OK; i++) {
        char *path = spt_path_join(folder, w->entries[i].path);
        if (!path)
            return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
        char *slash = strrchr(path, '/');
        *slash = 0;
        status = spt_folder_make(path, err);
        *slash = '/';
        if (status == SPT_OK)
            status = spt_file_write(path, w->entries[i].data,
                                    w->entries[i].size, err);
        spt_free(path);
    }
    char *manifest = spt_path_join(folder, SPT_PACK_MANIFEST);
    if (!manifest)
        return spt_fail(err, SPT_E_MEMORY, "pack: out of memory");
    if (status == SPT_OK)
        status = write_manifest(w, manifest, err);
    spt_free(manifest);
    return status;
}

/* Removes a folder of ours: files, and folders of files. */
static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *inner = spt_path_join(path, e->d_name);
        struct stat info;
        if (inner && lstat(inner, &info) == 0) {
            if (S_ISDIR(info.st_mode))
                remove_tree(inner);
            else
                unlink(inner);
        }
        spt_free(inner);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* What stands in the way may be replaced only if it is empty or a pack. */
static spt_status check_target(const char *folder, spt_error *err)
{
    struct stat info;
    if (lstat(folder, &info) != 0)
        return SPT_OK;
    if (!S_ISDIR(info.st_mode))
        return spt_fail(err, SPT_E_IO, "%s: is there and is not a folder",
                        folder);
    char *manifest = spt_path_join(folder, SPT_PACK_MANIFEST);
    bool is_pack = manifest && spt_file_exists(manifest);
    spt_free(manifest);
    if (is_pack)
        return SPT_OK;
    struct dirent **names;
    int count = scandir(folder, &names, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (count >= 0)
        free(names);
    if (count > 2)
        return spt_fail(err, SPT_E_IO,
                        "%s: holds other files, expected a pack or an empty "
                        "folder",
                        folder);
    return SPT_OK;
}

/* Whether a new folder can be made in that one. */
static spt_status check_parent(const char *parent, spt_error *err)
{
    char *probe = spt_path_join(parent, ".pack.XXXXXX");
    if (!probe)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", parent);
    bool made = mkdtemp(probe) != NULL;
    if (!made)
        spt_fail(err, SPT_E_IO, "%s: cannot make a folder in it: %s", parent,
                 strerror(errno));
    else
        rmdir(probe);
    spt_free(probe);
    return made ? SPT_OK : SPT_E_IO;
}

/* "a//" -> "a"; a copy, or NULL. */
static char *without_slashes(const char *folder)
{
    char *path = spt_strdup(folder);
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    return path;
}

spt_status spt_pack_check_folder(const char *folder, spt_error *err)
{
    struct stat info;
    char *path = without_slashes(folder);
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    spt_status status = SPT_OK;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        status = spt_fail(err, SPT_E_IO,
                          "%s: expected a folder that can be replaced, with "
                          "its name",
                          folder);
    if (status == SPT_OK)
        status = check_target(path, err);
    do
        spt_path_cut(path);
    while (lstat(path, &info) != 0 && strcmp(path, "/") != 0 &&
           strcmp(path, ".") != 0);
    if (status == SPT_OK)
        status = check_parent(path, err);
    spt_free(path);
    return status;
}

/* Swaps the finished folder into place; the old one goes afterwards. */
static spt_status install(const char *made, const char *folder, spt_error *err)
{
    struct stat info;
    if (lstat(folder, &info) != 0) {
        if (rename(made, folder) == 0)
            return SPT_OK;
    } else if (renameat2(AT_FDCWD, made, AT_FDCWD, folder, RENAME_EXCHANGE) ==
               0) {
        remove_tree(made);
        return SPT_OK;
    } else if (errno == EINVAL || errno == ENOSYS) {
        /* A file system without exchange: a moment without a pack. */
        char *old = spt_calloc(strlen(folder) + 8, 1);
        if (!old)
            return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
        sprintf(old, "%s.old", folder);
        remove_tree(old);
        if (rename(folder, old) == 0 && rename(made, folder) == 0) {
            remove_tree(old);
            spt_free(old);
            return SPT_OK;
        }
        spt_free(old);
    }
    return spt_fail(err, SPT_E_IO, "%s: cannot replace: %s", folder,
                    strerror(errno));
}

/* "out/pack" -> "out/.pack.PID" */
static char *hidden_name(const char *folder)
{
    size_t length = strlen(folder);
    char *made = spt_calloc(length + 32, 1);
    const char *slash = strrchr(folder, '/');
    int head = slash ? (int)(slash - folder) + 1 : 0;
    if (made)
        sprintf(made, "%.*s.%s.%ld", head, folder, folder + head,
                (long)getpid());
    return made;
}

spt_status spt_pack_writer_finish(spt_pack_writer *writer, const char *folder,
                                  spt_error *err)
{
    char *path = without_slashes(folder);
    char *made = path ? hidden_name(path) : NULL;
    spt_status status = SPT_OK;
    if (!made) {
        spt_free(path);
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    }
    status = check_target(path, err);
    if (status == SPT_OK)
        status = spt_folder_make(made, err);
    if (status == SPT_OK)
        status = write_all(writer, made, err);
    if (status == SPT_OK)
        status = install(made, path, err);
    if (status != SPT_OK)
        remove_tree(made);
    spt_free(made);
    spt_free(path);
    return status;
}
