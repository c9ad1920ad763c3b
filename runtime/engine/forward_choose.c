/*
 * From logits to text on the device: a token for each row, then the accepted
 * path of each draft block. What comes back are ids and counts.
 */
#include <string.h>

#include "accept_path.h"
#include "forward_int.h"
#include "gather.h"
#include "mem.h"
#include "translate.h"

forward_rows forward_rows_of(const spt_forward *f)
{
    if (f->limits.target_vocab)
        return (forward_rows){f->buffer[SPT_FORWARD_TRANSLATED],
                              (int64_t)f->sizes.drawn, f->limits.target_vocab};
    return (forward_rows){f->buffer[SPT_FORWARD_LOGITS], f->config->vocab,
                          f->config->vocab};
}

bool spt_forward_chooses(const spt_forward *f)
{
    int vocab = forward_rows_of(f).vocabulary;
    return !f->on_host && vocab > 0 && vocab <= SPT_SAMPLE_VOCABULARY;
}

spt_status spt_forward_translate(spt_forward *f, const int32_t *from,
                                 spt_error *err)
{
    size_t padded = (size_t)f->sizes.drawn;
    int32_t *ids = spt_calloc(padded + 1, sizeof *ids);
    if (!ids)
        return spt_fail(err, SPT_E_MEMORY, "engine: out of memory");
    for (size_t i = 0; i < padded; i++)
        ids[i] = i < (size_t)f->limits.target_vocab ? from[i] : -1;
    spt_status status =
        forward_check(f,
                      f->driver->cuMemcpyHtoD(f->buffer[SPT_FORWARD_MAP], ids,
                                              padded * sizeof *ids),
                      "copy of the target's ids", err);
    spt_free(ids);
    return status;
}

void forward_choose_write(const spt_forward_item *items, int count,
                          forward_writer *w, forward_choosing *c)
{
    enum { ROW_INTS = sizeof(spt_sample_row) / sizeof(int32_t) };
    *c = (forward_choosing){0};
    for (int i = 0; i < count; i++) {
        c->blocks += items[i].sample != NULL;
        c->rows += items[i].sample ? items[i].logits : 0;
        c->logprobs = c->logprobs || items[i].logprobs;
        c->keeps = c->keeps || items[i].keeps;
    }
    w->at += w->at % 2; /* rows hold 64-bit numbers */
    int32_t *rows = forward_write_ints(w, c->rows * ROW_INTS, &c->sample);
    int32_t *want = forward_write_ints(w, c->rows, &c->want);
    int32_t *draft = forward_write_ints(w, c->rows, &c->draft);
    int32_t *parent = forward_write_ints(w, c->rows, &c->parent);
    int32_t *keep = forward_write_ints(w, c->rows, &c->keep);
    int32_t *start = forward_write_ints(w, c->blocks + 1, &c->start);
    int row = 0;
    for (int i = 0; i < count; i++) {
        const spt_forward_item *item = &items[i];
        if (!item->sample)
            continue;
        *start++ = row;
        memcpy(rows + (size_t)row * ROW_INTS, item->sample,
               (size_t)item->logits * sizeof *item->sample);
        for (int j = 0; j < item->logits; j++, row++) {
            draft[row] = item->tokens[item->count - item->logits + j];
            parent[row] = item->tree ? item->parent[j] : j - 1;
            want[row] = item->logprobs ? item->best : -1;
            keep[row] = item->keeps ? item->keep : -1;
        }
    }
    *start = row;
    forward_adjust_write(items, count, w, &c->adjusting);
}

static spt_status copy_back(const spt_forward *f, void *to, CUdeviceptr from,
                            size_t bytes, spt_error *err)
{
    return forward_check(
        f, f->driver->cuMemcpyDtoHAsync(to, from, bytes, f->stream),
        "copy of chosen tokens", err);
}

static spt_status translate(const spt_forward *f, int rows, spt_error *err)
{
    const spt_translate_args args = {.in = f->buffer[SPT_FORWARD_LOGITS],
                                     .out = f->buffer[SPT_FORWARD_TRANSLATED],
                                     .from = f->buffer[SPT_FORWARD_MAP],
                                     .in_stride = f->config->vocab,
                                     .out_stride = (int64_t)f->sizes.drawn,
                                     .in_width = f->config->vocab,
                                     .out_width = (int32_t)f->sizes.drawn};
    return spt_translate_launch(f->driver, f->kernels.translate, &args, rows,
                                f->stream, err);
}

