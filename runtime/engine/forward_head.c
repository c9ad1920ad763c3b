/*
 * A head and the model that it reads. While the target's rows go through its
 * layers, those that the head wants are put beside each other, joined by FC
 * and kept as features in the slots that the rows' KV has; the head's own
 * passes read them there, and leave what they have drafted behind them.
 */
#include <stdio.h>

#include "forward_int.h"
#include "gather.h"
#include "log.h"

enum { HALF = 2 }; /* bytes */

static CUdeviceptr page_of(const spt_forward *head, int page)
{
    uint64_t rows = (uint64_t)page * (uint64_t)head->limits.page_size;
    return head->buffer[SPT_FORWARD_FEATURES] +
           rows * head->sizes.hidden * HALF;
}

static size_t page_bytes(const spt_forward *head)
{
    return (size_t)head->limits.page_size * (size_t)head->sizes.hidden * HALF;
}

/* Rows to 16 bits: those of the target beside each other, tap i. */
static spt_status take_tap(const spt_forward *head, const forward_heard *h,
                           int i, spt_error *err)
{
    int width = head->config->head.target_hidden;
    const spt_gather_args args = {.in = h->residual,
                                  .out = head->buffer[SPT_FORWARD_TAPS] +
                                         (CUdeviceptr)i * (CUdeviceptr)width *
                                             HALF,
                                  .in_stride = width,
                                  .out_stride = (int64_t)head->sizes.tap_width,
                                  .width = width};
    return spt_gather_launch(head->driver, head->kernels.keep, &args, h->tokens,
                             h->stream, err);
}

static spt_status join_taps(const spt_forward *head, const forward_heard *h,
                            spt_error *err)
{
    const forward_linear *fc = &head->fc;
    int64_t hidden = head->config->hidden;
    const spt_linear_args join = {.x = head->buffer[SPT_FORWARD_TAPS],
                                  .weights = fc->weights,
                                  .out = head->buffer[SPT_FORWARD_FUSED],
                                  .x_stride = fc->shape.inputs,
                                  .out_stride = hidden,
                                  .outputs = (int32_t)fc->shape.outputs,
                                  .inputs = (int32_t)fc->shape.inputs};
    const spt_gather_args keep = {.in = join.out,
                                  .out = head->buffer[SPT_FORWARD_FEATURES],
                                  .to = h->slots,
                                  .in_stride = hidden,
                                  .out_stride = hidden,
                                  .width = (int32_t)hidden};
    SPT_TRY(spt_linear_launch(head->driver,
                              &fc->kernel[forward_variant(h->tokens, 0)], &join,
                              h->tokens, h->stream, err));
    return spt_gather_launch(head->driver, head->kernels.keep, &keep, h->tokens,
                             h->stream, err);
}

spt_status forward_hear(const spt_forward *head, const forward_heard *h,
                        spt_error *err)
{
    int taps = head->config->head.taps;
    for (int i = 0; i < taps; i++)
        if (head->hears[i] == h->layer)
            SPT_TRY(take_tap(head, h, i, err));
    return head->hears[taps - 1] == h->layer ? join_taps(head, h, err) : SPT_OK;
}

spt_status forward_recall(const spt_forward *head, CUdeviceptr rows, int count,
                          spt_error *err)
{
    int64_t hidden = head->config->hidden;
    const spt_gather_args args = {.in = head->buffer[SPT_FORWARD_FEATURES],
                                  .out = head->buffer[SPT_FORWARD_RESIDUAL],
                                  .from = rows,
                                  .in_stride = hidden,
                                  .out_stride = hidden,
                                  .width = (int32_t)hidden};
    return spt_gather_launch(head->driver, head->kernels.recall, &args, count,
                             head->stream, err);
}

spt_status forward_keep(const spt_forward *head, CUdeviceptr from,
                        CUdeviceptr to, int count, spt_error *err)
{
    int64_t hidden = head->config->hidden;
    const spt_gather_args args = {.in = head->buffer[SPT_FORWARD_RESIDUAL],
                                  .out = head->buffer[SPT_FORWARD_FEATURES],
                                  .from = from,
                                  .to = to,
                                  .in_stride = hidden,
                                  .out_stride = hidden,
                                  .width = (int32_t)hidden};
    return spt_gather_launch(head->driver, head->kernels.keep, &args, count,
                             head->stream, err);
}

spt_status forward_copy_features(const spt_forward *f, spt_page_copy copy,
                                 spt_error *err)
{
    const spt_forward *head = f->listener;
    if (!head)
        return SPT_OK;
    return forward_check(f,
                         f->driver->cuMemcpyDtoDAsync(
                             page_of(head, copy.to), page_of(head, copy.from),
                             page_bytes(head), f->stream),
                         "copy of features", err);
}

