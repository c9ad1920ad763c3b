/*
 * Linear, templates/linear: for each row, out[n] = sum over k of x[k] * w[n][k]
 * (+ bias[n]) (+ residual[n]); a gated kernel has two matrices and gives
 * act(gate[n]) * up[n], one with `softcap` cap * tanh(out[n] / cap).
 *
 * Weights are packed once, when a model is loaded: the file's blocks in the
 * order in which the matrix unit takes them, no value changed but F32, F16 and
 * BF16, which are rounded to the type of the activations.
 *
 * A row's bits depend on the row, the weights and the kernel's reduction key
 * alone: not on how many rows there are, nor on `rows`, `panels`, `stages`.
 */
#ifndef SPT_LINEAR_H
#define SPT_LINEAR_H

#include "gen.h"
#include "half.h"
#include "launch.h"
#include "weight.h"

typedef enum spt_linear_format {
#define SPT_LINEAR_FORMAT(NAME, name, bits, SCALES, scales, block) \
    SPT_LINEAR_##NAME,
#include "linear_formats.def"
#undef SPT_LINEAR_FORMAT
    SPT_LINEAR_FORMATS,
} spt_linear_format;

/* "q4_1": the value `weight` of the template. */
const char *spt_linear_format_name(spt_linear_format format);

/* The format of a weight type; false: kernels do not have the type. */
bool spt_linear_format_of(spt_weight_type type, spt_linear_format *format);

/* A packed matrix, or two of equal shape for a gated kernel. */
typedef struct spt_linear_shape {
    spt_linear_format format;
    spt_dtype dtype; /* of the activations */
    bool gated;
    int64_t outputs, inputs; /* of one matrix */
} spt_linear_shape;

/* Rows of a matrix as a file has them: (outputs, inputs), no alignment. */
typedef struct spt_linear_part {
    const void *data;
    spt_weight_type type; /* of the shape's format */
    int64_t outputs;
} spt_linear_part;

/* Bytes of the packed matrix, a multiple of 16; and of 16 of its rows. */
size_t spt_linear_bytes(const spt_linear_shape *shape);
size_t spt_linear_panel_bytes(const spt_linear_shape *shape);

/*
 * Packs matrices that stand one below the other (Q, K and V as one), or with
 * `gated` the gate and then the up matrix. packed has spt_linear_bytes and
 * goes to the device as it is, 16-byte aligned. SPT_E_USAGE: types or sizes
 * that do not fit the shape, or a number that the 16-bit type does not have
 * (finite, but beyond its largest).
 */
spt_status spt_linear_pack(const spt_linear_shape *shape,
                           const spt_linear_part *parts, size_t count,
                           void *packed, spt_error *err);

/* Arguments as the kernel takes them (templates/linear.cu). */
typedef struct spt_linear_args {
    CUdeviceptr x; /* (row, inputs) of the kernel's dtype, 16-byte aligned */
    CUdeviceptr weights; /* packed */
    CUdeviceptr bias; /* float (outputs), or 0 */
    CUdeviceptr residual; /* float (row, outputs), or 0; may be out */
    CUdeviceptr out; /* (row, outputs) of the kernel's out_type */
    int64_t x_stride; /* a multiple of 8 */
    int64_t residual_stride, out_stride;
    int32_t outputs, inputs; /* inputs: a multiple of 8 */
    int32_t rows, units; /* filled by the launch */
    float slope; /* filled by the launch */
    float cap; /* above 0, of kernels with `softcap` */
} spt_linear_args;

/* A kernel with what its config says of the launch. */
typedef struct spt_linear_kernel {
    const spt_function *function;
    int rows; /* of x per CTA */
    int panels; /* of 16 outputs per CTA; a gated pair counts as two */
    bool gated;
} spt_linear_kernel;

/* From the values of a kernel of the template (spt_kernel_set_config). */
spt_linear_kernel spt_linear_kernel_of(const spt_function *function,
                                       const spt_config *config);

/*
 * Enqueues the kernel on `rows` rows of x. More rows than the kernel's are
 * done by groups, each of which reads the weights (mostly from L2).
 */
spt_status spt_linear_launch(const spt_driver *driver,
                             const spt_linear_kernel *kernel,
                             const spt_linear_args *args, int64_t rows,
                             CUstream stream, spt_error *err);

#endif
