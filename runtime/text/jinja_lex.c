/*
 * A template's tokens. White space around tags goes here: "-" inside a tag
 * strips all of it on that side; a block tag takes the newline after it
 * (trim_blocks) and the blanks before it on its line (lstrip_blocks).
 */
#include <string.h>

#include "jinja_int.h"

typedef struct lexer {
    jinja *j;
    const char *text;
    size_t size, at;
    int line, room;
} lexer;

static void add(lexer *l, jinja_kind kind, const char *text, size_t size)
{
    jinja *j = l->j;
    if (j->count == l->room) {
        int room = l->room ? 2 * l->room : 256;
        jinja_token *larger =
            spt_arena_alloc(&j->arena, (size_t)room, sizeof *larger);
        if (!larger) {
            spt_jinja_fail(j, SPT_E_MEMORY, "out of memory");
            return;
        }
        if (j->count)
            memcpy(larger, j->tokens, (size_t)j->count * sizeof *larger);
        j->tokens = larger;
        l->room = room;
    }
    j->tokens[j->count++] = (jinja_token){kind, l->line, {text, size}};
}

static void advance(lexer *l, size_t bytes)
{
    for (; bytes && l->at < l->size; bytes--)
        l->line += l->text[l->at++] == '\n';
}

static bool starts(const lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return l->size - at >= n && memcmp(l->text + at, word, n) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' ||
           c == '\v';
}

/* The text up to the next tag, less what the tag strips before itself. */
static void read_text(lexer *l)
{
    size_t end = l->at;
    while (end < l->size && !starts(l, end, "{{") && !starts(l, end, "{%") &&
           !starts(l, end, "{#"))
        end++;
    size_t kept = end;
    if (end < l->size && end + 2 < l->size && l->text[end + 2] == '-') {
        while (kept > l->at && is_blank(l->text[kept - 1]))
            kept--;
    } else if (end < l->size && l->text[end + 1] != '{' &&
               !(end + 2 < l->size && l->text[end + 2] == '+')) {
        while (kept > l->at &&
               (l->text[kept - 1] == ' ' || l->text[kept - 1] == '\t'))
            kept--;
        if (kept > 0 && l->text[kept - 1] != '\n')
            kept = end;
    }
    if (kept > l->at)
        add(l, JINJA_TEXT, l->text + l->at, kept - l->at);
    advance(l, end - l->at);
}

/* After a tag's end: what it strips behind itself. */
static void strip_after(lexer *l, bool all, bool newline)
{
    while (all && l->at < l->size && is_blank(l->text[l->at]))
        advance(l, 1);
    if (!all && newline && l->at < l->size && l->text[l->at] == '\n')
        advance(l, 1);
}

static void read_comment(lexer *l)
{
    while (l->at < l->size && !starts(l, l->at, "#}"))
        advance(l, 1);
    if (l->at == l->size) {
        spt_jinja_fail(l->j, SPT_E_FORMAT, "a comment without its end");
        return;
    }
    bool all = l->text[l->at - 1] == '-';
    advance(l, 2);
    strip_after(l, all, true);
}

static char escaped(char c)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *at = c ? strchr(from, c) : NULL;
    return at ? to[at - from] : c;
}

static void read_string(lexer *l)
{
    char quote = l->text[l->at];
    size_t n = 0, begin = l->at + 1, end = begin;
    while (end < l->size && l->text[end] != quote)
        end += l->text[end] == '\\' ? 2 : 1;
    char *text = end < l->size
                     ? spt_arena_alloc(&l->j->arena, end - begin + 1, 1)
                     : NULL;
    if (!text) {
        spt_jinja_fail(l->j, SPT_E_FORMAT, "a string without its end");
        return;
    }
    for (size_t i = begin; i < end; i++)
        text[n++] = l->text[i] == '\\' ? escaped(l->text[++i]) : l->text[i];
    add(l, JINJA_STRING, text, n);
    advance(l, end + 1 - l->at);
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (c >= '0' && c <= '9');
}

static void read_word(lexer *l)
{
    bool number = l->text[l->at] >= '0' && l->text[l->at] <= '9';
    size_t end = l->at;
    while (end < l->size &&
           (in_name(l->text[end]) ||
            (number && l->text[end] == '.' && end + 1 < l->size &&
             l->text[end + 1] >= '0' && l->text[end + 1] <= '9')))
        end++;
    add(l, number ? JINJA_NUMBER : JINJA_NAME, l->text + l->at, end - l->at);
    advance(l, end - l->at);
}

static void read_operator(lexer *l)
{
    static const char *const ops[] = {
        "==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "|",
        ".",  ",",  ":",  "(",  ")",  "[",  "]", "{", "}", "<", ">", "=",
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (starts(l, l->at, ops[i])) {
            add(l, JINJA_OP, ops[i], strlen(ops[i]));
            advance(l, strlen(ops[i]));
            return;
        }
    spt_jinja_fail(l->j, SPT_E_FORMAT, "a character that no tag has: 0x%02X",
                   (unsigned)(unsigned char)l->text[l->at]);
}

/* What is inside a tag, up to and with its end. */
static void read_tag(lexer *l, bool block)
{
    const char *close = block ? "%}" : "}}";
    int braces = 0;
    add(l, block ? JINJA_TAG : JINJA_OUT, l->text + l->at, 2);
    advance(l, 2);
    if (l->at < l->size && (l->text[l->at] == '-' || l->text[l->at] == '+'))
        advance(l, 1);
    while (l->j->status == SPT_OK) {
        while (l->at < l->size && is_blank(l->text[l->at]))
            advance(l, 1);
        if (l->at == l->size) {
            spt_jinja_fail(l->j, SPT_E_FORMAT, "a tag without its end");
            return;
        }
        char c = l->text[l->at];
        bool minus = c == '-' && starts(l, l->at + 1, close);
        if (!braces && (minus || starts(l, l->at, close))) {
            advance(l, minus ? 3 : 2);
            add(l, JINJA_CLOSE, close, 2);
            strip_after(l, minus, block);
            return;
        }
        braces += (c == '{') - (c == '}');
        if (c == '"' || c == '\'')
            read_string(l);
        else if (in_name(c))
            read_word(l);
        else
            read_operator(l);
    }
}

spt_status spt_jinja_lex(jinja *j, const char *text, size_t size)
{
    lexer l = {.j = j, .text = text, .size = size, .line = 1};
    /* One newline at the end of a template is not part of it. */
    if (l.size && text[l.size - 1] == '\n')
        l.size--;
    while (l.at < l.size && j->status == SPT_OK) {
        if (starts(&l, l.at, "{#"))
            read_comment(&l);
        else if (starts(&l, l.at, "{%") || starts(&l, l.at, "{{"))
            read_tag(&l, l.text[l.at + 1] == '%');
        else
            read_text(&l);
    }
    add(&l, JINJA_END, "", 0);
    return j->status;
}
