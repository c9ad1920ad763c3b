/*
 * Cache of compiled kernels. An entry is one file, KEY.kernel: a head line,
 * the PTX, the cubin. The head has sizes, what the assembler said and the
 * SHA-256 of all that follows it, so that a damaged entry is noticed. Files
 * appear by rename: processes may share a folder.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "files.h"
#include "hash.h"

#define CACHE_MAGIC "spectune-kernel/1"
enum { CACHE_ENTRY_MAX = 256 << 20, HEAD_MAX = 512 };

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

/* What is wrong with the entry, or NULL after image was filled. */
static const char *take_entry(const spt_buf *text, spt_image *image)
{
    char head[HEAD_MAX], key[SPT_SHA256_TEXT], hash[SPT_SHA256_TEXT],
        seen[SPT_SHA256_TEXT], compiler[32];
    size_t length = 0, ptx_size, cubin_size;
    int registers, shared, spill, stack;
    while (length < text->size && length < HEAD_MAX - 1 &&
           text->data[length] != '\n')
        length++;
    if (length == text->size || text->data[length] != '\n')
        return "has no head";
    memcpy(head, text->data, length);
    head[length] = 0;
    if (sscanf(head, CACHE_MAGIC " %64s %64s %zu %zu %d %d %d %d %31[^\n]", key,
               hash, &ptx_size, &cubin_size, &registers, &shared, &spill,
               &stack, compiler) != 9)
        return "has a malformed head";
    const char *body = text->data + length + 1;
    size_t size = text->size - length - 1;
    if (strcmp(key, image->key) != 0)
        return "is of another kernel";
    if (ptx_size > size || cubin_size != size - ptx_size)
        return "has the wrong size";
    spt_sha256(body, size, seen);
    if (strcmp(seen, hash) != 0)
        return "is damaged";
    image->ptx = copy_bytes(body, ptx_size);
    image->cubin = copy_bytes(body + ptx_size, cubin_size);
    if (!image->ptx || !image->cubin) {
        spt_free(image->ptx);
        spt_free(image->cubin);
        image->ptx = image->cubin = NULL;
        return "does not fit into memory";
    }
    image->ptx_size = ptx_size;
    image->cubin_size = cubin_size;
    image->registers = registers;
    image->shared_bytes = shared;
    image->spill_bytes = spill;
    image->stack_bytes = stack;
    memcpy(image->compiler, compiler, sizeof compiler);
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
    if (path && spt_file_exists(path)) {
        if (spt_file_read(path, CACHE_ENTRY_MAX, &text, &err) != SPT_OK) {
            snprintf(reason, size, "%s", err.text);
        } else {
            const char *wrong = take_entry(&text, image);
            found = !wrong;
            if (wrong) {
                snprintf(reason, size, "%s: %s", path, wrong);
                unlink(path);
            }
        }
        spt_buf_free(&text);
    }
    spt_free(path);
    return found;
}

void spt_cache_store(const char *folder, const spt_image *image)
{
    spt_buf body = {0}, entry = {0};
    char hash[SPT_SHA256_TEXT];
    char *path = entry_path(folder, image->key);
    spt_buf_add(&body, image->ptx, image->ptx_size);
    spt_buf_add(&body, image->cubin, image->cubin_size);
    if (path && !body.failed && spt_folder_make(folder, NULL) == SPT_OK) {
        spt_sha256(body.data, body.size, hash);
        spt_buf_printf(&entry, CACHE_MAGIC " %s %s %zu %zu %d %d %d %d %s\n",
                       image->key, hash, image->ptx_size, image->cubin_size,
                       image->registers, image->shared_bytes,
                       image->spill_bytes, image->stack_bytes, image->compiler);
        spt_buf_add(&entry, body.data, body.size);
        if (!entry.failed)
            spt_file_write(path, entry.data, entry.size, NULL);
    }
    spt_buf_free(&body);
    spt_buf_free(&entry);
    spt_free(path);
}
