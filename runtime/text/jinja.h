/*
 * Chat templates: the part of Jinja that they are written in, with the
 * settings that `transformers` gives it (trim_blocks, lstrip_blocks).
 *
 * Values are cJSON's: null is none, NULL is undefined. A template is run from
 * its tokens, an expression is computed while it is parsed; branches that are
 * not taken are parsed with `live` off. What is not known (a filter, a
 * statement) is refused by its name when it is reached.
 */
#ifndef SPT_JINJA_H
#define SPT_JINJA_H

#include "json.h"
#include "text.h"

/*
 * Appends what the template gives with the fields of `context`, an object.
 * raise_exception of a template is SPT_E_USAGE with its text. name is what
 * errors start with.
 */
spt_status spt_jinja_render(const char *template, size_t size, const char *name,
                            const cJSON *context, spt_buf *out, spt_error *err);

#endif
