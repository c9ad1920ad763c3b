/*
 * One file that describes an architecture or a board, of archs/ or the user's
 * own: read as Lua and checked whole before anything of it is used. Unknown or
 * missing fields, wrong units, missing sources and figures outside their
 * bounds raise errors with file:line.
 */
#ifndef SPT_BOARD_FILE_H
#define SPT_BOARD_FILE_H

#include <stddef.h>

#include <lua.h>

#include "boards.h"
#include "mem.h"

typedef enum spt_place { SPT_OF_ARCH, SPT_OF_BOARD } spt_place;

/* A row of facts.def: a member of spt_board, an int or a double. */
typedef struct spt_fact_row {
    spt_place place;
    bool whole; /* an int */
    const char *field;
    size_t offset;
    const char *unit;
    double min, max;
    const char *meaning;
} spt_fact_row;

enum {
#define SPT_FACT(place, field, ...) SPT_ROW_OF_##field,
#include "facts.def"
#undef SPT_FACT
    SPT_FACT_ROWS
};
_Static_assert((int)SPT_FACT_ROWS <= (int)SPT_FACT_MAX, "facts fit");

extern const spt_fact_row spt_fact_rows[SPT_FACT_ROWS];

/* What a file says; the rest of the record is zero. */
typedef struct spt_board_file {
    char *name;
    spt_place place;
    char default_board[32]; /* SPT_OF_ARCH */
    spt_board board;
    char *sources[SPT_FACT_ROWS];
    char *matrix_sources[SPT_MATRIX_MAX];
} spt_board_file;

typedef struct spt_board_reader {
    lua_State *L;
    spt_arena *arena; /* texts of the record live here */
    const char *file; /* name in errors */
    const char *text; /* filled by spt_board_read */
    size_t size;
    spt_board_file *into;
} spt_board_reader;

/*
 * The file whose chunk spt_lua_load left on the stack goes into r->into; name
 * becomes the board's. Raises.
 */
void spt_board_read(spt_board_reader *r, const char *name);

/* Raises at the line of field (and of sub below it, when not NULL). */
int spt_board_bad(const spt_board_reader *r, const char *field, const char *sub,
                  const char *what);

#endif
