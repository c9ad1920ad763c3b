/*
 * ld and st without checks and counters, whole warps at once: addresses of all
 * lanes are looked at together (lanes_places.h), rows of lanes are copied, and
 * vectors of registers are transposed on the way. Anything else goes to the
 * instruction's sim_op, which does the same lane by lane.
 */
#include "lanes_places.h"

typedef uint32_t v4w __attribute__((vector_size(16), may_alias));
typedef uint64_t v2w __attribute__((vector_size(16), may_alias));
typedef uint8_t v32b __attribute__((vector_size(32), may_alias, aligned(1)));

#define VECTORS_AT(slot) ((v8u *)(void *)(regs + (slot)))

SIM_INLINE uint32_t read_32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

SIM_INLINE uint64_t read_64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

SIM_INLINE uint16_t read_16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, 2);
    return value;
}

/* Vector i of a slot's lanes; for 64-bit lanes the same by halves. */
SIM_INLINE void put_32(v8u *d, int i, v8u value, uint32_t exec, const bool full)
{
    d[i] = full ? value : SIM_BLEND(v8u, SIM_MASK_v8u(exec, i), value, d[i]);
}

SIM_INLINE void put_64(v8u *d, int i, v4u value, uint32_t exec, const bool full)
{
    v4u *to = (v4u *)d;
    to[i] = full ? value : SIM_BLEND(v4u, SIM_MASK_v4u(exec, i), value, to[i]);
}

#if defined SIM_AVX512 && !defined __SANITIZE_THREAD__
/*
 * Lanes that read within one line of 128 bytes: two registers hold it. Bytes
 * that no lane asked for are read and dropped; another CTA may be writing them,
 * which a thread sanitizer would take for a race.
 */
SIM_INLINE bool load_line(v8u *d, const sim_places *p)
{
    uintptr_t begin = (uintptr_t)p->host + p->at[0];
    begin -= begin & 127;
    uint32_t from = (uint32_t)(begin - (uintptr_t)p->host);
    __m512i at0 = _mm512_sub_epi32(_mm512_load_si512(p->at),
                                   _mm512_set1_epi32((int)from));
    __m512i at1 = _mm512_sub_epi32(_mm512_load_si512(p->at + 16),
                                   _mm512_set1_epi32((int)from));
    __m512i any = _mm512_or_si512(at0, at1);
    if (_mm512_test_epi32_mask(any, _mm512_set1_epi32(~127)) ||
        begin < (uintptr_t)p->host || from + UINT64_C(128) > p->size)
        return false;
    __m512i low = _mm512_load_si512((const void *)begin);
    __m512i high = _mm512_load_si512((const void *)(begin + 64));
    at0 = _mm512_permutex2var_epi32(low, _mm512_srli_epi32(at0, 2), high);
    at1 = _mm512_permutex2var_epi32(low, _mm512_srli_epi32(at1, 2), high);
    _mm512_store_si512(d, at0);
    _mm512_store_si512(d + 2, at1);
    return true;
}
#else
SIM_INLINE bool load_line(v8u *d, const sim_places *p)
{
    (void)d, (void)p;
    return false;
}
#endif

#define LOAD(name)                                                         \
    SIM_INLINE void load_##name(const sim_places *p, const sim_args *args, \
                                uint8_t *regs, uint32_t exec, const bool full)

/* Eight lanes by f, from lane 8 * i on. */
#define EIGHT(f, i)                                                      \
    (v8u)                                                                \
    {                                                                    \
        f(h + a[8 * (i)]), f(h + a[8 * (i) + 1]), f(h + a[8 * (i) + 2]), \
            f(h + a[8 * (i) + 3]), f(h + a[8 * (i) + 4]),                \
            f(h + a[8 * (i) + 5]), f(h + a[8 * (i) + 6]),                \
            f(h + a[8 * (i) + 7])                                        \
    }
#define FOUR(i)                                                      \
    (v4u)                                                            \
    {                                                                \
        read_64(h + a[4 * (i)]), read_64(h + a[4 * (i) + 1]),        \
            read_64(h + a[4 * (i) + 2]), read_64(h + a[4 * (i) + 3]) \
    }

LOAD(8)
{
    const uint8_t *h = p->host;
    const uint32_t *a = p->at;
    v8u *d = VECTORS_AT(args->arg[0].slot);
    for (int i = 0; i < 4; i++)
        put_32(d, i, EIGHT(*, i), exec, full);
}

