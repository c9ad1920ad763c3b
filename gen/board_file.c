#include "board_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "gen_int.h"

enum { INT = true, NUMBER = false };

const spt_fact_row spt_fact_rows[SPT_FACT_ROWS] = {
#define SPT_FACT(place, field, kind, unit, min, max, meaning)  \
    {SPT_OF_##place, kind, #field, offsetof(spt_board, field), \
     unit,           min,  max,    meaning},
#include "facts.def"
#undef SPT_FACT
};

/* Fields that are plain texts or tables, by place. */
static const char *const other_fields[2][6] = {
    [SPT_OF_ARCH] = {"kind", "title", "target", "default_board", "matrix",
                     NULL},
    [SPT_OF_BOARD] = {"kind", "title", "arch", NULL},
};

int spt_board_bad(const spt_board_reader *r, const char *field, const char *sub,
                  const char *what)
{
    const char *keys[] = {field, sub};
    int line = field ? spt_lua_line(r->text, r->size, keys, sub ? 2 : 1) : 1;
    return spt_lua_raise(r->L, SPT_E_FORMAT, "%s:%d: %s%s%s: %s", r->file, line,
                         field ? field : "file", sub ? "." : "", sub ? sub : "",
                         what);
}

static char *keep(const spt_board_reader *r, const char *text)
{
    char *copy = spt_arena_strdup(r->arena, text, strlen(text));
    if (!copy)
        spt_lua_raise(r->L, SPT_E_MEMORY, "%s: out of memory", r->file);
    return copy;
}

/* Copies the text field at the table on top into out. */
static void read_text(const spt_board_reader *r, const char *group,
                      const char *field, char *out, size_t size)
{
    lua_State *L = r->L;
    const char *at = group ? group : field, *sub = group ? field : NULL;
    if (lua_getfield(L, -1, field) != LUA_TSTRING)
        spt_board_bad(r, at, sub, "expected a text");
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (length == 0 || length >= size || strlen(text) != length)
        spt_board_bad(r, at, sub,
                      lua_pushfstring(L,
                                      "expected a text of 1 to %d characters",
                                      (int)size - 1));
    memcpy(out, text, length + 1);
    lua_pop(L, 1);
}

static double read_plain(const spt_board_reader *r, const char *group,
                         const char *field, double min, double max, bool whole)
{
    lua_State *L = r->L;
    if (lua_getfield(L, -1, field) != LUA_TNUMBER)
        spt_board_bad(r, group, field, "expected a number");
    double value = lua_tonumber(L, -1);
    if (!(value >= min && value <= max) || (whole && value != floor(value)))
        spt_board_bad(
            r, group, field,
            lua_pushfstring(L, "%f is absurd, expected %s%f to %f", value,
                            whole ? "a whole number from " : "", min, max));
    lua_pop(L, 1);
    return value;
}

/* The figure {value, "unit", "source"} that is the top of the stack. */
static double read_figure(const spt_board_reader *r, const spt_fact_row *row,
                          char **source)
{
    lua_State *L = r->L;
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 3)
        spt_board_bad(r, row->field, NULL,
                      lua_pushfstring(L, "expected {value, \"%s\", \"source\"}",
                                      row->unit));
    int n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        n++;
    if (n != 3)
        spt_board_bad(r, row->field, NULL, "more than value, unit and source");
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    lua_rawgeti(L, -3, 3);
    if (lua_type(L, -3) != LUA_TNUMBER)
        spt_board_bad(r, row->field, NULL, "expected a number as value");
    if (lua_type(L, -2) != LUA_TSTRING ||
        strcmp(lua_tostring(L, -2), row->unit) != 0)
        spt_board_bad(
            r, row->field, NULL,
            lua_pushfstring(L, "expected the unit \"%s\"", row->unit));
    size_t length = 0;
    const char *text =
        lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : "";
    if (length < 3 || length > 200 || strchr(text, '\n'))
        spt_board_bad(r, row->field, NULL,
                      "expected a source of 3 to 200 characters");
    double value = lua_tonumber(L, -3);
    if (!(value >= row->min && value <= row->max))
        spt_board_bad(r, row->field, NULL,
                      lua_pushfstring(L, "%f %s is absurd, expected %f to %f",
                                      value, row->unit, row->min, row->max));
    if (row->whole && value != floor(value))
        spt_board_bad(r, row->field, NULL, "expected a whole number");
    *source = keep(r, text);
    lua_pop(L, 3);
    return value;
}

