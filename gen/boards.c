/*
 * Boards from archs/: reads the Lua data files, checks every field against
 * facts.def and joins a board with its architecture.
 *
 * A file is checked whole before anything of it is used: unknown or missing
 * fields, wrong units, missing sources and figures outside their bounds are
 * errors with file:line. All files are read at the first call.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "board_built_in.h"
#include "boards.h"
#include "calibration.h"
#include "files.h"
#include "gen_int.h"

enum place { ARCH, BOARD };
enum kind { INT, NUMBER };

static const struct fact_row {
    enum place place;
    enum kind kind;
    const char *field;
    size_t offset;
    const char *unit;
    double min, max;
    const char *meaning;
} fact_rows[] = {
#define SPT_FACT(place, field, kind, unit, min, max, meaning) \
    {place, kind, #field, offsetof(spt_board, field), unit, min, max, meaning},
#include "facts.def"
#undef SPT_FACT
};
enum { FACT_ROWS = sizeof fact_rows / sizeof *fact_rows };
_Static_assert((int)FACT_ROWS <= (int)SPT_FACT_MAX, "facts fit");

/* Fields that are plain texts or tables, by place. */
static const char *const other_fields[2][6] = {
    [ARCH] = {"kind", "title", "target", "default_board", "matrix", NULL},
    [BOARD] = {"kind", "title", "arch", NULL},
};

/* One file: the record holds what the file says, the rest is zero. */
typedef struct entry {
    char *name;
    enum place place;
    char default_board[32]; /* ARCH */
    spt_board board;
    char *sources[FACT_ROWS];
    char *matrix_sources[SPT_MATRIX_MAX];
} entry;

struct spt_boards {
    spt_arena arena;
    entry *entries; /* sorted by name */
    size_t count;
    size_t n_boards;
    const char **board_names, **arch_names;
    size_t n_archs;
    const entry *user; /* the last board read by spt_gen_board_file */
    spt_calibration calibration;
};

typedef struct reader {
    lua_State *L;
    struct spt_boards *boards;
    const char *file; /* name in errors */
    const char *text;
    size_t size;
    entry *into;
} reader;

/* Fails at the line of field (and of sub below it, when not NULL). */
static int bad(const reader *r, const char *field, const char *sub,
               const char *what)
{
    const char *keys[] = {field, sub};
    int line = field ? spt_lua_line(r->text, r->size, keys, sub ? 2 : 1) : 1;
    return spt_lua_raise(r->L, SPT_E_FORMAT, "%s:%d: %s%s%s: %s", r->file, line,
                         field ? field : "file", sub ? "." : "", sub ? sub : "",
                         what);
}

static char *keep(const reader *r, const char *text)
{
    char *copy = spt_arena_strdup(&r->boards->arena, text, strlen(text));
    if (!copy)
        spt_lua_raise(r->L, SPT_E_MEMORY, "%s: out of memory", r->file);
    return copy;
}

/* Copies the text field at the table on top into out. */
static void read_text(const reader *r, const char *group, const char *field,
                      char *out, size_t size)
{
    lua_State *L = r->L;
    const char *at = group ? group : field, *sub = group ? field : NULL;
    if (lua_getfield(L, -1, field) != LUA_TSTRING)
        bad(r, at, sub, "expected a text");
    size_t length;
    const char *text = lua_tolstring(L, -1, &length);
    if (length == 0 || length >= size || strlen(text) != length)
        bad(r, at, sub,
            lua_pushfstring(L, "expected a text of 1 to %d characters",
                            (int)size - 1));
    memcpy(out, text, length + 1);
    lua_pop(L, 1);
}

static double read_plain(const reader *r, const char *group, const char *field,
                         double min, double max, bool whole)
{
    lua_State *L = r->L;
    if (lua_getfield(L, -1, field) != LUA_TNUMBER)
        bad(r, group, field, "expected a number");
    double value = lua_tonumber(L, -1);
    if (!(value >= min && value <= max) || (whole && value != floor(value)))
        bad(r, group, field,
            lua_pushfstring(L, "%f is absurd, expected %s%f to %f", value,
                            whole ? "a whole number from " : "", min, max));
    lua_pop(L, 1);
    return value;
}

