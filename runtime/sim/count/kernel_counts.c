#include "kernel_counts.h"

#include <pthread.h>
#include <string.h>

#include "counters.h"
#include "mem.h"

typedef struct entry {
    char *kernel;
    spt_sim_counters sums;
} entry;

static struct {
    pthread_mutex_t lock;
    entry *entries;
    size_t count, capacity;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static entry *find(const char *kernel)
{
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.entries[i].kernel, kernel) == 0)
            return &list.entries[i];
    return NULL;
}

static entry *append(const char *kernel)
{
    if (list.count == list.capacity) {
        size_t capacity = list.capacity ? 2 * list.capacity : 16;
        entry *more = spt_calloc(capacity, sizeof *more);
        if (!more)
            return NULL;
        if (list.count)
            memcpy(more, list.entries, list.count * sizeof *more);
        spt_free(list.entries);
        list.entries = more;
        list.capacity = capacity;
    }
    char *name = spt_strdup(kernel);
    if (!name)
        return NULL;
    entry *e = &list.entries[list.count++];
    *e = (entry){.kernel = name};
    return e;
}

void sim_kernel_counts_add(const char *kernel, const spt_sim_counters *launch)
{
    pthread_mutex_lock(&list.lock);
    entry *e = find(kernel);
    if (!e)
        e = append(kernel);
    if (e)
        sim_counters_add(&e->sums, launch);
    pthread_mutex_unlock(&list.lock);
}

void sim_kernel_counts_clear(void)
{
    pthread_mutex_lock(&list.lock);
    for (size_t i = 0; i < list.count; i++)
        spt_free(list.entries[i].kernel);
    spt_free(list.entries);
    list.entries = NULL;
    list.count = list.capacity = 0;
    pthread_mutex_unlock(&list.lock);
}

bool spt_sim_kernel_get(size_t index, const char **kernel,
                        spt_sim_counters *counters)
{
    pthread_mutex_lock(&list.lock);
    bool found = index < list.count;
    if (found) {
        *kernel = list.entries[index].kernel;
        *counters = list.entries[index].sums;
    }
    pthread_mutex_unlock(&list.lock);
    return found;
}
