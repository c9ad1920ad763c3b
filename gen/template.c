/*
 * Reads descriptors. What one looks like is in templates/README.md; every
 * field is checked when the descriptor is first used, and errors name the line
 * of the field.
 */
#include "template.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "files.h"
#include "gen_int.h"
#include "lua_int.h"

typedef struct reader {
    lua_State *L;
    spt_arena *arena;
    spt_template *t;
} reader;

/* Field of the descriptor -> its Lua type and whether it must be there. */
static const struct {
    const char *name;
    int type;
    bool required;
} parts[] = {
    {"name", LUA_TSTRING, true},       {"title", LUA_TSTRING, true},
    {"problem", LUA_TTABLE, true},     {"params", LUA_TTABLE, true},
    {"constraints", LUA_TTABLE, true}, {"launch", LUA_TFUNCTION, true},
    {"key", LUA_TFUNCTION, true},      {"symbol", LUA_TFUNCTION, true},
    {"derive", LUA_TFUNCTION, false},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const char *const field_parts[] = {
    "name", "type", "values", "min", "max", "default", "doc", NULL,
};

static const char *const type_names[] = {
    [SPT_VALUE_INT] = "int",
    [SPT_VALUE_BOOL] = "bool",
    [SPT_VALUE_NUMBER] = "number",
    [SPT_VALUE_STRING] = "string",
};

int spt_template_fail(lua_State *L, const spt_template *t, const char *key,
                      const char *sub, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t size;
    const char *source = spt_lua_text(L, t->file, &size);
    const char *keys[] = {key, sub};
    int line = key ? spt_lua_line(source, size, keys, sub ? 2 : 1) : 1;
    return spt_lua_raise(L, SPT_E_FORMAT, "%s:%d: %s", t->file, line, text);
}

/* The field of the descriptor (key) or of one of its entries (entry). */
static int bad(const reader *r, const char *key, const char *entry,
               const char *what)
{
    return spt_template_fail(r->L, r->t, key, entry, "%s%s%s: %s",
                             key ? key : "descriptor", entry ? " " : "",
                             entry ? entry : "", what);
}

static bool named(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static void read_value(const reader *r, const spt_field *f, const char *group,
                       spt_value *value)
{
    lua_State *L = r->L;
    bool good = false;
    *value = (spt_value){.type = f->type};
    memcpy(value->name, f->name, sizeof value->name);
    switch (f->type) {
    case SPT_VALUE_INT:
        good = lua_isinteger(L, -1);
        value->integer = good ? lua_tointeger(L, -1) : 0;
        break;
    case SPT_VALUE_BOOL:
        good = lua_isboolean(L, -1);
        value->integer = good ? lua_toboolean(L, -1) : 0;
        break;
    case SPT_VALUE_NUMBER:
        good = lua_type(L, -1) == LUA_TNUMBER;
        value->number = good ? lua_tonumber(L, -1) : 0;
        break;
    case SPT_VALUE_STRING:
        good = lua_type(L, -1) == LUA_TSTRING &&
               lua_rawlen(L, -1) < sizeof value->text;
        if (good)
            snprintf(value->text, sizeof value->text, "%s",
                     lua_tostring(L, -1));
        break;
    }
    if (!good)
        bad(r, group, f->name,
            lua_pushfstring(L, "expected a value of type %s, got %s",
                            type_names[f->type], luaL_tolstring(L, -1, NULL)));
    lua_pop(L, 1);
}

static char *keep(const reader *r, const char *text)
{
    char *copy = spt_arena_strdup(r->arena, text, strlen(text));
    if (!copy)
        spt_lua_raise(r->L, SPT_E_MEMORY, "%s: out of memory", r->t->file);
    return copy;
}

static void read_values(const reader *r, spt_field *f, const char *group)
{
    lua_State *L = r->L;
    if (lua_getfield(L, -1, "values") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    size_t count = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
    if (count < 1 || count > SPT_FIELD_VALUES)
        bad(r, group, f->name, "values: expected a list of 1 to 64 values");
    f->values = spt_arena_alloc(r->arena, count, sizeof *f->values);
    if (!f->values)
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", r->t->file);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        read_value(r, f, group, &f->values[i]);
    }
    f->n_values = (int)count;
    lua_pop(L, 1);
}

static void read_bounds(const reader *r, spt_field *f, const char *group)
{
    lua_State *L = r->L;
    int low = lua_getfield(L, -1, "min"), high = lua_getfield(L, -2, "max");
    if (low != LUA_TNIL || high != LUA_TNIL) {
        if (low != LUA_TNUMBER || high != LUA_TNUMBER ||
            (f->type != SPT_VALUE_INT && f->type != SPT_VALUE_NUMBER))
            bad(r, group, f->name, "expected both min and max, as numbers");
        f->bounded = true;
        f->min = lua_tonumber(L, -2);
        f->max = lua_tonumber(L, -1);
        if (!(f->min <= f->max))
            bad(r, group, f->name, "min is above max");
    }
    lua_pop(L, 2);
}

static bool same_value(const spt_value *a, const spt_value *b)
{
    return a->type == b->type && a->integer == b->integer &&
           a->number == b->number && strcmp(a->text, b->text) == 0;
}

static bool allowed(const spt_field *f, const spt_value *value)
{
    double x =
        f->type == SPT_VALUE_NUMBER ? value->number : (double)value->integer;
    if (f->bounded && !(x >= f->min && x <= f->max))
        return false;
    for (int i = 0; i < f->n_values; i++)
        if (same_value(&f->values[i], value))
            return true;
    return f->n_values == 0;
}

/* Name and type of the entry on top. */
static void read_head(const reader *r, spt_field *f, const char *group)
{
    lua_State *L = r->L;
    if (!lua_istable(L, -1))
        bad(r, group, NULL, "expected a list of tables");
    const char *name =
        lua_getfield(L, -1, "name") == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (!spt_lua_word(name) || strlen(name) >= sizeof f->name ||
        (*name >= '0' && *name <= '9'))
        bad(r, group, NULL,
            "name: expected 1 to 23 of a-z, 0-9 and _ in each entry");
    snprintf(f->name, sizeof f->name, "%s", name);
    const char *type =
        lua_getfield(L, -2, "type") == LUA_TSTRING ? lua_tostring(L, -1) : "";
    int found = -1;
    for (int i = 0; i < (int)(sizeof type_names / sizeof *type_names); i++)
        if (strcmp(type, type_names[i]) == 0)
            found = i;
    if (found < 0)
        bad(r, group, f->name, "type: expected int, bool, number or string");
    f->type = (spt_value_type)found;
    lua_pop(L, 2);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING ||
            !named(field_parts, lua_tostring(L, -2)))
            bad(r, group, f->name,
                lua_pushfstring(L, "unknown field '%s'",
                                luaL_tolstring(L, -2, NULL)));
    }
    for (int i = 0; i < r->t->n_fields; i++)
        if (strcmp(r->t->fields[i].name, f->name) == 0)
            bad(r, group, f->name, "is there twice");
}

