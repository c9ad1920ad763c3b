/*
 * embedding_q5_k
 * rows of an embedding table into the residual stream
 *
 * kernel   embedding
 * config   weight=q5_k packed=false
 * key      embedding-1 q5_k
 * target   sm_90a
 * launch   128 threads, 0 bytes of shared memory
 * by       spectune 0.1.0
 */
#line 1 "templates/vector.cu"
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
#line 1 "templates/weight_decode.cu"
/*
 * Eight neighbouring weights of a row in a stored format, as fp32, in the
 * operations of the format's own definition (runtime/model/weight.c), so that
 * they are the same bits. Blocks need no alignment beyond two bytes.
 */
constexpr int BLOCK_WEIGHTS = 256;
constexpr int BLOCK_BYTES = 176;

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

#line 22 "templates/weight_decode.cu"
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
    const unsigned char *low = block + 48 + g / 2 * 32 + at % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int value = low[i] >> (g % 2 * 4) & 15;
#line 46 "templates/weight_decode.cu"
        value |= (block[16 + at % 32 + i] >> g & 1) << 4;
#line 48 "templates/weight_decode.cu"
        x[i] = __fsub_rn(__fmul_rn(step, static_cast<float>(value)), least);
    }
}
#line 8 "templates/embedding.cu"
/* As spt_embedding_args (runtime/kernels/embedding.h). */
struct EmbeddingArgs {
    const int *ids;
    const unsigned char *table;
    float *out;
    long long table_stride; /* bytes between rows, or panels of 16 rows */
    long long out_stride;
    int vocabulary, width;
    float scale;
};

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
embedding_q5_k(const __grid_constant__ EmbeddingArgs args)
{
    long long row = blockIdx.x;
    int at = (blockIdx.y * THREADS + threadIdx.x) * 8;
    if (at >= args.width)
        return;
    int id = args.ids[row];
    float x[8] = {};
    if (id >= 0 && id < args.vocabulary) {
#line 34 "templates/embedding.cu"
        const unsigned char *blocks = args.table + id * args.table_stride;
        decode8(blocks + at / BLOCK_WEIGHTS * BLOCK_BYTES, at % BLOCK_WEIGHTS, x);
#line 37 "templates/embedding.cu"
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = __fmul_rn(x[i], args.scale);
    }
    store8_fp32(args.out, row * args.out_stride + at, x);
}
