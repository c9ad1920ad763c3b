/*
 * One element of a matrix product, for the forms that the matrix unit's fast
 * code (lanes_mma.c) does not know: wmma, sparse A, quad pairs.
 */
#ifndef SPT_SIM_ACCESS_DOT_H
#define SPT_SIM_ACCESS_DOT_H

#include "ptx.h"

/* The number in an element's low bits; exact in double for every format. */
double sim_dot_number(unsigned type, uint64_t bits);

/*
 * sum a[i] * b[i] + c as bits of the instruction's D: the k products as a
 * tree, then c. Types, .satfinite and .xor are the instruction's; k is a power
 * of two. A NaN is the canonical one, with .satfinite zero.
 */
uint64_t sim_dot(const ptx_insn *insn, const double *a, const double *b,
                 double c, unsigned k);

#endif
