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

/* Writes an entry whole. */
spt_status spt_cache_store(const char *folder, const spt_image *image,
                           spt_error *err);

/*
 * The identity of the compiler in a library file, once it was kept: asking
 * the compiler itself costs a compilation.
 */
bool spt_cache_compiler(const char *folder, const char *library, char *identity,
                        size_t size);
void spt_cache_keep_compiler(const char *folder, const char *library,
                             const char *identity);

/*
 * cache_limit.c. The most that the cache may take: $SPECTUNE_CACHE_LIMIT (as
 * 500M, 2G), else 2 GiB; 0 = no limit. SPT_E_USAGE: it is no size.
 */
spt_status spt_cache_limit(uint64_t *bytes, spt_error *err);

/* How many entries there are, and what they take. */
void spt_cache_measure(const char *folder, size_t *count, uint64_t *bytes);

/* Removes the entries whose last use is longest ago while they take more than
   limit (0: nothing), and what killed writers left an hour ago. */
void spt_cache_trim(const char *folder, uint64_t limit);

/* The folder when none is given: see spt_compiler_open. spt_free; or NULL. */
char *spt_cache_default(void);

#endif
