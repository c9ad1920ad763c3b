/* SHA-256 as lower-case hexadecimal text. */
#ifndef SPT_HASH_H
#define SPT_HASH_H

#include "error.h"

enum { SPT_SHA256_TEXT = 65 };

void spt_sha256(const void *data, size_t size, char hex[SPT_SHA256_TEXT]);

/* The file's hash, read in parts; *bytes (may be NULL) gets its size. */
spt_status spt_sha256_file(const char *path, char hex[SPT_SHA256_TEXT],
                           uint64_t *bytes, spt_error *err);

/* 64 characters 0-9a-f and the end. */
bool spt_sha256_valid(const char *hex);

#endif
