/* Numbers as reports print them. */
#ifndef SPT_SHOW_H
#define SPT_SHOW_H

#include <cJSON.h>
#include <stddef.h>
#include <stdint.h>

/* Microseconds in nine columns at most: "12.3 us", "4.56 ms"; text. */
const char *spt_time_text(double us, char *text, size_t size);

/* Tokens: "8k" for multiples of 1024. */
const char *spt_tokens_text(int64_t tokens, char *text, size_t size);

/* "label  text" wrapped at 80 columns, the text in its own column. */
void spt_print_labelled(const char *label, const char *text);

/* Prints an object and frees it. */
void spt_print_json(cJSON *object);

#endif
