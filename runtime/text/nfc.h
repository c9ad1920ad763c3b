/* Composed normal form of Unicode, as the tokenizers of models take it. */
#ifndef SPT_NFC_H
#define SPT_NFC_H

#include "mem.h"

/*
 * Adds NFC of text, valid UTF-8, to out, by the Unicode 9 tables that the
 * PyPI package tokenizers is built with: its unassigned characters stand where
 * they are. SPT_E_MEMORY.
 */
spt_status spt_nfc(const char *text, size_t size, spt_buf *out, spt_error *err);

#endif
