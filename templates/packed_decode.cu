/*
 * Eight neighbouring inputs of an output of a packed matrix
 * (runtime/kernels/linear_pack.c), as fp32: the same bits as weight_decode.cu
 * gives for the rows that were packed.
 */
constexpr int BITS = ${BITS};
constexpr int UNIT_BYTES = 128 * BITS + ${SCALE_BYTES};
constexpr int BLOCK_BYTES = ${BLOCK_BYTES};

__device__ __forceinline__ float half_at(const unsigned char *p)
{
    float x;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(*reinterpret_cast<const unsigned short *>(p)));
    return x;
}

__device__ __forceinline__ unsigned word_at(const unsigned char *unit, int word)
{
    return reinterpret_cast<const unsigned *>(unit)[word];
}

//% if BITS == 16 then
/* The lanes' registers a0 to a3 of each mma. */
__device__ __forceinline__ void floats8(const unsigned char *unit, int output, int at, float (&x)[8])
{
    int lane = output % 8 * 4 + at / 8 % 4;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int mma = at / 32 * 2 + i / 4;
        unsigned word = word_at(unit, (mma * 32 + lane) * 4 + i / 2 % 2 * 2 + output / 8);
        x[i] = ${WEIGHT == "f16" and "fp16" or "bf16"}_to_float(static_cast<unsigned short>(word >> (i % 2 * 16)));
    }
}
//% else
/* The numbers as they are stored, without scales. */
__device__ __forceinline__ void numbers8(const unsigned char *unit, int output, int at, int (&n)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int half = i % 2 * 16, number = i / 2 % 2;
//% if BITS == 8 then
        int lane = output % 8 * 4 + at / 8 % 4;
        unsigned word = word_at(unit, (at / 32 * 32 + lane) * 4 + i / 4 * 2 + output / 8);
        n[i] = word >> (half + 8 * number) & 255;
//% elseif BITS == 6 then
        int mma = at / 16, lane = output % 8 * 4 + (at + i) / 4 % 4, pair = mma % 2 * 2 + number;
        n[i] = word_at(unit, lane * 4 + mma / 2 * 2 + output / 8) >> (half + 4 * pair) & 15;
        n[i] |= (word_at(unit, 128 + lane * 2 + mma / 2) >> (half + output / 8 * 8 + 2 * pair) & 3) << 4;
//% else
        int lane = output % 8 * 4 + at / 8 % 4, place = at / 32 * 2 + output / 8, pair = i / 4 * 2 + number;
        n[i] = word_at(unit, lane * 4 + place) >> (half + 4 * pair) & 15;
//% if BITS == 5 then
        n[i] |= (word_at(unit, 128 + lane) >> (half + 4 * place + pair) & 1) << 4;
//% end
//% end
    }
}
//% end

/* at: of the row, a multiple of 8; units: of a panel. */
__device__ __forceinline__ void packed8(const unsigned char *panel, int units, int output, int at, float (&x)[8])
{
    const unsigned char *unit = panel + static_cast<long long>(at / 64) * UNIT_BYTES;
//% if BITS == 16 then
    floats8(unit, output, at % 64, x);
//% else
    int n[8], place = output % 8 * 2 + output / 8;
    numbers8(unit, output, at % 64, n);
    const unsigned char *scale = unit + 128 * BITS + place * ${SCALE_BYTES // 16};
    const unsigned char *block = panel + static_cast<long long>(units) * UNIT_BYTES + at / 256 * BLOCK_BYTES + place * (BLOCK_BYTES / 16);
#pragma unroll
    for (int i = 0; i < 8; i++) {
//% if SCALES == "one" then
        x[i] = __fmul_rn(static_cast<float>(n[i] - ${MIDDLE}), half_at(scale + at % 64 / 32 * 2));
//% elseif SCALES == "pair" then
        const unsigned char *own = scale + at % 64 / 32 * 4;
        x[i] = __fadd_rn(__fmul_rn(static_cast<float>(n[i]), half_at(own)), half_at(own + 2));
//% elseif SCALES == "small_pair" then
        const unsigned char *own = scale + at % 64 / 32 * 2;
        float step = __fmul_rn(half_at(block), static_cast<float>(own[0]));
        x[i] = __fsub_rn(__fmul_rn(step, static_cast<float>(n[i])), __fmul_rn(half_at(block + 2), static_cast<float>(own[1])));
//% else
        float step = __fmul_rn(half_at(block), static_cast<float>(static_cast<signed char>(scale[at % 64 / 16])));
        x[i] = __fmul_rn(step, static_cast<float>(n[i] - ${MIDDLE}));
//% end
    }
//% end
}
