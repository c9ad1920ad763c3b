/*
 * A body becomes one Lua chunk with a line for each of its lines: a line
 * "//% ..." is that Lua, any other line is a call that appends the line with
 * its ${expressions} replaced. So Lua's own line numbers are the template's,
 * in syntax errors as well as in run-time ones.
 *
 * #line is written where the next line is not the one after the last; never
 * inside of a comment, a string or a continued line, where it would be text.
 */
#include "emit.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "lua_int.h"

enum { INCLUDE_DEPTH = 8 };

/* A file that is being expanded. */
typedef struct frame {
    spt_emitter *e;
    const char *file;
    const char *text;
    size_t size;
} frame;

void spt_emitter_free(spt_emitter *e)
{
    spt_buf_free(&e->out);
    spt_buf_free(&e->line);
    spt_buf_free(&e->seen);
    spt_arena_free(&e->arena);
}

static bool identifier(const char *text, size_t length)
{
    bool good = length > 0 && !isdigit((unsigned char)text[0]);
    for (size_t i = 0; i < length; i++)
        good = good && (isalnum((unsigned char)text[i]) || text[i] == '_');
    return good;
}

/* The shortest text that reads back as the same float. */
static void add_float(lua_State *L, spt_buf *buf, double value)
{
    char text[32];
    if (!isfinite(value))
        luaL_error(L, "${...}: %f is not a finite number", value);
    if (value == floor(value))
        luaL_error(L,
                   "${...}: %f is a whole number of type float, use // or "
                   "math.tointeger",
                   value);
    if (fabs(value) > 3.4028234e38 || fabs(value) < 1.17549436e-38)
        luaL_error(L, "${...}: %s is outside of the range of float",
                   lua_pushfstring(L, "%f", value));
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value)
            break;
    }
    const char *point = strpbrk(text, ".e") ? "" : ".0";
    spt_buf_printf(buf, value < 0 ? "(%s%sf)" : "%s%sf", text, point);
}

void spt_emit_value(lua_State *L, spt_buf *buf, int index)
{
    size_t length;
    const char *text;
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
        if (lua_isinteger(L, index)) {
            long long value = lua_tointeger(L, index);
            const char *suffix =
                value > INT32_MAX || value < -INT32_MAX ? "LL" : "";
            spt_buf_printf(buf, value < 0 ? "(%lld%s)" : "%lld%s", value,
                           suffix);
        } else {
            add_float(L, buf, lua_tonumber(L, index));
        }
        break;
    case LUA_TBOOLEAN:
        spt_buf_puts(buf, lua_toboolean(L, index) ? "true" : "false");
        break;
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &length);
        if (!identifier(text, length))
            luaL_error(L, "${...}: \"%s\" is not an identifier", text);
        spt_buf_add(buf, text, length);
        break;
    default:
        luaL_error(L,
                   "${...}: expected an integer, float, bool or "
                   "identifier, got %s",
                   luaL_typename(L, index));
    }
}

void spt_emit_seen(void *user, const char *name, const char *text, size_t size)
{
    spt_emitter *e = user;
    char mark[128];
    int n = snprintf(mark, sizeof mark, "\n@%s %zu\n", name, size);
    if (e->seen.data && memmem(e->seen.data, e->seen.size, mark, (size_t)n))
        return;
    spt_buf_add(&e->seen, mark, (size_t)n);
    spt_buf_add(&e->seen, text, size);
}

