/*
 * Constant expressions of PTX: C's operators on 64-bit integers and doubles.
 */
#include <math.h>
#include <string.h>

#include "ptx_parse.h"

static spt_status expression(ptx_parser *parser, int lowest, uint32_t depth,
                             ptx_value *value);

static double real_of(const ptx_value *value)
{
    double number;
    float single;
    uint32_t bits = (uint32_t)value->bits;
    if (!value->real)
        return value->is_unsigned ? (double)value->bits
                                  : (double)(int64_t)value->bits;
    if (value->size == 4) {
        memcpy(&single, &bits, sizeof single);
        return single;
    }
    memcpy(&number, &value->bits, sizeof number);
    return number;
}

static void set_real(ptx_value *value, double number)
{
    value->real = true;
    value->size = 0;
    memcpy(&value->bits, &number, sizeof number);
}

static void set_integer(ptx_value *value, uint64_t bits, bool is_unsigned)
{
    *value = (ptx_value){.bits = bits, .is_unsigned = is_unsigned};
}

/* (.s64) x, (.u64) x or ( x ) */
static spt_status parenthesis(ptx_parser *parser, uint32_t depth,
                              ptx_value *value)
{
    SPT_TRY(ptx_expect(&parser->lex, "("));
    bool is_signed = ptx_is(&parser->lex, ".s64");
    if (is_signed || ptx_is(&parser->lex, ".u64")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(ptx_expect(&parser->lex, ")"));
        SPT_TRY(expression(parser, 11, depth + 1, value));
        if (value->real)
            return ptx_fail(parser, "only integers are cast in constants");
        value->is_unsigned = !is_signed;
        return SPT_OK;
    }
    SPT_TRY(expression(parser, 0, depth + 1, value));
    return ptx_expect(&parser->lex, ")");
}

static spt_status negate(ptx_parser *parser, uint32_t depth, ptx_value *value)
{
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(expression(parser, 11, depth + 1, value));
    if (!value->real)
        value->bits = 0 - value->bits;
    else
        value->bits ^= value->size == 4 ? 1ull << 31 : 1ull << 63;
    return SPT_OK;
}

static spt_status unary(ptx_parser *parser, uint32_t depth, ptx_value *value)
{
    const ptx_token *token = &parser->lex.token;
    if (depth > PTX_MAX_DEPTH)
        return ptx_fail(parser, "constant expression is nested too deeply");
    if (ptx_is(&parser->lex, "("))
        return parenthesis(parser, depth, value);
    if (ptx_is(&parser->lex, "-"))
        return negate(parser, depth, value);
    if (ptx_is(&parser->lex, "+")) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        return expression(parser, 11, depth + 1, value);
    }
    bool flip = ptx_is(&parser->lex, "~"), no = ptx_is(&parser->lex, "!");
    if (flip || no) {
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(expression(parser, 11, depth + 1, value));
        if (value->real)
            return ptx_fail(parser, "~ and ! need an integer");
        set_integer(value, no ? !value->bits : ~value->bits,
                    value->is_unsigned);
        return SPT_OK;
    }
    *value = (ptx_value){.bits = token->bits};
    if (ptx_is(&parser->lex, "WARP_SZ")) {
        value->bits = 32;
    } else if (token->kind == PTX_TOKEN_FLOAT) {
        value->real = true;
        value->size = token->size;
    } else if (token->kind == PTX_TOKEN_INTEGER) {
        value->is_unsigned =
            token->is_unsigned || token->bits > (uint64_t)INT64_MAX;
    } else {
        return ptx_unexpected(parser, "a constant");
    }
    return ptx_lex_next(&parser->lex);
}

/* Binary operators with C's precedence; "?" is dealt with apart. */
static const struct binary {
    const char *text;
    int level;
    char code;
} binaries[] = {
    {"||", 1, 'o'}, {"&&", 2, 'a'}, {"|", 3, '|'},  {"^", 4, '^'},
    {"&", 5, '&'},  {"==", 6, '='}, {"!=", 6, 'n'}, {"<", 7, '<'},
    {">", 7, '>'},  {"<=", 7, 'l'}, {">=", 7, 'g'}, {"<<", 8, 'L'},
    {">>", 8, 'R'}, {"+", 9, '+'},  {"-", 9, '-'},  {"*", 10, '*'},
    {"/", 10, '/'}, {"%", 10, '%'},
};

static const struct binary *find_binary(const ptx_parser *parser)
{
    if (parser->lex.token.kind != PTX_TOKEN_PUNCT)
        return NULL;
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (ptx_is(&parser->lex, binaries[i].text))
            return &binaries[i];
    return NULL;
}

static bool combine_reals(char code, ptx_value *a, const ptx_value *b)
{
    double x = real_of(a), y = real_of(b);
    switch (code) {
    case '+':
        set_real(a, x + y);
        return true;
    case '-':
        set_real(a, x - y);
        return true;
    case '*':
        set_real(a, x * y);
        return true;
    case '/':
        set_real(a, x / y);
        return true;
    case '=':
        set_integer(a, x == y, false);
        return true;
    case 'n':
        set_integer(a, x != y, false);
        return true;
    case '<':
        set_integer(a, x < y, false);
        return true;
    case '>':
        set_integer(a, x > y, false);
        return true;
    case 'l':
        set_integer(a, x <= y, false);
        return true;
    case 'g':
        set_integer(a, x >= y, false);
        return true;
    default:
        return false;
    }
}

