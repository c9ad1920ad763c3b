/* N-gram drafts (runtime/kernels/ngram.h) for `spectune prove`. */
#include "ngram.h"
#include "operator.h"

enum { TOKENS, START, LENGTH, WANT, DRAFT, COUNT, MATCH, DRAFT_STRIDE = 19 };

/* Row s's history: short ones at first, then random up to `length`. */
static size_t length_at(const spt_op_case *c, size_t place)
{
    size_t most = (size_t)spt_op_int(c, "length");
    if (place < 4)
        return place < most ? place : most;
    return place == 4 ? most
                      : spt_op_random(c, "length", place, 0) % (most + 1);
}

static spt_op_buffer *add_numbers(spt_op_case *c, const char *name,
                                  spt_element type, spt_role role, size_t width)
{
    spt_op_buffer *b = spt_op_add(c, name, type, role, true, c->rows, width);
    b->stride = width;
    return b;
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t most = (size_t)spt_op_int(c, "length");
    int64_t words = spt_op_int(c, "vocabulary");
    if (spt_op_int(c, "max_match") < spt_op_int(c, "min_match"))
        return spt_fail(err, SPT_E_USAGE,
                        "max_match=%lld: expected at least min_match",
                        (long long)spt_op_int(c, "max_match"));
    spt_op_buffer *tokens = spt_op_add(c, "tokens", SPT_ELEMENT_I32,
                                       SPT_ROLE_IN, true, c->rows, most);
    spt_op_fill_int(c, tokens, 0, words - 1);
    spt_op_buffer *start =
        add_numbers(c, "start", SPT_ELEMENT_I64, SPT_ROLE_IN, 1);
    spt_op_buffer *length =
        add_numbers(c, "length", SPT_ELEMENT_I32, SPT_ROLE_IN, 1);
    for (size_t row = 0; row < c->rows && !c->failed; row++) {
        spt_op_set(start, row, 0, (double)(row * tokens->stride));
        spt_op_set(length, row, 0, (double)length_at(c, c->first + row));
    }
    spt_op_fill_int(c, add_numbers(c, "want", SPT_ELEMENT_I32, SPT_ROLE_IN, 1),
                    0, DRAFT_STRIDE - 3);
    size_t matches = (size_t)spt_op_int(c, "matches");
    spt_op_buffer *draft = spt_op_add(c, "draft", SPT_ELEMENT_I32, SPT_ROLE_OUT,
                                      true, c->rows, matches * DRAFT_STRIDE);
    draft->stride = matches * DRAFT_STRIDE;
    add_numbers(c, "count", SPT_ELEMENT_I32, SPT_ROLE_OUT, matches);
    add_numbers(c, "match", SPT_ELEMENT_I32, SPT_ROLE_OUT, matches);
    return SPT_OK;
}

static double token(const spt_op_case *c, size_t row, size_t i)
{
    return spt_op_get(&c->buffers[TOKENS], row, i);
}

typedef struct match {
    size_t end, size;
} match;

/* The match that ends there; size 0: none that counts. */
static match match_at(const spt_op_case *c, size_t row, size_t length,
                      size_t end)
{
    size_t size = 0, most = (size_t)spt_op_int(c, "max_match");
    while (size < most && size < end &&
           token(c, row, end - 1 - size) == token(c, row, length - 1 - size))
        size++;
    return (match){end, size < (size_t)spt_op_int(c, "min_match") ? 0 : size};
}

static bool is_new(const spt_op_case *c, size_t row, const match *found,
                   size_t n, size_t end)
{
    for (size_t i = 0; i < n; i++)
        if (token(c, row, found[i].end) == token(c, row, end))
            return false;
    return true;
}

/* The matches as the header defines them; how many. */
static size_t find(const spt_op_case *c, size_t row, size_t length,
                   match *found)
{
    size_t wanted = (size_t)spt_op_int(c, "matches"), n = 0;
    match best = {0};
    for (size_t e = 1; spt_op_int(c, "longest") && e < length; e++) {
        match m = match_at(c, row, length, e);
        best = m.size && m.size >= best.size ? m : best;
    }
    if (best.size)
        found[n++] = best;
    for (size_t e = length; e > 1 && n < wanted; e--) {
        match m = match_at(c, row, length, e - 1);
        if (m.size && is_new(c, row, found, n, m.end))
            found[n++] = m;
    }
    return n;
}

static void expect_match(spt_op_case *c, size_t row, size_t i, size_t length,
                         const match *m)
{
    size_t want = (size_t)spt_op_get(&c->buffers[WANT], row, 0);
    size_t follow = length - m->end, count = 0;
    if (m->size)
        count = spt_op_int(c, "extend") || want < follow ? want : follow;
    for (size_t j = 0; j < count; j++)
        spt_op_expect_exactly(&c->buffers[DRAFT], row, i * DRAFT_STRIDE + j,
                              token(c, row, m->end + j % follow));
    spt_op_expect_exactly(&c->buffers[COUNT], row, i, (double)count);
    spt_op_expect_exactly(&c->buffers[MATCH], row, i, (double)m->size);
}

static void reference(spt_op_case *c)
{
    for (size_t row = 0; row < c->rows; row++) {
        size_t length = (size_t)spt_op_get(&c->buffers[LENGTH], row, 0);
        match found[SPT_NGRAM_MATCHES] = {0};
        find(c, row, length, found);
        for (size_t i = 0; i < (size_t)spt_op_int(c, "matches"); i++)
            expect_match(c, row, i, length, &found[i]);
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_ngram_args args = {
        .tokens = at[TOKENS],
        .start = at[START],
        .length = at[LENGTH],
        .want = at[WANT],
        .draft = at[DRAFT],
        .count = at[COUNT],
        .match = at[MATCH],
        .draft_stride = DRAFT_STRIDE,
        .matches = (int32_t)spt_op_int(c, "matches"),
        .min_match = (int32_t)spt_op_int(c, "min_match"),
        .max_match = (int32_t)spt_op_int(c, "max_match"),
        .longest = (int32_t)spt_op_int(c, "longest"),
        .extend = (int32_t)spt_op_int(c, "extend"),
    };
    return spt_ngram_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                            err);
}

const spt_operator spt_op_ngram = {
    .name = "ngram",
    .values = {{"length", 700, 1, 1 << 20, "tokens of the longest history"},
               {"vocabulary", 3, 1, 1 << 20, "different tokens"},
               {"min_match", 2, 1, 1024, "tokens of the shortest match"},
               {"max_match", 5, 1, 1024, "tokens of the longest match"},
               {"longest", 0, 0, 1, "1: the longest match, else the last"},
               {"matches", 1, 1, SPT_NGRAM_MATCHES, "different ones to find"},
               {"extend", 0, 0, 1, "1: drafts go on past the end"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
