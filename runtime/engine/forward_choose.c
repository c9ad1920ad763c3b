/*
 * From logits to text on the device: a token for each row, then the accepted
 * path of each draft block. What comes back are ids and counts.
 */
#include <string.h>

#include "accept_path.h"
#include "forward_int.h"

/* Of kernels/sample.h. */
enum { MAX_VOCABULARY = 1 << 19 };

bool spt_forward_chooses(const spt_forward *f)
{
    return !f->on_host && f->config->vocab > 0 &&
           f->config->vocab <= MAX_VOCABULARY;
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
    }
    w->at += w->at % 2; /* rows hold 64-bit numbers */
    int32_t *rows = forward_write_ints(w, c->rows * ROW_INTS, &c->sample);
    int32_t *want = forward_write_ints(w, c->rows, &c->want);
    int32_t *draft = forward_write_ints(w, c->rows, &c->draft);
    int32_t *parent = forward_write_ints(w, c->rows, &c->parent);
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
        }
    }
    *start = row;
}

static spt_status copy_back(const spt_forward *f, void *to, CUdeviceptr from,
                            size_t bytes, spt_error *err)
{
    return forward_check(
        f, f->driver->cuMemcpyDtoHAsync(to, from, bytes, f->stream),
        "copy of chosen tokens", err);
}

static spt_status take_logprobs(const spt_forward *f, const forward_choosing *c,
                                spt_error *err)
{
    const spt_logprobs_args args = {.logits = f->buffer[SPT_FORWARD_LOGITS],
                                    .token = f->buffer[SPT_FORWARD_TOKENS],
                                    .want = c->want,
                                    .out = f->buffer[SPT_FORWARD_LOGPROBS],
                                    .logits_stride = f->config->vocab,
                                    .vocabulary = f->config->vocab};
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
    const spt_sample_args sample = {.logits = f->buffer[SPT_FORWARD_LOGITS],
                                    .rows = c->sample,
                                    .token = f->buffer[SPT_FORWARD_TOKENS],
                                    .logits_stride = f->config->vocab,
                                    .vocabulary = f->config->vocab};
    const spt_accept_args accept = {.q_start = c->start,
                                    .draft = c->draft,
                                    .target = sample.token,
                                    .parent = c->parent,
                                    .path = choices,
                                    .text = choices + path_bytes,
                                    .count = choices + 2 * path_bytes,
                                    .path_stride = SPT_TREE_NODES};
    SPT_TRY(spt_sample_launch(f->driver, f->kernels.sample, &sample, c->rows,
                              f->stream, err));
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
