/*
 * spt_gen: opens the folders, lists the configs of a kernel, emits one.
 */
#include "emit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>

#include "files.h"
#include "gen_int.h"
#include "hash.h"
#include "lua_int.h"
#include "spectune.h"

enum { MAX_CANDIDATES = 1000000, MAX_SOURCE = 8 << 20 };

bool spt_gen_has_root(const char *root)
{
    char *archs = spt_path_join(root, "archs");
    char *templates = spt_path_join(root, "templates");
    bool good = archs && templates && spt_file_exists(archs) &&
                spt_file_exists(templates);
    spt_free(archs);
    spt_free(templates);
    return good;
}

/* The root beside or above the program, or the installed one; else NULL. */
static const char *find_root(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    for (int up = 0; slash && up < 5; up++) {
        *slash = 0;
        if (spt_gen_has_root(*path ? path : "/"))
            return path;
        /* PREFIX/bin/spectune, wherever PREFIX was moved to. */
        size_t length = strlen(path);
        snprintf(slash, size - length, "/share/spectune");
        if (spt_gen_has_root(path))
            return path;
        *slash = 0;
        slash = strrchr(path, '/');
    }
    return spt_gen_has_root(SPT_DATA_DIR) ? SPT_DATA_DIR : NULL;
}

spt_status spt_gen_open(const char *root, spt_gen **gen, spt_error *err)
{
    char path[4096];
    const char *home = getenv("SPECTUNE_HOME");
    if (!root && home && *home)
        root = home;
    if (!root)
        root = find_root(path, sizeof path);
    if (!root)
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "archs/ and templates/ are neither near the program "
                        "nor in %s: set SPECTUNE_HOME to their folder",
                        SPT_DATA_DIR);
    if (!spt_gen_has_root(root))
        return spt_fail(err, SPT_E_NOT_FOUND,
                        "%s: has no archs/ and templates/", root);
    spt_gen *g = spt_calloc(1, sizeof *g);
    if (!g)
        return spt_fail(err, SPT_E_MEMORY, "out of memory");
    spt_status status = spt_lua_open(root, &g->lua, err);
    if (status != SPT_OK) {
        spt_free(g);
        return status;
    }
    *gen = g;
    return SPT_OK;
}

void spt_gen_close(spt_gen *gen)
{
    if (!gen)
        return;
    spt_boards_free(gen->boards);
    spt_arena_free(&gen->templates.arena);
    spt_lua_close(gen->lua);
    spt_free(gen);
}

/* One call of spt_gen_emit or spt_gen_space; buffers outlive a raise. */
typedef struct job {
    spt_gen *gen;
    const char *name;
    const spt_config *given;
    const spt_board *board;
    bool describe; /* without the body */
    spt_kernel kernel;
    spt_emitter e;
    spt_config *configs;
    size_t count, capacity;
} job;

/* Fields without a value. */
typedef struct missing_fields {
    const spt_field *fields[SPT_CONFIG_MAX];
    int count;
} missing_fields;

/* Raises when there are some, and names all of them. */
static void refuse_missing(lua_State *L, const spt_template *t,
                           const missing_fields *missing)
{
    char text[900] = "", values[512];
    size_t used = 0;
    for (int i = 0; i < missing->count && used < sizeof text; i++) {
        const spt_field *f = missing->fields[i];
        spt_field_values(f, values, sizeof values);
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s%s is not given, expected %s (%s)",
                                 i ? "; " : "", f->name, values, f->doc);
    }
    if (missing->count)
        spt_lua_raise(L, SPT_E_USAGE, "%s: %s", t->name, text);
}

/* The config with its defaults, in the descriptor's order. */
static void complete(lua_State *L, const spt_template *t,
                     const spt_config *given, spt_config *full)
{
    missing_fields missing = {.count = 0};
    *full = (spt_config){0};
    spt_template_check_names(L, t, given);
    for (int i = 0; i < t->n_fields; i++) {
        const spt_field *f = &t->fields[i];
        const spt_value *v = spt_field_take(L, t, f, given);
        if (!v && !f->has_default)
            missing.fields[missing.count++] = f;
        full->values[full->count++] = v ? *v : f->fallback;
    }
    refuse_missing(L, t, &missing);
}

