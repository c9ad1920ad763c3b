/* Rows of stored weights with random numbers, for operators. */
#ifndef SPT_OP_WEIGHTS_H
#define SPT_OP_WEIGHTS_H

#include "operator.h"
#include "weight.h"

/*
 * Adds a buffer of rows of `width` weights of a type that decodes, as a file
 * has them. size: of a block's scales, or of plain numbers.
 */
spt_op_buffer *spt_op_add_weights(spt_op_case *c, const char *name,
                                  spt_weight_type type, size_t rows,
                                  size_t width, double size);

/* Adds those weights decoded, as fp32. */
spt_op_buffer *spt_op_add_decoded(spt_op_case *c, const char *name,
                                  spt_weight_type type, int weights,
                                  size_t width);

#endif
