/*
 * Lane handlers: instructions on 32 lanes at once.
 *
 * The files lanes_*.c are compiled three times: plain, with AVX2 (SIM_AVX2),
 * and with AVX-512 (SIM_AVX512, which has SIM_AVX2 as well); each exports
 * tables of rows (keys, full handler, masked handler). All builds give the
 * same bits. A row of an ops_*.def names its keys: PTX spellings,
 * modifiers in any order. Row kinds, D the destination, A B C the sources:
 *
 *   V1 V2 V3(name, vector, keys, expr)  whole vectors, all of one lane width
 *   L1 L2 L3(name, d, a, b, c, keys, expr)  one lane; types u16 s16 u32 s32
 *                                    u64 s64 f32 f64
 *   P2(name, vector, keys, expr)     vectors to a predicate
 *   Q1 Q2(name, a, b, keys, expr)    one lane to a predicate
 */
#ifndef SPT_SIM_ENGINE_LANES_H
#define SPT_SIM_ENGINE_LANES_H

#include <string.h>

#include "engine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct sim_lane_op {
    const char *keys;
    sim_handler full, masked;
} sim_lane_op;

typedef struct sim_lane_table {
    const sim_lane_op *ops;
    size_t count;
} sim_lane_table;

#if defined(SIM_AVX512)
#define SIM_TABLE(name) name##_avx512
#elif defined(SIM_AVX2)
#define SIM_TABLE(name) name##_avx2
#else
#define SIM_TABLE(name) name##_plain
#endif

#define SIM_LANE_TABLES(X) X(int) X(float) X(convert) X(move)
#define SIM_DECLARE_TABLES(name)                          \
    extern const sim_lane_table sim_lanes_##name##_plain; \
    extern const sim_lane_table sim_lanes_##name##_avx2;  \
    extern const sim_lane_table sim_lanes_##name##_avx512;
SIM_LANE_TABLES(SIM_DECLARE_TABLES)
SIM_DECLARE_TABLES(memory)
SIM_DECLARE_TABLES(copy)
SIM_DECLARE_TABLES(shuffle)
SIM_DECLARE_TABLES(mma)
#undef SIM_DECLARE_TABLES

/* Rows without keys, of this processor's build: decode_memory.c knows them. */
const sim_lane_table *sim_lanes_memory(void);
const sim_lane_table *sim_lanes_copy(void);
const sim_lane_table *sim_lanes_shuffle(void);
const sim_lane_table *sim_lanes_mma(void);

#define SIM_VECTOR(type) \
    typedef type __attribute__((vector_size(32), may_alias))
SIM_VECTOR(uint32_t) v8u;
SIM_VECTOR(int32_t) v8s;
SIM_VECTOR(float) v8f;
SIM_VECTOR(uint64_t) v4u;
SIM_VECTOR(int64_t) v4s;
SIM_VECTOR(double) v4d;
typedef float v4f __attribute__((vector_size(16), may_alias));

#define SIM_COUNT_v8u 4
#define SIM_COUNT_v8s 4
#define SIM_COUNT_v8f 4
#define SIM_COUNT_v4u 8
#define SIM_COUNT_v4s 8
#define SIM_COUNT_v4d 8
#define SIM_BITS_v8u v8u
#define SIM_BITS_v8s v8u
#define SIM_BITS_v8f v8u
#define SIM_BITS_v4u v4u
#define SIM_BITS_v4s v4u
#define SIM_BITS_v4d v4u
#define SIM_LANES_v8u 8
#define SIM_LANES_v8s 8
#define SIM_LANES_v8f 8
#define SIM_LANES_v4u 4
#define SIM_LANES_v4s 4
#define SIM_LANES_v4d 4

#ifdef __clang__
#define SIM_UNROLL _Pragma("unroll")
#else
#define SIM_UNROLL _Pragma("GCC unroll 8")
#endif

