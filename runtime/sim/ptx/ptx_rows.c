/*
 * Reads the words of ptx*.def once per process into read-only tables. The rows
 * are ours, so a fault in them is a bug that ptx_rows_fault reports to the
 * tables' test; the parser meets only rows that passed it.
 */
#include "ptx_rows.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct type_facts {
    const char *text;
    uint8_t bytes;
    ptx_kind kind;
} type_facts;

static const type_facts type_table[PTX_TYPE_COUNT] = {
    [PTX_NONE] = {"", 0, PTX_KIND_NONE},
#define PTX_TYPE(name, text, bytes, kind) \
    [PTX_##name] = {text, bytes, PTX_KIND_##kind},
#include "ptx_types.def"
#undef PTX_TYPE
};

static const char *const mod_table[PTX_MOD_COUNT] = {
#define PTX_MOD(name, text) [PTX_MOD_##name] = text,
#include "ptx_mods.def"
#undef PTX_MOD
};

static const struct {
    const char *text;
    ptx_type type;
} special_table[PTX_SPECIAL_COUNT] = {
#define PTX_SPECIAL(name, text, type) [PTX_SPECIAL_##name] = {text, PTX_##type},
#include "ptx_special.def"
#undef PTX_SPECIAL
};

static const struct row_text {
    const char *text;
    ptx_class counter_class;
    uint32_t sm;
    const char *types, *mods, *form;
} row_texts[PTX_OP_COUNT] = {
#define PTX_OP(name, text, counter_class, sm, types, mods, form) \
    [PTX_OP_##name] = {text, PTX_CLASS_##counter_class, sm, types, mods, form},
#include "ptx.def"
#undef PTX_OP
};

static const struct only_text {
    ptx_op op;
    int place;
    const char *mods, *types;
} only_texts[] = {
#define PTX_ONLY(op, place, mods, types) {PTX_OP_##op, place, mods, types},
#include "ptx_only.def"
#undef PTX_ONLY
};
enum { ONLY_COUNT = sizeof only_texts / sizeof *only_texts };

enum { PTX_MOD_NONE = -1 };
static const struct {
    const char *text, *mnemonic;
    int implied;
} aliases[] = {
#define PTX_ALIAS(text, mnemonic, implied) {text, mnemonic, PTX_MOD_##implied},
#include "ptx_alias.def"
#undef PTX_ALIAS
};
enum { ALIAS_COUNT = sizeof aliases / sizeof *aliases };

enum {
    SPACE_WORDS = 16,
    WORD_COUNT = PTX_TYPE_COUNT + PTX_MOD_COUNT + SPACE_WORDS,
    WORD_SLOTS = 1024,
    MNEMONIC_COUNT = PTX_OP_COUNT + ALIAS_COUNT,
    MNEMONIC_SLOTS = 1024,
    SPECIAL_SLOTS = 512,
};
_Static_assert(WORD_COUNT * 2 < WORD_SLOTS, "word table too small");
_Static_assert(MNEMONIC_COUNT * 2 < MNEMONIC_SLOTS, "mnemonics too many");
_Static_assert(PTX_SPECIAL_COUNT * 2 < SPECIAL_SLOTS, "specials too many");
_Static_assert(PTX_MOD_COUNT <= 255, "modifiers must fit a byte");
_Static_assert(PTX_TYPE_COUNT <= 64, "types must fit a 64-bit set");

static struct {
    ptx_word words[WORD_SLOTS];
    ptx_mnemonic mnemonics[MNEMONIC_SLOTS];
    int16_t specials[SPECIAL_SLOTS]; /* index + 1 */
    ptx_row rows[PTX_OP_COUNT];
    ptx_only only[ONLY_COUNT];
    char fault[160];
} tables;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fault(const char *where, const char *what, size_t length)
{
    if (!tables.fault[0])
        snprintf(tables.fault, sizeof tables.fault, "%s: %.*s", where,
                 (int)length, what);
}

uint32_t ptx_hash(const char *text, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static bool same(const char *name, const char *text, size_t length)
{
    return !strncmp(name, text, length) && !name[length];
}

static ptx_word *word_slot(const char *text, size_t length)
{
    uint32_t at = ptx_hash(text, length) % WORD_SLOTS;
    while (tables.words[at].text && !same(tables.words[at].text, text, length))
        at = (at + 1) % WORD_SLOTS;
    return &tables.words[at];
}

static void add_word(const char *text, ptx_word_kind kind, uint32_t id)
{
    ptx_word *slot = word_slot(text, strlen(text));
    if (slot->text)
        fault("word occurs twice", text, strlen(text));
    *slot = (ptx_word){text, kind, id};
}

static ptx_mnemonic *mnemonic_slot(const char *text, size_t length)
{
    uint32_t at = ptx_hash(text, length) % MNEMONIC_SLOTS;
    while (tables.mnemonics[at].text &&
           !same(tables.mnemonics[at].text, text, length))
        at = (at + 1) % MNEMONIC_SLOTS;
    return &tables.mnemonics[at];
}

static void add_mnemonic(const char *text, ptx_op op, int implied)
{
    ptx_mnemonic *slot = mnemonic_slot(text, strlen(text));
    if (slot->text)
        fault("mnemonic occurs twice", text, strlen(text));
    *slot = (ptx_mnemonic){text, op, implied};
}

static int16_t *special_slot(const char *text, size_t length)
{
    uint32_t at = ptx_hash(text, length) % SPECIAL_SLOTS;
    while (tables.specials[at] &&
           !same(special_table[tables.specials[at] - 1].text, text, length))
        at = (at + 1) % SPECIAL_SLOTS;
    return &tables.specials[at];
}

static void add_words(void)
{
    static const ptx_word others[] = {
        {"global", PTX_WORD_SPACE, PTX_GLOBAL},
        {"shared", PTX_WORD_SPACE, PTX_SHARED},
        {"shared::cta", PTX_WORD_SPACE, PTX_SHARED},
        {"shared::cluster", PTX_WORD_SPACE_CLUSTER, PTX_SHARED},
        {"local", PTX_WORD_SPACE, PTX_LOCAL},
        {"param", PTX_WORD_SPACE, PTX_PARAM},
        {"param::entry", PTX_WORD_SPACE, PTX_PARAM},
        {"param::func", PTX_WORD_SPACE, PTX_PARAM},
        {"const", PTX_WORD_SPACE, PTX_CONST},
        {"v2", PTX_WORD_VECTOR, 2},
        {"v4", PTX_WORD_VECTOR, 4},
        {"v8", PTX_WORD_VECTOR, 8},
    };
    for (unsigned i = 1; i < PTX_TYPE_COUNT; i++)
        add_word(type_table[i].text, PTX_WORD_TYPE, i);
    for (unsigned i = 0; i < PTX_MOD_COUNT; i++)
        if (i != PTX_MOD_SHARED_CLUSTER)
            add_word(mod_table[i], PTX_WORD_MOD, i);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        add_word(others[i].text, others[i].kind, others[i].id);
}

/* The next word of a list parted by spaces; NULL at its end. */
static const char *next_word(const char **list, size_t *length)
{
    const char *at = *list + strspn(*list, " ");
    *length = strcspn(at, " ");
    *list = at + *length;
    return *length ? at : NULL;
}

static void add_to_set(ptx_row *row, ptx_mod_set *set, const char *text,
                       size_t length)
{
    bool space = length && *text == '@';
    ptx_word word = *word_slot(text + space, length - space);
    bool known = word.text && (!space || word.kind == PTX_WORD_SPACE);
    if (known && word.kind == PTX_WORD_SPACE)
        set->spaces |= (uint8_t)(1 << word.id);
    else if (known && word.kind == PTX_WORD_SPACE_CLUSTER)
        set->words[PTX_MOD_SHARED_CLUSTER / 64] |=
            1ull << PTX_MOD_SHARED_CLUSTER % 64;
    else if (known && word.kind == PTX_WORD_VECTOR)
        row->vectors |= (uint8_t)(1 << (word.id == 2   ? 1
                                        : word.id == 4 ? 2
                                                       : 3));
    else if (known && word.kind == PTX_WORD_MOD)
        set->words[word.id / 64] |= 1ull << word.id % 64;
    else
        fault(row->text, text, length);
}

static void merge(ptx_mod_set *into, const ptx_mod_set *from)
{
    for (int i = 0; i < PTX_MOD_WORDS; i++)
        into->words[i] |= from->words[i];
    into->spaces |= from->spaces;
}

static void read_group(ptx_row *row, const char *text, size_t length)
{
    if (row->n_groups == PTX_ROW_GROUPS || text[length - 1] != ')') {
        fault(row->text, text, length);
        return;
    }
    ptx_mod_set *group = &row->groups[row->n_groups++];
    const char *end = text + length - 1;
    for (text++; text < end;) {
        size_t size = strcspn(text, "|)");
        add_to_set(row, group, text, size);
        text += size + 1;
    }
    merge(&row->mods, group);
}

static void read_mods(ptx_row *row, const char *list)
{
    size_t length;
    for (const char *text; (text = next_word(&list, &length));)
        if (*text == '(')
            read_group(row, text, length);
        else
            add_to_set(row, &row->mods, text, length);
}

static void read_types(ptx_row *row, const char *list)
{
    if (!strcmp(list, "-") || !*list)
        return;
    for (;;) {
        size_t size = strcspn(list, "/");
        const char *at = list, *end = list + size;
        if (row->max_types == PTX_MAX_TYPES) {
            fault(row->text, list, strlen(list));
            return;
        }
        uint64_t *types = &row->types[row->max_types++];
        at += strspn(at, " ");
        if (*at == '?')
            at++;
        else
            row->min_types = row->max_types;
        while (at < end) {
            size_t length = strcspn(at, " /");
            if (length) {
                ptx_word word = *word_slot(at, length);
                if (word.text && word.kind == PTX_WORD_TYPE)
                    *types |= 1ull << word.id;
                else
                    fault(row->text, at, length);
            }
            at += length;
            at += *at == ' ';
        }
        if (!*end)
            return;
        list = end + 1;
    }
}

static uint8_t read_place(const ptx_row *row, const char *text, size_t length)
{
    if (length == 1 && *text >= '0' && *text < '0' + PTX_MAX_TYPES)
        return (uint8_t)(*text - '0');
    if (length == 1 && *text == 'w')
        return PTX_PLACE_WIDE;
    if (length == 1 && *text == 'm')
        return PTX_PLACE_MIXED;
    if (length == 1 && *text == '*')
        return PTX_PLACE_ANY;
    if (length == 1 && *text == 'p')
        return PTX_PLACE_FIXED + PTX_PRED;
    ptx_word word = *word_slot(text, length);
    if (word.text && word.kind == PTX_WORD_TYPE)
        return (uint8_t)(PTX_PLACE_FIXED + word.id);
    if (length)
        fault(row->text, text, length);
    return PTX_PLACE_ANY;
}

/* "cas:" or "-cas:" */
static void read_condition(ptx_row *row, ptx_form *form, const char *text,
                           size_t length)
{
    bool without = *text == '-';
    ptx_word word = *word_slot(text + without, length - 1 - without);
    if (!word.text || word.kind != PTX_WORD_MOD)
        fault(row->text, text, length);
    else if (without)
        form->without = (int16_t)word.id;
    else
        form->with = (int16_t)word.id;
}

/* Reads one alternative up to "/" or the end; returns where it stopped. */
static const char *read_form(ptx_row *row, ptx_form *form, const char *at)
{
    bool optional = false;
    form->with = form->without = -1;
    while (*at && *at != '/') {
        size_t length = strcspn(at, " /");
        if (length == 1 && *at == '?') {
            form->required = form->count;
            optional = true;
        } else if (length > 1 && at[length - 1] == ':') {
            read_condition(row, form, at, length);
        } else if (length && form->count < PTX_MAX_OPERANDS &&
                   strchr("dsriavuxLCT", *at)) {
            size_t size = length;
            bool pair = size > 2 && !strncmp(at + size - 2, "|p", 2);
            size -= pair ? 2 : 0;
            form->operands[form->count].role = *at;
            form->operands[form->count].pair = pair;
            form->operands[form->count++].place =
                read_place(row, at + 1, size - 1);
        } else if (length) {
            fault(row->text, at, length);
        }
        at += length;
        at += *at == ' ';
    }
    if (!optional)
        form->required = form->count;
    return at;
}

static void read_row(ptx_op op)
{
    const struct row_text *text = &row_texts[op];
    ptx_row *row = &tables.rows[op];
    row->text = text->text;
    row->sm = text->sm;
    row->counter_class = text->counter_class;
    read_types(row, text->types);
    read_mods(row, text->mods);
    const char *at = text->form;
    do {
        if (row->n_forms == PTX_ROW_FORMS) {
            fault(row->text, "more forms than fit", 19);
            return;
        }
        at = read_form(row, &row->forms[row->n_forms++], at);
    } while (*at++ == '/');
}

/* A row's modifiers and types must be those of its instruction. */
static void read_only(int at)
{
    const struct only_text *text = &only_texts[at];
    ptx_only *only = &tables.only[at];
    ptx_row *row = &tables.rows[text->op], read = {.text = row->text};
    const char *list = text->mods;
    size_t length;
    *only = (ptx_only){.op = text->op, .place = text->place};
    for (const char *word; (word = next_word(&list, &length));)
        add_to_set(&read, &only->mods, word, length);
    read_types(&read, text->types);
    only->types = read.types[0];
    for (int i = 0; i < PTX_MOD_WORDS; i++)
        if (only->mods.words[i] & ~row->mods.words[i])
            fault(row->text, text->mods, strlen(text->mods));
    if (only->types & ~row->types[text->place])
        fault(row->text, text->types, strlen(text->types));
}

static void read_tables(void)
{
    add_words();
    for (int i = 0; i < PTX_SPECIAL_COUNT; i++) {
        int16_t *slot =
            special_slot(special_table[i].text, strlen(special_table[i].text));
        if (*slot)
            fault("register occurs twice", special_table[i].text, 40);
        *slot = (int16_t)(i + 1);
    }
    for (int i = 0; i < PTX_OP_COUNT; i++) {
        add_mnemonic(row_texts[i].text, (ptx_op)i, PTX_MOD_NONE);
        read_row((ptx_op)i);
    }
    for (int i = 0; i < ONLY_COUNT; i++)
        read_only(i);
    for (int i = 0; i < ALIAS_COUNT; i++) {
        const ptx_mnemonic *row =
            mnemonic_slot(aliases[i].mnemonic, strlen(aliases[i].mnemonic));
        if (!row->text)
            fault("alias of nothing", aliases[i].text, 40);
        add_mnemonic(aliases[i].text, row->op, aliases[i].implied);
    }
}

const ptx_row *ptx_op_row(ptx_op op)
{
    pthread_once(&tables_once, read_tables);
    return &tables.rows[op];
}

const ptx_only *ptx_only_rows(size_t *count)
{
    pthread_once(&tables_once, read_tables);
    *count = ONLY_COUNT;
    return tables.only;
}

ptx_word ptx_find_word(const char *text, size_t length)
{
    pthread_once(&tables_once, read_tables);
    return *word_slot(text, length);
}

const ptx_mnemonic *ptx_find_mnemonic(const char *text, size_t length)
{
    pthread_once(&tables_once, read_tables);
    const ptx_mnemonic *slot = mnemonic_slot(text, length);
    return slot->text ? slot : NULL;
}

int ptx_find_special(const char *text, size_t length)
{
    pthread_once(&tables_once, read_tables);
    return *special_slot(text, length) - 1;
}

bool ptx_rows_fault(char *text, size_t size)
{
    pthread_once(&tables_once, read_tables);
    snprintf(text, size, "%s", tables.fault);
    return tables.fault[0] != 0;
}

const char *ptx_type_text(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? type_table[type].text : "?";
}

uint32_t ptx_type_bytes(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? type_table[type].bytes : 0;
}

ptx_kind ptx_type_kind(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? type_table[type].kind
                                           : PTX_KIND_NONE;
}

const char *ptx_op_text(ptx_op op)
{
    return (unsigned)op < PTX_OP_COUNT ? row_texts[op].text : "?";
}

const char *ptx_mod_text(ptx_mod mod)
{
    return (unsigned)mod < PTX_MOD_COUNT ? mod_table[mod] : "?";
}

const char *ptx_special_text(ptx_special special)
{
    return (unsigned)special < PTX_SPECIAL_COUNT ? special_table[special].text
                                                 : "?";
}

ptx_type ptx_special_type(ptx_special special)
{
    return (unsigned)special < PTX_SPECIAL_COUNT ? special_table[special].type
                                                 : PTX_NONE;
}

ptx_class ptx_insn_class(const ptx_insn *insn)
{
    ptx_class result = row_texts[insn->op].counter_class;
    if (result != PTX_CLASS_TYPED)
        return result;
    switch (insn->types[0]) {
    case PTX_F16:
    case PTX_F16X2:
    case PTX_BF16:
    case PTX_BF16X2:
        return PTX_CLASS_HALF;
    case PTX_F32:
    case PTX_F32X2:
        return PTX_CLASS_FLOAT;
    case PTX_F64:
        return PTX_CLASS_DOUBLE;
    default:
        return PTX_CLASS_INTEGER;
    }
}
