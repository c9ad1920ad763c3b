/*
 * Selections, predicates, three-input logic and the packing of registers on 32
 * lanes. pack and unpack have no key: a vector operand says which is meant.
 */
#include "engine_lanes.h"

SIM_HANDLER(selp_32_full)
{
    v8u *d = (v8u *)(void *)(regs + in->d);
    const v8u *a = (const v8u *)(const void *)(regs + in->a);
    const v8u *b = (const v8u *)(const void *)(regs + in->b);
    uint32_t p = SIM_PRED(in->c);
    SIM_UNROLL for (int i = 0; i < 4; i++) d[i] =
        SIM_BLEND(v8u, SIM_MASK_v8u(p, i), a[i], b[i]);
    SIM_NEXT_FULL;
}

SIM_HANDLER(selp_32_masked)
{
    v8u *d = (v8u *)(void *)(regs + in->d);
    const v8u *a = (const v8u *)(const void *)(regs + in->a);
    const v8u *b = (const v8u *)(const void *)(regs + in->b);
    uint32_t p = SIM_PRED(in->c);
    SIM_UNROLL for (int i = 0; i < 4; i++)
    {
        v8u r = SIM_BLEND(v8u, SIM_MASK_v8u(p, i), a[i], b[i]);
        d[i] = SIM_BLEND(v8u, SIM_MASK_v8u(exec, i), r, d[i]);
    }
    SIM_NEXT_MASKED;
}

SIM_HANDLER(selp_64_full)
{
    v4u *d = (v4u *)(void *)(regs + in->d);
    const v4u *a = (const v4u *)(const void *)(regs + in->a);
    const v4u *b = (const v4u *)(const void *)(regs + in->b);
    uint32_t p = SIM_PRED(in->c);
    SIM_UNROLL for (int i = 0; i < 8; i++) d[i] =
        SIM_BLEND(v4u, SIM_MASK_v4u(p, i), a[i], b[i]);
    SIM_NEXT_FULL;
}

SIM_HANDLER(selp_64_masked)
{
    v4u *d = (v4u *)(void *)(regs + in->d);
    const v4u *a = (const v4u *)(const void *)(regs + in->a);
    const v4u *b = (const v4u *)(const void *)(regs + in->b);
    uint32_t p = SIM_PRED(in->c);
    SIM_UNROLL for (int i = 0; i < 8; i++)
    {
        v4u r = SIM_BLEND(v4u, SIM_MASK_v4u(p, i), a[i], b[i]);
        d[i] = SIM_BLEND(v4u, SIM_MASK_v4u(exec, i), r, d[i]);
    }
    SIM_NEXT_MASKED;
}

