/*
 * What goes into NVRTC and comes out of it as text: names of files, logs.
 *
 * NVRTC turns the file names of #line into absolute ones with the current
 * folder, in the PTX as well as in the cubin. So that images do not depend on
 * where spectune runs, the compiler sees names that are absolute already
 * ("/templates/x.cu"); the leading slash is taken off again in the PTX and in
 * messages.
 */
#ifndef SPT_NVRTC_TEXT_H
#define SPT_NVRTC_TEXT_H

#include "gen.h"

/*
 * A copy (spt_free) with a slash before each relative name of a #line; NULL
 * when out of memory.
 */
char *spt_nvrtc_absolute(const char *source);

/* Takes the slash off again: .file 1 "/templates/x.cu". In place. */
void spt_nvrtc_relative(char *ptx);

/* The largest number that stands before words in the log. */
int spt_nvrtc_number(const char *log, const char *words);

/*
 * SPT_E_COMPILE with the first error of the log, at the template's line:
 * "/templates/x.cu(12): error: text" as "templates/x.cu:12: text". ptx, or
 * NULL, is what the assembler refused.
 */
spt_status spt_nvrtc_fail(const spt_kernel *k, const char *log, const char *ptx,
                          spt_error *err);

#endif
