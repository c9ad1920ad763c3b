/*
 * Drafts from the text itself, templates/ngram: where the last n tokens of a
 * sequence stood before, the tokens that followed there are proposed.
 *
 * A match ends before token e (0 < e < length): its size is the number of
 * tokens, at most max_match, that agree going back from e and from the end.
 * Matches below min_match do not count. The most recent one is taken, or with
 * `longest` the longest, and of those the most recent. The next ones are the
 * most recent that are followed by another token than those before them.
 */
#ifndef SPT_NGRAM_H
#define SPT_NGRAM_H

#include "launch.h"

enum { SPT_NGRAM_MATCHES = 32 }; /* of one sequence */

typedef struct spt_ngram_args {
    CUdeviceptr tokens; /* int32: histories of all sequences */
    CUdeviceptr start; /* int64 (sequence): of its history in tokens */
    CUdeviceptr length; /* int32 (sequence) */
    CUdeviceptr want; /* int32 (sequence): tokens to draft, <= draft_stride */
    CUdeviceptr draft; /* int32 (sequence, match, draft_stride) */
    CUdeviceptr count; /* int32 (sequence, match): tokens drafted */
    CUdeviceptr match; /* int32 (sequence, match): its size, 0 = none */
    int32_t draft_stride;
    int32_t matches; /* of a sequence: 1 ... SPT_NGRAM_MATCHES */
    int32_t min_match, max_match; /* 1 <= min <= max */
    int32_t longest;
    int32_t extend; /* past the end the draft goes on with itself */
} spt_ngram_args;

/* One CTA a sequence. */
spt_status spt_ngram_launch(const spt_driver *driver,
                            const spt_function *kernel,
                            const spt_ngram_args *args, int64_t batch,
                            CUstream stream, spt_error *err);

#endif
