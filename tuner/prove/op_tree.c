/* Draft trees (runtime/kernels/tree.h) for `spectune prove`. */
#include "op_sequences.h"

enum { PARENT, TREE_OUT, DEPTH, SHAPE };

/* Of the given random trees, the parents; some are wrong with `broken`. */
static void add_parents(spt_op_case *c, const spt_op_sequences *s)
{
    spt_op_buffer *b = spt_op_add(c, "parent", SPT_ELEMENT_I32, SPT_ROLE_IN,
                                  true, s->n_tokens, 1);
    b->stride = 1;
    size_t token = 0;
    for (size_t row = 0; row < c->rows && !c->failed; row++)
        for (size_t i = 0; i < s->tokens[row]; i++, token++) {
            uint64_t random = spt_op_random(c, "node", c->first + row, i);
            double parent = i ? (double)(random % i) : -1;
            if (spt_op_int(c, "broken") && random >> 32 & 1)
                parent = (double)((int64_t)(random >> 40 & 63) - 16);
            spt_op_set(b, token, 0, parent);
        }
}

static void add_result(spt_op_case *c, const spt_op_sequences *s,
                       const char *name, spt_element type)
{
    spt_op_buffer *b =
        spt_op_add(c, name, type, SPT_ROLE_OUT, true, s->n_tokens, 1);
    b->stride = 1;
    b->origin = s->origin;
}

static spt_status make(spt_op_case *c, spt_error *err)
{
    spt_op_sequences s;
    SPT_TRY(spt_op_sequences_make(c, &s, err));
    add_parents(c, &s);
    add_result(c, &s, "tree", SPT_ELEMENT_U32);
    add_result(c, &s, "depth", SPT_ELEMENT_I32);
    s.token_elements = s.stride = 1; /* there is no cache */
    spt_op_sequences_add(c, &s);
    return SPT_OK;
}

static void reference(spt_op_case *c)
{
    for (size_t s = 0; s < c->rows; s++)
        for (size_t i = 0; i < spt_op_tokens(c, SHAPE, s); i++) {
            uint32_t mask = UINT32_C(1) << i;
            int at = (int)i;
            for (;;) {
                size_t token = spt_op_token(c, SHAPE, s, (size_t)at);
                int parent = (int)spt_op_get(&c->buffers[PARENT], token, 0);
                if (parent < 0 || parent >= at)
                    break;
                mask |= UINT32_C(1) << parent;
                at = parent;
            }
            size_t token = spt_op_token(c, SHAPE, s, i);
            spt_op_expect_exactly(&c->buffers[TREE_OUT], token, 0, mask);
            spt_op_expect_exactly(&c->buffers[DEPTH], token, 0,
                                  __builtin_popcount(mask) - 1);
        }
}

static spt_status launch(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err)
{
    const spt_tree_args args = {
        .q_start = at[SHAPE + SPT_OP_Q_START],
        .parent = at[PARENT],
        .tree = at[TREE_OUT],
        .depth = at[DEPTH],
    };
    return spt_tree_launch(driver, kernel, &args, (int64_t)c->rows, stream,
                           err);
}

const spt_operator spt_op_tree = {
    .name = "tree",
    .values = {{"broken", 0, 0, 1, "1: some parents are wrong"},
               SPT_OP_SEQUENCE_VALUES},
    .make = make,
    .reference = reference,
    .launch = launch,
};
