/* Rows of logits of many kinds, for operators that read them. */
#ifndef SPT_OP_LOGITS_H
#define SPT_OP_LOGITS_H

#include "operator.h"
#include "sample.h"

/*
 * Adds (rows, vocabulary) logits: normal ones, and rows with ties, NaN,
 * infinities, and nothing above -infinity, by their place in the whole.
 */
spt_op_buffer *spt_op_add_logits(spt_op_case *c, spt_role role);

/* A row's options or results as bytes: one struct of that size a row. */
spt_op_buffer *spt_op_add_structs(spt_op_case *c, const char *name,
                                  spt_role role, size_t bytes);
/* The result has these bytes, from `offset` of the row's struct on. */
void spt_op_expect_bytes(spt_op_buffer *buffer, size_t row, size_t offset,
                         const void *data, size_t bytes);

#define SPT_OP_VOCABULARY                                               \
    {                                                                   \
        "vocabulary", 1000, 1, SPT_SAMPLE_VOCABULARY, "logits of a row" \
    }

#endif