/* The integer field of launch's table on top, or fallback when optional. */
static int launch_field(lua_State *L, const spt_template *t, const char *name,
                        int min, int max)
{
    lua_getfield(L, -1, name);
    lua_Integer value = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    if (!lua_isinteger(L, -1) || value < min || value > max)
        spt_template_fail(L, t, "launch", name,
                          "launch: %s: expected an integer from %d to %d, got "
                          "%s",
                          name, min, max, luaL_tolstring(L, -1, NULL));
    lua_pop(L, 1);
    return (int)value;
}

static void read_launch(lua_State *L, const spt_template *t, const job *j,
                        int p, int b, spt_kernel *k)
{
    spt_template_call(L, t, "launch", p, b, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        if (strcmp(name, "threads") != 0 && strcmp(name, "shared_bytes") != 0 &&
            strcmp(name, "min_ctas") != 0)
            spt_template_fail(L, t, "launch", name,
                              "launch: unknown field '%s'", name);
    }
    k->threads =
        launch_field(L, t, "threads", 1, j->board->max_threads_per_cta);
    k->shared_bytes =
        launch_field(L, t, "shared_bytes", 0, j->board->shared_per_cta_bytes);
    k->min_ctas = launch_field(L, t, "min_ctas", 0, j->board->max_ctas_per_sm);
    lua_pop(L, 1);
}

/* Result of key or symbol, which must be printable and fit. */
static void read_text(lua_State *L, const spt_template *t, const char *name,
                      int p, int b, char *text, size_t size)
{
    spt_template_call(L, t, name, p, b, LUA_TSTRING);
    size_t length;
    const char *given = lua_tolstring(L, -1, &length);
    bool good = length > 0 && length < size;
    for (size_t i = 0; i < length && good; i++)
        good = given[i] >= ' ' && given[i] <= '~';
    if (!good || strstr(given, "*/"))
        spt_template_fail(L, t, name, NULL,
                          "%s: expected 1 to %d printable characters", name,
                          (int)size - 1);
    memcpy(text, given, length + 1);
    lua_pop(L, 1);
}

/* Upper-case copy of name. */
static const char *upper(const char *name, char *out, size_t size)
{
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++)
        out[i] =
            (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 32 : name[i]);
    out[i] = 0;
    return out;
}

/* values[NAME] = the value on top; a second, different one raises. */
static void set_name(lua_State *L, const spt_template *t, int values,
                     const char *name)
{
    if (lua_getfield(L, values, name) != LUA_TNIL && !lua_rawequal(L, -1, -2))
        spt_template_fail(L, t, "derive", name,
                          "derive: %s differs from the value of that name "
                          "that is there already",
                          name);
    lua_pop(L, 1);
    lua_setfield(L, values, name);
}

static void add_derived(lua_State *L, const spt_template *t, int p, int b,
                        int values)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "spt.loaded");
    lua_getfield(L, -1, t->file);
    bool has = lua_getfield(L, -1, "derive") == LUA_TFUNCTION;
    lua_pop(L, 3);
    if (!has)
        return;
    spt_template_call(L, t, "derive", p, b, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, -2);) {
        const char *name =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (!n || name[n] || (*name >= '0' && *name <= '9'))
            spt_template_fail(L, t, "derive", NULL,
                              "derive: '%s': expected upper-case names", name);
        int type = lua_type(L, -1);
        if (type != LUA_TNUMBER && type != LUA_TBOOLEAN && type != LUA_TSTRING)
            spt_template_fail(L, t, "derive", name,
                              "derive: %s is a %s, expected a number, bool or "
                              "text",
                              name, luaL_typename(L, -1));
        set_name(L, t, values, name);
    }
    lua_pop(L, 1);
}

/* Pushes the table of the names that the body sees. */
static void push_body_values(lua_State *L, const spt_template *t, int p, int b,
                             const spt_config *full, const spt_kernel *k)
{
    char name[32];
    lua_newtable(L);
    int values = lua_gettop(L);
    for (int i = 0; i < full->count; i++) {
        spt_value_push(L, &full->values[i]);
        lua_setfield(L, values, upper(full->values[i].name, name, sizeof name));
    }
    const struct {
        const char *name;
        int value;
    } launch[] = {
        {"THREADS", k->threads},
        {"SHARED_BYTES", k->shared_bytes},
        {"MIN_CTAS", k->min_ctas},
    };
    for (size_t i = 0; i < sizeof launch / sizeof *launch; i++) {
        lua_pushinteger(L, launch[i].value);
        set_name(L, t, values, launch[i].name);
    }
    lua_pushstring(L, k->symbol);
    set_name(L, t, values, "SYMBOL");
    add_derived(L, t, p, b, values);
}

