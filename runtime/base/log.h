/* Where one-line notes of the library go: the caller's function, or nowhere. */
#ifndef SPT_LOG_H
#define SPT_LOG_H

#include "error.h"

typedef struct spt_log {
    void (*line)(void *user, const char *text); /* NULL: dropped */
    void *user;
} spt_log;

/* log may be NULL. The text has no newline. */
void spt_log_line(const spt_log *log, const char *fmt, ...) SPT_PRINTF(2, 3);

#endif