static void read_field(const reader *r, const char *group)
{
    lua_State *L = r->L;
    if (r->t->n_fields == SPT_CONFIG_MAX)
        bad(r, group, NULL, "more than 40 entries in problem and params");
    spt_field *f = &r->t->fields[r->t->n_fields];
    read_head(r, f, group);
    f->is_param = strcmp(group, "params") == 0;
    read_values(r, f, group);
    read_bounds(r, f, group);
    if (!f->n_values && !f->bounded && f->type != SPT_VALUE_BOOL)
        bad(r, group, f->name, "expected values, or min and max");
    if (lua_getfield(L, -1, "doc") != LUA_TSTRING || !lua_rawlen(L, -1))
        bad(r, group, f->name, "doc: expected a text");
    f->doc = keep(r, lua_tostring(L, -1));
    lua_pop(L, 1);
    f->has_default = lua_getfield(L, -1, "default") != LUA_TNIL;
    if (!f->has_default) {
        lua_pop(L, 1);
    } else {
        read_value(r, f, group, &f->fallback);
        if (!allowed(f, &f->fallback))
            bad(r, group, f->name, "default is outside of the values");
    }
    r->t->n_fields++;
}

static void read_fields(const reader *r, const char *group)
{
    lua_getfield(r->L, -1, group);
    size_t count = lua_rawlen(r->L, -1);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(r->L, -1, (lua_Integer)i);
        read_field(r, group);
        lua_pop(r->L, 1);
    }
    lua_pop(r->L, 1);
}

