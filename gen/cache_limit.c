/*
 * The cache's size: what it has, and what goes when it is too much. The order
 * is that of last use, which the time of a file's last change keeps
 * (spt_cache_load sets it).
 *
 * Several processes may do this at once, and others read and write meanwhile.
 * A reader opens an entry once and reads it whole, so that an entry which goes
 * in between stays for him; one who comes too late finds none, and compiles.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"

enum { DEFAULT_GIB = 2, NAME_BYTES = 96, ABANDONED_SECONDS = 3600 };

typedef struct entry {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
} entry;

typedef struct listing {
    entry *entries;
    size_t count, capacity;
    uint64_t bytes;
} listing;

/* What the cache writes; temporary files have six letters more. */
static const char *const endings[] = {".kernel", ".proof", ".compiler",
                                      ".steps"};

/* How many characters follow the ending of an entry's name; -1: no entry's. */
static int after_ending(const char *name)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        const char *at = strstr(name, endings[i]);
        if (at && at - name == 64 && strspn(name, "0123456789abcdef") == 64)
            return (int)strlen(at + size);
    }
    return -1;
}

/* The name is shorter than NAME_BYTES. */
static bool add(listing *all, const char *name, const struct stat *info)
{
    if (!spt_grow(&all->entries, &all->capacity, all->count + 1,
                  sizeof *all->entries))
        return false;
    entry *e = &all->entries[all->count++];
    memcpy(e->name, name, strlen(name) + 1);
    e->bytes = (uint64_t)info->st_size;
    e->used = info->st_mtim;
    all->bytes += e->bytes;
    return true;
}

/* A writer that was killed leaves its file. */
static void remove_abandoned(int folder, const char *name,
                             const struct stat *info)
{
    if (time(NULL) - info->st_mtim.tv_sec > ABANDONED_SECONDS)
        unlinkat(folder, name, 0);
}

/* Entries of the folder; files of others are left alone. */
static bool list(DIR *folder, listing *all)
{
    struct dirent *item;
    int fd = dirfd(folder);
    while ((item = readdir(folder)) != NULL) {
        struct stat info;
        int more = after_ending(item->d_name);
        if (more < 0 || strlen(item->d_name) >= NAME_BYTES ||
            fstatat(fd, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        if (more == 7)
            remove_abandoned(fd, item->d_name, &info);
        else if (more == 0 && !add(all, item->d_name, &info))
            return false;
    }
    return true;
}

static int by_use(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

spt_status spt_cache_limit(uint64_t *bytes, spt_error *err)
{
    const char *text = getenv("SPECTUNE_CACHE_LIMIT");
    uint64_t value = DEFAULT_GIB, unit = 1 << 30;
    if (text) {
        static const char units[] = "KMG";
        char *end;
        errno = 0;
        value = strtoull(text, &end, 10);
        const char *at = *end ? strchr(units, *end) : NULL;
        unit = at ? UINT64_C(1) << (10 * (at - units + 1)) : 1;
        if (strspn(text, "0123456789") == 0 || (*end && (!at || end[1])) ||
            errno == ERANGE || value > UINT64_MAX / unit)
            return spt_fail(err, SPT_E_USAGE,
                            "SPECTUNE_CACHE_LIMIT: '%.40s' is no size, "
                            "expected one like 500M or 2G, or 0 for no limit",
                            text);
    }
    *bytes = value * unit;
    return SPT_OK;
}

void spt_cache_measure(const char *folder, size_t *count, uint64_t *bytes)
{
    listing all = {0};
    DIR *open = opendir(folder);
    if (open) {
        list(open, &all);
        closedir(open);
    }
    *count = all.count;
    *bytes = all.bytes;
    spt_free(all.entries);
}

void spt_cache_trim(const char *folder, uint64_t limit)
{
    listing all = {0};
    DIR *open = limit ? opendir(folder) : NULL;
    if (!open)
        return;
    if (list(open, &all) && all.bytes > limit)
        qsort(all.entries, all.count, sizeof *all.entries, by_use);
    else
        all.count = 0;
    for (size_t i = 0; i < all.count && all.bytes > limit; i++) {
        unlinkat(dirfd(open), all.entries[i].name, 0);
        all.bytes -= all.entries[i].bytes;
    }
    closedir(open);
    spt_free(all.entries);
}