/* " * label text", wrapped at blanks. */
static void header_line(spt_buf *out, const char *label, const char *text)
{
    size_t column = 0;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, " ");
        if (!column || column + n + 1 > 80) {
            spt_buf_printf(out, "%s * %-9s", column ? "\n" : "",
                           column ? "" : label);
            column = 12;
        } else {
            spt_buf_puts(out, " ");
            column++;
        }
        spt_buf_add(out, at, n);
        column += n;
        at += n;
        at += strspn(at, " ");
    }
    spt_buf_puts(out, "\n");
}

static void add_header(spt_buf *out, const spt_template *t, const spt_kernel *k)
{
    spt_buf_printf(out, "/*\n * %s\n * %s\n *\n", k->symbol, t->title);
    header_line(out, "kernel", t->name);
    header_line(out, "config", *k->config ? k->config : "none");
    header_line(out, "key", k->key);
    header_line(out, "target", k->target);
    spt_buf_printf(out, " * %-9s%d threads, %d bytes of shared memory\n",
                   "launch", k->threads, k->shared_bytes);
    header_line(out, "by", "spectune " SPT_VERSION);
    spt_buf_puts(out, " */\n");
}

static void check_symbol(lua_State *L, const spt_template *t,
                         const char *symbol)
{
    size_t n = strspn(symbol, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (symbol[n] || (*symbol >= '0' && *symbol <= '9'))
        spt_template_fail(L, t, "symbol", NULL,
                          "symbol: '%s' is not an identifier", symbol);
}

static void add_body(lua_State *L, job *j, const spt_template *t, int p, int b,
                     const spt_config *full)
{
    spt_kernel *k = &j->kernel;
    size_t size;
    const char *text = spt_lua_text(L, t->file, &size);
    spt_emit_seen(&j->e, t->file, text, size);
    spt_lua_hash_uses(L, t->file, spt_emit_seen, &j->e);
    add_header(&j->e.out, t, k);
    push_body_values(L, t, p, b, full, k);
    spt_lua_refill(L);
    spt_emit_body(L, &j->e, t->body, lua_gettop(L));
    if (j->e.out.failed || j->e.seen.failed)
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", t->name);
    if (j->e.out.size > MAX_SOURCE)
        spt_lua_raise(L, SPT_E_FORMAT, "%s: emits more than %d bytes", t->body,
                      (int)MAX_SOURCE);
    spt_sha256(j->e.seen.data, j->e.seen.size, k->template_hash);
}

static int emit_run(lua_State *L)
{
    job *j = lua_touserdata(L, 1);
    spt_kernel *k = &j->kernel;
    spt_config full;
    const spt_template *t = spt_template_find(L, &j->gen->templates, j->name);
    complete(L, t, j->given, &full);
    snprintf(k->template_name, sizeof k->template_name, "%s", t->name);
    snprintf(k->target, sizeof k->target, "%s", j->board->target);
    spt_config_text(&full, k->config, sizeof k->config);
    spt_template_push_values(L, &full);
    spt_lua_push_board(L, j->board);
    int b = lua_gettop(L), p = b - 1;
    spt_lua_refill(L);
    const char *broken = spt_template_broken(L, t, p, b);
    if (broken)
        spt_lua_raise(L, SPT_E_USAGE, "%s %s on %s breaks \"%s\"", t->name,
                      k->config, j->board->name, broken);
    read_launch(L, t, j, p, b, k);
    read_text(L, t, "key", p, b, k->key, sizeof k->key);
    read_text(L, t, "symbol", p, b, k->symbol, sizeof k->symbol);
    check_symbol(L, t, k->symbol);
    if (!j->describe)
        add_body(L, j, t, p, b, &full);
    return 0;
}

spt_status spt_gen_describe(spt_gen *gen, const char *template_name,
                            const spt_config *config, const spt_board *board,
                            spt_kernel *kernel, spt_error *err)
{
    job j = {.gen = gen,
             .name = template_name,
             .given = config,
             .board = board,
             .describe = true};
    SPT_TRY(spt_lua_run(gen->lua, emit_run, &j, err));
    *kernel = j.kernel;
    return SPT_OK;
}

spt_status spt_gen_emit(spt_gen *gen, const char *template_name,
                        const spt_config *config, const spt_board *board,
                        spt_kernel *kernel, spt_error *err)
{
    job j = {
        .gen = gen, .name = template_name, .given = config, .board = board};
    spt_status status = spt_lua_run(gen->lua, emit_run, &j, err);
    if (status == SPT_OK) {
        j.kernel.source = j.e.out.data;
        j.kernel.source_size = j.e.out.size;
        j.e.out = (spt_buf){0};
        *kernel = j.kernel;
    }
    spt_emitter_free(&j.e);
    return status;
}

void spt_kernel_free(spt_kernel *kernel)
{
    if (!kernel)
        return;
    spt_free(kernel->source);
    *kernel = (spt_kernel){0};
}

static void keep_config(lua_State *L, job *j, const spt_config *full)
{
    if (!spt_grow(&j->configs, &j->capacity, j->count + 1, sizeof *j->configs))
        spt_lua_raise(L, SPT_E_MEMORY, "%s: out of memory", j->name);
    j->configs[j->count++] = *full;
}

/* Fields that run over their values, as indices into the descriptor's. */
typedef struct open_fields {
    int fields[SPT_CONFIG_MAX];
    int at[SPT_CONFIG_MAX];
    int count;
} open_fields;

/* Fills what is given or has a default; collects what is open. */
static void fix_fields(lua_State *L, const spt_template *t,
                       const spt_config *given, spt_config *full,
                       open_fields *open)
{
    size_t candidates = 1;
    missing_fields missing = {.count = 0};
    spt_template_check_names(L, t, given);
    for (int i = 0; i < t->n_fields; i++) {
        const spt_field *f = &t->fields[i];
        const spt_value *v = spt_field_take(L, t, f, given);
        if (v || (!f->is_param && f->has_default)) {
            full->values[i] = v ? *v : f->fallback;
        } else if (f->is_param && (f->n_values || f->type == SPT_VALUE_BOOL)) {
            open->fields[open->count++] = i;
            candidates *= (size_t)(f->n_values ? f->n_values : 2);
        } else if (f->is_param && f->has_default) {
            full->values[i] = f->fallback;
        } else {
            missing.fields[missing.count++] = f;
        }
        if (candidates > MAX_CANDIDATES)
            spt_lua_raise(L, SPT_E_USAGE,
                          "%s: more than %d configs, give more parameters",
                          t->name, (int)MAX_CANDIDATES);
    }
    refuse_missing(L, t, &missing);
    full->count = t->n_fields;
}

static void take_value(const spt_field *f, int index, spt_value *value)
{
    if (f->n_values) {
        *value = f->values[index];
        return;
    }
    *value = (spt_value){.type = SPT_VALUE_BOOL, .integer = index};
    memcpy(value->name, f->name, sizeof value->name);
}

/* Steps to the next candidate, the last field fastest; false at the end. */
static bool advance(const spt_template *t, open_fields *open)
{
    for (int i = open->count - 1; i >= 0; i--) {
        const spt_field *f = &t->fields[open->fields[i]];
        if (++open->at[i] < (f->n_values ? f->n_values : 2))
            return true;
        open->at[i] = 0;
    }
    return false;
}

static int space_run(lua_State *L)
{
    job *j = lua_touserdata(L, 1);
    const spt_template *t = spt_template_find(L, &j->gen->templates, j->name);
    spt_config full = {0};
    open_fields open = {0};
    const char *broken = NULL;
    fix_fields(L, t, j->given, &full, &open);
    spt_lua_push_board(L, j->board);
    int b = lua_gettop(L);
    do {
        for (int i = 0; i < open.count; i++)
            take_value(&t->fields[open.fields[i]], open.at[i],
                       &full.values[open.fields[i]]);
        spt_template_push_values(L, &full);
        spt_lua_refill(L);
        const char *text = spt_template_broken(L, t, b + 1, b);
        if (!text)
            keep_config(L, j, &full);
        broken = text ? text : broken;
        lua_settop(L, b);
    } while (advance(t, &open));
    if (!j->count)
        spt_lua_raise(L, SPT_E_UNSUPPORTED,
                      "%s: no config fits %s, the last one breaks \"%s\"",
                      t->name, j->board->name, broken);
    return 0;
}

spt_status spt_gen_space(spt_gen *gen, const char *template_name,
                         const spt_config *problem, const spt_board *board,
                         spt_config **configs, size_t *count, spt_error *err)
{
    job j = {
        .gen = gen, .name = template_name, .given = problem, .board = board};
    spt_status status = spt_lua_run(gen->lua, space_run, &j, err);
    if (status != SPT_OK) {
        spt_free(j.configs);
        return status;
    }
    *configs = j.configs;
    *count = j.count;
    return SPT_OK;
}
