/* A board as the Lua table that templates see as b. */
#include <lauxlib.h>

#include "lua_host.h"

static void push_matrix(lua_State *L, const spt_board *board)
{
    lua_newtable(L);
    for (int i = 0; i < board->matrix_count && i < SPT_MATRIX_MAX; i++) {
        const spt_matrix *m = &board->matrix[i];
        lua_newtable(L);
        lua_pushstring(L, m->instruction);
        lua_setfield(L, -2, "instruction");
        lua_pushstring(L, m->shape);
        lua_setfield(L, -2, "shape");
        lua_pushinteger(L, m->row_step);
        lua_setfield(L, -2, "row_step");
        lua_pushinteger(L, m->max_rows);
        lua_setfield(L, -2, "max_rows");
        lua_pushnumber(L, m->fraction);
        lua_setfield(L, -2, "fraction");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "matrix");
}

static void set_INT(lua_State *L, const char *name, double value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

static void set_NUMBER(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

void spt_lua_push_board(lua_State *L, const spt_board *board)
{
    const struct {
        const char *name, *text;
    } texts[] = {
        {"name", board->name},
        {"title", board->title},
        {"arch", board->arch},
        {"target", board->target},
    };
    lua_newtable(L);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lua_pushstring(L, texts[i].text);
        lua_setfield(L, -2, texts[i].name);
    }
#define SPT_FACT(place, field, kind, ...) set_##kind(L, #field, board->field);
#include "facts.def"
#undef SPT_FACT
    push_matrix(L, board);
}
