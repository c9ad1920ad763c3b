/* The texts of CTAs that ran in any order, written in one order. */
#include "engine_print.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct entry {
    uint64_t cta;
    spt_buf text;
} entry;

void sim_prints_add(sim_prints *prints, uint64_t cta, spt_buf *text)
{
    entry one = {cta, *text};
    if (!text->size)
        return;
    spt_buf_add(&prints->texts, &one, sizeof one);
    if (prints->texts.failed)
        spt_buf_free(text);
    *text = (spt_buf){0};
}

static int by_cta(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    return (a->cta > b->cta) - (a->cta < b->cta);
}

void sim_prints_flush(sim_prints *prints)
{
    size_t count = prints->texts.size / sizeof(entry);
    entry *entries = (void *)prints->texts.data;
    if (count)
        qsort(entries, count, sizeof *entries, by_cta);
    for (size_t i = 0; i < count; i++) {
        fwrite(entries[i].text.data, 1, entries[i].text.size, stdout);
        spt_buf_free(&entries[i].text);
    }
    if (count)
        fflush(stdout);
    spt_buf_free(&prints->texts);
}