spt_status forward_clear_features(const spt_forward *f, int page,
                                  spt_error *err)
{
    const spt_forward *head = f->listener;
    if (!head)
        return SPT_OK;
    return forward_check(f,
                         f->driver->cuMemsetD8Async(page_of(head, page), 0,
                                                    page_bytes(head),
                                                    f->stream),
                         "clearing of features", err);
}

/* A row of features moves as if it were K and V of one head, half each. */
spt_status forward_compact_features(const spt_forward *f,
                                    const spt_kv_compact_args *kv,
                                    spt_error *err)
{
    const spt_forward *head = f->listener;
    if (!head)
        return SPT_OK;
    spt_kv_compact_args args = *kv;
    args.k = page_of(head, 0);
    args.v = args.k + head->sizes.hidden;
    args.layer_stride = 0;
    args.kv_page_stride = (int64_t)(page_bytes(head) / HALF);
    args.kv_token_stride = head->config->hidden;
    args.kv_head_stride = 0;
    args.kv_heads = 1;
    args.head_dim = head->config->hidden / 2;
    return spt_kv_compact_launch(f->driver, f->kernels.compact, &args, 1, 1,
                                 f->stream, err);
}

/* Which layers are read where the file does not say: as EAGLE-3 was made. */
static void find_taps(const spt_model_config *head,
                      const spt_model_config *target, int *tap)
{
    const spt_head *h = &head->head;
    const int published[] = {1, target->layers / 2 - 1, target->layers - 4};
    for (int i = 0; i < h->taps; i++)
        tap[i] = h->told ? h->layer[i] : published[i];
}

static spt_status check_taps(const spt_model_config *head,
                             const spt_model_config *target, spt_error *err)
{
    int tap[SPT_TAPS_MAX];
    find_taps(head, target, tap);
    for (int i = 0; i < head->head.taps; i++)
        if (tap[i] < (i ? tap[i - 1] : 0) || tap[i] >= target->layers)
            return spt_fail(err, SPT_E_UNSUPPORTED,
                            "head: reads layer %d of the model%s, which has %d",
                            tap[i] + 1,
                            head->head.told ? "" : ", as its file names none",
                            target->layers);
    return SPT_OK;
}

spt_status spt_forward_fits(const spt_model_config *head,
                            const spt_model_config *target, spt_error *err)
{
    const spt_head *h = &head->head;
    if (!h->taps)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "head: %s writes by itself, expected one of EAGLE-3 "
                        "(as a draft model it needs no head)",
                        head->architecture);
    if (h->target_hidden != target->hidden)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "head: reads rows of %d numbers, the model's have %d",
                        h->target_hidden, target->hidden);
    if (h->target_vocab != target->vocab)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "head: is for %d tokens, the model has %d",
                        h->target_vocab, target->vocab);
    if (!h->own_embed && head->hidden != target->hidden)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "head: has no embed_tokens and rows of %d numbers, the "
                        "model's have %d",
                        head->hidden, target->hidden);
    if (head->hidden % 16 || target->hidden % 8)
        return spt_fail(err, SPT_E_UNSUPPORTED,
                        "head: hidden size %d, expected a multiple of 16",
                        head->hidden);
    return check_taps(head, target, err);
}

spt_status forward_attach(spt_forward *head, spt_forward *target,
                          spt_error *err)
{
    const spt_head *h = &head->config->head;
    SPT_TRY(spt_forward_fits(head->config, target->config, err));
    find_taps(head->config, target->config, head->hears);
    char layers[16 * SPT_TAPS_MAX] = "";
    for (int i = 0, at = 0; i < h->taps; i++)
        at += snprintf(layers + at, sizeof layers - (size_t)at, " %d",
                       head->hears[i] + 1);
    spt_log_line(head->source.log,
                 "head: reads the model after layers%s of %d%s", layers,
                 target->config->layers,
                 h->told ? "" : " (its file names none)");
    if (!h->own_embed)
        head->embeds = target;
    SPT_TRY(forward_check(
        head,
        head->driver->cuMemsetD8Async(
            head->buffer[SPT_FORWARD_FEATURES], 0,
            (size_t)(head->sizes.feature_rows * head->sizes.hidden * HALF),
            head->stream),
        "clearing of features", err));
    target->listener = head;
    return forward_check(head, head->driver->cuStreamSynchronize(head->stream),
                         "clearing of features", err);
}
