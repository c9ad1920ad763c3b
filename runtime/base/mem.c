#include "mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *spt_calloc(size_t count, size_t size)
{
    return calloc(count ? count : 1, size ? size : 1);
}

void *spt_realloc(void *block, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    size_t bytes = count * size;
    return realloc(block, bytes ? bytes : 1);
}

enum { FEW = 16 };

bool spt_grow_to(void *array, size_t *room, size_t count, size_t size)
{
    size_t wanted = *room > SIZE_MAX / 2 ? SIZE_MAX : 2 * *room;
    if (wanted < count)
        wanted = count;
    if (wanted < FEW)
        wanted = FEW;
    void *block; /* array may point to a pointer of any type */
    memcpy(&block, array, sizeof block);
    void *larger = spt_realloc(block, wanted, size);
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *room = wanted;
    return true;
}

void spt_free(void *block)
{
    free(block);
}

char *spt_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = spt_calloc(size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

enum { ARENA_ALIGN = 32, ARENA_BLOCK = 64 * 1024 };

struct spt_arena_block {
    struct spt_arena_block *next;
    size_t used;
    size_t size; /* bytes of data */
    char *data; /* aligned to ARENA_ALIGN */
};

static struct spt_arena_block *block_new(size_t size)
{
    size_t head = sizeof(struct spt_arena_block) + ARENA_ALIGN;
    if (size > SIZE_MAX - head)
        return NULL;
    struct spt_arena_block *block = spt_calloc(1, head + size);
    if (!block)
        return NULL;
    uintptr_t data = (uintptr_t)(block + 1);
    data = (data + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1);
    block->data = (char *)data;
    block->size = size;
    return block;
}

void *spt_arena_alloc(spt_arena *arena, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX - ARENA_ALIGN) / size)
        return NULL;
    size_t bytes = count * size;
    bytes = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct spt_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) {
        block = block_new(bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *data = block->data + block->used;
    block->used += bytes;
    return data;
}

char *spt_arena_strdup(spt_arena *arena, const char *text, size_t length)
{
    char *copy = spt_arena_alloc(arena, length + 1, 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

void spt_arena_free(spt_arena *arena)
{
    for (struct spt_arena_block *block = arena->blocks; block;) {
        struct spt_arena_block *next = block->next;
        spt_free(block);
        block = next;
    }
    arena->blocks = NULL;
}

/* Makes room for size more bytes and the NUL. */
static bool buf_reserve(spt_buf *buf, size_t size)
{
    if (buf->failed)
        return false;
    if (buf->capacity - buf->size > size)
        return true;
    size_t capacity = buf->capacity ? buf->capacity : 256;
    while (capacity - buf->size <= size && capacity < SIZE_MAX / 2)
        capacity *= 2;
    char *data = capacity - buf->size > size
                     ? spt_realloc(buf->data, capacity, 1)
                     : NULL;
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void spt_buf_add(spt_buf *buf, const void *data, size_t size)
{
    if (!buf_reserve(buf, size))
        return;
    if (size)
        memcpy(buf->data + buf->size, data, size);
    buf->size += size;
    buf->data[buf->size] = 0;
}

void spt_buf_puts(spt_buf *buf, const char *text)
{
    spt_buf_add(buf, text, strlen(text));
}

void spt_buf_printf(spt_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (size >= 0 && buf_reserve(buf, (size_t)size)) {
        vsnprintf(buf->data + buf->size, (size_t)size + 1, fmt, again);
        buf->size += (size_t)size;
    }
    va_end(again);
}

void spt_buf_free(spt_buf *buf)
{
    spt_free(buf->data);
    *buf = (spt_buf){0};
}
