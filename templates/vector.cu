/*
 * Eight numbers at a time between memory and fp32 registers: 16-byte aligned
 * loads and stores of fp32, bf16 and fp16, rounded to nearest even. And sums
 * over a warp, whose bits are the same in every lane.
 */
__device__ __forceinline__ void load8_fp32(const void *p, long long at, float (&x)[8])
{
    const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(p) + at);
    float4 lo = from[0], hi = from[1];
    x[0] = lo.x, x[1] = lo.y, x[2] = lo.z, x[3] = lo.w;
    x[4] = hi.x, x[5] = hi.y, x[6] = hi.z, x[7] = hi.w;
}

__device__ __forceinline__ void store8_fp32(void *p, long long at, const float (&x)[8])
{
    float4 *to = reinterpret_cast<float4 *>(static_cast<float *>(p) + at);
    to[0] = make_float4(x[0], x[1], x[2], x[3]);
    to[1] = make_float4(x[4], x[5], x[6], x[7]);
}

__device__ __forceinline__ float bf16_to_float(unsigned short bits)
{
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

__device__ __forceinline__ float fp16_to_float(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(bits));
    return x;
}

__device__ __forceinline__ unsigned bf16_pair(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ unsigned fp16_pair(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ uint4 load_words(const void *p, long long at)
{
    return *reinterpret_cast<const uint4 *>(static_cast<const unsigned short *>(p) + at);
}

__device__ __forceinline__ void store_words(void *p, long long at, uint4 words)
{
    *reinterpret_cast<uint4 *>(static_cast<unsigned short *>(p) + at) = words;
}

__device__ __forceinline__ void load8_bf16(const void *p, long long at, float (&x)[8])
{
    uint4 words = load_words(p, at);
    const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = bf16_to_float(static_cast<unsigned short>(w[i]));
        x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

__device__ __forceinline__ void load8_fp16(const void *p, long long at, float (&x)[8])
{
    uint4 words = load_words(p, at);
    const unsigned w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = fp16_to_float(static_cast<unsigned short>(w[i]));
        x[2 * i + 1] = fp16_to_float(static_cast<unsigned short>(w[i] >> 16));
    }
}

__device__ __forceinline__ void store8_bf16(void *p, long long at, const float (&x)[8])
{
    store_words(p, at, make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7])));
}

__device__ __forceinline__ void store8_fp16(void *p, long long at, const float (&x)[8])
{
    store_words(p, at, make_uint4(fp16_pair(x[0], x[1]), fp16_pair(x[2], x[3]), fp16_pair(x[4], x[5]), fp16_pair(x[6], x[7])));
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int step = 16; step; step /= 2)
        x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