#define DEFINE_PRED(name, expr)                                  \
    SIM_HANDLER(name##_full)                                     \
    {                                                            \
        const uint32_t A = SIM_PRED(in->a), B = SIM_PRED(in->b); \
        (void)B;                                                 \
        SIM_PRED(in->d) = (expr);                                \
        SIM_NEXT_FULL;                                           \
    }                                                            \
    SIM_HANDLER(name##_masked)                                   \
    {                                                            \
        const uint32_t A = SIM_PRED(in->a), B = SIM_PRED(in->b); \
        uint32_t *d = &SIM_PRED(in->d);                          \
        (void)B;                                                 \
        *d = (*d & ~exec) | ((expr)&exec);                       \
        SIM_NEXT_MASKED;                                         \
    }
DEFINE_PRED(and_pred, A &B)
DEFINE_PRED(or_pred, A | B)
DEFINE_PRED(xor_pred, A ^ B)
DEFINE_PRED(not_pred, ~A)

/* Any function of three bits: the sum of the minterms that lut names. */
static inline __attribute__((always_inline)) void
lop3_lanes(const sim_insn *in, const uint8_t *regs, uint32_t *to)
{
    const v8u *a = (const v8u *)(const void *)(regs + in->a);
    const v8u *b = (const v8u *)(const void *)(regs + in->b);
    const v8u *c = (const v8u *)(const void *)(regs + in->c);
    uint32_t lut = (uint32_t)in->src->operands[4].value;
    if (lut == 0xea) { /* the one that packs bit fields */
        for (int i = 0; i < 4; i++)
            ((v8u *)(void *)to)[i] = (a[i] & b[i]) | c[i];
        return;
    }
    for (int i = 0; i < 4; i++) {
        v8u r = {0};
        for (unsigned k = 0; k < 8; k++) {
            if (!(lut >> k & 1))
                continue;
            r |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) &
                 (k & 1 ? c[i] : ~c[i]);
        }
        ((v8u *)(void *)to)[i] = r;
    }
}

static inline __attribute__((always_inline)) void
bfi_lanes(const sim_insn *in, const uint8_t *regs, uint32_t *to)
{
    const uint32_t *a = (const void *)(regs + in->a);
    const uint32_t *b = (const void *)(regs + in->b);
    const uint32_t *c = (const void *)(regs + in->c);
    const uint32_t *n = (const void *)(regs + in->args->arg[4].slot);
    for (int l = 0; l < SIM_LANES; l++) {
        uint32_t at = c[l] & 255, length = n[l] & 255;
        uint64_t keep = length > 31 ? UINT32_MAX : (1u << length) - 1;
        uint32_t mask = at > 31 ? 0 : (uint32_t)(keep << at);
        to[l] = (b[l] & ~mask) | ((at > 31 ? 0 : a[l] << (at & 31)) & mask);
    }
}

#define DEFINE_TMP(name)                                              \
    SIM_HANDLER(name##_full)                                          \
    {                                                                 \
        uint32_t tmp[SIM_LANES] __attribute__((aligned(32)));         \
        name##_lanes(in, regs, tmp);                                  \
        memcpy(regs + in->d, tmp, sizeof tmp);                        \
        SIM_NEXT_FULL;                                                \
    }                                                                 \
    SIM_HANDLER(name##_masked)                                        \
    {                                                                 \
        uint32_t tmp[SIM_LANES] __attribute__((aligned(32)));         \
        name##_lanes(in, regs, tmp);                                  \
        v8u *d = (v8u *)(void *)(regs + in->d);                       \
        const v8u *t = (const v8u *)(const void *)tmp;                \
        for (int i = 0; i < 4; i++)                                   \
            d[i] = SIM_BLEND(v8u, SIM_MASK_v8u(exec, i), t[i], d[i]); \
        SIM_NEXT_MASKED;                                              \
    }
DEFINE_TMP(lop3)
DEFINE_TMP(bfi)

/* Registers of 16 bits lie in lanes of 32. A lane's sources are read before
   its results are written: a slot may be on both sides. */
static inline __attribute__((always_inline)) void
pack_16_lanes(const sim_insn *in, uint8_t *regs, uint32_t exec)
{
    const sim_arg *arg = in->args->arg;
    v8u *d = (v8u *)(void *)(regs + arg[0].slot);
    const v8u *low = (const v8u *)(const void *)(regs + arg[1].slot);
    const v8u *high = (const v8u *)(const void *)(regs + arg[2].slot);
    for (int i = 0; i < 4; i++) {
        v8u r = (low[i] & 0xffffu) | high[i] << 16;
        d[i] = SIM_BLEND(v8u, SIM_MASK_v8u(exec, i), r, d[i]);
    }
}

static inline __attribute__((always_inline)) void
unpack_16_lanes(const sim_insn *in, uint8_t *regs, uint32_t exec)
{
    const sim_arg *arg = in->args->arg;
    v8u *low = (v8u *)(void *)(regs + arg[0].slot);
    v8u *high = (v8u *)(void *)(regs + arg[1].slot);
    const v8u *a = (const v8u *)(const void *)(regs + arg[2].slot);
    for (int i = 0; i < 4; i++) {
        v8u m = SIM_MASK_v8u(exec, i), x = a[i];
        if (!(arg[0].flags & SIM_ARG_SINK))
            low[i] = SIM_BLEND(v8u, m, x & 0xffffu, low[i]);
        if (!(arg[1].flags & SIM_ARG_SINK))
            high[i] = SIM_BLEND(v8u, m, x >> 16, high[i]);
    }
}

static inline __attribute__((always_inline)) void
pack_32_lanes(const sim_insn *in, uint8_t *regs, uint32_t exec)
{
    const sim_arg *arg = in->args->arg;
    uint64_t *d = (void *)(regs + arg[0].slot);
    const uint32_t *low = (const void *)(regs + arg[1].slot);
    const uint32_t *high = (const void *)(regs + arg[2].slot);
    for (int l = 0; l < SIM_LANES; l++) {
        uint64_t r = (uint64_t)high[l] << 32 | low[l];
        d[l] = exec >> l & 1 ? r : d[l];
    }
}

static inline __attribute__((always_inline)) void
unpack_32_lanes(const sim_insn *in, uint8_t *regs, uint32_t exec)
{
    const sim_arg *arg = in->args->arg;
    const uint64_t *a = (const void *)(regs + arg[2].slot);
    for (int half = 0; half < 2; half++) {
        uint32_t *d = (void *)(regs + arg[half].slot);
        if (arg[half].flags & SIM_ARG_SINK)
            continue;
        for (int l = 0; l < SIM_LANES; l++)
            d[l] = exec >> l & 1 ? (uint32_t)(a[l] >> 32 * half) : d[l];
    }
}

#define DEFINE_PACK(name)                                \
    SIM_HANDLER(name##_full)                             \
    {                                                    \
        name##_lanes(in, regs, (uint32_t)SIM_FULL_WARP); \
        SIM_NEXT_FULL;                                   \
    }                                                    \
    SIM_HANDLER(name##_masked)                           \
    {                                                    \
        name##_lanes(in, regs, exec);                    \
        SIM_NEXT_MASKED;                                 \
    }
DEFINE_PACK(pack_16)
DEFINE_PACK(unpack_16)
DEFINE_PACK(pack_32)
DEFINE_PACK(unpack_32)

static const sim_lane_op ops[] = {
    /* In the order of sim_lanes_vector_move. */
    SIM_ROW(pack_16, "") SIM_ROW(unpack_16, "") SIM_ROW(pack_32, "")
        SIM_ROW(unpack_32, "") SIM_ROW(
            selp_32, "selp.b32 selp.u32 selp.s32 selp.f32 selp.b16 selp.u16 "
                     "selp.s16")
            SIM_ROW(selp_64, "selp.b64 selp.u64 selp.s64 selp.f64")
                SIM_ROW(and_pred, "and.pred") SIM_ROW(or_pred, "or.pred")
                    SIM_ROW(xor_pred, "xor.pred") SIM_ROW(not_pred, "not.pred")
                        SIM_ROW(lop3, "lop3.b32") SIM_ROW(bfi, "bfi.b32")};

const sim_lane_table SIM_TABLE(sim_lanes_move) = {ops,
                                                  sizeof ops / sizeof *ops};