/* Start and end of line number `line` (from 1) without its newline. */
static const char *find_line(const frame *f, int line, size_t *length)
{
    const char *at = f->text, *end = f->text + f->size;
    while (--line > 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *length = (size_t)((newline ? newline : end) - at);
    if (*length && at[*length - 1] == '\r')
        --*length;
    return at;
}

/* The Lua of a "//%" line, or NULL. */
static const char *lua_line(const char *line, size_t length, size_t *rest)
{
    size_t blanks = 0;
    while (blanks < length && (line[blanks] == ' ' || line[blanks] == '\t'))
        blanks++;
    if (length - blanks < 3 || memcmp(line + blanks, "//%", 3) != 0)
        return NULL;
    *rest = length - blanks - 3;
    return line + blanks + 3;
}

/*
 * The next ${expression} at or after *at: its offset, with *at moved behind
 * it; length when there is none. Braces and quotes nest. *close is the offset
 * of its '}', or length when it is not closed.
 */
static size_t next_expression(const char *line, size_t length, size_t *at,
                              size_t *close)
{
    size_t i = *at;
    while (i + 1 < length && !(line[i] == '$' && line[i + 1] == '{'))
        i++;
    if (i + 1 >= length)
        return *at = *close = length;
    size_t start = i;
    int depth = 0;
    char quote = 0;
    for (i++; i < length; i++) {
        char c = line[i];
        if (quote)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '{')
            depth++;
        else if (c == '}' && --depth == 0)
            break;
    }
    *close = i;
    *at = i < length ? i + 1 : length;
    return start;
}

/* Follows comments, strings and continuations to the end of a written line. */
static void follow(spt_emitter *e, const char *line, size_t length)
{
    bool comment = e->in_comment;
    char quote = 0;
    for (size_t i = 0; i < length; i++) {
        char c = line[i], next = i + 1 < length ? line[i + 1] : 0;
        if (comment) {
            if (c == '*' && next == '/') {
                comment = false;
                i++;
            }
        } else if (quote) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = 0;
        } else if (c == '/' && next == '*') {
            comment = true;
            i++;
        } else if (c == '/' && next == '/') {
            break;
        } else if (c == '"' ||
                   (c == '\'' && i && !isalnum((unsigned char)line[i - 1]))) {
            quote = c;
        }
    }
    e->in_comment = comment;
    e->continued = length && line[length - 1] == '\\';
}

static bool blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isspace((unsigned char)line[i]))
            return false;
    return true;
}

/* Appends a line, with #line where the mapping breaks. */
static void write_line(spt_emitter *e, const frame *f, int number,
                       const char *line, size_t length)
{
    bool follows =
        e->file && strcmp(e->file, f->file) == 0 && e->next_line == number;
    if (!follows && !e->in_comment && !e->continued) {
        if (blank(line, length))
            return;
        spt_buf_printf(&e->out, "#line %d \"%s\"\n", number, f->file);
        follows = true;
    }
    if (follows) {
        e->file = f->file;
        e->next_line = number + 1;
    } else {
        e->file = NULL;
    }
    spt_buf_add(&e->out, line, length);
    spt_buf_puts(&e->out, "\n");
    follow(e, line, length);
}

/* t(number, value...): appends that line. */
static int text_line(lua_State *L)
{
    const frame *f = lua_touserdata(L, lua_upvalueindex(1));
    spt_emitter *e = f->e;
    int number = (int)lua_tointeger(L, 1), argument = 2;
    size_t length, at = 0, close;
    const char *line = find_line(f, number, &length);
    spt_buf *made = &e->line;
    made->size = 0;
    while (at < length) {
        size_t from = at;
        size_t start = next_expression(line, length, &at, &close);
        spt_buf_add(made, line + from, start - from);
        if (start < length)
            spt_emit_value(L, made, argument++);
    }
    while (made->size && (made->data[made->size - 1] == ' ' ||
                          made->data[made->size - 1] == '\t'))
        made->size--;
    write_line(e, f, number, made->size ? made->data : "", made->size);
    if (made->failed || e->out.failed)
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", f->file);
    return 0;
}

