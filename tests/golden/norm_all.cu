/*
 * norm_w576_bf16_fp32_offset_add_gather
 * RMS norm of rows, into or onto the residual stream
 *
 * kernel   norm
 * config   width=576 in_type=bf16 out_type=fp32 offset=true add=true
 *          next_type=none gather=true
 * key      norm-1 w576 t96 bf16 fp32 offset add
 * target   sm_90a
 * launch   96 threads, 0 bytes of shared memory
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
#line 3 "templates/norm.cu"
/* As spt_norm_args (runtime/kernels/norm.h). */
struct NormArgs {
    const void *in;
    const float *weight;
    void *out;
    const int *index;
    const float *next_weight;
    void *next;
    long long in_stride, out_stride, next_stride;
    float eps;
};

constexpr int WIDTH = 576;
constexpr int THREADS = 96;
constexpr int VECTORS = 72; /* of eight numbers */
constexpr int PER_THREAD = 1;
constexpr int WARPS = 3;

/* What a row is multiplied with: 1 / sqrt(mean of squares + eps). */
__device__ __forceinline__ float row_scale(const float (&x)[PER_THREAD][8], float eps, float *warps)
{
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            squares = __fmaf_rn(x[k][i], x[k][i], squares);
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = squares;
    __syncthreads();
    int lane = threadIdx.x % 32;
    float mean = __fmul_rn(warp_sum(lane < WARPS ? warps[lane] : 0.0f), 1.0f / WIDTH);
    return __frcp_rn(__fsqrt_rn(__fadd_rn(mean, eps)));
}

/* x * scale * weight, the weight being 1 + w with `offset`. */
__device__ __forceinline__ void scale8(float (&x)[8], float scale, const float *weights)
{
    float weight[8];
    load8_fp32(weights, 0, weight);
#pragma unroll
    for (int i = 0; i < 8; i++) {
#line 47 "templates/norm.cu"
        weight[i] = __fadd_rn(1.0f, weight[i]);
#line 49 "templates/norm.cu"
        x[i] = __fmul_rn(__fmul_rn(x[i], scale), weight[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
norm_w576_bf16_fp32_offset_add_gather(const __grid_constant__ NormArgs args)
{
    __shared__ float warps[1][WARPS];
    long long row = blockIdx.x;
#line 59 "templates/norm.cu"
    long long in = static_cast<long long>(args.index[row]) * args.in_stride;
#line 63 "templates/norm.cu"
    long long out = row * args.out_stride;
    float x[PER_THREAD][8] = {};
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector < VECTORS)
            load8_bf16(args.in, in + vector * 8, x[k]);
    }
    float scale = row_scale(x, args.eps, warps[0]);
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++) {
        int vector = threadIdx.x + k * THREADS;
        if (vector >= VECTORS)
            continue;
        scale8(x[k], scale, args.weight + vector * 8);
#line 79 "templates/norm.cu"
        float before[8];
        load8_fp32(args.out, out + vector * 8, before);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[k][i] = __fadd_rn(before[i], x[k][i]);
#line 85 "templates/norm.cu"
        store8_fp32(args.out, out + vector * 8, x[k]);
    }
#line 98 "templates/norm.cu"
}
