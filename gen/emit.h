/*
 * Expands a body, templates/NAME.cu, to CUDA text. Inside spt_lua_run.
 */
#ifndef SPT_EMIT_H
#define SPT_EMIT_H

#include "lua_host.h"

typedef struct spt_emitter {
    spt_buf out;
    spt_buf line; /* being written */
    spt_buf seen; /* what the template's hash is taken of */
    spt_arena arena; /* names of files, for as long as the emission runs */
    const char *file; /* of the line that out ended with, or NULL */
    int next_line; /* the line of file that would need no #line */
    bool in_comment, continued; /* state at the end of out */
    int depth;
} spt_emitter;

/* Appends the body; values: the index of the table of its names. */
void spt_emit_body(lua_State *L, spt_emitter *e, const char *file, int values);

/* Adds a file's name and text to what the hash is taken of, once per name. */
void spt_emit_seen(void *user, const char *name, const char *text, size_t size);

/* Appends a value as CUDA text to buf; raises at the template's line. */
void spt_emit_value(lua_State *L, spt_buf *buf, int index);

void spt_emitter_free(spt_emitter *e);

#endif
