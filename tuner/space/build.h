/*
 * Kernels from templates to machine code, many at a time.
 */
#ifndef SPT_BUILD_H
#define SPT_BUILD_H

#include "gen.h"

/* An emitted and compiled kernel with the values that made it. */
typedef struct spt_built {
    spt_config config;
    spt_kernel kernel;
    spt_image image;
} spt_built;

/* What to build: a template with all its values. */
typedef struct spt_build_item {
    const char *template_name;
    spt_config config;
} spt_build_item;

typedef struct spt_builder {
    spt_gen *gen;
    spt_compiler *compiler;
    const spt_board *board;
    spt_compile_progress *progress; /* or NULL */
    void *user;
} spt_builder;

/*
 * Opens generator and compiler and finds the board: by name, by file
 * (FILE.lua), or the one that the architecture stands for. A board of another
 * architecture than the one named is SPT_E_USAGE. Closing a builder that was
 * not opened is fine.
 */
spt_status spt_builder_open(spt_builder *builder, const char *arch,
                            const char *board_name, spt_board *board,
                            spt_error *err);
void spt_builder_close(spt_builder *builder);

/*
 * Emits and compiles count items into built (count entries, freed one by one
 * with spt_built_free). On failure none is kept.
 */
spt_status spt_build(const spt_builder *builder, const spt_build_item *items,
                     size_t count, spt_built *built, spt_error *err);
void spt_built_free(spt_built *built);

/*
 * The board that --arch and --board name: a name of archs/, or a file whose
 * name ends in .lua; NULL = not given.
 */
spt_status spt_find_board(spt_gen *gen, const char *arch, const char *name,
                          spt_board *board, spt_error *err);

#endif
