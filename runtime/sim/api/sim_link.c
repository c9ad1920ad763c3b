/*
 * Linking, on the text: each part is taken apart into the statements of its
 * top level, and what remains is written out in an order in which everything
 * is declared before it is used: declarations, variables, functions, the rest.
 */
#include "sim_link.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_PER_PART = 1000 };

typedef enum rank {
    RANK_DECLARATION, /* of a function */
    RANK_VARIABLE,
    RANK_FUNCTION,
    RANK_OTHER,
    RANKS
} rank;

typedef struct statement {
    const char *text, *name;
    size_t size, name_size;
    rank rank;
    size_t part;
    bool external, weak, visible, entry;
    bool renamed; /* local, and the name is taken in another part */
} statement;

typedef struct linker {
    statement *items;
    size_t count, room;
    unsigned version, target; /* 10 * major + minor; sm */
    const char *target_text;
    size_t target_size;
    spt_error *err;
} linker;

/* --- taking a part apart ------------------------------------------------ */

static bool is_word(int c)
{
    return isalnum(c) || c == '_' || c == '$';
}

/* Past blanks and comments. */
static const char *skip_blank(const char *at)
{
    for (;;) {
        if (isspace((unsigned char)*at)) {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* Past one token: a word, a string, or a single character. */
static const char *skip_token(const char *at)
{
    if (*at == '"') {
        at += 1 + strcspn(at + 1, "\"");
        return *at ? at + 1 : at;
    }
    if (!is_word((unsigned char)*at))
        return *at ? at + 1 : at;
    while (is_word((unsigned char)*at))
        at++;
    return at;
}

static bool begins(const char *at, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(at, word, size) && !is_word((unsigned char)at[size]);
}

/* A directive of the part as a whole; the place behind it, or NULL. */
static const char *take_header(linker *l, const char *at)
{
    const char *end = at + strcspn(at, "\n");
    if (begins(at, ".version")) {
        char *minor;
        unsigned major = (unsigned)strtoul(at + 8, &minor, 10);
        unsigned version =
            10 * major +
            (*minor == '.' ? (unsigned)strtoul(minor + 1, NULL, 10) : 0);
        if (version > l->version)
            l->version = version;
        return end;
    }
    if (begins(at, ".target")) {
        const char *sm = strstr(at, "sm_");
        unsigned target =
            sm && sm < end ? (unsigned)strtoul(sm + 3, NULL, 10) : 0;
        if (target >= l->target) {
            l->target = target;
            l->target_text = at;
            l->target_size = (size_t)(end - at);
        }
        return end;
    }
    return begins(at, ".address_size") ? end : NULL;
}

/* The end of the statement at `at`; NULL when it has none. */
static const char *find_end(const char *at, bool function)
{
    int depth = 0;
    for (at = skip_blank(at); *at; at = skip_blank(skip_token(at))) {
        if (*at == '{')
            depth++;
        else if (*at == '}' && --depth == 0 && function)
            return at + 1;
        else if (*at == ';' && depth == 0)
            return at + 1;
    }
    return NULL;
}

static const char *skip_parens(const char *at)
{
    int depth = 0;
    do {
        depth += (*at == '(') - (*at == ')');
        at = skip_blank(skip_token(at));
    } while (*at && depth > 0);
    return at;
}

/* Reads the words in front of the name, and the name. */
static void read_start(statement *s)
{
    const char *end = s->text + s->size;
    bool function = false;
    s->rank = RANK_OTHER;
    for (const char *at = s->text; at < end;) {
        if (*at == '(') {
            at = skip_parens(at);
            continue;
        }
        if (*at != '.' && !isdigit((unsigned char)*at)) {
            s->name = at;
            s->name_size = (size_t)(skip_token(at) - at);
            break;
        }
        function |= begins(at, ".func") || begins(at, ".entry");
        s->entry |= begins(at, ".entry");
        s->external |= begins(at, ".extern");
        s->visible |= begins(at, ".visible");
        s->weak |= begins(at, ".weak") || begins(at, ".common");
        if (begins(at, ".global") || begins(at, ".const") ||
            begins(at, ".shared") || begins(at, ".tex"))
            s->rank = RANK_VARIABLE;
        at += *at == '.';
        at = skip_blank(skip_token(at));
    }
    if (function)
        s->rank = end[-1] == '}' ? RANK_FUNCTION : RANK_DECLARATION;
}

static bool has_function(const char *at)
{
    for (; *at == '.' || isdigit((unsigned char)*at);
         at = skip_blank(skip_token(at + (*at == '.'))))
        if (begins(at, ".func") || begins(at, ".entry"))
            return true;
    return false;
}

static spt_status add(linker *l, const statement *s)
{
    if (!spt_grow(&l->items, &l->room, l->count + 1, sizeof *l->items))
        return spt_fail(l->err, SPT_E_MEMORY, "link: out of memory");
    l->items[l->count++] = *s;
    return SPT_OK;
}

static spt_status take_apart(linker *l, const sim_link_part *part, size_t index)
{
    const char *at = skip_blank(part->text);
    while (*at) {
        const char *header = take_header(l, at);
        bool line = begins(at, ".file");
        const char *end =
            header ? header
            : line ? at + strcspn(at, "\n")
                   : find_end(at, has_function(at) || begins(at, ".section"));
        if (!end)
            return spt_fail(l->err, SPT_E_FORMAT,
                            "link: part %zu: \"%.30s\" has no end", index + 1,
                            at);
        statement s = {.text = at, .size = (size_t)(end - at), .part = index};
        if (line)
            s.rank = RANK_DECLARATION;
        else if (!header)
            read_start(&s);
        /* Debug sections speak of one part's labels. */
        if (!header && !begins(at, ".section"))
            SPT_TRY(add(l, &s));
        at = skip_blank(end);
    }
    return SPT_OK;
}

/* --- putting together --------------------------------------------------- */

static bool same_name(const statement *a, const statement *b)
{
    return a->name_size && a->name_size == b->name_size &&
           !memcmp(a->name, b->name, a->name_size);
}

static bool is_local(const statement *s)
{
    return s->name_size && s->rank != RANK_OTHER && !s->external && !s->weak &&
           !s->visible && !s->entry;
}

/* Whether another statement makes this one superfluous. */
static bool is_dropped(const linker *l, size_t i)
{
    const statement *s = &l->items[i];
    bool declares = s->rank == RANK_DECLARATION || s->external;
    for (size_t k = 0; k < l->count; k++) {
        const statement *o = &l->items[k];
        if (k == i || !same_name(o, s) || (is_local(s) && o->part != s->part) ||
            (is_local(o) && o->part != s->part))
            continue;
        bool defines = o->rank != RANK_DECLARATION && !o->external;
        if (declares && !defines && k < i)
            return true; /* declared already */
        if (declares && defines && s->rank == RANK_VARIABLE)
            return true;
        if (!declares && defines && s->weak && (!o->weak || k < i))
            return true;
    }
    return false;
}

static void find_renamed(linker *l)
{
    for (size_t i = 0; i < l->count; i++) {
        statement *s = &l->items[i];
        for (size_t k = 0; is_local(s) && !s->renamed && k < l->count; k++)
            s->renamed = l->items[k].part < s->part &&
                         l->items[k].rank != RANK_OTHER &&
                         same_name(&l->items[k], s);
    }
}

static bool is_renamed(const linker *l, size_t part, const statement *word)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].renamed && l->items[i].part == part &&
            same_name(&l->items[i], word))
            return true;
    return false;
}

