#include "lua_host.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "files.h"
#include "lua_int.h"

enum { HOOK_INSTRUCTIONS = 1000, INCLUDE_DEPTH = 16 };

/* Tables of the registry. */
static const char LOADED[] = "spt.loaded"; /* name -> value; false: running */
static const char TEXTS[] = "spt.texts"; /* name -> text of the file */
static const char USES[] = "spt.uses"; /* name -> list of included names */

struct spt_lua {
    lua_State *L;
    char *root;
    size_t used;
    int64_t left; /* instructions */
    spt_status raised;
    spt_buf scratch; /* of the file being read: a raise must not leak it */
    int depth;
};

static void *allocate(void *user, void *block, size_t old, size_t size)
{
    spt_lua *host = user;
    size_t before = block ? old : 0;
    if (size == 0) {
        free(block);
        host->used -= before;
        return NULL;
    }
    if (size > before && host->used - before + size > SPT_LUA_MEMORY_BYTES)
        return NULL;
    void *grown = realloc(block, size);
    if (grown)
        host->used = host->used - before + size;
    return grown;
}

spt_lua *spt_lua_host(lua_State *L)
{
    void *user;
    lua_getallocf(L, &user);
    return user;
}

static void count_hook(lua_State *L, lua_Debug *debug)
{
    (void)debug;
    spt_lua *host = spt_lua_host(L);
    host->left -= HOOK_INSTRUCTIONS;
    if (host->left > 0)
        return;
    luaL_where(L, 0);
    lua_pushfstring(L, "%sran more than %d instructions", lua_tostring(L, -1),
                    (int)SPT_LUA_INSTRUCTIONS);
    lua_error(L);
}

void spt_lua_refill(lua_State *L)
{
    spt_lua_host(L)->left = SPT_LUA_INSTRUCTIONS;
}

int spt_lua_raise(lua_State *L, spt_status status, const char *fmt, ...)
{
    char text[sizeof((spt_error *)0)->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lua_pushstring(L, text);
    spt_lua_host(L)->raised = status;
    return lua_error(L);
}

/* The error value on top as one line in err. */
static spt_status take_error(spt_lua *host, int code, spt_error *err)
{
    spt_status status = host->raised;
    if (code == LUA_ERRMEM)
        return spt_fail(err, SPT_E_MEMORY, "Lua: out of memory (limit %d MiB)",
                        (int)(SPT_LUA_MEMORY_BYTES >> 20));
    const char *text = lua_type(host->L, -1) == LUA_TSTRING
                           ? lua_tostring(host->L, -1)
                           : "Lua: raised an error that is not a text";
    spt_fail(err, status == SPT_OK ? SPT_E_FORMAT : status, "%s", text);
    for (char *c = err ? err->text : NULL; c && *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return status == SPT_OK ? SPT_E_FORMAT : status;
}

/* Files that failed half-way, and their texts, are read anew next time. */
static int drop_running(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, LOADED);
    lua_getfield(L, LUA_REGISTRYINDEX, TEXTS);
    for (lua_pushnil(L); lua_next(L, -3); lua_pop(L, 1)) {
        if (lua_type(L, -1) != LUA_TBOOLEAN)
            continue;
        lua_pushvalue(L, -2);
        lua_pushnil(L);
        lua_settable(L, -6);
        lua_pushvalue(L, -2);
        lua_pushnil(L);
        lua_settable(L, -5);
    }
    return 0;
}

spt_status spt_lua_run(spt_lua *host, lua_CFunction function, void *user,
                       spt_error *err)
{
    lua_State *L = host->L;
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 8))
        return spt_fail(err, SPT_E_MEMORY, "Lua: out of memory");
    host->raised = SPT_OK;
    host->left = SPT_LUA_INSTRUCTIONS;
    host->depth = 0;
    lua_pushcfunction(L, function);
    lua_pushlightuserdata(L, user);
    int code = lua_pcall(L, 1, 0, 0);
    spt_status status = SPT_OK;
    if (code != LUA_OK) {
        status = take_error(host, code, err);
        lua_settop(L, top);
        lua_pushcfunction(L, drop_running);
        lua_pcall(L, 0, 0, 0);
    }
    lua_settop(L, top);
    spt_buf_free(&host->scratch);
    return status;
}

static int prepare(lua_State *L)
{
    const char *const tables[] = {LOADED, TEXTS, USES};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        lua_newtable(L);
        lua_setfield(L, LUA_REGISTRYINDEX, tables[i]);
    }
    spt_lua_sandbox(L);
    return 0;
}

