/* Acceptance (runtime/kernels/accept_path.h) for `spectune prove accept`. */
#include "accept_path.h"
#include "operator.h"
#include "tree.h"

enum { Q_START, DRAFT, TARGET, PARENT, PATH, TEXT, COUNT };

/* Few tokens, so that drafts are often right. */
enum { TOKENS = 3 };

static size_t block_size(const spt_op_case *c, size_t row)
{
    uint64_t most = (uint64_t)spt_op_int(c, "tokens") + 1;
    return (size_t)(spt_op_random(c, "size", c->first + row, 0) % most);
}

static spt_op_buffer *add_flat(spt_op_case *c, const char *name, size_t rows)
{
    return spt_op_add(c, name, SPT_ELEMENT_I32, SPT_ROLE_IN, false, rows, 1);
}

/* A token, now and then one that is none. */
static double token_of(uint64_t bits)
{
    return bits % 4 == 0 ? -1 : (double)((bits >> 4) % TOKENS);
}

static void fill_blocks(spt_op_case *c)
{
    size_t token = 0;
    for (size_t row = 0; row < c->rows; row++) {
        size_t place = c->first + row, nodes = block_size(c, row);
        spt_op_set(&c->buffers[Q_START], row, 0, (double)token);
        for (size_t i = 0; i < nodes; i++, token++) {
            uint64_t bits = spt_op_random(c, "parent", place, i);
            spt_op_set(&c->buffers[DRAFT], token, 0,
                       token_of(spt_op_random(c, "draft", place, i)));
            spt_op_set(&c->buffers[TARGET], token, 0,
                       token_of(spt_op_random(c, "target", place, i)));
            spt_op_set(&c->buffers[PARENT], token, 0,
                       i ? (double)(bits % i) : -1);
        }
    }
    spt_op_set(&c->buffers[Q_START], c->rows, 0, (double)token);
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    size_t tokens = 0;
    (void)err;
    for (size_t row = 0; row < c->rows; row++)
        tokens += block_size(c, row);
    add_flat(c, "q_start", c->rows + 1);
    add_flat(c, "draft", tokens);
    add_flat(c, "target", tokens);
    add_flat(c, "parent", tokens);
    spt_op_add(c, "path", SPT_ELEMENT_I32, SPT_ROLE_OUT, true, c->rows,
               SPT_TREE_NODES);
    spt_op_add(c, "text", SPT_ELEMENT_I32, SPT_ROLE_OUT, true, c->rows,
               SPT_TREE_NODES);
    spt_op_add(c, "count", SPT_ELEMENT_I32, SPT_ROLE_OUT, true, c->rows, 1)
        ->stride = 1;
    if (!c->failed)
        fill_blocks(c);
    return SPT_OK;
}

/* The first child of node `at` that is the target's token there; 0: none. */
static size_t next_of(const spt_op_case *c, size_t first, size_t nodes,
                      size_t at)
{
    double token = spt_op_get(&c->buffers[TARGET], first + at, 0);
    for (size_t i = at + 1; i < nodes; i++) {
        double parent = spt_op_int(c, "tree")
                            ? spt_op_get(&c->buffers[PARENT], first + i, 0)
                            : (double)i - 1;
        if (parent == (double)at && token >= 0 &&
            spt_op_get(&c->buffers[DRAFT], first + i, 0) == token)
            return i;
    }
    return 0;
}

static void reference(spt_op_case *c)
{
    for (size_t row = 0; row < c->rows; row++) {
        size_t first = (size_t)spt_op_get(&c->buffers[Q_START], row, 0);
        size_t nodes = block_size(c, row), at = 0, n = 0;
        while (nodes) {
            spt_op_expect_exactly(&c->buffers[PATH], row, n, (double)at);
            spt_op_expect_exactly(
                &c->buffers[TEXT], row, n,
                spt_op_get(&c->buffers[TARGET], first + at, 0));
            n++;
            at = next_of(c, first, nodes, at);
            if (!at)
                break;
        }
        spt_op_expect_exactly(&c->buffers[COUNT], row, 0, (double)n);
    }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_accept_args args = {
        .q_start = at[Q_START],
        .draft = at[DRAFT],
        .target = at[TARGET],
        .parent = at[PARENT],
        .path = at[PATH],
        .text = at[TEXT],
        .count = at[COUNT],
        .path_stride = (int32_t)c->buffers[PATH].stride,
    };
    return spt_accept_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                             err);
}

const spt_operator spt_op_accept = {
    .name = "accept",
    .values = {{"tokens", 9, 0, SPT_TREE_NODES,
                "of the largest draft block, the anchor included"}},
    .make = make,
    .reference = reference,
    .launch = launch,
};