static void read_constraints(const reader *r)
{
    lua_State *L = r->L;
    lua_getfield(L, -1, "constraints");
    r->t->n_constraints = (int)lua_rawlen(L, -1);
    for (int i = 1; i <= r->t->n_constraints; i++) {
        bool good = lua_rawgeti(L, -1, i) == LUA_TTABLE &&
                    lua_rawlen(L, -1) == 2 &&
                    lua_rawgeti(L, -1, 1) == LUA_TSTRING &&
                    lua_rawgeti(L, -2, 2) == LUA_TFUNCTION;
        if (!good)
            bad(r, "constraints", NULL,
                lua_pushfstring(L, "entry %d: expected {\"text\", function}",
                                i));
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
}

/* Checks names and types of the descriptor's own fields. */
static void check_parts(const reader *r)
{
    lua_State *L = r->L;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        bool known = false;
        for (int i = 0; i < PARTS && lua_type(L, -2) == LUA_TSTRING; i++)
            known |= strcmp(parts[i].name, lua_tostring(L, -2)) == 0;
        if (!known)
            bad(r, lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL,
                NULL, "unknown field of a descriptor");
    }
    for (int i = 0; i < PARTS; i++) {
        int type = lua_getfield(L, -1, parts[i].name);
        if (type == LUA_TNIL && parts[i].required)
            bad(r, NULL, NULL,
                lua_pushfstring(L, "field %s is missing", parts[i].name));
        if (type != LUA_TNIL && type != parts[i].type)
            bad(r, parts[i].name, NULL,
                lua_pushfstring(L, "expected a %s, got a %s",
                                lua_typename(L, parts[i].type),
                                lua_typename(L, type)));
        lua_pop(L, 1);
    }
}

/* Descriptors of templates/, as spt_lua_list; what has no body is shared by
   them. */
static spt_status list_kernels(const spt_lua *host, char **names, size_t *count,
                               spt_error *err)
{
    char path[4200];
    size_t n = 0;
    SPT_TRY(spt_lua_list(host, "templates", "lua", names, count, err));
    char *to = *names, *from = *names;
    for (size_t i = 0; i < *count; i++) {
        size_t size = strlen(from) + 1;
        snprintf(path, sizeof path, "%.4000s/templates/%.64s.cu",
                 spt_lua_root(host), from);
        if (spt_file_exists(path)) {
            memmove(to, from, size);
            to += size;
            n++;
        }
        from += size;
    }
    *count = n;
    return SPT_OK;
}

static void no_template(lua_State *L, const char *name)
{
    spt_error err;
    char *names = NULL;
    size_t count = 0;
    if (list_kernels(spt_lua_host(L), &names, &count, &err) != SPT_OK)
        spt_lua_raise(L, err.status, "%s", err.text);
    char text[512] = "";
    size_t used = 0;
    for (const char *at = names; count--; at += strlen(at) + 1)
        if (used + strlen(at) + 3 < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used ? ", " : "", at);
    spt_free(names);
    spt_lua_raise(L, SPT_E_USAGE, "%.40s: no such kernel, expected one of: %s",
                  name, text);
}

