/* What the host, its sandbox and the emitter share. */
#ifndef SPT_LUA_INT_H
#define SPT_LUA_INT_H

#include "lua_host.h"

/* Opens the libraries that files may use and keeps them in the registry. */
void spt_lua_sandbox(lua_State *L);

/*
 * Pushes a new environment for the file: reads see the table at index values
 * (0 = none), then include and the libraries; unknown names and every write
 * raise.
 */
void spt_lua_push_env(lua_State *L, const char *file, int values);

/* The function include of a Lua file; its upvalue is the file's name. */
int spt_lua_include(lua_State *L);

/* Reads a file and keeps its text under name; raises. */
void spt_lua_read(lua_State *L, const char *path, const char *name);

/* The text of a file of the root, read if need be, pushed as a string. */
const char *spt_lua_read_relative(lua_State *L, const char *relative,
                                  size_t *size);

/* Is it a name that include takes: a-z, 0-9 and _, 1 to 31 of them? */
bool spt_lua_word(const char *name);

/* Calls add for each file that the file included, and theirs, in order. */
void spt_lua_hash_uses(lua_State *L, const char *file,
                       void (*add)(void *user, const char *name,
                                   const char *text, size_t size),
                       void *user);

#endif
