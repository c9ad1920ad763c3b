/*
 * Allocations, their windows, and the driver's copies.
 *
 * A window's data and bits are two reservations without access rights; they
 * become readable and writable in steps as the allocations grow upwards.
 */
#include "memory.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "mem.h"
#include "memory_bits.h"

#define COMMIT_STEP (UINT64_C(64) << 20) /* bytes of data made usable at once */
#define PAGE UINT64_C(4096)
enum { SMALL_UNIT = 512, FREED_MAX = 4096 };

typedef struct window {
    uint64_t base, next, committed; /* committed, next: bytes from base */
    uint64_t used, capacity;
    uint8_t *host; /* NULL until the first allocation */
    uint64_t *bits;
} window;

struct sim_memory {
    pthread_mutex_t lock;
    bool checks;
    int devices;
    window *windows;
    sim_range *ranges; /* sorted by va */
    size_t count, room, freed;
};

sim_memory *sim_memory_new(const uint64_t *capacity, int devices, bool checks)
{
    sim_memory *mem = spt_calloc(1, sizeof *mem);
    if (!mem)
        return NULL;
    mem->windows = spt_calloc((size_t)devices, sizeof *mem->windows);
    if (!mem->windows) {
        spt_free(mem);
        return NULL;
    }
    pthread_mutex_init(&mem->lock, NULL);
    mem->checks = checks;
    mem->devices = devices;
    for (int i = 0; i < devices; i++) {
        mem->windows[i].base = SIM_DEVICE_BASE(i);
        mem->windows[i].capacity = capacity[i];
    }
    return mem;
}

void sim_memory_delete(sim_memory *mem)
{
    if (!mem)
        return;
    for (int i = 0; i < mem->devices; i++) {
        if (!mem->windows[i].host)
            continue;
        munmap(mem->windows[i].host, SIM_WINDOW_BYTES);
        munmap(mem->windows[i].bits, SIM_WINDOW_BYTES / 8);
    }
    pthread_mutex_destroy(&mem->lock);
    spt_free(mem->windows);
    spt_free(mem->ranges);
    spt_free(mem);
}

static void *reserve(uint64_t size)
{
    void *p = mmap(NULL, size, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, size, MADV_DONTDUMP);
    return p;
}

static bool commit(window *w, uint64_t end)
{
    if (!w->host) {
        uint8_t *host = reserve(SIM_WINDOW_BYTES);
        uint64_t *bits = host ? reserve(SIM_WINDOW_BYTES / 8) : NULL;
        if (!bits) {
            if (host)
                munmap(host, SIM_WINDOW_BYTES);
            return false;
        }
        madvise(host, SIM_WINDOW_BYTES, MADV_HUGEPAGE); /* 2 MiB a fault */
        w->host = host;
        w->bits = bits;
    }
    if (end <= w->committed)
        return true;
    uint64_t to = (end + COMMIT_STEP - 1) / COMMIT_STEP * COMMIT_STEP;
    if (to > SIM_WINDOW_BYTES)
        to = SIM_WINDOW_BYTES;
    uint64_t from = w->committed;
    int rights = PROT_READ | PROT_WRITE;
    if (mprotect(w->host + from, to - from, rights) ||
        mprotect((char *)w->bits + from / 8, (to - from) / 8, rights))
        return false;
    w->committed = to;
    return true;
}