static uint64_t divide(uint64_t x, uint64_t y, bool is_unsigned, bool rest)
{
    int64_t a = (int64_t)x, b = (int64_t)y;
    if (is_unsigned)
        return rest ? x % y : x / y;
    if (b == -1)
        return rest ? 0 : 0 - x;
    return (uint64_t)(rest ? a % b : a / b);
}

static bool less(uint64_t x, uint64_t y, bool is_unsigned)
{
    return is_unsigned ? x < y : (int64_t)x < (int64_t)y;
}

static bool combine_integers(char code, ptx_value *a, const ptx_value *b)
{
    uint64_t x = a->bits, y = b->bits;
    bool u = a->is_unsigned || b->is_unsigned;
    switch (code) {
    case 'o':
        set_integer(a, x || y, false);
        return true;
    case 'a':
        set_integer(a, x && y, false);
        return true;
    case '|':
        set_integer(a, x | y, u);
        return true;
    case '^':
        set_integer(a, x ^ y, u);
        return true;
    case '&':
        set_integer(a, x & y, u);
        return true;
    case '=':
        set_integer(a, x == y, false);
        return true;
    case 'n':
        set_integer(a, x != y, false);
        return true;
    case '<':
        set_integer(a, less(x, y, u), false);
        return true;
    case '>':
        set_integer(a, less(y, x, u), false);
        return true;
    case 'l':
        set_integer(a, !less(y, x, u), false);
        return true;
    case 'g':
        set_integer(a, !less(x, y, u), false);
        return true;
    case 'L':
        set_integer(a, y > 63 ? 0 : x << y, a->is_unsigned);
        return true;
    case 'R':
        y = y > 63 ? 63 : y;
        set_integer(a, a->is_unsigned ? x >> y : (uint64_t)((int64_t)x >> y),
                    a->is_unsigned);
        return true;
    case '+':
        set_integer(a, x + y, u);
        return true;
    case '-':
        set_integer(a, x - y, u);
        return true;
    case '*':
        set_integer(a, x * y, u);
        return true;
    case '/':
    case '%':
        if (y)
            set_integer(a, divide(x, y, u, code == '%'), u);
        return y != 0;
    default:
        return false;
    }
}

static spt_status expression(ptx_parser *parser, int lowest, uint32_t depth,
                             ptx_value *value)
{
    SPT_TRY(unary(parser, depth, value));
    const struct binary *binary;
    while ((binary = find_binary(parser)) && binary->level >= lowest) {
        ptx_value right;
        SPT_TRY(ptx_lex_next(&parser->lex));
        SPT_TRY(expression(parser, binary->level + 1, depth + 1, &right));
        bool real = value->real || right.real;
        if (real ? !combine_reals(binary->code, value, &right)
                 : !combine_integers(binary->code, value, &right))
            return ptx_fail(parser,
                            "constant expression: %s cannot be "
                            "computed here",
                            binary->text);
    }
    if (lowest > 0 || !ptx_is(&parser->lex, "?"))
        return SPT_OK;
    ptx_value yes, no;
    SPT_TRY(ptx_lex_next(&parser->lex));
    SPT_TRY(expression(parser, 0, depth + 1, &yes));
    SPT_TRY(ptx_expect(&parser->lex, ":"));
    SPT_TRY(expression(parser, 0, depth + 1, &no));
    *value = real_of(value) != 0 ? yes : no;
    return SPT_OK;
}

spt_status ptx_constant(ptx_parser *parser, ptx_value *value)
{
    return expression(parser, 0, 0, value);
}

spt_status ptx_count(ptx_parser *parser, uint64_t limit, const char *what,
                     uint64_t *count)
{
    ptx_value value;
    SPT_TRY(ptx_constant(parser, &value));
    if (value.real || value.bits > limit)
        return ptx_fail(parser, "%s must be an integer of at most %llu", what,
                        (unsigned long long)limit);
    *count = value.bits;
    return SPT_OK;
}

static uint64_t float_bits(double number)
{
    float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static uint64_t double_bits(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

bool ptx_value_bits(const ptx_value *value, ptx_type type, uint64_t *bits,
                    const char **why)
{
    uint32_t bytes = ptx_type_bytes(type);
    ptx_kind kind = ptx_type_kind(type);
    if (!value->real) {
        *why = "an integer constant where a floating-point one is expected";
        if (kind == PTX_KIND_FLOAT)
            return false;
        *bits =
            bytes >= 8 ? value->bits : value->bits & ((1ull << 8 * bytes) - 1);
        if (kind == PTX_KIND_PREDICATE)
            *bits = value->bits != 0;
        return true;
    }
    *why = "a floating-point constant where an integer is expected";
    if ((kind != PTX_KIND_FLOAT && kind != PTX_KIND_BITS) ||
        (bytes != 4 && bytes != 8))
        return false;
    if (bytes == 4)
        *bits = value->size == 4 ? value->bits : float_bits(real_of(value));
    else
        *bits = value->size == 8 ? value->bits : double_bits(real_of(value));
    return true;
}