/* The Lua chunk of a body, pushed as a string. */
static void push_chunk(lua_State *L, const frame *f)
{
    luaL_Buffer chunk;
    luaL_buffinit(L, &chunk);
    luaL_addstring(&chunk, "local t_ = ... ");
    int number = 1;
    for (size_t at = 0; at < f->size; number++) {
        size_t length, rest, inner = 0, close;
        const char *line = f->text + at;
        const char *newline = memchr(line, '\n', f->size - at);
        length = newline ? (size_t)(newline - line) : f->size - at;
        at += length + 1;
        if (length && line[length - 1] == '\r')
            length--;
        const char *lua = lua_line(line, length, &rest);
        if (lua) {
            luaL_addlstring(&chunk, lua, rest);
            luaL_addstring(&chunk, "\n");
            continue;
        }
        char head[32];
        snprintf(head, sizeof head, "t_(%d", number);
        luaL_addstring(&chunk, head);
        while (inner < length) {
            size_t start = next_expression(line, length, &inner, &close);
            if (start == length)
                break;
            if (close == length)
                spt_lua_raise(L, SPT_E_FORMAT,
                              "%s:%d: ${ is not closed on its line", f->file,
                              number);
            luaL_addstring(&chunk, ",(");
            luaL_addlstring(&chunk, line + start + 2, close - start - 2);
            luaL_addstring(&chunk, ")");
        }
        luaL_addstring(&chunk, ")\n");
    }
    luaL_pushresult(&chunk);
}

/* include(NAME) in a body: a fragment NAME.cu, or a Lua file. */
static int body_include(lua_State *L)
{
    frame *f = lua_touserdata(L, lua_upvalueindex(1));
    const char *name = luaL_checkstring(L, 1);
    size_t length = strlen(name);
    char word[32];
    if (length <= 3 || length >= sizeof word ||
        strcmp(name + length - 3, ".cu") != 0) {
        lua_pushvalue(L, lua_upvalueindex(3));
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        return 1;
    }
    memcpy(word, name, length - 3);
    word[length - 3] = 0;
    if (!spt_lua_word(word))
        return luaL_error(L, "include: '%s' is no file name", name);
    const char *file = lua_pushfstring(L, "templates/%s", name);
    spt_emit_body(L, f->e, file, lua_upvalueindex(2));
    return 0;
}

/* A table for the chunk's environment: the values and include. */
static void push_names(lua_State *L, const frame *f, int values)
{
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, values);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)f);
    lua_pushvalue(L, values);
    lua_pushstring(L, f->file);
    lua_pushcclosure(L, spt_lua_include, 1);
    lua_pushcclosure(L, body_include, 3);
    lua_setfield(L, -2, "include");
}

void spt_emit_body(lua_State *L, spt_emitter *e, const char *file, int values)
{
    luaL_checkstack(L, 24, "includes");
    if (values < LUA_REGISTRYINDEX) { /* an upvalue */
        lua_pushvalue(L, values);
        values = -1;
    }
    values = lua_absindex(L, values);
    if (++e->depth > INCLUDE_DEPTH)
        spt_lua_raise(L, SPT_E_FORMAT, "%s: included too deeply", file);
    frame *f = spt_arena_alloc(&e->arena, 1, sizeof *f);
    char *name = spt_arena_strdup(&e->arena, file, strlen(file));
    if (!f || !name)
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", file);
    *f = (frame){.e = e, .file = name};
    f->text = spt_lua_read_relative(L, file, &f->size);
    spt_emit_seen(e, name, f->text, f->size);
    push_chunk(L, f);
    size_t size;
    const char *chunk = lua_tolstring(L, -1, &size);
    const char *chunk_name = lua_pushfstring(L, "@%s", name);
    if (luaL_loadbufferx(L, chunk, size, chunk_name, "t") != LUA_OK)
        lua_error(L);
    push_names(L, f, values);
    spt_lua_push_env(L, name, -1);
    lua_remove(L, -2);
    lua_setupvalue(L, -2, 1);
    lua_pushlightuserdata(L, f);
    lua_pushcclosure(L, text_line, 1);
    lua_call(L, 1, 0);
    spt_lua_hash_uses(L, name, spt_emit_seen, e);
    e->depth--;
    lua_pop(L, 3);
}
