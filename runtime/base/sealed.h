/*
 * A sealed file knows when it is damaged: its first line is "KIND SHA256" of
 * all that follows. What a cache keeps is sealed, so that a changed byte is a
 * miss and never an answer.
 */
#ifndef SPT_SEALED_H
#define SPT_SEALED_H

#include "error.h"
#include "mem.h"

/* Writes path whole, sealed; kind is a word that names format and version. */
spt_status spt_sealed_write(const char *path, const char *kind,
                            const void *data, size_t size, spt_error *err);

/*
 * Appends what was sealed to data. A damaged file, one of another kind, or one
 * above max_bytes is SPT_E_FORMAT; data stays as it was.
 */
spt_status spt_sealed_read(const char *path, const char *kind, size_t max_bytes,
                           spt_buf *data, spt_error *err);

#endif
