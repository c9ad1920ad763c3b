/*
 * Boards: the files of archs/ and the user's own, each joined with its
 * architecture. All of archs/ is read at the first call.
 */
#include "boards.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "board_built_in.h"
#include "board_file.h"
#include "calibration.h"
#include "files.h"
#include "gen_int.h"

struct spt_boards {
    spt_arena arena;
    spt_board_file *entries; /* sorted by name */
    size_t count;
    size_t n_boards;
    const char **board_names, **arch_names;
    size_t n_archs;
    const spt_board_file *user; /* the last board read by spt_gen_board_file */
    spt_calibration calibration;
};

static const spt_board_file *find(const struct spt_boards *boards,
                                  spt_place place, const char *name)
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
        spt_board_reader r = {L, &job->boards->arena,     file, NULL,
                              0, &job->boards->entries[i]};
        spt_lua_load(L, file);
        spt_board_read(&r, name);
        name += strlen(name) + 1;
    }
    return 0;
}

/* Every board names an architecture, every architecture a board of its. */
static spt_status check_links(const struct spt_boards *boards, spt_error *err)
{
    for (size_t i = 0; i < boards->count; i++) {
        const spt_board_file *e = &boards->entries[i];
        if (e->place == SPT_OF_BOARD &&
            !find(boards, SPT_OF_ARCH, e->board.arch))
            return spt_fail(err, SPT_E_FORMAT,
                            "archs/%s.lua: arch: there is no archs/%s.lua",
                            e->name, e->board.arch);
        if (e->place == SPT_OF_BOARD)
            continue;
        const spt_board_file *d = find(boards, SPT_OF_BOARD, e->default_board);
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
        if (b->entries[i].place == SPT_OF_ARCH)
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
            spt_arena_alloc(&boards->arena, count + 1, sizeof(spt_board_file));
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
static void join(const spt_board_file *arch, spt_board *board)
{
    for (size_t i = 0; i < SPT_FACT_ROWS; i++) {
        const spt_fact_row *row = &spt_fact_rows[i];
        if (row->place != SPT_OF_ARCH)
            continue;
        memcpy((char *)board + row->offset,
               (const char *)&arch->board + row->offset,
               row->whole ? sizeof(int) : sizeof(double));
    }
    memcpy(board->target, arch->board.target, sizeof board->target);
    board->matrix_count = arch->board.matrix_count;
    memcpy(board->matrix, arch->board.matrix, sizeof board->matrix);
}

static void complete(const struct spt_boards *boards, const spt_board_file *e,
                     spt_board *board)
{
    *board = e->board;
    join(find(boards, SPT_OF_ARCH, e->board.arch), board);
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
    return name ? find(gen->boards, SPT_OF_ARCH, name)->board.title : NULL;
}

const char *spt_gen_arch_board(spt_gen *gen, size_t index)
{
    const char *name = spt_gen_arch_name(gen, index);
    return name ? find(gen->boards, SPT_OF_ARCH, name)->default_board : NULL;
}

spt_status spt_gen_board(spt_gen *gen, const char *name, spt_board *board,
                         spt_error *err)
{
    if (!gen)
        return spt_built_in_find(name, board, err);
    SPT_TRY(load(gen, err));
    const spt_board_file *e = find(gen->boards, SPT_OF_BOARD, name);
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
    const spt_board_file *e = find(gen->boards, SPT_OF_ARCH, arch);
    if (!e)
        return unknown("arch", arch, gen->boards->arch_names,
                       gen->boards->n_archs, err);
    return spt_gen_board(gen, e->default_board, board, err);
}

typedef struct load_one {
    struct spt_boards *boards;
    const char *path, *name;
    spt_board_file *into;
} load_one;

static int load_user_file(lua_State *L)
{
    load_one *job = lua_touserdata(L, 1);
    luaL_checkstack(L, 40, NULL);
    spt_board_reader r = {L,        &job->boards->arena, job->path, NULL, 0,
                          job->into};
    spt_lua_load_path(L, job->path, job->path);
    spt_board_read(&r, job->name);
    if (job->into->place != SPT_OF_BOARD)
        spt_board_bad(&r, "kind", NULL, "expected \"board\"");
    if (!find(job->boards, SPT_OF_ARCH, job->into->board.arch))
        spt_board_bad(&r, "arch", NULL,
                      "no architecture of that name in archs/");
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
    spt_board_file *e = spt_arena_alloc(&gen->boards->arena, 1, sizeof *e);
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
    const spt_board_file *own = gen->boards->user;
    if (!own || strcmp(own->name, board->name) != 0)
        own = find(gen->boards, SPT_OF_BOARD, board->name);
    const spt_board_file *arch = find(gen->boards, SPT_OF_ARCH, board->arch);
    if (!own || !arch)
        return spt_fail(err, SPT_E_NOT_FOUND, "board %s: not of archs/",
                        board->name);
    for (size_t i = 0; i < SPT_FACT_ROWS; i++) {
        const spt_fact_row *row = &spt_fact_rows[i];
        bool of_board = row->place == SPT_OF_BOARD;
        const char *member = (const char *)board + row->offset;
        double value;
        if (row->whole)
            value = *(const int *)(const void *)member;
        else
            value = *(const double *)(const void *)member;
        facts[i] = (spt_fact){row->field,   row->unit,
                              row->meaning, (of_board ? own : arch)->sources[i],
                              of_board,     value};
    }
    *count = SPT_FACT_ROWS;
    return SPT_OK;
}

const char *spt_gen_matrix_source(spt_gen *gen, const char *arch, int row)
{
    if (load(gen, NULL) != SPT_OK || row < 0 || row >= SPT_MATRIX_MAX)
        return NULL;
    const spt_board_file *e = find(gen->boards, SPT_OF_ARCH, arch);
    return e ? e->matrix_sources[row] : NULL;
}

const char *spt_gen_root(const spt_gen *gen)
{
    return spt_lua_root(gen->lua);
}
