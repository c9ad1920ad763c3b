/*
 * cp.async and ldmatrix without checks and counters, for whole warps; anything
 * out of the ordinary goes to the instruction's sim_op.
 */
#include "lanes_places.h"

typedef uint16_t v8h __attribute__((vector_size(16), may_alias));
typedef uint32_t v4w __attribute__((vector_size(16), may_alias));

/* Lanes that read all their bytes; false: some read a part. */
SIM_INLINE bool whole_sources(const sim_insn *in, const uint8_t *regs,
                              uint32_t bytes, uint32_t exec, uint32_t *whole)
{
    const sim_args *args = in->args;
    uint32_t all = 0, none = 0;
    if (in->src->n_operands < 4) {
        *whole = exec;
        return true;
    }
    const v8u *size = (const void *)(regs + args->arg[args->first[3]].slot);
    for (int i = 0; i < 4; i++) {
        all |= SIM_MOVEMASK8(size[i] >= bytes) << 8 * i;
        none |= SIM_MOVEMASK8(size[i] == 0) << 8 * i;
    }
    *whole = all & exec;
    return !(exec & ~(all | none));
}

/* Where the lanes of exec read; full: all do. */
SIM_INLINE bool find_source(sim_places *p, const sim_insn *in,
                            const sim_warp *w, const uint8_t *regs,
                            uint32_t exec, const bool full,
                            const uint32_t bytes)
{
    const sim_arg *from = &in->args->arg[in->args->first[1]];
    return sim_places_global(p, w, (const void *)(regs + from->slot),
                             (uint64_t)from->offset, exec, full, bytes);
}

SIM_INLINE bool find_target(sim_places *p, const sim_insn *in,
                            const sim_warp *w, const uint8_t *regs,
                            uint32_t exec, const bool full,
                            const uint32_t bytes)
{
    const sim_arg *to = &in->args->arg[0];
    if (to->width == 4)
        return sim_places_shared(p, w, regs + to->slot, 4, (uint64_t)to->offset,
                                 exec, full, bytes, 0);
    return sim_places_shared(p, w, regs + to->slot, 8, (uint64_t)to->offset,
                             exec, full, bytes, 0);
}

/* A copy is done when it is issued, which the rules allow. */
SIM_INLINE bool copy_all(const sim_insn *in, const sim_warp *w,
                         const uint8_t *regs, const uint32_t bytes)
{
    sim_places t, f;
    if (!find_source(&f, in, w, regs, UINT32_MAX, true, bytes) ||
        !find_target(&t, in, w, regs, UINT32_MAX, true, bytes))
        return false;
    SIM_UNROLL for (int l = 0; l < SIM_LANES; l++)
        memcpy(t.host + t.at[l], f.host + f.at[l], bytes);
    return true;
}

/* Lanes of exec; those that are not in whole get zeros. */
SIM_INLINE bool copy_some(const sim_insn *in, const sim_warp *w,
                          const uint8_t *regs, uint32_t exec, uint32_t whole,
                          const uint32_t bytes)
{
    static const uint8_t zeros[16];
    sim_places t, f = {0};
    if ((whole && !find_source(&f, in, w, regs, whole, false, bytes)) ||
        !find_target(&t, in, w, regs, exec, false, bytes))
        return false;
    for (uint32_t rest = exec; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        memcpy(t.host + t.at[l], whole >> l & 1 ? f.host + f.at[l] : zeros,
               bytes);
    }
    return true;
}

SIM_INLINE bool copy(const sim_insn *in, const sim_warp *w, const uint8_t *regs,
                     uint32_t exec, const uint32_t bytes)
{
    uint32_t whole;
    if (!exec || w->cta->watched ||
        !whole_sources(in, regs, bytes, exec, &whole))
        return false;
    if (whole == UINT32_MAX)
        return copy_all(in, w, regs, bytes);
    return copy_some(in, w, regs, exec, whole, bytes);
}

