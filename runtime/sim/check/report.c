/*
 * The table of reports. One process-wide list, like the machine itself;
 * entries beyond SIM_REPORT_MAX places are dropped (a kernel with so many
 * faulty lines has been told enough).
 */
#include "report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIM_REPORT_MAX = 1000 };

typedef struct entry {
    spt_sim_report report;
    uint64_t salt;
    uint32_t ptx_line;
    uint64_t block_index, sequence;
    char detail[112];
} entry;

static struct {
    pthread_mutex_t lock;
    entry *entries;
    size_t count, ended; /* entries before ended have their final order */
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void compose(entry *e)
{
    spt_sim_report *r = &e->report;
    char where[176];
    if (r->line)
        snprintf(where, sizeof where, "%s:%u", r->file, r->line);
    else
        snprintf(where, sizeof where, "PTX line %u", e->ptx_line);
    int n = snprintf(r->text, sizeof r->text,
                     "%s: kernel %s, %s, block (%u,%u,%u) thread (%u,%u,%u)",
                     spt_sim_kind_text(r->kind), r->kernel, where, r->block[0],
                     r->block[1], r->block[2], r->thread[0], r->thread[1],
                     r->thread[2]);
    size_t at = n < (int)sizeof r->text ? (size_t)n : sizeof r->text - 1;
    if (r->address)
        n = snprintf(r->text + at, sizeof r->text - at, ", address 0x%llx",
                     (unsigned long long)r->address);
    else
        n = 0;
    at += (size_t)n;
    if (at < sizeof r->text && e->detail[0])
        snprintf(r->text + at, sizeof r->text - at, ": %s", e->detail);
}

static bool earlier(const entry *e, const sim_place *p)
{
    if (e->block_index != p->block_index)
        return e->block_index < p->block_index;
    return e->sequence <= p->sequence;
}

static void set_example(entry *e, const sim_place *place, uint64_t address,
                        const char *detail)
{
    memcpy(e->report.block, place->block, sizeof e->report.block);
    memcpy(e->report.thread, place->thread, sizeof e->report.thread);
    e->report.address = address;
    e->block_index = place->block_index;
    e->sequence = place->sequence;
    e->ptx_line = place->ptx_line;
    snprintf(e->detail, sizeof e->detail, "%s", detail ? detail : "");
}

static void copy_text(char *to, size_t size, const char *from)
{
    size_t n = strlen(from);
    if (n >= size)
        n = size - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

static bool same_place(const entry *e, spt_sim_kind kind,
                       const sim_place *place, uint64_t salt)
{
    const spt_sim_report *r = &e->report;
    if (r->kind != kind || r->line != place->line || e->salt != salt)
        return false;
    if (!place->line && e->ptx_line != place->ptx_line)
        return false;
    size_t last = sizeof r->kernel - 1;
    if (strncmp(r->kernel, place->kernel, last) != 0)
        return false;
    const char *file = place->file ? place->file : "";
    return strncmp(r->file, file, sizeof r->file - 1) == 0;
}

void sim_report_add(spt_sim_kind kind, const sim_place *place, uint64_t address,
                    uint64_t count, uint64_t salt, const char *detail)
{
    pthread_mutex_lock(&list.lock);
    entry *e = NULL;
    for (size_t i = 0; i < list.count && !e; i++)
        if (same_place(&list.entries[i], kind, place, salt))
            e = &list.entries[i];
    if (e) {
        e->report.count += count;
        if ((size_t)(e - list.entries) >= list.ended && !earlier(e, place))
            set_example(e, place, address, detail);
    } else if (list.count < SIM_REPORT_MAX) {
        if (!list.entries)
            list.entries = spt_calloc(SIM_REPORT_MAX, sizeof *list.entries);
        if (list.entries) {
            e = &list.entries[list.count++];
            memset(e, 0, sizeof *e);
            e->report.kind = kind;
            e->report.line = place->line;
            e->report.count = count;
            e->salt = salt;
            copy_text(e->report.kernel, sizeof e->report.kernel, place->kernel);
            copy_text(e->report.file, sizeof e->report.file,
                      place->file ? place->file : "");
            set_example(e, place, address, detail);
        }
    }
    pthread_mutex_unlock(&list.lock);
}

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->block_index != y->block_index)
        return x->block_index < y->block_index ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    if (x->report.kind != y->report.kind)
        return x->report.kind < y->report.kind ? -1 : 1;
    if (x->ptx_line != y->ptx_line)
        return x->ptx_line < y->ptx_line ? -1 : 1;
    return x->salt < y->salt ? -1 : x->salt > y->salt;
}

void sim_report_end_launch(void)
{
    pthread_mutex_lock(&list.lock);
    if (list.count > list.ended)
        qsort(list.entries + list.ended, list.count - list.ended,
              sizeof *list.entries, compare);
    list.ended = list.count;
    pthread_mutex_unlock(&list.lock);
}

void sim_report_clear(void)
{
    pthread_mutex_lock(&list.lock);
    spt_free(list.entries);
    list.entries = NULL;
    list.count = list.ended = 0;
    pthread_mutex_unlock(&list.lock);
}

size_t spt_sim_report_count(void)
{
    pthread_mutex_lock(&list.lock);
    size_t count = list.count;
    pthread_mutex_unlock(&list.lock);
    return count;
}

bool spt_sim_report_get(size_t index, spt_sim_report *report)
{
    pthread_mutex_lock(&list.lock);
    bool found = index < list.count;
    if (found) {
        compose(&list.entries[index]);
        *report = list.entries[index].report;
    }
    pthread_mutex_unlock(&list.lock);
    return found;
}

const char *spt_sim_kind_text(spt_sim_kind kind)
{
    static const char *const texts[] = {
#define SPT_SIM_KIND(name, text) text,
#include "sim_kinds.def"
#undef SPT_SIM_KIND
    };
    return kind < SPT_SIM_KIND_COUNT ? texts[kind] : "unknown report";
}

bool sim_kind_is_fatal(spt_sim_kind kind)
{
    switch (kind) {
    case SPT_SIM_BOUNDS_GLOBAL:
    case SPT_SIM_BOUNDS_SHARED:
    case SPT_SIM_BOUNDS_LOCAL:
    case SPT_SIM_BOUNDS_PARAM:
    case SPT_SIM_BOUNDS_CONST:
    case SPT_SIM_MISALIGNED:
    case SPT_SIM_READ_ONLY:
    case SPT_SIM_FREED:
    case SPT_SIM_TRAP:
    case SPT_SIM_ASSERT:
    case SPT_SIM_DEADLOCK:
    case SPT_SIM_HANG:
        return true;
    default:
        return false;
    }
}