LOAD(16)
{
    const uint8_t *h = p->host;
    const uint32_t *a = p->at;
    v8u *d = VECTORS_AT(args->arg[0].slot);
    for (int i = 0; i < 4; i++)
        put_32(d, i, EIGHT(read_16, i), exec, full);
}

LOAD(32)
{
    const uint8_t *h = p->host;
    const uint32_t *a = p->at;
    v8u *d = VECTORS_AT(args->arg[0].slot);
    if (full && sim_places_in_a_row(p, 4)) {
        memcpy(d, h + a[0], 128);
        return;
    }
    if (full && load_line(d, p))
        return;
    SIM_UNROLL for (int i = 0; i < 4; i++)
        put_32(d, i, EIGHT(read_32, i), exec, full);
}

LOAD(64)
{
    const uint8_t *h = p->host;
    const uint32_t *a = p->at;
    v8u *d = VECTORS_AT(args->arg[0].slot);
    if (full && sim_places_in_a_row(p, 8)) {
        memcpy(d, h + a[0], 256);
        return;
    }
    SIM_UNROLL for (int i = 0; i < 8; i++) put_64(d, i, FOUR(i), exec, full);
}

LOAD(32x2)
{
    const uint8_t *h = p->host;
    const uint32_t *a = p->at;
    v8u *x = VECTORS_AT(args->arg[0].slot), *y = VECTORS_AT(args->arg[1].slot);
    SIM_UNROLL for (int i = 0; i < 4; i++)
    {
        v8u u = (v8u)FOUR(2 * i), v = (v8u)FOUR(2 * i + 1);
        put_32(x, i, __builtin_shufflevector(u, v, 0, 2, 4, 6, 8, 10, 12, 14),
               exec, full);
        put_32(y, i, __builtin_shufflevector(u, v, 1, 3, 5, 7, 9, 11, 13, 15),
               exec, full);
    }
}