/* The figure {value, "unit", "source"} that is the top of the stack. */
static double read_figure(const reader *r, const struct fact_row *row,
                          char **source)
{
    lua_State *L = r->L;
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 3)
        bad(r, row->field, NULL,
            lua_pushfstring(L, "expected {value, \"%s\", \"source\"}",
                            row->unit));
    int n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        n++;
    if (n != 3)
        bad(r, row->field, NULL, "more than value, unit and source");
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    lua_rawgeti(L, -3, 3);
    if (lua_type(L, -3) != LUA_TNUMBER)
        bad(r, row->field, NULL, "expected a number as value");
    if (lua_type(L, -2) != LUA_TSTRING ||
        strcmp(lua_tostring(L, -2), row->unit) != 0)
        bad(r, row->field, NULL,
            lua_pushfstring(L, "expected the unit \"%s\"", row->unit));
    size_t length = 0;
    const char *text =
        lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : "";
    if (length < 3 || length > 200 || strchr(text, '\n'))
        bad(r, row->field, NULL, "expected a source of 3 to 200 characters");
    double value = lua_tonumber(L, -3);
    if (!(value >= row->min && value <= row->max))
        bad(r, row->field, NULL,
            lua_pushfstring(L, "%f %s is absurd, expected %f to %f", value,
                            row->unit, row->min, row->max));
    if (row->kind == INT && value != floor(value))
        bad(r, row->field, NULL, "expected a whole number");
    *source = keep(r, text);
    lua_pop(L, 3);
    return value;
}

static void read_facts(const reader *r)
{
    for (size_t i = 0; i < FACT_ROWS; i++) {
        const struct fact_row *row = &fact_rows[i];
        if (row->place != r->into->place)
            continue;
        if (lua_getfield(r->L, -1, row->field) == LUA_TNIL)
            bad(r, NULL, NULL,
                lua_pushfstring(r->L, "field %s is missing (%s, in %s)",
                                row->field, row->meaning, row->unit));
        double value = read_figure(r, row, &r->into->sources[i]);
        char *member = (char *)&r->into->board + row->offset;
        if (row->kind == INT)
            *(int *)(void *)member = (int)value;
        else
            *(double *)(void *)member = value;
        lua_pop(r->L, 1);
    }
}

static bool known_field(enum place place, const char *name)
{
    for (const char *const *f = other_fields[place]; *f; f++)
        if (strcmp(*f, name) == 0)
            return true;
    for (size_t i = 0; i < FACT_ROWS; i++)
        if (fact_rows[i].place == place &&
            strcmp(fact_rows[i].field, name) == 0)
            return true;
    return false;
}

/* Refuses unknown fields; of several, names the one that sorts first. */
static void check_fields(const reader *r)
{
    lua_State *L = r->L;
    char first[64] = "";
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            bad(r, NULL, NULL, "expected named fields only");
        const char *name = lua_tostring(L, -2);
        if (known_field(r->into->place, name))
            continue;
        if (!*first || strcmp(name, first) < 0) {
            strncpy(first, name, sizeof first - 1);
            if (!*first)
                bad(r, NULL, NULL, "field without a name");
        }
    }
    if (*first)
        bad(r, first, NULL,
            r->into->place == ARCH ? "unknown field of an architecture"
                                   : "unknown field of a board");
}

/* One row of matrix = { {instruction =, shape =, ...}, ... } on top. */
static void read_matrix_row(const reader *r, int index)
{
    static const char *const fields[] = {"instruction", "shape",    "row_step",
                                         "max_rows",    "fraction", "source"};
    lua_State *L = r->L;
    spt_matrix *m = &r->into->board.matrix[index];
    if (!lua_istable(L, -1))
        bad(r, "matrix", NULL, "expected a table in each row");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name =
            lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        bool found = false;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            found |= strcmp(fields[i], name) == 0;
        if (!found)
            bad(r, "matrix", name, "unknown field of a matrix instruction");
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
        bad(r, "matrix", "max_rows", "expected a multiple of row_step");
    r->into->matrix_sources[index] = keep(r, source);
}

