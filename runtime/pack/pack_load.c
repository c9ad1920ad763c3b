/* Images of a pack: chosen for a device, read, and checked before use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "log.h"
#include "pack.h"

spt_status spt_pack_read_file(const spt_pack *pack, const spt_pack_file *file,
                              spt_buf *out, spt_error *err)
{
    char *path = spt_path_join(pack->folder, file->path);
    struct stat info;
    spt_status status = SPT_OK;
    if (!path)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", file->path);
    /* A link could lead out of the pack. */
    if (lstat(path, &info) != 0)
        status = spt_fail(err, SPT_E_IO, "%s: is missing", path);
    else if (!S_ISREG(info.st_mode))
        status = spt_fail(err, SPT_E_FORMAT, "%s: is not a plain file", path);
    else if ((uint64_t)info.st_size != file->bytes)
        status = spt_fail(
            err, SPT_E_FORMAT, "%s: has %lld bytes, expected %llu", path,
            (long long)info.st_size, (unsigned long long)file->bytes);
    if (status == SPT_OK)
        status = spt_file_read(path, file->bytes, out, err);
    if (status == SPT_OK) {
        char hash[SPT_SHA256_TEXT];
        spt_sha256(out->data, out->size, hash);
        if (out->size != file->bytes || strcmp(hash, file->sha256) != 0)
            status = spt_fail(err, SPT_E_FORMAT,
                              "%s: is damaged: its SHA-256 is not the "
                              "manifest's",
                              path);
    }
    spt_free(path);
    return status;
}

spt_status spt_pack_verify(const spt_pack *pack,
                           void (*bad)(void *user, const char *path,
                                       const char *reason),
                           void *user, spt_error *err)
{
    spt_status first = SPT_OK;
    for (size_t i = 0; i < pack->n_files; i++) {
        spt_buf data = {0};
        spt_error reason;
        spt_status status =
            spt_pack_read_file(pack, &pack->files[i], &data, &reason);
        spt_buf_free(&data);
        if (status == SPT_OK)
            continue;
        if (first == SPT_OK)
            first = spt_fail(err, SPT_E_FORMAT, "%s", reason.text);
        if (bad)
            bad(user, pack->files[i].path, reason.text);
    }
    return first;
}

/* "sm_90a" into 9, 0, 'a'; false when it is none. */
static bool read_target(const char *target, int *major, int *minor,
                        char *suffix)
{
    if (strncmp(target, "sm_", 3) != 0)
        return false;
    char *end;
    long n = strtol(target + 3, &end, 10);
    if (end == target + 3 || n < 10 || n > 9999 ||
        (*end && strcmp(end, "a") != 0 && strcmp(end, "f") != 0))
        return false;
    *major = (int)(n / 10);
    *minor = (int)(n % 10);
    *suffix = *end;
    return true;
}

/*
 * Machine code runs on its own chip and on later minors of the same major; "a"
 * on its own chip alone (CUDA programming guide, binary compatibility).
 */
int spt_pack_cubin_fit(const char *target, int cc_major, int cc_minor)
{
    int major, minor;
    char suffix;
    if (!read_target(target, &major, &minor, &suffix) || major != cc_major)
        return 0;
    if (minor == cc_minor)
        return 2;
    return suffix != 'a' && minor < cc_minor;
}

/* PTX runs on its own chip and later ones; "f" within the major; "a" exact. */
bool spt_pack_ptx_fit(const char *target, int cc_major, int cc_minor)
{
    int major, minor;
    char suffix;
    if (!read_target(target, &major, &minor, &suffix))
        return false;
    if (suffix == 'a')
        return major == cc_major && minor == cc_minor;
    if (suffix == 'f')
        return major == cc_major && minor <= cc_minor;
    return 10 * major + minor <= 10 * cc_major + cc_minor;
}

enum { EXACT, FAMILY, PTX, STEPS };

static bool is_asked(const spt_pack_kernel *k, const char *name,
                     const char *config)
{
    return strcmp(k->name, name) == 0 &&
           (!config || strcmp(k->config, config) == 0);
}

/* Says what there is of a kernel that does not suit: the reason. */
static void explain(const spt_pack *pack, const char *name, const char *config,
                    int cc_major, int cc_minor, spt_error *reason)
{
    char targets[120] = "";
    bool fits = false;
    for (size_t i = 0; i < pack->n_kernels; i++) {
        const spt_pack_kernel *k = &pack->kernels[i];
        size_t used = strlen(targets);
        if (!is_asked(k, name, config))
            continue;
        fits |= spt_pack_cubin_fit(k->target, cc_major, cc_minor) > 0;
        if (!strstr(targets, k->target))
            snprintf(targets + used, sizeof targets - used, "%s%.20s",
                     used ? ", " : "", k->target);
    }
    if (fits)
        spt_fail(reason, SPT_E_NOT_FOUND,
                 "%.300s: its %.60s has no PTX, which is what sim runs",
                 pack->folder, name);
    else if (*targets)
        spt_fail(reason, SPT_E_NOT_FOUND,
                 "%.300s: its %.60s is for %s, expected one for compute "
                 "capability %d.%d",
                 pack->folder, name, targets, cc_major, cc_minor);
    else
        spt_fail(reason, SPT_E_NOT_FOUND,
                 "%.300s: has no %.60s for compute capability %d.%d",
                 pack->folder, name, cc_major, cc_minor);
}

static bool suits(const spt_pack_kernel *k, int step, int major, int minor)
{
    if (step == PTX)
        return k->ptx && spt_pack_ptx_fit(k->target, major, minor);
    return k->cubin && spt_pack_cubin_fit(k->target, major, minor) == 2 - step;
}

spt_status spt_pack_load(const spt_pack *pack, const char *name,
                         const char *config, int cc_major, int cc_minor,
                         const spt_log *log, spt_pack_image *image,
                         spt_error *err)
{
    return spt_pack_load_for(pack, name, config, cc_major, cc_minor, false, log,
                             image, err);
}

spt_status spt_pack_load_for(const spt_pack *pack, const char *name,
                             const char *config, int cc_major, int cc_minor,
                             bool ptx_only, const spt_log *log,
                             spt_pack_image *image, spt_error *err)
{
    static const char *const words[] = {"exact cubin", "family cubin", "PTX"};
    spt_error reason;
    bool damaged = false;
    for (int step = ptx_only ? PTX : EXACT; step < STEPS; step++) {
        for (size_t i = 0; i < pack->n_kernels; i++) {
            const spt_pack_kernel *k = &pack->kernels[i];
            if (!is_asked(k, name, config) ||
                !suits(k, step, cc_major, cc_minor))
                continue;
            const char *path = step == PTX ? k->ptx : k->cubin;
            spt_buf data = {0};
            if (spt_pack_read_file(pack, spt_pack_find_file(pack, path), &data,
                                   &reason) != SPT_OK) {
                spt_buf_free(&data);
                spt_log_line(log, "pack: miss: %s", reason.text);
                damaged = true;
                continue;
            }
            if (log && log->verbose)
                spt_log_line(log, "pack: %s: %s %s", name, words[step], path);
            *image = (spt_pack_image){data.data, data.size, step == PTX, k};
            return SPT_OK;
        }
    }
    if (!damaged)
        explain(pack, name, config, cc_major, cc_minor, &reason);
    return spt_fail(err, SPT_E_NOT_FOUND, "%s", reason.text);
}

void spt_pack_image_free(spt_pack_image *image)
{
    if (!image)
        return;
    spt_free(image->data);
    *image = (spt_pack_image){0};
}