static spt_template *read_template(lua_State *L, spt_templates *known,
                                   const char *name)
{
    spt_template *t = spt_arena_alloc(&known->arena, 1, sizeof *t);
    if (!t)
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", name);
    const reader r = {L, &known->arena, t};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->file, sizeof t->file, "templates/%s.lua", name);
    snprintf(t->body, sizeof t->body, "templates/%s.cu", name);
    const char *root = spt_lua_root(spt_lua_host(L));
    if (!spt_file_exists(lua_pushfstring(L, "%s/%s", root, t->file)) ||
        !spt_file_exists(lua_pushfstring(L, "%s/%s", root, t->body)))
        no_template(L, name);
    lua_pop(L, 2);
    spt_lua_load(L, t->file);
    check_parts(&r);
    lua_getfield(L, -1, "name");
    if (strcmp(lua_tostring(L, -1), name) != 0)
        bad(&r, "name", NULL, "expected the name of the file");
    lua_getfield(L, -2, "title");
    t->title = keep(&r, lua_tostring(L, -1));
    lua_pop(L, 2);
    read_fields(&r, "problem");
    read_fields(&r, "params");
    read_constraints(&r);
    lua_pop(L, 1);
    t->next = known->first;
    known->first = t;
    return t;
}

const spt_template *spt_template_find(lua_State *L, spt_templates *known,
                                      const char *name)
{
    for (spt_template *t = known->first; t; t = t->next)
        if (strcmp(t->name, name) == 0)
            return t;
    if (!spt_lua_word(name))
        no_template(L, name);
    return read_template(L, known, name);
}

struct find_job {
    spt_gen *gen;
    const char *name;
    const spt_template *found;
};

static int find_run(lua_State *L)
{
    struct find_job *job = lua_touserdata(L, 1);
    job->found = spt_template_find(L, &job->gen->templates, job->name);
    return 0;
}

spt_status spt_gen_template(spt_gen *gen, const char *name,
                            const spt_template **out, spt_error *err)
{
    struct find_job job = {gen, name, NULL};
    SPT_TRY(spt_lua_run(gen->lua, find_run, &job, err));
    *out = job.found;
    return SPT_OK;
}

spt_status spt_gen_template_names(spt_gen *gen, char **names, size_t *count,
                                  spt_error *err)
{
    return list_kernels(gen->lua, names, count, err);
}

spt_status spt_field_parse(const spt_field *field, const char *text,
                           spt_value *value, spt_error *err)
{
    char *end = NULL;
    spt_value v = {.type = field->type};
    bool good = *text != 0;
    memcpy(v.name, field->name, sizeof v.name);
    switch (field->type) {
    case SPT_VALUE_INT:
        v.integer = strtoll(text, &end, 10);
        good = good && *end == 0;
        break;
    case SPT_VALUE_NUMBER:
        v.number = strtod(text, &end);
        good = good && *end == 0 && isfinite(v.number);
        break;
    case SPT_VALUE_BOOL:
        v.integer = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
        good =
            v.integer || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
        break;
    case SPT_VALUE_STRING:
        good = good && strlen(text) < sizeof v.text;
        if (good)
            snprintf(v.text, sizeof v.text, "%s", text);
        break;
    }
    if (!good)
        return spt_fail(err, SPT_E_USAGE,
                        "%s=%.40s: expected a value of type %s", field->name,
                        text, type_names[field->type]);
    *value = v;
    return SPT_OK;
}

void spt_field_values(const spt_field *f, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    if (f->type == SPT_VALUE_BOOL && !f->n_values)
        used += (size_t)snprintf(text, size, "true or false");
    for (int i = 0; i < f->n_values && used + 32 < size; i++) {
        char one[32];
        spt_value_text(&f->values[i], one, sizeof one);
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i ? ", " : "", one);
    }
    if (f->bounded && used + 64 < size)
        snprintf(text + used, size - used, "%s%.15g to %.15g",
                 used ? ", within " : "", f->min, f->max);
}

