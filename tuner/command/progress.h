/* How far a command is: one line on a terminal that is written over. */
#ifndef SPT_PROGRESS_H
#define SPT_PROGRESS_H

#include <stddef.h>

/*
 * "what 3/37" on standard error, over the line before; nothing where that is
 * no terminal. count 0: without figures.
 */
void spt_progress(const char *what, size_t done, size_t count);

/* Takes the line away, before anything else is written. */
void spt_progress_clear(void);

/* An spt_compile_progress: "compiling 3/37 SYMBOL" until all are there. */
void spt_progress_compiling(void *user, const char *kernel, size_t done,
                            size_t total);

#endif
