/*
 * PTX text to tokens, one at a time, without copies: a token's text points
 * into the input, which must outlive it.
 */
#ifndef SPT_PTX_LEX_H
#define SPT_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

typedef enum ptx_token_kind {
    PTX_TOKEN_END,
    PTX_TOKEN_WORD, /* identifier, register, opcode without its suffixes */
    PTX_TOKEN_DOTTED, /* .reg, .u32, .shared::cta */
    PTX_TOKEN_INTEGER, /* bits */
    PTX_TOKEN_FLOAT, /* bits: of a float (size 4) or a double (size 8) */
    PTX_TOKEN_STRING, /* text without its quotes */
    PTX_TOKEN_PUNCT, /* one character, or one of << >> <= >= == != && || */
} ptx_token_kind;

typedef struct ptx_token {
    ptx_token_kind kind;
    const char *text;
    uint32_t length;
    uint32_t line;
    uint64_t bits;
    uint8_t size; /* of a float: 4 or 8; 0 = decimal, bits are double */
    bool is_unsigned; /* integer with suffix U */
} ptx_token;

typedef struct ptx_lexer {
    const char *at, *end;
    uint32_t line;
    ptx_token token; /* the current one */
    spt_error *err;
} ptx_lexer;

/* Starts and reads the first token. */
spt_status ptx_lex_start(ptx_lexer *lexer, const char *text, size_t size,
                         spt_error *err);
spt_status ptx_lex_next(ptx_lexer *lexer);

/*
 * Grows the current word by the dotted suffixes that follow it without a
 * space: "ld" to "ld.global.v4.f32". Only for the first word of a statement.
 */
void ptx_lex_opcode(ptx_lexer *lexer);

/* Whether the current token is this punctuation or word. */
bool ptx_is(const ptx_lexer *lexer, const char *text);
bool ptx_token_is(const ptx_token *token, const char *text);

/* Moves past the current token, which must be text. */
spt_status ptx_expect(ptx_lexer *lexer, const char *text);

/* Moves past the current token when it is text; sets *found. */
spt_status ptx_accept(ptx_lexer *lexer, const char *text, bool *found);

#endif
