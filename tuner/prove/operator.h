/*
 * Operators: what `spectune prove NAME` proves in one way.
 *
 * An operator is a template, a table of run-time values (rows, strides, ...)
 * and three functions: make fills the buffers of a case with numbers,
 * reference says what the results are and how far off they may be, launch
 * enqueues the kernel. To add one: a row in operators.def, a file op_NAME.c
 * with `const spt_operator spt_op_NAME`, problems in
 * tests/kernels/operators.txt.
 *
 * A case can be a part of the whole, rows [first, first + rows) of it. Numbers
 * depend on their place in the whole alone, so a part gives the same bits for
 * the same row, which the proof checks with ==.
 */
#ifndef SPT_OPERATOR_H
#define SPT_OPERATOR_H

#include "launch.h"
#include "proof.h"

typedef enum spt_element {
#define SPT_ELEMENT(name, bytes) SPT_ELEMENT_##name,
#include "elements.def"
#undef SPT_ELEMENT
} spt_element;

typedef enum spt_role {
    SPT_ROLE_IN,
    SPT_ROLE_OUT, /* poisoned before the launch */
    SPT_ROLE_BOTH, /* data before the launch, compared after it */
} spt_role;

enum { SPT_OP_BUFFERS = 20, SPT_OP_VALUES = 20 };

/* One device buffer: (rows, width) elements, rows `stride` elements apart. */
typedef struct spt_op_buffer {
    const char *name;
    spt_element type;
    spt_role role;
    bool by_row; /* its rows are the case's; else it is whole in every part */
    size_t rows, width;
    size_t stride; /* at least width; what lies between is guarded */
    char *data; /* (rows, width), packed: before the launch */
    double *expect, *bound; /* (rows, width) of results; see spt_op_expect */
    size_t *origin; /* (rows): their places in the whole; NULL: first + row */
} spt_op_buffer;

typedef struct spt_op_case {
    const struct spt_operator *op;
    spt_config values; /* of the template's problem, and of the run */
    size_t first, rows; /* the part of the whole */
    const spt_config *kernel; /* config of the kernel that is launched */
    int n_buffers;
    spt_op_buffer buffers[SPT_OP_BUFFERS];
    spt_arena arena;
    bool failed; /* out of memory once */
} spt_op_case;

/* A run-time value, an integer. */
typedef struct spt_op_value {
    const char *name;
    int64_t fallback, min, max;
    const char *doc;
} spt_op_value;

typedef struct spt_operator {
    const char *name; /* of the template */
    spt_op_value values[SPT_OP_VALUES]; /* ends with a NULL name */
    spt_status (*make)(spt_op_case *c, spt_error *err);
    void (*reference)(spt_op_case *c);
    /* at[i]: device address of buffer i's first row. */
    spt_status (*launch)(const spt_driver *driver, const spt_function *kernel,
                         const spt_op_case *c, const CUdeviceptr *at,
                         CUstream stream, spt_error *err);
} spt_operator;

/* Every operator has these values too; see operator.c. */
#define SPT_OP_COMMON_VALUES 4

#define SPT_OPERATOR(name) extern const spt_operator spt_op_##name;
#include "operators.def"
#undef SPT_OPERATOR

/* NULL when there is none of that name. index: NULL past the last. */
const spt_operator *spt_operator_find(const char *name);
const spt_operator *spt_operator_at(size_t index);

/* The run-time value of that name, common ones included; or NULL. */
const spt_op_value *spt_operator_value(const spt_operator *op,
                                       const char *name);
/* Value i, common ones first; NULL past the last. */
const spt_op_value *spt_operator_value_at(const spt_operator *op, size_t i);

/*
 * Completes the values of a run that were given: by the fallbacks of the
 * others, and by those of a kernel's config that no run-time value is named
 * like.
 */
void spt_op_complete(const spt_operator *op, const spt_config *config,
                     spt_config *values);

size_t spt_element_bytes(spt_element type);
/* The element type that a template calls "fp32", "bf16" or "fp16". */
spt_element spt_element_of(const char *name);

/* Values of a case. */
int64_t spt_op_int(const spt_op_case *c, const char *name);
const char *spt_op_text(const spt_op_case *c, const char *name);

/*
 * Adds a buffer of zeros; one by row has the stride that the values pad and
 * far ask for. Never NULL: when memory is short the case is `failed` and the
 * buffer has no rows.
 */
spt_op_buffer *spt_op_add(spt_op_case *c, const char *name, spt_element type,
                          spt_role role, bool by_row, size_t rows,
                          size_t width);

/* The stride of buffers by row, for one that is not. */
void spt_op_spread(const spt_op_case *c, spt_op_buffer *buffer);

/* Normal-like numbers times scale. */
void spt_op_fill(const spt_op_case *c, spt_op_buffer *buffer, double scale);
/* Whole numbers from low to high. */
void spt_op_fill_int(const spt_op_case *c, spt_op_buffer *buffer, int64_t low,
                     int64_t high);
/* 64 random bits that belong to a place of the whole. */
uint64_t spt_op_random(const spt_op_case *c, const char *name, size_t row,
                       size_t i);

double spt_op_get(const spt_op_buffer *buffer, size_t row, size_t i);
/* Rounded to the buffer's type. */
void spt_op_set(spt_op_buffer *buffer, size_t row, size_t i, double value);

/*
 * Result (row, i) is value within bound, before it is rounded to the buffer's
 * type, whose roundoff is added here. What no call names must stay as it was.
 */
void spt_op_expect(spt_op_buffer *buffer, size_t row, size_t i, double value,
                   double bound);

/* Result (row, i) is this number, which the buffer's type has. */
void spt_op_expect_exactly(spt_op_buffer *buffer, size_t row, size_t i,
                           double value);

/* A case of rows [first, first + rows), freed by spt_op_case_free. */
spt_status spt_op_case_make(const spt_operator *op, const spt_config *values,
                            size_t first, size_t rows, spt_op_case *c,
                            spt_error *err);
void spt_op_case_free(spt_op_case *c);

/*
 * Proves kernels of one operator for a problem; proofs has count entries.
 * Results are compared with the reference, with the same rows in smaller
 * parts, and between kernels of one reduction key.
 */
spt_status spt_op_prove(spt_machine *machine, const spt_operator *op,
                        const spt_config *values, const spt_built *built,
                        size_t count, spt_proof *proofs, spt_error *err);

#endif
