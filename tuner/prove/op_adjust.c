/*
 * Logit bias and penalties (runtime/kernels/adjust.h) for `spectune prove
 * adjust`: lists of any length up to `entries`, changes of either sign.
 */
#include <string.h>

#include "adjust.h"
#include "op_logits.h"

enum { LOGITS, LISTS, ROWS, DATA, KEPT };

/* Ints of a row in the data: entries, then changes. */
enum { ENTRY_INTS = sizeof(spt_adjust_entry) / sizeof(int32_t) };

static size_t data_ints(const spt_op_case *c)
{
    return (size_t)spt_op_int(c, "entries") * ENTRY_INTS + SPT_ADJUST_CHANGES;
}

static uint64_t random_of(const spt_op_case *c, const char *name, size_t row,
                          size_t i)
{
    return spt_op_random(c, name, c->first + row, i);
}

static double penalty(uint64_t bits)
{
    return bits % 4 ? (double)(bits >> 8 & 255) / 64 - 1 : 0;
}

/* Lists stand the other way round. */
static size_t list_at(const spt_op_case *c, size_t row)
{
    return c->rows - 1 - row;
}

static spt_adjust_list list_of(const spt_op_case *c, size_t row)
{
    uint64_t most = (uint64_t)spt_op_int(c, "entries") + 1;
    uint64_t vocabulary = (uint64_t)spt_op_int(c, "vocabulary");
    uint64_t count = random_of(c, "entries", row, 0) % most;
    uint64_t bits = random_of(c, "repeat", row, 0);
    return (spt_adjust_list){
        .repeat = bits % 3 ? 1 + (double)(bits >> 8 & 255) / 256 : 1,
        .presence = penalty(random_of(c, "presence", row, 0)),
        .frequency = penalty(random_of(c, "frequency", row, 0)),
        .first = (int32_t)(row * data_ints(c)),
        .count = (int32_t)(count < vocabulary ? count : vocabulary)};
}

static spt_adjust_entry entry_of(const spt_op_case *c, size_t row, size_t i)
{
    uint64_t bits = random_of(c, "entry", row, i);
    uint64_t first = random_of(c, "first", row, 0);
    uint64_t vocabulary = (uint64_t)spt_op_int(c, "vocabulary");
    return (spt_adjust_entry){
        .token = (int32_t)((first + i) % vocabulary),
        .count = (int32_t)(bits % 3),
        .bias = bits & 1 << 10 ? (float)(bits >> 16 & 255) / 32 - 4 : 0};
}

static int32_t changes_of(const spt_op_case *c, size_t row)
{
    return (int32_t)(random_of(c, "changes", row, 0) %
                     (SPT_ADJUST_CHANGES + 1));
}

/* Of a token of the list, where there is one: once more, seldom once less. */
static int32_t change_of(const spt_op_case *c, size_t row, size_t i)
{
    uint64_t bits = random_of(c, "change", row, i);
    uint64_t count = (uint64_t)list_of(c, row).count;
    int32_t token = entry_of(c, row, count ? bits % count : 0).token;
    return bits >> 32 & 3 ? token : ~token;
}

static void fill_data(spt_op_case *c, size_t row)
{
    spt_adjust_list list = list_of(c, row);
    size_t entries = (size_t)list.count, changes = (size_t)changes_of(c, row);
    char *data = c->buffers[DATA].data + row * data_ints(c) * sizeof(int32_t);
    for (size_t i = 0; i < entries; i++) {
        spt_adjust_entry entry = entry_of(c, row, i);
        memcpy(data + i * sizeof entry, &entry, sizeof entry);
    }
    data += entries * sizeof(spt_adjust_entry);
    for (size_t i = 0; i < changes; i++) {
        int32_t change = change_of(c, row, i);
        memcpy(data + i * sizeof change, &change, sizeof change);
    }
    const spt_adjust_row at = {.row = (int32_t)row,
                               .list = (int32_t)list_at(c, row),
                               .first = list.first + list.count * ENTRY_INTS,
                               .count = (int32_t)changes};
    memcpy(c->buffers[LISTS].data + list_at(c, row) * sizeof list, &list,
           sizeof list);
    memcpy(c->buffers[ROWS].data + row * sizeof at, &at, sizeof at);
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t vocabulary = (size_t)spt_op_int(c, "vocabulary");
    bool restore = spt_op_int(c, "restore") != 0;
    (void)err;
    spt_op_fill(c,
                spt_op_add(c, "logits", SPT_ELEMENT_F32, SPT_ROLE_BOTH, true,
                           c->rows, vocabulary),
                3);
    spt_op_add_structs(c, "lists", SPT_ROLE_IN, sizeof(spt_adjust_list));
    spt_op_add_structs(c, "rows", SPT_ROLE_IN, sizeof(spt_adjust_row));
    spt_op_add_structs(c, "data", SPT_ROLE_IN, data_ints(c) * sizeof(int32_t));
    spt_op_buffer *kept = spt_op_add(c, "kept", SPT_ELEMENT_F32,
                                     restore ? SPT_ROLE_IN : SPT_ROLE_OUT, true,
                                     c->rows, (size_t)spt_op_int(c, "entries"));
    if (restore)
        spt_op_fill(c, kept, 1);
    for (size_t row = 0; !c->failed && row < c->rows; row++)
        fill_data(c, row);
    return SPT_OK;
}

/* How often the entry's token occurred on the way to the row. */
static int occurrences(const spt_op_case *c, size_t row, spt_adjust_entry entry)
{
    int32_t changes = changes_of(c, row);
    int count = entry.count;
    for (int32_t i = 0; i < changes; i++) {
        int32_t change = change_of(c, row, (size_t)i);
        count += change == entry.token;
        count -= ~change == entry.token;
    }
    return count;
}

static void expect_entry(spt_op_case *c, size_t row, size_t i)
{
    spt_op_buffer *logits = &c->buffers[LOGITS], *kept = &c->buffers[KEPT];
    spt_adjust_list list = list_of(c, row);
    spt_adjust_entry entry = entry_of(c, row, i);
    size_t token = (size_t)entry.token;
    float logit = (float)spt_op_get(logits, row, token);
    if (spt_op_int(c, "restore")) {
        spt_op_expect_exactly(logits, row, token, spt_op_get(kept, row, i));
        return;
    }
    spt_op_expect_exactly(kept, row, i, (double)logit);
    spt_op_expect_exactly(logits, row, token,
                          (double)spt_adjust_logit(&list, logit, entry.bias,
                                                   occurrences(c, row, entry)));
}

static void reference(spt_op_case *c)
{
    for (size_t row = 0; row < c->rows; row++)
        for (int32_t i = 0; i < list_of(c, row).count; i++)
            expect_entry(c, row, (size_t)i);
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_adjust_args args = {
        .logits = at[LOGITS],
        .lists = at[LISTS],
        .rows = at[ROWS],
        .data = at[DATA],
        .kept = at[KEPT],
        .logits_stride = (int64_t)c->buffers[LOGITS].stride,
        .kept_stride = (int64_t)c->buffers[KEPT].stride,
        .restore = (int32_t)spt_op_int(c, "restore"),
    };
    return spt_adjust_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_adjust = {
    .name = "adjust",
    .values = {SPT_OP_VOCABULARY,
               {"entries", 70, 1, SPT_ADJUST_ENTRIES, "of the longest list"},
               {"restore", 0, 0, 1, "1: puts kept logits back"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