/* A statement with its part's names and file numbers. */
static void write_statement(const linker *l, const statement *s, spt_buf *out)
{
    const char *at = s->text, *end = s->text + s->size;
    bool file = false;
    while (at < end) {
        const char *next = skip_token(at);
        statement word = {.name = at, .name_size = (size_t)(next - at)};
        bool plain = at == s->text || (at[-1] != '.' && at[-1] != '%');
        if (file && isdigit((unsigned char)*at)) {
            spt_buf_printf(out, "%lu",
                           strtoul(at, NULL, 10) + FILES_PER_PART * s->part);
            file = false;
        } else if (plain && is_word((unsigned char)*at) &&
                   is_renamed(l, s->part, &word)) {
            spt_buf_printf(out, "%.*s__part%zu", (int)word.name_size, at,
                           s->part + 1);
        } else {
            spt_buf_add(out, at, word.name_size);
        }
        if (is_word((unsigned char)*at))
            file = begins(at, "inlined_at") ||
                   (!plain && (begins(at, "loc") || begins(at, "file")));
        at = next;
    }
    spt_buf_puts(out, "\n");
}

spt_status sim_link(const sim_link_part *parts, size_t n_parts, spt_buf *out,
                    spt_error *err)
{
    linker l = {.err = err};
    spt_status status = SPT_OK;
    for (size_t i = 0; status == SPT_OK && i < n_parts; i++)
        status = take_apart(&l, &parts[i], i);
    if (status == SPT_OK && !l.target_text)
        status = spt_fail(err, SPT_E_FORMAT, "link: no part has a .target");
    if (status == SPT_OK) {
        find_renamed(&l);
        spt_buf_printf(out, ".version %u.%u\n%.*s\n.address_size 64\n",
                       l.version / 10, l.version % 10, (int)l.target_size,
                       l.target_text);
        for (int r = 0; r < RANKS; r++)
            for (size_t i = 0; i < l.count; i++)
                if (l.items[i].rank == (rank)r && !is_dropped(&l, i))
                    write_statement(&l, &l.items[i], out);
        spt_buf_add(out, "", 1);
        if (out->failed)
            status = spt_fail(err, SPT_E_MEMORY, "link: out of memory");
    }
    spt_free(l.items);
    return status;
}
