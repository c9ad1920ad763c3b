/* Compiled kernels on disk, one file per key. See cache.c. */
#ifndef SPT_CACHE_H
#define SPT_CACHE_H

#include "gen.h"

/*
 * Reads the entry of image->key into image. False when there is none; what is
 * damaged counts as none, is removed when that is possible, and reason (of
 * that size) says why ("" = there was no entry).
 */
bool spt_cache_load(const char *folder, spt_image *image, char *reason,
                    size_t size);

/* Writes an entry whole. Failure is not an error: the next run compiles. */
void spt_cache_store(const char *folder, const spt_image *image);

/* The folder when none is given: see spt_compiler_open. spt_free; or NULL. */
char *spt_cache_default(void);

#endif
