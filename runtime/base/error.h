/*
 * Statuses and error texts.
 *
 * A function that can fail returns spt_status and takes an spt_error as its
 * last argument. It writes its results only on success and the text only on
 * failure. The text is one line: what, where, what was expected.
 */
#ifndef SPT_ERROR_H
#define SPT_ERROR_H

#include "spectune.h"

#if defined(__GNUC__)
#define SPT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define SPT_PRINTF(fmt, args)
#endif

/* Sets status and text (err may be NULL) and returns the status. */
spt_status spt_fail(spt_error *err, spt_status status, const char *fmt, ...)
    SPT_PRINTF(3, 4);

/* Puts "prefix: " before the text that err already holds. */
spt_status spt_fail_in(spt_error *err, const char *prefix);

/* Leaves the calling function with the status of expr unless it is OK. */
#define SPT_TRY(expr)                        \
    do {                                     \
        spt_status spt_try_status_ = (expr); \
        if (spt_try_status_ != SPT_OK)       \
            return spt_try_status_;          \
    } while (0)

#endif
