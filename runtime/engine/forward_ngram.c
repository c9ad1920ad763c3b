/*
 * Texts on the device and the search in them. A text is sent once: later only
 * what follows the tokens that are there already.
 */
#include <string.h>

#include "forward_int.h"
#include "ngram.h"

enum { DRAFTS = SPT_TREE_NODES };

static spt_status send_text(const spt_forward *f, const spt_forward_search *s,
                            spt_error *err)
{
    size_t first =
        (size_t)s->history * (size_t)f->limits.context + (size_t)s->common;
    if (s->count == s->common)
        return SPT_OK;
    return forward_check(
        f,
        f->driver->cuMemcpyHtoDAsync(
            f->buffer[SPT_FORWARD_HISTORIES] + first * sizeof *s->text,
            s->text + s->common,
            (size_t)(s->count - s->common) * sizeof *s->text, f->stream),
        "copy of a text", err);
}

static void write_search(const spt_forward *f, const spt_forward_search *all,
                         int n)
{
    int32_t *length = f->search + 2 * n, *want = f->search + 3 * n;
    for (int i = 0; i < n; i++) {
        int64_t start = (int64_t)all[i].history * f->limits.context;
        f->search[2 * i] = (int32_t)(uint32_t)(uint64_t)start;
        f->search[2 * i + 1] = (int32_t)(start >> 32);
        length[i] = all[i].count;
        want[i] = all[i].want;
    }
}

/* Matches stand before what is none. */
static void read_drafts(const int32_t *from, spt_forward_search *all, int n,
                        int matches)
{
    const int32_t *counts = from + n * matches * DRAFTS;
    for (int i = 0; i < n; i++) {
        spt_forward_search *s = &all[i];
        s->found = 0;
        while (s->found < s->matches && counts[i * matches + s->found] > 0) {
            const int32_t *draft = from + (i * matches + s->found) * DRAFTS;
            memcpy(s->draft[s->found++], draft,
                   (size_t)s->want * sizeof *draft);
        }
    }
}

/* Of one launch: the most that a search wants. */
static int most_matches(const spt_forward_search *all, int n)
{
    int most = 1;
    for (int i = 0; i < n; i++)
        most = all[i].matches > most ? all[i].matches : most;
    return most;
}

static spt_status copy(const spt_forward *f, CUresult result, spt_error *err)
{
    return forward_check(f, result, "copy of n-gram drafts", err);
}

spt_status spt_forward_ngram(spt_forward *f, const spt_ngram_rule *rule,
                             spt_forward_search *all, int n, spt_error *err)
{
    const spt_driver *d = f->driver;
    int matches = most_matches(all, n), drafts = n * matches;
    CUdeviceptr in = f->buffer[SPT_FORWARD_SEARCH];
    size_t in_bytes = (size_t)n * FORWARD_SEARCH_IN * sizeof(int32_t);
    size_t out_bytes = (size_t)drafts * (DRAFTS + 1) * sizeof(int32_t);
    CUdeviceptr out = in + in_bytes;
    int32_t *back = f->search + n * FORWARD_SEARCH_IN;
    CUdeviceptr ints = (CUdeviceptr)n * sizeof(int32_t);
    CUdeviceptr out_ints = (CUdeviceptr)drafts * sizeof(int32_t);
    const spt_ngram_args args = {.tokens = f->buffer[SPT_FORWARD_HISTORIES],
                                 .start = in,
                                 .length = in + 2 * ints,
                                 .want = in + 3 * ints,
                                 .draft = out,
                                 .count = out + DRAFTS * out_ints,
                                 .match = out + (DRAFTS + 1) * out_ints,
                                 .draft_stride = DRAFTS,
                                 .matches = matches,
                                 .min_match = rule->min_match,
                                 .max_match = rule->max_match,
                                 .longest = rule->longest,
                                 .extend = true};
    for (int i = 0; i < n; i++)
        SPT_TRY(send_text(f, &all[i], err));
    write_search(f, all, n);
    SPT_TRY(
        copy(f, d->cuMemcpyHtoDAsync(in, f->search, in_bytes, f->stream), err));
    SPT_TRY(spt_ngram_launch(d, f->kernels.ngram, &args, n, f->stream, err));
    SPT_TRY(
        copy(f, d->cuMemcpyDtoHAsync(back, out, out_bytes, f->stream), err));
    SPT_TRY(copy(f, d->cuStreamSynchronize(f->stream), err));
    read_drafts(back, all, n, matches);
    return SPT_OK;
}
