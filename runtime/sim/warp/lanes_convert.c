/* Conversions on 32 lanes. */
#include "engine_lanes.h"
#include "engine_math.h"
#include "lanes_half.h"

#define WHOLE(x) (in->bits & SIM_TO_INTEGER ? round_whole(x, in->bits) : (x))

__extension__ typedef __int128 int128;

/* To an integer type: its low bits, or with .sat the nearest value. */
static inline int64_t fit(int128 x, int width, bool is_signed, uint64_t flags)
{
    int128 low = is_signed ? -((int128)1 << (width - 1)) : 0;
    int128 high = ((int128)1 << (is_signed ? width - 1 : width)) - 1;
    if (flags & SIM_SAT)
        x = x < low ? low : x > high ? high : x;
    uint64_t bits = (uint64_t)x;
    if (width < 64) {
        bits &= (UINT64_C(1) << width) - 1;
        if (is_signed && bits >> (width - 1) & 1)
            bits |= ~((UINT64_C(1) << width) - 1);
    }
    return (int64_t)bits;
}

/* f32 bits of f16 or bf16 bits; a NaN is the one NaN. */
#define ONE_NAN(x)                                                       \
    __extension__({                                                      \
        v8u x_ = (x), size_ = x_ & 0x7fffffffu;                          \
        SIM_BLEND(v8u, size_ > 0x7f800000u, (v8u){0} + 0x7fffffffu, x_); \
    })

#define WIDTH_u8 8, false
#define WIDTH_s8 8, true
#define WIDTH_u16 16, false
#define WIDTH_s16 16, true
#define WIDTH_u32 32, false
#define WIDTH_s32 32, true
#define WIDTH_u64 64, false
#define WIDTH_s64 64, true
#define FIT_(width, x) fit((int128)(x), width, in->bits)
#define FIT(to, x) FIT_(WIDTH_##to, x)
#define FITU(to, x) FIT_(WIDTH_##to, (uint64_t)(x))

#define SIM_PASS 1
#include "engine_rows.h"
#include "ops_convert.def"
#undef SIM_PASS
#define SIM_PASS 2
#include "engine_rows.h"
#undef NAME2
#undef INT_TO_INT
#undef FROM_ALL
#undef TO_INT
#undef FROM_INT
static const sim_lane_op ops[] = {
#include "ops_convert.def"
};
const sim_lane_table SIM_TABLE(sim_lanes_convert) = {ops,
                                                     sizeof ops / sizeof *ops};
