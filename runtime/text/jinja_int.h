/* How a template is run: tokens, values, the state of a run. */
#ifndef SPT_JINJA_INT_H
#define SPT_JINJA_INT_H

#include "jinja.h"

typedef enum jinja_kind {
    JINJA_TEXT, /* outside of tags */
    JINJA_OUT, /* {{ */
    JINJA_TAG, /* {% */
    JINJA_CLOSE, /* }} or %} */
    JINJA_NAME,
    JINJA_STRING, /* text has its escapes resolved */
    JINJA_NUMBER,
    JINJA_OP,
    JINJA_END,
} jinja_kind;

typedef struct jinja_token {
    jinja_kind kind;
    int line;
    spt_text text;
} jinja_token;

typedef struct jinja_variable {
    spt_text name;
    const cJSON *value;
    int depth; /* of the scope that it was set in */
} jinja_variable;

/* A macro: where its parameters and its body begin. */
typedef struct jinja_macro {
    spt_text name;
    int parameters, body;
} jinja_macro;

enum {
    JINJA_MACROS = 64,
    JINJA_VARIABLES = 256,
    JINJA_DEPTH = 64, /* of expressions and blocks */
    JINJA_NESTED = 32, /* lists and objects in each other */
    JINJA_ARGS = 8,
    JINJA_STEPS = 2000000, /* tokens that a run may visit */
    JINJA_BYTES = 64 << 20, /* that its values and text may have */
};

typedef enum jinja_flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } jinja_flow;

typedef struct jinja {
    const char *name;
    spt_arena arena; /* tokens, resolved strings */
    jinja_token *tokens;
    int count;
    int at;
    bool live; /* what is parsed is also done */
    jinja_flow flow;
    int depth; /* of scopes */
    int nesting; /* of C calls */
    long steps;
    size_t bytes;
    const cJSON *context;
    jinja_variable variables[JINJA_VARIABLES];
    int variable_count;
    jinja_macro macros[JINJA_MACROS];
    int macro_count;
    cJSON *values; /* an array that owns every value made here */
    spt_buf *out;
    spt_status status;
    spt_error *err;
} jinja;

/* Arguments of a call or filter; named ones have a name. */
typedef struct jinja_args {
    const cJSON *values[JINJA_ARGS];
    spt_text names[JINJA_ARGS];
    int count;
} jinja_args;

/* jinja_lex.c: fills j->tokens. */
spt_status spt_jinja_lex(jinja *j, const char *text, size_t size);

/* Sets the first failure, "name: line N: ...", and ends the run; NULL. */
const cJSON *spt_jinja_fail(jinja *j, spt_status status, const char *fmt, ...)
    SPT_PRINTF(3, 4);

/* jinja_value.c. Made values live until the run ends. */
const cJSON *spt_jinja_keep(jinja *j, cJSON *value, size_t bytes);
/* Whether the value may go into a list or an object: what it weighs counts
   against the run's limits, and it does not nest too deep. */
bool spt_jinja_holds(jinja *j, const cJSON *value);
const cJSON *spt_jinja_text(jinja *j, const char *text, size_t size);
const cJSON *spt_jinja_number(jinja *j, double number);
const cJSON *spt_jinja_bool(jinja *j, bool value);
bool spt_jinja_true(const cJSON *value);
bool spt_jinja_equal(const cJSON *a, const cJSON *b);
bool spt_jinja_contains(jinja *j, const cJSON *in, const cJSON *value);
void spt_jinja_print(const cJSON *value, spt_buf *out);
/* The text of a value that is one; else NULL. */
const char *spt_jinja_chars(const cJSON *value);
/* Items of a list, keys of an object, characters of a text, as a list. */
const cJSON *spt_jinja_items(jinja *j, const cJSON *value);
const cJSON *spt_jinja_slice(jinja *j, const cJSON *value, const cJSON *from,
                             const cJSON *to, const cJSON *step);
const cJSON *spt_jinja_index(jinja *j, const cJSON *value, const cJSON *index);

/* jinja_call.c: by name; unknown ones fail the run. */
const cJSON *spt_jinja_filter(jinja *j, spt_text name, const cJSON *value,
                              const jinja_args *args);
const cJSON *spt_jinja_method(jinja *j, spt_text name, const cJSON *value,
                              const jinja_args *args);
const cJSON *spt_jinja_function(jinja *j, spt_text name,
                                const jinja_args *args);
bool spt_jinja_is_function(spt_text name);
bool spt_jinja_test(jinja *j, spt_text name, const cJSON *value,
                    const jinja_args *args);

/* jinja_expr.c. */
const cJSON *spt_jinja_expression(jinja *j);
/* Without the conditional form: what stands after `in` of a for. */
const cJSON *spt_jinja_condition(jinja *j);

/* jinja_run.c. */
const cJSON *spt_jinja_variable(const jinja *j, spt_text name);
void spt_jinja_set(jinja *j, spt_text name, const cJSON *value);

/* NULL: there is none of that name. Its text with these arguments. */
const jinja_macro *spt_jinja_macro(const jinja *j, spt_text name);
const cJSON *spt_jinja_call_macro(jinja *j, const jinja_macro *macro,
                                  const jinja_args *args);

/* Tokens: the next one; whether it is that operator or word; taking it. */
const jinja_token *spt_jinja_peek(const jinja *j);
const jinja_token *spt_jinja_take(jinja *j);
bool spt_jinja_is(const jinja *j, const char *text);
bool spt_jinja_accept(jinja *j, const char *text);
void spt_jinja_expect(jinja *j, const char *text);

#endif
