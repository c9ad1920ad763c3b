/*
 * Eight neighbouring weights of a row in a stored format, as fp32, in the
 * operations of the format's own definition (runtime/model/weight.c), so that
 * they are the same bits. Blocks need no alignment beyond two bytes.
 */
constexpr int BLOCK_WEIGHTS = ${BLOCK_WEIGHTS};
constexpr int BLOCK_BYTES = ${BLOCK_BYTES};

__device__ __forceinline__ unsigned short two_bytes(const unsigned char *p)
{
    return *reinterpret_cast<const unsigned short *>(p);
}

__device__ __forceinline__ float half_at(const unsigned char *p)
{
    float x;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(two_bytes(p)));
    return x;
}

//% if K_NIBBLES then
/* Scale and offset of group g of 32: six bits each, in twelve bytes. */
__device__ __forceinline__ void six_bits(const unsigned char *packed, int g, int &scale, int &offset)
{
    if (g < 4) {
        scale = packed[g] & 63;
        offset = packed[g + 4] & 63;
    } else {
        scale = (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
        offset = packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    }
}

/* d, dmin, scales, fifth bits of q5_k, nibbles: 32 bytes have two groups. */
__device__ __forceinline__ void decode8(const unsigned char *block, int at, float (&x)[8])
{
    int g = at / 32, scale, offset;
    six_bits(block + 4, g, scale, offset);
    float step = __fmul_rn(half_at(block), static_cast<float>(scale));
    float least = __fmul_rn(half_at(block + 2), static_cast<float>(offset));
    const unsigned char *low = block + ${LOW_BYTES} + g / 2 * 32 + at % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int value = low[i] >> (g % 2 * 4) & 15;
//% if FIFTH then
        value |= (block[16 + at % 32 + i] >> g & 1) << 4;
//% end
        x[i] = __fsub_rn(__fmul_rn(step, static_cast<float>(value)), least);
    }
}
//% elseif WEIGHT == "q6_k" then
/* Low nibbles, upper pairs of bits, signed scales of 16, d: four runs of 32 in each half. */
__device__ __forceinline__ void decode8(const unsigned char *block, int at, float (&x)[8])
{
    int half = at / 128, run = at % 128 / 32, in = at % 32;
    const unsigned char *low = block + half * 64 + run % 2 * 32 + in, *high = block + 128 + half * 32 + in;
    float step = __fmul_rn(half_at(block + 208), static_cast<float>(static_cast<signed char>(block[192 + at / 16])));
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int value = (low[i] >> (run / 2 * 4) & 15) | (high[i] >> (2 * run) & 3) << 4;
        x[i] = __fmul_rn(step, static_cast<float>(value - 32));
    }
}
//% elseif WEIGHT == "q8_0" then
/* d, signed bytes. */
__device__ __forceinline__ void decode8(const unsigned char *block, int at, float (&x)[8])
{
    float d = half_at(block);
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = __fmul_rn(static_cast<float>(static_cast<signed char>(block[2 + at + i])), d);
}
//% elseif NIBBLES then
/* d, m of the types with an offset, fifth bits, nibbles: low ones are weights 0 to 15. */
__device__ __forceinline__ void decode8(const unsigned char *block, int at, float (&x)[8])
{
    float d = half_at(block);
    const unsigned char *low = block + ${LOW_BYTES} + at % 16;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int value = low[i] >> (at / 16 * 4) & 15;
//% if FIFTH then
        value |= (block[${LOW_BYTES} - 4 + at / 8] >> i & 1) << 4;
//% end
//% if OFFSETS then
        x[i] = __fadd_rn(__fmul_rn(static_cast<float>(value), d), half_at(block + 2));
//% else
        x[i] = __fmul_rn(static_cast<float>(value - ${MIDDLE}), d);
//% end
    }
}
//% else
__device__ __forceinline__ void decode8(const unsigned char *block, int, float (&x)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
//% if WEIGHT == "f32" then
        x[i] = reinterpret_cast<const float *>(block)[i];
//% elseif WEIGHT == "f16" then
        x[i] = half_at(block + 2 * i);
//% else
        x[i] = __uint_as_float(static_cast<unsigned>(two_bytes(block + 2 * i)) << 16);
//% end
}
//% end
