/*
 * What archs/ says, with units and sources: for commands that show it. The
 * board records themselves come from gen.h.
 */
#ifndef SPT_BOARDS_H
#define SPT_BOARDS_H

#include "gen.h"

typedef struct spt_fact {
    const char *field; /* member of spt_board */
    const char *unit;
    const char *meaning;
    const char *source; /* lives as long as gen */
    bool of_board; /* from the board's file, not the architecture's */
    double value;
} spt_fact;

enum { SPT_FACT_MAX = 64 };

/*
 * The facts of a board that this gen has given (by name or by file), in the
 * order of facts.def; facts: SPT_FACT_MAX.
 */
spt_status spt_gen_board_facts(spt_gen *gen, const spt_board *board,
                               spt_fact *facts, size_t *count, spt_error *err);

/* The folder that holds archs/, templates/ and profiles/. */
const char *spt_gen_root(const spt_gen *gen);

/* Sources of the rows of board->matrix. */
const char *spt_gen_matrix_source(spt_gen *gen, const char *arch, int row);

/* Architectures of archs/, sorted by name. */
size_t spt_gen_arch_count(spt_gen *gen);
const char *spt_gen_arch_name(spt_gen *gen, size_t index);
const char *spt_gen_arch_title(spt_gen *gen, size_t index);
const char *spt_gen_arch_board(spt_gen *gen, size_t index);

#endif