const spt_value *spt_field_take(lua_State *L, const spt_template *t,
                                const spt_field *field,
                                const spt_config *config)
{
    char given[32], values[512];
    const spt_value *v = spt_config_get(config, field->name);
    if (!v)
        return NULL;
    spt_value_text(v, given, sizeof given);
    if (v->type != field->type)
        spt_lua_raise(L, SPT_E_USAGE, "%s: %s=%s: expected a value of type %s",
                      t->name, field->name, given, type_names[field->type]);
    spt_field_values(field, values, sizeof values);
    if (!allowed(field, v))
        spt_lua_raise(L, SPT_E_USAGE, "%s: %s=%s: expected %s", t->name,
                      field->name, given, values);
    return v;
}

void spt_template_check_names(lua_State *L, const spt_template *t,
                              const spt_config *config)
{
    for (int i = 0; i < config->count; i++) {
        bool known = false;
        for (int k = 0; k < t->n_fields; k++)
            known |= strcmp(t->fields[k].name, config->values[i].name) == 0;
        if (!known)
            spt_lua_raise(L, SPT_E_USAGE, "%s: has no parameter '%s'", t->name,
                          config->values[i].name);
    }
}

void spt_config_text(const spt_config *full, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < full->count && used < size; i++) {
        char one[32];
        spt_value_text(&full->values[i], one, sizeof one);
        used += (size_t)snprintf(text + used, size - used, "%s%s=%s",
                                 i ? " " : "", full->values[i].name, one);
    }
}

static int unknown_value(lua_State *L)
{
    return luaL_error(L, "no value named '%s'",
                      lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?");
}

static int refuse_value(lua_State *L)
{
    return luaL_error(L, "writes the value '%s'",
                      lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?");
}

/* The table on top raises for unknown names, and for new ones. */
static void make_strict(lua_State *L)
{
    lua_newtable(L);
    lua_pushcfunction(L, unknown_value);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_value);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
}

void spt_value_push(lua_State *L, const spt_value *value)
{
    switch (value->type) {
    case SPT_VALUE_INT:
        lua_pushinteger(L, value->integer);
        break;
    case SPT_VALUE_BOOL:
        lua_pushboolean(L, value->integer != 0);
        break;
    case SPT_VALUE_NUMBER:
        lua_pushnumber(L, value->number);
        break;
    case SPT_VALUE_STRING:
        lua_pushstring(L, value->text);
        break;
    }
}

void spt_template_push_values(lua_State *L, const spt_config *full)
{
    lua_newtable(L);
    for (int i = 0; i < full->count; i++) {
        spt_value_push(L, &full->values[i]);
        lua_setfield(L, -2, full->values[i].name);
    }
    make_strict(L);
}

const char *spt_template_broken(lua_State *L, const spt_template *t, int p,
                                int b)
{
    const char *broken = NULL;
    p = lua_absindex(L, p);
    b = lua_absindex(L, b);
    spt_lua_load(L, t->file);
    lua_getfield(L, -1, "constraints");
    for (int i = 1; i <= t->n_constraints && !broken; i++) {
        lua_rawgeti(L, -1, i);
        lua_rawgeti(L, -1, 1);
        broken = lua_tostring(L, -1);
        lua_rawgeti(L, -2, 2);
        lua_pushvalue(L, p);
        lua_pushvalue(L, b);
        lua_call(L, 2, 1);
        if (!lua_isboolean(L, -1))
            spt_template_fail(L, t, "constraints", NULL,
                              "constraint \"%s\": expected true or false, "
                              "got a %s",
                              broken, luaL_typename(L, -1));
        if (lua_toboolean(L, -1))
            broken = NULL;
        lua_pop(L, 3);
    }
    lua_pop(L, 2);
    return broken;
}

void spt_template_call(lua_State *L, const spt_template *t, const char *name,
                       int p, int b, int type)
{
    p = lua_absindex(L, p);
    b = lua_absindex(L, b);
    spt_lua_load(L, t->file);
    lua_getfield(L, -1, name);
    lua_pushvalue(L, p);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != type)
        spt_template_fail(L, t, name, NULL, "%s returns a %s, expected a %s",
                          name, luaL_typename(L, -1), lua_typename(L, type));
    lua_remove(L, -2);
}
