/* Lines for the caller's spt_log. */
#ifndef SPT_LOG_H
#define SPT_LOG_H

#include "error.h"

/* log may be NULL. The text has no newline. */
void spt_log_line(const spt_log *log, const char *fmt, ...) SPT_PRINTF(2, 3);

#endif
