/*
 * The tables of ptx*.def in the form that the parser uses: words to numbers,
 * and what each instruction's row allows as sets.
 */
#ifndef SPT_PTX_ROWS_H
#define SPT_PTX_ROWS_H

#include "ptx.h"

enum {
    PTX_ROW_FORMS = 4, /* operand alternatives of one row */
    PTX_ROW_GROUPS = 6, /* "(a|b)": one of them must be there */
    PTX_MOD_WORDS = (PTX_MOD_COUNT + 63) / 64,
};

/* Types of operands that are neither a place (0..4) nor a ptx_type. */
enum {
    PTX_PLACE_WIDE = 8, /* place 0, doubled by .wide */
    PTX_PLACE_ANY = 9,
    PTX_PLACE_MIXED = 10, /* place 1 where there is one, else 0 */
    PTX_PLACE_FIXED = 16, /* + ptx_type */
};

typedef struct ptx_mod_set {
    uint64_t words[PTX_MOD_WORDS];
    uint8_t spaces; /* bit per ptx_space */
} ptx_mod_set;

typedef struct ptx_form {
    uint8_t count, required;
    int16_t with, without; /* ptx_mod that there must (not) be, or -1 */
    struct {
        char role; /* d s r i a v u x L C T, as in ptx.def */
        uint8_t place;
        bool pair; /* may be followed by "|p" */
    } operands[PTX_MAX_OPERANDS];
} ptx_form;

typedef struct ptx_row {
    const char *text;
    uint32_t sm;
    ptx_class counter_class;
    uint8_t max_types, min_types;
    uint64_t types[PTX_MAX_TYPES]; /* bit per ptx_type */
    ptx_mod_set mods;
    uint8_t n_groups, n_forms;
    ptx_mod_set groups[PTX_ROW_GROUPS];
    uint8_t vectors; /* bit per width */
    ptx_form forms[PTX_ROW_FORMS];
} ptx_row;

typedef enum ptx_word_kind {
    PTX_WORD_UNKNOWN,
    PTX_WORD_TYPE,
    PTX_WORD_MOD,
    PTX_WORD_SPACE, /* id = ptx_space */
    PTX_WORD_SPACE_CLUSTER, /* .shared::cluster */
    PTX_WORD_VECTOR, /* id = width */
} ptx_word_kind;

typedef struct ptx_word {
    const char *text;
    ptx_word_kind kind;
    uint32_t id;
} ptx_word;

/* An instruction's mnemonic: the row, and a modifier that it implies. */
typedef struct ptx_mnemonic {
    const char *text;
    ptx_op op;
    int implied; /* ptx_mod, or -1 */
} ptx_mnemonic;

const ptx_row *ptx_op_row(ptx_op op);

/* A suffix without its point; kind is PTX_WORD_UNKNOWN when there is none. */
ptx_word ptx_find_word(const char *text, size_t length);

/* NULL when no row has this text. */
const ptx_mnemonic *ptx_find_mnemonic(const char *text, size_t length);

/* The special register of that text ("%tid.x"), or -1. */
int ptx_find_special(const char *text, size_t length);

static inline bool ptx_set_has(const ptx_mod_set *set, unsigned mod)
{
    return set->words[mod / 64] >> mod % 64 & 1;
}

/* Of an instruction's modifiers and the types in place, which go together. */
typedef struct ptx_only {
    ptx_op op;
    int place;
    ptx_mod_set mods;
    uint64_t types; /* bit per ptx_type */
} ptx_only;

/* The rows of ptx_only.def. */
const ptx_only *ptx_only_rows(size_t *count);

/* The first fault of the tables in text, or false: for the tables' test. */
bool ptx_rows_fault(char *text, size_t size);

uint32_t ptx_hash(const char *text, size_t length);

#endif
