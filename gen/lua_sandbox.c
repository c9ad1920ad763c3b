/*
 * What Lua files may use. Nothing here reaches the system, depends on
 * addresses or on the order of a hash table, or runs unbounded outside of the
 * instruction count (patterns, table.move and string.dump are left out).
 */
#include <stddef.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "lua_int.h"

static const char BASE[] = "spt.base"; /* name -> function or library */

static const char *const globals[] = {
    "assert", "error", "ipairs", "select", "tonumber", "type", NULL,
};
static const char *const string_names[] = {
    "byte", "char",    "format", "len",   "lower",
    "rep",  "reverse", "sub",    "upper", NULL,
};
static const char *const table_names[] = {
    "concat", "insert", "pack", "remove", "sort", "unpack", NULL,
};
static const char *const math_names[] = {
    "abs", "ceil", "exp",        "floor", "fmod",       "huge",
    "log", "max",  "maxinteger", "min",   "mininteger", "modf",
    "pi",  "sqrt", "tointeger",  "type",  "ult",        NULL,
};

/* Functions that are safer than the library's of the same name. */
static const char prelude[] =
    "local next, sort, format, tostring, select, type, find, error = "
    "...\n"
    "local plain = {number = true, string = true, boolean = true, "
    "['nil'] = true}\n"
    "local M = {}\n"
    "function M.sorted(t)\n"
    "  if type(t) ~= 'table' then\n"
    "    error('sorted: expected a table, got ' .. type(t), 2)\n"
    "  end\n"
    "  local keys, n = {}, 0\n"
    "  for k in next, t do\n"
    "    if type(k) ~= 'number' and type(k) ~= 'string' then\n"
    "      error('sorted: key is a ' .. type(k), 2)\n"
    "    end\n"
    "    n = n + 1\n"
    "    keys[n] = k\n"
    "  end\n"
    "  sort(keys, function(a, b)\n"
    "    if type(a) ~= type(b) then return type(a) < type(b) end\n"
    "    return a < b\n"
    "  end)\n"
    "  local i = 0\n"
    "  return function()\n"
    "    i = i + 1\n"
    "    if i <= n then return keys[i], t[keys[i]] end\n"
    "  end\n"
    "end\n"
    "function M.tostring(v)\n"
    "  if not plain[type(v)] then\n"
    "    error('tostring: a ' .. type(v) .. ' has no text', 2)\n"
    "  end\n"
    "  return tostring(v)\n"
    "end\n"
    "function M.format(f, ...)\n"
    "  for i = 1, select('#', ...) do\n"
    "    if not plain[type((select(i, ...)))] then\n"
    "      error('format: a ' .. type((select(i, ...))) .. "
    "' has no text', 2)\n"
    "    end\n"
    "  end\n"
    "  if type(f) == 'string' and find(f, '%p', 1, true) then\n"
    "    error('format: %p is not allowed', 2)\n"
    "  end\n"
    "  return format(f, ...)\n"
    "end\n"
    "return M\n";

/* Pushes the library table of that name, opened if need be. */
static void push_library(lua_State *L, const char *name, lua_CFunction open)
{
    luaL_requiref(L, name, open, 0);
}

/* Raises for a write to a library or an environment. */
static int refuse_write(lua_State *L)
{
    return luaL_error(L, "writes the global or library field '%s'",
                      lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?");
}

/* base[name] = a read-only view of the named fields of the table on top. */
static void offer_library(lua_State *L, const char *name,
                          const char *const *fields)
{
    lua_newtable(L); /* the view */
    lua_newtable(L); /* its metatable */
    lua_newtable(L); /* the fields */
    for (; *fields; fields++) {
        lua_getfield(L, -4, *fields);
        lua_setfield(L, -2, *fields);
    }
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_getfield(L, LUA_REGISTRYINDEX, BASE);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* Runs the prelude; its table of functions stays on the stack. */
static void run_prelude(lua_State *L, int base, int string, int table)
{
    static const struct {
        char from;
        const char *name;
    } arguments[] = {
        {'b', "next"},   {'t', "sort"}, {'s', "format"}, {'b', "tostring"},
        {'b', "select"}, {'b', "type"}, {'s', "find"},   {'b', "error"},
    };
    if (luaL_loadbufferx(L, prelude, sizeof prelude - 1, "=sandbox", "t") !=
        LUA_OK)
        lua_error(L);
    int count = (int)(sizeof arguments / sizeof *arguments);
    for (int i = 0; i < count; i++)
        lua_getfield(L,
                     arguments[i].from == 'b'   ? base
                     : arguments[i].from == 's' ? string
                                                : table,
                     arguments[i].name);
    lua_call(L, count, 1);
}

void spt_lua_sandbox(lua_State *L)
{
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, BASE);
    push_library(L, LUA_GNAME, luaopen_base);
    int base = lua_gettop(L);
    push_library(L, LUA_STRLIBNAME, luaopen_string);
    int string = lua_gettop(L);
    push_library(L, LUA_TABLIBNAME, luaopen_table);
    int table = lua_gettop(L);
    push_library(L, LUA_MATHLIBNAME, luaopen_math);
    offer_library(L, "math", math_names);
    run_prelude(L, base, string, table);
    int safe = lua_gettop(L);
    lua_getfield(L, safe, "format");
    lua_setfield(L, string, "format");
    lua_getfield(L, LUA_REGISTRYINDEX, BASE);
    lua_getfield(L, safe, "sorted");
    lua_setfield(L, -2, "sorted");
    lua_getfield(L, safe, "tostring");
    lua_setfield(L, -2, "tostring");
    lua_settop(L, table);
    offer_library(L, "table", table_names);
    lua_settop(L, string);
    offer_library(L, "string", string_names);
    /* Methods of texts, ("x"):rep(3), see the view too. */
    lua_getfield(L, LUA_REGISTRYINDEX, BASE);
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_getfield(L, -3, "string");
    lua_setfield(L, -2, "__index");
    lua_pop(L, 2);
    for (const char *const *name = globals; *name; name++) {
        lua_getfield(L, base, *name);
        lua_setfield(L, -2, *name);
    }
}

/* __index of an environment: upvalue 1 has the values, 2 the own names. */
static int read_global(lua_State *L)
{
    for (int i = 1; i <= 2; i++) {
        lua_pushvalue(L, 2);
        if (lua_rawget(L, lua_upvalueindex(i)) != LUA_TNIL)
            return 1;
        lua_pop(L, 1);
    }
    lua_getfield(L, LUA_REGISTRYINDEX, BASE);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TNIL)
        return 1;
    return luaL_error(L, "unknown global '%s'",
                      lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?");
}

void spt_lua_push_env(lua_State *L, const char *file, int values)
{
    if (values)
        values = lua_absindex(L, values);
    lua_newtable(L);
    lua_newtable(L);
    if (values)
        lua_pushvalue(L, values);
    else
        lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, file);
    lua_pushcclosure(L, spt_lua_include, 1);
    lua_setfield(L, -2, "include");
    lua_pushcclosure(L, read_global, 2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
}
