#include "ptx_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Longer words and numbers than this are refused. */
enum { LEX_MAX_TOKEN = 8192, LEX_MAX_NUMBER = 64 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '$' || c == '%';
}

static bool is_word(char c)
{
    return is_digit(c) || (c != '%' && is_start(c));
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static size_t left(const ptx_lexer *lexer)
{
    return (size_t)(lexer->end - lexer->at);
}

static spt_status fail(const ptx_lexer *lexer, const char *what)
{
    return spt_fail(lexer->err, SPT_E_FORMAT, "PTX line %u: %s", lexer->line,
                    what);
}

/* Skips white space and comments. */
static spt_status skip_space(ptx_lexer *lexer)
{
    while (lexer->at < lexer->end) {
        const char *at = lexer->at;
        if (*at == '\n') {
            lexer->line++;
            lexer->at++;
        } else if (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\f' ||
                   *at == '\v') {
            lexer->at++;
        } else if (*at == '/' && left(lexer) > 1 && at[1] == '/') {
            const char *eol = memchr(at, '\n', left(lexer));
            lexer->at = eol ? eol : lexer->end;
        } else if (*at == '/' && left(lexer) > 1 && at[1] == '*') {
            lexer->at += 2;
            while (left(lexer) > 1 &&
                   !(lexer->at[0] == '*' && lexer->at[1] == '/'))
                lexer->line += *lexer->at++ == '\n';
            if (left(lexer) < 2)
                return fail(lexer, "comment is not closed");
            lexer->at += 2;
        } else {
            break;
        }
    }
    return SPT_OK;
}

/* 0f3F800000 and 0d3FF0000000000000 */
static spt_status lex_bits(ptx_lexer *lexer, ptx_token *token)
{
    int digits = (lexer->at[1] | 32) == 'f' ? 8 : 16;
    lexer->at += 2;
    for (int i = 0; i < digits; i++) {
        int digit = lexer->at < lexer->end ? hex_digit(*lexer->at) : 99;
        if (digit > 15)
            return fail(lexer, "floating-point constant has too few digits");
        token->bits = token->bits << 4 | (unsigned)digit;
        lexer->at++;
    }
    token->kind = PTX_TOKEN_FLOAT;
    token->size = (uint8_t)(digits / 2);
    return SPT_OK;
}

static spt_status lex_integer(ptx_lexer *lexer, ptx_token *token, int base)
{
    token->kind = PTX_TOKEN_INTEGER;
    const char *from = lexer->at;
    while (lexer->at < lexer->end) {
        int digit = hex_digit(*lexer->at);
        if (digit >= base)
            break;
        if (token->bits > (UINT64_MAX - (unsigned)digit) / (unsigned)base)
            return fail(lexer, "integer constant is larger than 64 bits");
        token->bits = token->bits * (unsigned)base + (unsigned)digit;
        lexer->at++;
    }
    if (lexer->at == from)
        return fail(lexer, "integer constant has no digits");
    if (lexer->at < lexer->end && (*lexer->at | 32) == 'u') {
        token->is_unsigned = true;
        lexer->at++;
    }
    return SPT_OK;
}

/* A decimal number with a point or an exponent: as a double. */
static spt_status lex_decimal(ptx_lexer *lexer, ptx_token *token, size_t length)
{
    char text[LEX_MAX_NUMBER + 1];
    if (length > LEX_MAX_NUMBER)
        return fail(lexer, "number is too long");
    memcpy(text, lexer->at, length);
    text[length] = 0;
    char *end;
    double number = strtod(text, &end);
    if (end != text + length)
        return fail(lexer, "malformed number");
    memcpy(&token->bits, &number, sizeof number);
    token->kind = PTX_TOKEN_FLOAT;
    lexer->at += length;
    return SPT_OK;
}

static spt_status lex_number(ptx_lexer *lexer, ptx_token *token)
{
    const char *at = lexer->at;
    char second = left(lexer) > 1 ? (char)(at[1] | 32) : 0;
    if (*at == '0' && (second == 'f' || second == 'd'))
        return lex_bits(lexer, token);
    if (*at == '0' && (second == 'x' || second == 'b')) {
        lexer->at += 2;
        return lex_integer(lexer, token, second == 'x' ? 16 : 2);
    }
    size_t length = 0;
    bool real = false;
    while (length < left(lexer)) {
        char c = at[length];
        bool exponent = (c | 32) == 'e';
        if (!is_digit(c) && c != '.' && !exponent)
            break;
        real |= c == '.' || exponent;
        length++;
        if (exponent && length < left(lexer) &&
            (at[length] == '+' || at[length] == '-'))
            length++;
    }
    if (real)
        return lex_decimal(lexer, token, length);
    bool octal = *at == '0' && left(lexer) > 1 && is_digit(at[1]);
    return lex_integer(lexer, token, octal ? 8 : 10);
}

/* The words after a point, with their "::" parts. */
static const char *dotted_end(const char *at, const char *end)
{
    for (at++; at < end; at++)
        if (!is_word(*at)) {
            if (end - at < 3 || at[0] != ':' || at[1] != ':' || !is_word(at[2]))
                break;
            at++;
        }
    return at;
}

static bool is_component(const char *at, const char *end)
{
    return end - at > 1 && at[0] == '.' && strchr("xyzwrgba", at[1]) && at[1] &&
           (end - at == 2 || !is_word(at[2]));
}

static spt_status lex_string(ptx_lexer *lexer, ptx_token *token)
{
    const char *at = ++lexer->at;
    while (at < lexer->end && *at != '"' && *at != '\n')
        at += *at == '\\' && lexer->end - at > 1 ? 2 : 1;
    if (at >= lexer->end || *at != '"')
        return fail(lexer, "string is not closed");
    token->kind = PTX_TOKEN_STRING;
    token->text = lexer->at;
    token->length = (uint32_t)(at - lexer->at);
    lexer->at = at + 1;
    return SPT_OK;
}

static spt_status lex_punct(ptx_lexer *lexer, ptx_token *token)
{
    static const char pairs[] = "<<>><=>===!=&&||";
    char c = *lexer->at;
    if (!strchr("()[]{}<>,;:=!@+-*/%&|^~?", c) || !c)
        return fail(lexer, "unexpected character");
    token->kind = PTX_TOKEN_PUNCT;
    token->length = 1;
    for (const char *pair = pairs; *pair; pair += 2)
        if (left(lexer) > 1 && pair[0] == c && pair[1] == lexer->at[1])
            token->length = 2;
    lexer->at += token->length;
    return SPT_OK;
}

static void lex_word(ptx_lexer *lexer, ptx_token *token)
{
    const char *at = lexer->at + 1;
    while (at < lexer->end && is_word(*at))
        at++;
    if (*lexer->at == '%' && is_component(at, lexer->end))
        at += 2;
    token->kind = PTX_TOKEN_WORD;
    token->length = (uint32_t)(at - lexer->at);
    lexer->at = at;
}

spt_status ptx_lex_next(ptx_lexer *lexer)
{
    SPT_TRY(skip_space(lexer));
    ptx_token token = {.text = lexer->at, .line = lexer->line};
    const char *at = lexer->at, *end = lexer->end;
    spt_status status = SPT_OK;
    if (at == end) {
        token.kind = PTX_TOKEN_END;
    } else if (is_start(*at) &&
               (*at != '%' || (end - at > 1 && is_word(at[1])))) {
        lex_word(lexer, &token);
    } else if (is_digit(*at)) {
        status = lex_number(lexer, &token);
        token.length = (uint32_t)(lexer->at - at);
    } else if (*at == '.' && end - at > 1 && is_word(at[1])) {
        lexer->at = dotted_end(at, end);
        token.kind = PTX_TOKEN_DOTTED;
        token.length = (uint32_t)(lexer->at - at);
    } else if (*at == '"') {
        status = lex_string(lexer, &token);
    } else {
        status = lex_punct(lexer, &token);
    }
    if (status == SPT_OK && lexer->at - at > LEX_MAX_TOKEN)
        status = fail(lexer, "word is longer than 8192 characters");
    if (status == SPT_OK)
        lexer->token = token;
    return status;
}

spt_status ptx_lex_start(ptx_lexer *lexer, const char *text, size_t size,
                         spt_error *err)
{
    *lexer = (ptx_lexer){.at = text, .end = text + size, .line = 1, .err = err};
    return ptx_lex_next(lexer);
}

void ptx_lex_opcode(ptx_lexer *lexer)
{
    while (left(lexer) > 1 && lexer->at[0] == '.' && is_word(lexer->at[1]))
        lexer->at = dotted_end(lexer->at, lexer->end);
    lexer->token.length = (uint32_t)(lexer->at - lexer->token.text);
}

bool ptx_token_is(const ptx_token *token, const char *text)
{
    return token->kind != PTX_TOKEN_STRING && token->kind != PTX_TOKEN_END &&
           strlen(text) == token->length &&
           !memcmp(token->text, text, token->length);
}

bool ptx_is(const ptx_lexer *lexer, const char *text)
{
    return ptx_token_is(&lexer->token, text);
}

spt_status ptx_expect(ptx_lexer *lexer, const char *text)
{
    const ptx_token *token = &lexer->token;
    if (ptx_is(lexer, text))
        return ptx_lex_next(lexer);
    if (token->kind == PTX_TOKEN_END)
        return spt_fail(lexer->err, SPT_E_FORMAT,
                        "PTX line %u: expected \"%s\" before the end of the "
                        "text",
                        token->line, text);
    int length = token->length < 60 ? (int)token->length : 60;
    return spt_fail(lexer->err, SPT_E_FORMAT,
                    "PTX line %u: expected \"%s\" instead of \"%.*s\"",
                    token->line, text, length, token->text);
}

spt_status ptx_accept(ptx_lexer *lexer, const char *text, bool *found)
{
    *found = ptx_is(lexer, text);
    return *found ? ptx_lex_next(lexer) : SPT_OK;
}