spt_status spt_lua_open(const char *root, spt_lua **out, spt_error *err)
{
    spt_lua *host = spt_calloc(1, sizeof *host);
    if (!host)
        return spt_fail(err, SPT_E_MEMORY, "Lua: out of memory");
    host->root = spt_strdup(root);
    if (host->root)
        host->L = lua_newstate(allocate, host);
    if (!host->L) {
        spt_lua_close(host);
        return spt_fail(err, SPT_E_MEMORY, "Lua: out of memory");
    }
    lua_sethook(host->L, count_hook, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
    spt_status status = spt_lua_run(host, prepare, NULL, err);
    if (status != SPT_OK) {
        spt_lua_close(host);
        return status;
    }
    *out = host;
    return SPT_OK;
}

void spt_lua_close(spt_lua *host)
{
    if (!host)
        return;
    if (host->L)
        lua_close(host->L);
    spt_buf_free(&host->scratch);
    spt_free(host->root);
    spt_free(host);
}

const char *spt_lua_root(const spt_lua *host)
{
    return host->root;
}

void spt_lua_read(lua_State *L, const char *path, const char *name)
{
    spt_lua *host = spt_lua_host(L);
    spt_error err;
    spt_buf_free(&host->scratch);
    spt_status status =
        spt_file_read(path, SPT_LUA_FILE_BYTES, &host->scratch, &err);
    if (status != SPT_OK)
        spt_lua_raise(L, status, "%s", err.text);
    if (host->scratch.size && memchr(host->scratch.data, 0, host->scratch.size))
        spt_lua_raise(L, SPT_E_FORMAT, "%s: has a zero byte, expected text",
                      name);
    lua_getfield(L, LUA_REGISTRYINDEX, TEXTS);
    lua_pushlstring(L, host->scratch.data ? host->scratch.data : "",
                    host->scratch.size);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
    spt_buf_free(&host->scratch);
}

const char *spt_lua_read_relative(lua_State *L, const char *relative,
                                  size_t *size)
{
    lua_getfield(L, LUA_REGISTRYINDEX, TEXTS);
    bool known = lua_getfield(L, -1, relative) == LUA_TSTRING;
    lua_pop(L, 2);
    if (!known) {
        const char *path = lua_pushfstring(
            L, "%s/%s", spt_lua_root(spt_lua_host(L)), relative);
        spt_lua_read(L, path, relative);
        lua_pop(L, 1);
    }
    return spt_lua_text(L, relative, size);
}

const char *spt_lua_text(lua_State *L, const char *name, size_t *size)
{
    lua_getfield(L, LUA_REGISTRYINDEX, TEXTS);
    if (lua_getfield(L, -1, name) != LUA_TSTRING)
        spt_lua_raise(L, SPT_E_INTERNAL, "%s: was not loaded", name);
    lua_remove(L, -2);
    return lua_tolstring(L, -1, size);
}

bool spt_lua_word(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && length < 32 && !name[length];
}

/* uses[file] gets name at its end. */
static void note_use(lua_State *L, const char *file, const char *name)
{
    lua_getfield(L, LUA_REGISTRYINDEX, USES);
    if (lua_getfield(L, -1, file) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, file);
    }
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 2);
}

int spt_lua_include(lua_State *L)
{
    const char *file = lua_tostring(L, lua_upvalueindex(1));
    const char *name = luaL_checkstring(L, 1);
    if (!spt_lua_word(name))
        return luaL_error(L,
                          "include: '%s' is no file name, expected lower "
                          "case letters, digits and _",
                          name);
    const char *slash = strchr(file, '/');
    if (!slash)
        return luaL_error(L, "include: only files of archs/ and templates/ "
                             "include others");
    lua_pushlstring(L, file, (size_t)(slash - file));
    const char *relative =
        lua_pushfstring(L, "%s/%s.lua", lua_tostring(L, -1), name);
    note_use(L, file, relative);
    spt_lua_load(L, relative);
    return 1;
}

void spt_lua_hash_uses(lua_State *L, const char *file,
                       void (*add)(void *user, const char *name,
                                   const char *text, size_t size),
                       void *user)
{
    luaL_checkstack(L, 8, "includes");
    lua_getfield(L, LUA_REGISTRYINDEX, USES);
    if (lua_getfield(L, -1, file) == LUA_TTABLE) {
        lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = 1; i <= count; i++) {
            size_t size;
            lua_rawgeti(L, -1, i);
            const char *name = lua_tostring(L, -1);
            const char *text = spt_lua_text(L, name, &size);
            add(user, name, text, size);
            spt_lua_hash_uses(L, name, add, user);
            lua_pop(L, 2);
        }
    }
    lua_pop(L, 2);
}

