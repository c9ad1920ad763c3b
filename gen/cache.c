/*
 * Cache of compiled kernels. An entry is one sealed file, KEY.kernel: a line
 * with sizes and what the assembler said, the PTX, the cubin. Files appear by
 * rename: processes may share a folder. The time of a file's last change is
 * that of its last use, by which cache_limit.c removes what is too much.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "files.h"
#include "hash.h"
#include "sealed.h"

#define KERNEL_KIND "spectune-kernel/3"
#define COMPILER_KIND "spectune-compiler/1"
enum { CACHE_ENTRY_MAX = 256 << 20, LINE_MAX_BYTES = 512 };

char *spt_cache_default(void)
{
    const char *given = getenv("SPECTUNE_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given)
        return spt_strdup(given);
    if (xdg && *xdg)
        return spt_path_join(xdg, "spectune");
    if (home && *home)
        return spt_path_join(home, ".cache/spectune");
    return spt_strdup("");
}

static char *entry_path(const char *folder, const char *key)
{
    char name[96];
    snprintf(name, sizeof name, "%s.kernel", key);
    return spt_path_join(folder, name);
}

static char *copy_bytes(const char *data, size_t size)
{
    char *copy = spt_calloc(size + 1, 1);
    if (copy)
        memcpy(copy, data, size);
    return copy;
}

/* One line of text from *at on, which moves behind it; false at the end. */
static bool take_line(const spt_buf *text, size_t *at, char *line, size_t size)
{
    const char *start = text->data + *at;
    const char *end = memchr(start, '\n', text->size - *at);
    if (!end || (size_t)(end - start) >= size)
        return false;
    memcpy(line, start, (size_t)(end - start));
    line[end - start] = 0;
    *at += (size_t)(end - start) + 1;
    return true;
}

static bool take_images(const char *body, spt_image *image)
{
    image->ptx = copy_bytes(body, image->ptx_size);
    image->cubin = copy_bytes(body + image->ptx_size, image->cubin_size);
    if (image->ptx && image->cubin)
        return true;
    spt_image_free(image);
    return false;
}

/* What is wrong with the entry, or NULL after image was filled. */
static const char *take_entry(const spt_buf *text, spt_image *image)
{
    char line[LINE_MAX_BYTES];
    spt_image i = {0};
    size_t at = 0;
    if (!text->size || !take_line(text, &at, line, sizeof line) ||
        sscanf(line, "%64s %zu %zu %d %d %d %d %31[^\n]", i.key, &i.ptx_size,
               &i.cubin_size, &i.registers, &i.shared_bytes, &i.spill_bytes,
               &i.stack_bytes, i.compiler) != 8)
        return "has a malformed head";
    size_t size = text->size - at;
    if (strcmp(i.key, image->key) != 0)
        return "is of another kernel";
    if (i.ptx_size > size || i.cubin_size != size - i.ptx_size)
        return "has the wrong size";
    if (!take_images(text->data + at, &i))
        return "does not fit into memory";
    *image = i;
    return NULL;
}

bool spt_cache_load(const char *folder, spt_image *image, char *reason,
                    size_t size)
{
    char *path = entry_path(folder, image->key);
    spt_buf text = {0};
    spt_error err;
    bool found = false;
    *reason = 0;
    if (!path || !spt_file_exists(path)) {
        spt_free(path);
        return false;
    }
    if (spt_sealed_read(path, KERNEL_KIND, CACHE_ENTRY_MAX, &text, &err) !=
        SPT_OK) {
        /* Another process may have removed it since. */
        if (spt_file_exists(path)) {
            snprintf(reason, size, "%s", err.text);
            unlink(path);
        }
    } else {
        const char *wrong = take_entry(&text, image);
        found = !wrong;
        if (wrong) {
            snprintf(reason, size, "%s: %s", path, wrong);
            unlink(path);
        } else {
            utimensat(AT_FDCWD, path, NULL, 0);
        }
    }
    spt_buf_free(&text);
    spt_free(path);
    return found;
}

spt_status spt_cache_store(const char *folder, const spt_image *image,
                           spt_error *err)
{
    spt_buf body = {0};
    char *path = entry_path(folder, image->key);
    spt_buf_printf(&body, "%s %zu %zu %d %d %d %d %s\n", image->key,
                   image->ptx_size, image->cubin_size, image->registers,
                   image->shared_bytes, image->spill_bytes, image->stack_bytes,
                   image->compiler);
    spt_buf_add(&body, image->ptx, image->ptx_size);
    spt_buf_add(&body, image->cubin, image->cubin_size);
    spt_status status = spt_folder_make(folder, err);
    if (status == SPT_OK && (!path || body.failed))
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", folder);
    if (status == SPT_OK)
        status = spt_sealed_write(path, KERNEL_KIND, body.data, body.size, err);
    spt_buf_free(&body);
    spt_free(path);
    return status;
}

/* The file of a compiler: named by what changes when it is replaced. */
static char *compiler_path(const char *folder, const char *library)
{
    struct stat info;
    char name[96], hash[SPT_SHA256_TEXT], *path = NULL;
    spt_buf text = {0};
    if (stat(library, &info) != 0)
        return NULL;
    spt_buf_printf(&text, "%s\n%lld %lld.%09ld", library,
                   (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                   info.st_mtim.tv_nsec);
    if (!text.failed) {
        spt_sha256(text.data, text.size, hash);
        snprintf(name, sizeof name, "%s.compiler", hash);
        path = spt_path_join(folder, name);
    }
    spt_buf_free(&text);
    return path;
}

bool spt_cache_compiler(const char *folder, const char *library, char *identity,
                        size_t size)
{
    spt_buf text = {0};
    size_t at = 0;
    char *path = compiler_path(folder, library);
    bool found =
        path && spt_file_exists(path) &&
        spt_sealed_read(path, COMPILER_KIND, 256, &text, NULL) == SPT_OK &&
        text.size && take_line(&text, &at, identity, size) && at == text.size &&
        strncmp(identity, "nvrtc ", 6) == 0;
    if (found)
        utimensat(AT_FDCWD, path, NULL, 0);
    spt_buf_free(&text);
    spt_free(path);
    return found;
}

void spt_cache_keep_compiler(const char *folder, const char *library,
                             const char *identity)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s\n", identity);
    char *path = compiler_path(folder, library);
    if (path && spt_folder_make(folder, NULL) == SPT_OK)
        spt_sealed_write(path, COMPILER_KIND, line, (size_t)n, NULL);
    spt_free(path);
}