/* 16 bytes of a lane beside 16 of the lane four further. */
SIM_INLINE v8u two_lanes(const sim_places *p, int lane)
{
    v4w low, high;
    memcpy(&low, p->host + p->at[lane], 16);
    memcpy(&high, p->host + p->at[lane + 4], 16);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

#define LOW_HALVES(x, y) __builtin_shufflevector(x, y, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_HALVES(x, y) \
    __builtin_shufflevector(x, y, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW_PAIRS(x, y) \
    ((v8u)__builtin_shufflevector((v4u)(x), (v4u)(y), 0, 4, 2, 6))
#define HIGH_PAIRS(x, y) \
    ((v8u)__builtin_shufflevector((v4u)(x), (v4u)(y), 1, 5, 3, 7))

LOAD(32x4)
{
    v8u *d[4];
    for (int k = 0; k < 4; k++)
        d[k] = VECTORS_AT(args->arg[k].slot);
    SIM_UNROLL for (int i = 0; i < 4; i++)
    {
        v8u r0 = two_lanes(p, 8 * i), r1 = two_lanes(p, 8 * i + 1);
        v8u r2 = two_lanes(p, 8 * i + 2), r3 = two_lanes(p, 8 * i + 3);
        v8u low01 = LOW_HALVES(r0, r1), high01 = HIGH_HALVES(r0, r1);
        v8u low23 = LOW_HALVES(r2, r3), high23 = HIGH_HALVES(r2, r3);
        put_32(d[0], i, LOW_PAIRS(low01, low23), exec, full);
        put_32(d[1], i, HIGH_PAIRS(low01, low23), exec, full);
        put_32(d[2], i, LOW_PAIRS(high01, high23), exec, full);
        put_32(d[3], i, HIGH_PAIRS(high01, high23), exec, full);
    }
}

LOAD(64x2)
{
    v8u *x = VECTORS_AT(args->arg[0].slot), *y = VECTORS_AT(args->arg[1].slot);
    SIM_UNROLL for (int i = 0; i < 8; i++)
    {
        v2w r[4];
        for (int k = 0; k < 4; k++)
            memcpy(&r[k], p->host + p->at[4 * i + k], 16);
        put_64(x, i, (v4u){r[0][0], r[1][0], r[2][0], r[3][0]}, exec, full);
        put_64(y, i, (v4u){r[0][1], r[1][1], r[2][1], r[3][1]}, exec, full);
    }
}

#define STORE(name)                                                         \
    SIM_INLINE void store_##name(const sim_places *p, const sim_args *args, \
                                 const uint8_t *regs, uint32_t exec,        \
                                 const bool full)

/* In the order of lanes: of two that write one place the later one wins. */
#define EACH_LANE(body)                                          \
    do {                                                         \
        if (full)                                                \
            SIM_UNROLL for (unsigned l = 0; l < SIM_LANES; l++)  \
            {                                                    \
                body;                                            \
            }                                                    \
        else                                                     \
            for (uint32_t rest = exec; rest; rest &= rest - 1) { \
                unsigned l = (unsigned)__builtin_ctz(rest);      \
                body;                                            \
            }                                                    \
    } while (0)

STORE(8)
{
    const uint8_t *s = regs + args->arg[1].slot;
    EACH_LANE(p->host[p->at[l]] = s[4 * l]);
}

STORE(16)
{
    const uint8_t *s = regs + args->arg[1].slot;
    EACH_LANE(memcpy(p->host + p->at[l], s + 4 * l, 2));
}

STORE(32)
{
    const uint8_t *s = regs + args->arg[1].slot;
    if (full && sim_places_in_a_row(p, 4))
        memcpy(p->host + p->at[0], s, 128);
    else
        EACH_LANE(memcpy(p->host + p->at[l], s + 4 * l, 4));
}

STORE(64)
{
    const uint8_t *s = regs + args->arg[1].slot;
    if (full && sim_places_in_a_row(p, 8))
        memcpy(p->host + p->at[0], s, 256);
    else
        EACH_LANE(memcpy(p->host + p->at[l], s + 8 * l, 8));
}

STORE(32x2)
{
    const uint8_t *x = regs + args->arg[1].slot;
    const uint8_t *y = regs + args->arg[2].slot;
    EACH_LANE({
        memcpy(p->host + p->at[l], x + 4 * l, 4);
        memcpy(p->host + p->at[l] + 4, y + 4 * l, 4);
    });
}

STORE(32x4)
{
    const uint8_t *s[4];
    for (int k = 0; k < 4; k++)
        s[k] = regs + args->arg[1 + k].slot;
    EACH_LANE({
        for (int k = 0; k < 4; k++)
            memcpy(p->host + p->at[l] + 4 * k, s[k] + 4 * l, 4);
    });
}

STORE(64x2)
{
    const uint8_t *x = regs + args->arg[1].slot;
    const uint8_t *y = regs + args->arg[2].slot;
    EACH_LANE({
        memcpy(p->host + p->at[l], x + 8 * l, 8);
        memcpy(p->host + p->at[l] + 8, y + 8 * l, 8);
    });
}

/* Where the addresses of slot are, by the kind of space. */
#define FIND(name)                                                             \
    SIM_INLINE bool find_##name(sim_places *p, const sim_insn *in,             \
                                const sim_warp *w, const uint8_t *regs,        \
                                uint32_t slot, uint32_t exec, const bool full, \
                                const uint32_t bytes)

FIND(global)
{
    return sim_places_global(p, w, (const void *)(regs + slot),
                             (uint64_t)in->offset, exec, full, bytes);
}

FIND(shared32)
{
    return sim_places_shared(p, w, regs + slot, 4, (uint64_t)in->offset, exec,
                             full, bytes, 0);
}

FIND(shared64)
{
    return sim_places_shared(p, w, regs + slot, 8, (uint64_t)in->offset, exec,
                             full, bytes, 0);
}

FIND(generic)
{
    const uint64_t *base = (const void *)(regs + slot);
    uint64_t first = base[full ? 0 : __builtin_ctz(exec)];
    if ((first + (uint64_t)in->offset) >> 40 == SIM_SHARED_WINDOW >> 40)
        return sim_places_shared(p, w, base, 8, (uint64_t)in->offset, exec,
                                 full, bytes, SIM_SHARED_WINDOW);
    return sim_places_global(p, w, base, (uint64_t)in->offset, exec, full,
                             bytes);
}

#define HANDLER(name, next, space, slot, bytes, move, full, write)            \
    SIM_HANDLER(name)                                                         \
    {                                                                         \
        sim_places p;                                                         \
        if (exec && find_##space(&p, in, w, regs, slot, exec, full, bytes) && \
            (!w->cta->watched ||                                              \
             sim_admit(in, w, regs, p.host, p.at, exec, bytes, write))) {     \
            move(&p, in->args, regs, exec, full);                             \
            next;                                                             \
        }                                                                     \
        in->op(in, w, regs, exec);                                            \
        if (__builtin_expect(w->event != 0, 0))                               \
            return in + 1;                                                    \
        next;                                                                 \
    }
