#include "hash.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

static void finish(struct sha256_ctx *ctx, char hex[SPT_SHA256_TEXT])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(ctx, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void spt_sha256(const void *data, size_t size, char hex[SPT_SHA256_TEXT])
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    sha256_update(&ctx, size, data);
    finish(&ctx, hex);
}

spt_status spt_sha256_file(const char *path, char hex[SPT_SHA256_TEXT],
                           uint64_t *bytes, spt_error *err)
{
    struct sha256_ctx ctx;
    unsigned char part[65536];
    uint64_t total = 0;
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file)
        return spt_fail(err, SPT_E_IO, "%s: cannot read: %s", path,
                        strerror(errno));
    sha256_init(&ctx);
    while ((n = fread(part, 1, sizeof part, file)) > 0) {
        sha256_update(&ctx, n, part);
        total += n;
    }
    bool broken = ferror(file) != 0;
    fclose(file);
    if (broken)
        return spt_fail(err, SPT_E_IO, "%s: read error", path);
    finish(&ctx, hex);
    if (bytes)
        *bytes = total;
    return SPT_OK;
}

bool spt_sha256_valid(const char *hex)
{
    return strlen(hex) == SPT_SHA256_TEXT - 1 &&
           strspn(hex, "0123456789abcdef") == SPT_SHA256_TEXT - 1;
}
