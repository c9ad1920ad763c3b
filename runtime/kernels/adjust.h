/*
 * Logit bias and penalties, templates/adjust: of each row the few logits that
 * its list names, in place. The tokens of a draft block share a list, of what
 * occurred before the block; each row adds the drafts on the way to it and
 * takes off the tokens that the penalties then no longer reach.
 */
#ifndef SPT_ADJUST_H
#define SPT_ADJUST_H

#include "launch.h"

enum {
    SPT_ADJUST_ENTRIES = 4096, /* of a list, at most */
    SPT_ADJUST_CHANGES = 64 /* of a row, at most */
};

typedef struct spt_adjust_entry {
    int32_t token; /* in the vocabulary; once in a list */
    int32_t count; /* how often it occurred */
    float bias;
} spt_adjust_entry;

typedef struct spt_adjust_list {
    double repeat; /* divides what is above 0, else multiplies; 1: none */
    double presence, frequency; /* subtracted: once, per occurrence */
    int32_t first, count; /* entries, from int `first` of the data on */
} spt_adjust_list;

typedef struct spt_adjust_row {
    int32_t row; /* of the logits */
    int32_t list;
    int32_t first, count; /* changes, from int `first` of the data on: a token
                             that occurred once more, ~token: once less */
} spt_adjust_row;

/* The logit of a token after bias and penalties, to the kernel's bits; the
   penalties are for what occurred (count above 0). */
float spt_adjust_logit(const spt_adjust_list *list, float logit, float bias,
                       int count);

typedef struct spt_adjust_args {
    CUdeviceptr logits; /* float (row, vocabulary) */
    CUdeviceptr lists; /* spt_adjust_list */
    CUdeviceptr rows; /* spt_adjust_row: of the rows that are adjusted */
    CUdeviceptr data; /* int32: what lists and rows point to */
    CUdeviceptr kept; /* float (adjusted row, kept_stride): the logits before,
                         in the order of the list; 0: not wanted */
    int64_t logits_stride, kept_stride;
    int32_t restore; /* 1: puts the kept logits back, nothing else */
} spt_adjust_args;

/* One CTA an adjusted row. */
spt_status spt_adjust_launch(const spt_driver *driver,
                             const spt_function *kernel,
                             const spt_adjust_args *args, int64_t rows,
                             CUstream stream, spt_error *err);

#endif