/* Index of the first range that ends after va. */
static size_t lower(const sim_memory *mem, uint64_t va)
{
    size_t low = 0, high = mem->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (mem->ranges[mid].va + mem->ranges[mid].size <= va)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void drop_freed(sim_memory *mem)
{
    size_t kept = 0;
    for (size_t i = 0; i < mem->count; i++)
        if (!mem->ranges[i].freed)
            mem->ranges[kept++] = mem->ranges[i];
    mem->count = kept;
    mem->freed = 0;
}

static bool insert(sim_memory *mem, const sim_range *range)
{
    if (mem->freed > FREED_MAX && mem->freed > mem->count / 2)
        drop_freed(mem);
    if (!spt_grow(&mem->ranges, &mem->room, mem->count + 1,
                  sizeof *mem->ranges))
        return false;
    size_t at = lower(mem, range->va);
    memmove(mem->ranges + at + 1, mem->ranges + at,
            (mem->count - at) * sizeof *mem->ranges);
    mem->ranges[at] = *range;
    mem->count++;
    return true;
}

/* First fit between live ranges, once the window is used up. */
static bool first_fit(sim_memory *mem, const window *w, uint64_t span,
                      uint64_t *offset)
{
    drop_freed(mem);
    uint64_t at = PAGE;
    for (size_t i = lower(mem, w->base); i < mem->count; i++) {
        const sim_range *r = &mem->ranges[i];
        if (r->va >= w->base + SIM_WINDOW_BYTES)
            break;
        uint64_t start = r->va - w->base;
        if (start >= at + span)
            break;
        at = (start + r->size + 2 * PAGE - 1) / PAGE * PAGE;
    }
    *offset = at;
    return at + span <= SIM_WINDOW_BYTES;
}

static spt_status alloc_locked(sim_memory *mem, int device, uint64_t size,
                               uint64_t *va)
{
    window *w = &mem->windows[device];
    if (size > w->capacity || w->used + size > w->capacity)
        return SPT_E_MEMORY;
    uint64_t unit = size >= 16 * PAGE ? PAGE : SMALL_UNIT;
    uint64_t span = (size + unit - 1) / unit * unit + unit;
    uint64_t at = w->next ? (w->next + unit - 1) / unit * unit : PAGE;
    bool fresh = at + span <= SIM_WINDOW_BYTES;
    if (!fresh && !first_fit(mem, w, span, &at))
        return SPT_E_MEMORY;
    if (!commit(w, at + span))
        return SPT_E_MEMORY;
    sim_range range = {.va = w->base + at,
                       .size = size,
                       .host = w->host + at,
                       .bits = w->bits + at / 64,
                       .device = device};
    if (!insert(mem, &range))
        return SPT_E_MEMORY;
    if (fresh)
        w->next = at + span;
    w->used += size;
    *va = range.va;
    return SPT_OK;
}

spt_status sim_memory_alloc(sim_memory *mem, int device, uint64_t size,
                            uint64_t *va)
{
    if (!size || device < 0 || device >= mem->devices)
        return SPT_E_USAGE;
    pthread_mutex_lock(&mem->lock);
    spt_status status = alloc_locked(mem, device, size, va);
    pthread_mutex_unlock(&mem->lock);
    return status;
}

/* Gives whole pages back to the host; their bytes read as zero afterwards. */
static void discard(void *start, uint64_t size)
{
    uintptr_t from = ((uintptr_t)start + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t to = ((uintptr_t)start + size) & ~(uintptr_t)(PAGE - 1);
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

/* The contents of a range count as never written. */
static void forget(sim_range *r)
{
    uint64_t words = (r->size + 63) / 64;
    if (words * 8 >= 4 * PAGE) {
        uint64_t edge = PAGE / 8;
        memset(r->bits, 0, PAGE);
        memset(r->bits + words - edge, 0, PAGE);
        discard(r->bits, words * 8);
    } else {
        memset(r->bits, 0, words * 8);
    }
    discard(r->host, r->size);
}

void sim_memory_forget(sim_memory *mem, uint64_t va)
{
    pthread_mutex_lock(&mem->lock);
    size_t at = lower(mem, va);
    sim_range *r = mem->ranges + at;
    if (at < mem->count && r->va == va && !r->freed && r->bits)
        forget(r);
    pthread_mutex_unlock(&mem->lock);
}

spt_status sim_memory_release(sim_memory *mem, uint64_t va)
{
    spt_status status = SPT_E_USAGE;
    pthread_mutex_lock(&mem->lock);
    size_t at = lower(mem, va);
    sim_range *r = mem->ranges + at;
    if (at < mem->count && r->va == va && !r->freed) {
        status = SPT_OK;
        if (!r->bits) {
            memmove(r, r + 1, (--mem->count - at) * sizeof *r);
        } else {
            forget(r);
            r->freed = true;
            mem->freed++;
            mem->windows[r->device].used -= r->size;
        }
    }
    pthread_mutex_unlock(&mem->lock);
    return status;
}

spt_status sim_memory_map(sim_memory *mem, void *host, uint64_t size)
{
    sim_range range = {.va = (uint64_t)(uintptr_t)host,
                       .size = size,
                       .host = host,
                       .device = -1};
    pthread_mutex_lock(&mem->lock);
    bool ok = insert(mem, &range);
    pthread_mutex_unlock(&mem->lock);
    return ok ? SPT_OK : SPT_E_MEMORY;
}

bool sim_memory_find(sim_memory *mem, uint64_t va, sim_range *range,
                     sim_range *nearest)
{
    pthread_mutex_lock(&mem->lock);
    size_t at = lower(mem, va);
    bool found = at < mem->count && mem->ranges[at].va <= va;
    if (found)
        *range = mem->ranges[at];
    if (nearest)
        *nearest = at ? mem->ranges[at - 1] : (sim_range){0};
    pthread_mutex_unlock(&mem->lock);
    return found;
}

void sim_memory_info(sim_memory *mem, int device, uint64_t *used,
                     uint64_t *capacity)
{
    pthread_mutex_lock(&mem->lock);
    *used = mem->windows[device].used;
    *capacity = mem->windows[device].capacity;
    pthread_mutex_unlock(&mem->lock);
}

static bool find_span(sim_memory *mem, uint64_t va, uint64_t size,
                      sim_range *range)
{
    return sim_memory_find(mem, va, range, NULL) && !range->freed &&
           size <= range->size && va - range->va <= range->size - size;
}

spt_status sim_memory_write(sim_memory *mem, uint64_t va, const void *from,
                            uint64_t size)
{
    sim_range r;
    if (!size)
        return SPT_OK;
    if (!find_span(mem, va, size, &r))
        return SPT_E_USAGE;
    uint64_t at = va - r.va;
    memmove(r.host + at, from, size);
    if (r.bits)
        bits_set(r.bits, at, size);
    return SPT_OK;
}

/* Fills what was never written, in a copy of the range's bytes. */
static void poison(const sim_range *r, uint64_t at, uint8_t *to, uint64_t size)
{
    if (!r->bits || bits_all(r->bits, at, size))
        return;
    for (uint64_t i = 0; i < size; i++)
        if (!bits_get(r->bits, at + i))
            to[i] = SIM_POISON;
}

spt_status sim_memory_read(sim_memory *mem, void *to, uint64_t va,
                           uint64_t size)
{
    sim_range r;
    if (!size)
        return SPT_OK;
    if (!find_span(mem, va, size, &r))
        return SPT_E_USAGE;
    memmove(to, r.host + (va - r.va), size);
    if (mem->checks)
        poison(&r, va - r.va, to, size);
    return SPT_OK;
}

static void copy_bits(const sim_range *to, uint64_t to_at,
                      const sim_range *from, uint64_t from_at, uint64_t size)
{
    if (!to->bits)
        return;
    if (!from->bits || bits_all(from->bits, from_at, size)) {
        bits_set(to->bits, to_at, size);
        return;
    }
    bool down = to->bits == from->bits && to_at > from_at;
    for (uint64_t k = 0; k < size; k++) {
        uint64_t i = down ? size - 1 - k : k;
        if (bits_get(from->bits, from_at + i))
            bits_set(to->bits, to_at + i, 1);
        else
            bits_clear(to->bits, to_at + i, 1);
    }
}

spt_status sim_memory_copy(sim_memory *mem, uint64_t to, uint64_t from,
                           uint64_t size)
{
    sim_range a, b;
    if (!size)
        return SPT_OK;
    if (!find_span(mem, to, size, &a) || !find_span(mem, from, size, &b))
        return SPT_E_USAGE;
    memmove(a.host + (to - a.va), b.host + (from - b.va), size);
    copy_bits(&a, to - a.va, &b, from - b.va, size);
    return SPT_OK;
}

spt_status sim_memory_fill(sim_memory *mem, uint64_t va, const void *pattern,
                           unsigned width, uint64_t count)
{
    sim_range r;
    if (!count)
        return SPT_OK;
    if (count > UINT64_MAX / width || !find_span(mem, va, count * width, &r))
        return SPT_E_USAGE;
    uint64_t at = va - r.va, size = count * width;
    uint8_t *host = r.host + at;
    if (width == 1) {
        memset(host, *(const uint8_t *)pattern, size);
    } else {
        memcpy(host, pattern, width);
        for (uint64_t done = width; done < size;) {
            uint64_t n = done < size - done ? done : size - done;
            memcpy(host + done, host, n);
            done += n;
        }
    }
    if (r.bits)
        bits_set(r.bits, at, size);
    return SPT_OK;
}
