/*
 * Memory: plain blocks, an arena for things that die together, and a growable
 * text buffer. Allocation failure is reported, never fatal: block functions
 * return NULL, buffers turn "failed" and stay so.
 */
#ifndef SPT_MEM_H
#define SPT_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

/* Zeroed memory; NULL when out of memory or count*size overflows. */
void *spt_calloc(size_t count, size_t size);

/* Grows or shrinks; on failure NULL and the old block stays valid. */
void *spt_realloc(void *block, size_t count, size_t size);

/*
 * Room for count elements of size bytes each in a block that grows: array is
 * the address of the pointer to the block (NULL while *room is 0). The room
 * at least doubles; what is new holds anything. false when out of memory,
 * with block and room as they were.
 */
bool spt_grow_to(void *array, size_t *room, size_t count, size_t size);

static inline bool spt_grow(void *array, size_t *room, size_t count,
                            size_t size)
{
    return count <= *room || spt_grow_to(array, room, count, size);
}

void spt_free(void *block);

/* A copy owned by the caller (spt_free); NULL when out of memory. */
char *spt_strdup(const char *text);

/* Arena: freed as a whole. Zero-initialise, then use. */
typedef struct spt_arena {
    struct spt_arena_block *blocks;
} spt_arena;

/* Zeroed, 32-byte aligned; NULL when out of memory. */
void *spt_arena_alloc(spt_arena *arena, size_t count, size_t size);
char *spt_arena_strdup(spt_arena *arena, const char *text, size_t length);
void spt_arena_free(spt_arena *arena);

/*
 * Growable bytes, always followed by a NUL that size does not count.
 * Zero-initialise, then use; data is NULL until the first append.
 */
typedef struct spt_buf {
    char *data;
    size_t size;
    size_t capacity;
    bool failed; /* out of memory once: content is incomplete */
} spt_buf;

void spt_buf_add(spt_buf *buf, const void *data, size_t size);
void spt_buf_puts(spt_buf *buf, const char *text);
void spt_buf_printf(spt_buf *buf, const char *fmt, ...) SPT_PRINTF(2, 3);
void spt_buf_free(spt_buf *buf);

#endif
