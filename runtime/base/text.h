/* Texts as places in someone else's bytes: not terminated, any content. */
#ifndef SPT_TEXT_H
#define SPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct spt_text {
    const char *data;
    size_t size;
} spt_text;

/* Order of bytes, a prefix first. */
int spt_text_compare(spt_text a, spt_text b);

bool spt_text_is(spt_text text, const char *word);

/* The text for an error: at most 60 bytes, nothing that isn't printable. */
typedef struct spt_text_shown {
    char text[64];
} spt_text_shown;
spt_text_shown spt_text_show(spt_text text);

#endif
