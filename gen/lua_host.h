/*
 * Sandboxed Lua 5.4 for the files of archs/ and templates/.
 *
 * A file runs without os, io, debug, load, pairs, pcall and random numbers,
 * within a memory limit and an instruction limit; reading or writing an
 * unknown global raises. Its chunk name is its path below the root
 * ("archs/sm90.lua"), so that every error starts with file:line. include(NAME)
 * runs NAME.lua of the same folder once and gives its value; sorted(t) walks a
 * table by its keys in order.
 *
 * Code that builds or walks tables may raise (memory too), so it belongs into
 * a function run by spt_lua_run, where luaL_error is the way to fail. Such a
 * function owns nothing that a raise would leak: buffers belong to the caller.
 */
#ifndef SPT_LUA_HOST_H
#define SPT_LUA_HOST_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "board.h"
#include "error.h"
#include "mem.h"

enum {
    SPT_LUA_FILE_BYTES = 1 << 20, /* of one file */
    SPT_LUA_MEMORY_BYTES = 256 << 20, /* of one host */
    SPT_LUA_INSTRUCTIONS = 50000000, /* of one spt_lua_run */
};

typedef struct spt_lua spt_lua;

/* root: the folder with archs/ and templates/; it is copied. */
spt_status spt_lua_open(const char *root, spt_lua **host, spt_error *err);
void spt_lua_close(spt_lua *host);
const char *spt_lua_root(const spt_lua *host);

/*
 * Runs function(L) protected and limited, with user as light userdata at
 * index 1; what it returns is dropped. An error that it raises becomes
 * SPT_E_FORMAT (or the status given to spt_lua_raise; SPT_E_MEMORY) with the
 * raised text.
 */
spt_status spt_lua_run(spt_lua *host, lua_CFunction function, void *user,
                       spt_error *err);

/* The host that runs L. */
spt_lua *spt_lua_host(lua_State *L);

/* Like luaL_error without a position, with a status of its own. */
int spt_lua_raise(lua_State *L, spt_status status, const char *fmt, ...)
    SPT_PRINTF(3, 4);

/* Gives the running spt_lua_run its full number of instructions again. */
void spt_lua_refill(lua_State *L);

/*
 * Inside spt_lua_run: runs the file "folder/name" of the root (relative, as in
 * "archs/sm90.lua") and pushes the one table that it must return. The value is
 * kept: a second call pushes the same table.
 */
void spt_lua_load(lua_State *L, const char *relative);

/* The same for any file of the user's; name is how errors call it. */
void spt_lua_load_path(lua_State *L, const char *path, const char *name);

/*
 * Inside spt_lua_run: the text of a file that was loaded, pushed as a string
 * (name as in spt_lua_load, or the name given to spt_lua_load_path).
 */
const char *spt_lua_text(lua_State *L, const char *name, size_t *size);

/*
 * The line on which the last of keys is written, for errors about data. Keys
 * are looked for one after the other, each as a word followed by "=" or in
 * double quotes, outside comments: {"boards", "h100_sxm", "clock_mhz"}. A key
 * that is missing ends the search at the line of the one before it.
 */
int spt_lua_line(const char *text, size_t size, const char *const *keys,
                 int n_keys);

/*
 * Names of the files "folder/NAME.ext" of the root without their extension,
 * sorted: one block of strings, each NUL-terminated, *count of them (spt_free).
 */
spt_status spt_lua_list(const spt_lua *host, const char *folder,
                        const char *ext, char **names, size_t *count,
                        spt_error *err);

/* Pushes a table with the board's facts, named as in spt_board. */
void spt_lua_push_board(lua_State *L, const spt_board *board);

#endif