#define COPY(bytes)                                \
    SIM_HANDLER(cp_async_##bytes##_full)           \
    {                                              \
        if (!copy(in, w, regs, UINT32_MAX, bytes)) \
            in->op(in, w, regs, exec);             \
        if (__builtin_expect(w->event != 0, 0))    \
            return in + 1;                         \
        SIM_NEXT_FULL;                             \
    }                                              \
    SIM_HANDLER(cp_async_##bytes##_masked)         \
    {                                              \
        if (!copy(in, w, regs, exec, bytes))       \
            in->op(in, w, regs, exec);             \
        if (__builtin_expect(w->event != 0, 0))    \
            return in + 1;                         \
        SIM_NEXT_MASKED;                           \
    }
COPY(4)
COPY(8)
COPY(16)

/* A matrix of 8 rows of 16 bytes into the 32 lanes of a register. */
SIM_INLINE void matrix_rows(uint32_t *d, const uint8_t *const *row)
{
    for (int r = 0; r < 8; r += 2) {
        v4w x, y;
        memcpy(&x, row[r], 16);
        memcpy(&y, row[r + 1], 16);
        ((v8u *)(void *)d)[r / 2] =
            __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7);
    }
}

#define LOW(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(x, y) __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15)

/* The same transposed: three rounds that interleave rows four apart. */
SIM_INLINE void matrix_columns(uint32_t *d, const uint8_t *const *row)
{
    v8h x[8], y[8];
    SIM_UNROLL for (int r = 0; r < 8; r++) memcpy(&x[r], row[r], 16);
    SIM_UNROLL for (int r = 0; r < 4; r++)
    {
        y[2 * r] = LOW(x[r], x[r + 4]);
        y[2 * r + 1] = HIGH(x[r], x[r + 4]);
    }
    SIM_UNROLL for (int r = 0; r < 4; r++)
    {
        x[2 * r] = LOW(y[r], y[r + 4]);
        x[2 * r + 1] = HIGH(y[r], y[r + 4]);
    }
    SIM_UNROLL for (int r = 0; r < 4; r++)
    {
        y[2 * r] = LOW(x[r], x[r + 4]);
        y[2 * r + 1] = HIGH(x[r], x[r + 4]);
    }
    SIM_UNROLL for (int r = 0; r < 4; r++)((v8u *)(void *)d)[r] =
        __builtin_shufflevector((v4w)y[2 * r], (v4w)y[2 * r + 1], 0, 1, 2, 3, 4,
                                5, 6, 7);
}

SIM_INLINE bool load_matrices(const sim_insn *in, sim_warp *w, uint8_t *regs,
                              const int n, const bool columns)
{
    const sim_arg *arg = in->args->arg, *from = &arg[in->args->first[1]];
    uint32_t lanes = n == 4 ? UINT32_MAX : (1u << 8 * n % 32) - 1;
    sim_places p;
    if (!sim_places_shared(&p, w, regs + from->slot, 4, (uint64_t)in->offset,
                           lanes, n == 4, 16, 0) ||
        (w->cta->watched &&
         !sim_admit(in, w, regs, p.host, p.at, lanes, 16, false)))
        return false;
    for (int i = 0; i < n; i++) {
        const uint8_t *row[8];
        uint32_t *d = SIM_U32(arg[i].slot);
        for (int r = 0; r < 8; r++)
            row[r] = p.host + p.at[8 * i + r];
        if (columns)
            matrix_columns(d, row);
        else
            matrix_rows(d, row);
    }
    return true;
}

/* What some lanes do alone is the business of sim_flow_sync. */
#define MATRICES(n, name, columns)                   \
    SIM_HANDLER(ldmatrix_##name##n##_full)           \
    {                                                \
        bool watched = w->cta->watched;              \
        w->forced = false;                           \
        if (watched)                                 \
            sim_memory_warp_sync(w);                 \
        if (!load_matrices(in, w, regs, n, columns)) \
            in->op(in, w, regs, exec);               \
        if (watched)                                 \
            sim_memory_warp_sync(w);                 \
        if (__builtin_expect(w->event != 0, 0))      \
            return in + 1;                           \
        SIM_NEXT_FULL;                               \
    }
MATRICES(1, x, false)
MATRICES(2, x, false)
MATRICES(4, x, false)
MATRICES(1, trans_x, true)
MATRICES(2, trans_x, true)
MATRICES(4, trans_x, true)

/* In the order of sim_lanes_copy. */
static const sim_lane_op ops[] = {
    SIM_ROW(cp_async_4, "") SIM_ROW(cp_async_8, "")
        SIM_ROW(cp_async_16, ""){"", ldmatrix_x1_full, NULL},
    {"", ldmatrix_x2_full, NULL},
    {"", ldmatrix_x4_full, NULL},
    {"", ldmatrix_trans_x1_full, NULL},
    {"", ldmatrix_trans_x2_full, NULL},
    {"", ldmatrix_trans_x4_full, NULL},
};

const sim_lane_table SIM_TABLE(sim_lanes_copy) = {ops,
                                                  sizeof ops / sizeof *ops};