#define HANDLERS(space, shape, bytes)                                        \
    HANDLER(ld_##space##_##shape##_full, SIM_NEXT_FULL, space, in->a, bytes, \
            load_##shape, true, false)                                       \
    HANDLER(ld_##space##_##shape##_masked, SIM_NEXT_MASKED, space, in->a,    \
            bytes, load_##shape, false, false)                               \
    HANDLER(st_##space##_##shape##_full, SIM_NEXT_FULL, space, in->d, bytes, \
            store_##shape, true, true)                                       \
    HANDLER(st_##space##_##shape##_masked, SIM_NEXT_MASKED, space, in->d,    \
            bytes, store_##shape, false, true)
#define ROWS(space, shape, bytes)     \
    SIM_ROW(ld_##space##_##shape, "") \
    SIM_ROW(st_##space##_##shape, "")
#define SHAPES(X, space) \
    X(space, 8, 1)       \
    X(space, 16, 2)      \
    X(space, 32, 4)      \
    X(space, 64, 8)      \
    X(space, 32x2, 8)    \
    X(space, 32x4, 16)   \
    X(space, 64x2, 16)

SHAPES(HANDLERS, global)
SHAPES(HANDLERS, shared32)
SHAPES(HANDLERS, shared64)
SHAPES(HANDLERS, generic)

/* A kernel's parameter, all lanes the same one: where its bytes are; NULL when
   lanes differ or leave the parameters. */
SIM_INLINE const uint8_t *parameter(const sim_insn *in, const sim_warp *w,
                                    const uint8_t *regs, uint64_t bytes,
                                    uint64_t align)
{
    const uint64_t *base = (const void *)(regs + in->a);
    uint64_t at = base[0] + (uint64_t)in->offset, differ = 0;
    uint64_t size = w->launch->func->param_bytes;
    for (int l = 0; l < SIM_LANES; l++)
        differ |= base[l] ^ base[0];
    if (differ || size < bytes || at > size - bytes || at % align)
        return NULL;
    return w->launch->params + at;
}

#define PARAMETER(bits, vector, vectors)                                    \
    SIM_INLINE bool load_parameter_##bits(const sim_insn *in,               \
                                          const sim_warp *w, uint8_t *regs, \
                                          uint32_t exec, const bool full)   \
    {                                                                       \
        uint32_t count = in->args->first[1], bytes = count * bits / 8;      \
        const uint8_t *from = parameter(in, w, regs, bytes, bytes);         \
        if (!from)                                                          \
            return false;                                                   \
        for (uint32_t k = 0; k < count; k++) {                              \
            vector value = (vector){0} + read_##bits(from + bits / 8 * k);  \
            v8u *d = VECTORS_AT(in->args->arg[k].slot);                     \
            SIM_UNROLL for (int i = 0; i < vectors; i++)                    \
                put_##bits(d, i, value, exec, full);                        \
        }                                                                   \
        return true;                                                        \
    }                                                                       \
    SIM_HANDLER(ld_parameter_##bits##_full)                                 \
    {                                                                       \
        if (!load_parameter_##bits(in, w, regs, exec, true))                \
            in->op(in, w, regs, exec);                                      \
        if (__builtin_expect(w->event != 0, 0))                             \
            return in + 1;                                                  \
        SIM_NEXT_FULL;                                                      \
    }                                                                       \
    SIM_HANDLER(ld_parameter_##bits##_masked)                               \
    {                                                                       \
        if (!exec || !load_parameter_##bits(in, w, regs, exec, false))      \
            in->op(in, w, regs, exec);                                      \
        if (__builtin_expect(w->event != 0, 0))                             \
            return in + 1;                                                  \
        SIM_NEXT_MASKED;                                                    \
    }
PARAMETER(32, v8u, 4)
PARAMETER(64, v4u, 8)

/* In the order of sim_lanes_memory. */
static const sim_lane_op ops[] = {
    SHAPES(ROWS, global) SHAPES(ROWS, shared32) SHAPES(ROWS, shared64)
        SHAPES(ROWS, generic) SIM_ROW(ld_parameter_32, "")
            SIM_ROW(ld_parameter_64, "")};

const sim_lane_table SIM_TABLE(sim_lanes_memory) = {ops,
                                                    sizeof ops / sizeof *ops};
