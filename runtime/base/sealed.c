#include "sealed.h"

#include <string.h>

#include "files.h"
#include "hash.h"

spt_status spt_sealed_write(const char *path, const char *kind,
                            const void *data, size_t size, spt_error *err)
{
    char hash[SPT_SHA256_TEXT];
    spt_buf text = {0};
    spt_sha256(data, size, hash);
    spt_buf_printf(&text, "%s %s\n", kind, hash);
    spt_buf_add(&text, data, size);
    spt_status status =
        text.failed ? spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path)
                    : spt_file_write(path, text.data, text.size, err);
    spt_buf_free(&text);
    return status;
}

/* Size of a right head of the text, or 0. */
static size_t check_head(const spt_buf *text, const char *kind)
{
    char hash[SPT_SHA256_TEXT];
    size_t word = strlen(kind), size = word + SPT_SHA256_TEXT + 1;
    if (text->size < size || memcmp(text->data, kind, word) != 0 ||
        text->data[word] != ' ' || text->data[size - 1] != '\n')
        return 0;
    spt_sha256(text->data + size, text->size - size, hash);
    return memcmp(text->data + word + 1, hash, SPT_SHA256_TEXT - 1) == 0 ? size
                                                                         : 0;
}

spt_status spt_sealed_read(const char *path, const char *kind, size_t max_bytes,
                           spt_buf *data, spt_error *err)
{
    spt_buf text = {0};
    spt_status status = spt_file_read(path, max_bytes, &text, err);
    if (status == SPT_OK) {
        size_t head = check_head(&text, kind);
        if (!head)
            status = spt_fail(err, SPT_E_FORMAT,
                              "%s: is damaged, or no %s file", path, kind);
        else
            spt_buf_add(data, text.data + head, text.size - head);
        if (data->failed)
            status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    }
    spt_buf_free(&text);
    return status;
}