/* Runs the read file and pushes its table. */
static void run_text(lua_State *L, const char *name)
{
    spt_lua *host = spt_lua_host(L);
    size_t size;
    luaL_checkstack(L, 16, "includes");
    const char *text = spt_lua_text(L, name, &size);
    const char *chunk = lua_pushfstring(L, "@%s", name);
    if (size && text[0] == *LUA_SIGNATURE)
        spt_lua_raise(L, SPT_E_FORMAT, "%s:1: is bytecode, expected Lua text",
                      name);
    if (luaL_loadbufferx(L, text, size, chunk, "t") != LUA_OK)
        lua_error(L);
    spt_lua_push_env(L, name, 0);
    lua_setupvalue(L, -2, 1);
    if (++host->depth > INCLUDE_DEPTH)
        spt_lua_raise(L, SPT_E_FORMAT, "%s: included too deeply", name);
    lua_call(L, 0, 1);
    host->depth--;
    if (!lua_istable(L, -1))
        spt_lua_raise(L, SPT_E_FORMAT, "%s:1: returns a %s, expected one table",
                      name, luaL_typename(L, -1));
    lua_replace(L, -3);
    lua_pop(L, 1);
}

void spt_lua_load(lua_State *L, const char *relative)
{
    luaL_checkstack(L, 16, "files");
    lua_getfield(L, LUA_REGISTRYINDEX, LOADED);
    int type = lua_getfield(L, -1, relative);
    if (type == LUA_TTABLE) {
        lua_remove(L, -2);
        return;
    }
    if (type == LUA_TBOOLEAN)
        luaL_error(L, "%s includes itself", relative);
    lua_pop(L, 1);
    spt_lua_read_relative(L, relative, NULL);
    lua_pop(L, 1);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, relative);
    run_text(L, relative);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, relative);
    lua_remove(L, -2);
}

void spt_lua_load_path(lua_State *L, const char *path, const char *name)
{
    spt_lua_read(L, path, name);
    run_text(L, name);
}

/* Is the word at text[at..] the key as a name before "=" or in quotes? */
static bool key_at(const char *text, size_t size, size_t at, const char *key)
{
    size_t length = strlen(key);
    if (at + length > size || memcmp(text + at, key, length) != 0)
        return false;
    char before = at ? text[at - 1] : ' ';
    char after = at + length < size ? text[at + length] : ' ';
    if (before == '"' && after == '"')
        return true;
    if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_."
               "0123456789",
               before) &&
        before)
        return false;
    size_t next = at + length;
    while (next < size && (text[next] == ' ' || text[next] == '\t'))
        next++;
    return next < size && text[next] == '=' &&
           !(next + 1 < size && text[next + 1] == '=');
}

int spt_lua_line(const char *text, size_t size, const char *const *keys,
                 int n_keys)
{
    int line = 1, found = 1, key = 0;
    for (size_t at = 0; at < size && key < n_keys; at++) {
        if (text[at] == '\n') {
            line++;
        } else if (text[at] == '-' && at + 1 < size && text[at + 1] == '-') {
            while (at + 1 < size && text[at + 1] != '\n')
                at++;
        } else if (keys[key] && key_at(text, size, at, keys[key])) {
            found = line;
            at += strlen(keys[key]) - 1;
            key++;
        }
    }
    return found;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted copies of count names in one block. */
static char *pack_names(char **list, size_t count)
{
    size_t bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(list[i]) + 1;
    if (count)
        qsort(list, count, sizeof *list, by_name);
    char *block = spt_calloc(bytes, 1), *at = block;
    for (size_t i = 0; block && i < count; i++) {
        size_t length = strlen(list[i]) + 1;
        memcpy(at, list[i], length);
        at += length;
    }
    return block;
}

spt_status spt_lua_list(const spt_lua *host, const char *folder,
                        const char *ext, char **names, size_t *count,
                        spt_error *err)
{
    spt_arena arena = {0};
    char **list = NULL;
    size_t n = 0, room = 0, ext_length = strlen(ext);
    char *path = spt_path_join(host->root, folder);
    DIR *dir = path ? opendir(path) : NULL;
    spt_status status = SPT_OK;
    if (!dir)
        status = spt_fail(err, SPT_E_NOT_FOUND, "%s: no such folder",
                          path ? path : folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length <= ext_length + 1 || e->d_name[0] == '.' ||
            e->d_name[length - ext_length - 1] != '.' ||
            strcmp(e->d_name + length - ext_length, ext) != 0)
            continue;
        char *name =
            spt_arena_strdup(&arena, e->d_name, length - ext_length - 1);
        if (!name || !spt_grow(&list, &room, n + 1, sizeof *list)) {
            status = spt_fail(err, SPT_E_MEMORY, "Lua: out of memory");
            break;
        }
        list[n++] = name;
    }
    if (dir)
        closedir(dir);
    if (status == SPT_OK) {
        *names = pack_names(list, n);
        *count = n;
        if (!*names)
            status = spt_fail(err, SPT_E_MEMORY, "Lua: out of memory");
    }
    spt_free(list);
    spt_free(path);
    spt_arena_free(&arena);
    return status;
}
