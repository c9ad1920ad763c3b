/*
 * Options as llama.cpp, vLLM and SGLang spell them, for commands that do what
 * those do: rows of foreign.def.
 */
#ifndef SPT_FOREIGN_H
#define SPT_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum spt_foreign_does {
    SPT_FOREIGN_SAME,
    SPT_FOREIGN_ASIDE,
    SPT_FOREIGN_ASIDE1,
    SPT_FOREIGN_ASIDE2,
    SPT_FOREIGN_REFUSED,
} spt_foreign_does;

typedef struct spt_foreign {
    const char *name; /* with its dashes */
    spt_foreign_does does;
    const char *text; /* SAME: our option's name; else what to say */
} spt_foreign;

/* The row of that name, or NULL. */
const spt_foreign *spt_foreign_find(const char *name, size_t length);

/* All rows, for tests. */
const spt_foreign *spt_foreign_rows(size_t *count);

/* Whether a word can be the value of a switch: on, off, auto, ... */
bool spt_foreign_switch(const char *word);

#endif