static void read_facts(const spt_board_reader *r)
{
    for (size_t i = 0; i < SPT_FACT_ROWS; i++) {
        const spt_fact_row *row = &spt_fact_rows[i];
        if (row->place != r->into->place)
            continue;
        if (lua_getfield(r->L, -1, row->field) == LUA_TNIL)
            spt_board_bad(r, NULL, NULL,
                          lua_pushfstring(r->L,
                                          "field %s is missing (%s, in %s)",
                                          row->field, row->meaning, row->unit));
        double value = read_figure(r, row, &r->into->sources[i]);
        char *member = (char *)&r->into->board + row->offset;
        if (row->whole)
            *(int *)(void *)member = (int)value;
        else
            *(double *)(void *)member = value;
        lua_pop(r->L, 1);
    }
}

static bool known_field(spt_place place, const char *name)
{
    for (const char *const *f = other_fields[place]; *f; f++)
        if (strcmp(*f, name) == 0)
            return true;
    for (size_t i = 0; i < SPT_FACT_ROWS; i++)
        if (spt_fact_rows[i].place == place &&
            strcmp(spt_fact_rows[i].field, name) == 0)
            return true;
    return false;
}

/* Refuses unknown fields; of several, names the one that sorts first. */
static void check_fields(const spt_board_reader *r)
{
    lua_State *L = r->L;
    char first[64] = "";
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            spt_board_bad(r, NULL, NULL, "expected named fields only");
        const char *name = lua_tostring(L, -2);
        if (known_field(r->into->place, name))
            continue;
        if (!*first || strcmp(name, first) < 0) {
            strncpy(first, name, sizeof first - 1);
            if (!*first)
                spt_board_bad(r, NULL, NULL, "field without a name");
        }
    }
    if (*first)
        spt_board_bad(r, first, NULL,
                      r->into->place == SPT_OF_ARCH
                          ? "unknown field of an architecture"
                          : "unknown field of a board");
}

/* One row of matrix = { {instruction =, shape =, ...}, ... } on top. */
static void read_matrix_row(const spt_board_reader *r, int index)
{
    static const char *const fields[] = {"instruction", "shape",    "row_step",
                                         "max_rows",    "fraction", "source"};
    lua_State *L = r->L;
    spt_matrix *m = &r->into->board.matrix[index];
    if (!lua_istable(L, -1))
        spt_board_bad(r, "matrix", NULL, "expected a table in each row");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        bool found = false;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            found |= strcmp(fields[i], name) == 0;
        if (!found)
            spt_board_bad(r, "matrix", name,
                          "unknown field of a matrix instruction");
    }
    char source[201];
    read_text(r, "matrix", "instruction", m->instruction,
              sizeof m->instruction);
    read_text(r, "matrix", "shape", m->shape, sizeof m->shape);
    read_text(r, "matrix", "source", source, sizeof source);
    m->row_step = (int)read_plain(r, "matrix", "row_step", 1, 256, true);
    m->max_rows = (int)read_plain(r, "matrix", "max_rows", 1, 1024, true);
    m->fraction = read_plain(r, "matrix", "fraction", 0.01, 1, false);
    if (m->max_rows % m->row_step)
        spt_board_bad(r, "matrix", "max_rows",
                      "expected a multiple of row_step");
    r->into->matrix_sources[index] = keep(r, source);
}

static void read_matrix(const spt_board_reader *r)
{
    lua_State *L = r->L;
    if (lua_getfield(L, -1, "matrix") != LUA_TTABLE)
        spt_board_bad(r, "matrix", NULL,
                      "expected a list of matrix instructions");
    size_t count = lua_rawlen(L, -1);
    if (count < 1 || count > SPT_MATRIX_MAX)
        spt_board_bad(
            r, "matrix", NULL,
            lua_pushfstring(L, "expected 1 to %d rows", SPT_MATRIX_MAX));
    r->into->board.matrix_count = (int)count;
    for (int i = 0; i < (int)count; i++) {
        lua_rawgeti(L, -1, i + 1);
        read_matrix_row(r, i);
        lua_pop(L, 1);
    }
    if (strcmp(r->into->board.matrix[0].instruction, "mma.sync") != 0)
        spt_board_bad(r, "matrix", NULL, "expected mma.sync first");
    lua_pop(L, 1);
}