static void read_matrix(const reader *r)
{
    lua_State *L = r->L;
    if (lua_getfield(L, -1, "matrix") != LUA_TTABLE)
        bad(r, "matrix", NULL, "expected a list of matrix instructions");
    size_t count = lua_rawlen(L, -1);
    if (count < 1 || count > SPT_MATRIX_MAX)
        bad(r, "matrix", NULL,
            lua_pushfstring(L, "expected 1 to %d rows", SPT_MATRIX_MAX));
    r->into->board.matrix_count = (int)count;
    for (int i = 0; i < (int)count; i++) {
        lua_rawgeti(L, -1, i + 1);
        read_matrix_row(r, i);
        lua_pop(L, 1);
    }
    if (strcmp(r->into->board.matrix[0].instruction, "mma.sync") != 0)
        bad(r, "matrix", NULL, "expected mma.sync first");
    lua_pop(L, 1);
}

/* Facts that contradict each other within an architecture. */
static void check_arch(const reader *r)
{
    const spt_board *b = &r->into->board;
    char target[16];
    snprintf(target, sizeof target, "sm_%d%d", b->cc_major, b->cc_minor);
    size_t length = strlen(target);
    if (strncmp(b->target, target, length) != 0 ||
        (b->target[length] && strcmp(b->target + length, "a") != 0))
        bad(r, "target", NULL,
            lua_pushfstring(r->L, "expected %s or %sa", target, target));
    if (b->max_threads_per_sm != 32 * b->max_warps_per_sm)
        bad(r, "max_threads_per_sm", NULL, "expected 32 per warp");
    if (b->shared_per_cta_bytes + b->shared_reserved_bytes >
        b->shared_per_sm_bytes)
        bad(r, "shared_per_cta_bytes", NULL, "more than an SM has");
}

/* The same within a board: rates that no chip combines. */
static void check_board(const reader *r)
{
    const spt_board *b = &r->into->board;
    double flop = b->bf16_tflops * 1e6 / (b->sm_count * b->clock_mhz);
    if (flop < 128 || flop > 65536)
        bad(r, "bf16_tflops", NULL,
            lua_pushfstring(r->L,
                            "%f FLOP per SM and clock is absurd, expected 128 "
                            "to 65536",
                            flop));
    if (b->l2_gbps < b->dram_gbps * b->dram_efficiency)
        bad(r, "l2_gbps", NULL, "expected more than DRAM gives");
    if (b->l2_bytes > b->memory_bytes)
        bad(r, "l2_bytes", NULL, "expected less than memory_bytes");
    if (b->l2_latency_ns > b->dram_latency_ns)
        bad(r, "l2_latency_ns", NULL, "expected less than dram_latency_ns");
}

/* Reads the file whose table is the top of the stack into r->into. */
static void read_file(reader *r)
{
    char kind[16];
    spt_board *b = &r->into->board;
    read_text(r, NULL, "kind", kind, sizeof kind);
    if (strcmp(kind, "arch") == 0)
        r->into->place = ARCH;
    else if (strcmp(kind, "board") == 0)
        r->into->place = BOARD;
    else
        bad(r, "kind", NULL, "expected \"arch\" or \"board\"");
    check_fields(r);
    read_text(r, NULL, "title", b->title, sizeof b->title);
    if (r->into->place == ARCH) {
        read_text(r, NULL, "target", b->target, sizeof b->target);
        read_text(r, NULL, "default_board", r->into->default_board,
                  sizeof r->into->default_board);
        read_matrix(r);
    } else {
        read_text(r, NULL, "arch", b->arch, sizeof b->arch);
    }
    read_facts(r);
    if (r->into->place == ARCH)
        check_arch(r);
    else
        check_board(r);
}

