/*
 * Bias and penalties on the device. Host memory has the lists of a few tokens
 * anyway, as it has the text: they go to the device with the inputs of a step,
 * so that no session keeps counts there that a rewind would have to undo.
 */
#include <string.h>

#include "forward_int.h"

enum {
    LIST_INTS = sizeof(spt_adjust_list) / sizeof(int32_t),
    ROW_INTS = sizeof(spt_adjust_row) / sizeof(int32_t),
    ENTRY_INTS = sizeof(spt_adjust_entry) / sizeof(int32_t),
    /* Inputs are padded to so many ints: lists that grow keep a graph. */
    PAD_INTS = 1024
};

uint64_t forward_adjust_entries(const spt_model_config *c,
                                const spt_forward_limits *l)
{
    int vocab = l->target_vocab ? l->target_vocab : c->vocab;
    return (uint64_t)(vocab < SPT_ADJUST_ENTRIES ? vocab : SPT_ADJUST_ENTRIES);
}

uint64_t forward_adjust_ints(const spt_model_config *c,
                             const spt_forward_limits *l)
{
    uint64_t list = LIST_INTS + ENTRY_INTS * forward_adjust_entries(c, l);
    return (uint64_t)l->sequences * list +
           (uint64_t)l->logits * (ROW_INTS + SPT_ADJUST_CHANGES) + PAD_INTS;
}

/* Where the next list, row and int of the data are written. */
typedef struct cursor {
    spt_adjust_list *list;
    spt_adjust_row *row;
    int32_t *data;
    int lists, ints; /* so far */
} cursor;

static int32_t append(cursor *to, const void *from, size_t ints)
{
    int at = to->ints;
    memcpy(to->data + at, from, ints * sizeof(int32_t));
    to->ints += (int)ints;
    return at;
}

/* The rows of an item, whose logits begin with row `first`. */
static void write_rows(cursor *to, const spt_forward_item *item, int first)
{
    const spt_adjustment *a = item->adjust;
    *to->list = a->list;
    to->list->first =
        append(to, a->entries, (size_t)a->list.count * ENTRY_INTS);
    for (int i = 0; i < item->logits; i++) {
        int changes = a->start[i + 1] - a->start[i];
        int32_t at = append(to, a->changes + a->start[i], (size_t)changes);
        *to->row++ = (spt_adjust_row){first + i, to->lists, at, changes};
    }
    to->list++;
    to->lists++;
}

void forward_adjust_write(const spt_forward_item *items, int count,
                          forward_writer *w, forward_adjusting *a)
{
    CUdeviceptr unused;
    cursor to = {0};
    int row = 0;
    *a = (forward_adjusting){0};
    for (int i = 0; i < count; i++) {
        const spt_forward_item *item = &items[i];
        if (!item->sample || !item->adjust)
            continue;
        a->lists++;
        a->rows += item->logits;
        a->restore = a->restore || item->logprobs;
    }
    if (!a->lists)
        return;
    w->at += w->at % 2; /* lists hold doubles */
    to.list = (void *)forward_write_ints(w, a->lists * LIST_INTS, &a->list);
    to.row = (void *)forward_write_ints(w, a->rows * ROW_INTS, &a->row);
    to.data = forward_write_ints(w, 0, &a->data);
    for (int i = 0; i < count; i++) {
        if (items[i].sample && items[i].adjust)
            write_rows(&to, &items[i], row);
        row += items[i].sample ? items[i].logits : 0;
    }
    forward_write_ints(w, to.ints, &unused);
    w->at += PAD_INTS - w->at % PAD_INTS;
}

spt_status forward_adjust(const spt_forward *f, const forward_adjusting *a,
                          bool restore, spt_error *err)
{
    const forward_rows rows = forward_rows_of(f);
    const spt_adjust_args args = {
        .logits = rows.logits,
        .lists = a->list,
        .rows = a->row,
        .data = a->data,
        .kept = a->restore ? f->buffer[SPT_FORWARD_ADJUSTED] : 0,
        .logits_stride = rows.stride,
        .kept_stride = (int64_t)f->sizes.adjusted,
        .restore = restore};
    return spt_adjust_launch(f->driver, f->kernels.adjust, &args, a->rows,
                             f->stream, err);
}