/* Facts that contradict each other within an architecture. */
static void check_arch(const spt_board_reader *r)
{
    const spt_board *b = &r->into->board;
    char target[16];
    snprintf(target, sizeof target, "sm_%d%d", b->cc_major, b->cc_minor);
    size_t length = strlen(target);
    if (strncmp(b->target, target, length) != 0 ||
        (b->target[length] && strcmp(b->target + length, "a") != 0))
        spt_board_bad(
            r, "target", NULL,
            lua_pushfstring(r->L, "expected %s or %sa", target, target));
    if (b->max_threads_per_sm != 32 * b->max_warps_per_sm)
        spt_board_bad(r, "max_threads_per_sm", NULL, "expected 32 per warp");
    if (b->shared_per_cta_bytes + b->shared_reserved_bytes >
        b->shared_per_sm_bytes)
        spt_board_bad(r, "shared_per_cta_bytes", NULL, "more than an SM has");
}

/* The same within a board: rates that no chip combines. */
static void check_board(const spt_board_reader *r)
{
    const spt_board *b = &r->into->board;
    double flop = b->bf16_tflops * 1e6 / (b->sm_count * b->clock_mhz);
    if (flop < 128 || flop > 65536)
        spt_board_bad(
            r, "bf16_tflops", NULL,
            lua_pushfstring(r->L,
                            "%f FLOP per SM and clock is absurd, expected 128 "
                            "to 65536",
                            flop));
    if (b->l2_gbps < b->dram_gbps * b->dram_efficiency)
        spt_board_bad(r, "l2_gbps", NULL, "expected more than DRAM gives");
    if (b->l2_bytes > b->memory_bytes)
        spt_board_bad(r, "l2_bytes", NULL, "expected less than memory_bytes");
    if (b->l2_latency_ns > b->dram_latency_ns)
        spt_board_bad(r, "l2_latency_ns", NULL,
                      "expected less than dram_latency_ns");
}

static void read_file(spt_board_reader *r)
{
    char kind[16];
    spt_board *b = &r->into->board;
    read_text(r, NULL, "kind", kind, sizeof kind);
    if (strcmp(kind, "arch") == 0)
        r->into->place = SPT_OF_ARCH;
    else if (strcmp(kind, "board") == 0)
        r->into->place = SPT_OF_BOARD;
    else
        spt_board_bad(r, "kind", NULL, "expected \"arch\" or \"board\"");
    check_fields(r);
    read_text(r, NULL, "title", b->title, sizeof b->title);
    if (r->into->place == SPT_OF_ARCH) {
        read_text(r, NULL, "target", b->target, sizeof b->target);
        read_text(r, NULL, "default_board", r->into->default_board,
                  sizeof r->into->default_board);
        read_matrix(r);
    } else {
        read_text(r, NULL, "arch", b->arch, sizeof b->arch);
    }
    read_facts(r);
    if (r->into->place == SPT_OF_ARCH)
        check_arch(r);
    else
        check_board(r);
}

/* The name of a file becomes the board's: letters, digits, underscores. */
static void set_name(spt_board_reader *r, const char *name)
{
    spt_board_file *e = r->into;
    size_t length = strlen(name);
    if (length == 0 || length >= sizeof e->board.name ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        spt_board_bad(
            r, NULL, NULL,
            "the file's name becomes the board's: expected 1 to 31 of a-z 0-9 "
            "_ before .lua");
    e->name = keep(r, name);
    memcpy(e->board.name, name, length + 1);
    if (e->place == SPT_OF_ARCH) {
        if (length >= sizeof e->board.arch)
            spt_board_bad(r, NULL, NULL, "name too long for an architecture");
        memcpy(e->board.arch, name, length + 1);
    }
}

void spt_board_read(spt_board_reader *r, const char *name)
{
    r->text = spt_lua_text(r->L, r->file, &r->size);
    lua_insert(r->L, -2);
    read_file(r);
    set_name(r, name);
}