/* The name of a file becomes the board's: letters, digits, underscores. */
static void set_name(reader *r, const char *name)
{
    entry *e = r->into;
    size_t length = strlen(name);
    if (length == 0 || length >= sizeof e->board.name ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        bad(r, NULL, NULL,
            "the file's name becomes the board's: expected 1 to 31 of a-z 0-9 "
            "_ before .lua");
    e->name = keep(r, name);
    memcpy(e->board.name, name, length + 1);
    if (e->place == ARCH) {
        if (length >= sizeof e->board.arch)
            bad(r, NULL, NULL, "name too long for an architecture");
        memcpy(e->board.arch, name, length + 1);
    }
}

static const entry *find(const struct spt_boards *boards, enum place place,
                         const char *name)
{
    for (size_t i = 0; i < boards->count; i++)
        if (boards->entries[i].place == place &&
            strcmp(boards->entries[i].name, name) == 0)
            return &boards->entries[i];
    return NULL;
}

typedef struct load_all {
    struct spt_boards *boards;
    const char *names;
} load_all;

static int load_files(lua_State *L)
{
    load_all *job = lua_touserdata(L, 1);
    const char *name = job->names;
    for (size_t i = 0; i < job->boards->count; i++) {
        lua_settop(L, 1);
        luaL_checkstack(L, 40, NULL);
        const char *file = lua_pushfstring(L, "archs/%s.lua", name);
        reader r = {L, job->boards, file, NULL, 0, &job->boards->entries[i]};
        spt_lua_load(L, file);
        r.text = spt_lua_text(L, file, &r.size);
        lua_insert(L, -2);
        read_file(&r);
        set_name(&r, name);
        name += strlen(name) + 1;
    }
    return 0;
}

/* Every board names an architecture, every architecture a board of its. */
static spt_status check_links(const struct spt_boards *boards, spt_error *err)
{
    for (size_t i = 0; i < boards->count; i++) {
        const entry *e = &boards->entries[i];
        if (e->place == BOARD && !find(boards, ARCH, e->board.arch))
            return spt_fail(err, SPT_E_FORMAT,
                            "archs/%s.lua: arch: there is no archs/%s.lua",
                            e->name, e->board.arch);
        if (e->place == BOARD)
            continue;
        const entry *d = find(boards, BOARD, e->default_board);
        if (!d || strcmp(d->board.arch, e->name) != 0)
            return spt_fail(err, SPT_E_FORMAT,
                            "archs/%s.lua: default_board: %s is no board of "
                            "this architecture",
                            e->name, e->default_board);
    }
    return SPT_OK;
}

static spt_status index_names(struct spt_boards *b, spt_error *err)
{
    b->board_names = spt_arena_alloc(&b->arena, b->count + 1, sizeof(char *));
    b->arch_names = spt_arena_alloc(&b->arena, b->count + 1, sizeof(char *));
    if (!b->board_names || !b->arch_names)
        return spt_fail(err, SPT_E_MEMORY, "archs: out of memory");
    for (size_t i = 0; i < b->count; i++) {
        if (b->entries[i].place == ARCH)
            b->arch_names[b->n_archs++] = b->entries[i].name;
        else
            b->board_names[b->n_boards++] = b->entries[i].name;
    }
    return SPT_OK;
}

/* What was fitted to measured times; without the file what fits start from. */
static spt_status load_calibration(spt_gen *gen, struct spt_boards *boards,
                                   spt_error *err)
{
    char *path =
        spt_path_join(spt_lua_root(gen->lua), "profiles/calibration.json");
    spt_status status =
        path ? SPT_OK : spt_fail(err, SPT_E_MEMORY, "archs: out of memory");
    if (path && spt_file_exists(path))
        status = spt_calibration_read(path, &boards->calibration, err);
    spt_free(path);
    return status;
}

static spt_status load(spt_gen *gen, spt_error *err)
{
    if (gen->boards)
        return SPT_OK;
    char *names = NULL;
    size_t count = 0;
    SPT_TRY(spt_lua_list(gen->lua, "archs", "lua", &names, &count, err));
    struct spt_boards *boards = spt_calloc(1, sizeof *boards);
    spt_status status = SPT_E_MEMORY;
    if (boards)
        boards->entries =
            spt_arena_alloc(&boards->arena, count + 1, sizeof(entry));
    if (!boards || !boards->entries) {
        spt_fail(err, status, "archs: out of memory");
        goto done;
    }
    boards->count = count;
    load_all job = {boards, names};
    status = count ? spt_lua_run(gen->lua, load_files, &job, err)
                   : spt_fail(err, SPT_E_NOT_FOUND, "%s/archs: no boards",
                              spt_lua_root(gen->lua));
    if (status == SPT_OK)
        status = check_links(boards, err);
    if (status == SPT_OK)
        status = index_names(boards, err);
    if (status == SPT_OK)
        status = load_calibration(gen, boards, err);
    if (status == SPT_OK) {
        gen->boards = boards;
        boards = NULL;
    }
done:
    spt_boards_free(boards);
    spt_free(names);
    return status;
}

void spt_boards_free(struct spt_boards *boards)
{
    if (!boards)
        return;
    spt_arena_free(&boards->arena);
    spt_free(boards);
}

/* Adds the architecture's facts to a board's own. */
static void join(const entry *arch, spt_board *board)
{
    for (size_t i = 0; i < FACT_ROWS; i++) {
        const struct fact_row *row = &fact_rows[i];
        if (row->place != ARCH)
            continue;
        memcpy((char *)board + row->offset,
               (const char *)&arch->board + row->offset,
               row->kind == INT ? sizeof(int) : sizeof(double));
    }
    memcpy(board->target, arch->board.target, sizeof board->target);
    board->matrix_count = arch->board.matrix_count;
    memcpy(board->matrix, arch->board.matrix, sizeof board->matrix);
}

static void complete(const struct spt_boards *boards, const entry *e,
                     spt_board *board)
{
    *board = e->board;
    join(find(boards, ARCH, e->board.arch), board);
    spt_time_constants_start(&board->time);
    spt_calibrate(board, &boards->calibration);
}

/* "no NAME, expected one of ..." with all names. */
static spt_status unknown(const char *what, const char *name,
                          const char **names, size_t count, spt_error *err)
{
    char list[640];
    size_t used = 0;
    list[0] = 0;
    for (size_t i = 0; i < count && used < sizeof list - 40; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i ? " " : "", names[i]);
    return spt_fail(err, SPT_E_USAGE,
                    "%s '%.40s': unknown, expected one of: %s", what, name,
                    list);
}

size_t spt_gen_board_count(spt_gen *gen)
{
    if (!gen)
        return spt_built_in_count();
    return load(gen, NULL) == SPT_OK ? gen->boards->n_boards : 0;
}

const char *spt_gen_board_name(spt_gen *gen, size_t index)
{
    const spt_board *b = gen ? NULL : spt_built_in_at(index);
    if (!gen)
        return b ? b->name : NULL;
    return index < spt_gen_board_count(gen) ? gen->boards->board_names[index]
                                            : NULL;
}

size_t spt_gen_arch_count(spt_gen *gen)
{
    return load(gen, NULL) == SPT_OK ? gen->boards->n_archs : 0;
}

const char *spt_gen_arch_name(spt_gen *gen, size_t index)
{
    return index < spt_gen_arch_count(gen) ? gen->boards->arch_names[index]
                                           : NULL;
}

const char *spt_gen_arch_title(spt_gen *gen, size_t index)
{
    const char *name = spt_gen_arch_name(gen, index);
    return name ? find(gen->boards, ARCH, name)->board.title : NULL;
}

const char *spt_gen_arch_board(spt_gen *gen, size_t index)
{
    const char *name = spt_gen_arch_name(gen, index);
    return name ? find(gen->boards, ARCH, name)->default_board : NULL;
}

spt_status spt_gen_board(spt_gen *gen, const char *name, spt_board *board,
                         spt_error *err)
{
    if (!gen)
        return spt_built_in_find(name, board, err);
    SPT_TRY(load(gen, err));
    const entry *e = find(gen->boards, BOARD, name);
    if (!e)
        return unknown("board", name, gen->boards->board_names,
                       gen->boards->n_boards, err);
    complete(gen->boards, e, board);
    return SPT_OK;
}

spt_status spt_gen_default_board(spt_gen *gen, const char *arch,
                                 spt_board *board, spt_error *err)
{
    SPT_TRY(load(gen, err));
    const entry *e = find(gen->boards, ARCH, arch);
    if (!e)
        return unknown("arch", arch, gen->boards->arch_names,
                       gen->boards->n_archs, err);
    return spt_gen_board(gen, e->default_board, board, err);
}

typedef struct load_one {
    struct spt_boards *boards;
    const char *path, *name;
    entry *into;
} load_one;

static int load_user_file(lua_State *L)
{
    load_one *job = lua_touserdata(L, 1);
    luaL_checkstack(L, 40, NULL);
    reader r = {L, job->boards, job->path, NULL, 0, job->into};
    spt_lua_load_path(L, job->path, job->path);
    r.text = spt_lua_text(L, job->path, &r.size);
    lua_insert(L, -2);
    read_file(&r);
    if (job->into->place != BOARD)
        bad(&r, "kind", NULL, "expected \"board\"");
    set_name(&r, job->name);
    if (!find(job->boards, ARCH, job->into->board.arch))
        bad(&r, "arch", NULL, "no architecture of that name in archs/");
    return 0;
}

/* NAME.json beside NAME.lua: constants that `spectune model fit` wrote. */
static spt_status calibrate_user(const char *path, spt_board *board,
                                 spt_error *err)
{
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 4, ".lua") != 0)
        return SPT_OK;
    spt_buf beside = {0};
    spt_buf_printf(&beside, "%.*s.json", (int)(length - 4), path);
    spt_calibration *c = spt_calloc(1, sizeof *c);
    spt_status status = SPT_OK;
    if (!c || beside.failed)
        status = spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    else if (spt_file_exists(beside.data))
        status = spt_calibration_read(beside.data, c, err);
    if (status == SPT_OK)
        spt_calibrate(board, c);
    spt_free(c);
    spt_buf_free(&beside);
    return status;
}

