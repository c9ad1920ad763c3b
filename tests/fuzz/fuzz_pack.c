/*
 * A manifest from anywhere. Where the digest is the only thing wrong it is
 * corrected, so that what stands behind that check is reached as well.
 */
#include <string.h>

#include "json.h"
#include "pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const char *text, size_t size)
{
    spt_pack *pack;
    spt_error err;
    if (spt_pack_parse(text, size, "/nonexistent", &pack, &err) != SPT_OK)
        return;
    spt_pack_image image;
    for (size_t i = 0; i < spt_pack_count(pack); i++)
        if (spt_pack_load(pack, spt_pack_at(pack, i)->name, NULL, 9, 0, NULL,
                          &image, &err) == SPT_OK)
            spt_pack_image_free(&image);
    spt_pack_verify(pack, NULL, NULL, &err);
    spt_pack_close(pack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    cJSON *root;
    spt_error err;
    char digest[SPT_SHA256_TEXT];
    walk(text, size);
    if (spt_json_parse(text, size, "x", &root, &err) != SPT_OK)
        return 0;
    if (cJSON_IsObject(root) &&
        cJSON_GetObjectItemCaseSensitive(root, "digest") &&
        spt_pack_digest_of(root, digest, &err) == SPT_OK) {
        spt_buf fixed = {0};
        cJSON_ReplaceItemInObjectCaseSensitive(root, "digest",
                                               cJSON_CreateString(digest));
        spt_json_print(root, &fixed);
        if (!fixed.failed)
            walk(fixed.data, fixed.size);
        spt_buf_free(&fixed);
    }
    cJSON_Delete(root);
    return 0;
}
