/*
 * The matrix unit: D = A * B + C on the registers of one warp.
 *
 * A k-group is added as a tree: products of neighbouring k are paired, pairs
 * are paired, and so on; C is added last. Products of the 16-bit and smaller
 * formats and of tf32 are exact in fp32 (but for underflow), each sum is one
 * fp32 addition rounded to nearest even. NaN results are 0x7fffffff.
 */
#ifndef SPT_SIM_LANES_MMA_H
#define SPT_SIM_LANES_MMA_H

#include <stdbool.h>
#include <stdint.h>

/* Element formats: SIM_MMA_ELEMENT(name, bits, is_float). */
#define SIM_MMA_ELEMENTS(X) \
    X(F16, 16, 1)           \
    X(BF16, 16, 1)          \
    X(TF32, 32, 1)          \
    X(E4M3, 8, 1)           \
    X(E5M2, 8, 1)           \
    X(E2M3, 8, 1)           \
    X(E3M2, 8, 1)           \
    X(E2M1, 8, 1)           \
    X(S8, 8, 0)             \
    X(U8, 8, 0)             \
    X(S4, 4, 0)             \
    X(U4, 4, 0)             \
    X(B1, 1, 0)             \
    X(F64, 64, 1)

typedef enum sim_mma_element {
#define SIM_MMA_ENUM(name, bits, is_float) SIM_MMA_##name,
    SIM_MMA_ELEMENTS(SIM_MMA_ENUM)
#undef SIM_MMA_ENUM
        SIM_MMA_ELEMENT_COUNT
} sim_mma_element;

typedef struct sim_mma {
    uint8_t a, b; /* sim_mma_element */
    uint8_t m, k; /* rows of A: 8 or 16; n is 8. k - 1 is stored */
    bool c_half, d_half; /* accumulators are packed f16 */
    bool saturate; /* .satfinite of the integer forms */
    bool xor_popc; /* of B1: xor instead of and */
} sim_mma;

/*
 * Registers are arrays of 32 lanes (uint64_t for F64, else uint32_t), 32-byte
 * aligned, in the order of the instruction's vectors. d may overlap c or a.
 */
typedef void sim_mma_function(const sim_mma *mma, void *const *d,
                              const void *const *a, const void *const *b,
                              const void *const *c);
/* The element of a ptx_type, or -1. In access_matrix.c. */
int sim_mma_element_of(unsigned type);

sim_mma_function sim_mma_plain, sim_mma_avx2, sim_mma_avx512;

#endif