spt_status spt_gen_board_file(spt_gen *gen, const char *path, spt_board *board,
                              spt_error *err)
{
    SPT_TRY(load(gen, err));
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".lua") == 0)
        length -= 4;
    char *name = spt_arena_strdup(&gen->boards->arena, base, length);
    entry *e = spt_arena_alloc(&gen->boards->arena, 1, sizeof *e);
    if (!name || !e)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    load_one job = {gen->boards, path, name, e};
    SPT_TRY(spt_lua_run(gen->lua, load_user_file, &job, err));
    gen->boards->user = e;
    complete(gen->boards, e, board);
    return calibrate_user(path, board, err);
}

spt_status spt_gen_board_facts(spt_gen *gen, const spt_board *board,
                               spt_fact *facts, size_t *count, spt_error *err)
{
    SPT_TRY(load(gen, err));
    const entry *own = gen->boards->user;
    if (!own || strcmp(own->name, board->name) != 0)
        own = find(gen->boards, BOARD, board->name);
    const entry *arch = find(gen->boards, ARCH, board->arch);
    if (!own || !arch)
        return spt_fail(err, SPT_E_NOT_FOUND, "board %s: not of archs/",
                        board->name);
    for (size_t i = 0; i < FACT_ROWS; i++) {
        const struct fact_row *row = &fact_rows[i];
        bool of_board = row->place == BOARD;
        const char *member = (const char *)board + row->offset;
        double value;
        if (row->kind == INT)
            value = *(const int *)(const void *)member;
        else
            value = *(const double *)(const void *)member;
        facts[i] = (spt_fact){row->field,   row->unit,
                              row->meaning, (of_board ? own : arch)->sources[i],
                              of_board,     value};
    }
    *count = FACT_ROWS;
    return SPT_OK;
}

const char *spt_gen_matrix_source(spt_gen *gen, const char *arch, int row)
{
    if (load(gen, NULL) != SPT_OK || row < 0 || row >= SPT_MATRIX_MAX)
        return NULL;
    const entry *e = find(gen->boards, ARCH, arch);
    return e ? e->matrix_sources[row] : NULL;
}

const char *spt_gen_root(const spt_gen *gen)
{
    return spt_lua_root(gen->lua);
}