/* Lanes of a vector that a mask's bits from lane i * lanes on name. */
#define SIM_MASK_v8u(bits, i)                    \
    ((v8u)((((v8u){0} + ((bits) >> (8 * (i)))) & \
            (v8u){1, 2, 4, 8, 16, 32, 64, 128}) != 0))
#define SIM_MASK_v8s SIM_MASK_v8u
#define SIM_MASK_v8f SIM_MASK_v8u
#define SIM_MASK_v4u(bits, i) \
    ((v4u)((((v4u){0} + ((bits) >> (4 * (i)))) & (v4u){1, 2, 4, 8}) != 0))
#define SIM_MASK_v4s SIM_MASK_v4u
#define SIM_MASK_v4d SIM_MASK_v4u

/* m ? x : y, m all ones or all zeros in each lane. With AVX-512 it is one
   instruction as it stands, and gcc 12 gets the other one wrong. */
#if defined(SIM_AVX2) && !defined(SIM_AVX512)
#define SIM_BLEND(T, m, x, y) \
    ((T)_mm256_blendv_epi8((__m256i)(T)(y), (__m256i)(T)(x), (__m256i)(m)))
#else
#define SIM_BLEND(T, m, x, y)                         \
    ((T)(((SIM_BITS_##T)(m) & (SIM_BITS_##T)(T)(x)) | \
         (~(SIM_BITS_##T)(m) & (SIM_BITS_##T)(T)(y))))
#endif

/* One bit per lane of a comparison's result. */
#ifdef SIM_AVX2
#define SIM_MOVEMASK8(m) ((uint32_t)_mm256_movemask_ps((__m256)(m)))
#define SIM_MOVEMASK4(m) ((uint32_t)_mm256_movemask_pd((__m256d)(m)))
#else
#define SIM_MOVEMASK8(m)                            \
    __extension__({                                 \
        v8s m_ = (v8s)(m);                          \
        uint32_t bits_ = 0;                         \
        for (int k_ = 0; k_ < 8; k_++)              \
            bits_ |= ((uint32_t)m_[k_] & 1u) << k_; \
        bits_;                                      \
    })
#define SIM_MOVEMASK4(m)                            \
    __extension__({                                 \
        v4s m_ = (v4s)(m);                          \
        uint32_t bits_ = 0;                         \
        for (int k_ = 0; k_ < 4; k_++)              \
            bits_ |= ((uint32_t)m_[k_] & 1u) << k_; \
        bits_;                                      \
    })
#endif
#define SIM_MOVEMASK_v8u SIM_MOVEMASK8
#define SIM_MOVEMASK_v8s SIM_MOVEMASK8
#define SIM_MOVEMASK_v8f SIM_MOVEMASK8
#define SIM_MOVEMASK_v4u SIM_MOVEMASK4
#define SIM_MOVEMASK_v4s SIM_MOVEMASK4
#define SIM_MOVEMASK_v4d SIM_MOVEMASK4

#define SIM_HANDLER(name)                                        \
    static const sim_insn *name(const sim_insn *in, sim_warp *w, \
                                uint8_t *regs, uint32_t exec)
#define SIM_NEXT_FULL return in[1].full(in + 1, w, regs, exec)
#define SIM_NEXT_MASKED return in[1].masked(in + 1, w, regs, exec)

/* How lanes of a C type are stored and read. */
#define SIM_STORE_u16 uint32_t
#define SIM_STORE_s16 uint32_t
#define SIM_STORE_u32 uint32_t
#define SIM_STORE_s32 int32_t
#define SIM_STORE_f32 float
#define SIM_STORE_u64 uint64_t
#define SIM_STORE_s64 int64_t
#define SIM_STORE_f64 double
#define SIM_TYPE_u16 uint16_t
#define SIM_TYPE_s16 int16_t
#define SIM_TYPE_u32 uint32_t
#define SIM_TYPE_s32 int32_t
#define SIM_TYPE_f32 float
#define SIM_TYPE_u64 uint64_t
#define SIM_TYPE_s64 int64_t
#define SIM_TYPE_f64 double
#define SIM_PUT_u16(x) ((uint32_t)(uint16_t)(x))
#define SIM_PUT_s16(x) ((uint32_t)(uint16_t)(x))
#define SIM_PUT_u32(x) ((uint32_t)(x))
#define SIM_PUT_s32(x) ((int32_t)(x))
#define SIM_PUT_f32(x) (x)
#define SIM_PUT_u64(x) ((uint64_t)(x))
#define SIM_PUT_s64(x) ((int64_t)(x))
#define SIM_PUT_f64(x) (x)
#define SIM_WIDE_u16 v8u
#define SIM_WIDE_s16 v8u
#define SIM_WIDE_u32 v8u
#define SIM_WIDE_s32 v8u
#define SIM_WIDE_f32 v8u
#define SIM_WIDE_u64 v4u
#define SIM_WIDE_s64 v4u
#define SIM_WIDE_f64 v4u

#define SIM_CAT_(a, b) a##b
#define SIM_CAT(a, b) SIM_CAT_(a, b)

/* Copies a result of 32 lanes to slot d; T is v8u or v4u. */
#define SIM_COPY_FULL(T, tmp)                                          \
    do {                                                               \
        T *d_ = (T *)(void *)(regs + in->d);                           \
        const T *t_ = (const T *)(const void *)(tmp);                  \
        SIM_UNROLL for (int i_ = 0; i_ < SIM_CAT(SIM_COUNT_, T); i_++) \
            d_[i_] = t_[i_];                                           \
    } while (0)
#define SIM_COPY_MASKED(T, tmp)                                                \
    do {                                                                       \
        T *d_ = (T *)(void *)(regs + in->d);                                   \
        const T *t_ = (const T *)(const void *)(tmp);                          \
        SIM_UNROLL for (int i_ = 0; i_ < SIM_CAT(SIM_COUNT_, T); i_++)         \
            d_[i_] =                                                           \
                SIM_BLEND(T, SIM_CAT(SIM_MASK_, T)(exec, i_), t_[i_], d_[i_]); \
    } while (0)

#define SIM_DEFINE_V(name, T, result)                                      \
    SIM_HANDLER(name##_full)                                               \
    {                                                                      \
        T *d_ = (T *)(void *)(regs + in->d);                               \
        SIM_UNROLL for (int i_ = 0; i_ < SIM_COUNT_##T; i_++)              \
        {                                                                  \
            const T A = ((const T *)(const void *)(regs + in->a))[i_];     \
            const T B = ((const T *)(const void *)(regs + in->b))[i_];     \
            const T C = ((const T *)(const void *)(regs + in->c))[i_];     \
            (void)A, (void)B, (void)C;                                     \
            d_[i_] = (T)(result);                                          \
        }                                                                  \
        SIM_NEXT_FULL;                                                     \
    }                                                                      \
    SIM_HANDLER(name##_masked)                                             \
    {                                                                      \
        T *d_ = (T *)(void *)(regs + in->d);                               \
        SIM_UNROLL for (int i_ = 0; i_ < SIM_COUNT_##T; i_++)              \
        {                                                                  \
            const T A = ((const T *)(const void *)(regs + in->a))[i_];     \
            const T B = ((const T *)(const void *)(regs + in->b))[i_];     \
            const T C = ((const T *)(const void *)(regs + in->c))[i_];     \
            (void)A, (void)B, (void)C;                                     \
            d_[i_] =                                                       \
                SIM_BLEND(T, SIM_MASK_##T(exec, i_), (T)(result), d_[i_]); \
        }                                                                  \
        SIM_NEXT_MASKED;                                                   \
    }

#define SIM_DEFINE_L(name, Td, Ta, Tb, Tc, result)                   \
    static inline __attribute__((always_inline)) void name##_lanes(  \
        const sim_insn *in, const uint8_t *regs, SIM_STORE_##Td *to) \
    {                                                                \
        const SIM_STORE_##Ta *a_ = (const void *)(regs + in->a);     \
        const SIM_STORE_##Tb *b_ = (const void *)(regs + in->b);     \
        const SIM_STORE_##Tc *c_ = (const void *)(regs + in->c);     \
        for (int l_ = 0; l_ < SIM_LANES; l_++) {                     \
            const SIM_TYPE_##Ta A = (SIM_TYPE_##Ta)a_[l_];           \
            const SIM_TYPE_##Tb B = (SIM_TYPE_##Tb)b_[l_];           \
            const SIM_TYPE_##Tc C = (SIM_TYPE_##Tc)c_[l_];           \
            (void)A, (void)B, (void)C;                               \
            to[l_] = SIM_PUT_##Td(result);                           \
        }                                                            \
    }                                                                \
    SIM_HANDLER(name##_full)                                         \
    {                                                                \
        SIM_STORE_##Td tmp[SIM_LANES] __attribute__((aligned(32)));  \
        name##_lanes(in, regs, tmp);                                 \
        SIM_COPY_FULL(SIM_WIDE_##Td, tmp);                           \
        SIM_NEXT_FULL;                                               \
    }                                                                \
    SIM_HANDLER(name##_masked)                                       \
    {                                                                \
        SIM_STORE_##Td tmp[SIM_LANES] __attribute__((aligned(32)));  \
        name##_lanes(in, regs, tmp);                                 \
        SIM_COPY_MASKED(SIM_WIDE_##Td, tmp);                         \
        SIM_NEXT_MASKED;                                             \
    }

#define SIM_DEFINE_P(name, T, result)                                  \
    static inline __attribute__((always_inline))                       \
    uint32_t name##_lanes(const sim_insn *in, const uint8_t *regs)     \
    {                                                                  \
        uint32_t bits = 0;                                             \
        SIM_UNROLL for (int i_ = 0; i_ < SIM_COUNT_##T; i_++)          \
        {                                                              \
            const T A = ((const T *)(const void *)(regs + in->a))[i_]; \
            const T B = ((const T *)(const void *)(regs + in->b))[i_]; \
            (void)B;                                                   \
            bits |= SIM_MOVEMASK_##T(result) << (i_ * SIM_LANES_##T);  \
        }                                                              \
        return bits;                                                   \
    }                                                                  \
    SIM_PREDICATE_HANDLERS(name)

#define SIM_DEFINE_Q(name, Ta, Tb, result)                         \
    static inline __attribute__((always_inline))                   \
    uint32_t name##_lanes(const sim_insn *in, const uint8_t *regs) \
    {                                                              \
        uint32_t bits = 0;                                         \
        const SIM_STORE_##Ta *a_ = (const void *)(regs + in->a);   \
        const SIM_STORE_##Tb *b_ = (const void *)(regs + in->b);   \
        for (int l_ = 0; l_ < SIM_LANES; l_++) {                   \
            const SIM_TYPE_##Ta A = (SIM_TYPE_##Ta)a_[l_];         \
            const SIM_TYPE_##Tb B = (SIM_TYPE_##Tb)b_[l_];         \
            (void)B;                                               \
            bits |= (uint32_t) !!(result) << l_;                   \
        }                                                          \
        return bits;                                               \
    }                                                              \
    SIM_PREDICATE_HANDLERS(name)

#define SIM_PREDICATE_HANDLERS(name)                                 \
    SIM_HANDLER(name##_full)                                         \
    {                                                                \
        SIM_PRED(in->d) = name##_lanes(in, regs);                    \
        SIM_NEXT_FULL;                                               \
    }                                                                \
    SIM_HANDLER(name##_masked)                                       \
    {                                                                \
        uint32_t bits = name##_lanes(in, regs);                      \
        SIM_PRED(in->d) = (SIM_PRED(in->d) & ~exec) | (bits & exec); \
        SIM_NEXT_MASKED;                                             \
    }

#define SIM_ROW(name, keys) {keys, name##_full, name##_masked},

/* Pass 1 of an ops_*.def defines the handlers, pass 2 the table's rows. */
#endif