uint64_t spt_forward_kept(const spt_forward *f, int row)
{
    return f->buffer[SPT_FORWARD_KEPT] +
           (uint64_t)row * f->sizes.drawn * sizeof(float);
}

static spt_status keep_rows(const spt_forward *f, const forward_choosing *c,
                            spt_error *err)
{
    const spt_gather_args args = {.in = f->buffer[SPT_FORWARD_TRANSLATED],
                                  .out = f->buffer[SPT_FORWARD_KEPT],
                                  .to = c->keep,
                                  .in_stride = (int64_t)f->sizes.drawn,
                                  .out_stride = (int64_t)f->sizes.drawn,
                                  .width = (int32_t)f->sizes.drawn};
    return spt_gather_launch(f->driver, f->kernels.keep_logits, &args, c->rows,
                             f->stream, err);
}

static spt_status take_logprobs(const spt_forward *f, const forward_choosing *c,
                                spt_error *err)
{
    const forward_rows rows = forward_rows_of(f);
    const spt_logprobs_args args = {.logits = rows.logits,
                                    .token = f->buffer[SPT_FORWARD_TOKENS],
                                    .want = c->want,
                                    .out = f->buffer[SPT_FORWARD_LOGPROBS],
                                    .logits_stride = rows.stride,
                                    .vocabulary = rows.vocabulary};
    if (c->adjusting.restore)
        SPT_TRY(forward_adjust(f, &c->adjusting, true, err));
    SPT_TRY(spt_logprobs_launch(f->driver, f->kernels.logprobs, &args, c->rows,
                                f->stream, err));
    return copy_back(f, f->logprobs, args.out,
                     (size_t)c->rows * sizeof *f->logprobs, err);
}

spt_status forward_choose(const spt_forward *f, const forward_choosing *c,
                          spt_error *err)
{
    CUdeviceptr choices = f->buffer[SPT_FORWARD_CHOICES];
    CUdeviceptr path_bytes =
        (CUdeviceptr)c->blocks * SPT_TREE_NODES * sizeof(int32_t);
    const forward_rows rows = forward_rows_of(f);
    const spt_sample_args sample = {.logits = rows.logits,
                                    .rows = c->sample,
                                    .token = f->buffer[SPT_FORWARD_TOKENS],
                                    .logits_stride = rows.stride,
                                    .vocabulary = rows.vocabulary};
    const spt_accept_args accept = {.q_start = c->start,
                                    .draft = c->draft,
                                    .target = sample.token,
                                    .parent = c->parent,
                                    .path = choices,
                                    .text = choices + path_bytes,
                                    .count = choices + 2 * path_bytes,
                                    .path_stride = SPT_TREE_NODES};
    if (f->limits.target_vocab)
        SPT_TRY(translate(f, c->rows, err));
    if (c->adjusting.rows)
        SPT_TRY(forward_adjust(f, &c->adjusting, false, err));
    SPT_TRY(spt_sample_launch(f->driver, f->kernels.sample, &sample, c->rows,
                              f->stream, err));
    if (c->keeps)
        SPT_TRY(keep_rows(f, c, err));
    if (c->logprobs)
        SPT_TRY(take_logprobs(f, c, err));
    SPT_TRY(spt_accept_launch(f->driver, f->kernels.accept, &accept, c->blocks,
                              f->stream, err));
    return copy_back(
        f, f->choices, choices,
        (size_t)c->blocks * FORWARD_CHOICE_INTS * sizeof *f->choices, err);
}

void forward_choose_read(const spt_forward *f, const spt_forward_item *items,
                         int count, const forward_choosing *c)
{
    int nodes = c->blocks * SPT_TREE_NODES;
    const int32_t *path = f->choices, *text = path + nodes;
    const int32_t *counts = text + nodes;
    const spt_logprob_row *logprobs = f->logprobs;
    for (int i = 0; i < count; i++) {
        spt_forward_choice *choice = items[i].choice;
        if (!items[i].sample)
            continue;
        if (items[i].logprobs)
            memcpy(items[i].logprobs, logprobs,
                   (size_t)items[i].logits * sizeof *logprobs);
        logprobs += items[i].logits;
        choice->count = *counts++;
        for (int j = 0; j < choice->count && j < SPT_TREE_NODES; j++) {
            choice->path[j] = path[j];
            choice->token[j] = text[j];
        }
        path += SPT_TREE_NODES;
        text += SPT_TREE_NODES;
    }
}
